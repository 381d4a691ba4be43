/* identity.c -- drop nodes that give back their input.
 *
 *     y = Identity(x)      Cast to the type it has      Reshape, Squeeze, Flatten to the shape it has
 *     Dropout not training Transpose that keeps order   Concat, Sum, Max, Min, Mean of one
 *     Slice of everything  Pad by nothing               Expand, Tile to the same shape
 *     Add 0, Sub 0         Mul 1, Div 1, Pow 1          Clip without bounds
 *  becomes
 *     x
 *
 * Only when input and output surely have the same type; adding zero is dropped for floats too (-0 + 0 is 0:
 * the sign of a zero is not kept).
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/match.h"

static bool is_zero_pad(const cm_node *n)
{
    double x;
    return n->n_in > 1 && cm_splat(n->in[1], &x) && x == 0;
}

static bool keeps_order(const cm_node *n)
{
    cm_ints perm = cm_int_list(n, "perm");
    int rank = cm_rank(n->in[0]), last = -1;
    if (rank < 0)
        return false;
    for (int i = 0; i < rank; i++) { /* axes of size 1 may go anywhere */
        int p = perm.n ? (int)perm.v[i] : rank - 1 - i;
        if (n->in[0]->type.dims[p] == 1)
            continue;
        if (p < last)
            return false;
        last = p;
    }
    return true;
}

static bool no_bounds(const cm_node *n)
{
    return (n->n_in < 2 || !n->in[1]) && (n->n_in < 3 || !n->in[2]);
}

/* Training is off: input 2 absent or the constant false. */
static bool not_training(const cm_node *n)
{
    const cm_value *t = n->n_in > 2 ? n->in[2] : NULL;
    double x;
    return (!t || (cm_splat(t, &x) && x == 0)) && cm_one_output(n);
}

/* The input that n gives back, or -1. */
static int given_back(const cm_node *n)
{
    switch (n->op->id) {
    case CM_OP_IDENTITY:
    case CM_OP_CAST:
    case CM_OP_CAST_LIKE:
    case CM_OP_RESHAPE:
    case CM_OP_FLATTEN:
    case CM_OP_SQUEEZE:
    case CM_OP_UNSQUEEZE:
    case CM_OP_EXPAND:
    case CM_OP_TILE:
    case CM_OP_SLICE: /* of the same shape, with positive steps: everything */
        return 0;
    case CM_OP_DROPOUT:
        return not_training(n) ? 0 : -1;
    case CM_OP_TRANSPOSE:
        return keeps_order(n) ? 0 : -1;
    case CM_OP_PAD:
        return is_zero_pad(n) ? 0 : -1;
    case CM_OP_CLIP:
        return no_bounds(n) ? 0 : -1;
    case CM_OP_CONCAT:
    case CM_OP_SUM:
    case CM_OP_MEAN:
    case CM_OP_MAX:
    case CM_OP_MIN:
        return n->n_in == 1 ? 0 : -1;
    case CM_OP_ADD:
    case CM_OP_MUL:
        if (cm_is_number(n->in[0], n->op->id == CM_OP_MUL, 0))
            return 1;
        return cm_is_number(n->in[1], n->op->id == CM_OP_MUL, 0) ? 0 : -1;
    case CM_OP_SUB:
        return cm_is_number(n->in[1], 0, 0) ? 0 : -1;
    case CM_OP_DIV:
    case CM_OP_POW:
        return cm_is_number(n->in[1], 1, 0) ? 0 : -1;
    default:
        return -1;
    }
}

/* A slice that runs backwards keeps the shape and changes the order. */
static bool runs_forward(const cm_node *n)
{
    int64_t steps[CM_MAX_RANK];
    int k;
    if (n->op->id != CM_OP_SLICE || n->n_in < 5 || !n->in[4])
        return true;
    if (!cm_const_ints(n->in[4], steps, CM_MAX_RANK, &k))
        return false;
    for (int i = 0; i < k; i++)
        if (steps[i] < 0)
            return false;
    return true;
}

CM_PASS(identity)
{
    CM_FOR_NODES (n, g) {
        if (n->epilogue.program || n->n_out < 1 || !n->out[0] || !n->out[0]->n_uses)
            continue;
        int i = given_back(n);
        if (i < 0 || !n->in[i] || n->in[i]->type.kind == CM_NOTHING)
            continue;
        const cm_type *from = &n->in[i]->type, *to = &n->out[0]->type;
        bool same = cm_type_equal(from, to) && (from->kind != CM_TENSOR || from->rank >= 0);
        bool any_shape =
            n->op->id == CM_OP_IDENTITY || (n->op->id == CM_OP_CAST && from->kind == CM_TENSOR &&
                                            to->kind == CM_TENSOR && from->dtype == to->dtype);
        if (!(same || any_shape) || !runs_forward(n))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(cm_replace(rw, n, n->in[i], NULL));
    }
    return CM_OK;
}
