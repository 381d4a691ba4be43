/* product_norm.c -- which normalisations a product's kernel does itself, and the text for it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/product_norm.h"

#include "base/size.h"

enum { TOLD_BYTES = 16 }; /* of a row, from one block to another */

static bool is_vector(const cm_problem *p, int input, int64_t cols)
{
    const cm_tensor *t = p->in[input];
    return (t->dtype == CM_F16 || t->dtype == CM_BF16 || t->dtype == CM_F32) &&
           cm_tensor_is_dense(t) && cm_tensor_elems(t) == cols;
}

static const char *reject_rows(const cm_problem *p, int64_t cols)
{
    const cm_rows *r = &p->as.rows;
    if (p->kind != CM_PROBLEM_ROWS ||
        (r->kind != CM_ROWS_LAYER_NORM && r->kind != CM_ROWS_RMS_NORM) || r->embed ||
        r->skip >= 0 || r->silu || p->epilogue)
        return "what follows is not a plain layer's normalisation";
    if (r->cols != cols || r->inner != 1 || r->mean >= 0 || r->inv_deviation >= 0 || r->sum >= 0)
        return "its rows are not those of the product, or more is made of them";
    if (r->scale < 0 || !is_vector(p, r->scale, cols) ||
        (r->bias >= 0 && !is_vector(p, r->bias, cols)))
        return "scale or bias is not a number for each column";
    return NULL;
}

const char *cm_norm_reject(const cm_problem *p, const cm_gpu_product *v)
{
    const cm_tensor *x = p->out[0], *y = p->then->out[0];
    const char *why = reject_rows(p->then, v->s.n);
    if (why)
        return why;
    if (v->a != 0 || v->matrices != 1 || p->then->as.rows.rows != v->s.m)
        return "the product is a batch of them, or transposed";
    if (x->dtype != y->dtype || !cm_tensor_is_dense(x) || !cm_tensor_is_dense(y))
        return "what is normalised has another type, or lies otherwise";
    return NULL;
}

int cm_norm_members(const cm_wgmma *w, int64_t n)
{
    return (int)(n / w->n);
}

size_t cm_norm_signals(const cm_wgmma *w, const cm_extent *e)
{
    int64_t members = cm_norm_members(w, e->n);
    return (size_t)(cm_ceil_div(e->m, w->rows) * w->rows * members * members) * TOLD_BYTES;
}

double cm_norm_cost(const cm_problem *p, const cm_wgmma *w, const cm_extent *e,
                    const cm_gpu_facts *g)
{
    /* A tile's rows are waited for and gone over once more; the other warp group may multiply meanwhile, but for the last one. */
    static const double MEETING_NS = 1200, RESULT_NS = 0.03, KEPT_NS = 0.02;
    double tiles = (double)(cm_ceil_div(e->m, w->rows) * cm_norm_members(w, e->n));
    double rounds = w->alternate ? 1 : (double)cm_ceil_div((int64_t)tiles, g->multiprocessors);
    double results = w->rows * w->n;
    return rounds * (MEETING_NS + RESULT_NS * results) + (p->kept ? KEPT_NS * results : 0);
}

void cm_norm_text(const cm_problem *p, int members, cm_buf *out)
{
    const cm_rows *r = &p->then->as.rows;
    cm_buf_printf(out,
                  "#define MEMBERS %d\n#define NORM_RMS %d\n#define NORM_KEPT %d\n"
                  "#define NORM_SCALE %s\n",
                  members, r->kind == CM_ROWS_RMS_NORM, p->kept,
                  cm_element_text(p->then->in[r->scale]->dtype));
    if (r->bias >= 0)
        cm_buf_printf(out, "#define NORM_BIAS %s\n", cm_element_text(p->then->in[r->bias]->dtype));
}

cm_norm_args cm_norm_bind(const cm_run *r)
{
    const cm_rows *n = &r->then->p->as.rows;
    return (cm_norm_args){.scale = r->then->in[n->scale],
                          .bias = n->bias >= 0 ? r->then->in[n->bias] : NULL,
                          .told = r->signals,
                          .further = r->p->kept ? (char *)r->then->out[0] - (char *)r->out[0] : 0,
                          .epsilon = n->epsilon};
}
