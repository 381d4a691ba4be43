/* attention_scores.c -- from the softmax to the product of q and k, and to the product with v.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/attention_match.h"

#include <math.h>

static bool is_reshape(const cm_node *n)
{
    return cm_is(n, CM_OP_RESHAPE) || cm_is(n, CM_OP_SQUEEZE) || cm_is(n, CM_OP_UNSQUEEZE);
}

/* Does v come from a product through what may lie between it and a softmax? */
static bool leads_to_product(const cm_value *v, int depth)
{
    cm_node *n = v ? v->producer : NULL;
    cm_labelled p;
    double c;
    if (!n || n->network != v->network || n->epilogue.program || depth == 0)
        return false;
    switch (n->op->id) {
    case CM_OP_CAST:
    case CM_OP_RESHAPE:
    case CM_OP_SQUEEZE:
    case CM_OP_UNSQUEEZE:
    case CM_OP_TANH:
    case CM_OP_IDENTITY:
        return leads_to_product(n->in[0], depth - 1);
    case CM_OP_DIV:
    case CM_OP_MUL:
        return (cm_splat(n->in[1], &c) && leads_to_product(n->in[0], depth - 1)) ||
               (cm_splat(n->in[0], &c) && leads_to_product(n->in[1], depth - 1));
    case CM_OP_ADD:
    case CM_OP_SUB:
        return leads_to_product(n->in[0], depth - 1) || leads_to_product(n->in[1], depth - 1);
    case CM_OP_WHERE:
        return leads_to_product(n->in[1], depth - 1) || leads_to_product(n->in[2], depth - 1);
    default:
        return cm_read_scores(n, &p) && !cm_is_const(p.b) && !cm_is_const(p.a);
    }
}

static bool is_scores(const cm_value *v)
{
    enum { FAR = 8 };
    return leads_to_product(v, FAR);
}

static bool put_inside(cm_attention_parts *m, cm_value *v, const cm_node *reader)
{
    if (m->n_inside == CM_MOST_INSIDE)
        return false;
    m->inside[m->n_inside] = v;
    m->reader[m->n_inside++] = reader;
    return true;
}

/* Does a Reshape of scores keep rows and columns? */
static bool keeps_matrix(const cm_node *n)
{
    const cm_type *a = &n->in[0]->type, *b = &n->out[0]->type;
    return a->rank >= 2 && b->rank >= 2 && a->dims[a->rank - 1] == b->dims[b->rank - 1] &&
           a->dims[a->rank - 2] == b->dims[b->rank - 2];
}

static bool take_bias(cm_attention_parts *m, const cm_node *n, int x, double sign)
{
    if (m->n_biases == CM_MOST_BIASES || m->softcap != 0 || !cm_is_float(n->in[1 - x]) ||
        cm_rank(n->in[1 - x]) < 0 || cm_rank(n->in[1 - x]) > cm_rank(n->in[x])) {
        m->why = "a bias has more axes than the scores, or stands before the soft cap";
        return false;
    }
    if (m->bias_last) {
        m->why = "biases are added before and after the mask";
        return false;
    }
    m->biases[m->n_biases++] = (cm_score_bias){n->in[1 - x], sign * m->scale, n->in[x]};
    m->biased_after_mask |= !m->mask.v;
    return true;
}

static bool take_mask(cm_attention_parts *m, const cm_node *n, int x)
{
    const double SWALLOWS_A_BIAS = -1e9;
    double fill;
    if (m->mask.v || m->softcap != 0 || !cm_splat(n->in[3 - x], &fill) || cm_rank(n->in[0]) < 0 ||
        cm_rank(n->in[0]) > cm_rank(n->in[x])) {
        m->why = "there are two masks, or one replaces scores by something that is no number";
        return false;
    }
    m->fill = fill * m->scale;
    m->bias_last = m->biased_after_mask && !(m->fill <= SWALLOWS_A_BIAS);
    m->mask = (cm_score_bias){n->in[0], 1, n->in[x]};
    m->mask_keeps = x == 1;
    return true;
}

/* One node upwards: its input that holds the scores, or -1. */
static int take_node(cm_attention_parts *m, const cm_node *n)
{
    double c;
    int x = 0;
    switch (n->op->id) {
    case CM_OP_IDENTITY:
        return 0;
    case CM_OP_CAST:
        return cm_is_float(n->in[0]) ? 0 : -1;
    case CM_OP_RESHAPE:
    case CM_OP_SQUEEZE:
    case CM_OP_UNSQUEEZE:
        return keeps_matrix(n) ? 0 : -1;
    case CM_OP_TANH:
        if (m->softcap != 0)
            return -1;
        m->softcap = m->scale;
        m->scale = 1;
        return 0;
    case CM_OP_MUL:
        x = cm_splat(n->in[1], &c) ? 0 : 1;
        if (x == 1 && !cm_splat(n->in[0], &c)) {
            m->why = "the scores are multiplied by something that is no number";
            return -1;
        }
        m->scale *= c;
        return cm_same_shape(n->in[x], n->out[0]) ? x : -1;
    case CM_OP_DIV:
        if (!cm_splat(n->in[1], &c) || c == 0) {
            m->why = "the scores are divided by something that is no number";
            return -1;
        }
        m->scale /= c;
        return cm_same_shape(n->in[0], n->out[0]) ? 0 : -1;
    case CM_OP_ADD:
    case CM_OP_SUB:
        x = is_scores(n->in[0]) ? 0 : 1;
        if (x == 1 && n->op->id == CM_OP_SUB)
            return -1;
        return take_bias(m, n, x, n->op->id == CM_OP_SUB ? -1 : 1) ? x : -1;
    case CM_OP_WHERE:
        x = is_scores(n->in[1]) ? 1 : 2;
        return take_mask(m, n, x) ? x : -1;
    default:
        return -1;
    }
}

/* From the softmax up to the product of q and k. */
bool cm_attention_scores(cm_attention_parts *m, const cm_node *softmax)
{
    const cm_node *below = softmax;
    cm_value *v = softmax->in[0];
    if (!is_scores(v))
        return false;
    m->scale = 1;
    for (int i = 0; i < CM_MOST_INSIDE; i++) {
        if (!put_inside(m, v, below))
            return false;
        if (cm_read_scores(v->producer, &m->qk)) {
            m->scale *= m->qk.scale * (m->softcap != 0 ? m->softcap : 1);
            return true;
        }
        below = v->producer;
        int x = take_node(m, below);
        if (x < 0)
            return false;
        v = below->in[x];
    }
    return false;
}

/* From the softmax down to the product with v. */
bool cm_attention_values(cm_attention_parts *m, cm_node *softmax)
{
    cm_value *p = softmax->out[0];
    enum { FAR = 4 };
    for (int i = 0; i < FAR; i++) {
        cm_node *next = NULL, *is_nan = NULL;
        for (const cm_use *u = p->uses; u; u = u->next) {
            if (!u->node || u->node->network != p->network)
                return false;
            if (cm_is(u->node, CM_OP_IS_NAN))
                is_nan = u->node;
            else if (!(u->node->op->traits & CM_SHAPE_ONLY))
                next = next && next != u->node ? softmax : u->node;
        }
        if (!next || next == softmax)
            return false;
        if (is_nan) { /* Where(IsNaN(p), 0, p) */
            if (!cm_is(next, CM_OP_WHERE) || next->in[0] != is_nan->out[0] || next->in[2] != p ||
                is_nan->out[0]->n_uses != 1 || !cm_is_number(next->in[1], 0, 0))
                return false;
            p = next->out[0];
            continue;
        }
        if (!put_inside(m, p, next))
            return false;
        if (next->n_in > 1 && next->in[0] == p && next->in[0] != next->in[1] &&
            cm_read_matmul(next, true, &m->pv))
            return m->pv.scale == 1;
        if (cm_read_einsum(next, p, &m->pv))
            return true;
        if (cm_is(next, CM_OP_WHERE) && next->in[2] == p && !m->cleared && next->in[0] != p &&
            cm_is_number(next->in[1], 0, 0) && cm_same_shape(p, next->out[0])) {
            m->cleared = next->in[0]; /* Where(mask, 0, p) */
            p = next->out[0];
            continue;
        }
        if (!(cm_is(next, CM_OP_CAST) && cm_is_float(next->out[0])) &&
            !cm_is(next, CM_OP_IDENTITY) && !(is_reshape(next) && keeps_matrix(next)))
            return false;
        p = next->out[0];
    }
    return false;
}

/* What is set to 0 after the softmax must be what was masked before it: then it takes no part. */
bool cm_attention_clears(cm_attention_parts *m)
{
    const double NEVER_SEEN = -1e4;
    if (!m->cleared)
        return true;
    if (m->cleared != m->mask.v || m->mask_keeps || m->bias_last || !(m->fill <= NEVER_SEEN)) {
        m->why = "probabilities are set to 0 where scores are not masked";
        return false;
    }
    m->fill = -INFINITY;
    return true;
}

/* Is everything inside read by the pattern alone, but for its shape? */
bool cm_attention_alone(cm_attention_parts *m)
{
    for (int i = 0; i < m->n_inside; i++)
        for (const cm_use *u = m->inside[i]->uses; u; u = u->next)
            if (u->node != m->reader[i] && !cm_is(u->node, CM_OP_SHAPE)) {
                m->why = "scores or probabilities are read by others too";
                return false;
            }
    return true;
}
