/* backends.c -- the one file that lists the backends.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/backend.h"

#include "cpu/cpu.h"
#include "cuda/tactics.h"

/* The reference is not among them: exec.c calls the operators' evaluators where no tactic is chosen. */
static const cm_backend *const backends[] = {
    &cm_backend_cpu,
    &cm_backend_cuda,
};

const cm_backend *cm_backend_at(int index)
{
    return index >= 0 && index < CM_COUNT(backends) ? backends[index] : NULL;
}

const cm_backend *cm_backend_for(cm_device_kind kind)
{
    for (int i = 0; i < CM_COUNT(backends); i++)
        if (backends[i]->device == kind)
            return backends[i];
    return NULL;
}
