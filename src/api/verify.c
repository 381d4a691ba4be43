/* verify.c -- runs a network between passes and compares its answers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "api/verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/compile.h"
#include "runtime/runtime.h"

/* ---- Running -------------------------------------------------------------------------------- */

static cm_status copy_tensor(cm_ctx *cx, cm_arena *arena, const cm_tensor *t, cm_tensor *out)
{
    size_t bytes;
    *out = *t;
    if (!cm_tensor_bytes(t, &bytes))
        return cm_fail_memory(cx);
    out->data = cm_arena_alloc_n(arena, bytes ? bytes : 1, 1, 64, 0);
    if (!out->data)
        return cm_fail_memory(cx);
    if (bytes)
        memcpy(out->data, t->data, bytes);
    if (t->dtype != CM_STR)
        return CM_OK;
    cm_str *s = out->data;
    for (int64_t i = 0; i < cm_tensor_elems(t); i++) {
        if (s[i].n && !(s[i].p = cm_arena_memdup(arena, s[i].p, s[i].n)))
            return cm_fail_memory(cx);
    }
    return CM_OK;
}

static cm_status copy_datum(cm_ctx *cx, cm_arena *arena, const cm_datum *d, cm_datum *out)
{
    *out = *d;
    out->elem = NULL;
    if (d->kind == CM_TENSOR)
        return copy_tensor(cx, arena, &d->tensor, &out->tensor);
    CM_NEW_N(cx, arena, out->items, d->n, cm_datum);
    for (int64_t i = 0; i < d->n; i++)
        CM_TRY(copy_datum(cx, arena, &d->items[i], &out->items[i]));
    return CM_OK;
}

static cm_status run(cm_ctx *cx, cm_engine *e, const cm_datum *in, int threads, cm_arena *arena,
                     cm_answers *out)
{
    cm_context_options co = {.threads = threads};
    cm_context *c;
    CM_TRY(cm_context_create(cx, e, &co, &c));
    cm_status st = CM_OK;
    for (int i = 0; i < cm_engine_n_inputs(e) && st == CM_OK; i++)
        st = cm_context_set_input(cx, c, i, &in[i]);
    if (st == CM_OK)
        st = cm_context_run(cx, c);
    out->n = cm_engine_n_outputs(e);
    out->name = cm_new_n(arena, out->n, const char *);
    out->out = cm_new_n(arena, out->n, cm_datum);
    if (st == CM_OK && (!out->name || !out->out))
        st = cm_fail_memory(cx);
    for (int o = 0; o < out->n && st == CM_OK; o++) {
        out->name[o] = cm_arena_strdup(arena, cm_engine_output_name(e, o));
        st = out->name[o] ? copy_datum(cx, arena, cm_context_output(c, o), &out->out[o])
                          : cm_fail_memory(cx);
    }
    cm_context_destroy(c);
    return st;
}

cm_status cm_answer(cm_ctx *cx, cm_network *g, const cm_datum *in, int threads, cm_arena *arena,
                    cm_answers *out)
{
    static const cm_compile_options as_it_is = {.no_optimise = true};
    cm_buf plan;
    cm_engine *e = NULL;
    cm_buf_init(&plan, cx->allocator);
    cm_status st = cm_compile_memory(cx, g, &as_it_is, &plan);
    if (st == CM_OK)
        st = cm_engine_open_memory(cx, plan.data, plan.n, false, NULL, &e);
    if (st == CM_OK)
        st = run(cx, e, in, threads, arena, out);
    cm_engine_release(e);
    cm_buf_deinit(&plan);
    return st;
}

/* ---- Comparing ------------------------------------------------------------------------------ */

static void differs(cm_difference *d, double distance, const char *what)
{
    if (distance > d->distance) {
        d->distance = distance;
        snprintf(d->what, sizeof d->what, "%.*s", (int)sizeof d->what - 1, what);
    }
}

static bool same_strings(const cm_tensor *a, const cm_tensor *b)
{
    const cm_str *x = a->data, *y = b->data;
    for (int64_t i = 0; i < cm_tensor_elems(a); i++)
        if (!cm_str_equal(x[i], y[i]))
            return false;
    return true;
}

/* The shape of a tensor, as text. */
static const char *type_text(char *buf, size_t n, const cm_tensor *t)
{
    char shape[64];
    snprintf(buf, n, "%s%s", cm_dtype_name(t->dtype),
             cm_shape_text(shape, sizeof shape, t->rank, t->dims));
    return buf;
}

static void compare_numbers(const cm_tensor *f, const cm_tensor *w, cm_difference *d)
{
    double scale = 1;
    int64_t n = cm_tensor_elems(w), worst = -1;
    for (int64_t i = 0; i < n; i++) {
        double x = fabs(cm_get_f64(w->dtype, w->data, i));
        if (isfinite(x) && x > scale)
            scale = x;
    }
    double far = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = cm_get_f64(f->dtype, f->data, i), y = cm_get_f64(w->dtype, w->data, i);
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        double distance = fabs(x - y) / scale;
        if (!isfinite(distance))
            distance = HUGE_VAL;
        sum += distance;
        if (distance > far) {
            far = distance;
            worst = i;
        }
    }
    if (worst < 0)
        return;
    char text[160];
    snprintf(text, sizeof text, "element %lld is %.9g, was %.9g", (long long)worst,
             cm_get_f64(f->dtype, f->data, worst), cm_get_f64(w->dtype, w->data, worst));
    differs(d, far, text);
    d->mean = fmax(d->mean, sum / (double)n);
}

static void compare_tensors(const cm_tensor *f, const cm_tensor *w, cm_difference *d)
{
    char a[96], b[96], text[220];
    size_t bytes;
    if (f->dtype != w->dtype || !cm_tensor_same_shape(f, w)) {
        snprintf(text, sizeof text, "the type is %s, was %s", type_text(a, sizeof a, f),
                 type_text(b, sizeof b, w));
        differs(d, HUGE_VAL, text);
    } else if (w->dtype == CM_STR) {
        if (!same_strings(f, w))
            differs(d, HUGE_VAL, "strings differ");
    } else if (w->packed || cm_dtype_get(w->dtype)->kind == CM_KIND_COMPLEX) {
        if (cm_tensor_bytes(w, &bytes) && memcmp(f->data, w->data, bytes) != 0)
            differs(d, HUGE_VAL, "elements differ");
    } else {
        compare_numbers(f, w, d);
    }
}

static void compare_data(const cm_datum *f, const cm_datum *w, cm_difference *d)
{
    if (f->kind != w->kind) {
        differs(d, HUGE_VAL, "the kind differs");
    } else if (w->kind == CM_TENSOR) {
        compare_tensors(&f->tensor, &w->tensor, d);
    } else if (f->n != w->n) {
        differs(d, HUGE_VAL, "the number of items differs");
    } else {
        for (int64_t i = 0; i < w->n; i++)
            compare_data(&f->items[i], &w->items[i], d);
    }
}

void cm_answers_compare(const cm_answers *found, const cm_answers *wanted, cm_difference *out)
{
    *out = (cm_difference){.output = NULL};
    for (int o = 0; o < wanted->n && o < found->n; o++) {
        double before = out->distance;
        compare_data(&found->out[o], &wanted->out[o], out);
        if (out->distance > before)
            out->output = wanted->name[o];
    }
}

static bool has_half(const cm_network *g)
{
    CM_FOR_NODES (n, g) {
        for (int o = 0; o < n->n_out; o++)
            if (n->out[o] && cm_dtype_is_float(n->out[o]->type.dtype) &&
                cm_dtype_size(n->out[o]->type.dtype) < 4)
                return true;
        for (int s = 0; s < n->n_subs; s++)
            if (has_half(n->subs[s]))
                return true;
    }
    return false;
}

double cm_tolerance_for(const cm_network *g, double tolerance)
{
    static const double half = 0.01; /* a few roundings to eleven bits, one after the other */
    return tolerance > 0 && tolerance < half && has_half(g) ? half : tolerance;
}

/* ---- Noise ---------------------------------------------------------------------------------- */

/* `op` of v and of noise as large as v: random numbers from low to high. In front of `before`. */
static cm_status add_noise(cm_ctx *cx, cm_node *before, cm_value *v, const char *op, double low,
                           double high, int seed, cm_node **out)
{
    const cm_op *random = cm_op_find("RandomUniformLike");
    cm_network *g = v->network;
    const struct {
        const char *name;
        float v;
    } set[] = {{"low", (float)low}, {"high", (float)high}, {"seed", (float)seed}};
    cm_node *noise;
    void *attr;
    CM_TRY(cm_attr_new(cx, g->arena, random->attrs, &attr));
    for (int i = 0; i < CM_COUNT(set); i++)
        cm_attr_set(random->attrs, attr, cm_attr_find(random->attrs, set[i].name), &set[i].v);
    CM_TRY(cm_network_add_node(cx, g, before, random, "noise", attr, &v, 1, NULL, 1, &noise));
    CM_TRY(cm_node_infer(cx, noise));
    cm_value *in[] = {v, noise->out[0]};
    CM_TRY(cm_network_add_node(cx, g, before, cm_op_find(op), "noise", NULL, in, 2, NULL, 1, out));
    return cm_node_infer(cx, *out);
}

/* The largest step of a QuantizeLinear whose scale is known; 0: none. */
static double step_of(const cm_node *n)
{
    double most = 0;
    if (strcmp(n->op->name, "QuantizeLinear") || n->n_in < 2 || !n->in[1] || !n->in[1]->constant)
        return 0;
    const cm_tensor *t = n->in[1]->constant;
    for (int64_t i = 0; i < cm_tensor_elems(t); i++)
        most = fmax(most, fabs(cm_get_f64(t->dtype, t->data, i)));
    return isfinite(most) ? most : 0;
}

/* Up to half a step before each quantiser. */
static cm_status noise_before_quantisers(cm_ctx *cx, cm_network *g, int *count)
{
    CM_FOR_NODES (n, g) {
        double step = step_of(n);
        cm_node *sum;
        for (int s = 0; s < n->n_subs; s++)
            CM_TRY(noise_before_quantisers(cx, n->subs[s], count));
        if (!(step > 0) || n->in[0]->network != g)
            continue;
        CM_TRY(add_noise(cx, n, n->in[0], "Add", -step / 2, step / 2, ++*count, &sum));
        CM_TRY(cm_node_set_input(cx, n, 0, sum->out[0]));
    }
    return CM_OK;
}

/* Two roundings of a number of this type near 1. */
static double rounding_of(const cm_value *v)
{
    if (!v || v->type.kind != CM_TENSOR || !v->n_uses)
        return 0;
    return v->type.dtype == CM_F32    ? 0x1p-23
           : v->type.dtype == CM_F16  ? 0x1p-10
           : v->type.dtype == CM_BF16 ? 0x1p-7
                                      : 0;
}

static cm_status noise_behind_nodes(cm_ctx *cx, cm_network *g, int *count)
{
    CM_FOR_NODES (n, g) {
        for (int s = 0; s < n->n_subs; s++)
            CM_TRY(noise_behind_nodes(cx, n->subs[s], count));
        for (int o = 0; o < n->n_out; o++) {
            cm_value *v = n->out[o];
            double by = rounding_of(v);
            cm_node *product;
            if (!(by > 0))
                continue;
            CM_TRY(add_noise(cx, n_next, v, "Mul", 1 - by, 1 + by, ++*count, &product));
            cm_value *noise = product->in[1];
            CM_TRY(cm_replace_uses(cx, v, product->out[0]));
            CM_TRY(cm_node_set_input(cx, product, 0, v));
            CM_TRY(cm_node_set_input(cx, noise->producer, 0, v));
        }
    }
    return CM_OK;
}

cm_status cm_verifier_measure(cm_ctx *cx, cm_network *spare, cm_verifier *v)
{
    cm_answers moved;
    int count = 0;
    CM_TRY(noise_before_quantisers(cx, spare, &v->n_quantisers));
    if (!v->n_quantisers)
        CM_TRY(noise_behind_nodes(cx, spare, &count));
    cm_arena_reset(&v->arena[1 - v->now]);
    if (cm_answer(cx, spare, v->in, v->threads, &v->arena[1 - v->now], &moved) == CM_OK)
        cm_answers_compare(&moved, &v->wanted, &v->noise);
    return cm_check_cancel(cx); /* a network that does not run with noise says nothing */
}

/* How far the pass may move an answer that moved by d. */
static double allowed_to(const cm_verifier *v, const cm_network *g, const cm_pass *pass,
                         const cm_difference *d)
{
    static const double most = 0.01;
    double allowed = cm_tolerance_for(g, pass->tolerance);
    if (!(pass->tolerance > 0))
        return allowed;
    if (v->n_quantisers && d->mean <= v->noise.mean / 4)
        return fmax(allowed, v->noise.distance);
    if (!v->n_quantisers && v->noise.distance <= most)
        return fmax(allowed, 4 * v->noise.distance);
    return allowed;
}

/* ---- Watching ------------------------------------------------------------------------------- */

cm_status cm_verifier_init(cm_ctx *cx, cm_network *g, const cm_datum *in, int threads,
                           cm_verifier *v)
{
    *v = (cm_verifier){.in = in, .threads = threads};
    cm_arena_init(&v->arena[0], cx->allocator);
    cm_arena_init(&v->arena[1], cx->allocator);
    return cm_answer(cx, g, in, threads, &v->arena[0], &v->wanted);
}

void cm_verifier_deinit(cm_verifier *v)
{
    cm_arena_deinit(&v->arena[0]);
    cm_arena_deinit(&v->arena[1]);
}

cm_status cm_verifier_after_pass(void *user, cm_ctx *cx, cm_network *g, const cm_pass *pass,
                                 int64_t n_rewrites)
{
    cm_verifier *v = user;
    cm_answers found;
    cm_difference d;
    int next = 1 - v->now;
    cm_arena_reset(&v->arena[next]);
    cm_status st = cm_answer(cx, g, v->in, v->threads, &v->arena[next], &found);
    if (st != CM_OK)
        return cm_while(cx, st, "the network does not run after pass %s (rewrites %lld to %lld)",
                        pass->name, (long long)v->n_rewrites + 1, (long long)n_rewrites);
    cm_answers_compare(&found, &v->wanted, &d);
    double allowed = allowed_to(v, g, pass, &d);
    if (d.distance > allowed)
        return cm_fail(cx, CM_ERR_INTERNAL,
                       "pass %s (rewrites %lld to %lld) changed output '%s': %s; that is %.3g of "
                       "its scale, allowed %.3g",
                       pass->name, (long long)v->n_rewrites + 1, (long long)n_rewrites, d.output,
                       d.what, d.distance, allowed);
    v->wanted = found;
    v->now = next;
    v->n_rewrites = n_rewrites;
    v->n_checked++;
    return CM_OK;
}
