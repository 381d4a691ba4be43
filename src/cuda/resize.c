/* resize.c -- RESIZE: nearest elements, or sums of weighted ones, in any layout.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The problem's tables of sources and weights are in the device's memory before a run. */
#include "cuda/resize.h"

#include "cuda/nest.h"
#include "cuda/program_text.h"
#include "cuda/tactics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

enum {
    RESIZED = 3,
    MANY_TAPS = 64, /* from here on sums are kept in double */
    WORD = 16,
    FEW = 4,        /* so many taps are known to kernels */
    WIDEST = 2048,  /* rows of the input that lines are made of */
    MOST_ROWS = 32, /* of a block, as in the kernel; so are ROOM elements */
    ROOM = 4096,
    SIZES_WORDS = 2 + 1 + 4 * RESIZED + 5,
};

typedef struct {
    const cm_resize *r;
    int rank, order[CM_MAX_RANK]; /* axes of the problem, outermost of the output first */
    int n_resized, resized[RESIZED];
    int n_after, after[CM_PROGRAM_MAX];
    bool copy, is_double;
    bool rows;  /* lines of the input are made first, then rows of those */
    bool lines; /* the same of few taps, or copied */
    int across; /* which of the resized axes is the output's innermost, -1: none */
    int run;
    int64_t outputs, words; /* of the table */
} form;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    int n_after, after[CM_PROGRAM_MAX];
    size_t each, words;
    uint64_t *arguments;
    const void *table;
} state;

static bool leaves_input(const cm_resize *r)
{
    for (int d = 0; d < r->rank; d++)
        for (int64_t o = 0; r->axis[d].taps && o < r->out[d]; o++)
            if (r->axis[d].from[o] < 0)
                return true;
    return false;
}

/* Runs of n elements: read as such too, unless their axis is resized itself. */
static bool runs_fit(const form *f, const cm_problem *p, int64_t n)
{
    const cm_tensor *x = p->in[0], *y = p->out[0];
    int last = f->order[f->rank - 1];
    bool read = f->across < 0;
    if ((read && x->strides[last] != 1) || y->strides[last] != 1 || y->dims[last] % n != 0)
        return false;
    for (int d = 0; d < f->rank; d++)
        if (d != last && ((read && x->strides[d] % n != 0) || y->strides[d] % n != 0))
            return false;
    return true;
}

static double taps_of(const form *f)
{
    double taps = 1;
    for (int i = 0; i < f->n_resized; i++)
        taps *= f->r->axis[f->resized[i]].taps;
    return taps;
}

static int run_of(const form *f, const cm_problem *p)
{
    size_t in = cm_dtype_size(p->in[0]->dtype), out = cm_dtype_size(p->out[0]->dtype);
    int run = (int)(WORD / (f->across >= 0 && out > in ? out : in));
    if (f->across >= 0 && run > FEW && taps_of(f) > FEW)
        run = FEW;
    while (run > 1 && !runs_fit(f, p, run))
        run /= 2;
    return run;
}

/* Both innermost axes, and no others, are resized. */
static bool takes_rows(const form *f, const cm_problem *p)
{
    const cm_tensor *x = p->in[0], *y = p->out[0];
    if (f->n_after || f->n_resized != 2 || f->rank < 2 || f->across != 1 ||
        f->resized[0] != f->order[f->rank - 2] || cm_gpu_is_wide(f->outputs))
        return false;
    int last = f->resized[1];
    return x->strides[last] == 1 && y->strides[last] == 1 && (f->copy || x->dims[last] <= WIDEST);
}

static bool has_few_taps(const form *f)
{
    bool few = true;
    for (int i = 0; i < f->n_resized; i++)
        few = few && f->r->axis[f->resized[i]].taps <= FEW;
    return few;
}

static const char *form_of(const cm_problem *p, form *f)
{
    const cm_resize *r = &p->as.resize;
    const cm_tensor *x = p->in[0], *y = p->out[0];
    *f = (form){.r = r, .rank = r->rank, .across = -1, .outputs = cm_tensor_elems(y)};
    for (int d = 0; d < r->rank; d++) {
        int at = d;
        for (; at > 0 && llabs(y->strides[f->order[at - 1]]) < llabs(y->strides[d]); at--)
            f->order[at] = f->order[at - 1];
        f->order[at] = d;
    }
    for (int d = 0; d < r->rank; d++) {
        if (!r->axis[d].taps)
            continue;
        if (f->n_resized == RESIZED)
            return "more than three axes are resized";
        if (d == f->order[r->rank - 1])
            f->across = f->n_resized;
        f->resized[f->n_resized++] = d;
        f->words += 2 * r->axis[d].taps * r->out[d];
    }
    for (int i = 0; p->epilogue && i < p->epilogue->n_operands; i++)
        if (cm_cuda_program_reads(p->epilogue, i))
            f->after[f->n_after++] = i;
    f->copy = r->nearest && !p->epilogue && x->dtype == y->dtype && !leaves_input(r);
    f->is_double = x->dtype == CM_F64;
    if (f->rank == 0 || f->n_resized == 0)
        return "no axis is resized";
    f->run = run_of(f, p);
    f->lines = takes_rows(f, p) && has_few_taps(f);
    f->rows = takes_rows(f, p) && !f->lines && !f->copy;
    return NULL;
}

static size_t operand_words(const form *f)
{
    return 1 + (size_t)f->rank;
}

static size_t words_of(const form *f)
{
    return (size_t)(3 + f->n_after) * operand_words(f) + 2 * (size_t)f->rank + SIZES_WORDS;
}

static const char *reject(const cm_problem *p)
{
    form f;
    cm_dtype t = p->in[0]->dtype, to = p->out[0]->dtype;
    if (t == CM_STR || cm_dtype_is_sub_byte(t))
        return "elements are not plain memory";
    const char *why = form_of(p, &f);
    if (why)
        return why;
    if (!f.copy && !(cm_gpu_is_float(t) && cm_gpu_is_float(to)))
        return "interpolation, an epilogue or positions outside, of what is not floats";
    for (int i = 0; i < p->n_operands; i++)
        if (!cm_gpu_is_float(p->operands[i]->dtype) && !cm_gpu_is_narrow(p->operands[i]->dtype))
            return "an operand's element type";
    return words_of(&f) * sizeof(uint64_t) > CM_GPU_ARG_BYTES ? "too many operands and axes" : NULL;
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    form f;
    cm_gpu_facts facts;
    (void)k;
    if (form_of(p, &f))
        return 1;
    cm_gpu_facts_of(&p->target, &facts);
    double taps = taps_of(&f), size = (double)cm_dtype_size(p->in[0]->dtype);
    double bytes = size * ((double)cm_tensor_elems(p->in[0]) + (double)f.outputs);
    double each = f.rows || f.lines ? 10 : taps * (f.run > 1 ? 8 : 25);
    double work = (double)f.outputs * each * 2 / (facts.tflops * 1000);
    double memory = cm_gpu_stream_ns(&p->target, bytes);
    if (f.lines) /* by narrow words */
        memory *= size >= 4 ? 1.03 : f.copy ? 1.3 : 1.7;
    return memory > work ? memory : work + facts.launch_ns;
}

static void put_taps(cm_buf *b, const form *f)
{
    cm_buf_str(b, "#define TAPS(k) (");
    for (int i = 0; i < f->n_resized; i++) {
        int taps = f->r->axis[f->resized[i]].taps;
        if (taps <= FEW)
            cm_buf_printf(b, "(k) == %d ? %d : ", i, taps);
        else
            cm_buf_printf(b, "(k) == %d ? a.taps[%d] : ", i, i);
    }
    cm_buf_str(b, "1)\n");
}

static void put_text(cm_buf *b, const cm_problem *p, const form *f)
{
    cm_text_number n = f->is_double ? CM_TEXT_DOUBLE : CM_TEXT_FLOAT;
    const char *type = cm_text_number_type(n);
    if (p->epilogue)
        cm_cuda_program_text(b, p->epilogue, "after", n);
    else
        cm_buf_printf(b,
                      "static __device__ __forceinline__ void after(%s x, const %s *o, %s *r)\n"
                      "{\n    r[0] = x;\n}\n",
                      type, type, type);
    size_t size = cm_dtype_size(p->in[0]->dtype);
    cm_buf_printf(b, "#define NUMBER %s\n#define SUM %s\n", type,
                  taps_of(f) > MANY_TAPS ? "double" : type);
    cm_buf_printf(b, "#define COPY %d\n", f->copy);
    cm_buf_printf(b, "#define INPUT %s\n#define OUTPUT %s\n",
                  f->copy ? cm_gpu_word(size) : cm_gpu_element(p->in[0]->dtype),
                  f->copy ? cm_gpu_word(size) : cm_gpu_element(p->out[0]->dtype));
    cm_buf_printf(b, "#define RANK %d\n#define RESIZED %d\n#define RUN %d\n", f->rank, f->n_resized,
                  f->run);
    cm_buf_printf(b, "#define ACROSS %d\n#define SLOT %d\n#define STORED %d\n", f->across,
                  f->across < 0 ? 0 : f->across,
                  (size_t)f->run * cm_dtype_size(p->out[0]->dtype) <= WORD);
    cm_buf_printf(b,
                  "#define ROWS %d\n#define LINES %d\n#define OUTSIDE %d\n"
                  "#define FEW_TAPS %d\n",
                  f->rows, f->lines, leaves_input(f->r), has_few_taps(f) && f->across < 0);
    put_taps(b, f);
    cm_buf_str(b, "#define PLACE(X)");
    for (int i = 0; i < f->n_resized; i++)
        for (int a = 0; a < f->rank; a++)
            if (f->order[a] == f->resized[i])
                cm_buf_printf(b, " X(%d, %d)", i, a);
    cm_buf_printf(b, "\n#define N_AFTER %d\n#define AFTER_OPERANDS %d\n#define WIDE %d\n",
                  f->n_after, p->epilogue ? p->epilogue->n_operands : 0,
                  cm_gpu_is_wide(f->outputs));
    cm_buf_str(b, "#define AFTER(X)");
    for (int i = 0; i < f->n_after; i++)
        cm_buf_printf(b, " X(%d, %d, %s)", i, f->after[i],
                      cm_gpu_element(p->operands[f->after[i]]->dtype));
    cm_buf_str(b, "\n");
}

/* Strides in the order of the output's axes; t broadcasts to the output where it is an operand. */
static uint64_t *put_operand(uint64_t *to, const form *f, const cm_tensor *t, bool broadcasts)
{
    to++; /* data */
    for (int a = 0; a < f->rank; a++) {
        int own = f->order[a] - (f->rank - t->rank);
        *to++ = own < 0 || (broadcasts && t->dims[own] == 1) ? 0 : (uint64_t)t->strides[own];
    }
    return to;
}

static uint64_t *put_axis(uint64_t *to, int64_t size)
{
    cm_gpu_axis axis = cm_gpu_axis_of(size);
    memcpy(to, &axis, sizeof axis);
    return to + 2;
}

static void put_arguments(uint64_t *to, const cm_problem *p, const form *f)
{
    const cm_tensor *y = p->out[0];
    to = put_operand(to, f, p->in[0], false);
    to = put_operand(to, f, y, false);
    for (int i = 0; i < f->n_after; i++)
        to = put_operand(to, f, p->operands[f->after[i]], true);
    to += operand_words(f); /* kernels have no empty arrays */
    for (int a = 0; a < f->rank; a++)
        to = put_axis(to, y->dims[f->order[a]]);
    to = put_axis(to, y->dims[f->order[f->rank - 1]] / f->run);
    to++; /* the table */
    int64_t at = 0;
    for (int i = 0; i < f->n_resized; i++) {
        int d = f->resized[i];
        int64_t n = f->r->axis[d].taps * f->r->out[d];
        to[i] = (uint64_t)at;
        to[RESIZED + i] = (uint64_t)(at + n);
        to[2 * RESIZED + i] = (uint64_t)f->r->axis[d].taps;
        to[3 * RESIZED + i] = (uint64_t)f->r->out[d];
        at += 2 * n;
    }
    to += 4 * RESIZED;
    *to++ = (uint64_t)f->outputs;
    *to++ = f->run > 1;
    to = put_axis(to, p->in[0]->dims[f->order[f->rank - 1]]);
    memcpy(to, &f->r->extrapolation, sizeof f->r->extrapolation);
}

static void put_table(uint32_t *to, const form *f)
{
    for (int i = 0; i < f->n_resized; i++) {
        int d = f->resized[i];
        size_t n = (size_t)(f->r->axis[d].taps * f->r->out[d]);
        memcpy(to, f->r->axis[d].from, n * sizeof *to);
        memcpy(to + n, f->r->axis[d].weight, n * sizeof *to);
        to += 2 * n;
    }
}

static unsigned blocks_of(const cm_problem *p, const form *f)
{
    if (!f->rows && !f->lines)
        return cm_gpu_blocks(&p->target, f->outputs / f->run);
    int64_t rows = f->outputs / p->out[0]->dims[f->resized[1]];
    int64_t each = MOST_ROWS;
    if (!f->copy)
        each = cm_min_i64(each, ROOM / p->in[0]->dims[f->resized[1]]);
    return cm_gpu_blocks(&p->target, cm_ceil_div(rows, each) * CM_GPU_THREADS);
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    form f;
    cm_buf text;
    uint32_t *table;
    state *s = cm_new(arena, state);
    (void)k;
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    (void)form_of(p, &f);
    if (f.outputs == 0)
        return CM_OK; /* no kernel, nothing to launch */
    s->n_after = f.n_after;
    memcpy(s->after, f.after, sizeof s->after);
    s->each = operand_words(&f);
    s->words = words_of(&f);
    CM_NEW_N(cx, arena, s->arguments, s->words, uint64_t);
    CM_NEW_N(cx, cx->scratch, table, f.words, uint32_t);
    put_arguments(s->arguments, p, &f);
    put_table(table, &f);
    CM_TRY(cm_gpu_table(cx, d, table, (size_t)f.words * sizeof *table, &s->table));
    s->grid = (cm_grid){.blocks = {blocks_of(p, &f)}, .threads = {CM_GPU_THREADS}};
    cm_buf_init(&text, cx->allocator);
    put_text(&text, p, &f);
    cm_kernel_text t = {.file = "resize",
                        .entry = f.lines  ? "resize_lines"
                                 : f.rows ? "resize_rows"
                                          : "resize"};
    return cm_gpu_kernel_with(cx, d, &text, t, 0, &s->kernel);
}

static cm_status run(const cm_run *r)
{
    const state *s = r->state;
    uint64_t arguments[CM_GPU_ARG_BYTES / sizeof(uint64_t)];
    if (!s->kernel)
        return CM_OK;
    memcpy(arguments, s->arguments, s->words * sizeof *arguments);
    arguments[0] = (uintptr_t)r->in[0];
    arguments[s->each] = (uintptr_t)r->out[0];
    for (int i = 0; i < s->n_after; i++)
        arguments[(size_t)(2 + i) * s->each] = (uintptr_t)r->operands[s->after[i]];
    arguments[s->words - SIZES_WORDS + 2] = (uintptr_t)s->table;
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){arguments});
}

const cm_tactic cm_cuda_resize_tactics[] = {
    {.name = "cuda_resize",
     .level = 750,
     .reject = reject,
     .cost = cost,
     .ready = ready,
     .run = run},
    {.name = "resize_strips",
     .level = 750,
     .reject = cm_cuda_resize_strips_reject,
     .knobs = cm_cuda_resize_strips_knobs,
     .cost = cm_cuda_resize_strips_cost,
     .ready = cm_cuda_resize_strips_ready,
     .run = cm_cuda_resize_strips_run},
};
const int cm_cuda_resize_count = CM_COUNT(cm_cuda_resize_tactics);
