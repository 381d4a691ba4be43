/* gather_bf16.c -- short lines of windows by masked loads (cpu/gather_bf16.h).
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/gather_bf16.h"

#include <immintrin.h>
#include <stddef.h>

#include "base/size.h"

/* Elements [0, n) of 32. */
static inline __mmask32 first_of(int64_t n)
{
    return (__mmask32)(((uint64_t)1 << n) - 1);
}

void cm_bf16_gather_line__avx512(const cm_bf16_line *l, int64_t first, int64_t n, int64_t room,
                                 uint16_t *to, int64_t ld)
{
    const int64_t c = l->channels;
    const __mmask32 here = first_of(cm_min_i64(room, 32)),
                    behind = first_of(cm_max_i64(0, room - 32));
    /* What is masked is not read: a window may begin before its line. */
    uintptr_t from = (uintptr_t)l->x + (uintptr_t)(first * c * 2);
    for (int64_t i = 0; i < n; i++, first += l->stride, to += ld) {
        int64_t lo = cm_min_i64(l->kernel, cm_max_i64(0, -first));
        int64_t hi = cm_max_i64(0, cm_min_i64(l->kernel, l->width - first));
        __mmask32 inside = l->x ? first_of(hi * c) & ~first_of(lo * c) : 0;
        _mm512_mask_storeu_epi16(to, here, _mm512_maskz_loadu_epi16(inside, (const void *)from));
        if (behind)
            _mm512_mask_storeu_epi16(to + 32, behind, _mm512_setzero_si512());
        from += (uintptr_t)(l->stride * c * 2);
    }
}
