/* shapes.c -- other ways of seeing the same problem, for every backend.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/shapes.h"

static void exchange(int64_t *a, int64_t *b)
{
    int64_t t = *a;
    *a = *b;
    *b = t;
}

void cm_matmul_transpose(cm_matmul *s)
{
    cm_matrix a = s->a;
    s->a = s->b;
    s->b = a;
    exchange(&s->m, &s->n);
    exchange(&s->a.row, &s->a.col);
    exchange(&s->b.row, &s->b.col);
    exchange(&s->c.row, &s->c.col);
}

/* Do the axes but the first and that of the channels make up one, in the order of memory, with this step? */
static bool is_space(const cm_tensor *t, int channel, int64_t step)
{
    for (int d = t->rank - 1; d > 0; d--) {
        if (d == channel || t->dims[d] == 1)
            continue;
        if (t->strides[d] != step)
            return false;
        step *= t->dims[d];
    }
    return true;
}

bool cm_is_in_planes(const cm_tensor *t, int channel_axis, int64_t space)
{
    return is_space(t, channel_axis, 1) &&
           (t->dims[channel_axis] == 1 || t->strides[channel_axis] == space);
}

bool cm_is_in_pixels(const cm_tensor *t, int channel_axis)
{
    return is_space(t, channel_axis, t->dims[channel_axis]) &&
           (t->dims[channel_axis] == 1 || t->strides[channel_axis] == 1);
}
