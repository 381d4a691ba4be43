/* pairs.c -- weights and rows made ready for products by pairs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/pairs.h"

#include <math.h>

/* A power of two near the root of `square`; 0: there is none of use. */
static float size_of(double square)
{
    int exponent;
    if (!(square > 0x1p-160 && square < 0x1p160))
        return 0;
    frexp(square, &exponent); /* of 4: exponent 3, of 1/4: exponent -1 */
    return ldexpf(1, (exponent - 1) / 2);
}

void cm_pairs_pack(int64_t k, float size, float *panel)
{
    const cm_pairs_kernel *kernel = &cm_pairs_f32__avx512;
    float scale[CM_PAIRS_NR], *behind = panel + k * CM_PAIRS_NR;
    double sums[CM_PAIRS_NR];
    bool finite = true;
    kernel->squares(k, panel, sums);
    for (int j = 0; j < CM_PAIRS_NR; j++) {
        float found = size_of(sums[j] / (double)k);
        scale[j] = found > 0 ? size / found : 1;
        finite = finite && isfinite(sums[j]);
    }
    kernel->scale_columns(k, panel, scale, sums);
    for (int j = 0; j < CM_PAIRS_NR; j++) {
        behind[j] = finite ? (float)-sums[j] : 0;
        behind[CM_PAIRS_NR + j] = 1 / scale[j];
        behind[2 * CM_PAIRS_NR + j] = !finite;
    }
}

/* Is a mean square near enough to size^2 for errors to stay what they are? */
static bool is_near(float square, float size)
{
    return square >= size * size / 16 && square <= size * size * 16;
}

float cm_pairs_back(float square, float size)
{
    if (is_near(square, size))
        return 1;
    return square > 0x1p-80f && square < 0x1p80f ? size_of(square) / size : 0;
}

void cm_pairs_rows_of(cm_pairs_rows *r, int m, int64_t k, const float *a, int64_t apart, float size,
                      bool copy, float *room)
{
    const cm_pairs_kernel *kernel = &cm_pairs_f32__avx512;
    float squares[CM_PAIRS_MR];
    r->a = a;
    r->apart = apart;
    r->usual = r->scaled = false;
    kernel->look(m, k, a, apart, r->pairs, squares);
    for (int i = 0; i < m; i++) {
        float back = cm_pairs_back(squares[i] / (float)k, size);
        r->usual = r->usual || back == 0;
        r->scaled = r->scaled || back != 1;
        r->back[i] = back > 0 ? back : 1;
        r->pairs[i] *= 1 / r->back[i] * (1 / r->back[i]);
    }
    r->scaled = r->scaled && !r->usual;
    if (!r->scaled && !copy)
        return;
    r->a = room;
    r->apart = cm_pairs_copied(k);
    for (int i = 0; i < m; i++)
        kernel->scale(k, a + i * apart, r->scaled ? 1 / r->back[i] : 1, room + i * r->apart);
}

float cm_pairs_size(int64_t k, const float *panel)
{
    float squares[CM_PAIRS_NR], pairs[CM_PAIRS_NR];
    double sum = 0;
    cm_pairs_f32__avx512.look_columns(k, panel, squares, pairs);
    for (int j = 0; j < CM_PAIRS_NR; j++)
        sum += squares[j];
    double square = sum / (CM_PAIRS_NR * (double)(k / 4 * 2));
    return square > 0x1p-80 && square < 0x1p80 ? size_of(square) : 0;
}

bool cm_pairs_start(int64_t k, const float *panel, float size, float *start)
{
    float squares[CM_PAIRS_NR];
    bool near = true;
    cm_pairs_f32__avx512.look_columns(k, panel, squares, start);
    for (int j = 0; j < CM_PAIRS_NR; j++) {
        near = near && is_near(squares[j] / (float)(k / 4 * 2), size);
        start[j] = -start[j];
    }
    return near;
}
