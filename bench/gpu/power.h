/* power.h -- what NVML says of a GPU that is busy: its energy and clock, sampled.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_BENCH_GPU_POWER_H
#define CM_BENCH_GPU_POWER_H

#include <time.h>

#include "cuda/library.h"
#include "base/status.h"

typedef struct {
    int (*init)(void);
    int (*handle)(unsigned index, void **device);
    int (*energy)(void *device, unsigned long long *mj);
    int (*clock)(void *device, int kind, unsigned *mhz);
    void *device;
} power_meter;

/* False: there is no NVML, or it lacks something. */
static bool power_open(power_meter *p)
{
    const cm_library *l = cm_library_get(CM_LIBRARY_NVML);
    const cm_symbol symbols[] = {{"nvmlInit_v2", (void **)&p->init},
                                 {"nvmlDeviceGetHandleByIndex_v2", (void **)&p->handle},
                                 {"nvmlDeviceGetTotalEnergyConsumption", (void **)&p->energy},
                                 {"nvmlDeviceGetClockInfo", (void **)&p->clock}};
    return l->handle && !cm_library_symbols(l, symbols, CM_COUNT(symbols)) && p->init() == 0 &&
           p->handle(0, &p->device) == 0;
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The counter of energy moves a few times in a second: power is what it says between the first and the last time that it did. */
typedef struct {
    unsigned long long last_mj, from_mj, to_mj;
    double from, to; /* seconds; from 0: it has not moved yet */
    double mhz;      /* of all samples */
    int samples;
} power_samples;

static void power_sample(const power_meter *p, power_samples *s)
{
    enum { SM = 1 };
    unsigned long long mj = 0;
    unsigned mhz = 0;
    if (p->energy(p->device, &mj) != 0 || p->clock(p->device, SM, &mhz) != 0)
        return;
    if (s->samples++ > 0 && mj != s->last_mj) {
        s->to = seconds_now();
        s->to_mj = mj;
        if (s->from == 0) {
            s->from = s->to;
            s->from_mj = mj;
        }
    }
    s->last_mj = mj;
    s->mhz += mhz;
}

static double power_watts(const power_samples *s)
{
    return s->to > s->from ? (double)(s->to_mj - s->from_mj) / 1000 / (s->to - s->from) : 0;
}

#endif
