/* pointwise.c -- POINTWISE: a program over whole tensors, one kernel generated for each.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The kernel is specialised by the program, the element types, the rank of the nest and how each operand lies along
 * the innermost axis; sizes and strides are arguments. Floats are computed in float32, integers in 64 bits that lose
 * their high ones when they are stored, and what neither holds in double. */
#include "cuda/nest.h"
#include "cuda/parts.h"
#include "cuda/program_text.h"
#include "cuda/tactics.h"

#include <string.h>

#include "base/size.h"

/* How an operand lies along a run of elements: kernels/pointwise.cu has the same. */
typedef enum { SIDE_BY_SIDE, ONE, APART, ANYWHERE } mode;

typedef struct {
    int index; /* of the problem's inputs or outputs */
    cm_dtype dtype;
    const int64_t *strides;
    mode mode;
} slot;

typedef struct {
    const cm_pointwise_shape *shape;
    cm_text_number number;
    bool cut; /* a Cast of floats to integers */
    int n_in, n_out;
    slot in[CM_PROGRAM_MAX], out[CM_PROGRAM_MAX];
    int64_t elems, rows, cols;
    int run; /* elements at once */
    bool flat;
    bool fits; /* rows are whole runs, and begin at multiples of one */
} form;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    int n_in, n_out, rank, in[CM_PROGRAM_MAX], out[CM_PROGRAM_MAX];
    size_t words;
    uint64_t *arguments;
} state;

/* x * 1: what a Cast is as a program. */
static bool is_copy(const cm_program *p)
{
    const cm_program_step *s = &p->step[0];
    return p->n_steps == 1 && s->op == CM_PW_MUL && s->arg[0].kind == CM_ARG_OPERAND &&
           s->arg[1].kind == CM_ARG_NUMBER && s->arg[1].number == 1;
}

/* What the element types of a problem have in common. */
typedef struct {
    bool all_narrow, all_whole, any_u64, any_integer; /* inputs */
    bool out_narrow, out_real, out_whole;             /* real: floats or bool */
} types;

static types types_of(const cm_problem *p)
{
    types t = {.all_narrow = true,
               .all_whole = true,
               .out_narrow = true,
               .out_real = true,
               .out_whole = true};
    for (int i = 0; i < p->program->n_operands; i++) {
        if (!cm_cuda_program_reads(p->program, i))
            continue;
        cm_dtype d = p->in[i]->dtype;
        t.all_narrow &= cm_gpu_is_narrow(d);
        t.all_whole &= !cm_gpu_is_float(d);
        t.any_u64 |= d == CM_U64;
        t.any_integer |= cm_dtype_is_integer(d);
    }
    for (int o = 0; o < p->n_out; o++) {
        if (!p->out[o])
            continue;
        cm_dtype d = p->out[o]->dtype;
        t.out_narrow &= (cm_gpu_is_float(d) || d == CM_BOOL) && d != CM_F64;
        t.out_real &= cm_gpu_is_float(d) || d == CM_BOOL;
        t.out_whole &= !cm_gpu_is_float(d);
    }
    return t;
}

/* In which numbers a problem is computed, or why not at all. A program of several steps is a group, which its
 * evaluator computes in double without wrapping between steps: 64 bits hold the same. One step may be an
 * operator on integers, which double must not stand in for. */
static const char *number_of(const cm_problem *p, cm_text_number *number, bool *cut)
{
    types t = types_of(p);
    bool copy = is_copy(p->program);
    *cut = false;
    if (t.all_narrow && t.out_narrow) {
        *number = CM_TEXT_FLOAT;
        return NULL;
    }
    if (t.all_whole && cm_program_is_whole(p->program) && (t.out_whole || copy)) {
        *number = t.any_u64 ? CM_TEXT_U64 : CM_TEXT_I64;
        return NULL;
    }
    *number = CM_TEXT_DOUBLE;
    if (t.out_real || p->program->n_steps > 1)
        return NULL;
    *cut = copy;
    return t.any_integer                        ? "the instruction has no form for integers"
           : copy && p->out[0]->dtype == CM_U64 ? "floats to unsigned integers of 64 bits"
                                                : NULL;
}

/* Rows and columns that lie one after the other, with nothing between. */
static bool is_flat(const cm_pointwise_shape *s, const int64_t *strides)
{
    int64_t run = 1;
    for (int a = s->rank - 1; a >= 0; a--) {
        if (strides[a] != run)
            return false;
        run *= s->dims[a];
    }
    return true;
}

static bool is_same(const cm_pointwise_shape *s, const int64_t *strides)
{
    for (int a = 0; a < s->rank; a++)
        if (strides[a] != 0)
            return false;
    return true;
}

static void add_slot(form *f, slot *to, int index, cm_dtype dtype, const int64_t *strides, bool out)
{
    int64_t stride = strides[f->shape->rank - 1];
    bool beside = stride == 1 || (out && f->cols == 1);
    *to = (slot){index, dtype, strides, beside ? SIDE_BY_SIDE : stride == 0 ? ONE : APART};
}

static slot *slot_at(form *f, int i)
{
    return i < f->n_in ? &f->in[i] : &f->out[i - f->n_in];
}

/* Do rows of whole runs of n begin where a run may? */
static bool runs_fit(form *f, int64_t n)
{
    const cm_pointwise_shape *s = f->shape;
    if (s->rank > 1 && f->cols % n != 0)
        return false;
    for (int i = 0; i < f->n_in + f->n_out; i++) {
        const slot *x = slot_at(f, i);
        for (int a = 0; x->mode == SIDE_BY_SIDE && a < s->rank - 1; a++)
            if (x->strides[a] % n != 0)
                return false;
    }
    return true;
}

static bool can_be_flat(form *f)
{
    if (f->shape->rank == 1)
        return false;
    for (int i = 0; i < f->n_out; i++)
        if (!is_flat(f->shape, f->out[i].strides))
            return false;
    return true;
}

/* Sixteen bytes of the widest operand at a time, where rows allow it; over the ends of rows where they do
 * not and the output allows that. */
static void choose_run(form *f)
{
    enum { BYTES = 16, FEW = 8 };
    int widest = 1;
    for (int i = 0; i < f->n_in + f->n_out; i++)
        if (slot_at(f, i)->mode == SIDE_BY_SIDE)
            widest = (int)cm_max_i64(widest, (int64_t)cm_dtype_size(slot_at(f, i)->dtype));
    int most = BYTES / widest;
    for (f->run = most; f->run > 1 && !runs_fit(f, f->run);)
        f->run /= 2;
    f->fits = true;
    if (f->run * widest >= FEW || f->elems < most || !can_be_flat(f))
        return;
    f->run = most;
    f->flat = true;
    for (int i = 0; i < f->n_in; i++) {
        slot *x = &f->in[i];
        x->mode = is_same(f->shape, x->strides)   ? ONE
                  : is_flat(f->shape, x->strides) ? SIDE_BY_SIDE
                                                  : ANYWHERE;
    }
}

static const char *form_of(const cm_problem *p, form *f)
{
    const cm_pointwise_shape *s = &p->as.pointwise;
    *f = (form){.shape = s, .rows = 1, .cols = s->dims[s->rank - 1]};
    for (int a = 0; a < s->rank - 1; a++)
        f->rows *= s->dims[a];
    f->elems = f->rows * f->cols;
    const char *why = number_of(p, &f->number, &f->cut);
    if (why)
        return why;
    for (int i = 0; i < p->program->n_operands; i++)
        if (cm_cuda_program_reads(p->program, i))
            add_slot(f, &f->in[f->n_in++], i, p->in[i]->dtype, s->in[i], false);
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o])
            add_slot(f, &f->out[f->n_out++], o, p->out[o]->dtype, s->out[o], true);
    choose_run(f);
    return NULL;
}

/* Words of the kernel's argument. */
static size_t words_of(const form *f)
{
    size_t rank = (size_t)f->shape->rank;
    return (size_t)(f->n_in + 1 + f->n_out) * (1 + rank) + 2 * rank + 2 + 4;
}

static const char *reject(const cm_problem *p)
{
    form f;
    for (int i = 0; i < p->program->n_operands; i++)
        if (cm_cuda_program_reads(p->program, i) && !cm_gpu_element(p->in[i]->dtype))
            return "an input's element type";
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o] && !cm_gpu_element(p->out[o]->dtype))
            return "an output's element type";
    const char *why = form_of(p, &f);
    if (why)
        return why;
    if (f.n_out == 0)
        return "nothing is wanted";
    return words_of(&f) * sizeof(uint64_t) > CM_GPU_ARG_BYTES ? "too many operands and axes" : NULL;
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    enum { SECTOR = 32, SIMPLE = 2, HARD = 25 }; /* bytes; instructions */
    form f;
    cm_gpu_facts facts;
    (void)k;
    if (form_of(p, &f))
        return 1;
    cm_gpu_facts_of(&p->target, &facts);
    double bytes = 0, work = 6;
    for (int i = 0; i < f.n_in + f.n_out; i++) {
        const slot *x = slot_at(&f, i);
        const cm_tensor *t = i < f.n_in ? p->in[x->index] : p->out[x->index];
        double size = (double)cm_dtype_size(x->dtype);
        bytes += (double)cm_tensor_elems(t) * (x->mode == APART ? (size + SECTOR) / 2 : size);
        work += f.run == 1 || x->mode == ANYWHERE ? 4 : 1;
    }
    for (int s = 0; s < p->program->n_steps; s++) {
        cm_pointwise op = p->program->step[s].op;
        bool hard = op == CM_PW_POW || op == CM_PW_DIV || cm_pointwise_is_alone(op) ||
                    (op >= CM_PW_RECIP && op <= CM_PW_SOFTSIGN);
        work += hard && op != CM_PW_RELU ? HARD : SIMPLE;
    }
    double wide = f.number == CM_TEXT_DOUBLE ? 8 : f.number == CM_TEXT_FLOAT ? 1 : 2;
    double compute = (double)f.elems * work * wide * 2 / (facts.tflops * 1000);
    double memory = cm_gpu_stream_ns(&p->target, bytes);
    return memory > compute ? memory : compute + facts.launch_ns;
}

static void put_slots(cm_buf *b, const char *name, const slot *slots, int n)
{
    static const char *const modes[] = {"SIDE_BY_SIDE", "ONE", "APART", "ANYWHERE"};
    cm_buf_printf(b, "#define %s(X)", name);
    for (int i = 0; i < n; i++)
        cm_buf_printf(b, " X(%d, %d, %s, %s)", i, slots[i].index, cm_gpu_element(slots[i].dtype),
                      modes[slots[i].mode]);
    cm_buf_str(b, "\n");
}

static void put_text(cm_buf *b, const cm_problem *p, const form *f)
{
    int unroll = f->n_in <= 1 ? 4 : f->n_in <= 3 ? 2 : 1;
    cm_cuda_program_text(b, p->program, "program", f->number);
    cm_buf_printf(b, "#define NUMBER %s\n", cm_text_number_type(f->number));
    cm_buf_printf(b, "#define OPERANDS %d\n#define RESULTS %d\n", p->program->n_operands,
                  p->program->n_outputs);
    cm_buf_printf(b, "#define RANK %d\n#define RUN %d\n#define UNROLL %d\n", f->shape->rank, f->run,
                  f->run == 1 ? 4 : unroll);
    cm_buf_printf(b, "#define FLAT %d\n#define WIDE %d\n", f->flat, cm_gpu_is_wide(f->elems));
    cm_buf_printf(b, "#define N_INPUTS %d\n#define N_OUTPUTS %d\n", f->n_in, f->n_out);
    cm_buf_printf(b, "#define FAULTS %d\n", cm_cuda_program_fault(p->program, f->number) != NULL);
    if (f->cut)
        cm_buf_str(b, "#define CUT 1\n");
    if (p->program->step[0].op == CM_PW_OPEN)
        cm_buf_str(b, "#define OPEN 1\n");
    put_slots(b, "INPUTS", f->in, f->n_in);
    put_slots(b, "OUTPUTS", f->out, f->n_out);
}

static uint64_t *put_axis(uint64_t *to, int64_t size)
{
    cm_gpu_axis a = cm_gpu_axis_of(size);
    memcpy(to, &a, sizeof a);
    return to + sizeof a / sizeof *to;
}

/* The argument of the kernel but for the pointers. */
static void put_arguments(uint64_t *to, form *f)
{
    int rank = f->shape->rank;
    for (int i = 0; i <= f->n_in + f->n_out; i++) {
        to++;               /* data */
        if (i == f->n_in) { /* one that is not there: kernels have no empty arrays */
            to += rank;
            continue;
        }
        const slot *x = i < f->n_in ? &f->in[i] : &f->out[i - f->n_in - 1];
        for (int a = 0; a < rank; a++)
            *to++ = (uint64_t)x->strides[a];
    }
    for (int a = 0; a < rank; a++)
        to = put_axis(to, f->shape->dims[a]);
    to = put_axis(to, f->cols / f->run);
    *to++ = (uint64_t)f->elems;
    *to = f->fits;
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    form f;
    cm_buf text;
    (void)k;
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    (void)form_of(p, &f);
    *out = s;
    s->words = words_of(&f);
    s->arguments = cm_new_n(arena, s->words, uint64_t);
    if (!s->arguments)
        return cm_fail_memory(cx);
    s->n_in = f.n_in;
    s->n_out = f.n_out;
    s->rank = f.shape->rank;
    for (int i = 0; i < f.n_in; i++)
        s->in[i] = f.in[i].index;
    for (int i = 0; i < f.n_out; i++)
        s->out[i] = f.out[i].index;
    if (f.elems == 0)
        return CM_OK; /* no kernel, nothing to launch */
    put_arguments(s->arguments, &f);
    s->grid = (cm_grid){.blocks = {cm_gpu_blocks(&p->target, cm_ceil_div(f.elems, f.run))},
                        .threads = {CM_GPU_THREADS}};
    cm_buf_init(&text, cx->allocator);
    put_text(&text, p, &f);
    return cm_gpu_kernel_with(
        cx, d, &text, (cm_kernel_text){.file = "pointwise", .entry = "pointwise"}, 0, &s->kernel);
}

static cm_status run(const cm_run *r)
{
    const state *s = r->state;
    uint64_t arguments[CM_GPU_ARG_BYTES / sizeof(uint64_t)];
    if (!s->kernel)
        return CM_OK;
    memcpy(arguments, s->arguments, s->words * sizeof *arguments);
    for (int i = 0; i < s->n_in; i++)
        arguments[i * (1 + s->rank)] = (uintptr_t)r->in[s->in[i]];
    for (int o = 0; o < s->n_out; o++)
        arguments[(s->n_in + 1 + o) * (1 + s->rank)] = (uintptr_t)r->out[s->out[o]];
    arguments[s->words - 2] = (uintptr_t)r->fault;
    arguments[s->words - 1] = r->fault_code;
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){arguments});
}

const cm_tactic cm_cuda_pointwise_tactics[] = {
    {.name = "cuda_pointwise",
     .level = 750,
     .reject = reject,
     .cost = cost,
     .ready = ready,
     .run = run},
    {.name = "cast_parts",
     .level = 750,
     .reject = cm_cuda_cast_parts_reject,
     .cost = cm_cuda_cast_parts_cost,
     .ready = cm_cuda_cast_parts_ready,
     .run = cm_cuda_cast_parts_run,
     .parts = true},
};
const int cm_cuda_pointwise_count = CM_COUNT(cm_cuda_pointwise_tactics);
