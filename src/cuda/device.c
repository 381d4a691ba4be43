/* device.c -- opens GPUs, one of each per process, and classes that are only compiled for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/device.h"

#include <stdio.h>
#include <string.h>

#include "cuda/devices.h"

/* Devices in use by ordinal; `lock` guards the table and their counts. */
static cm_device *in_use[CM_GPU_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

cm_status cm_device_enter(cm_ctx *cx, const cm_device *d)
{
    if (!d->cu)
        return cm_fail(cx, CM_ERR_DEVICE, "sm_%d is compiled for only: it is no device",
                       d->target.level / 10);
    int code = d->cu->push(d->context);
    return code == 0 ? CM_OK : cm_driver_fail(cx, d->cu, code, "entering the GPU's context");
}

void cm_device_leave(const cm_device *d)
{
    cm_cu_context c;
    d->cu->pop(&c);
}

static int attribute(const cm_device *d, int id)
{
    int v = 0;
    return d->cu->device_attribute(&v, id, d->device) == 0 ? v : 0;
}

/* The class's rates, by this device's multiprocessors and memory. */
static void read_facts(cm_device *d)
{
    cm_gpu_facts *f = &d->facts;
    cm_gpu_class_facts(d->target.level, f);
    int sms = attribute(d, CM_CU_SM_COUNT), shared = attribute(d, CM_CU_SHARED_OPTIN);
    int l2 = attribute(d, CM_CU_L2_BYTES);
    double mhz = attribute(d, CM_CU_MEMORY_CLOCK_KHZ) * 1e-3;
    double gbs = 2 * mhz * attribute(d, CM_CU_MEMORY_BUS_BITS) / 8 * 1e-3;
    if (sms > 0) {
        double scale = (double)sms / f->multiprocessors;
        f->half_tflops *= scale;
        f->tf32_tflops *= scale;
        f->tflops *= scale;
        f->multiprocessors = sms;
    }
    if (shared > 0)
        f->shared_bytes = shared;
    if (l2 > 0)
        f->l2_bytes = l2;
    if (gbs > 0)
        f->read_gbs = 0.88 * gbs;
}

static cm_status new_device(cm_ctx *cx, const cm_target *t, cm_device **out)
{
    cm_device *d = cm_alloc(NULL, sizeof *d, 16);
    if (!d)
        return cm_fail_memory(cx);
    *d = (cm_device){.target = *t, .refs = 1};
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->made, NULL);
    *out = d;
    return CM_OK;
}

static void drop_device(cm_device *d)
{
    pthread_cond_destroy(&d->made);
    pthread_mutex_destroy(&d->lock);
    cm_release(NULL, d, sizeof *d);
}

static cm_status connect(cm_ctx *cx, const cm_driver *cu, cm_device *d)
{
    enum { OLDEST = 750 };
    d->cu = cu;
    int code = cu->device_get(&d->device, d->target.index);
    if (code != 0)
        return cm_driver_fail(cx, cu, code, "opening the GPU");
    cu->device_name(d->name, (int)sizeof d->name, d->device);
    d->target.level = attribute(d, CM_CU_MAJOR) * 100 + attribute(d, CM_CU_MINOR) * 10;
    if (d->target.level < OLDEST)
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "cuda:%d is an sm_%d (%s), sm_%d or later is wanted",
                       d->target.index, d->target.level / 10, d->name, OLDEST / 10);
    read_facts(d);
    code = cu->primary_retain(&d->context, d->device);
    return code == 0 ? CM_OK : cm_driver_fail(cx, cu, code, "opening the GPU");
}

static cm_status open_real(cm_ctx *cx, const cm_target *t, cm_device **out)
{
    const char *why;
    const cm_driver *cu = cm_driver_get(&why);
    if (!cu)
        return cm_fail(cx, CM_ERR_DEVICE, "target cuda: %s", why);
    int n = cu->n_devices < CM_GPU_MAX ? cu->n_devices : CM_GPU_MAX;
    if (t->index < 0 || t->index >= n)
        return cm_fail(cx, CM_ERR_DEVICE, "target cuda:%d: the driver shows %d GPU%s", t->index, n,
                       n == 1 ? "" : "s");
    if (in_use[t->index]) {
        in_use[t->index]->refs++;
        *out = in_use[t->index];
        return CM_OK;
    }
    cm_device *d;
    CM_TRY(new_device(cx, t, &d));
    cm_status st = connect(cx, cu, d);
    if (st != CM_OK) {
        drop_device(d);
        return st;
    }
    *out = in_use[t->index] = d;
    return CM_OK;
}

cm_status cm_device_open(cm_ctx *cx, const cm_target *t, cm_device **out)
{
    if (t->level == 0) {
        pthread_mutex_lock(&lock);
        cm_status st = open_real(cx, t, out);
        pthread_mutex_unlock(&lock);
        return st;
    }
    CM_TRY(new_device(cx, t, out));
    cm_gpu_class_facts(t->level, &(*out)->facts);
    snprintf((*out)->name, sizeof(*out)->name, "no device");
    return CM_OK;
}

void cm_device_close(cm_device *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&lock);
    bool last = --d->refs == 0;
    if (last && d->cu)
        in_use[d->target.index] = NULL;
    if (last && d->cu && d->cu->push(d->context) == 0) {
        cm_tables_release(d);
        cm_kernels_release(d);
        cm_device_leave(d);
        d->cu->primary_release(d->device);
    } else if (last) {
        cm_tables_release(d);
        cm_kernels_release(d);
    }
    pthread_mutex_unlock(&lock);
    if (last)
        drop_device(d);
}

bool cm_device_facts(const cm_target *t, cm_gpu_facts *out)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    if (t->index >= 0 && t->index < CM_GPU_MAX && in_use[t->index] &&
        in_use[t->index]->target.level == t->level) {
        *out = in_use[t->index]->facts;
        found = true;
    }
    pthread_mutex_unlock(&lock);
    return found;
}
