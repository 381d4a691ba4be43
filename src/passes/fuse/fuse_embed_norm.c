/* fuse_embed_norm.c -- two or three embeddings, their sum and its normalisation in one node.
 *
 *     w = Gather(@word, ids)
 *     p = Gather(@position, 0 1 2 ...)
 *     t = Gather(@segment, types)
 *     a = Add(w, p)
 *     s = Add(a, t)
 *     y = LayerNormalization(s, @gamma, @beta)
 *  becomes
 *     y = com.microsoft.EmbedLayerNormalization(ids, types, @word, @position, @segment, @gamma, @beta)
 *
 * Positions may be a Range (unsqueezed, expanded), the first of a row of 0 1 2 ..., such constants, or any other
 * ids; or a constant with the rows already looked up. ids are [batch, length]; positions may be [1, length].
 * Not when the sum or an embedding is read by others.
 *
 * needs: types, uses, fuse_layer_norm    keeps: types, uses
 * numerics: the sum is not rounded to the element type
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "passes/forms.h"

enum { MOST_TERMS = 3 };

typedef struct {
    cm_value *table, *ids; /* ids NULL: 0 1 2 ... */
    bool is_full;          /* ids have the batch and the length of the result */
} embedding;

typedef struct {
    cm_form form;
    embedding term[MOST_TERMS];
    int n_terms;
    cm_dim batch, length, hidden;
} embeddings;

/* 0 1 2 ... in every row of `length`? */
static bool counts_up(const cm_value *v, int64_t length)
{
    int64_t n = cm_volume(v);
    if (!cm_is_const(v) || length < 1 || n < 1 || !cm_dtype_is_integer(v->type.dtype))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (cm_get_f64(v->constant->dtype, v->constant->data, i) != (double)(i % length))
            return false;
    return true;
}

/* The first elements of a row that counts up. */
static bool is_start_of_count(const cm_node *n)
{
    int64_t v[CM_MAX_RANK];
    int k, rank = cm_rank(n->in[0]);
    if (!cm_is(n, CM_OP_SLICE) || rank < 1 || !counts_up(n->in[0], n->in[0]->type.dims[rank - 1]))
        return false;
    if (!cm_const_ints(n->in[1], v, CM_MAX_RANK, &k))
        return false;
    for (int i = 0; i < k; i++)
        if (v[i] != 0)
            return false;
    if (n->n_in < 5 || !n->in[4])
        return true;
    if (!cm_const_ints(n->in[4], v, CM_MAX_RANK, &k))
        return false;
    for (int i = 0; i < k; i++)
        if (v[i] != 1)
            return false;
    return true;
}

/* Are the ids 0 .. length - 1 in every row? */
static bool is_count(embeddings *e, const cm_value *v)
{
    int rank = cm_rank(v);
    if (rank < 1 || v->type.dims[rank - 1] != e->length)
        return false;
    for (const cm_node *n; (n = cm_maker(v)); v = n->in[0]) {
        cm_note(&e->form, n);
        rank = cm_rank(n->in[0]);
        if (cm_is(n, CM_OP_RANGE))
            return cm_is_number(n->in[0], 0, 0) && cm_is_number(n->in[2], 1, 0);
        if (is_start_of_count(n))
            return true;
        bool keeps = cm_is(n, CM_OP_EXPAND) || cm_is(n, CM_OP_UNSQUEEZE) || cm_is(n, CM_OP_CAST);
        if (!keeps || rank < 1 || n->in[0]->type.dims[rank - 1] != e->length)
            return false;
    }
    return cm_dim_is_size(e->length) && counts_up(v, e->length);
}

/* A constant [.., length, hidden] whose rows are the same in every batch: a table of its own. */
static bool looked_up(const embeddings *e, const cm_value *v)
{
    int rank = cm_rank(v);
    if (!cm_is_const(v) || rank < 2 || rank > 3 || v->type.dims[rank - 2] != e->length ||
        v->type.dims[rank - 1] != e->hidden)
        return false;
    size_t bytes = (size_t)(e->length * e->hidden) * cm_dtype_size(v->type.dtype);
    const char *data = v->constant->data;
    for (int64_t b = 1; rank == 3 && b < v->type.dims[0]; b++)
        if (memcmp(data, data + (size_t)b * bytes, bytes) != 0)
            return false;
    return rank == 2 || v->type.dims[0] > 0;
}

static bool add_term(embeddings *e, cm_value *v)
{
    if (e->n_terms == MOST_TERMS)
        return false;
    embedding *t = &e->term[e->n_terms++];
    *t = (embedding){.table = v};
    if (looked_up(e, v))
        return true;
    const cm_node *gather = cm_sole_use(v) ? cm_made_by(v, CM_OP_GATHER) : NULL;
    if (!gather || cm_int(gather, "axis") != 0 || cm_rank(gather->in[0]) != 2 ||
        gather->in[0]->type.dims[1] != e->hidden)
        return false;
    cm_note(&e->form, gather);
    t->table = gather->in[0];
    int before = e->form.n_nodes;
    if (is_count(e, gather->in[1]))
        return true;
    e->form.n_nodes = before;
    const cm_value *ids = t->ids = gather->in[1];
    if (cm_rank(ids) != 2 || ids->type.dims[1] != e->length)
        return false;
    t->is_full = ids->type.dims[0] == e->batch;
    return t->is_full || ids->type.dims[0] == 1;
}

static bool add_terms(embeddings *e, cm_value *v)
{
    const cm_node *sum = cm_sole_use(v) ? cm_made_by(v, CM_OP_ADD) : NULL;
    if (!sum)
        return add_term(e, v);
    cm_note(&e->form, sum);
    return add_terms(e, sum->in[0]) && add_terms(e, sum->in[1]);
}

/* Put the positions second: what is not looked up for every batch, else the last term. */
static bool order_terms(embeddings *e)
{
    int at = e->n_terms - 1;
    for (int i = 0; i < e->n_terms; i++)
        if (!e->term[i].is_full)
            at = i;
    embedding position = e->term[at], rest[MOST_TERMS];
    int n = 0;
    for (int i = 0; i < e->n_terms; i++)
        if (i != at)
            rest[n++] = e->term[i];
    for (int i = 0; i < n; i++)
        if (!rest[i].is_full)
            return false;
    e->term[0] = rest[0];
    e->term[1] = position;
    if (n > 1)
        e->term[2] = rest[1];
    return true;
}

/* The first rows of a constant [batch, length, hidden]. */
static cm_status flat_table(cm_rewriter *rw, cm_network *g, cm_value *v, cm_value **out)
{
    *out = v;
    if (cm_rank(v) == 2)
        return CM_OK;
    cm_tensor *t;
    CM_NEW(rw->cx, g->arena, t, cm_tensor);
    *t = *v->constant;
    cm_tensor_shape(t, v->constant->dtype, 2, v->constant->dims + 1);
    return cm_network_add_constant(rw->cx, g, v->name, t, out);
}

static cm_status no_bias(cm_rewriter *rw, const cm_node *n, int64_t hidden, cm_value **out)
{
    double *zero;
    CM_NEW_N(rw->cx, rw->cx->scratch, zero, hidden, double);
    memset(zero, 0, (size_t)hidden * sizeof *zero);
    return cm_make_const_f64(rw->cx, n->network, "bias", n->in[0]->type.dtype, 1, &hidden, zero,
                             out);
}

static cm_status make(cm_rewriter *rw, cm_node *n, embeddings *e)
{
    cm_op_id op = CM_OP_MS_EMBED_LAYER_NORMALIZATION;
    cm_value *in[9] = {[0] = e->term[0].ids, [2] = e->term[0].table, [5] = n->in[1]};
    void *attr;
    in[6] = n->n_in > 2 ? n->in[2] : NULL;
    in[8] = e->term[1].ids;
    if (!in[6])
        CM_TRY(no_bias(rw, n, e->hidden, &in[6]));
    CM_TRY(flat_table(rw, n->network, e->term[1].table, &in[3]));
    if (e->n_terms > 2) {
        in[1] = e->term[2].ids;
        in[4] = e->term[2].table;
    }
    CM_TRY(cm_new_attr(rw->cx, n->network, op, &attr));
    CM_TRY(cm_attr_put_float(rw->cx, op, attr, "epsilon", cm_float(n, "epsilon")));
    return cm_form_replace(rw, &e->form, n, op, attr, in, in[8] ? 9 : 7);
}

static bool has_form(const cm_node *n)
{
    const cm_value *s = n->in[0];
    int64_t axis = cm_int(n, "axis");
    cm_dtype t = s->type.dtype;
    if (cm_rank(s) != 3 || (axis != -1 && axis != 2) || !cm_one_output(n) || s->type.dims[2] < 1 ||
        (t != CM_F32 && t != CM_F16 && t != CM_BF16))
        return false;
    for (int i = 1; i < n->n_in; i++)
        if (cm_rank(n->in[i]) != 1 || n->in[i]->type.dims[0] != s->type.dims[2] ||
            n->in[i]->type.dtype != t)
            return false;
    return true;
}

CM_PASS(fuse_embed_norm)
{
    cm_number_nodes(g);
    CM_FOR_NODES (n, g) {
        if (!cm_is(n, CM_OP_LAYER_NORMALIZATION) || !n->out[0] || !n->out[0]->n_uses ||
            !cm_made_by(n->in[0], CM_OP_ADD) || !has_form(n))
            continue;
        const cm_dim *d = n->in[0]->type.dims;
        embeddings e = {.batch = d[0], .length = d[1], .hidden = d[2]};
        if (!add_terms(&e, n->in[0])) {
            if (e.n_terms > 1 && e.term[0].ids)
                cm_near(rw, n, "embeddings not fused: a term of the sum is not looked up");
            continue;
        }
        if (e.n_terms < 2 || !order_terms(&e))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(make(rw, n, &e));
    }
    return CM_OK;
}
