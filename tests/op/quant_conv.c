/* quant_conv.c -- convolutions of bytes: exact at every level and in every layout.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

typedef struct {
    const char *x, *w; /* sizes */
    int channels;      /* c_out */
    const char *attrs;
} conv_case;

static const conv_case cases[] = {
    {"[1,3,9,8]", "[5,3,3,3]", 5, "pads=[1,1,1,1]"},
    {"[2,16,7,6]", "[33,16,1,1]", 33, ""},
    {"[1,64,12,11]", "[40,64,1,1]", 40, "strides=[2,2]"},
    {"[1,3,20,21]", "[8,3,7,7]", 8, "pads=[3,3,3,3], strides=[2,2]"},
    {"[1,8,10,10]", "[12,4,3,3]", 12, "group=2, pads=[1,0,1,0]"},
    {"[1,35,9,9]", "[35,1,3,3]", 35, "group=35, pads=[1,1,1,1]"},
    {"[2,64,6,7]", "[64,1,5,3]", 64, "group=64, pads=[2,1,2,1], strides=[2,1]"},
    {"[1,6,9,9]", "[12,1,3,3]", 12, "group=6"},
    {"[1,4,9,9]", "[6,4,3,3]", 6, "dilations=[2,3], pads=[2,3,2,3]"},
    {"[2,5,17]", "[7,5,3]", 7, "pads=[2,0]"},
    {"[1,2,4,5,6]", "[3,2,2,3,3]", 3, "pads=[0,1,1,1,1,1]"},
    {"[1,9,6,6]", "[4,9,2,2]", 4, "auto_pad=\"SAME_UPPER\""},
    {"[1,3,50,47]", "[5,3,24,23]", 5, "strides=[24,23]"}, /* patches */
    {"[1,2,9,40]", "[3,2,3,40]", 3, "pads=[1,3,1,3]"},
};

static void check(const char *text, const char *x_type)
{
    op_case c = op_case_of(text);
    bool is_i8 = x_type[0] == 'i';
    c.int_low = is_i8 ? -128 : 0;
    c.int_high = is_i8 ? 128 : 256;
    op_check(&c);
    if (c.ran == 0)
        fail_msg("no tactic took\n%s", text);
}

static void to_bytes(void **state)
{
    (void)state;
    static const char *const types[][2] = {{"u8", "i8"}, {"u8", "u8"}, {"i8", "i8"}};
    for (int i = 0; i < CM_COUNT(cases); i++)
        for (int t = 0; t < 3; t++) {
            char text[1024], per_channel[64] = "[]", bias[64] = "", use[8] = "";
            const char *fill = "{0.013}";
            if (t != 1) {
                snprintf(per_channel, sizeof per_channel, "[%d]", cases[i].channels);
                fill = "random 5";
            }
            if (i % 2 == 0) {
                snprintf(bias, sizeof bias, "@b = i32[%d] random 8\n", cases[i].channels);
                strcpy(use, ", @b");
            }
            snprintf(text, sizeof text,
                     "x: %s%s\n@xs = f32[] {0.02}\n@xz = %s[] {%d}\n@w = %s%s random 2\n"
                     "@ws = f32%s %s\n@wz = %s[] {%d}\n@ys = f32[] {0.4}\n@yz = %s[] {100}\n%s"
                     "y = QLinearConv(x, @xs, @xz, @w, @ws, @wz, @ys, @yz%s) {%s}\nreturn y\n",
                     types[t][0], cases[i].x, types[t][0], t == 2 ? -7 : 130, types[t][1],
                     cases[i].w, per_channel, fill, types[t][1], t == 0 ? 0 : 3 * i, types[t][0],
                     bias, use, cases[i].attrs);
            check(text, types[t][0]);
        }
}

static void integers(void **state)
{
    (void)state;
    for (int i = 0; i < CM_COUNT(cases); i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "x: u8%s\n@xz = u8[] {9}\n@w = u8%s random 2\n@wz = u8[%d] random 3\n"
                 "y = ConvInteger(x, @w, @xz, @wz) {%s}\nreturn y\n",
                 cases[i].x, cases[i].w, cases[i].channels, cases[i].attrs);
        check(text, "u8");
    }
}

static void channels_last(void **state)
{
    (void)state;
    check("x: u8[2,6,7,16]\n@xs = f32[] {0.02}\n@xz = u8[] {3}\n@w = i8[9,16,3,3] random 2\n"
          "@ws = f32[] {0.01}\n@wz = i8[] {0}\n@ys = f32[] {0.4}\n@yz = u8[] {100}\n"
          "y = com.microsoft.QLinearConv(x, @xs, @xz, @w, @ws, @wz, @ys, @yz) "
          "{channels_last=1, pads=[1,1,1,1]}\nreturn y\n",
          "u8");
}

/* Weights that only a run brings. Only GPUs have kernels for these. */
static void weights_that_vary(void **state)
{
    (void)state;
    for (int i = 0; i < CM_COUNT(cases); i++) {
        char text[600];
        snprintf(text, sizeof text,
                 "x: u8%s\nw: u8%s\n@xz = u8[] {7}\nz: u8[]\n"
                 "y = ConvInteger(x, w, @xz, z) {%s}\nreturn y\n",
                 cases[i].x, cases[i].w, cases[i].attrs);
        op_case c = op_case_of(text);
        c.int_high = 256;
        op_check(&c);
        assert_true(c.is_problem);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(to_bytes),
        cmocka_unit_test(integers),
        cmocka_unit_test(channels_last),
        cmocka_unit_test(weights_that_vary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
