/* conv_copied.h -- row-major planes with their padding written out, for convolutions that read shifted rows.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A copied plane is [depth][row][phase][column]: rows are split into `stride` phases (columns 0, s, 2s, ...,
 * then 1, s + 1, ...), so that what a kernel position reads for adjacent outputs is adjacent too, at a
 * shift that is the same for every output. */
#ifndef CM_CPU_CONV_COPIED_H
#define CM_CPU_CONV_COPIED_H

#include "plan/shapes.h"

typedef struct cm_conv_copied {
    int64_t depth, rows, width; /* of a plane; width of one phase */
    int64_t line, plane;        /* floats of a row with all its phases, and of a channel */
} cm_conv_copied;

/* What windows reach along axis d: the padded size, as far as it is read. */
int64_t cm_conv_extent(const cm_conv *c, int d);
cm_conv_copied cm_conv_copied_of(const cm_conv *c);
void cm_conv_copy_plane(const cm_conv *c, const cm_conv_copied *s, const float *x, float *to);
/* Of every kernel position of every channel of a group, whose planes lie beside each other. */
void cm_conv_set_shifts(const cm_conv *c, const cm_conv_copied *s, int64_t channels, int32_t *to);

#endif
