/* precision.h -- which nodes may be in a small type, found by measuring.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_API_PRECISION_H
#define CM_API_PRECISION_H

#include "api/compile.h"
#include "runtime/runtime.h"

typedef struct cm_precision_job {
    /* The network as it was imported, anew each time; it is the job's until the next call. */
    cm_status (*make)(void *user, cm_ctx *cx, cm_network **out);
    /* Set the inputs of sample i. They stay valid until the search ends. */
    cm_status (*feed)(void *user, cm_ctx *cx, cm_context *c, int sample);
    void *user;
    int n_samples;
    cm_compile_options compile; /* with the small type as its precision */
    double tolerance; /* largest difference of an output, relative to its largest magnitude */
    int most_trials;  /* builds and runs to spend; 0: 200 */
    int threads;
} cm_precision_job;

/* One node, by the names of the ONNX nodes that it covers, that stays in float32. */
typedef struct cm_precision_kept {
    int n_names;
    const char **names;
    double error; /* of the outputs, were it small too */
} cm_precision_kept;

typedef struct cm_precision_result {
    int n_candidates; /* nodes that could be small */
    int n_kept;
    const cm_precision_kept *kept;
    int n_names; /* all names of the kept ones, for cm_optimise_options.keep_fp32 */
    const char **names;
    double error; /* of the outputs, with these kept */
    int n_trials;
} cm_precision_result;

/* Find a small set of nodes that must stay in float32 for every output to stay within the tolerance on the
 * samples. Parts of the network are lowered alone to see how much each moves the outputs; the worst stay,
 * then those are halved until single nodes are left. The result lives in `arena`. */
cm_status cm_precision_search(cm_ctx *cx, cm_arena *arena, const cm_precision_job *job,
                              cm_precision_result *out) CM_MUST_USE;

#endif
