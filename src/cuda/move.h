/* move.h -- the functions of the tactics that the table of move.c has from other files, and what they share: padded and
 * sliced tensors (pad.c), axes that change places (turn.c).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_MOVE_H
#define CM_CUDA_MOVE_H

#include "cuda/gpu.h"

/* A piece in the order of the destination, outermost first; steps count bytes. */
typedef struct cm_gpu_moved {
    const cm_move_piece *piece;
    int rank;
    int64_t dims[CM_MAX_RANK], from[CM_MAX_RANK], to[CM_MAX_RANK];
    bool tiled;
    int64_t cols, rows, from_col, to_row; /* tiled: the two axes that are not among dims */
    /* Rows of `cols` bytes begin anywhere, or are all one element (`rows` is 1): whole words but for their ends. */
    bool shifted;
    int64_t word, units;
} cm_gpu_moved;
/* Axes sorted by the destination's strides, merged where both sides allow; false: nothing to move. */
bool cm_gpu_moved_of(cm_gpu_moved *f, const cm_move_piece *m, int64_t size);
void cm_gpu_moved_drop(cm_gpu_moved *f, int axis);
/* Axes to divide by, one after the other; what is behind the last. */
char *cm_gpu_put_axes(char *to, const int64_t *dims, int n);

const char *cm_cuda_pad_reject(const cm_problem *p);
int cm_cuda_pad_knobs(const cm_problem *p, cm_knobs *out);
double cm_cuda_pad_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_pad_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                            const cm_knobs *k, const void **state) CM_MUST_USE;
cm_status cm_cuda_pad_run(const cm_run *r) CM_MUST_USE;

const char *cm_cuda_turn_reject(const cm_problem *p);
int cm_cuda_turn_knobs(const cm_problem *p, cm_knobs *out);
double cm_cuda_turn_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_turn_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                             const cm_knobs *k, const void **state) CM_MUST_USE;
cm_status cm_cuda_turn_run(const cm_run *r) CM_MUST_USE;

#endif
