/* gemm.h -- tile kernels of the matrix product, built once per ISA level.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All loops over rows and vectors are unrolled, so that accumulators stay in registers. */
#ifndef CM_CPU_SIMD_GEMM_H
#define CM_CPU_SIMD_GEMM_H

#include "cpu/gemm.h"
#include "cpu/simd/vec.h"

/* The largest tile: rows and vectors in a row. Measured on a core that does one 512-bit or two 256-bit
 * multiply-adds a cycle: 14 x 32 and 6 x 16 reach 99 % of that; 12 x 32, 8 x 48 and 6 x 64 no more, 4 x 24
 * 85 %. */
#if VW == 16
#define GEMM_MR 14
#elif VW == 8
#define GEMM_MR 6
#else
#define GEMM_MR 4
#endif
enum { NV = 2, NR = VW * NV };

/* Small tiles keep several sums per element, or they would wait for one addition after the other. */
#define SETS(mr, nv) ((mr) * (nv) >= 8 ? 1 : (mr) * (nv) >= 4 ? 2 : 4)

typedef vf gemm_acc[GEMM_MR][NV];

/* The lines of one row of a panel. Into the first level: into the second alone is 1 % slower as measured. */
VINLINE void ask(const char *ahead)
{
    UNROLL
    for (int i = 0; i < NR * 4; i += 64)
        _mm_prefetch(ahead + i, _MM_HINT_T0);
}

/* What a tile asks for, a row every 4 of k: first what it finishes with, or it would wait for each line of it;
 * then what a later tile wants. */
typedef struct {
    const char *at;
    int64_t step, left;
    bool residual;
} asked;

VINLINE asked ask_ahead(const cm_gemm_tile *t)
{
    return (asked){t->ahead ? t->ahead : (const char *)t->b, t->ahead_step, INT64_MAX, false};
}

VINLINE asked ask_first(const cm_gemm_tile *t, int mr)
{
    if (t->near)
        return ask_ahead(t);
    return (asked){(const char *)t->c, t->ldc * 4, mr, t->e && t->e->residual};
}

VINLINE void ask_next(const cm_gemm_tile *t, int mr, asked *q)
{
    ask(q->at);
    q->at += q->step;
    if (--q->left > 0)
        return;
    if (q->residual) {
        int64_t ld = t->e->residual_ld;
        *q = (asked){(const char *)(t->e->residual + t->row * ld + t->col), ld * 4, mr, false};
    } else {
        *q = ask_ahead(t);
    }
}

VINLINE void step(int mr, int nv, gemm_acc acc, const float *b, const float *const *p, int64_t l)
{
    vf v[NV];
    UNROLL
    for (int j = 0; j < nv; j++)
        v[j] = vf_load(b + j * VW);
    UNROLL
    for (int i = 0; i < mr; i++) {
        vf x = vf_set(p[i][l]);
        UNROLL
        for (int j = 0; j < nv; j++)
            acc[i][j] = vf_fma(x, v[j], acc[i][j]);
    }
}

VINLINE void step_packed(int mr, int nv, gemm_acc acc, const float *b, const float *a)
{
    vf v[NV];
    UNROLL
    for (int j = 0; j < nv; j++)
        v[j] = vf_load(b + j * VW);
    UNROLL
    for (int i = 0; i < mr; i++) {
        vf x = vf_set(a[i]);
        UNROLL
        for (int j = 0; j < nv; j++)
            acc[i][j] = vf_fma(x, v[j], acc[i][j]);
    }
}

VINLINE void clear(int mr, int nv, gemm_acc acc)
{
    UNROLL
    for (int i = 0; i < mr; i++) {
        UNROLL
        for (int j = 0; j < nv; j++)
            acc[i][j] = vf_zero();
    }
}

VINLINE void sum_sets(int mr, int nv, int sets, gemm_acc *acc)
{
    UNROLL
    for (int s = 1; s < sets; s++) {
        UNROLL
        for (int i = 0; i < mr; i++) {
            UNROLL
            for (int j = 0; j < nv; j++)
                acc[0][i][j] = vf_add(acc[0][i][j], acc[s][i][j]);
        }
    }
}

/* Lanes of vector j that a tile of n columns has. */
VINLINE int lanes(int n, int j)
{
    int left = n - j * VW;
    return left >= VW ? VW : left > 0 ? left : 0;
}

#define EACH                                                                                       \
    UNROLL                                                                                         \
    for (int i = 0; i < mr; i++)                                                                   \
    UNROLL for (int j = 0; j < nv; j++)

/* `at`: the tile's columns that are other accumulators'. */
VINLINE void finish_full(const cm_gemm_tile *t, int at, int mr, int nv, gemm_acc acc)
{
    float *c = t->c + at;
    if (t->add)
        EACH acc[i][j] = vf_add(vf_load(c + i * t->ldc + j * VW), acc[i][j]);
    const cm_simple_epilogue *e = t->e;
    if (e) {
        if (e->bias) {
            const float *b = e->bias + t->col + at;
            EACH acc[i][j] = vf_add(acc[i][j], vf_load(b + j * VW));
        }
        if (e->residual) {
            const float *r = e->residual + t->row * e->residual_ld + t->col + at;
            EACH acc[i][j] = vf_add(acc[i][j], vf_load(r + i * e->residual_ld + j * VW));
        }
        vf lo = vf_set(e->lo), hi = vf_set(e->hi);
        if (e->lo > -__builtin_inff())
            EACH acc[i][j] = vf_max(lo, acc[i][j]);
        if (e->hi < __builtin_inff())
            EACH acc[i][j] = vf_min(hi, acc[i][j]);
    }
    EACH vf_store(c + i * t->ldc + j * VW, acc[i][j]);
}

/* Lanes behind the tile's last column are neither read nor written. */
VINLINE void finish_part(const cm_gemm_tile *t, int at, int mr, int nv, gemm_acc acc)
{
    const int n = t->n - at;
    float *c = t->c + at;
    if (t->add)
        EACH acc[i][j] = vf_add(vf_load_n(c + i * t->ldc + j * VW, lanes(n, j)), acc[i][j]);
    const cm_simple_epilogue *e = t->e;
    if (e) {
        if (e->bias) {
            const float *b = e->bias + t->col + at;
            EACH acc[i][j] = vf_add(acc[i][j], vf_load_n(b + j * VW, lanes(n, j)));
        }
        if (e->residual) {
            const float *r = e->residual + t->row * e->residual_ld + t->col + at;
            EACH acc[i][j] =
                vf_add(acc[i][j], vf_load_n(r + i * e->residual_ld + j * VW, lanes(n, j)));
        }
        vf lo = vf_set(e->lo), hi = vf_set(e->hi);
        EACH acc[i][j] = vf_min(hi, vf_max(lo, acc[i][j]));
    }
    EACH vf_store_n(c + i * t->ldc + j * VW, acc[i][j], lanes(n, j));
}

/* For tiles of any width and alpha, from memory: one loop for all kernels. In each, unrolled, it was half of their
 * code. */
static __attribute__((noinline)) void finish_any(const cm_gemm_tile *t, int at, int mr, int nv,
                                                 const float (*acc)[NR])
{
    static const cm_simple_epilogue none = {.lo = -__builtin_inff(), .hi = __builtin_inff()};
    const cm_simple_epilogue e = t->e ? *t->e : none;
    const vf alpha = vf_set(t->alpha), lo = vf_set(e.lo), hi = vf_set(e.hi);
    const bool add = t->add;
    const int64_t ldc = t->ldc;
    for (int j = 0; j < nv; j++, at += VW) {
        const int n = lanes(t->n - at, 0);
        float *c = t->c + at;
        const float *r = e.residual ? e.residual + t->row * e.residual_ld + t->col + at : NULL;
        const float *bias = e.bias ? e.bias + t->col + at : NULL;
        for (int i = 0; n > 0 && i < mr; i++, c += ldc) {
            vf v = vf_mul(alpha, vf_load(acc[i] + j * VW));
            if (add)
                v = vf_add(vf_load_n(c, n), v);
            if (bias)
                v = vf_add(v, vf_load_n(bias, n));
            if (r)
                v = vf_add(v, vf_load_n(r + i * e.residual_ld, n));
            vf_store_n(c, vf_min(hi, vf_max(lo, v)), n);
        }
    }
}

VINLINE void finish(const cm_gemm_tile *t, int at, int mr, int nv, gemm_acc acc)
{
    if (t->n - at >= nv * VW && t->alpha == 1) {
        finish_full(t, at, mr, nv, acc);
    } else if (VW == 16 && mr <= 6 &&
               t->alpha == 1) { /* masks make it short, and so are such tiles */
        finish_part(t, at, mr, nv, acc);
    } else {
        float kept[GEMM_MR][NR];
        EACH vf_store(kept[i] + j * VW, acc[i][j]);
        finish_any(t, at, mr, nv, kept);
    }
}

/* A tile of mr rows, mr a constant where this is inlined. */
VINLINE void tile_rows(const cm_gemm_tile *t, int mr, int nv)
{
    enum { MOST = 4 };
    const int sets = SETS(mr, nv);
    gemm_acc acc[MOST];
    UNROLL
    for (int s = 0; s < sets; s++)
        clear(mr, nv, acc[s]);
    asked q = ask_first(t, mr);
    const float *b = t->b;
    const int64_t ldb = t->ldb, k = t->k;
    const float *const *rows = t->rows;
    for (int64_t r = 0; r < t->runs; r++, rows += t->rows_step) {
        const float *p[GEMM_MR];
        UNROLL
        for (int i = 0; i < mr; i++)
            p[i] = rows[i];
        int64_t l = 0;
        for (; l + 4 <= k; l += 4) {
            ask_next(t, mr, &q);
            UNROLL
            for (int u = 0; u < 4; u++, b += ldb)
                step(mr, nv, acc[u % sets], b, p, l + u);
        }
        for (; l < k; l++, b += ldb)
            step(mr, nv, acc[0], b, p, l);
    }
    sum_sets(mr, nv, sets, acc);
    finish(t, 0, mr, nv, acc[0]);
}

VINLINE void tile_packed(const cm_gemm_tile *t, int mr, int nv)
{
    enum { MOST = 4 };
    const int sets = SETS(mr, nv);
    gemm_acc acc[MOST];
    UNROLL
    for (int s = 0; s < sets; s++)
        clear(mr, nv, acc[s]);
    asked q = ask_first(t, mr);
    const float *b = t->b, *a = t->a;
    const int64_t ldb = t->ldb, k = t->runs * t->k;
    int64_t l = 0;
    for (; l + 4 <= k; l += 4) {
        ask_next(t, mr, &q);
        UNROLL
        for (int u = 0; u < 4; u++, b += ldb, a += mr)
            step_packed(mr, nv, acc[u % sets], b, a);
    }
    for (; l < k; l++, b += ldb, a += mr)
        step_packed(mr, nv, acc[0], b, a);
    sum_sets(mr, nv, sets, acc);
    finish(t, 0, mr, nv, acc[0]);
}

VINLINE void tile_shifted(const cm_gemm_tile *t, int mr, int nv)
{
    enum { MOST = 4 };
    const int sets = SETS(mr, nv), at_once = sets > 1 ? 4 : 2;
    gemm_acc acc[MOST];
    UNROLL
    for (int s = 0; s < sets; s++)
        clear(mr, nv, acc[s]);
    if (t->start)
        EACH acc[0][i][j] = vf_set(t->start[i]);
    const float *b = t->b, *a = t->a;
    const int32_t *shift = t->shift;
    int64_t l = 0;
    for (; l + at_once <= t->k; l += at_once) {
        UNROLL
        for (int u = 0; u < at_once; u++, a += mr)
            step_packed(mr, nv, acc[u % sets], b + shift[l + u], a);
    }
    for (; l < t->k; l++, a += mr)
        step_packed(mr, nv, acc[0], b + shift[l], a);
    sum_sets(mr, nv, sets, acc);
    finish(t, 0, mr, nv, acc[0]);
}

/* Element l of each row, `apart` from one to the next: three rows by each of a few pointers. */
VINLINE void step_lined(int mr, int nv, gemm_acc acc, const float *b, const float *const *p,
                        int64_t apart, int64_t l)
{
    vf v[NV];
    UNROLL
    for (int j = 0; j < nv; j++)
        v[j] = vf_load(b + j * VW);
    UNROLL
    for (int i = 0; i < mr; i++) {
        vf x = vf_set(p[i / 3][l + i % 3 * apart]);
        UNROLL
        for (int j = 0; j < nv; j++)
            acc[i][j] = vf_fma(x, v[j], acc[i][j]);
    }
}

VINLINE void tile_lined(const cm_gemm_tile *t, int mr, int nv)
{
    enum { MOST = 4 };
    const int sets = SETS(mr, nv);
    gemm_acc acc[MOST];
    UNROLL
    for (int s = 0; s < sets; s++)
        clear(mr, nv, acc[s]);
    asked q = ask_first(t, mr);
    const float *b = t->b;
    const int64_t ldb = t->ldb, k = t->k, apart = t->rows_apart;
    for (int64_t r = 0; r < t->runs; r++) {
        const float *p[(GEMM_MR + 2) / 3];
        UNROLL
        for (int i = 0; i < mr; i += 3)
            p[i / 3] = t->rows[r] + i * apart;
        int64_t l = 0;
        for (; l + 2 <= k; l += 2, b += 2 * ldb) {
            ask_next(t, mr, &q);
            step_lined(mr, nv, acc[0], b, p, apart, l);
            step_lined(mr, nv, acc[sets > 1], b + ldb, p, apart, l + 1);
        }
        if (l < k) {
            step_lined(mr, nv, acc[sets > 2 ? 2 : 0], b, p, apart, l);
            b += ldb;
        }
    }
    sum_sets(mr, nv, sets, acc);
    finish(t, 0, mr, nv, acc[0]);
}

/* mr rows by `panels` panels. */
VINLINE void tile_wide(const cm_gemm_tile *t, int mr, int panels)
{
    gemm_acc acc[4];
    UNROLL
    for (int q = 0; q < panels; q++)
        clear(mr, NV, acc[q]);
    const float *p[GEMM_MR], *b[4];
    UNROLL
    for (int i = 0; i < mr; i++)
        p[i] = t->rows[i];
    UNROLL
    for (int q = 0; q < panels; q++)
        b[q] = t->b + q * t->b_panel;
    const int64_t ldb = t->ldb, k = t->k * t->runs;
    for (int64_t l = 0, at = 0; l < k; l++, at += ldb) {
        UNROLL
        for (int q = 0; q < panels; q++)
            step(mr, NV, acc[q], b[q] + at, p, l);
    }
    UNROLL
    for (int q = 0; q < panels; q++)
        finish(t, q * NR, mr, NV, acc[q]);
}

#define WIDE(mr, panels)                                                                           \
    static void wide_##mr(const cm_gemm_tile *t)                                                   \
    {                                                                                              \
        tile_wide(t, mr, panels);                                                                  \
    }

/* Tiles of no more columns than one vector has compute no more. */
#define TILE(mr)                                                                                   \
    static void rows_##mr(const cm_gemm_tile *t)                                                   \
    {                                                                                              \
        if (t->n > VW)                                                                             \
            tile_rows(t, mr, NV);                                                                  \
        else                                                                                       \
            tile_rows(t, mr, 1);                                                                   \
    }                                                                                              \
    static void packed_##mr(const cm_gemm_tile *t)                                                 \
    {                                                                                              \
        if (t->n > VW)                                                                             \
            tile_packed(t, mr, NV);                                                                \
        else                                                                                       \
            tile_packed(t, mr, 1);                                                                 \
    }                                                                                              \
    static void shifted_##mr(const cm_gemm_tile *t)                                                \
    {                                                                                              \
        if (t->n > VW)                                                                             \
            tile_shifted(t, mr, NV);                                                               \
        else                                                                                       \
            tile_shifted(t, mr, 1);                                                                \
    }                                                                                              \
    static void lined_##mr(const cm_gemm_tile *t)                                                  \
    {                                                                                              \
        if (t->n > VW)                                                                             \
            tile_lined(t, mr, NV);                                                                 \
        else                                                                                       \
            tile_lined(t, mr, 1);                                                                  \
    }

#endif
