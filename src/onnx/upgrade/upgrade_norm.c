/* upgrade_norm.c -- normalisations, Dropout, pools and recurrent layers of older opsets.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "onnx/upgrade/upgrade.h"

/* Statistics for each activation, not for each channel: y = (x - mean)/sqrt(var + eps)*scale +
 * b. */
static cm_status per_activation(cm_pending *u)
{
    float epsilon = 1e-5f;
    bool found;
    cm_value *eps, *sum, *deviation, *y;
    for (int i = 0; i < 5; i++)
        CM_TRY(cm_up_need_input(u, i));
    CM_TRY(cm_up_take_float(u, "epsilon", &epsilon, &found));
    CM_TRY(cm_up_number(u, u->in[4]->type.dtype, epsilon, &eps));
    CM_TRY(cm_up_binary(u, "Add", u->in[4], eps, &sum));
    CM_TRY(cm_up_unary(u, "Sqrt", sum, &deviation));
    CM_TRY(cm_up_binary(u, "Sub", u->in[0], u->in[3], &y));
    CM_TRY(cm_up_binary(u, "Div", y, deviation, &y));
    CM_TRY(cm_up_binary(u, "Mul", y, u->in[1], &y));
    u->in[0] = y;
    u->in[1] = u->in[2];
    u->n_in = 2;
    u->n_attrs = 0;
    u->op = "Add";
    return CM_OK;
}

/* BatchNormalization up to 13 had outputs for training that no inference has. */
cm_status cm_up_batch_norm(cm_pending *u)
{
    int64_t spatial = 1;
    bool found;
    if (u->n_out > 1)
        u->n_out = 1;
    cm_up_drop(u, "is_test");
    CM_TRY(cm_up_take_int(u, "spatial", &spatial, &found));
    return spatial || cm_up_rank(u, 1) == 1 ? CM_OK : per_activation(u);
}

/* C/groups as a vector of one element. */
static cm_status channels_per_group(cm_pending *u, int64_t groups, cm_value **out)
{
    const cm_type *x = &u->in[0]->type;
    cm_value *c, *g;
    if (x->kind == CM_TENSOR && x->rank >= 2 && cm_dim_is_size(x->dims[1])) {
        int64_t n = x->dims[1] / groups;
        return cm_up_ints(u, &n, 1, out);
    }
    cm_up_attr attrs[] = {CM_UP_INT("start", 1), CM_UP_INT("end", 2)};
    CM_TRY(cm_up_node(u, "Shape", u->in, 1, attrs, 2, &c));
    CM_TRY(cm_up_int(u, groups, &g));
    return cm_up_binary(u, "Div", c, g, out);
}

/* GroupNormalization-18 has a scale and a bias for each group, now for each channel:
 *     scale [G] -- Unsqueeze(1) -- Expand [G, C/G] -- Reshape [-1] */
cm_status cm_up_group_norm(cm_pending *u)
{
    const cm_attribute *a = cm_onnx_find_attr(u, "num_groups");
    int64_t one = 1, all = -1;
    cm_value *axis, *flat, *g, *per, *shape;
    if (!a || a->p->i < 1)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "num_groups is missing or not positive");
    for (int i = 0; i < 3; i++)
        CM_TRY(cm_up_need_input(u, i));
    CM_TRY(cm_up_ints(u, &one, 1, &axis));
    CM_TRY(cm_up_ints(u, &all, 1, &flat));
    CM_TRY(cm_up_ints(u, &a->p->i, 1, &g));
    CM_TRY(channels_per_group(u, a->p->i, &per));
    cm_value *parts[] = {g, per};
    cm_up_attr attrs[] = {CM_UP_INT("axis", 0)};
    CM_TRY(cm_up_node(u, "Concat", parts, 2, attrs, 1, &shape));
    for (int i = 1; i < 3; i++) {
        CM_TRY(cm_up_binary(u, "Unsqueeze", u->in[i], axis, &u->in[i]));
        CM_TRY(cm_up_binary(u, "Expand", u->in[i], shape, &u->in[i]));
        CM_TRY(cm_up_binary(u, "Reshape", u->in[i], flat, &u->in[i]));
    }
    return CM_OK;
}

/* Dropout up to 11 does nothing when not training. Its mask was of the data's type up to 9. */
cm_status cm_up_dropout(cm_pending *u)
{
    CM_TRY(cm_up_need_input(u, 0));
    u->n_attrs = 0;
    u->n_in = 1;
    if (u->n_out > 1 && *u->out[1]) {
        cm_value *shape, *mask;
        CM_TRY(cm_up_unary(u, "Shape", u->in[0], &shape));
        CM_TRY(cm_up_unary(u, "ConstantOfShape", shape, &mask)); /* of float zeros */
        CM_TRY(cm_up_cast(u, mask, CM_BOOL, &mask));
        CM_TRY(cm_up_unary(u, "Not", mask, &mask));
        if (u->version < 10)
            CM_TRY(cm_up_cast(u, mask, u->in[0]->type.dtype, &mask));
        CM_TRY(cm_up_result(u, 1, mask));
        u->done = false;
    }
    u->n_out = u->n_out > 1 ? 1 : u->n_out;
    u->op = "Identity";
    return CM_OK;
}

/* LpPool, GlobalLpPool: p was a float once. */
cm_status cm_up_lp_pool(cm_pending *u)
{
    float p = 2;
    bool found;
    const cm_attribute *a = cm_onnx_find_attr(u, "p");
    if (a && cm_onnx_attr_type(a->p) == PB_ATTR_INT)
        return CM_OK;
    CM_TRY(cm_up_take_float(u, "p", &p, &found));
    if (!(p >= 1 && p <= 1e6f) || p != floorf(p))
        return cm_fail(u->im->cx, CM_ERR_UNSUPPORTED, "p is %g, wanted a whole number", (double)p);
    return cm_up_set_int(u, "p", (int64_t)p);
}

/* Of 19 to 21: with ceil_mode and count_include_pad a window that overhangs counted whole. */
cm_status cm_up_average_pool(cm_pending *u)
{
    return cm_up_set_int(u, "count_overhang", 1);
}

/* RNN, GRU, LSTM up to 6: whether Y is there is what its name says. */
cm_status cm_up_rnn(cm_pending *u)
{
    cm_up_drop(u, "output_sequence");
    return CM_OK;
}
