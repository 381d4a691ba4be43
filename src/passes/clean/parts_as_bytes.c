/* parts_as_bytes.c -- elements of less than a byte are moved as bytes, for which there are kernels; for a plan only.
 *
 *     y = Transpose(x)                       x: i4[3,5]
 *  becomes
 *     y = Cast(Transpose(Cast(x) {to=i8})) {to=i4}
 *
 * and Slice, Concat, Split, Tile, Expand, Pad, Gather and others that only move elements; 4-bit floats are seen as
 * 4-bit integers on the way. Reshapes need nothing: they are views.
 *
 * needs: types    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/chain.h"

/* Which inputs are elements that are moved: bits; -1: all. */
static const struct {
    cm_op_id op;
    int data;
} moves[] = {{CM_OP_TRANSPOSE, 1}, {CM_OP_SLICE, 1},          {CM_OP_CONCAT, -1},
             {CM_OP_SPLIT, 1},     {CM_OP_TILE, 1},           {CM_OP_EXPAND, 1},
             {CM_OP_PAD, 5},       {CM_OP_GATHER, 1},         {CM_OP_GATHER_ELEMENTS, 1},
             {CM_OP_GATHER_ND, 1}, {CM_OP_DEPTH_TO_SPACE, 1}, {CM_OP_SPACE_TO_DEPTH, 1}};

static int moved_inputs(const cm_node *n)
{
    for (int i = 0; i < CM_COUNT(moves); i++)
        if (cm_is(n, moves[i].op))
            return moves[i].data;
    return 0;
}

/* Bytes that hold every element; CM_NO_DTYPE: there are none. */
static cm_dtype bytes_for(cm_dtype t)
{
    return t == CM_I4 || t == CM_I2                     ? CM_I8
           : t == CM_U4 || t == CM_U2 || t == CM_F4E2M1 ? CM_U8
                                                        : CM_NO_DTYPE;
}

static bool is_moved(const cm_node *n)
{
    return moved_inputs(n) && n->n_in > 0 && n->in[0] && !n->epilogue.program &&
           bytes_for(n->in[0]->type.dtype) != CM_NO_DTYPE;
}

static cm_value *see_as(cm_chain *c, cm_value *v, cm_dtype to)
{
    void *attr = cm_chain_attr(c, CM_OP_BIT_CAST);
    cm_chain_int(c, CM_OP_BIT_CAST, attr, "to", to);
    return CM_THEN(c, CM_OP_BIT_CAST, attr, v);
}

static cm_value *to_bytes(cm_chain *c, cm_value *v)
{
    cm_dtype t = v->type.dtype;
    return cm_chain_cast(c, t == CM_F4E2M1 ? see_as(c, v, CM_U4) : v, bytes_for(t));
}

static void from_bytes(cm_chain *c, int o, cm_value *v)
{
    cm_dtype t = c->at->in[0]->type.dtype;
    v = cm_chain_cast(c, v, t == CM_F4E2M1 ? CM_U4 : t);
    cm_chain_end(c, o, t == CM_F4E2M1 ? see_as(c, v, t) : v);
}

static void expand(cm_chain *c)
{
    const cm_node *n = c->at;
    int data = moved_inputs(n);
    cm_value **in = cm_new_n(c->rw->cx->scratch, n->n_in, cm_value *);
    cm_node *m = NULL;
    if (!in)
        c->st = cm_fail_memory(c->rw->cx);
    for (int i = 0; c->st == CM_OK && i < n->n_in; i++) {
        bool moved = n->in[i] && (data < 0 || (i < 3 && data >> i & 1));
        in[i] = moved ? to_bytes(c, n->in[i]) : n->in[i];
    }
    if (c->st == CM_OK)
        c->st = cm_make_with(c->rw, c->at, n->op->id, n->attr, c->at, in, n->n_in, n->n_out, &m);
    for (int o = 0; c->st == CM_OK && o < n->n_out; o++)
        if (n->out[o])
            from_bytes(c, o, m->out[o]);
}

CM_PASS(parts_as_bytes)
{
    static const cm_chain_form forms[] = {{is_moved, expand}};
    return cm_chain_rewrite(rw, g, forms, CM_COUNT(forms));
}
