/* einsum.c -- the grammar, diagonals, empty sums, garbage
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("Einsum", "equation=bij,bjk->bik", "f32[b,i,j]", "f32[b,j,k]", NULL), "f32[b,i,k]");
    SAME(infer("Einsum", "equation=...i,...i", "f32[b,1,k]", "f32[h,k]", NULL), "f32[b,h]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("Einsum", "equation=->", "i8[]{7}", NULL), "i8[]{7}");
    SAME(eval("Einsum", "equation=ij,jk->ki", "i8[1,2]{100,100}", "i8[2,1]{1,1}", NULL),
         "i8[1,1]{-56}");
    SAME(eval("Einsum", "equation=ii->i", "f16[2,2]{1,2,3,4}", NULL), "f16[2]{1,4}");
    SAME(eval("Einsum", "equation=i,j,k->", "i64[2]{1,2}", "i64[0]{}", "i64[3]{1,2,3}", NULL),
         "i64[]{0}");
    SAME(eval("Einsum", "equation=ij,ja->ia", "f32[2,0]{}", "f32[0,2]{}", NULL),
         "f32[2,2]{0,0,0,0}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("Einsum", "equation=ij,jk", "f32[2,3]", "f32[4,5]", NULL),
         "shapes do not broadcast: 3 against 4 at axis 1 from the right");
    SAME(infer("Einsum", "equation=ij->ik", "f32[2,3]", NULL),
         "an output index of the equation is repeated or unknown");
    SAME(infer("Einsum", "equation=ij->ii", "f32[2,3]", NULL),
         "an output index of the equation is repeated or unknown");
    SAME(infer("Einsum", "equation=ij,k", "f32[2,3]", NULL),
         "equation has more terms than the 1 operands");
    SAME(infer("Einsum", "equation=i$", "f32[2,3]", NULL),
         "equation has '$' where an index was wanted");
    SAME(infer("Einsum", "equation=i-j", "f32[2,3]", NULL), "equation has '-' without '>'");
    SAME(infer("Einsum", "equation=ijk", "f32[2,3]", NULL),
         "term 0 of the equation has 3 indices, operand of rank 2");
    SAME(infer("Einsum", "equation=......", "f32[2,3]", NULL),
         "equation has '.' where an index was wanted");
    SAME(infer("Einsum", "equation=", "f32[2]", NULL),
         "term 0 of the equation has 0 indices, operand of rank 1");
    SAME(infer("Einsum", "equation=ij->->", "f32[2,3]", NULL),
         "equation goes on after the output term");
    SAME(infer("Einsum", "equation=abcdefghijklmnopqrstuvwxyzabcdefghij", "f32[2,3]", NULL),
         "a term of the equation has more than 32 indices");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_shapes),
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
