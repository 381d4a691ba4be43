/* heads_view.c -- batch, heads, rows and columns of an operand, traced to the tensor that holds them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/heads_view.h"

#include <string.h>

bool cm_view_start(cm_view *w, cm_value *v, const char *labels)
{
    *w = (cm_view){.v = v, .scale = 1, .groups = 1};
    int rank = cm_rank(v);
    if (rank < 0 || rank > CM_VIEW_MOST / 2 || (size_t)rank != strlen(labels))
        return false;
    cm_dim_table *t = v->network->dims;
    for (int i = 0; i < rank; i++) {
        cm_dim step = 1;
        for (int j = i + 1; j < rank; j++)
            if (labels[j] == labels[i])
                step = cm_dim_mul(t, step, v->type.dims[j]);
        if (v->type.dims[i] != 1)
            w->f[w->n++] = (cm_factor){.label = labels[i], .dim = v->type.dims[i], .step = step};
    }
    return true;
}

/* a / b when that is surely whole, else CM_DIM_ERROR. */
static cm_dim quotient(cm_dim_table *t, cm_dim a, cm_dim b)
{
    if (b == 0 || a == 0)
        return CM_DIM_ERROR;
    cm_dim q = cm_dim_floor_div(t, a, b);
    return q != CM_DIM_ERROR && cm_dim_mul(t, q, b) == a ? q : CM_DIM_ERROR;
}

static bool insert(cm_view *w, int at, cm_factor f)
{
    if (w->n == CM_VIEW_MOST)
        return false;
    memmove(&w->f[at + 1], &w->f[at], (size_t)(w->n - at) * sizeof f);
    w->f[at] = f;
    w->n++;
    return true;
}

/* Factor i becomes `outer` times the rest. */
static bool split(cm_dim_table *t, cm_view *w, int i, cm_dim outer, cm_dim inner)
{
    cm_factor f = w->f[i];
    cm_factor left = {.label = f.label, .dim = outer, .step = cm_dim_mul(t, f.step, inner)};
    w->f[i] = (cm_factor){.label = f.label, .dim = inner, .step = f.step};
    return insert(w, i, left);
}

bool cm_view_split_batch(cm_dim_table *t, cm_view *w, cm_dim heads)
{
    for (int i = 0; i < w->n; i++) {
        if (w->f[i].label != 'n')
            continue;
        cm_dim batch = quotient(t, w->f[i].dim, heads);
        if (batch == CM_DIM_ERROR)
            return false;
        w->f[i].label = heads == 1 ? 'b' : 'h';
        if (batch == 1 || heads == 1)
            continue;
        if (!split(t, w, i, batch, heads))
            return false;
        w->f[i].label = 'b';
        w->f[i].step = 1;
        i++;
    }
    return true;
}

/* How many factors the unit at i has (a window takes in what follows), its size in *dim. -1: odd. */
static int unit(cm_dim_table *t, const cm_view *w, int i, cm_dim *dim)
{
    *dim = w->f[i].dim;
    if (w->f[i].label != 'w')
        return 1;
    cm_dim inside = 1;
    int k = 1;
    while (inside != w->f[i].len && i + k < w->n)
        inside = cm_dim_mul(t, inside, w->f[i + k++].dim);
    return inside == w->f[i].len ? k : -1;
}

/* Factors [first[a], first[a + 1]) are axis a of a tensor of these dims; factors are split where a
 * border falls inside of one. */
static bool group(cm_dim_table *t, cm_view *w, int rank, const cm_dim *dims, int *first)
{
    int i = 0;
    for (int a = 0; a < rank; a++) {
        cm_dim rest = dims[a];
        first[a] = i;
        while (rest != 1) {
            cm_dim dim, q;
            int k = i < w->n ? unit(t, w, i, &dim) : -1;
            if (k < 0)
                return false;
            if (dim == rest) {
                rest = 1;
            } else if ((q = quotient(t, rest, dim)) != CM_DIM_ERROR) {
                rest = q;
            } else if (w->f[i].label != 'w' && (q = quotient(t, dim, rest)) != CM_DIM_ERROR) {
                if (!split(t, w, i, rest, q))
                    return false;
                rest = 1;
            } else {
                return false;
            }
            i += k;
        }
    }
    first[rank] = i;
    return i == w->n;
}

static bool group_axes(cm_dim_table *t, cm_view *w, int *first)
{
    return cm_rank(w->v) >= 0 && group(t, w, cm_rank(w->v), w->v->type.dims, first);
}

static void perm_of(const cm_node *n, int rank, int *perm)
{
    cm_ints p = cm_int_list(n, "perm");
    for (int i = 0; i < rank; i++)
        perm[i] = p.n ? (int)p.v[i] : rank - 1 - i;
}

/* The groups in another order: the new axis a is the old axis from[a]. */
static void reorder(cm_view *w, int rank, const int *first, const int *from)
{
    cm_factor f[CM_VIEW_MOST];
    int k = 0;
    for (int a = 0; a < rank; a++)
        for (int i = first[from[a]]; i < first[from[a] + 1]; i++)
            f[k++] = w->f[i];
    memcpy(w->f, f, (size_t)k * sizeof *f);
}

static bool has_window(const cm_view *w)
{
    for (int i = 0; i < w->n; i++)
        if (w->f[i].label == 'w')
            return true;
    return false;
}

/* The axis of v, read at [start, start + len) among `whole`. */
static bool back_window(cm_dim_table *t, cm_view *w, cm_value *from, int axis, int64_t start)
{
    int first[CM_MAX_RANK + 1];
    cm_dim whole = from->type.dims[axis], len = w->v->type.dims[axis];
    if (has_window(w) || !cm_dim_is_size(whole) || !cm_dim_is_size(len) || len < 1 ||
        !group_axes(t, w, first))
        return false;
    w->v = from;
    return insert(w, first[axis],
                  (cm_factor){.label = 'w', .dim = whole, .step = 1, .start = start, .len = len});
}

static bool back_split(cm_dim_table *t, cm_view *w, const cm_node *n)
{
    int rank = cm_rank(n->in[0]), axis = (int)cm_int(n, "axis");
    int64_t start = 0;
    axis += axis < 0 ? rank : 0;
    if (rank < 1 || axis < 0 || axis >= rank)
        return false;
    for (int o = 0; o < n->n_out && n->out[o] != w->v; o++) {
        if (!n->out[o] || cm_rank(n->out[o]) != rank || !cm_dim_is_size(n->out[o]->type.dims[axis]))
            return false;
        start += n->out[o]->type.dims[axis];
    }
    return back_window(t, w, n->in[0], axis, start);
}

static bool back_slice(cm_dim_table *t, cm_view *w, const cm_node *n)
{
    int64_t starts[CM_MAX_RANK], axes[CM_MAX_RANK], steps[CM_MAX_RANK];
    int k, n_axes, n_steps, rank = cm_rank(n->in[0]), cut = -1;
    if (rank < 1 || rank != cm_rank(w->v) || !cm_const_ints(n->in[1], starts, CM_MAX_RANK, &k))
        return false;
    bool has_axes = n->n_in > 3 && n->in[3], has_steps = n->n_in > 4 && n->in[4];
    if ((has_axes && (!cm_const_ints(n->in[3], axes, CM_MAX_RANK, &n_axes) || n_axes != k)) ||
        (has_steps && (!cm_const_ints(n->in[4], steps, CM_MAX_RANK, &n_steps) || n_steps != k)))
        return false;
    for (int i = 0; i < k; i++) {
        int axis = (int)(has_axes ? axes[i] + (axes[i] < 0 ? rank : 0) : i);
        if (axis < 0 || axis >= rank || (has_steps && steps[i] != 1))
            return false;
        cm_dim whole = n->in[0]->type.dims[axis];
        if (whole == w->v->type.dims[axis])
            continue;
        if (cut >= 0 || !cm_dim_is_size(whole))
            return false;
        cut = i;
        starts[i] += starts[i] < 0 ? whole : 0;
        if (starts[i] < 0 || starts[i] > whole - w->v->type.dims[axis])
            return false;
    }
    if (cut < 0) {
        w->v = n->in[0];
        return true;
    }
    return back_window(t, w, n->in[0],
                       (int)(has_axes ? axes[cut] + (axes[cut] < 0 ? rank : 0) : cut), starts[cut]);
}

/* A single index takes the axis away (a scalar) or leaves one of size 1. */
static bool back_gather(cm_dim_table *t, cm_view *w, const cm_node *n)
{
    int64_t index;
    int k, rank = cm_rank(n->in[0]), axis = (int)cm_int(n, "axis"), first[CM_MAX_RANK + 1];
    axis += axis < 0 ? rank : 0;
    if (rank < 1 || !cm_const_ints(n->in[1], &index, 1, &k) || k != 1 || has_window(w) ||
        !cm_dim_is_size(n->in[0]->type.dims[axis]) || !group_axes(t, w, first))
        return false;
    int64_t whole = n->in[0]->type.dims[axis];
    index += index < 0 ? whole : 0;
    w->v = n->in[0];
    return insert(w, first[axis],
                  (cm_factor){.label = 'w', .dim = whole, .step = 1, .start = index, .len = 1});
}

/* Heads that were repeated, each a number of times in a row. */
static bool back_repeat(cm_dim_table *t, cm_view *w, const cm_node *n)
{
    int first[CM_MAX_RANK + 1], rank = cm_rank(n->in[0]);
    if (rank < 0 || rank != cm_rank(w->v) || !group_axes(t, w, first))
        return false;
    for (int a = rank - 1; a >= 0; a--) {
        cm_dim from = n->in[0]->type.dims[a], to = w->v->type.dims[a];
        if (from == to)
            continue;
        int at = first[a];
        if (from != 1 || first[a + 1] != at + 1 || w->f[at].label != 'h' || w->f[at].step != 1 ||
            !cm_dim_is_size(to) || w->groups != 1)
            return false;
        w->groups = to;
        memmove(&w->f[at], &w->f[at + 1], (size_t)(w->n - at - 1) * sizeof *w->f);
        w->n--;
        for (int i = 0; i < w->n; i++)
            if (w->f[i].label == 'h')
                w->f[i].step = quotient(t, w->f[i].step, to);
        for (int b = a + 1; b <= rank; b++)
            first[b]--;
    }
    w->v = n->in[0];
    return true;
}

/* v = in[i] times or over a number. */
static bool back_scale(cm_view *w, const cm_node *n)
{
    double c;
    bool over = n->op->id == CM_OP_DIV;
    int x = cm_splat(n->in[1], &c) ? 0 : !over && cm_splat(n->in[0], &c) ? 1 : -1;
    if (x < 0 || !cm_same_shape(n->in[x], w->v) || (over && c == 0))
        return false;
    w->scale = over ? w->scale / c : w->scale * c;
    w->v = n->in[x];
    return true;
}

bool cm_view_back(cm_dim_table *t, cm_view *w, bool scaled)
{
    const cm_node *n = w->v->producer;
    if (!n || n->network != w->v->network || n->epilogue.program || n->n_in < 1 || !n->in[0] ||
        cm_rank(n->in[0]) < 0 || n->in[0]->network != w->v->network)
        return false;
    switch (n->op->id) {
    case CM_OP_RESHAPE:
    case CM_OP_SQUEEZE:
    case CM_OP_UNSQUEEZE:
    case CM_OP_FLATTEN:
    case CM_OP_IDENTITY:
        w->v = n->in[0];
        return true;
    case CM_OP_TRANSPOSE: {
        int rank = cm_rank(w->v), perm[CM_MAX_RANK], from[CM_MAX_RANK], first[CM_MAX_RANK + 1];
        if (!group_axes(t, w, first))
            return false;
        perm_of(n, rank, perm);
        for (int i = 0; i < rank; i++)
            from[perm[i]] = i;
        reorder(w, rank, first, from);
        w->v = n->in[0];
        return true;
    }
    case CM_OP_SPLIT:
        return back_split(t, w, n);
    case CM_OP_SLICE:
        return back_slice(t, w, n);
    case CM_OP_GATHER:
        return back_gather(t, w, n);
    case CM_OP_EXPAND:
    case CM_OP_TILE:
        return back_repeat(t, w, n);
    case CM_OP_MUL:
    case CM_OP_DIV:
        return scaled && back_scale(w, n);
    case CM_OP_CAST: /* a wider type that the product was computed in */
        if (!scaled || w->v->type.dtype != CM_F32 ||
            (n->in[0]->type.dtype != CM_F16 && n->in[0]->type.dtype != CM_BF16))
            return false;
        w->v = n->in[0];
        return true;
    default:
        return false;
    }
}

bool cm_view_on(cm_dim_table *t, cm_view *w)
{
    const cm_node *n = cm_only_reader(w->v);
    if (!n || n->epilogue.program || n->in[0] != w->v || cm_rank(n->out[0]) < 0)
        return false;
    switch (n->op->id) {
    case CM_OP_RESHAPE:
    case CM_OP_SQUEEZE:
    case CM_OP_UNSQUEEZE:
    case CM_OP_FLATTEN:
        break;
    case CM_OP_TRANSPOSE: {
        int rank = cm_rank(w->v), perm[CM_MAX_RANK], first[CM_MAX_RANK + 1];
        if (!group_axes(t, w, first))
            return false;
        perm_of(n, rank, perm);
        reorder(w, rank, first, perm);
        break;
    }
    default:
        return false;
    }
    w->v = n->out[0];
    return true;
}

/* Neighbours that are one run of the same axis become one; b and h are told apart. */
static void merge(cm_dim_table *t, cm_view *w)
{
    int k = 0, n_count = 0;
    for (int i = 0; i < w->n; i++) {
        cm_factor *l = k ? &w->f[k - 1] : NULL;
        if (l && l->label == w->f[i].label && l->label != 'w' &&
            l->step == cm_dim_mul(t, w->f[i].step, w->f[i].dim)) {
            l->dim = cm_dim_mul(t, l->dim, w->f[i].dim);
            l->step = w->f[i].step;
        } else {
            w->f[k++] = w->f[i];
        }
    }
    w->n = k;
    for (int i = 0; i < w->n; i++)
        n_count += w->f[i].label == 'n';
    for (int i = 0; i < w->n; i++)
        if (w->f[i].label == 'n')
            w->f[i].label = n_count == 2 && w->f[i].step == 1 ? 'h' : 'b';
}

bool cm_can_reshape(int from_rank, const cm_dim *from, int rank, const cm_dim *dims)
{
    int unknown = 0;
    for (int i = 0; i < rank; i++) {
        bool kept = i < from_rank && from[i] == dims[i];
        if (dims[i] == 0 || (!cm_dim_is_size(dims[i]) && !kept))
            unknown++;
    }
    return unknown <= 1;
}

cm_status cm_view_as(cm_rewriter *rw, cm_node *before, const cm_node *like, cm_value *v, int rank,
                     const cm_dim *dims, cm_value **out)
{
    int64_t to[CM_MAX_RANK], n = rank;
    bool same = rank == cm_rank(v);
    for (int i = 0; i < rank; i++) {
        bool kept = i < v->type.rank && v->type.dims[i] == dims[i];
        to[i] = cm_dim_is_size(dims[i]) && dims[i] ? dims[i] : kept ? 0 : -1;
        same = same && kept;
    }
    *out = v;
    if (same)
        return CM_OK;
    cm_value *shape;
    cm_node *node;
    CM_TRY(cm_make_const_i64(rw->cx, before->network, NULL, 1, &n, to, &shape));
    CM_TRY(cm_make(rw, before, CM_OP_RESHAPE, like, (cm_value *[]){v, shape}, 2, 1, &node));
    *out = node->out[0];
    return CM_OK;
}

/* Do the labels (windows left out) come in this order, some missing? */
static bool in_order(const cm_view *w, const char *order)
{
    for (int i = 0; i < w->n; i++) {
        if (w->f[i].label == 'w')
            continue;
        while (*order && *order != w->f[i].label)
            order++;
        if (!*order++)
            return false;
    }
    return true;
}

static cm_dim size_along(const cm_view *w, char label)
{
    for (int i = 0; i < w->n; i++)
        if (w->f[i].label == label)
            return w->f[i].dim;
    return 1;
}

/* Offset, step from head to head and columns in all, of a view whose heads and columns come last. */
static bool read_columns(cm_dim_table *t, const cm_view *w, cm_heads_at *out, int64_t *columns)
{
    int64_t stride = 1;
    out->offset = 0;
    out->head_step = -1;
    for (int i = w->n - 1; i >= 0; i--) {
        const cm_factor *f = &w->f[i];
        if (f->label == 'b' || f->label == 's')
            break;
        if (!cm_dim_is_size(f->dim) || stride > INT32_MAX || f->dim > INT32_MAX)
            return false;
        if (f->label == 'w') {
            if (stride % f->len)
                return false;
            out->offset = f->start * (stride / f->len);
            stride = stride / f->len * f->dim;
            continue;
        }
        if (f->label == 'd' && stride != 1)
            return false;
        if (f->label == 'h')
            out->head_step = stride;
        stride *= f->dim;
    }
    for (int i = 0, left = 1; i < w->n;
         i++) { /* a window over rows or batches is none over columns */
        left = left && (w->f[i].label == 'b' || w->f[i].label == 's' || w->f[i].label == 'w');
        if (w->f[i].label != 'w' || !left)
            continue;
        for (int j = i + 1; j < w->n; j++)
            if (w->f[j].label == 'b' || w->f[j].label == 's')
                return false;
    }
    (void)t;
    if (out->head_step < 0)
        out->head_step = size_along(w, 'd');
    *columns = stride;
    return true;
}

bool cm_view_accept(cm_dim_table *t, const cm_view *view, bool transposed, bool made,
                    cm_heads_at *out)
{
    static const char *const orders[] = {"bshd", "sbhd", "bhsd", "bhds"};
    cm_view w = *view;
    merge(t, &w);
    *out = (cm_heads_at){.v = w.v,
                         .scale = w.scale,
                         .groups = w.groups,
                         .batch = size_along(&w, 'b'),
                         .heads = size_along(&w, 'h'),
                         .rows = size_along(&w, 's'),
                         .cols = size_along(&w, 'd')};
    if (!cm_dim_is_size(out->heads) || !cm_dim_is_size(out->cols))
        return false;
    for (int o = 0; o < 3 + transposed; o++) {
        int64_t columns;
        if (!in_order(&w, orders[o]) || (o > 1 && has_window(&w)))
            continue;
        out->layout = orders[o];
        out->offset = 0;
        out->head_step = out->cols;
        if (o < 2) {
            if (!read_columns(t, &w, out, &columns))
                continue;
            out->rank = 3;
            memcpy(out->dims,
                   (cm_dim[]){o ? out->rows : out->batch, o ? out->batch : out->rows, columns},
                   3 * sizeof(cm_dim));
        } else {
            out->rank = 4;
            memcpy(out->dims,
                   (cm_dim[]){out->batch, out->heads, o == 2 ? out->rows : out->cols,
                              o == 2 ? out->cols : out->rows},
                   4 * sizeof(cm_dim));
        }
        const cm_type *at = &w.v->type;
        if (made ? cm_can_reshape(out->rank, out->dims, at->rank, at->dims)
                 : cm_can_reshape(at->rank, at->dims, out->rank, out->dims))
            return true;
    }
    return false;
}
