/* quant_matmul.c -- products of bytes: exact at every level.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

/* i8 operands hold -128..127, u8 ones 0..255: a case of mixed types takes what both hold. */
static void check(const char *text)
{
    op_case c = op_case_of(text);
    c.tolerance = 0;
    bool is_i8 = strstr(text, ": i8["), is_u8 = strstr(text, ": u8[");
    c.int_low = is_i8 && !is_u8 ? -128 : 0;
    c.int_high = is_i8 ? 128 : 256;
    op_check(&c);
    if (c.ran == 0)
        fail_msg("no tactic took\n%s", text);
}

static void integers(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},   {1, 33, 7},  {3, 16, 64},   {8, 32, 4},
                                       {9, 31, 66}, {70, 40, 5}, {65, 65, 129}, {2, 100, 1000}};
    static const char *const types[][2] = {{"u8", "i8"}, {"u8", "u8"}, {"i8", "i8"}, {"i8", "u8"}};
    for (int i = 0; i < CM_COUNT(sizes); i++)
        for (int t = 0; t < 4; t++)
            for (int constant = 0; constant < 2; constant++) {
                char text[512], b[128];
                snprintf(b, sizeof b, constant ? "@b = %s[%d,%d] random 3" : "b: %s[%d,%d]",
                         types[t][1], (int)sizes[i][2], (int)sizes[i][1]);
                snprintf(text, sizeof text,
                         "a: %s[%d,%d]\n%s\n@az = %s[] {%d}\n@bz = %s[] {%d}\n"
                         "y = MatMulInteger(a, %sb, @az, @bz)\nreturn y\n",
                         types[t][0], (int)sizes[i][0], (int)sizes[i][2], b, types[t][0],
                         t % 2 ? 100 : 3, types[t][1], i % 2 ? 0 : 77, constant ? "@" : "");
                check(text);
            }
}

static void to_bytes(void **state)
{
    (void)state;
    check("a: u8[20,64]\n@as = f32[] {0.02}\n@az = u8[] {128}\n@b = i8[64,48] random 2\n"
          "@bs = f32[] {0.01}\n@bz = i8[] {0}\n@ys = f32[] {0.3}\n@yz = u8[] {117}\n"
          "y = QLinearMatMul(a, @as, @az, @b, @bs, @bz, @ys, @yz)\nreturn y\n");
    check("a: i8[2,5,7]\n@as = f32[1] {0.02}\n@az = i8[1] {-5}\n@b = i8[7,3] random 2\n"
          "@bs = f32[3] {0.01,0.02,0.03}\n@bz = i8[3] {0,4,-9}\n@ys = f32[] {0.1}\n"
          "@yz = i8[] {3}\ny = QLinearMatMul(a, @as, @az, @b, @bs, @bz, @ys, @yz)\nreturn y\n");
    check("a: u8[2,3,9,20]\n@as = f32[] {0.02}\n@az = u8[] {7}\nb: u8[2,3,20,11]\n"
          "@bs = f32[] {0.01}\n@bz = u8[] {9}\n@ys = f32[] {0.3}\n@yz = u8[] {1}\n"
          "y = QLinearMatMul(a, @as, @az, b, @bs, @bz, @ys, @yz)\nreturn y\n");
    check("a: u8[9,20]\n@as = f32[] {0.02}\n@az = u8[] {7}\nb: u8[4,20,11]\n"
          "@bs = f32[] {0.01}\n@bz = u8[] {9}\n@ys = f32[] {0.3}\n@yz = u8[] {1}\n"
          "y = QLinearMatMul(a, @as, @az, b, @bs, @bz, @ys, @yz)\nreturn y\n");
    check("a: u8[6,40]\n@as = f32[] {0.02}\n@az = u8[] {7}\n@b = i8[10,40] random 4\n"
          "@bs = f32[10] {1,2,3,4,5,6,7,8,9,10}\n@bz = i8[1] {1}\n@c = i32[10] random 5\n"
          "@ys = f32[] {3.7}\n@yz = u8[] {60}\n"
          "y = com.microsoft.QGemm(a, @as, @az, @b, @bs, @bz, @c, @ys, @yz) {transB=1}\n"
          "return y\n");
}

static void to_reals(void **state)
{
    (void)state;
    check("a: u8[3,40]\n@as = f32[] {0.02}\n@az = u8[] {7}\n@b = i8[40,37] random 4\n"
          "@bs = f32[] {0.013}\n@bz = i8[] {1}\n@c = f32[37] random 5\n"
          "y = com.microsoft.MatMulIntegerToFloat(a, @b, @as, @bs, @az, @bz, @c)\nreturn y\n");
    check(
        "a: u8[3,40]\n@as = f32[] {0.02}\n@b = u8[40,37] random 4\n@bs = f32[37] random 7\n"
        "@z = f32[37] random 9\n"
        "y = com.microsoft.MatMulIntegerToFloat(a, @b, @as, @bs | @z) then \"add x $0; relu %0\"\n"
        "return y\n");
    check("a: f32[30,65]\n@b = i8[65,20] random 4\n@bs = f32[] {0.013}\n"
          "y = com.microsoft.DynamicQuantizeMatMul(a, @b, @bs)\nreturn y\n");
    check("a: f32[2,3,64]\n@b = u8[64,33] random 4\n@bs = f32[33] random 2\n@bz = u8[33] random 3\n"
          "@c = f32[33] random 6\ny = com.microsoft.DynamicQuantizeMatMul(a, @b, @bs, @bz, @c)\n"
          "return y\n");
    check("a: u8[6,40]\n@as = f32[] {0.02}\n@az = u8[] {7}\n@b = i8[40,10] random 4\n"
          "@bs = f32[] {0.5}\n@bz = i8[] {1}\n"
          "y = com.microsoft.QGemm(a, @as, @az, @b, @bs, @bz) {alpha=0.7}\nreturn y\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),
        cmocka_unit_test(to_bytes),
        cmocka_unit_test(to_reals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
