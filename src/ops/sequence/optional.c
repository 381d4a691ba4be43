/* optional.c -- operators on values that may be empty.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/nested.h"

typedef struct {
    uint64_t present;
    const cm_type *type; /* of the element */
} optional_attr;
CM_ATTRS(optional, optional_attr, CM_ATTR_TYPE(optional_attr, type, 0))

static cm_status infer_optional(cm_infer *f)
{
    const optional_attr *a = f->attr;
    const cm_type *elem = a->type, *kept;
    if (cm_infer_has(f, 0))
        elem = f->in[0].type;
    if (!elem)
        return cm_fail(f->cx, CM_ERR_MODEL, "neither an input nor the attribute 'type' is given");
    if (elem->kind == CM_OPTIONAL)
        return cm_fail(f->cx, CM_ERR_MODEL, "an optional cannot hold an optional");
    CM_TRY(cm_infer_elem(f, elem, &kept));
    cm_infer_holder(f, 0, CM_OPTIONAL, kept);
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    if (f->op->id == CM_OP_OPTIONAL)
        return infer_optional(f);
    if (f->op->id == CM_OP_OPTIONAL_HAS_ELEMENT)
        return cm_infer_tensor(f, 0, 0, NULL);
    const cm_type *t = f->in[0].type;
    if (t->kind == CM_OPTIONAL)
        return cm_infer_item(f, 0, t->elem);
    f->out[0].type = *t; /* not an optional: itself */
    return t->elem ? cm_infer_elem(f, t->elem, &f->out[0].type.elem) : CM_OK;
}

static bool has_element(const cm_eval *e)
{
    if (!cm_eval_has(e, 0) || e->in[0]->kind == CM_NOTHING)
        return false;
    return e->in[0]->kind != CM_OPTIONAL || e->in[0]->n > 0;
}

static cm_status eval_optional(cm_eval *e)
{
    cm_datum *out = e->out[0];
    const cm_type *elem = out->elem;
    *out = (cm_datum){.kind = CM_OPTIONAL, .elem = elem};
    if (!cm_eval_has(e, 0))
        return CM_OK;
    CM_NEW(e->cx, e->cx->scratch, out->items, cm_datum);
    *out->items = *e->in[0];
    out->n = 1;
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    if (e->op->id == CM_OP_OPTIONAL)
        return eval_optional(e);
    if (e->op->id == CM_OP_OPTIONAL_HAS_ELEMENT) {
        *(uint8_t *)cm_eval_out(e, 0)->data = has_element(e);
        return CM_OK;
    }
    if (!has_element(e))
        return cm_fail(e->cx, CM_ERR_DATA, "the optional is empty");
    return cm_eval_give(e, 0, e->in[0]->kind == CM_OPTIONAL ? &e->in[0]->items[0] : e->in[0]);
}

const cm_family cm_family_optional = {.name = "optional", .infer = infer, .eval = eval};
