/* dims_from_constraints.c -- sizes that the network itself forces.
 *
 *     x: f32[batch, k]        x: f32[batch, 768]
 *     y = MatMul(x, @w)   becomes  y = MatMul(x, @w)      with @w: f32[768, n]
 *
 * An operator that refuses every other size tells what a symbol must be: a number, or another symbol. Such
 * symbols are replaced in the types of the network's inputs and all types are inferred anew, so that shape
 * arithmetic on them folds; the runtime checks an input against its type, so an input that was refused by
 * the operator is now refused at the door. Only nodes that run whatever the data say count (none in a
 * branch or a body), and only equalities: a size that may be 1 and broadcast is not forced. A symbol on
 * which two nodes disagree is left alone, for run time to complain about.
 *
 * Bounds are forced likewise, and expressions that they decide are simpler afterwards: what a convolution or a pool
 * gives has no negative size (max(n - 2, 0) is n - 2), and an axis of n that meets one of min(n, 5000)
 * has at most 5000 (min(n, 5000) is n). So has one that counts the rows to be gathered from a table of 5000.
 *
 * needs: types    keeps: uses; infers types anew
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/size.h"
#include "passes/match.h"

/* Symbols and what they were found to equal. Classes of symbols, with a number where one is known. */
typedef struct {
    cm_dim_table *dims;
    int n;           /* symbols that there were when the pass began */
    int *parent;     /* union-find; the lower index is the representative */
    int64_t *number; /* of a representative; -1: none, -2: more than one */
    bool *is_input;  /* is it a size of an input, bare? */
    const cm_node **why;
} facts;

static int find(facts *f, int s)
{
    while (f->parent[s] != s)
        s = f->parent[s] = f->parent[f->parent[s]];
    return s;
}

static void set_number(facts *f, int s, int64_t v, const cm_node *n)
{
    s = find(f, s);
    if (f->number[s] == -1) {
        f->number[s] = v;
        f->why[s] = n;
    } else if (f->number[s] != v) {
        f->number[s] = -2;
    }
}

static void join(facts *f, int a, int b, const cm_node *n)
{
    a = find(f, a);
    b = find(f, b);
    if (a == b)
        return;
    int low = a < b ? a : b, high = a < b ? b : a;
    f->parent[high] = low;
    if (!f->why[high])
        f->why[high] = n;
    if (f->number[high] >= 0)
        set_number(f, low, f->number[high], n);
    else if (f->number[high] == -2)
        f->number[low] = -2;
}

/* The symbol of an input that d is, or -1. */
static int input_symbol(const facts *f, cm_dim d)
{
    int s = cm_dim_symbol_index(f->dims, d);
    return s >= 0 && s < f->n && f->is_input[s] ? s : -1;
}

static void equal(facts *f, const cm_node *n, cm_dim a, cm_dim b)
{
    int s = input_symbol(f, a), t = input_symbol(f, b);
    if (s >= 0 && t >= 0)
        join(f, s, t, n);
    else if (s >= 0 && cm_dim_is_size(b))
        set_number(f, s, b, n);
    else if (t >= 0 && cm_dim_is_size(a))
        set_number(f, t, a, n);
}

/* Axis `axis` (from the end when negative) of input i of n, or CM_DIM_ERROR. */
static cm_dim axis_of(const cm_node *n, int i, int axis)
{
    const cm_value *v = i < n->n_in ? n->in[i] : NULL;
    int rank = cm_rank(v), a = axis < 0 ? axis + rank : axis;
    return rank >= 0 && a >= 0 && a < rank ? v->type.dims[a] : CM_DIM_ERROR;
}

static void axes_equal(facts *f, const cm_node *n, int i, int axis_i, int j, int axis_j)
{
    cm_dim a = axis_of(n, i, axis_i), b = axis_of(n, j, axis_j);
    if (a != CM_DIM_ERROR && b != CM_DIM_ERROR)
        equal(f, n, a, b);
}

static void from_gemm(facts *f, const cm_node *n)
{
    axes_equal(f, n, 0, cm_int(n, "transA") ? 0 : 1, 1, cm_int(n, "transB") ? 1 : 0);
}

static void from_conv(facts *f, const cm_node *n)
{
    cm_dim x = axis_of(n, 0, 1), w = axis_of(n, 1, 1);
    int64_t group = cm_int(n, "group"), channels;
    if (x != CM_DIM_ERROR && cm_dim_is_size(w) && cm_mul_i64(w, group, &channels) && channels >= 0)
        equal(f, n, x, channels);
}

static void from_concat(facts *f, const cm_node *n)
{
    int rank = cm_rank(n->in[0]);
    int64_t axis = cm_int(n, "axis");
    if (axis < 0)
        axis += rank;
    for (int i = 1; i < n->n_in; i++)
        for (int a = 0; a < rank && cm_rank(n->in[i]) == rank; a++)
            if (a != axis)
                axes_equal(f, n, 0, a, i, a);
}

static void from_split(facts *f, const cm_node *n)
{
    int64_t sizes[64], sum = 0;
    int k;
    if (n->n_in < 2 || !cm_const_ints(n->in[1], sizes, CM_COUNT(sizes), &k))
        return;
    for (int i = 0; i < k; i++)
        if (sizes[i] < 0 || !cm_add_i64(sum, sizes[i], &sum))
            return;
    cm_dim d = axis_of(n, 0, (int)cm_int(n, "axis"));
    if (d != CM_DIM_ERROR)
        equal(f, n, d, sum);
}

static void from_squeeze(facts *f, const cm_node *n)
{
    int64_t axes[CM_MAX_RANK];
    int k;
    if (n->n_in < 2 || !cm_const_ints(n->in[1], axes, CM_MAX_RANK, &k))
        return;
    for (int i = 0; i < k; i++) {
        cm_dim d = axis_of(n, 0, (int)axes[i]);
        if (d != CM_DIM_ERROR)
            equal(f, n, d, 1);
    }
}

/* As many elements before as after: k * symbol = m, all else numbers. */
static void from_reshape(facts *f, const cm_node *n)
{
    int64_t asked[CM_MAX_RANK], after = 1, before = 1;
    int k, s = -1;
    if (!cm_const_ints(n->in[1], asked, CM_MAX_RANK, &k) || cm_rank(n->in[0]) < 0)
        return;
    for (int i = 0; i < k; i++)
        if (asked[i] < 1 || !cm_mul_i64(after, asked[i], &after))
            return;
    for (int i = 0; i < n->in[0]->type.rank; i++) {
        cm_dim d = n->in[0]->type.dims[i];
        if (cm_dim_is_size(d)) {
            if (!cm_mul_i64(before, d, &before))
                return;
        } else if (s >= 0 || (s = input_symbol(f, d)) < 0) {
            return;
        }
    }
    if (s >= 0 && before > 0 && after % before == 0)
        set_number(f, s, after / before, n);
}

static void from_node(facts *f, const cm_node *n)
{
    switch (n->op->id) {
    case CM_OP_MATMUL:
        axes_equal(f, n, 0, -1, 1, cm_rank(n->in[1]) == 1 ? 0 : -2);
        break;
    case CM_OP_GEMM:
        from_gemm(f, n);
        break;
    case CM_OP_CONV:
        from_conv(f, n);
        break;
    case CM_OP_CONV_TRANSPOSE:
        axes_equal(f, n, 0, 1, 1, 0);
        break;
    case CM_OP_BATCH_NORMALIZATION:
    case CM_OP_INSTANCE_NORMALIZATION:
        axes_equal(f, n, 0, 1, 1, 0);
        break;
    case CM_OP_LSTM:
    case CM_OP_GRU:
    case CM_OP_RNN:
        axes_equal(f, n, 0, 2, 1, 2);
        break;
    case CM_OP_CONCAT:
        from_concat(f, n);
        break;
    case CM_OP_SPLIT:
        from_split(f, n);
        break;
    case CM_OP_SQUEEZE:
        from_squeeze(f, n);
        break;
    case CM_OP_RESHAPE:
        from_reshape(f, n);
        break;
    default:
        break;
    }
}

/* ---- Bounds --------------------------------------------------------------------------------- */

/* A window that does not fit is refused. */
static bool bounds_from_window(const cm_node *n)
{
    const cm_type *y = &n->out[0]->type;
    bool any = false;
    for (int a = 2; y->kind == CM_TENSOR && a < y->rank; a++)
        any |= cm_dim_assume(n->network->dims, y->dims[a], 0, INT64_MAX);
    return any;
}

/* Axes that meet are equal, or one of them is 1: of n and min(n, k) neither can be when k is less. */
static bool bounds_from_meeting(const cm_node *n)
{
    cm_dim_table *t = n->network->dims;
    bool any = false;
    for (int i = 0; i < n->n_in; i++)
        for (int j = 0; j < n->n_in; j++) {
            int ri = cm_rank(n->in[i]), rj = cm_rank(n->in[j]);
            for (int k = 1; i != j && k <= ri && k <= rj; k++) {
                cm_dim d = n->in[i]->type.dims[ri - k], a, b;
                int64_t most;
                if (!cm_dim_is_min(t, n->in[j]->type.dims[rj - k], &a, &b))
                    continue;
                cm_dim other = a == d ? b : a;
                if ((a == d || b == d) && cm_dim_is_const(t, other, &most) && most > 1)
                    any |= cm_dim_assume(t, d, INT64_MIN, most);
            }
        }
    return any;
}

/* Rows 0, 1, ... of a constant table: no more than it has. */
static bool bounds_from_places(const cm_node *n)
{
    const cm_value *v = n->in[1];
    int64_t axis = cm_int(n, "axis"), first, step;
    int k;
    if (!cm_is_const(n->in[0]) || cm_rank(n->in[0]) < 1)
        return false;
    while (v->producer && v->network == n->network &&
           ((v->producer->op->traits & CM_VIEW) || cm_is(v->producer, CM_OP_EXPAND) ||
            cm_is(v->producer, CM_OP_CAST)))
        v = v->producer->in[0];
    const cm_node *r = cm_made_by(v, CM_OP_RANGE);
    if (!r || !cm_const_ints(r->in[0], &first, 1, &k) || first < 0 ||
        !cm_const_ints(r->in[2], &step, 1, &k) || step != 1 || !r->in[1]->elems ||
        r->in[1]->n_elems != 1)
        return false;
    axis = axis < 0 ? axis + cm_rank(n->in[0]) : axis;
    return cm_dim_assume(n->network->dims, r->in[1]->elems[0], INT64_MIN,
                         n->in[0]->constant->dims[axis]);
}

static bool bounds_from(const cm_node *n)
{
    switch (n->op->id) {
    case CM_OP_GATHER:
        return bounds_from_places(n);
    case CM_OP_CONV:
    case CM_OP_MAX_POOL:
    case CM_OP_AVERAGE_POOL:
    case CM_OP_LP_POOL:
        return bounds_from_window(n);
    default:
        return (n->op->traits & CM_ELTWISE) && bounds_from_meeting(n);
    }
}

/* ---- The pass ------------------------------------------------------------------------------- */

static cm_status begin(cm_rewriter *rw, cm_network *g, facts *f)
{
    cm_ctx *cx = rw->cx;
    *f = (facts){.dims = g->dims, .n = cm_dim_symbol_count(g->dims)};
    CM_NEW_N(cx, cx->scratch, f->parent, f->n, int);
    CM_NEW_N(cx, cx->scratch, f->number, f->n, int64_t);
    CM_NEW_N(cx, cx->scratch, f->is_input, f->n, bool);
    CM_NEW_N(cx, cx->scratch, f->why, f->n, const cm_node *);
    for (int s = 0; s < f->n; s++) {
        f->parent[s] = s;
        f->number[s] = -1;
    }
    for (int i = 0; i < g->n_inputs; i++) {
        const cm_type *t = &g->inputs[i]->type;
        for (int a = 0; t->kind == CM_TENSOR && a < t->rank; a++) {
            int s = cm_dim_symbol_index(g->dims, t->dims[a]);
            if (s >= 0 && cm_dim_symbol_sign(g->dims, s) == CM_DIM_SIZE)
                f->is_input[s] = true;
        }
    }
    return CM_OK;
}

/* What symbol s becomes, or CM_DIM_UNBOUND. */
static cm_dim replacement(facts *f, int s)
{
    int r = find(f, s);
    if (!f->is_input[s] || f->number[r] == -2)
        return CM_DIM_UNBOUND;
    if (f->number[r] >= 0)
        return f->number[r];
    return r == s ? CM_DIM_UNBOUND
                  : cm_dim_symbol(f->dims, cm_dim_symbol_name(f->dims, r), CM_DIM_SIZE);
}

static cm_status substitute(cm_rewriter *rw, cm_network *g, const cm_dim *to, int n)
{
    for (int i = 0; i < g->n_inputs; i++) {
        cm_type *t = &g->inputs[i]->type;
        for (int a = 0; t->kind == CM_TENSOR && a < t->rank; a++) {
            t->dims[a] = cm_dim_substitute(g->dims, t->dims[a], to, n);
            if (t->dims[a] == CM_DIM_ERROR)
                return cm_fail_memory(rw->cx);
        }
    }
    return cm_network_infer(rw->cx, g);
}

CM_PASS(dims_from_constraints)
{
    facts f;
    cm_dim *to;
    bool any = false;
    if (g->outer)
        return CM_OK;
    CM_TRY(begin(rw, g, &f));
    CM_FOR_NODES (n, g)
        if (!n->epilogue.program)
            from_node(&f, n);
    CM_NEW_N(rw->cx, rw->cx->scratch, to, f.n, cm_dim);
    for (int s = 0; s < f.n; s++) {
        to[s] = replacement(&f, s);
        if (to[s] == CM_DIM_UNBOUND)
            continue;
        const cm_node *why = f.why[s] ? f.why[s] : f.why[find(&f, s)];
        if (!cm_rewrite(rw, why ? why : g->first))
            to[s] = CM_DIM_UNBOUND;
        else
            any = true;
    }
    CM_FOR_NODES (n, g)
        if (rw->n_rewrites < rw->limit && bounds_from(n))
            any |= cm_rewrite(rw, n);
    return any ? substitute(rw, g, to, f.n) : CM_OK;
}
