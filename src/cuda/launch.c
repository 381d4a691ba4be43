/* launch.c -- kernels enqueued, and tensor maps for them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cuda/device.h"

static unsigned at_least_one(unsigned n)
{
    return n ? n : 1;
}

cm_status cm_gpu_launch(const cm_run *r, const cm_kernel *k, const cm_grid *g, void *const *args)
{
    const cm_device *d = r->stream->d;
    cm_cu_attribute attributes[3];
    cm_cu_launch l = {
        .shared_bytes = (unsigned)g->shared, .stream = r->stream->cu, .attributes = attributes};
    memset(attributes, 0, sizeof attributes);
    for (int i = 0; i < 3; i++) {
        l.grid[i] = at_least_one(g->blocks[i]);
        l.block[i] = at_least_one(g->threads[i]);
    }
    if (g->cluster > 1) {
        cm_cu_attribute *a = &attributes[l.n_attributes++];
        a->id = CM_CU_ATTRIBUTE_CLUSTER;
        a->value.cluster[0] = g->cluster;
        a->value.cluster[1] = a->value.cluster[2] = 1;
    }
    if (g->overlaps && d->target.level >= 900) {
        cm_cu_attribute *a = &attributes[l.n_attributes++];
        a->id = CM_CU_ATTRIBUTE_OVERLAP;
        a->value.flag = 1;
    }
    if (g->together) {
        cm_cu_attribute *a = &attributes[l.n_attributes++];
        a->id = CM_CU_ATTRIBUTE_TOGETHER;
        a->value.flag = 1;
    }
    CM_TRY(cm_device_enter(r->cx, d));
    int code = d->cu->launch(&l, k->function, (void **)args, NULL);
    cm_device_leave(d);
    return code == 0 ? CM_OK : cm_driver_fail(r->cx, d->cu, code, k->entry);
}

static int map_type(cm_dtype t)
{
    enum { U8 = 0, U16 = 1, U32 = 2, I32 = 3, I64 = 5, F16 = 6, F32 = 7, F64 = 8, BF16 = 9 };
    switch (t) {
    case CM_F32:
        return F32;
    case CM_F16:
        return F16;
    case CM_BF16:
        return BF16;
    case CM_F64:
        return F64;
    case CM_I32:
        return I32;
    case CM_I64:
        return I64;
    default:
        return cm_dtype_size(t) == 4 ? U32 : cm_dtype_size(t) == 2 ? U16 : U8;
    }
}

enum { NO_INTERLEAVE = 0, SWIZZLE_128 = 3, PROMOTE_256 = 3, FILL_ZERO = 0 };

cm_status cm_gpu_tensor_map(cm_ctx *cx, const cm_run *r, cm_dtype dtype, int rank, const void *base,
                            const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                            int swizzle_bytes, cm_tensor_map *out)
{
    static const uint32_t ones[5] = {1, 1, 1, 1, 1};
    const cm_device *d = r->stream->d;
    int swizzle = swizzle_bytes == 128  ? SWIZZLE_128
                  : swizzle_bytes == 64 ? 2
                  : swizzle_bytes == 32 ? 1
                                        : 0;
    CM_TRY(cm_device_enter(cx, d));
    int code =
        d->cu->tensor_map(out->bytes, map_type(dtype), (unsigned)rank, (void *)base, dims, strides,
                          box, ones, NO_INTERLEAVE, swizzle, PROMOTE_256, FILL_ZERO);
    cm_device_leave(d);
    return code == 0 ? CM_OK : cm_driver_fail(cx, d->cu, code, "describing a tensor to the GPU");
}

cm_status cm_gpu_image_map(cm_ctx *cx, const cm_run *r, cm_dtype dtype, const void *base,
                           const cm_image_map *m, cm_tensor_map *out)
{
    const cm_device *d = r->stream->d;
    CM_TRY(cm_device_enter(cx, d));
    int code = d->cu->image_map(out->bytes, map_type(dtype), 4, (void *)base, m->dims, m->strides,
                                m->low, m->high, m->channels, m->pixels, m->steps, NO_INTERLEAVE,
                                SWIZZLE_128, PROMOTE_256, FILL_ZERO);
    cm_device_leave(d);
    return code == 0 ? CM_OK : cm_driver_fail(cx, d->cu, code, "describing images to the GPU");
}
