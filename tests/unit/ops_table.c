/* ops_table.c -- every row of the operator table is whole.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ops/signature.h"

static void every_row_has_a_rule_and_a_reference(void **state)
{
    (void)state;
    for (int i = 0; cm_op_at(i); i++) {
        const cm_op *op = cm_op_at(i);
        bool control = op->traits & CM_CONTROL;
        if (!op->family || (!control && (!op->family->infer || !op->family->eval)))
            fail_msg("%s has no type rule or no evaluator", op->name);
        if (!cm_signature_valid(op->signature))
            fail_msg("the signature of %s is malformed: %s", op->name, op->signature);
        if (op->min_in > op->max_in || op->min_out > op->max_out)
            fail_msg("%s has a least count above its most", op->name);
        if (!!(op->traits & CM_PURE) + !!(op->traits & CM_RANDOM) + control != 1)
            fail_msg("%s is not exactly one of pure, random and control", op->name);
    }
}

static void names_are_unique_and_found(void **state)
{
    (void)state;
    for (int i = 0; cm_op_at(i); i++)
        if (cm_op_find(cm_op_at(i)->name) != cm_op_at(i))
            fail_msg("%s is listed twice", cm_op_at(i)->name);
    assert_null(cm_op_find("NoSuchOperator"));
}

static void attribute_fields_fit_their_struct(void **state)
{
    (void)state;
    for (int i = 0; cm_op_at(i); i++) {
        const cm_op *op = cm_op_at(i);
        const cm_attr_desc *d = op->attrs;
        assert_true(d->n_fields <= 64);
        for (int k = 0; k < d->n_fields; k++) {
            if (d->fields[k].offset < sizeof(uint64_t) || d->fields[k].offset >= d->bytes)
                fail_msg("%s: attribute %s lies outside its struct", op->name, d->fields[k].name);
            if (cm_attr_find(d, d->fields[k].name) != &d->fields[k])
                fail_msg("%s: attribute %s is listed twice", op->name, d->fields[k].name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_a_rule_and_a_reference),
        cmocka_unit_test(names_are_unique_and_found),
        cmocka_unit_test(attribute_fields_fit_their_struct),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
