/* matmul.h -- what the tactics of matrix products on GPUs share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_MATMUL_H
#define CM_CUDA_MATMUL_H

#include "cuda/epilogue_text.h"
#include "cuda/product_tiles.h"

/* The product so that columns of the result are adjacent where that can be: as it is, or transposed with the roles of
 * the operands exchanged. */
typedef struct cm_gpu_product {
    cm_matmul s;
    int a, b;              /* inputs that play the roles */
    const cm_tensor *bias; /* NULL: none */
    cm_result_axes axes;
    cm_axes a_z, b_z; /* how the operands move along the batch */
    int64_t matrices;
    cm_arithmetic arithmetic;
    bool packed[2]; /* a, b: constants with padded rows */
} cm_gpu_product;

/* NULL, or why not. */
const char *cm_gpu_product_of(const cm_problem *p, cm_gpu_product *v);
cm_extent cm_gpu_product_extent(const cm_problem *p, const cm_gpu_product *v);

/* Constant matrices whose rows do not begin at multiples of 16 bytes are packed with longer rows; the pitch, in
 * elements, 0: as it is. */
int64_t cm_gpu_product_pitch(const cm_problem *p, int input);
size_t cm_gpu_product_pack_bytes(const cm_problem *p, const cm_knobs *k, int input);
void cm_gpu_product_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                         void *to, cm_threads *threads);

/* Products of shortened float32 read k where it is adjacent only, and tiles of any width want no more of the others than they have where
 * it is: constants that have it otherwise are packed with k innermost. The product with operands as they are then; NULL, or why not. */
const char *cm_gpu_product_turned(const cm_problem *p, cm_gpu_product *v);
size_t cm_gpu_turned_pack_bytes(const cm_problem *p, const cm_knobs *k, int input);
void cm_gpu_turned_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                        void *to, cm_threads *threads);

/* How matrix x (&v->s.a or &v->s.b) is read. */
cm_reading cm_gpu_product_reading(const cm_gpu_product *v, const cm_matrix *x, int element);

/* What a product that is ready reads, and how its results end. */
typedef struct cm_product_ends {
    int a, b, bias; /* inputs; bias -1: none */
    cm_finish finish;
} cm_product_ends;
void cm_product_ends_init(cm_product_ends *e, const cm_problem *p, const cm_gpu_product *v);
cm_finish cm_product_ends_bind(const cm_product_ends *e, const cm_run *r);

/* cuda/<tactic>.c has the functions of its row. */
#define MATMUL_TACTIC(stem)                                                                        \
    const char *cm_cuda_##stem##_reject(const cm_problem *p);                                      \
    int cm_cuda_##stem##_knobs(const cm_problem *p, cm_knobs *out);                                \
    double cm_cuda_##stem##_cost(const cm_problem *p, const cm_knobs *k);                          \
    cm_status cm_cuda_##stem##_ready(cm_ctx *cx, cm_device *d, cm_arena *arena,                    \
                                     const cm_problem *p, const cm_knobs *k, const void **state);  \
    cm_status cm_cuda_##stem##_run(const cm_run *r)
MATMUL_TACTIC(matmul_wgmma);
MATMUL_TACTIC(matmul_skinny);
MATMUL_TACTIC(matmul_few);
MATMUL_TACTIC(matmul_tile);
MATMUL_TACTIC(matmul_cublaslt);
#undef MATMUL_TACTIC
size_t cm_cuda_matmul_wgmma_signals(const cm_problem *p, const cm_knobs *k);
size_t cm_cuda_matmul_tile_workspace(const cm_problem *p, const cm_knobs *k);
size_t cm_cuda_matmul_cublaslt_workspace(const cm_problem *p, const cm_knobs *k);

#endif
