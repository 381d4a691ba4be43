/* gather_bf16.h -- short lines of windows, for products of bfloat16.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_GATHER_BF16_H
#define CM_CPU_GATHER_BF16_H

#include <stdint.h>

/* A line of the input with adjacent pixels, and the line of a kernel that moves along it. */
typedef struct cm_bf16_line {
    const uint16_t *x;       /* NULL: outside, all zeros */
    int64_t width, channels; /* pixels of the line; elements of one */
    int64_t kernel,
        stride; /* pixels of a window, at most 32 elements; from one window to the next */
} cm_bf16_line;

/* Windows that begin at pixels first, first + stride, ... (n of them), to rows `ld` elements apart: of each the line's elements, zeros
 * for those outside it, and zeros behind, `room` elements in all if that is over 32, else as many as there is room for. The next
 * line's may then be written over the zeros. room is below 64. */
void cm_bf16_gather_line__avx512(const cm_bf16_line *l, int64_t first, int64_t n, int64_t room,
                                 uint16_t *to, int64_t ld);

#endif
