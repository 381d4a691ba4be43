/* qconv_depthwise.c -- depthwise convolutions of bytes: channels side by side, tap after tap.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Taps in the padding point to a line of zero points, so that all pixels have all taps and what zero
 * points bring is one number for each channel. */
#include <string.h>

#include "base/size.h"
#include "cpu/cpu.h"
#include "cpu/qconv.h"

enum { MOST_TAPS = 256, AT_ONCE = 4 /* pixels */ };

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
    if (taps_of(c) > MOST_TAPS)
        return "the kernel is too large";
    return cm_qconv_reject(p);
}

double cm_cpu_qconv_depthwise_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.qconv.conv;
    cm_qconv_images m = cm_qconv_images_of(p);
    double lanes = p->target.level < CM_ISA_AVX2 ? 3 : p->target.level < CM_ISA_AVX512 ? 12 : 20;
    double pixels = (double)(c->n * m.out_pixels);
    double ns = pixels * ((double)(taps_of(c) * width_of(c)) / lanes + (double)taps_of(c) * 2);
    return (200 + ns + cm_qconv_images_cost(p)) / cm_cpu_speedup(p, pixels / 16);
}

/* After the images: three tables, then a line of zero points. */
static size_t table_offset(const cm_qconv_images *m)
{
    return m->bytes;
}

size_t cm_cpu_qconv_depthwise_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    cm_qconv_images m = cm_qconv_images_of(p);
    return table_offset(&m) + (size_t)width_of(&p->as.qconv.conv) * 9;
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
    const uint8_t *x, *padding;
    cm_qfinish finish;
    bool is_signed;
} job;

static void run_pixels(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int level = j->r->p->target.level;
    cm_qdepthwise_fn *kernel = level < CM_ISA_AVX2     ? cm_cpu_qdepthwise__generic
                               : level < CM_ISA_AVX512 ? cm_cpu_qdepthwise__avx2
                                                       : cm_cpu_qdepthwise__avx512;
    const uint8_t *from[AT_ONCE * MOST_TAPS];
    const int32_t *weights = j->r->in[j->r->p->as.qconv.w];
    int64_t taps = taps_of(j->c), channels = j->c->c_out;
    size_t size = j->finish.mode == CM_QFINISH_SUMS ? 4 : 1;
    for (int64_t i = begin; i < end; i += AT_ONCE) {
        int64_t n = cm_min_i64(AT_ONCE, end - i);
        for (int64_t t = 0; t < n * taps; t++) {
            int64_t at = cm_qconv_tap(j->c, i + t / taps, t % taps);
            from[t] = at < 0 ? j->padding : j->x + at * channels;
        }
        cm_qfinish f = j->finish;
        f.y = (char *)f.y + (size_t)(i * channels) * size;
        kernel(from, n, taps, weights, channels, width_of(j->c), j->is_signed, &f);
    }
}

cm_status cm_cpu_qconv_depthwise_run(const cm_run *r)
{
    const cm_qconv *q = &r->p->as.qconv;
    const cm_conv *c = &q->conv;
    cm_qconv_images m = cm_qconv_images_of(r->p);
    int64_t width = width_of(c), taps = taps_of(c);
    int32_t *add = (int32_t *)((char *)r->workspace + table_offset(&m));
    float *factor = (float *)(add + width);
    uint8_t *padding = (uint8_t *)(factor + width);
    int32_t zero = cm_qconv_zero(r, q->x_zero);
    const int32_t *sums = (const int32_t *)r->in[q->w] + taps * width;
    job j = {.r = r,
             .c = c,
             .padding = padding,
             .finish = cm_qconv_finish(r),
             .is_signed = r->p->in[q->x]->dtype == CM_I8};
    memset(padding, (uint8_t)zero, (size_t)width);
    for (int64_t i = 0; i < width; i++) {
        bool bias = i < c->c_out && q->sums >= 0;
        uint32_t b = bias ? (uint32_t)((const int32_t *)r->in[q->sums])[i] : 0;
        add[i] = (int32_t)(b - (uint32_t)zero * (uint32_t)sums[i]);
        factor[i] = 0;
    }
    cm_qconv_factors(r, 0, c->c_out, factor);
    j.finish.add = add;
    j.finish.factor = factor;
    for (int64_t i = 0; i < c->n; i++) {
        j.x = cm_qconv_begin(r, &m, i);
        j.finish.y = cm_qconv_result(r, &m, i);
        cm_parallel(r->threads, m.out_pixels, 60000 / (taps * c->c_out) + 1, run_pixels, &j);
        cm_qconv_end(r, &m, i);
    }
    return CM_OK;
}
