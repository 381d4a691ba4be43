/* export_values.c -- names, types and weights of a model that is written.
 * SPDX-License-Identifier: Apache-2.0 */
#include "onnx/export_values.h"

#include <stdio.h>

#include "onnx/export.h"
#include "onnx/onnx.h"
#include "plan/plan.h"

enum { ALIGN = 4096, LARGE_BYTES = 1024 }; /* weights from LARGE_BYTES on may be kept apart */

/* ---- Names ---------------------------------------------------------------------------------- */

/* `wanted`, or with a number after it where it is taken. The entry of a name holds the last number. */
cm_status cm_unique_name(cm_exporter *e, cm_map *taken, const char *wanted, const char **out)
{
    const char *name = wanted && *wanted ? wanted : "value";
    wanted = name;
    intptr_t k = (intptr_t)cm_map_get(taken, wanted);
    while (cm_map_has(taken, name)) {
        name = cm_arena_printf(&e->tmp, "%s_%d", wanted, (int)++k);
        if (!name)
            return cm_fail_memory(e->cx);
    }
    if (!cm_map_put(taken, wanted, (void *)k) || !cm_map_put(taken, name, (void *)k))
        return cm_fail_memory(e->cx);
    *out = name;
    return CM_OK;
}

cm_status cm_claim_name(cm_exporter *e, const cm_value *v, const char *wanted)
{
    return cm_unique_name(e, &e->taken, wanted, &e->names[v->id]);
}

cm_status cm_name_of(cm_exporter *e, const cm_value *v, const char **out)
{
    if (!v) {
        *out = "";
        return CM_OK;
    }
    if (v->id >= e->n_names)
        return cm_fail(e->cx, CM_ERR_INTERNAL, "value '%s' has no number", v->name);
    if (!e->names[v->id])
        CM_TRY(cm_claim_name(e, v, v->name));
    *out = e->names[v->id];
    return CM_OK;
}

/* ---- Types ---------------------------------------------------------------------------------- */

static void put_shape(const cm_exporter *e, const cm_network *g, const cm_type *t, cm_buf *out)
{
    cm_buf shape = cm_message(e);
    for (int a = 0; a < t->rank; a++) {
        cm_buf dim = cm_message(e), text = cm_message(e);
        if (cm_dim_is_size(t->dims[a])) {
            pb_write_int(&dim, 1, t->dims[a]);
        } else {
            cm_dim_print(g->dims, t->dims[a], &text);
            pb_write_bytes(&dim, 2, text.data, text.n);
        }
        cm_buf_deinit(&text);
        cm_put_message(&shape, 1, &dim);
    }
    cm_put_message(out, 2, &shape);
}

void cm_put_type(const cm_exporter *e, const cm_network *g, const cm_type *t, cm_buf *out)
{
    cm_buf in = cm_message(e), elem = cm_message(e);
    switch (t->kind) {
    case CM_TENSOR:
        pb_write_int(&in, 1, t->dtype);
        if (t->rank >= 0)
            put_shape(e, g, t, &in);
        cm_put_message(out, 1, &in);
        break;
    case CM_SEQUENCE:
    case CM_OPTIONAL:
        if (t->elem)
            cm_put_type(e, g, t->elem, &elem);
        pb_write_bytes(&in, 1, elem.data, elem.n);
        cm_put_message(out, t->kind == CM_SEQUENCE ? 4 : 9, &in);
        break;
    case CM_MAP: {
        cm_type value = cm_type_tensor(t->dtype, 0, NULL);
        cm_put_type(e, g, &value, &elem);
        pb_write_int(&in, 1, t->key);
        pb_write_bytes(&in, 2, elem.data, elem.n);
        cm_put_message(out, 5, &in);
        break;
    }
    default:
        cm_buf_deinit(&in);
    }
    cm_buf_deinit(&elem);
}

void cm_put_value(const cm_exporter *e, const cm_network *g, uint32_t number, const char *name,
                  const cm_type *t, cm_buf *out)
{
    cm_buf info = cm_message(e), type = cm_message(e);
    pb_write_text(&info, 1, name);
    cm_put_type(e, g, t, &type);
    cm_put_message(&info, 2, &type);
    cm_put_message(out, number, &info);
}

/* ---- Weights -------------------------------------------------------------------------------- */

static void put_entry(const cm_exporter *e, const char *key, const char *value, cm_buf *out)
{
    cm_buf entry = cm_message(e);
    pb_write_text(&entry, 1, key);
    pb_write_text(&entry, 2, value);
    cm_put_message(out, TENSOR_EXTERNAL, &entry);
}

static void put_apart(const char *name, const cm_tensor *t, cm_buf *out)
{
    for (int i = 0; i < t->rank; i++)
        pb_write_int(out, TENSOR_DIMS, t->dims[i]);
    pb_write_int(out, TENSOR_TYPE, t->dtype);
    pb_write_text(out, TENSOR_NAME, name);
    pb_write_int(out, TENSOR_LOCATION, 1);
}

/* Only what tells the elements when they come again. */
static void put_stripped(const cm_exporter *e, const char *name, const cm_tensor *t, size_t bytes,
                         cm_buf *out)
{
    char text[32];
    put_apart(name, t, out);
    put_entry(e, "location", CM_ONNX_STRIPPED, out);
    snprintf(text, sizeof text, "%zu", bytes);
    put_entry(e, "length", text, out);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)cm_checksum(t->data, bytes));
    put_entry(e, "checksum", text, out);
}

/* The elements to the file beside the model, at a place that a reader can map. */
static cm_status put_beside(cm_exporter *e, const char *name, const cm_tensor *t, size_t bytes,
                            cm_buf *out)
{
    static const char zeros[ALIGN];
    char number[32];
    size_t pad = (ALIGN - e->beside_n % ALIGN) % ALIGN;
    CM_TRY(cm_file_writer_bytes(e->cx, e->beside, zeros, pad));
    CM_TRY(cm_file_writer_bytes(e->cx, e->beside, t->data, bytes));
    e->beside_n += pad;
    put_apart(name, t, out);
    put_entry(e, "location", e->beside_name, out);
    snprintf(number, sizeof number, "%zu", e->beside_n);
    put_entry(e, "offset", number, out);
    snprintf(number, sizeof number, "%zu", bytes);
    put_entry(e, "length", number, out);
    e->beside_n += bytes;
    return CM_OK;
}

cm_status cm_put_constant(cm_exporter *e, const cm_value *v)
{
    const char *name;
    size_t bytes;
    CM_TRY(cm_name_of(e, v, &name));
    if (cm_map_has(&e->written, name))
        return CM_OK;
    if (!cm_map_put(&e->written, name, e))
        return cm_fail_memory(e->cx);
    cm_buf tensor = cm_message(e);
    const cm_tensor *t = v->constant;
    cm_status st = CM_OK;
    bool large = t->dtype != CM_STR && cm_tensor_bytes(t, &bytes) && bytes >= LARGE_BYTES;
    if (large && e->strip)
        put_stripped(e, name, t, bytes, &tensor);
    else if (large && e->beside)
        st = put_beside(e, name, t, bytes, &tensor);
    else
        st = cm_onnx_write_tensor(e->cx, name, t, &tensor);
    cm_put_message(e->weights, GRAPH_INITIALIZER, &tensor);
    return st;
}
