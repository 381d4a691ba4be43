/* cpu.c -- what this machine says of itself.
 * SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cpu.h"

static void the_answer_is_plausible_and_constant(void **state)
{
    (void)state;
    const cm_cpu *c = cm_cpu_info();
    assert_ptr_equal(cm_cpu_info(), c);
    assert_true(c->name[0] != 0);
    assert_in_range(c->isa, CM_ISA_GENERIC, CM_ISA_AMX);
    assert_true(c->cores >= 1 && c->threads >= c->cores);
    assert_true(c->l1d_bytes >= 0 && c->l2_bytes >= 0 && c->l3_bytes >= 0);
    assert_true(c->isa >= CM_ISA_AVX2 || !(c->vnni || c->bf16 || c->f16c));
    /* the compiler's own probe looks at the same cpuid bits */
    assert_int_equal(c->isa >= CM_ISA_AVX2,
                     __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    assert_int_equal(c->isa >= CM_ISA_AVX512,
                     __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
}

static void affinity_counts(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_in_range(cm_cpu_cores(), 1, CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(cm_cpu_cores(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void levels_have_names(void **state)
{
    (void)state;
    for (int i = 0; i < CM_ISA_COUNT; i++) {
        cm_isa isa = CM_ISA_COUNT;
        assert_true(cm_isa_parse(cm_isa_name((cm_isa)i), &isa));
        assert_int_equal(isa, i);
    }
    cm_isa isa;
    assert_false(cm_isa_parse("sse", &isa));
    assert_string_equal(cm_isa_name(CM_ISA_COUNT), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_is_plausible_and_constant),
        cmocka_unit_test(affinity_counts),
        cmocka_unit_test(levels_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
