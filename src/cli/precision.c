/* precision.c -- `cameo build --precision auto`: which nodes stay in float32, found by measuring.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/precision.h"

#include "api/precision.h"

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

static void explain(const cm_precision_result *r, double tolerance)
{
    printf("precision: %d of %d nodes in f16, outputs move by %.2g (tolerance %.2g), %d trials\n",
           r->n_candidates - r->n_kept, r->n_candidates, r->error, tolerance, r->n_trials);
    for (int i = 0; i < r->n_kept; i++)
        printf("  %s%s stays in f32: in f16 the outputs would move by %.2g\n", r->kept[i].names[0],
               r->kept[i].n_names > 1 ? " and what is fused with it" : "", r->kept[i].error);
}

cm_status cm_measure_precision(cm_ctx *cx, const char *path, const cm_measure_options *o,
                               cm_compile_options *co)
{
    measuring w = {.model = *o->model, .samples = &o->samples, .path = path};
    cm_precision_result r;
    w.model.precision = NULL;
    co->optimise.precision = CM_PRECISION_FP16;
    cm_precision_job job = {.make = make_network,
                            .feed = feed,
                            .user = &w,
                            .n_samples = o->samples.n ? o->samples.n : 2,
                            .compile = *co,
                            .tolerance = o->tolerance,
                            .threads = (int)o->model->threads};
    CM_NEW_N(cx, cx->arena, w.inputs, job.n_samples, cm_inputs);
    cm_status st = cm_precision_search(cx, cx->arena, &job, &r);
    cm_model_close(&w.m);
    CM_TRY(st);
    co->optimise.n_keep_fp32 = r.n_names;
    co->optimise.keep_fp32 = r.names;
    cm_cli_progress_done(cx);
    if (!o->quiet)
        explain(&r, o->tolerance);
    return CM_OK;
}
