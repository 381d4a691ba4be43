/* strassen.h -- tile kernels of Strassen's products, and sums of A's quarters.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_STRASSEN_H
#define CM_CPU_SIMD_STRASSEN_H

#include "cpu/simd/gemm.h"
#include "cpu/simd/math.h"
#include "cpu/strassen.h"

/* One of k: rows three by each of a few pointers. */
VINLINE void strassen_step(const cm_strassen_tile *t, int mr, cm_strassen_how mix, gemm_acc acc,
                           const float *const *p, int64_t l)
{
    vf v[NV];
    UNROLL
    for (int j = 0; j < NV; j++) {
        v[j] = vf_load(t->b[0] + l * NR + j * VW);
        if (mix == CM_STRASSEN_ADD)
            v[j] = vf_add(v[j], vf_load(t->b[1] + l * NR + j * VW));
        if (mix == CM_STRASSEN_LESS)
            v[j] = vf_sub(v[j], vf_load(t->b[1] + l * NR + j * VW));
        if (mix != CM_STRASSEN_NONE)
            vf_store(t->keep + l * NR + j * VW, v[j]);
    }
    UNROLL
    for (int i = 0; i < mr; i++) {
        vf x = vf_set(p[i / 3][l + i % 3 * t->a_row]);
        UNROLL
        for (int j = 0; j < NV; j++)
            acc[i][j] = vf_fma(x, v[j], acc[i][j]);
    }
}

VINLINE void strassen_sums(const cm_strassen_tile *tile, int mr, cm_strassen_how mix, gemm_acc acc)
{
    const cm_strassen_tile t = *tile;
    const float *p[(GEMM_MR + 2) / 3];
    UNROLL
    for (int i = 0; i < mr; i += 3)
        p[i / 3] = t.a + i * t.a_row;
    int64_t l = 0;
    for (; l + 4 <= t.k; l += 4) {
        _mm_prefetch(t.ahead + l * 32, _MM_HINT_T0);
        _mm_prefetch(t.ahead + l * 32 + 64, _MM_HINT_T0);
        UNROLL
        for (int u = 0; u < 4; u++)
            strassen_step(&t, mr, mix, acc, p, l + u);
    }
    for (; l < t.k; l++)
        strassen_step(&t, mr, mix, acc, p, l);
}

VINLINE void strassen_place(const cm_strassen_tile *t, int mr, int place, gemm_acc acc)
{
    enum { nv = NV };
    float *c = t->c[place];
    switch (t->how[place]) {
    case CM_STRASSEN_NONE:
        break;
    case CM_STRASSEN_STORE:
        EACH vf_store(c + i * t->ldc + j * VW, acc[i][j]);
        break;
    case CM_STRASSEN_ADD: {
        EACH vf_store(c + i * t->ldc + j * VW, vf_add(vf_load(c + i * t->ldc + j * VW), acc[i][j]));
        break;
    }
    case CM_STRASSEN_LESS: {
        EACH vf_store(c + i * t->ldc + j * VW, vf_sub(vf_load(c + i * t->ldc + j * VW), acc[i][j]));
        break;
    }
    }
}

VINLINE void strassen_tile(const cm_strassen_tile *t, int mr)
{
    gemm_acc acc;
    clear(mr, NV, acc);
    if (t->mix == CM_STRASSEN_ADD)
        strassen_sums(t, mr, CM_STRASSEN_ADD, acc);
    else if (t->mix == CM_STRASSEN_LESS)
        strassen_sums(t, mr, CM_STRASSEN_LESS, acc);
    else
        strassen_sums(t, mr, CM_STRASSEN_NONE, acc);
    strassen_place(t, mr, 0, acc);
    strassen_place(t, mr, 1, acc);
}

#define STRASSEN_TILE(mr)                                                                          \
    static void strassen_##mr(const cm_strassen_tile *t)                                           \
    {                                                                                              \
        strassen_tile(t, mr);                                                                      \
    }

/* Elements [l, l + n) of a row, n a constant or a tail. */
VINLINE void strassen_mix_at(const float *const quarter[4], int64_t l, int n, float *to,
                             int64_t apart, vf size[2])
{
    vf q[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        q[i] = n == VW ? vf_load(quarter[i] + l) : vf_load_n(quarter[i] + l, n);
        size[i / 2] = vf_add(size[i / 2], vf_abs(q[i]));
    }
    const vf sums[CM_STRASSEN_PRODUCTS] = {
        vf_add(q[0], q[3]), vf_add(q[2], q[3]), q[0], q[3], vf_add(q[0], q[1]),
        vf_sub(q[2], q[0]), vf_sub(q[1], q[3]),
    };
    UNROLL
    for (int i = 0; i < CM_STRASSEN_PRODUCTS; i++) {
        if (n == VW)
            vf_store(to + i * apart + l, sums[i]);
        else
            vf_store_n(to + i * apart + l, sums[i], n);
    }
}

static void strassen_mix(int64_t k, const float *const quarter[4], float *to, int64_t apart,
                         float size[2])
{
    int64_t l = 0;
    vf sizes[2] = {vf_zero(), vf_zero()};
    for (; l + VW <= k; l += VW)
        strassen_mix_at(quarter, l, VW, to, apart, sizes);
    if (l < k)
        strassen_mix_at(quarter, l, (int)(k - l), to, apart, sizes);
    size[0] += vf_sum(sizes[0]);
    size[1] += vf_sum(sizes[1]);
}

/* A row that will be written soon, and what is added to it. */
VINLINE void strassen_ask(const float *y, const float *residual, int64_t n)
{
    for (int64_t j = 0; j < n; j += 16) {
        _mm_prefetch((const char *)(y + j), _MM_HINT_T0);
        if (residual)
            _mm_prefetch((const char *)(residual + j), _MM_HINT_T0);
    }
}

VINLINE vf strassen_act(cm_pointwise act, vf x, vf lo, vf hi)
{
    return act == CM_PW_GELU        ? vf_gelu(x)
           : act == CM_PW_GELU_TANH ? vf_gelu_tanh(x)
           : act == CM_PW_SILU      ? vf_silu(x)
                                    : vf_min(hi, vf_max(lo, x));
}

/* One row; what e has is known to the branches, as act is to the loop. */
VINLINE void strassen_row(const cm_simple_epilogue *e, cm_pointwise act, const float *x,
                          const float *bias, const float *residual, int64_t n, float *y)
{
    const vf lo = vf_set(e->lo), hi = vf_set(e->hi);
    for (int64_t j = 0; j < n; j += VW) {
        vf v = vf_load(x + j);
        if (bias)
            v = vf_add(v, vf_load(bias + j));
        if (residual)
            v = vf_add(v, vf_load(residual + j));
        vf_store(y + j, strassen_act(act, v, lo, hi));
    }
}

VINLINE void strassen_rows(const cm_simple_epilogue *e, cm_pointwise act, int64_t row, int64_t col,
                           int64_t m, int64_t n, const float *x, int64_t ld, float *y, int64_t ldy)
{
    enum { AHEAD = 8 }; /* rows */
    const float *bias = e->bias ? e->bias + col : NULL;
    const float *residual = e->residual ? e->residual + row * e->residual_ld + col : NULL;
    y += row * ldy + col;
    for (int64_t i = 0; i < m; i++, x += ld, y += ldy) {
        if (i + AHEAD < m)
            strassen_ask(y + AHEAD * ldy, residual ? residual + AHEAD * e->residual_ld : NULL, n);
        strassen_row(e, act, x, bias, residual, n, y);
        if (residual)
            residual += e->residual_ld;
    }
}

static void strassen_finish(const cm_simple_epilogue *e, cm_pointwise act, int64_t row, int64_t col,
                            int64_t m, int64_t n, const float *x, int64_t ld, float *y, int64_t ldy)
{
    if (act == CM_PW_GELU)
        strassen_rows(e, CM_PW_GELU, row, col, m, n, x, ld, y, ldy);
    else if (act == CM_PW_GELU_TANH)
        strassen_rows(e, CM_PW_GELU_TANH, row, col, m, n, x, ld, y, ldy);
    else if (act == CM_PW_SILU)
        strassen_rows(e, CM_PW_SILU, row, col, m, n, x, ld, y, ldy);
    else
        strassen_rows(e, CM_PW_CLIP, row, col, m, n, x, ld, y, ldy);
}

#endif
