/* qconv_depthwise.c -- depthwise convolutions of bytes: channels side by side, tap after tap.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The image is padded with zero points, so that all pixels have all taps and what zero points bring is
 * one number for each channel. */
#include <string.h>

#include "base/size.h"
#include "cpu/cpu.h"
#include "cpu/qconv.h"

static int64_t taps_of(const cm_conv *c)
{
    return c->kernel[0] * c->kernel[1] * c->kernel[2];
}

/* Channels rounded up to what the widest kernel takes at once. */
static int64_t width_of(const cm_conv *c)
{
    return cm_ceil_div(c->c_out, CM_QGEMM_WIDEST) * CM_QGEMM_WIDEST;
}

const char *cm_cpu_qconv_depthwise_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.qconv.conv;
    if (c->groups != c->c_in || c->groups != c->c_out)
        return "not one filter for each channel";
    return cm_qconv_reject(p, taps_of(c));
}

static cm_qconv_images images_of(const cm_problem *p)
{
    return cm_qconv_images_of(p, CM_QROW_BYTES, 1, 1);
}

double cm_cpu_qconv_depthwise_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.qconv.conv;
    cm_qconv_images m = images_of(p);
    double lanes = p->target.level < CM_ISA_AVX2 ? 3 : p->target.level < CM_ISA_AVX512 ? 12 : 20;
    double pixels = (double)(c->n * m.out_pixels);
    double ns = pixels * ((double)(taps_of(c) * width_of(c)) / lanes + (double)taps_of(c) * 2);
    return (200 + ns + cm_qconv_images_cost(p, &m)) / cm_cpu_speedup(p, pixels / 16);
}

size_t cm_cpu_qconv_depthwise_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    cm_qconv_images m = images_of(p);
    return m.bytes + (size_t)width_of(&p->as.qconv.conv) * 8; /* two tables */
}

/* Weights [tap][channel], then their sums [channel]. */
size_t cm_cpu_qconv_depthwise_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    const cm_conv *c = &p->as.qconv.conv;
    return input == p->as.qconv.w ? (size_t)((taps_of(c) + 1) * width_of(c)) * sizeof(int32_t) : 0;
}

void cm_cpu_qconv_depthwise_pack(const cm_problem *p, const cm_knobs *k, int input,
                                 const void *from, void *to, cm_threads *threads)
{
    (void)k, (void)input, (void)threads;
    const cm_qconv *q = &p->as.qconv;
    int64_t taps = taps_of(&q->conv), width = width_of(&q->conv);
    const void *zero = q->w_zero >= 0 ? p->in[q->w_zero]->data : NULL;
    int64_t step = zero && cm_tensor_elems(p->in[q->w_zero]) > 1;
    bool is_signed = p->in[q->w]->dtype == CM_I8;
    int32_t *w = to, *sums = w + taps * width;
    memset(to, 0, cm_cpu_qconv_depthwise_pack_bytes(p, k, input));
    for (int64_t c = 0; c < q->conv.c_out; c++) {
        int32_t z = cm_qzero(zero, step, c, is_signed);
        for (int64_t t = 0; t < taps; t++) {
            int32_t v = cm_qzero(from, 1, c * taps + t, is_signed) - z;
            w[t * width + c] = v & 0xffff;
            sums[c] += v;
        }
    }
}

typedef struct {
    const cm_run *r;
    const cm_conv *c;
    cm_qconv_images images;
    const uint8_t *x;
    cm_qfinish finish;
    int64_t offsets[CM_QCONV_MOST_RUNS];
} job;

/* Lines of the output. */
static void run_lines(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_conv *c = j->c;
    const cm_qconv_images *m = &j->images;
    int level = j->r->p->target.level;
    bool is_signed = j->r->p->in[j->r->p->as.qconv.x]->dtype == CM_I8;
    cm_qdepthwise_fn *kernel = level < CM_ISA_AVX2     ? cm_cpu_qdepthwise__generic
                               : level < CM_ISA_AVX512 ? cm_cpu_qdepthwise__avx2
                                                       : cm_cpu_qdepthwise__avx512;
    const int32_t *weights = j->r->in[j->r->p->as.qconv.w];
    for (int64_t i = begin; i < end; i++) {
        const uint8_t *from = j->x + i / c->out[1] * c->stride[0] * m->step[0] +
                              i % c->out[1] * c->stride[1] * m->step[1];
        cm_qfinish f = j->finish;
        f.y = (char *)f.y + (size_t)(i * c->out[2] * c->c_out) * m->y_size;
        kernel(from, c->stride[2] * m->step[2], c->out[2], taps_of(c), j->offsets, weights,
               c->c_out, width_of(c), is_signed, &f);
    }
}

cm_status cm_cpu_qconv_depthwise_run(const cm_run *r)
{
    const cm_qconv *q = &r->p->as.qconv;
    const cm_conv *c = &q->conv;
    job j = {.r = r, .c = c, .images = images_of(r->p), .finish = cm_qconv_finish(r)};
    int64_t width = width_of(c), taps = taps_of(c);
    int32_t *add = (int32_t *)((char *)r->workspace + j.images.bytes);
    float *factor = (float *)(add + width);
    int32_t zero = cm_qconv_zero(r, q->x_zero);
    const int32_t *sums = (const int32_t *)r->in[q->w] + taps * width;
    for (int64_t i = 0; i < width; i++) {
        bool bias = i < c->c_out && q->sums >= 0;
        uint32_t b = bias ? (uint32_t)((const int32_t *)r->in[q->sums])[i] : 0;
        add[i] = (int32_t)(b - (uint32_t)zero * (uint32_t)sums[i]);
        factor[i] = 0;
    }
    cm_qconv_factors(r, 0, c->c_out, factor);
    cm_qconv_offsets(c, &j.images, false, j.offsets);
    j.finish.add = add;
    j.finish.factor = factor;
    for (int64_t i = 0; i < c->n; i++) {
        j.x = cm_qconv_begin(r, &j.images, i);
        j.finish.y = cm_qconv_result(r, &j.images, i);
        cm_parallel(r->threads, c->out[0] * c->out[1], 60000 / (taps * c->c_out * c->out[2]) + 1,
                    run_lines, &j);
        cm_qconv_end(r, &j.images, i);
    }
    return CM_OK;
}
