/* profile_work.c -- what a layer's time means: its work, the machine's limit, what bounds it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The limit of a layer is the longer of two times: its operations at the rate of multiply-adds that was measured,
 * and its bytes at the bandwidth of the memory that they come from. Activations were made a moment ago and
 * are where they fit; weights are where those of the whole plan fit, since all are read in every run. */
#include <stdlib.h>
#include <string.h>

#include "cli/limits_device.h"
#include "cli/profile.h"
#include "ops/problem.h"

const char *cm_bound_name(cm_bound b)
{
    static const char *const names[] = {
#define X(id, name) name,
        CM_BOUNDS(X)
#undef X
    };
    return b < CM_BOUND_COUNT ? names[b] : "?";
}

/* ---- Facts -------------------------------------------------------------------------------------- */

static const char *kind_of(const cm_profile_layer *l)
{
    const cm_op *op = cm_op_find(l->step->op ? l->step->op : "");
    const cm_problem_row *row = op ? cm_problem_find(op) : NULL;
    if (l->step->kind != CM_STEP_PROBLEM)
        return l->step->kind == CM_STEP_COPY ? "copy" : "control";
    if (l->facts.tactic && !strcmp(l->facts.tactic, "view"))
        return "view";
    return cm_problem_kind_name(row ? row->kind : CM_PROBLEM_EVALUATE);
}

static const char *layout_of(const cm_tensor *t)
{
    if (cm_tensor_is_dense(t))
        return "";
    return t->rank >= 3 && t->strides[1] == 1 ? " channels-last" : " strided";
}

static cm_status describe_value(cm_ctx *cx, const cm_context *c, const cm_operand *o,
                                const char **out)
{
    char shape[256];
    const cm_datum *d = o->value >= 0 ? cm_context_value(c, o->value) : NULL;
    *out = NULL;
    if (!d)
        return CM_OK;
    *out = d->kind == CM_TENSOR
               ? cm_arena_printf(cx->arena, "%s%s%s", cm_dtype_name(d->tensor.dtype),
                                 cm_shape_text(shape, sizeof shape, d->tensor.rank, d->tensor.dims),
                                 layout_of(&d->tensor))
               : "not a tensor";
    return *out ? CM_OK : cm_fail_memory(cx);
}

static cm_status describe_layer(cm_ctx *cx, const cm_context *c, int i, cm_profile_layer *l)
{
    const cm_plan_step *s = l->step;
    cm_context_layer(c, i, &l->facts);
    (void)!cm_context_work(cx, c, i, &l->work); /* zero where there is none */
    l->kind = kind_of(l);
    CM_NEW_N(cx, cx->arena, l->in, s->n_in, const char *);
    CM_NEW_N(cx, cx->arena, l->out, s->n_out, const char *);
    for (int k = 0; k < s->n_in; k++)
        CM_TRY(describe_value(cx, c, &s->in[k], &l->in[k]));
    for (int k = 0; k < s->n_out; k++)
        CM_TRY(describe_value(cx, c, &s->out[k], &l->out[k]));
    return CM_OK;
}

/* How many control steps a layer is nested in: those whose span holds its own. */
static void find_depths(cm_profile *p)
{
    for (int i = 0; i < p->n_layers; i++) {
        int first, last, a, b;
        cm_engine_step_span(p->engine, i, &first, &last);
        for (int k = 0; k < i && !p->layers[i].is_main; k++) {
            if (!p->layers[k].step->n_lists)
                continue;
            cm_engine_step_span(p->engine, k, &a, &b);
            p->layers[i].depth += a <= first && last <= b;
        }
    }
}

static cm_status describe_memory(cm_ctx *cx, const cm_context *c, cm_profile *p)
{
    p->arena_bytes = cm_context_arena_bytes(c);
    p->context_bytes = cm_context_total_bytes(c);
    const cm_plan *plan = cm_engine_plan(p->engine);
    for (int i = 0; i < plan->n_values; i++) {
        const cm_datum *d = cm_context_value(c, i);
        size_t bytes;
        if (plan->values[i].storage == CM_STORE_CONSTANT && d &&
            cm_tensor_bytes(&d->tensor, &bytes))
            p->weight_bytes += bytes;
    }
    for (int i = 0; i < p->n_layers; i++) {
        int first, last;
        cm_engine_step_span(p->engine, i, &first, &last);
        p->n_positions = last + 1 > p->n_positions ? last + 1 : p->n_positions;
    }
    p->n_blocks = cm_context_n_blocks(c);
    CM_NEW_N(cx, cx->arena, p->blocks, p->n_blocks, cm_memory_block);
    CM_NEW_N(cx, cx->arena, p->live, p->n_positions, double);
    for (int i = 0; i < p->n_blocks; i++) {
        cm_memory_block *b = &p->blocks[i];
        cm_context_block(c, i, b);
        for (int k = b->first; k <= b->last && k < p->n_positions; k++)
            p->live[k] += (double)b->bytes;
    }
    for (int k = 0; k < p->n_positions; k++)
        p->peak = p->live[k] > p->live[p->peak] ? k : p->peak;
    return CM_OK;
}

cm_status cm_profile_describe(cm_ctx *cx, const cm_context *c, cm_profile *p)
{
    for (int i = 0; i < p->n_layers; i++) {
        p->layers[i].step = cm_engine_step(p->engine, i);
        CM_TRY(describe_layer(cx, c, i, &p->layers[i]));
    }
    find_depths(p);
    return describe_memory(cx, c, p);
}

/* ---- Limits ------------------------------------------------------------------------------------- */

/* The rate at which so many bytes can be read. */
static double bandwidth(const cm_profile *p, double bytes)
{
    const cm_cpu *cpu = cm_cpu_info();
    bool host = p->target.kind == CM_DEVICE_CPU;
    if (bytes <= (host ? (double)cpu->l2_bytes * p->threads : (double)CM_DEVICE_CACHE_BYTES))
        return p->limits.near_bytes;
    if (p->limits.shared_bytes > 0 && bytes <= (double)cpu->l3_bytes)
        return p->limits.shared_bytes;
    return p->limits.dram_bytes;
}

static bool has_type(const cm_profile *p, const cm_profile_layer *l, cm_dtype a, cm_dtype b)
{
    const cm_plan *plan = cm_engine_plan(p->engine);
    for (int i = 0; i < l->step->n_in; i++) {
        const cm_operand *o = &l->step->in[i];
        if (o->value >= 0 && plan->values[o->value].type.kind == CM_TENSOR &&
            (plan->values[o->value].type.dtype == a || plan->values[o->value].type.dtype == b))
            return true;
    }
    return false;
}

static double ops_limit(const cm_profile *p, const cm_profile_layer *l)
{
    bool away = p->target.kind != CM_DEVICE_CPU;
    bool bf16 = (l->facts.tactic && strstr(l->facts.tactic, "bf16")) ||
                (away && has_type(p, l, CM_BF16, CM_F16));
    bool int8 = !strcmp(l->kind, "qmatmul") || !strcmp(l->kind, "qconv");
    if (p->limits.bf16_ops > 0 && bf16)
        return p->limits.bf16_ops;
    if (p->limits.int8_ops > 0 && int8 && has_type(p, l, CM_I8, CM_U8))
        return p->limits.int8_ops;
    return has_type(p, l, CM_F64, CM_F64) ? p->limits.f32_ops / 2 : p->limits.f32_ops;
}

static cm_bound bound_of(const cm_profile *p, const cm_profile_layer *l, double compute_ms,
                         double memory_ms)
{
    const double tiny_ms = 1e-3; /* less work than that is lost in starting it */
    double launch_ms = (p->launch_ns > 500 ? p->launch_ns : 500) * 1e-6;
    if (l->step->kind != CM_STEP_PROBLEM)
        return CM_BOUND_CONTROL;
    if (l->work.ops == 0 && l->work.out_bytes == 0 && l->work.conversion_bytes == 0)
        return CM_BOUND_NOTHING;
    if (p->target.kind != CM_DEVICE_CPU && !l->facts.away)
        return CM_BOUND_HOST;
    if (l->facts.reference)
        return CM_BOUND_REFERENCE;
    if (l->conversion_ms > l->ms / 2)
        return CM_BOUND_COPIES;
    double calls = (double)(l->calls ? l->calls : 1);
    if (l->fraction < 0.5 && (l->ms < 3 * launch_ms * calls || l->limit_ms < tiny_ms * calls))
        return CM_BOUND_OVERHEAD;
    if (!strcmp(l->kind, "move"))
        return CM_BOUND_COPIES;
    return compute_ms >= memory_ms ? CM_BOUND_COMPUTE : CM_BOUND_MEMORY;
}

static void judge_layer(const cm_profile *p, cm_profile_layer *l)
{
    cm_layer_work *w = &l->work;
    double calls = (double)l->calls, activations = w->in_bytes + w->out_bytes;
    double rate = ops_limit(p, l);
    double compute_ms = rate > 0 ? 1e3 * calls * w->ops / rate : 0; /* 0: not known of the device */
    double memory_ms = 1e3 * calls *
                       (activations / bandwidth(p, activations) +
                        w->weight_bytes / bandwidth(p, (double)p->weight_bytes));
    w->ops *= calls;
    w->in_bytes *= calls;
    w->weight_bytes *= calls;
    w->out_bytes *= calls;
    w->conversion_bytes *= calls;
    l->conversion_ms = w->conversion_ns * calls * 1e-6;
    if (p->target.kind == CM_DEVICE_CPU || l->facts.away) /* of others the limit is not known */
        l->limit_ms = compute_ms > memory_ms ? compute_ms : memory_ms;
    if (l->ms > 0) {
        l->fraction = l->limit_ms / l->ms;
        l->ops_rate = w->ops / (l->ms * 1e-3);
        l->bytes_rate = (w->in_bytes + w->weight_bytes + w->out_bytes) / (l->ms * 1e-3);
    }
    l->bound = bound_of(p, l, compute_ms, memory_ms);
}

/* ---- Totals ------------------------------------------------------------------------------------- */

static int slowest_total(const void *a, const void *b)
{
    const cm_profile_total *x = a, *y = b;
    return x->ms != y->ms ? (x->ms < y->ms ? 1 : -1) : strcmp(x->kind, y->kind);
}

/* Layers that do work, by kind: what a control step spends is in the layers that it holds. */
static cm_status add_totals(cm_ctx *cx, cm_profile *p, double sum)
{
    CM_NEW_N(cx, cx->arena, p->totals, p->n_layers, cm_profile_total);
    for (int i = 0; i < p->n_layers; i++) {
        const cm_profile_layer *l = &p->layers[i];
        int k = 0;
        if (l->step->n_lists)
            continue;
        while (k < p->n_totals && strcmp(p->totals[k].kind, l->kind) != 0)
            k++;
        cm_profile_total *t = &p->totals[k];
        p->n_totals += k == p->n_totals;
        t->kind = l->kind;
        t->n++;
        t->ms += l->ms;
        t->ops += l->work.ops;
        t->bytes += l->work.in_bytes + l->work.weight_bytes + l->work.out_bytes;
        t->share = sum > 0 ? t->ms / sum : 0;
    }
    qsort(p->totals, (size_t)p->n_totals, sizeof *p->totals, slowest_total);
    return CM_OK;
}

cm_status cm_profile_judge(cm_ctx *cx, cm_profile *p)
{
    double sum = 0;
    for (int i = 0; i < p->n_layers; i++) {
        judge_layer(p, &p->layers[i]);
        sum += p->layers[i].is_main ? p->layers[i].ms : 0;
    }
    for (int i = 0; i < p->n_layers; i++)
        p->layers[i].share = sum > 0 ? p->layers[i].ms / sum : 0;
    return add_totals(cx, p, sum);
}

typedef struct {
    double ms;
    int layer;
} ranked;

static int slowest(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->ms != y->ms ? (x->ms < y->ms ? 1 : -1) : x->layer - y->layer;
}

cm_status cm_profile_rank(cm_ctx *cx, const cm_profile *p, int **out)
{
    ranked *v;
    CM_NEW_N(cx, cx->arena, v, p->n_layers, ranked);
    CM_NEW_N(cx, cx->arena, *out, p->n_layers, int);
    for (int i = 0; i < p->n_layers; i++)
        v[i] = (ranked){p->layers[i].ms, i};
    qsort(v, (size_t)p->n_layers, sizeof *v, slowest);
    for (int i = 0; i < p->n_layers; i++)
        (*out)[i] = v[i].layer;
    return CM_OK;
}
