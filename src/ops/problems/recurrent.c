/* recurrent.c -- RNN, GRU and LSTM as problems; rare activations, and other ones in each direction, stay with the reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <strings.h>

#include "base/size.h"
#include "ops/problem.h"

bool cm_problem_recurrent(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

enum { X, W, R, B, LENS, H0, C0, P };

static bool is_named(cm_str s, const char *name)
{
    return s.n == strlen(name) && strncasecmp(s.p, name, s.n) == 0;
}

static const struct {
    const char *name;
    cm_gate_function function;
    int n_params;
    float alpha, beta; /* where none are given */
} functions[] = {
    {"Sigmoid", CM_GATE_SIGMOID, 0, 0, 0},
    {"Tanh", CM_GATE_TANH, 0, 0, 0},
    {"Relu", CM_GATE_RELU, 0, 0, 0},
    {"LeakyRelu", CM_GATE_LEAKY_RELU, 1, 0.01f, 0},
    {"HardSigmoid", CM_GATE_HARD_SIGMOID, 2, 0.2f, 0.5f},
    {"Softsign", CM_GATE_SOFTSIGN, 0, 0, 0},
};

static int find_function(cm_str name)
{
    for (int i = 0; i < CM_COUNT(functions); i++)
        if (is_named(name, functions[i].name))
            return i;
    return -1;
}

/* Parameters are taken in order by the functions that have some. False: a function that is not known here, or one that
 * differs from direction to direction. */
static bool read_functions(const cm_op *op, const void *attr, cm_recurrent *r)
{
    static const char *const usual[][3] = {
        {"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
    const cm_attr_field *f = cm_attr_find(op->attrs, "activations");
    const cm_strs *given = f ? cm_attr_get(attr, f) : NULL;
    const cm_floats *alphas = cm_attr_get(attr, cm_attr_find(op->attrs, "activation_alpha")),
                    *betas = cm_attr_get(attr, cm_attr_find(op->attrs, "activation_beta"));
    int each = (int)r->kind + 1, next_alpha = 0, next_beta = 0;
    r->plain_activations = true;
    for (int i = 0; i < each * r->directions; i++) {
        cm_str name = given && given->n > i ? given->v[i] : cm_str_of(usual[r->kind][i % each]);
        int k = find_function(name);
        if (k < 0)
            return false;
        float alpha = functions[k].alpha, beta = functions[k].beta;
        if (functions[k].n_params > 0 && next_alpha < alphas->n)
            alpha = alphas->v[next_alpha++];
        if (functions[k].n_params > 1 && next_beta < betas->n)
            beta = betas->v[next_beta++];
        bool same = r->gate[i % each].function == functions[k].function &&
                    r->gate[i % each].alpha == alpha && r->gate[i % each].beta == beta;
        if (i >= each && !same)
            return false;
        r->gate[i % each].function = functions[k].function;
        r->gate[i % each].alpha = alpha;
        r->gate[i % each].beta = beta;
        r->plain_activations &= is_named(name, usual[r->kind][i % each]);
    }
    return true;
}

bool cm_problem_recurrent(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    cm_recurrent *r = &p->as.recurrent;
    const cm_tensor *x = p->in[X];
    cm_str direction = cm_attr_str(op, attr, "direction");
    cm_recurrent_kind kind = op->id == CM_OP_RNN   ? CM_RECURRENT_RNN
                             : op->id == CM_OP_GRU ? CM_RECURRENT_GRU
                                                   : CM_RECURRENT_LSTM;
    bool first = cm_attr_int(op, attr, "layout") == 1;
    *r = (cm_recurrent){.kind = kind,
                        .steps = x->dims[first],
                        .batch = x->dims[!first],
                        .input = x->dims[2],
                        .hidden = p->in[R]->dims[2],
                        .directions = cm_str_equal(direction, cm_str_of("bidirectional")) ? 2 : 1,
                        .reverse = cm_str_equal(direction, cm_str_of("reverse")),
                        .batch_first = first,
                        .linear_before_reset = cm_attr_int(op, attr, "linear_before_reset") != 0,
                        .input_forget = cm_attr_int(op, attr, "input_forget") != 0,
                        .clip = cm_attr_float(op, attr, "clip"),
                        .peepholes = kind == CM_RECURRENT_LSTM && cm_problem_has(p, P)};
    return read_functions(op, attr, r) && r->steps > 0 && r->batch > 0 && r->input > 0 &&
           r->hidden > 0;
}
