/* test_onnx_case.c -- one folder in the layout of ONNX's backend tests: imported, built, run and compared.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/close.h"
#include "cli/test_onnx.h"
#include "io/io.h"

typedef struct {
    const cm_test_options *o;
    const char *folder;
    cm_model model;
    cm_context *context;
    cm_tolerance tolerance;
    cm_map ops; /* operators of nodes, where a device's share is counted */
    char line[400];
} test_case;

/* Does an output hang on a generator? Dropout only draws in training mode, which a constant input
 * says; an input that is not constant counts as drawing. */
static bool draws(const cm_network *g)
{
    CM_FOR_NODES (n, g) {
        if (n->op->id == CM_OP_DROPOUT) {
            const cm_value *mode = n->n_in > 2 ? n->in[2] : NULL;
            if (mode && !(mode->constant && !*(const bool *)mode->constant->data))
                return true;
        } else if (n->op->traits & CM_RANDOM) {
            return true;
        }
        for (int s = 0; s < n->n_subs; s++)
            if (draws(n->subs[s]))
                return true;
    }
    return false;
}

static bool transforms(const cm_network *g)
{
    CM_FOR_NODES (n, g)
        if (n->op->id == CM_OP_DFT || n->op->id == CM_OP_STFT)
            return true;
    return false;
}

static cm_status read_pb(cm_ctx *cx, const char *path, const cm_type *type, cm_datum *out)
{
    cm_mapping m;
    CM_TRY(cm_file_map(cx, path, &m));
    cm_status st = cm_onnx_read_datum(cx, cx->arena, m.data, m.n, type, out);
    if (st == CM_OK && out->kind == CM_TENSOR && type->kind == CM_TENSOR)
        cm_npy_view(&out->tensor, type->dtype); /* old data holds bfloat16 as its bits, in uint16 */
    return st == CM_OK ? st : cm_while(cx, st, "%s", path); /* the mapping lives with the process */
}

/* A few cases come with data whose rank is not what the model declares: believe the data. */
static cm_status believe_data(cm_ctx *cx, test_case *t)
{
    cm_network *g = t->model.network;
    bool changed = false;
    for (int i = 0; i < g->n_inputs; i++) {
        char *path = cm_arena_printf(cx->arena, "%s/test_data_set_0/input_%d.pb", t->folder, i);
        cm_type *type = &g->inputs[i]->type;
        cm_datum d = {0};
        if (!path)
            return cm_fail_memory(cx);
        if (type->kind != CM_TENSOR || access(path, R_OK) != 0)
            continue;
        CM_TRY(read_pb(cx, path, type, &d));
        if (d.kind != CM_TENSOR || type->rank < 0 || d.tensor.rank == type->rank)
            continue;
        *type = cm_type_tensor(type->dtype, d.tensor.rank, d.tensor.dims);
        changed = true;
    }
    return changed ? cm_network_infer(cx, g) : CM_OK;
}

static cm_status open_case(cm_ctx *cx, test_case *t)
{
    char *path = cm_arena_printf(cx->arena, "%s/model.onnx", t->folder);
    cm_model_options none = {0};
    if (!path)
        return cm_fail_memory(cx);
    CM_TRY(cm_model_import(cx, path, &none, &t->model));
    CM_TRY(believe_data(cx, t));
    if (t->o->where.kind != CM_DEVICE_CPU)
        CM_TRY(cm_test_name_nodes(cx, t->model.network, &t->ops));
    t->tolerance = (cm_tolerance){.rtol = t->o->rtol,
                                  .atol = t->o->atol,
                                  .scale_atol = t->o->scale_atol,
                                  .shape_only = draws(t->model.network)};
    if (transforms(t->model.network) && t->tolerance.scale_atol < 1e-3)
        t->tolerance.scale_atol = 1e-3; /* cancelled terms: errors scale with the largest one */
    cm_compile_options co = CM_COMPILE_DEFAULT;
    co.no_optimise = t->o->no_optimise;
    if (t->o->via_plan) {
        char file[] = "/tmp/cameo-plan-XXXXXX";
        int fd = mkstemp(file);
        if (fd < 0)
            return cm_fail(cx, CM_ERR_IO, "cannot make a temporary file");
        close(fd);
        cm_status st = cm_compile_file(cx, t->model.network, &co, file);
        if (st == CM_OK)
            st = cm_engine_open_file(cx, file, NULL, &t->model.engine);
        unlink(file);
        CM_TRY(st);
    } else {
        CM_TRY(cm_compile_memory(cx, t->model.network, &co, &t->model.plan));
        CM_TRY(cm_engine_open_memory(cx, t->model.plan.data, t->model.plan.n, false, NULL,
                                     &t->model.engine));
    }
    cm_context_options with = {.threads = (int)t->o->threads, .target = &t->o->where};
    return cm_context_create(cx, t->model.engine, &with, &t->context);
}

/* Compare output i with its file. False and a line when it is wrong or cannot be read. */
static bool output_right(cm_ctx *cx, test_case *t, const char *set, int i)
{
    const cm_engine *e = t->model.engine;
    char *path = cm_arena_printf(cx->arena, "%s/output_%d.pb", set, i), why[300];
    cm_datum *wanted = cm_new(cx->arena, cm_datum);
    if (!path || !wanted || access(path, R_OK) != 0)
        return true; /* not stored */
    if (read_pb(cx, path, cm_engine_output_type(e, i), wanted) != CM_OK) {
        snprintf(t->line, sizeof t->line, "%.390s", cx->message);
        return false;
    }
    if (cm_datum_close(cm_context_output(t->context, i), wanted, &t->tolerance, why, sizeof why))
        return true;
    snprintf(t->line, sizeof t->line, "output '%s': %s", cm_engine_output_name(e, i), why);
    return false;
}

/* A class of GPUs: kernels are compiled for it, nothing runs. */
static bool only_compiled(const cm_target *t)
{
    return t->kind != CM_DEVICE_CPU && t->level != 0;
}

static cm_status run_set(cm_ctx *cx, test_case *t, const char *set, cm_test_outcome *out)
{
    const cm_engine *e = t->model.engine;
    for (int i = 0; i < cm_engine_n_inputs(e); i++) {
        char *path = cm_arena_printf(cx->arena, "%s/input_%d.pb", set, i);
        cm_datum *d;
        CM_NEW(cx, cx->arena, d, cm_datum);
        if (!path)
            return cm_fail_memory(cx);
        CM_TRY(read_pb(cx, path, cm_engine_input_type(e, i), d));
        CM_TRY(cm_context_set_input(cx, t->context, i, d));
    }
    *out = CM_TEST_PASSED;
    if (only_compiled(&t->o->where))
        return cm_context_bind(cx, t->context);
    CM_TRY(cm_context_run(cx, t->context));
    for (int i = 0; i < cm_engine_n_outputs(e) && *out == CM_TEST_PASSED; i++)
        if (!output_right(cx, t, set, i))
            *out = CM_TEST_FAILED;
    return CM_OK;
}

static cm_status run_sets(cm_ctx *cx, test_case *t, cm_test_outcome *out)
{
    int n = 0;
    *out = CM_TEST_PASSED;
    for (int k = 0; *out == CM_TEST_PASSED; k++) {
        char *set = cm_arena_printf(cx->arena, "%s/test_data_set_%d", t->folder, k);
        if (!set)
            return cm_fail_memory(cx);
        if (access(set, R_OK) != 0)
            break;
        CM_TRY(run_set(cx, t, set, out));
        n++;
    }
    if (n == 0) {
        *out = CM_TEST_SKIPPED;
        snprintf(t->line, sizeof t->line, "there is no test_data_set_0");
    }
    return CM_OK;
}

/* Not the product's to run: training, and image formats whose library is not installed. */
static bool may_skip(cm_status st, const char *message)
{
    return st == CM_ERR_UNSUPPORTED &&
           (strstr(message, "ai.onnx.preview.training") || strstr(message, "is not installed"));
}

bool cm_test_case(const cm_test_options *o, const char *folder, cm_test_shared *s, int i)
{
    cm_arena arena, scratch;
    cm_arena_init(&arena, NULL);
    cm_arena_init(&scratch, NULL);
    cm_ctx cx = {.arena = &arena, .scratch = &scratch};
    test_case t = {.o = o, .folder = folder};
    cm_test_outcome out = CM_TEST_FAILED;
    cm_test_result *r = &s->results[i];
    if (o->timeout > 0)
        cx.deadline_ns = cm_now_ns() + (uint64_t)(o->timeout * 1e9);
    cm_map_init(&t.ops, &arena);
    cm_status st = open_case(&cx, &t);
    if (st == CM_OK)
        st = run_sets(&cx, &t, &out);
    if (st == CM_OK && o->where.kind != CM_DEVICE_CPU)
        st = cm_test_count_nodes(&cx, t.context, &t.ops, s, r);
    if (st != CM_OK) {
        out = may_skip(st, cx.message) ? CM_TEST_SKIPPED : CM_TEST_FAILED;
        snprintf(t.line, sizeof t.line, "%.390s", cx.message);
    }
    snprintf(r->line, sizeof r->line, "%s", t.line);
    cm_context_destroy(t.context);
    cm_model_close(&t.model);
    cm_arena_deinit(&scratch);
    cm_arena_deinit(&arena);
    atomic_store(&r->outcome, out);
    return st != CM_ERR_DEVICE;
}
