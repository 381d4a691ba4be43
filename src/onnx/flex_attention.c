/* flex_attention.c -- FlexAttention to the nodes that its definition gives, its graphs inlined.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     scores = score_mod(cast(q*s @ transpose(k*s)))      s = sqrt(scale)
 *     y = cast(prob_mod(softmax(scores))) @ v             k, v repeated for each group of heads
 */
#include <math.h>
#include <string.h>

#include "onnx/upgrade/upgrade.h"

/* A part of a value's shape as a vector. */
static cm_status shape_part(cm_pending *u, cm_value *x, int start, int end, cm_value **out)
{
    cm_up_attr attrs[] = {CM_UP_INT("start", start), CM_UP_INT("end", end)};
    return cm_up_node(u, "Shape", &x, 1, attrs, 2, out);
}

/* Head h of q uses head h/group of x. */
static cm_status repeat_heads(cm_pending *u, cm_value *q, cm_value **x)
{
    const cm_type *a = &q->type, *b = &(*x)->type;
    int64_t two = 2, ones[2] = {1, 1};
    cm_value *axis, *q_heads, *heads, *group, *pair, *target, *front, *back, *shape;
    cm_up_attr axis0[] = {CM_UP_INT("axis", 0)};
    if (a->rank == 4 && b->rank == 4 && a->dims[1] == b->dims[1])
        return CM_OK;
    CM_TRY(shape_part(u, q, 1, 2, &q_heads));
    CM_TRY(shape_part(u, *x, 1, 2, &heads));
    CM_TRY(cm_up_binary(u, "Div", q_heads, heads, &group));
    CM_TRY(cm_up_ints(u, ones, 2, &pair));
    cm_value *parts[] = {pair, group, pair};
    CM_TRY(cm_up_node(u, "Concat", parts, 3, axis0, 1, &target));
    CM_TRY(shape_part(u, q, 0, 2, &front));
    CM_TRY(shape_part(u, *x, 2, 4, &back));
    cm_value *dims[] = {front, back};
    CM_TRY(cm_up_node(u, "Concat", dims, 2, axis0, 1, &shape));
    CM_TRY(cm_up_ints(u, &two, 1, &axis));
    CM_TRY(cm_up_binary(u, "Unsqueeze", *x, axis, x));
    CM_TRY(cm_up_binary(u, "Expand", *x, target, x));
    return cm_up_binary(u, "Reshape", *x, shape, x);
}

/* The square root of the scale, in the type of q. */
static cm_status root_of_scale(cm_pending *u, cm_value *q, cm_value **out)
{
    float scale = 0;
    bool found;
    cm_value *one;
    CM_TRY(cm_up_take_float(u, "scale", &scale, &found));
    if (found)
        return cm_up_number(u, q->type.dtype, sqrt((double)scale), out);
    if (q->type.rank == 4 && cm_dim_is_size(q->type.dims[3]) && q->type.dims[3] > 0)
        return cm_up_number(u, q->type.dtype, 1 / sqrt(sqrt((double)q->type.dims[3])), out);
    CM_TRY(shape_part(u, q, 3, 4, out));
    CM_TRY(cm_up_cast(u, *out, CM_F32, out));
    CM_TRY(cm_up_unary(u, "Sqrt", *out, out));
    CM_TRY(cm_up_number(u, CM_F32, 1, &one));
    CM_TRY(cm_up_binary(u, "Div", one, *out, out));
    CM_TRY(cm_up_unary(u, "Sqrt", *out, out));
    return cm_up_cast(u, *out, q->type.dtype, out);
}

static cm_status modify(cm_pending *u, const char *name, cm_value **x)
{
    const cm_attribute *a = cm_onnx_find_attr(u, name);
    if (!a)
        return CM_OK;
    const char *prefix = cm_arena_printf(u->im->tmp, "%s/", u->name);
    if (!prefix)
        return cm_fail_memory(u->im->cx);
    if (!a->p->g)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "attribute '%s' is not a graph", name);
    cm_status st = cm_onnx_inline(u->im, u->scope->g, a->scope, prefix, a->p->g, x, 1, x, 1);
    return st == CM_OK ? st : cm_while(u->im->cx, st, "%s", name);
}

static cm_status cast_if(cm_pending *u, cm_dtype to, cm_value **x)
{
    return (*x)->type.dtype == to ? CM_OK : cm_up_cast(u, *x, to, x);
}

cm_status cm_up_flex_attention(cm_pending *u)
{
    static const int64_t perm[] = {0, 1, 3, 2};
    int64_t precision = 0;
    bool found;
    cm_value *root, *k, *v, *scores;
    for (int i = 0; i < 3; i++)
        CM_TRY(cm_up_need_input(u, i));
    cm_value *q = u->in[0];
    cm_dtype t = q->type.dtype;
    CM_TRY(cm_up_take_int(u, "softmax_precision", &precision, &found));
    cm_dtype inner = found && cm_dtype_valid((int)precision) ? (cm_dtype)precision
                     : t == CM_F64                           ? CM_F64
                                                             : CM_F32;
    k = u->in[1];
    v = u->in[2];
    CM_TRY(repeat_heads(u, q, &k));
    CM_TRY(repeat_heads(u, q, &v));
    CM_TRY(root_of_scale(u, q, &root));
    CM_TRY(cm_up_binary(u, "Mul", q, root, &scores));
    CM_TRY(cm_up_binary(u, "Mul", k, root, &k));
    cm_up_attr swap[] = {{.name = "perm", .type = PB_ATTR_INTS, .ints = {4, perm}}};
    cm_up_attr last[] = {CM_UP_INT("axis", -1)};
    CM_TRY(cm_up_node(u, "Transpose", &k, 1, swap, 1, &k));
    CM_TRY(cm_up_binary(u, "MatMul", scores, k, &scores));
    CM_TRY(cast_if(u, inner, &scores));
    CM_TRY(modify(u, "score_mod", &scores));
    CM_TRY(cm_up_node(u, "Softmax", &scores, 1, last, 1, &scores));
    CM_TRY(modify(u, "prob_mod", &scores));
    CM_TRY(cast_if(u, t, &scores));
    u->op = "MatMul";
    u->domain = "";
    u->n_attrs = 0;
    u->n_in = 2;
    u->in[0] = scores;
    u->in[1] = v;
    return CM_OK;
}
