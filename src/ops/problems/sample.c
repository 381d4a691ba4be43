/* sample.c -- images read at places that data tell, as problems.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/problem.h"

bool cm_problem_grid_sample(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_roi_align(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

static bool is(cm_str s, const char *word)
{
    return cm_str_equal(s, cm_str_of(word));
}

bool cm_problem_grid_sample(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    enum { AXES = 3 };
    (void)arena;
    if (!cm_problem_wants(p, 0) || p->in[0]->rank > AXES + 2)
        return false;
    const cm_tensor *x = p->in[0], *y = p->out[0];
    cm_str mode = cm_attr_str(op, attr, "mode"), padding = cm_attr_str(op, attr, "padding_mode");
    cm_sample s = {.taps = is(mode, "nearest")                          ? 1
                           : is(mode, "linear") || is(mode, "bilinear") ? 2
                                                                        : 4,
                   .padding = is(padding, "border")       ? CM_SAMPLE_BORDER
                              : is(padding, "reflection") ? CM_SAMPLE_REFLECTION
                                                          : CM_SAMPLE_ZEROS,
                   .align_corners = cm_attr_int(op, attr, "align_corners") != 0,
                   .axes = x->rank - 2,
                   .images = x->dims[0],
                   .channels = x->dims[1],
                   .in_volume = cm_dims_product(x->dims, 2, x->rank),
                   .out_volume = cm_dims_product(y->dims, 2, y->rank)};
    for (int d = 0; d < s.axes; d++)
        s.in[d] = x->dims[d + 2];
    p->as.sample = s;
    return true;
}

bool cm_problem_roi_align(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0))
        return false;
    const cm_tensor *x = p->in[0];
    p->as.sample = (cm_sample){
        .kind = CM_SAMPLE_REGIONS,
        .axes = 2,
        .images = x->dims[0],
        .channels = x->dims[1],
        .in = {x->dims[2], x->dims[3]},
        .in_volume = x->dims[2] * x->dims[3],
        .out = {p->out[0]->dims[2], p->out[0]->dims[3]},
        .out_volume = p->out[0]->dims[2] * p->out[0]->dims[3],
        .regions = p->in[1]->dims[0],
        .ratio = cm_attr_int(op, attr, "sampling_ratio"),
        .largest = is(cm_attr_str(op, attr, "mode"), "max"),
        .half_pixel = is(cm_attr_str(op, attr, "coordinate_transformation_mode"), "half_pixel"),
        .scale = cm_attr_float(op, attr, "spatial_scale"),
    };
    return cm_tensor_elems(x) > 0;
}
