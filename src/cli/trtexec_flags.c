/* trtexec_flags.c -- trtexec's flags: those that change nothing here, those to write otherwise, and
 * the values that have a syntax of their own.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/trtexec.h"

static const struct {
    const char *flag, *sentence;
} instead[] = {
    {"deploy", "networks come as ONNX, with --onnx=FILE"},
    {"model", "networks come as ONNX, with --onnx=FILE"},
    {"uff", "networks come as ONNX, with --onnx=FILE"},
    {"uffInput", "networks come as ONNX, with --onnx=FILE"},
    {"uffNHWC", "networks come as ONNX, with --onnx=FILE"},
    {"output", "the outputs are the model's own; `cameo build --only-outputs NAMES` keeps some"},
    {"batch", "batches are explicit: --shapes=input:8x3x224x224"},
    {"maxBatch", "batches are explicit: --shapes=input:8x3x224x224"},
    {"calib", "quantise the model with QuantizeLinear and DequantizeLinear nodes instead"},
    {"calibProfile", "quantise the model with QuantizeLinear and DequantizeLinear nodes instead"},
    {"minShapesCalib", "quantise the model with QuantizeLinear and DequantizeLinear nodes instead"},
    {"optShapesCalib", "quantise the model with QuantizeLinear and DequantizeLinear nodes instead"},
    {"maxShapesCalib", "quantise the model with QuantizeLinear and DequantizeLinear nodes instead"},
    {"useDLACore", "there is no DLA; leave it out to use the CPU"},
    {"allowGPUFallback", "there is no DLA; leave it out to use the CPU"},
    {"buildDLAStandalone", "there is no DLA; leave it out to use the CPU"},
    {"uint8AsymmetricQuantizationDLA", "there is no DLA; leave it out to use the CPU"},
    {"inputIOFormats", "inputs are dense, row-major and of the model's own types; `cameo edit` "
                       "changes a model"},
    {"outputIOFormats", "outputs are dense, row-major and of the model's own types; `cameo edit` "
                        "changes a model"},
    {"layerOutputTypes", "name the layers to keep in float32 with --layerPrecisions=NAME:fp32"},
    {"layerDeviceTypes", "every layer runs on the CPU; leave it out"},
    {"plugins", "TensorRT plugins cannot be loaded; Cameo has its own kind (docs/plugins.md)"},
    {"staticPlugins",
     "TensorRT plugins cannot be loaded; Cameo has its own kind (docs/plugins.md)"},
    {"dynamicPlugins",
     "TensorRT plugins cannot be loaded; Cameo has its own kind (docs/plugins.md)"},
    {"setPluginsToSerialize", "a plan holds no plugins; leave it out"},
    {"markDebug", "`cameo run MODEL --outputs NAMES --output FILE.npz` keeps values inside"},
    {"markUnfusedTensorsAsDebugTensors",
     "`cameo run MODEL --outputs NAMES --output FILE.npz` keeps values inside"},
    {"saveDebugTensors", "`cameo run MODEL --outputs NAMES --output FILE.npz` keeps values inside"},
    {"saveAllDebugTensors",
     "`cameo run MODEL --outputs NAMES --output FILE.npz` keeps values inside"},
    {"safe", "there is no safety runtime; leave it out"},
    {"consistency", "there is no safety runtime; leave it out"},
    {"dumpRefit", "`cameo inspect PLAN --weights` lists the weights"},
    {"dumpRawBindingsToFile", "use --exportOutput=FILE, or `cameo run --output FILE.npz`"},
    {"remoteAutoTuningConfig", "a plan is made without the machine that it is for; leave it out"},
    {"cpuOnly", "a CPU is what is used in any case; leave it out"},
};

const char *cm_trt_instead(const char *flag)
{
    for (int i = 0; i < CM_COUNT(instead); i++)
        if (!strcmp(instead[i].flag, flag))
            return instead[i].sentence;
    return NULL;
}

void cm_trt_say_idle(const cm_trt_options *o)
{
#define X(name, why)                                                                               \
    if (o->idle.name)                                                                              \
        cm_trt_say('I', "--%s changes nothing: %s", #name, why);
    CM_TRT_IDLE_FLAGS(X)
#undef X
#define X(name, arg, why)                                                                          \
    if (o->idle_value.name)                                                                        \
        cm_trt_say('I', "--%s changes nothing: %s", #name, why);
    CM_TRT_IDLE_VALUES(X)
#undef X
}

/* ---- Lists of NAME:VALUE ----------------------------------------------------------------------- */

/* The next entry of a list divided by commas: name and value, split at the last colon, the name
 * without the quotes that it may have. *at moves on. */
static cm_status next_entry(cm_ctx *cx, const char *flag, const char **at, const char **name,
                            const char **value)
{
    const char *begin = *at, *colon = NULL, *p = begin;
    for (bool quoted = false; *p && (quoted || *p != ','); p++) {
        quoted ^= *p == '\'';
        if (*p == ':' && !quoted)
            colon = p;
    }
    *at = *p ? p + 1 : p;
    if (!colon || colon == begin || colon + 1 == p)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--%s=%.*s: wanted NAME:VALUE", flag, (int)(p - begin),
                       begin);
    size_t n = (size_t)(colon - begin);
    if (n >= 2 && begin[0] == '\'' && begin[n - 1] == '\'') {
        begin++;
        n -= 2;
    }
    *name = cm_arena_strndup(cx->arena, begin, n);
    *value = cm_arena_strndup(cx->arena, colon + 1, (size_t)(p - colon - 1));
    return *name && *value ? CM_OK : cm_fail_memory(cx);
}

static int count_entries(const char *text)
{
    int n = 1;
    for (; *text; text++)
        n += *text == ',';
    return n;
}

/* Sizes divided by x, and nothing else. */
static bool is_shape(const char *s)
{
    bool digit = false;
    for (; *s; s++) {
        if (*s == 'x' && !digit)
            return false;
        digit = *s >= '0' && *s <= '9';
        if (!digit && *s != 'x')
            return false;
    }
    return digit;
}

cm_status cm_trt_parse_shapes(cm_ctx *cx, const char *flag, const char *text, cm_texts *out)
{
    *out = (cm_texts){0};
    CM_NEW_N(cx, cx->arena, out->v, count_entries(text), const char *);
    while (*text) {
        const char *name, *value;
        CM_TRY(next_entry(cx, flag, &text, &name, &value));
        if (!is_shape(value))
            return cm_fail(cx, CM_ERR_ARGUMENT, "--%s=%s:%s: wanted NAME:1x3x224x224", flag, name,
                           value);
        out->v[out->n] = cm_arena_printf(cx->arena, "%s=%s", name, value);
        if (!out->v[out->n++])
            return cm_fail_memory(cx);
    }
    return CM_OK;
}

cm_status cm_trt_parse_precisions(cm_ctx *cx, const char *text, cm_texts *keep)
{
    *keep = (cm_texts){0};
    CM_NEW_N(cx, cx->arena, keep->v, count_entries(text), const char *);
    while (*text) {
        const char *name, *value;
        CM_TRY(next_entry(cx, "layerPrecisions", &text, &name, &value));
        if (!strcmp(value, "fp32"))
            keep->v[keep->n++] = name;
        else
            cm_trt_say('W',
                       "--layerPrecisions: '%s' follows --fp16 or --bf16; only fp32 is set "
                       "layer by layer",
                       name);
    }
    return CM_OK;
}

/* ---- Inputs ------------------------------------------------------------------------------------ */

static bool has_format(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (!strcmp(dot, ".npy") || !strcmp(dot, ".npz") || !strcmp(dot, ".pb"));
}

/* Bytes of a tensor as they lie in a file, as trtexec takes them; the shape is known already. */
static cm_status load_raw(cm_ctx *cx, const cm_engine *e, cm_inputs *in, const char *name,
                          const char *path)
{
    int i = cm_engine_find_input(e, name);
    if (i < 0)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--loadInputs: the model has no input '%s'", name);
    cm_datum *d = &in->datum[i];
    cm_mapping m;
    size_t bytes;
    if (d->kind != CM_TENSOR || d->tensor.dtype == CM_STR || !cm_tensor_bytes(&d->tensor, &bytes))
        return cm_fail(cx, CM_ERR_ARGUMENT, "--loadInputs: '%s' cannot come as bytes", name);
    CM_TRY(cm_file_map(cx, path, &m));
    if (m.n != bytes)
        return cm_fail(cx, CM_ERR_ARGUMENT, "%s has %zu bytes; input '%s' wants %zu", path, m.n,
                       name, bytes);
    if (bytes)
        memcpy(d->tensor.data, m.data, bytes);
    cm_file_unmap(&m);
    return CM_OK;
}

static cm_status load_files(cm_ctx *cx, cm_trt *t, bool raw)
{
    for (const char *at = t->o->load_inputs; at && *at;) {
        const char *name, *path;
        CM_TRY(next_entry(cx, "loadInputs", &at, &name, &path));
        if (raw == has_format(path))
            continue;
        CM_TRY(raw ? load_raw(cx, t->model.engine, &t->in, name, path)
                   : cm_inputs_add_file(cx, t->model.engine, &t->in, name, path));
    }
    return CM_OK;
}

/* A name in --shapes that the model does not have is a mistake, not nothing. */
static cm_status check_names(cm_ctx *cx, const cm_trt *t)
{
    for (int i = 0; i < t->model_options.shapes.n; i++) {
        const char *text = t->model_options.shapes.v[i], *equals = strrchr(text, '=');
        const char *name = cm_arena_strndup(cx->arena, text, (size_t)(equals - text));
        if (!name)
            return cm_fail_memory(cx);
        if (cm_engine_find_input(t->model.engine, name) < 0)
            return cm_fail(cx, CM_ERR_ARGUMENT, "--%s: the model has no input '%s'",
                           t->o->shapes ? "shapes" : "optShapes", name);
    }
    return CM_OK;
}

static bool mentioned(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p && (p = strstr(p, name)); p += n)
        if (p[n] == ':' || (p[n] == '\'' && p[n + 1] == ':'))
            return true;
    return false;
}

cm_status cm_trt_inputs(cm_ctx *cx, cm_trt *t)
{
    const cm_engine *e = t->model.engine;
    CM_TRY(check_names(cx, t));
    CM_TRY(cm_inputs_create(cx, e, &t->in));
    CM_TRY(load_files(cx, t, false));
    CM_TRY(cm_inputs_random(cx, e, &t->model_options, 0, &t->in));
    CM_TRY(load_files(cx, t, true));
    for (int i = 0; i < t->in.n; i++) {
        const char *name = cm_engine_input_name(e, i);
        const cm_type *type = cm_engine_input_type(e, i);
        const cm_tensor *x = &t->in.datum[i].tensor;
        char dims[256];
        if (t->in.datum[i].kind != CM_TENSOR)
            continue;
        bool dynamic = false;
        int64_t size;
        for (int a = 0; a < type->rank; a++)
            dynamic = dynamic || !cm_dim_is_const(cm_engine_plan(e)->dims, type->dims[a], &size);
        cm_trt_dims(dims, sizeof dims, x->rank, x->dims);
        if (dynamic && !mentioned(t->o->shapes, name) && !mentioned(t->o->opt_shapes, name) &&
            !mentioned(t->o->load_inputs, name))
            cm_trt_say('W',
                       "Dynamic dimensions required for input: %s, but no shapes were provided. "
                       "Automatically overriding shape to: %s",
                       name, dims);
        cm_trt_say('I',
                   mentioned(t->o->load_inputs, name) ? "Using values loaded from file for input %s"
                                                      : "Using random values for input %s",
                   name);
        cm_trt_say('I', "Input binding for %s with dimensions %s is created.", name, dims);
    }
    return CM_OK;
}
