/* rows.c -- tactics for softmax and normalisations: rows found in memory, shared among threads.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A row is read once from memory; the passes over it find it in L1 or L2. Statistics that float32 cannot
 * hold (squares of 1e30, of 1e-30) are taken again in doubles. */
#include "cpu/rows.h"

#include "base/size.h"
#include "cpu/cpu.h"
#include "cpu/epilogue.h"
#include "cpu/rows_view.h"

enum { PIECE_ELEMS = 16384, MOST_PIECES = 4 };

static bool is_real(cm_dtype t)
{
    return t == CM_F32 || t == CM_F16 || t == CM_BF16;
}

/* ---- Choosing ------------------------------------------------------------------------------- */

static const char *reject_embed(const cm_problem *p)
{
    const cm_rows *r = &p->as.rows;
    const int all[] = {r->word, r->place,     r->segment,     r->scale, r->bias,
                       r->ids,  r->place_ids, r->segment_ids, r->mask};
    for (int i = 0; i < 9; i++) {
        if (all[i] >= 0 && !cm_tensor_is_dense(p->in[all[i]]))
            return "an input is strided";
        if (i < 5 && all[i] >= 0 && p->in[all[i]]->dtype != CM_F32)
            return "a table is not of float32";
    }
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o] && !cm_tensor_is_dense(p->out[o]))
            return "an output is strided";
    if (p->out[0]->dtype != CM_F32 || (r->sum >= 0 && p->out[r->sum]->dtype != CM_F32))
        return "an output is not of float32";
    return NULL;
}

static const char *reject(const cm_problem *p)
{
    const cm_rows *r = &p->as.rows;
    cm_rows_view v;
    if (r->embed)
        return reject_embed(p);
    if (!is_real(p->in[0]->dtype))
        return "the input is not of float32, float16 or bfloat16";
    if (r->kind == CM_ROWS_GROUP_NORM)
        return cm_cpu_group_norm_reject(p);
    const char *why = cm_view_rows(p, &v);
    if (why)
        return why;
    if (v.lanes && (r->skip >= 0 || r->mean >= 0 || r->inv_deviation >= 0))
        return "rows are not adjacent elements";
    const int factors[] = {r->scale, r->bias, r->skip_bias, r->skip};
    for (int i = 0; i < 4; i++)
        if (factors[i] >= 0 &&
            (!is_real(p->in[factors[i]]->dtype) || !cm_tensor_is_dense(p->in[factors[i]])))
            return "scale, bias or what is added is strided or of another type";
    const int outs[] = {r->sum, r->mean, r->inv_deviation};
    for (int i = 0; i < 3; i++)
        if (outs[i] >= 0 &&
            (i > 0 ? !cm_tensor_is_dense(p->out[outs[i]]) : p->out[outs[i]]->dtype != CM_F32))
            return "an output beside the first is strided or of another type";
    bool by_number = r->skip >= 0 || r->mean >= 0 || r->inv_deviation >= 0;
    if (by_number && !cm_tensor_is_dense(p->out[0]))
        return "the output is strided";
    int n = cm_cpu_col_axes(p->out[0], v.lanes ? v.inner : v.cols);
    return n < 0 ? "the output is strided" : cm_epilogue_reject(p, n);
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_rows *r = &p->as.rows;
    if (r->kind == CM_ROWS_GROUP_NORM)
        return cm_cpu_group_norm_cost(p);
    double elems = (double)r->rows * (double)r->cols;
    double wide = p->target.level == CM_ISA_GENERIC ? 4 : p->target.level == CM_ISA_AVX2 ? 8 : 12;
    bool soft = r->kind == CM_ROWS_SOFTMAX || r->kind == CM_ROWS_LOG_SOFTMAX;
    double each = (soft ? 6 : 2.5) / wide + (p->epilogue ? 4 / wide : 0);
    return 200 + (elems * each + (double)r->rows * 20) /
                     cm_cpu_speedup(p, elems / PIECE_ELEMS > 1 ? elems / PIECE_ELEMS : 1);
}

/* ---- Running -------------------------------------------------------------------------------- */

typedef struct job {
    const cm_run *run;
    const cm_rows *r;
    const cm_rows_kernels *kernels;
    cm_rows_view view;
    cm_epilogue_plan epilogue;
    bool direct; /* results are stored where they belong, no epilogue follows */
    cm_norm norm;
    const float *skip_bias;
    int64_t n_pieces;
    float *buffers; /* one per piece */
    int64_t buffer_elems;
    int64_t failed_id; /* embedding: out of range, where `failed` */
    int failed;        /* the table, 0: none */
} job;

/* Input and skip of a row, as float32 in `to`; or the input itself where it is that already. */
static const float *gather_row(const job *j, int64_t row, float *to)
{
    const cm_problem *p = j->run->p;
    const cm_rows *r = j->r;
    const cm_tensor *x = p->in[0];
    int64_t n = r->cols;
    const char *at = (const char *)j->run->in[0] +
                     (size_t)cm_row_offset(&j->view, CM_ROWS_X, row) * cm_dtype_size(x->dtype);
    if (r->skip < 0 && x->dtype == CM_F32)
        return (const float *)at;
    if (r->skip < 0) {
        j->kernels->to_f32(x->dtype, at, to, n);
        return to;
    }
    const cm_tensor *s = p->in[r->skip];
    const char *skip = (const char *)j->run->in[r->skip] +
                       (size_t)(row % r->skip_rows * n) * cm_dtype_size(s->dtype);
    float *sum =
        r->sum >= 0 ? (float *)j->run->out[r->sum] + cm_row_offset(&j->view, CM_ROWS_SUM, row) : to;
    if (x->dtype == CM_F32 && s->dtype == CM_F32) {
        j->kernels->sum((const float *)at, (const float *)skip, j->skip_bias, NULL, sum, n);
        return sum;
    }
    float *other = to + n; /* buffers have room for two rows where types differ */
    j->kernels->to_f32(x->dtype, at, to, n);
    j->kernels->to_f32(s->dtype, skip, other, n);
    j->kernels->sum(to, other, j->skip_bias, NULL, sum, n);
    return sum;
}

static void put_stat(const job *j, int output, int64_t row, double v)
{
    if (output >= 0)
        cm_set_f64(j->run->p->out[output]->dtype, j->run->out[output], row, v);
}

static void finish_row(const job *j, int64_t row, const float *x, float *y)
{
    if (j->r->kind == CM_ROWS_SOFTMAX || j->r->kind == CM_ROWS_LOG_SOFTMAX) {
        j->kernels->softmax_rows(x, 0, y, 0, 1, j->r->cols, j->r->kind == CM_ROWS_LOG_SOFTMAX);
    } else {
        double stats[2];
        if (!j->kernels->norm_row(&j->norm, x, y, stats))
            cm_norm_slow(&j->norm, x, 1, y, 1, stats);
        put_stat(j, j->r->mean, row, stats[0]);
        put_stat(j, j->r->inv_deviation, row, stats[1]);
    }
    if (!j->direct)
        cm_epilogue_tile(&j->epilogue, row, 0, 1, j->r->cols, y, j->r->cols);
}

/* Rows of softmax that are evenly apart and go where they belong are done many at a time. */
static bool run_softmax(const job *j, int64_t begin, int64_t end)
{
    bool log = j->r->kind == CM_ROWS_LOG_SOFTMAX;
    if (!(log || j->r->kind == CM_ROWS_SOFTMAX) || !j->direct || j->view.n_outer > 1 ||
        j->run->p->in[0]->dtype != CM_F32)
        return false;
    int64_t xs = j->view.step[CM_ROWS_X][0], ys = j->view.step[CM_ROWS_Y][0];
    j->kernels->softmax_rows((const float *)j->run->in[0] + begin * xs, xs,
                             (float *)j->run->out[0] + begin * ys, ys, end - begin, j->r->cols,
                             log);
    return true;
}

static void run_rows(const job *j, int64_t begin, int64_t end, float *buffer)
{
    bool in_place = j->run->p->out[0]->dtype == CM_F32;
    if (run_softmax(j, begin, end))
        return;
    for (int64_t row = begin; row < end; row++) {
        float *y =
            in_place ? (float *)j->run->out[0] + cm_row_offset(&j->view, CM_ROWS_Y, row) : buffer;
        finish_row(j, row, gather_row(j, row, buffer), y);
    }
}

/* Unit u: a block of the rows side by side at one outer position. */
static void run_lanes(const job *j, int64_t begin, int64_t end, float *buffer)
{
    const cm_rows_view *v = &j->view;
    const cm_problem *p = j->run->p;
    const cm_tensor *x = p->in[0];
    int64_t blocks = cm_ceil_div(v->inner, CM_ROWS_LANES), n = v->cols;
    for (int64_t u = begin; u < end; u++) {
        int64_t outer = u / blocks, at = u % blocks * CM_ROWS_LANES;
        int64_t lanes = cm_min_i64(CM_ROWS_LANES, v->inner - at);
        const char *from =
            (const char *)j->run->in[0] +
            (size_t)(cm_row_offset(v, CM_ROWS_X, outer) + at) * cm_dtype_size(x->dtype);
        int64_t xs = v->col_step[CM_ROWS_X], ys = CM_ROWS_LANES;
        const float *in = (const float *)from;
        float *y = buffer;
        if (x->dtype != CM_F32) {
            for (int64_t c = 0; c < n; c++)
                j->kernels->to_f32(x->dtype, from + (size_t)(c * xs) * cm_dtype_size(x->dtype),
                                   buffer + c * CM_ROWS_LANES, lanes);
            in = buffer;
            xs = CM_ROWS_LANES;
        }
        if (p->out[0]->dtype == CM_F32) {
            y = (float *)j->run->out[0] + cm_row_offset(v, CM_ROWS_Y, outer) + at;
            ys = v->col_step[CM_ROWS_Y];
        }
        if (j->r->kind == CM_ROWS_SOFTMAX || j->r->kind == CM_ROWS_LOG_SOFTMAX)
            j->kernels->softmax_lanes(in, xs, y, ys, n, lanes, j->r->kind == CM_ROWS_LOG_SOFTMAX);
        else
            j->kernels->norm_lanes(&j->norm, in, xs, y, ys, lanes);
        if (!j->direct)
            cm_epilogue_tile(&j->epilogue, outer * n, at, n, lanes, y, ys);
    }
}

/* A row of table `t` for id, counted from the end when below 0; NULL: out of range. */
static const float *table_row(job *j, int t, int64_t id)
{
    int64_t rows = j->run->p->in[t]->dims[0];
    if (id < -rows || id >= rows) {
        __atomic_store_n(&j->failed_id, id, __ATOMIC_RELAXED);
        __atomic_store_n(&j->failed, t, __ATOMIC_RELAXED);
        return NULL;
    }
    return (const float *)j->run->in[t] + (id < 0 ? id + rows : id) * j->r->cols;
}

static int64_t id_at(const job *j, int input, int64_t i)
{
    return j->run->p->in[input]->dtype == CM_I32 ? ((const int32_t *)j->run->in[input])[i]
                                                 : ((const int64_t *)j->run->in[input])[i];
}

static void run_embed(job *j, int64_t begin, int64_t end)
{
    const cm_rows *r = j->r;
    int64_t n = r->cols;
    for (int64_t row = begin; row < end; row++) {
        int64_t place = row % r->place_rows;
        const float *word = table_row(j, r->word, id_at(j, r->ids, row));
        const float *at =
            table_row(j, r->place, r->place_ids < 0 ? place : id_at(j, r->place_ids, place));
        const float *segment =
            r->segment < 0 ? NULL : table_row(j, r->segment, id_at(j, r->segment_ids, row));
        if (!word || !at || (r->segment >= 0 && !segment))
            return;
        float *y = (float *)j->run->out[0] + row * n;
        float *sum = r->sum >= 0 ? (float *)j->run->out[r->sum] + row * n : y;
        j->kernels->sum(word, at, segment, NULL, sum, n);
        finish_row(j, row, sum, y);
    }
}

static int64_t units_of(const job *j)
{
    return j->view.lanes ? j->view.n_rows * cm_ceil_div(j->view.inner, CM_ROWS_LANES)
                         : j->view.n_rows;
}

static void run_piece(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    int64_t units = units_of(j);
    for (int64_t i = begin; i < end; i++) {
        int64_t from = i * units / j->n_pieces, to = (i + 1) * units / j->n_pieces;
        float *buffer = j->buffers ? j->buffers + i * j->buffer_elems : NULL;
        if (j->r->embed)
            run_embed(j, from, to);
        else if (j->view.lanes)
            run_lanes(j, from, to, buffer);
        else
            run_rows(j, from, to, buffer);
    }
}

/* Pieces of at least PIECE_ELEMS elements, a few per thread. */
static int64_t count_pieces(const cm_problem *p, int64_t units, int threads)
{
    const cm_rows *r = &p->as.rows;
    if (threads <= 1)
        return 1;
    int64_t by_work = (r->rows * r->cols) / PIECE_ELEMS;
    int64_t n = cm_min_i64(cm_min_i64(by_work, units), (int64_t)threads * MOST_PIECES);
    return n < 1 ? 1 : n;
}

/* Elements of a piece's buffer: rows in other types than float32, or results before their epilogue. */
static int64_t buffer_elems(const cm_problem *p, const cm_rows_view *v)
{
    const cm_rows *r = &p->as.rows;
    if (r->embed)
        return 0;
    bool plain = p->in[0]->dtype == CM_F32 && p->out[0]->dtype == CM_F32 &&
                 (r->skip < 0 || p->in[r->skip]->dtype == CM_F32);
    if (v->lanes)
        return plain ? 0 : v->cols * CM_ROWS_LANES;
    if (plain && (r->skip < 0 || r->sum >= 0))
        return 0;
    return cm_ceil_div(r->cols * (r->skip >= 0 ? 2 : 1), 16) * 16;
}

static int factors(const cm_rows *r, int *out)
{
    const int all[] = {r->scale, r->bias, r->skip_bias};
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (all[i] >= 0)
            out[n++] = all[i];
    return n;
}

/* Does input i have to be brought into float32, one per column? */
static bool is_spread(const cm_problem *p, int i)
{
    return p->in[i]->dtype != CM_F32 || cm_tensor_elems(p->in[i]) != p->as.rows.cols;
}

static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    cm_rows_view v = {.n_rows = p->as.rows.rows};
    int in[3];
    if (p->as.rows.kind == CM_ROWS_GROUP_NORM)
        return cm_cpu_group_norm_workspace(p);
    if (!p->as.rows.embed && cm_view_rows(p, &v))
        return 0;
    size_t pieces = (size_t)(p->threads > 1 ? p->threads * MOST_PIECES : 1);
    size_t elems = pieces * (size_t)buffer_elems(p, &v);
    for (int i = factors(&p->as.rows, in) - 1; i >= 0; i--)
        elems += is_spread(p, in[i]) ? (size_t)p->as.rows.cols : 0;
    return elems * sizeof(float);
}

/* Scale or bias as the kernels want it, in the workspace where it is not that already. */
static const float *spread(const job *j, int input, float **space)
{
    const cm_problem *p = j->run->p;
    if (input < 0)
        return NULL;
    if (!is_spread(p, input))
        return j->run->in[input];
    float *to = *space;
    int64_t have = cm_tensor_elems(p->in[input]);
    j->kernels->to_f32(p->in[input]->dtype, j->run->in[input], to, have);
    for (int64_t i = have; i < j->r->cols; i++)
        to[i] = to[0];
    *space += j->r->cols;
    return to;
}

static void count_mask(const job *j)
{
    const cm_rows *r = j->r;
    int32_t *out = j->run->out[r->mask_index];
    int64_t len = r->rows / r->batch;
    for (int64_t b = 0; b < r->batch; b++) {
        int32_t n = 0;
        for (int64_t i = 0; r->mask >= 0 && i < len; i++)
            n += id_at(j, r->mask, b * len + i) == 1;
        out[b] = n;
    }
}

static cm_status run(const cm_run *run)
{
    const cm_problem *p = run->p;
    const cm_rows *r = &p->as.rows;
    if (r->kind == CM_ROWS_GROUP_NORM)
        return cm_cpu_group_norm_run(run);
    job j = {.run = run,
             .r = r,
             .kernels = cm_cpu_rows_kernels(p->target.level),
             .direct = !p->epilogue && p->out[0]->dtype == CM_F32};
    if (r->embed)
        j.view = (cm_rows_view){.n_rows = r->rows, .cols = r->cols, .inner = 1};
    else if (cm_view_rows(p, &j.view))
        return CM_OK; /* rejected */
    if (!j.direct)
        cm_epilogue_init(&j.epilogue, run,
                         cm_cpu_col_axes(p->out[0], j.view.lanes ? j.view.inner : j.view.cols));
    j.n_pieces = count_pieces(p, units_of(&j), cm_threads_count(run->threads));
    j.buffer_elems = buffer_elems(p, &j.view);
    j.buffers = j.buffer_elems ? run->workspace : NULL;
    float *space = (float *)run->workspace + j.n_pieces * j.buffer_elems;
    j.norm = (cm_norm){r->kind, r->cols, r->epsilon, spread(&j, r->scale, &space),
                       spread(&j, r->bias, &space)};
    j.skip_bias = spread(&j, r->skip_bias, &space);
    if (r->mask_index >= 0)
        count_mask(&j);
    cm_parallel(run->threads, j.n_pieces, 1, run_piece, &j);
    if (j.failed)
        return cm_fail(run->cx, CM_ERR_DATA, "index %lld into an embedding of %lld rows",
                       (long long)j.failed_id, (long long)p->in[j.failed]->dims[0]);
    return CM_OK;
}

#define ROW(name, level)                                                                           \
    {                                                                                              \
        name, level, reject, NULL, cost, workspace, NULL, NULL, run                                \
    }
static const cm_tactic rows[] = {
    ROW("rows", CM_ISA_GENERIC),
};
const cm_cpu_table cm_cpu_rows = {rows, 1};
