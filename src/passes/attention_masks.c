/* attention_masks.c -- an attention's biases and mask: their shapes, and the causal one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/attention_match.h"

#include <math.h>
#include <string.h>

#include "passes/causal_mask.h"

/* The shape in which a bias or mask broadcasts to [batch, heads, rows, cols]. False: none. */
bool cm_score_bias_shape(const cm_attention_parts *m, const cm_score_bias *b, int *rank,
                         cm_dim *dims)
{
    const cm_type *have = &b->v->type, *at = &b->at->type;
    cm_dim_table *t = b->v->network->dims;
    int extra = have->rank - 3; /* axes before heads, rows, columns */
    if (at->rank == 3 && have->rank == 3) {
        cm_dim heads = m->q.heads;
        if (have->dims[0] == 1) {
            *rank = 3;
            memcpy(dims, have->dims, 3 * sizeof *dims);
            return true;
        }
        *rank = 4;
        memcpy(dims, (cm_dim[]){m->q.batch, heads, have->dims[1], have->dims[2]}, 4 * sizeof *dims);
        return cm_dim_mul(t, m->q.batch, heads) == have->dims[0];
    }
    if (at->rank >= 4 && at->dims[at->rank - 3] != m->q.heads)
        return false;
    if (extra <= 1) {
        *rank = have->rank;
        memcpy(dims, have->dims, (size_t)have->rank * sizeof *dims);
        return at->rank != 4 || extra < 1 || have->dims[0] == 1 || have->dims[0] == m->q.batch ||
               at->dims[0] == m->q.batch;
    }
    int first = at->rank - have->rank, i = 0;
    cm_dim batches = 1;
    while (i < extra && have->dims[i] == 1)
        i++;
    for (; i < extra; i++) {
        if (have->dims[i] != at->dims[first + i])
            return false;
        batches = cm_dim_mul(t, batches, have->dims[i]);
    }
    *rank = 4;
    memcpy(dims,
           (cm_dim[]){batches, have->dims[extra], have->dims[extra + 1], have->dims[extra + 2]},
           4 * sizeof *dims);
    return true;
}

/* A mask that is only spread out by an Expand broadcasts by itself. */
static void skip_expand(cm_score_bias *b)
{
    cm_node *n = b->v ? cm_made_by(b->v, CM_OP_EXPAND) : NULL;
    if (n && cm_rank(n->in[0]) >= 0 && cm_rank(n->in[0]) <= cm_rank(b->v))
        b->v = n->in[0];
}

static bool check_mask(cm_attention_parts *m, cm_score_bias *b)
{
    cm_dim dims[4];
    int rank;
    skip_expand(b);
    if (!cm_score_bias_shape(m, b, &rank, dims) ||
        !cm_can_reshape(cm_rank(b->v), b->v->type.dims, rank, dims)) {
        m->why = "a mask does not broadcast to [batch, heads, rows, columns]";
        return false;
    }
    return true;
}

bool cm_attention_masks(cm_attention_parts *m)
{
    int k = 0;
    for (int i = 0; i < m->n_biases; i++) {
        cm_score_bias *b = &m->biases[i];
        if (!check_mask(m, b))
            return false;
        if (!m->mask.v && !m->causal && b->times > 0 &&
            cm_is_causal_bias(b->v, m->q.rows, m->k.rows)) {
            m->causal = true;
            m->fill = -INFINITY;
        } else {
            m->biases[k++] = *b;
        }
    }
    m->n_biases = k;
    double same;
    if (m->mask.v && cm_splat(m->mask.v, &same) && (same != 0) == m->mask_keeps)
        m->mask.v = NULL; /* forbids nothing */
    if (!m->mask.v)
        return true;
    if (!m->causal && cm_is_causal_mask(m->mask.v, m->q.rows, m->k.rows, m->mask_keeps)) {
        m->causal = true;
        m->mask.v = NULL;
        return true;
    }
    if (m->causal) {
        m->why = "there is a causal mask and another one";
        return false;
    }
    return check_mask(m, &m->mask);
}
