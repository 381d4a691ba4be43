/* allocations.c -- the n-th allocation fails, for every n, in every job of the public API.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each job ends with CAMEO_ERR_MEMORY or does without; nothing leaks, nothing crashes. Arenas ask for
 * every allocation apart, so that each of theirs fails in turn too. */
#include "fault/models.h"

#include <stdio.h>
#include <unistd.h>

typedef struct {
    const void *bytes;
    size_t n;
    const char *path;
} subject;

typedef cameo_status (*job_fn)(const subject *s, const cameo_hooks *hooks, cameo_error *error);

static void *take(void *user, size_t bytes, size_t align)
{
    return counted_alloc(user, bytes, align);
}

static void sweep(const char *what, job_fn job, const subject *s)
{
    for (long n = 1;; n++) {
        counter count = {.fail_at = n};
        cameo_hooks hooks = CAMEO_HOOKS_INIT;
        hooks.alloc = take;
        hooks.release = counted_release;
        hooks.alloc_user = &count;
        cameo_error error = {0};
        cameo_status st = job(s, &hooks, &error);
        if (count.live)
            fail_msg("%s, allocation %ld: %ld bytes leak", what, n, (long)count.live);
        if (st != CAMEO_OK && (st != CAMEO_ERR_MEMORY || !error.message[0]))
            fail_msg("%s, allocation %ld: %s: %s", what, n, cameo_status_text(st), error.message);
        if (count.calls < n) {
            assert_int_equal(st, CAMEO_OK);
            print_message("%s: %ld allocations\n", what, n - 1);
            return;
        }
    }
}

static cameo_status import_memory(const subject *s, const cameo_hooks *hooks, cameo_error *error)
{
    cameo_network_options o = CAMEO_NETWORK_OPTIONS_INIT;
    cameo_network *net = NULL;
    void *plan = NULL;
    size_t n;
    o.hooks = *hooks;
    cameo_status st = cameo_network_from_memory(s->bytes, s->n, &o, &net, error);
    assert_true((st == CAMEO_OK) == (net != NULL));
    if (st == CAMEO_OK) /* with the network's own hooks */
        st = cameo_build_memory(net, NULL, &plan, &n, error);
    cameo_free(plan);
    cameo_network_destroy(net);
    return st;
}

static cameo_status import_file(const subject *s, const cameo_hooks *hooks, cameo_error *error)
{
    cameo_network_options o = CAMEO_NETWORK_OPTIONS_INIT;
    cameo_network *net = NULL;
    cameo_info info;
    o.hooks = *hooks;
    cameo_status st = cameo_network_from_file(s->path, &o, &net, error);
    assert_true((st == CAMEO_OK) == (net != NULL));
    for (int i = 0; st == CAMEO_OK && i < cameo_network_output_count(net); i++) {
        st = cameo_network_output(net, i, &info, error);
        if (st == CAMEO_OK)
            assert_true(info.type_text[0] != 0);
    }
    cameo_network_destroy(net);
    return st;
}

/* Import without faults, build with them. */
static cameo_status build_memory(const subject *s, const cameo_hooks *hooks, cameo_error *error)
{
    cameo_build_options o = CAMEO_BUILD_OPTIONS_INIT;
    cameo_network *net = NULL;
    void *plan = NULL;
    size_t n = 0;
    assert_int_equal(cameo_network_from_memory(s->bytes, s->n, NULL, &net, error), CAMEO_OK);
    o.hooks = *hooks;
    cameo_status st = cameo_build_memory(net, &o, &plan, &n, error);
    assert_true((st == CAMEO_OK) == (plan != NULL));
    cameo_free(plan);
    cameo_network_destroy(net);
    return st;
}

static cameo_status build_file(const subject *s, const cameo_hooks *hooks, cameo_error *error)
{
    cameo_build_options o = CAMEO_BUILD_OPTIONS_INIT;
    cameo_network *net = NULL;
    char path[64];
    snprintf(path, sizeof path, "/tmp/cameo-fault-%d.plan", (int)getpid());
    assert_int_equal(cameo_network_from_memory(s->bytes, s->n, NULL, &net, error), CAMEO_OK);
    o.hooks = *hooks;
    cameo_status st = cameo_build_file(net, &o, path, error);
    assert_true((st == CAMEO_OK) == (access(path, F_OK) == 0));
    unlink(path);
    cameo_network_destroy(net);
    return st;
}

static cameo_status by_calls(const subject *s, const cameo_hooks *hooks, cameo_error *error)
{
    (void)s;
    cameo_network_options o = CAMEO_NETWORK_OPTIONS_INIT;
    cameo_network *net = NULL;
    char *text = NULL;
    void *plan = NULL;
    size_t n;
    float weights[12] = {1, 2, 3};
    cameo_string words[2] = {{"a", 1}, {"bc", 2}};
    int64_t list[2] = {1, 0};
    const cameo_tensor w = {CAMEO_F32, 2, {3, 4}, weights, sizeof weights};
    const cameo_tensor strings = {CAMEO_STRING, 1, {2}, words, sizeof words};
    const cameo_attr perm = {.name = "perm", .kind = CAMEO_ATTR_INTS, .n = 2, .ints = list};
    const cameo_attr value = {.name = "value", .kind = CAMEO_ATTR_TENSOR, .tensor = &strings};
    const cameo_attr mode = {.name = "approximate", .kind = CAMEO_ATTR_STRING, .s = "tanh"};
    o.hooks = *hooks;
    cameo_status st = cameo_network_create("calls", &o, &net, error);
#define CALL(expr) st = st == CAMEO_OK ? (expr) : st
    CALL(cameo_network_add_input(net, "x", CAMEO_F32, 2, (const int64_t[]){-1, 3},
                                 (const char *const[]){"batch", NULL}, error));
    CALL(cameo_network_add_constant(net, "w", &w, error));
    CALL(cameo_network_add_node(net, "MatMul", "mm", 2, (const char *const[]){"x", "w"}, 1,
                                (const char *const[]){"m"}, 0, NULL, error));
    CALL(cameo_network_add_node(net, "Gelu", "gelu", 1, (const char *const[]){"m"}, 1,
                                (const char *const[]){"g"}, 1, &mode, error));
    CALL(cameo_network_add_node(net, "Transpose", NULL, 1, (const char *const[]){"g"}, 1,
                                (const char *const[]){"t"}, 1, &perm, error));
    CALL(cameo_network_add_node(net, "Constant", NULL, 0, NULL, 1, (const char *const[]){"c"}, 1,
                                &value, error));
    CALL(cameo_network_mark_output(net, "t", error));
    CALL(cameo_network_mark_output(net, "c", error));
    CALL(cameo_network_text(net, &text, error));
    CALL(cameo_build_memory(net, NULL, &plan, &n, error));
#undef CALL
    cameo_free(text);
    cameo_free(plan);
    cameo_network_destroy(net);
    return st;
}

/* Open, create, bind and run, twice: the second time with what the first left behind. */
static cameo_status run_plan(const subject *s, const cameo_hooks *hooks, cameo_error *error)
{
    cameo_engine_options eo = CAMEO_ENGINE_OPTIONS_INIT;
    cameo_context_options co = CAMEO_CONTEXT_OPTIONS_INIT;
    cameo_engine *e = NULL;
    cameo_context *c = NULL;
    eo.hooks = *hooks;
    co.threads = 1;
    cameo_status st = s->path ? cameo_engine_open_file(s->path, &eo, &e, error)
                              : cameo_engine_open_memory(s->bytes, s->n, &eo, &e, error);
    assert_true((st == CAMEO_OK) == (e != NULL));
    if (st == CAMEO_OK)
        st = cameo_context_create(e, &co, &c, error);
    for (int k = 0; k < 2 && st == CAMEO_OK; k++) {
        st = fault_set_inputs(e, c, error);
        if (st == CAMEO_OK)
            st = cameo_context_bind(c, error);
        if (st == CAMEO_OK)
            st = cameo_context_run(c, 0, error);
    }
    /* A context whose run failed runs again. */
    if (c && st == CAMEO_ERR_MEMORY) {
        cameo_error again;
        if (fault_set_inputs(e, c, &again) == CAMEO_OK)
            assert_int_equal(cameo_context_run(c, 0, &again), CAMEO_OK);
    }
    cameo_context_destroy(c);
    cameo_engine_release(e);
    return st;
}

static void models(void **state)
{
    (void)state;
    cm_buf model = fault_onnx();
    char path[64];
    snprintf(path, sizeof path, "/tmp/cameo-fault-%d.onnx", (int)getpid());
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(model.data, 1, model.n, f), model.n);
    fclose(f);
    subject s = {.bytes = model.data, .n = model.n, .path = path};
    sweep("import from memory and build", import_memory, &s);
    sweep("import from a file", import_file, &s);
    sweep("build to memory", build_memory, &s);
    sweep("build to a file", build_file, &s);
    sweep("build by calls", by_calls, &s);
    unlink(path);
    cm_buf_deinit(&model);
}

static void plans(void **state)
{
    run_case *t = *state;
    for (int i = 0; i < CM_COUNT(fault_texts); i++) {
        char what[32];
        snprintf(what, sizeof what, "run network %d", i);
        build(t, fault_texts[i]);
        subject s = {.bytes = t->bytes.data, .n = t->bytes.n};
        sweep(what, run_plan, &s);
    }
}

static void model_plans(void **state)
{
    (void)state;
    cm_buf model = fault_onnx();
    cameo_network *net = NULL;
    void *plan;
    size_t n;
    assert_int_equal(cameo_network_from_memory(model.data, model.n, NULL, &net, NULL), CAMEO_OK);
    assert_int_equal(cameo_build_memory(net, NULL, &plan, &n, NULL), CAMEO_OK);
    subject s = {.bytes = plan, .n = n};
    sweep("run the model's plan", run_plan, &s);
    cameo_free(plan);
    cameo_network_destroy(net);
    cm_buf_deinit(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models),
        cmocka_unit_test_setup_teardown(plans, case_setup, case_teardown),
        cmocka_unit_test(model_plans),
    };
    cm_arena_chunk_min = 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
