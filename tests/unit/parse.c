/* parse.c -- texts that the parser refuses.
 * SPDX-License-Identifier: Apache-2.0 */
#include "run_case.h"

static void broken_texts_are_refused(void **state)
{
    run_case *t = *state;
    static const char *const texts[] = {
        "",
        "x: f32[2",
        "y = ",
        "y = Relu(",
        "y = Nothing()\nreturn y\n",
        "@\"a\\\n\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\ = f32[1] {1}\n", /* an escape ends with its line */
        "@c = f32[99999999999] fill 1\nreturn @c\n",
        "x: f32[2]\ny = Loop(x) do\nreturn y\n",
    };
    for (int i = 0; i < CM_COUNT(texts); i++) {
        cm_network *g = NULL;
        /* A copy without a terminator: reading past it is noticed. */
        size_t n = strlen(texts[i]);
        char *copy = test_malloc(n ? n : 1);
        memcpy(copy, texts[i], n);
        cm_status st = cm_network_parse(&t->cx, &t->arena, copy, n, &g);
        if (st == CM_OK)
            st = cm_network_infer(&t->cx, g);
        if (st == CM_OK && n)
            fail_msg("text %d was taken", i);
        test_free(copy);
    }
}

static void nodes_without_inputs_parse(void **state)
{
    run_case *t = *state;
    const char *text = "y = RandomUniform() {shape=[2]}\nreturn y\n";
    ok(t, cm_network_infer(&t->cx, parse(t, text)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(broken_texts_are_refused, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(nodes_without_inputs_parse, case_setup, case_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
