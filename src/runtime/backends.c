/* backends.c -- the one file that lists the backends.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/backend.h"

static const char *takes_all(const cm_problem *p, const cm_target *t)
{
    (void)p;
    (void)t;
    return NULL;
}

/* The operators' evaluators, which exec.c calls. */
static const cm_tactic reference[] = {
    {.name = "evaluate_any__ref", .reject = takes_all},
};

static const cm_tactic *reference_tactics(cm_problem_kind kind, int *n)
{
    *n = kind == CM_PROBLEM_EVALUATE ? CM_COUNT(reference) : 0;
    return reference;
}

static const cm_backend backends[] = {
    {"reference", CM_DEVICE_CPU, reference_tactics},
};

const cm_backend *cm_backend_at(int index)
{
    return index >= 0 && index < CM_COUNT(backends) ? &backends[index] : NULL;
}
