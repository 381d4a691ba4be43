/* recurrent.c -- tactics for RNN, GRU and LSTM with constant weights.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The inputs' product is taken for many steps at once, the state's step by step onto it, with weights packed in
 * panels; then the gates. Every other step goes through the weights from their end, so that it finds in the near
 * cache what the last one left there. A single sequence waits for its weights to come from the caches: meanwhile it
 * multiplies the inputs of the next 8 steps. What this file decides recurrent_run.c runs. */
#include "cpu/recurrent_unit.h"

#include <math.h>

#include "base/cpu.h"
#include "base/size.h"
#include "cpu/cpu.h"

typedef cm_recurrent_job job;

enum {
    CHUNK_ELEMS = 1 << 17, /* gates that are computed ahead */
    TEAM_CHUNK = 1 << 19,  /* the same, of teams */
    HELPED_ELEMS =
        16 * 1024, /* weights of a step's inputs, times rows, from which a thread is worth it */
    LONG_SUM = 48  /* elements of the state from which pieces beside a panel pay */
};

static int gate_count(const cm_recurrent *r)
{
    return r->kind == CM_RECURRENT_RNN ? 1 : r->kind == CM_RECURRENT_GRU ? 3 : 4;
}

static const char *reject(const cm_problem *p)
{
    if (!p->as.recurrent.plain_activations)
        return "activations that are not the operator's own";
    if (p->as.recurrent.peepholes)
        return "peepholes";
    for (int i = 0; i < p->n_in; i++) {
        if (!p->in[i])
            continue;
        if (i != CM_RECURRENT_LENS && p->in[i]->dtype != CM_F32)
            return "an input is not of float32";
        if (i != CM_RECURRENT_X && !cm_tensor_is_dense(p->in[i]))
            return "an input is strided";
    }
    if (!p->constant[CM_RECURRENT_W] || !p->constant[CM_RECURRENT_R])
        return "weights are not constant";
    if (p->in[CM_RECURRENT_X]->dims[2] > 1 && p->in[CM_RECURRENT_X]->strides[2] != 1)
        return "input 0 is strided";
    for (int o = 0; o < p->n_out; o++) {
        if (!p->out[o])
            continue;
        if (p->out[o]->dtype != CM_F32)
            return "an output is not of float32";
        if (p->out[o]->dims[p->out[o]->rank - 1] > 1 &&
            p->out[o]->strides[p->out[o]->rank - 1] != 1)
            return "an output is strided";
    }
    return NULL;
}

/* ---- Weights -------------------------------------------------------------------------------- */

cm_recurrent_packed cm_recurrent_packed_of(const cm_gemm_f32_kernel *g, const cm_recurrent *r)
{
    int64_t cols = gate_count(r) * r->hidden, first = cm_recurrent_first_cols(r);
    cm_recurrent_packed x = {.w = cm_gemm_f32_packed_b(g, r->input, cols),
                             .first = cm_gemm_f32_packed_b(g, r->hidden, first)};
    x.r = x.first + cm_gemm_f32_packed_b(g, r->hidden, cols - first);
    return x;
}

static size_t pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    const cm_recurrent *r = &p->as.recurrent;
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(p->target.level);
    cm_recurrent_packed x = cm_recurrent_packed_of(g, r);
    int64_t each = input == CM_RECURRENT_W ? x.w : input == CM_RECURRENT_R ? x.r : 0;
    return (size_t)(each * r->directions) * sizeof(float);
}

static void pack(const cm_problem *p, const cm_knobs *k, int input, const void *from, void *to,
                 cm_threads *threads)
{
    (void)k;
    (void)threads;
    const cm_recurrent *r = &p->as.recurrent;
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(p->target.level);
    int64_t depth = input == CM_RECURRENT_W ? r->input : r->hidden,
            cols = gate_count(r) * r->hidden;
    int64_t first = input == CM_RECURRENT_W ? cols : cm_recurrent_first_cols(r),
            panel = depth * g->nr;
    const float *f = from;
    float *t = to;
    for (int d = 0; d < r->directions; d++, f += cols * depth) {
        g->pack_b(depth, first, f, 1, depth, t, panel);
        t += cm_gemm_f32_packed_b(g, depth, first);
        if (cols > first)
            g->pack_b(depth, cols - first, f + first * depth, 1, depth, t, panel);
        t += cm_gemm_f32_packed_b(g, depth, cols - first);
    }
}

/* ---- Sizes ---------------------------------------------------------------------------------- */

/* Do a direction's weights of the state stay in the second-level cache from step to step if those of the inputs do not
 * go through it, and only then? */
static bool fit_alone(const cm_recurrent *r, int64_t cols)
{
    int64_t bytes = cols * (int64_t)sizeof(float), room = cm_cpu_info()->l2_bytes / 8 * 7;
    return r->hidden * bytes < room && (r->hidden + r->input) * bytes >= room;
}

static void plan(const cm_problem *p, job *j)
{
    const cm_recurrent *r = &p->as.recurrent;
    j->r = r;
    j->g = cm_gemm_f32_kernel_of(p->target.level);
    j->cols = gate_count(r) * r->hidden;
    j->panel = p->target.level >= CM_ISA_AVX512 ? 32 : p->target.level >= CM_ISA_AVX2 ? 16 : 8;
    j->parts = cm_max_i64(1, cm_min_i64(p->threads / r->directions, r->batch));
    if (r->steps * r->batch * j->cols * r->hidden < 1 << 18)
        j->parts = 1;
    j->teams = cm_recurrent_has_teams(p, j);
    if (j->teams)
        j->parts = 1;
    j->rows = cm_ceil_div(r->batch, j->parts);
    j->shares =
        j->teams ||
        (p->threads > 1 && r->directions * j->parts == 1 &&
         (r->hidden * cm_recurrent_first_cols(r) >= CM_SHARED_ELEMS || r->input > 2 * r->hidden));
    j->chunk = cm_min_i64(
        r->steps, cm_max_i64(8, (j->teams ? TEAM_CHUNK : CHUNK_ELEMS) / (j->rows * j->cols)));
    if (cm_problem_has(p, CM_RECURRENT_LENS)) /* sequences are at different steps */
        j->chunk = r->steps;
    j->ld = j->cols;
    j->rate = 0;
    j->helpers = 0;
    if (p->threads > 1 && r->directions * j->parts == 1 && !j->shares &&
        !cm_problem_has(p, CM_RECURRENT_LENS) && r->steps > CM_AHEAD_ROWS &&
        r->batch * j->cols * r->input >= HELPED_ELEMS) {
        j->helpers = cm_min_i64(p->threads - 1, cm_ceil_div(j->cols, 2 * j->g->nr));
        j->chunk = 2 * CM_AHEAD_ROWS;
    }
    if (p->target.level >= CM_ISA_AVX512 && j->rows == 1 && !fit_alone(r, j->cols) && !j->shares &&
        !j->helpers && !cm_problem_has(p, CM_RECURRENT_LENS) && r->steps > CM_AHEAD_ROWS &&
        r->input > 0 && r->hidden >= LONG_SUM && j->g->nr == j->panel) {
        j->rate = r->input <= r->hidden ? 8 : 4;
        j->ld = cm_ceil_div(j->cols, j->panel) * j->panel;
        j->chunk = 2 * CM_AHEAD_ROWS;
    }
    j->scratch_elems = cm_recurrent_round(
        (int64_t)cm_gemm_f32_scratch(j->g, j->chunk * j->rows, r->input) / 4 + 16);
    int64_t state = cm_recurrent_round(r->hidden);
    j->unit_elems = cm_recurrent_round(j->chunk * j->rows * j->ld) + j->rows * state * 4 +
                    cm_recurrent_round(j->cols) + state + j->scratch_elems;
}

static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    job j = {0};
    plan(p, &j);
    return (size_t)(j.unit_elems * j.parts * p->as.recurrent.directions) * sizeof(float);
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_recurrent *r = &p->as.recurrent;
    job j = {0};
    plan(p, &j);
    double flops = cm_cpu_flops_per_ns(&p->target), steps = (double)(r->steps * r->directions);
    double wide = p->target.level == CM_ISA_GENERIC ? 4 : p->target.level == CM_ISA_AVX2 ? 8 : 12;
    double batch = (double)r->batch, cols = (double)j.cols;
    double inputs = 2 * batch * cols * (double)r->input / flops;
    double states = cm_max_i64(2, r->batch) * 2 * cols * (double)r->hidden / flops;
    double gates = batch * cols * 8 / wide;
    return 300 + steps * (inputs + states + gates + 60) /
                     cm_cpu_speedup(p, j.teams ? p->threads : (double)(r->directions * j.parts));
}

static cm_status run(const cm_run *run)
{
    const cm_problem *p = run->p;
    const cm_recurrent *r = &p->as.recurrent;
    int level = p->target.level;
    for (int64_t b = 0; cm_problem_has(p, CM_RECURRENT_LENS) && b < r->batch; b++) {
        int32_t n = ((const int32_t *)run->in[CM_RECURRENT_LENS])[b];
        if (n < 0 || n > r->steps)
            return cm_fail(run->cx, CM_ERR_DATA, "sequence_lens[%lld] is %d, wanted 0 to %lld",
                           (long long)b, n, (long long)r->steps);
    }
    job j = {.run = run,
             .kernels = level >= CM_ISA_AVX512 ? &cm_cpu_recurrent_kernels__avx512
                        : level >= CM_ISA_AVX2 ? &cm_cpu_recurrent_kernels__avx2
                                               : &cm_cpu_recurrent_kernels__generic,
             .gates = {r->hidden, r->hidden, r->clip > 0 ? r->clip : INFINITY, r->input_forget},
             .workspace = run->workspace};
    plan(p, &j);
    cm_recurrent_run_job(&j);
    return cm_check_cancel(run->cx);
}

static const cm_tactic rows[] = {
    {"recurrent", CM_ISA_GENERIC, reject, NULL, cost, workspace, pack_bytes, pack, run},
};
const cm_cpu_table cm_cpu_recurrent = {rows, 1};
