/* attention.h -- the argument of attention's kernels, and how a problem is shared out among blocks.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_ATTENTION_H
#define CM_CUDA_ATTENTION_H

#include "cuda/gpu.h"
#include "cuda/tactics.h"

enum { CM_ATTENTION_OPERANDS = 8 };
enum {
    CM_ATTENTION_Q,
    CM_ATTENTION_K,
    CM_ATTENTION_V,
    CM_ATTENTION_BIAS,
    CM_ATTENTION_MASK,
    CM_ATTENTION_PAST_K,
    CM_ATTENTION_PAST_V
}; /* inputs */

/* As in kernels/attention.cuh, which says what it means. */
typedef struct cm_attention_args {
    const void *q, *k, *v, *bias, *past_k, *past_v;
    const void *mask;
    void *y, *present_k, *present_v;
    const void *operand[CM_ATTENTION_OPERANDS];
    float *parts;
    cm_heads at_q, at_k, at_v, at_y, at_past_k, at_past_v, at_operand[CM_ATTENTION_OPERANDS];
    int64_t bias_at[4], mask_at[4];
    int bias_batch, mask_batch;
    int batch, kv_heads, rep, q_len, total, past, head_size, v_head_size;
    int span, spans, blocks;
    int splits, split_keys;
    float scale, softcap, mask_value;
    float unit;
} cm_attention_args;

/* A kernel's tiles. */
typedef struct cm_attention_tile {
    const char *file;
    bool matrix; /* 16-bit elements on matrix units */
    bool bulk;   /* by bulk copies: a block's rows are of one head, keys are not split */
    int rows, keys, threads, tiles;
    int d, dv; /* head sizes, padded */
    size_t shared;
} cm_attention_tile;

/* Why the problem's types and strides are for none of the kernels; NULL: they are. */
const char *cm_cuda_attention_reject(const cm_problem *p);
/* Sizes, places and shares; `waves` of blocks are wanted where keys can be split. */
void cm_cuda_attention_place(const cm_problem *p, const cm_attention_tile *t, cm_attention_args *a);
/* The definitions of a kernel. `vectors`: heads lie in whole vectors. */
void cm_cuda_attention_text(cm_buf *b, const cm_problem *p, const cm_attention_tile *t,
                            const cm_attention_args *a, bool vectors);
/* Are scores products times a positive scale, apart from causality? In bulk, what causality forbids takes no part, and
 * rows for which that is wrong are done again. */
bool cm_cuda_attention_is_plain(const cm_problem *p, const cm_attention_tile *t);
/* Do heads lie in whole vectors of 16 bytes (of 16-bit elements)? */
bool cm_cuda_heads_in_vectors(const cm_heads *h);
bool cm_cuda_attention_takes_vectors(const cm_problem *p, const cm_attention_args *a);
void cm_cuda_attention_point(const cm_run *r, cm_attention_args *a);
/* Bytes of keys, values, queries and results; operations. */
void cm_cuda_attention_work(const cm_problem *p, double *bytes, double *flops);

/* The kernels around the one that meets the keys. */
typedef struct cm_attention_around {
    const cm_kernel *join, *keys, *values; /* parts joined; present keys and values; NULL: none */
    cm_grid rows, copies;
} cm_attention_around;
cm_status cm_cuda_attention_around_ready(cm_ctx *cx, cm_device *d, const cm_problem *p,
                                         const cm_attention_tile *t, const cm_attention_args *a,
                                         cm_attention_around *out) CM_MUST_USE;
cm_status cm_cuda_attention_presents(const cm_run *r, const cm_attention_around *s,
                                     cm_attention_args *a) CM_MUST_USE;

/* The functions of the tactic for warp groups (attention_wgmma.c). */
const char *cm_cuda_attention_wgmma_reject(const cm_problem *p);
int cm_cuda_attention_wgmma_knobs(const cm_problem *p, cm_knobs *out);
double cm_cuda_attention_wgmma_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_attention_wgmma_ready(cm_ctx *cx, cm_device *d, cm_arena *arena,
                                        const cm_problem *p, const cm_knobs *k,
                                        const void **state) CM_MUST_USE;
cm_status cm_cuda_attention_wgmma_run(const cm_run *r) CM_MUST_USE;

#endif
