/* pointwise_compare.c -- two tensors of whole numbers compared: masks, and one-hot codes written out.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/pointwise.h"

#include "base/size.h"

enum { PIECE = 4096, THREAD_NS = 8000 };

typedef struct {
    cm_compare_fn compare;
    cm_tile_view x, y, out;
    int64_t cols, pieces_per_row;
} job;

/* Which relation, and do the operands change places? -1: none. */
static int relation(const cm_program *g, bool *swapped)
{
    if (g->n_steps != 1)
        return -1;
    cm_pointwise op = g->step[0].op;
    *swapped = op == CM_PW_GT || op == CM_PW_GE;
    return op == CM_PW_EQ                     ? 0
           : op == CM_PW_LT || op == CM_PW_GT ? 1
           : op == CM_PW_LE || op == CM_PW_GE ? 2
                                              : -1;
}

/* Operand k of the comparison; -1: a number. */
static int input_of(const cm_program *g, int k)
{
    const cm_program_arg *a = &g->step[0].arg[k];
    return a->kind == CM_ARG_OPERAND ? a->index : -1;
}

const char *cm_cpu_pointwise_compare_reject(const cm_problem *p)
{
    const cm_pointwise_shape *s = &p->as.pointwise;
    const cm_program *g = p->program;
    bool swapped;
    cm_tile_view v;
    int last = s->rank - 1;
    if (p->n_out != 1 || !p->out[0] || g->n_outputs != 1 || relation(g, &swapped) < 0)
        return "not a comparison";
    int a = input_of(g, 0), b = input_of(g, 1);
    if (a < 0 || b < 0 || p->in[a]->dtype != p->in[b]->dtype ||
        (p->in[a]->dtype != CM_I32 && p->in[a]->dtype != CM_I64) || p->out[0]->dtype != CM_BOOL)
        return "not of two tensors of int32 or int64";
    if (s->out[0][last] != 1 || s->in[a][last] + s->in[b][last] < 1 || s->in[a][last] < 0 ||
        s->in[a][last] > 1 || s->in[b][last] < 0 || s->in[b][last] > 1)
        return "the innermost axis is strided";
    if (!cm_pointwise_view(&v, s, s->rank - 1, s->in[a], p->in[a]->dtype, NULL) ||
        !cm_pointwise_view(&v, s, s->rank - 1, s->in[b], p->in[b]->dtype, NULL) ||
        !cm_pointwise_view(&v, s, s->rank - 1, s->out[0], CM_BOOL, NULL))
        return "strided over too many axes";
    return NULL;
}

static double row_ns(int64_t cols)
{
    return 15 + 0.15 * (double)cols;
}

double cm_cpu_pointwise_compare_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_pointwise_shape *s = &p->as.pointwise;
    double ns = row_ns(s->dims[s->rank - 1]) * (double)cm_pointwise_rows(s, s->rank - 1);
    return 150 + ns / cm_cpu_speedup(p, ns / THREAD_NS);
}

static void some_pieces(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i / j->pieces_per_row, col = i % j->pieces_per_row * PIECE;
        cm_comparison c = {.x = cm_tile_address(&j->x, row, col),
                           .y = cm_tile_address(&j->y, row, col),
                           .x_step = (int)j->x.col_strides[0],
                           .y_step = (int)j->y.col_strides[0],
                           .n = cm_min_i64(PIECE, j->cols - col),
                           .to = (uint8_t *)cm_tile_address(&j->out, row, col)};
        j->compare(&c);
    }
}

cm_status cm_cpu_pointwise_compare_run(const cm_run *r)
{
    const cm_problem *p = r->p;
    const cm_pointwise_shape *s = &p->as.pointwise;
    bool swapped = false;
    int which = relation(p->program, &swapped), a = input_of(p->program, swapped),
        b = input_of(p->program, !swapped), wide = p->in[a]->dtype == CM_I64;
    job j = {.compare = p->target.level >= CM_ISA_AVX512 ? cm_cpu_compare__avx512[wide][which]
                        : p->target.level >= CM_ISA_AVX2 ? cm_cpu_compare__avx2[wide][which]
                                                         : cm_cpu_compare__generic[wide][which],
             .cols = s->dims[s->rank - 1]};
    cm_pointwise_view(&j.x, s, s->rank - 1, s->in[a], p->in[a]->dtype, r->in[a]);
    cm_pointwise_view(&j.y, s, s->rank - 1, s->in[b], p->in[b]->dtype, r->in[b]);
    cm_pointwise_view(&j.out, s, s->rank - 1, s->out[0], CM_BOOL, r->out[0]);
    j.pieces_per_row = cm_ceil_div(j.cols, PIECE);
    int64_t grain = (int64_t)(THREAD_NS / row_ns(cm_min_i64(j.cols, PIECE))) + 1;
    cm_parallel(r->threads, cm_pointwise_rows(s, s->rank - 1) * j.pieces_per_row, grain,
                some_pieces, &j);
    return CM_OK;
}
