/* attention_forms.c -- attention operators as cameo.Attention, which has kernels.
 *
 *     y, pk, pv = Attention(q, k, v, mask, past_k, past_v) {q_num_heads=8, kv_num_heads=2}
 *  becomes
 *     y, pk, pv = cameo.Attention(q, k, v, _, mask, past_k, past_v) {q_num_heads=8, ...}
 *
 * and com.microsoft.MultiHeadAttention likewise, a constant bias of its projections as Adds before. For a plan only, since these
 * are more nodes, but have kernels: of com.microsoft.Attention and QAttention the projection becomes a product of its own, past and
 * present are taken apart and put together; of both a mask of keys (or how many of each batch are valid) becomes a bias.
 * A mask of bools stays a mask, any other is a bias. Left alone: caches that are written in
 * place, scores as an output (scores_apart.c), packed operands. Causality counts from the first
 * query there and from the last here, which is the same where as many keys as queries are fresh; else, for windows, and for how many keys
 * of each batch are valid, a mask is drawn: a constant where sizes are numbers, else, for a plan only, by nodes.
 *
 * needs: types    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "passes/causal_mask.h"
#include "passes/chain.h"

typedef struct {
    cm_value *in[7]; /* of cameo.Attention; NULL: absent */
    int64_t heads, kv_heads, size, v_size;
    bool q_by_heads, kv_by_heads; /* of rank 4 */
    double scale, softcap;
    bool causal;
    int64_t left, right; /* keys of the window, -1: all */
    bool
        drawn; /* a mask for these, and for the valid keys, by nodes where sizes are not numbers: */
    bool by_nodes;
    cm_value *lengths;
    int64_t uncovered; /* keys that the mask, or the bias, is too short for */
    cm_value *projection_bias;
    bool cached; /* keys and values have theirs already */
    /* com.microsoft: keys where `keep` ([batch, keys]) is 0, or which are not among the first `keep` ([batch]), lose `filter` */
    cm_value *keep;
    double filter;
    /* com.microsoft.Attention: q, k and v are columns of x * weights; keys and values of the past one behind the other. QAttention: x
     * and weights are of bytes. */
    cm_value *x, *weights, *past;
    bool quantised;
} form;

static cm_value *input(const cm_node *n, int i)
{
    return i < n->n_in ? n->in[i] : NULL;
}

/* Is axis a of v a number of at least 1? */
static bool read_size(const cm_value *v, int axis, int64_t *out)
{
    *out = v->type.dims[axis];
    return cm_dim_is_size(v->type.dims[axis]) && *out > 0;
}

/* The length of k and v, with what came before. */
static cm_dim total_of(const cm_network *g, const form *f)
{
    if (f->x)
        return f->past ? cm_dim_add(g->dims, f->x->type.dims[1], f->past->type.dims[3])
                       : f->x->type.dims[1];
    int seq = cm_rank(f->in[1]) == 4 ? 2 : 1;
    cm_dim fresh = f->in[1]->type.dims[seq];
    return f->in[5] ? cm_dim_add(g->dims, fresh, f->in[5]->type.dims[2]) : fresh;
}

/* A mask of bools to input 4, any other to 3. Keys that it does not cover are not seen. */
static bool take_mask(const cm_network *g, form *f, cm_value *mask)
{
    int rank = cm_rank(mask);
    if (!mask)
        return true;
    if (rank < 1 || rank > 4)
        return false;
    cm_dim covered = mask->type.dims[rank - 1], total = total_of(g, f);
    if (covered != total) {
        if (!cm_dim_is_size(covered) || !cm_dim_is_size(total) || covered > total || covered == 1)
            return false;
        f->uncovered = total - covered;
    }
    f->in[mask->type.dtype == CM_BOOL ? 4 : 3] = mask;
    return true;
}

/* Ranks known, keys and values of the same rank, past ones of rank 4. */
static bool take_operands(const cm_node *n, form *f, int past)
{
    for (int i = 0; i < 3; i++)
        if (!(f->in[i] = input(n, i)) || !cm_is_float(f->in[i]))
            return false;
    f->in[5] = input(n, past);
    f->in[6] = input(n, past + 1);
    if ((f->in[5] && cm_rank(f->in[5]) != 4) || (f->in[6] && cm_rank(f->in[6]) != 4))
        return false;
    int q = cm_rank(f->in[0]), k = cm_rank(f->in[1]);
    if ((q != 3 && q != 4) || (k != 3 && k != 4) || cm_rank(f->in[2]) != k)
        return false;
    f->q_by_heads = q == 4;
    f->kv_by_heads = k == 4;
    return true;
}

static cm_dim length_of(const cm_value *v)
{
    return v->type.dims[cm_rank(v) == 4 ? 2 : 1];
}

static bool as_many_keys(const form *f)
{
    return length_of(f->in[0]) == length_of(f->in[1]);
}

/* Is a mask needed, and can it be drawn? */
static bool take_lengths(const cm_network *g, form *f, cm_value *lengths)
{
    enum { MOST = 1 << 24 };
    f->lengths = lengths;
    f->drawn = lengths || (f->causal && !as_many_keys(f)) || f->left >= 0 || f->right >= 0;
    if (!f->drawn)
        return true;
    cm_dim q = length_of(f->in[0]), total = total_of(g, f);
    bool numbers = cm_dim_is_size(q) && cm_dim_is_size(total);
    f->by_nodes = !numbers || (lengths && (f->left >= 0 || f->right >= 0));
    if (numbers && total != 0 && q > MOST / total)
        return false;
    return !lengths || cm_rank(lengths) == 1;
}

/* Sizes of heads of v, which has `heads` of them. */
static bool read_head(const cm_value *v, int64_t heads, int64_t *out)
{
    int64_t columns;
    if (cm_rank(v) == 4)
        return read_size(v, 3, out);
    if (heads < 1 || !read_size(v, 2, &columns) || columns % heads)
        return false;
    *out = columns / heads;
    return true;
}

static bool read_attention(const cm_node *n, form *f)
{
    f->causal = cm_int(n, "is_causal") != 0;
    f->left = cm_int(n, "left_window_size");
    f->right = cm_int(n, "right_window_size");
    if ((n->n_out > 3 && n->out[3] && n->out[3]->n_uses) || !take_operands(n, f, 4) ||
        cm_rank(f->in[0]) != cm_rank(f->in[1]))
        return false;
    f->heads = cm_int(n, "q_num_heads");
    f->kv_heads = cm_int(n, "kv_num_heads");
    if (cm_rank(f->in[0]) == 4 &&
        (!read_size(f->in[0], 1, &f->heads) || !read_size(f->in[1], 1, &f->kv_heads)))
        return false;
    if (!read_head(f->in[0], f->heads, &f->size) || !read_head(f->in[2], f->kv_heads, &f->v_size))
        return false;
    f->scale = cm_attr_has(n->op->attrs, n->attr, "scale") ? cm_float(n, "scale")
                                                           : 1 / sqrt((double)f->size);
    f->softcap = cm_float(n, "softcap");
    return take_mask(n->network, f, input(n, 3)) && take_lengths(n->network, f, input(n, 6));
}

/* May v have a column for every key? What is no number is taken at the operator's word. */
static bool covers_keys(const cm_value *v, int axis, cm_dim total)
{
    cm_dim d = v->type.dims[axis];
    return d == total || !cm_dim_is_size(d) || !cm_dim_is_size(total);
}

/* com.microsoft's: a number for each query and key. */
static bool take_bias(const cm_node *n, form *f, cm_value *bias)
{
    f->in[3] = bias;
    return !bias || (cm_rank(bias) == 4 && covers_keys(bias, 3, total_of(n->network, f)));
}

/* com.microsoft's mask of keys, which every key has a place in; or one column, which changes nothing, as it is the same for all. */
static bool take_keep(const cm_node *n, form *f, cm_value *keep, cm_dim batch)
{
    cm_dim total = total_of(n->network, f);
    f->keep = keep;
    f->filter = cm_float(n, "mask_filter_value");
    if (!keep)
        return true;
    if (f->in[3] && f->in[3]->type.dtype != CM_F32)
        return false;
    if (cm_rank(keep) == 1) /* longer ones have beginnings too */
        return keep->type.dims[0] == batch && (cm_dim_is_size(total) || f->x) && !f->past;
    return cm_rank(keep) == 2 && covers_keys(keep, 1, total) && total != 1;
}

static bool read_multi_head(const cm_node *n, form *f)
{
    f->causal = cm_int(n, "unidirectional") != 0;
    if (input(n, 8) || input(n, 9) || (n->n_out > 3 && n->out[3]) || !take_operands(n, f, 6) ||
        cm_rank(f->in[0]) != 3 || (f->causal && !as_many_keys(f)))
        return false;
    f->cached = cm_rank(f->in[1]) == 4;
    if (f->cached)
        f->in[5] = f->in[6] = NULL; /* not looked at beside a finished cache */
    f->heads = f->kv_heads = cm_int(n, "num_heads");
    f->projection_bias = input(n, 3);
    if (f->projection_bias && !cm_is_const(f->projection_bias))
        return false;
    if (!read_head(f->in[0], f->heads, &f->size) || !read_head(f->in[2], f->heads, &f->v_size))
        return false;
    double scale = cm_attr_has(n->op->attrs, n->attr, "scale") ? cm_float(n, "scale") : 0;
    f->scale = scale != 0 ? scale : 1 / sqrt((double)f->size);
    return take_bias(n, f, input(n, 5)) && take_keep(n, f, input(n, 4), f->in[0]->type.dims[0]);
}

/* Sizes of heads among the columns of the weights. */
static bool read_columns(const cm_node *n, form *f)
{
    int64_t columns, hidden[3];
    cm_ints sizes = f->quantised ? (cm_ints){0} : cm_int_list(n, "qkv_hidden_sizes");
    if (!read_size(f->weights, 1, &columns) || (sizes.n && sizes.n != 3) || f->heads < 1)
        return false;
    for (int i = 0; i < 3; i++)
        hidden[i] = sizes.n ? sizes.v[i] : columns / 3;
    f->size = hidden[0] / f->heads;
    f->v_size = hidden[2] / f->heads;
    return f->size > 0 && f->v_size > 0 && f->size * f->heads == hidden[0] &&
           f->v_size * f->heads == hidden[2] && hidden[0] + hidden[1] + hidden[2] == columns;
}

/* [2, batch, heads, length, size] */
static bool take_past(const cm_node *n, form *f)
{
    bool present = n->n_out > 1 && n->out[1];
    f->past = input(n, f->quantised ? 8 : 4);
    if (!f->past && !present)
        return true;
    return f->size == f->v_size && (!f->past || cm_rank(f->past) == 5);
}

static bool read_projected(const cm_node *n, form *f)
{
    f->quantised = cm_is(n, CM_OP_MS_QATTENTION);
    f->x = input(n, 0);
    f->weights = input(n, 1);
    f->heads = f->kv_heads = cm_int(n, "num_heads");
    f->projection_bias = input(n, 2);
    f->causal = cm_int(n, "unidirectional") != 0;
    if ((!f->quantised && (input(n, 6) || !cm_is_float(f->x))) ||
        cm_int(n, "past_present_share_buffer") || cm_rank(f->x) != 3 || cm_rank(f->weights) != 2 ||
        !read_columns(n, f) || !take_past(n, f))
        return false;
    if (!take_bias(n, f, f->quantised ? NULL : input(n, 5)))
        return false;
    double scale = cm_attr_has(n->op->attrs, n->attr, "scale") ? cm_float(n, "scale") : 0;
    f->scale = scale != 0 ? scale : 1 / sqrt((double)f->size);
    return take_keep(n, f, input(n, f->quantised ? 5 : 3), f->x->type.dims[0]);
}

/* ---- Rewriting ------------------------------------------------------------------------------ */

/* Queries, keys and values with their part of the bias. */
static cm_status add_biases(cm_rewriter *rw, cm_node *n, form *f)
{
    const double *all;
    int64_t count, at = 0;
    if (!f->projection_bias)
        return CM_OK;
    CM_TRY(cm_const_f64(rw->cx, f->projection_bias, &all, &count));
    for (int i = 0; i < (f->cached ? 1 : 3); i++) {
        int64_t columns = f->heads * (i == 2 ? f->v_size : f->size);
        cm_node *sum;
        cm_value *in[2] = {f->in[i]};
        CM_TRY(cm_make_const_f64(rw->cx, n->network, NULL, f->projection_bias->type.dtype, 1,
                                 &columns, all + at, &in[1]));
        CM_TRY(cm_make(rw, n, CM_OP_ADD, n, in, 2, 1, &sum));
        f->in[i] = sum->out[0];
        at += columns;
    }
    return CM_OK;
}

/* Keys or values of the past: the first or the second half of it. */
static cm_status take_half(cm_rewriter *rw, cm_node *n, const form *f, int64_t half, cm_value **out)
{
    cm_value *at;
    cm_node *m;
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 0, NULL, &half, &at));
    CM_TRY(cm_make(rw, n, CM_OP_GATHER, n, (cm_value *[]){f->past, at}, 2, 1, &m));
    *out = m->out[0];
    return CM_OK;
}

/* The product that queries, keys and values are columns of. */
static cm_status multiply(cm_rewriter *rw, cm_node *n, const form *f, cm_node **out)
{
    if (f->quantised) {
        cm_value *in[] = {f->x,        f->weights,  input(n, 3),       input(n, 4),
                          input(n, 6), input(n, 7), f->projection_bias};
        return cm_make(rw, n, CM_OP_MS_MATMUL_INTEGER_TO_FLOAT, n, in, CM_COUNT(in), 1, out);
    }
    CM_TRY(cm_make(rw, n, CM_OP_MATMUL, n, (cm_value *[]){f->x, f->weights}, 2, 1, out));
    if (!f->projection_bias)
        return CM_OK;
    cm_value *in[] = {(*out)->out[0], f->projection_bias};
    return cm_make(rw, n, CM_OP_ADD, n, in, 2, 1, out);
}

/* Queries, keys and values side by side, and what came before. */
static cm_status project(cm_rewriter *rw, cm_node *n, form *f)
{
    cm_node *m;
    CM_TRY(multiply(rw, n, f, &m));
    for (int i = 0; i < 3; i++)
        f->in[i] = m->out[0];
    for (int i = 0; f->past && i < 2; i++)
        CM_TRY(take_half(rw, n, f, i, &f->in[5 + i]));
    return CM_OK;
}

/* Present keys and values as one tensor again. */
static cm_status put_together(cm_rewriter *rw, cm_node *n, const cm_node *attention)
{
    static const int64_t one = 1, first = 0;
    cm_value *at, *in[2];
    cm_node *m;
    void *attr;
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &one, &first, &at));
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_CONCAT, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_CONCAT, attr, "axis", 0));
    for (int i = 0; i < 2; i++) {
        CM_TRY(cm_make(rw, n, CM_OP_UNSQUEEZE, n, (cm_value *[]){attention->out[1 + i], at}, 2, 1,
                       &m));
        in[i] = m->out[0];
    }
    CM_TRY(cm_make_with(rw, n, CM_OP_CONCAT, attr, n, in, 2, 1, &m));
    return cm_replace_uses(rw->cx, n->out[1], m->out[0]);
}

/* 0, 1, ... as many as there are keys, in the type of lengths. */
static cm_status number_keys(cm_rewriter *rw, cm_node *n, const form *f, cm_value **out)
{
    static const int64_t number[] = {0, 1};
    cm_network *g = n->network;
    cm_dim total = total_of(g, f);
    cm_value *at[2], *size;
    cm_node *m;
    for (int i = 0; i < 2; i++)
        CM_TRY(cm_make_const_i64(rw->cx, g, NULL, 0, NULL, &number[i], &at[i]));
    if (cm_dim_is_size(total)) {
        CM_TRY(cm_make_const_i64(rw->cx, g, NULL, 0, NULL, &total, &size));
    } else {
        CM_TRY(cm_make(rw, n, CM_OP_SHAPE, n, &f->x, 1, 1, &m));
        CM_TRY(cm_make(rw, n, CM_OP_GATHER, n, (cm_value *[]){m->out[0], at[1]}, 2, 1, &m));
        size = m->out[0];
    }
    CM_TRY(cm_make(rw, n, CM_OP_RANGE, n, (cm_value *[]){at[0], size, at[1]}, 3, 1, &m));
    CM_TRY(cm_make_cast(rw, n, n, m->out[0], f->keep->type.dtype, &m));
    *out = m->out[0];
    return CM_OK;
}

/* Which keys are among the first ones of each batch, [batch, keys]. */
static cm_status keep_first(cm_rewriter *rw, cm_node *n, const form *f, cm_node **out)
{
    static const int64_t one = 1;
    cm_value *places, *at;
    cm_node *m;
    CM_TRY(number_keys(rw, n, f, &places));
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &one, &one, &at));
    CM_TRY(cm_make(rw, n, CM_OP_UNSQUEEZE, n, (cm_value *[]){f->keep, at}, 2, 1, &m));
    return cm_make(rw, n, CM_OP_LESS, n, (cm_value *[]){places, m->out[0]}, 2, 1, out);
}

static cm_status keep_those(cm_rewriter *rw, cm_node *n, form *f, cm_node **out)
{
    return cm_make_cast(rw, n, n, f->keep, CM_BOOL, out);
}

/* [batch, keys] of false for masked ones as [batch, 1, 1, keys] of what is added to their scores. */
static cm_status add_filter(cm_rewriter *rw, cm_node *n, form *f)
{
    static const int64_t two = 2, axes[] = {1, 2};
    cm_network *g = n->network;
    cm_node *m;
    cm_value *at, *none, *filter;
    CM_TRY(cm_rank(f->keep) == 1 ? keep_first(rw, n, f, &m) : keep_those(rw, n, f, &m));
    CM_TRY(cm_make_const_i64(rw->cx, g, NULL, 1, &two, axes, &at));
    CM_TRY(cm_make(rw, n, CM_OP_UNSQUEEZE, n, (cm_value *[]){m->out[0], at}, 2, 1, &m));
    CM_TRY(cm_make_scalar(rw->cx, g, NULL, CM_F32, 0, &none));
    CM_TRY(cm_make_scalar(rw->cx, g, NULL, CM_F32, f->filter, &filter));
    CM_TRY(cm_make(rw, n, CM_OP_WHERE, n, (cm_value *[]){m->out[0], none, filter}, 3, 1, &m));
    if (f->in[3])
        CM_TRY(cm_make(rw, n, CM_OP_ADD, n, (cm_value *[]){f->in[3], m->out[0]}, 2, 1, &m));
    f->in[3] = m->out[0];
    return CM_OK;
}

/* Causality and windows alone: which query may see which key. */
static cm_status draw_seen(cm_rewriter *rw, cm_node *n, const form *f, cm_value **out)
{
    int64_t keys = total_of(n->network, f);
    cm_seen s = {.queries = length_of(f->in[0]),
                 .keys = keys,
                 .past = keys - length_of(f->in[1]),
                 .causal = f->causal,
                 .left = f->left,
                 .right = f->right};
    return cm_draw_seen(rw->cx, n->network, &s, out);
}

/* What a batch's length must reach for a key to be valid, and seen: the last query stands at the last valid key. */
static cm_status draw_lengths(cm_rewriter *rw, cm_node *n, const form *f, cm_value **out)
{
    static const int64_t three = 3, axes[] = {1, 2, 3};
    cm_network *g = n->network;
    int64_t q = length_of(f->in[0]), dims[] = {f->causal ? q : 1, total_of(g, f)};
    int64_t *least = cm_new_n(rw->cx->scratch, dims[0] * dims[1] + 1, int64_t);
    cm_value *at, *needed;
    cm_node *m;
    if (!least)
        return cm_fail_memory(rw->cx);
    for (int64_t i = 0; i < dims[0]; i++)
        for (int64_t j = 0; j < dims[1]; j++)
            least[i * dims[1] + j] = f->causal ? j - i + q : j + 1;
    CM_TRY(cm_make_const_i64(rw->cx, g, NULL, 2, dims, least, &needed));
    CM_TRY(cm_make_const_i64(rw->cx, g, NULL, 1, &three, axes, &at));
    CM_TRY(cm_make(rw, n, CM_OP_UNSQUEEZE, n, (cm_value *[]){f->lengths, at}, 2, 1, &m));
    CM_TRY(cm_make(rw, n, CM_OP_LESS_OR_EQUAL, n, (cm_value *[]){needed, m->out[0]}, 2, 1, &m));
    *out = m->out[0];
    return CM_OK;
}

/* The mask in a type that kernels read, as long as the keys. */
static cm_status finish_mask(cm_rewriter *rw, cm_node *n, form *f)
{
    cm_value **mask = &f->in[f->in[4] ? 4 : 3], *pads, *none;
    int64_t places[8] = {0}, rank = cm_rank(*mask), count = 2 * rank;
    cm_node *m;
    if (!cm_is_float(*mask) && (*mask)->type.dtype != CM_BOOL) {
        CM_TRY(cm_make_cast(rw, n, n, *mask, CM_F32, &m));
        *mask = m->out[0];
    }
    if (!f->uncovered)
        return CM_OK;
    places[count - 1] = f->uncovered;
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &count, places, &pads));
    CM_TRY(cm_make_scalar(rw->cx, n->network, NULL, (*mask)->type.dtype, f->in[4] ? 0 : -INFINITY,
                          &none));
    CM_TRY(cm_make(rw, n, CM_OP_PAD, n, (cm_value *[]){*mask, pads, none}, 3, 1, &m));
    *mask = m->out[0];
    return CM_OK;
}

/* How long axis 2 (or 1, where heads lie side by side) of v is. */
static cm_value *length_node(cm_chain *c, cm_value *v)
{
    cm_value *axis = NULL;
    const int64_t at = cm_rank(v) == 4 ? 2 : 1;
    if (c->st == CM_OK)
        c->st = cm_make_const_i64(c->rw->cx, c->at->network, NULL, 0, NULL, &at, &axis);
    return CM_THEN(c, CM_OP_GATHER, NULL, CM_THEN(c, CM_OP_SHAPE, NULL, v), axis);
}

static cm_value *number(cm_chain *c, int64_t v)
{
    return cm_chain_number(c, CM_I64, (double)v);
}

/* 0, 1, ... */
static cm_value *count_up(cm_chain *c, cm_value *n)
{
    return CM_THEN(c, CM_OP_RANGE, NULL, number(c, 0), n, number(c, 1));
}

static cm_value *both(cm_chain *c, cm_value *a, cm_value *b)
{
    return a ? CM_THEN(c, CM_OP_AND, NULL, a, b) : b;
}

/* Query i stands at key `end` - queries + i, so that key j is d - end ahead of it with d = j - i + queries. */
static cm_status draw_by_nodes(cm_rewriter *rw, cm_node *n, const form *f, cm_value **out)
{
    static const int64_t axes[] = {1, 2, 3};
    cm_chain c = {rw, n, CM_OK};
    cm_value *q = length_node(&c, f->in[0]), *fresh = length_node(&c, f->in[1]), *seen = NULL;
    cm_value *past = f->in[5] ? length_node(&c, f->in[5]) : number(&c, 0);
    cm_value *keys = count_up(&c, CM_THEN(&c, CM_OP_ADD, NULL, past, fresh));
    cm_value *end = f->lengths
                        ? CM_THEN(&c, CM_OP_UNSQUEEZE, NULL, f->lengths, cm_chain_list(&c, 3, axes))
                        : CM_THEN(&c, CM_OP_ADD, NULL, past, q);
    cm_value *row = CM_THEN(&c, CM_OP_SUB, NULL, count_up(&c, q), q);
    row = CM_THEN(&c, CM_OP_UNSQUEEZE, NULL, row, cm_chain_list(&c, 1, axes));
    cm_value *d = CM_THEN(&c, CM_OP_SUB, NULL, keys, row);
    if (f->causal)
        seen = CM_THEN(&c, CM_OP_LESS_OR_EQUAL, NULL, d, end);
    else if (f->lengths)
        seen = CM_THEN(&c, CM_OP_LESS, NULL, keys, end);
    if (f->left >= 0)
        seen = both(&c, seen,
                    CM_THEN(&c, CM_OP_GREATER_OR_EQUAL, NULL, d,
                            CM_THEN(&c, CM_OP_SUB, NULL, end, number(&c, f->left))));
    if (f->right >= 0)
        seen = both(&c, seen,
                    CM_THEN(&c, CM_OP_LESS_OR_EQUAL, NULL, d,
                            CM_THEN(&c, CM_OP_ADD, NULL, end, number(&c, f->right))));
    *out = seen;
    return c.st;
}

static cm_status draw_mask(cm_rewriter *rw, cm_node *n, form *f)
{
    cm_value *mask;
    cm_node *m;
    if (f->by_nodes)
        CM_TRY(draw_by_nodes(rw, n, f, &mask));
    else
        CM_TRY(f->lengths ? draw_lengths(rw, n, f, &mask) : draw_seen(rw, n, f, &mask));
    if (f->in[4]) {
        CM_TRY(cm_make(rw, n, CM_OP_AND, n, (cm_value *[]){f->in[4], mask}, 2, 1, &m));
        mask = m->out[0];
    }
    f->in[4] = mask;
    f->causal = false;
    return CM_OK;
}

static cm_status make_attr(cm_rewriter *rw, cm_network *g, const form *f, void **out)
{
    const cm_op_id op = CM_OP_FUSED_ATTENTION;
    void *a;
    CM_TRY(cm_new_attr(rw->cx, g, op, &a));
    CM_TRY(cm_attr_put_int(rw->cx, op, a, "q_num_heads", f->heads));
    CM_TRY(cm_attr_put_int(rw->cx, op, a, "kv_num_heads", f->kv_heads));
    CM_TRY(cm_attr_put_int(rw->cx, op, a, "head_size", f->size));
    CM_TRY(cm_attr_put_int(rw->cx, op, a, "v_head_size", f->v_size));
    CM_TRY(cm_attr_put_float(rw->cx, op, a, "scale", f->scale));
    if (f->softcap != 0)
        CM_TRY(cm_attr_put_float(rw->cx, op, a, "softcap", f->softcap));
    if (f->causal)
        CM_TRY(cm_attr_put_int(rw->cx, op, a, "is_causal", 1));
    const int64_t hidden = f->heads * f->size, offsets[] = {0, hidden, 2 * hidden};
    if (f->x)
        CM_TRY(cm_attr_put_ints(rw->cx, g, op, a, "offsets", offsets, 3));
    static const char *const names[] = {"q_layout", "k_layout", "v_layout", "y_layout"};
    const bool of_heads[] = {f->q_by_heads, f->kv_by_heads, f->kv_by_heads, f->q_by_heads};
    for (int i = 0; i < CM_COUNT(names); i++)
        if (of_heads[i])
            CM_TRY(cm_attr_put_string(rw->cx, g, op, a, names[i], "bhsd"));
    *out = a;
    return CM_OK;
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, form *f)
{
    void *attr;
    cm_node *m;
    int n_in = 7, n_out = n->n_out < 3 ? n->n_out : 3;
    bool together = f->x && n_out == 2 && n->out[1];
    CM_TRY(f->x ? project(rw, n, f) : add_biases(rw, n, f));
    if (f->in[3] || f->in[4])
        CM_TRY(finish_mask(rw, n, f));
    if (f->keep)
        CM_TRY(add_filter(rw, n, f));
    if (f->drawn)
        CM_TRY(draw_mask(rw, n, f));
    CM_TRY(make_attr(rw, n->network, f, &attr));
    while (!f->in[n_in - 1])
        n_in--;
    CM_TRY(
        cm_make_with(rw, n, CM_OP_FUSED_ATTENTION, attr, n, f->in, n_in, together ? 3 : n_out, &m));
    if (together)
        CM_TRY(put_together(rw, n, m));
    for (int o = 1; o < n_out && !together; o++)
        if (n->out[o])
            CM_TRY(cm_replace_uses(rw->cx, n->out[o], m->out[o]));
    return cm_replace(rw, n, m->out[0], m);
}

CM_PASS(attention_forms)
{
    CM_FOR_NODES (n, g) {
        form f = {.left = -1, .right = -1};
        bool fits = cm_is(n, CM_OP_ATTENTION)                 ? read_attention(n, &f)
                    : cm_is(n, CM_OP_MS_MULTI_HEAD_ATTENTION) ? read_multi_head(n, &f)
                    : cm_is(n, CM_OP_MS_ATTENTION)            ? read_projected(n, &f)
                    : cm_is(n, CM_OP_MS_QATTENTION)           ? read_projected(n, &f)
                                                              : false;
        bool more = f.x || f.keep || f.by_nodes ||
                    (f.cached && f.projection_bias); /* nodes, which plans want */
        if (!fits || !n->out[0] || (more && !rw->options->for_plan))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(rewrite(rw, n, &f));
    }
    return CM_OK;
}
