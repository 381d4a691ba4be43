/* compare.h -- two models, plans or files of results on the same inputs, and where they part.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_COMPARE_H
#define CM_CLI_COMPARE_H

#include <jansson.h>

#include "cli/model.h"
#include "runtime/report.h"

/* ---- compare_error.c: two tensors ---------------------------------------------------------------- */

/* Errors relative to the scale by decades: bin 0 has those that are 0, bin k those below 10^(k - 8), the last
 * the rest. */
enum { CM_ERROR_BINS = 10, CM_ERROR_LOWEST = -7 };

/* `b` beside `a`, which is taken for right. */
typedef struct cm_error {
    bool comparable; /* same shape, numbers; else `why` */
    char why[96];
    int64_t n, differ;        /* elements; those that are not equal */
    int64_t broken;           /* elements where one is finite and the other is not */
    double scale;             /* largest finite magnitude of a */
    double max_abs, mean_abs; /* of the finite ones */
    double max_rel, mean_rel; /* by |a|, at least a millionth of the scale */
    double cosine, snr_db;    /* SNR is INFINITY when they are equal */
    double distance;          /* max_abs by scale; INFINITY: broken or not comparable */
    int64_t worst;            /* element of max_abs */
    double worst_a, worst_b;
    int64_t bins[CM_ERROR_BINS];
} cm_error;

void cm_error_measure(const cm_tensor *a, const cm_tensor *b, cm_error *out);

/* ---- compare_side.c: one of the two ------------------------------------------------------------- */

typedef struct cm_side {
    const char *path;
    char label; /* 'A' or 'B' */
    cm_model_options model;
    cm_target target;
    cm_context_options how;
    bool saved; /* results from a file: no engine */
    cm_model opened;
    cm_engine *engine;
    cm_context *context; /* after it ran */
    cm_arena arena;      /* of everything below */
    int n_outputs;
    const char **output_names;
    cm_datum *outputs;
    const bool *wanted; /* per value of the plan: to keep; NULL: none */
    cm_tensor *kept;    /* per value; rank -1: not there. Dense copies */
    cm_status kept_status;
} cm_side;

/* A plan, a model, or an .npz file. `s` has label, model options and `target` (NULL: as the options say) filled in; to be closed
 * also after a failure. */
cm_status cm_side_open(cm_ctx *cx, const char *path, const char *target, cm_side *s) CM_MUST_USE;
/* Run on inputs that were made for `from` (itself or the other one); they go by name, else by place. */
cm_status cm_side_run(cm_ctx *cx, cm_side *s, const cm_side *from, const cm_inputs *in) CM_MUST_USE;
void cm_side_close(cm_side *s);
/* A tensor of the same elements in another type, in `arena`. */
cm_status cm_tensor_cast(cm_ctx *cx, cm_arena *arena, const cm_tensor *t, cm_dtype to,
                         cm_tensor *out) CM_MUST_USE;

/* ---- compare_layers.c: where they part ----------------------------------------------------------- */

/* A value of A and one of B that cover the same ONNX nodes. */
typedef struct cm_pair {
    int value[2], step[2]; /* of A, of B */
    cm_error error;
    bool diverges;
    bool heals;   /* diverges, and nothing that is made of it does: another form of the same */
    int n_before; /* pairs that it is made of */
    const int *before;
} cm_pair;

typedef struct cm_pairs {
    int n; /* in the order in which B makes them */
    cm_pair *v;
    int n_layers[2];
} cm_pairs;

/* What made the first pair that diverges so. */
typedef struct cm_verdict {
    int first; /* -1: none diverges */
    enum { CM_CAUSE_UNKNOWN, CM_CAUSE_ITSELF, CM_CAUSE_INPUTS } cause;
    cm_error alone;   /* A's nodes on B's inputs, beside what B made of them */
    int worst_before; /* the input that is furthest off; -1: none */
    int n_steps;      /* A's steps between those inputs and here */
    const int *steps;
    char why_unknown[256];
} cm_verdict;

/* Match layers by the nodes that they cover; sides need not have run. Sets their `wanted`. */
cm_status cm_pairs_match(cm_ctx *cx, cm_side *a, cm_side *b, cm_pairs *out) CM_MUST_USE;
/* After both ran. */
cm_status cm_pairs_measure(cm_ctx *cx, const cm_side *a, const cm_side *b, double tolerance,
                           cm_pairs *p, cm_verdict *out) CM_MUST_USE;

/* ---- compare_print.c ----------------------------------------------------------------------------- */

typedef struct cm_compared {
    const cm_side *side[2];
    double tolerance;
    int n_outputs;
    const char **names;
    cm_error *errors;
    const cm_pairs *pairs; /* NULL: only outputs */
    const cm_verdict *verdict;
    bool histogram;
} cm_compared;

void cm_compared_print(const cm_compared *c);
json_t *cm_compared_json(const cm_compared *c);

#endif
