/* backend.c -- the tables of the CUDA backend by kind.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/device.h"
#include "cuda/tactics.h"

static const cm_tactic *tactics(cm_problem_kind kind, int *n)
{
    *n = 0;
    switch (kind) {
#define X(id, stem)                                                                                \
    case CM_PROBLEM_##id:                                                                          \
        *n = cm_cuda_##stem##_count;                                                               \
        return cm_cuda_##stem##_tactics;
        CM_CUDA_TABLES(X)
#undef X
    default:
        return NULL;
    }
}

const cm_backend cm_backend_cuda = {"cuda", CM_DEVICE_CUDA, tactics, NULL, &cm_cuda_api};
