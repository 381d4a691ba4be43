/* fuse_reduce.c -- reduce a pointwise result while it is made.
 *
 *     a = cameo.Pointwise(x, b) {program=P}      or one pointwise node
 *     y = ReduceMean(a, @axes)
 *  becomes
 *     y = cameo.PointwiseReduce(x, b) {program=P, reduce="ReduceMean", axes=...}
 *
 * Fires when only the reduction reads the pointwise result, the axes are constant and at least one input has the
 * shape of the result (else a smaller tensor is better reduced before it is spread), in floats. An epilogue of
 * the reduction goes along.
 *
 * needs: types, uses    keeps: types, uses
 * numerics: what is reduced is not rounded to the element type first
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "passes/to_program.h"

enum { MOST_INPUTS = 16 };

static bool is_reduction(cm_op_id op)
{
    switch (op) {
    case CM_OP_REDUCE_SUM:
    case CM_OP_REDUCE_MEAN:
    case CM_OP_REDUCE_MAX:
    case CM_OP_REDUCE_MIN:
    case CM_OP_REDUCE_PROD:
    case CM_OP_REDUCE_L1:
    case CM_OP_REDUCE_L2:
    case CM_OP_REDUCE_SUM_SQUARE:
        return true;
    default:
        return false;
    }
}

/* The pointwise node that n reduces, when it can be taken in. */
static cm_node *reduced_node(const cm_node *n)
{
    cm_node *p = n->in[0] ? n->in[0]->producer : NULL;
    if (!p || p->network != n->network || cm_only_reader(n->in[0]) != n || !cm_is_pointwise(p) ||
        !cm_is_float(n->in[0]) || cm_rank(n->in[0]) < 0 || p->n_in > MOST_INPUTS)
        return NULL;
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i] && cm_same_shape(p->in[i], n->in[0]) &&
            p->in[i]->type.dtype == n->in[0]->type.dtype)
            return p;
    return NULL;
}

/* Inputs of the fused node, the full one first: the element type of the result is its. */
static bool read_inputs(const cm_node *p, const cm_value *like, cm_value **in, int *n_in,
                        cm_program_arg *args)
{
    *n_in = 0;
    for (int i = 0; i < p->n_in && *n_in == 0; i++)
        if (p->in[i] && cm_same_shape(p->in[i], like) && p->in[i]->type.dtype == like->type.dtype)
            in[(*n_in)++] = p->in[i];
    for (int i = 0; i < p->n_in; i++) {
        double number;
        int k = 0;
        if (!cm_program_reads(p, i)) {
            args[i] = cm_arg_number(0);
            continue;
        }
        if (cm_splat(p->in[i], &number) && cm_rank(p->in[i]) == 0) {
            args[i] = cm_arg_number(number);
            continue;
        }
        while (k < *n_in && in[k] != p->in[i])
            k++;
        if (k == MOST_INPUTS)
            return false;
        in[k] = p->in[i];
        *n_in = k == *n_in ? k + 1 : *n_in;
        args[i] = cm_arg_operand(k);
    }
    return *n_in > 0;
}

static cm_status fuse(cm_rewriter *rw, cm_node *n, const cm_node *p, const cm_program *program,
                      cm_value **in, int n_in, const int64_t *axes, int n_axes)
{
    const cm_op_id id = CM_OP_POINTWISE_REDUCE;
    cm_network *g = n->network;
    void *attr;
    const char *text;
    cm_node *made;
    CM_TRY(cm_program_text(rw->cx, g, program, &text));
    CM_TRY(cm_new_attr(rw->cx, g, id, &attr));
    CM_TRY(cm_attr_put_string(rw->cx, g, id, attr, "program", text));
    CM_TRY(cm_attr_put_string(rw->cx, g, id, attr, "reduce", n->op->name));
    CM_TRY(cm_attr_put_ints(rw->cx, g, id, attr, "axes", axes, n_axes));
    CM_TRY(cm_attr_put_int(rw->cx, id, attr, "keepdims", cm_int(n, "keepdims")));
    CM_TRY(cm_make_with(rw, n, id, attr, p, in, n_in, 1, &made));
    if (n->epilogue.program) {
        int own = cm_node_own_inputs(n);
        CM_TRY(cm_node_set_epilogue(rw->cx, made, n->epilogue.program, n->in + own, n->n_in - own,
                                    n->epilogue.to));
        CM_TRY(cm_node_infer(rw->cx, made));
    }
    CM_TRY(cm_replace(rw, n, made->out[0], made));
    cm_drop_if_dead(n);
    return CM_OK;
}

CM_PASS(fuse_reduce)
{
    CM_FOR_NODES (n, g) {
        int64_t axes[CM_MAX_RANK];
        int n_axes, n_in;
        if (!is_reduction(n->op->id) || !n->out[0]->n_uses || cm_node_own_inputs(n) < 2 ||
            !cm_const_ints(n->in[1], axes, CM_MAX_RANK, &n_axes) || n_axes == 0)
            continue;
        cm_node *p = reduced_node(n);
        cm_value *in[MOST_INPUTS];
        cm_program program;
        cm_program_arg args[CM_PROGRAM_MAX], result;
        memset(&program, 0, sizeof program);
        if (!p || !read_inputs(p, n->in[0], in, &n_in, args) ||
            !cm_append_node(&program, p, args, &result) || result.kind != CM_ARG_RESULT)
            continue;
        program.output[0] = result.index;
        program.n_outputs = 1;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(fuse(rw, n, p, &program, in, n_in, axes, n_axes));
    }
    return CM_OK;
}
