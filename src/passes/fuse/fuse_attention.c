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
 * what is masked takes no part. Not when scores or probabilities are read by others (but for their shape), or when
 * the size of a head is not a number.
 *
 * needs: types, uses, tracked elements    keeps: types, uses
 * numerics: scores are not rounded to the element type; a row that is masked whole by -infinity is 0
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "passes/causal_mask.h"
#include "passes/heads_view.h"
#include "passes/labelled.h"

enum { MOST_BIASES = 4, MOST_INSIDE = 32, MOST_STEPS = 64 };

typedef struct {
    cm_value *v;
    double times;
    const cm_value *at; /* the scores that it was added to, for their shape */
} bias;

typedef struct {
    cm_labelled qk, pv;
    double scale, softcap;
    bias biases[MOST_BIASES], mask;
    int n_biases;
    bool mask_keeps, biased_after_mask, bias_last, causal, retype;
    double fill;
    cm_value *cleared; /* where probabilities are set to 0 after the softmax, or NULL */
    int n_inside;
    cm_value *inside[MOST_INSIDE];      /* scores and probabilities on the way */
    const cm_node *reader[MOST_INSIDE]; /* of each: the node of the pattern */
    int64_t heads; /* when batch and heads are one axis: heads among them, 0 not known */
    cm_heads_at q, k, v, y;
    const char *why;
} found;

/* ---- The scores ----------------------------------------------------------------------------- */

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

static bool put_inside(found *m, cm_value *v, const cm_node *reader)
{
    if (m->n_inside == MOST_INSIDE)
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

static bool take_bias(found *m, const cm_node *n, int x, double sign)
{
    if (m->n_biases == MOST_BIASES || m->softcap != 0 || !cm_is_float(n->in[1 - x]) ||
        cm_rank(n->in[1 - x]) < 0 || cm_rank(n->in[1 - x]) > cm_rank(n->in[x])) {
        m->why = "a bias has more axes than the scores, or stands before the soft cap";
        return false;
    }
    if (m->bias_last) {
        m->why = "biases are added before and after the mask";
        return false;
    }
    m->biases[m->n_biases++] = (bias){n->in[1 - x], sign * m->scale, n->in[x]};
    m->biased_after_mask |= !m->mask.v;
    return true;
}

static bool take_mask(found *m, const cm_node *n, int x)
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
    m->mask = (bias){n->in[0], 1, n->in[x]};
    m->mask_keeps = x == 1;
    return true;
}

/* One node upwards: its input that holds the scores, or -1. */
static int take_node(found *m, const cm_node *n)
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
static bool find_scores(found *m, const cm_node *softmax)
{
    const cm_node *below = softmax;
    cm_value *v = softmax->in[0];
    if (!is_scores(v))
        return false;
    m->scale = 1;
    for (int i = 0; i < MOST_INSIDE; i++) {
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
static bool find_values(found *m, cm_node *softmax)
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
static bool clears_masked(found *m)
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
static bool only_read_here(found *m)
{
    for (int i = 0; i < m->n_inside; i++)
        for (const cm_use *u = m->inside[i]->uses; u; u = u->next)
            if (u->node != m->reader[i] && !cm_is(u->node, CM_OP_SHAPE)) {
                m->why = "scores or probabilities are read by others too";
                return false;
            }
    return true;
}

/* ---- Operands ------------------------------------------------------------------------------- */

/* The place farthest up (or, `made`, down) where the operand can be taken. */
static bool trace(found *m, cm_value *v, const char *labels, bool transposed, bool scaled,
                  bool made, cm_heads_at *best)
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
        reshaped = over && (is_reshape(over) || cm_is(over, CM_OP_FLATTEN)) && fits;
        if (made ? !cm_view_on(t, &w) : !cm_view_back(t, &w, scaled))
            break;
    }
    return any;
}

static bool trace_all(found *m, bool scaled)
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
static void find_heads(found *m)
{
    const cm_heads_at *at[] = {&m->q, &m->k, &m->v};
    if (!strchr(m->qk.of_a, 'n'))
        return;
    for (int i = 0; i < 3 && !m->heads; i++)
        if (at[i]->heads > 1)
            m->heads = at[i]->heads * at[i]->groups;
    for (int i = 0; i <= m->n_biases && !m->heads; i++) {
        const bias *b = i < m->n_biases ? &m->biases[i] : &m->mask;
        if (b->v && cm_rank(b->at) == 4 && cm_dim_is_size(b->at->type.dims[1]) &&
            b->at->type.dims[1] > 1)
            m->heads = b->at->type.dims[1];
    }
}

static bool agree(found *m)
{
    const cm_heads_at *q = &m->q, *k = &m->k, *v = &m->v;
    m->why = "operands differ in batch, heads or lengths";
    if (q->batch != k->batch || q->batch != v->batch || q->groups != 1 || k->groups != v->groups ||
        k->heads != v->heads || k->heads * k->groups != q->heads || q->cols != k->cols ||
        k->rows != v->rows)
        return false;
    m->why = "operands differ in element type";
    cm_dtype t = q->v->type.dtype;
    if (t != k->v->type.dtype || t != v->v->type.dtype || t != m->pv.n->out[0]->type.dtype)
        return false;
    m->why = "the result is not laid out by batch, heads and rows";
    return m->y.batch == q->batch && m->y.heads == q->heads && m->y.cols == v->cols &&
           m->y.v->type.dtype == t;
}

/* Has the result as many rows as q? A mask that is cut from a triangle hides that; it is known all the
 * same when the mask is the causal one, and what follows is typed again. */
static bool keeps_rows(found *m)
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
static void result_dims(const found *m, cm_dim *dims)
{
    const cm_type *t = &m->y.v->type;
    for (int i = 0; i < t->rank; i++)
        dims[i] = t->dims[i] == m->y.rows ? m->q.rows : t->dims[i];
}

static bool find_operands(found *m)
{
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

/* ---- Masks ---------------------------------------------------------------------------------- */

/* The shape in which a bias or mask broadcasts to [batch, heads, rows, cols]. False: none. */
static bool align(const found *m, const bias *b, int *rank, cm_dim *dims)
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
static void skip_expand(bias *b)
{
    cm_node *n = b->v ? cm_made_by(b->v, CM_OP_EXPAND) : NULL;
    if (n && cm_rank(n->in[0]) >= 0 && cm_rank(n->in[0]) <= cm_rank(b->v))
        b->v = n->in[0];
}

static bool check_mask(found *m, bias *b)
{
    cm_dim dims[4];
    int rank;
    skip_expand(b);
    if (!align(m, b, &rank, dims) || !cm_can_reshape(cm_rank(b->v), b->v->type.dims, rank, dims)) {
        m->why = "a mask does not broadcast to [batch, heads, rows, columns]";
        return false;
    }
    return true;
}

static bool find_masks(found *m)
{
    int k = 0;
    for (int i = 0; i < m->n_biases; i++) {
        bias *b = &m->biases[i];
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

/* ---- The new node --------------------------------------------------------------------------- */

static cm_status aligned(cm_rewriter *rw, const found *m, cm_node *before, const bias *b,
                         cm_value **out)
{
    cm_dim dims[4];
    int rank;
    align(m, b, &rank, dims);
    return cm_view_as(rw, before, m->pv.n, b->v, rank, dims, out);
}

static cm_status make_bias(cm_rewriter *rw, const found *m, cm_node *before, cm_value **out)
{
    cm_node *n;
    *out = NULL;
    for (int i = 0; i < m->n_biases; i++) {
        const bias *b = &m->biases[i];
        cm_value *v, *c;
        CM_TRY(aligned(rw, m, before, b, &v));
        if (b->times != 1) {
            CM_TRY(cm_make_scalar(rw->cx, before->network, NULL, v->type.dtype, b->times, &c));
            CM_TRY(cm_make(rw, before, CM_OP_MUL, m->pv.n, (cm_value *[]){v, c}, 2, 1, &n));
            v = n->out[0];
        }
        if (*out && (*out)->type.dtype != v->type.dtype) {
            void *attr;
            CM_TRY(cm_new_attr(rw->cx, before->network, CM_OP_CAST, &attr));
            CM_TRY(cm_attr_put_int(rw->cx, CM_OP_CAST, attr, "to", (*out)->type.dtype));
            CM_TRY(cm_make_with(rw, before, CM_OP_CAST, attr, m->pv.n, &v, 1, 1, &n));
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

static cm_status make_mask(cm_rewriter *rw, const found *m, cm_node *before, cm_value **out)
{
    cm_node *n;
    *out = NULL;
    if (!m->mask.v)
        return CM_OK;
    bias b = m->mask;
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

static cm_status make_attr(cm_rewriter *rw, const found *m, cm_network *g, void **out)
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
static cm_status replace_shape(cm_rewriter *rw, const found *m, cm_node *shape, bool *done)
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

static cm_status replace_shapes(cm_rewriter *rw, const found *m)
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

static cm_status rewrite(cm_rewriter *rw, found *m, const cm_node *softmax)
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
    result_dims(m, dims);
    CM_TRY(cm_view_as(rw, last, m->pv.n, n->out[0], cm_rank(m->y.v), dims, &y));
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
        found m = {.why = NULL};
        if ((axis != -1 && axis != cm_rank(n->in[0]) - 1) || !find_values(&m, n) ||
            !m.pv.n->out[0]->n_uses)
            continue;
        if (!find_scores(&m, n) || !clears_masked(&m) || !only_read_here(&m) ||
            !find_operands(&m) || !find_masks(&m) || !keeps_rows(&m)) {
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
