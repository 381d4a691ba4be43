/* causal_mask.c -- masks that let a query see the keys up to its own position, or those of a window.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/causal_mask.h"

/* A constant matrix; axes before the last two have size 1. */
static bool is_matrix(const cm_value *m, int64_t *rows, int64_t *cols)
{
    if (!cm_is_const(m) || m->constant->rank < 2 || m->constant->packed ||
        !(cm_dtype_is_float(m->constant->dtype) || cm_dtype_is_integer(m->constant->dtype) ||
          m->constant->dtype == CM_BOOL))
        return false;
    int rank = m->constant->rank;
    for (int i = 0; i < rank - 2; i++)
        if (m->constant->dims[i] != 1)
            return false;
    *rows = m->constant->dims[rank - 2];
    *cols = m->constant->dims[rank - 1];
    return true;
}

/* Nonzero exactly where column <= row + shift (or nowhere else but there). */
static bool is_triangle(const cm_tensor *t, int64_t rows, int64_t cols, int64_t shift, bool keeps)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            if ((cm_get_f64(t->dtype, t->data, i * cols + j) != 0) != ((j <= i + shift) == keeps))
                return false;
    return true;
}

/* What the slices along one axis leave: begin (known) and end (CM_DIM_ERROR: all). */
typedef struct {
    cm_dim begin, end;
} window;

static bool elem(const cm_value *v, int i, cm_dim *out)
{
    int64_t n[CM_MAX_RANK];
    int k;
    if (v->elems && i < v->n_elems) {
        *out = v->elems[i];
        return true;
    }
    if (!cm_const_ints(v, n, CM_MAX_RANK, &k) || i >= k)
        return false;
    *out = cm_dim_const(v->network->dims, n[i]);
    return true;
}

/* Take one Slice in. Each of the last two axes may be cut once. */
static bool read_slice(const cm_node *n, window *w)
{
    int64_t axes[CM_MAX_RANK], steps[CM_MAX_RANK];
    int k, n_steps, rank = cm_rank(n->in[0]);
    if (n->n_in < 4 || !n->in[3] || !cm_const_ints(n->in[3], axes, CM_MAX_RANK, &k) ||
        (n->n_in > 4 && n->in[4] && !cm_const_ints(n->in[4], steps, CM_MAX_RANK, &n_steps)))
        return false;
    for (int i = 0; i < k; i++) {
        int from_end = (int)(axes[i] < 0 ? -axes[i] : rank - axes[i]); /* 1: the last axis */
        cm_dim begin, end;
        if ((n->n_in > 4 && n->in[4] && steps[i] != 1) || from_end < 1 ||
            !elem(n->in[1], i, &begin) || !elem(n->in[2], i, &end))
            return false;
        int64_t number;
        bool all = cm_dim_is_const(n->in[0]->network->dims, end, &number) && number > INT32_MAX;
        if (from_end > 2) { /* leading axes of size 1, taken whole */
            if (begin != 0)
                return false;
            continue;
        }
        window *x = &w[2 - from_end];
        if (x->end != CM_DIM_ERROR || x->begin != 0)
            return false;
        x->begin = begin;
        x->end = all ? CM_DIM_ERROR : end;
    }
    return true;
}

bool cm_is_causal_mask(const cm_value *m, cm_dim rows, cm_dim cols, bool keeps)
{
    cm_dim_table *t = m->network->dims;
    int64_t r, c;
    if (is_matrix(m, &r, &c))
        return r == rows && c == cols && r > 1 && is_triangle(m->constant, r, c, c - r, keeps);
    window w[2] = {{0, CM_DIM_ERROR}, {0, CM_DIM_ERROR}};
    enum { MOST = 6 };
    for (int i = 0; i < MOST && m->producer; i++) {
        const cm_node *n = m->producer;
        if (cm_is(n, CM_OP_SLICE) ? !read_slice(n, w)
                                  : !cm_is(n, CM_OP_CAST) && !cm_is(n, CM_OP_IDENTITY))
            return false;
        m = n->in[0];
    }
    return is_matrix(m, &r, &c) && r == c && w[0].begin == cm_dim_sub(t, cols, rows) &&
           w[0].end == cols && w[1].begin == 0 && w[1].end == cols &&
           is_triangle(m->constant, r, c, 0, keeps);
}

bool cm_is_causal_bias(const cm_value *m, cm_dim rows, cm_dim cols)
{
    const double NOTHING_LEFT = -1e30;
    int64_t r, c;
    if (!is_matrix(m, &r, &c) || r != rows || c != cols || r < 2 ||
        !cm_dtype_is_float(m->constant->dtype))
        return false;
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < c; j++) {
            double x = cm_get_f64(m->constant->dtype, m->constant->data, i * c + j);
            if (j <= i + c - r ? x != 0 : !(x <= NOTHING_LEFT))
                return false;
        }
    return true;
}

cm_status cm_draw_seen(cm_ctx *cx, cm_network *g, const cm_seen *s, cm_value **out)
{
    int64_t dims[] = {s->queries, s->keys};
    double *may = cm_new_n(cx->scratch, dims[0] * dims[1] + 1, double);
    if (!may)
        return cm_fail_memory(cx);
    for (int64_t i = 0; i < dims[0]; i++)
        for (int64_t j = 0; j < dims[1]; j++) {
            int64_t ahead = j - (s->past + i);
            may[i * dims[1] + j] = !(s->causal && ahead > 0) &&
                                   !(s->left >= 0 && -ahead > s->left) &&
                                   !(s->right >= 0 && ahead > s->right);
        }
    return cm_make_const_f64(cx, g, NULL, CM_BOOL, 2, dims, may, out);
}
