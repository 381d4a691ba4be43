/* upgrade_axes.c -- lists that were attributes and are inputs now: axes, splits, pads, shapes,
 * limits.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "onnx/upgrade/upgrade.h"

/* Squeeze, Unsqueeze, Reduce*: `axes` to input 1. An empty list of a reduction means all, as
 * none. */
cm_status cm_up_axes(cm_pending *u)
{
    cm_ints axes = {0};
    bool found;
    CM_TRY(cm_up_take_ints(u, "axes", &axes, &found));
    if (!found || (axes.n == 0 && strcmp(u->op, "Unsqueeze") != 0))
        return CM_OK;
    cm_value *v;
    CM_TRY(cm_up_ints(u, axes.v, axes.n, &v));
    return cm_up_set_input(u, 1, v);
}

/* Version 1 took the sizes as an attribute or as an input of the data's type; up to 12 they are an
 * attribute; up to 17 equal parts are as many as there are outputs. */
cm_status cm_up_split(cm_pending *u)
{
    cm_ints sizes = {0};
    bool found;
    CM_TRY(cm_up_take_ints(u, "split", &sizes, &found));
    if (found && sizes.n) {
        cm_value *v;
        CM_TRY(cm_up_ints(u, sizes.v, sizes.n, &v));
        CM_TRY(cm_up_set_input(u, 1, v));
    }
    if (u->n_in > 1 && u->in[1]) {
        if (u->version == 1 && u->in[1]->type.dtype != CM_I64)
            return cm_up_cast(u, u->in[1], CM_I64, &u->in[1]);
        return CM_OK;
    }
    return cm_up_set_int(u, "num_outputs", u->n_out);
}

cm_status cm_up_slice(cm_pending *u)
{
    static const char *const names[] = {"starts", "ends", "axes"};
    for (int i = 0; i < 3; i++) {
        cm_ints list = {0};
        bool found;
        cm_value *v;
        CM_TRY(cm_up_take_ints(u, names[i], &list, &found));
        if (!found && i < 2)
            return cm_fail(u->im->cx, CM_ERR_MODEL, "attribute '%s' is missing", names[i]);
        if (!found)
            continue;
        CM_TRY(cm_up_ints(u, list.v, list.n, &v));
        CM_TRY(cm_up_set_input(u, i + 1, v));
    }
    return CM_OK;
}

cm_status cm_up_top_k(cm_pending *u)
{
    int64_t k = 0;
    bool found;
    cm_value *v;
    CM_TRY(cm_up_take_int(u, "k", &k, &found));
    if (!found)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "attribute 'k' is missing");
    CM_TRY(cm_up_ints(u, &k, 1, &v));
    return cm_up_set_input(u, 1, v);
}

cm_status cm_up_reshape(cm_pending *u)
{
    cm_ints shape = {0};
    bool found;
    cm_value *v;
    CM_TRY(cm_up_take_ints(u, "shape", &shape, &found));
    if (!found && u->n_in > 1)
        return CM_OK;
    CM_TRY(cm_up_ints(u, shape.v, shape.n, &v));
    return cm_up_set_input(u, 1, v);
}

/* Version 1: how often (`tiles`) along one axis (`axis`), scalars; now a count for each axis. */
cm_status cm_up_tile(cm_pending *u)
{
    int rank = cm_up_rank(u, 0);
    cm_value *all, *axis, *is_axis, *one, *tiles, *repeats;
    int64_t numbers[CM_MAX_RANK];
    if (u->n_in < 3)
        return CM_OK; /* the newer form under the older number: seen in files */
    if (rank < 0)
        return cm_fail(u->im->cx, CM_ERR_UNSUPPORTED, "the rank of input 0 is not known");
    for (int i = 0; i < rank; i++)
        numbers[i] = i;
    CM_TRY(cm_up_need_input(u, 1));
    CM_TRY(cm_up_need_input(u, 2));
    CM_TRY(cm_up_ints(u, numbers, rank, &all));
    CM_TRY(cm_up_int(u, 1, &one));
    CM_TRY(cm_up_cast(u, u->in[1], CM_I64, &tiles));
    CM_TRY(cm_up_cast(u, u->in[2], CM_I64, &axis));
    CM_TRY(cm_up_binary(u, "Equal", all, axis, &is_axis));
    cm_value *in[] = {is_axis, tiles, one};
    CM_TRY(cm_up_node(u, "Where", in, 3, NULL, 0, &repeats));
    u->n_in = 2;
    u->in[1] = repeats;
    return CM_OK;
}

/* Pad: `paddings`, later `pads`, and `value`. */
cm_status cm_up_pad(cm_pending *u)
{
    cm_ints pads = {0};
    float value = 0;
    bool found, has_value;
    cm_value *v;
    CM_TRY(cm_up_need_input(u, 0));
    CM_TRY(cm_up_take_ints(u, "paddings", &pads, &found));
    if (!found)
        CM_TRY(cm_up_take_ints(u, "pads", &pads, &found));
    if (!found)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "attribute 'pads' is missing");
    CM_TRY(cm_up_take_float(u, "value", &value, &has_value));
    CM_TRY(cm_up_ints(u, pads.v, pads.n, &v));
    CM_TRY(cm_up_set_input(u, 1, v));
    if (!has_value || value == 0)
        return CM_OK;
    CM_TRY(cm_up_number(u, u->in[0]->type.dtype, value, &v));
    return cm_up_set_input(u, 2, v);
}

cm_status cm_up_clip(cm_pending *u)
{
    static const char *const names[] = {"min", "max"};
    CM_TRY(cm_up_need_input(u, 0));
    for (int i = 0; i < 2; i++) {
        float limit = 0;
        bool found;
        cm_value *v;
        CM_TRY(cm_up_take_float(u, names[i], &limit, &found));
        if (!found)
            continue;
        CM_TRY(cm_up_number(u, u->in[0]->type.dtype, limit, &v));
        CM_TRY(cm_up_set_input(u, i + 1, v));
    }
    return CM_OK;
}

/* DFT's axis became an input in 20, and its default changed from 1 to -2. */
cm_status cm_up_dft(cm_pending *u)
{
    int64_t axis = 1;
    bool found;
    cm_value *v;
    CM_TRY(cm_up_take_int(u, "axis", &axis, &found));
    CM_TRY(cm_up_int(u, axis, &v));
    return cm_up_set_input(u, 2, v);
}

/* Scatter is ScatterElements' first name. */
cm_status cm_up_scatter(cm_pending *u)
{
    u->op = "ScatterElements";
    return CM_OK;
}
