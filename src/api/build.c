/* build.c -- nodes by calls, text, and refitting, in the public API.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/network.h"
#include "api/refit.h"

static const char *const kind_names[] = {"an int", "a float", "a string", "ints",
                                         "floats", "strings", "a tensor", "a type"};

/* Is everything there that the attribute's kind needs? */
static cm_status check_attr(cm_ctx *cx, const cm_op *op, const cameo_attr *a)
{
    if (!a->name)
        return cm_fail(cx, CM_ERR_ARGUMENT, "an attribute of %s has no name", op->name);
    const void *list = a->kind == CAMEO_ATTR_INTS      ? (const void *)a->ints
                       : a->kind == CAMEO_ATTR_FLOATS  ? (const void *)a->floats
                       : a->kind == CAMEO_ATTR_STRINGS ? (const void *)a->strings
                                                       : "";
    bool whole = a->n >= 0 && a->n < INT32_MAX && (list || a->n == 0) &&
                 (a->kind != CAMEO_ATTR_TENSOR || a->tensor);
    for (int64_t i = 0; whole && a->kind == CAMEO_ATTR_STRINGS && i < a->n; i++)
        whole = a->strings[i] != NULL;
    return whole ? CM_OK
                 : cm_fail(cx, CM_ERR_ARGUMENT, "attribute '%s' has no value, or %lld of them",
                           a->name, (long long)a->n);
}

/* The attribute's value in the form cm_attr_set wants, copied to the network's arena. */
static cm_status set_attr(cameo_network *n, const cm_op *op, void *attr, const cameo_attr *a)
{
    cm_ctx *cx = &n->job.cx;
    cm_arena *arena = &n->job.arena;
    if (!a->name || (a->kind >= CAMEO_ATTR_INTS && a->kind <= CAMEO_ATTR_STRINGS &&
                     (a->n < 0 || a->n > INT32_MAX)))
        return cm_fail(cx, CM_ERR_ARGUMENT, "an attribute has no name, or %lld entries",
                       (long long)a->n);
    CM_TRY(check_attr(cx, op, a));
    const cm_attr_field *f = cm_attr_find(op->attrs, a->name);
    if (!f)
        return cm_fail(cx, CM_ERR_ARGUMENT, "%s has no attribute '%s'", op->name, a->name);
    if ((int)f->kind != (int)a->kind)
        return cm_fail(cx, CM_ERR_ARGUMENT, "attribute '%s' is %s, found %s", a->name,
                       kind_names[f->kind],
                       a->kind <= CAMEO_ATTR_TENSOR ? kind_names[a->kind] : "something else");
    union {
        int64_t i;
        float f;
        cm_str s;
        cm_ints list;
        const cm_tensor *t;
    } v;
    switch (a->kind) {
    case CAMEO_ATTR_INT:
        v.i = a->i;
        break;
    case CAMEO_ATTR_FLOAT:
        v.f = a->f;
        break;
    case CAMEO_ATTR_STRING: {
        const char *s = cm_arena_strdup(arena, a->s ? a->s : "");
        if (!s)
            return cm_fail_memory(cx);
        v.s = cm_str_of(s);
        break;
    }
    case CAMEO_ATTR_INTS:
    case CAMEO_ATTR_FLOATS: {
        bool ints = a->kind == CAMEO_ATTR_INTS;
        const void *from = ints ? (const void *)a->ints : a->floats;
        size_t bytes = (size_t)a->n * (ints ? sizeof(int64_t) : sizeof(float));
        v.list = (cm_ints){a->n, cm_arena_memdup(arena, from, bytes)};
        if (!v.list.v)
            return cm_fail_memory(cx);
        break;
    }
    case CAMEO_ATTR_STRINGS: {
        cm_str *s;
        CM_NEW_N(cx, arena, s, a->n, cm_str);
        for (int64_t i = 0; i < a->n; i++) {
            s[i] = cm_str_of(a->strings[i]);
            s[i].p = cm_arena_strndup(arena, s[i].p, s[i].n);
            if (!s[i].p)
                return cm_fail_memory(cx);
        }
        v.list = (cm_ints){a->n, (const int64_t *)s};
        break;
    }
    case CAMEO_ATTR_TENSOR:
        CM_TRY(cm_api_copy_tensor(cx, arena, a->tensor, &v.t));
        break;
    }
    cm_attr_set(op->attrs, attr, f, &v);
    return CM_OK;
}

static cm_status find_inputs(cameo_network *n, int n_inputs, const char *const *inputs,
                             cm_value **out)
{
    for (int i = 0; i < n_inputs; i++) {
        if (!inputs[i] || !*inputs[i])
            continue;
        out[i] = cm_network_find_value(n->network, inputs[i]);
        if (!out[i])
            return cm_fail(&n->job.cx, CM_ERR_ARGUMENT, "there is no value '%s'", inputs[i]);
    }
    return CM_OK;
}

/* Everything that can be wrong is found before the network changes, but for the types: a node whose
 * types do not fit is taken out again. */
static cm_status add_node(cameo_network *n, const char *op_name, const char *name, int n_inputs,
                          const char *const *inputs, int n_outputs, const char *const *outputs,
                          int n_attrs, const cameo_attr *attrs)
{
    cm_ctx *cx = &n->job.cx;
    const cm_op *op = cm_op_find(op_name);
    if (!op)
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "there is no operator '%s'", op_name);
    if (op->traits & CM_CONTROL)
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "%s holds networks: it cannot be built by calls",
                       op->name);
    void *attr;
    cm_value **in;
    CM_TRY(cm_attr_new(cx, &n->job.arena, op->attrs, &attr));
    for (int i = 0; i < n_attrs; i++)
        CM_TRY(set_attr(n, op, attr, &attrs[i]));
    CM_TRY(cm_attr_check(cx, op->attrs, attr));
    CM_NEW_N(cx, &n->job.arena, in, n_inputs, cm_value *);
    CM_TRY(find_inputs(n, n_inputs, inputs, in));
    for (int i = 0; i < n_outputs; i++)
        if (outputs[i] && *outputs[i] && cm_network_find_value(n->network, outputs[i]))
            return cm_fail(cx, CM_ERR_ARGUMENT, "there is a value '%s' already", outputs[i]);
    cm_node *node;
    CM_TRY(cm_network_add_node(cx, n->network, NULL, op, name, attr, in, n_inputs, outputs,
                               n_outputs, &node));
    cm_status st = cm_node_infer(cx, node);
    if (st != CM_OK)
        cm_node_give_up(node);
    return st;
}

cameo_status cameo_network_add_node(cameo_network *network, const char *op, const char *name,
                                    int n_inputs, const char *const *inputs, int n_outputs,
                                    const char *const *outputs, int n_attrs,
                                    const cameo_attr *attrs, cameo_error *error)
{
    CM_API_NEEDS(error, network);
    CM_API_NEEDS(error, op);
    network->build = NULL;
    cm_onnx_source_recall(network->source);
    if ((n_inputs && !inputs) || (n_outputs && !outputs) || (n_attrs && !attrs))
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "a list is NULL where its count is not 0");
    if (n_inputs < 0 || n_outputs < 0 || n_attrs < 0)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "a count is negative");
    cm_status st =
        add_node(network, op, name, n_inputs, inputs, n_outputs, outputs, n_attrs, attrs);
    return cm_job_end(&network->job, st, error);
}

/* The size stands in front, so that cameo_free needs no more than the pointer. */
enum { FRONT = 64 };

void *cm_api_give_away(const void *bytes, size_t n)
{
    unsigned char *p = cm_alloc(NULL, n + FRONT, FRONT);
    if (!p)
        return NULL;
    size_t whole = n + FRONT;
    memcpy(p, &whole, sizeof whole);
    memcpy(p + FRONT, bytes, n);
    return p + FRONT;
}

void cameo_free(void *p)
{
    if (!p)
        return;
    size_t whole;
    memcpy(&whole, (unsigned char *)p - FRONT, sizeof whole);
    cm_release(NULL, (unsigned char *)p - FRONT, whole);
}

cameo_status cameo_network_text(cameo_network *network, char **text, cameo_error *error)
{
    CM_API_NEEDS(error, network);
    CM_API_NEEDS(error, text);
    cm_buf b;
    cm_onnx_source_recall(network->source);
    cm_buf_init(&b, network->job.cx.allocator);
    cm_network_print(network->network, 16, &b);
    const char *all = cm_buf_text(&b);
    *text = b.failed ? NULL : cm_api_give_away(all, b.n + 1);
    cm_buf_deinit(&b);
    return *text ? CAMEO_OK : cm_api_fail(error, CAMEO_ERR_MEMORY, "out of memory");
}

cameo_status cameo_refit_file(const char *plan, const char *model,
                              const cameo_build_options *options, const char *out,
                              cameo_error *error)
{
    cm_job job;
    cm_refit_report report;
    if (!plan || !model || !out)
        return cm_api_fail(error, CAMEO_ERR_ARGUMENT, "plan, model and out must not be NULL");
    cm_job_init(&job, CM_HOOKS_OF(options));
    cameo_status st = cm_job_end(&job, cm_refit(&job.cx, plan, model, out, &report), error);
    cm_job_deinit(&job);
    return st;
}
