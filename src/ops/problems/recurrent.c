/* recurrent.c -- RNN, GRU and LSTM as problems; peepholes and unusual activations stay with the reference.
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

/* Are the activations those that the operator has when none are given? */
static bool is_plain(const cm_op *op, const void *attr, cm_recurrent_kind kind)
{
    static const char *const names[][3] = {
        {"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
    const cm_attr_field *f = cm_attr_find(op->attrs, "activations");
    const cm_strs *given = f ? cm_attr_get(attr, f) : NULL;
    int each = (int)kind + 1;
    for (int i = 0; given && i < (int)given->n; i++)
        if (!is_named(given->v[i], names[kind][i % each]))
            return false;
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
                        .plain_activations = is_plain(op, attr, kind)};
    return !cm_problem_has(p, P) && r->plain_activations && r->steps > 0 && r->batch > 0 &&
           r->input > 0 && r->hidden > 0;
}
