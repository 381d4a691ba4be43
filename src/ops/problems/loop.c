/* loop.c -- loop nests: order, merging, strides.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/problems/loop.h"

void cm_loop_broadcast(const cm_tensor *t, int rank, int64_t *strides)
{
    for (int a = 0; a < rank; a++) {
        int own = a - (rank - t->rank);
        strides[a] = own < 0 || t->dims[own] == 1 ? 0 : t->strides[own];
    }
}

/* Axes that have more than one element, outermost in memory first. */
static int order_axes(int rank, const int64_t *dims, const int64_t *like, int *order)
{
    int n = 0;
    for (int a = 0; a < rank; a++) {
        if (dims[a] == 1)
            continue;
        int at = n++;
        for (; at > 0 && like[a] > like[order[at - 1]]; at--)
            order[at] = order[at - 1];
        order[at] = a;
    }
    return n;
}

typedef struct {
    int n_all; /* inputs and outputs */
    cm_loop_strides *all, *loop;
    int rank;
    int64_t *dims;
    bool *gone;
} nest;

static bool can_merge(const nest *x, int axis, int64_t dim, bool gone)
{
    int last = x->rank - 1;
    if (last < 0 || x->gone[last] != gone)
        return false;
    for (int i = 0; i < x->n_all; i++)
        if (x->loop[i][last] != dim * x->all[i][axis])
            return false;
    return true;
}

static void push(nest *x, int axis, int64_t dim, bool gone)
{
    bool merge = can_merge(x, axis, dim, gone);
    int at = merge ? x->rank - 1 : x->rank++;
    x->dims[at] = merge ? x->dims[at] * dim : dim;
    x->gone[at] = gone;
    for (int i = 0; i < x->n_all; i++)
        x->loop[i][at] = x->all[i][axis];
}

bool cm_loop_merge(cm_arena *arena, const cm_loop *l, int *rank, int64_t *dims,
                   cm_loop_strides **strides, bool *gone)
{
    int order[CM_MAX_RANK];
    bool no[CM_MAX_RANK];
    nest x = {.n_all = l->n_all, .all = l->all, .dims = dims, .gone = gone ? gone : no};
    x.loop = cm_arena_alloc_n(arena, (size_t)l->n_all, sizeof *x.loop, _Alignof(int64_t), 1);
    if (!x.loop)
        return false;
    int n = order_axes(l->rank, l->dims, l->like, order);
    for (int i = 0; i < n; i++)
        push(&x, order[i], l->dims[order[i]], l->gone && l->gone[order[i]]);
    if (x.rank == 0) { /* one element */
        x.rank = 1;
        x.dims[0] = 1;
        x.gone[0] = false;
        for (int i = 0; i < l->n_all; i++)
            x.loop[i][0] = 0;
    }
    *rank = x.rank;
    *strides = x.loop;
    return true;
}
