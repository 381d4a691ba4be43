/* product_tiles.h -- how a product is cut into the tiles of kernels/tile_product.cuh, and what that costs.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_PRODUCT_TILES_H
#define CM_CUDA_PRODUCT_TILES_H

#include "cuda/gpu.h"

typedef enum {
    CM_ARITHMETIC_HALF, /* matrix units, float16 and bfloat16 */
    CM_ARITHMETIC_TF32, /* matrix units, float32 shortened */
    CM_ARITHMETIC_FLOAT /* float32 */
} cm_arithmetic;

/* One way of cutting; as knobs, in this order. */
typedef struct cm_tiling {
    int m, n;             /* of a tile */
    int k_bytes;          /* of k, in bytes of elements */
    int stages;           /* tiles of k in shared memory */
    int warps_m, warps_n; /* of a block */
    int splits;           /* of k */
} cm_tiling;

/* A product as tilings see it. */
typedef struct cm_extent {
    cm_arithmetic arithmetic;
    int64_t m, n, k, matrices;
    int element;   /* bytes */
    double bytes;  /* read and written in device memory at the least */
    double slow;   /* factor of loading elements one by one; 1: whole chunks */
    int functions; /* elementary ones that the epilogue computes of each result */
    int added;     /* matrices as large as the results that it adds to them */
} cm_extent;
int cm_extent_functions(const cm_problem *p);

void cm_tiling_to_knobs(const cm_tiling *t, cm_knobs *k);
cm_tiling cm_tiling_of_knobs(const cm_knobs *k);

/* Splits of k meet in a cluster's shared memory, or (before sm_90) in the workspace, with a second pass. */
bool cm_tiling_clusters(const cm_gpu_facts *g, const cm_tiling *t);
size_t cm_tiling_shared(const cm_gpu_facts *g, const cm_tiling *t);
size_t cm_tiling_partial_bytes(const cm_gpu_facts *g, const cm_tiling *t, const cm_extent *e);
int64_t cm_tiling_blocks(const cm_tiling *t, const cm_extent *e);

cm_grid cm_tiling_grid(const cm_gpu_facts *g, const cm_tiling *t, const cm_extent *e);
/* Of kernels/split_sum.cu; no blocks where there is no second pass. */
cm_grid cm_tiling_sum_grid(const cm_gpu_facts *g, const cm_tiling *t, const cm_extent *e);

double cm_tiling_cost(const cm_gpu_facts *g, const cm_tiling *t, const cm_extent *e); /* ns */
/* The cheapest by the model, best first: how many of `out`. */
int cm_tiling_choose(const cm_gpu_facts *g, const cm_extent *e, cm_knobs *out);

/* How a kernel reads an operand: rows of A (columns of B) are adjacent, not k; 16 bytes at once. */
typedef struct cm_reading {
    bool across, whole;
} cm_reading;
/* The lines that tile_product.cuh wants before it. */
void cm_tiling_text(const cm_gpu_facts *g, const cm_tiling *t, const cm_extent *e,
                    const char *element, cm_reading a, cm_reading b, bool b_constant, cm_buf *out);

#endif
