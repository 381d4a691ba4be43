/* reduce.c -- REDUCE: a program per element, folds along axes, a program after.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sums of floats are kept in double, as the evaluator's are; sums of integers in 64 bits, modulo 2^64. Axes are sorted
 * into those that are kept and those that are gone; the innermost one decides whether neighbouring threads have
 * neighbouring outputs or neighbouring elements of one. */
#include "cuda/nest.h"
#include "cuda/program_text.h"
#include "cuda/tactics.h"

#include <string.h>

#include "base/size.h"

enum {
    THREADS = 256,
    FOLDED_BYTES = 16, /* of a part's result */
    MOST_PARTS = 256,
};

typedef enum { SIDE_BY_SIDE, ONE, APART } mode;

typedef struct {
    int index; /* of the problem's inputs or operands */
    cm_dtype dtype;
    const int64_t *strides; /* over the nest */
    mode mode;
} slot;

typedef struct {
    const cm_reduce *r;
    cm_text_number number;
    int n_in, n_after;
    slot in[CM_PROGRAM_MAX], after[CM_PROGRAM_MAX];
    int n_kept, n_gone, kept[CM_MAX_RANK], gone[CM_MAX_RANK]; /* axes of the nest */
    int64_t outputs, count;
    bool columns;
    int run, x, y;
    int64_t blocks, parts;
} form;

typedef struct {
    const cm_kernel *kernel, *join;
    cm_grid grid, join_grid;
    int n_in, n_after, in[CM_PROGRAM_MAX], after[CM_PROGRAM_MAX];
    size_t each, words; /* of an operand; of the argument */
    uint64_t *arguments;
} state;

static bool is_arg(cm_reduce_kind kind)
{
    return kind == CM_REDUCE_ARG_MAX || kind == CM_REDUCE_ARG_MIN;
}

/* Kinds that stay whole numbers. */
static bool is_whole_kind(cm_reduce_kind kind)
{
    return kind == CM_REDUCE_SUM || kind == CM_REDUCE_MAX || kind == CM_REDUCE_MIN ||
           kind == CM_REDUCE_PROD || kind == CM_REDUCE_SUM_SQUARE || kind == CM_REDUCE_L1;
}

/* In which numbers elements are computed, or why not at all. */
static const char *number_of(const cm_problem *p, const form *f, cm_text_number *number)
{
    cm_dtype first = p->in[0]->dtype;
    bool narrow = true;
    for (int i = 0; i < f->n_in; i++)
        narrow &= cm_gpu_is_narrow(f->in[i].dtype);
    for (int i = 0; i < f->n_after; i++)
        narrow &= cm_gpu_is_narrow(f->after[i].dtype);
    if (!p->program && !cm_gpu_is_float(first) && !(is_arg(f->r->kind) && narrow)) {
        *number = first == CM_U64 ? CM_TEXT_U64 : CM_TEXT_I64;
        return p->epilogue                         ? "an epilogue of integers"
               : is_arg(f->r->kind)                ? NULL
               : !is_whole_kind(f->r->kind)        ? "the kind, of integers"
               : cm_gpu_is_float(p->out[0]->dtype) ? "floats of integers"
               : f->count == 0                     ? "nothing is reduced"
                                                   : NULL;
    }
    *number = narrow ? CM_TEXT_FLOAT : CM_TEXT_DOUBLE;
    return is_arg(f->r->kind) || cm_gpu_is_float(p->out[0]->dtype) ? NULL
                                                                   : "the output is not of floats";
}

static mode mode_of(int64_t stride)
{
    return stride == 1 ? SIDE_BY_SIDE : stride == 0 ? ONE : APART;
}

/* Can runs of n along the innermost axis be read at once? */
static bool runs_fit(const form *f, int64_t n)
{
    const cm_pointwise_shape *s = &f->r->loop;
    if (s->dims[s->rank - 1] % n != 0)
        return false;
    for (int i = 0; i < f->n_in; i++)
        for (int a = 0; f->in[i].mode == SIDE_BY_SIDE && a < s->rank - 1; a++)
            if (f->in[i].strides[a] % n != 0)
                return false;
    return true;
}

static void choose_run(form *f)
{
    enum { BYTES = 16 };
    int widest = BYTES;
    for (int i = 0; i < f->n_in; i++)
        if (f->in[i].mode == SIDE_BY_SIDE) {
            int size = (int)cm_dtype_size(f->in[i].dtype);
            widest = widest == BYTES || size > widest ? size : widest;
        }
    for (f->run = BYTES / widest; f->run > 1 && !runs_fit(f, f->run);)
        f->run /= 2;
}

/* Threads for each output, outputs for each block, blocks, and parts where that is not enough of them. */
static void choose_grid(form *f, const cm_target *t)
{
    enum { FEW_STEPS = 4, NARROWEST = 8, LINE = 32 };
    cm_gpu_facts facts;
    cm_gpu_facts_of(t, &facts);
    int64_t busy = (int64_t)facts.multiprocessors * 1024;
    int64_t units = f->columns ? f->outputs / f->run : f->outputs;
    int64_t steps = f->columns ? f->count : f->count / f->run;
    f->y = 1;
    if (f->columns) {
        int narrowest = f->run > 1 ? NARROWEST : LINE;
        while (THREADS / f->y > narrowest && f->y * FEW_STEPS <= steps &&
               (units <= THREADS / f->y / 2 || units * f->y < busy))
            f->y *= 2;
    } else {
        while (f->y < THREADS &&
               (2 * f->y * FEW_STEPS <= steps || (f->y < steps && units * f->y < busy)))
            f->y *= 2;
    }
    f->x = THREADS / f->y;
    int64_t most = (int64_t)facts.multiprocessors * 16;
    f->blocks = cm_max_i64(1, cm_min_i64(cm_ceil_div(units, f->x), most));
    int64_t parts = cm_min_i64(cm_ceil_div(4 * (int64_t)facts.multiprocessors, f->blocks),
                               steps / (f->y * 2 * FEW_STEPS));
    bool few = f->blocks < 2 * (int64_t)facts.multiprocessors;
    f->parts = few ? cm_max_i64(1, cm_min_i64(parts, MOST_PARTS)) : 1;
}

static void sort_axes(form *f)
{
    const cm_pointwise_shape *s = &f->r->loop;
    f->outputs = f->count = 1;
    for (int a = 0; a < s->rank; a++) {
        if (f->r->axes[a])
            f->gone[f->n_gone++] = a;
        else
            f->kept[f->n_kept++] = a;
        *(f->r->axes[a] ? &f->count : &f->outputs) *= s->dims[a];
    }
    f->columns = !f->r->axes[s->rank - 1];
}

static const char *form_of(const cm_problem *p, form *f)
{
    const cm_reduce *r = &p->as.reduce;
    int n_data = p->program ? p->program->n_operands : 1, last = r->loop.rank - 1;
    *f = (form){.r = r};
    for (int i = 0; i < n_data; i++)
        if (!p->program || cm_cuda_program_reads(p->program, i))
            f->in[f->n_in++] =
                (slot){i, p->in[i]->dtype, r->loop.in[i], mode_of(r->loop.in[i][last])};
    for (int i = 0; p->epilogue && i < p->epilogue->n_operands; i++)
        if (cm_cuda_program_reads(p->epilogue, i))
            f->after[f->n_after++] = (slot){i, p->operands[i]->dtype, r->operands[i], APART};
    sort_axes(f);
    if (f->n_in == 0)
        return "nothing is read";
    const char *why = number_of(p, f, &f->number);
    if (why)
        return why;
    choose_run(f);
    choose_grid(f, &p->target);
    return NULL;
}

static size_t operand_words(const form *f)
{
    return 1 + (size_t)cm_max_i64(f->n_kept, 1) + (size_t)cm_max_i64(f->n_gone, 1);
}

static size_t words_of(const form *f)
{
    size_t axes = operand_words(f) - 1;
    return (size_t)(f->n_in + f->n_after + 2) * operand_words(f) + 2 * (axes + 1) + 5;
}

static const char *reject(const cm_problem *p)
{
    form f;
    int n_data = p->program ? p->program->n_operands : 1;
    for (int i = 0; i < n_data; i++)
        if (!cm_gpu_element(p->in[i]->dtype))
            return "an input's element type";
    for (int i = 0; i < p->n_operands; i++)
        if (!cm_gpu_element(p->operands[i]->dtype))
            return "an operand's element type";
    if (!cm_gpu_element(p->out[0]->dtype))
        return "the output's element type";
    if (p->program && p->program->n_outputs != 1)
        return "the program has several results";
    const char *why = form_of(p, &f);
    if (why)
        return why;
    return words_of(&f) * sizeof(uint64_t) > CM_GPU_ARG_BYTES ? "too many operands and axes" : NULL;
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    enum { SECTOR = 32 };
    form f;
    (void)k;
    if (form_of(p, &f))
        return 1;
    double bytes = (double)f.outputs * (double)cm_dtype_size(p->out[0]->dtype);
    for (int i = 0; i < f.n_in; i++) {
        double size = (double)cm_dtype_size(f.in[i].dtype);
        bytes += (double)cm_tensor_elems(p->in[f.in[i].index]) *
                 (f.in[i].mode == APART ? (size + SECTOR) / 2 : size);
    }
    double ns = cm_gpu_stream_ns(&p->target, bytes);
    return f.parts > 1 ? ns + cm_gpu_stream_ns(&p->target, 0) : ns;
}

static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    form f;
    (void)k;
    if (form_of(p, &f) || f.parts == 1)
        return 0;
    return (size_t)(f.outputs * f.parts) * FOLDED_BYTES;
}

static void put_program(cm_buf *b, const cm_program *p, const char *name, const char *same,
                        cm_text_number n)
{
    const char *type = cm_text_number_type(n);
    if (p)
        cm_cuda_program_text(b, p, name, n);
    else
        cm_buf_printf(b,
                      "static __device__ __forceinline__ void %s(%s x, const %s *o, %s *r)\n"
                      "{\n    r[0] = %s;\n}\n",
                      name, type, type, type, same);
}

/* What sums are kept in, and where extremes begin. */
static void put_sums(cm_buf *b, const form *f)
{
    static const char infinite[] = "__int_as_float(0x7f800000)";
    static const char *const lowest[] = {[CM_TEXT_FLOAT] = "__int_as_float(0xff800000)",
                                         [CM_TEXT_DOUBLE] = "__int_as_float(0xff800000)",
                                         [CM_TEXT_I64] = "0x8000000000000000ull",
                                         [CM_TEXT_U64] = "0"};
    static const char *const highest[] = {[CM_TEXT_FLOAT] = infinite,
                                          [CM_TEXT_DOUBLE] = infinite,
                                          [CM_TEXT_I64] = "0x7fffffffffffffffll",
                                          [CM_TEXT_U64] = "~0ull"};
    cm_reduce_kind kind = f->r->kind;
    bool extreme = kind == CM_REDUCE_MAX || kind == CM_REDUCE_MIN || is_arg(kind);
    cm_buf_printf(b, "#define NUMBER %s\n", cm_text_number_type(f->number));
    cm_buf_printf(
        b, "#define SUM %s\n",
        cm_text_number_type(f->number == CM_TEXT_FLOAT && !extreme ? CM_TEXT_DOUBLE : f->number));
    cm_buf_printf(b, "#define LOWEST %s\n#define HIGHEST %s\n", lowest[f->number],
                  highest[f->number]);
}

static void put_text(cm_buf *b, const cm_problem *p, const form *f, bool join)
{
    static const char *const modes[] = {"SIDE_BY_SIDE", "ONE", "APART"};
    put_program(b, p->program, "before", "o[0]", f->number);
    put_program(b, p->epilogue, "after", "x", f->number);
    put_sums(b, f);
    cm_buf_printf(b, "#define KIND %d\n#define LAST %d\n", f->r->kind, f->r->select_last_index);
    cm_buf_printf(b, "#define KEPT %d\n#define GONE %d\n", f->n_kept ? f->n_kept : 1,
                  f->n_gone ? f->n_gone : 1);
    cm_buf_printf(b, "#define COLUMNS %d\n#define RUN %d\n#define X %d\n#define Y %d\n", f->columns,
                  f->run, f->x, f->y);
    cm_buf_printf(b, "#define PARTS %d\n#define JOIN %d\n#define WIDE %d\n", f->parts > 1, join,
                  cm_gpu_is_wide(f->outputs * f->count));
    cm_buf_printf(b, "#define N_INPUTS %d\n#define OPERANDS %d\n", f->n_in,
                  p->program ? p->program->n_operands : 1);
    cm_buf_printf(b, "#define N_AFTER %d\n#define AFTER_OPERANDS %d\n", f->n_after,
                  p->epilogue ? p->epilogue->n_operands : 0);
    cm_buf_printf(b, "#define OUTPUT %s\n#define INPUTS(X)", cm_gpu_element(p->out[0]->dtype));
    for (int i = 0; i < f->n_in; i++)
        cm_buf_printf(b, " X(%d, %d, %s, %s)", i, f->in[i].index, cm_gpu_element(f->in[i].dtype),
                      modes[f->in[i].mode]);
    cm_buf_str(b, "\n#define AFTER(X)");
    for (int i = 0; i < f->n_after; i++)
        cm_buf_printf(b, " X(%d, %d, %s)", i, f->after[i].index, cm_gpu_element(f->after[i].dtype));
    cm_buf_str(b, "\n");
}

static uint64_t *put_operand(uint64_t *to, const form *f, const int64_t *strides, bool reduced)
{
    to++; /* data */
    for (int a = 0; a < (f->n_kept ? f->n_kept : 1); a++)
        *to++ = f->n_kept ? (uint64_t)strides[f->kept[a]] : 0;
    for (int a = 0; a < (f->n_gone ? f->n_gone : 1); a++)
        *to++ = f->n_gone && reduced ? (uint64_t)strides[f->gone[a]] : 0;
    return to;
}

static uint64_t *put_axes(uint64_t *to, const form *f, const int *axes, int n)
{
    for (int a = 0; a < (n ? n : 1); a++, to += 2) {
        cm_gpu_axis axis = cm_gpu_axis_of(n ? f->r->loop.dims[axes[a]] : 1);
        memcpy(to, &axis, sizeof axis);
    }
    return to;
}

static void put_arguments(uint64_t *to, const form *f)
{
    const cm_pointwise_shape *s = &f->r->loop;
    for (int i = 0; i < f->n_in; i++)
        to = put_operand(to, f, f->in[i].strides, true);
    for (int i = 0; i < f->n_after; i++)
        to = put_operand(to, f, f->after[i].strides, false);
    to += operand_words(f); /* kernels have no empty arrays */
    to = put_operand(to, f, s->out[0], false);
    to = put_axes(to, f, f->kept, f->n_kept);
    to = put_axes(to, f, f->gone, f->n_gone);
    cm_gpu_axis runs = cm_gpu_axis_of(s->dims[s->rank - 1] / f->run);
    memcpy(to, &runs, sizeof runs);
    to += 2;
    *to++ = (uint64_t)f->outputs;
    *to++ = (uint64_t)f->count;
    *to++ = (uint64_t)f->parts;
    *to = f->run > 1;
}

static cm_status find_kernel(cm_ctx *cx, cm_device *d, const cm_problem *p, const form *f,
                             bool join, const cm_kernel **out)
{
    cm_buf text;
    cm_buf_init(&text, cx->allocator);
    put_text(&text, p, f, join);
    cm_kernel_text t = {.file = "reduce", .entry = join ? "reduce_join" : "reduce"};
    return cm_gpu_kernel_with(cx, d, &text, t, 0, out);
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    form f;
    state *s = cm_new(arena, state);
    (void)k;
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    (void)form_of(p, &f);
    if (f.outputs == 0)
        return CM_OK; /* no kernel, nothing to launch */
    s->each = operand_words(&f);
    s->words = words_of(&f);
    CM_NEW_N(cx, arena, s->arguments, s->words, uint64_t);
    put_arguments(s->arguments, &f);
    s->n_in = f.n_in;
    s->n_after = f.n_after;
    for (int i = 0; i < f.n_in; i++)
        s->in[i] = f.in[i].index;
    for (int i = 0; i < f.n_after; i++)
        s->after[i] = f.after[i].index;
    bool overlaps = p->target.level >= 900;
    s->grid = (cm_grid){.blocks = {(unsigned)f.blocks, (unsigned)f.parts},
                        .threads = {THREADS},
                        .overlaps = overlaps};
    CM_TRY(find_kernel(cx, d, p, &f, false, &s->kernel));
    if (f.parts == 1)
        return CM_OK;
    s->join_grid = (cm_grid){.blocks = {cm_gpu_blocks(&p->target, f.outputs * 32)},
                             .threads = {THREADS},
                             .overlaps = overlaps};
    return find_kernel(cx, d, p, &f, true, &s->join);
}

static cm_status run(const cm_run *r)
{
    const state *s = r->state;
    uint64_t arguments[CM_GPU_ARG_BYTES / sizeof(uint64_t)];
    if (!s->kernel)
        return CM_OK;
    memcpy(arguments, s->arguments, s->words * sizeof *arguments);
    for (int i = 0; i < s->n_in; i++)
        arguments[(size_t)i * s->each] = (uintptr_t)r->in[s->in[i]];
    for (int i = 0; i < s->n_after; i++)
        arguments[(size_t)(s->n_in + i) * s->each] = (uintptr_t)r->operands[s->after[i]];
    arguments[(size_t)(s->n_in + s->n_after + 1) * s->each] = (uintptr_t)r->out[0];
    arguments[s->words - 1] = (uintptr_t)r->workspace;
    CM_TRY(cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){arguments}));
    return s->join ? cm_gpu_launch(r, s->join, &s->join_grid, (void *[]){arguments}) : CM_OK;
}

const cm_tactic cm_cuda_reduce_tactics[] = {
    {.name = "cuda_reduce",
     .level = 750,
     .reject = reject,
     .cost = cost,
     .workspace = workspace,
     .ready = ready,
     .run = run},
};
const int cm_cuda_reduce_count = CM_COUNT(cm_cuda_reduce_tactics);
