/* fuse_skip_norm.c -- a sum and the normalisation of it in one node.
 *
 *     b = Add(x, @bias)
 *     s = Add(b, skip)
 *     y = LayerNormalization(s, @gamma, @beta)
 *  becomes
 *     y, _, _, s = com.microsoft.SkipLayerNormalization(x, skip, @gamma, @beta, @bias)
 *
 * RMSNormalization becomes SkipSimplifiedLayerNormalization. Both terms have the shape of the sum; scale and
 * bias have one number for each element of the last axis. The sum is handed out when others read it. Comes
 * after fuse_epilogue: a sum of which a product makes one term belongs to that product. Scale and result
 * may have another element type than the sum. Not when the normalisation is over more than the last axis.
 *
 * needs: types, uses, fuse_epilogue    keeps: types, uses
 * numerics: the sum is not rounded to the element type
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/match.h"

static bool is_rms(const cm_node *n)
{
    return n->op->id == CM_OP_RMS_NORMALIZATION;
}

/* One number of type t for each element of x's last axis. */
static bool is_row(const cm_value *v, const cm_value *x, cm_dtype t)
{
    return cm_rank(v) == 1 && v->type.dims[0] == x->type.dims[cm_rank(x) - 1] && v->type.dtype == t;
}

static bool is_common(cm_dtype t)
{
    return t == CM_F32 || t == CM_F16 || t == CM_BF16;
}

static bool is_over_last_axis(const cm_node *n)
{
    int64_t axis = cm_int(n, "axis");
    return axis == -1 || axis == cm_rank(n->in[0]) - 1;
}

/* What stops n, which normalises the sum `add`? NULL: nothing. */
static const char *objection(const cm_node *n, const cm_node *add)
{
    const cm_value *s = add->out[0];
    int own = cm_node_own_inputs(n);
    cm_dtype t = n->in[1]->type.dtype;
    if (cm_rank(s) < 2 || !is_over_last_axis(n))
        return "it is not over the last axis of two or more";
    if (!cm_same_shape(add->in[0], s) || !cm_same_shape(add->in[1], s))
        return "the terms of the sum differ in shape";
    if (!is_common(t) || !is_common(s->type.dtype))
        return "its element type is none of float32, float16 and bfloat16";
    if (!is_row(n->in[1], s, t) || (own > 2 && n->in[2] && !is_row(n->in[2], s, t)))
        return "its scale or bias has not the shape of one row of the sum";
    if (n->epilogue.program && !cm_sole_use(s))
        return "the sum is read by others, and the result is worked on";
    for (int i = 1; i < own; i++) /* the new node stands where the sum does */
        if (n->in[i] && n->in[i]->producer && !cm_sole_use(s))
            return "the sum is read by others, and scale or bias are computed";
    return NULL;
}

/* x, skip and a bias (or NULL) whose sum `add` is. The node of the inner sum goes to *inner. */
static void terms(const cm_node *add, cm_value **x, cm_value **skip, cm_value **bias,
                  const cm_node **inner)
{
    *x = add->in[0];
    *skip = add->in[1];
    *bias = NULL;
    *inner = NULL;
    for (int i = 0; i < 2; i++) {
        const cm_node *a = cm_sole_use(add->in[i]) ? cm_made_by(add->in[i], CM_OP_ADD) : NULL;
        for (int k = 0; a && k < 2; k++) {
            if (!is_row(a->in[k], add->out[0], add->out[0]->type.dtype) ||
                !cm_same_shape(a->in[1 - k], add->out[0]))
                continue;
            *x = a->in[1 - k];
            *skip = add->in[1 - i];
            *bias = a->in[k];
            *inner = a;
            return;
        }
    }
}

static cm_status make(cm_rewriter *rw, cm_node *n, cm_node *add)
{
    cm_op_id op = is_rms(n) ? CM_OP_MS_SKIP_SIMPLIFIED_LAYER_NORMALIZATION
                            : CM_OP_MS_SKIP_LAYER_NORMALIZATION;
    int own = cm_node_own_inputs(n), k = 2;
    bool is_sum_wanted = !cm_sole_use(add->out[0]);
    const char *names[4] = {NULL, "", "", NULL};
    const cm_node *inner;
    cm_value *in[5], *bias;
    cm_node *skip;
    void *attr;
    terms(add, &in[0], &in[1], &bias, &inner);
    in[k++] = n->in[1];
    if (!is_rms(n))
        in[k++] = own > 2 ? n->in[2] : NULL;
    in[k++] = bias;
    while (!in[k - 1])
        k--;
    CM_TRY(cm_new_attr(rw->cx, n->network, op, &attr));
    CM_TRY(cm_attr_put_float(rw->cx, op, attr, "epsilon", cm_float(n, "epsilon")));
    CM_TRY(cm_network_add_node(rw->cx, n->network, is_sum_wanted ? add : n, cm_op_builtin(op),
                               add->name, attr, in, k, names, is_sum_wanted ? 4 : 1, &skip));
    skip->n_from = 0;
    if (inner)
        CM_TRY(cm_node_add_from(rw->cx, skip, inner));
    CM_TRY(cm_node_add_from(rw->cx, skip, add));
    if (n->epilogue.program)
        CM_TRY(cm_node_set_epilogue(rw->cx, skip, n->epilogue.program, n->in + own,
                                    n->epilogue.n_operands, n->epilogue.to));
    CM_TRY(cm_node_infer(rw->cx, skip));
    CM_TRY(cm_replace(rw, n, skip->out[0], skip));
    return is_sum_wanted ? cm_replace_uses(rw->cx, add->out[0], skip->out[3]) : CM_OK;
}

CM_PASS(fuse_skip_norm)
{
    CM_FOR_NODES (n, g) {
        if ((n->op->id != CM_OP_LAYER_NORMALIZATION && !is_rms(n)) || !n->out[0] ||
            !n->out[0]->n_uses || !cm_one_output(n))
            continue;
        cm_node *add = cm_made_by(n->in[0], CM_OP_ADD);
        if (!add)
            continue;
        const char *why = objection(n, add);
        if (why) {
            cm_near(rw, n, "sum and normalisation not fused: %s", why);
            continue;
        }
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(make(rw, n, add));
    }
    return CM_OK;
}
