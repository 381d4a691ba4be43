/* quant_softmax.c -- softmax of rows of bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/quant_softmax.h"

#include "base/size.h"
#include "cpu/cpu.h"
#include "cpu/quant.h"

enum { GRAIN = 16 * 1024 };

const char *cm_quantise_softmax_reject(const cm_problem *p)
{
    const cm_quantise *q = &p->as.quantise;
    if (q->kind != CM_QUANTISE_SOFTMAX)
        return "not a softmax";
    if (!q->adjacent)
        return "elements of a row are not side by side, or the layout changes";
    return NULL;
}

double cm_quantise_softmax_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_quantise *q = &p->as.quantise;
    int level = p->target.level;
    double each = level < CM_ISA_AVX2 ? 1.5 : level < CM_ISA_AVX512 ? 0.4 : 0.25;
    double ns = (double)q->outer * (40 + (double)q->extent * each);
    return 200 + ns / cm_cpu_speedup(p, ns / 5000);
}

static float zero_at(const cm_run *r, int input)
{
    if (input < 0)
        return 0;
    const void *v = r->in[input];
    return r->p->in[input]->dtype == CM_I8 ? *(const int8_t *)v : *(const uint8_t *)v;
}

typedef struct {
    const cm_qsoftmax *q;
    cm_qsoftmax_rows_fn *fn;
} job;

static void some_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    j->fn(j->q, begin, end);
}

cm_status cm_quantise_softmax_run(const cm_run *r)
{
    const cm_quantise *p = &r->p->as.quantise;
    int level = r->p->target.level;
    if (p->outer == 0)
        return CM_OK;
    cm_qsoftmax q = {.x = r->in[0],
                     .y = r->out[0],
                     .n = p->extent,
                     .is_signed = r->p->in[0]->dtype == CM_I8,
                     .scale = *(const float *)r->in[p->scale],
                     .zero = zero_at(r, p->zero),
                     .y_scale = *(const float *)r->in[p->y_scale],
                     .y_zero = zero_at(r, p->y_zero)};
    CM_QUANT_AT(level, cm_cpu_qsoftmax_powers)(&q);
    job j = {&q, CM_QUANT_AT(level, cm_cpu_qsoftmax_rows)};
    cm_parallel(r->threads, p->outer, GRAIN / p->extent + 1, some_rows, &j);
    return CM_OK;
}
