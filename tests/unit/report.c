/* report.c -- what reports ask of a context: work, values, memory; one step on its reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/report.h"

#include "unit/run_case.h"

#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)
#define DIMS(...)                                                                                  \
    (const int64_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static const char *const product = "x: f32[n,3]\n"
                                   "@w = f32[3,2] {1,2,3,4,5,6}\n"
                                   "p = MatMul(x, @w)\n"
                                   "r = Relu(p)\n"
                                   "v = Flatten(r)\n"
                                   "y = Add(v, v)\n"
                                   "return y\n";
static const float numbers[6] = {1, 1, 1, -1, -1, -1};

static int step_of(const run_case *t, const char *op)
{
    for (int i = 0; i < cm_engine_n_steps(t->engine); i++)
        if (!strcmp(cm_engine_step(t->engine, i)->op, op))
            return i;
    fail_msg("no %s", op);
    return -1;
}

static void start(run_case *t)
{
    load(t, product);
    give(t, 0, CM_F32, 2, DIMS(2, 3), numbers);
}

static void work_counts_operations_and_bytes(void **state)
{
    run_case *t = *state;
    cm_layer_work w;
    start(t);
    assert_false(cm_context_work(&t->cx, t->context, step_of(t, "MatMul"), &w));
    run(t);
    assert_true(cm_context_work(&t->cx, t->context, step_of(t, "MatMul"), &w));
    assert_true(w.ops == 2 * 2 * 2 * 3);
    assert_true(w.in_bytes == 24 && w.weight_bytes == 24 && w.out_bytes == 16);
    assert_true(w.conversion_bytes == 0 && w.conversion_ns == 0);
    assert_true(cm_context_work(&t->cx, t->context, step_of(t, "Relu"), &w));
    assert_true(w.ops == 4 && w.weight_bytes == 0);
    assert_true(cm_context_work(&t->cx, t->context, step_of(t, "Flatten"), &w));
    assert_true(w.ops == 0 && w.out_bytes == 0); /* a view */
}

typedef struct {
    run_case *t;
    int n;
    float last[4];
} seen;

static void see(void *user, int step, uint64_t start_ns, uint64_t end_ns)
{
    seen *s = user;
    const cm_plan_step *p = cm_engine_step(s->t->engine, step);
    const cm_datum *d = cm_context_value(s->t->context, p->out[0].value);
    assert_non_null(d);
    assert_true(end_ns >= start_ns);
    s->n++;
    if (strcmp(p->op, "Relu") != 0)
        return;
    cm_tensor copy;
    ok(s->t, cm_context_copy_value(&s->t->cx, s->t->context, p->out[0].value, &s->t->arena, &copy));
    assert_int_equal(cm_tensor_elems(&copy), 4);
    memcpy(s->last, copy.data, sizeof s->last);
}

static void values_are_there_while_their_step_is_profiled(void **state)
{
    run_case *t = *state;
    seen s = {.t = t};
    build(t, product);
    ok(t, cm_engine_open_memory(&t->cx, t->bytes.data, t->bytes.n, false, NULL, &t->engine));
    cm_context_options o = {.threads = 1, .profile = see, .profile_user = &s};
    ok(t, cm_context_create(&t->cx, t->engine, &o, &t->context));
    give(t, 0, CM_F32, 2, DIMS(2, 3), numbers);
    run(t);
    assert_int_equal(s.n, 4);
    assert_float_equal(s.last[0], 9, 0);
    assert_float_equal(s.last[1], 12, 0);
    assert_float_equal(s.last[2], 0, 0);
}

static void blocks_that_live_together_lie_apart(void **state)
{
    run_case *t = *state;
    start(t);
    assert_int_equal(cm_context_n_blocks(t->context), 0);
    ok(t, cm_context_bind(&t->cx, t->context));
    int n = cm_context_n_blocks(t->context);
    assert_true(n >= 2);
    for (int i = 0; i < n; i++) {
        cm_memory_block a, b;
        cm_context_block(t->context, i, &a);
        assert_true(a.offset + a.bytes <= cm_context_arena_bytes(t->context));
        assert_true(a.step >= 0);
        for (int k = 0; k < i; k++) {
            cm_context_block(t->context, k, &b);
            if (a.first <= b.last && b.first <= a.last)
                assert_true(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
        }
    }
}

static void spans_follow_the_order_of_steps(void **state)
{
    run_case *t = *state;
    int before = -1;
    start(t);
    for (int i = 0; i < cm_engine_n_steps(t->engine); i++) {
        int first, last;
        cm_engine_step_span(t->engine, i, &first, &last);
        assert_true(first > before && last >= first);
        assert_true(cm_engine_step_is_main(t->engine, i));
        before = last;
    }
}

static void a_step_runs_alone_on_its_reference(void **state)
{
    run_case *t = *state;
    start(t);
    int step = step_of(t, "MatMul");
    cm_datum x = tensor(CM_F32, 2, DIMS(1, 3), numbers), y;
    const cm_datum *in[] = {
        &x, cm_context_value(t->context, cm_engine_step(t->engine, step)->in[1].value)};
    ok(t, cm_engine_eval_step(&t->cx, &t->arena, t->engine, step, in, NULL, &y));
    assert_int_equal(y.tensor.dims[0], 1);
    assert_float_equal(((const float *)y.tensor.data)[0], 9, 0);
    assert_float_equal(((const float *)y.tensor.data)[1], 12, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(work_counts_operations_and_bytes),
        TEST(values_are_there_while_their_step_is_profiled),
        TEST(blocks_that_live_together_lie_apart),
        TEST(spans_follow_the_order_of_steps),
        TEST(a_step_runs_alone_on_its_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
