/* model.h -- what most verbs start with: a model or a plan, opened; inputs; shapes from options.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_MODEL_H
#define CM_CLI_MODEL_H

#include "api/recipe.h"
#include "cli/cli.h"
#include "onnx/onnx.h"
#include "runtime/runtime.h"

/* A file opened: a plan, or a model (then `network` is set). */
typedef struct cm_model {
    cm_arena arena; /* of the network */
    cm_onnx_source *source;
    cm_network *network; /* NULL: the file is a plan */
    cm_buf plan;         /* a model's plan, built in memory */
    cm_engine *engine;
    double import_seconds, build_seconds, open_seconds;
} cm_model;

/* Options that every verb with a model takes. */
typedef struct cm_model_options {
    cm_texts dims;         /* NAME=N */
    cm_texts shapes;       /* INPUT=1x3x224x224 */
    cm_texts outputs;      /* extra outputs */
    cm_texts only_outputs; /* the outputs to keep; none: all */
    const char *precision; /* NULL: fp32 */
    cm_texts keep_fp32;    /* nodes that stay in float32 */
    int64_t threads;
    const char *target; /* NULL: the CPU */
    const char *isa;    /* NULL: what the CPU has */
    int64_t max_memory; /* MB; 0: no limit */
    bool no_optimise;
    int64_t stop_after_rewrite;              /* 0: never */
    const char *stop_after;                  /* the last pass to run */
    cm_texts plugins;                        /* libraries; main.c loads them */
    const struct cm_weight_source *stripped; /* no option: for a model that lacks weights */
} cm_model_options;

/* clang-format off */
#define CM_PLUGINS_OPTION(type, field)                                                             \
    {"plugins", "LIBS", "shared libraries with operators of your own", CM_OPT_PLUGINS,             \
     offsetof(type, field)}
#define CM_MODEL_OPTIONS(type, field)                                                              \
    CM_PLUGINS_OPTION(type, field.plugins),                                                        \
    {"dim", "NAME=N", "fix a symbolic dim", CM_OPT_TEXTS, offsetof(type, field.dims)},             \
    {"shape", "INPUT=AxBxC", "give an input a shape", CM_OPT_TEXTS, offsetof(type, field.shapes)}, \
    {"outputs", "NAMES", "values to hand out besides the model's outputs", CM_OPT_TEXTS,           \
     offsetof(type, field.outputs)},                                                               \
    {"only-outputs", "NAMES", "outputs to keep; what only others need is dropped", CM_OPT_TEXTS,     \
     offsetof(type, field.only_outputs)},                                                          \
    {"precision", "P", "fp32, tf32, fp16 or bf16 (build: or auto)", CM_OPT_TEXT,                   \
     offsetof(type, field.precision)},                                                             \
    {"keep-fp32", "NODES", "nodes that stay in float32 whatever --precision says", CM_OPT_TEXTS,   \
     offsetof(type, field.keep_fp32)},                                                             \
    {"threads", "N", "threads to run with (0: one per core)", CM_OPT_INT,                          \
     offsetof(type, field.threads)},                                                               \
    {"target", "TARGET", "where to run: cpu, cuda or cuda:1 (default cpu)", CM_OPT_TEXT,           \
     offsetof(type, field.target)},                                                                \
    {"isa", "LEVEL", "use no more than generic, avx2, avx512 or amx", CM_OPT_TEXT,                \
     offsetof(type, field.isa)},                                                                   \
    {"max-memory", "MB", "no more for activations and packed weights", CM_OPT_INT,                \
     offsetof(type, field.max_memory)},                                                            \
    {"no-optimise", NULL, "build the network as it is written", CM_OPT_FLAG,                       \
     offsetof(type, field.no_optimise)},                                                           \
    {"stop-after", "PASS", "stop the optimiser after this pass", CM_OPT_TEXT,                      \
     offsetof(type, field.stop_after)},                                                            \
    {"stop-after-rewrite", "N", "stop the optimiser after N rewrites", CM_OPT_INT,                 \
     offsetof(type, field.stop_after_rewrite)}
/* clang-format on */

/* What the options say about importing and compiling, with the text that a plan keeps of it. */
cm_status cm_model_recipe(cm_ctx *cx, const cm_model_options *o, cm_recipe *out) CM_MUST_USE;
/* The compiler's options as the verb's options say; fails on an unknown pass. */
cm_status cm_model_compile_options(cm_ctx *cx, const cm_model_options *o,
                                   cm_compile_options *out) CM_MUST_USE;

/* How contexts run, as the options say; `target` is filled in and pointed to. */
cm_status cm_model_context_options(cm_ctx *cx, const cm_model_options *o, cm_target *target,
                                   cm_context_options *out) CM_MUST_USE;

bool cm_is_plan(const void *bytes, size_t n);
cm_status cm_is_plan_file(cm_ctx *cx, const char *path, bool *out) CM_MUST_USE;
/* Import only; the engine stays NULL. Fails on a plan. */
cm_status cm_model_import(cm_ctx *cx, const char *path, const cm_model_options *o,
                          cm_model *out) CM_MUST_USE;
/* Import and build, or open a plan: the engine is ready. cm_model_close also after a failure. */
cm_status cm_model_open(cm_ctx *cx, const char *path, const cm_model_options *o,
                        cm_model *out) CM_MUST_USE;
void cm_model_close(cm_model *m);

/* Data for a context's inputs, in the verb's arena. */
typedef struct cm_inputs {
    int n;
    cm_datum *datum; /* kind CM_NOTHING: not given yet */
} cm_inputs;
/* Shapes given as --shape for engines made from plans: dims of input i into dims, or false. */
cm_status cm_inputs_create(cm_ctx *cx, const cm_engine *e, cm_inputs *in) CM_MUST_USE;
/* FILE is .npy or .pb for one input; .npz for several, by name or else in order. */
cm_status cm_inputs_add_file(cm_ctx *cx, const cm_engine *e, cm_inputs *in, const char *name,
                             const char *path) CM_MUST_USE;
/* Fill in what was not given. Symbolic dims take the value of --dim, else 1, with a warning where they are no batch. */
cm_status cm_inputs_random(cm_ctx *cx, const cm_engine *e, const cm_model_options *o, uint64_t seed,
                           cm_inputs *in) CM_MUST_USE;
/* Data for a network that has no engine yet: from `file` (NULL: none), the rest from the seed. */
cm_status cm_inputs_of_network(cm_ctx *cx, cm_network *g, const cm_model_options *o,
                               const char *file, uint64_t seed, cm_inputs *in) CM_MUST_USE;
cm_status cm_inputs_set(cm_ctx *cx, cm_context *c, const cm_inputs *in) CM_MUST_USE;

#endif
