/* passes.h -- the optimiser: passes that rewrite a network into a better one that means the same.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_PASSES_H
#define CM_PASSES_PASSES_H

#include "ir/network.h"

/* What a pass is given. It rewrites one network (nested ones are the driver's to visit) through the
 * calls of ir/network.h, asks cm_rewrite before each rewrite, and leaves dead nodes to dce. */
typedef struct cm_rewriter {
    cm_ctx *cx;
    const char *pass;
    int64_t n_rewrites;          /* so far, over all passes: rewrites are numbered */
    int64_t n_visits;            /* nodes that passes have walked over */
    int64_t limit;               /* stop after this many; INT64_MAX: never */
    struct cm_near_miss *misses; /* newest first; NULL unless collecting */
    bool collect_misses;
    bool nested; /* is anything nested in the network? No pass puts there what was not */
    const struct cm_optimise_options *options;
} cm_rewriter;

/* Opens the function of the pass in file x.c: CM_PASS(x) { ... }, with `rw` and `g`. */
#define CM_PASS(name)                                                                              \
    cm_status cm_pass_##name(cm_rewriter *rw, cm_network *g);                                      \
    cm_status cm_pass_##name(cm_rewriter *rw, cm_network *g)

/* Count one rewrite at `n`. False: the limit is reached, leave the network as it is and return. */
bool cm_rewrite(cm_rewriter *rw, const cm_node *n);

/* A pattern that almost matched at `n`, with the condition that failed; for `cameo explain`. */
typedef struct cm_near_miss {
    const char *pass, *node, *why;
    struct cm_near_miss *next;
} cm_near_miss;
void cm_near(cm_rewriter *rw, const cm_node *n, const char *fmt, ...) CM_PRINTF(3);

typedef enum { CM_PHASE_CLEAN, CM_PHASE_FUSE, CM_PHASE_PRECISION } cm_phase;

typedef struct cm_pass {
    const char *name;
    cm_status (*run)(cm_rewriter *rw, cm_network *g);
    cm_phase phase;
    bool repeat; /* again until it rewrites nothing */
    double
        tolerance; /* how far it may move an answer, relative to the output's scale; 0: not at all */
    const char *what; /* does, in a few words */
} cm_pass;

/* The pipeline, in order. */
extern const cm_pass cm_passes[];
extern const int cm_n_passes;
const cm_pass *cm_pass_find(const char *name);

typedef struct cm_pass_stats {
    int64_t rewrites;
    uint64_t ns;
    int nodes_after;
    int64_t visits; /* nodes of the outermost network, each round of the pass */
} cm_pass_stats;

typedef enum {
    CM_PRECISION_FP32,
    CM_PRECISION_TF32,
    CM_PRECISION_FP16,
    CM_PRECISION_BF16
} cm_precision;

typedef struct cm_optimise_options {
    int64_t stop_after_rewrite; /* INT64_MAX: never */
    const char *stop_after;     /* name of the last pass to run; NULL: all */
    cm_precision precision;
    bool
        for_plan; /* operators that have no kernels become those that have, even if that takes more nodes */
    int n_keep_fp32; /* nodes that stay in float32, by ONNX node name */
    const char *const *keep_fp32;
    cm_pass_stats *stats; /* NULL, or cm_n_passes entries to fill */
    bool collect_misses;
    /* Called after every pass that rewrote something. */
    cm_status (*after_pass)(void *user, cm_ctx *cx, cm_network *g, const cm_pass *pass,
                            int64_t n_rewrites);
    /* Called before rewrite `number` (1, 2, ...) of `pass` at node n. */
    void (*on_rewrite)(void *user, const char *pass, const cm_node *n, int64_t number);
    void *user;
} cm_optimise_options;
#define CM_OPTIMISE_DEFAULT                                                                        \
    {                                                                                              \
        .stop_after_rewrite = INT64_MAX                                                            \
    }

/* Run the pipeline on g and everything nested in it; the verifier runs after each pass. *rewrites
 * (may be NULL) gets the number made, *misses (may be NULL) the near misses, oldest first. */
cm_status cm_optimise(cm_ctx *cx, cm_network *g, const cm_optimise_options *o, int64_t *rewrites,
                      const cm_near_miss **misses) CM_MUST_USE;

/* One pass, on g and everything nested, until it has nothing more to do: for tests. */
cm_status cm_pass_apply(cm_ctx *cx, cm_network *g, const cm_pass *pass,
                        int64_t *rewrites) CM_MUST_USE;
/* The same with options of the optimiser. */
cm_status cm_pass_apply_with(cm_ctx *cx, cm_network *g, const cm_pass *pass,
                             const cm_optimise_options *o, int64_t *rewrites) CM_MUST_USE;

#endif
