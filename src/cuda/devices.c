/* devices.c -- asks the CUDA driver what there is, through dlopen: no toolkit is needed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/devices.h"

#include <dlfcn.h>
#include <stdio.h>

/* The driver's ABI: int results (0 is success), devices are ints. */
typedef struct {
    int (*init)(unsigned flags);
    int (*driver_version)(int *version);
    int (*count)(int *n);
    int (*get)(int *device, int ordinal);
    int (*name)(char *name, int n, int device);
    int (*memory)(size_t *bytes, int device);
    int (*attribute)(int *value, int attribute, int device);
} driver;

enum { /* CUdevice_attribute */
       ATTR_CLOCK_KHZ = 13,
       ATTR_SM_COUNT = 16,
       ATTR_MEMORY_CLOCK_KHZ = 36,
       ATTR_MAJOR = 75,
       ATTR_MINOR = 76,
};

static const char *load(void *lib, driver *d)
{
    const struct {
        const char *name;
        void **to;
    } symbols[] = {
        {"cuInit", (void **)&d->init},
        {"cuDriverGetVersion", (void **)&d->driver_version},
        {"cuDeviceGetCount", (void **)&d->count},
        {"cuDeviceGet", (void **)&d->get},
        {"cuDeviceGetName", (void **)&d->name},
        {"cuDeviceTotalMem_v2", (void **)&d->memory},
        {"cuDeviceGetAttribute", (void **)&d->attribute},
    };
    for (unsigned i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        *symbols[i].to = dlsym(lib, symbols[i].name);
        if (!*symbols[i].to)
            return symbols[i].name;
    }
    return NULL;
}

static void describe(const driver *d, int ordinal, int version, cm_gpu *g)
{
    int device = 0, core = 0, memory = 0;
    size_t bytes = 0;
    *g = (cm_gpu){.driver = version};
    if (d->get(&device, ordinal) != 0)
        return;
    d->name(g->name, (int)sizeof g->name, device);
    d->memory(&bytes, device);
    d->attribute(&g->sms, ATTR_SM_COUNT, device);
    d->attribute(&g->major, ATTR_MAJOR, device);
    d->attribute(&g->minor, ATTR_MINOR, device);
    d->attribute(&core, ATTR_CLOCK_KHZ, device);
    d->attribute(&memory, ATTR_MEMORY_CLOCK_KHZ, device);
    g->memory_bytes = (int64_t)bytes;
    g->core_mhz = core / 1000;
    g->memory_mhz = memory / 1000;
}

static void ask(void *lib, cm_gpu_list *out)
{
    driver d;
    int version = 0, n = 0;
    const char *missing = load(lib, &d);
    if (missing) {
        snprintf(out->why_none, sizeof out->why_none, "libcuda.so.1 lacks %s: a driver too old",
                 missing);
        return;
    }
    int code = d.init(0);
    if (code == 0)
        code = d.count(&n);
    if (code != 0 || n <= 0) {
        snprintf(out->why_none, sizeof out->why_none, "the driver shows no device (code %d)", code);
        return;
    }
    d.driver_version(&version);
    out->n = n < CM_GPU_MAX ? n : CM_GPU_MAX;
    for (int i = 0; i < out->n; i++)
        describe(&d, i, version, &out->gpu[i]);
}

void cm_gpu_list_probe(cm_gpu_list *out)
{
    out->n = 0;
    out->why_none[0] = 0;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        snprintf(out->why_none, sizeof out->why_none,
                 "libcuda.so.1 was not found: no NVIDIA driver");
        return;
    }
    ask(lib, out); /* the library stays loaded: the driver does not unload cleanly */
}
