/* expand_fused.c -- com.microsoft's fused products and convolutions as plain nodes, so that there is one form.
 *
 *     y = com.microsoft.FusedConv(x, @w, @b, z) {activation="Relu"}
 *  becomes
 *     c = Conv(x, @w, @b)
 *     s = Add(c, z)
 *     y = Relu(s)
 *
 * Also FusedGemm, GemmFastGelu and FusedMatMulActivation. What follows the product is an epilogue again later, so no
 * node is lost by it. Activations that no plain operator is: left alone.
 *
 * needs: types    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <strings.h>

#include "passes/match.h"

static const struct {
    const char *name;
    cm_op_id op;
    const char *alpha, *beta; /* attributes that it takes, in order */
} activations[] = {
    {"", CM_OP_IDENTITY, NULL, NULL},         {"Relu", CM_OP_RELU, NULL, NULL},
    {"Tanh", CM_OP_TANH, NULL, NULL},         {"Sigmoid", CM_OP_SIGMOID, NULL, NULL},
    {"Softplus", CM_OP_SOFTPLUS, NULL, NULL}, {"LeakyRelu", CM_OP_LEAKY_RELU, "alpha", NULL},
    {"Elu", CM_OP_ELU, "alpha", NULL},        {"HardSigmoid", CM_OP_HARD_SIGMOID, "alpha", "beta"},
    {"Clip", CM_OP_CLIP, NULL, NULL},         {"FastGelu", CM_OP_GELU, NULL, NULL},
};

typedef struct {
    int row; /* of activations */
    int n_params;
    double params[2];
} activation;

static bool find(cm_str name, activation *out)
{
    for (int i = 0; i < CM_COUNT(activations); i++)
        if (cm_str_equal(name, cm_str_of(activations[i].name))) {
            *out = (activation){.row = i};
            return true;
        }
    return false;
}

static bool activation_of(const cm_node *n, activation *out)
{
    if (n->op->id == CM_OP_MS_GEMM_FAST_GELU)
        return find(cm_str_of("FastGelu"), out);
    if (!find(cm_string(n, "activation"), out))
        return false;
    if (n->op->id == CM_OP_MS_FUSED_CONV) {
        const cm_attr_field *f = cm_attr_find(n->op->attrs, "activation_params");
        const cm_floats *p = cm_attr_get(n->attr, f);
        for (int i = 0; i < p->n && i < 2; i++)
            out->params[out->n_params++] = p->v[i];
        return true;
    }
    bool has_alpha = cm_given(n, "activation_alpha"), has_beta = cm_given(n, "activation_beta");
    if (has_beta && !has_alpha)
        return false;
    if (has_alpha)
        out->params[out->n_params++] = cm_float(n, "activation_alpha");
    if (has_beta)
        out->params[out->n_params++] = cm_float(n, "activation_beta");
    return true;
}

static cm_status activate(cm_rewriter *rw, cm_node *n, const activation *a, cm_node **y)
{
    cm_op_id op = activations[a->row].op;
    cm_value *in[3] = {(*y)->out[0]};
    int n_in = 1;
    void *attr;
    if (op == CM_OP_IDENTITY)
        return CM_OK;
    CM_TRY(cm_new_attr(rw->cx, n->network, op, &attr));
    for (int i = 0; op == CM_OP_CLIP && i < a->n_params; i++)
        CM_TRY(cm_make_scalar(rw->cx, n->network, i ? "max" : "min", in[0]->type.dtype,
                              a->params[i], &in[n_in++]));
    if (op == CM_OP_GELU)
        CM_TRY(cm_attr_put_string(rw->cx, n->network, op, attr, "approximate", "tanh"));
    if (activations[a->row].alpha && a->n_params > 0)
        CM_TRY(cm_attr_put_float(rw->cx, op, attr, activations[a->row].alpha, a->params[0]));
    if (activations[a->row].beta && a->n_params > 1)
        CM_TRY(cm_attr_put_float(rw->cx, op, attr, activations[a->row].beta, a->params[1]));
    return cm_make_with(rw, n, op, attr, n, in, n_in, 1, y);
}

/* Copy what both operators' attributes have in common. */
static cm_status same_attrs(cm_rewriter *rw, const cm_node *n, cm_op_id op, void **out)
{
    static const char *const names[] = {"auto_pad", "dilations", "group",       "kernel_shape",
                                        "pads",     "strides",   "alpha",       "beta",
                                        "transA",   "transB",    "transBatchA", "transBatchB"};
    const cm_attr_desc *to = cm_op_builtin(op)->attrs;
    CM_TRY(cm_new_attr(rw->cx, n->network, op, out));
    for (int i = 0; i < CM_COUNT(names); i++) {
        const cm_attr_field *f = cm_attr_find(n->op->attrs, names[i]),
                            *t = cm_attr_find(to, names[i]);
        if (f && t && cm_attr_has(n->op->attrs, n->attr, names[i]))
            cm_attr_set(to, *out, t, cm_attr_get(n->attr, f));
    }
    return CM_OK;
}

static cm_op_id plain_op(const cm_node *n)
{
    switch (n->op->id) {
    case CM_OP_MS_FUSED_CONV:
        return CM_OP_CONV;
    case CM_OP_MS_FUSED_GEMM:
        return CM_OP_GEMM;
    case CM_OP_MS_GEMM_FAST_GELU:
        return CM_OP_MATMUL;
    case CM_OP_MS_FUSED_MATMUL_ACTIVATION:
        return CM_OP_MS_FUSED_MATMUL;
    default:
        return CM_OP_COUNT;
    }
}

static cm_status expand(cm_rewriter *rw, cm_node *n, const activation *a)
{
    cm_op_id op = plain_op(n);
    void *attr = NULL;
    cm_node *y;
    cm_value *sum = NULL;
    int own = n->n_in;
    if (op == CM_OP_CONV && n->n_in > 3)
        sum = n->in[--own];
    if (op == CM_OP_MATMUL && n->n_in > 2)
        sum = n->in[--own];
    while (own > 2 && !n->in[own - 1])
        own--;
    CM_TRY(same_attrs(rw, n, op, &attr));
    CM_TRY(cm_make_with(rw, n, op, attr, n, n->in, own, 1, &y));
    if (sum)
        CM_TRY(cm_make(rw, n, CM_OP_ADD, n, (cm_value *[]){y->out[0], sum}, 2, 1, &y));
    CM_TRY(activate(rw, n, a, &y));
    return cm_replace(rw, n, y->out[0], NULL);
}

CM_PASS(expand_fused)
{
    CM_FOR_NODES (n, g) {
        activation a;
        if (plain_op(n) == CM_OP_COUNT || n->epilogue.program || !n->out[0]->n_uses ||
            !cm_is_float(n->out[0]))
            continue;
        if (!activation_of(n, &a)) {
            cm_near(rw, n, "%s not expanded: no operator is its activation", n->op->name);
            continue;
        }
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(expand(rw, n, &a));
        cm_drop_if_dead(n);
    }
    return CM_OK;
}
