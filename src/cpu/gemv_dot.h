/* gemv_dot.h -- c[i][j] = alpha * sum over l of a[i][l] * b[j][l]: a few rows times columns that lie along k.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_GEMV_DOT_H
#define CM_CPU_GEMV_DOT_H

#include <stdint.h>

enum { CM_DOT_ROWS = 4 }; /* at most */

typedef struct cm_gemv_dot {
    int64_t m, n, k;
    const float *a, *b;
    int64_t lda, ldb; /* from row to row of A, from column to column of B */
    float *c;
    int64_t ldc;
    float alpha;
} cm_gemv_dot;

void cm_gemv_dot__generic(const cm_gemv_dot *d);
void cm_gemv_dot__avx2(const cm_gemv_dot *d);
void cm_gemv_dot__avx512(const cm_gemv_dot *d);

#endif
