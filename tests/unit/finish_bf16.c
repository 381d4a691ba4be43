/* finish_bf16.c -- sums on their way out: the processor's rounding and ours give the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "cpu/finish_bf16.h"

enum { ROWS = 3, COLUMNS = 32, LD = 40 };

static float number(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void finish(bool by_instruction, bool residual, int64_t n, const float *x, uint16_t *out)
{
    uint16_t more[ROWS * LD], bias[COLUMNS];
    for (int i = 0; i < ROWS * LD; i++)
        more[i] = (uint16_t)(0x3f80 + i);
    for (int i = 0; i < COLUMNS; i++)
        bias[i] = (uint16_t)(i % 3 ? 0x8000 : 0xbf80 + i);
    cm_bf16_finish f = {.out = out, .ld = LD, .by_instruction = by_instruction};
    f.c.act = CM_PW_CLIP;
    f.c.lo = -INFINITY;
    f.c.hi = INFINITY;
    f.c.bias = (cm_chain_operand){bias, CM_BF16, 0};
    if (residual)
        f.c.residual = (cm_chain_operand){more, CM_BF16, LD};
    memset(out, 0xcd, ROWS * LD * sizeof *out);
    cm_bf16_finish_panel(&f, 0, 0, ROWS, n, x, COLUMNS);
}

/* Ties to both sides, what rounds to infinity, infinities, NaN; no denormals, which one of them makes zero. */
static void both_roundings_agree(void **state)
{
    (void)state;
    const uint32_t some[] = {0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, 0xbf808000,
                             0x7f7fffff, 0xff7f8000, 0x7f800000, 0xff800000, 0x7fc00001,
                             0x00800000, 0x80000000, 0x40490fdb, 0x7f800001, 0x4b7fffff};
    float x[ROWS * COLUMNS];
    uint16_t ours[ROWS * LD], its[ROWS * LD];
    if (!cm_cpu_info()->bf16)
        skip();
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = number(some[i * 7 % (int)(sizeof some / sizeof *some)]);
    for (int64_t n = 1; n <= COLUMNS; n += 31)
        for (int residual = 0; residual < 2; residual++) {
            finish(false, residual, n, x, ours);
            finish(true, residual, n, x, its);
            assert_memory_equal(ours, its, sizeof ours);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_roundings_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
