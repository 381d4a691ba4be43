/* program.c -- pointwise programs and the tables of backends.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit/run_case.h"

#include "plan/backend.h"

#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)

static const cm_instr relu_of_sum[] = {
    {CM_INSTR_ADD, CM_F32, {CM_ARG_OPERAND(0), CM_ARG_OPERAND(1), 0}, 0},
    {CM_INSTR_CONST, CM_F32, {0}, 0.0},
    {CM_INSTR_MAX, CM_F32, {0, 1, 0}, 0},
};

static void programs_come_back_as_written(void **state)
{
    run_case *t = *state;
    cm_program p = {3, relu_of_sum}, q;
    ok(t, cm_program_verify(&t->cx, &p, 2));
    cm_program_write(&p, &t->bytes);
    ok(t, cm_program_read(&t->cx, &t->arena, t->bytes.data, t->bytes.n, 2, &q));
    assert_int_equal(q.n, 3);
    assert_int_equal(q.instrs[2].op, CM_INSTR_MAX);
    assert_int_equal(q.instrs[0].arg[1], CM_ARG_OPERAND(1));
    assert_string_equal(cm_instr_name(q.instrs[1].op), "const");
}

static void wrong_programs_are_refused(void **state)
{
    run_case *t = *state;
    cm_program p = {3, relu_of_sum}, q;
    assert_int_equal(CM_ERR_PLAN, cm_program_verify(&t->cx, &p, 1)); /* operand 1 is none */
    cm_program_write(&p, &t->bytes);
    for (size_t n = 0; n < t->bytes.n; n++)
        assert_int_equal(CM_ERR_PLAN,
                         cm_program_read(&t->cx, &t->arena, t->bytes.data, n, 2, &q));
    const cm_instr ahead = {CM_INSTR_NEG, CM_F32, {0}, 0};
    p = (cm_program){1, &ahead}; /* reads itself */
    assert_int_equal(CM_ERR_PLAN, cm_program_verify(&t->cx, &p, 1));
    p.n = 0;
    assert_int_equal(CM_ERR_PLAN, cm_program_verify(&t->cx, &p, 1));
}

static void the_last_tactic_of_each_kind_takes_everything(void **state)
{
    (void)state;
    cm_problem p = {0};
    cm_target target = {0};
    for (int kind = 0; kind < CM_PROBLEM_KIND_COUNT; kind++) {
        int n = 0, last = -1;
        for (int i = 0; cm_backend_at(i); i++) {
            const cm_tactic *tactics = cm_backend_at(i)->tactics((cm_problem_kind)kind, &n);
            last = n ? (tactics[n - 1].reject(&p, &target) == NULL) : last;
        }
        assert_int_equal(last, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(programs_come_back_as_written),
        TEST(wrong_programs_are_refused),
        TEST(the_last_tactic_of_each_kind_takes_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
