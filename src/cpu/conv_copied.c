/* conv_copied.c -- row-major planes with their padding written out.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/conv_copied.h"

#include <string.h>

#include "base/size.h"

int64_t cm_conv_extent(const cm_conv *c, int d)
{
    return (c->out[d] - 1) * c->stride[d] + (c->kernel[d] - 1) * c->dilation[d] + 1;
}

cm_conv_copied cm_conv_copied_of(const cm_conv *c)
{
    cm_conv_copied s = {.depth = cm_conv_extent(c, 0),
                        .rows = cm_conv_extent(c, 1),
                        .width = cm_ceil_div(cm_conv_extent(c, 2), c->stride[2])};
    s.line = s.width * c->stride[2];
    s.plane = s.depth * s.rows * s.line;
    return s;
}

/* Columns begin, begin + step, ... of a row of `width`, zeros outside. */
static void copy_phase(const float *row, int64_t width, int64_t begin, int64_t step, int64_t n,
                       float *to)
{
    int64_t first = begin < 0 ? cm_min_i64(n, cm_ceil_div(-begin, step)) : 0;
    int64_t last = begin < width ? cm_min_i64(n, cm_ceil_div(width - begin, step)) : 0;
    if (last < first)
        last = first;
    for (int64_t i = 0; i < first; i++)
        to[i] = 0;
    if (step == 1)
        memcpy(to + first, row + begin + first, (size_t)(last - first) * sizeof *to);
    else
        for (int64_t i = first; i < last; i++)
            to[i] = row[begin + i * step];
    for (int64_t i = last; i < n; i++)
        to[i] = 0;
}

void cm_conv_copy_plane(const cm_conv *c, const cm_conv_copied *s, const float *x, float *to)
{
    for (int64_t line = 0; line < s->depth * s->rows; line++, to += s->line) {
        int64_t z = line / s->rows - c->pad[0], y = line % s->rows - c->pad[1];
        if (z < 0 || z >= c->in[0] || y < 0 || y >= c->in[1]) {
            memset(to, 0, (size_t)s->line * sizeof *to);
            continue;
        }
        for (int64_t phase = 0; phase < c->stride[2]; phase++)
            copy_phase(x + (z * c->in[1] + y) * c->in[2], c->in[2], phase - c->pad[2], c->stride[2],
                       s->width, to + phase * s->width);
    }
}

void cm_conv_set_shifts(const cm_conv *c, const cm_conv_copied *s, int64_t channels, int32_t *to)
{
    for (int64_t channel = 0; channel < channels; channel++)
        for (int64_t z = 0; z < c->kernel[0]; z++)
            for (int64_t y = 0; y < c->kernel[1]; y++)
                for (int64_t x = 0; x < c->kernel[2]; x++) {
                    int64_t line = z * c->dilation[0] * s->rows + y * c->dilation[1];
                    int64_t column = x * c->dilation[2];
                    *to++ = (int32_t)(channel * s->plane + line * s->line +
                                      column % c->stride[2] * s->width + column / c->stride[2]);
                }
}
