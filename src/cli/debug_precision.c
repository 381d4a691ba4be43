/* debug_precision.c -- `cameo debug precision`: nodes that must stay in float32, and why.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cli/debug.h"
#include "cli/precision.h"
#include "runtime/report.h"

/* The largest magnitude of each value that a layer makes in float32. */
typedef struct {
    cm_engine *engine;
    cm_context *context;
    cm_arena arena;  /* of one value */
    double *largest; /* per value */
} ranges;

static void on_step(void *user, int step, uint64_t start_ns, uint64_t end_ns)
{
    ranges *r = user;
    const cm_plan_step *p = cm_engine_step(r->engine, step);
    cm_ctx cx = {0};
    cm_tensor t;
    (void)start_ns, (void)end_ns;
    for (int o = 0; o < p->n_out; o++) {
        const cm_datum *d =
            p->out[o].value >= 0 ? cm_context_value(r->context, p->out[o].value) : NULL;
        if (!d || d->kind != CM_TENSOR || cm_dtype_get(d->tensor.dtype)->kind != CM_KIND_FLOAT)
            continue;
        cm_arena_reset(&r->arena);
        if (cm_context_copy_value(&cx, r->context, p->out[o].value, &r->arena, &t) != CM_OK ||
            t.packed)
            continue;
        for (int64_t i = 0, n = cm_tensor_elems(&t); i < n; i++) {
            double v = fabs(cm_get_f64(t.dtype, t.data, i));
            if (isfinite(v) && v > r->largest[p->out[o].value])
                r->largest[p->out[o].value] = v;
        }
    }
}

static cm_status run_once(cm_ctx *cx, const cm_debug_options *o, ranges *r)
{
    cm_inputs in;
    cm_target target;
    cm_context_options co;
    CM_TRY(cm_model_context_options(cx, &o->model, &target, &co));
    co.profile = on_step;
    co.profile_user = r;
    CM_NEW_N(cx, cx->arena, r->largest, cm_engine_plan(r->engine)->n_values, double);
    CM_TRY(cm_inputs_create(cx, r->engine, &in));
    if (o->inputs.n)
        CM_TRY(cm_inputs_add_file(cx, r->engine, &in, NULL, o->inputs.v[0]));
    CM_TRY(cm_inputs_random(cx, r->engine, &o->model, (uint64_t)o->random, &in));
    CM_TRY(cm_context_create(cx, r->engine, &co, &r->context));
    cm_status st = cm_inputs_set(cx, r->context, &in);
    if (st == CM_OK)
        st = cm_context_run(cx, r->context);
    cm_context_destroy(r->context);
    return st;
}

static bool covers(const cm_plan_step *p, const cm_precision_kept *k)
{
    for (int i = 0; i < p->n_from; i++)
        for (int j = 0; j < k->n_names; j++)
            if (!strcmp(p->from[i], k->names[j]))
                return true;
    return false;
}

static double largest_of(const ranges *r, const cm_operand *v, int n)
{
    double largest = 0;
    for (int i = 0; i < n; i++)
        if (v[i].value >= 0 && r->largest[v[i].value] > largest)
            largest = r->largest[v[i].value];
    return largest;
}

static void explain(const ranges *r, const cm_precision_kept *k, bool half)
{
    const double most = 65504,
                 least = 6.1e-5; /* float16's largest number, its smallest normal one */
    double made = 0, read = 0;
    for (int s = 0; s < cm_engine_n_steps(r->engine); s++) {
        const cm_plan_step *p = cm_engine_step(r->engine, s);
        if (covers(p, k)) {
            made = fmax(made, largest_of(r, p->out, p->n_out));
            read = fmax(read, largest_of(r, p->in, p->n_in));
        }
    }
    printf("  %s%s: ", k->names[0], k->n_names > 1 ? " and what is fused with it" : "");
    if (half && made > most)
        printf("reaches %.3g, beyond float16's 65504\n", made);
    else if (half && read > most)
        printf("reads values up to %.3g, beyond float16's 65504\n", read);
    else if (half && made > 0 && made < least)
        printf("stays below %.3g, under float16's smallest normal number\n", made);
    else if (isfinite(k->error))
        printf("outputs would move by %.2g\n", k->error);
    else
        printf("outputs would not be finite\n");
}

static void print(const cm_precision_result *p, const ranges *r, const char *name, double tolerance)
{
    printf("%d of %d nodes can be in %s: outputs move by %.2g of their scale, allowed %.2g; %d "
           "trials\n",
           p->n_candidates - p->n_kept, p->n_candidates, name, p->error, tolerance, p->n_trials);
    if (!p->n_kept)
        return;
    printf("these must stay in float32:\n");
    for (int i = 0; i < p->n_kept; i++)
        explain(r, &p->kept[i], !strcmp(name, "fp16"));
    printf("--precision %s --keep-fp32 ", name);
    for (int i = 0; i < p->n_names; i++)
        printf("%s%s", i ? "," : "", p->names[i]);
    printf("\n");
}

cm_status cm_debug_precision(cm_ctx *cx, const cm_debug_options *o, const char *path, bool *found)
{
    const char *name = o->model.precision ? o->model.precision : "fp16";
    cm_model_options plain = o->model;
    cm_precision_result result;
    ranges r = {0};
    cm_model m;
    if (strcmp(name, "fp16") != 0 && strcmp(name, "bf16") != 0)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--precision %s: debug precision wants fp16 or bf16",
                       name);
    plain.precision = NULL;
    cm_measure_options how = {
        .model = &plain, .samples = o->inputs, .tolerance = o->tolerance > 0 ? o->tolerance : 1e-2};
    cm_cli_progress(cx);
    cm_status st = cm_measure_type(
        cx, path, &how, !strcmp(name, "bf16") ? CM_PRECISION_BF16 : CM_PRECISION_FP16, &result);
    cm_cli_progress_done(cx);
    CM_TRY(st);
    cm_arena_init(&r.arena, cx->allocator);
    st = cm_model_open(cx, path, &plain, &m);
    r.engine = m.engine;
    if (st == CM_OK)
        st = run_once(cx, o, &r);
    if (st == CM_OK)
        print(&result, &r, name, how.tolerance);
    cm_model_close(&m);
    cm_arena_deinit(&r.arena);
    *found = st == CM_OK && result.n_kept > 0;
    return st;
}
