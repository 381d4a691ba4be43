/* run.c -- `cameo run`: one inference of a model or a plan.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "cli/model.h"
#include "cli/placement.h"
#include "io/io.h"

typedef struct {
    cm_model_options model;
    cm_texts input;
    const char *inputs, *output;
    int64_t random, repeat;
    bool print;
    double timeout;
} run_options;

enum { NO_SEED = INT64_MIN };

static cm_status gather_inputs(cm_ctx *cx, const run_options *o, const cm_engine *e, int n_files,
                               const char **files, cm_inputs *in)
{
    CM_TRY(cm_inputs_create(cx, e, in));
    for (int i = 0; i < o->input.n; i++) {
        const char *equals = strrchr(o->input.v[i], '=');
        const char *name =
            equals ? cm_arena_strndup(cx->arena, o->input.v[i], (size_t)(equals - o->input.v[i]))
                   : NULL;
        CM_TRY(cm_inputs_add_file(cx, e, in, name, equals ? equals + 1 : o->input.v[i]));
    }
    if (o->inputs)
        CM_TRY(cm_inputs_add_file(cx, e, in, NULL, o->inputs));
    for (int i = 0; i < n_files; i++)
        CM_TRY(cm_inputs_add_file(cx, e, in, NULL, files[i]));
    if (o->random != NO_SEED)
        CM_TRY(cm_inputs_random(cx, e, &o->model, (uint64_t)o->random, in));
    return CM_OK;
}

static void print_tensor(const cm_tensor *t, bool all)
{
    char shape[256];
    int64_t n = cm_tensor_elems(t);
    printf("%s%s", cm_dtype_name(t->dtype), cm_shape_text(shape, sizeof shape, t->rank, t->dims));
    cm_dtype_kind kind = cm_dtype_get(t->dtype)->kind;
    if (t->packed || kind == CM_KIND_COMPLEX || n == 0) {
        printf("\n");
        return;
    }
    int64_t shown = all || n <= 8 ? n : 8;
    printf(" {");
    for (int64_t i = 0; i < shown; i++) {
        printf(i ? ", " : "");
        if (kind == CM_KIND_STRING)
            printf("\"%.*s\"", (int)((cm_str *)t->data)[i].n, ((cm_str *)t->data)[i].p);
        else if (kind == CM_KIND_FLOAT)
            printf("%.6g", cm_get_f64(t->dtype, t->data, i));
        else
            printf("%lld", (long long)cm_get_i64(t->dtype, t->data, i));
    }
    printf(shown < n ? ", ...}\n" : "}\n");
}

static void print_datum(const cm_datum *d, int depth, bool all)
{
    static const char *const names[] = {"nothing", "tensor", "sequence", "optional", "map"};
    if (d->kind == CM_TENSOR) {
        print_tensor(&d->tensor, all);
        return;
    }
    printf("%s of %lld\n", names[d->kind], (long long)d->n);
    for (int64_t i = 0; i < d->n; i++) {
        printf("%*s[%lld] ", depth * 2 + 2, "", (long long)i);
        print_datum(&d->items[i], depth + 1, all);
    }
}

/* Tensors by their name; items of sequences as NAME.0, NAME.1 ... */
static cm_status list_tensors(cm_ctx *cx, const char *name, const cm_datum *d, int depth,
                              const char **names, const cm_tensor **tensors, int *n)
{
    if (d->kind == CM_TENSOR) {
        if (names) {
            names[*n] = name;
            tensors[*n] = &d->tensor;
        }
        ++*n;
        return CM_OK;
    }
    for (int64_t i = 0; i < d->n && depth < 16; i++) {
        const char *inner = cm_arena_printf(cx->arena, "%s.%lld", name, (long long)i);
        if (!inner)
            return cm_fail_memory(cx);
        CM_TRY(list_tensors(cx, inner, &d->items[i], depth + 1, names, tensors, n));
    }
    return CM_OK;
}

static cm_status all_tensors(cm_ctx *cx, const cm_engine *e, const cm_context *c,
                             const char **names, const cm_tensor **tensors, int *n)
{
    *n = 0;
    for (int i = 0; i < cm_engine_n_outputs(e); i++)
        CM_TRY(list_tensors(cx, cm_engine_output_name(e, i), cm_context_output(c, i), 0, names,
                            tensors, n));
    return CM_OK;
}

static cm_status write_outputs(cm_ctx *cx, const cm_engine *e, const cm_context *c,
                               const char *path)
{
    int n;
    const char **names;
    const cm_tensor **tensors;
    CM_TRY(all_tensors(cx, e, c, NULL, NULL, &n));
    CM_NEW_N(cx, cx->arena, names, n, const char *);
    CM_NEW_N(cx, cx->arena, tensors, n, const cm_tensor *);
    CM_TRY(all_tensors(cx, e, c, names, tensors, &n));
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_status st = cm_npz_write(cx, n, names, tensors, false, &b);
    if (st == CM_OK)
        st = cm_file_write(cx, path, b.data, b.n);
    cm_buf_deinit(&b);
    return st;
}

/* Every byte of the outputs, as one number. Tensors that are not plain have no bytes of their own: their items do. */
static cm_status hash_outputs(cm_ctx *cx, const cm_engine *e, const cm_context *c, uint64_t *out)
{
    int n;
    const char **names;
    const cm_tensor **tensors;
    cm_arena_mark mark = cm_arena_save(cx->arena);
    CM_TRY(all_tensors(cx, e, c, NULL, NULL, &n));
    CM_NEW_N(cx, cx->arena, names, n, const char *);
    CM_NEW_N(cx, cx->arena, tensors, n, const cm_tensor *);
    CM_TRY(all_tensors(cx, e, c, names, tensors, &n));
    *out = 0;
    for (int i = 0; i < n; i++) {
        size_t bytes;
        *out = cm_hash_bytes(tensors[i]->dims, (size_t)tensors[i]->rank * sizeof(int64_t), *out);
        if (tensors[i]->dtype != CM_STR && cm_tensor_bytes(tensors[i], &bytes) && bytes)
            *out = cm_hash_bytes(tensors[i]->data, bytes, *out);
    }
    cm_arena_restore(cx->arena, mark);
    return CM_OK;
}

static cm_status repeat(cm_ctx *cx, const run_options *o, const cm_engine *e, cm_context *c)
{
    uint64_t first, now;
    CM_TRY(hash_outputs(cx, e, c, &first));
    for (int64_t i = 1; i < o->repeat; i++) {
        CM_TRY(cm_context_run(cx, c));
        CM_TRY(hash_outputs(cx, e, c, &now));
        if (now != first)
            return cm_fail(cx, CM_ERR_INTERNAL, "run %lld gave other bytes than the first",
                           (long long)i + 1);
    }
    if (o->repeat > 1)
        printf("%lld runs gave the same bytes\n", (long long)o->repeat);
    return CM_OK;
}

static cm_status infer_once(cm_ctx *cx, const run_options *o, cm_model *m, int n_files,
                            const char **files)
{
    cm_inputs in;
    cm_context *c = NULL;
    cm_context_options co;
    cm_target target;
    CM_TRY(cm_model_context_options(cx, &o->model, &target, &co));
    CM_TRY(gather_inputs(cx, o, m->engine, n_files, files, &in));
    CM_TRY(cm_context_create(cx, m->engine, &co, &c));
    cm_status st = cm_inputs_set(cx, c, &in);
    uint64_t start = cm_now_ns();
    if (o->timeout > 0)
        cx->deadline_ns = start + (uint64_t)(o->timeout * 1e9);
    if (st == CM_OK)
        st = cm_context_run(cx, c);
    double ms = (double)(cm_now_ns() - start) * 1e-6;
    if (st == CM_OK && o->output)
        st = write_outputs(cx, m->engine, c, o->output);
    if (st == CM_OK) {
        for (int i = 0; i < cm_engine_n_outputs(m->engine); i++) {
            printf("%s: ", cm_engine_output_name(m->engine, i));
            print_datum(cm_context_output(c, i), 0, o->print);
        }
        printf("ran in %.3f ms\n", ms);
        cm_cli_print_placement(c);
        st = repeat(cx, o, m->engine, c);
    }
    cm_context_destroy(c);
    return st;
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    const run_options *o = options;
    cm_model m;
    if (n_args == 0)
        return cm_cli_failed(cx, cm_fail(cx, CM_ERR_ARGUMENT, "run needs a model or a plan"));
    if (o->timeout > 0)
        cx->deadline_ns = cm_now_ns() + (uint64_t)(o->timeout * 1e9);
    cm_cli_progress(cx);
    cm_status st = cm_model_open(cx, args[0], &o->model, &m);
    cm_cli_progress_done(cx);
    if (st == CM_OK)
        st = infer_once(cx, o, &m, n_args - 1, args + 1);
    cm_model_close(&m);
    return st == CM_OK ? CM_EXIT_OK : cm_cli_failed(cx, st);
}

static void defaults(void *options)
{
    ((run_options *)options)->random = NO_SEED;
}

static const cm_cli_option table[] = {
    {"input", "NAME=FILE", "a .npy or .pb file for one input", CM_OPT_TEXTS,
     offsetof(run_options, input)},
    {"inputs", "FILE", "an .npz file with inputs by name", CM_OPT_TEXT,
     offsetof(run_options, inputs)},
    {"random", "SEED", "random data for inputs that were not given", CM_OPT_INT,
     offsetof(run_options, random)},
    {"output", "FILE", "write the outputs to an .npz file", CM_OPT_TEXT,
     offsetof(run_options, output)},
    {"print", NULL, "print every element, not only the first few", CM_OPT_FLAG,
     offsetof(run_options, print)},
    {"repeat", "N", "run N times; outputs that differ in a byte are a failure", CM_OPT_INT,
     offsetof(run_options, repeat)},
    {"timeout", "SECONDS", "stop after this long", CM_OPT_SECONDS, offsetof(run_options, timeout)},
    CM_MODEL_OPTIONS(run_options, model),
};

const cm_cli_verb cm_verb_run = {
    .name = "run",
    .summary = "one inference from files or random data",
    .usage = "[OPTION]... MODEL|PLAN [FILE]...",
    .details =
        "Runs an ONNX model or a plan once and prints its outputs. Files without a name go to the\n"
        "inputs in order; an .npz file goes by the names in it. Symbolic dims of random inputs "
        "are\n"
        "1 unless --dim or --shape says otherwise.",
    .examples = "  cameo run model.onnx --random 1\n"
                "  cameo run model.plan image.npy --output result.npz\n"
                "  cameo run model.onnx --input ids=ids.npy --random 7 --dim batch=4\n",
    .options_bytes = sizeof(run_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .defaults = defaults,
    .run = run,
};
