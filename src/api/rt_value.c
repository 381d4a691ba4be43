/* rt_value.c -- values that are not tensors, in the public API.
 * SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"

/* A cameo_value is a cm_datum; those that callers make carry their types and allocation with them. */
typedef struct {
    cm_datum datum; /* first: a cameo_value * is a cm_datum * */
    cm_type elem;
    size_t bytes;
} own_value;

static const cm_datum *datum_of(const cameo_value *value)
{
    return (const cm_datum *)value;
}

cameo_kind cameo_value_kind(const cameo_value *value)
{
    return value ? (cameo_kind)datum_of(value)->kind : CAMEO_NOTHING;
}

int64_t cameo_value_count(const cameo_value *value)
{
    return value && datum_of(value)->kind != CM_TENSOR ? datum_of(value)->n : 0;
}

const cameo_value *cameo_value_item(const cameo_value *value, int64_t index)
{
    if (index < 0 || index >= cameo_value_count(value))
        return NULL;
    return (const cameo_value *)&datum_of(value)->items[index];
}

bool cameo_value_tensor(const cameo_value *value, cameo_tensor *out)
{
    if (cameo_value_kind(value) != CAMEO_TENSOR || !out)
        return false;
    cm_tensor_to_api(&datum_of(value)->tensor, out);
    return true;
}

static own_value *new_value(int64_t n_items)
{
    size_t bytes = sizeof(own_value) + (size_t)n_items * sizeof(cm_datum);
    own_value *v = cm_alloc(NULL, bytes, 16);
    if (v) {
        *v = (own_value){.bytes = bytes};
        v->datum.items = (cm_datum *)(v + 1);
        v->datum.n = n_items;
    }
    return v;
}

cameo_status cameo_value_from_tensor(const cameo_tensor *tensor, cameo_value **out,
                                     cameo_error *error)
{
    cm_ctx cx = {0};
    cm_tensor t;
    if (!tensor || !out || !tensor->data)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "a value needs a tensor with data");
    cm_status st = cm_tensor_from_api(&cx, tensor, &t);
    if (st != CM_OK)
        return cm_api_fail(error, (cameo_status)st, "%s", cx.message);
    own_value *v = new_value(0);
    if (!v)
        return cm_api_fail(error, CAMEO_ERR_MEMORY, "out of memory");
    v->datum.kind = CM_TENSOR;
    v->datum.tensor = t;
    *out = (cameo_value *)v;
    return CAMEO_OK;
}

cameo_status cameo_value_from_items(cameo_kind kind, int64_t n, const cameo_value *const *items,
                                    cameo_value **out, cameo_error *error)
{
    bool fits = kind == CAMEO_SEQUENCE   ? n >= 0 && n < INT32_MAX
                : kind == CAMEO_OPTIONAL ? n == 0 || n == 1
                                         : kind == CAMEO_MAP && n == 2;
    if (!fits || !out || (n && !items))
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "kind %d does not hold %lld items", (int)kind,
                           (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (!items[i])
            return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "item %lld is NULL", (long long)i);
    own_value *v = new_value(n);
    if (!v)
        return cm_api_fail(error, CAMEO_ERR_MEMORY, "out of memory");
    v->datum.kind = (cm_kind)kind;
    for (int64_t i = 0; i < n; i++)
        v->datum.items[i] = *datum_of(items[i]);
    if (n && kind != CAMEO_MAP) {
        v->elem = cm_type_of_datum(&v->datum.items[0]);
        v->datum.elem = &v->elem;
    }
    *out = (cameo_value *)v;
    return CAMEO_OK;
}

void cameo_value_destroy(cameo_value *value)
{
    if (value)
        cm_release(NULL, value, ((own_value *)value)->bytes);
}
