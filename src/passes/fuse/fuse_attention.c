/* fuse_attention.c -- softmax(q k^T) v, however it was written, as one node.
 *
 *     q = Transpose(Reshape(x))                       heads split off
 *     s = MatMul(q, kt)
 *     a = Softmax(Add(Div(s, 8), mask))
 *     y = Reshape(Transpose(MatMul(a, v)))
 *  becomes
 *     y = cameo.Attention(x, xk, xv, mask) {scale=0.125, ...}
 *
 * Starts at a Softmax over the last axis whose result (perhaps cast, perhaps cleared of NaN) is multiplied by
 * v. Upwards from it come, in any order, scale, soft cap, additive biases, one boolean mask (Where with a
 * number) and casts, down to the product of q and k: MatMul of any rank, FusedMatMul or Einsum. Operands are
 * traced through reshapes, transposes, slices, splits, scales and repeated heads (heads_view.h) to the
 * tensors that hold them, the result likewise to its last reshape. A mask that is provably the causal one
 * becomes is_causal. Probabilities that the same mask sets to 0 once more are those of an attention in which
 * what is masked takes no part. Values that were cast to float32 to meet scores of 16 bits under a float32 mask are
 * taken as they were, and the result is cast. Not when scores or probabilities are read by others (but for their shape), or when
 * the size of a head is not a number.
 *
 * needs: types, uses, tracked elements    keeps: types, uses
 * numerics: scores are not rounded to the element type, probabilities are where values were cast; a row that is masked whole by -infinity is 0
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "passes/attention_match.h"

static cm_status aligned(cm_rewriter *rw, const cm_attention_parts *m, cm_node *before,
                         const cm_score_bias *b, cm_value **out)
{
    cm_dim dims[4];
    int rank;
    cm_score_bias_shape(m, b, &rank, dims);
    return cm_view_as(rw, before, m->pv.n, b->v, rank, dims, out);
}

/* v times a number: in the constants that make it, where there are such and nobody else reads it. */
static cm_status scaled(cm_rewriter *rw, cm_node *before, const cm_node *like, cm_value *v,
                        double times, cm_value **out)
{
    cm_node *view = cm_made_by(v, CM_OP_UNSQUEEZE), *n;
    cm_value *inner = view ? view->in[0] : v, *c, *in[2];
    cm_node *p = cm_sole_use(v) && cm_sole_use(inner) ? cm_made_by(inner, CM_OP_MATMUL) : NULL;
    if (cm_is_const(v) && !v->constant->packed) {
        const double *x;
        double *y;
        int64_t k;
        cm_arena_mark mark = cm_arena_save(rw->cx->scratch);
        CM_TRY(cm_const_f64(rw->cx, v, &x, &k));
        CM_NEW_N(rw->cx, rw->cx->scratch, y, k, double);
        for (int64_t i = 0; i < k; i++)
            y[i] = x[i] * times;
        CM_TRY(cm_make_const_f64(rw->cx, before->network, v->name, v->type.dtype, v->constant->rank,
                                 v->constant->dims, y, out));
        cm_arena_restore(rw->cx->scratch, mark);
        return CM_OK;
    }
    if (p && cm_is_const(p->in[0])) {
        CM_TRY(scaled(rw, before, like, p->in[0], times, &in[0]));
        in[1] = p->in[1];
        CM_TRY(cm_make(rw, before, CM_OP_MATMUL, p, in, 2, 1, &n));
        if (view)
            CM_TRY(cm_make(rw, before, CM_OP_UNSQUEEZE, view,
                           (cm_value *[]){n->out[0], view->in[1]}, 2, 1, &n));
        *out = n->out[0];
        return CM_OK;
    }
    CM_TRY(cm_make_scalar(rw->cx, before->network, NULL, v->type.dtype, times, &c));
    CM_TRY(cm_make(rw, before, CM_OP_MUL, like, (cm_value *[]){v, c}, 2, 1, &n));
    *out = n->out[0];
    return CM_OK;
}

static cm_status make_bias(cm_rewriter *rw, const cm_attention_parts *m, cm_node *before,
                           cm_value **out)
{
    cm_node *n;
    *out = NULL;
    for (int i = 0; i < m->n_biases; i++) {
        const cm_score_bias *b = &m->biases[i];
        cm_value *v;
        CM_TRY(aligned(rw, m, before, b, &v));
        if (b->times != 1)
            CM_TRY(scaled(rw, before, m->pv.n, v, b->times, &v));
        if (*out && (*out)->type.dtype != v->type.dtype) {
            CM_TRY(cm_make_cast(rw, before, m->pv.n, v, (*out)->type.dtype, &n));
            v = n->out[0];
        }
        if (*out) {
            CM_TRY(cm_make(rw, before, CM_OP_ADD, m->pv.n, (cm_value *[]){*out, v}, 2, 1, &n));
            v = n->out[0];
        }
        *out = v;
    }
    return CM_OK;
}

static cm_status make_mask(cm_rewriter *rw, const cm_attention_parts *m, cm_node *before,
                           cm_value **out)
{
    cm_node *n;
    *out = NULL;
    if (!m->mask.v)
        return CM_OK;
    cm_score_bias b = m->mask;
    cm_node *no = m->mask_keeps ? NULL : cm_made_by(b.v, CM_OP_NOT);
    if (no)
        b.v = no->in[0];
    CM_TRY(aligned(rw, m, before, &b, out));
    if (m->mask_keeps || no)
        return CM_OK;
    CM_TRY(cm_make(rw, before, CM_OP_NOT, m->pv.n, out, 1, 1, &n));
    *out = n->out[0];
    return CM_OK;
}

static cm_status make_attr(cm_rewriter *rw, const cm_attention_parts *m, cm_network *g, void **out)
{
    const cm_op_id op = CM_OP_FUSED_ATTENTION;
    const double NOTHING_LEFT = -1e30;
    const cm_heads_at *at[] = {&m->q, &m->k, &m->v, &m->y};
    static const char *const layouts[] = {"q_layout", "k_layout", "v_layout", "y_layout"};
    void *a;
    CM_TRY(cm_new_attr(rw->cx, g, op, &a));
    CM_TRY(cm_attr_put_int(rw->cx, op, a, "q_num_heads", m->q.heads));
    CM_TRY(cm_attr_put_int(rw->cx, op, a, "kv_num_heads", m->k.heads));
    CM_TRY(cm_attr_put_int(rw->cx, op, a, "head_size", m->q.cols));
    CM_TRY(cm_attr_put_int(rw->cx, op, a, "v_head_size", m->v.cols));
    for (int i = 0; i < 4; i++)
        if (strcmp(at[i]->layout, "bshd") != 0)
            CM_TRY(cm_attr_put_string(rw->cx, g, op, a, layouts[i], at[i]->layout));
    int64_t offsets[3], steps[3];
    bool offset = false, step = false;
    for (int i = 0; i < 3; i++) {
        offsets[i] = at[i]->offset;
        steps[i] = at[i]->head_step;
        offset |= offsets[i] != 0;
        step |= steps[i] != at[i]->cols;
    }
    if (offset)
        CM_TRY(cm_attr_put_ints(rw->cx, g, op, a, "offsets", offsets, 3));
    if (step)
        CM_TRY(cm_attr_put_ints(rw->cx, g, op, a, "head_steps", steps, 3));
    CM_TRY(cm_attr_put_float(rw->cx, op, a, "scale", m->scale * m->q.scale * m->k.scale));
    if (m->softcap != 0)
        CM_TRY(cm_attr_put_float(rw->cx, op, a, "softcap", m->softcap));
    if (m->causal)
        CM_TRY(cm_attr_put_int(rw->cx, op, a, "is_causal", 1));
    /* A causal row always has a key, and a masked score is as good as none beside it. */
    if (m->mask.v ? m->fill != -INFINITY : m->causal && m->fill > NOTHING_LEFT)
        CM_TRY(
            cm_attr_put_float(rw->cx, op, a, "mask_value", fmax(m->fill, -3.4028234663852886e38)));
    if (m->bias_last && m->n_biases)
        CM_TRY(cm_attr_put_int(rw->cx, op, a, "bias_last", 1));
    *out = a;
    return CM_OK;
}

/* A Shape of scores that will be no more: the same from what is left. */
static cm_status replace_shape(cm_rewriter *rw, const cm_attention_parts *m, cm_node *shape,
                               bool *done)
{
    const cm_value *v = shape->out[0];
    const cm_heads_at *at[] = {&m->q, &m->k};
    cm_value *pieces[CM_MAX_RANK];
    cm_network *g = shape->network;
    *done = false;
    if (!v->elems || v->n_elems < 1 || v->n_elems > CM_MAX_RANK)
        return CM_OK;
    struct {
        cm_value *v;
        int axis;
    } from[CM_MAX_RANK] = {{NULL, 0}};
    for (int i = 0; i < v->n_elems; i++) {
        for (int k = 0; k < 2 && !from[i].v; k++)
            for (int a = 0; a < at[k]->v->type.rank && !from[i].v; a++)
                if (at[k]->v->type.dims[a] == v->elems[i])
                    from[i].v = at[k]->v, from[i].axis = a;
        if (!from[i].v && !cm_dim_is_size(v->elems[i]))
            return CM_OK;
    }
    cm_node *n;
    void *attr;
    for (int i = 0; i < v->n_elems; i++) {
        int64_t one = 1;
        if (cm_dim_is_size(v->elems[i])) {
            CM_TRY(cm_make_const_i64(rw->cx, g, NULL, 1, &one, &v->elems[i], &pieces[i]));
            continue;
        }
        CM_TRY(cm_new_attr(rw->cx, g, CM_OP_SHAPE, &attr));
        CM_TRY(cm_attr_put_int(rw->cx, CM_OP_SHAPE, attr, "start", from[i].axis));
        CM_TRY(cm_attr_put_int(rw->cx, CM_OP_SHAPE, attr, "end", from[i].axis + 1));
        CM_TRY(cm_make_with(rw, shape, CM_OP_SHAPE, attr, shape, &from[i].v, 1, 1, &n));
        pieces[i] = n->out[0];
    }
    CM_TRY(cm_new_attr(rw->cx, g, CM_OP_CONCAT, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_CONCAT, attr, "axis", 0));
    CM_TRY(cm_make_with(rw, shape, CM_OP_CONCAT, attr, shape, pieces, v->n_elems, 1, &n));
    CM_TRY(cm_replace(rw, shape, n->out[0], n));
    *done = true;
    return CM_OK;
}

static cm_status replace_shapes(cm_rewriter *rw, const cm_attention_parts *m)
{
    for (int i = 0; i < m->n_inside; i++) {
        bool again = true;
        while (again) {
            again = false;
            for (const cm_use *u = m->inside[i]->uses; u && !again; u = u->next)
                if (u->node && cm_is(u->node, CM_OP_SHAPE) && u->node->out[0]->n_uses)
                    CM_TRY(replace_shape(rw, m, u->node, &again));
        }
    }
    return CM_OK;
}

static cm_status rewrite(cm_rewriter *rw, cm_attention_parts *m, const cm_node *softmax)
{
    cm_node *last = m->y.v->producer, *n;
    cm_value *in[5], *y;
    const cm_heads_at *at[] = {&m->q, &m->k, &m->v};
    void *attr;
    for (int i = 0; i < 3; i++)
        CM_TRY(cm_view_as(rw, last, m->pv.n, at[i]->v, at[i]->rank, at[i]->dims, &in[i]));
    CM_TRY(make_bias(rw, m, last, &in[3]));
    CM_TRY(make_mask(rw, m, last, &in[4]));
    CM_TRY(make_attr(rw, m, last->network, &attr));
    int n_in = in[4] ? 5 : in[3] ? 4 : 3;
    CM_TRY(cm_make_with(rw, last, CM_OP_FUSED_ATTENTION, attr, m->pv.n, in, n_in, 1, &n));
    CM_TRY(cm_node_add_from(rw->cx, n, m->qk.n));
    for (int i = 0; i < m->n_inside; i++)
        CM_TRY(cm_node_add_from(rw->cx, n, m->reader[i]));
    CM_TRY(cm_node_add_from(rw->cx, n, softmax));
    for (cm_value *v = m->pv.n->out[0]; v != m->y.v; v = v->uses->node->out[0])
        CM_TRY(cm_node_add_from(rw->cx, n, v->uses->node));
    cm_dim dims[CM_MAX_RANK];
    cm_attention_result(m, dims);
    y = n->out[0];
    if (m->widened) {
        cm_node *wide;
        CM_TRY(cm_make_cast(rw, last, m->pv.n, y, CM_F32, &wide));
        y = wide->out[0];
    }
    CM_TRY(cm_view_as(rw, last, m->pv.n, y, cm_rank(m->y.v), dims, &y));
    CM_TRY(cm_replace(rw, last, y, n));
    return replace_shapes(rw, m);
}

CM_PASS(fuse_attention)
{
    bool retype = false;
    CM_FOR_NODES (n, g) {
        if (!cm_is(n, CM_OP_SOFTMAX) || cm_rank(n->in[0]) < 2)
            continue;
        int64_t axis = cm_int(n, "axis");
        cm_attention_parts m = {.why = NULL};
        if ((axis != -1 && axis != cm_rank(n->in[0]) - 1) || !cm_attention_values(&m, n) ||
            !m.pv.n->out[0]->n_uses)
            continue;
        if (!cm_attention_scores(&m, n) || !cm_attention_clears(&m) || !cm_attention_alone(&m) ||
            !cm_attention_operands(&m) || !cm_attention_masks(&m) || !cm_attention_keeps_rows(&m)) {
            if (m.why)
                cm_near(rw, n, "attention not fused: %s", m.why);
            continue;
        }
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(rewrite(rw, &m, n));
        retype |= m.retype;
    }
    return retype ? cm_network_infer(rw->cx, g) : CM_OK;
}
