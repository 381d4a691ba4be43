/* quant_pool.c -- pools of bytes, channels innermost.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/quant_pool.h"

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/cpu.h"

/* Most elements that a window may have: sums stay exact. */
enum { MOST = 1 << 20 };

static bool is_byte(const cm_tensor *t)
{
    return t->dtype == CM_U8 || t->dtype == CM_I8;
}

static double window_of(const cm_pool *c)
{
    return (double)c->kernel[0] * (double)c->kernel[1] * (double)c->kernel[2];
}

static double cost_of(const cm_problem *p, const cm_pool *c, double per_element)
{
    double pixels = (double)(c->n * c->out[0] * c->out[1] * c->out[2]);
    double ns = pixels * (10 + window_of(c) * (double)c->c * per_element);
    return 50 + ns / cm_cpu_speedup(p, ns / 5000);
}

const char *cm_cpu_pool_bytes_reject(const cm_problem *p)
{
    const cm_pool *c = &p->as.pool;
    if (!is_byte(p->in[0]) || c->kind != CM_POOL_MAX)
        return "not the largest of bytes";
    if (c->indices >= 0)
        return "the places of the largest are not kept";
    if (p->epilogue)
        return "an epilogue";
    if (!(cm_conv_layout_of(p->in[0]) & cm_conv_layout_of(p->out[0]) & CM_CONV_CHANNELS_LAST))
        return "input and output are not channels-last";
    return NULL;
}

double cm_cpu_pool_bytes_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    return cost_of(p, &p->as.pool, p->target.level < CM_ISA_AVX2 ? 0.05 : 0.02);
}

const char *cm_quantise_pool_reject(const cm_problem *p)
{
    const cm_quantise *q = &p->as.quantise;
    if (!is_byte(p->in[0]) || p->out[0]->dtype != p->in[0]->dtype)
        return "not bytes of one type";
    if (!q->channels_last)
        return "input and output are not channels-last";
    if (window_of(&q->pool) > MOST)
        return "the window is too large";
    return NULL;
}

double cm_quantise_pool_cost(const cm_problem *p)
{
    double per_element = p->target.level < CM_ISA_AVX2 ? 0.8 : 0.2;
    return cost_of(p, &p->as.quantise.pool, per_element);
}

typedef struct {
    const cm_pool *c;
    cm_qpool q;
    cm_qpool_fn *fn;
    const uint8_t *x;
    uint8_t *y;
} job;

/* What a mean divides by along an axis that is padded. */
static double count_of(const cm_pool *c, int d, int64_t out)
{
    if (c->count_overhang)
        return (double)c->kernel[d];
    int64_t room = c->in[d] + c->pad[d] + c->pad_end[d] - out * c->stride[d];
    return (double)cm_min_i64(c->kernel[d], cm_max_i64(cm_ceil_div(room, c->dilation[d]), 0));
}

/* The part of a window that lies inside the input along one axis, and what a mean counts there. */
static void set_axis(const cm_pool *c, int d, int64_t out, int64_t step, cm_qwindow *w,
                     int64_t *offset, double *counted)
{
    int64_t at = out * c->stride[d] - c->pad[d], apart = c->dilation[d];
    int64_t first = at < 0 ? cm_ceil_div(-at, apart) : 0, last = c->kernel[d];
    if (at + (last - 1) * apart >= c->in[d])
        last = at < c->in[d] ? cm_ceil_div(c->in[d] - at, apart) : 0;
    w->n[d] = cm_max_i64(last - first, 0);
    w->step[d] = apart * step;
    *offset = w->n[d] > 0 ? (at + first * apart) * step : 0;
    *counted = c->count_pads ? count_of(c, d, out) : (double)w->n[d];
}

/* Output pixels of all images. */
static void run_pixels(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_pool *c = j->c;
    int64_t step[3] = {c->in[1] * c->in[2] * c->c, c->in[2] * c->c, c->c};
    int64_t at[3], offset[3], image = begin;
    double counted[3];
    cm_qpool q = j->q;
    cm_qwindow w;
    for (int d = 2; d >= 0; d--) {
        at[d] = image % c->out[d];
        image /= c->out[d];
        set_axis(c, d, at[d], step[d], &w, &offset[d], &counted[d]);
    }
    for (int64_t i = begin; i < end; i++) {
        w.from = j->x + image * c->in[0] * step[0] + offset[0] + offset[1] + offset[2];
        bool empty = w.n[0] == 0 || w.n[1] == 0 || w.n[2] == 0;
        q.divisor = empty ? 1 : counted[0] * counted[1] * counted[2];
        j->fn(&q, &w, c->c, j->y + i * c->c);
        for (int d = 2; d >= 0; d--) {
            bool carry = ++at[d] == c->out[d];
            at[d] = carry ? 0 : at[d];
            set_axis(c, d, at[d], step[d], &w, &offset[d], &counted[d]);
            if (!carry)
                break;
            image += d == 0;
        }
    }
}

static void run_pool(const cm_run *r, const cm_pool *c, const cm_qpool *q)
{
    int level = r->p->target.level;
    job j = {.c = c, .q = *q, .x = r->in[0], .y = r->out[0]};
    j.q.is_signed = r->p->in[0]->dtype == CM_I8;
    j.fn = level < CM_ISA_AVX2     ? cm_cpu_qpool__generic
           : level < CM_ISA_AVX512 ? cm_cpu_qpool__avx2
                                   : cm_cpu_qpool__avx512;
    int64_t pixels = c->n * c->out[0] * c->out[1] * c->out[2];
    int64_t grain = (int64_t)(100000 / (window_of(c) * (double)c->c)) + 1;
    cm_parallel(r->threads, pixels, grain, run_pixels, &j);
}

cm_status cm_cpu_pool_bytes_run(const cm_run *r)
{
    run_pool(r, &r->p->as.pool, &(cm_qpool){.kind = CM_QPOOL_MAX});
    return CM_OK;
}

static float zero_at(const cm_run *r, int input)
{
    if (input < 0)
        return 0;
    const void *v = r->in[input];
    return r->p->in[input]->dtype == CM_I8 ? *(const int8_t *)v : *(const uint8_t *)v;
}

void cm_quantise_pool_run(const cm_run *r)
{
    const cm_quantise *q = &r->p->as.quantise;
    const cm_pool *c = &q->pool;
    cm_qpool pool = {.kind = CM_QPOOL_AVERAGE,
                     .scale = *(const float *)r->in[q->scale],
                     .zero = zero_at(r, q->zero),
                     .y_scale = *(const float *)r->in[q->y_scale],
                     .y_zero = zero_at(r, q->y_zero)};
    if (q->kind == CM_QUANTISE_GLOBAL_AVERAGE) {
        int64_t space = c->in[0] * c->in[1] * c->in[2];
        pool.kind = CM_QPOOL_SUM;
        pool.scale = pool.scale / (pool.y_scale * (float)space);
        pool.zero_sum = (int32_t)pool.zero * (int32_t)space;
    }
    run_pool(r, c, &pool);
}
