/* api_build.c -- the public API: builds that measure and pack, and engines without a plan.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit/api_case.h"

/* A product with a constant that kernels pack. */
static cameo_network *product_network(void)
{
    cameo_network *n;
    static float w[40 * 24];
    for (int i = 0; i < 40 * 24; i++)
        w[i] = (float)(i * 37 % 101) / 101;
    cameo_tensor t = {
        .dtype = CAMEO_F32, .rank = 2, .dims = {40, 24}, .data = w, .bytes = sizeof w};
    ok(cameo_network_create("product", NULL, &n, &err));
    ok(cameo_network_add_input(n, "x", CAMEO_F32, 2, (const int64_t[]){-1, 40},
                               (const char *const[]){"n", NULL}, &err));
    ok(cameo_network_add_constant(n, "w", &t, &err));
    node(n, "MatMul", "x", "w", "y");
    ok(cameo_network_mark_output(n, "y", &err));
    return n;
}

static float product_of(cameo_engine *e)
{
    cameo_context *c;
    float x[3 * 40];
    for (int i = 0; i < 3 * 40; i++)
        x[i] = (float)(i % 7);
    cameo_tensor t = {.dtype = CAMEO_F32, .rank = 2, .dims = {3, 40}, .data = x, .bytes = sizeof x};
    cameo_context_options o = CAMEO_CONTEXT_OPTIONS_INIT;
    o.threads = 1;
    ok(cameo_context_create(e, &o, &c, &err));
    ok(cameo_context_set_input(c, 0, &t, &err));
    ok(cameo_context_run(c, 0, &err));
    assert_true(cameo_value_tensor(cameo_context_output_value(c, 0), &t));
    float sum = 0;
    for (int i = 0; i < 3 * 24; i++)
        sum += ((const float *)t.data)[i] * (float)(i % 5 + 1);
    cameo_context_destroy(c);
    return sum;
}

static bool hear_of_tuning(void *user, const char *what, int64_t done, int64_t total)
{
    (void)done;
    (void)total;
    *(int *)user += strcmp(what, "tuning") == 0;
    return true;
}

static void networks_run_without_a_plan_and_builds_are_tuned(void **state)
{
    (void)state;
    cameo_network *n = product_network();
    cameo_engine *e;
    int heard = 0;
    ok(cameo_engine_from_network(n, NULL, &e, &err));
    const float want = product_of(e);
    assert_int_equal(cameo_engine_input_count(e), 1);
    cameo_engine_release(e);
    const cameo_shape shape = {"x", 2, (const int64_t[]){3, 40}};
    cameo_build_options o = CAMEO_BUILD_OPTIONS_INIT;
    o.hooks.progress = hear_of_tuning;
    o.hooks.progress_user = &heard;
    o.tune = CAMEO_TUNE_QUICK;
    o.threads = 1;
    o.n_shapes = 1;
    o.shapes = &shape;
    ok(cameo_engine_from_network(n, &o, &e, &err));
    assert_true(heard > 0);
    assert_float_equal(product_of(e), want, 1e-3f * want);
    cameo_engine_release(e);
    for (int pack = CAMEO_PACK_OFF; pack <= CAMEO_PACK_ALL; pack++) {
        void *bytes;
        size_t size;
        o.pack = (cameo_pack)pack;
        ok(cameo_build_memory(n, &o, &bytes, &size, &err));
        ok(cameo_engine_open_memory(bytes, size, NULL, &e, &err));
        assert_float_equal(product_of(e), want, 1e-3f * want);
        cameo_engine_release(e);
        cameo_free(bytes);
    }
    cameo_network_destroy(n);
}

static void builds_lower_the_precision(void **state)
{
    (void)state;
    cameo_network *n = product_network();
    cameo_engine *e;
    cameo_build_options o = CAMEO_BUILD_OPTIONS_INIT;
    ok(cameo_engine_from_network(n, &o, &e, &err));
    const float want = product_of(e);
    cameo_engine_release(e);
    o.precision = "bf16";
    ok(cameo_engine_from_network(n, &o, &e, &err));
    const float low = product_of(e);
    cameo_engine_release(e);
    assert_true(low != want);
    assert_float_equal(low, want, 1e-2f * want);
    cameo_network_destroy(n);
}

static void build_options_out_of_range_are_refused(void **state)
{
    (void)state;
    cameo_network *n = product_network();
    cameo_engine *e;
    cameo_build_options good = CAMEO_BUILD_OPTIONS_INIT, o = good;
    const cameo_shape nameless = {0};
    WRONG(cameo_engine_from_network(NULL, NULL, &e, &err));
    WRONG(cameo_engine_from_network(n, NULL, NULL, &err));
    o.tune = (cameo_tune)7;
    WRONG(cameo_engine_from_network(n, &o, &e, &err));
    o = good;
    o.pack = (cameo_pack)-1;
    WRONG(cameo_engine_from_network(n, &o, &e, &err));
    o = good;
    o.tune_seconds = -1;
    WRONG(cameo_engine_from_network(n, &o, &e, &err));
    o = good;
    o.n_shapes = 1;
    WRONG(cameo_engine_from_network(n, &o, &e, &err));
    o.shapes = &nameless;
    WRONG(cameo_engine_from_network(n, &o, &e, &err));
    o = good;
    o.target = "abacus";
    WRONG(cameo_engine_from_network(n, &o, &e, &err));
    o = good;
    o.precision = "fp7";
    WRONG(cameo_engine_from_network(n, &o, &e, &err));
    cameo_network_destroy(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_run_without_a_plan_and_builds_are_tuned),
        cmocka_unit_test(builds_lower_the_precision),
        cmocka_unit_test(build_options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
