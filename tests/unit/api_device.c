/* api_device.c -- the public API's calls for GPUs: on a GPU where there is one, and what they say without.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit/api_case.h"

static void a_context_on_the_cpu_has_no_device_memory(void **state)
{
    (void)state;
    opened o = open_network(sample(NULL));
    float x[6] = {1, -2, 3, 0, 5, 6};
    cameo_tensor t = floats(x, 2, 3, 2);
    WRONG(cameo_context_set_device_input(o.context, 0, &t, &err));
    assert_non_null(strstr(err.message, "does not run on a device"));
    WRONG(cameo_context_set_device_output(o.context, 0, x, sizeof x, &err));
    WRONG(cameo_context_set_stream(o.context, NULL, &err));
    WRONG(cameo_context_set_device_input(o.context, 7, &t, &err));
    WRONG(cameo_context_set_device_input(o.context, 0, NULL, &err));
    WRONG(cameo_context_set_device_input(NULL, 0, &t, &err));
    WRONG(cameo_context_set_device_output(NULL, 0, x, sizeof x, &err));
    WRONG(cameo_context_set_stream(NULL, NULL, &err));
    WRONG(cameo_context_enqueue(NULL, &err));
    WRONG(cameo_context_wait(NULL, &err));
    close_all(&o);
}

static void enqueue_on_the_cpu_is_a_run(void **state)
{
    (void)state;
    opened o = open_network(sample(NULL));
    float x[6] = {1, -2, 3, 0, 5, 6};
    cameo_tensor t = floats(x, 2, 3, 2), out;
    ok(cameo_context_set_input(o.context, 0, &t, &err));
    ok(cameo_context_enqueue(o.context, &err));
    ok(cameo_context_wait(o.context, &err));
    ok(cameo_context_output(o.context, 0, &out, &err));
    assert_int_equal(out.rank, 2);
    ok(cameo_context_wait(o.context, &err)); /* nothing is under way */
    close_all(&o);
}

/* Without a GPU a sentence; with one the context is made. */
static void a_target_that_is_not_there_is_a_sentence(void **state)
{
    (void)state;
    opened o = open_network(sample(NULL));
    cameo_context_options co = CAMEO_CONTEXT_OPTIONS_INIT;
    cameo_context *c = NULL;
    co.target = "cuda:63";
    REFUSED(CAMEO_ERR_DEVICE, cameo_context_create(o.engine, &co, &c, &err));
    assert_non_null(strstr(err.message, "target cuda"));
    assert_null(c);
    close_all(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_on_the_cpu_has_no_device_memory),
        cmocka_unit_test(enqueue_on_the_cpu_is_a_run),
        cmocka_unit_test(a_target_that_is_not_there_is_a_sentence),
    };
    return cmocka_run_group_tests_name("api_device", tests, NULL, NULL);
}
