/* widen.c -- tensors between 16 bits and float32, in pieces on all threads.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/widen.h"

#include "base/size.h"
#include "cpu/epilogue.h"
#include "cpu/rows.h"

enum { CHUNK = 4096 };

size_t cm_wide_bytes(const cm_tensor *t)
{
    return ((size_t)cm_tensor_elems(t) * sizeof(float) + 63) / 64 * 64;
}

typedef struct {
    const cm_rows_kernels *kernels;
    const cm_tensor *t;
    const char *from;
    float *to;
} widening;

static void some_chunks(void *arg, int64_t begin, int64_t end)
{
    const widening *j = arg;
    int64_t first = begin * CHUNK, last = cm_min_i64(end * CHUNK, cm_tensor_elems(j->t));
    j->kernels->to_f32(j->t->dtype, j->from + first * (int64_t)cm_dtype_size(j->t->dtype),
                       j->to + first, last - first);
}

char *cm_widen_input(const cm_run *r, int i, char *to)
{
    widening j = {cm_cpu_rows_kernels(r->p->target.level), r->p->in[i], r->in[i], (float *)to};
    int64_t chunks = (cm_tensor_elems(j.t) + CHUNK - 1) / CHUNK;
    cm_parallel(r->threads, chunks, 4, some_chunks, &j);
    return to + cm_wide_bytes(j.t);
}

typedef struct {
    cm_epilogue_plan plan;
    const float *y;
} narrowing;

static void some_rows(void *arg, int64_t begin, int64_t end)
{
    const narrowing *j = arg;
    int64_t cols = j->plan.cols;
    cm_epilogue_tile(&j->plan, begin, 0, end - begin, cols, j->y + begin * cols, cols);
}

void cm_narrow_output(const cm_run *r, int n_col_axes, const float *y)
{
    narrowing n = {.y = y};
    cm_epilogue_init(&n.plan, r, n_col_axes);
    int64_t grain = 1 + CHUNK / (n.plan.cols > 0 ? n.plan.cols : 1);
    cm_parallel(r->threads, n.plan.rows, grain, some_rows, &n);
}
