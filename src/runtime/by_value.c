/* by_value.c -- inputs whose elements, not only their shapes, tell sizes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/by_value.h"

#include <string.h>

#include "runtime/device.h"

const void *cm_few_elements(const cm_context *c, int i, size_t *bytes)
{
    enum { FEW_INTEGERS = 64, FEW_REALS = 16 };
    const cm_datum *d = &c->inputs[i];
    if (!c->device || c->device->in_at[i] || d->kind != CM_TENSOR || !d->tensor.data ||
        d->tensor.dtype == CM_STR || cm_dtype_is_sub_byte(d->tensor.dtype) ||
        !cm_tensor_bytes(&d->tensor, bytes))
        return NULL;
    int most = cm_dtype_is_float(d->tensor.dtype) ? FEW_REALS : FEW_INTEGERS;
    return cm_tensor_elems(&d->tensor) <= most ? d->tensor.data : NULL;
}

int cm_input_to_lend(const cm_context *c, int32_t value)
{
    const cm_plan_list *main = &c->engine->variant->lists[0];
    size_t bytes;
    for (int i = 0; !c->elements_vary && i < main->n_inputs; i++)
        if (main->inputs[i] == value)
            return cm_few_elements(c, i, &bytes) ? i : -1;
    return -1;
}

const void *cm_bind_elements(cm_context *c, int i)
{
    size_t bytes;
    const void *from = cm_few_elements(c, i, &bytes);
    void *to = from ? cm_arena_alloc_n(&c->bound_arena, bytes + 1, 1, 16, 0) : NULL;
    if (to)
        memcpy(to, from, bytes);
    c->by_value[i] = to != NULL;
    c->elements[i] = to;
    return to;
}

void cm_unbind_elements(cm_context *c, int i)
{
    c->by_value[i] = false;
    c->elements[i] = NULL;
}

void cm_count_elements_changed(cm_context *c)
{
    enum { MANY = 64 };
    if (++c->elements_changed < MANY)
        return;
    c->elements_vary = true;
    for (int i = 0; i < cm_engine_n_inputs(c->engine); i++)
        c->by_value[i] = false;
}

bool cm_same_elements(const cm_context *c, const void *const *elements)
{
    for (int i = 0; i < cm_engine_n_inputs(c->engine); i++) {
        size_t bytes;
        if (!elements[i] && !c->by_value[i])
            continue;
        const void *now = cm_few_elements(c, i, &bytes);
        if (!elements[i] ? now != NULL : !now || memcmp(now, elements[i], bytes) != 0)
            return false;
    }
    return true;
}
