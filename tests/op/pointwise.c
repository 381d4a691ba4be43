/* pointwise.c -- pointwise tactics against the reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

/* A case that must run on some tactic. Float32 steps are rounded each, the reference's only once:
 * 4e-6 of the largest result leaves room for a dozen of them. */
static void check(double low, double high, int hurt, double tolerance, const char *text)
{
    op_case c = op_case_of(text);
    c.low = low;
    c.high = high;
    c.hurt = hurt;
    c.tolerance = tolerance;
    op_check(&c);
    if (!c.ran)
        fail_msg("no tactic takes\n%s", text);
}

#define CHECKF(low, high, hurt, tolerance, ...)                                                    \
    do {                                                                                           \
        char text_[1024];                                                                          \
        snprintf(text_, sizeof text_, __VA_ARGS__);                                                \
        check(low, high, hurt, tolerance, text_);                                                  \
    } while (0)

static void one_operator_each(void **state)
{
    (void)state;
    static const char *unary[] = {
        "Neg",        "Abs",         "Sign", "Floor",    "Ceil",     "Round",          "Sqrt",
        "Reciprocal", "Exp",         "Log",  "Sin",      "Cos",      "Tanh",           "Sigmoid",
        "Erf",        "Relu",        "Mish", "Softplus", "Softsign", "HardSwish",      "Elu",
        "LeakyRelu",  "HardSigmoid", "Gelu", "Swish",    "Selu",     "ThresholdedRelu"};
    static const char *sizes[] = {"1", "15", "3,5,7", "2,3,40,5", "5000", "0", "1,1,1,1"};
    for (int i = 0; i < CM_COUNT(unary); i++)
        for (int s = 0; s < CM_COUNT(sizes); s++) {
            bool positive = !strcmp(unary[i], "Sqrt") || !strcmp(unary[i], "Log") ||
                            !strcmp(unary[i], "Reciprocal");
            if (!strcmp(sizes[s], "0"))
                continue;
            CHECKF(positive ? 0.1 : -4, 4, 0, 4e-7, "x: f32[%s]\ny = %s(x)\nreturn y\n", sizes[s],
                   unary[i]);
            CHECKF(-4, 4, 5, 4e-7, "x: f32[%s]\ny = %s(x)\nreturn y\n", sizes[s], unary[i]);
        }
    CHECKF(-4, 4, 0, 4e-6, "x: f32[70]\ny = Gelu(x) {approximate=\"tanh\"}\nreturn y\n");
    CHECKF(-4, 4, 0, 4e-6, "x: f32[70]\ny = Swish(x) {alpha=1.702}\nreturn y\n");
}

static void two_operands(void **state)
{
    (void)state;
    static const char *binary[] = {"Add", "Sub", "Mul", "Div", "PRelu", "Max", "Min", "Pow"};
    static const char *shapes[][2] = {{"7", "7"},
                                      {"300", "1"},
                                      {"2,300", "300"},
                                      {"2,3,4,5", "3,1,1"},
                                      {"2,3,4,5", "2,3,1,1"},
                                      {"4,1,5", "1,5"},
                                      {"6,257", "6,1"},
                                      {"2,9,3,3", "2,9,3,3"},
                                      {"3,2,1000", "1"},
                                      {"2,70,6,5", "1,70,1,1"}};
    for (int i = 0; i < CM_COUNT(binary); i++)
        for (int s = 0; s < CM_COUNT(shapes); s++) {
            bool power = !strcmp(binary[i], "Pow");
            CHECKF(power ? 0.2 : -3, 3, power ? 0 : 6, 1e-6,
                   "x: f32[%s]\nz: f32[%s]\ny = %s(x, z)\nreturn y\n", shapes[s][0], shapes[s][1],
                   binary[i]);
            if (strcmp(binary[i], "PRelu") != 0)
                CHECKF(power ? 0.2 : -3, 3, power ? 0 : 6, 1e-6,
                       "x: f32[%s]\nz: f32[%s]\ny = %s(z, x)\nreturn y\n", shapes[s][0],
                       shapes[s][1], binary[i]);
        }
    CHECKF(-3, 3, 6, 1e-6, "x: f32[5,1]\nz: f32[1,9]\ny = Sub(x, z)\nreturn y\n");
    CHECKF(-3, 3, 6, 1e-6, "x: f32[300,1]\nz: f32[1,300]\ny = Sub(x, z)\nreturn y\n");
    CHECKF(-3, 3, 0, 1e-6, "x: f32[40]\n@e = i64[] {2}\ny = Pow(x, @e)\nreturn y\n");
    CHECKF(-3, 3, 6, 1e-6, "a: f32[9]\nb: f32[4,9]\nc: f32[1]\ny = Sum(a, b, c)\nreturn y\n");
    CHECKF(-3, 3, 6, 1e-6, "a: f32[9]\nb: f32[4,9]\nc: f32[1]\ny = Mean(a, b, c)\nreturn y\n");
    CHECKF(-3, 3, 6, 1e-6, "a: f32[9]\nb: f32[4,9]\nc: f32[1]\ny = Max(a, b, c)\nreturn y\n");
}

static void bounds_of_clip(void **state)
{
    (void)state;
    CHECKF(-3, 3, 6, 0,
           "x: f32[3,50]\n@l = f32[] {-1}\n@h = f32[] {2}\ny = Clip(x, @l, @h)\nreturn y\n");
    CHECKF(-3, 3, 6, 0, "x: f32[3,50]\n@l = f32[] {0}\ny = Clip(x, @l)\nreturn y\n");
    CHECKF(-3, 3, 6, 0, "x: f32[3,50]\nh: f32[]\ny = Clip(x, _, h)\nreturn y\n");
    CHECKF(-3, 3, 1, 0, "x: f32[3,50]\nl: f32[]\nh: f32[]\ny = Clip(x, l, h)\nreturn y\n");
}

static void truth_values(void **state)
{
    (void)state;
    static const char *compare[] = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"};
    for (int i = 0; i < CM_COUNT(compare); i++) {
        CHECKF(-3, 3, 3, 0, "x: f32[5,70]\nz: f32[70]\ny = %s(x, z)\nreturn y\n", compare[i]);
        CHECKF(-3, 3, 3, 0, "x: f16[5,70]\nz: f16[5,1]\ny = %s(x, z)\nreturn y\n", compare[i]);
    }
    static const char *logic[] = {"And", "Or", "Xor"};
    for (int i = 0; i < CM_COUNT(logic); i++)
        CHECKF(0, 1, 0, 0, "x: bool[5,70]\nz: bool[70]\ny = %s(x, z)\nreturn y\n", logic[i]);
    CHECKF(0, 1, 0, 0, "x: bool[77]\ny = Not(x)\nreturn y\n");
    CHECKF(-3, 3, 2, 0, "x: f32[77]\ny = IsNaN(x)\nreturn y\n");
    CHECKF(-3, 3, 2, 0, "x: f32[77]\ny = IsInf(x)\nreturn y\n");
    CHECKF(-3, 3, 2, 0, "x: f32[77]\ny = IsInf(x) {detect_negative=0}\nreturn y\n");
    CHECKF(-3, 3, 3, 0, "c: bool[4,1]\nx: f32[4,70]\nz: f32[]\ny = Where(c, x, z)\nreturn y\n");
    CHECKF(-3, 3, 3, 0, "c: bool[4,30]\nx: bf16[1]\nz: bf16[4,30]\ny = Where(c, x, z)\nreturn y\n");
}

static void whole_numbers_compared(void **state)
{
    (void)state;
    static const char *compare[] = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"};
    static const char *shapes[][2] = {{"[5,70]", "[70]"},
                                      {"[5,1]", "[70]"},
                                      {"[70]", "[5,1]"},
                                      {"[3,5,9]", "[5,1]"},
                                      {"[3,1,2]", "[5,1]"}};
    for (int i = 0; i < CM_COUNT(compare); i++)
        for (int k = 0; k < CM_COUNT(shapes); k++)
            for (int wide = 0; wide < 2; wide++) {
                char text[200];
                snprintf(text, sizeof text, "x: i%d%s\nz: i%d%s\ny = %s(x, z)\nreturn y\n",
                         wide ? 64 : 32, shapes[k][0], wide ? 64 : 32, shapes[k][1], compare[i]);
                op_case c = op_case_of(text);
                c.int_low = -4;
                c.int_high = 4;
                op_check(&c);
                assert_true(c.ran > 0);
            }
}

static void casts(void **state)
{
    (void)state;
    static const char *from[] = {"f32", "f16", "bf16", "bool"};
    static const int to[] = {1, 10, 16, 9};
    for (int i = 0; i < CM_COUNT(from); i++)
        for (int k = 0; k < CM_COUNT(to); k++)
            CHECKF(-3, 3, 3, 0, "x: %s[3,77]\ny = Cast(x) {to=%d}\nreturn y\n", from[i], to[k]);
    CHECKF(-3, 3, 0, 0, "x: u8[3,77]\ny = Cast(x) {to=1}\nreturn y\n");
    /* few channels innermost, while pixels are adjacent in the input */
    CHECKF(-3, 3, 0, 0, "x: f32[2,3,9,40]\ny = Cast(x) {to=16}\nreturn y\n");
    CHECKF(-3, 3, 0, 0, "x: f32[2,3,60,70]\ny = Cast(x) {to=16}\nreturn y\n");
    CHECKF(-3, 3, 0, 0, "x: f32[2,3,9,40]\nb: f32[3,1,1]\ny = Add(x, b)\nreturn y\n");
    CHECKF(-3, 3, 0, 0, "x: i16[3,77]\ny = Cast(x) {to=16}\nreturn y\n");
}

static const char *programs[] = {
    "add $0 $1; relu %0",
    "mul $0 $1; add %0 $2",
    "mul $0 $1; add %0 $2; relu %1",
    "sub $0 $1; pow %0 2; mul %1 0.5; exp %2; neg %3",
    "add $0 $1; sigmoid %0; mul %0 %1",
    "mul $0 0.5; add %0 $1; tanh %1; mul %2 $2; add %3 $0; gelu %4; max %5 $1; min %6 3; clip %7 "
    "-2 2",
    "lt $0 $1; select %0 $2 $0",
    "mul 2 3; add %0 $0; add $1 $1; sub %1 %2; div %3 2",
    "add $1 $2; add $1 $2; mul %0 %1; add %2 $0",
};

static void groups(void **state)
{
    (void)state;
    static const char *shapes[][3] = {
        {"11", "11", "11"},      {"4,300", "300", "4,1"},           {"2,5,6,7", "5,1,1", "2,5,6,7"},
        {"3,700", "1", "3,700"}, {"2,40,4,4", "40,1,1", "2,1,4,4"}, {"5,9,13", "9,1", "13"},
        {"9000", "9000", "1"},   {"2,3,1,1", "2,3,1,1", "1"}};
    for (int i = 0; i < CM_COUNT(programs); i++)
        for (int s = 0; s < CM_COUNT(shapes); s++)
            CHECKF(-2, 2, 0, 1e-5,
                   "a: f32[%s]\nb: f32[%s]\nc: f32[%s]\n"
                   "y = cameo.Pointwise(a, b, c) {program=\"%s\", to=[1]}\nreturn y\n",
                   shapes[s][0], shapes[s][1], shapes[s][2], programs[i]);
}

/* Those that kernels compute together with a sum before them, the number on either side. */
static void functions_of_sums(void **state)
{
    (void)state;
    static const char *names[] = {"neg",     "abs",      "sqrt",     "exp",  "tanh",
                                  "sigmoid", "erf",      "relu",     "gelu", "gelu_tanh",
                                  "silu",    "softplus", "hardswish"};
    static const char *sums[] = {"$0 $1", "$0 0.25", "0.25 $0", "$1 0.5"};
    static const char *shapes[][2] = {
        {"1", "1"}, {"15", "15"}, {"700", "1"}, {"3,33", "33"}, {"3,300", "3,1"}};
    for (int i = 0; i < CM_COUNT(names); i++)
        for (int k = 0; k < CM_COUNT(sums); k++)
            for (int s = 0; s < CM_COUNT(shapes); s++)
                for (int hurt = 0; hurt < 6; hurt += 5)
                    CHECKF(strcmp(names[i], "sqrt") ? -5 : 0.1, 5, hurt, 2e-6,
                           "a: f32[%s]\nb: f32[%s]\n"
                           "y = cameo.Pointwise(a, b) {program=\"add %s; %s %%0\", to=[1]}\n"
                           "return y\n",
                           shapes[s][0], shapes[s][1], sums[k], names[i]);
}

/* Results are rounded to the output's type: half a step of it, and a step where float32's rounding
 * tips the balance. */
static void groups_of_other_types(void **state)
{
    (void)state;
    for (int i = 0; i < CM_COUNT(programs); i++) {
        CHECKF(-2, 2, 0, 0x1p-10,
               "a: f16[4,70]\nb: f32[70]\nc: bf16[4,1]\n"
               "y = cameo.Pointwise(a, b, c) {program=\"%s\", to=[10]}\nreturn y\n",
               programs[i]);
        CHECKF(-2, 2, 0, 0x1p-7,
               "a: f32[2,9,5,3]\nb: f16[]\nc: bool[2,9,5,3]\n"
               "y = cameo.Pointwise(a, b, c) {program=\"%s\", to=[16]}\nreturn y\n",
               programs[i]);
    }
}

static void several_outputs(void **state)
{
    (void)state;
    CHECKF(-2, 2, 0, 1e-5,
           "a: f32[6,50]\nb: f32[50]\n"
           "y, z = cameo.Pointwise(a, b) {program=\"add $0 $1; exp %%0; mul %%1 $0 -> %%1 %%2\", "
           "to=[1,1]}\nreturn y, z\n");
    CHECKF(-2, 2, 0, 0x1p-9,
           "a: f32[2,6,5,5]\nb: f32[6,1,1]\n"
           "y, z, w = cameo.Pointwise(a, b) {program=\"add $0 $1; lt %%0 0; mul %%0 $0 -> %%2 %%1 "
           "%%0\", "
           "to=[1,9,10]}\nreturn y, z, w\n");
    CHECKF(-2, 2, 0, 1e-5,
           "a: f32[600]\n"
           "y, z = cameo.Pointwise(a) {program=\"abs $0; relu $0 -> %%1 %%1\", to=[1,1]}\n"
           "return y, z\n");
}

/* Exactly, in 64 bits or in doubles. */
static void integers_and_doubles(void **state)
{
    (void)state;
    static const char *types[] = {"i64", "i32", "u8", "i8", "i16", "u16", "u32", "u64"};
    static const char *both[] = {"Add", "Sub", "Mul", "Equal", "Less", "GreaterOrEqual",
                                 "Max", "Min"};
    static const char *one[] = {"Neg", "Abs", "Sign", "Relu"};
    for (int t = 0; t < CM_COUNT(types); t++) {
        bool is_signed = *types[t] == 'i', u64 = !strcmp(types[t], "u64");
        for (int i = 0; i < CM_COUNT(both); i++) {
            char text[400];
            snprintf(text, sizeof text, "x: %s[3,300]\nz: %s[300]\ny = %s(x, z)\nreturn y\n",
                     types[t], types[t], both[i]);
            op_case c = op_case_of(text);
            c.int_low = is_signed ? -100 : 0;
            c.int_high = 120;
            op_check(&c);
            assert_true(c.ran > 0 || (u64 && i > 3));
        }
        for (int i = 0; i < CM_COUNT(one) && is_signed; i++)
            CHECKF(0, 1, 0, 0, "x: %s[2,9,5]\ny = %s(x)\nreturn y\n", types[t], one[i]);
        CHECKF(0, 1, 0, 0, "c: bool[40]\nx: %s[5,40]\nz: %s[]\ny = Where(c, x, z)\nreturn y\n",
               types[t], types[t]);
        if (!u64)
            CHECKF(0, 1, 0, 0, "x: %s[70]\n@l = %s[] {3}\ny = Clip(x, @l)\nreturn y\n", types[t],
                   types[t]);
    }
    static const char *doubles[] = {"Add", "Sub", "Mul", "Div", "Equal", "Less", "Max", "Min"};
    for (int i = 0; i < CM_COUNT(doubles); i++)
        CHECKF(-3, 3, 9, 0, "x: f64[3,1,7]\nz: f64[5,1]\ny = %s(x, z)\nreturn y\n", doubles[i]);
    CHECKF(-3, 3, 9, 0, "x: f64[700]\ny = Sqrt(x)\nreturn y\n");
    CHECKF(-3, 3, 9, 0, "x: f64[2,3,4,5]\ny = Round(x)\nreturn y\n");
}

static void casts_of_integers(void **state)
{
    (void)state;
    static const char *types[] = {"i64",  "i32", "u8",  "i8",  "i16", "u32",
                                  "bool", "f32", "f64", "f16", "bf16"};
    static const int to[] = {7, 6, 2, 3, 5, 12, 9, 1, 11, 10, 16};
    for (int i = 0; i < CM_COUNT(types); i++)
        for (int k = 0; k < CM_COUNT(to); k++) {
            char text[200];
            snprintf(text, sizeof text, "x: %s[3,2,170]\ny = Cast(x) {to=%d}\nreturn y\n", types[i],
                     to[k]);
            op_case c = op_case_of(text);
            c.low = -300;
            c.high = 300;
            c.hurt = 8;
            c.int_low = *types[i] == 'i' ? -100 : 0;
            c.int_high = !strcmp(types[i], "i64") ? INT64_C(1) << 60 : 120;
            c.tolerance = 0;
            op_check(&c);
            assert_true(c.ran > 0);
        }
}

/* Inputs whose low bits are any: sums and products wrap in every width. */
static void check_wrapping(const char *text, bool huge)
{
    op_case c = op_case_of(text);
    c.int_low = huge ? -(INT64_C(1) << 61) : -(INT64_C(1) << 50);
    c.int_high = huge ? INT64_C(1) << 61 : c.int_low + (INT64_C(134217689) << 24);
    c.low = -300;
    c.high = 300;
    c.hurt = 7;
    c.tolerance = 0;
    c.only = "typed";
    op_check(&c);
    if (!c.ran)
        fail_msg("not taken:\n%s", text);
}

#define WRAPPING(...)                                                                              \
    do {                                                                                           \
        char text_[400];                                                                           \
        snprintf(text_, sizeof text_, __VA_ARGS__);                                                \
        check_wrapping(text_, false);                                                              \
        check_wrapping(text_, true);                                                               \
    } while (0)

static const char *const own_types[] = {"i64", "i32", "u8", "i8", "i16", "u16", "u32", "u64"};
/* Scalars, columns, rows, strided rows beside each other, and lengths around blocks and pieces. */
static const char *const own_shapes[][2] = {{"1", "1"},         {"63", "63"},       {"65", "1"},
                                            {"9001", "9001"},   {"3,300", "300"},   {"3,300", "1"},
                                            {"5,70", "5,1"},    {"2,3,4,5", "4,1"}, {"400,3", "3"},
                                            {"400,3", "400,1"}, {"2,9,5", "2,1,5"}};

static void own_types_of_two(void **state)
{
    (void)state;
    static const char *const both[] = {
        "Add",        "Sub",       "Mul",         "Max",     "Min",
        "Equal",      "Less",      "LessOrEqual", "Greater", "GreaterOrEqual",
        "BitwiseAnd", "BitwiseOr", "BitwiseXor"};
    for (int t = 0; t < CM_COUNT(own_types); t++)
        for (int i = 0; i < CM_COUNT(both); i++)
            for (int s = 0; s < CM_COUNT(own_shapes); s++) {
                WRAPPING("x: %s[%s]\nz: %s[%s]\ny = %s(x, z)\nreturn y\n", own_types[t],
                         own_shapes[s][0], own_types[t], own_shapes[s][1], both[i]);
                WRAPPING("x: %s[%s]\nz: %s[%s]\ny = %s(z, x)\nreturn y\n", own_types[t],
                         own_shapes[s][0], own_types[t], own_shapes[s][1], both[i]);
            }
}

static void own_types_of_one(void **state)
{
    (void)state;
    static const char *const one[] = {"Neg", "Abs", "Sign", "Relu", "BitwiseNot"};
    static const char *const sizes[] = {"1", "64", "77", "2,9,5", "9001"};
    for (int t = 0; t < CM_COUNT(own_types); t++)
        for (int i = 0; i < CM_COUNT(one); i++)
            for (int s = 0; s < CM_COUNT(sizes); s++)
                if (*own_types[t] == 'i' || (strcmp(one[i], "Neg") && strcmp(one[i], "Relu")))
                    WRAPPING("x: %s[%s]\ny = %s(x)\nreturn y\n", own_types[t], sizes[s], one[i]);
    WRAPPING("@x = i32[4] {-2147483648, 2147483647, -1, 0}\ny = Abs(@x)\nreturn y\n");
    WRAPPING("@x = i32[4] {-2147483648, 2147483647, -1, 0}\ny = Neg(@x)\nreturn y\n");
    WRAPPING("x: i32[4]\n@z = i32[3,1] {-2147483648, 2147483647, -1}\ny = Mul(x, @z)\nreturn y\n");
    WRAPPING("x: i8[3,70]\n@z = i8[] {-128}\ny = Mul(x, @z)\nreturn y\n");
}

static void own_types_of_three(void **state)
{
    (void)state;
    for (int t = 0; t < CM_COUNT(own_types); t++) {
        const char *type = own_types[t];
        for (int s = 0; s < CM_COUNT(own_shapes); s++) {
            WRAPPING("c: bool[%s]\nx: %s[%s]\nz: %s[%s]\ny = Where(c, x, z)\nreturn y\n",
                     own_shapes[s][0], type, own_shapes[s][1], type, own_shapes[s][0]);
            WRAPPING("c: bool[%s]\nx: %s[%s]\nz: %s[%s]\ny = Where(c, x, z)\nreturn y\n",
                     own_shapes[s][1], type, own_shapes[s][0], type, own_shapes[s][1]);
        }
        WRAPPING("c: bool[90]\nx: %s[90]\n@z = %s[] {7}\ny = Where(c, x, @z)\nreturn y\n", type,
                 type);
        WRAPPING("x: %s[70]\n@l = %s[] {3}\ny = Clip(x, @l)\nreturn y\n", type, type);
        WRAPPING("x: %s[70]\n@h = %s[] {90}\ny = Clip(x, _, @h)\nreturn y\n", type, type);
        WRAPPING("x: %s[70]\nl: %s[]\nh: %s[]\ny = Clip(x, l, h)\nreturn y\n", type, type, type);
        WRAPPING("x: %s[70]\nz: %s[9,1]\nw: %s[9,70]\ny = Max(x, z, w)\nreturn y\n", type, type,
                 type);
        for (int left = 0; left < 2; left++) {
            const char *way = left ? "LEFT" : "RIGHT";
            WRAPPING("x: %s[2,90]\n@z = %s[6,1,1] {0,1,7,31,63,100}\n"
                     "y = BitShift(x, @z) {direction=\"%s\"}\nreturn y\n",
                     type, type, way);
            WRAPPING("x: %s[90]\nz: %s[90]\ny = BitShift(x, z) {direction=\"%s\"}\nreturn y\n",
                     type, type, way);
        }
    }
    WRAPPING("c: bool[9,1]\nx: f32[9,70]\nz: f32[]\ny = Where(c, x, z)\nreturn y\n");
    WRAPPING("x: bool[90]\nz: bool[4,1]\ny = Xor(x, z)\nreturn y\n");
    WRAPPING("x: bool[90]\nz: bool[4,90]\ny = And(x, z)\nreturn y\n");
    WRAPPING("x: bool[90]\nz: bool[4,90]\ny = Or(x, z)\nreturn y\n");
    WRAPPING("x: bool[90]\ny = Not(x)\nreturn y\n");
}

static void own_types_of_doubles(void **state)
{
    (void)state;
    static const char *const both[] = {"Add",         "Sub",     "Mul",           "Div",
                                       "Max",         "Min",     "Equal",         "Less",
                                       "LessOrEqual", "Greater", "GreaterOrEqual"};
    static const char *const one[] = {"Neg", "Abs", "Sqrt", "Relu"};
    for (int s = 0; s < CM_COUNT(own_shapes); s++) {
        for (int i = 0; i < CM_COUNT(both); i++)
            WRAPPING("x: f64[%s]\nz: f64[%s]\ny = %s(x, z)\nreturn y\n", own_shapes[s][0],
                     own_shapes[s][1], both[i]);
        for (int i = 0; i < CM_COUNT(one); i++)
            WRAPPING("x: f64[%s]\ny = %s(x)\nreturn y\n", own_shapes[s][0], one[i]);
    }
}

static void own_types_cast(void **state)
{
    (void)state;
    static const char *const types[] = {"i64", "i32", "u8",   "i8",  "i16", "u16", "u32",
                                        "u64", "f64", "bool", "f32", "f16", "bf16"};
    static const char *const sizes[] = {"1", "64", "77", "9001"};
    for (int i = 0; i < CM_COUNT(types); i++)
        for (int k = 0; k < 11; k++)
            for (int s = 0; s < CM_COUNT(sizes); s++) {
                cm_dtype type;
                assert_true(cm_dtype_parse(types[k], &type));
                if (*types[i] == 'f' || *types[i] == 'b')
                    if (!strcmp(types[k], "u64") && strcmp(types[i], "bool") != 0)
                        continue; /* the evaluator's alone */
                WRAPPING("x: %s[%s]\ny = Cast(x) {to=%d}\nreturn y\n", types[i], sizes[s],
                         (int)type);
            }
    WRAPPING("x: i64[3,77]\ny = Cast(x) {to=10}\nreturn y\n");
    WRAPPING("@x = f32[6] {1e30, -1e30, 2147483648, -2147483648, 4294967296, 255.9}\n"
             "y = Cast(@x) {to=6}\nreturn y\n");
    WRAPPING("@x = f32[6] {1e30, -1e30, 2147483648, -2147483648, 4294967296, 255.9}\n"
             "y = Cast(@x) {to=12}\nreturn y\n");
    WRAPPING("@x = i32[5] {65519, 65520, -65520, 2049, 65535}\ny = Cast(@x) {to=10}\nreturn y\n");
}

/* Powers by products: squares, cubes and inverses of float32, and exponents that are whole numbers. */
static void powers_by_products(void **state)
{
    (void)state;
    static const double exponents[] = {2, 3, -1, 1, 0, -2, 0.5, 7};
    static const char *const whole[] = {"i64", "i32", "i8", "u8", "u32"};
    for (int i = 0; i < CM_COUNT(exponents); i++)
        CHECKF(-3, 3, 6, 2e-7, "x: f32[3,90]\n@e = f32[] {%g}\ny = Pow(x, @e)\nreturn y\n",
               exponents[i]);
    for (int t = 0; t < CM_COUNT(whole); t++)
        for (int s = 0; s < CM_COUNT(own_shapes); s++)
            for (int high = 4; high < 200; high += 100) {
                char text[200];
                snprintf(text, sizeof text, "x: f32[%s]\nz: %s[%s]\ny = Pow(x, z)\nreturn y\n",
                         own_shapes[s][0], whole[t], own_shapes[s][1]);
                op_case c = op_case_of(text);
                c.low = -1.5;
                c.high = 1.5;
                c.int_low = *whole[t] == 'i' ? -high : 0;
                c.int_high = high;
                c.hurt = 9;
                c.tolerance = 1e-7;
                op_check(&c);
                assert_true(c.ran > 0);
            }
    CHECKF(-3, 3, 6, 0,
           "x: f32[9]\n@e = i64[2,1] {9223372036854775807, -9223372036854775808}\n"
           "y = Pow(x, @e)\nreturn y\n");
}

/* What rests on integers wrapping or dividing is not for float32. */
static void leaves_integers_alone(void **state)
{
    (void)state;
    op_case c = op_case_of("x: i8[7]\nz: i8[7]\ny = Add(x, z)\nreturn y\n");
    c.only = "tile";
    op_check(&c);
    assert_true(op_none_ran(&c));
}

/* Cases that CPUs leave to the evaluator: none of their tactics runs. */
static void check_alone(const char *text, double low, double high, int64_t int_low,
                        double tolerance)
{
    op_case c = op_case_of(text);
    c.low = low;
    c.high = high;
    c.int_low = int_low;
    c.int_high = 70;
    c.hurt = 0;
    c.tolerance = tolerance;
    op_check(&c);
    assert_true(c.is_problem);
}

static void functions_that_are_rare(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double low, high;
    } unary[] = {{"Tan", -1.5, 1.5}, {"Asin", -1, 1}, {"Acos", -1, 1},   {"Atan", -9, 9},
                 {"Sinh", -4, 4},    {"Cosh", -4, 4}, {"Asinh", -9, 9},  {"Acosh", 1, 9},
                 {"Atanh", -1, 1},   {"Celu", -4, 4}, {"Shrink", -2, 2}, {"Tan", -50, 50}};
    static const char *const types[] = {"f32", "f16", "bf16", "f64"};
    static const double tolerances[] = {1e-6, 1e-3, 8e-3, 1e-12};
    for (int i = 0; i < CM_COUNT(unary); i++)
        for (int t = 0; t < CM_COUNT(types); t++) {
            char text[200];
            if (!strcmp(unary[i].name, "Shrink") && !strcmp(types[t], "bf16"))
                continue; /* it has no such form */
            if (unary[i].high > 10 && t > 0)
                continue; /* near a pole everything is one unit */
            snprintf(text, sizeof text, "x: %s[5,13]\ny = %s(x)\nreturn y\n", types[t],
                     unary[i].name);
            check_alone(text, unary[i].low, unary[i].high, 0, tolerances[t]);
        }
    for (int t = 0; t < CM_COUNT(types); t++) {
        char text[200];
        snprintf(text, sizeof text,
                 "x: %s[3,30]\n@z = %s[3,1] {2.5, -0.75, 3}\ny = Mod(x, @z) {fmod=1}\nreturn y\n",
                 types[t], types[t]);
        check_alone(text, -9, 9, 0, 0);
    }
}

static void whole_numbers_alone(void **state)
{
    (void)state;
    static const char *const types[] = {"i64", "i32", "u8", "i8", "i16", "u16", "u32", "u64"};
    static const char *const both[] = {"Div", "Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor"};
    for (int t = 0; t < CM_COUNT(types); t++) {
        int64_t low = *types[t] == 'i' ? -70 : 0;
        char text[300];
        for (int i = 0; i < CM_COUNT(both); i++) {
            snprintf(text, sizeof text,
                     "x: %s[3,90]\n@z = %s[3,1] {3, 7, %d}\ny = %s(x, @z)\nreturn y\n", types[t],
                     types[t], low ? -1 : 11, both[i]);
            check_alone(text, 0, 1, low, 0);
        }
        snprintf(text, sizeof text,
                 "x: %s[3,90]\n@z = %s[3,1] {3, 7, %d}\ny = Mod(x, @z) {fmod=1}\nreturn y\n",
                 types[t], types[t], low ? -5 : 11);
        check_alone(text, 0, 1, low, 0);
        snprintf(text, sizeof text, "x: %s[90]\ny = BitwiseNot(x)\nreturn y\n", types[t]);
        check_alone(text, 0, 1, low, 0);
        for (int i = 0; i < 2; i++) {
            snprintf(text, sizeof text,
                     "x: %s[2,90]\n@z = %s[2,1] {3, 70}\ny = BitShift(x, @z) "
                     "{direction=\"%s\"}\nreturn y\n",
                     types[t], types[t], i ? "LEFT" : "RIGHT");
            check_alone(text, 0, 1, low, 0);
        }
    }
    check_alone("x: i64[40]\n@z = i64[] {3}\ny = Pow(x, @z)\nreturn y\n", 0, 1, -70, 0);
    check_alone("x: i32[40]\n@z = i64[2,1] {1,5}\ny = Pow(x, @z)\nreturn y\n", 0, 1, -70, 0);
    check_alone("x: i32[40]\n@z = i32[2,1] {-1,-2}\ny = Pow(x, @z)\nreturn y\n", 0, 1, 1, 0);
}

/* Floats of 8 bits; what is too large becomes the largest, or stays so. */
static void casts_of_bytes(void **state)
{
    (void)state;
    static const char *const small[] = {"f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"};
    static const char *const others[] = {"f32", "f16", "bf16", "f64", "i32"};
    static const int to_small[] = {17, 18, 19, 20}, to_others[] = {1, 10, 16, 11, 6};
    for (int s = 0; s < CM_COUNT(small); s++)
        for (int o = 0; o < CM_COUNT(others); o++)
            for (int k = 0; k < 3; k++) {
                char text[100];
                snprintf(text, sizeof text,
                         "x: %s[4,300]\ny = Cast(x) {to=%d, saturate=%d}\nreturn y\n",
                         k == 1 ? small[s] : others[o], k == 1 ? to_others[o] : to_small[s], k < 2);
                op_case c = op_case_of(text);
                c.low = -700;
                c.high = 700;
                c.int_low = -700;
                c.int_high = 700;
                c.hurt = *others[o] == 'i' ? 0 : 9;
                c.tolerance = 0;
                op_check(&c);
                assert_true(c.is_problem);
            }
}

/* Elements of less than a byte, every pair of types with one; results are the same to the bit. Only GPUs have a kernel. */
static void casts_of_parts(void **state)
{
    (void)state;
    static const char *const parts[] = {"i4", "u4", "i2", "u2", "f4e2m1", "f6e2m3", "f6e3m2"};
    static const char *const others[] = {"f32", "f16", "bf16",   "f64",   "f8e4m3fn", "bool",
                                         "u8",  "i8",  "i16",    "u32",   "i64",      "u64",
                                         "i4",  "u2",  "f4e2m1", "f6e3m2"};
    static const char *const sizes[] = {"1", "7", "8", "3,5,7", "2,3,40,5", "0"};
    for (int i = 0; i < CM_COUNT(parts); i++)
        for (int k = 0; k < CM_COUNT(others); k++)
            for (int to = 0; to < 2; to++) {
                const char *size = sizes[(i + k + to) % CM_COUNT(sizes)];
                char text[200];
                cm_dtype type;
                assert_true(cm_dtype_parse(to ? parts[i] : others[k], &type));
                snprintf(text, sizeof text, "x: %s[%s]\ny = Cast(x) {to=%d}\nreturn y\n",
                         to ? others[k] : parts[i], size, (int)type);
                op_case c = op_case_of(text);
                c.low = -9;
                c.high = 9;
                c.hurt = 9;
                c.tolerance = 0;
                op_check(&c);
                assert_true(c.is_problem);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_operator_each),
        cmocka_unit_test(two_operands),
        cmocka_unit_test(bounds_of_clip),
        cmocka_unit_test(truth_values),
        cmocka_unit_test(whole_numbers_compared),
        cmocka_unit_test(casts),
        cmocka_unit_test(groups),
        cmocka_unit_test(functions_of_sums),
        cmocka_unit_test(groups_of_other_types),
        cmocka_unit_test(several_outputs),
        cmocka_unit_test(leaves_integers_alone),
        cmocka_unit_test(integers_and_doubles),
        cmocka_unit_test(casts_of_integers),
        cmocka_unit_test(own_types_of_one),
        cmocka_unit_test(own_types_of_two),
        cmocka_unit_test(own_types_of_three),
        cmocka_unit_test(own_types_of_doubles),
        cmocka_unit_test(own_types_cast),
        cmocka_unit_test(powers_by_products),
        cmocka_unit_test(functions_that_are_rare),
        cmocka_unit_test(whole_numbers_alone),
        cmocka_unit_test(casts_of_bytes),
        cmocka_unit_test(casts_of_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
