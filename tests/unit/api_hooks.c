/* api_hooks.c -- the public API: allocators, logs, progress, stopping, sharing, seeds
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit/api_case.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "unit/onnx_model.h"

typedef struct {
    atomic_long calls, live, blocks;
    int lines;
    int left; /* of progress calls before it says no */
} watched;

static void *count_alloc(void *user, size_t bytes, size_t align)
{
    watched *w = user;
    atomic_fetch_add(&w->calls, 1);
    atomic_fetch_add(&w->blocks, 1);
    atomic_fetch_add(&w->live, (long)bytes);
    void *p = NULL;
    return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes) ? NULL : p;
}

static void count_release(void *user, void *p, size_t bytes)
{
    watched *w = user;
    atomic_fetch_sub(&w->blocks, p ? 1 : 0);
    atomic_fetch_sub(&w->live, (long)bytes);
    free(p);
}

static void count_line(void *user, cameo_log_level level, const char *sentence)
{
    (void)level;
    assert_non_null(sentence);
    ((watched *)user)->lines++;
}

static bool count_down(void *user, const char *what, int64_t done, int64_t total)
{
    assert_non_null(what);
    assert_true(done <= total);
    return ((watched *)user)->left-- > 0;
}

static cameo_hooks hooks_of(watched *w)
{
    return (cameo_hooks){sizeof(cameo_hooks), count_alloc, count_release, w,
                         count_line,          w,           count_down,    w};
}

static void allocator_hooks_balance(void **state)
{
    (void)state;
    watched w = {.left = 1000000};
    cameo_network_options no = CAMEO_NETWORK_OPTIONS_INIT;
    cameo_engine_options eo = CAMEO_ENGINE_OPTIONS_INIT;
    cameo_context_options co = CAMEO_CONTEXT_OPTIONS_INIT;
    no.hooks = eo.hooks = hooks_of(&w);
    co.threads = 1;
    cameo_network *n = sample(&no);
    void *bytes;
    size_t size;
    cameo_engine *e;
    cameo_context *c;
    ok(cameo_build_memory(n, NULL, &bytes, &size, &err));
    cameo_network_destroy(n);
    assert_true(w.calls > 0);
    assert_int_equal(w.live, 0);
    assert_int_equal(w.blocks, 0);
    ok(cameo_engine_open_memory(bytes, size, &eo, &e, &err));
    long engine = w.live;
    assert_true(engine > 0);
    ok(cameo_context_create(e, &co, &c, &err));
    cameo_engine_release(e); /* the context holds it */
    float x[6] = {1, -2, 3, 0, 5, 6}, y[6];
    cameo_tensor t = floats(x, 2, 3, 2);
    ok(cameo_context_set_input(c, 0, &t, &err));
    ok(cameo_context_set_output(c, 0, y, sizeof y, &err));
    ok(cameo_context_run(c, 0, &err));
    assert_true(w.live > engine);
    assert_true(cameo_context_memory(c) > 0);
    ok(cameo_context_run(c, 0, &err));
    long calls = w.calls;
    for (int i = 0; i < 3; i++)
        ok(cameo_context_run(c, 0, &err));
    assert_int_equal(w.calls, calls); /* nothing is allocated once shapes are known */
    cameo_context_destroy(c);
    assert_int_equal(w.live, 0);
    assert_int_equal(w.blocks, 0);
    cameo_free(bytes);
}

static void progress_cancels_and_log_speaks(void **state)
{
    (void)state;
    cameo_network *n = sample(NULL);
    void *bytes;
    size_t size;
    for (int left = 0; left < 3; left++) {
        watched w = {.left = left};
        cameo_build_options bo = CAMEO_BUILD_OPTIONS_INIT;
        bo.hooks = hooks_of(&w);
        REFUSED(CAMEO_ERR_CANCELLED, cameo_build_memory(n, &bo, &bytes, &size, &err));
        assert_int_equal(w.live, 0);
    }
    ok(cameo_build_memory(n, NULL, &bytes, &size, &err)); /* a cancelled build can be repeated */
    cameo_free(bytes);
    cameo_network_destroy(n);

    watched w = {.left = 1000000};
    cameo_network_options no = CAMEO_NETWORK_OPTIONS_INIT;
    no.hooks = hooks_of(&w);
    cm_buf g, m;
    cm_buf_init(&g, NULL);
    m_value(&g, F_INPUT, "x", CAMEO_F32, "2");
    m_add(&g, "Relu", "x", "a");
    m_add(&g, "NoSuchThing", "a", "b");
    m_add(&g, "NorThis", "b", "y");
    m_value(&g, F_OUTPUT, "y", CAMEO_F32, "2");
    m = m_model(&g, 17, NULL);
    REFUSED(CAMEO_ERR_UNSUPPORTED, cameo_network_from_memory(m.data, m.n, &no, &n, &err));
    assert_non_null(strstr(err.message, "NoSuchThing")); /* both in one sentence */
    assert_non_null(strstr(err.message, "NorThis"));
    assert_int_equal(w.lines, 2);
    assert_int_equal(w.live, 0);
    cm_buf_deinit(&m);
}

/* A chain of large matrix products: seconds of work. */
static opened slow(float *a)
{
    enum { N = 512, LINKS = 200 };
    cameo_network *n;
    char in[16] = "x", out[16];
    ok(cameo_network_create("slow", NULL, &n, &err));
    ok(cameo_network_add_input(n, "x", CAMEO_F32, 2, (const int64_t[]){N, N}, NULL, &err));
    for (int i = 0; i < LINKS; i++) {
        snprintf(out, sizeof out, "m%d", i);
        node(n, "MatMul", in, "x", out);
        memcpy(in, out, sizeof in);
    }
    ok(cameo_network_mark_output(n, in, &err));
    opened o = open_network(n);
    cameo_tensor t = floats(a, 2, N, N);
    ok(cameo_context_set_input(o.context, 0, &t, &err));
    return o;
}

static void *cancel_soon(void *context)
{
    usleep(50000);
    cameo_context_cancel(context);
    return NULL;
}

static void runs_stop_when_told(void **state)
{
    (void)state;
    float *a = test_calloc(512 * 512, sizeof *a);
    opened o = slow(a);
    REFUSED(CAMEO_ERR_CANCELLED, cameo_context_run(o.context, 0.02, &err));
    pthread_t thread;
    pthread_create(&thread, NULL, cancel_soon, o.context);
    REFUSED(CAMEO_ERR_CANCELLED, cameo_context_run(o.context, 60, &err));
    pthread_join(thread, NULL);
    close_all(&o);
    test_free(a);
}

static void engines_are_counted_and_shared(void **state)
{
    (void)state;
    opened o = open_network(sample(NULL));
    cameo_context *second;
    assert_ptr_equal(cameo_engine_retain(o.engine), o.engine);
    cameo_engine_release(o.engine);
    ok(cameo_context_create(o.engine, NULL, &second, &err));
    cameo_engine_release(o.engine); /* ours is gone; two contexts hold it */
    o.engine = NULL;
    float x[2] = {3, -4};
    cameo_tensor t = floats(x, 2, 1, 2), out;
    cameo_context *contexts[] = {o.context, second};
    for (int i = 0; i < 2; i++) {
        ok(cameo_context_set_input(contexts[i], 0, &t, &err));
        ok(cameo_context_run(contexts[i], 0, &err));
        ok(cameo_context_output(contexts[i], 0, &out, &err));
        assert_true(((float *)out.data)[0] == 6);
    }
    cameo_context_destroy(second);
    close_all(&o);
}

static void random_numbers_follow_the_seed(void **state)
{
    (void)state;
    cameo_network *n;
    const char *out = "r";
    const int64_t shape[] = {4};
    const cameo_attr attr = {.name = "shape", .kind = CAMEO_ATTR_INTS, .n = 1, .ints = shape};
    ok(cameo_network_create("random", NULL, &n, &err));
    ok(cameo_network_add_node(n, "RandomNormal", "r", 0, NULL, 1, &out, 1, &attr, &err));
    ok(cameo_network_mark_output(n, "r", &err));
    opened o = open_network(n);
    float drawn[3][4];
    for (int i = 0; i < 3; i++) {
        cameo_context *c;
        cameo_tensor t;
        cameo_context_options co = CAMEO_CONTEXT_OPTIONS_INIT;
        co.seed = i < 2 ? 7 : 8;
        ok(cameo_context_create(o.engine, &co, &c, &err));
        ok(cameo_context_run(c, 0, &err));
        ok(cameo_context_output(c, 0, &t, &err));
        memcpy(drawn[i], t.data, sizeof drawn[i]);
        cameo_context_destroy(c);
    }
    assert_memory_equal(drawn[0], drawn[1], sizeof drawn[0]);
    assert_memory_not_equal(drawn[0], drawn[2], sizeof drawn[0]);
    close_all(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocator_hooks_balance),
        cmocka_unit_test(progress_cancels_and_log_speaks),
        cmocka_unit_test(runs_stop_when_told),
        cmocka_unit_test(engines_are_counted_and_shared),
        cmocka_unit_test(random_numbers_follow_the_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
