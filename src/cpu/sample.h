/* sample.h -- reading images at the places of a grid: what is known of a run of places, and the kernels.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A place is inside when all elements that it blends exist; kernels do these, many places at once. Others (at the rim, or so that
 * float32 leaves a doubt) are lists of elements and weights, made in double by the formulas of the operator's evaluator. */
#ifndef CM_CPU_SAMPLE_H
#define CM_CPU_SAMPLE_H

#include "plan/tactic.h"

enum {
    CM_SAMPLE_AXES = 3,
    CM_SAMPLE_RUN = 1024, /* places that are done together, at most */
    CM_SAMPLE_LANES = 16, /* kernels may read tables to a multiple of this */
    CM_SAMPLE_TAPS = 64   /* of one place: 4 along each of three axes */
};

/* One axis of the images: the place of grid coordinate g is g * scale + shift. */
typedef struct cm_sample_axis {
    float scale, shift, last; /* last: the last element */
    int taps;
} cm_sample_axis;

/* A run of places. By place: */
typedef struct cm_sample_run {
    float grid[CM_SAMPLE_AXES][CM_SAMPLE_RUN];    /* coordinates, the outermost axis first */
    int32_t first[CM_SAMPLE_AXES][CM_SAMPLE_RUN]; /* the first tap, 0 where it does not exist */
    float part[CM_SAMPLE_AXES][CM_SAMPLE_RUN]; /* how far the place is behind an element, 0 to 1 */
    int32_t inside[CM_SAMPLE_RUN];             /* all bits set, or none */
    int32_t touches[CM_SAMPLE_RUN];            /* all bits clear: surely none of its taps exists */
    int32_t base[CM_SAMPLE_RUN];               /* the first taps as an offset in a plane */
    float weight[2][CM_SAMPLE_RUN * 4];        /* cubic: of the taps down and along */
    int n, n_inside;
    /* The rim: place rim[i] has the taps from begin[i] to begin[i + 1]. */
    int n_rim;
    int32_t rim[CM_SAMPLE_RUN], begin[CM_SAMPLE_RUN + 1];
    int32_t *index; /* room for every tap of every place */
    float *rim_weight;
} cm_sample_run;

typedef struct cm_sample_kernels {
    /* Fills first and part of axis d, and clears bits of inside and touches. Exact to the last bits of `part`: the
     * remainder is computed apart from the whole number. Nearest: places near halves are not inside. */
    void (*locate)(const cm_sample_axis *a, int d, cm_sample_run *s);
    /* Coordinates of places that lie one after the other, the innermost first. */
    void (*unpack)(const float *g, int axes, cm_sample_run *s);
    /* Fills base and n_inside. */
    void (*settle)(const int64_t *step, int axes, cm_sample_run *s);
    void (*cubic_weights)(const float *part, int n, float *weight);
    /* y[i] of the places inside, others are 0. x is a plane, step[d] the elements between neighbours along axis d. */
    void (*nearest)(const float *x, const cm_sample_run *s, float *y);
    void (*linear[CM_SAMPLE_AXES])(const float *x, const int64_t *step, const cm_sample_run *s,
                                   float *y); /* by axes - 1 */
    void (*cubic)(const float *x, const int64_t *step, const cm_sample_run *s,
                  float *y); /* 2 axes */
} cm_sample_kernels;

extern const cm_sample_kernels cm_cpu_sample__generic, cm_cpu_sample__avx2, cm_cpu_sample__avx512;

/* sample_taps.c: the taps of one place whose coordinates are g[0..axes), the outermost axis first: offsets in a plane and their weights.
 * Returns how many; what lies outside and counts as zero is left out. */
int cm_sample_rim_taps(const cm_sample *s, const float *g, int32_t *index, float *weight);
/* Of place i of a run, which is inside: the weights of all its taps, the innermost axis running fastest. */
void cm_sample_inside_weights(const cm_sample *s, const cm_sample_run *run, int i, float *weight);

#endif
