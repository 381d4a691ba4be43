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
    int together; /* blocks with tiles below one another that share B's copies, 1 or 2 */
} cm_wgmma;
cm_wgmma cm_wgmma_of_knobs(const cm_knobs *k);

/* Places of tiles, or of stacks of them; and the blocks that walk over them. */
int64_t cm_wgmma_places(const cm_wgmma *w, const cm_extent *e);
int64_t cm_wgmma_blocks(const cm_gpu_facts *g, const cm_wgmma *w, const cm_extent *e);
size_t cm_wgmma_shared(const cm_wgmma *w);
double cm_wgmma_cost(const cm_gpu_facts *g, const cm_wgmma *w, const cm_extent *e); /* ns */
/* Settings worth trying, best first. shares: the kernel can share a multiprocessor, and copies. */
int cm_wgmma_choose(const cm_gpu_facts *g, const cm_extent *e, bool shares, cm_knobs *out);

/* What tile_wgmma.cuh wants before it, wgmma() too. */
void cm_wgmma_text(const cm_wgmma *w, cm_dtype type, bool a_across, bool b_across, cm_buf *out);

#endif
