/* pairs.c -- products by pairs with AVX-512: tiles of up to 12 x 32.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Elements of A are operands in memory that the instruction spreads over a vector. Loading them with an instruction of their own
 * takes a place in the units that add and multiply, and GCC would do that for each that is used twice: hence the
 * assembler. On Zen 4 a full tile reaches 156 GFLOP/s where plain multiply-adds end at 117; with such loads 106. */
#include "cpu/pairs.h"

#include <limits.h>

#include "cpu/simd/vec.h"

enum { MR = CM_PAIRS_MR, NR = CM_PAIRS_NR, NV = NR / VW };

#define EACH                                                                                       \
    UNROLL                                                                                         \
    for (int i = 0; i < mr; i++)                                                                   \
    UNROLL for (int j = 0; j < NV; j++)

/* In the order in which they stand here, which the compiler would change for one that needs more registers. */
#define FMA(acc, x, y)      __asm__ volatile("vfmadd231ps %1, %2, %0" : "+v"(acc) : "v"(x), "v"(y))
#define FMA_LESS(acc, x, y) __asm__ volatile("vfnmadd231ps %1, %2, %0" : "+v"(acc) : "v"(x), "v"(y))
#define SPREAD(to, x)       __asm__ volatile("vbroadcastss %1, %0" : "=v"(to) : "m"(x))
#define SUM(op, to, x, y)   __asm__ volatile(op " %1, %2, %0" : "=v"(to) : "v"(x), "v"(y))
/* With x in memory, for all lanes. */
#define FMA_AT(acc, x, y)                                                                          \
    __asm__ volatile("vfmadd231ps %1%{1to16%}, %2, %0" : "+v"(acc) : "m"(x), "v"(y))
#define SUM_AT(op, to, x, y) __asm__ volatile(op " %1%{1to16%}, %2, %0" : "=v"(to) : "m"(x), "v"(y))

/* Where rows are: three by each of a few pointers, which move along k. */
typedef struct {
    const float *p[(MR + 2) / 3];
    int64_t apart;
} lines;

VINLINE void move_on(lines *a, int mr, int n)
{
    UNROLL
    for (int i = 0; i < mr; i += 3)
        a->p[i / 3] += n;
}

#define A(i, l) (a->p[(i) / 3][(i) % 3 * a->apart + (l)])

VINLINE void one(int mr, vf acc[MR][NV], const float *b, const lines *a, int l)
{
    vf v[NV];
    UNROLL
    for (int j = 0; j < NV; j++)
        v[j] = vf_load(b + l * NR + j * VW);
    EACH FMA_AT(acc[i][j], A(i, l), v[j]);
}

/* Elements l and l + 1 of k; one of each row's two elements is loaded by itself after all, or loads would be too many. */
VINLINE void pair(int mr, bool less, vf acc[MR][NV], const float *b, const lines *a, int l)
{
    vf v[NV], w[NV];
    UNROLL
    for (int j = 0; j < NV; j++) {
        v[j] = vf_load(b + l * NR + j * VW);
        w[j] = vf_load(b + (l + 1) * NR + j * VW);
    }
    UNROLL
    for (int i = 0; i < mr; i++) {
        vf x, s, t;
        SPREAD(x, A(i, l));
        UNROLL
        for (int j = 0; j < NV; j++) {
            if (less) {
                SUM("vsubps", s, x, w[j]);
                SUM_AT("vsubps", t, A(i, l + 1), v[j]);
                FMA_LESS(acc[i][j], s, t);
            } else {
                SUM("vaddps", s, x, w[j]);
                SUM_AT("vaddps", t, A(i, l + 1), v[j]);
                FMA(acc[i][j], s, t);
            }
        }
    }
}

VINLINE void four(int mr, bool less, vf acc[MR][NV], const float *b, const lines *a, int l)
{
    one(mr, acc, b, a, l);
    one(mr, acc, b, a, l + 1);
    pair(mr, less, acc, b, a, l + 2);
}

/* What a tile asks for, two lines every 4 of k: first rows that it finishes with, then what a later tile wants. */
typedef struct {
    const char *at;
    int64_t step;
    int left;
    enum { NOTHING, AHEAD, RESIDUAL } then;
} asked;

VINLINE void ask_next(const cm_pairs_tile *t, int mr, asked *q)
{
    _mm_prefetch(q->at, _MM_HINT_T0);
    _mm_prefetch(q->at + NR * 4 - 4, _MM_HINT_T0);
    q->at += q->step;
    if (--q->left > 0)
        return;
    const cm_simple_epilogue *e = t->e;
    if (q->then == RESIDUAL)
        *q = (asked){(const char *)(e->residual + t->row * e->residual_ld + t->col),
                     e->residual_ld * 4, mr, AHEAD};
    else if (q->then == AHEAD && t->ahead)
        *q = (asked){t->ahead, NR * 4, t->ahead_rows ? t->ahead_rows : INT_MAX, NOTHING};
    else
        *q = (asked){(const char *)t->b, 0, INT_MAX, NOTHING};
}

VINLINE void finish(const cm_pairs_tile *t, int mr, vf acc[MR][NV])
{
    const cm_simple_epilogue *e = t->e;
    vf by[NV], bias[NV];
    UNROLL
    for (int j = 0; j < NV; j++) {
        by[j] = t->factor ? vf_load(t->factor + j * VW) : vf_set(1);
        bias[j] = e->bias ? vf_load(e->bias + t->col + j * VW) : vf_zero();
    }
    if (t->rows->scaled)
        EACH acc[i][j] = vf_mul(acc[i][j], vf_set(t->rows->back[i]));
    EACH acc[i][j] = vf_fma(acc[i][j], by[j], bias[j]);
    if (t->add)
        EACH acc[i][j] = vf_add(acc[i][j], vf_load(t->c + i * t->ldc + j * VW));
    if (e->residual) {
        const float *r = e->residual + t->row * e->residual_ld + t->col;
        EACH acc[i][j] = vf_add(acc[i][j], vf_load(r + i * e->residual_ld + j * VW));
    }
    const vf lo = vf_set(e->lo), hi = vf_set(e->hi);
    EACH vf_store(t->c + i * t->ldc + j * VW, vf_min(hi, vf_max(lo, acc[i][j])));
}

VINLINE void tile(const cm_pairs_tile *t, int mr)
{
    const float *b = t->b;
    const bool usual = t->rows->usual || !t->start;
    const int64_t paired = usual ? 0 : t->k / 4 * 4;
    lines a = {.apart = t->rows->apart};
    UNROLL
    for (int i = 0; i < mr; i += 3)
        a.p[i / 3] = t->rows->a + i * a.apart;
    vf acc[MR][NV];
    EACH acc[i][j] =
        usual ? vf_zero() : vf_sub(vf_load(t->start + j * VW), vf_set(t->rows->pairs[i]));
    asked q = {(const char *)t->c, t->ldc * 4, t->near ? 1 : mr, t->e->residual ? RESIDUAL : AHEAD};
    int64_t l = 0;
    for (; l + 8 <= paired; l += 8, b += 8 * NR) {
        ask_next(t, mr, &q);
        four(mr, false, acc, b, &a, 0);
        ask_next(t, mr, &q);
        four(mr, true, acc, b, &a, 4);
        move_on(&a, mr, 8);
    }
    if (l < paired) {
        four(mr, false, acc, b, &a, 0);
        move_on(&a, mr, 4);
        l += 4;
        b += 4 * NR;
    }
    for (; l < t->k; l++, b += NR) {
        one(mr, acc, b, &a, 0);
        move_on(&a, mr, 1);
    }
    finish(t, mr, acc);
}

#define TILE(mr)                                                                                   \
    static void tile_##mr(const cm_pairs_tile *t)                                                  \
    {                                                                                              \
        tile(t, mr);                                                                               \
    }
/* clang-format off */
TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12)
    /* clang-format on */

    /* Elements 2 and 3 of every 4 are a pair; its product stands in lane 2 of them. */
    static float sum_of_pairs(vf products)
{
    float p[VW];
    vf_store(p, products);
    return (p[2] + p[10]) - (p[6] + p[14]);
}

/* n elements: a constant, or a tail. */
VINLINE void look_at(const float *a, int n, vf *pairs, vf *squares)
{
    vf v = n == VW ? vf_load(a) : vf_load_n(a, n);
    *pairs = vf_fma(v, _mm512_permute_ps(v, 0xb1), *pairs);
    *squares = vf_fma(v, v, *squares);
}

static void look(int m, int64_t k, const float *a, int64_t apart, float *pairs, float *squares)
{
    enum { AT_ONCE = 4 };
    for (int i = 0; i < m; i += AT_ONCE) {
        const float *row[AT_ONCE];
        vf p[AT_ONCE], s[AT_ONCE];
        UNROLL
        for (int q = 0; q < AT_ONCE; q++) {
            row[q] = a + (i + q < m ? i + q : m - 1) * apart;
            p[q] = s[q] = vf_zero();
        }
        int64_t l = 0;
        for (; l + VW <= k; l += VW) {
            UNROLL
            for (int q = 0; q < AT_ONCE; q++)
                look_at(row[q] + l, VW, &p[q], &s[q]);
        }
        for (int q = 0; q < AT_ONCE && i + q < m; q++) {
            if (l < k)
                look_at(row[q] + l, (int)(k - l), &p[q], &s[q]);
            pairs[i + q] = sum_of_pairs(p[q]);
            squares[i + q] = vf_sum(s[q]);
        }
    }
}

static void scale(int64_t k, const float *from, float by, float *to)
{
    const vf factor = vf_set(by);
    for (int64_t l = 0; l < k; l += VW) {
        int n = k - l < VW ? (int)(k - l) : VW;
        vf_store_n(to + l, vf_mul(factor, vf_load_n(from + l, n)), n);
    }
}

static void squares(int64_t k, const float *panel, double *sums)
{
    for (int j = 0; j < NR; j++)
        sums[j] = 0;
    for (int64_t l = 0; l < k; l++)
        for (int j = 0; j < NR; j++)
            sums[j] += (double)panel[l * NR + j] * panel[l * NR + j];
}

static void scale_columns(int64_t k, float *panel, const float *by, double *sums)
{
    for (int j = 0; j < NR; j++)
        sums[j] = 0;
    for (int64_t l = 0; l < k; l++)
        for (int j = 0; j < NR; j++)
            panel[l * NR + j] *= by[j];
    for (int64_t l = 2; l + 2 <= k; l += 4) {
        double sign = l % 8 == 2 ? 1 : -1;
        for (int j = 0; j < NR; j++)
            sums[j] += sign * panel[l * NR + j] * panel[(l + 1) * NR + j];
    }
}

static void look_columns(int64_t k, const float *panel, float *squares_out, float *pairs)
{
    vf s[NV], p[NV];
    UNROLL
    for (int j = 0; j < NV; j++)
        s[j] = p[j] = vf_zero();
    for (int64_t l = 2; l + 2 <= k; l += 4) {
        const float *b = panel + l * NR;
        const vf sign = vf_set(l % 8 == 2 ? 1.0f : -1.0f);
        UNROLL
        for (int j = 0; j < NV; j++) {
            vf x = vf_load(b + j * VW), y = vf_load(b + NR + j * VW);
            s[j] = vf_fma(x, x, vf_fma(y, y, s[j]));
            p[j] = vf_fma(vf_mul(sign, x), y, p[j]);
        }
    }
    UNROLL
    for (int j = 0; j < NV; j++) {
        vf_store(squares_out + j * VW, s[j]);
        vf_store(pairs + j * VW, p[j]);
    }
}

const cm_pairs_kernel CM_LEVEL(cm_pairs_f32) = {
    {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6, tile_7, tile_8, tile_9, tile_10, tile_11,
     tile_12},
    look,
    scale,
    squares,
    scale_columns,
    look_columns,
};
