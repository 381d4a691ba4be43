/* rows.c -- softmax and normalisations as problems: rows, and what is added, scaled and handed out.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/problem.h"

bool cm_problem_softmax(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_fused_softmax(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_lp_norm(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_layer_norm(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_skip_norm(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_embed_norm(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_group_norm(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_ms_group_norm(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

static const cm_rows none = {.scale = -1,
                             .bias = -1,
                             .skip = -1,
                             .skip_bias = -1,
                             .sum = -1,
                             .mean = -1,
                             .inv_deviation = -1,
                             .word = -1,
                             .place = -1,
                             .segment = -1,
                             .ids = -1,
                             .place_ids = -1,
                             .segment_ids = -1,
                             .mask = -1,
                             .mask_index = -1};

/* Rows made up by the axes [axis, axis + n) of x; false: there is nothing in it, or no such axis. */
static bool set_rows(cm_rows *r, const cm_tensor *x, int64_t axis, int n)
{
    if (axis < 0)
        axis += x->rank;
    if (axis < 0 || axis + n > x->rank || cm_tensor_elems(x) < 1)
        return false;
    r->axis = (int)axis;
    r->n_axes = n;
    r->cols = cm_dims_product(x->dims, r->axis, r->axis + n);
    r->inner = cm_dims_product(x->dims, r->axis + n, x->rank);
    r->rows = cm_tensor_elems(x) / r->cols;
    return true;
}

static int given(const cm_problem *p, int i)
{
    return cm_problem_has(p, i) ? i : -1;
}

static int wanted(const cm_problem *p, int o)
{
    return cm_problem_wants(p, o) ? o : -1;
}

/* Is input i absent, one element, or exactly the axes that make up a row of x? */
static bool is_per_column(const cm_problem *p, int i, const cm_tensor *x, int axis)
{
    if (i < 0)
        return true;
    const cm_tensor *t = p->in[i];
    if (!cm_tensor_is_dense(t))
        return false;
    if (cm_tensor_elems(t) == 1)
        return true;
    for (int d = 1; d <= x->rank || d <= t->rank; d++) {
        int64_t have = d <= t->rank ? t->dims[t->rank - d] : 1;
        int64_t want = x->rank - d >= axis ? x->dims[x->rank - d] : 1;
        if (have != want)
            return false;
    }
    return true;
}

bool cm_problem_softmax(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    cm_rows *r = &p->as.rows;
    *r = none;
    r->kind = op->id == CM_OP_SOFTMAX ? CM_ROWS_SOFTMAX : CM_ROWS_LOG_SOFTMAX;
    return cm_problem_wants(p, 0) && set_rows(r, p->in[0], cm_attr_int(op, attr, "axis"), 1);
}

/* Over several axes, the last ones. */
bool cm_problem_fused_softmax(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    cm_rows *r = &p->as.rows;
    *r = none;
    r->kind = cm_attr_int(op, attr, "log") ? CM_ROWS_LOG_SOFTMAX : CM_ROWS_SOFTMAX;
    int64_t count = cm_attr_int(op, attr, "count");
    return cm_problem_wants(p, 0) && count >= 1 && count <= p->in[0]->rank &&
           set_rows(r, p->in[0], cm_attr_int(op, attr, "axis"), (int)count) &&
           r->axis + r->n_axes == p->in[0]->rank;
}

bool cm_problem_lp_norm(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    cm_rows *r = &p->as.rows;
    *r = none;
    r->kind = cm_attr_int(op, attr, "p") == 1 ? CM_ROWS_L1_NORM : CM_ROWS_L2_NORM;
    r->epsilon = cm_attr_float(op, attr, "epsilon");
    return cm_problem_wants(p, 0) && set_rows(r, p->in[0], cm_attr_int(op, attr, "axis"), 1);
}

/* LayerNormalization, RMSNormalization, SimplifiedLayerNormalization. */
bool cm_problem_layer_norm(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    const cm_tensor *x = p->in[0];
    cm_rows *r = &p->as.rows;
    int64_t axis = cm_attr_int(op, attr, "axis");
    bool layer = op->id == CM_OP_LAYER_NORMALIZATION;
    *r = none;
    r->kind = layer ? CM_ROWS_LAYER_NORM : CM_ROWS_RMS_NORM;
    r->epsilon = cm_attr_float(op, attr, "epsilon");
    axis += axis < 0 ? x->rank : 0;
    if (!cm_problem_wants(p, 0) || axis >= x->rank || !set_rows(r, x, axis, x->rank - (int)axis))
        return false;
    r->scale = given(p, 1);
    r->bias = layer ? given(p, 2) : -1;
    r->mean = layer ? wanted(p, 1) : -1;
    r->inv_deviation = layer ? wanted(p, 2) : wanted(p, 1);
    return is_per_column(p, r->scale, x, r->axis) && is_per_column(p, r->bias, x, r->axis);
}

/* com.microsoft.SkipLayerNormalization and its simplified form, which has no bias after. */
bool cm_problem_skip_norm(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    const cm_tensor *x = p->in[0];
    cm_rows *r = &p->as.rows;
    bool simplified = op->id == CM_OP_MS_SKIP_SIMPLIFIED_LAYER_NORMALIZATION;
    *r = none;
    r->kind = simplified ? CM_ROWS_RMS_NORM : CM_ROWS_LAYER_NORM;
    r->epsilon = cm_attr_float(op, attr, "epsilon");
    if (!cm_problem_wants(p, 0) || !set_rows(r, x, -1, 1))
        return false;
    r->skip = 1;
    r->skip_rows = cm_tensor_elems(p->in[1]) / r->cols;
    r->scale = 2;
    r->bias = simplified ? -1 : given(p, 3);
    r->skip_bias = given(p, simplified ? 3 : 4);
    r->mean = wanted(p, 1);
    r->inv_deviation = wanted(p, 2);
    r->sum = wanted(p, 3);
    return r->skip_rows > 0;
}

bool cm_problem_embed_norm(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    const cm_tensor *ids = p->in[0];
    cm_rows *r = &p->as.rows;
    *r = none;
    r->kind = CM_ROWS_LAYER_NORM;
    r->embed = true;
    r->epsilon = cm_attr_float(op, attr, "epsilon");
    r->ids = 0;
    r->segment = given(p, 4);
    r->segment_ids = r->segment < 0 ? -1 : 1;
    r->word = 2;
    r->place = 3;
    r->scale = 5;
    r->bias = 6;
    r->mask = given(p, 7);
    r->place_ids = given(p, 8);
    r->mask_index = wanted(p, 1);
    r->sum = wanted(p, 2);
    r->rows = cm_tensor_elems(ids);
    r->cols = p->in[r->scale]->dims[0];
    r->inner = 1;
    r->batch = ids->dims[0];
    r->place_rows = r->place_ids < 0 ? ids->dims[1] : cm_tensor_elems(p->in[8]);
    r->axis = 2;
    r->n_axes = 1;
    return cm_problem_wants(p, 0) && r->rows > 0 && r->cols > 0;
}

static bool set_groups(cm_problem *p, int channel, int64_t groups, float epsilon)
{
    const cm_tensor *x = p->in[0];
    cm_rows *r = &p->as.rows;
    *r = none;
    r->kind = CM_ROWS_GROUP_NORM;
    r->epsilon = epsilon;
    r->scale = 1;
    r->bias = 2;
    r->axis = channel;
    r->n_axes = 1;
    r->channels = x->dims[channel];
    r->groups = groups;
    r->inner = 1;
    if (!cm_problem_wants(p, 0) || cm_tensor_elems(x) < 1 || groups < 1)
        return false;
    r->rows = x->dims[0] * groups;
    r->cols = cm_tensor_elems(x) / r->rows;
    return true;
}

/* GroupNormalization, InstanceNormalization. */
bool cm_problem_group_norm(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    bool groups = op->id == CM_OP_GROUP_NORMALIZATION;
    return set_groups(p, 1, groups ? cm_attr_int(op, attr, "num_groups") : p->in[0]->dims[1],
                      cm_attr_float(op, attr, "epsilon"));
}

bool cm_problem_ms_group_norm(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    int channel = cm_attr_int(op, attr, "channels_last") ? p->in[0]->rank - 1 : 1;
    if (!set_groups(p, channel, cm_attr_int(op, attr, "groups"),
                    cm_attr_float(op, attr, "epsilon")))
        return false;
    p->as.rows.silu = cm_attr_int(op, attr, "activation") == 1;
    return true;
}
