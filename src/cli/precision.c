/* precision.c -- `cameo build --precision auto`: which nodes stay in float32, found by measuring.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/precision.h"

typedef struct {
    cm_model_options model; /* in float32 */
    const cm_texts *samples;
    const char *path;
    cm_model m;
    cm_inputs *inputs;
} measuring;

static cm_status make_network(void *user, cm_ctx *cx, cm_network **out)
{
    measuring *w = user;
    cm_model_close(&w->m);
    CM_TRY(cm_model_import(cx, w->path, &w->model, &w->m));
    *out = w->m.network;
    return CM_OK;
}

static cm_status feed(void *user, cm_ctx *cx, cm_context *c, int sample)
{
    measuring *w = user;
    const cm_engine *e = cm_context_engine(c);
    cm_inputs *in = &w->inputs[sample];
    if (!in->datum) {
        CM_TRY(cm_inputs_create(cx, e, in));
        if (sample < w->samples->n)
            CM_TRY(cm_inputs_add_file(cx, e, in, NULL, w->samples->v[sample]));
        CM_TRY(cm_inputs_random(cx, e, &w->model, (uint64_t)sample, in));
    }
    return cm_inputs_set(cx, c, in);
}

/* A small type, and what the search with it came to. */
typedef struct {
    cm_precision precision;
    const char *name;
    bool tried;
    cm_precision_result r;
} small_type;

static void explain(const small_type *t, double tolerance)
{
    const cm_precision_result *r = &t->r;
    printf("precision: %d of %d nodes in %s, outputs move by %.2g (tolerance %.2g), %d trials\n",
           r->n_candidates - r->n_kept, r->n_candidates, t->name, r->error, tolerance, r->n_trials);
    for (int i = 0; i < r->n_kept; i++)
        printf("  %s%s stays in f32: in %s the outputs would move by %.2g\n", r->kept[i].names[0],
               r->kept[i].n_names > 1 ? " and what is fused with it" : "", t->name,
               r->kept[i].error);
}

static int n_small(const small_type *t)
{
    return t->tried ? t->r.n_candidates - t->r.n_kept : -1;
}

/* float16 first, which has more digits; bfloat16, which has more range, where that leaves nodes behind. The one that
 * takes more nodes down. */
static cm_status search(cm_ctx *cx, cm_precision_job *job, small_type *types, int n_types,
                        const small_type **best)
{
    *best = &types[0];
    for (int i = 0; i < n_types; i++) {
        small_type *t = &types[i];
        if (i && !(*best)->r.n_kept)
            break;
        job->compile.optimise.precision = t->precision;
        CM_TRY(cm_precision_search(cx, cx->arena, job, &t->r));
        t->tried = true;
        if (n_small(t) > n_small(*best))
            *best = t;
    }
    return CM_OK;
}

cm_status cm_measure_precision(cm_ctx *cx, const char *path, const cm_measure_options *o,
                               cm_compile_options *co)
{
    measuring w = {.model = *o->model, .samples = &o->samples, .path = path};
    small_type types[] = {{CM_PRECISION_FP16, "f16"}, {CM_PRECISION_BF16, "bf16"}};
    const small_type *best;
    w.model.precision = NULL;
    cm_precision_job job = {.make = make_network,
                            .feed = feed,
                            .user = &w,
                            .n_samples = o->samples.n ? o->samples.n : 2,
                            .compile = *co,
                            .tolerance = o->tolerance,
                            .threads = (int)o->model->threads};
    CM_NEW_N(cx, cx->arena, w.inputs, job.n_samples, cm_inputs);
    cm_status st = search(cx, &job, types, CM_COUNT(types), &best);
    cm_model_close(&w.m);
    CM_TRY(st);
    co->optimise.precision = best->precision;
    co->optimise.n_keep_fp32 = best->r.n_names;
    co->optimise.keep_fp32 = best->r.names;
    cm_cli_progress_done(cx);
    for (int i = 0; i < CM_COUNT(types) && !o->quiet; i++)
        if (types[i].tried && &types[i] != best)
            printf("precision: %s would leave %d of %d nodes in f32, %s fewer\n", types[i].name,
                   types[i].r.n_kept, types[i].r.n_candidates, best->name);
    if (!o->quiet)
        explain(best, o->tolerance);
    return CM_OK;
}

cm_status cm_measure_type(cm_ctx *cx, const char *path, const cm_measure_options *o,
                          cm_precision small, cm_precision_result *out)
{
    measuring w = {.model = *o->model, .samples = &o->samples, .path = path};
    cm_precision_job job = {.make = make_network,
                            .feed = feed,
                            .user = &w,
                            .n_samples = o->samples.n ? o->samples.n : 2,
                            .tolerance = o->tolerance,
                            .threads = (int)o->model->threads};
    w.model.precision = NULL;
    CM_TRY(cm_model_compile_options(cx, &w.model, &job.compile));
    job.compile.optimise.precision = small;
    CM_NEW_N(cx, cx->arena, w.inputs, job.n_samples, cm_inputs);
    cm_status st = cm_precision_search(cx, cx->arena, &job, out);
    cm_model_close(&w.m);
    return st;
}
