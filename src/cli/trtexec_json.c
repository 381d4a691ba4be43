/* trtexec_json.c -- `cameo trtexec`: the JSON files that trtexec writes, in its shapes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trtexec.h"

static cm_status write_buf(cm_ctx *cx, const char *path, cm_buf *b)
{
    cm_status st = b->failed ? cm_fail_memory(cx) : cm_file_write(cx, path, b->data, b->n);
    cm_buf_deinit(b);
    return st;
}

static cm_status write_json(cm_ctx *cx, const char *path, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;
    cm_status st = text ? cm_file_write(cx, path, text, strlen(text)) : cm_fail_memory(cx);
    free(text);
    json_decref(value);
    return st;
}

/* ---- Times ------------------------------------------------------------------------------------- */

cm_status cm_trt_export_times(cm_ctx *cx, const cm_trt *t, const char *path)
{
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_buf_str(&b, "[\n");
    for (int64_t i = 0; i < t->result.n; i++) {
        const cm_bench_trace *x = &t->result.trace[i];
        double begun = (double)x->begun * 1e-6, handed = (double)x->handed * 1e-6;
        double computed = (double)x->computed * 1e-6, done = (double)x->done * 1e-6;
        cm_buf_printf(&b,
                      "%s{ \"startEnqMs\" : %.6f, \"endEnqMs\" : %.6f, \"startH2dMs\" : %.6f, "
                      "\"endH2dMs\" : %.6f, \"startComputeMs\" : %.6f, \"endComputeMs\" : %.6f, "
                      "\"startD2hMs\" : %.6f, \"endD2hMs\" : %.6f, ",
                      i ? ", " : "  ", begun, handed, begun, handed, handed, computed, computed,
                      done);
        cm_buf_printf(&b,
                      "\"h2dMs\" : %.6f, \"computeMs\" : %.6f, \"d2hMs\" : %.6f, \"latencyMs\" : "
                      "%.6f }\n",
                      handed - begun, computed - handed, done - computed, done - begun);
    }
    cm_buf_str(&b, "]\n");
    return write_buf(cx, path, &b);
}

/* ---- Outputs ----------------------------------------------------------------------------------- */

static json_t *value_json(const cm_tensor *x, cm_dtype_kind kind, int64_t i)
{
    if (kind == CM_KIND_STRING)
        return json_stringn(((cm_str *)x->data)[i].p, ((cm_str *)x->data)[i].n);
    if (kind != CM_KIND_FLOAT)
        return json_integer(cm_get_i64(x->dtype, x->data, i));
    double v = cm_get_f64(x->dtype, x->data, i);
    return isfinite(v) ? json_real(v) : json_null(); /* JSON has no other word for it */
}

static json_t *output_json(const char *name, const cm_tensor *x)
{
    char dims[256];
    cm_dtype_kind kind = cm_dtype_get(x->dtype)->kind;
    json_t *values = json_array();
    for (int64_t i = 0; !x->packed && kind != CM_KIND_COMPLEX && i < cm_tensor_elems(x); i++)
        json_array_append_new(values, value_json(x, kind, i));
    return json_pack("{s:s, s:s, s:o}", "name", name, "dimensions",
                     cm_trt_dims(dims, sizeof dims, x->rank, x->dims), "values", values);
}

cm_status cm_trt_export_output(cm_ctx *cx, const cm_trt *t, const char *path)
{
    json_t *list = json_array();
    for (int i = 0; i < cm_engine_n_outputs(t->model.engine); i++) {
        const cm_datum *d = cm_context_output(t->subject.contexts[0], i);
        if (d && d->kind == CM_TENSOR)
            json_array_append_new(
                list, output_json(cm_engine_output_name(t->model.engine, i), &d->tensor));
    }
    return write_json(cx, path, list);
}

/* ---- Profile ----------------------------------------------------------------------------------- */

cm_status cm_trt_layer_times(cm_ctx *cx, const cm_bench_profile *p, const cm_engine *e,
                             cm_trt_layer **out, int *n)
{
    double whole = 0, *runs;
    CM_NEW_N(cx, cx->arena, runs, p->runs, double);
    CM_NEW_N(cx, cx->arena, *out, p->n_steps, cm_trt_layer);
    *n = 0;
    for (int s = 0; s < p->n_steps; s++) {
        cm_step_kind kind = cm_engine_step(e, s)->kind;
        cm_trt_layer *l = &(*out)[*n];
        if (kind != CM_STEP_PROBLEM && kind != CM_STEP_COPY)
            continue;
        *l = (cm_trt_layer){.step = s};
        for (int r = 0; r < p->runs; r++) {
            runs[r] = (double)p->ns[(size_t)r * (size_t)p->n_steps + (size_t)s] * 1e-6;
            l->total_ms += runs[r];
        }
        l->average_ms = l->total_ms / p->runs;
        l->median_ms = cm_bench_median(runs, p->runs);
        whole += l->total_ms;
        ++*n;
    }
    for (int i = 0; i < *n && whole > 0; i++)
        (*out)[i].percent = 100 * (*out)[i].total_ms / whole;
    return CM_OK;
}

cm_status cm_trt_export_profile(cm_ctx *cx, const cm_trt *t, const char *path)
{
    cm_trt_layer *layers;
    int n;
    CM_TRY(cm_trt_layer_times(cx, &t->profile, t->model.engine, &layers, &n));
    json_t *list = json_pack("[{s:i}]", "count", t->profile.runs);
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f, s:f}", "name",
                                              cm_engine_step(t->model.engine, layers[i].step)->name,
                                              "timeMs", layers[i].total_ms, "averageMs",
                                              layers[i].average_ms, "medianMs", layers[i].median_ms,
                                              "percentage", layers[i].percent));
    return write_json(cx, path, list);
}

/* ---- Layers ------------------------------------------------------------------------------------ */

bool cm_trt_detailed(const cm_trt *t)
{
    const char *v = t->o->profiling_verbosity;
    return v && (!strcmp(v, "detailed") || !strcmp(v, "verbose"));
}

/* As TensorRT's inspector names them. */
static const char *dtype_text(cm_dtype t)
{
    static const struct {
        cm_dtype dtype;
        const char *text;
    } names[] = {{CM_F32, "FP32"},  {CM_F16, "FP16"},  {CM_BF16, "BF16"}, {CM_I8, "Int8"},
                 {CM_I32, "Int32"}, {CM_I64, "Int64"}, {CM_BOOL, "Bool"}, {CM_U8, "UINT8"}};
    for (int i = 0; i < CM_COUNT(names); i++)
        if (names[i].dtype == t)
            return names[i].text;
    return cm_dtype_name(t);
}

/* The tensors among a step's operands, weights left out as TensorRT does. */
static json_t *operands_json(const cm_plan *p, int n, const cm_operand *operands)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        const cm_plan_value *v = operands[i].value < 0 ? NULL : &p->values[operands[i].value];
        if (!v || v->storage == CM_STORE_CONSTANT || v->type.kind != CM_TENSOR)
            continue;
        char format[64];
        json_t *dims = json_array();
        for (int a = 0; a < v->type.rank; a++) {
            int64_t size = -1;
            if (!cm_dim_is_const(p->dims, v->type.dims[a], &size))
                size = -1;
            json_array_append_new(dims, json_integer(size));
        }
        snprintf(format, sizeof format, "Row major linear %s", dtype_text(v->type.dtype));
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:o, s:s}", "Name", v->name, "Location", "Host",
                                        "Dimensions", dims, "Format/Datatype", format));
    }
    return list;
}

static json_t *layer_json(cm_ctx *cx, const cm_trt *t, int step)
{
    const cm_plan *p = cm_engine_plan(t->model.engine);
    const cm_plan_step *s = cm_engine_step(t->model.engine, step);
    cm_layer_facts f = {0};
    cm_buf from;
    cm_buf_init(&from, cx->allocator);
    for (int i = 0; i < s->n_from; i++)
        cm_buf_printf(&from, "[ONNX Layer: %s]", s->from[i]);
    if (t->subject.n)
        cm_context_layer(t->subject.contexts[0], step, &f);
    json_t *o = json_pack("{s:s, s:s, s:o, s:o, s:s?, s:i, s:s}", "Name", s->name, "LayerType",
                          s->op ? s->op : "", "Inputs", operands_json(p, s->n_in, s->in), "Outputs",
                          operands_json(p, s->n_out, s->out), "TacticName", f.tactic, "StreamId", 0,
                          "Metadata", cm_buf_text(&from));
    cm_buf_deinit(&from);
    return o;
}

cm_status cm_trt_export_layers(cm_ctx *cx, const cm_trt *t, const char *path)
{
    const cm_engine *e = t->model.engine;
    json_t *layers = json_array(), *bindings = json_array();
    for (int i = 0; i < cm_engine_n_steps(e); i++)
        json_array_append_new(layers, cm_trt_detailed(t) ? layer_json(cx, t, i)
                                                         : json_string(cm_engine_step(e, i)->name));
    for (int i = 0; i < cm_engine_n_inputs(e); i++)
        json_array_append_new(bindings, json_string(cm_engine_input_name(e, i)));
    for (int i = 0; i < cm_engine_n_outputs(e); i++)
        json_array_append_new(bindings, json_string(cm_engine_output_name(e, i)));
    return write_json(cx, path, json_pack("{s:o, s:o}", "Layers", layers, "Bindings", bindings));
}
