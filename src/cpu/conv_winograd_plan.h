/* conv_winograd_plan.h -- how a convolution is cut up for Winograd, and what that costs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of all images are numbered in order and cut into blocks; output channels come in panels as wide
 * as a tile of the matrix product, and these in groups. */
#ifndef CM_CPU_CONV_WINOGRAD_PLAN_H
#define CM_CPU_CONV_WINOGRAD_PLAN_H

#include "cpu/conv_winograd.h"
#include "cpu/gemm.h"

/* Knobs: tiles in a block, panels in a group, shared, raw, pairs. */
enum {
    CM_WINOGRAD_BLOCK,
    CM_WINOGRAD_GROUP,
    CM_WINOGRAD_SHARED,
    CM_WINOGRAD_RAW,
    CM_WINOGRAD_PAIRS
};

typedef struct cm_winograd_plan {
    const cm_winograd_kernels *kernels;
    const cm_gemm_f32_kernel *product;
    int m, t, form;
    int64_t positions; /* t * t */
    int64_t images, h, w, out_h, out_w, c_in, c_out, pad_y, pad_x;
    int64_t tiles_y, tiles_x, tiles;
    int64_t block, blocks;              /* tiles in a block */
    int64_t panels, group, groups;      /* panels of output channels in a group */
    int64_t v_rows, v_tile, v_position; /* tiles in V; strides in V, M, U */
    int64_t m_tile, m_position;
    int64_t chunk, u_position; /* raw: input channels that are transformed at once */
    int64_t u_panel;           /* floats of a packed panel's position */
    int64_t u_part;            /* and of a part of it */
    int64_t part, parts;       /* pairs: channels in a part of sums; how many parts */
    bool shared;               /* V is made once, for all blocks */
    bool raw;                  /* weights are packed as they are and transformed in every run */
    bool pairs;                /* products by pairs (cpu/conv_winograd_pairs.h) */
    int threads;
} cm_winograd_plan;

cm_winograd_plan cm_winograd_plan_of(const cm_problem *p, const cm_knobs *k, int m);

/* Floats of one buffer. */
static inline size_t cm_winograd_v(const cm_winograd_plan *g)
{
    return (size_t)(g->positions * g->v_position);
}
static inline size_t cm_winograd_m(const cm_winograd_plan *g)
{
    return (size_t)(g->positions * g->m_position);
}
static inline size_t cm_winograd_u(const cm_winograd_plan *g)
{
    return g->raw ? (size_t)(g->positions * g->u_position) : 0;
}
/* Packed weights: U panel by panel, [panel][position][c_in][nr] (with pairs, what follows that), or raw
 * [panel][c_in][9][nr]. */
static inline size_t cm_winograd_packed(const cm_winograd_plan *g)
{
    int64_t panel = g->raw ? 9 * g->c_in * g->product->nr : g->positions * g->u_panel;
    return (size_t)(g->panels * panel);
}

int cm_winograd_knobs(const cm_problem *p, cm_knobs *out, int m);
double cm_winograd_cost(const cm_problem *p, const cm_knobs *k, int m);

#endif
