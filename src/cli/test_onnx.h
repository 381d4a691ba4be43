/* test_onnx.h -- what the parts of `cameo test-onnx` share: options, results, counts.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_TEST_ONNX_H
#define CM_CLI_TEST_ONNX_H

#include <stdatomic.h>

#include "base/map.h"
#include "cli/model.h"

enum { CM_TEST_MOST_JOBS = 64 };

typedef struct cm_test_options {
    double rtol, atol, scale_atol, timeout;
    const char *target;
    cm_target where; /* `target`, parsed */
    bool via_plan, no_optimise, list;
    int64_t jobs, threads;
    cm_texts plugins;
} cm_test_options;

typedef enum { CM_TEST_PENDING, CM_TEST_PASSED, CM_TEST_FAILED, CM_TEST_SKIPPED } cm_test_outcome;

/* Nodes of the models as they were imported that something runs for, and how many of these ran on the device; besides
 * these, those that are the host's by design. */
typedef struct cm_test_count {
    _Atomic int nodes, away, kept;
} cm_test_count;

/* One case's result. */
typedef struct cm_test_result {
    _Atomic int outcome;
    cm_test_count count;
    char line[500];
    char fell[700]; /* operators of the nodes that a device left to the CPU, and why */
} cm_test_result;

typedef struct cm_test_worker {
    _Atomic int current; /* -1: between cases */
    _Atomic uint64_t since_ns;
} cm_test_worker;

/* In memory that all processes see, mapped before any is made. */
typedef struct cm_test_shared {
    size_t bytes;
    int n_cases;
    const char *const *cases; /* folders */
    _Atomic int next;
    _Atomic bool no_device; /* a worker could not open it: `why` */
    char why[500];
    cm_test_worker worker[CM_TEST_MOST_JOBS];
    cm_test_result *results; /* per case */
    cm_test_count *ops;      /* per operator, as cm_op_at numbers them */
} cm_test_shared;

/* test_onnx_case.c: run one and put down how it went. False: the device is of no more use to this process. */
bool cm_test_case(const cm_test_options *o, const char *folder, cm_test_shared *s, int i);

/* test_onnx_work.c: all of them in `jobs` processes. False: one ended badly between cases. */
bool cm_test_all(cm_ctx *cx, cm_test_shared *s, const cm_test_options *o, int jobs);

/* test_onnx_share.c: which node is what operator, before passes change the network; which of them ran where, after
 * a run; all of it as lines. */
cm_status cm_test_name_nodes(cm_ctx *cx, const cm_network *g, cm_map *ops) CM_MUST_USE;
cm_status cm_test_count_nodes(cm_ctx *cx, const cm_context *c, const cm_map *ops, cm_test_shared *s,
                              cm_test_result *out) CM_MUST_USE;
void cm_test_print_shares(const cm_test_shared *s, const char *target);

#endif
