/* lower.c -- networks to steps: numbering, constants, captures, control steps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit/run_case.h"

#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)

static int count(const cm_plan *p, cm_storage storage)
{
    int n = 0;
    for (int i = 0; i < p->n_values; i++)
        n += p->values[i].storage == storage;
    return n;
}

static void nodes_become_steps(void **state)
{
    run_case *t = *state;
    build(t,
          "x: f32[n,4]\n@w = f32[4,2] fill 1\n@unused = f32[9] fill 2\n"
          "a = MatMul(x, @w) from \"/m\", \"/n\"\ny = Softmax(a) {axis=0}\nreturn y as \"out\"\n");
    const cm_plan_list *l = &t->plan->variants[0].lists[0];
    assert_int_equal(t->plan->n_values, 4);
    assert_int_equal(count(t->plan, CM_STORE_INPUT), 1);
    assert_int_equal(count(t->plan, CM_STORE_CONSTANT), 1);
    assert_int_equal(l->n_steps, 2);
    assert_string_equal(l->steps[0].op, "MatMul");
    assert_string_equal(l->steps[0].name, "/m");
    assert_int_equal(l->steps[0].n_from, 2);
    assert_string_equal(l->steps[0].from[1], "/n");
    assert_int_equal(l->steps[0].kind, CM_STEP_PROBLEM);
    assert_int_equal(l->steps[1].in[0].value, l->steps[0].out[0].value);
    assert_string_equal(l->output_names[0], "out");
    assert_string_equal(t->plan->values[0].name, "x");
    assert_true(t->plan->values[0].type.dims[0] < 0);
}

static void steps_state_their_kind_of_problem(void **state)
{
    run_case *t = *state;
    build(t, "x: f32[2,4]\n@w = f32[4,2] fill 1\na = MatMul(x, @w)\nb = Softmax(a)\n"
             "c, i = Unique(b)\nreturn c\n");
    const cm_plan_step *s = t->plan->variants[0].lists[0].steps;
    assert_int_equal(s[0].problem, CM_PROBLEM_MATMUL);
    assert_int_equal(s[1].problem, CM_PROBLEM_ROWS);
    assert_int_equal(s[2].problem, CM_PROBLEM_EVALUATE);
}

static void absent_operands_are_minus_one(void **state)
{
    run_case *t = *state;
    build(t, "x: f32[4]\n@hi = f32[] {1}\ny = Clip(x, _, @hi)\nreturn y\n");
    const cm_plan_step *s = &t->plan->variants[0].lists[0].steps[0];
    assert_int_equal(s->n_in, 3);
    assert_int_equal(s->in[1].value, -1);
    assert_true(s->in[2].value >= 0);
}

static void captures_are_complete_and_sorted(void **state)
{
    run_case *t = *state;
    build(t, "c: bool[]\nx: f32[2]\n@k = f32[2] {1, 2}\na = Relu(x)\nb = Neg(x)\n"
             "y = If(c) do\n  p = Add(b, @k)\n  q = If(c) do\n    r = Add(p, a)\n    return r\n"
             "  end do\n    return b\n  end\n  return q\nend do\n  return @k\nend\nreturn y\n");
    const cm_plan_variant *v = &t->plan->variants[0];
    assert_int_equal(v->n_lists, 5);
    const cm_plan_step *s = &v->lists[0].steps[2];
    assert_int_equal(s->kind, CM_STEP_IF);
    const cm_plan_list *then = &v->lists[s->lists[0]], *other = &v->lists[s->lists[1]];
    assert_int_equal(then->n_captures, 3); /* c, a, b; not k, not p */
    for (int i = 1; i < then->n_captures; i++)
        assert_true(then->captures[i - 1] < then->captures[i]);
    assert_int_equal(other->n_captures, 0);
    const cm_plan_list *inner = &v->lists[then->steps[1].lists[0]];
    assert_int_equal(inner->n_captures, 2); /* a and p */
    assert_int_equal(v->lists[then->steps[1].lists[1]].n_captures, 1);
    assert_int_equal(v->lists[0].n_captures, 0);
}

static void weights_keep_their_names(void **state)
{
    run_case *t = *state;
    cm_network *g = parse(t, "x: f32[2]\n@w = f32[2] {1, 2}\n@v = f32[2] {1, 2}\n"
                             "a = Add(x, @w)\ny = Add(a, @v)\nreturn y\n");
    for (cm_node *n = g->first; n; n = n->next)
        n->in[1]->weight = n == g->first ? "model.w" : "model.v";
    ok(t, cm_lower(&t->cx, &t->arena, g, &t->plan, &t->constants));
    ok(t, cm_plan_write_memory(&t->cx, t->plan, t->constants, &t->bytes));
    cm_plan *p;
    ok(t, cm_plan_read(&t->cx, &t->arena, t->bytes.data, t->bytes.n, &p));
    assert_int_equal(p->n_weights, 2);
    const cm_plan_list *l = &p->variants[0].lists[0];
    const cm_plan_value *w = &p->values[l->steps[0].in[1].value];
    const cm_plan_value *v = &p->values[l->steps[1].in[1].value];
    assert_string_equal(p->weights[w->weight].name, "model.w");
    assert_string_equal(p->weights[v->weight].name, "model.v");
    assert_int_equal(w->offset, v->offset);
}

static void failing_allocations_are_reported(void **state)
{
    run_case *t = *state;
    cm_network *g = parse(t, "c: bool[]\nx: f32[2]\n@k = f32[2] {1, 2}\ny = If(c) do\n"
                             "  a = Add(x, @k)\n  return a\nend do\n  return x\nend\nreturn y\n");
    for (size_t k = 1;; k++) {
        cm_arena arena;
        cm_arena_init(&arena, NULL);
        arena.fail_after = k;
        cm_status st = cm_lower(&t->cx, &arena, g, &t->plan, &t->constants);
        bool failed = arena.fail_after == 0;
        cm_arena_deinit(&arena);
        if (!failed) {
            assert_int_equal(CM_OK, st);
            return;
        }
        assert_int_equal(CM_ERR_MEMORY, st);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nodes_become_steps),
        TEST(steps_state_their_kind_of_problem),
        TEST(absent_operands_are_minus_one),
        TEST(captures_are_complete_and_sorted),
        TEST(weights_keep_their_names),
        TEST(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
