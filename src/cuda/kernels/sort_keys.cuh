// sort_keys.cuh -- a block sorts 64-bit keys in shared memory, smallest first, by exchanges at powers of two.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: THREADS, of the block. n: a power of two.
#pragma once

DEVICE void sort_keys(u64 *keys, u32 n)
{
    for (u32 size = 2; size <= n; size *= 2)
        for (u32 apart = size / 2; apart > 0; apart /= 2) {
            __syncthreads();
            for (u32 i = threadIdx.x; i < n / 2; i += THREADS) {
                const u32 lo = i / apart * 2 * apart + i % apart, hi = lo + apart;
                const u64 p = keys[lo], q = keys[hi];
                if ((p > q) == ((lo & size) == 0)) {
                    keys[lo] = q;
                    keys[hi] = p;
                }
            }
        }
    __syncthreads();
}
