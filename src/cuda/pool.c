/* pool.c -- POOL: the largest, the mean or the norm of each window, in any layout.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/pool.h"

#include "cuda/nest.h"
#include "cuda/program_text.h"
#include "cuda/tactics.h"

#include <string.h>

#include "base/size.h"

enum {
    AXES = 5,
    OPERAND_WORDS = 1 + AXES,
    SIZES_WORDS = 5 * 2 + 6 * 3 + 3,
    LARGE_WINDOW = 32, /* from here on its work is shared, and sums of float32 are kept in double */
    NEAR_WINDOW = 9,   /* up to here all of it is loaded at once */
    MOST_BLOCKS = 1 << 20,
    ACROSS = 4, /* runs of channels of a block that shares windows */
};

typedef struct {
    const cm_pool *c;
    bool is_double, last;
    int n_after, after[CM_PROGRAM_MAX];
    int run, lanes;
    int across;        /* runs of channels of a block that shares windows, 0: none does */
    bool near, stores; /* a small window; runs are stored whole */
    bool whole;        /* the window is the image, its pixels evenly apart */
    int64_t outputs;
} form;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    int n_after, after[CM_PROGRAM_MAX];
    size_t words;
    uint64_t *arguments;
} state;

static double window_of(const cm_pool *c)
{
    return (double)c->kernel[0] * (double)c->kernel[1] * (double)c->kernel[2];
}

/* Strides along n, c and the three axes, of a tensor that broadcasts to the output's rank. */
static void strides_of(const cm_tensor *t, int rank, int axes, int64_t *to)
{
    for (int d = 0; d < AXES; d++) {
        int own = d < 2 ? d : d - (3 - axes);
        own = d >= 2 && d - 2 < 3 - axes ? -1 : own - (rank - t->rank);
        to[d] = own < 0 || t->dims[own] == 1 ? 0 : t->strides[own];
    }
}

/* Do runs of n channels of a tensor begin at multiples of n elements? */
static bool runs_begin(const cm_problem *p, const cm_tensor *t, int n)
{
    int64_t strides[AXES];
    strides_of(t, t->rank, p->as.pool.axes, strides);
    bool fit = strides[1] == 1 && p->as.pool.c % n == 0;
    for (int d = 0; d < AXES; d++)
        fit &= d == 1 || strides[d] % n == 0;
    return fit;
}

/* Do places along all axes, and beyond their ends, fit 32 bits? */
static bool is_short(const cm_pool *c)
{
    enum { MOST = 1 << 28 };
    for (int d = 0; d < 3; d++)
        if (c->in[d] >= MOST || c->pad[d] >= MOST || c->pad_end[d] >= MOST ||
            c->out[d] * c->stride[d] >= MOST || c->kernel[d] * c->dilation[d] >= MOST)
            return false;
    return true;
}

static bool is_near(const cm_pool *c)
{
    return is_short(c) && c->kernel[0] == 1 && c->in[0] == 1 && c->out[0] == 1 &&
           window_of(c) <= NEAR_WINDOW;
}

/* Is the only window the whole image, and are its pixels evenly apart? */
static bool is_whole(const cm_problem *p)
{
    const cm_pool *c = &p->as.pool;
    int64_t strides[AXES], pitch;
    strides_of(p->in[0], p->in[0]->rank, c->axes, strides);
    pitch = strides[AXES - 1];
    for (int d = 2; d >= 0; d--) {
        if (c->kernel[d] != c->in[d] || c->out[d] != 1 || c->pad[d] || c->pad_end[d] ||
            (c->in[d] > 1 && (c->dilation[d] != 1 || strides[2 + d] != pitch)))
            return false;
        pitch *= c->in[d];
    }
    return c->in[2] > 1;
}

/* More threads share a window while it is large, and while there are few blocks. */
static int across_of(const cm_problem *p, const form *f)
{
    enum {
        MOST = 32,
        LEAST = 1,
        PLACES = 4
    }; /* places: of a window, that a thread asks for at once */
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t runs = f->c->c / f->run;
    int across = MOST;
    while (across > LEAST &&
           (window_of(f->c) * across > PLACES * CM_GPU_THREADS || across >= 2 * runs ||
            f->outputs / f->c->c * cm_ceil_div(runs, across) < 2 * facts.multiprocessors))
        across /= 2;
    return across;
}

static void form_of(const cm_problem *p, form *f)
{
    const cm_tensor *y = p->out[0];
    int64_t out[AXES];
    *f = (form){.c = &p->as.pool, .is_double = p->in[0]->dtype == CM_F64};
    for (int i = 0; p->epilogue && i < p->epilogue->n_operands; i++)
        if (cm_cuda_program_reads(p->epilogue, i))
            f->after[f->n_after++] = i;
    f->outputs = cm_tensor_elems(y);
    strides_of(y, y->rank, f->c->axes, out);
    f->last = out[1] == 1 && f->c->c > 1;
    f->run = f->last ? (int)(16 / cm_dtype_size(p->in[0]->dtype)) : 1;
    while (f->run > 1 && !(runs_begin(p, p->in[0], f->run) && out[1] == 1))
        f->run /= 2;
    f->near = is_near(f->c);
    f->across = f->run > 1 && window_of(f->c) >= LARGE_WINDOW ? across_of(p, f) : 0;
    f->whole = is_whole(p);
    f->stores = runs_begin(p, y, f->run) && y->dtype == p->in[0]->dtype;
    int64_t in[AXES];
    strides_of(p->in[0], p->in[0]->rank, f->c->axes, in);
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    bool few = (double)f->outputs < facts.multiprocessors * 512.0;
    f->lanes = !f->across && window_of(f->c) >= LARGE_WINDOW && (few || in[1] != 1) ? 32 : 1;
}

static size_t words_of(const form *f)
{
    return (size_t)(3 + f->n_after) * OPERAND_WORDS + SIZES_WORDS;
}

static const char *reject(const cm_problem *p)
{
    cm_dtype t = p->in[0]->dtype, to = p->out[0]->dtype;
    bool byte = t == CM_U8 || t == CM_I8;
    if (!cm_gpu_is_float(t) && !(byte && p->as.pool.kind == CM_POOL_MAX && !p->epilogue))
        return "neither floats nor the largest of bytes";
    if (!cm_gpu_is_float(to) && to != t)
        return "the output's element type";
    if (p->as.pool.indices >= 0)
        return "the places of the largest are not kept";
    if (window_of(&p->as.pool) > INT32_MAX)
        return "the window is too large";
    for (int i = 0; i < p->n_operands; i++)
        if (!cm_gpu_is_float(p->operands[i]->dtype) && !cm_gpu_is_narrow(p->operands[i]->dtype))
            return "an operand's element type";
    form f;
    form_of(p, &f);
    return words_of(&f) * sizeof(uint64_t) > CM_GPU_ARG_BYTES ? "too many operands" : NULL;
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    form f;
    (void)k;
    form_of(p, &f);
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    double size = (double)cm_dtype_size(p->in[0]->dtype);
    double bytes = size * ((double)cm_tensor_elems(p->in[0]) + (double)f.outputs);
    double each = f.near || f.across ? 1 : f.run > 1 ? 4 : 12;
    double work = window_of(f.c) * (double)f.outputs * each * 2 / (facts.tflops * 1000);
    /* Elements that are loaded one by one: those of 16 bits at a third of the rate, as measured (H200). */
    double memory = cm_gpu_stream_ns(&p->target, bytes) * (f.run > 1 ? 1 : 1 + 4 / size);
    return memory > work ? memory : work + facts.launch_ns;
}

static void put_text(cm_buf *b, const cm_problem *p, const form *f)
{
    const cm_pool *c = f->c;
    cm_text_number n = f->is_double ? CM_TEXT_DOUBLE : CM_TEXT_FLOAT;
    const char *type = cm_text_number_type(n);
    if (p->epilogue)
        cm_cuda_program_text(b, p->epilogue, "after", n);
    else
        cm_buf_printf(b,
                      "static __device__ __forceinline__ void after(%s x, const %s *o, %s *r)\n"
                      "{\n    r[0] = x;\n}\n",
                      type, type, type);
    cm_buf_printf(b, "#define NUMBER %s\n#define SUM %s\n", type,
                  (window_of(c) >= LARGE_WINDOW && cm_dtype_size(p->in[0]->dtype) > 2) ||
                          c->kind == CM_POOL_LP
                      ? "double"
                      : type);
    cm_buf_printf(b, "#define KIND %d\n#define P %d\n#define LOWEST %s\n", c->kind, c->p,
                  p->in[0]->dtype == CM_U8   ? "0"
                  : p->in[0]->dtype == CM_I8 ? "-128"
                                             : "__int_as_float(0xff800000)");
    cm_buf_printf(b, "#define INPUT %s\n#define OUTPUT %s\n", cm_gpu_element(p->in[0]->dtype),
                  cm_gpu_element(p->out[0]->dtype));
    cm_buf_printf(b, "#define LAST %d\n#define RUN %d\n#define LANES %d\n", f->last, f->run,
                  f->lanes);
    cm_buf_printf(b, "#define DISTANCE %s\n", is_short(c) ? "int" : "i64");
    cm_buf_printf(b, "#define ACROSS %d\n#define WHOLE %d\n#define NEAR_Y %d\n#define NEAR_X %d\n",
                  f->across, f->whole, f->near ? (int)c->kernel[1] : 0,
                  f->near ? (int)c->kernel[2] : 0);
    cm_buf_printf(b, "#define COUNT_PADS %d\n#define COUNT_OVERHANG %d\n", c->count_pads,
                  c->count_overhang);
    cm_buf_printf(b, "#define N_AFTER %d\n#define AFTER_OPERANDS %d\n#define WIDE %d\n", f->n_after,
                  p->epilogue ? p->epilogue->n_operands : 0, cm_gpu_is_wide(f->outputs));
    cm_buf_str(b, "#define AFTER(X)");
    for (int i = 0; i < f->n_after; i++)
        cm_buf_printf(b, " X(%d, %d, %s)", i, f->after[i],
                      cm_gpu_element(p->operands[f->after[i]]->dtype));
    cm_buf_str(b, "\n");
}

static uint64_t *put_operand(uint64_t *to, const cm_tensor *t, int rank, int axes)
{
    int64_t strides[AXES];
    strides_of(t, rank, axes, strides);
    memcpy(to + 1, strides, sizeof strides); /* behind the data */
    return to + OPERAND_WORDS;
}

static uint64_t *put_axis(uint64_t *to, int64_t size)
{
    cm_gpu_axis axis = cm_gpu_axis_of(size);
    memcpy(to, &axis, sizeof axis);
    return to + 2;
}

static void put_arguments(uint64_t *to, const cm_problem *p, const form *f)
{
    const cm_pool *c = f->c;
    int rank = p->out[0]->rank;
    to = put_operand(to, p->in[0], rank, c->axes);
    to = put_operand(to, p->out[0], rank, c->axes);
    for (int i = 0; i < f->n_after; i++)
        to = put_operand(to, p->operands[f->after[i]], rank, c->axes);
    to += OPERAND_WORDS; /* kernels have no empty arrays */
    to = put_axis(to, c->c / f->run);
    to = put_axis(to, c->c);
    for (int d = 0; d < 3; d++)
        to = put_axis(to, c->out[d]);
    const int64_t *sizes[6] = {c->in, c->kernel, c->stride, c->dilation, c->pad, c->pad_end};
    for (int i = 0; i < 6; i++)
        for (int d = 0; d < 3; d++)
            *to++ = (uint64_t)sizes[i][d];
    *to++ = (uint64_t)f->outputs;
    *to++ = f->run > 1;
    *to = f->stores;
}

static cm_grid grid_of(const cm_problem *p, const form *f)
{
    int64_t runs = f->c->c / f->run, outputs = f->outputs / f->run;
    int64_t blocks = f->across ? outputs / runs * cm_ceil_div(runs, f->across) : 0;
    return (cm_grid){.blocks = {f->across ? (unsigned)cm_min_i64(blocks, MOST_BLOCKS)
                                          : cm_gpu_blocks(&p->target, outputs * f->lanes)},
                     .threads = {CM_GPU_THREADS},
                     .overlaps = p->target.level >= 900};
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    form f;
    cm_buf text;
    state *s = cm_new(arena, state);
    (void)k;
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    form_of(p, &f);
    s->n_after = f.n_after;
    memcpy(s->after, f.after, sizeof s->after);
    s->words = words_of(&f);
    CM_NEW_N(cx, arena, s->arguments, s->words, uint64_t);
    put_arguments(s->arguments, p, &f);
    s->grid = grid_of(p, &f);
    cm_buf_init(&text, cx->allocator);
    put_text(&text, p, &f);
    return cm_gpu_kernel_with(cx, d, &text, (cm_kernel_text){.file = "pool", .entry = "pool"}, 0,
                              &s->kernel);
}

static cm_status run(const cm_run *r)
{
    const state *s = r->state;
    uint64_t arguments[CM_GPU_ARG_BYTES / sizeof(uint64_t)];
    memcpy(arguments, s->arguments, s->words * sizeof *arguments);
    arguments[0] = (uintptr_t)r->in[0];
    arguments[OPERAND_WORDS] = (uintptr_t)r->out[0];
    for (int i = 0; i < s->n_after; i++)
        arguments[(2 + i) * OPERAND_WORDS] = (uintptr_t)r->operands[s->after[i]];
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){arguments});
}

const cm_tactic cm_cuda_pool_tactics[] = {
    {.name = "cuda_pool", .level = 750, .reject = reject, .cost = cost, .ready = ready, .run = run},
    {.name = "cuda_pool_places",
     .level = 750,
     .reject = cm_cuda_pool_places_reject,
     .cost = cm_cuda_pool_places_cost,
     .ready = cm_cuda_pool_places_ready,
     .run = cm_cuda_pool_places_run},
};
const int cm_cuda_pool_count = CM_COUNT(cm_cuda_pool_tactics);
