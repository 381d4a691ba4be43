/* upgrade_types.c -- element types and indices: Cast by name, OneHot's range, LabelEncoder's
 * classes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "onnx/upgrade/upgrade.h"

/* Cast up to 5 names its type: "FLOAT". */
cm_status cm_up_cast_by_name(cm_pending *u)
{
    const cm_attribute *a = cm_onnx_find_attr(u, "to");
    char name[32];
    cm_dtype t;
    if (!a || cm_onnx_attr_type(a->p) == PB_ATTR_INT)
        return CM_OK;
    cm_str s = a->p->s;
    size_t n = s.n < sizeof name ? s.n : sizeof name - 1;
    for (size_t i = 0; i < n; i++)
        name[i] = (char)tolower((unsigned char)s.p[i]);
    name[n] = 0;
    if (!cm_dtype_parse(name, &t))
        return cm_fail(u->im->cx, CM_ERR_MODEL, "there is no element type '%s'", name);
    return cm_up_set_int(u, "to", t);
}

/* Cast, CastLike 21 to 23: floats outside a 4-bit integer's range stop at its ends; later they
 * wrap. */
cm_status cm_up_cast_small(cm_pending *u)
{
    const cm_attribute *to = cm_onnx_find_attr(u, "to");
    cm_value *low, *high;
    CM_TRY(cm_up_need_input(u, 0));
    int64_t t = to ? to->p->i : u->n_in > 1 && u->in[1] ? u->in[1]->type.dtype : 0;
    cm_dtype from = u->in[0]->type.dtype;
    bool wide = from == CM_F32 || from == CM_F64 || from == CM_F16 || from == CM_BF16;
    if (!wide || (t != CM_I4 && t != CM_U4))
        return CM_OK;
    CM_TRY(cm_up_number(u, from, t == CM_I4 ? -8 : 0, &low));
    CM_TRY(cm_up_number(u, from, t == CM_I4 ? 7 : 15, &high));
    cm_value *in[] = {u->in[0], low, high};
    return cm_up_node(u, "Clip", in, 3, NULL, 0, &u->in[0]);
}

/* OneHot-9: negative indices are out of range; later they count from the end. */
cm_status cm_up_one_hot(cm_pending *u)
{
    cm_value *index, *zero, *far, *negative;
    CM_TRY(cm_up_need_input(u, 0));
    CM_TRY(cm_up_cast(u, u->in[0], CM_I64, &index));
    CM_TRY(cm_up_int(u, 0, &zero));
    CM_TRY(cm_up_int(u, INT64_MAX, &far));
    CM_TRY(cm_up_binary(u, "Less", index, zero, &negative));
    cm_value *in[] = {negative, far, index};
    return cm_up_node(u, "Where", in, 3, NULL, 0, &u->in[0]);
}

/* LabelEncoder-1: classes_strings numbers strings, or names integers. */
cm_status cm_up_label_encoder(cm_pending *u)
{
    cm_importer *im = u->im;
    const cm_attribute *a = cm_onnx_find_attr(u, "classes_strings");
    CM_TRY(cm_up_need_input(u, 0));
    if (!a)
        return CM_OK;
    const pb_attribute *classes = a->p;
    bool from_text = u->in[0]->type.dtype == CM_STR;
    int64_t *numbers;
    pb_attribute *p;
    CM_NEW_N(im->cx, im->tmp, numbers, classes->strings.n, int64_t);
    for (size_t i = 0; i < classes->strings.n; i++)
        numbers[i] = (int64_t)i;
    cm_up_drop(u, "classes_strings");
    CM_TRY(cm_up_set_ints(u, from_text ? "values_int64s" : "keys_int64s", numbers,
                          (int64_t)classes->strings.n));
    CM_TRY(cm_up_set_str(u, from_text ? "keys_strings" : "values_strings", ""));
    CM_NEW(im->cx, im->tmp, p, pb_attribute);
    *p = *classes;
    p->type = PB_ATTR_STRINGS;
    u->attrs[u->n_attrs - 1].p = p;
    return CM_OK;
}
