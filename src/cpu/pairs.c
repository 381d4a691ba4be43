/* pairs.c -- weights and rows made ready for products by pairs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/pairs.h"

#include <math.h>

/* A power of two that brings numbers of mean square `square` near 1; 0: there is none. */
static float scale_of(double square)
{
    int exponent;
    if (!(square > 0x1p-160 && square < 0x1p160))
        return 0;
    frexp(square, &exponent); /* of 4: exponent 3, of 1: exponent 1 */
    return ldexpf(1, -(exponent - 1) / 2);
}

void cm_pairs_pack(int64_t k, float *panel)
{
    const cm_pairs_kernel *kernel = &cm_pairs_f32__avx512;
    float scale[CM_PAIRS_NR], *behind = panel + k * CM_PAIRS_NR;
    double sums[CM_PAIRS_NR];
    bool finite = true;
    kernel->squares(k, panel, sums);
    for (int j = 0; j < CM_PAIRS_NR; j++) {
        float found = scale_of(sums[j] / (double)k);
        scale[j] = found > 0 ? found : 1;
        finite = finite && isfinite(sums[j]);
    }
    kernel->scale_columns(k, panel, scale, sums);
    for (int j = 0; j < CM_PAIRS_NR; j++) {
        behind[j] = finite ? (float)-sums[j] : 0;
        behind[CM_PAIRS_NR + j] = 1 / scale[j];
        behind[2 * CM_PAIRS_NR + j] = !finite;
    }
}

void cm_pairs_rows_of(cm_pairs_rows *r, int m, int64_t k, const float *a, int64_t apart, bool copy,
                      float *room)
{
    const cm_pairs_kernel *kernel = &cm_pairs_f32__avx512;
    float squares[CM_PAIRS_MR];
    r->a = a;
    r->apart = apart;
    r->usual = r->scaled = false;
    kernel->look(m, k, a, apart, r->pairs, squares);
    for (int i = 0; i < m; i++) {
        float square = squares[i] / (float)k;
        r->back[i] = 1;
        if (square >= 1.0f / 16 && square <= 16)
            continue;
        float scale = square > 0x1p-80f && square < 0x1p80f ? scale_of(square) : 0;
        r->usual = r->usual || scale == 0;
        r->scaled = true;
        r->pairs[i] *= scale * scale;
        r->back[i] = scale > 0 ? 1 / scale : 1;
    }
    r->scaled = r->scaled && !r->usual;
    if (!r->scaled && !copy)
        return;
    r->a = room;
    r->apart = cm_pairs_copied(k);
    for (int i = 0; i < m; i++)
        kernel->scale(k, a + i * apart, r->scaled ? 1 / r->back[i] : 1, room + i * r->apart);
}
