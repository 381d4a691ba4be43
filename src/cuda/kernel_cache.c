/* kernel_cache.c -- kernels of a device: compiled or found once, loaded once, asked for from many threads.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cuda/device.h"

static cm_kernel *find(const cm_device *d, const cm_image_key *key, const char *entry)
{
    for (cm_kernel *k = d->kernels; k; k = k->next)
        if (memcmp(&k->key, key, sizeof *key) == 0 && strcmp(k->entry, entry) == 0)
            return k;
    return NULL;
}

static cm_status load(cm_ctx *cx, cm_device *d, cm_kernel *k, const cm_image *image)
{
    int code = d->cu->module_load(&k->module, image->data);
    if (code != 0)
        return cm_driver_fail(cx, d->cu, code, "loading a kernel");
    code = d->cu->module_function(&k->function, k->module, k->entry);
    if (code == 0)
        return CM_OK;
    d->cu->module_unload(k->module);
    k->module = NULL;
    return cm_fail(cx, CM_ERR_PLAN, "an image of kernel %s does not hold it", k->entry);
}

/* Without the lock: others may compile meanwhile. */
static cm_status make(cm_ctx *cx, cm_device *d, const cm_kernel_text *t, cm_kernel *k)
{
    const cm_image *image = cm_image_find(&k->key);
    if (!image)
        image = cm_image_read(&k->key);
    if (!image) {
        CM_TRY(cm_kernel_compile(cx, t, d->target.level, &k->key, &image));
        cm_image_write(image);
    }
    if (!d->cu)
        return CM_OK;
    CM_TRY(cm_device_enter(cx, d));
    cm_status st = load(cx, d, k, image);
    cm_device_leave(d);
    return st;
}

/* With the lock. More dynamic shared memory than 48 KiB must be asked for. */
static cm_status allow_shared(cm_ctx *cx, cm_device *d, cm_kernel *k, size_t shared)
{
    enum { WITHOUT_ASKING = 48 << 10 };
    if (shared <= k->shared || shared <= WITHOUT_ASKING)
        return CM_OK;
    if (shared > (size_t)d->facts.shared_bytes)
        return cm_fail(cx, CM_ERR_INTERNAL,
                       "kernel %s wants %zu bytes of shared memory, a block may have %d", k->entry,
                       shared, d->facts.shared_bytes);
    if (d->cu) {
        CM_TRY(cm_device_enter(cx, d));
        int code = d->cu->function_set(k->function, CM_CU_FUNCTION_SHARED, (int)shared);
        cm_device_leave(d);
        if (code != 0)
            return cm_driver_fail(cx, d->cu, code, "asking for shared memory");
    }
    k->shared = shared;
    return CM_OK;
}

static void drop(cm_device *d, cm_kernel *k)
{
    cm_kernel **at = &d->kernels;
    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    cm_release(NULL, k, sizeof *k);
}

/* With the lock, which is given up while the kernel is made. */
static cm_status add(cm_ctx *cx, cm_device *d, const cm_kernel_text *t, const cm_image_key *key,
                     cm_kernel **out)
{
    cm_kernel *k = cm_alloc(NULL, sizeof *k, 16);
    if (!k)
        return cm_fail_memory(cx);
    *k = (cm_kernel){.next = d->kernels, .key = *key, .making = true};
    snprintf(k->entry, sizeof k->entry, "%s", t->entry);
    d->kernels = k;
    pthread_mutex_unlock(&d->lock);
    cm_status st = make(cx, d, t, k);
    pthread_mutex_lock(&d->lock);
    k->making = false;
    if (st != CM_OK)
        drop(d, k); /* those who wait look for it again, and fail by themselves */
    pthread_cond_broadcast(&d->made);
    *out = k;
    return st;
}

cm_status cm_gpu_kernel(cm_ctx *cx, cm_device *d, const cm_kernel_text *t, size_t shared,
                        const cm_kernel **out)
{
    cm_image_key key;
    cm_status st = CM_OK;
    if (strlen(t->entry) >= sizeof((cm_kernel *)0)->entry)
        return cm_fail(cx, CM_ERR_INTERNAL, "the name of kernel %s is too long", t->entry);
    CM_TRY(cm_kernel_key(cx, t, d->target.level, &key));
    pthread_mutex_lock(&d->lock);
    cm_kernel *k;
    while ((k = find(d, &key, t->entry)) != NULL && k->making)
        pthread_cond_wait(&d->made, &d->lock);
    if (!k)
        st = add(cx, d, t, &key, &k);
    if (st == CM_OK)
        st = allow_shared(cx, d, k, shared);
    pthread_mutex_unlock(&d->lock);
    *out = st == CM_OK ? k : NULL;
    return st;
}

cm_status cm_gpu_kernel_with(cm_ctx *cx, cm_device *d, cm_buf *defines, cm_kernel_text t,
                             size_t shared, const cm_kernel **out)
{
    t.defines = cm_buf_text(defines);
    cm_status st = defines->failed ? cm_fail_memory(cx) : cm_gpu_kernel(cx, d, &t, shared, out);
    cm_buf_deinit(defines);
    return st;
}

void cm_kernels_release(cm_device *d)
{
    while (d->kernels) {
        cm_kernel *k = d->kernels;
        d->kernels = k->next;
        if (k->module)
            d->cu->module_unload(k->module);
        cm_release(NULL, k, sizeof *k);
    }
}

/* The first in the order of keys behind `after` (NULL: of all): kernels are made in whatever order threads come. */
static const cm_kernel *next_by_key(const cm_device *d, const cm_kernel *after)
{
    const cm_kernel *best = NULL;
    for (const cm_kernel *k = d->kernels; k; k = k->next) {
        if (k->making || (after && memcmp(&k->key, &after->key, sizeof k->key) <= 0))
            continue;
        if (!best || memcmp(&k->key, &best->key, sizeof k->key) < 0)
            best = k;
    }
    return best;
}

void cm_kernels_images(cm_device *d, cm_buf *out)
{
    uint32_t n = 0;
    pthread_mutex_lock(&d->lock);
    for (const cm_kernel *k = next_by_key(d, NULL); k; k = next_by_key(d, k))
        n++;
    cm_images_begin(out, n);
    for (const cm_kernel *k = next_by_key(d, NULL); k; k = next_by_key(d, k))
        cm_images_put(out, cm_image_find(&k->key));
    pthread_mutex_unlock(&d->lock);
}
