/* facts_print.c -- facts as text for people, as JSON, and as a graph for Graphviz.
 * SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/inspect.h"
#include "cli/tensor_stats.h"
#include "cli/weights.h"

typedef struct {
    const char *op;
    int n;
} tally;

static int by_count(const void *a, const void *b)
{
    const tally *x = a, *y = b;
    return x->n != y->n ? y->n - x->n : strcmp(x->op, y->op);
}

static void print_tally(const cm_facts *f)
{
    enum { MOST = 256 };
    tally t[MOST];
    int n = 0;
    for (int i = 0; i < f->n_layers; i++) {
        int k = 0;
        while (k < n && strcmp(t[k].op, f->layers[i].op) != 0)
            k++;
        if (k == n && n < MOST)
            t[n++] = (tally){f->layers[i].op, 0};
        if (k < n)
            t[k].n++;
    }
    qsort(t, (size_t)n, sizeof *t, by_count);
    printf("layers      %d:", f->n_layers);
    for (int k = 0; k < n; k++)
        printf("%s %s %d", k ? "," : "", t[k].op, t[k].n);
    printf("\n");
}

static void print_layer(const cm_fact_layer *l, int number)
{
    printf("  %4d %*s%s '%s'", number, l->depth * 2, "", l->op, l->name);
    for (int o = 0; o < l->n_out; o++)
        if (l->out_types[o])
            printf("%s %s", o ? "," : " ->", l->out_types[o]);
    if (l->n_from > 1 || (l->n_from == 1 && strcmp(l->from[0], l->name) != 0)) {
        printf("  from");
        for (int i = 0; i < l->n_from; i++)
            printf("%s '%s'", i ? "," : "", l->from[i]);
    }
    printf("\n");
}

static void print_weight(const cm_fact_value *w)
{
    char a[32];
    cm_tensor_stats s;
    cm_fours fours;
    printf("  %-40s %-28s %s", w->name, w->type, cm_cli_bytes(a, sizeof a, w->bytes));
    if (w->constant && cm_tensor_stats_of(w->constant, &s) && s.n > 0) {
        printf(", %.3g to %.3g, mean %.3g, deviation %.3g", s.min, s.max, s.mean, s.deviation);
        if (s.n_nan + s.n_inf)
            printf(", %lld NaN or infinite", (long long)(s.n_nan + s.n_inf));
        if (s.n_zero)
            printf(", %.1f %% zero", 100.0 * (double)s.n_zero / (double)s.n);
        if (cm_fours_of(w->constant, w->summed_axis, &fours) && cm_fours_hold(w->constant, &fours))
            printf(", sparse 2:4");
    }
    printf("\n");
}

void cm_facts_print(const cm_facts *f, bool layers, bool weights)
{
    char a[32], b[32];
    printf("%s: a %s of %s", f->path, f->network ? "model" : "plan",
           cm_cli_bytes(a, sizeof a, f->file_bytes));
    if (f->name && *f->name)
        printf(", '%s'", f->name);
    if (f->producer && *f->producer)
        printf(", made by %s", f->producer);
    printf("\n");
    for (int i = 0; i < f->n_inputs; i++)
        printf("input       %s: %s\n", f->inputs[i].name, f->inputs[i].type);
    for (int i = 0; i < f->n_outputs; i++)
        printf("output      %s: %s\n", f->outputs[i].name, f->outputs[i].type);
    printf("weights     %d, %s\n", f->n_weights, cm_cli_bytes(b, sizeof b, f->weight_bytes));
    print_tally(f);
    for (int i = 0; i < f->n_targets; i++) {
        printf("target      %s: %d measurements", f->targets[i].name, f->targets[i].measurements);
        if (f->targets[i].kernel_bytes > 0)
            printf(", %s of kernels", cm_cli_bytes(a, sizeof a, f->targets[i].kernel_bytes));
        printf("\n");
    }
    for (int i = 0; layers && i < f->n_layers; i++)
        print_layer(&f->layers[i], i);
    for (int i = 0; weights && i < f->n_weights; i++)
        print_weight(&f->weights[i]);
}

/* Names may hold any bytes; JSON wants UTF-8. */
static json_t *text(const char *s)
{
    json_t *j = s ? json_string(s) : json_null();
    if (j)
        return j;
    char *copy = strdup(s);
    if (!copy)
        return json_null();
    for (char *p = copy; *p; p++)
        if ((unsigned char)*p >= 128)
            *p = '?';
    j = json_string(copy);
    free(copy);
    return j;
}

static json_t *values_json(const cm_fact_value *v, int n, bool sizes)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_t *o = json_object();
        json_object_set_new(o, "name", text(v[i].name));
        json_object_set_new(o, "type", text(v[i].type));
        if (sizes)
            json_object_set_new(o, "bytes", json_integer((json_int_t)v[i].bytes));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *names_json(const char *const *v, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, text(v[i]));
    return list;
}

static json_t *targets_json(const cm_facts *f)
{
    json_t *list = json_array();
    for (int i = 0; i < f->n_targets; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:I}", "name", f->targets[i].name,
                                        "measurements", f->targets[i].measurements, "kernelBytes",
                                        (json_int_t)f->targets[i].kernel_bytes));
    return list;
}

static json_t *layer_json(const cm_fact_layer *l)
{
    json_t *o = json_object();
    json_object_set_new(o, "name", text(l->name));
    json_object_set_new(o, "operator", text(l->op));
    json_object_set_new(o, "depth", json_integer(l->depth));
    json_object_set_new(o, "from", names_json(l->from, l->n_from));
    json_object_set_new(o, "inputs", names_json(l->in, l->n_in));
    json_object_set_new(o, "outputs", names_json(l->out, l->n_out));
    json_object_set_new(o, "types", names_json(l->out_types, l->n_out));
    return o;
}

cm_status cm_facts_json(cm_ctx *cx, const cm_facts *f)
{
    json_t *o = json_object(), *layers = json_array();
    for (int i = 0; i < f->n_layers; i++)
        json_array_append_new(layers, layer_json(&f->layers[i]));
    json_object_set_new(o, "path", text(f->path));
    json_object_set_new(o, "kind", json_string(f->network ? "model" : "plan"));
    json_object_set_new(o, "name", text(f->name));
    json_object_set_new(o, "producer", text(f->producer));
    json_object_set_new(o, "fileBytes", json_integer((json_int_t)f->file_bytes));
    json_object_set_new(o, "weightBytes", json_integer((json_int_t)f->weight_bytes));
    json_object_set_new(o, "inputs", values_json(f->inputs, f->n_inputs, false));
    json_object_set_new(o, "outputs", values_json(f->outputs, f->n_outputs, false));
    json_object_set_new(o, "targets", targets_json(f));
    json_object_set_new(o, "layers", layers);
    json_object_set_new(o, "weights", values_json(f->weights, f->n_weights, true));
    int bad = json_dumpf(o, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(o);
    return bad ? cm_fail(cx, CM_ERR_IO, "the JSON could not be written") : CM_OK;
}

static void quoted(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            putchar('\\');
        putchar(*s < 32 && *s > 0 ? ' ' : *s);
    }
    putchar('"');
}

/* Edges go through values: a value's node is its producer's box, or the input's own. */
cm_status cm_facts_dot(cm_ctx *cx, const cm_facts *f)
{
    (void)cx;
    printf("digraph cameo {\n  node [shape=box, fontname=Helvetica, fontsize=10];\n");
    for (int i = 0; i < f->n_inputs; i++) {
        printf("  ");
        quoted(f->inputs[i].name);
        printf(" [shape=oval];\n");
    }
    for (int i = 0; i < f->n_layers; i++) {
        const cm_fact_layer *l = &f->layers[i];
        printf("  layer%d [label=", i);
        quoted(l->op);
        printf(", tooltip=");
        quoted(l->name);
        printf("];\n");
        for (int k = 0; k < l->n_in; k++) {
            if (!l->in[k])
                continue;
            printf("  ");
            quoted(l->in[k]);
            printf(" -> layer%d;\n", i);
        }
        for (int k = 0; k < l->n_out; k++) {
            if (!l->out[k])
                continue;
            printf("  ");
            quoted(l->out[k]);
            printf(" [shape=plaintext, label=");
            quoted(l->out_types[k] ? l->out_types[k] : "");
            printf("];\n  layer%d -> ", i);
            quoted(l->out[k]);
            printf(";\n");
        }
    }
    for (int i = 0; i < f->n_weights; i++) {
        printf("  ");
        quoted(f->weights[i].name);
        printf(" [shape=note, fontsize=8];\n");
    }
    printf("}\n");
    return CM_OK;
}
