/* gather.c -- GATHER: rows and elements picked by indices.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Indices are checked before anything is copied, so that the copying loops cannot fail and may run on
 * threads. */
#include <string.h>

#include "base/size.h"
#include "cpu/cpu.h"

enum { THREAD_BYTES = 32 * 1024, AHEAD = 4, LINE = 64 };

static const char *reject(const cm_problem *p)
{
    const cm_gather *g = &p->as.gather;
    const cm_tensor *x = p->in[g->data], *index = p->in[g->indices];
    if (x->dtype == CM_STR || cm_dtype_is_sub_byte(x->dtype))
        return "elements are not plain memory";
    if (index->dtype != CM_I32 && index->dtype != CM_I64)
        return "indices are neither i32 nor i64";
    if (!cm_tensor_is_dense(x) || !cm_tensor_is_dense(index) || !cm_tensor_is_dense(p->out[0]))
        return "an operand is strided";
    return NULL;
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    double elems = (double)cm_tensor_elems(p->out[0]);
    double bytes = elems * (double)cm_dtype_size(p->out[0]->dtype);
    double rows = p->as.gather.kind == CM_GATHER_ELEMENTS
                      ? elems
                      : elems / (double)cm_max_i64(p->as.gather.inner, 1);
    double ns = 2 * rows + 2 * bytes / cm_cpu_bytes_per_ns(&p->target);
    return 30 + ns / cm_cpu_speedup(p, bytes / THREAD_BYTES);
}

typedef struct {
    const cm_gather *g;
    const char *from;
    char *to;
    const void *indices;
    bool narrow; /* indices are i32 */
    size_t elem_bytes;
    const cm_tensor *x, *index;
} job;

static inline int64_t index_at(const job *j, int64_t i)
{
    return j->narrow ? ((const int32_t *)j->indices)[i] : ((const int64_t *)j->indices)[i];
}

static inline int64_t wrapped(int64_t i, int64_t size)
{
    return i < 0 ? i + size : i;
}

/* Indices at, at + step, ...: all inside an axis of `size`? */
static cm_status check(cm_ctx *cx, const job *j, int64_t at, int64_t step, int64_t size, int axis)
{
    int64_t n = cm_tensor_elems(j->index);
    for (int64_t i = at; i < n; i += step) {
        int64_t v = index_at(j, i);
        if (v < -size || v >= size)
            return cm_fail(cx, CM_ERR_DATA,
                           "index %lld at position %lld is out of range for axis %d of size %lld",
                           (long long)v, (long long)i, axis, (long long)size);
    }
    return CM_OK;
}

static inline void copy_row(char *to, const char *from, size_t bytes)
{
    switch (bytes) {
    case 1:
        *to = *from;
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    default:
        memcpy(to, from, bytes);
    }
}

/* The rows come from all over a table: the beginning of a later one is asked for early. */
static void pick_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_gather *g = j->g;
    size_t bytes = (size_t)g->inner * j->elem_bytes;
    int64_t o = begin / g->n_indices, i = begin % g->n_indices;
    char *to = j->to + (size_t)begin * bytes;
    for (int64_t r = begin; r < end; r++, to += bytes) {
        const char *table = j->from + (size_t)(o * g->axis) * bytes;
        if (bytes >= LINE && i + AHEAD < g->n_indices) {
            const char *next = table + (size_t)wrapped(index_at(j, i + AHEAD), g->axis) * bytes;
            for (size_t b = 0; b < bytes && b < 8 * LINE; b += LINE)
                __builtin_prefetch(next + b);
        }
        copy_row(to, table + (size_t)wrapped(index_at(j, i), g->axis) * bytes, bytes);
        if (++i == g->n_indices) {
            i = 0;
            o++;
        }
    }
}

/* Rows of the output along its last axis. */
static void pick_elements(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_tensor *x = j->x, *y = j->index; /* the output is shaped as the indices */
    int last = y->rank - 1, axis = j->g->axis_index;
    int64_t row = y->dims[last], size = (int64_t)j->elem_bytes;
    int64_t step = axis == last ? 0 : size, pick = x->strides[axis] * size;
    for (int64_t r = begin; r < end; r++) {
        int64_t rest = r, base = 0;
        for (int k = last - 1; k >= 0; k--) {
            base += k == axis ? 0 : rest % y->dims[k] * x->strides[k];
            rest /= y->dims[k];
        }
        const char *from = j->from + base * size;
        char *to = j->to + r * row * size;
        for (int64_t i = 0; i < row; i++)
            copy_row(to + i * size,
                     from + i * step + wrapped(index_at(j, r * row + i), j->g->axis) * pick,
                     j->elem_bytes);
    }
}

static void pick_tuples(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_gather *g = j->g;
    const cm_tensor *x = j->x;
    int b = g->batch_axes;
    int64_t batches = cm_dims_product(x->dims, 0, b), per_batch = g->n_indices / batches;
    int64_t batch_elems = cm_dims_product(x->dims, b, x->rank);
    size_t bytes = (size_t)g->inner * j->elem_bytes;
    for (int64_t t = begin; t < end; t++) {
        int64_t at = t / per_batch * batch_elems;
        for (int k = 0; k < g->depth; k++)
            at += wrapped(index_at(j, t * g->depth + k), x->dims[b + k]) * x->strides[b + k];
        copy_row(j->to + (size_t)t * bytes, j->from + (size_t)at * j->elem_bytes, bytes);
    }
}

static cm_status run(const cm_run *r)
{
    const cm_gather *g = &r->p->as.gather;
    const cm_tensor *x = r->p->in[g->data], *index = r->p->in[g->indices];
    job j = {.g = g,
             .from = r->in[g->data],
             .to = r->out[0],
             .indices = r->in[g->indices],
             .narrow = index->dtype == CM_I32,
             .elem_bytes = cm_dtype_size(x->dtype),
             .x = x,
             .index = index};
    int64_t bytes = g->inner * (int64_t)j.elem_bytes;
    if (g->kind == CM_GATHER_TUPLES) {
        for (int k = 0; k < g->depth; k++)
            CM_TRY(check(r->cx, &j, k, g->depth, x->dims[g->batch_axes + k], g->batch_axes + k));
    } else {
        CM_TRY(check(r->cx, &j, 0, 1, g->axis, g->axis_index));
    }
    if (cm_tensor_elems(r->p->out[0]) == 0)
        return CM_OK;
    int64_t grain = THREAD_BYTES / cm_max_i64(bytes, 8) + 1;
    if (g->kind == CM_GATHER_ROWS) {
        cm_parallel(r->threads, g->outer * g->n_indices, grain, pick_rows, &j);
    } else if (g->kind == CM_GATHER_TUPLES) {
        cm_parallel(r->threads, g->n_indices, grain, pick_tuples, &j);
    } else {
        int64_t row = index->rank ? index->dims[index->rank - 1] : 1;
        cm_parallel(r->threads, g->n_indices / row, THREAD_BYTES / 8 / row + 1, pick_elements, &j);
    }
    return CM_OK;
}

static const cm_tactic rows[] = {
    {.name = "gather", .level = CM_ISA_GENERIC, .reject = reject, .cost = cost, .run = run},
};

const cm_cpu_table cm_cpu_gather = {rows, CM_COUNT(rows)};
