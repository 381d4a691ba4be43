/* import.c -- from the bytes of a model to a network: what holds for the model as a whole.
 * SPDX-License-Identifier: Apache-2.0 */
#include "onnx/import.h"

#include <string.h>

const char *cm_onnx_name(cm_importer *im, cm_str s)
{
    size_t zeros = 0;
    for (size_t i = 0; i < s.n; i++)
        zeros += s.p[i] == 0;
    if (!zeros)
        return cm_arena_strndup(im->tmp, s.p, s.n);
    char *out = cm_arena_alloc(im->tmp, s.n + zeros + 1);
    for (size_t i = 0, o = 0; out && i < s.n; i++) {
        if (s.p[i] != 0) {
            out[o++] = s.p[i];
        } else {
            out[o++] = (char)0xc0;
            out[o++] = (char)0x80;
        }
    }
    return out;
}

cm_status cm_onnx_domain(cm_importer *im, cm_str domain, const char **out)
{
    *out = cm_str_equal(domain, cm_str_of("ai.onnx")) ? "" : cm_onnx_name(im, domain);
    return *out ? CM_OK : cm_fail_memory(im->cx);
}

/* Files exist that import a domain twice: the newest counts. */
int64_t cm_onnx_version(const cm_scope *s, const char *domain)
{
    int64_t version = 0;
    for (size_t i = 0; i < s->n_opsets; i++) {
        cm_str d = s->opsets[i].domain;
        bool is_it = cm_str_equal(d, cm_str_of(domain)) ||
                     (!*domain && cm_str_equal(d, cm_str_of("ai.onnx")));
        if (is_it && s->opsets[i].version > version)
            version = s->opsets[i].version;
    }
    return version;
}

static cm_status check_opset(cm_ctx *cx, const pb_opset *all, size_t n, size_t i)
{
    const pb_opset *o = &all[i];
    cm_scope s = {.n_opsets = n, .opsets = all};
    bool own = o->domain.n == 0 || cm_str_equal(o->domain, cm_str_of("ai.onnx"));
    bool ml = cm_str_equal(o->domain, cm_str_of("ai.onnx.ml"));
    int newest = own ? CM_ONNX_NEWEST_OPSET : CM_ONNX_NEWEST_ML_OPSET;
    if (o->version < 1 && (!own || cm_onnx_version(&s, "") == 0))
        return cm_fail(cx, CM_ERR_MODEL, "opset version %lld of domain '%.*s', wanted 1 or more",
                       (long long)o->version, (int)o->domain.n, o->domain.p);
    if ((own || ml) && o->version > newest)
        return cm_fail(cx, CM_ERR_UNSUPPORTED,
                       "the model was written for opset %lld of %s; the newest known is %d",
                       (long long)o->version, own ? "ai.onnx" : "ai.onnx.ml", newest);
    return CM_OK;
}

/* They are searched one by one, for every node. */
enum { MAX_OPSETS = 256 };

static cm_status check_opsets(cm_ctx *cx, const pb_opset *all, size_t n)
{
    if (n > MAX_OPSETS)
        return cm_fail(cx, CM_ERR_MODEL, "%zu opsets are imported", n);
    for (size_t i = 0; i < n; i++)
        CM_TRY(check_opset(cx, all, n, i));
    return CM_OK;
}

static const pb_opset first_opset = {.version = 1};

static cm_status check_model(cm_importer *im, pb_model *m)
{
    if (m->ir_version < 1)
        return cm_fail(im->cx, CM_ERR_MODEL, "the model has no IR version: is it an ONNX file?");
    if (!m->graph)
        return cm_fail(im->cx, CM_ERR_MODEL, "the model has no graph");
    if (m->opset_import.n == 0 && m->ir_version >= 3)
        return cm_fail(im->cx, CM_ERR_MODEL,
                       "the model imports no opset (IR version %lld needs one)",
                       (long long)m->ir_version);
    if (m->opset_import.n == 0) {
        m->opset_import.n = 1;
        m->opset_import.v = (pb_opset *)(uintptr_t)&first_opset;
    }
    CM_TRY(check_opsets(im->cx, m->opset_import.v, m->opset_import.n));
    for (size_t i = 0; i < m->functions.n; i++)
        CM_TRY(check_opsets(im->cx, m->functions.v[i].opset_import.v,
                            m->functions.v[i].opset_import.n));
    return CM_OK;
}

static cm_status add_extra_outputs(cm_importer *im, cm_scope *s)
{
    for (int i = 0; i < im->o->n_outputs; i++) {
        cm_value *v;
        if (!cm_map_has(&s->values, im->o->outputs[i]))
            return cm_fail(im->cx, CM_ERR_ARGUMENT, "no value is named '%s'", im->o->outputs[i]);
        CM_TRY(cm_onnx_lookup(im, s, im->o->outputs[i], &v));
        CM_TRY(cm_network_add_output(im->cx, s->g, v, im->o->outputs[i]));
    }
    return CM_OK;
}

/* Numbers that the caller gave for dims, by name; those of whole shapes through the inputs'
 * names. */
static cm_status bind_dim(cm_importer *im, const char *name, int64_t value)
{
    cm_dim *d;
    if (value < 0)
        return cm_fail(im->cx, CM_ERR_ARGUMENT, "dim '%s' cannot be %lld", name, (long long)value);
    cm_dim *old = cm_map_get(&im->dims, name);
    if (old && *old != value)
        return cm_fail(im->cx, CM_ERR_ARGUMENT, "dim '%s' is given as %lld and as %lld", name,
                       (long long)*old, (long long)value);
    CM_NEW(im->cx, im->tmp, d, cm_dim);
    *d = value;
    return cm_map_put(&im->dims, name, d) ? CM_OK : cm_fail_memory(im->cx);
}

static cm_status bind_shape(cm_importer *im, const cm_import_shape *s)
{
    const pb_graph *g = im->model->graph;
    const pb_value_info *in = NULL;
    for (size_t i = 0; i < g->input.n && !in; i++)
        if (cm_str_equal(g->input.v[i].name, cm_str_of(s->input)))
            in = &g->input.v[i];
    if (!in)
        return cm_fail(im->cx, CM_ERR_ARGUMENT, "the model has no input '%s'", s->input);
    const pb_shape *shape = in->type && in->type->tensor_type ? in->type->tensor_type->shape : NULL;
    if (shape && shape->dim.n != (size_t)s->rank)
        return cm_fail(im->cx, CM_ERR_ARGUMENT, "input '%s' has rank %zu, the shape given has %d",
                       s->input, shape->dim.n, s->rank);
    for (size_t i = 0; shape && i < shape->dim.n; i++) {
        const pb_dim *d = &shape->dim.v[i];
        const char *name = cm_onnx_name(im, d->dim_param);
        if (!name)
            return cm_fail_memory(im->cx);
        if (s->dims[i] >= 0 && *name && !d->has_value)
            CM_TRY(bind_dim(im, name, s->dims[i]));
        if (s->dims[i] >= 0 && d->has_value && d->dim_value > 0 && d->dim_value != s->dims[i])
            return cm_fail(im->cx, CM_ERR_ARGUMENT, "dim %zu of input '%s' is %lld, not %lld", i,
                           s->input, (long long)d->dim_value, (long long)s->dims[i]);
    }
    return CM_OK;
}

/* Does an input have a dim of that name? If not, say which names there are. */
static cm_status check_dim_name(cm_importer *im, const char *name)
{
    enum { MOST = 64 };
    const pb_graph *g = im->model->graph;
    const char *names[MOST];
    int n = 0;
    for (size_t i = 0; i < g->input.n; i++) {
        const pb_tensor_type *t = g->input.v[i].type ? g->input.v[i].type->tensor_type : NULL;
        for (size_t a = 0; t && t->shape && a < t->shape->dim.n; a++) {
            const char *have = cm_onnx_name(im, t->shape->dim.v[a].dim_param);
            if (!have)
                return cm_fail_memory(im->cx);
            if (!strcmp(have, name))
                return CM_OK;
            if (*have && n < MOST)
                names[n++] = have;
        }
    }
    const char *near = cm_suggest(name, names, n);
    return cm_fail(im->cx, CM_ERR_ARGUMENT, "no input has a dim named '%s'%s%s%s", name,
                   near ? "; did you mean '"
                   : n  ? "; there is '"
                        : "",
                   near ? near
                   : n  ? names[0]
                        : "",
                   near || n ? "'" : "");
}

static cm_status bind_given_dims(cm_importer *im)
{
    for (int i = 0; i < im->o->n_dims; i++)
        CM_TRY(check_dim_name(im, im->o->dims[i].name));
    for (int i = 0; i < im->o->n_dims; i++)
        CM_TRY(bind_dim(im, im->o->dims[i].name, im->o->dims[i].value));
    for (int i = 0; i < im->o->n_shapes; i++)
        CM_TRY(bind_shape(im, &im->o->shapes[i]));
    return CM_OK;
}

static cm_status import_model(cm_importer *im, const void *bytes, size_t n, cm_network **out)
{
    static const cm_str lfs = {"version https://git-lfs", 23};
    pb_model *m;
    if (n == 0)
        return cm_fail(im->cx, CM_ERR_MODEL, "the file is empty");
    if (n >= lfs.n && memcmp(bytes, lfs.p, lfs.n) == 0)
        return cm_fail(im->cx, CM_ERR_MODEL,
                       "the file is a Git LFS pointer, not the model: fetch it with git lfs pull");
    CM_NEW(im->cx, im->tmp, m, pb_model);
    CM_TRY(pb_decode(im->cx, im->tmp, &pb_model_message, bytes, n, m));
    CM_TRY(check_model(im, m));
    im->model = m;
    CM_TRY(cm_onnx_function_table(im));
    CM_TRY(cm_onnx_check_support(im));
    CM_TRY(bind_given_dims(im));

    cm_scope s = {.n_opsets = m->opset_import.n, .opsets = m->opset_import.v, .prefix = ""};
    const char *name = cm_onnx_name(im, m->graph->name);
    if (!name)
        return cm_fail_memory(im->cx);
    CM_TRY(cm_network_create(im->cx, im->arena, name, &s.g));
    cm_map_init(&s.values, im->tmp);
    CM_TRY(cm_onnx_graph(im, &s, m->graph));
    CM_TRY(add_extra_outputs(im, &s));
    *out = s.g;
    return CM_OK;
}

static cm_status import_bytes(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n,
                              const cm_import_options *o, cm_onnx_source *source, cm_network **out)
{
    static const cm_import_options none = {0};
    cm_arena tmp, scratch;
    cm_arena_init(&tmp, cx->allocator);
    cm_arena_init(&scratch, cx->allocator);
    cm_arena *given = cx->scratch;
    if (!given)
        cx->scratch = &scratch;
    cm_importer im = {.cx = cx, .arena = arena, .tmp = &tmp, .o = o ? o : &none};
    im.data = (pb_context){cx, arena, im.o->folder, source, im.o->stripped};
    cm_map_init(&im.functions, &tmp);
    cm_map_init(&im.dims, &tmp);
    cm_map_init(&im.rows, &tmp);
    cm_map_init(&im.ops, &tmp);
    int failed = arena->failed + cx->scratch->failed;
    cm_status st = import_model(&im, bytes, n, out);
    /* Names and keys that could not be made look like absent ones: want of memory comes first. */
    if (tmp.failed || arena->failed + cx->scratch->failed > failed)
        st = cm_fail_memory(cx);
    cx->scratch = given;
    cm_arena_deinit(&scratch);
    cm_arena_deinit(&tmp);
    return st;
}

cm_status cm_onnx_import(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n,
                         const cm_import_options *o, cm_network **out)
{
    return import_bytes(cx, arena, bytes, n, o, NULL, out);
}

cm_status cm_onnx_import_file(cm_ctx *cx, cm_arena *arena, const char *path,
                              const cm_import_options *o, cm_onnx_source **keep, cm_network **out)
{
    cm_import_options options = o ? *o : (cm_import_options){0};
    cm_str bytes;
    if (!options.folder) {
        const char *slash = strrchr(path, '/');
        options.folder = slash ? cm_arena_strndup(arena, path, (size_t)(slash - path) + 1) : ".";
        if (!options.folder)
            return cm_fail_memory(cx);
    }
    cm_onnx_source *source;
    CM_TRY(cm_onnx_source_open(cx, path, &source, &bytes));
    cm_status st = import_bytes(cx, arena, bytes.p, bytes.n, &options, source, out);
    if (st != CM_OK) {
        cm_onnx_source_close(source);
        return cm_while(cx, st, "%s", path);
    }
    *keep = source;
    return CM_OK;
}
