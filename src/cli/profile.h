/* profile.h -- what `cameo profile` measures, and the forms in which it is shown.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_PROFILE_H
#define CM_CLI_PROFILE_H

#include <jansson.h>

#include "cli/limits.h"
#include "cli/model.h"
#include "runtime/report.h"

typedef struct cm_profile_how {
    int threads; /* 0: one per core */
    const cm_target *target;
    size_t max_memory;
    double duration; /* seconds to spend on measuring */
    int64_t runs;    /* no more than so many; 0: no limit */
} cm_profile_how;

/* What keeps a layer from being faster. */
#define CM_BOUNDS(X)                                                                               \
    X(NOTHING, "nothing")     /* no work: a view */                                                \
    X(COMPUTE, "compute")     /* arithmetic */                                                     \
    X(MEMORY, "memory")       /* reading and writing */                                            \
    X(OVERHEAD, "overhead")   /* starting it: threads, dispatch */                                 \
    X(COPIES, "copies")       /* moving elements, changing layouts */                              \
    X(HOST, "host")           /* runs on the CPU though the rest is on a device */                 \
    X(REFERENCE, "reference") /* no kernel takes it */                                             \
    X(CONTROL, "control")     /* holds other layers */

typedef enum {
#define X(id, name) CM_BOUND_##id,
    CM_BOUNDS(X)
#undef X
        CM_BOUND_COUNT
} cm_bound;
const char *cm_bound_name(cm_bound b);

typedef struct cm_profile_layer {
    const cm_plan_step *step;
    const char *kind; /* of problem; "view", "control" */
    int depth;        /* in control steps */
    bool is_main;
    int64_t calls; /* in one run */
    cm_layer_facts facts;
    cm_layer_work work;        /* of all calls in a run */
    double ms, min_ms, max_ms; /* median, extremes over runs */
    double share;              /* of the layers' time: main list */
    double conversion_ms;
    double ops_rate, bytes_rate; /* a second */
    double limit_ms;             /* what the machine could do it in */
    double fraction;             /* limit_ms of ms; 0: nothing to compare with */
    cm_bound bound;
    const char **in, **out; /* "f32[1,64,56,56] channels-last"; NULL: absent */
} cm_profile_layer;

/* One step of a run that is kept; ns since the first such run began. */
typedef struct cm_profile_event {
    int step, run;
    uint64_t start, end;
} cm_profile_event;

/* What one of the context's threads did in one parallel loop, told by that thread. */
typedef struct cm_profile_stint {
    uint64_t start, end;
    int step; /* the layer whose loop it was; -1: not known */
} cm_profile_stint;
typedef struct cm_profile_thread {
    int n;
    cm_profile_stint *v; /* in the order of time */
} cm_profile_thread;

typedef struct cm_profile_total {
    const char *kind;
    int n;
    double ms, share, ops, bytes;
} cm_profile_total;

typedef struct cm_profile {
    const char *path;
    cm_engine *engine;
    cm_target target;
    int threads;
    cm_limits limits;
    double launch_ns; /* until all threads work on the same, and are done; 0: not known */
    int n_runs, n_layers;
    cm_profile_layer *layers;
    double whole_ms, plain_ms; /* median run, with and without looking */
    double covered;            /* layers' time of the run's, median over runs */
    bool device_clock; /* both runs by the device's clock, from the first kernel to the last */
    double host_ms, up_ms,
        down_ms; /* then: an unwatched run by the host's; copies to and from the device */
    int n_totals;
    cm_profile_total *totals; /* slowest kind first */
    int n_blocks;
    cm_memory_block *blocks;
    size_t arena_bytes, context_bytes, weight_bytes;
    int n_positions; /* in the order of execution */
    double *live;    /* bytes of the arena in use, by position */
    int peak;        /* a position */
    int n_traced;
    uint64_t *run_start, *run_end; /* of the traced runs */
    int64_t n_events;
    cm_profile_event *events;
    int n_threads; /* whose stints are known: 0 where one thread does everything */
    cm_profile_thread *stints;
} cm_profile;

/* profile_measure.c: times. profile_work.c: what they mean. Everything lives in cx->arena; the context of
 * facts and values is gone afterwards. */
cm_status cm_profile_measure(cm_ctx *cx, cm_engine *e, const cm_inputs *in,
                             const cm_profile_how *how, cm_profile *out) CM_MUST_USE;
/* Facts, work and texts of layers from a context that has run. */
cm_status cm_profile_describe(cm_ctx *cx, const cm_context *c, cm_profile *p) CM_MUST_USE;
/* Rates, limits, bounds, totals, from times and work. */
cm_status cm_profile_judge(cm_ctx *cx, cm_profile *p) CM_MUST_USE;

/* Layers in order of time, slowest first. */
cm_status cm_profile_rank(cm_ctx *cx, const cm_profile *p, int **out) CM_MUST_USE;
void cm_profile_print(const cm_profile *p, const int *ranked, int64_t most);
void cm_profile_print_csv(const cm_profile *p);
json_t *cm_profile_json(const cm_profile *p);
/* The first runs in Chrome's trace event format, which Perfetto reads. */
json_t *cm_profile_trace(const cm_profile *p, int most_runs);
/* A page that holds all of it. */
cm_status cm_profile_write_html(cm_ctx *cx, const cm_profile *p, const char *path) CM_MUST_USE;

#endif
