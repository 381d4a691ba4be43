/* plan.h -- a plan in memory, and the file it is written to and mapped from.
 * SPDX-License-Identifier: Apache-2.0
 *
 * docs/plan-format.md describes the bytes. Everything here is read-only once opened; names, lists and
 * small tables are in the reader's arena, weights stay in the mapping. Indices are checked on open:
 * code that walks an opened plan need not check them again. */
#ifndef CM_PLAN_PLAN_H
#define CM_PLAN_PLAN_H

#include "base/file.h"
#include "plan/packing.h"
#include "plan/program.h"
#include "plan/tactic.h"

/* Where a value's memory comes from. */
typedef enum {
    CM_STORE_ARENA,    /* the context's arena, when its size is known once inputs are bound; else
                          a buffer of its own that only grows */
    CM_STORE_CONSTANT, /* the plan's weights section, mapped */
    CM_STORE_INPUT,    /* bound by the caller: an input of the main step list */
} cm_storage;

typedef struct cm_plan_value {
    const char *name;
    cm_type type; /* symbolic */
    cm_storage storage;
    uint64_t offset, bytes; /* CONSTANT: in the weights section; sub-byte types packed */
    const cm_dim *elems;    /* tracked elements, NULL when not: lets shapes be known at bind time */
    int n_elems;
    int32_t weight; /* CONSTANT: index of its weight recipe, -1: none */
} cm_plan_value;

/* A weight of the model that a constant is, unchanged. Constants that were computed from weights have
 * none: what gives them again is the build section, by which the model is built anew (api/refit.h). */
typedef struct cm_plan_weight {
    const char *name;
} cm_plan_weight;

/* How a model became this plan: options by name (api/recipe.h), so that refitting can do it again. */
typedef struct cm_plan_option {
    const char *name, *value;
} cm_plan_option;

typedef struct cm_plan_build {
    int n_options;
    const cm_plan_option *options;
    uint64_t
        weights_checksum; /* of the weights as built, also when they were left out; set by reading */
} cm_plan_build;

typedef enum {
    CM_STEP_PROBLEM = 0, /* solve `problem` */
    CM_STEP_IF = 1,      /* in: cond. lists: then, else */
    CM_STEP_LOOP = 2,    /* in: trip count, cond, carried... lists: body */
    CM_STEP_SCAN = 3,    /* in: states, scanned. lists: body. attr: scan's */
    CM_STEP_MAP = 4,     /* in: sequence, others. lists: body */
    CM_STEP_COPY = 5,    /* in[0] to out[0], between devices or layouts */
} cm_step_kind;

typedef struct cm_plan_step {
    cm_step_kind kind;
    cm_problem_kind problem;
    const char *op;         /* operator's name */
    const void *attr_bytes; /* as ops/attr.h writes them */
    size_t attr_n;
    cm_epilogue epilogue; /* its operands are the last ones of `in` */
    int n_in, n_out;
    const cm_operand *in, *out;
    int n_lists;
    const int32_t *lists; /* step lists of a control step */
    const char *name;     /* layer name for reports */
    int n_from;
    const char *const *from; /* ONNX nodes covered */
} cm_plan_step;

/* A list of steps with its own inputs and outputs; list 0 is the main one. */
typedef struct cm_plan_list {
    int n_inputs, n_outputs;
    const int32_t *inputs, *outputs; /* value indices; a captured value may be an output */
    const char *const *output_names; /* main list: what the user calls them */
    int n_steps;
    const cm_plan_step *steps;
    int n_captures;
    const int32_t *captures; /* values of outer lists that this one reads, nested ones counted in */
} cm_plan_list;

/* One precision and fusion choice. */
typedef struct cm_plan_variant {
    const char *name; /* "default"; "tf32": products of float32 may shorten their operands */
    int n_lists;
    const cm_plan_list *lists;
} cm_plan_variant;

/* Choices for one machine class. Unknown ones are kept as bytes and ignored. */
typedef struct cm_plan_target {
    cm_target target;
    int32_t variant;
    const void *bytes;
    size_t n;
} cm_plan_target;

/* A section's text (measurements) and what follows it behind a zero byte (compiled kernels). */
size_t cm_plan_target_text(const cm_plan_target *t);
const void *cm_plan_target_images(const cm_plan_target *t, size_t *n); /* NULL: none */

/* A constant as a tactic wants it. Where the packing can be undone, the weights section holds it in place of
 * the plain form; else besides, as the bytes of a constant that no step reads. */
typedef struct cm_plan_packed {
    int32_t value, stored;              /* the same: in place */
    int32_t variant, list, step, input; /* whose operand it is */
    const char *tactic;
    cm_knobs knobs;
    const cm_packing *packing; /* how to undo it; NULL: besides */
} cm_plan_packed;

/* An input and an output that may share a buffer (key/value caches). */
typedef struct cm_plan_alias {
    int32_t input, output; /* indices in the main list's inputs and outputs */
} cm_plan_alias;

/* An operator that a plugin brings. */
typedef struct cm_plan_plugin {
    const char *op, *plugin; /* "my.domain.Norm", "fused_norm 1.0" */
} cm_plan_plugin;

typedef struct cm_plan {
    const char *producer; /* "cameo 0.1.0" */
    const char *model_name;
    cm_dim_table *dims;
    int n_values;
    const cm_plan_value *values;
    int n_weights;
    const cm_plan_weight *weights;
    int n_variants; /* >= 1; 0 is the default */
    const cm_plan_variant *variants;
    int n_targets;
    const cm_plan_target *targets;
    int n_aliases;
    const cm_plan_alias *aliases;
    int n_packed;
    const cm_plan_packed *packed; /* by value, rising */
    cm_target packed_for;
    uint64_t packed_by; /* the kernels: others may pack otherwise */
    const unsigned char *weights_data;
    uint64_t weights_bytes; /* with the weights left out too: what they take */
    uint64_t weights_checksum;
    int n_plugins;
    const cm_plan_plugin *plugins;
    const cm_plan_build *build; /* NULL: not made from a model's file */
    bool stripped; /* the weights are left out, weights_data is NULL; only with `build` */
} cm_plan;

/* The entry of a constant that has no plain form, else NULL. */
const cm_plan_packed *cm_plan_packed_of(const cm_plan *p, int32_t value);
/* Without what is stored beside plain constants, which are the last values: the entries go too. */
void cm_plan_drop_besides(cm_plan *p);
/* Pack the constants of `p` as those of `like`, the same network, are packed in place: *constants becomes the
 * list to write. Tables and bytes are in `arena`. */
cm_status cm_plan_pack_like(cm_ctx *cx, cm_arena *arena, const cm_plan *like, cm_plan *p,
                            const cm_tensor *const **constants) CM_MUST_USE;

/* Where constant data comes from while writing, one entry per CONSTANT value in order of value index (one
 * that is packed: its bytes, as u8); `offset` in the value is filled in by the writer. */
cm_status cm_plan_write_file(cm_ctx *cx, const cm_plan *p, const cm_tensor *const *constants,
                             const char *path) CM_MUST_USE;
cm_status cm_plan_write_memory(cm_ctx *cx, const cm_plan *p, const cm_tensor *const *constants,
                               cm_buf *out) CM_MUST_USE;

/* Read from bytes that outlive the plan. Every section but the weights is checksummed, every offset
 * and count checked. The plan lives in `arena`. */
cm_status cm_plan_read(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n,
                       cm_plan **out) CM_MUST_USE;
/* Are two plans the same network but for the bytes of their constants? Else CM_ERR_MODEL says where `b` is
 * another one; names of layers and of inner values may differ. */
cm_status cm_plan_same(cm_ctx *cx, const cm_plan *a, const cm_plan *b) CM_MUST_USE;
/* Reads all weights. */
cm_status cm_plan_verify_weights(cm_ctx *cx, const cm_plan *p) CM_MUST_USE;
/* The sentence for those who need the weights of a plan that has none. */
cm_status cm_plan_fail_stripped(cm_ctx *cx) CM_MUST_USE;
uint64_t cm_checksum(const void *p, size_t n); /* what the sections carry */

#endif
