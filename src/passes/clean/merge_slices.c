/* merge_slices.c -- one Slice for two.
 *
 *     a = Slice(x, @2, @20, @0)
 *     y = Slice(a, @3, @9, @1)
 *  becomes
 *     y = Slice(x, @(2,3), @(20,9), @(0,1), @(1,1))
 *
 * All bounds, axes and steps are constants. An axis that both cut needs either a size that is known, or bounds from the
 * front and steps forward: x[s:e:k][t:f:l] is x[s+t*k : min(e, s+f*k) : k*l]. Only where nothing but Slices
 * reads the first, so that it can go: halves of a part that is rotated must stay its halves.
 *
 * needs: types, uses, folded constants    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/size.h"
#include "passes/match.h"

typedef struct {
    int64_t start, end, step;
    bool is_cut;
} cut;

static bool read_ints(const cm_node *n, int i, int64_t *out, int *k)
{
    return i < n->n_in && n->in[i] && n->in[i]->constant &&
           cm_const_ints(n->in[i], out, CM_MAX_RANK, k);
}

/* What n cuts from each axis. */
static bool read_slice(const cm_node *n, cut *cuts)
{
    int64_t start[CM_MAX_RANK], end[CM_MAX_RANK], axis[CM_MAX_RANK], step[CM_MAX_RANK];
    int k, k_end, k_axis, k_step, rank = cm_rank(n->in[0]);
    if (rank < 0 || !read_ints(n, 1, start, &k) || !read_ints(n, 2, end, &k_end) || k != k_end)
        return false;
    bool has_axes = n->n_in > 3 && n->in[3], has_steps = n->n_in > 4 && n->in[4];
    if ((has_axes && (!read_ints(n, 3, axis, &k_axis) || k_axis != k)) ||
        (has_steps && (!read_ints(n, 4, step, &k_step) || k_step != k)))
        return false;
    for (int a = 0; a < rank; a++)
        cuts[a] = (cut){0, INT64_MAX, 1, false};
    for (int i = 0; i < k; i++) {
        int64_t a = has_axes ? axis[i] : i;
        a += a < 0 ? rank : 0;
        if (a < 0 || a >= rank || cuts[a].is_cut)
            return false;
        cuts[a] = (cut){start[i], end[i], has_steps ? step[i] : 1, true};
    }
    return true;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* First index, step and how many, of an axis of this size. */
static bool resolve(const cut *c, int64_t size, int64_t *first, int64_t *count)
{
    if (c->step == 0 || c->step > size || c->step < -size)
        return false;
    int64_t low = c->step > 0 ? 0 : -1, high = c->step > 0 ? size : size - 1;
    *first = clamp(c->start < 0 ? c->start + size : c->start, c->step > 0 ? 0 : low + 1, high);
    int64_t end = clamp(c->end < 0 ? c->end + size : c->end, low, high);
    int64_t span = c->step > 0 ? end - *first : *first - end;
    int64_t by = c->step > 0 ? c->step : -c->step;
    *count = span <= 0 ? 0 : (span + by - 1) / by;
    return true;
}

/* Both cuts of an axis of `size` (-1: not known) as one. */
static bool join(const cut *a, const cut *b, int64_t size, cut *out)
{
    int64_t first, count, from, n, end;
    if (!a->is_cut || !b->is_cut) {
        *out = a->is_cut ? *a : *b;
        return true;
    }
    if (size > 0 && resolve(a, size, &first, &count) && count > 0 && resolve(b, count, &from, &n) &&
        n > 0) {
        int64_t step = a->step * b->step, start = first + from * a->step;
        end = start + (n - 1) * step + (step > 0 ? 1 : -1);
        *out = (cut){start, end < 0 ? INT64_MIN : end, step, true};
        return true;
    }
    if (a->start < 0 || a->end < 0 || a->step < 1 || b->start < 0 || b->end < 0 || b->step < 1)
        return false;
    *out = (cut){.is_cut = true};
    if (!cm_mul_i64(b->start, a->step, &out->start) ||
        !cm_add_i64(out->start, a->start, &out->start) || !cm_mul_i64(a->step, b->step, &out->step))
        return false;
    bool far = !cm_mul_i64(b->end, a->step, &end) || !cm_add_i64(end, a->start, &end);
    out->end = far || end > a->end ? a->end : end;
    return true;
}

static cm_status merge(cm_rewriter *rw, cm_node *n, cm_node *p, const cut *cuts, int rank)
{
    int64_t v[4][CM_MAX_RANK];
    cm_value *in[5] = {p->in[0]};
    int k = 0;
    cm_node *y;
    for (int a = 0; a < rank; a++)
        if (cuts[a].is_cut) {
            v[0][k] = cuts[a].start;
            v[1][k] = cuts[a].end;
            v[2][k] = a;
            v[3][k++] = cuts[a].step;
        }
    for (int i = 0; i < 4; i++)
        CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, (int64_t[]){k}, v[i], &in[i + 1]));
    CM_TRY(cm_make(rw, n, CM_OP_SLICE, n, in, 5, 1, &y));
    for (int a = 0; a < rank; a++)
        y->out[0]->type.dims[a] = n->out[0]->type.dims[a];
    if (cm_sole_use(n->in[0]))
        CM_TRY(cm_node_add_from(rw->cx, y, p));
    CM_TRY(cm_replace(rw, n, y->out[0], y));
    cm_drop_if_dead(n);
    return CM_OK;
}

static bool read_by_slices(const cm_value *v)
{
    for (const cm_use *u = v->uses; u; u = u->next)
        if (!cm_is(u->node, CM_OP_SLICE) || u->index != 0 || u->node->network != v->network)
            return false;
    return true;
}

CM_PASS(merge_slices)
{
    CM_FOR_NODES (n, g) {
        cut first[CM_MAX_RANK], second[CM_MAX_RANK], both[CM_MAX_RANK];
        cm_node *p =
            cm_is(n, CM_OP_SLICE) && n->out[0]->n_uses ? cm_made_by(n->in[0], CM_OP_SLICE) : NULL;
        if (!p || !read_by_slices(n->in[0]) || !read_slice(p, first) || !read_slice(n, second))
            continue;
        int rank = cm_rank(n->in[0]);
        bool fits = cm_rank(n->out[0]) == rank;
        for (int a = 0; a < rank && fits; a++) {
            cm_dim size = p->in[0]->type.dims[a];
            fits = join(&first[a], &second[a], cm_dim_is_size(size) ? size : -1, &both[a]);
        }
        if (!fits)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(merge(rw, n, p, both, rank));
    }
    return CM_OK;
}
