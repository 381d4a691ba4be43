/* passes.c -- runs the text cases in tests/passes: each pass does what its file says, and leaves alone what
 * it must.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     case: a name
 *     run: pass pass ...        in this order
 *     precision: fp16           or bf16: as the optimiser is asked for; keep NAME: that node stays in f32
 *     tolerance: 1e-5           how far answers may move (default 1e-6 of the largest)
 *     in:
 *       a network in the text form
 *     out:
 *       what it must become; names of values do not matter, constants are compared by value
 *     covers: a b c             the node that makes output 0 covers these ONNX nodes
 *     not: Op                   instead of out: no node of this operator is left
 *
 * Both networks are also run on the same random inputs: their outputs must agree. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/compile.h"
#include "passes/passes.h"
#include "runtime/runtime.h"

#define FOLDER "tests/passes"

typedef struct {
    const char *file;
    char name[128], run[256], precision[64], covers[256], in[16384], out[16384], not_op[128];
    double tolerance;
    int line;
} text_case;

typedef struct {
    cm_arena arena, scratch;
    cm_ctx cx;
} job;

static void job_init(job *j)
{
    memset(j, 0, sizeof *j);
    cm_arena_init(&j->arena, NULL);
    cm_arena_init(&j->scratch, NULL);
    j->cx.arena = &j->arena;
    j->cx.scratch = &j->scratch;
}

static void job_deinit(job *j)
{
    cm_arena_deinit(&j->scratch);
    cm_arena_deinit(&j->arena);
}

#define OK(c, j, expr)                                                                             \
    do {                                                                                           \
        if ((expr) != CM_OK)                                                                       \
            fail_msg("%s, case '%s': %s", (c)->file, (c)->name, (j)->cx.message);                  \
    } while (0)

static cm_network *parse(const text_case *c, job *j, const char *text)
{
    cm_network *g;
    OK(c, j, cm_network_parse(&j->cx, &j->arena, text, strlen(text), &g));
    OK(c, j, cm_network_infer(&j->cx, g));
    OK(c, j, cm_network_verify(&j->cx, g));
    return g;
}

/* ---- Same network? -------------------------------------------------------------------------- */

typedef struct {
    const cm_value *a[512], *b[512];
    int n;
    char why[256];
} pairing;

static bool same_tensor(const cm_tensor *x, const cm_tensor *y)
{
    if (x->dtype != y->dtype || !cm_tensor_same_shape(x, y))
        return false;
    size_t bytes;
    if (x->dtype == CM_STR || x->packed)
        return cm_tensor_bytes(x, &bytes) &&
               (x->dtype == CM_STR || !memcmp(x->data, y->data, bytes));
    for (int64_t i = 0, n = cm_tensor_elems(x); i < n; i++) {
        double p = cm_get_f64(x->dtype, x->data, i), q = cm_get_f64(y->dtype, y->data, i);
        if (!(fabs(p - q) <= 1e-5 * fabs(q) + 1e-7) && !(isnan(p) && isnan(q)) && p != q)
            return false;
    }
    return true;
}

static bool same_value(pairing *p, const cm_value *a, const cm_value *b)
{
    if (!a || !b)
        return a == b;
    if (a->constant || b->constant)
        return a->constant && b->constant && same_tensor(a->constant, b->constant);
    for (int i = 0; i < p->n; i++)
        if (p->a[i] == a || p->b[i] == b)
            return p->a[i] == a && p->b[i] == b;
    return false;
}

static void pair(pairing *p, const cm_value *a, const cm_value *b)
{
    if (p->n < 512) {
        p->a[p->n] = a;
        p->b[p->n++] = b;
    }
}

static bool same_network(pairing *p, const cm_network *a, const cm_network *b);

static bool same_node(pairing *p, const cm_node *a, const cm_node *b)
{
    snprintf(p->why, sizeof p->why, "at %s '%s', wanted %s", a->op->name, a->name, b->op->name);
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out || a->n_subs != b->n_subs ||
        a->epilogue.n_operands != b->epilogue.n_operands || a->epilogue.to != b->epilogue.to ||
        strcmp(a->epilogue.program ? a->epilogue.program : "",
               b->epilogue.program ? b->epilogue.program : "") != 0)
        return false;
    if (!cm_attr_equal(a->op->attrs, a->attr, b->attr))
        return false;
    for (int i = 0; i < a->n_in; i++)
        if (!same_value(p, a->in[i], b->in[i]))
            return false;
    for (int o = 0; o < a->n_out; o++)
        if (a->out[o] && b->out[o])
            pair(p, a->out[o], b->out[o]);
    for (int s = 0; s < a->n_subs; s++)
        if (!same_network(p, a->subs[s], b->subs[s]))
            return false;
    return true;
}

static bool same_network(pairing *p, const cm_network *a, const cm_network *b)
{
    if (a->n_nodes != b->n_nodes || a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs) {
        snprintf(p->why, sizeof p->why, "%d nodes, wanted %d", a->n_nodes, b->n_nodes);
        return false;
    }
    for (int i = 0; i < a->n_inputs; i++)
        pair(p, a->inputs[i], b->inputs[i]);
    const cm_node *x = a->first, *y = b->first;
    for (; x && y; x = x->next, y = y->next)
        if (!same_node(p, x, y))
            return false;
    for (int i = 0; i < a->n_outputs; i++) {
        snprintf(p->why, sizeof p->why, "output %d", i);
        if (!same_value(p, a->outputs[i], b->outputs[i]))
            return false;
    }
    return true;
}

static void expect_same(const text_case *c, const cm_network *got, const cm_network *want)
{
    pairing p = {.n = 0};
    if (same_network(&p, got, want))
        return;
    cm_buf b;
    cm_buf_init(&b, NULL);
    cm_network_print(got, 32, &b);
    fail_msg("%s, case '%s': differs %s; found:\n%s", c->file, c->name, p.why, cm_buf_text(&b));
}

static bool has_op(const cm_network *g, const char *op)
{
    for (const cm_node *n = g->first; n; n = n->next) {
        if (!strcmp(n->op->name, op))
            return true;
        for (int s = 0; s < n->n_subs; s++)
            if (has_op(n->subs[s], op))
                return true;
    }
    return false;
}

/* ---- Same answers? -------------------------------------------------------------------------- */

static void random_input(job *j, const cm_engine *e, int i, cm_datum *d)
{
    const cm_type *t = cm_engine_input_type(e, i);
    const cm_dim_table *table = cm_engine_plan(e)->dims;
    int64_t symbols[64], dims[CM_MAX_RANK];
    assert_int_equal(t->kind, CM_TENSOR);
    assert_true(t->rank >= 0 && cm_dim_symbol_count(table) <= 64);
    for (int s = 0; s < 64; s++) /* by name: both networks must choose alike */
        symbols[s] = s < cm_dim_symbol_count(table) ? 2 + cm_dim_symbol_name(table, s)[0] % 3 : 0;
    for (int a = 0; a < t->rank; a++)
        assert_true(cm_dim_eval(table, t->dims[a], symbols, &dims[a]));
    d->kind = CM_TENSOR;
    assert_true(cm_tensor_shape(&d->tensor, t->dtype, t->rank, dims));
    int64_t n = cm_tensor_elems(&d->tensor);
    d->tensor.data = cm_arena_alloc_n(&j->arena, (size_t)n, cm_dtype_size(t->dtype), 64, 1);
    uint64_t x = 88172645463325252u + (uint64_t)i;
    for (int64_t k = 0; k < n && t->dtype != CM_STR; k++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (cm_dtype_is_float(t->dtype))
            cm_set_f64(t->dtype, d->tensor.data, k, (double)(x >> 40) / (1 << 23) - 1);
        else
            cm_set_i64(t->dtype, d->tensor.data, k, (int64_t)(x >> 63));
    }
}

typedef struct {
    cm_buf plan;
    cm_engine *engine;
    cm_context *context;
} running;

static void run(const text_case *c, job *j, cm_network *g, running *r)
{
    cm_context_options co = {.threads = 1};
    cm_buf_init(&r->plan, NULL);
    static const cm_compile_options as_it_is = {.no_optimise = true};
    OK(c, j, cm_compile_memory(&j->cx, g, &as_it_is, &r->plan));
    OK(c, j, cm_engine_open_memory(&j->cx, r->plan.data, r->plan.n, false, NULL, &r->engine));
    OK(c, j, cm_context_create(&j->cx, r->engine, &co, &r->context));
    for (int i = 0; i < cm_engine_n_inputs(r->engine); i++) {
        cm_datum *d = cm_new(&j->arena, cm_datum);
        random_input(j, r->engine, i, d);
        OK(c, j, cm_context_set_input(&j->cx, r->context, i, d));
    }
    OK(c, j, cm_context_run(&j->cx, r->context));
}

static void stop(running *r)
{
    cm_context_destroy(r->context);
    cm_engine_release(r->engine);
    cm_buf_deinit(&r->plan);
}

static void expect_same_answers(const text_case *c, const running *a, const running *b)
{
    for (int o = 0; o < cm_engine_n_outputs(a->engine); o++) {
        const cm_datum *x = cm_context_output(a->context, o), *y = cm_context_output(b->context, o);
        if (x->kind != CM_TENSOR || x->tensor.dtype == CM_STR || x->tensor.packed)
            continue;
        if (x->tensor.dtype != y->tensor.dtype || !cm_tensor_same_shape(&x->tensor, &y->tensor))
            fail_msg("%s, case '%s': output %d changed its type or shape", c->file, c->name, o);
        double scale = 1e-30;
        int64_t n = cm_tensor_elems(&x->tensor);
        for (int64_t i = 0; i < n; i++)
            if (isfinite(cm_get_f64(x->tensor.dtype, x->tensor.data, i)))
                scale = fmax(scale, fabs(cm_get_f64(x->tensor.dtype, x->tensor.data, i)));
        for (int64_t i = 0; i < n; i++) {
            double p = cm_get_f64(x->tensor.dtype, x->tensor.data, i);
            double q = cm_get_f64(y->tensor.dtype, y->tensor.data, i);
            if (p == q || (isnan(p) && isnan(q)) || fabs(p - q) <= c->tolerance * scale)
                continue;
            fail_msg("%s, case '%s': output %d element %lld was %.9g, is %.9g", c->file, c->name, o,
                     (long long)i, p, q);
        }
    }
}

static void expect_covered(const text_case *c, const cm_network *g)
{
    char names[256], *save = NULL;
    const cm_node *n = g->outputs[0]->producer;
    snprintf(names, sizeof names, "%s", c->covers);
    for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
        bool found = false;
        for (int i = 0; n && i < n->n_from; i++)
            found |= !strcmp(n->from[i], name);
        if (!found)
            fail_msg("%s, case '%s': output 0 does not cover '%s'", c->file, c->name, name);
    }
}

static void run_case(const text_case *c)
{
    job j;
    job_init(&j);
    cm_network *before = parse(c, &j, c->in), *g = parse(c, &j, c->in);
    char names[256], *save = NULL;
    const char *keep = strstr(c->precision, "keep ");
    cm_optimise_options o = CM_OPTIMISE_DEFAULT;
    o.for_plan = true;
    o.precision = !strncmp(c->precision, "fp16", 4)   ? CM_PRECISION_FP16
                  : !strncmp(c->precision, "bf16", 4) ? CM_PRECISION_BF16
                                                      : CM_PRECISION_FP32;
    if (keep) {
        keep += strlen("keep ");
        o.keep_fp32 = &keep;
        o.n_keep_fp32 = 1;
    }
    snprintf(names, sizeof names, "%s", c->run);
    for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
        const cm_pass *p = cm_pass_find(name);
        if (!p)
            fail_msg("%s, case '%s': there is no pass '%s'", c->file, c->name, name);
        OK(c, &j, cm_pass_apply_with(&j.cx, g, p, &o, NULL));
    }
    if (c->not_op[0]) {
        if (has_op(g, c->not_op))
            fail_msg("%s, case '%s': a %s is left", c->file, c->name, c->not_op);
    } else {
        expect_same(c, g, parse(c, &j, c->out));
    }
    expect_covered(c, g);
    running a = {0}, b = {0};
    run(c, &j, before, &a);
    run(c, &j, g, &b);
    expect_same_answers(c, &a, &b);
    stop(&a);
    stop(&b);
    job_deinit(&j);
}

/* ---- Case files ----------------------------------------------------------------------------- */

static bool starts(const char *line, const char *key)
{
    return !strncmp(line, key, strlen(key));
}

static void copy_rest(char *to, size_t n, const char *line, const char *key)
{
    line += strlen(key);
    size_t k = strcspn(line, "\n");
    k = k < n ? k : n - 1;
    memcpy(to, line, k);
    to[k] = 0;
}

static int run_file(const char *path)
{
    static text_case c;
    char line[2048], *into = NULL;
    int n = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    memset(&c, 0, sizeof c);
    while (fgets(line, sizeof line, f)) {
        if (starts(line, "case: ")) {
            if (c.name[0]) {
                run_case(&c);
                n++;
            }
            memset(&c, 0, sizeof c);
            c.file = path;
            c.tolerance = 1e-6;
            into = NULL;
            copy_rest(c.name, sizeof c.name, line, "case: ");
        } else if (starts(line, "run: ")) {
            copy_rest(c.run, sizeof c.run, line, "run: ");
        } else if (starts(line, "not: ")) {
            copy_rest(c.not_op, sizeof c.not_op, line, "not: ");
        } else if (starts(line, "covers: ")) {
            copy_rest(c.covers, sizeof c.covers, line, "covers: ");
        } else if (starts(line, "precision: ")) {
            copy_rest(c.precision, sizeof c.precision, line, "precision: ");
        } else if (starts(line, "tolerance: ")) {
            c.tolerance = atof(line + strlen("tolerance: "));
        } else if (starts(line, "in:")) {
            into = c.in;
        } else if (starts(line, "out:")) {
            into = c.out;
        } else if (into && line[0] == ' ') {
            assert_true(strlen(into) + strlen(line) < sizeof c.in);
            strcat(into, line);
        } else if (line[0] != '#' && line[0] != '\n') {
            fail_msg("%s: a line that is none of the format: %s", path, line);
        }
    }
    fclose(f);
    if (c.name[0]) {
        run_case(&c);
        n++;
    }
    return n;
}

static void every_case_holds(void **state)
{
    (void)state;
    struct dirent **entries;
    int n = scandir(FOLDER, &entries, NULL, alphasort), cases = 0;
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name, *dot = strrchr(name, '.');
        if (dot && !strcmp(dot, ".ir")) {
            char path[512];
            snprintf(path, sizeof path, FOLDER "/%s", name);
            cases += run_file(path);
        }
        free(entries[i]);
    }
    free(entries);
    assert_true(cases > 0);
    printf("%d cases\n", cases);
}

/* ---- How the work grows --------------------------------------------------------------------- */

/* One layer after another: a product with its bias, GELU and LayerNorm in pieces, heads there and back. */
static void put_layers(cm_buf *b, int layers)
{
    cm_buf_str(b, "x0: f32[b,s,4]\n"
                  "@w = f32[4,4] random 1\n@c = f32[4] random 2\n@h = i64[4] {0, 0, 2, 2}\n"
                  "@r = f32[] {1.4142135}\n@one = f32[] {1}\n@half = f32[] {0.5}\n"
                  "@two = f32[] {2}\n@e = f32[] {1e-5}\n@axis = i64[1] {-1}\n"
                  "@back = i64[3] {0, 0, 4}\n");
    for (int i = 0; i < layers; i++) {
        cm_buf_printf(b, "m%d = MatMul(x%d, @w)\na%d = Add(m%d, @c)\n", i, i, i, i);
        cm_buf_printf(b, "d%d = Div(a%d, @r)\nf%d = Erf(d%d)\ng%d = Add(f%d, @one)\n", i, i, i, i,
                      i, i);
        cm_buf_printf(b, "k%d = Mul(a%d, g%d)\nl%d = Mul(k%d, @half)\n", i, i, i, i, i);
        cm_buf_printf(b, "p%d = Reshape(l%d, @h)\nq%d = Transpose(p%d) {perm=[0,2,1,3]}\n", i, i, i,
                      i);
        cm_buf_printf(b, "t%d = Transpose(q%d) {perm=[0,2,1,3]}\nu%d = Reshape(t%d, @back)\n", i, i,
                      i, i);
        cm_buf_printf(b, "v%d = Add(u%d, x%d)\nn%d = ReduceMean(v%d, @axis)\n", i, i, i, i, i);
        cm_buf_printf(b, "o%d = Sub(v%d, n%d)\ny%d = Pow(o%d, @two)\n", i, i, i, i, i);
        cm_buf_printf(b, "z%d = ReduceMean(y%d, @axis)\nA%d = Add(z%d, @e)\nB%d = Sqrt(A%d)\n", i,
                      i, i, i, i, i);
        cm_buf_printf(b, "x%d = Div(o%d, B%d)\n", i + 1, i, i);
    }
    cm_buf_printf(b, "return x%d\n", layers);
}

typedef struct {
    int64_t visits, rewrites;
    int nodes;
} work;

static work work_for(int layers)
{
    job j;
    cm_buf b;
    cm_network *g;
    cm_pass_stats stats[256] = {{0}};
    cm_optimise_options o = CM_OPTIMISE_DEFAULT;
    work w = {0};
    job_init(&j);
    cm_buf_init(&b, NULL);
    put_layers(&b, layers);
    assert_true(cm_n_passes <= 256);
    o.stats = stats;
    if (cm_network_parse(&j.cx, &j.arena, cm_buf_text(&b), b.n, &g) != CM_OK ||
        cm_network_infer(&j.cx, g) != CM_OK ||
        cm_optimise(&j.cx, g, &o, &w.rewrites, NULL) != CM_OK)
        fail_msg("%d layers: %s", layers, j.cx.message);
    for (int i = 0; i < cm_n_passes; i++)
        w.visits += stats[i].visits;
    w.nodes = g->n_nodes;
    cm_buf_deinit(&b);
    job_deinit(&j);
    return w;
}

static void work_grows_with_the_layers_and_no_more(void **state)
{
    (void)state;
    work some = work_for(12), more = work_for(48);
    printf("12 layers: %lld nodes walked over, 48: %lld\n", (long long)some.visits,
           (long long)more.visits);
    assert_true(some.visits > 0 && more.visits < 5 * some.visits);
    assert_true(some.rewrites > 0 && more.rewrites < 5 * some.rewrites);
    assert_int_equal(more.nodes, 4 * some.nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_holds),
        cmocka_unit_test(work_grows_with_the_layers_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
