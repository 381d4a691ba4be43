/* recurrent_inputs.c -- the inputs' product of many steps at once.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/size.h"
#include "cpu/recurrent_unit.h"

typedef struct input_product {
    cm_gemm_f32_args args;
    const cm_recurrent_job *j;
} input_product;

static void input_columns(void *arg, int64_t begin, int64_t end)
{
    const input_product *x = arg;
    cm_gemm_f32_args a = x->args;
    int64_t nr = x->j->g->nr;
    a.b += begin * a.b_panel;
    a.c += begin * nr;
    a.col = begin * nr;
    a.n = cm_min_i64(a.n, end * nr) - begin * nr;
    cm_gemm_f32(x->j->g, &a);
}

void cm_recurrent_multiply_inputs(const cm_recurrent_unit *u, int64_t t, int64_t n, int64_t part,
                                  int64_t parts)
{
    const cm_recurrent_job *j = u->j;
    const cm_recurrent *r = j->r;
    const cm_tensor *x = j->run->p->in[0];
    int64_t by_step = x->strides[r->batch_first], by_row = x->strides[!r->batch_first];
    cm_simple_epilogue e = {.bias = u->bias, .lo = -INFINITY, .hi = INFINITY};
    input_product p = {.args = {.n = j->cols,
                                .k = r->input,
                                .a_col = 1,
                                .b = u->w,
                                .b_panel = r->input * j->g->nr,
                                .ldb = j->g->nr,
                                .alpha = 1,
                                .e = u->bias ? &e : NULL,
                                .scratch = j->shares || parts > 1 ? NULL : u->scratch},
                       .j = j};
    bool uniform = u->n == 1 || by_step == u->n * by_row;
    for (int64_t b = 0; b < (uniform ? 1 : u->n); b++) {
        p.args.m = uniform ? n * u->n : n;
        p.args.a = (const float *)j->run->in[0] + t * by_step + (u->row + b) * by_row;
        p.args.a_row = u->n == 1 || !uniform ? by_step : by_row;
        p.args.c = u->gates + b * j->cols;
        p.args.ldc = uniform ? j->cols : u->n * j->cols;
        int64_t panels_n = cm_ceil_div(j->cols, j->g->nr);
        int64_t first = part * panels_n / parts, last = (part + 1) * panels_n / parts;
        double work = (double)p.args.m * (double)j->cols * (double)r->input;
        if (j->shares && work > 2 * CM_SHARED_ELEMS)
            cm_parallel(j->run->threads, panels_n, 1, input_columns, &p);
        else
            input_columns(&p, first, last);
    }
}
