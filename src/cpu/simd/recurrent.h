/* recurrent.h -- gates of recurrent networks; included by one file per level.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/recurrent.h"

#include "cpu/simd/math.h"
#include "cpu/simd/vec.h"

/* n lanes from p, or all. */
VINLINE vf some(const float *p, int n)
{
    return n == VW ? vf_load(p) : vf_load_n(p, n);
}
VINLINE void put(float *p, vf v, int n)
{
    if (n == VW)
        vf_store(p, v);
    else
        vf_store_n(p, v, n);
}
/* NaN stays. */
VINLINE vf within(vf x, vf clip)
{
    return vf_min(clip, vf_max(vf_neg(clip), x));
}
#define EACH(i, m, n) for (int64_t i = 0, m; m = (n)-i < VW ? (n)-i : VW, i < (n); i += VW)

/* Vector i of the two that n columns of a panel have. */
VINLINE void add_to(float *c, int n, int i, vf sum)
{
    int left = n - i * VW, m = left < 0 ? 0 : left < VW ? left : VW;
    put(c + i * VW, vf_add(sum, some(c + i * VW, m)), m);
}

/* One stream through the weights, as fast as the cache gives them: eight sums hide the additions. */
static void panel(const float *x, int64_t k, const float *b, int n, float *c)
{
    vf s[8];
    int64_t l = 0;
    UNROLL
    for (int i = 0; i < 8; i++)
        s[i] = vf_zero();
    for (; l + 4 <= k; l += 4, b += 8 * VW) {
        UNROLL
        for (int i = 0; i < 8; i++)
            s[i] = vf_fma(vf_set(x[l + i / 2]), vf_load(b + i * VW), s[i]);
    }
    for (; l < k; l++, b += 2 * VW) {
        UNROLL
        for (int i = 0; i < 2; i++)
            s[i] = vf_fma(vf_set(x[l]), vf_load(b + i * VW), s[i]);
    }
    UNROLL
    for (int i = 0; i < 2; i++)
        add_to(c, n, i, vf_add(vf_add(s[i], s[i + 2]), vf_add(s[i + 4], s[i + 6])));
}

#if VW == 16
VINLINE void panel_step(float x, const float *b, vf *s)
{
    vf v = vf_set(x);
    s[0] = vf_fma(v, vf_load(b), s[0]);
    s[1] = vf_fma(v, vf_load(b + VW), s[1]);
}

/* The piece's 16 sums, the panel's 4 and what they are made from stay in registers. */
VINLINE void panel_ahead(int rate, const float *x, int64_t k, const float *b, int n, float *c,
                         const cm_ahead_piece *q)
{
    vf s[4], a[CM_AHEAD_ROWS][2];
    const float *row[CM_AHEAD_ROWS], *w = q->b;
    UNROLL
    for (int i = 0; i < 4; i++)
        s[i] = vf_zero();
    UNROLL
    for (int i = 0; i < CM_AHEAD_ROWS; i++) {
        row[i] = q->rows[i];
        a[i][0] = vf_load(q->c + i * q->ldc);
        a[i][1] = vf_load(q->c + i * q->ldc + VW);
    }
    for (int64_t l = 0; l < q->k; l++, w += 2 * VW, x += rate, b += rate * 2 * VW) {
        vf w0 = vf_load(w), w1 = vf_load(w + VW);
        UNROLL
        for (int i = 0; i < CM_AHEAD_ROWS; i++) {
            if (i < rate)
                panel_step(x[i], b + i * 2 * VW, s + i % 2 * 2);
            vf v = vf_set(row[i][l]);
            a[i][0] = vf_fma(v, w0, a[i][0]);
            a[i][1] = vf_fma(v, w1, a[i][1]);
        }
    }
    for (int64_t l = q->k * rate; l < k; l++, x++, b += 2 * VW)
        panel_step(*x, b, s);
    UNROLL
    for (int i = 0; i < CM_AHEAD_ROWS; i++) {
        vf_store(q->c + i * q->ldc, a[i][0]);
        vf_store(q->c + i * q->ldc + VW, a[i][1]);
    }
    add_to(c, n, 0, vf_add(s[0], s[2]));
    add_to(c, n, 1, vf_add(s[1], s[3]));
}

static void ahead_4(const float *x, int64_t k, const float *b, int n, float *c,
                    const cm_ahead_piece *q)
{
    panel_ahead(4, x, k, b, n, c, q);
}
static void ahead_8(const float *x, int64_t k, const float *b, int n, float *c,
                    const cm_ahead_piece *q)
{
    panel_ahead(8, x, k, b, n, c, q);
}
#define AHEAD                                                                                      \
    {                                                                                              \
        ahead_4, ahead_8                                                                           \
    }
#else
#define AHEAD                                                                                      \
    {                                                                                              \
        NULL, NULL                                                                                 \
    } /* too few registers */
#endif

static void rnn(const cm_gates *a, const float *g, float *h)
{
    vf clip = vf_set(a->clip);
    EACH(i, m, a->n)
    put(h + i, vf_tanh(within(some(g + i, (int)m), clip)), (int)m);
}

static void lstm(const cm_gates *a, const float *g, float *h, float *c)
{
    vf clip = vf_set(a->clip);
    const float *in = g, *out = in + a->stride, *forget = out + a->stride,
                *cell = forget + a->stride;
    EACH(i, lanes, a->n)
    {
        int m = (int)lanes;
        vf gi = vf_sigmoid(within(some(in + i, m), clip));
        vf gf =
            a->input_forget ? vf_sub(vf_set(1), gi) : vf_sigmoid(within(some(forget + i, m), clip));
        vf go = vf_sigmoid(within(some(out + i, m), clip));
        vf gc = vf_tanh(within(some(cell + i, m), clip));
        vf now = vf_fma(gf, some(c + i, m), vf_mul(gi, gc));
        put(c + i, now, m);
        put(h + i, vf_mul(go, vf_tanh(now)), m);
    }
}

static void gru_reset(const cm_gates *a, const float *g, const float *h, float *out)
{
    vf clip = vf_set(a->clip);
    EACH(i, lanes, a->n)
    {
        int m = (int)lanes;
        put(out + i, vf_mul(vf_sigmoid(within(some(g + a->stride + i, m), clip)), some(h + i, m)),
            m);
    }
}

static void gru(const cm_gates *a, const float *g, const float *inner, float *h)
{
    vf clip = vf_set(a->clip);
    EACH(i, lanes, a->n)
    {
        int m = (int)lanes;
        vf z = vf_sigmoid(within(some(g + i, m), clip));
        vf x = some(g + 2 * a->stride + i, m), old = some(h + i, m);
        if (inner) {
            vf r = vf_sigmoid(within(some(g + a->stride + i, m), clip));
            x = vf_fma(r, some(inner + i, m), x);
        }
        vf now = vf_tanh(within(x, clip));
        put(h + i, vf_fma(z, vf_sub(old, now), now), m);
    }
}

const cm_recurrent_kernels CM_LEVEL(cm_cpu_recurrent_kernels) = {panel, AHEAD,     rnn,
                                                                 lstm,  gru_reset, gru};
