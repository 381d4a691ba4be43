/* slice.c -- bounds of every sign, symbolic and hostile ones
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_symbolic(void **state)
{
    (void)state;
#define MAX "9223372036854775807"
#define MIN "-9223372036854775808"
    SAME(infer("Slice", "", "f32[s]", "i64[1]{1}", "i64[1]{" MAX "}", NULL), "f32[max(s - 1, 0)]");
    SAME(infer("Slice", "", "f32[s+1]", "i64[1]{1}", "i64[1]{" MAX "}", NULL), "f32[s]");
    SAME(infer("Slice", "", "f32[s]", "i64[1]{0}", "i64[1]{" MAX "}", NULL), "f32[s]");
    SAME(infer("Slice", "", "f32[s]", "i64[1]{0}", "i64[1]{-1}", NULL), "f32[max(s - 1, 0)]");
    SAME(infer("Slice", "", "f32[s]", "i64[1]{-1}", "i64[1]{" MAX "}", NULL), "f32[min(s, 1)]");
    SAME(infer("Slice", "", "f32[s+2]", "i64[1]{-1}", "i64[1]{" MAX "}", NULL), "f32[1]");
    SAME(infer("Slice", "", "f32[512]", "i64[1]{0}", "i64[1]{s}", NULL), "f32[min(s, 512)]");
    SAME(infer("Slice", "", "f32[s]", "i64[1]{0}", "i64[1]{s}", NULL), "f32[s]");
    SAME(infer("Slice", "", "f32[s]", "i64[1]{0}", "i64[1]{" MAX "}", "i64[1]{0}", "i64[1]{2}",
               NULL),
         "f32[floor((s + 1)/2)]");
    SAME(infer("Slice", "", "f32[s]", "i64[1]{-1}", "i64[1]{" MIN "}", "i64[1]{0}", "i64[1]{-1}",
               NULL),
         "f32[s]");
    SAME(infer("Slice", "", "f32[b,s]", "i64[1]", "i64[1]", "i64[1]{1}", NULL),
         "f32[b,t.sliced_0]");
    SAME(infer("Slice", "", "f32[b,s]", "i64[1]", "i64[1]", "i64[1]", NULL),
         "f32[t.size_1,t.size_2]");
    SAME(infer("Slice", "", "i64[4]{a,b,c,7}", "i64[1]{-1}", "i64[1]{0}", "i64[1]{0}", "i64[1]{-2}",
               NULL),
         "i64[2]{7,b}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("Slice", "", "f32[4]", "i64[1]{0}", "i64[1]{2}", "i64[1]{0}", "i64[1]{0}", NULL),
         "steps[0] is 0");
    SAME(infer("Slice", "", "f32[4]", "i64[1]{0}", "i64[2]{2,3}", NULL),
         "ends has 2 entries, but starts has 1");
    SAME(infer("Slice", "", "f32[4]", "i64[1]{0}", "i64[1]{2}", "i64[1]{1}", NULL),
         "axis 1 is out of range for rank 1");
    SAME(infer("Slice", "", "f32[4]", "i64[2]{0,0}", "i64[2]{2,3}", NULL),
         "starts has 2 entries for an input of rank 1");
}

static void test_elements(void **state)
{
    (void)state;
    SAME(eval("Slice", "", "i32[4]{1,2,3,4}", "i64[1]{" MAX "}", "i64[1]{" MIN "}", "i64[1]{0}",
              "i64[1]{-2}", NULL),
         "i32[2]{4,2}");
    SAME(eval("Slice", "", "i32[4]{1,2,3,4}", "i64[1]{-1}", "i64[1]{" MIN "}", "i64[1]{-1}",
              "i64[1]{" MIN "}", NULL),
         "i32[1]{4}");
    SAME(eval("Slice", "", "i32[4]{1,2,3,4}", "i64[1]{1}", "i64[1]{" MAX "}", "i64[1]{0}",
              "i64[1]{" MAX "}", NULL),
         "i32[1]{2}");
    SAME(eval("Slice", "", "str[2,2]{a,b,c,d}", "i32[1]{1}", "i32[1]{2}", "i32[1]{-1}", NULL),
         "str[2,1]{b,d}");
    SAME(eval("Slice", "", "f32[0]{}", "i64[1]{-1}", "i64[1]{" MIN "}", "i64[1]{0}", "i64[1]{-1}",
              NULL),
         "f32[0]{}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_symbolic),
        OP_TEXT_TEST(test_refusals),
        OP_TEXT_TEST(test_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
