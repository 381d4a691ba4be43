/* registry.c -- what every tactic must have.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

static void every_tactic_is_whole(void **state)
{
    (void)state;
    for (int b = 0; cm_backend_at(b); b++) {
        for (int kind = 0; kind < CM_PROBLEM_KIND_COUNT; kind++) {
            int n;
            const cm_tactic *rows = cm_backend_at(b)->tactics((cm_problem_kind)kind, &n);
            for (int i = 0; i < n; i++) {
                assert_non_null(rows[i].name);
                assert_true(rows[i].reject && rows[i].cost && rows[i].run);
                assert_true(!rows[i].pack_bytes == !rows[i].pack);
                for (int k = 0; k < i; k++)
                    assert_string_not_equal(rows[i].name, rows[k].name);
            }
        }
    }
}

static void every_row_names_its_operator_once(void **state)
{
    (void)state;
    for (int i = 0; cm_op_at(i); i++) {
        const cm_problem_row *row = cm_problem_find(cm_op_at(i));
        if (row)
            assert_true(row->op == cm_op_at(i)->id && row->fill);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tactic_is_whole),
        cmocka_unit_test(every_row_names_its_operator_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
