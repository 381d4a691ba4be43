/* bench_report.c -- a measurement as text, JSON and CSV.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

cm_status cm_bench_parse_percentiles(cm_ctx *cx, const char *option, const cm_texts *texts,
                                     cm_bench_percentiles *out)
{
    static const double usual[] = {90, 95, 99};
    *out = (cm_bench_percentiles){0};
    for (int i = 0; i < texts->n; i++) {
        char *end;
        double p = strtod(texts->v[i], &end);
        if (!*texts->v[i] || *end || !(p >= 0 && p <= 100))
            return cm_fail(cx, CM_ERR_ARGUMENT, "--%s %s: wanted numbers from 0 to 100", option,
                           texts->v[i]);
        if (out->n == CM_BENCH_MOST_PERCENTILES)
            return cm_fail(cx, CM_ERR_ARGUMENT, "--%s: more than %d", option,
                           CM_BENCH_MOST_PERCENTILES);
        out->p[out->n++] = p;
    }
    if (!out->n) {
        memcpy(out->p, usual, sizeof usual);
        out->n = CM_COUNT(usual);
    }
    return CM_OK;
}

void cm_bench_print_series(FILE *to, const cm_bench_series *s, const cm_bench_percentiles *p)
{
    fprintf(to, "min = %g ms, max = %g ms, mean = %g ms, median = %g ms", s->ms[0], s->ms[s->n - 1],
            s->mean, s->median);
    for (int i = 0; i < p->n; i++)
        fprintf(to, ", percentile(%g%%) = %g ms", p->p[i], cm_bench_percentile(s, p->p[i]));
}

static double total_seconds(const cm_bench_series *s)
{
    return s->mean * (double)s->n * 1e-3;
}

static cm_status all_series(cm_ctx *cx, const cm_bench_result *r,
                            cm_bench_series out[CM_BENCH_PARTS])
{
    for (int i = 0; i < CM_BENCH_PARTS; i++)
        CM_TRY(cm_bench_series_of(cx, r, (cm_bench_part)i, &out[i]));
    return CM_OK;
}

/* ---- Layers ----------------------------------------------------------------------------------- */

typedef struct {
    int step;
    double ms; /* mean */
} ranked;

static double step_ms(const cm_bench_profile *p, int step)
{
    double ns = 0;
    for (int r = 0; r < p->runs; r++)
        ns += (double)p->ns[(size_t)r * (size_t)p->n_steps + (size_t)step];
    return ns * 1e-6 / p->runs;
}

static int slowest_first(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->ms != y->ms)
        return x->ms < y->ms ? 1 : -1;
    return x->step - y->step;
}

static cm_status print_layers(cm_ctx *cx, const cm_bench_report *r)
{
    const cm_bench_profile *p = r->profile;
    const cm_engine *e = r->model->engine;
    ranked *v;
    double whole = 0;
    CM_NEW_N(cx, cx->arena, v, p->n_steps, ranked);
    for (int i = 0; i < p->n_steps; i++) {
        v[i] = (ranked){i, step_ms(p, i)};
        const cm_plan_step *s = cm_engine_step(e, i);
        whole += s->kind == CM_STEP_PROBLEM ? v[i].ms : 0; /* control steps hold other steps */
    }
    qsort(v, (size_t)p->n_steps, sizeof *v, slowest_first);
    printf("\n=== Where the time went, in %d runs of their own ===\n%10s %7s  %-20s %-28s %s\n",
           p->runs, "ms", "share", "operator", "tactic", "layer");
    for (int i = 0; i < p->n_steps && i < r->layers; i++) {
        const cm_plan_step *s = cm_engine_step(e, v[i].step);
        const char *tactic = p->facts[v[i].step].tactic;
        printf("%10.4f %6.1f%%  %-20s %-28s %s\n", v[i].ms, whole > 0 ? 100 * v[i].ms / whole : 0,
               s->op ? s->op : "", tactic ? tactic : "", s->name);
    }
    return CM_OK;
}

/* ---- Text ------------------------------------------------------------------------------------- */

static void print_head(const cm_bench_report *r)
{
    char bytes[32], target[64];
    const cm_bench_how *how = r->how;
    const cm_model *m = r->model;
    cm_target best = {CM_DEVICE_CPU, (int)cm_cpu_info()->isa, 0};
    printf("%s on %s", r->path,
           cm_target_text(target, sizeof target, how->target ? how->target : &best));
    if (how->streams > 1)
        printf(" in %d streams of %d threads", how->streams, cm_bench_threads(how));
    else
        printf(" with %d thread%s", cm_bench_threads(how), cm_bench_threads(how) == 1 ? "" : "s");
    if (r->batch)
        printf(", batch %lld", (long long)r->batch);
    if (how->qps > 0)
        printf(", %g arrivals a second", how->qps);
    printf("; arena %s; import %.3f s, build %.3f s, open %.4f s\n",
           cm_cli_bytes(bytes, sizeof bytes, (double)r->result->arena_bytes), m->import_seconds,
           m->build_seconds, m->open_seconds);
}

static double uploads_ms(const cm_bench_profile *p)
{
    return cm_bench_median(p->up, p->runs);
}

static double downloads_ms(const cm_bench_profile *p)
{
    return cm_bench_median(p->down, p->runs);
}

static void print_line(const char *name, const cm_bench_series *s, const cm_bench_percentiles *p)
{
    printf("%s: ", name);
    cm_bench_print_series(stdout, s, p);
    printf("\n");
}

cm_status cm_bench_print(cm_ctx *cx, const cm_bench_report *r)
{
    cm_bench_series s[CM_BENCH_PARTS];
    const char *warnings[CM_BENCH_MOST_WARNINGS];
    int n;
    CM_TRY(all_series(cx, r->result, s));
    CM_TRY(cm_bench_warnings(cx, r->result, r->how, warnings, &n));
    print_head(r);
    printf("=== Performance summary ===\n");
    printf("Throughput: %g qps\n", (double)r->result->n / r->result->wall_s);
    if (r->batch)
        printf("Items: %g a second\n", (double)r->result->n * (double)r->batch / r->result->wall_s);
    print_line("Latency", &s[CM_BENCH_LATENCY], r->percentiles);
    if (r->how->qps > 0)
        print_line("Queue Time", &s[CM_BENCH_WAIT], r->percentiles);
    print_line("Enqueue Time", &s[CM_BENCH_ENQUEUE], r->percentiles);
    print_line("H2D Latency", &s[CM_BENCH_H2D], r->percentiles);
    print_line("Compute Time", &s[CM_BENCH_COMPUTE], r->percentiles);
    print_line("D2H Latency", &s[CM_BENCH_D2H], r->percentiles);
    if (r->result->n_away)
        printf("GPU Compute Time: median = %g ms by the device's clock, %d layers; %d on the CPU\n",
               r->result->device_ms, r->result->n_away, r->result->n_fell);
    if (r->result->n_away && r->profile)
        printf("Copies: median = %g ms to the GPU, %g ms from it, each waited for\n",
               uploads_ms(r->profile), downloads_ms(r->profile));
    printf("Total Host Walltime: %g s\n", r->result->wall_s);
    printf("Total Compute Time: %g s over %lld inferences\n", total_seconds(&s[CM_BENCH_COMPUTE]),
           (long long)r->result->n);
    for (int i = 0; i < n; i++)
        printf("Warning: %s\n", warnings[i]);
    return r->profile && r->layers > 0 ? print_layers(cx, r) : CM_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static json_t *series_json(const cm_bench_series *s, const cm_bench_percentiles *p)
{
    json_t *o = json_pack("{s:f, s:f, s:f, s:f, s:f}", "min", s->ms[0], "max", s->ms[s->n - 1],
                          "mean", s->mean, "median", s->median, "variation", s->variation);
    for (int i = 0; i < p->n; i++) {
        char name[32];
        snprintf(name, sizeof name, "p%g", p->p[i]);
        json_object_set_new(o, name, json_real(cm_bench_percentile(s, p->p[i])));
    }
    return o;
}

static json_t *layers_json(const cm_bench_report *r)
{
    json_t *list = json_array();
    for (int i = 0; r->profile && i < r->profile->n_steps; i++) {
        const cm_plan_step *s = cm_engine_step(r->model->engine, i);
        json_t *o =
            json_pack("{s:s, s:s, s:s?, s:f}", "name", s->name, "operator", s->op ? s->op : "",
                      "tactic", r->profile->facts[i].tactic, "averageMs", step_ms(r->profile, i));
        json_array_append_new(list, o);
    }
    return list;
}

cm_status cm_bench_json(cm_ctx *cx, const cm_bench_report *r, json_t **out)
{
    static const char *const names[CM_BENCH_PARTS] = {"latencyMs", "enqueueMs", "h2dMs",
                                                      "computeMs", "d2hMs",     "queueMs"};
    cm_bench_series s[CM_BENCH_PARTS];
    const char *warnings[CM_BENCH_MOST_WARNINGS];
    const cm_bench_result *b = r->result;
    int n;
    CM_TRY(all_series(cx, b, s));
    CM_TRY(cm_bench_warnings(cx, b, r->how, warnings, &n));
    json_t *o =
        json_pack("{s:s, s:i, s:i, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:f}", "model", r->path,
                  "streams", r->how->streams, "threads", cm_bench_threads(r->how), "throughputQps",
                  (double)b->n / b->wall_s, "inferences", (json_int_t)b->n, "totalSeconds",
                  b->wall_s, "totalComputeSeconds", total_seconds(&s[CM_BENCH_COMPUTE]),
                  "importSeconds", r->model->import_seconds, "buildSeconds",
                  r->model->build_seconds, "openSeconds", r->model->open_seconds, "arenaBytes",
                  (json_int_t)b->arena_bytes, "overheadUs", b->overhead_us);
    if (b->n_away) {
        json_object_set_new(o, "deviceMs", json_real(b->device_ms));
        json_object_set_new(o, "deviceLayers", json_integer(b->n_away));
        json_object_set_new(o, "fallenLayers", json_integer(b->n_fell));
        if (r->profile) {
            json_object_set_new(o, "uploadMs", json_real(uploads_ms(r->profile)));
            json_object_set_new(o, "downloadMs", json_real(downloads_ms(r->profile)));
        }
    }
    if (!o)
        return cm_fail_memory(cx);
    if (r->batch)
        json_object_set_new(o, "batch", json_integer(r->batch));
    for (int i = 0; i < CM_BENCH_PARTS; i++)
        if (i != CM_BENCH_WAIT || r->how->qps > 0)
            json_object_set_new(o, names[i], series_json(&s[i], r->percentiles));
    if (r->how->qps > 0)
        json_object_set_new(o, "askedQps", json_real(r->how->qps));
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_string(warnings[i]));
    json_object_set_new(o, "warnings", list);
    if (r->profile)
        json_object_set_new(o, "layers", layers_json(r));
    *out = o;
    return CM_OK;
}

/* ---- CSV and sweeps --------------------------------------------------------------------------- */

void cm_bench_csv_head(const cm_bench_percentiles *p)
{
    printf("model,batch,streams,threads,inferences,throughput_qps,min_ms,mean_ms,median_ms");
    for (int i = 0; i < p->n; i++)
        printf(",p%g_ms", p->p[i]);
    printf(",max_ms,h2d_ms,compute_ms,d2h_ms,wall_s\n");
}

/* Quoted where a comma or a quote asks for it. */
static void csv_text(const char *text)
{
    if (!strpbrk(text, ",\"\n")) {
        printf("%s", text);
        return;
    }
    printf("\"");
    for (; *text; text++)
        printf(*text == '"' ? "\"\"" : "%c", *text);
    printf("\"");
}

cm_status cm_bench_csv_line(cm_ctx *cx, const cm_bench_report *r)
{
    cm_bench_series s[CM_BENCH_PARTS];
    CM_TRY(all_series(cx, r->result, s));
    const cm_bench_series *l = &s[CM_BENCH_LATENCY];
    csv_text(r->path);
    printf(",%lld,%d,%d,%lld,%g,%g,%g,%g", (long long)r->batch, r->how->streams,
           cm_bench_threads(r->how), (long long)r->result->n,
           (double)r->result->n / r->result->wall_s, l->ms[0], l->mean, l->median);
    for (int i = 0; i < r->percentiles->n; i++)
        printf(",%g", cm_bench_percentile(l, r->percentiles->p[i]));
    printf(",%g,%g,%g,%g,%g\n", l->ms[l->n - 1], s[CM_BENCH_H2D].median, s[CM_BENCH_COMPUTE].median,
           s[CM_BENCH_D2H].median, r->result->wall_s);
    return CM_OK;
}

void cm_bench_sweep_head(void)
{
    printf("%8s %14s %14s %12s %12s %12s %14s\n", "batch", "qps", "items/s", "median ms", "p99 ms",
           "ms per item", "arena");
}

cm_status cm_bench_sweep_line(cm_ctx *cx, const cm_bench_report *r)
{
    char bytes[32];
    cm_bench_series l;
    const char *warnings[CM_BENCH_MOST_WARNINGS];
    int n;
    CM_TRY(cm_bench_series_of(cx, r->result, CM_BENCH_LATENCY, &l));
    CM_TRY(cm_bench_warnings(cx, r->result, r->how, warnings, &n));
    double qps = (double)r->result->n / r->result->wall_s;
    printf("%8lld %14.5g %14.5g %12.5g %12.5g %12.5g %14s\n", (long long)r->batch, qps,
           qps * (double)r->batch, l.median, cm_bench_percentile(&l, 99),
           l.median / (double)r->batch,
           cm_cli_bytes(bytes, sizeof bytes, (double)r->result->arena_bytes));
    for (int i = 0; i < n; i++)
        printf("         Warning: %s\n", warnings[i]);
    return CM_OK;
}
