/* attention_operands.c -- where an attention's q, k, v and result lie, and whether they agree.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/attention_match.h"

#include <string.h>

#include "passes/views.h"

enum { MOST_STEPS = 64 };

/* The place farthest up (or, `made`, down) where the operand can be taken. */
static bool trace(cm_attention_parts *m, cm_value *v, const char *labels, bool transposed,
                  bool scaled, bool made, cm_heads_at *best)
{
    cm_dim_table *t = v->network->dims;
    cm_view w;
    cm_heads_at at;
    bool any = false, reshaped = false;
    if (!cm_view_start(&w, v, labels) || (m->heads && !cm_view_split_batch(t, &w, m->heads)))
        return false;
    for (int i = 0; i < MOST_STEPS; i++) {
        bool fits = cm_view_accept(t, &w, transposed, made, &at);
        bool as_is = any && reshaped && best->rank == cm_rank(best->v) &&
                     !memcmp(best->dims, best->v->type.dims, (size_t)best->rank * sizeof(cm_dim));
        if (fits && !as_is) {
            *best = at;
            any = true;
        }
        cm_node *over = made ? cm_only_reader(w.v) : w.v->producer;
        reshaped = cm_is_view(over) && fits;
        if (made ? !cm_view_on(t, &w) : !cm_view_back(t, &w, scaled))
            break;
    }
    return any;
}

static bool trace_all(cm_attention_parts *m, bool scaled)
{
    if (!trace(m, m->qk.a, m->qk.of_a, false, scaled, false, &m->q) ||
        !trace(m, m->qk.b, m->qk.of_b, true, scaled, false, &m->k) ||
        !trace(m, m->pv.b, m->pv.of_b, false, false, false, &m->v)) {
        m->why = "the size of a head is not a number";
        return false;
    }
    return true;
}

/* Tell heads from batch where the product has one axis for both: by how an operand was made, or by the
 * shape in which a mask was added. */
static void find_heads(cm_attention_parts *m)
{
    const cm_heads_at *at[] = {&m->q, &m->k, &m->v};
    if (!strchr(m->qk.of_a, 'n'))
        return;
    for (int i = 0; i < 3 && !m->heads; i++)
        if (at[i]->heads > 1)
            m->heads = at[i]->heads * at[i]->groups;
    for (int i = 0; i <= m->n_biases && !m->heads; i++) {
        const cm_score_bias *b = i < m->n_biases ? &m->biases[i] : &m->mask;
        if (b->v && cm_rank(b->at) == 4 && cm_dim_is_size(b->at->type.dims[1]) &&
            b->at->type.dims[1] > 1)
            m->heads = b->at->type.dims[1];
    }
    /* One axis between rows and columns: heads, of a single batch. */
    for (int i = 0; i < 3 && !m->heads; i++)
        if (!strcmp(at[i]->layout, "sbhd") && cm_dim_is_size(at[i]->batch) && at[i]->batch > 1)
            m->heads = at[i]->batch;
}

static bool agree(cm_attention_parts *m)
{
    const cm_heads_at *q = &m->q, *k = &m->k, *v = &m->v;
    m->why = "operands differ in batch, heads or lengths";
    if (q->batch != k->batch || q->batch != v->batch || q->groups != 1 || k->groups != v->groups ||
        k->heads != v->heads || k->heads * k->groups != q->heads || q->cols != k->cols ||
        k->rows != v->rows)
        return false;
    m->why = "operands differ in element type";
    cm_dtype t = q->v->type.dtype, made = m->widened ? CM_F32 : t;
    if (t != k->v->type.dtype || t != v->v->type.dtype || made != m->pv.n->out[0]->type.dtype)
        return false;
    m->why = "the result is not laid out by batch, heads and rows";
    return m->y.batch == q->batch && m->y.heads == q->heads && m->y.cols == v->cols &&
           m->y.v->type.dtype == made;
}

/* Has the result as many rows as q? A mask that is cut from a triangle hides that; it is known all the
 * same when the mask is the causal one, and what follows is typed again. */
bool cm_attention_keeps_rows(cm_attention_parts *m)
{
    const cm_network *g = m->y.v->network;
    if (m->y.rows == m->q.rows)
        return true;
    m->retype = m->causal && !g->outer;
    for (int i = 0; i < m->n_biases; i++) {
        const cm_type *t = &m->biases[i].v->type;
        m->retype = m->retype &&
                    (t->rank < 2 || t->dims[t->rank - 2] == 1 || t->dims[t->rank - 2] == m->q.rows);
    }
    return m->retype;
}

/* Dims of the result with q's rows for its own. */
void cm_attention_result(const cm_attention_parts *m, cm_dim *dims)
{
    const cm_type *t = &m->y.v->type;
    for (int i = 0; i < t->rank; i++)
        dims[i] = t->dims[i] == m->y.rows ? m->q.rows : t->dims[i];
}

/* A float32 mask makes exporters cast what meets it: scores that were rounded to 16 bits, and then the values. Those are
 * taken before their cast; the probabilities' own rounding is finer than the scores' was. */
static void take_values_before_cast(cm_attention_parts *m)
{
    const cm_node *cast = cm_made_by(m->pv.b, CM_OP_CAST);
    cm_dtype t = m->qk.n->out[0]->type.dtype;
    if (!cast || (t != CM_F16 && t != CM_BF16) || cast->in[0]->type.dtype != t ||
        m->pv.b->type.dtype != CM_F32 || m->pv.n->out[0]->type.dtype != CM_F32)
        return;
    m->pv.b = cast->in[0];
    m->widened = true;
}

bool cm_attention_operands(cm_attention_parts *m)
{
    take_values_before_cast(m);
    if (!trace_all(m, true))
        return false;
    find_heads(m);
    if (m->heads && !trace_all(m, true)) {
        m->heads = 0; /* heads do not divide: take all as batch */
        if (!trace_all(m, true))
            return false;
    }
    if (!trace(m, m->pv.n->out[0], m->pv.of_out, false, false, true, &m->y)) {
        m->why = "the size of a head is not a number";
        return false;
    }
    if (agree(m))
        return true;
    /* Without looking through casts and scales. */
    if (strcmp(m->why, "operands differ in element type") || !trace_all(m, false))
        return false;
    return agree(m);
}
