/* qconv_images.c -- images of bytes with their channels innermost, and parameters of convolutions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cpu/copy.h"
#include "cpu/cpu.h"
#include "cpu/qconv.h"

const char *cm_qconv_reject(const cm_problem *p)
{
    const cm_qconv *q = &p->as.qconv;
    const cm_conv *c = &q->conv;
    cm_dtype x = p->in[q->x]->dtype, w = p->in[q->w]->dtype, y = p->out[0]->dtype;
    if ((x != CM_U8 && x != CM_I8) || (w != CM_U8 && w != CM_I8))
        return "operands are not of bytes";
    if (q->mode == CM_QSUMS && y != CM_I32)
        return "the output is not int32";
    if (!p->constant[q->w])
        return "the weights are not constant";
    if (q->w_zero >= 0 && !p->in[q->w_zero]->data)
        return "the weights' zero point is not constant";
    if (q->strided)
        return "an activation is neither row-major nor channels-last";
    if (c->c_in / c->groups * c->kernel[0] * c->kernel[1] * c->kernel[2] > CM_QGEMM_MOST_K)
        return "sums might pass 32 bits";
    return NULL;
}

static size_t rounded(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

cm_qconv_images cm_qconv_images_of(const cm_problem *p)
{
    const cm_qconv *q = &p->as.qconv;
    const cm_conv *c = &q->conv;
    cm_qconv_images m = {.in_pixels = c->in[0] * c->in[1] * c->in[2],
                         .out_pixels = c->out[0] * c->out[1] * c->out[2],
                         .y_size = q->mode == CM_QSUMS ? 4 : 1};
    if (!q->x_last)
        m.bytes += rounded((size_t)(m.in_pixels * c->c_in));
    m.y = m.bytes;
    if (!q->y_last)
        m.bytes += rounded((size_t)(m.out_pixels * c->c_out) * m.y_size);
    return m;
}

double cm_qconv_images_cost(const cm_problem *p)
{
    const cm_qconv *q = &p->as.qconv;
    cm_qconv_images m = cm_qconv_images_of(p);
    double bytes = 0;
    if (!q->x_last)
        bytes += 2.0 * (double)(q->conv.n * m.in_pixels * q->conv.c_in);
    if (!q->y_last)
        bytes += 2.0 * (double)(q->conv.n * m.out_pixels * q->conv.c_out) * (double)m.y_size;
    return bytes / (0.6 * cm_cpu_bytes_per_ns(&p->target));
}

const uint8_t *cm_qconv_begin(const cm_run *r, const cm_qconv_images *m, int64_t i)
{
    const cm_qconv *q = &r->p->as.qconv;
    int64_t c = q->conv.c_in, n = m->in_pixels;
    const uint8_t *x = (const uint8_t *)r->in[q->x] + i * n * c;
    if (q->x_last)
        return x;
    uint8_t *to = (uint8_t *)r->workspace + m->x;
    cm_copy_strided(r->p->target.level, r->threads, 1, 2, (int64_t[]){n, c}, x, (int64_t[]){1, n},
                    to, (int64_t[]){c, 1});
    return to;
}

void *cm_qconv_result(const cm_run *r, const cm_qconv_images *m, int64_t i)
{
    const cm_qconv *q = &r->p->as.qconv;
    if (!q->y_last)
        return (char *)r->workspace + m->y;
    return (char *)r->out[0] + (size_t)(i * m->out_pixels * q->conv.c_out) * m->y_size;
}

void cm_qconv_end(const cm_run *r, const cm_qconv_images *m, int64_t i)
{
    const cm_qconv *q = &r->p->as.qconv;
    int64_t c = q->conv.c_out, n = m->out_pixels;
    if (q->y_last)
        return;
    cm_copy_strided(r->p->target.level, r->threads, m->y_size, 2, (int64_t[]){n, c},
                    (char *)r->workspace + m->y, (int64_t[]){c, 1},
                    (char *)r->out[0] + (size_t)(i * n * c) * m->y_size, (int64_t[]){1, n});
}

int32_t cm_qconv_zero(const cm_run *r, int input)
{
    if (input < 0)
        return 0;
    return cm_qzero(r->in[input], 0, 0, r->p->in[input]->dtype == CM_I8);
}

static float real_at(const cm_run *r, int input, int64_t i)
{
    return input < 0 ? 1.0f : ((const float *)r->in[input])[i];
}

void cm_qconv_factors(const cm_run *r, int64_t first, int64_t n, float *factor)
{
    const cm_qconv *q = &r->p->as.qconv;
    float x = real_at(r, q->x_scale, 0), y = real_at(r, q->y_scale, 0);
    int64_t step = q->w_scale >= 0 && cm_tensor_elems(r->p->in[q->w_scale]) > 1;
    for (int64_t i = 0; i < n && q->mode != CM_QSUMS; i++)
        factor[i] = x * real_at(r, q->w_scale, (first + i) * step) / y;
}

cm_qfinish cm_qconv_finish(const cm_run *r)
{
    const cm_qconv *q = &r->p->as.qconv;
    return (cm_qfinish){.mode = (cm_qfinish_mode)q->mode,
                        .is_signed = r->p->out[0]->dtype == CM_I8,
                        .y_zero = q->mode == CM_QSUMS ? 0 : (float)cm_qconv_zero(r, q->y_zero),
                        .ld = q->conv.c_out};
}

int64_t cm_qconv_tap(const cm_conv *c, int64_t pixel, int64_t tap)
{
    int64_t at[3], index = 0;
    for (int d = 2; d >= 0; d--) {
        at[d] = pixel % c->out[d] * c->stride[d] - c->pad[d] + tap % c->kernel[d] * c->dilation[d];
        pixel /= c->out[d];
        tap /= c->kernel[d];
        if (at[d] < 0 || at[d] >= c->in[d])
            return -1;
    }
    for (int d = 0; d < 3; d++)
        index = index * c->in[d] + at[d];
    return index;
}

void cm_qconv_workers(const cm_run *r, cm_range_fn fn, void *job)
{
    cm_parallel(r->threads, r->p->threads > 1 ? r->p->threads : 1, 1, fn, job);
}
