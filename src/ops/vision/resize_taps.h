/* resize_taps.h -- which input positions make one output position of a resized axis, and how much.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_RESIZE_TAPS_H
#define CM_OPS_RESIZE_TAPS_H

#include "ops/eval.h"

typedef enum { CM_RESIZE_NEAREST, CM_RESIZE_LINEAR, CM_RESIZE_CUBIC } cm_resize_mode;
typedef enum {
    CM_COORD_HALF_PIXEL,
    CM_COORD_HALF_PIXEL_SYMMETRIC,
    CM_COORD_PYTORCH_HALF_PIXEL,
    CM_COORD_ALIGN_CORNERS,
    CM_COORD_ASYMMETRIC,
    CM_COORD_TF_HALF_PIXEL_FOR_NN,
    CM_COORD_TF_CROP_AND_RESIZE
} cm_coord_mode;
typedef enum {
    CM_ROUND_PREFER_FLOOR,
    CM_ROUND_PREFER_CEIL,
    CM_ROUND_FLOOR,
    CM_ROUND_CEIL
} cm_nearest;

/* One resized axis. */
typedef struct cm_resize_axis {
    cm_resize_mode mode;
    cm_coord_mode coord;
    cm_nearest nearest;
    int64_t in, out;   /* sizes, in > 0 */
    double scale;      /* out over in; may be fractional where `out` was rounded down */
    bool exact;        /* scale is out / in itself: sizes were given */
    double start, end; /* the region of TF_CROP_AND_RESIZE */
    double cubic_a;
    bool antialias, exclude_outside;
} cm_resize_axis;

/* Result: output position o reads index[o*n + t] with weight[o*n + t], t in [0, n). */
typedef struct cm_taps {
    int64_t n;
    int64_t *index;
    double *weight;
    bool *outside; /* o lies outside the input: the extrapolation value */
} cm_taps;

/* In the evaluator's scratch. Nearest has n == 1 and weight 1. */
cm_status cm_taps_build(cm_eval *e, const cm_resize_axis *axis, cm_taps *out) CM_MUST_USE;

/* What the operator Resize does to each axis of its input; taps[d].n == 0: nothing. Reads the shapes of
 * input 0 and output 0, and the elements of the inputs that say scales, regions and sizes. */
cm_status cm_resize_taps(cm_eval *e, cm_taps *taps) CM_MUST_USE;

#endif
