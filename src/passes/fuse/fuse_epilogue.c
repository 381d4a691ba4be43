/* fuse_epilogue.c -- let a product, convolution, normalisation or reduction finish its own result.
 *
 *     c = Conv(x, @w)
 *     s = Add(c, r)
 *     y = Relu(s)
 *  becomes
 *     y = Conv(x, @w | r) then "add x $0; relu %0"
 *
 * Fires when a pointwise node reads the sole use of output 0 of a node that takes an epilogue, leaves its
 * shape as it is, and its other operands broadcast to that shape. A number among the operands becomes
 * part of the program. Not when the element type changes to bool, or the first result is read twice by
 * others. The producer moves down to the pointwise node, where all operands are defined.
 *
 * needs: types, uses    keeps: types, uses
 * numerics: a chain of operators is rounded once, at its end
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "passes/to_program.h"

enum { MOST_OPERANDS = 8 };

/* Do all uses of v come from n? */
static bool read_by_only(const cm_value *v, const cm_node *n)
{
    for (const cm_use *u = v->uses; u; u = u->next)
        if (u->node != n)
            return false;
    return v->n_uses > 0;
}

static bool takes_epilogue(const cm_node *p)
{
    return p && (p->op->traits & CM_EPILOGUE) && cm_one_output(p) && cm_is_float(p->out[0]);
}

/* The input of c whose producer can take c in, or -1. The later producer is taken: the other one's
 * result is then there to be read. */
static int absorbed_input(const cm_node *c)
{
    int best = -1;
    for (int i = 0; i < c->n_in; i++) {
        const cm_value *v = c->in[i];
        if (!v || !takes_epilogue(v->producer) || v->network != c->network || !read_by_only(v, c) ||
            !cm_same_shape(v, c->out[0]))
            continue;
        if (best < 0 || v->producer->mark > c->in[best]->producer->mark)
            best = i;
    }
    return best;
}

static cm_status start_program(cm_ctx *cx, const cm_node *p, cm_program *out, cm_program_arg *x)
{
    memset(out, 0, sizeof *out);
    *x = cm_arg_x();
    if (!p->epilogue.program)
        return CM_OK;
    CM_TRY(cm_program_parse(cx, p->epilogue.program, strlen(p->epilogue.program), out));
    *x = cm_arg_result(out->output[0]);
    return CM_OK;
}

/* Arguments for c's inputs: the absorbed one is x, numbers are themselves, the rest new operands. */
static bool arguments(const cm_node *c, const cm_value *absorbed, cm_program_arg x,
                      cm_value **operands, int *n_operands, cm_program_arg *args)
{
    for (int i = 0; i < c->n_in; i++) {
        double number;
        if (c->in[i] == absorbed) {
            args[i] = x;
        } else if (!c->in[i]) {
            args[i] = cm_arg_number(0);
        } else if (cm_splat(c->in[i], &number)) {
            args[i] = cm_arg_number(number);
        } else {
            int k = 0;
            while (k < *n_operands && operands[k] != c->in[i])
                k++;
            if (k == MOST_OPERANDS)
                return false;
            operands[k] = c->in[i];
            *n_operands = k == *n_operands ? k + 1 : *n_operands;
            args[i] = cm_arg_operand(k);
        }
    }
    return true;
}

static cm_status absorb(cm_rewriter *rw, cm_node *c, int input, bool *done)
{
    cm_node *p = c->in[input]->producer;
    cm_value *operands[MOST_OPERANDS];
    int own = cm_node_own_inputs(p), n_operands = p->epilogue.n_operands;
    cm_program program;
    cm_program_arg x, args[CM_PROGRAM_MAX], result;
    *done = false;
    if (n_operands > MOST_OPERANDS)
        return CM_OK;
    CM_TRY(start_program(rw->cx, p, &program, &x));
    for (int k = 0; k < n_operands; k++)
        operands[k] = p->in[own + k];
    if (!arguments(c, c->in[input], x, operands, &n_operands, args) ||
        !cm_append_node(&program, c, args, &result))
        return CM_OK;
    if (result.kind == CM_ARG_X) { /* a Cast alone: a program needs an instruction */
        int r = cm_program_add(&program, CM_PW_MUL, result, cm_arg_number(1), (cm_program_arg){0});
        result = cm_arg_result(r);
    }
    if (result.kind != CM_ARG_RESULT)
        return CM_OK;
    program.output[0] = result.index;
    program.n_outputs = 1;
    if (!cm_rewrite(rw, c))
        return CM_OK;
    *done = true;
    cm_node *n;
    const char *text;
    const char *no_names[64] = {NULL};
    for (int o = 1; o < p->n_out && o < CM_COUNT(no_names); o++)
        no_names[o] = "";
    CM_TRY(cm_program_text(rw->cx, c->network, &program, &text));
    CM_TRY(cm_network_add_node(rw->cx, c->network, c, p->op, p->name, p->attr, p->in, own, no_names,
                               p->n_out, &n));
    n->from = p->from;
    n->n_from = p->n_from;
    cm_dtype to = c->out[0]->type.dtype;
    bool same = !p->epilogue.to && to == p->out[0]->type.dtype;
    CM_TRY(cm_node_set_epilogue(rw->cx, n, text, operands, n_operands, same ? CM_NO_DTYPE : to));
    CM_TRY(cm_node_infer(rw->cx, n));
    n->mark = c->mark;
    CM_TRY(cm_replace(rw, c, n->out[0], n));
    cm_drop_if_dead(c);
    return CM_OK;
}

CM_PASS(fuse_epilogue)
{
    cm_number_nodes(g);
    CM_FOR_NODES (c, g) {
        if (!cm_is_pointwise(c) || !c->out[0]->n_uses || !cm_is_float(c->out[0]))
            continue;
        int input = absorbed_input(c);
        bool done;
        if (input >= 0)
            CM_TRY(absorb(rw, c, input, &done));
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
    }
    return CM_OK;
}
