/* limits.c -- what this machine can do at most: FMA rate and DRAM read bandwidth, by threads.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Usage: limits THREADS [avx512|avx2|generic]. Prints one JSON object. */
#include "cli/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    cm_limits l;
    int n = argc > 1 ? atoi(argv[1]) : 1;
    const char *isa = argc > 2 ? argv[2] : "";
    int have = __builtin_cpu_supports("avx512f")                                 ? 2
               : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 1
                                                                                 : 0;
    int level = !strcmp(isa, "generic") ? 0 : !strcmp(isa, "avx2") ? 1 : 2;
    if (n < 1 || n > CM_LIMITS_MOST_THREADS) {
        fprintf(stderr, "limits: wanted 1 to %d threads\n", CM_LIMITS_MOST_THREADS);
        return 2;
    }
    if (!cm_limits_measure(n, level < have ? level : have, 0, 0, &l)) {
        fprintf(stderr, "limits: no memory, or no %d threads\n", n);
        return 1;
    }
    printf("{\"threads\": %d, \"gflops\": %.1f, \"read_gb_s\": %.1f}\n", n, l.f32_ops * 1e-9,
           l.dram_bytes * 1e-9);
    return 0;
}
