/* support.c -- can all of this model be imported? Every node that cannot is named, at once.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "onnx/import.h"

enum { MAX_NESTING = 256 };

typedef struct search {
    cm_importer *im;
    cm_map visited; /* functions: to the value `inside` while they are being searched */
    int depth;
    int n_bad, n_listed;
    cm_buf list;
} search;

static char inside;

/* Why the node cannot be imported, or NULL. */
static const char *objection(search *s, const cm_scope *scope, const char *domain, const char *op)
{
    cm_arena *tmp = s->im->tmp;
    int64_t version = cm_onnx_version(scope, domain);
    if (!*op)
        return "a node without an operator";
    if (!*domain && version == 0)
        return "the model imports no opset of ai.onnx";
    if (!cm_onnx_knows(s->im, domain, op))
        return cm_arena_printf(tmp, "domain '%s', version %lld", *domain ? domain : "ai.onnx",
                               (long long)version);
    return NULL;
}

static cm_status record(search *s, const pb_node *p, const char *op, const char *why)
{
    cm_str raw = p->name.n || !p->output.n ? p->name : p->output.v[0];
    const char *name = cm_onnx_name(s->im, raw);
    if (!name)
        return cm_fail_memory(s->im->cx);
    cm_log(s->im->cx, CM_LOG_ERROR, "unsupported: %s node '%s' (%s)", op, name, why);
    s->n_bad++;
    if (s->list.n < 700) {
        cm_buf_printf(&s->list, "%s%.60s node '%.80s' (%s)", s->n_listed ? ", " : "", op, name,
                      why);
        s->n_listed++;
    }
    return CM_OK;
}

static cm_status search_nodes(search *s, const cm_scope *scope, const pb_node *nodes, size_t n);

static cm_status search_function(search *s, const pb_function *f, const char *op)
{
    char key[32];
    snprintf(key, sizeof key, "%p", (const void *)f);
    void *was = cm_map_get(&s->visited, key);
    if (was == &inside)
        return cm_fail(s->im->cx, CM_ERR_MODEL, "function '%s' calls itself", op);
    if (was)
        return CM_OK;
    if (++s->depth > MAX_NESTING)
        return cm_fail(s->im->cx, CM_ERR_UNSUPPORTED, "functions are nested over %d levels",
                       (int)MAX_NESTING);
    if (!cm_map_put(&s->visited, key, &inside))
        return cm_fail_memory(s->im->cx);
    cm_scope scope = {.n_opsets = f->opset_import.n, .opsets = f->opset_import.v};
    if (!scope.n_opsets) {
        scope.n_opsets = s->im->model->opset_import.n;
        scope.opsets = s->im->model->opset_import.v;
    }
    CM_TRY(search_nodes(s, &scope, f->node.v, f->node.n));
    s->depth--;
    return cm_map_put(&s->visited, key, s) ? CM_OK : cm_fail_memory(s->im->cx);
}

static cm_status search_node(search *s, const cm_scope *scope, const pb_node *p)
{
    const char *domain, *op = cm_onnx_name(s->im, p->op_type);
    CM_TRY(cm_onnx_domain(s->im, p->domain, &domain));
    if (!op)
        return cm_fail_memory(s->im->cx);
    const pb_function *f = cm_onnx_find_function(s->im, domain, op, p->overload);
    if (f) {
        CM_TRY(search_function(s, f, op));
    } else {
        const char *why = objection(s, scope, domain, op);
        if (why)
            CM_TRY(record(s, p, op, why));
    }
    for (size_t i = 0; i < p->attribute.n; i++) {
        const pb_graph *g = p->attribute.v[i].g;
        if (g)
            CM_TRY(search_nodes(s, scope, g->node.v, g->node.n));
        for (size_t k = 0; k < p->attribute.v[i].graphs.n; k++)
            CM_TRY(search_nodes(s, scope, p->attribute.v[i].graphs.v[k].node.v,
                                p->attribute.v[i].graphs.v[k].node.n));
    }
    return CM_OK;
}

static cm_status search_nodes(search *s, const cm_scope *scope, const pb_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        CM_TRY(search_node(s, scope, &nodes[i]));
    return CM_OK;
}

static cm_status verdict(search *s)
{
    if (s->n_bad == 0)
        return CM_OK;
    const char *list = cm_buf_text(&s->list);
    if (s->n_bad > s->n_listed)
        return cm_fail(s->im->cx, CM_ERR_UNSUPPORTED, "%d nodes are not supported: %s, and %d more",
                       s->n_bad, list, s->n_bad - s->n_listed);
    return cm_fail(s->im->cx, CM_ERR_UNSUPPORTED, "%d node%s not supported: %s", s->n_bad,
                   s->n_bad == 1 ? " is" : "s are", list);
}

cm_status cm_onnx_check_support(cm_importer *im)
{
    search s = {.im = im};
    cm_map_init(&s.visited, im->tmp);
    cm_buf_init(&s.list, im->cx->allocator);
    const pb_model *m = im->model;
    cm_scope scope = {.n_opsets = m->opset_import.n, .opsets = m->opset_import.v};
    cm_status st = search_nodes(&s, &scope, m->graph->node.v, m->graph->node.n);
    if (st == CM_OK)
        st = verdict(&s);
    cm_buf_deinit(&s.list);
    return st;
}
