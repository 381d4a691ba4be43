/* gemm_strip.h -- strips: full tiles one under the other by one panel, in one call.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sums begin with the bias, and the end of a tile runs beside the beginning of the next: short sums lose a third
 * of what they lose where tiles are called one by one. Columns come in halves of an AVX-512 vector, which
 * takes multiply-adds of 256 bits in half the time where the core has units of that width. */
#ifndef CM_CPU_SIMD_GEMM_STRIP_H
#define CM_CPU_SIMD_GEMM_STRIP_H

#include "cpu/simd/gemm.h"

/* Half a vector, where that is less work than a whole one. */
#if VW == 16
enum { STRIP_STEP = 8 };
typedef __m256 vh;
#define vh_of    _mm512_castps512_ps256
#define vh_set   _mm256_set1_ps
#define vh_load  _mm256_loadu_ps
#define vh_store _mm256_storeu_ps
#define vh_fma   _mm256_fmadd_ps
#define vh_add   _mm256_add_ps
#define vh_max   _mm256_max_ps
#define vh_min   _mm256_min_ps
#else
enum { STRIP_STEP = VW };
typedef vf vh; /* never used */
#define vh_of(v) (v)
#define vh_set   vf_set
#define vh_load  vf_load
#define vh_store vf_store
#define vh_fma   vf_fma
#define vh_add   vf_add
#define vh_max   vf_max
#define vh_min   vf_min
#endif

typedef struct {
    vf full[GEMM_MR][NV];
    vh half[GEMM_MR];
} strip_acc;

#define EACH_ROW                                                                                   \
    UNROLL                                                                                         \
    for (int i = 0; i < GEMM_MR; i++)
#define EACH_FULL UNROLL for (int j = 0; j < nv; j++)

VINLINE void strip_begin(const cm_gemm_tile *t, int nv, bool half, strip_acc *a)
{
    const float *bias = t->e->bias ? t->e->bias + t->col : NULL;
    EACH_ROW
    {
        EACH_FULL
        a->full[i][j] = bias ? vf_load(bias + j * VW) : vf_zero();
        if (half)
            a->half[i] = bias ? vh_load(bias + nv * VW) : vh_of(vf_zero());
    }
}

VINLINE void strip_step(int nv, bool half, strip_acc *a, const float *b, const float *const *p,
                        int64_t apart, int64_t l)
{
    vf v[NV];
    vh h = half ? vh_load(b + nv * VW) : vh_of(vf_zero());
    EACH_FULL
    v[j] = vf_load(b + j * VW);
    EACH_ROW
    {
        const float *at = p[i / 3] + l + i % 3 * apart;
        vf x = nv ? vf_set(*at) : vf_zero();
        EACH_FULL
        a->full[i][j] = vf_fma(x, v[j], a->full[i][j]);
        if (half)
            a->half[i] = vh_fma(nv ? vh_of(x) : vh_set(*at), h, a->half[i]);
    }
}

VINLINE void strip_end(const cm_gemm_tile *t, int64_t row, int nv, bool half, strip_acc *a)
{
    const cm_simple_epilogue *e = t->e;
    float *c = t->c + row * t->ldc;
    if (e->residual) {
        const float *r = e->residual + (t->row + row) * e->residual_ld + t->col;
        EACH_ROW
        {
            EACH_FULL
            a->full[i][j] = vf_add(a->full[i][j], vf_load(r + i * e->residual_ld + j * VW));
            if (half)
                a->half[i] = vh_add(a->half[i], vh_load(r + i * e->residual_ld + nv * VW));
        }
    }
    vf lo = vf_set(e->lo), hi = vf_set(e->hi);
    EACH_ROW
    {
        EACH_FULL
        vf_store(c + i * t->ldc + j * VW, vf_min(hi, vf_max(lo, a->full[i][j])));
        if (half)
            vh_store(c + i * t->ldc + nv * VW, vh_min(vh_of(hi), vh_max(vh_of(lo), a->half[i])));
    }
}

/* A row of what the tile finishes with, every 4 of k: of C and of the residual in turns. */
VINLINE void strip_ask(const cm_gemm_tile *t, int64_t row, int64_t run, int64_t l)
{
    const cm_simple_epilogue *e = t->e;
    if (run > 0 || l >= 4 * GEMM_MR)
        return;
    row += l / 4;
    if (l % 4 == 0)
        ask((const char *)(t->c + row * t->ldc));
    else if (e->residual)
        ask((const char *)(e->residual + (t->row + row) * e->residual_ld + t->col));
}

/* nv vectors and perhaps a half; constants where this is inlined. */
VINLINE void strip_columns(const cm_gemm_tile *t, int nv, bool half)
{
    const int64_t ldb = t->ldb, k = t->k, apart = t->rows_apart;
    for (int64_t row = 0; row < t->tiles * GEMM_MR; row += GEMM_MR) {
        const float *b = t->b;
        strip_acc a;
        strip_begin(t, nv, half, &a);
        for (int64_t r = 0; r < t->runs; r++) {
            const float *p[(GEMM_MR + 2) / 3];
            UNROLL
            for (int i = 0; i < GEMM_MR; i += 3)
                p[i / 3] = t->rows[r] + (row + i) * apart;
            int64_t l = 0;
            for (; l + 2 <= k; l += 2, b += 2 * ldb) {
                strip_ask(t, row, r, l);
                strip_step(nv, half, &a, b, p, apart, l);
                strip_step(nv, half, &a, b + ldb, p, apart, l + 1);
            }
            if (l < k) {
                strip_step(nv, half, &a, b, p, apart, l);
                b += ldb;
            }
        }
        strip_end(t, row, nv, half, &a);
    }
}

static void strip(const cm_gemm_tile *t)
{
#if VW == 16
    if (t->n == VW / 2)
        strip_columns(t, 0, true);
    else if (t->n == VW + VW / 2)
        strip_columns(t, 1, true);
    else
#endif
        if (t->n == VW)
        strip_columns(t, 1, false);
    else
        strip_columns(t, NV, false);
}

#undef EACH_ROW
#undef EACH_FULL

#endif
