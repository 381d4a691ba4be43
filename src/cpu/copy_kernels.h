/* copy_kernels.h -- blocks of a strided copy, per ISA level.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_COPY_KERNELS_H
#define CM_CPU_COPY_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* to[r * to_row + c * elem] = from[c * from_col + r * elem]; steps count bytes; elem 1, 2, 4 or 8. */
typedef void cm_transpose_fn(size_t elem, int64_t rows, int64_t cols, const char *from,
                             int64_t from_col, char *to, int64_t to_row);
cm_transpose_fn cm_cpu_transpose__generic, cm_cpu_transpose__avx2;

/* Rows of `bytes` contiguous bytes. */
typedef void cm_runs_fn(int64_t rows, size_t bytes, const char *from, int64_t from_row, char *to,
                        int64_t to_row);
cm_runs_fn cm_cpu_runs__generic, cm_cpu_runs__avx2;

#endif
