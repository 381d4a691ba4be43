/* upgrade_resize.c -- Upsample and the first Resizes, GridSample, RoiAlign.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "onnx/upgrade/upgrade.h"

/* X and scales are known: bring them to Resize's places, asymmetric as all old forms are. */
static cm_status to_resize(cm_pending *u, cm_value *scales, const char *nearest)
{
    u->op = "Resize";
    u->n_in = 1;
    CM_TRY(cm_up_set_input(u, 2, scales));
    CM_TRY(cm_up_set_str(u, "coordinate_transformation_mode", "asymmetric"));
    return cm_up_set_str(u, "nearest_mode", nearest);
}

/* The mode's old names. */
static cm_status rename_mode(cm_pending *u)
{
    const char *mode;
    bool found;
    CM_TRY(cm_up_take_str(u, "mode", &mode, &found));
    if (!found)
        return CM_OK;
    bool linear = strcmp(mode, "bilinear") == 0 || strcmp(mode, "trilinear") == 0;
    bool cubic = strcmp(mode, "bicubic") == 0;
    return cm_up_set_str(u, "mode", linear ? "linear" : cubic ? "cubic" : mode);
}

/* Upsample: scales as two attributes (1), a list (7), an input (9). */
cm_status cm_up_upsample(cm_pending *u)
{
    float hw[4] = {1, 1, 1, 1};
    cm_floats list = {4, hw};
    bool h, w, found;
    cm_value *scales;
    CM_TRY(cm_up_need_input(u, 0));
    CM_TRY(rename_mode(u));
    CM_TRY(cm_up_take_float(u, "height_scale", &hw[2], &h));
    CM_TRY(cm_up_take_float(u, "width_scale", &hw[3], &w));
    CM_TRY(cm_up_take_floats(u, "scales", &list, &found));
    if (u->n_in > 1) {
        CM_TRY(cm_up_need_input(u, 1));
        scales = u->in[1];
    } else {
        if (!found && (!h || !w))
            return cm_fail(u->im->cx, CM_ERR_MODEL, "it has no scales");
        CM_TRY(cm_up_floats(u, list.v, list.n, &scales));
    }
    return to_resize(u, scales, "floor");
}

/* Are all scales on one side of 1? 1: none is smaller; -1: none is larger; 0: mixed or unknown. */
static int direction(const cm_value *scales)
{
    const cm_tensor *t = scales->constant;
    bool smaller = false, larger = false;
    if (!t || t->dtype != CM_F32)
        return 0;
    for (int64_t i = 0; i < cm_tensor_elems(t); i++) {
        float s = ((const float *)t->data)[i];
        smaller |= s < 1;
        larger |= s > 1;
    }
    return smaller && larger ? 0 : smaller ? -1 : 1;
}

/* Resize-10, nearest: axes that grow take the pixel below, axes that shrink the one above. One
 * Resize for either kind of axis, where it is not known that there is one kind only. */
cm_status cm_up_resize_10(cm_pending *u)
{
    CM_TRY(cm_up_need_input(u, 0));
    CM_TRY(cm_up_need_input(u, 1));
    const cm_attribute *mode = cm_onnx_find_attr(u, "mode");
    bool nearest = !mode || cm_str_equal(mode->p->s, cm_str_of("nearest"));
    cm_value *scales = u->in[1];
    int d = nearest ? direction(scales) : 1;
    if (d != 0)
        return to_resize(u, scales, d > 0 ? "floor" : "ceil");
    cm_value *one, *up, *down;
    CM_TRY(cm_up_number(u, CM_F32, 1, &one));
    CM_TRY(cm_up_binary(u, "Max", scales, one, &up));
    CM_TRY(cm_up_binary(u, "Min", scales, one, &down));
    cm_value *in[] = {u->in[0], NULL, up};
    cm_up_attr attrs[] = {CM_UP_STR("mode", "nearest"), CM_UP_STR("nearest_mode", "floor"),
                          CM_UP_STR("coordinate_transformation_mode", "asymmetric")};
    CM_TRY(cm_up_node(u, "Resize", in, 3, attrs, 3, &u->in[0]));
    return to_resize(u, down, "ceil");
}

static void forget_if_empty(cm_pending *u, int i)
{
    if (cm_up_rank(u, i) == 1 && u->in[i]->type.dims[0] == 0)
        u->in[i] = NULL;
}

/* From 11 on: empty tensors stood for absent inputs. */
cm_status cm_up_resize_11(cm_pending *u)
{
    for (int i = 1; i < u->n_in; i++)
        forget_if_empty(u, i);
    if (u->version < 13 && u->n_in > 3 && u->in[3])
        u->in[2] = NULL; /* scales had to be there, and be empty, when sizes are */
    return CM_OK;
}

cm_status cm_up_grid_sample(cm_pending *u)
{
    return rename_mode(u);
}

/* RoiAlign-10 did not shift by half a pixel. */
cm_status cm_up_roi_align(cm_pending *u)
{
    return cm_up_set_str(u, "coordinate_transformation_mode", "output_half_pixel");
}
