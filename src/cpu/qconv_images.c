/* qconv_images.c -- images of bytes with their channels innermost, and parameters of convolutions.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/size.h"
#include "cpu/copy.h"
#include "cpu/cpu.h"
#include "cpu/qconv.h"

const char *cm_qconv_reject(const cm_problem *p, int64_t runs)
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
    if (runs > CM_QCONV_MOST_RUNS)
        return "the kernel has too many rows, or taps that are apart";
    if (c->c_in / c->groups * c->kernel[0] * c->kernel[1] * c->kernel[2] > CM_QGEMM_MOST_K)
        return "sums might pass 32 bits";
    return NULL;
}

/* Offsets in the workspace. */
static size_t part(size_t *at, bool wanted, int64_t n, size_t size)
{
    size_t from = *at;
    if (wanted)
        *at += ((size_t)n * size + 127) & ~(size_t)63; /* with 64 bytes that may be read beyond */
    return from;
}

cm_qconv_images cm_qconv_images_of(const cm_problem *p, cm_qrow_form form, int64_t length,
                                   int64_t real)
{
    const cm_qconv *q = &p->as.qconv;
    const cm_conv *c = &q->conv;
    cm_qconv_images m = {.form = form,
                         .in_place = q->x_last && form == CM_QROW_BYTES && length == real,
                         .elem = form == CM_QROW_WIDE ? 2 : 1,
                         .in_pixels = c->in[0] * c->in[1] * c->in[2],
                         .out_pixels = c->out[0] * c->out[1] * c->out[2],
                         .y_size = q->mode == CM_QSUMS ? 4 : 1};
    for (int d = 0; d < 3; d++) {
        int64_t reach = (c->out[d] - 1) * c->stride[d] + (c->kernel[d] - 1) * c->dilation[d] + 1;
        m.size[d] = cm_max_i64(reach, c->pad[d] + c->in[d]);
        m.in_place = m.in_place && m.size[d] == c->in[d];
    }
    m.step[2] = c->c_in;
    m.step[1] = m.size[2] * c->c_in;
    m.step[0] = m.size[1] * m.step[1];
    m.turned = part(&m.bytes, !q->x_last, m.in_pixels * c->c_in, 1);
    m.x = part(&m.bytes, !m.in_place, m.size[0] * m.step[0], (size_t)m.elem);
    m.y = part(&m.bytes, !q->y_last, m.out_pixels * c->c_out, m.y_size);
    return m;
}

double cm_qconv_images_cost(const cm_problem *p, const cm_qconv_images *m)
{
    const cm_qconv *q = &p->as.qconv;
    double bytes = 0;
    if (!q->x_last)
        bytes += 3.0 * (double)(m->in_pixels * q->conv.c_in);
    if (!m->in_place)
        bytes += (double)((m->elem + 1) * m->size[0] * m->step[0]);
    if (!q->y_last)
        bytes += 3.0 * (double)(m->out_pixels * q->conv.c_out) * (double)m->y_size;
    return (double)q->conv.n * bytes / cm_cpu_bytes_per_ns(&p->target);
}

typedef struct {
    const cm_run *r;
    const cm_qconv_images *m;
    const uint8_t *from;
    char *to;
    int32_t zero;
} pad_job;

static void fill(const pad_job *j, char *to, int64_t n)
{
    if (j->m->form == CM_QROW_WIDE) /* the zero point is taken off */
        memset(to, 0, (size_t)n * 2);
    else
        memset(to, (uint8_t)j->zero ^ (j->m->form == CM_QROW_MOVED ? 0x80 : 0), (size_t)n);
}

/* Lines of the padded image. */
static void pad_lines(void *arg, int64_t begin, int64_t end)
{
    const pad_job *j = arg;
    const cm_qconv_images *m = j->m;
    const cm_qconv *q = &j->r->p->as.qconv;
    const cm_conv *c = &q->conv;
    cm_qrow_fn *convert = cm_qrow_of(j->r->p->target.level);
    bool is_signed = j->r->p->in[q->x]->dtype == CM_I8;
    int64_t left = c->pad[2] * c->c_in, line = c->in[2] * c->c_in;
    for (int64_t i = begin; i < end; i++) {
        int64_t h = i % m->size[1] - c->pad[1], d = i / m->size[1] - c->pad[0];
        char *to = j->to + i * m->step[1] * m->elem;
        if (h < 0 || h >= c->in[1] || d < 0 || d >= c->in[0]) {
            fill(j, to, m->step[1]);
            continue;
        }
        fill(j, to, left);
        convert(m->form, is_signed, j->zero, j->from + (d * c->in[1] + h) * line, line,
                to + left * m->elem);
        fill(j, to + (left + line) * m->elem, m->step[1] - left - line);
    }
}

const void *cm_qconv_begin(const cm_run *r, const cm_qconv_images *m, int64_t i)
{
    const cm_qconv *q = &r->p->as.qconv;
    int64_t c = q->conv.c_in, n = m->in_pixels;
    const uint8_t *x = (const uint8_t *)r->in[q->x] + i * n * c;
    if (m->in_place)
        return x;
    if (!q->x_last) {
        uint8_t *to = (uint8_t *)r->workspace + m->turned;
        cm_copy_strided(r->p->target.level, r->threads, 1, 2, (int64_t[]){n, c}, x,
                        (int64_t[]){1, n}, to, (int64_t[]){c, 1});
        x = to;
    }
    pad_job j = {r, m, x, (char *)r->workspace + m->x, cm_qconv_zero(r, q->x_zero)};
    cm_parallel(r->threads, m->size[0] * m->size[1], 32768 / m->step[1] + 1, pad_lines, &j);
    return j.to;
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

void cm_qconv_offsets(const cm_conv *c, const cm_qconv_images *m, bool whole_rows, int64_t *to)
{
    for (int64_t d = 0; d < c->kernel[0]; d++)
        for (int64_t h = 0; h < c->kernel[1]; h++)
            for (int64_t w = 0; w < (whole_rows ? 1 : c->kernel[2]); w++)
                *to++ = d * c->dilation[0] * m->step[0] + h * c->dilation[1] * m->step[1] +
                        w * c->dilation[2] * m->step[2];
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
