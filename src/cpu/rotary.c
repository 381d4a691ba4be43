/* rotary.c -- ROTARY: rows whose pairs of columns are rotated.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Input and output may be strided in any way but along the columns: heads are often a view. */
#include "cpu/rotary.h"

#include "base/size.h"
#include "cpu/cpu.h"
#include "cpu/epilogue.h"

enum { PIECE_FLOATS = 8192 }; /* a piece of work for a thread */

typedef struct {
    const cm_problem *p;
    const float *x, *cos, *sin;
    float *y;
    cm_rotate_fn *rotate;
    cm_epilogue_plan epilogue;
} job;

static bool is_float_along(const cm_tensor *t, int64_t stride)
{
    return t->dtype == CM_F32 && stride == 1;
}

static const char *reject(const cm_problem *p)
{
    const cm_rotary_shape *r = &p->as.rotary;
    int last = p->in[0]->rank - 1;
    if (!is_float_along(p->in[0], p->in[0]->strides[last]) ||
        !is_float_along(p->out[0], p->out[0]->strides[last]))
        return "not float32 with adjacent columns";
    if (!is_float_along(p->in[1], r->cos[last]) || !is_float_along(p->in[2], r->sin[last]))
        return "the angles are not float32, one for each column";
    if (!p->epilogue)
        return NULL;
    return cm_tensor_is_dense(p->out[0]) ? cm_epilogue_reject(p, 1)
                                         : "an epilogue on a strided output";
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    double rows = (double)p->as.rotary.rows, elems = rows * (double)p->as.rotary.columns;
    double ns = 12 * elems / (2 * cm_cpu_bytes_per_ns(&p->target)) + 10 * rows;
    return 200 + ns / cm_cpu_speedup(p, elems / PIECE_FLOATS);
}

/* Where row r of the output, counted over all axes but the last, lies in an operand. */
static int64_t place(const cm_tensor *out, const int64_t *strides, int64_t r)
{
    int64_t at = 0;
    for (int d = out->rank - 2; d >= 0; d--) {
        at += r % out->dims[d] * strides[d];
        r /= out->dims[d];
    }
    return at;
}

static void some_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_problem *p = j->p;
    const cm_rotary_shape *s = &p->as.rotary;
    const cm_tensor *out = p->out[0];
    for (int64_t r = begin; r < end; r++) {
        float *y = j->y + place(out, out->strides, r);
        j->rotate(j->x + place(out, p->in[0]->strides, r), j->cos + place(out, s->cos, r),
                  j->sin + place(out, s->sin, r), s->columns, y);
        if (p->epilogue)
            cm_epilogue_tile(&j->epilogue, r, 0, 1, s->columns, y, s->columns);
    }
}

cm_rotate_fn *cm_cpu_rotate_kernel(int level, bool interleaved)
{
    static cm_rotate_fn *const kernels[][2] = {
        {cm_cpu_rotate_halves__generic, cm_cpu_rotate_pairs__generic},
        {cm_cpu_rotate_halves__avx2, cm_cpu_rotate_pairs__avx2},
        {cm_cpu_rotate_halves__avx512, cm_cpu_rotate_pairs__avx512}};
    return kernels[level >= CM_ISA_AVX512 ? 2 : level >= CM_ISA_AVX2][interleaved];
}

static cm_status run(const cm_run *r)
{
    const cm_problem *p = r->p;
    const cm_rotary_shape *s = &p->as.rotary;
    job j = {.p = p,
             .x = r->in[0],
             .cos = r->in[1],
             .sin = r->in[2],
             .y = r->out[0],
             .rotate = cm_cpu_rotate_kernel(p->target.level, s->interleaved)};
    if (p->epilogue)
        cm_epilogue_init(&j.epilogue, r, 1);
    cm_parallel(r->threads, s->rows, 1 + PIECE_FLOATS / s->columns, some_rows, &j);
    return CM_OK;
}

static const cm_tactic rows[] = {
    {.name = "rotary_f32", .level = CM_ISA_GENERIC, .reject = reject, .cost = cost, .run = run},
};

const cm_cpu_table cm_cpu_rotary = {rows, CM_COUNT(rows)};
