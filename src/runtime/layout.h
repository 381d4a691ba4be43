/* layout.h -- which values are kept channels-last, so that kernels and conversions cost least together.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every value has a label: 0 row-major, 1 channels-last. A step costs what its best tactic costs when its
 * inputs come with one label and its outputs leave with one; an input whose own label is the other is
 * converted first. Steps are taken in order with a table over the labels of the values that are
 * still to be read: exact while at most CM_LAYOUT_LIVE labelled values live at once, and good beyond. */
#ifndef CM_RUNTIME_LAYOUT_H
#define CM_RUNTIME_LAYOUT_H

#include "base/status.h"

enum { CM_LAYOUT_LIVE = 10 };

typedef struct cm_layout_step {
    int n_in, n_out;
    const int *in;              /* values that it reads; -1: one that is row-major for good */
    const double *convert;      /* per input: what converting it costs */
    const bool *follows_output; /* per input: wanted with the outputs' label, not the inputs' */
    const int *out;             /* values that it makes; all get one label */
    double cost[2][2];          /* [label wanted of inputs][label of outputs]; INFINITY: impossible.
                               [x][0] is possible for some x */
} cm_layout_step;

/* labels[v] for n_values values, and modes[s]: the label that step s wants of its inputs. Returns the total
 * through *cost, which may be NULL. */
cm_status cm_layout_solve(cm_ctx *cx, cm_arena *scratch, const cm_layout_step *steps, int n_steps,
                          int n_values, unsigned char *labels, unsigned char *modes,
                          double *cost) CM_MUST_USE;

#endif
