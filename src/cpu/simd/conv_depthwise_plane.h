/* conv_depthwise_plane.h -- one row-major channel of a depthwise convolution at any level: vectors along the
 * rows, a few rows at once so that a weight is loaded once for all.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/depthwise.h"
#include "cpu/simd/vec.h"

enum { PLANE_ROWS = 4, PLANE_VECTORS = 2 };

/* `nr` rows by `nv` vectors from row `r` and column `c` on; the last vector has `lanes`. */
VINLINE void plane_tile(const cm_depthwise_plane *a, int64_t r, int64_t c, int nr, int nv,
                        int lanes)
{
    vf acc[PLANE_ROWS][PLANE_VECTORS];
    const float *x = a->x + r * a->x_row + c;
    UNROLL
    for (int i = 0; i < nr; i++) {
        UNROLL
        for (int v = 0; v < nv; v++)
            acc[i][v] = vf_set(a->bias);
    }
    for (int64_t t = 0; t < a->taps; t++) {
        vf w = vf_set(a->w[t]);
        const float *at = x + a->shift[t];
        UNROLL
        for (int i = 0; i < nr; i++) {
            UNROLL
            for (int v = 0; v < nv; v++)
                acc[i][v] = vf_fma(w, vf_load(at + i * a->x_row + v * VW), acc[i][v]);
        }
    }
    vf lo = vf_set(a->lo), hi = vf_set(a->hi);
    UNROLL
    for (int i = 0; i < nr; i++) {
        UNROLL
        for (int v = 0; v < nv; v++) {
            int64_t to = (r + i) * a->cols + c + v * VW;
            int n = v == nv - 1 ? lanes : VW;
            if (a->residual)
                acc[i][v] = vf_add(acc[i][v], vf_load_n(a->residual + to, n));
            vf_store_n(a->y + to, vf_min(hi, vf_max(lo, acc[i][v])), n);
        }
    }
}

VINLINE void plane_columns(const cm_depthwise_plane *a, int64_t r, int nr)
{
    int64_t c = 0;
    for (; c + VW < a->cols; c += 2 * VW) {
        int64_t left = a->cols - c - VW;
        plane_tile(a, r, c, nr, 2, left < VW ? (int)left : VW);
    }
    if (c < a->cols)
        plane_tile(a, r, c, nr, 1, (int)(a->cols - c));
}

void CM_LEVEL(cm_cpu_depthwise_plane_f32)(const cm_depthwise_plane *a)
{
    int64_t r = 0;
    for (; r + PLANE_ROWS <= a->rows; r += PLANE_ROWS)
        plane_columns(a, r, PLANE_ROWS);
    for (; r < a->rows; r++)
        plane_columns(a, r, 1);
}
