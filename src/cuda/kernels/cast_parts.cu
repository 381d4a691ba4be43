// cast_parts.cu -- Cast to and from elements of less than a byte.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: X, Y (element types), NUMBER (what is between them), CUT, OPEN (elements.cuh).
#include "common.cuh"
#include "elements.cuh"
#include "parts.cuh"
#define WIDE 1
#include "nest.cuh"

struct conversion {
    const void *x;
    void *y;
    u64 n;
};

extern "C" __global__ void __launch_bounds__(256) cast_parts(const conversion a)
{
    for (u64 u = first_index(); u * 8 < a.n; u += all_threads()) {
        const u64 i = u * 8;
        const int n = a.n - i < 8 ? (int)(a.n - i) : 8;
        Y y[8];
#pragma unroll
        for (int k = 0; k < 8; k++)
            if (k < n)
                y[k] = element<Y>::put(get<NUMBER, X>(elements_at<X>::load(a.x, i + k)));
        elements_at<Y>::store(a.y, i, y, n);
    }
}
