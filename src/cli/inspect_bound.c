/* inspect_bound.c -- what only bound shapes tell: how layers run on each target, and their memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/inspect.h"
#include "cli/model.h"
#include "runtime/report.h"

static cm_status bind(cm_ctx *cx, cm_engine *e, const cm_model_options *o, const cm_target *target,
                      cm_context **out)
{
    cm_target own;
    cm_context_options co;
    cm_inputs in;
    CM_TRY(cm_model_context_options(cx, o, &own, &co));
    if (target)
        co.target = target;
    CM_TRY(cm_inputs_create(cx, e, &in));
    CM_TRY(cm_inputs_random(cx, e, o, 0, &in));
    CM_TRY(cm_context_create(cx, e, &co, out));
    CM_TRY(cm_inputs_set(cx, *out, &in));
    return cm_context_bind(cx, *out);
}

cm_status cm_inspect_ways(cm_ctx *cx, cm_engine *e, const cm_model_options *o, cm_layer_facts **out)
{
    cm_context *c = NULL;
    CM_NEW_N(cx, cx->arena, *out, cm_engine_n_steps(e) + 1, cm_layer_facts);
    cm_status st = bind(cx, e, o, NULL, &c);
    for (int i = 0; st == CM_OK && i < cm_engine_n_steps(e); i++)
        cm_context_layer(c, i, &(*out)[i]);
    cm_context_destroy(c);
    return st;
}

/* ---- Memory by layer -------------------------------------------------------------------------- */

typedef struct {
    double live, output, workspace;
} layer_memory;

static void count_blocks(const cm_context *c, int step, layer_memory *m)
{
    int first, last;
    cm_engine_step_span(cm_context_engine(c), step, &first, &last);
    *m = (layer_memory){0};
    for (int i = 0; i < cm_context_n_blocks(c); i++) {
        cm_memory_block b;
        cm_context_block(c, i, &b);
        if (b.first <= last && b.last >= first)
            m->live += (double)b.bytes;
        if (b.step == step && b.value < 0)
            m->workspace += (double)b.bytes;
        else if (b.step == step)
            m->output += (double)b.bytes;
    }
}

static double weights_of(const cm_plan *p, const cm_plan_step *s)
{
    double sum = 0;
    for (int i = 0; i < s->n_in; i++) {
        const cm_plan_value *v = s->in[i].value < 0 ? NULL : &p->values[s->in[i].value];
        size_t bytes;
        if (v && v->storage == CM_STORE_CONSTANT &&
            cm_dtype_bytes(v->type.dtype, cm_dims_product(v->type.dims, 0, v->type.rank), &bytes))
            sum += (double)bytes;
    }
    return sum;
}

cm_status cm_inspect_memory(cm_ctx *cx, cm_engine *e, const cm_model_options *o)
{
    cm_context *c = NULL;
    cm_status st = bind(cx, e, o, NULL, &c);
    double peak = 0;
    char text[4][32];
    layer_memory m;
    for (int i = 0; st == CM_OK && i < cm_engine_n_steps(e); i++) {
        count_blocks(c, i, &m);
        peak = m.live > peak ? m.live : peak;
    }
    if (st == CM_OK)
        printf("memory      %s of activations in one arena\n  %10s %10s %10s %10s  layer\n",
               cm_cli_bytes(text[0], sizeof text[0], (double)cm_context_arena_bytes(c)), "live",
               "output", "workspace", "weights");
    for (int i = 0; st == CM_OK && i < cm_engine_n_steps(e); i++) {
        const cm_plan_step *s = cm_engine_step(e, i);
        count_blocks(c, i, &m);
        printf("  %10s %10s %10s %10s  %s '%s'%s\n", cm_cli_bytes(text[0], sizeof text[0], m.live),
               cm_cli_bytes(text[1], sizeof text[1], m.output),
               cm_cli_bytes(text[2], sizeof text[2], m.workspace),
               cm_cli_bytes(text[3], sizeof text[3], weights_of(cm_engine_plan(e), s)), s->op,
               s->name, m.live == peak && peak > 0 ? "  <- peak" : "");
    }
    cm_context_destroy(c);
    return st;
}

/* ---- Capability by target --------------------------------------------------------------------- */

/* The first reason that a tactic gave. */
static void first_reason(void *user, const cm_tactic *t, const char *reason, const cm_candidate *k)
{
    const char **why = user;
    (void)t;
    (void)k;
    if (reason && !*why)
        *why = reason;
}

static void print_way(const cm_context *c, int step, const cm_layer_facts *f)
{
    const char *why = NULL;
    const cm_plan_step *s = cm_engine_step(cm_context_engine(c), step);
    printf("    %-28s %s '%s'", f->tactic, s->op, s->name);
    if (f->reference) {
        cm_context_tactics(c, step, first_reason, &why);
        printf(": %s", why ? why : "no kernel is for this operator");
    }
    printf("\n");
}

static void print_target(const cm_context *c, const char *name, bool layers)
{
    const cm_engine *e = cm_context_engine(c);
    int n_kernel = 0, n_reference = 0, n_other = 0;
    cm_layer_facts f;
    for (int i = 0; i < cm_engine_n_steps(e); i++) {
        cm_context_layer(c, i, &f);
        bool late = !strcmp(f.tactic, "late") || !strcmp(f.tactic, "view");
        n_reference += f.reference;
        n_other += !f.reference && late;
        n_kernel += !f.reference && !late;
    }
    printf("  %-12s %d layers on kernels, %d on the reference, %d that are views or chosen while "
           "running\n",
           name, n_kernel, n_reference, n_other);
    for (int i = 0; i < cm_engine_n_steps(e); i++) {
        cm_context_layer(c, i, &f);
        if (layers || f.reference)
            print_way(c, i, &f);
    }
}

/* A GPU class, whether there is one here or not: which layers its kernels would take. */
static void print_device(const cm_context *c, const cm_target *target, bool layers)
{
    const cm_engine *e = cm_context_engine(c);
    int n_taken = 0, n_left = 0;
    char name[32];
    cm_layer_facts f;
    const char *why;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < cm_engine_n_steps(e); i++) {
            const cm_plan_step *s = cm_engine_step(e, i);
            cm_context_layer(c, i, &f);
            if (!strcmp(f.tactic, "view") || !strcmp(f.tactic, "late"))
                continue;
            const char *taken = cm_context_taken_on(c, i, target, &why);
            if (!pass)
                *(taken ? &n_taken : &n_left) += 1;
            else if (!taken)
                printf("    %-28s %s '%s': %s\n", "on the CPU", s->op, s->name, why);
            else if (layers)
                printf("    %-28s %s '%s'\n", taken, s->op, s->name);
        }
        if (!pass)
            printf("  %-12s %d layers on kernels, %d on the CPU beside it\n",
                   cm_target_text(name, sizeof name, target), n_taken, n_left);
    }
}

cm_status cm_inspect_targets(cm_ctx *cx, cm_engine *e, const cm_model_options *o, bool layers)
{
    static const int sm[] = {750, 800, 900};
    printf("targets\n");
    for (int level = 0; level <= (int)cm_cpu_info()->isa; level++) {
        cm_target target = {CM_DEVICE_CPU, level, 0};
        char name[32];
        cm_context *c = NULL;
        cm_status st = bind(cx, e, o, &target, &c);
        if (st == CM_OK)
            print_target(c, cm_target_text(name, sizeof name, &target), layers);
        for (int i = 0; st == CM_OK && level == (int)cm_cpu_info()->isa && i < CM_COUNT(sm); i++)
            print_device(c, &(cm_target){CM_DEVICE_CUDA, sm[i], 0}, layers);
        cm_context_destroy(c);
        CM_TRY(st);
    }
    return CM_OK;
}
