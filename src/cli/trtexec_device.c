/* trtexec_device.c -- `cameo trtexec`: what it runs on, and the lines about it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"
#include "cli/trtexec.h"
#include "cuda/devices.h"

static void print_gpu(const cm_gpu_list *list, int index)
{
    const cm_gpu *g = &list->gpu[index];
    for (int i = 0; i < list->n; i++)
        cm_trt_say('I', "  Device %d: \"%s\"", i, list->gpu[i].name);
    cm_trt_say('I', "Selected Device: %s", g->name);
    cm_trt_say('I', "Selected Device ID: %d", index);
    cm_trt_say('I', "Compute Capability: %d.%d", g->major, g->minor);
    cm_trt_say('I', "SMs: %d", g->sms);
    cm_trt_say('I', "Device Global Memory: %lld MiB", (long long)(g->memory_bytes >> 20));
    cm_trt_say('I', "Application Compute Clock Rate: %g GHz", g->core_mhz * 1e-3);
    cm_trt_say('I', "Application Memory Clock Rate: %g GHz", g->memory_mhz * 1e-3);
}

static void print_cpu(void)
{
    const cm_cpu *c = cm_cpu_info();
    cm_trt_say('I', "  Device 0: \"%s\"", c->name);
    cm_trt_say('I', "Selected Device: %s", c->name);
    cm_trt_say('I', "Selected Device ID: 0");
    cm_trt_say('I', "Compute Capability: %s", cm_isa_name(c->isa));
    cm_trt_say('I', "Cores: %d", cm_cpu_cores());
}

cm_status cm_trt_choose_device(cm_ctx *cx, cm_trt *t)
{
    const cm_trt_options *o = t->o;
    cm_gpu_list *list = cm_new(cx->arena, cm_gpu_list);
    if (!list)
        return cm_fail_memory(cx);
    cm_gpu_list_probe(list);
    if (o->device >= 0 && list->n && o->device >= list->n)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--device=%lld: found %d GPUs, numbered from 0",
                       (long long)o->device, list->n);
    bool gpu = list->n && !o->cpu_only;
    int index = o->device > 0 && gpu ? (int)o->device : 0;
    t->target = (cm_target){CM_DEVICE_CPU, (int)cm_cpu_info()->isa, 0};
    if (gpu)
        t->target = (cm_target){CM_DEVICE_CUDA, 0, index};
    cm_trt_say('I', "=== Device Information ===");
    cm_trt_say('I', "Available Devices: ");
    if (gpu)
        print_gpu(list, index);
    else
        print_cpu();
    cm_trt_say('I', "%s", "");
    cm_trt_say('I', "Cameo version: %s", CM_VERSION);
    if (o->device >= 0 && !list->n)
        cm_trt_say('W', "--device=%lld: no GPU is to be had (%s); the CPU is used",
                   (long long)o->device, list->why_none);
    return CM_OK;
}
