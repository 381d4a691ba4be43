/* gemm_half.h -- products of 16-bit elements with sums in float32: conversion, and tiles of bfloat16.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_GEMM_HALF_H
#define CM_CPU_GEMM_HALF_H

#include <stdbool.h>
#include <stdint.h>

/* n elements, `stride` apart, to float32. */
typedef void (*cm_widen_fn)(int64_t n, const uint16_t *from, int64_t stride, float *to);
cm_widen_fn cm_gemm_widen_of(int level, bool bf16);

/* Panels of bfloat16 are squares of CM_BF16_K rows by CM_BF16_NR columns, one after the other, k rounded up with zeros; a
 * square is two halves of 16 columns, each of which holds pairs of rows: [2][16][16][2]. */
enum { CM_BF16_K = 32, CM_BF16_NR = 32 };

/* Where element (l, j) of a panel is. */
static inline int64_t cm_bf16_panel_at(int64_t l, int64_t j)
{
    return l / 32 * 1024 + j / 16 * 512 + l % 32 / 2 * 32 + j % 16 * 2 + l % 2;
}

/* What later tiles want in the near cache: so many lines of 64 bytes, `step` bytes apart, are asked for with every square of a
 * panel. Never read. */
typedef struct cm_bf16_ahead {
    const char *from;
    int64_t step;
    int lines;
} cm_bf16_ahead;

/* c[i][j] = sum over l < k of a[i][l] * b[l][j]: m rows (at most mr) and a whole panel. Rows of A are `lda`
 * elements apart and as long as the panel. */
typedef struct cm_bf16_tile {
    int64_t m, k;
    const uint16_t *a;
    int64_t lda;
    const uint16_t *b;
    float *c;
    int64_t ldc;
    /* Where the rows' elements of each square are, from `a`. NULL: one square after the other. */
    const int32_t *at;
    bool add;                          /* to what c holds */
    cm_bf16_ahead ahead[2], out_ahead; /* to be read; to be written */
} cm_bf16_tile;

typedef struct cm_gemm_bf16_kernel {
    int mr;
    double square_ns; /* mr rows by one square of a panel, roughly */
    void (*tile)(const cm_bf16_tile *t);
    /* Around any number of tiles, on the same thread. NULL: nothing. */
    void (*begin)(void), (*end)(void);
} cm_gemm_bf16_kernel;

extern const cm_gemm_bf16_kernel cm_gemm_bf16__avx512, cm_gemm_bf16__amx;

/* The functions of a tactic's row from those of a file that knows both kernels: workspace(p, kernel),
 * cost(p, kernel, gain over float32), run(r, kernel); with constant weights also pack_bytes(p, input),
 * pack(p, input, from, to, threads). */
#define CM_BF16_TACTIC_UNPACKED(stem, kernel, gain)                                                \
    size_t cm_cpu_##stem##_workspace(const cm_problem *p, const cm_knobs *k)                       \
    {                                                                                              \
        (void)k;                                                                                   \
        return workspace(p, &kernel);                                                              \
    }                                                                                              \
    double cm_cpu_##stem##_cost(const cm_problem *p, const cm_knobs *k)                            \
    {                                                                                              \
        (void)k;                                                                                   \
        return cost(p, &kernel, gain);                                                             \
    }                                                                                              \
    cm_status cm_cpu_##stem##_run(const cm_run *r)                                                 \
    {                                                                                              \
        return run(r, &kernel);                                                                    \
    }

#define CM_BF16_TACTIC(stem, kernel, gain)                                                         \
    CM_BF16_TACTIC_UNPACKED(stem, kernel, gain)                                                    \
    size_t cm_cpu_##stem##_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)           \
    {                                                                                              \
        (void)k;                                                                                   \
        return pack_bytes(p, input);                                                               \
    }                                                                                              \
    void cm_cpu_##stem##_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from, \
                              void *to, cm_threads *threads)                                       \
    {                                                                                              \
        (void)k;                                                                                   \
        pack(p, input, from, to, threads);                                                         \
    }

#define X(level)                                                                                   \
    void cm_gemm_widen_f16__##level(int64_t n, const uint16_t *from, int64_t stride, float *to);   \
    void cm_gemm_widen_bf16__##level(int64_t n, const uint16_t *from, int64_t stride, float *to);
X(generic)
X(avx2)
X(avx512)
#undef X

#endif
