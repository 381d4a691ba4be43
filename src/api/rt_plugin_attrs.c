/* rt_plugin_attrs.c -- attributes of plugins' operators: the struct they are kept in, and as plugins see
 * them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/rt_plugin.h"

static const struct {
    cm_attr_kind kind;
    size_t bytes;
} kinds[] = {
    [CAMEO_ATTR_INT] = {CM_A_INT, sizeof(int64_t)},
    [CAMEO_ATTR_FLOAT] = {CM_A_FLOAT, sizeof(float)},
    [CAMEO_ATTR_STRING] = {CM_A_STR, sizeof(cm_str)},
    [CAMEO_ATTR_INTS] = {CM_A_INTS, sizeof(cm_ints)},
    [CAMEO_ATTR_FLOATS] = {CM_A_FLOATS, sizeof(cm_floats)},
    [CAMEO_ATTR_STRINGS] = {CM_A_STRS, sizeof(cm_strs)},
    [CAMEO_ATTR_TENSOR] = {CM_A_TENSOR, sizeof(const cm_tensor *)},
};

static cm_status describe_one(cm_ctx *cx, const cameo_attr_spec *s, size_t *at, cm_attr_field *f)
{
    if (!s || !CM_PLUGIN_HAS(s, default_string) || !s->name || !*s->name)
        return cm_fail(cx, CM_ERR_ARGUMENT, "an attribute has no name, or too small a struct");
    if ((unsigned)s->kind >= CM_COUNT(kinds))
        return cm_fail(cx, CM_ERR_ARGUMENT, "attribute '%s' has the unknown kind %d", s->name,
                       (int)s->kind);
    double number = s->kind == CAMEO_ATTR_INT     ? (double)s->default_int
                    : s->kind == CAMEO_ATTR_FLOAT ? (double)s->default_float
                                                  : 0;
    if (s->kind == CAMEO_ATTR_INT && (int64_t)number != s->default_int)
        return cm_fail(cx, CM_ERR_ARGUMENT, "attribute '%s' has a default over 2^53", s->name);
    *f = (cm_attr_field){s->name,
                         kinds[s->kind].kind,
                         s->required ? CM_REQUIRED : 0,
                         *at,
                         number,
                         s->default_string ? s->default_string : ""};
    *at += (kinds[s->kind].bytes + 7) & ~(size_t)7;
    return CM_OK;
}

cm_status cm_plugin_describe(cm_ctx *cx, cm_arena *arena, cm_plugin_row *row)
{
    enum { MOST = 60 };
    const cameo_plugin_op *own = row->own;
    size_t at = sizeof(uint64_t); /* `present` stands first */
    if (own->n_attrs < 0 || own->n_attrs > MOST || (own->n_attrs && !own->attrs))
        return cm_fail(cx, CM_ERR_ARGUMENT, "%d attributes, at most %d are possible", own->n_attrs,
                       MOST);
    CM_NEW_N(cx, arena, row->fields, own->n_attrs + 1, cm_attr_field);
    for (int i = 0; i < own->n_attrs; i++) {
        CM_TRY(describe_one(cx, own->attrs[i], &at, &row->fields[i]));
        for (int k = 0; k < i; k++)
            if (!strcmp(row->fields[k].name, row->fields[i].name))
                return cm_fail(cx, CM_ERR_ARGUMENT, "attribute '%s' is listed twice",
                               row->fields[i].name);
    }
    row->attrs = (cm_attr_desc){own->n_attrs ? at : 0, own->n_attrs, row->fields};
    return CM_OK;
}

static cm_status copy_text(cm_ctx *cx, cm_arena *arena, cm_str s, const char **out)
{
    *out = cm_arena_strndup(arena, s.p ? s.p : "", s.n);
    return *out ? CM_OK : cm_fail_memory(cx);
}

static cm_status copy_texts(cm_ctx *cx, cm_arena *arena, const cm_strs *s, cameo_attr *a)
{
    const char **v;
    CM_NEW_N(cx, arena, v, s->n, const char *);
    for (int64_t i = 0; i < s->n; i++)
        CM_TRY(copy_text(cx, arena, s->v[i], &v[i]));
    a->n = s->n;
    a->strings = v;
    return CM_OK;
}

static cm_status copy_tensor(cm_ctx *cx, cm_arena *arena, const cm_tensor *t, cameo_attr *a)
{
    cameo_tensor *copy;
    if (!t)
        return CM_OK;
    CM_NEW(cx, arena, copy, cameo_tensor);
    cm_tensor_to_api(t, copy);
    a->tensor = copy;
    return CM_OK;
}

cm_status cm_plugin_attrs(cm_ctx *cx, cm_arena *arena, const cm_plugin_row *row, const void *attr,
                          const cameo_attr **out)
{
    cameo_attr *list;
    CM_NEW_N(cx, arena, list, row->attrs.n_fields, cameo_attr);
    for (int i = 0; attr && i < row->attrs.n_fields; i++) {
        const cm_attr_field *f = &row->fields[i];
        const void *at = cm_attr_get(attr, f);
        cameo_attr *a = &list[i];
        a->name = f->name;
        a->kind = row->own->attrs[i]->kind;
        switch (a->kind) {
        case CAMEO_ATTR_INT:
            a->i = *(const int64_t *)at;
            break;
        case CAMEO_ATTR_FLOAT:
            a->f = *(const float *)at;
            break;
        case CAMEO_ATTR_STRING:
            CM_TRY(copy_text(cx, arena, *(const cm_str *)at, &a->s));
            break;
        case CAMEO_ATTR_INTS:
            a->n = ((const cm_ints *)at)->n;
            a->ints = ((const cm_ints *)at)->v;
            break;
        case CAMEO_ATTR_FLOATS:
            a->n = ((const cm_floats *)at)->n;
            a->floats = ((const cm_floats *)at)->v;
            break;
        case CAMEO_ATTR_STRINGS:
            CM_TRY(copy_texts(cx, arena, at, a));
            break;
        case CAMEO_ATTR_TENSOR:
            CM_TRY(copy_tensor(cx, arena, *(const cm_tensor *const *)at, a));
            break;
        }
    }
    *out = list;
    return CM_OK;
}
