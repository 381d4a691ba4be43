/* wgmma.h -- settings of the kernels that use sm_90's products of warp groups: their cost, their text.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_WGMMA_H
#define CM_CUDA_WGMMA_H

#include "cuda/finish_whole.h"
#include "cuda/product_tiles.h"

enum { CM_WGMMA_LINE = 128 }; /* bytes of k in a tile */

/* As knobs, in this order; that of `alternate` is 2 where tiles are finished late. */
typedef struct cm_wgmma {
    int n;      /* columns of a tile */
    int stages; /* tiles of k in shared memory, at most */
    int per_multiprocessor;
    int together;  /* blocks with tiles below one another that share B's copies, 1 or 2 */
    int rows;      /* of a tile */
    int alternate; /* each of the two warp groups has its own tiles, else they share one */
    int splits;    /* blocks that share a tile's k */
    int late; /* a tile is finished while the next one is multiplied, where results are whole */
} cm_wgmma;
cm_wgmma cm_wgmma_of_knobs(const cm_knobs *k);

/* Warp groups that multiply; threads of a block, of kernels that fill by one warp group or warp. */
int cm_wgmma_groups(const cm_wgmma *w);
unsigned cm_wgmma_threads(const cm_wgmma *w);
/* Tiles, or stacks of them, or parts of them along k; and the blocks that walk over them. */
int64_t cm_wgmma_places(const cm_wgmma *w, const cm_extent *e);
int64_t cm_wgmma_blocks(const cm_gpu_facts *g, const cm_wgmma *w, const cm_extent *e);
double cm_wgmma_cost(const cm_gpu_facts *g, const cm_wgmma *w, const cm_extent *e); /* ns */
/* What a kernel can do: all of it; with a B that lies across; normalise rows that tiles side by side make up; not three warp groups; nor share a
 * multiprocessor, copies or k, nor alternate. */
typedef enum {
    CM_WGMMA_ALL,
    CM_WGMMA_ACROSS,
    CM_WGMMA_ROWS,
    CM_WGMMA_IMAGES,
    CM_WGMMA_PLAIN
} cm_wgmma_kernel;
/* Settings worth trying, best first. */
int cm_wgmma_choose(const cm_gpu_facts *g, const cm_extent *e, cm_wgmma_kernel kernel,
                    cm_knobs *out);

/* How a block uses its shared memory. */
typedef struct cm_wgmma_room {
    int stages;
    int slots; /* of each warp, for results in whole lines */
    size_t bytes;
} cm_wgmma_room;
cm_wgmma_room cm_wgmma_room_of(const cm_gpu_facts *g, const cm_wgmma *w, bool b_across,
                               const cm_whole *whole);

/* Can the setting's tiles be finished late? Else they are as if that had not been asked for. */
bool cm_wgmma_is_late(const cm_wgmma *w, const cm_extent *e, const cm_whole *whole,
                      const cm_wgmma_room *room);
/* What tile_wgmma.cuh wants before it, wgmma() too. */
void cm_wgmma_text(const cm_wgmma *w, const cm_wgmma_room *room, cm_dtype type, bool a_across,
                   bool b_across, cm_buf *out);

#endif
