/* gemm_strip.h -- strips: full tiles one under the other by one panel, in one call.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sums begin with the bias, and each is stored as soon as its last product is in it, while those below it still wait for
 * theirs: many stores at once hold multiply-adds up. Columns come in halves of an AVX-512 vector, which takes
 * multiply-adds of 256 bits in half the time where the core has units of that width; elements of A are operands in
 * memory there, spread over a vector, since loading each by itself keeps those units from being busy all the time (Zen
 * 4: 24 columns at 88 % of the peak instead of 97 %). */
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
#define vh_add   _mm256_add_ps
#define vh_max   _mm256_max_ps
#define vh_min   _mm256_min_ps
/* In this order: the compiler's would be one that needs more registers. */
#define FMA_AT(acc, x, y)                                                                          \
    __asm__ volatile("vfmadd231ps %1%{1to16%}, %2, %0" : "+v"(acc) : "m"(x), "v"(y))
#define FMA_HALF_AT(acc, x, y)                                                                     \
    __asm__ volatile("vfmadd231ps %1%{1to8%}, %2, %0" : "+v"(acc) : "m"(x), "v"(y))
#else
enum { STRIP_STEP = VW };
typedef vf vh; /* never used */
#define vh_of(v)          (v)
#define vh_set            vf_set
#define vh_load           vf_load
#define vh_store          vf_store
#define vh_add            vf_add
#define vh_max            vf_max
#define vh_min            vf_min
#define FMA_AT(acc, x, y) acc = vf_fma(vf_set(x), y, acc)
#define FMA_HALF_AT       FMA_AT
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

/* Where a tile reads A, three rows by each of a few pointers, which move along k; where it finishes, and what of that it
 * asks for next. */
typedef struct {
    const float *p[(GEMM_MR + 2) / 3];
    int64_t apart;
    float *c;
    int64_t ldc;
    const float *residual; /* NULL: none */
    int64_t residual_ld;
    const float *asked, *asked_residual;
} strip_at;

VINLINE void strip_move(strip_at *at, int n)
{
    UNROLL
    for (int i = 0; i < GEMM_MR; i += 3)
        at->p[i / 3] += n;
}

/* One row, while there are some. */
VINLINE void strip_ask(strip_at *at)
{
    if (at->asked >= at->c + GEMM_MR * at->ldc)
        return;
    ask((const char *)at->asked);
    at->asked += at->ldc;
    if (at->residual) {
        ask((const char *)at->asked_residual);
        at->asked_residual += at->residual_ld;
    }
}

/* What all tiles of a strip are clamped to. */
typedef struct {
    vf lo, hi;
} strip_range;

VINLINE void strip_store(float *c, int nv, bool half, strip_acc *a, int i, strip_range k)
{
    EACH_FULL
    vf_store(c + j * VW, vf_min(k.hi, vf_max(k.lo, a->full[i][j])));
    if (half)
        vh_store(c + nv * VW, vh_min(vh_of(k.hi), vh_max(vh_of(k.lo), a->half[i])));
}

VINLINE void strip_residual(const strip_at *at, int nv, bool half, strip_acc *a, strip_range k)
{
    EACH_ROW
    {
        const float *r = at->residual + i * at->residual_ld;
        EACH_FULL
        a->full[i][j] = vf_add(a->full[i][j], vf_load(r + j * VW));
        if (half)
            a->half[i] = vh_add(a->half[i], vh_load(r + nv * VW));
        strip_store(at->c + i * at->ldc, nv, half, a, i, k);
    }
}

/* The next element of each row; `last`: the sums' last, and there is no residual. */
VINLINE void strip_step(strip_at *at, bool last, int nv, bool half, strip_acc *a, const float *b,
                        int l, strip_range k)
{
    vf v[NV];
    vh h = half ? vh_load(b + l * NR + nv * VW) : vh_of(vf_zero());
    EACH_FULL
    v[j] = vf_load(b + l * NR + j * VW);
    float *c = at->c;
    EACH_ROW
    {
        EACH_FULL
        FMA_AT(a->full[i][j], at->p[i / 3][i % 3 * at->apart + l], v[j]);
        if (half)
            FMA_HALF_AT(a->half[i], at->p[i / 3][i % 3 * at->apart + l], h);
        if (last) {
            strip_store(c, nv, half, a, i, k);
            c += at->ldc;
        }
    }
}

/* k elements of a run. Returns the panel's next row. */
VINLINE const float *strip_run(strip_at *at, int64_t k, int nv, bool half, strip_acc *a,
                               const float *b, strip_range range)
{
    for (; k >= 2; k -= 2, b += 2 * NR) {
        strip_ask(at);
        strip_step(at, false, nv, half, a, b, 0, range);
        strip_step(at, false, nv, half, a, b, 1, range);
        strip_move(at, 2);
    }
    if (k > 0) {
        strip_step(at, false, nv, half, a, b, 0, range);
        strip_move(at, 1);
        b += NR;
    }
    return b;
}

/* nv vectors and perhaps a half, asking for runs ahead or not; constants where this is inlined. */
VINLINE void strip_columns(const cm_gemm_tile *t, int nv, bool half, bool asks)
{
    const cm_simple_epilogue *e = t->e;
    strip_at at = {.apart = t->rows_apart, .c = t->c, .ldc = t->ldc};
    if (e->residual) {
        at.residual = e->residual + t->row * e->residual_ld + t->col;
        at.residual_ld = e->residual_ld;
    }
    int64_t skip = 0;
    for (int64_t left = t->tiles; left > 0; left--) {
        const float *b = t->b;
        const strip_range range = {vf_set(e->lo), vf_set(e->hi)};
        strip_acc a;
        strip_begin(t, nv, half, &a);
        at.asked = at.c;
        at.asked_residual = at.residual;
        for (int64_t r = 0; r < t->runs; r++) {
            const float *x = t->rows[r] + skip;
            if (asks)
                ask((const char *)(x + t->runs_ahead));
            UNROLL
            for (int i = 0; i < GEMM_MR; i += 3, x += 3 * at.apart)
                at.p[i / 3] = x;
            b = strip_run(&at, t->k - (r == t->runs - 1), nv, half, &a, b, range);
        }
        if (at.residual) {
            strip_step(&at, false, nv, half, &a, b, 0, range);
            strip_residual(&at, nv, half, &a, range);
            at.residual += GEMM_MR * at.residual_ld;
        } else {
            strip_step(&at, true, nv, half, &a, b, 0, range);
        }
        at.c += GEMM_MR * at.ldc;
        skip += GEMM_MR * at.apart;
    }
}

static void strip(const cm_gemm_tile *t)
{
#if VW == 16
    if (t->n == VW / 2)
        strip_columns(t, 0, true, false);
    else if (t->n == VW + VW / 2)
        strip_columns(t, 1, true, false);
    else
#endif
        if (t->n == VW)
        strip_columns(t, 1, false, false);
    else if (t->runs_ahead)
        strip_columns(t, NV, false, true);
    else
        strip_columns(t, NV, false, false);
}

#undef EACH_ROW
#undef EACH_FULL

#endif
