/* nest.c -- see nest.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nest.h"

#include "base/size.h"

enum { BLOCKS_EACH = 16 }; /* for each multiprocessor: two rounds of full ones */

cm_gpu_axis cm_gpu_axis_of(int64_t size)
{
    cm_gpu_axis a = {.size = size > 0 ? (uint64_t)size : 1};
    if (cm_gpu_is_wide(size))
        return a;
    while ((UINT64_C(1) << a.shift) < a.size)
        a.shift++;
    a.magic = (uint32_t)(((UINT64_C(1) << 32) * ((UINT64_C(1) << a.shift) - a.size)) / a.size + 1);
    return a;
}

bool cm_gpu_is_float(cm_dtype t)
{
    return t == CM_F64 || t == CM_F32 || t == CM_F16 || t == CM_BF16 ||
           (t >= CM_F8E4M3FN && t <= CM_F8E5M2FNUZ);
}

bool cm_gpu_is_narrow(cm_dtype t)
{
    return t != CM_F64 && (cm_gpu_is_float(t) || t == CM_BOOL || cm_dtype_size(t) <= 2);
}

const char *cm_gpu_element(cm_dtype t)
{
    switch (t) {
    case CM_F32:
        return "float";
    case CM_F16:
        return "f16";
    case CM_BF16:
        return "bf16";
    case CM_F64:
        return "double";
    case CM_BOOL:
        return "truth";
    case CM_U8:
    case CM_U16:
    case CM_U32:
    case CM_U64:
    case CM_I8:
    case CM_I16:
    case CM_I32:
    case CM_I64:
    case CM_F8E4M3FN:
    case CM_F8E4M3FNUZ:
    case CM_F8E5M2:
    case CM_F8E5M2FNUZ:
        return cm_dtype_name(t); /* the same words */
    default:
        return NULL;
    }
}

const char *cm_gpu_word(size_t bytes)
{
    return bytes == 1   ? "u8"
           : bytes == 2 ? "u16"
           : bytes == 4 ? "u32"
           : bytes == 8 ? "uint2"
                        : "uint4";
}

unsigned cm_gpu_blocks(const cm_target *t, int64_t n)
{
    cm_gpu_facts f;
    cm_gpu_facts_of(t, &f);
    int64_t most = (int64_t)f.multiprocessors * BLOCKS_EACH;
    return (unsigned)cm_max_i64(1, cm_min_i64(cm_ceil_div(n, CM_GPU_THREADS), most));
}

double cm_gpu_stream_ns(const cm_target *t, double bytes)
{
    enum { PERCENT = 88 }; /* of the memory's rate, reached by plain copies */
    cm_gpu_facts f;
    cm_gpu_facts_of(t, &f);
    return f.launch_ns + bytes / (f.read_gbs * PERCENT / 100);
}
