/* bench_measure.h -- runs contexts again and again and keeps when each inference began and ended.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_BENCH_MEASURE_H
#define CM_CLI_BENCH_MEASURE_H

#include "cli/bench_device.h"
#include "cli/model.h"

/* What the command that is used calls its options, for warnings. */
typedef struct cm_bench_words {
    const char *iterations, *duration, *warm_up, *streams, *threads, *no_transfers;
} cm_bench_words;

typedef struct cm_bench_how {
    int64_t iterations;       /* at least so many, of every stream */
    double warm_up, duration; /* seconds; one inference warms up whatever is said */
    int streams, threads;     /* contexts at once; threads of each (0: a fair share of the cores) */
    bool no_transfers;        /* hand inputs over once, not for every inference; outputs stay too */
    bool spin;                /* wait for an arrival by looking at the clock, never by sleeping */
    double qps;              /* Poisson arrivals of that rate; 0: the next as soon as one is done */
    double idle, sleep;      /* seconds between inferences; before the first */
    uint64_t seed;           /* of the arrivals */
    const cm_target *target; /* NULL: the CPU's best */
    size_t max_memory;       /* of a context; 0: no limit */
    const cm_bench_words *words; /* NULL: those of `cameo bench` */
} cm_bench_how;

/* One inference, ns since measuring began. Due and begun are the same without --qps; handed over and enqueued on the
 * CPU, where nobody waits for another. */
typedef struct cm_bench_trace {
    uint64_t due, begun, handed, enqueued, computed, done;
} cm_bench_trace;

typedef struct cm_bench_result {
    int64_t n;
    cm_bench_trace *trace; /* by the time they were done */
    int64_t n_warm;
    double warm_s, wall_s;
    double cpu_s;       /* processor time of this process while measuring */
    double steal;       /* share of the machine's time that a hypervisor took, 0..1 */
    int64_t switches;   /* times that another process was given our core */
    double overhead_us; /* of the measuring itself, per inference */
    size_t arena_bytes; /* of one context */
    double device_ms;   /* of an inference by the device's own clock, the median; 0: no device */
    int n_away, n_fell; /* steps on the device; those that no kernel of it takes */
} cm_bench_result;

/* An engine made ready to be measured: its contexts, with inputs set. */
typedef struct cm_bench_subject {
    cm_engine *engine;
    const cm_inputs *in;
    int n;
    cm_context **contexts;
    cm_bench_device **devices; /* per context; NULL: its inputs and outputs are the host's */
} cm_bench_subject;

/* Contexts for `how`; close also after a failure. `in` must stay. */
cm_status cm_bench_open(cm_ctx *cx, cm_engine *e, const cm_inputs *in, const cm_bench_how *how,
                        cm_bench_subject *s) CM_MUST_USE;
void cm_bench_close(cm_bench_subject *s);
/* Warm up, then measure. The trace is in cx->arena. */
cm_status cm_bench_measure(cm_ctx *cx, const cm_bench_subject *s, const cm_bench_how *how,
                           cm_bench_result *out) CM_MUST_USE;
/* Threads of each context as `how` means it. */
int cm_bench_threads(const cm_bench_how *how);

/* Time of every step, from runs of their own: timing each step costs, so these runs give no
 * latency. `ns[r * n_steps + s]`. */
typedef struct cm_bench_profile {
    int runs, n_steps;
    uint64_t *ns;
    uint64_t *total;       /* of each run */
    double *up, *down;     /* ms of each run's copies to and from a device, each waited for */
    cm_layer_facts *facts; /* how each step ran */
} cm_bench_profile;
cm_status cm_bench_profile_steps(cm_ctx *cx, cm_engine *e, const cm_inputs *in,
                                 const cm_bench_how *how, double seconds,
                                 cm_bench_profile *out) CM_MUST_USE;

#endif
