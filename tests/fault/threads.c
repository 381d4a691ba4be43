/* threads.c -- many threads on one engine: the same bytes from each; cancelled by another.
 * SPDX-License-Identifier: Apache-2.0
 *
 * `make test` runs it under ThreadSanitizer too. */
#include "fault/models.h"

#include <pthread.h>
#include <time.h>

enum { WORKERS = 8, RUNS = 50, ELEMS = 64 * 64 };

typedef struct {
    cameo_engine *engine;
    int threads;
    cameo_status st;
    cameo_error error;
    float y[ELEMS];
    bool same;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    float x[ELEMS];
    cameo_context *c = NULL;
    cameo_context_options o = CAMEO_CONTEXT_OPTIONS_INIT;
    cameo_tensor in = {CAMEO_F32, 2, {64, 64}, x, sizeof x}, out = {0};
    for (int i = 0; i < ELEMS; i++)
        x[i] = (float)(i % 97) / 97 - 0.5f;
    o.threads = w->threads;
    w->same = true;
    w->st = cameo_context_create(w->engine, &o, &c, &w->error);
    for (int k = 0; k < RUNS && w->st == CAMEO_OK; k++) {
        in.dims[0] = k % 3 ? 64 : 32; /* other shapes in between */
        w->st = cameo_context_set_input(c, 0, &in, &w->error);
        if (w->st == CAMEO_OK)
            w->st = cameo_context_run(c, 0, &w->error);
        if (w->st == CAMEO_OK)
            w->st = cameo_context_output(c, 0, &out, &w->error);
        if (w->st != CAMEO_OK || k % 3 == 0)
            continue;
        if (k == 1)
            memcpy(w->y, out.data, sizeof w->y);
        else
            w->same = w->same && !memcmp(w->y, out.data, sizeof w->y);
    }
    cameo_context_destroy(c);
    cameo_engine_release(w->engine);
    return NULL;
}

static cameo_engine *open_text(run_case *t, const char *text)
{
    cameo_engine *e = NULL;
    build(t, text);
    assert_int_equal(cameo_engine_open_memory(t->bytes.data, t->bytes.n, NULL, &e, NULL), CAMEO_OK);
    return e;
}

static void share(run_case *t, int threads)
{
    static worker w[WORKERS];
    pthread_t id[WORKERS];
    cameo_engine *e =
        open_text(t, "x: f32[n,64]\n@k = i64[1] {3}\n@w = f32[64,64] random 1\na = MatMul(x, @w)\n"
                     "b = Tanh(a)\nc = MatMul(b, @w)\nd = Softmax(c)\n"
                     "s, _ = TopK(d, @k)\nreturn d, s\n");
    for (int i = 0; i < WORKERS; i++) {
        w[i] = (worker){.engine = cameo_engine_retain(e), .threads = threads};
        assert_int_equal(pthread_create(&id[i], NULL, work, &w[i]), 0);
    }
    cameo_engine_release(e); /* the last worker closes it */
    for (int i = 0; i < WORKERS; i++)
        pthread_join(id[i], NULL);
    for (int i = 0; i < WORKERS; i++) {
        if (w[i].st != CAMEO_OK)
            fail_msg("thread %d: %s", i, w[i].error.message);
        assert_true(w[i].same);
        assert_memory_equal(w[i].y, w[0].y, sizeof w[0].y);
    }
}

static void eight_threads_share_an_engine(void **state)
{
    share(*state, 1);
}

static void contexts_with_pools_share_an_engine(void **state)
{
    share(*state, 2);
}

/* Engines opened and released in many threads at once: tables that are made on first use. */
static void *open_and_run(void *arg)
{
    const run_case *t = arg;
    cameo_engine *e = NULL;
    cameo_context *c = NULL;
    cameo_context_options o = CAMEO_CONTEXT_OPTIONS_INIT;
    const void *failed = t;
    o.threads = 1;
    if (cameo_engine_open_memory(t->bytes.data, t->bytes.n, NULL, &e, NULL) == CAMEO_OK &&
        cameo_context_create(e, &o, &c, NULL) == CAMEO_OK &&
        fault_set_inputs(e, c, NULL) == CAMEO_OK && cameo_context_run(c, 0, NULL) == CAMEO_OK)
        failed = NULL;
    cameo_context_destroy(c);
    cameo_engine_release(e);
    return (void *)failed;
}

static void threads_open_their_own(void **state)
{
    run_case *t = *state;
    pthread_t id[WORKERS];
    void *failed;
    for (int k = 0; k < CM_COUNT(fault_texts); k++) {
        build(t, fault_texts[k]);
        for (int i = 0; i < WORKERS; i++)
            assert_int_equal(pthread_create(&id[i], NULL, open_and_run, t), 0);
        for (int i = 0; i < WORKERS; i++) {
            pthread_join(id[i], &failed);
            assert_null(failed);
        }
    }
}

static void *import_and_build(void *arg)
{
    const cm_buf *model = arg;
    cameo_network *net = NULL;
    void *plan = NULL;
    size_t n;
    const void *failed = model;
    if (cameo_network_from_memory(model->data, model->n, NULL, &net, NULL) == CAMEO_OK &&
        cameo_build_memory(net, NULL, &plan, &n, NULL) == CAMEO_OK)
        failed = NULL;
    cameo_free(plan);
    cameo_network_destroy(net);
    return (void *)failed;
}

static void threads_import_and_build(void **state)
{
    (void)state;
    pthread_t id[WORKERS];
    void *failed;
    cm_buf model = fault_onnx();
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&id[i], NULL, import_and_build, &model), 0);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(id[i], &failed);
        assert_null(failed);
    }
    cm_buf_deinit(&model);
}

static void *cancel_soon(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
    cameo_context_cancel(arg);
    return NULL;
}

static void a_run_is_cancelled_by_another_thread(void **state)
{
    cameo_engine *e = open_text(*state, "x: f32[2]\n@yes = bool[] {1}\ny = Loop(_, @yes, x) do\n"
                                        "  i: i64[]\n  c: bool[]\n  v: f32[2]\n  w = Add(v, v)\n"
                                        "  d = Identity(c)\n  return d, w\nend\nreturn y\n");
    cameo_context *c = NULL;
    cameo_context_options o = CAMEO_CONTEXT_OPTIONS_INIT;
    cameo_error error;
    o.threads = 1;
    assert_int_equal(cameo_context_create(e, &o, &c, &error), CAMEO_OK);
    for (int k = 0; k < 3; k++) { /* it can be started and cancelled again */
        pthread_t id;
        assert_int_equal(fault_set_inputs(e, c, &error), CAMEO_OK);
        assert_int_equal(pthread_create(&id, NULL, cancel_soon, c), 0);
        assert_int_equal(cameo_context_run(c, 30, &error), CAMEO_ERR_CANCELLED);
        assert_true(error.message[0] != 0);
        pthread_join(id, NULL);
    }
    cameo_context_destroy(c);
    cameo_engine_release(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(eight_threads_share_an_engine, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(contexts_with_pools_share_an_engine, case_setup,
                                        case_teardown),
        cmocka_unit_test_setup_teardown(threads_open_their_own, case_setup, case_teardown),
        cmocka_unit_test(threads_import_and_build),
        cmocka_unit_test_setup_teardown(a_run_is_cancelled_by_another_thread, case_setup,
                                        case_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
