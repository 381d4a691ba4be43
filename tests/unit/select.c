/* select.c -- which tactic is taken where nothing was measured for just this problem.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/internal.h"
#include "unit/run_case.h"

#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)

typedef struct {
    cm_candidate all[64];
    int n;
} candidates;

static void note(void *user, const cm_tactic *tactic, const char *reason, const cm_candidate *k)
{
    (void)tactic, (void)reason;
    candidates *list = user;
    if (k && list->n < CM_COUNT(list->all))
        list->all[list->n++] = *k;
}

/* What step 0 was given, with these measurements. */
static const cm_choice *chosen(run_case *t, int threads, const cm_timings *timings)
{
    const cm_context_options o = {.threads = threads, .timings = timings};
    bind_again(t, &o, 2, (int64_t[]){384, 512});
    return &t->context->solutions[0].choice;
}

/* What was the best for one thread is taken for three unless it is expected to be much slower than others. */
static void the_best_for_other_threads_is_favoured(void **state)
{
    run_case *t = *state;
    candidates list = {.n = 0};
    load(t, "x: f32[n,512]\n@w = f32[512,768] random 1\ny = MatMul(x, @w)\nreturn y\n");
    chosen(t, 1, NULL);
    uint64_t alone = cm_signature(t->engine->ready[0], &t->context->solutions[0].p);
    double least = chosen(t, 3, NULL)->ns;
    cm_context_tactics(t->context, 0, note, &list);
    assert_true(list.n > 0);
    for (int i = 0; i < list.n; i++) {
        const cm_candidate *k = &list.all[i];
        cm_timings one;
        cm_timings_init(&one, NULL, &t->context->target);
        ok(t, cm_timings_add(&t->cx, &one, alone, k->tactic->name, &k->knobs, 1000));
        const cm_choice *c = chosen(t, 3, &one);
        bool taken = c->tactic == k->tactic && memcmp(&c->knobs, &k->knobs, sizeof c->knobs) == 0;
        assert_true(taken == (k->predicted_ns * 0.8 < least));
        cm_timings_deinit(&one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_best_for_other_threads_is_favoured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
