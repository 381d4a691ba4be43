/* inspect.h -- facts about a model or a plan, gathered once and printed in several forms.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_INSPECT_H
#define CM_CLI_INSPECT_H

#include "ir/network.h"
#include "runtime/runtime.h"

typedef struct cm_fact_value {
    const char *name;
    const char *type;          /* as text */
    double bytes;              /* weights */
    const char *maker;         /* outputs: the value's own name */
    const cm_tensor *constant; /* weights, where their elements are at hand */
    int summed_axis;           /* weights: what readers sum over (cli/weights.h), -1: none */
} cm_fact_value;

typedef struct cm_fact_layer {
    const char *name, *op;
    int depth; /* 0: of the main list */
    int n_from;
    const char *const *from;
    int n_in, n_out;
    const char **in, **out; /* names; NULL: absent */
    const char **out_types;
} cm_fact_layer;

/* A machine class that a plan was measured or compiled for. */
typedef struct cm_fact_target {
    char name[32];
    int measurements;
    double kernel_bytes;
} cm_fact_target;

typedef struct cm_facts {
    const char *path, *name, *producer;
    double file_bytes;
    const cm_network *network; /* NULL: a plan */
    int n_inputs, n_outputs, n_layers, n_weights;
    cm_fact_value *inputs, *outputs, *weights;
    cm_fact_layer *layers;
    double weight_bytes;
    int n_targets; /* plans */
    cm_fact_target *targets;
} cm_facts;

struct cm_model_options;
/* `cameo inspect --data`: statistics of tensors in .npy, .npz and .pb files. */
cm_status cm_inspect_data(cm_ctx *cx, const char *const *paths, int n, bool json) CM_MUST_USE;
/* `--diff`: what b has other than a. Ways: how the layers run, NULL: not known. */
cm_status cm_inspect_diff(cm_ctx *cx, const cm_facts *a, cm_layer_facts *ways_a, const cm_facts *b,
                          cm_layer_facts *ways_b, bool *same) CM_MUST_USE;
/* How each layer runs with the shapes that the options give; in cx->arena. */
cm_status cm_inspect_ways(cm_ctx *cx, cm_engine *e, const struct cm_model_options *o,
                          cm_layer_facts **out) CM_MUST_USE;
/* `--memory` and `--targets`. */
cm_status cm_inspect_memory(cm_ctx *cx, cm_engine *e, const struct cm_model_options *o) CM_MUST_USE;
cm_status cm_inspect_targets(cm_ctx *cx, cm_engine *e, const struct cm_model_options *o,
                             bool layers) CM_MUST_USE;

cm_status cm_facts_of_network(cm_ctx *cx, const cm_network *g, cm_facts *f) CM_MUST_USE;
cm_status cm_facts_of_engine(cm_ctx *cx, cm_engine *e, cm_facts *f) CM_MUST_USE;
void cm_facts_print(const cm_facts *f, bool layers, bool weights);
cm_status cm_facts_json(cm_ctx *cx, const cm_facts *f) CM_MUST_USE;
cm_status cm_facts_dot(cm_ctx *cx, const cm_facts *f) CM_MUST_USE;

#endif
