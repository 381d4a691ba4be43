/* loss_forms.c -- losses as the plain nodes that they are made of, which have kernels; for a plan only.
 *
 *     y, p = SoftmaxCrossEntropyLoss(x, labels)
 *  becomes
 *     p = LogSoftmax(x) {axis=1}
 *     g = Gather of p's label of each sample, negated
 *     y = ReduceMean(g)
 *
 * NegativeLogLikelihoodLoss likewise, without the LogSoftmax. With weights, or an index to ignore, each sample has a weight
 * (0 where it is ignored), and the mean is over these. A label that is no class is refused as it was: negative ones
 * become an index that is out of range, since gathering would count them from the end.
 *
 * needs: types    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/chain.h"

typedef struct {
    cm_chain *c;
    cm_value *scores, *labels, *weights; /* weights NULL: all 1 */
    bool ignores;
    cm_value *ignored; /* which samples are; NULL: none */
} loss;

/* Labels that can be gathered by. */
static cm_value *safe_labels(loss *l)
{
    cm_chain *c = l->c;
    cm_dtype t = l->labels->type.dtype;
    cm_value *zero = cm_chain_number(c, t, 0), *none = cm_chain_number(c, t, INT32_MAX);
    cm_value *bad = CM_THEN(c, CM_OP_LESS, NULL, l->labels, zero);
    cm_value *v = CM_THEN(c, CM_OP_WHERE, NULL, bad, none, l->labels);
    if (!l->ignores)
        return v;
    cm_value *index = cm_chain_number(c, t, (double)cm_int(c->at, "ignore_index"));
    l->ignored = CM_THEN(c, CM_OP_EQUAL, NULL, l->labels, index);
    return CM_THEN(c, CM_OP_WHERE, NULL, l->ignored, zero, v);
}

/* Minus the score of each sample's label. */
static cm_value *losses(loss *l, cm_value *labels)
{
    static const int64_t one = 1;
    cm_chain *c = l->c;
    void *attr = cm_chain_attr(c, CM_OP_GATHER_ELEMENTS);
    cm_chain_int(c, CM_OP_GATHER_ELEMENTS, attr, "axis", 1);
    cm_value *axis = cm_chain_list(c, 1, &one);
    cm_value *at = CM_THEN(c, CM_OP_UNSQUEEZE, NULL, labels, axis);
    cm_value *v = CM_THEN(c, CM_OP_GATHER_ELEMENTS, attr, l->scores, at);
    v = CM_THEN(c, CM_OP_SQUEEZE, NULL, v, axis);
    return CM_THEN(c, CM_OP_NEG, NULL, v);
}

/* Of each sample; NULL: all 1. */
static cm_value *sample_weights(loss *l, cm_value *labels)
{
    cm_chain *c = l->c;
    cm_dtype t = c->st == CM_OK ? l->scores->type.dtype : CM_F32;
    cm_value *v = cm_chain_number(c, t, 1);
    if (l->weights)
        v = CM_THEN(c, CM_OP_GATHER, NULL, l->weights, labels);
    if (l->ignored)
        v = CM_THEN(c, CM_OP_WHERE, NULL, l->ignored, cm_chain_number(c, t, 0), v);
    return l->weights || l->ignored ? v : NULL;
}

static cm_value *reduce(loss *l, cm_op_id op, cm_value *v)
{
    void *attr = cm_chain_attr(l->c, op);
    cm_chain_int(l->c, op, attr, "keepdims", 0);
    return CM_THEN(l->c, op, attr, v);
}

static void expand(cm_chain *c)
{
    const cm_node *n = c->at;
    loss made = {.c = c,
                 .scores = cm_chain_widen(c, n->in[0]),
                 .labels = n->in[1],
                 .weights = cm_chain_widen(c, n->n_in > 2 ? n->in[2] : NULL),
                 .ignores = cm_given(n, "ignore_index")},
         *l = &made;
    if (n->op->id == CM_OP_SOFTMAX_CROSS_ENTROPY_LOSS) {
        void *attr = cm_chain_attr(c, CM_OP_LOG_SOFTMAX);
        cm_chain_int(c, CM_OP_LOG_SOFTMAX, attr, "axis", 1);
        l->scores = CM_THEN(c, CM_OP_LOG_SOFTMAX, attr, l->scores);
        if (n->n_out > 1 && n->out[1])
            cm_chain_end(c, 1, l->scores);
    }
    cm_value *labels = safe_labels(l), *y = losses(l, labels), *w = sample_weights(l, labels);
    if (w)
        y = CM_THEN(c, CM_OP_MUL, NULL, y, w);
    if (cm_string_is(n, "reduction", "sum"))
        y = reduce(l, CM_OP_REDUCE_SUM, y);
    else if (cm_string_is(n, "reduction", "mean") && !w)
        y = reduce(l, CM_OP_REDUCE_MEAN, y);
    else if (cm_string_is(n, "reduction", "mean"))
        y = CM_THEN(c, CM_OP_DIV, NULL, reduce(l, CM_OP_REDUCE_SUM, y),
                    reduce(l, CM_OP_REDUCE_SUM, w));
    cm_chain_end(c, 0, y);
}

static bool is_loss(const cm_node *n)
{
    if (!cm_is(n, CM_OP_SOFTMAX_CROSS_ENTROPY_LOSS) &&
        !cm_is(n, CM_OP_NEGATIVE_LOG_LIKELIHOOD_LOSS))
        return false;
    const cm_value *weights = n->n_in > 2 ? n->in[2] : NULL;
    return cm_rank(n->in[0]) > 1 && n->out[0] && cm_is_float(n->in[0]) &&
           (!weights || weights->type.dtype == n->in[0]->type.dtype);
}

CM_PASS(loss_forms)
{
    static const cm_chain_form form = {is_loss, expand};
    return cm_chain_rewrite(rw, g, &form, 1);
}
