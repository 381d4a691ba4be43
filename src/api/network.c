/* network.c -- networks in the public API: from files, from memory, by calls.
 * SPDX-License-Identifier: Apache-2.0 */
#include "api/network.h"

#include <string.h>

#include "api/recipe.h"
#include "onnx/onnx.h"

static cm_status new_network(const cameo_network_options *options, cameo_network **out)
{
    const cameo_hooks *hooks = CM_HOOKS_OF(options);
    cm_job probe;
    cm_job_init(&probe, hooks);
    cameo_network *n = cm_alloc(probe.cx.allocator, sizeof *n, 16);
    if (!n)
        return CM_ERR_MEMORY;
    memset(n, 0, sizeof *n);
    cm_job_init(&n->job, hooks);
    *out = n;
    return CM_OK;
}

static cm_status import_options(cm_ctx *cx, const cameo_network_options *o, cm_import_options *out)
{
    *out = (cm_import_options){0};
    if (!CM_OPTION_HAS(o, dim_values))
        return CM_OK;
    if (o->n_dims < 0 || o->n_extra_outputs < 0 || (o->n_extra_outputs && !o->extra_outputs) ||
        (o->n_dims && (!o->dim_names || !o->dim_values)))
        return cm_fail(cx, CM_ERR_ARGUMENT, "a list of the options is NULL or its count negative");
    for (int i = 0; i < o->n_extra_outputs; i++)
        if (!o->extra_outputs[i])
            return cm_fail(cx, CM_ERR_ARGUMENT, "extra output %d has no name", i);
    cm_import_dim *dims;
    CM_NEW_N(cx, cx->arena, dims, o->n_dims, cm_import_dim);
    for (int i = 0; i < o->n_dims; i++) {
        if (!o->dim_names[i] || o->dim_values[i] < 0)
            return cm_fail(cx, CM_ERR_ARGUMENT, "dim %d: wanted a name and a size, found %lld", i,
                           (long long)o->dim_values[i]);
        dims[i] = (cm_import_dim){o->dim_names[i], o->dim_values[i]};
    }
    out->folder = o->folder;
    out->n_outputs = o->n_extra_outputs;
    out->outputs = o->extra_outputs;
    out->n_dims = o->n_dims;
    out->dims = dims;
    return CM_OK;
}

/* The options as text, for plans to keep. */
static cm_status record(cameo_network *n, const cm_import_options *io)
{
    cm_ctx *cx = &n->job.cx;
    cm_arena *arena = &n->job.arena;
    CM_NEW(cx, arena, n->build, cm_plan_build);
    for (int i = 0; i < io->n_dims; i++) {
        const char *text =
            cm_arena_printf(arena, "%s=%lld", io->dims[i].name, (long long)io->dims[i].value);
        if (!text)
            return cm_fail_memory(cx);
        CM_TRY(cm_recipe_add(cx, arena, n->build, "dim", text));
    }
    for (int i = 0; i < io->n_outputs; i++)
        CM_TRY(cm_recipe_add(cx, arena, n->build, "outputs", io->outputs[i]));
    return CM_OK;
}

static cm_status import(cameo_network *n, const char *path, const void *bytes, size_t size,
                        const cameo_network_options *options)
{
    cm_ctx *cx = &n->job.cx;
    cm_import_options io;
    CM_TRY(import_options(cx, options, &io));
    CM_TRY(record(n, &io));
    if (path)
        return cm_onnx_import_file(cx, &n->job.arena, path, &io, &n->source, &n->network);
    return cm_onnx_import(cx, &n->job.arena, bytes, size, &io, &n->network);
}

/* Hand the network out, or undo it. */
static cameo_status finish(cameo_network *n, cm_status st, cameo_network **out, cameo_error *error)
{
    cameo_status result = cm_job_end(&n->job, st, error);
    if (st == CM_OK)
        *out = n;
    else
        cameo_network_destroy(n);
    return result;
}

cameo_status cameo_network_from_file(const char *path, const cameo_network_options *options,
                                     cameo_network **out, cameo_error *error)
{
    cameo_network *n;
    if (!path || !out)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "path and out must not be NULL");
    if (new_network(options, &n) != CM_OK)
        return cm_api_fail(error, CAMEO_ERR_MEMORY, "out of memory");
    return finish(n, import(n, path, NULL, 0, options), out, error);
}

cameo_status cameo_network_from_memory(const void *bytes, size_t size,
                                       const cameo_network_options *options, cameo_network **out,
                                       cameo_error *error)
{
    cameo_network *n;
    if (!bytes || !out)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "bytes and out must not be NULL");
    if (new_network(options, &n) != CM_OK)
        return cm_api_fail(error, CAMEO_ERR_MEMORY, "out of memory");
    return finish(n, import(n, NULL, bytes, size, options), out, error);
}

cameo_status cameo_network_create(const char *name, const cameo_network_options *options,
                                  cameo_network **out, cameo_error *error)
{
    cameo_network *n;
    if (!out)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "out must not be NULL");
    if (new_network(options, &n) != CM_OK)
        return cm_api_fail(error, CAMEO_ERR_MEMORY, "out of memory");
    return finish(n, cm_network_create(&n->job.cx, &n->job.arena, name, &n->network), out, error);
}

void cameo_network_destroy(cameo_network *network)
{
    if (!network)
        return;
    cm_onnx_source_close(network->source);
    cm_job_deinit(&network->job);
    cm_allocator a = network->job.allocator;
    cm_release(network->job.cx.allocator ? &a : NULL, network, sizeof *network);
}

/* ---- Building by calls ------------------------------------------------------------------------ */

static cm_status add_input(cameo_network *n, const char *name, cameo_dtype dtype, int rank,
                           const int64_t *dims, const char *const *dim_names)
{
    cm_ctx *cx = &n->job.cx;
    cm_dim d[CM_MAX_RANK];
    cm_value *v;
    if (!cm_dtype_valid((int)dtype) || rank < 0 || rank > CM_MAX_RANK)
        return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s': element type %d, rank %d", name,
                       (int)dtype, rank);
    if (cm_network_find_value(n->network, name))
        return cm_fail(cx, CM_ERR_ARGUMENT, "there is a value '%s' already", name);
    for (int i = 0; i < rank; i++) {
        const char *symbol = dim_names ? dim_names[i] : NULL;
        if (dims[i] >= 0)
            d[i] = dims[i];
        else if (symbol)
            d[i] = cm_dim_symbol(n->network->dims, symbol, CM_DIM_SIZE);
        else
            d[i] = cm_dim_fresh(n->network->dims, name, CM_DIM_SIZE);
        if (d[i] == CM_DIM_ERROR)
            return cm_fail_memory(cx);
    }
    cm_type t = cm_type_tensor((cm_dtype)dtype, rank, d);
    return cm_network_add_input(cx, n->network, name, &t, &v);
}

cameo_status cameo_network_add_input(cameo_network *network, const char *name, cameo_dtype dtype,
                                     int rank, const int64_t *dims, const char *const *dim_names,
                                     cameo_error *error)
{
    CM_API_NEEDS(error, network);
    network->build = NULL;
    if (!name || (rank > 0 && !dims))
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "name and dims must not be NULL");
    return cm_job_end(&network->job, add_input(network, name, dtype, rank, dims, dim_names), error);
}

cm_status cm_api_copy_tensor(cm_ctx *cx, cm_arena *arena, const cameo_tensor *tensor,
                             const cm_tensor **out)
{
    cm_tensor *t;
    CM_NEW(cx, arena, t, cm_tensor);
    CM_TRY(cm_tensor_from_api(cx, tensor, t));
    size_t bytes = 0;
    if (!tensor->data && cm_tensor_elems(t))
        return cm_fail(cx, CM_ERR_ARGUMENT, "a constant has no data");
    if (!cm_tensor_bytes(t, &bytes))
        return cm_fail_memory(cx);
    void *data = cm_arena_alloc_n(arena, bytes, 1, 64, 0);
    if (!data)
        return cm_fail_memory(cx);
    if (bytes)
        memcpy(data, tensor->data, bytes);
    t->data = data;
    t->capacity_bytes = bytes;
    if (t->dtype == CM_STR) {
        cm_str *s = data;
        for (int64_t i = 0, n = cm_tensor_elems(t); i < n; i++) {
            s[i].p = cm_arena_strndup(arena, s[i].p, s[i].n);
            if (!s[i].p)
                return cm_fail_memory(cx);
        }
    }
    *out = t;
    return CM_OK;
}

static cm_status add_constant(cameo_network *n, const char *name, const cameo_tensor *tensor)
{
    cm_ctx *cx = &n->job.cx;
    const cm_tensor *t;
    cm_value *v;
    if (cm_network_find_value(n->network, name))
        return cm_fail(cx, CM_ERR_ARGUMENT, "there is a value '%s' already", name);
    CM_TRY(cm_api_copy_tensor(cx, &n->job.arena, tensor, &t));
    CM_TRY(cm_network_add_constant(cx, n->network, name, t, &v));
    v->weight = v->name;
    return CM_OK;
}

cameo_status cameo_network_add_constant(cameo_network *network, const char *name,
                                        const cameo_tensor *tensor, cameo_error *error)
{
    CM_API_NEEDS(error, network);
    network->build = NULL;
    if (!name || !tensor)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "name and tensor must not be NULL");
    return cm_job_end(&network->job, add_constant(network, name, tensor), error);
}

static cm_status mark_output(cameo_network *n, const char *value)
{
    cm_value *v = cm_network_find_value(n->network, value);
    if (!v)
        return cm_fail(&n->job.cx, CM_ERR_ARGUMENT, "there is no value '%s'", value);
    return cm_network_add_output(&n->job.cx, n->network, v, value);
}

cameo_status cameo_network_mark_output(cameo_network *network, const char *value,
                                       cameo_error *error)
{
    CM_API_NEEDS(error, network);
    CM_API_NEEDS(error, value);
    network->build = NULL;
    return cm_job_end(&network->job, mark_output(network, value), error);
}

/* ---- Questions -------------------------------------------------------------------------------- */

int cameo_network_input_count(const cameo_network *network)
{
    return network ? network->network->n_inputs : 0;
}

int cameo_network_output_count(const cameo_network *network)
{
    return network ? network->network->n_outputs : 0;
}

static cm_status describe(cameo_network *n, const char *name, const cm_value *v, cameo_info *out)
{
    cm_buf b;
    cm_buf_init(&b, n->job.cx.allocator);
    cm_type_print(n->network->dims, &v->type, &b);
    const char *text = cm_buf_text(&b);
    text = b.failed ? NULL : cm_arena_strdup(&n->job.arena, text);
    cm_buf_deinit(&b);
    if (!text)
        return cm_fail_memory(&n->job.cx);
    cm_info_fill(name, &v->type, n->network->dims, text, out);
    return CM_OK;
}

cameo_status cameo_network_input(cameo_network *network, int index, cameo_info *out,
                                 cameo_error *error)
{
    CM_API_NEEDS(error, network);
    CM_API_NEEDS(error, out);
    const cm_network *g = network->network;
    if (index < 0 || index >= g->n_inputs)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "input %d of %d", index, g->n_inputs);
    const cm_value *v = g->inputs[index];
    return cm_job_end(&network->job, describe(network, v->name, v, out), error);
}

cameo_status cameo_network_output(cameo_network *network, int index, cameo_info *out,
                                  cameo_error *error)
{
    CM_API_NEEDS(error, network);
    CM_API_NEEDS(error, out);
    const cm_network *g = network->network;
    if (index < 0 || index >= g->n_outputs)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "output %d of %d", index, g->n_outputs);
    return cm_job_end(&network->job,
                      describe(network, g->output_names[index], g->outputs[index], out), error);
}
