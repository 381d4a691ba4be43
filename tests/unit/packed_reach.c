/* packed_reach.c -- plans that hold weights as kernels want them: which kernels they serve, and how large they get.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/internal.h"
#include "unit/run_case.h"

#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)

static void bind(run_case *t, int threads, int rank, const int64_t *dims)
{
    const cm_context_options o = {.threads = threads};
    bind_again(t, &o, rank, dims);
}

/* The network's plan with what the context packed, to `out`; -> how many constants. */
static int export_packed(run_case *t, bool all, cm_buf *out)
{
    cm_plan plan = *cm_engine_plan(t->engine);
    const cm_tensor *const *constants, *const *stored;
    ok(t, cm_engine_constants(&t->cx, t->engine, &constants));
    ok(t, cm_context_packed(&t->cx, t->context, &plan, constants, all, &stored));
    ok(t, cm_plan_write_memory(&t->cx, &plan, stored, out));
    return plan.n_packed;
}

static void shut(run_case *t)
{
    cm_context_destroy(t->context);
    t->context = NULL;
    cm_engine_release(t->engine);
    t->engine = NULL;
}

/* Opened from such bytes in place of what was. */
static void open_again(run_case *t, const cm_buf *bytes)
{
    shut(t);
    ok(t, cm_engine_open_memory(&t->cx, bytes->data, bytes->n, false, NULL, &t->engine));
}

/* Is whatever the steps read packed where the plan has it? */
static bool all_stored(const run_case *t, const cm_buf *bytes)
{
    for (int k = 0; k < t->engine->n_steps; k++) {
        const cm_solution *sol = &t->context->solutions[k];
        for (int i = 0; sol->way == CM_WAY_TACTIC && i < sol->p.n_in; i++) {
            const unsigned char *at = sol->packed[i];
            if (at && (at < bytes->data || at >= bytes->data + bytes->n))
                return false;
        }
    }
    return true;
}

/* Tactics for many rows and for some (by halves, by pairs, as it is) read panels of one form. */
static void packed_weights_serve_tactics_that_pack_alike(void **state)
{
    run_case *t = *state;
    static const int64_t rows[] = {16, 24, 48, 128, 384, 512, 1024};
    cm_buf bytes;
    load(t, "x: f32[n,512]\n@w = f32[512,768] random 1\ny = MatMul(x, @w)\nreturn y\n");
    for (int k = 0; k < CM_COUNT(rows); k++) {
        cm_buf_init(&bytes, NULL);
        bind(t, 1, 2, (int64_t[]){rows[k], 512});
        assert_int_equal(export_packed(t, false, &bytes), 1);
        open_again(t, &bytes);
        for (int i = 0; i < CM_COUNT(rows); i++)
            for (int threads = 1; threads <= 2; threads++) {
                bind(t, threads, 2, (int64_t[]){rows[i], 512});
                if (!all_stored(t, &bytes))
                    fail_msg("packed for %lld rows, packed again for %lld", (long long)rows[k],
                             (long long)rows[i]);
            }
        open_again(t, &t->bytes);
        cm_buf_deinit(&bytes);
    }
}

/* Transforms are at least 16/9 as large as weights. */
static void transforms_are_stored_while_they_are_no_larger_than_all_weights(void **state)
{
    run_case *t = *state;
    static const char *const networks[] = {
        "x: f32[n,32,48,48]\n@w = f32[32,32,3,3] random 1\n"
        "y = Conv(x, @w) {pads=[1,1,1,1]}\nreturn y\n",
        "x: f32[n,32,48,48]\n@w = f32[32,32,3,3] random 1\n@v = f32[73728,32] random 2\n"
        "a = Conv(x, @w) {pads=[1,1,1,1]}\nf = Flatten(a)\ny = MatMul(f, @v)\nreturn y\n"};
    for (int k = 0; k < CM_COUNT(networks); k++) {
        cm_buf on, all;
        cm_buf_init(&on, NULL);
        cm_buf_init(&all, NULL);
        load(t, networks[k]);
        bind(t, 1, 4, (int64_t[]){1, 32, 48, 48});
        bool transformed =
            strncmp(t->context->solutions[0].choice.tactic->name, "conv_winograd", 13) == 0;
        int n_on = export_packed(t, false, &on), n_all = export_packed(t, true, &all);
        assert_true(on.n <= 2 * t->bytes.n + 4096);
        assert_int_equal(n_all, k + 1);
        assert_int_equal(n_on, k == 0 && transformed ? 0 : n_all);
        open_again(t, &all);
        bind(t, 1, 4, (int64_t[]){1, 32, 48, 48});
        assert_true(all_stored(t, &all));
        shut(t);
        cm_buf_deinit(&on);
        cm_buf_deinit(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(packed_weights_serve_tactics_that_pack_alike),
        TEST(transforms_are_stored_while_they_are_no_larger_than_all_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
