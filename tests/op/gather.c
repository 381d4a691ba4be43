/* gather.c -- rows and elements picked by indices.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

typedef struct {
    const char *text;
    int64_t size; /* of the axis that indices walk */
} gather_case;

static void picks(void **state)
{
    (void)state;
    static const gather_case cases[] = {
        {"x: f32[50,768]\ni: i64[2,9]\ny = Gather(x, i) {axis=0}\nreturn y\n", 50},
        {"x: f32[3,5,7]\ni: i32[4]\ny = Gather(x, i) {axis=-1}\nreturn y\n", 7},
        {"x: f16[3,5,7]\ni: i32[]\ny = Gather(x, i) {axis=1}\nreturn y\n", 5},
        {"x: i64[300]\ni: i64[2000]\ny = Gather(x, i)\nreturn y\n", 300},
        {"x: bool[3,9,3]\ni: i64[2,2]\ny = Gather(x, i) {axis=1}\nreturn y\n", 9},
        {"x: f64[0,9]\ni: i64[3]\ny = Gather(x, i) {axis=1}\nreturn y\n", 9},
        {"x: f32[3,4]\ni: i64[0]\ny = Gather(x, i)\nreturn y\n", 3},
        {"x: f32[6,5,4]\ni: i64[3,5,2]\ny = GatherElements(x, i) {axis=0}\nreturn y\n", 6},
        {"x: f16[9,103]\ni: i64[4,3]\ny = Gather(x, i) {axis=0}\nreturn y\n", 9},
        {"x: u8[2,9,7,37]\ni: i64[5]\ny = Gather(x, i) {axis=1}\nreturn y\n", 9},
        {"x: f32[2,9,7,37]\ni: i64[5,2]\ny = GatherND(x, i)\nreturn y\n", 2},
        {"x: f16[24,1200]\ni: i64[30,1200]\ny = GatherElements(x, i) {axis=0}\nreturn y\n", 24},
        {"x: f32[3,9,256]\ni: i32[3,70,256]\ny = GatherElements(x, i) {axis=1}\nreturn y\n", 9},
        {"x: f64[5,300]\ni: i32[5,300]\ny = GatherElements(x, i) {axis=0}\nreturn y\n", 5},
        {"x: i8[6,5,4]\ni: i32[6,9,4]\ny = GatherElements(x, i) {axis=1}\nreturn y\n", 5},
        {"x: f32[6,30]\ni: i64[6,700]\ny = GatherElements(x, i) {axis=-1}\nreturn y\n", 30},
        {"x: f16[5,6,40]\ni: i32[5,6,33]\ny = GatherElements(x, i) {axis=2}\nreturn y\n", 40},
        {"x: u8[7,1000]\ni: i64[7,640]\ny = GatherElements(x, i) {axis=1}\nreturn y\n", 1000},
        {"x: f64[3,50]\ni: i64[2,60]\ny = GatherElements(x, i) {axis=1}\nreturn y\n", 50},
        {"x: f32[4,4,3]\ni: i64[5,2]\ny = GatherND(x, i)\nreturn y\n", 4},
        {"x: f32[2,4,3]\ni: i64[2,7,1]\ny = GatherND(x, i) {batch_dims=1}\nreturn y\n", 4},
        {"x: f32[2,3,4,4]\ni: i64[2,3,2]\ny = GatherND(x, i) {batch_dims=2}\nreturn y\n", 4},
        {"x: u8[9,9]\ni: i64[3,2]\ny = com.microsoft.GatherND(x, i)\nreturn y\n", 9},
        {"x: f32[40,64]\ni: i64[3]\ny = com.microsoft.TorchEmbedding(x, i)\nreturn y\n", 40},
    };
    for (int k = 0; k < CM_COUNT(cases); k++) {
        op_case c = op_case_of(cases[k].text);
        c.tolerance = 0;
        c.hurt = 7;
        c.int_low = -cases[k].size;
        c.int_high = cases[k].size;
        if (strstr(c.text, "x: i64") || strstr(c.text, "x: i8"))
            c.int_low = -cases[k].size / 2;
        op_check(&c);
        if (c.ran == 0)
            fail_msg("no tactic took\n%s", c.text);
    }
}

/* The tactic itself on indices of which one is outside. */
static void refuses(int64_t bad)
{
    cm_tensor x, index, y;
    int64_t rows[2] = {5, 3}, three[1] = {3}, out[2] = {3, 3};
    float data[15] = {0}, result[9];
    int64_t indices[3] = {4, bad, -5};
    cm_tensor_shape(&x, CM_F32, 2, rows);
    cm_tensor_shape(&index, CM_I64, 1, three);
    cm_tensor_shape(&y, CM_F32, 2, out);
    const cm_tensor *in[2] = {&x, &index}, *outs[1] = {&y};
    bool constant[2] = {false, false};
    cm_problem p = {.kind = CM_PROBLEM_GATHER,
                    .n_in = 2,
                    .in = in,
                    .constant = constant,
                    .n_out = 1,
                    .out = outs,
                    .as.gather = {.outer = 1, .axis = 5, .inner = 3, .n_indices = 3, .indices = 1}};
    int n;
    const cm_tactic *t = cm_backend_at(0)->tactics(CM_PROBLEM_GATHER, &n);
    cm_ctx cx = {0};
    cm_knobs k = {{0}};
    const void *run_in[2] = {data, indices};
    void *run_out[1] = {result};
    cm_run r = {.cx = &cx, .p = &p, .k = &k, .in = run_in, .out = run_out};
    assert_int_equal(t->run(&r), CM_ERR_DATA);
    assert_non_null(strstr(cx.message, "at position 1 is out of range for axis 0 of size 5"));
}

static void indices_outside(void **state)
{
    (void)state;
    refuses(5);
    refuses(-6);
    refuses(INT64_MIN);
    refuses(INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(picks),
        cmocka_unit_test(indices_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
