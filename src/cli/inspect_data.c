/* inspect_data.c -- `cameo inspect --data`: what is in files of tensors.
 * SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <string.h>

#include "cli/inspect.h"
#include "cli/model.h"
#include "cli/tensor_stats.h"
#include "io/io.h"

typedef struct {
    json_t *json; /* NULL: print */
    const char *path;
} showing;

static const char *shape_text(char *buf, size_t n, const cm_tensor *t)
{
    size_t at = (size_t)snprintf(buf, n, "%s[", cm_dtype_name(t->dtype));
    for (int i = 0; i < t->rank && at < n; i++)
        at += (size_t)snprintf(buf + at, n - at, "%s%lld", i ? "," : "", (long long)t->dims[i]);
    if (at < n)
        snprintf(buf + at, n - at, "]");
    return buf;
}

static void print_histogram(const cm_tensor_stats *s)
{
    enum { WIDTH = 40 };
    int64_t most = 1;
    if (s->max <= s->min)
        return;
    for (int i = 0; i < CM_STATS_BINS; i++)
        most = s->bins[i] > most ? s->bins[i] : most;
    for (int i = 0; i < CM_STATS_BINS; i++) {
        int width = (int)((double)s->bins[i] * WIDTH / (double)most + 0.999);
        printf("    %12.5g %10lld %.*s\n", s->min + (s->max - s->min) * i / CM_STATS_BINS,
               (long long)s->bins[i], width, "########################################");
    }
}

static void print_stats(const cm_tensor_stats *s)
{
    printf("  %lld elements, %lld zero, %lld NaN, %lld infinite\n", (long long)s->n,
           (long long)s->n_zero, (long long)s->n_nan, (long long)s->n_inf);
    if (!s->n_finite)
        return;
    printf("  min %.6g, max %.6g, mean %.6g, standard deviation %.6g\n", s->min, s->max, s->mean,
           s->deviation);
    print_histogram(s);
}

static json_t *stats_json(const cm_tensor_stats *s)
{
    json_t *bins = json_array();
    for (int i = 0; i < CM_STATS_BINS; i++)
        json_array_append_new(bins, json_integer(s->bins[i]));
    return json_pack("{s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o}", "elements", (json_int_t)s->n,
                     "zeros", (json_int_t)s->n_zero, "nans", (json_int_t)s->n_nan, "infinities",
                     (json_int_t)s->n_inf, "min", s->min, "max", s->max, "mean", s->mean,
                     "deviation", s->deviation, "histogram", bins);
}

static void show(const showing *w, const char *name, const cm_tensor *t)
{
    char shape[256];
    cm_tensor_stats s;
    bool numbers = cm_tensor_stats_of(t, &s);
    shape_text(shape, sizeof shape, t);
    if (w->json) {
        json_t *o = numbers ? stats_json(&s) : json_object();
        json_object_set_new(o, "file", json_string(w->path));
        json_object_set_new(o, "name", json_string(name ? name : ""));
        json_object_set_new(o, "type", json_string(shape));
        json_array_append_new(w->json, o);
        return;
    }
    printf("%s%s%s: %s\n", w->path, name ? " " : "", name ? name : "", shape);
    if (numbers)
        print_stats(&s);
}

static cm_status show_datum(cm_ctx *cx, const showing *w, const char *name, const cm_datum *d)
{
    if (d->kind == CM_TENSOR) {
        show(w, name, &d->tensor);
        return CM_OK;
    }
    for (int64_t i = 0; i < d->n; i++) {
        const char *item = cm_arena_printf(cx->arena, "%s[%lld]", name ? name : "", (long long)i);
        if (!item)
            return cm_fail_memory(cx);
        CM_TRY(show_datum(cx, w, item, &d->items[i]));
    }
    return CM_OK;
}

static bool ends_with(const char *path, const char *suffix)
{
    size_t n = strlen(path), k = strlen(suffix);
    return n >= k && !strcmp(path + n - k, suffix);
}

static cm_status show_npz(cm_ctx *cx, const showing *w, const cm_mapping *m)
{
    cm_npz *z;
    CM_TRY(cm_npz_open(cx, cx->arena, m->data, m->n, &z));
    for (int k = 0; k < cm_npz_count(z); k++) {
        cm_tensor t;
        CM_TRY(cm_npz_read(cx, cx->arena, z, k, &t));
        show(w, cm_npz_name(z, k), &t);
    }
    return CM_OK;
}

static cm_status show_file(cm_ctx *cx, const showing *w, const cm_mapping *m)
{
    cm_datum d = {.kind = CM_TENSOR};
    if (ends_with(w->path, ".npz"))
        return show_npz(cx, w, m);
    if (ends_with(w->path, ".npy"))
        CM_TRY(cm_npy_read(cx, cx->arena, m->data, m->n, &d.tensor));
    else if (ends_with(w->path, ".pb"))
        CM_TRY(cm_onnx_read_datum(cx, cx->arena, m->data, m->n, NULL, &d));
    else
        return cm_fail(cx, CM_ERR_ARGUMENT, "wanted a .npy, .npz or .pb file");
    return show_datum(cx, w, NULL, &d);
}

cm_status cm_inspect_data(cm_ctx *cx, const char *const *paths, int n, bool json)
{
    showing w = {.json = json ? json_array() : NULL};
    cm_status st = CM_OK;
    for (int i = 0; st == CM_OK && i < n; i++) {
        cm_mapping m;
        w.path = paths[i];
        CM_TRY(cm_file_map(cx, w.path, &m));
        st = show_file(cx, &w, &m);
        if (st != CM_OK)
            st = cm_while(cx, st, "%s", w.path);
        cm_file_unmap(&m);
    }
    if (json && st == CM_OK) {
        json_dumpf(w.json, stdout, JSON_INDENT(2));
        printf("\n");
    }
    json_decref(w.json);
    return st;
}
