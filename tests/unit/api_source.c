/* api_source.c -- networks from files whose weights go when an engine has packed them: they are there again for
 * whoever reads the network afterwards.
 * SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "api_case.h"
#include "onnx_model.h"

enum { N = 160, WEIGHTS = 5 }; /* N x N floats are over the size from which copies can go */

static char path[64];

/* y = x W0 W1 W2 W3 + W4: names of every length, so that most tensors lie askew. */
static int write_model(void **state)
{
    (void)state;
    static float w[N * N];
    cm_buf graph, tensor;
    char name[16] = "w", from[16] = "x", to[16];
    cm_buf_init(&graph, NULL);
    cm_buf_init(&tensor, NULL);
    m_value(&graph, F_INPUT, "x", CM_F32, "n 160");
    for (int k = 0; k < WEIGHTS; k++) {
        for (int i = 0; i < N * N; i++)
            w[i] = (float)((i * 7919 + k * 104729) % 1009) / 1009 - 0.5f;
        pb_write_int(&tensor, 1, N);
        pb_write_int(&tensor, 1, N);
        pb_write_int(&tensor, 2, CM_F32);
        pb_write_text(&tensor, 8, name);
        pb_write_bytes(&tensor, 9, w, sizeof w);
        m_in(&graph, F_INIT, &tensor);
        char in[32];
        snprintf(in, sizeof in, "%s %s", from, name);
        snprintf(to, sizeof to, "t%d", k);
        m_add(&graph, k + 1 < WEIGHTS ? "MatMul" : "Add", in, k + 1 < WEIGHTS ? to : "y");
        memcpy(from, to, sizeof to);
        strcat(name, "w");
    }
    m_value(&graph, F_OUTPUT, "y", CM_F32, "");
    cm_buf model = m_model(&graph, 17, NULL);
    snprintf(path, sizeof path, "/tmp/cameo-source-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, model.data, model.n), model.n);
    close(fd);
    cm_buf_deinit(&model);
    return 0;
}

static int remove_model(void **state)
{
    (void)state;
    return unlink(path);
}

static void run_engine(cameo_engine *e, const char *target, float *out)
{
    static float x[N * N];
    cameo_context *c;
    cameo_context_options o = CAMEO_CONTEXT_OPTIONS_INIT;
    cameo_tensor t = floats(x, 2, N, N);
    o.threads = 1;
    o.target = target;
    for (int i = 0; i < N * N; i++)
        x[i] = (float)(i % 11) - 5;
    ok(cameo_context_create(e, &o, &c, &err));
    ok(cameo_context_set_input(c, 0, &t, &err));
    ok(cameo_context_set_output(c, 0, out, N * N * sizeof *out, &err));
    ok(cameo_context_run(c, 0, &err));
    cameo_context_destroy(c);
}

static void networks_are_whole_after_an_engine_has_run(void **state)
{
    (void)state;
    static float want[N * N], slow[N * N], got[N * N];
    cameo_network *fresh, *n;
    cameo_engine *e, *second;
    char *text_before, *text;
    void *plan_before, *plan;
    size_t n_before, n_plan;
    ok(cameo_network_from_file(path, NULL, &fresh, &err));
    ok(cameo_build_memory(fresh, NULL, &plan_before, &n_before, &err));
    ok(cameo_network_text(fresh, &text_before, &err));
    ok(cameo_engine_open_memory(plan_before, n_before, NULL, &e, &err));
    run_engine(e, NULL, want);
    run_engine(e, "cpu:generic", slow);
    cameo_engine_release(e);

    ok(cameo_network_from_file(path, NULL, &n, &err));
    ok(cameo_engine_from_network(n, NULL, &e, &err));
    run_engine(e, NULL, got);
    assert_memory_equal(got, want, sizeof want);
    run_engine(e, "cpu:generic", got); /* packs them anew */
    assert_memory_equal(got, slow, sizeof slow);
    ok(cameo_network_text(n, &text, &err));
    assert_string_equal(text, text_before);
    ok(cameo_build_memory(n, NULL, &plan, &n_plan, &err));
    assert_int_equal(n_plan, n_before);
    assert_memory_equal(plan, plan_before, n_plan);
    ok(cameo_engine_from_network(n, NULL, &second, &err));
    run_engine(second, NULL, got);
    assert_memory_equal(got, want, sizeof want);
    run_engine(e, NULL, got);
    assert_memory_equal(got, want, sizeof want);
    cameo_engine_release(second);
    cameo_engine_release(e);
    cameo_network_destroy(n);
    cameo_network_destroy(fresh);
    cameo_free(text);
    cameo_free(text_before);
    cameo_free(plan);
    cameo_free(plan_before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_are_whole_after_an_engine_has_run),
    };
    return cmocka_run_group_tests(tests, write_model, remove_model);
}
