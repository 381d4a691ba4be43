/* trtexec_flags.c -- trtexec's flags: those that change nothing here, those to write otherwise, and
 * the values that have a syntax of their own.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/trtexec.h"

#define NO_DLA "DLA is not used; leave it out to use the GPU, or the CPU where there is none"
#define TUNING "`cameo tune PLAN --tune full --tune-budget 60s` spends more time on a plan"

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
    {"useDLACore", NO_DLA},
    {"allowGPUFallback", NO_DLA},
    {"buildDLAStandalone", NO_DLA},
    {"uint8AsymmetricQuantizationDLA", NO_DLA},
    {"reportCapabilityDLA", NO_DLA},
    {"adjustForDLA", NO_DLA},
    {"layerOutputTypes", "name the layers to keep in float32 with --layerPrecisions=NAME:fp32"},
    {"layerDeviceTypes", "every layer runs where it can, on the GPU first; leave it out"},
    {"setPluginsToSerialize",
     "a plan holds no plugins: give --dynamicPlugins=LIB when it is loaded, too"},
    {"safetyPlugins", "there is no safety runtime; --staticPlugins=LIB loads a plugin of Cameo's"},
    {"enablePluginOverride", "an operator that Cameo has cannot be replaced: give yours a domain"},
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
    {"dumpKernelText", "the text of kernels is in src/cuda/kernels; `cameo explain` names them"},
    {"refitFromOnnx", "`cameo refit PLAN --from MODEL` puts the weights in"},
    {"loadRefOutputs", "`cameo compare MODEL outputs.npz --inputs inputs.npz --tolerance T`"},
    {"refPair", "`cameo compare MODEL outputs.npz --inputs inputs.npz --tolerance T`"},
    {"accuracyAlgorithm", "`cameo compare` prints all of its measures"},
    {"accuracyThreshold", "`cameo compare MODEL outputs.npz --inputs inputs.npz --tolerance T`"},
    {"atol", "`cameo compare MODEL outputs.npz --inputs inputs.npz --tolerance T`"},
    {"rtol", "`cameo compare MODEL outputs.npz --inputs inputs.npz --tolerance T`"},
    {"tuneBuildRoutes", TUNING},
    {"tuneBuildRouteFile", TUNING},
    {"tuningSearch", TUNING},
    {"tuningCacheFile", TUNING},
    {"tuningTimeOut", TUNING},
    {"saveAllEngines", TUNING},
    {"dryRun", TUNING},
    {"continue", TUNING},
    {"helpBuildRoute", TUNING},
    {"setBuildRoute", TUNING},
};

const char *cm_trt_instead(const char *flag)
{
    for (int i = 0; i < CM_COUNT(instead); i++)
        if (!strcmp(instead[i].flag, flag))
            return instead[i].sentence;
    return NULL;
}

bool cm_trt_instead_at(int i, const char **flag, const char **sentence)
{
    if (i < 0 || i >= CM_COUNT(instead))
        return false;
    *flag = instead[i].flag;
    *sentence = instead[i].sentence;
    return true;
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
    const char *begin = *at + strspn(*at, " "), *colon = NULL, *p = begin;
    for (bool quoted = false; *p && (quoted || *p != ','); p++) {
        quoted ^= *p == '\'';
        if (*p == ':' && !quoted)
            colon = p;
    }
    *at = *p ? p + 1 : p;
    if (!colon || colon == begin)
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
        if (!strcmp(value, "scalar"))
            value = "";
        if (*value && !is_shape(value))
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

/* ---- Formats ----------------------------------------------------------------------------------- */

/* One of "chw", "chw+hwc8" (the first is taken), "fp32:chw". */
static cm_status check_format(cm_ctx *cx, const char *flag, const char *text, size_t n,
                              const char *name, const cm_type *type)
{
    static const struct {
        const char *word;
        cm_dtype dtype;
    } types[] = {{"fp32", CM_F32},  {"fp16", CM_F16},  {"bf16", CM_BF16},
                 {"int32", CM_I32}, {"int64", CM_I64}, {"int8", CM_I8},
                 {"uint8", CM_U8},  {"bool", CM_BOOL}, {"fp8", CM_F8E4M3FN}};
    const char *colon = memchr(text, ':', n), *format = colon ? colon + 1 : text;
    size_t length = (size_t)(text + n - format), word = colon ? (size_t)(colon - text) : 0;
    if (length < 3 || strncmp(format, "chw", 3) != 0 || (length > 3 && format[3] != '+'))
        return cm_fail(
            cx, CM_ERR_ARGUMENT,
            "--%s=%.*s: '%s' is dense and row-major, wanted chw; a Transpose in the model "
            "makes it another one",
            flag, (int)n, text, name);
    for (int i = 0; colon && i < CM_COUNT(types); i++)
        if (strlen(types[i].word) == word && !strncmp(types[i].word, text, word) &&
            types[i].dtype != type->dtype)
            return cm_fail(
                cx, CM_ERR_ARGUMENT,
                "--%s=%.*s: '%s' is of the model's own type, %s; `cameo edit cast` changes "
                "it",
                flag, (int)n, text, name, cm_dtype_name(type->dtype));
    return CM_OK;
}

static cm_status check_formats(cm_ctx *cx, const char *flag, const char *list, const cm_engine *e,
                               int n, const char *(*name)(const cm_engine *, int),
                               const cm_type *(*type)(const cm_engine *, int))
{
    bool one = list && !strchr(list, ',');
    for (int i = 0; list && i < n; i++) {
        size_t length = strcspn(list, ",");
        if (!length)
            return cm_fail(cx, CM_ERR_ARGUMENT, "--%s: wanted one format, or one for each of %d",
                           flag, n);
        CM_TRY(check_format(cx, flag, list, length, name(e, i), type(e, i)));
        list += one ? 0 : length + (list[length] == ',');
    }
    return CM_OK;
}

cm_status cm_trt_check_formats(cm_ctx *cx, const cm_trt *t)
{
    const cm_engine *e = t->model.engine;
    CM_TRY(check_formats(cx, "inputIOFormats", t->o->input_formats, e, cm_engine_n_inputs(e),
                         cm_engine_input_name, cm_engine_input_type));
    return check_formats(cx, "outputIOFormats", t->o->output_formats, e, cm_engine_n_outputs(e),
                         cm_engine_output_name, cm_engine_output_type);
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
