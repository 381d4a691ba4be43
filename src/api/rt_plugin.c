/* rt_plugin.c -- loads plugins and registers their operators.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a plugin hands out is checked before any of it is registered. Rows and libraries stay until the
 * process ends: engines and networks point to them. */
#include "api/rt_plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "ops/signature.h"

/* Plugins that were registered: one table of a library is one plugin. */
typedef struct known {
    const cameo_plugin *plugin;
    struct known *next;
} known;

static known *all;
static cm_arena memory; /* of rows; zeroed is empty */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

static cm_status check_counts(cm_ctx *cx, const cameo_plugin_op *own)
{
    if (own->min_inputs < 0 || own->max_inputs < own->min_inputs ||
        own->max_inputs > CAMEO_ANY_NUMBER || own->min_outputs < 1 ||
        own->max_outputs < own->min_outputs || own->max_outputs > CAMEO_ANY_NUMBER)
        return cm_fail(cx, CM_ERR_ARGUMENT, "%d to %d inputs and %d to %d outputs", own->min_inputs,
                       own->max_inputs, own->min_outputs, own->max_outputs);
    if (own->types && !cm_signature_valid(own->types))
        return cm_fail(cx, CM_ERR_ARGUMENT, "its types are malformed: %s", own->types);
    if (!own->rule || !own->eval)
        return cm_fail(cx, CM_ERR_ARGUMENT, "it lacks a type rule or a reference");
    if (own->traits & ~CAMEO_OP_PURE)
        return cm_fail(cx, CM_ERR_ARGUMENT, "traits %u are unknown", own->traits);
    return CM_OK;
}

static cm_status make_row(cm_ctx *cx, const cameo_plugin *p, const cameo_plugin_op *own,
                          cm_plugin_row **out)
{
    cm_plugin_row *row;
    CM_NEW(cx, &memory, row, cm_plugin_row);
    const char *plugin = cm_arena_printf(&memory, "%s %s", p->name, p->version ? p->version : "");
    if (!plugin)
        return cm_fail_memory(cx);
    CM_TRY(check_counts(cx, own));
    row->own = own;
    CM_TRY(cm_plugin_describe(cx, &memory, row));
    row->op = (cm_op){.id = CM_OP_COUNT,
                      .name = own->name,
                      .min_in = own->min_inputs,
                      .max_in = own->max_inputs,
                      .min_out = own->min_outputs,
                      .max_out = own->max_outputs,
                      .traits = own->traits & CAMEO_OP_PURE ? CM_PURE : CM_RANDOM,
                      .signature = own->types ? own->types : ": *... -> *",
                      .family = &cm_plugin_family,
                      .attrs = &row->attrs,
                      .plugin = plugin};
    CM_TRY(cm_plugin_tactics(cx, row));
    *out = row;
    return CM_OK;
}

/* The standard's own names are not for plugins. */
static bool has_domain(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && dot != name && dot[1] && strncmp(name, "ai.onnx.", 8) != 0;
}

static cm_status make_rows(cm_ctx *cx, const cameo_plugin *p, cm_plugin_row **rows)
{
    for (int i = 0; i < p->n_ops; i++) {
        const cameo_plugin_op *own = p->ops[i];
        if (!own || !CM_PLUGIN_HAS(own, tactics) || !own->name)
            return cm_fail(cx, CM_ERR_ARGUMENT, "operator %d has no name, or too small a struct",
                           i);
        if (!has_domain(own->name))
            return cm_fail(cx, CM_ERR_ARGUMENT,
                           "operator '%s' has no domain of its own: wanted \"my.domain.Name\"",
                           own->name);
        if (cm_op_find(own->name))
            return cm_fail(cx, CM_ERR_ARGUMENT, "there is an operator '%s' already", own->name);
        cm_status st = make_row(cx, p, own, &rows[i]);
        if (st != CM_OK)
            return cm_while(cx, st, "operator '%s'", own->name);
    }
    return CM_OK;
}

static cm_status check_plugin(cm_ctx *cx, const cameo_plugin *p)
{
    if (!p)
        return cm_fail(cx, CM_ERR_ARGUMENT, "the plugin has nothing for ABI %u", CAMEO_PLUGIN_ABI);
    if (p->size < offsetof(cameo_plugin, name) || p->abi != CAMEO_PLUGIN_ABI)
        return cm_fail(cx, CM_ERR_ARGUMENT, "the plugin has ABI %u, this library has %u",
                       p->size < offsetof(cameo_plugin, name) ? 0 : p->abi, CAMEO_PLUGIN_ABI);
    if (!CM_PLUGIN_HAS(p, ops) || !p->name || !*p->name || p->n_ops < 1 || !p->ops)
        return cm_fail(cx, CM_ERR_ARGUMENT, "the plugin has no name or no operators");
    return CM_OK;
}

static cm_status register_plugin(cm_ctx *cx, const cameo_plugin *p)
{
    cm_plugin_row **rows;
    known *k;
    for (k = all; k; k = k->next)
        if (k->plugin == p)
            return CM_OK;
    CM_TRY(check_plugin(cx, p));
    CM_NEW(cx, &memory, k, known);
    CM_NEW_N(cx, cx->arena, rows, p->n_ops, cm_plugin_row *);
    cm_status st = make_rows(cx, p, rows);
    for (int i = 0; st == CM_OK && i < p->n_ops; i++)
        st = cm_op_register(cx, &rows[i]->op);
    if (st != CM_OK)
        return cm_while(cx, st, "plugin '%s'", p->name);
    *k = (known){p, all};
    all = k;
    return CM_OK;
}

static cm_status load(cm_ctx *cx, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return cm_fail(cx, CM_ERR_IO, "cannot load the plugin: %s", dlerror());
    void *symbol = dlsym(library, "cameo_plugin_entry");
    cameo_plugin_entry_fn entry;
    memcpy(&entry, &symbol, sizeof entry);
    cm_status st = entry ? register_plugin(cx, entry(CAMEO_PLUGIN_ABI))
                         : cm_fail(cx, CM_ERR_ARGUMENT, "it exports no cameo_plugin_entry");
    if (st == CM_OK)
        return CM_OK; /* stays loaded */
    st = cm_while(cx, st, "%s", path);
    dlclose(library);
    return st;
}

cameo_status cameo_plugin_load(const char *library, cameo_error *error)
{
    cm_job job;
    CM_API_NEEDS(error, library);
    cm_job_init(&job, NULL);
    pthread_mutex_lock(&loading);
    cameo_status st = cm_job_end(&job, load(&job.cx, library), error);
    pthread_mutex_unlock(&loading);
    cm_job_deinit(&job);
    return st;
}

cameo_status cameo_plugin_register(const cameo_plugin *plugin, cameo_error *error)
{
    cm_job job;
    CM_API_NEEDS(error, plugin);
    cm_job_init(&job, NULL);
    pthread_mutex_lock(&loading);
    cameo_status st = cm_job_end(&job, register_plugin(&job.cx, plugin), error);
    pthread_mutex_unlock(&loading);
    cm_job_deinit(&job);
    return st;
}
