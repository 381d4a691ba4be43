/* devices.c -- the GPUs that the driver shows, described.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/devices.h"

#include <stdio.h>

#include "cuda/driver.h"

static void describe(const cm_driver *d, int ordinal, cm_gpu *g)
{
    int device = 0, core = 0, memory = 0;
    size_t bytes = 0;
    *g = (cm_gpu){.driver = d->version};
    if (d->device_get(&device, ordinal) != 0)
        return;
    d->device_name(g->name, (int)sizeof g->name, device);
    d->device_memory(&bytes, device);
    d->device_attribute(&g->sms, CM_CU_SM_COUNT, device);
    d->device_attribute(&g->major, CM_CU_MAJOR, device);
    d->device_attribute(&g->minor, CM_CU_MINOR, device);
    d->device_attribute(&core, CM_CU_CLOCK_KHZ, device);
    d->device_attribute(&memory, CM_CU_MEMORY_CLOCK_KHZ, device);
    g->memory_bytes = (int64_t)bytes;
    g->core_mhz = core / 1000;
    g->memory_mhz = memory / 1000;
}

void cm_gpu_list_probe(cm_gpu_list *out)
{
    const char *why;
    const cm_driver *d = cm_driver_get(&why);
    out->n = 0;
    snprintf(out->why_none, sizeof out->why_none, "%s", why);
    if (!d)
        return;
    out->n = d->n_devices < CM_GPU_MAX ? d->n_devices : CM_GPU_MAX;
    for (int i = 0; i < out->n; i++)
        describe(d, i, &out->gpu[i]);
}
