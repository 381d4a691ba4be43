/* sort.c -- SORT: the first of rows, running sums.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/sort.h"

#include <stdatomic.h>
#include <string.h>

#include "base/size.h"
#include "cpu/cpu.h"

enum { GRAIN = 8192, LANES = 64, TOGETHER = 4 };

static int64_t threads_of(const cm_problem *p)
{
    return p->threads > 1 ? p->threads : 1;
}

/* ---- TopK --------------------------------------------------------------------------------------- */

static const char *reject_top(const cm_problem *p)
{
    const cm_sort *s = &p->as.sort;
    if (s->kind != CM_SORT_TOP_K)
        return "not TopK";
    if (p->in[0]->dtype != CM_F32)
        return "the input is not float32";
    if (s->n > INT32_MAX)
        return "rows are too long";
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o] && !cm_tensor_is_dense(p->out[o]))
            return "an output is strided";
    return cm_tensor_is_dense(p->in[0]) ? NULL : "the input is strided";
}

static double cost_top(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_sort *s = &p->as.sort;
    double rows = (double)(s->outer * s->inner), n = (double)s->n, top = (double)s->k;
    double ns = top <= 64 ? n * 0.3 + top * 30 : n * 3 + top * 10;
    return 50 + rows * ns / cm_cpu_speedup(p, rows);
}

/* For each thread: keys of a row twice, the order of its first, and the row where it is not contiguous. */
static size_t room_of(const cm_problem *p)
{
    const cm_sort *s = &p->as.sort;
    size_t keys = (size_t)(2 * s->n + s->k) * sizeof(uint64_t);
    return (keys + (s->inner > 1 ? (size_t)s->n * sizeof(float) : 0) + 63) & ~(size_t)63;
}

static size_t workspace_top(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    return room_of(p) * (size_t)threads_of(p);
}

typedef struct {
    const cm_run *r;
    const cm_sort *s;
    atomic_llong next;
    int64_t rows, rows_at_once;
} top_job;

static void top_row(const top_job *j, int64_t row, char *room)
{
    const cm_sort *s = j->s;
    uint64_t *keys = (uint64_t *)room, *order = keys + 2 * s->n;
    int64_t outer = row / s->inner, column = row % s->inner;
    const float *x = (const float *)j->r->in[0] + outer * s->n * s->inner + column;
    if (s->inner > 1) {
        float *line = (float *)(order + s->k);
        for (int64_t i = 0; i < s->n; i++)
            line[i] = x[i * s->inner];
        x = line;
    }
    cm_top_k(j->r->p->target.level, x, s->n, s->k, s->largest, keys, order);
    int64_t to = outer * s->k * s->inner + column;
    float *values = j->r->p->out[0] ? j->r->out[0] : NULL;
    int64_t *indices = j->r->p->n_out > 1 && j->r->p->out[1] ? j->r->out[1] : NULL;
    for (int64_t i = 0; i < s->k; i++, to += s->inner) {
        int64_t at = (int64_t)(order[i] & UINT32_MAX);
        if (values)
            values[to] = x[at];
        if (indices)
            indices[to] = at;
    }
}

/* Each slot has room of its own and takes rows until there are none. */
static void top_slots(void *arg, int64_t begin, int64_t end)
{
    top_job *j = arg;
    for (int64_t slot = begin; slot < end; slot++) {
        char *room = (char *)j->r->workspace + (size_t)slot * room_of(j->r->p);
        int64_t row;
        while ((row = atomic_fetch_add(&j->next, j->rows_at_once)) < j->rows)
            for (int64_t i = row; i < cm_min_i64(j->rows, row + j->rows_at_once); i++)
                top_row(j, i, room);
    }
}

static cm_status run_top(const cm_run *r)
{
    const cm_sort *s = &r->p->as.sort;
    top_job j = {.r = r, .s = s, .rows = s->outer * s->inner};
    if (s->n == 0 || s->k == 0 || j.rows == 0)
        return CM_OK;
    j.rows_at_once = GRAIN / s->n + 1;
    bool alone = j.rows <= j.rows_at_once;
    cm_parallel(alone ? NULL : r->threads, alone ? 1 : threads_of(r->p), 1, top_slots, &j);
    return CM_OK;
}

/* ---- CumSum ------------------------------------------------------------------------------------- */

static const char *reject_sums(const cm_problem *p)
{
    if (p->as.sort.kind != CM_SORT_CUM_SUM || p->as.sort.product)
        return "not CumSum";
    cm_dtype t = p->in[0]->dtype;
    if (t != CM_F32 && t != CM_I64 && t != CM_I32)
        return "neither float32 nor 32 or 64-bit integers";
    if (!cm_tensor_is_dense(p->in[0]) || !cm_tensor_is_dense(p->out[0]))
        return "an operand is strided";
    return NULL;
}

static double cost_sums(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_sort *s = &p->as.sort;
    double n = (double)(s->outer * s->n * s->inner);
    return 50 + n * 0.4 / cm_cpu_speedup(p, n / GRAIN);
}

typedef struct {
    const cm_sort *s;
    int level;
    const void *x;
    void *y;
} sums_job;

/* m sums side by side, `apart` elements from each other, steps of `step`: float32 is summed in double, as
 * the reference does; integers wrap. */
#define RUNNING(name, type, sum_type)                                                              \
    static inline void name##_lanes(const sums_job *j, int64_t at, int64_t apart, int m)           \
    {                                                                                              \
        const type *x = (const type *)j->x + at;                                                   \
        type *y = (type *)j->y + at;                                                               \
        sum_type sum[LANES];                                                                       \
        int64_t step = j->s->reverse ? -j->s->inner : j->s->inner;                                 \
        if (j->s->reverse)                                                                         \
            x += (j->s->n - 1) * j->s->inner, y += (j->s->n - 1) * j->s->inner;                    \
        for (int i = 0; i < m; i++)                                                                \
            sum[i] = 0;                                                                            \
        for (int64_t l = 0; l < j->s->n; l++, x += step, y += step)                                \
            for (int i = 0; i < m; i++) {                                                          \
                sum_type before = sum[i];                                                          \
                sum[i] += (sum_type)x[i * apart];                                                  \
                y[i * apart] = (type)(j->s->exclusive ? before : sum[i]);                          \
            }                                                                                      \
    }                                                                                              \
    static void name(void *arg, int64_t begin, int64_t end)                                        \
    {                                                                                              \
        const sums_job *j = arg;                                                                   \
        int64_t inner = j->s->inner, line = j->s->n * inner;                                       \
        for (int64_t r = begin; r < end;) {                                                        \
            if (inner == 1) {                                                                      \
                bool few = end - r < TOGETHER;                                                     \
                if (few)                                                                           \
                    name##_lanes(j, r *line, line, 1);                                             \
                else                                                                               \
                    name##_lanes(j, r *line, line, TOGETHER);                                      \
                r += few ? 1 : TOGETHER;                                                           \
                continue;                                                                          \
            }                                                                                      \
            int64_t column = r % inner,                                                            \
                    n = cm_min_i64(cm_min_i64(inner - column, end - r), LANES);                    \
            name##_lanes(j, r / inner * line + column, 1, (int)n);                                 \
            r += n;                                                                                \
        }                                                                                          \
    }
RUNNING(sums_f32, float, double)
RUNNING(sums_i64, int64_t, uint64_t)
RUNNING(sums_i32, int32_t, uint32_t)

/* Columns side by side. */
static void sums_columns(void *arg, int64_t begin, int64_t end)
{
    const sums_job *j = arg;
    const cm_sort *s = j->s;
    cm_running_fn *running = j->level < CM_ISA_AVX2     ? cm_cpu_running__generic
                             : j->level < CM_ISA_AVX512 ? cm_cpu_running__avx2
                                                        : cm_cpu_running__avx512;
    for (int64_t r = begin, n; r < end; r += n) {
        int64_t column = r % s->inner, at = r / s->inner * s->n * s->inner + column;
        n = cm_min_i64(s->inner - column, end - r);
        if (s->reverse)
            at += (s->n - 1) * s->inner;
        running((const float *)j->x + at, (float *)j->y + at, n, s->n,
                s->reverse ? -s->inner : s->inner, s->exclusive);
    }
}

static cm_status run_sums(const cm_run *r)
{
    const cm_sort *s = &r->p->as.sort;
    cm_dtype t = r->p->in[0]->dtype;
    sums_job j = {s, r->p->target.level, r->in[0], r->out[0]};
    bool columns = t == CM_F32 && s->inner >= 4;
    if (s->n > 0)
        cm_parallel(r->threads, s->outer * s->inner, cm_max_i64(GRAIN / s->n, TOGETHER),
                    columns       ? sums_columns
                    : t == CM_F32 ? sums_f32
                    : t == CM_I64 ? sums_i64
                                  : sums_i32,
                    &j);
    return CM_OK;
}

static const cm_tactic rows[] = {
    {.name = "sort_top_k_f32",
     .level = CM_ISA_GENERIC,
     .reject = reject_top,
     .cost = cost_top,
     .workspace = workspace_top,
     .run = run_top},
    {.name = "sort_sums",
     .level = CM_ISA_GENERIC,
     .reject = reject_sums,
     .cost = cost_sums,
     .run = run_sums},
};

const cm_cpu_table cm_cpu_sort = {rows, CM_COUNT(rows)};
