/* tactics.h -- the CUDA backend: one ordered table of tactics per problem kind.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The file of a kind (cuda/matmul.c) defines cm_cuda_matmul_tactics and cm_cuda_matmul_count; kernels are text
 * in kernels/. A kind without a line here runs on the CPU inside the same plan. */
#ifndef CM_CUDA_TACTICS_H
#define CM_CUDA_TACTICS_H

#include "plan/backend.h"

extern const cm_backend cm_backend_cuda;

/* clang-format off */
/* X(KIND, stem): one line a kind. */
#define CM_CUDA_TABLES(X) \
    X(POOL, pool) \
    X(RESIZE, resize) \
    X(SORT, sort) \
    X(PICK, pick) \
    X(NMS, nms) \
    X(GATHER, gather) \
    X(SCATTER, scatter) \
    X(PLACED, placed) \
    X(SAMPLE, sample) \
    X(QUANTISE, quant) \
    X(QMATMUL, qmatmul) \
    X(QCONV, qconv) \
    X(POINTWISE, pointwise) \
    X(MOVE, move) \
    X(REDUCE, reduce) \
    X(MATMUL, matmul) \
    X(CONV, conv) \
    X(ROWS, rows) \
    X(ATTENTION, attention) \
    X(RECURRENT, recurrent) \
    X(ROTARY, rotary) \
    X(NBITS, nbits) \
    X(LINEAR_ATTENTION, linear_attention) \
    X(GQA, gqa)
/* clang-format on */

#define X(kind, stem)                                                                              \
    extern const cm_tactic cm_cuda_##stem##_tactics[];                                             \
    extern const int cm_cuda_##stem##_count;
CM_CUDA_TABLES(X)
#undef X

#endif
