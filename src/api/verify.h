/* verify.h -- does the optimiser keep a network's answers? It is run before and after each pass.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_API_VERIFY_H
#define CM_API_VERIFY_H

#include "passes/passes.h"

/* What a network answered: copies, in an arena. */
typedef struct cm_answers {
    int n;
    const char **name;
    cm_datum *out;
} cm_answers;

/* The worst place where two sets of answers differ. */
typedef struct cm_difference {
    const char *output;
    char what[160]; /* "element 17 is 3.5, was 3.25", or what changed besides elements */
    /* Relative to the output's largest magnitude, at least 1; INFINITY: the type. The worst element, and the
     * mean over an output's elements (the worst output's). */
    double distance, mean;
} cm_difference;

/* Run `g` as it is, on the reference evaluators: `in` has a datum for each input. */
cm_status cm_answer(cm_ctx *cx, cm_network *g, const cm_datum *in, int threads, cm_arena *arena,
                    cm_answers *out) CM_MUST_USE;
/* The worst difference into *out; its distance is 0 when there is none. */
void cm_answers_compare(const cm_answers *found, const cm_answers *wanted, cm_difference *out);
/* How far answers may move by `tolerance` where half-precision values are rounded on the way. */
double cm_tolerance_for(const cm_network *g, double tolerance);

/* Watches an optimisation. A pass that rounds may move an answer by what it declares, or by what roundings do to
 * this network (cm_verifier_measure) where that is more. */
typedef struct cm_verifier {
    const cm_datum *in;
    int threads;
    cm_arena arena[2]; /* the answers before the pass, and after it */
    int now;
    cm_answers wanted;
    int64_t n_rewrites;  /* when `wanted` was computed */
    cm_difference noise; /* what noise did */
    int n_quantisers;    /* how many had it before them; 0: there was noise everywhere */
    int n_checked;
} cm_verifier;

/* Run g for the first time. cm_verifier_deinit also after a failure. */
cm_status cm_verifier_init(cm_ctx *cx, cm_network *g, const cm_datum *in, int threads,
                           cm_verifier *v) CM_MUST_USE;
void cm_verifier_deinit(cm_verifier *v);
/* Measure what roundings do to the answers, on a second copy of the network, which is spoiled.
 *
 * A rounding before a quantiser may move a value by a whole step, and what is made of that by more. Where the network
 * has quantisers of known scales, each gets noise of up to half a step before it. That moves about every fourth value
 * and roundings move one in thousands: a pass may move an element as far as the noise did, but on average only
 * a fourth as far.
 *
 * Elsewhere every float that a node makes is multiplied by a number within two roundings of 1. A pass may move an
 * element four times as far as that did, unless it is over a hundredth: then indices or sizes hang on a rounding. */
cm_status cm_verifier_measure(cm_ctx *cx, cm_network *spare, cm_verifier *v) CM_MUST_USE;
/* For cm_optimise_options.after_pass, with the verifier as `user`: CM_ERR_INTERNAL names the pass that
 * moved an answer further than it declares, the output, the element, found and wanted. */
cm_status cm_verifier_after_pass(void *user, cm_ctx *cx, cm_network *g, const cm_pass *pass,
                                 int64_t n_rewrites) CM_MUST_USE;

#endif
