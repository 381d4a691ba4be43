/* matmul_dot.c -- few rows times columns that lie along k: nothing is packed, each element is read once.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A matrix times a vector is this with the roles exchanged. */
#include "base/cpu.h"
#include "base/size.h"
#include "cpu/gemv_dot.h"
#include "cpu/matmul.h"

enum { UNIT = 4 }; /* columns that go together */

const char *cm_cpu_matmul_dot_reject(const cm_problem *p)
{
    cm_matmul_view v;
    if (p->in[0]->dtype != CM_F32 || p->in[1]->dtype != CM_F32)
        return "the operands are not float32";
    if (!cm_matmul_view_of(p, &v))
        return "the output is strided along both axes";
    if (v.s.m > CM_DOT_ROWS)
        return "there are more than 4 rows";
    if (v.s.k > 1 && (v.s.a.col != 1 || v.s.b.row != 1))
        return "the operands do not lie along the axis that is summed";
    return cm_matmul_out_reject(p, &v, false);
}

static cm_matmul_grid cut(const cm_problem *p, const cm_matmul_view *v)
{
    return cm_matmul_cut(v->n_batch, 1, cm_ceil_div(v->s.n, UNIT), false, cm_matmul_ns(p, 0.9),
                         p->threads);
}

double cm_cpu_matmul_dot_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    cm_matmul_view v;
    cm_matmul_view_of(p, &v);
    cm_matmul_grid g = cut(p, &v);
    double sums = (double)(v.n_batch * v.s.m * v.s.n) * 2; /* of a vector's lanes */
    double ns = cm_matmul_ns(p, 0.6) + sums;
    return 150 + ns / (g.workers > 1 ? cm_cpu_speedup(p, (double)(g.batch * g.rows * g.cols)) : 1);
}

typedef struct {
    const cm_run *r;
    cm_matmul_view v;
    cm_matmul_grid grid;
    cm_matmul_out out;
} job;

static void piece(void *arg, int64_t worker, int64_t batch, int64_t row, int64_t col)
{
    (void)worker;
    (void)row;
    const job *j = arg;
    const cm_matmul *s = &j->v.s;
    int64_t units = cm_ceil_div(s->n, UNIT), c = col * units / j->grid.cols * UNIT;
    int64_t end = cm_min_i64(s->n, (col + 1) * units / j->grid.cols * UNIT);
    cm_matmul_at at = cm_matmul_batch_at(&j->v, batch);
    cm_gemv_dot d = {.m = s->m,
                     .n = end - c,
                     .k = s->k,
                     .a = (const float *)j->r->in[j->v.a] + at.a,
                     .b = (const float *)j->r->in[j->v.b] + at.b + c * s->b.col,
                     .lda = s->a.row,
                     .ldb = s->b.col,
                     .c = (float *)j->r->out[0] + at.c + c,
                     .ldc = s->c.row,
                     .alpha = s->alpha};
    switch (j->r->p->target.level) {
    case CM_ISA_GENERIC:
        cm_gemv_dot__generic(&d);
        break;
    case CM_ISA_AVX2:
        cm_gemv_dot__avx2(&d);
        break;
    default:
        cm_gemv_dot__avx512(&d);
    }
    if (!j->out.simple) {
        cm_matmul_part part = {&j->out, d.c, d.ldc, at.row, 0, c};
        cm_matmul_part_done(&part, 0, 0, d.m, d.n);
    }
}

cm_status cm_cpu_matmul_dot_run(const cm_run *r)
{
    job j; /* not cleared: it is large */
    j.r = r;
    cm_matmul_view_of(r->p, &j.v);
    j.grid = cut(r->p, &j.v);
    cm_matmul_out_init(&j.out, r, &j.v, r->p->epilogue || j.v.s.bias >= 0);
    cm_matmul_run_grid(r->threads, &j.grid, piece, &j);
    return CM_OK;
}
