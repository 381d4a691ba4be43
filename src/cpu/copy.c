/* copy.c -- strided copies: axes sorted, merged, and split into units of work.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/copy.h"

#include <string.h>

#include "base/cpu.h"
#include "base/size.h"
#include "cpu/copy_kernels.h"

/* A unit of work is about this long: a few microseconds, and in L1 and L2. */
enum { UNIT_BYTES = 32 * 1024, THREAD_BYTES = 64 * 1024, LINE = 64 };

typedef struct {
    int64_t n, from, to; /* steps in bytes */
} axis;

static int64_t magnitude(int64_t v)
{
    return v < 0 ? -v : v;
}

/* Axes of size 1 left out, the destination's steps made positive, outermost first. False: empty. */
static bool sorted_axes(cm_copy *c, int rank, const int64_t *dims, const int64_t *from,
                        const int64_t *to, axis *a, int *n_axes)
{
    int n = 0;
    int64_t size = (int64_t)c->elem_bytes;
    for (int d = 0; d < rank; d++) {
        if (dims[d] <= 0)
            return false;
        if (dims[d] == 1)
            continue;
        axis x = {dims[d], from[d] * size, to[d] * size};
        if (x.to < 0) {
            c->from += (x.n - 1) * x.from;
            c->to += (x.n - 1) * x.to;
            x.from = -x.from;
            x.to = -x.to;
        }
        int at = n++;
        for (; at > 0 && (a[at - 1].to < x.to ||
                          (a[at - 1].to == x.to && magnitude(a[at - 1].from) < magnitude(x.from)));
             at--)
            a[at] = a[at - 1];
        a[at] = x;
    }
    *n_axes = n;
    return true;
}

static int merge_axes(axis *a, int n)
{
    int out = 0;
    for (int i = 0; i < n; i++) {
        axis *last = out > 0 ? &a[out - 1] : NULL;
        if (last && last->from == a[i].from * a[i].n && last->to == a[i].to * a[i].n) {
            a[i].n *= last->n;
            *last = a[i];
        } else {
            a[out++] = a[i];
        }
    }
    return out;
}

/* A contiguous innermost run of 2, 4, 8 or 16 bytes becomes one element. */
static int widen(cm_copy *c, axis *a, int n)
{
    int64_t size = (int64_t)c->elem_bytes;
    if (n == 0 || a[n - 1].to != size || a[n - 1].from != size || a[n - 1].n > 16)
        return n;
    int64_t run = a[n - 1].n * size;
    if (run != 2 && run != 4 && run != 8 && run != 16)
        return n;
    c->elem_bytes = (size_t)run;
    return n - 1;
}

/* Takes axis `i` out of the list. */
static axis take(axis *a, int *n, int i)
{
    axis x = a[i];
    memmove(&a[i], &a[i + 1], (size_t)(*n - i - 1) * sizeof *a);
    (*n)--;
    return x;
}

/* Which axis has adjacent elements in the source, -1: none; the innermost does not count. */
static int source_axis(const axis *a, int n, int64_t size)
{
    for (int i = n - 2; i >= 0; i--)
        if (a[i].from == size)
            return i;
    return -1;
}

/* Picks columns and rows among the axes, and what is done with them. */
static void choose(cm_copy *c, axis *a, int *n)
{
    int64_t size = (int64_t)c->elem_bytes;
    c->rows = c->cols = 1;
    c->from_row = c->to_row = c->from_col = c->to_col = 0;
    c->kind = CM_COPY_ELEMENTS;
    if (*n == 0)
        return;
    axis col = a[*n - 1];
    int other = source_axis(a, *n, size);
    if (col.to == size && col.from == size)
        c->kind = CM_COPY_RUNS;
    else if (col.to == size && other >= 0 && size <= 8)
        c->kind = CM_COPY_TRANSPOSE;
    else if (col.to == size && col.from == 0)
        c->kind = CM_COPY_FILL;
    if (c->kind != CM_COPY_TRANSPOSE)
        other = *n - 2;
    (*n)--;
    c->cols = col.n;
    c->from_col = col.from;
    c->to_col = col.to;
    if (other >= 0) {
        axis row = take(a, n, other);
        c->rows = row.n;
        c->from_row = row.from;
        c->to_row = row.to;
    }
}

/* Blocks of rows, or of columns where there are few rows, of about UNIT_BYTES. */
static void split(cm_copy *c)
{
    int64_t size = (int64_t)c->elem_bytes, square = LINE / size;
    bool turned = c->kind == CM_COPY_TRANSPOSE;
    int64_t enough = turned ? 4 * square : 8;
    c->by_cols = c->rows < enough && c->cols > c->rows;
    int64_t n = c->by_cols ? c->cols : c->rows, other = c->by_cols ? c->rows : c->cols;
    c->block = cm_max_i64(UNIT_BYTES / cm_max_i64(other * size, 1), 1);
    /* whole lines; when there is enough of them, several beside each other */
    if (turned)
        c->block = cm_max_i64(c->block, n >= 32 * square ? 4 * square : square);
    if (turned || c->by_cols)
        c->block = cm_ceil_div(c->block, square) * square;
    c->block = cm_min_i64(c->block, n);
    c->n_blocks = cm_ceil_div(n, c->block);
    c->unit_bytes = c->block * other * size;
    c->units = c->n_blocks;
    for (int d = 0; d < c->rank; d++)
        c->units *= c->dims[d];
}

void cm_copy_init(cm_copy *c, int level, size_t elem_bytes, int rank, const int64_t *dims,
                  const void *from, const int64_t *from_strides, void *to,
                  const int64_t *to_strides)
{
    axis a[CM_MAX_RANK];
    int n;
    c->kind = CM_COPY_NONE;
    c->level = level;
    c->elem_bytes = elem_bytes;
    c->from = from;
    c->to = to;
    c->units = c->rank = 0;
    if (!sorted_axes(c, rank, dims, from_strides, to_strides, a, &n))
        return;
    n = merge_axes(a, n);
    n = widen(c, a, n);
    choose(c, a, &n);
    c->rank = n;
    for (int d = 0; d < n; d++) {
        c->dims[d] = a[d].n;
        c->from_step[d] = a[d].from;
        c->to_step[d] = a[d].to;
    }
    split(c);
}

typedef uint16_t __attribute__((may_alias, aligned(1))) elem_2;
typedef uint32_t __attribute__((may_alias, aligned(1))) elem_4;
typedef uint64_t __attribute__((may_alias, aligned(1))) elem_8;
typedef struct __attribute__((packed, may_alias)) {
    uint64_t v[2];
} elem_16;
typedef uint8_t __attribute__((may_alias)) elem_1;

/* What a unit does: rows and cols as far as they are in it. */
typedef struct {
    const char *from;
    char *to;
    int64_t rows, cols;
} tile;

#define ELEMENTS(E)                                                                                \
    static void elements_##E(const cm_copy *c, const tile *t)                                      \
    {                                                                                              \
        for (int64_t r = 0; r < t->rows; r++) {                                                    \
            const char *from = t->from + r * c->from_row;                                          \
            char *to = t->to + r * c->to_row;                                                      \
            int64_t i = 0;                                                                         \
            for (; i + 4 <= t->cols; i += 4) {                                                     \
                elem_##E v0 = *(const elem_##E *)from;                                             \
                elem_##E v1 = *(const elem_##E *)(from + c->from_col);                             \
                elem_##E v2 = *(const elem_##E *)(from + 2 * c->from_col);                         \
                elem_##E v3 = *(const elem_##E *)(from + 3 * c->from_col);                         \
                *(elem_##E *)to = v0;                                                              \
                *(elem_##E *)(to + c->to_col) = v1;                                                \
                *(elem_##E *)(to + 2 * c->to_col) = v2;                                            \
                *(elem_##E *)(to + 3 * c->to_col) = v3;                                            \
                from += 4 * c->from_col;                                                           \
                to += 4 * c->to_col;                                                               \
            }                                                                                      \
            for (; i < t->cols; i++, from += c->from_col, to += c->to_col)                         \
                *(elem_##E *)to = *(const elem_##E *)from;                                         \
        }                                                                                          \
    }                                                                                              \
    static void fill_##E(const cm_copy *c, const tile *t)                                          \
    {                                                                                              \
        for (int64_t r = 0; r < t->rows; r++) {                                                    \
            elem_##E v = *(const elem_##E *)(t->from + r * c->from_row);                           \
            elem_##E *to = (elem_##E *)(t->to + r * c->to_row);                                    \
            for (int64_t i = 0; i < t->cols; i++)                                                  \
                to[i] = v;                                                                         \
        }                                                                                          \
    }
ELEMENTS(1)
ELEMENTS(2)
ELEMENTS(4)
ELEMENTS(8)
ELEMENTS(16)

#define BY_SIZE(fn, size, ...)                                                                     \
    switch (size) {                                                                                \
    case 1:                                                                                        \
        fn##_1(__VA_ARGS__);                                                                       \
        break;                                                                                     \
    case 2:                                                                                        \
        fn##_2(__VA_ARGS__);                                                                       \
        break;                                                                                     \
    case 4:                                                                                        \
        fn##_4(__VA_ARGS__);                                                                       \
        break;                                                                                     \
    case 8:                                                                                        \
        fn##_8(__VA_ARGS__);                                                                       \
        break;                                                                                     \
    default:                                                                                       \
        fn##_16(__VA_ARGS__);                                                                      \
        break;                                                                                     \
    }

static void run_tile(const cm_copy *c, const tile *t)
{
    bool wide = c->level >= CM_ISA_AVX2;
    switch (c->kind) {
    case CM_COPY_RUNS:
        (wide ? cm_cpu_runs__avx2 : cm_cpu_runs__generic)(t->rows, (size_t)t->cols * c->elem_bytes,
                                                          t->from, c->from_row, t->to, c->to_row);
        break;
    case CM_COPY_TRANSPOSE:
        (wide ? cm_cpu_transpose__avx2 : cm_cpu_transpose__generic)(
            c->elem_bytes, t->rows, t->cols, t->from, c->from_col, t->to, c->to_row);
        break;
    case CM_COPY_FILL:
        BY_SIZE(fill, c->elem_bytes, c, t);
        break;
    default:
        BY_SIZE(elements, c->elem_bytes, c, t);
        break;
    }
}

void cm_copy_units(const cm_copy *c, int64_t begin, int64_t end)
{
    int64_t at[CM_MAX_RANK], block = begin % c->n_blocks, outer = begin / c->n_blocks;
    const char *from = c->from;
    char *to = c->to;
    for (int d = c->rank - 1; d >= 0; d--) {
        at[d] = outer % c->dims[d];
        outer /= c->dims[d];
        from += at[d] * c->from_step[d];
        to += at[d] * c->to_step[d];
    }
    for (int64_t u = begin; u < end; u++) {
        int64_t first = block * c->block;
        tile t = {from, to, c->rows, c->cols};
        if (c->by_cols) {
            t.from += first * c->from_col;
            t.to += first * c->to_col;
            t.cols = cm_min_i64(c->block, c->cols - first);
        } else {
            t.from += first * c->from_row;
            t.to += first * c->to_row;
            t.rows = cm_min_i64(c->block, c->rows - first);
        }
        run_tile(c, &t);
        if (++block < c->n_blocks)
            continue;
        block = 0;
        for (int d = c->rank - 1; d >= 0; d--) {
            from += c->from_step[d];
            to += c->to_step[d];
            if (++at[d] < c->dims[d])
                break;
            from -= c->dims[d] * c->from_step[d];
            to -= c->dims[d] * c->to_step[d];
            at[d] = 0;
        }
    }
}

static void run_range(void *arg, int64_t begin, int64_t end)
{
    cm_copy_units(arg, begin, end);
}

void cm_copy_run(const cm_copy *c, cm_threads *t)
{
    if (c->kind == CM_COPY_NONE)
        return;
    if (!t || c->units == 1 || c->units * c->unit_bytes < 2 * THREAD_BYTES) {
        cm_copy_units(c, 0, c->units);
        return;
    }
    int64_t grain = cm_ceil_div(THREAD_BYTES, cm_max_i64(c->unit_bytes, 1));
    cm_parallel(t, c->units, grain, run_range, (void *)c);
}

void cm_copy_strided(int level, cm_threads *t, size_t elem_bytes, int rank, const int64_t *dims,
                     const void *from, const int64_t *from_strides, void *to,
                     const int64_t *to_strides)
{
    cm_copy c;
    cm_copy_init(&c, level, elem_bytes, rank, dims, from, from_strides, to, to_strides);
    cm_copy_run(&c, t);
}
