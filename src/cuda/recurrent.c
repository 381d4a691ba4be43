/* recurrent.c -- RECURRENT: RNN, GRU and LSTM. The inputs' products are taken for many steps at once, then each step
 * is a kernel (two for a GRU whose reset gate comes before its product).
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "cuda/gpu.h"
#include "cuda/tactics.h"

enum { X, W, R, B, LENS, H0, C0, P };
enum { THREADS = 256, TILE = 64, GATES_BYTES = 64 << 20 };

/* These two as in kernels/recurrent.cu. */
typedef struct {
    const void *x, *w, *r, *b, *h0, *c0, *p;
    const void *lens;
    void *y, *y_h, *y_c;
    float *gates;
    float *h[2], *c, *reset, *keep;
    uint32_t *fault;
    int64_t x_step, x_row, y_step, y_direction, y_row;
    int64_t h0_direction, h0_row, c0_direction, c0_row;
    int64_t h_direction, h_row, c_direction, c_row;
    int steps, batch, input, hidden, directions, reverse;
    uint32_t fault_code;
    float clip;
} recurrent_args;
typedef struct {
    int from[2], n;
} chunk;

typedef struct {
    const cm_kernel *inputs, *begin, *end, *reset, *advance; /* reset: NULL where there is none */
    cm_grid states, step;
    recurrent_args args;
    int chunk;
    int64_t gates_elems, state_elems;
} state;

static bool has(const cm_problem *p, int i)
{
    return i < p->n_in && p->in[i];
}

static bool wants(const cm_problem *p, int o)
{
    return o < p->n_out && p->out[o];
}

static int64_t columns_of(const cm_recurrent *r)
{
    return r->hidden * (r->kind == CM_RECURRENT_RNN ? 1 : r->kind == CM_RECURRENT_GRU ? 3 : 4);
}

static bool is_adjacent(const cm_tensor *t)
{
    return t->dims[t->rank - 1] == 1 || t->strides[t->rank - 1] == 1;
}

static const char *reject(const cm_problem *p)
{
    const cm_recurrent *r = &p->as.recurrent;
    cm_dtype type = p->in[X]->dtype;
    if (type != CM_F32 && type != CM_F16 && type != CM_BF16)
        return "the input is not of float32, float16 or bfloat16";
    for (int i = 0; i < p->n_in; i++) {
        if (!p->in[i])
            continue;
        if (i != LENS && p->in[i]->dtype != type)
            return "inputs are of different types";
        if (i == LENS && p->in[i]->dtype != CM_I32)
            return "lengths are not of int32";
        if (i == X || i == H0 || i == C0 ? !is_adjacent(p->in[i]) : !cm_tensor_is_dense(p->in[i]))
            return "an input is strided";
    }
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o] && (p->out[o]->dtype != type || !is_adjacent(p->out[o])))
            return "an output is strided or of another type";
    if (r->steps >= 1 << 20 || r->batch >= 1 << 24 || columns_of(r) >= 1 << 24 ||
        r->input >= INT32_MAX)
        return "sizes are too large";
    return NULL;
}

/* Steps whose inputs' products are held; sequences of different lengths are at different ones. */
static int64_t chunk_of(const cm_problem *p)
{
    const cm_recurrent *r = &p->as.recurrent;
    int64_t each = r->directions * r->batch * columns_of(r) * (int64_t)sizeof(float);
    return has(p, LENS) ? r->steps : cm_min_i64(r->steps, cm_max_i64(8, GATES_BYTES / each));
}

static int64_t round64(int64_t n)
{
    return (n + 63) / 64 * 64;
}

static int64_t gates_elems(const cm_problem *p)
{
    const cm_recurrent *r = &p->as.recurrent;
    return round64(r->directions * chunk_of(p) * r->batch * columns_of(r));
}

static int64_t state_elems(const cm_problem *p)
{
    const cm_recurrent *r = &p->as.recurrent;
    return round64(r->directions * r->batch * r->hidden);
}

static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    return (size_t)(gates_elems(p) + 5 * state_elems(p)) * sizeof(float);
}

static bool resets_first(const cm_recurrent *r)
{
    return r->kind == CM_RECURRENT_GRU && !r->linear_before_reset;
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_recurrent *r = &p->as.recurrent;
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    double columns = (double)columns_of(r), rows = (double)r->steps * (double)r->batch;
    double inputs =
        2 * rows * columns * (double)r->input * r->directions / (facts.tflops * 1000 * 0.4);
    double weights =
        columns * (double)r->hidden * r->directions * (double)cm_ceil_div(r->batch, 8) * 4;
    double step =
        weights / (facts.read_gbs * 2) + facts.launch_ns * (resets_first(r) ? 2 : 1) + 1000;
    return 3 * facts.launch_ns + inputs + (double)r->steps * step;
}

/* ---- Getting ready -------------------------------------------------------------------------- */

static int rows_of_warp(const cm_recurrent *r)
{
    return r->batch >= 8 ? 8 : r->batch >= 4 ? 4 : (int)r->batch == 1 ? 1 : 2;
}

static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, state *s)
{
    const cm_recurrent *r = &p->as.recurrent;
    cm_dtype type = p->in[X]->dtype;
    char defines[640];
    int n = snprintf(defines, sizeof defines,
                     "#define ELEMENT %s\n#define KIND %d\n#define LINEAR_BEFORE_RESET %d\n"
                     "#define INPUT_FORGET %d\n#define ROWS %d\n#define PEEPHOLES %d\n",
                     type == CM_F32   ? "float"
                     : type == CM_F16 ? "f16"
                                      : "bf16",
                     (int)r->kind, r->linear_before_reset, r->input_forget, rows_of_warp(r),
                     r->peepholes);
    for (int i = 0; i < 3; i++) {
        uint32_t alpha, beta;
        memcpy(&alpha, &r->gate[i].alpha, sizeof alpha);
        memcpy(&beta, &r->gate[i].beta, sizeof beta);
        n += snprintf(defines + n, sizeof defines - (size_t)n,
                      "#define GATE_%d(x) gate_value<%d>(x, 0x%xu, 0x%xu)\n", i,
                      (int)r->gate[i].function, alpha, beta);
    }
    cm_kernel_text t = {.file = "recurrent", .defines = defines};
    const char *const entries[] = {"inputs", "begin", "end", "advance_all", "reset"};
    const cm_kernel **const to[] = {&s->inputs, &s->begin, &s->end, &s->advance, &s->reset};
    for (int i = 0; i < (resets_first(r) ? 5 : 4); i++) {
        t.entry = entries[i];
        CM_TRY(cm_gpu_kernel(cx, d, &t, 0, to[i]));
    }
    return CM_OK;
}

/* Strides over directions and rows of an initial or final state. */
static void place_state(const cm_problem *p, const cm_tensor *t, int64_t *direction, int64_t *row)
{
    bool first = p->as.recurrent.batch_first;
    *direction = t->strides[first];
    *row = t->strides[!first];
}

static void place(const cm_problem *p, recurrent_args *a)
{
    const cm_recurrent *r = &p->as.recurrent;
    const int64_t *x = p->in[X]->strides;
    *a = (recurrent_args){.x_step = x[r->batch_first],
                          .x_row = x[!r->batch_first],
                          .steps = (int)r->steps,
                          .batch = (int)r->batch,
                          .input = (int)r->input,
                          .hidden = (int)r->hidden,
                          .directions = r->directions,
                          .reverse = r->reverse,
                          .clip = r->clip};
    if (wants(p, 0)) {
        const int64_t *y = p->out[0]->strides;
        a->y_step = y[r->batch_first ? 1 : 0];
        a->y_direction = y[r->batch_first ? 2 : 1];
        a->y_row = y[r->batch_first ? 0 : 2];
    }
    if (has(p, H0))
        place_state(p, p->in[H0], &a->h0_direction, &a->h0_row);
    if (has(p, C0))
        place_state(p, p->in[C0], &a->c0_direction, &a->c0_row);
    if (wants(p, 1))
        place_state(p, p->out[1], &a->h_direction, &a->h_row);
    if (wants(p, 2))
        place_state(p, p->out[2], &a->c_direction, &a->c_row);
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    (void)k;
    const cm_recurrent *r = &p->as.recurrent;
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    place(p, &s->args);
    s->chunk = (int)chunk_of(p);
    s->gates_elems = gates_elems(p);
    s->state_elems = state_elems(p);
    int64_t units = r->directions * r->batch * r->hidden;
    int64_t warps = r->directions * r->hidden * cm_ceil_div(r->batch, rows_of_warp(r));
    s->states = (cm_grid){.blocks = {(unsigned)cm_min_i64(4096, cm_ceil_div(units, THREADS))},
                          .threads = {THREADS}};
    s->step =
        (cm_grid){.blocks = {(unsigned)cm_ceil_div(warps * 32, THREADS)}, .threads = {THREADS}};
    *out = s;
    return compile(cx, d, p, s);
}

/* ---- Running -------------------------------------------------------------------------------- */

static void point(const cm_run *run, const state *s, recurrent_args *a)
{
    const cm_problem *p = run->p;
#define AT(input) (has(p, input) ? run->in[input] : NULL)
    a->x = AT(X);
    a->w = AT(W);
    a->r = AT(R);
    a->b = AT(B);
    a->lens = AT(LENS);
    a->h0 = AT(H0);
    a->c0 = AT(C0);
    a->p = AT(P);
#undef AT
    a->y = wants(p, 0) ? run->out[0] : NULL;
    a->y_h = wants(p, 1) ? run->out[1] : NULL;
    a->y_c = wants(p, 2) ? run->out[2] : NULL;
    a->gates = run->workspace;
    a->h[0] = a->gates + s->gates_elems;
    a->h[1] = a->h[0] + s->state_elems;
    a->c = a->h[1] + s->state_elems;
    a->reset = a->c + s->state_elems;
    a->keep = a->reset + s->state_elems;
    a->fault = run->fault;
    a->fault_code = run->fault_code;
}

static cm_status run_chunk(const cm_run *run, const state *s, recurrent_args *a, int first)
{
    const cm_recurrent *r = &run->p->as.recurrent;
    chunk k = {.n = (int)cm_min_i64(s->chunk, a->steps - first)};
    for (int d = 0; d < r->directions; d++) {
        bool backward = (d == 1 || r->reverse) && !a->lens;
        k.from[d] = backward ? a->steps - first - k.n : first;
    }
    cm_grid tiles = {.blocks = {(unsigned)cm_ceil_div((int64_t)k.n * a->batch, TILE),
                                (unsigned)cm_ceil_div(columns_of(r), TILE),
                                (unsigned)r->directions},
                     .threads = {THREADS}};
    CM_TRY(cm_gpu_launch(run, s->inputs, &tiles, (void *[]){a, &k}));
    for (int step = first; step < first + k.n; step++) {
        void *args[] = {a, &k, &step};
        if (s->reset)
            CM_TRY(cm_gpu_launch(run, s->reset, &s->step, args));
        CM_TRY(cm_gpu_launch(run, s->advance, &s->step, args));
    }
    return CM_OK;
}

static cm_status run(const cm_run *r)
{
    const state *s = r->state;
    recurrent_args a = s->args;
    point(r, s, &a);
    void *args[] = {&a};
    CM_TRY(cm_gpu_launch(r, s->begin, &s->states, args));
    for (int first = 0; first < a.steps; first += s->chunk)
        CM_TRY(run_chunk(r, s, &a, first));
    return cm_gpu_launch(r, s->end, &s->states, args);
}

const cm_tactic cm_cuda_recurrent_tactics[] = {
    {.name = "cuda_recurrent",
     .level = 750,
     .reject = reject,
     .cost = cost,
     .workspace = workspace,
     .ready = ready,
     .run = run},
};
const int cm_cuda_recurrent_count = CM_COUNT(cm_cuda_recurrent_tactics);
