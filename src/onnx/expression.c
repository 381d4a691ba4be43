/* expression.c -- a Loop whose body is written as expressions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "onnx/expression.h"

#include <string.h>

/* The type of a carried value: sizes may change from turn to turn. */
static cm_status loose_type(cm_importer *im, cm_network *g, const cm_value *v, cm_type *out)
{
    *out = v->type;
    for (int i = 0; out->kind == CM_TENSOR && i < out->rank; i++) {
        out->dims[i] = cm_dim_fresh(g->dims, "carried", CM_DIM_SIZE);
        if (out->dims[i] == CM_DIM_ERROR)
            return cm_fail_memory(im->cx);
    }
    return CM_OK;
}

static cm_status build_body(cm_pending *u, cm_value *const *carried, int n, cm_turn_fn turn,
                            const void *state, cm_network **out)
{
    cm_importer *im = u->im;
    cm_scope *inside;
    cm_value **v, *ignored;
    cm_type iter = cm_type_tensor(CM_I64, 0, NULL), cond = cm_type_tensor(CM_BOOL, 0, NULL), t;
    CM_NEW(im->cx, im->tmp, inside, cm_scope);
    CM_NEW_N(im->cx, im->tmp, v, n, cm_value *);
    *inside = *u->scope;
    inside->outer = u->scope;
    inside->rename = NULL;
    cm_map_init(&inside->values, im->tmp);
    CM_TRY(cm_network_nested(im->cx, u->scope->g, u->name, &inside->g));
    CM_TRY(cm_network_add_input(im->cx, inside->g, "iteration", &iter, &ignored));
    CM_TRY(cm_network_add_input(im->cx, inside->g, "go_on", &cond, &ignored));
    for (int i = 0; i < n; i++) {
        CM_TRY(loose_type(im, inside->g, carried[i], &t));
        CM_TRY(cm_network_add_input(im->cx, inside->g, "carried", &t, &v[i]));
    }
    cm_pending w = {
        .im = im, .scope = inside, .domain = "", .name = u->name, .version = CM_ONNX_NEWEST_OPSET};
    maker k = {&w, CM_OK};
    cm_value *more = turn(&k, v, state);
    CM_TRY(k.st);
    CM_TRY(cm_network_add_output(im->cx, inside->g, more, NULL));
    for (int i = 0; i < n; i++)
        CM_TRY(cm_network_add_output(im->cx, inside->g, v[i], NULL));
    *out = inside->g;
    return CM_OK;
}

cm_status cm_expression_loop(cm_pending *u, cm_value *more, cm_value **carried, int n,
                             cm_turn_fn turn, const void *state)
{
    cm_importer *im = u->im;
    const cm_op *op = cm_onnx_find_op(im, "", "Loop");
    cm_value **in;
    cm_network *body;
    cm_node *node;
    if (!op)
        return cm_fail(im->cx, CM_ERR_UNSUPPORTED, "the operator Loop is not supported");
    CM_NEW_N(im->cx, im->tmp, in, n + 2, cm_value *);
    in[1] = more;
    memcpy(in + 2, carried, (size_t)n * sizeof *in);
    CM_TRY(build_body(u, carried, n, turn, state, &body));
    CM_TRY(cm_network_add_node(im->cx, u->scope->g, NULL, op, u->name, NULL, in, n + 2, NULL, n,
                               &node));
    CM_TRY(cm_node_set_subs(im->cx, node, &body, 1));
    CM_TRY(cm_node_infer(im->cx, node));
    memcpy(carried, node->out, (size_t)n * sizeof *carried);
    return CM_OK;
}

void cm_expression_node(maker *k, cm_op_id id, cm_value *const *in, int n_in,
                        const cm_up_attr *attrs, int n_attrs, cm_value **out, int n_out)
{
    cm_importer *im = k->u->im;
    cm_pending v = {.im = im, .scope = k->u->scope, .domain = "", .version = CM_ONNX_NEWEST_OPSET};
    const cm_op *op = cm_op_builtin(id);
    cm_node *node;
    void *attr;
    memset(out, 0, (size_t)n_out * sizeof *out);
    for (int i = 0; i < n_attrs && k->st == CM_OK; i++)
        k->st = cm_up_set_int(&v, attrs[i].name, attrs[i].i);
    while (n_in > 0 && !in[n_in - 1])
        n_in--;
    if (k->st == CM_OK)
        k->st = cm_onnx_attr_struct(&v, op, &attr);
    if (k->st == CM_OK)
        k->st = cm_network_add_node(im->cx, v.scope->g, NULL, op, k->u->name, attr, in, n_in, NULL,
                                    n_out, &node);
    if (k->st == CM_OK)
        k->st = cm_node_infer(im->cx, node);
    if (k->st == CM_OK)
        memcpy(out, node->out, (size_t)n_out * sizeof *out);
}
