/* quant.c -- QUANTISE: between real numbers and bytes, and elementwise on bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/quant.h"

#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "base/size.h"
#include "cpu/cpu.h"
#include "cpu/quant_pool.h"
#include "cpu/quant_softmax.h"

enum { GRAIN = 16 * 1024 };

void cm_quantise_run(int level, const float *x, int64_t n, float scale, int32_t zero,
                     bool is_signed, uint8_t *y)
{
    float z = (float)zero;
    CM_QUANT_AT(level, cm_cpu_quantise)(x, n, &scale, &z, 0, is_signed, y);
}

void cm_quantise_range(int level, const float *x, int64_t n, float *lo, float *hi)
{
    CM_QUANT_AT(level, cm_cpu_range_of)(x, n, lo, hi);
}

void cm_quantise_choose(float lo, float hi, float *scale, int32_t *zero)
{
    uint8_t z;
    *scale = hi == lo ? 1.0f : (hi - lo) / 255.0f;
    cm_quantise_run(CM_ISA_GENERIC, &(float){0 - lo / *scale}, 1, 1.0f, 0, false, &z);
    *zero = z;
}

static bool is_byte(cm_dtype t)
{
    return t == CM_U8 || t == CM_I8;
}

static const char *reject_binary(const cm_problem *p)
{
    const cm_quantise *q = &p->as.quantise;
    int last = q->rank - 1;
    if (!is_byte(p->out[0]->dtype))
        return "elements are not bytes";
    if (q->y[last] != 1 || q->a[last] < 0 || q->a[last] > 1 || q->b[last] < 0 || q->b[last] > 1)
        return "an operand is strided along the innermost axis";
    return NULL;
}

/* The axis along which a piece lies side by side in the output, the longest of them. */
static int run_axis(const cm_move_piece *m)
{
    int best = -1;
    for (int d = 0; d < m->rank; d++)
        if (m->to[d] == 1 && (best < 0 || m->dims[d] > m->dims[best]))
            best = d;
    return best;
}

static const char *reject_concat(const cm_problem *p)
{
    const cm_move *m = &p->as.quantise.move;
    for (int i = 0; i < m->n_pieces; i++) {
        int axis = run_axis(&m->pieces[i]);
        if (axis < 0 || (m->pieces[i].from[axis] != 1 && m->pieces[i].dims[axis] > 1))
            return "operands differ in layout";
    }
    return NULL;
}

static const char *reject(const cm_problem *p)
{
    const cm_quantise *q = &p->as.quantise;
    if (q->kind == CM_QUANTISE_ADD || q->kind == CM_QUANTISE_MUL)
        return reject_binary(p);
    if (q->kind == CM_QUANTISE_CONCAT)
        return reject_concat(p);
    if (q->kind == CM_QUANTISE_AVERAGE || q->kind == CM_QUANTISE_GLOBAL_AVERAGE)
        return cm_quantise_pool_reject(p);
    if (q->kind == CM_QUANTISE_SOFTMAX)
        return "a softmax";
    const cm_tensor *x = p->in[0], *y = p->out[0];
    if (q->block)
        return "parameters of blocks";
    if (q->kind == CM_QUANTISE_DYNAMIC)
        return !x || x->dtype != CM_F32             ? "the input is not float32"
               : !cm_tensor_is_packed(x)            ? "the input is strided"
               : y && !cm_tensor_same_strides(x, y) ? "the layout changes"
                                                    : NULL;
    bool to = q->kind == CM_QUANTISE_TO, from = q->kind == CM_QUANTISE_FROM;
    if (to ? x->dtype != CM_F32 : !is_byte(x->dtype))
        return "the input's type";
    if (from ? y->dtype != CM_F32 : !is_byte(y->dtype))
        return "the output's type";
    if ((to || from) && p->in[q->scale]->dtype != CM_F32)
        return "the scale is not float32";
    if (!cm_tensor_is_packed(x) || !cm_tensor_same_strides(x, y))
        return "the operands are strided or differ in layout";
    return NULL;
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_tensor *x = p->in[0];
    if (p->as.quantise.kind == CM_QUANTISE_AVERAGE ||
        p->as.quantise.kind == CM_QUANTISE_GLOBAL_AVERAGE)
        return cm_quantise_pool_cost(p);
    double n = (double)cm_tensor_elems(p->out[0] ? p->out[0] : x);
    double lanes = p->target.level < CM_ISA_AVX2 ? 1 : p->target.level < CM_ISA_AVX512 ? 3 : 5;
    return 30 + n / lanes / cm_cpu_speedup(p, n / GRAIN);
}

static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_quantise *q = &p->as.quantise;
    return q->kind <= CM_QUANTISE_FROM ? (size_t)q->extent * sizeof(float) : 0;
}

typedef struct {
    const cm_quantise *q;
    int level;
    bool to, is_signed;
    const char *x;
    char *y;
    const float *scale, *zero;
} job;

/* n elements from `at` on, parameters from p on. */
static void convert(const job *j, int64_t at, int64_t n, int64_t p, int step)
{
    if (j->to)
        CM_QUANT_AT(j->level, cm_cpu_quantise)
    ((const float *)j->x + at, n, j->scale + p, j->zero + p, step, j->is_signed,
     (uint8_t *)j->y + at);
    else CM_QUANT_AT(j->level, cm_cpu_dequantise)((const uint8_t *)j->x + at, n, j->scale + p,
                                                  j->zero + p, step, j->is_signed,
                                                  (float *)j->y + at);
}

static void convert_range(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_quantise *q = j->q;
    if (q->extent == 1) {
        convert(j, begin, end - begin, 0, 0);
        return;
    }
    for (int64_t r = begin; r < end;
         r++) { /* rows of inner, or of the axis where that is innermost */
        if (q->inner == 1)
            convert(j, r * q->extent, q->extent, 0, 1);
        else
            convert(j, r * q->inner, q->inner, r % q->extent, 0);
    }
}

static int32_t byte_at(const void *p, int64_t i, bool is_signed)
{
    return is_signed ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

static void run_convert(const cm_run *r)
{
    const cm_quantise *q = &r->p->as.quantise;
    float one, *zero = q->extent == 1 ? &one : r->workspace;
    bool to = q->kind == CM_QUANTISE_TO;
    bool is_signed = r->p->in[0]->dtype == CM_I8 || r->p->out[0]->dtype == CM_I8;
    for (int64_t i = 0; i < q->extent; i++)
        zero[i] = q->zero < 0 ? 0.0f : (float)byte_at(r->in[q->zero], i, is_signed);
    job j = {q, r->p->target.level, to, is_signed, r->in[0], r->out[0], r->in[q->scale], zero};
    if (q->extent == 1)
        cm_parallel(r->threads, q->outer * q->inner, GRAIN, convert_range, &j);
    else if (q->inner == 1)
        cm_parallel(r->threads, q->outer, GRAIN / q->extent + 1, convert_range, &j);
    else
        cm_parallel(r->threads, q->outer * q->extent, GRAIN / q->inner + 1, convert_range, &j);
}

static void run_dynamic(const cm_run *r)
{
    int64_t n = cm_tensor_elems(r->p->in[0]);
    float lo, hi, scale, zero;
    int32_t z;
    cm_quantise_range(r->p->target.level, r->in[0], n, &lo, &hi);
    cm_quantise_choose(lo, hi, &scale, &z);
    zero = (float)z;
    const cm_quantise flat = {.extent = 1};
    if (r->p->out[0]) {
        job j = {&flat, r->p->target.level, true, false, r->in[0], r->out[0], &scale, &zero};
        cm_parallel(r->threads, n, GRAIN, convert_range, &j);
    }
    if (r->p->n_out > 1 && r->p->out[1])
        *(float *)r->out[1] = scale;
    if (r->p->n_out > 2 && r->p->out[2])
        *(uint8_t *)r->out[2] = (uint8_t)z;
}

static cm_lookup_fn *lookup_of(int level)
{
    bool wide = level >= CM_ISA_AVX512 && cm_cpu_info()->vbmi;
    return wide ? cm_cpu_lookup__avx512 : cm_cpu_lookup__generic;
}

static void look_up(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    lookup_of(j->level)((const uint8_t *)j->x + begin, end - begin, j->q->table,
                        (uint8_t *)j->y + begin);
}

typedef struct {
    const cm_move_piece *m;
    int axis;
    const uint8_t *from, *table;
    uint8_t *to;
    cm_lookup_fn *look_up;
} concat_job;

/* Runs of a piece. */
static void concat_runs(void *arg, int64_t begin, int64_t end)
{
    const concat_job *j = arg;
    const cm_move_piece *m = j->m;
    for (int64_t r = begin; r < end; r++) {
        const uint8_t *from = j->from;
        uint8_t *to = j->to + m->to_offset;
        int64_t rest = r;
        for (int d = m->rank - 1; d >= 0; d--) {
            if (d == j->axis)
                continue;
            int64_t i = rest % m->dims[d];
            rest /= m->dims[d];
            from += i * m->from[d];
            to += i * m->to[d];
        }
        j->look_up(from, m->dims[j->axis], j->table, to);
    }
}

static void run_concat(const cm_run *r)
{
    const cm_move *m = &r->p->as.quantise.move;
    for (int i = 0; i < m->n_pieces; i++) {
        const cm_move_piece *piece = &m->pieces[i];
        concat_job j = {piece,
                        run_axis(piece),
                        r->in[piece->input],
                        r->p->as.quantise.table + 256 * i,
                        r->out[0],
                        lookup_of(r->p->target.level)};
        int64_t run = piece->dims[j.axis], elems = cm_dims_product(piece->dims, 0, piece->rank);
        if (elems > 0)
            cm_parallel(r->threads, elems / run, GRAIN / run + 1, concat_runs, &j);
    }
}

typedef struct {
    const cm_quantise *q;
    cm_qbinary b;
    cm_qbinary_fn *fn;
} binary_job;

/* Rows along the innermost axis. */
static void binary_rows(void *arg, int64_t begin, int64_t end)
{
    const binary_job *j = arg;
    const cm_quantise *q = j->q;
    int last = q->rank - 1;
    for (int64_t r = begin; r < end; r++) {
        cm_qbinary b = j->b;
        int64_t rest = r;
        for (int d = last - 1; d >= 0; d--) {
            int64_t i = rest % q->dims[d];
            rest /= q->dims[d];
            b.a += i * q->a[d];
            b.b += i * q->b[d];
            b.y += i * q->y[d];
        }
        j->fn(&b, q->dims[last]);
    }
}

/* One long row: pieces of it. */
static void binary_range(void *arg, int64_t begin, int64_t end)
{
    const binary_job *j = arg;
    cm_qbinary b = j->b;
    b.a += begin * b.a_step;
    b.b += begin * b.b_step;
    b.y += begin;
    j->fn(&b, end - begin);
}

static void run_binary(const cm_run *r)
{
    const cm_quantise *q = &r->p->as.quantise;
    int level = r->p->target.level, last = q->rank - 1;
    bool is_signed = r->p->out[0]->dtype == CM_I8;
    binary_job j = {.q = q,
                    .b = {.a = r->in[0],
                          .b = r->in[3],
                          .a_step = (int)q->a[last],
                          .b_step = (int)q->b[last],
                          .is_signed = is_signed,
                          .a_scale = *(const float *)r->in[1],
                          .b_scale = *(const float *)r->in[4],
                          .y_scale = *(const float *)r->in[6],
                          .y = r->out[0]}};
    float *zeros[3] = {&j.b.a_zero, &j.b.b_zero, &j.b.y_zero};
    static const int at[3] = {2, 5, 7};
    for (int i = 0; i < 3; i++)
        if (at[i] < r->p->n_in && r->p->in[at[i]])
            *zeros[i] = (float)byte_at(r->in[at[i]], 0, is_signed);
    j.fn = q->kind == CM_QUANTISE_ADD ? CM_QUANT_AT(level, cm_cpu_qadd)
                                      : CM_QUANT_AT(level, cm_cpu_qmul);
    int64_t rows = cm_dims_product(q->dims, 0, last);
    if (rows == 1)
        cm_parallel(r->threads, q->dims[last], GRAIN, binary_range, &j);
    else
        cm_parallel(r->threads, rows, GRAIN / cm_max_i64(q->dims[last], 1) + 1, binary_rows, &j);
}

static cm_status run(const cm_run *r)
{
    const cm_quantise *q = &r->p->as.quantise;
    switch (q->kind) {
    case CM_QUANTISE_DYNAMIC:
        run_dynamic(r);
        break;
    case CM_QUANTISE_TABLE: {
        job j = {.q = q, .level = r->p->target.level, .x = r->in[0], .y = r->out[0]};
        cm_parallel(r->threads, cm_tensor_elems(r->p->out[0]), GRAIN, look_up, &j);
        break;
    }
    case CM_QUANTISE_ADD:
    case CM_QUANTISE_MUL:
        run_binary(r);
        break;
    case CM_QUANTISE_AVERAGE:
    case CM_QUANTISE_GLOBAL_AVERAGE:
        cm_quantise_pool_run(r);
        break;
    case CM_QUANTISE_CONCAT:
        run_concat(r);
        break;
    default:
        run_convert(r);
    }
    return CM_OK;
}

static const cm_tactic rows[] = {
    {.name = "quantise_runs",
     .level = CM_ISA_GENERIC,
     .reject = reject,
     .cost = cost,
     .workspace = workspace,
     .run = run},
    {.name = "quantise_softmax",
     .level = CM_ISA_GENERIC,
     .reject = cm_quantise_softmax_reject,
     .cost = cm_quantise_softmax_cost,
     .run = cm_quantise_softmax_run},
};

const cm_cpu_table cm_cpu_quantise = {rows, CM_COUNT(rows)};
