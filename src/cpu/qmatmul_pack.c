/* qmatmul_pack.c -- 8-bit matrices in the forms that products want, and the tables that finish sums.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/size.h"
#include "cpu/qmatmul.h"

cm_qpack cm_qpack_of(int level, bool dots, int64_t runs, int64_t length, int64_t n)
{
    cm_qpack q = {.dots = dots, .k = runs * length, .n = n, .runs = runs};
    q.width = dots || level >= CM_ISA_AVX512 ? 32 : level < CM_ISA_AVX2 ? 8 : 16;
    int64_t unit = dots ? 4 : 2;
    q.depth = runs * cm_ceil_div(length, unit) * unit;
    q.panels = cm_ceil_div(n, q.width);
    return q;
}

cm_qgemm_fn *cm_qgemm_of(const cm_qpack *q, int level)
{
    if (q->dots)
        return cm_cpu_qgemm_dots__avx512;
    return level < CM_ISA_AVX2     ? cm_cpu_qgemm_pairs__generic
           : level < CM_ISA_AVX512 ? cm_cpu_qgemm_pairs__avx2
                                   : cm_cpu_qgemm_pairs__avx512;
}

static size_t body_bytes(const cm_qpack *q)
{
    return (size_t)(q->panels * q->depth * q->width) * (q->dots ? 1 : 2);
}

/* Sums of columns follow the panels of dots. */
size_t cm_qpack_bytes(const cm_qpack *q)
{
    return body_bytes(q) + (q->dots ? (size_t)(q->panels * q->width) * sizeof(int32_t) : 0);
}

const int32_t *cm_qpack_sums(const cm_qpack *q, const void *packed)
{
    return (const int32_t *)((const char *)packed + body_bytes(q));
}

int32_t cm_qzero(const void *zero, int64_t step, int64_t j, bool is_signed)
{
    if (!zero)
        return 0;
    return is_signed ? ((const int8_t *)zero)[j * step] : ((const uint8_t *)zero)[j * step];
}

static int64_t row_of(const cm_qmatrix *b, int64_t l)
{
    return b->taps ? l % b->channels * b->taps + l / b->channels : l * b->row;
}

static int32_t byte_at(const cm_qmatrix *b, int64_t at)
{
    return b->is_signed ? ((const int8_t *)b->data)[at] : ((const uint8_t *)b->data)[at];
}

/* Where row l of B is among the rounded runs. */
static int64_t place_of(const cm_qpack *q, int64_t l)
{
    int64_t length = q->k / q->runs;
    return l / length * (q->depth / q->runs) + l % length;
}

static void pack_dots(const cm_qpack *q, const cm_qmatrix *b, int64_t panel, int8_t *to,
                      int32_t *sums)
{
    int32_t shift = b->is_signed ? 0 : 128;
    int64_t first = panel * q->width, n = cm_min_i64(q->width, q->n - first);
    memset(to, 0, (size_t)(q->depth * q->width));
    memset(sums, 0, (size_t)q->width * sizeof *sums);
    for (int64_t l = 0; l < q->k; l++) {
        int64_t at = place_of(q, l);
        int8_t *row = to + at / 4 * 4 * q->width + at % 4;
        int64_t from = row_of(b, l) + first * b->col;
        for (int64_t j = 0; j < n; j++) {
            int32_t v = byte_at(b, from + j * b->col) - shift;
            row[4 * j] = (int8_t)v;
            sums[j] += v;
        }
    }
}

static void pack_pairs(const cm_qpack *q, const cm_qmatrix *b, int64_t panel, int16_t *to)
{
    int64_t first = panel * q->width, n = cm_min_i64(q->width, q->n - first);
    int32_t zero[CM_QGEMM_WIDEST];
    for (int64_t j = 0; j < n; j++)
        zero[j] = cm_qzero(b->zero, b->zero_step, first + j, b->is_signed);
    memset(to, 0, (size_t)(q->depth * q->width) * sizeof *to);
    for (int64_t l = 0; l < q->k; l++) {
        int64_t at = place_of(q, l);
        int16_t *row = to + at / 2 * 2 * q->width + at % 2;
        int64_t from = row_of(b, l) + first * b->col;
        for (int64_t j = 0; j < n; j++)
            row[2 * j] = (int16_t)(byte_at(b, from + j * b->col) - zero[j]);
    }
}

void cm_qpack_panels(const cm_qpack *q, const cm_qmatrix *b, void *to, int64_t begin, int64_t end)
{
    int64_t panel = q->depth * q->width;
    for (int64_t p = begin; p < end; p++) {
        if (q->dots)
            pack_dots(q, b, p, (int8_t *)to + p * panel,
                      (int32_t *)((char *)to + body_bytes(q)) + p * q->width);
        else
            pack_pairs(q, b, p, (int16_t *)to + p * panel);
    }
}

cm_qrow_form cm_qrow_form_of(const cm_qpack *q, bool is_signed)
{
    return !q->dots ? CM_QROW_WIDE : is_signed ? CM_QROW_MOVED : CM_QROW_BYTES;
}

cm_qrow_fn *cm_qrow_of(int level)
{
    return level < CM_ISA_AVX2     ? cm_cpu_qrow__generic
           : level < CM_ISA_AVX512 ? cm_cpu_qrow__avx2
                                   : cm_cpu_qrow__avx512;
}

size_t cm_qtables_bytes(const cm_qpack *q)
{
    return 4 * (size_t)(q->panels * q->width) * sizeof(int32_t);
}

void cm_qtables_init(cm_qtables *t, void *memory, const cm_qpack *q, const void *packed,
                     const cm_qmatrix *b, int32_t zero_a, bool a_signed, const int32_t *bias,
                     int64_t bias_step, cm_qfinish *f)
{
    int64_t n = q->panels * q->width;
    bool any = false;
    *t = (cm_qtables){.add = memory,
                      .zero_b = (int32_t *)memory + n,
                      .factor = (float *)memory + 2 * n,
                      .bias = (float *)memory + 3 * n};
    const int32_t *sums = q->dots ? cm_qpack_sums(q, packed) : NULL;
    uint32_t za = (uint32_t)(zero_a + (a_signed ? 128 : 0));
    for (int64_t j = 0; j < n; j++) {
        bool real = j < q->n;
        uint32_t add = real && bias ? (uint32_t)bias[j * bias_step] : 0;
        int32_t zb = 0;
        if (real && q->dots) {
            zb = cm_qzero(b->zero, b->zero_step, j, b->is_signed) - (b->is_signed ? 0 : 128);
            add -= za * (uint32_t)sums[j];
            add += (uint32_t)q->k * za * (uint32_t)zb;
        }
        any = any || zb != 0;
        t->add[j] = (int32_t)add;
        t->zero_b[j] = zb;
        t->factor[j] = t->bias[j] = 0;
    }
    f->add = t->add;
    f->factor = t->factor;
    f->zero_b = any ? t->zero_b : NULL;
    f->bias = NULL;
}
