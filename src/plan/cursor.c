/* cursor.c -- numbers, names and types out of a plan's section.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/cursor.h"

#include <string.h>

#include "plan/format.h"

cm_status cm_plan_damaged(cm_plan_reader *r, const char *what)
{
    return cm_fail(r->cx, CM_ERR_PLAN, "the plan is damaged: %s", what);
}

cm_status cm_take(cm_cursor *c, void *to, size_t n)
{
    if (n > c->left)
        return cm_fail(c->r->cx, CM_ERR_PLAN, "the plan is damaged: section %s ends too early",
                       c->what);
    memcpy(to, c->p, n);
    c->p += n;
    c->left -= n;
    return CM_OK;
}

cm_status cm_take_u32(cm_cursor *c, uint32_t *v)
{
    return cm_take(c, v, 4);
}

cm_status cm_take_i32(cm_cursor *c, int32_t *v)
{
    return cm_take(c, v, 4);
}

cm_status cm_take_u64(cm_cursor *c, uint64_t *v)
{
    return cm_take(c, v, 8);
}

cm_status cm_take_count(cm_cursor *c, size_t least, const char *what, int *n)
{
    uint32_t v;
    CM_TRY(cm_take_u32(c, &v));
    if (v > c->left / least)
        return cm_fail(c->r->cx, CM_ERR_PLAN,
                       "the plan is damaged: section %s states %u %s, but %zu bytes are left",
                       c->what, v, what, c->left);
    *n = (int)v;
    return CM_OK;
}

cm_status cm_take_enum(cm_cursor *c, int count, const char *what, int *v)
{
    uint32_t u;
    CM_TRY(cm_take_u32(c, &u));
    if (u >= (uint32_t)count)
        return cm_fail(c->r->cx, CM_ERR_PLAN, "the plan states %s %u, at most %d are known", what,
                       u, count - 1);
    *v = (int)u;
    return CM_OK;
}

cm_status cm_take_string(cm_cursor *c, const char **s)
{
    uint32_t i;
    CM_TRY(cm_take_u32(c, &i));
    if (i >= c->r->n_strings)
        return cm_fail(c->r->cx, CM_ERR_PLAN,
                       "the plan is damaged: section %s names string %u of %u", c->what, i,
                       c->r->n_strings);
    *s = c->r->strings[i];
    return CM_OK;
}

cm_status cm_take_dim(cm_cursor *c, cm_dim *d)
{
    CM_TRY(cm_take(c, d, 8));
    if (!cm_dim_valid(c->r->plan->dims, *d))
        return cm_fail(c->r->cx, CM_ERR_PLAN,
                       "the plan is damaged: section %s refers to dim %lld, which is none", c->what,
                       (long long)*d);
    return CM_OK;
}

cm_status cm_take_indices(cm_cursor *c, const char *what, const int32_t **out, int *n)
{
    CM_TRY(cm_take_count(c, 4, what, n));
    int32_t *v;
    CM_NEW_N(c->r->cx, c->r->arena, v, *n, int32_t);
    CM_TRY(cm_take(c, v, (size_t)*n * 4));
    *out = v;
    return CM_OK;
}

cm_status cm_take_type(cm_cursor *c, cm_type *t, int depth)
{
    uint8_t head[4];
    CM_TRY(cm_take(c, head, 4));
    int rank = (int8_t)head[3];
    bool tensor = head[0] == CM_TENSOR;
    if (head[0] > CM_MAP || (head[1] && !cm_dtype_valid(head[1])) ||
        (head[2] && !cm_dtype_valid(head[2])) ||
        (tensor ? rank < -1 || rank > CM_MAX_RANK : rank != 0 && rank != 1))
        return cm_fail(c->r->cx, CM_ERR_PLAN, "the plan is damaged: section %s holds a wrong type",
                       c->what);
    *t = (cm_type){.kind = (cm_kind)head[0], .dtype = (cm_dtype)head[1], .key = (cm_dtype)head[2]};
    if (tensor) {
        t->rank = rank;
        for (int i = 0; i < rank; i++)
            CM_TRY(cm_take_dim(c, &t->dims[i]));
    } else if (rank == 1) {
        if (depth >= CM_PLAN_MAX_TYPE_DEPTH)
            return cm_plan_damaged(c->r, "a type is nested too deeply");
        cm_type *elem;
        CM_NEW(c->r->cx, c->r->arena, elem, cm_type);
        CM_TRY(cm_take_type(c, elem, depth + 1));
        t->elem = elem;
    }
    return CM_OK;
}

cm_status cm_cursor_end(cm_cursor *c)
{
    if (c->left)
        return cm_fail(c->r->cx, CM_ERR_PLAN,
                       "the plan is damaged: %zu bytes are left over in section %s", c->left,
                       c->what);
    return CM_OK;
}
