/* resize.c -- RESIZE: nearest elements, or sums of weighted ones, along up to three adjacent axes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * In the order of memory the tensor is [outer][resized axes][inner]. One item of work is a row: the last
 * resized axis and what lies inside it. All but the last axis are blended into one line of the input's
 * length, then the line along itself. */
#include "cpu/resize.h"

#include <stdatomic.h>
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/cpu.h"
#include "cpu/epilogue.h"

enum { AXES = 3, PIECE_BYTES = 32 * 1024 };

/* The problem in the order of memory. */
typedef struct form {
    int n;          /* resized axes, at least 1 where anything is */
    int axis[AXES]; /* of the problem */
    int64_t in[AXES], out[AXES], outer, inner;
    int64_t cols; /* the innermost axis of the output, as epilogues see it */
    int n_col_axes;
} form;

static bool channels_last(const cm_problem *p)
{
    const cm_tensor *x = p->in[0], *y = p->out[0];
    if (x->rank < 3 || (cm_tensor_is_dense(x) && cm_tensor_is_dense(y)))
        return false;
    return cm_conv_layout_of(x) & cm_conv_layout_of(y) & CM_CONV_CHANNELS_LAST;
}

/* Epilogues count dims of 1 by their strides, so these must be plain too. */
static bool plain_strides(const cm_tensor *t)
{
    int64_t run = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->strides[d] != run)
            return false;
        run *= t->dims[d];
    }
    return true;
}

/* NULL, or why not. */
static const char *form_of(const cm_problem *p, form *f)
{
    const cm_resize *r = &p->as.resize;
    const bool last = channels_last(p);
    if (!last && !(cm_tensor_is_dense(p->in[0]) && cm_tensor_is_dense(p->out[0])))
        return "input and output are not both row-major or both channels-last";
    *f = (form){.outer = 1, .inner = 1, .cols = 1};
    for (int i = 0; i < r->rank; i++) {
        int d = !last || i == 0 ? i : i < r->rank - 1 ? i + 1 : 1;
        if (r->axis[d].taps && (f->n == AXES || f->inner > 1))
            return "the resized axes are not adjacent, or more than three";
        if (r->axis[d].taps) {
            f->axis[f->n] = d;
            f->in[f->n] = r->in[d];
            f->out[f->n++] = r->out[d];
        } else {
            *(f->n ? &f->inner : &f->outer) *= r->in[d];
        }
        f->cols = r->out[d];
    }
    f->n_col_axes = last ? cm_conv_channel_columns(p->out[0]) : 1;
    return f->n ? NULL : "no axis is resized";
}

static bool leaves_input(const cm_resize *r)
{
    for (int d = 0; d < r->rank; d++)
        for (int64_t o = 0; r->axis[d].taps && o < r->out[d]; o++)
            if (r->axis[d].from[o] < 0)
                return true;
    return false;
}

static const char *reject(const cm_problem *p)
{
    const cm_resize *r = &p->as.resize;
    const cm_dtype type = p->in[0]->dtype;
    const bool f32 = type == CM_F32 && p->out[0]->dtype == CM_F32;
    form f;
    const char *why = form_of(p, &f);
    if (why)
        return why;
    if (r->nearest && !f32) {
        if (type == CM_STR || cm_dtype_is_sub_byte(type) || type != p->out[0]->dtype)
            return "elements are not plain memory";
        if (p->epilogue || leaves_input(r))
            return "an epilogue, or positions outside the input, of what is not float32";
        return NULL;
    }
    if (!f32)
        return "interpolation is of float32";
    if (!p->epilogue)
        return NULL;
    if (!channels_last(p) && !plain_strides(p->out[0]))
        return "the output's strides are unusual";
    return cm_epilogue_reject(p, f.n_col_axes);
}

static int64_t volume(const int64_t *sizes, int n)
{
    return cm_dims_product(sizes, 0, n);
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_resize *r = &p->as.resize;
    form f;
    (void)form_of(p, &f);
    const int last = f.n - 1, taps = r->axis[f.axis[last]].taps;
    double rows = (double)f.outer * (double)volume(f.out, last), down = 0;
    double length = (double)f.inner * (double)f.out[last];
    double size = (double)cm_dtype_size(p->in[0]->dtype);
    double memory =
        size * ((double)f.outer * (double)volume(f.in, f.n) * (double)f.inner + rows * length) /
        cm_cpu_bytes_per_ns(&p->target);
    if (!r->nearest)
        for (int i = 0; i < last; i++)
            down = (down ? down : 1) * r->axis[f.axis[i]].taps;
    static const double wide[] = {2, 6, 12, 12}; /* products per nanosecond, in vectors */
    double vector = wide[p->target.level];
    double along = f.inner == 1 ? vector / 3 : r->nearest ? 2 * vector : vector;
    double work =
        rows * (down * (double)f.in[last] * (double)f.inner / vector + taps * length / along);
    double ns = 300 + (work > memory ? work : memory);
    return ns / cm_cpu_speedup(p, rows * length * size / PIECE_BYTES);
}

typedef struct job {
    const cm_run *run;
    const cm_resize *r;
    const cm_resize_kernels *kernels;
    form f;
    int64_t rows, line;         /* line: floats of workspace of a piece */
    bool has_epilogue, outside; /* outside: some positions are */
    cm_epilogue_plan epilogue;
    _Atomic int64_t next;
    int64_t batch;
} job;

static int64_t line_floats(const cm_problem *p, const form *f)
{
    if (p->as.resize.nearest || f->n == 1)
        return 0;
    return (f->in[f->n - 1] * f->inner + 15) / 16 * 16;
}

static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    form f;
    (void)form_of(p, &f);
    return (size_t)line_floats(p, &f) * sizeof(float) * (size_t)(p->threads > 1 ? p->threads : 1);
}

/* Where a row's positions along the outer resized axes are. */
static void places(const form *f, int64_t row, int64_t *at)
{
    for (int i = f->n - 2; i >= 0; i--) {
        at[i] = row % f->out[i];
        row /= f->out[i];
    }
}

/* Rows of the input that are added up, and with what weight. */
typedef struct blending {
    int n;
    bool begun;
    const float *rows[CM_BLEND_ROWS];
    float weight[CM_BLEND_ROWS];
} blending;

static void flush(const job *j, blending *b, float *line)
{
    if (b->n == 0 && b->begun)
        return;
    const int64_t n = j->f.in[j->f.n - 1] * j->f.inner;
    if (b->n == 0)
        memset(line, 0, (size_t)n * sizeof *line);
    else
        j->kernels->blend(b->n, b->rows, b->weight, n, b->begun, line);
    b->begun = true;
    b->n = 0;
}

/* The line of a row: every axis but the last done. NULL: it lies outside the input. */
static const float *line_of(const job *j, int64_t row, float *line)
{
    const form *f = &j->f;
    const cm_resize *r = j->r;
    const int64_t step = f->in[f->n - 1] * f->inner, outer_rows = volume(f->in, f->n - 1);
    const float *x =
        (const float *)j->run->in[0] + row / volume(f->out, f->n - 1) * outer_rows * step;
    int64_t at[AXES] = {0}, taps = 1;
    places(f, row, at);
    if (f->n == 1)
        return x;
    for (int i = 0; i < f->n - 1; i++) {
        if (r->axis[f->axis[i]].from[at[i]] < 0)
            return NULL;
        taps *= r->axis[f->axis[i]].taps;
    }
    blending b = {0};
    for (int64_t t = 0; t < taps; t++) {
        float weight = 1;
        int64_t from = 0, rest = t;
        for (int i = f->n - 2; i >= 0; i--) {
            const int d = f->axis[i];
            const int64_t tap = rest % r->axis[d].taps * f->out[i] + at[i];
            rest /= r->axis[d].taps;
            weight *= r->axis[d].weight[tap];
            from += r->axis[d].from[tap] * (i == f->n - 2 ? 1 : f->in[1]);
        }
        if (weight == 0)
            continue;
        b.rows[b.n] = x + from * step;
        b.weight[b.n++] = weight;
        if (b.n == CM_BLEND_ROWS)
            flush(j, &b, line);
    }
    if (b.n == 1 && b.weight[0] == 1 && !b.begun)
        return b.rows[0];
    flush(j, &b, line);
    return line;
}

static void fill(float *y, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = value;
}

/* Positions of the last axis from pixels of `inner` elements. */
static void along_pixels(const job *j, const float *line, float *y)
{
    const form *f = &j->f;
    const int d = f->axis[f->n - 1], taps = j->r->axis[d].taps;
    const int64_t out = f->out[f->n - 1];
    const int32_t *from = j->r->axis[d].from;
    const float *weight = j->r->axis[d].weight;
    for (int64_t o = 0; o < out; o++, y += f->inner) {
        blending b = {0};
        if (from[o] < 0) {
            fill(y, f->inner, j->r->extrapolation);
            continue;
        }
        for (int t = 0; t <= taps; t++) {
            if (t == taps ? b.n > 0 : b.n == CM_BLEND_ROWS) {
                j->kernels->blend(b.n, b.rows, b.weight, f->inner, b.begun, y);
                b.begun = true;
                b.n = 0;
            }
            if (t < taps && weight[t * out + o] != 0) {
                b.rows[b.n] = line + from[t * out + o] * f->inner;
                b.weight[b.n++] = weight[t * out + o];
            }
        }
        if (!b.begun)
            fill(y, f->inner, 0);
    }
}

static void interpolate_row(const job *j, int64_t row, float *line)
{
    const form *f = &j->f;
    const int64_t out = f->out[f->n - 1];
    const int d = f->axis[f->n - 1];
    float *y = (float *)j->run->out[0] + row * out * f->inner;
    const float *x = line_of(j, row, line);
    if (!x) {
        fill(y, out * f->inner, j->r->extrapolation);
    } else if (f->inner > 1) {
        along_pixels(j, x, y);
    } else {
        j->kernels->along(x, f->in[f->n - 1], out, j->r->axis[d].taps, j->r->axis[d].from,
                          j->r->axis[d].weight, y);
        for (int64_t o = 0; j->outside && o < out; o++)
            if (j->r->axis[d].from[o] < 0)
                y[o] = j->r->extrapolation;
    }
}

#define PICK(type)                                                                                 \
    do {                                                                                           \
        const type *from_ = (const void *)x;                                                       \
        type *to_ = (void *)y;                                                                     \
        for (int64_t o = 0; o < n; o++)                                                            \
            to_[o] = from_[from[o] < 0 ? 0 : from[o]];                                             \
    } while (0)

/* y[o] = x[from[o]], pixels of `size` bytes. */
static void pick(const char *x, const int32_t *from, int64_t n, size_t size, char *y)
{
    switch (size) {
    case 1:
        PICK(uint8_t);
        break;
    case 2:
        PICK(uint16_t);
        break;
    case 8:
        PICK(uint64_t);
        break;
    default:
        for (int64_t o = 0; o < n; o++)
            memcpy(y + (size_t)o * size, x + (size_t)(from[o] < 0 ? 0 : from[o]) * size, size);
    }
}

static void outside_nearest(const job *j, int64_t row, bool all)
{
    const form *f = &j->f;
    const int32_t *from = j->r->axis[f->axis[f->n - 1]].from;
    float *y = (float *)j->run->out[0] + row * f->out[f->n - 1] * f->inner;
    for (int64_t o = 0; o < f->out[f->n - 1]; o++)
        if (all || from[o] < 0)
            fill(y + o * f->inner, f->inner, j->r->extrapolation);
}

/* Where a row comes from, counted in rows of the input; -1: outside. */
static int64_t source_row(const job *j, int64_t row)
{
    const form *f = &j->f;
    int64_t at[AXES] = {0}, from = row / volume(f->out, f->n - 1);
    places(f, row, at);
    for (int i = 0; i < f->n - 1; i++) {
        int32_t source = j->r->axis[f->axis[i]].from[at[i]];
        if (source < 0)
            return -1;
        from = from * f->in[i] + source;
    }
    return from;
}

/* Neighbouring rows often have one source: the second is a copy of the first. */
static void nearest_rows(const job *j, int64_t begin, int64_t end)
{
    const form *f = &j->f;
    const int last = f->n - 1;
    const size_t size = cm_dtype_size(j->run->p->in[0]->dtype) * (size_t)f->inner;
    const size_t bytes = (size_t)f->out[last] * size;
    int64_t done = -1;
    for (int64_t row = begin; row < end; row++) {
        char *y = (char *)j->run->out[0] + (size_t)row * bytes;
        int64_t from = source_row(j, row);
        if (from < 0) {
            outside_nearest(j, row, true);
            done = -1;
            continue;
        }
        if (from == done) {
            memcpy(y, y - bytes, bytes);
            continue;
        }
        const char *x = (const char *)j->run->in[0] + (size_t)(from * f->in[last]) * size;
        const int32_t *sources = j->r->axis[f->axis[last]].from;
        if (size == sizeof(float))
            j->kernels->nearest((const float *)x, f->in[last], f->out[last], sources, (float *)y);
        else
            pick(x, sources, f->out[last], size, y);
        if (j->outside)
            outside_nearest(j, row, false);
        done = from;
    }
}

/* Takes rows until there are none, with the line of this piece. */
static void run_rows(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    const int64_t length = j->f.out[j->f.n - 1] * j->f.inner;
    for (int64_t piece = begin; piece < end; piece++) {
        float *line = (float *)j->run->workspace + piece * j->line;
        for (int64_t from; (from = atomic_fetch_add(&j->next, j->batch)) < j->rows;) {
            int64_t to = cm_min_i64(from + j->batch, j->rows);
            if (j->r->nearest)
                nearest_rows(j, from, to);
            for (int64_t row = from; row < to && !j->r->nearest; row++)
                interpolate_row(j, row, line);
            if (j->has_epilogue)
                cm_epilogue_tile(&j->epilogue, from * length / j->f.cols, 0,
                                 (to - from) * length / j->f.cols, j->f.cols,
                                 (const float *)j->run->out[0] + from * length, j->f.cols);
        }
    }
}

const cm_resize_kernels *cm_resize_kernels_at(int level)
{
    return level >= CM_ISA_AVX512 ? &cm_cpu_resize__avx512
           : level >= CM_ISA_AVX2 ? &cm_cpu_resize__avx2
                                  : &cm_cpu_resize__generic;
}

static cm_status run(const cm_run *r)
{
    const cm_problem *p = r->p;
    job j = {.run = r, .r = &p->as.resize, .has_epilogue = p->epilogue != NULL};
    (void)form_of(p, &j.f);
    j.kernels = cm_resize_kernels_at(p->target.level);
    j.outside = leaves_input(j.r);
    j.line = line_floats(p, &j.f);
    j.rows = j.f.outer * volume(j.f.out, j.f.n - 1);
    int64_t bytes = j.f.out[j.f.n - 1] * j.f.inner * (int64_t)cm_dtype_size(p->in[0]->dtype);
    j.batch = PIECE_BYTES / (bytes + 1) + 1;
    if (j.has_epilogue)
        cm_epilogue_init(&j.epilogue, r, j.f.n_col_axes);
    int64_t threads = p->threads > 1 ? p->threads : 1;
    cm_parallel(r->threads, cm_min_i64(threads, cm_ceil_div(j.rows, j.batch)), 1, run_rows, &j);
    return CM_OK;
}

static const cm_tactic rows[] = {
    {.name = "resize_rows",
     .level = CM_ISA_GENERIC,
     .reject = reject,
     .cost = cost,
     .workspace = workspace,
     .run = run},
};

const cm_cpu_table cm_cpu_resize = {rows, CM_COUNT(rows)};
