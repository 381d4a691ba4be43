/* edit.h -- what the files of `cameo edit` share: the options, and an edit each.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_EDIT_H
#define CM_CLI_EDIT_H

#include "cli/model.h"

typedef struct cm_edit_options {
    cm_model_options model;
    cm_texts inputs, outputs, names;
    const char *value, *node, *with; /* insert, replace */
    const char *from;                /* restore-weights */
    int64_t random;                  /* restore-weights: seed, -1: not given */
    bool external, quiet;
} cm_edit_options;

/* The value of g with that name, which may be an output's; one inside a nested graph is refused. */
cm_status cm_edit_find_value(cm_ctx *cx, const cm_network *g, const char *name,
                             cm_value **out) CM_MUST_USE;

/* Nodes in the text form, put behind a value or in place of a node. */
cm_status cm_edit_insert(cm_ctx *cx, const cm_edit_options *o, cm_network *g) CM_MUST_USE;
cm_status cm_edit_replace(cm_ctx *cx, const cm_edit_options *o, cm_network *g) CM_MUST_USE;

/* Of every four weights that are summed over, the two smallest become zero. */
cm_status cm_edit_prune(cm_ctx *cx, const cm_edit_options *o, cm_network *g) CM_MUST_USE;

/* Weights for a model that lacks them, from another model or made up. Set up before the model is imported. */
typedef struct cm_donor {
    cm_model model; /* open while the restored network lives */
    bool open;
    int64_t seed;
    cm_weight_source source;
    int n_found, n_same; /* questions answered; those with the bytes that were left out */
} cm_donor;
cm_status cm_donor_init(cm_ctx *cx, const cm_edit_options *o, cm_donor *d) CM_MUST_USE;
void cm_donor_deinit(cm_donor *d);

#endif
