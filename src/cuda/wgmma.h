/* wgmma.h -- settings of the kernels that use sm_90's products of warp groups: their cost, their text.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_WGMMA_H
#define CM_CUDA_WGMMA_H

#include "cuda/product_tiles.h"

enum { CM_WGMMA_ROWS = 128, CM_WGMMA_LINE = 128 }; /* of a tile; bytes of k in one */

/* As knobs, in this order. */
typedef struct cm_wgmma {
    int n;      /* columns of a tile */
    int stages; /* tiles of k in shared memory */
    int per_multiprocessor;
} cm_wgmma;
cm_wgmma cm_wgmma_of_knobs(const cm_knobs *k);

int64_t cm_wgmma_tiles(const cm_wgmma *w, const cm_extent *e);
size_t cm_wgmma_shared(const cm_wgmma *w);
double cm_wgmma_cost(const cm_gpu_facts *g, const cm_wgmma *w, const cm_extent *e); /* ns */
/* Settings worth trying, best first. most_per_multiprocessor: 2 where the kernel can share one. */
int cm_wgmma_choose(const cm_gpu_facts *g, const cm_extent *e, int most_per_multiprocessor,
                    cm_knobs *out);

/* What tile_wgmma.cuh wants before it, wgmma() too. */
void cm_wgmma_text(const cm_wgmma *w, cm_dtype type, bool a_across, bool b_across, cm_buf *out);

#endif
