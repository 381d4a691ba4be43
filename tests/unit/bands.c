/* bands.c -- chains of convolutions run band by band as they run step by step.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/cpu.h"
#include "runtime/internal.h"
#include "unit/run_case.h"

#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)

/* p is read twice, the rest forms a chain up to d, whose output is small. */
static const char text[] = "x: f32[1,3,h,w]\n"
                           "@w0 = f32[24,3,3,3] random 1\n@b0 = f32[24] random 2\n"
                           "@w1 = f32[32,24,1,1] random 3\n@b1 = f32[32] random 4\n"
                           "@w2 = f32[32,1,3,3] random 5\n@w3 = f32[24,32,1,1] random 6\n"
                           "@w4 = f32[24,1,5,5] random 7\n@w5 = f32[8,24,1,1] random 8\n"
                           "p = Conv(x, @w0, @b0) {pads=[1,1,1,1], strides=[2,2]} then \"relu x\"\n"
                           "a = Conv(p, @w1, @b1) then \"clip x 0 6\"\n"
                           "b = Conv(a, @w2) {group=32, pads=[1,1,1,1]} then \"silu x\"\n"
                           "c = Conv(b, @w3 | p) then \"add x $0\"\n"
                           "d = Conv(c, @w4) {group=24, pads=[2,2,2,2], strides=[4,4]}\n"
                           "y = Conv(d, @w5)\n"
                           "return y\n";

static void look_at_values(void *user, int step, uint64_t start, uint64_t end)
{
    (void)user, (void)step, (void)start, (void)end;
}

/* Steps of the longest chain. */
static int longest(const run_case *t)
{
    int most = 0;
    for (int i = 0; i < t->engine->n_steps; i++)
        if (t->context->solutions[i].chain > most)
            most = t->context->solutions[i].chain;
    return most;
}

static void run_with(run_case *t, int threads, cm_profile_fn profile, int64_t h, int64_t w,
                     const float *x)
{
    cm_context_options o = {.threads = threads, .profile = profile};
    cm_context_destroy(t->context);
    t->context = NULL;
    ok(t, cm_context_create(&t->cx, t->engine, &o, &t->context));
    give(t, 0, CM_F32, 4, (int64_t[]){1, 3, h, w}, x);
    run(t);
    run(t);
}

static void check(run_case *t, int threads, int64_t h, int64_t w, const float *x)
{
    run_with(t, threads, look_at_values, h, w, x);
    assert_int_equal(longest(t), 0); /* somebody looks at what lies between */
    int64_t n = cm_tensor_elems(out(t, 0));
    float *want = malloc((size_t)n * sizeof *want), most = 0;
    memcpy(want, out(t, 0)->data, (size_t)n * sizeof *want);
    for (int64_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(want[i]));
    size_t memory = t->context->memory_used;
    run_with(t, threads, NULL, h, w, x);
    assert_int_equal(longest(t), 4);
    assert_true(t->context->memory_used < memory);
    const float *got = out(t, 0)->data;
    for (int64_t i = 0; i < n; i++)
        assert_true(fabsf(got[i] - want[i]) <= 1e-5f * most);
    free(want);
}

/* What lies between steps is larger than the caches of all threads. */
static void chains_give_what_their_steps_give(void **state)
{
    run_case *t = *state;
    enum { WIDTH = 121, CHANNELS = 24, MOST_THREADS = 3 };
    int64_t l2 = cm_cpu_info()->l2_bytes > 0 ? cm_cpu_info()->l2_bytes : 256 << 10;
    int64_t height = 2 * (l2 / (WIDTH / 2 * CHANNELS * (int64_t)sizeof(float)) + 20);
    int64_t n = 3 * WIDTH * height * MOST_THREADS;
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    load(t, text);
    check(t, 1, height, WIDTH, x);
    check(t, 1, height + 5, WIDTH - 2, x);
    check(t, MOST_THREADS, MOST_THREADS * height, WIDTH, x);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(chains_give_what_their_steps_give)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
