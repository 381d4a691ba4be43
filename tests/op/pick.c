/* pick.c -- as many as data tell: places of what is not 0, slices that truths name.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

#include "lower/lower.h"
#include "runtime/runtime.h"

static void check(const char *text, uint32_t seed)
{
    op_case c = op_case_of(text);
    c.tolerance = 0;
    c.seed = seed;
    c.int_low = -1;
    c.int_high = 2; /* zeros among them */
    c.hurt = 3;     /* zeros of both signs, NaN */
    op_check(&c);
    assert_true(c.is_problem);
}

/* One element, one block, several ones, runs of several tiles; no axis and many. */
static void places(void **state)
{
    (void)state;
    static const char *const shapes[] = {
        "[]",     "[1]",    "[0]",       "[3,0,2]",     "[7]",      "[31,3]",    "[2,3,4,5]",
        "[4096]", "[4097]", "[50,7,13]", "[2,1,3,1,2]", "[9,1000]", "[130,1024]"};
    for (int s = 0; s < CM_COUNT(shapes); s++)
        for (int t = 0; t < 3; t++) {
            static const char *const types[] = {"f32", "i64", "bool"};
            char text[128];
            snprintf(text, sizeof text, "x: %s%s\ny = NonZero(x)\nreturn y\n", types[t], shapes[s]);
            check(text, (uint32_t)s + 1);
        }
}

static void element_types(void **state)
{
    (void)state;
    static const char *const types[] = {"f64",      "f16",        "bf16",   "i32",        "i16",
                                        "i8",       "u8",         "u16",    "u32",        "u64",
                                        "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0"};
    for (int t = 0; t < CM_COUNT(types); t++) {
        char text[128];
        snprintf(text, sizeof text, "x: %s[5,200]\ny = NonZero(x)\nreturn y\n", types[t]);
        check(text, 3);
    }
    check("@x = c64[5] {0 0, 0 1, 2 0, -0.0 -0.0, 1 1}\ny = NonZero(@x)\nreturn y\n", 1);
}

static void all_or_none(void **state)
{
    (void)state;
    check("@x = f32[70,100] fill 0.0\ny = NonZero(@x)\nreturn y\n", 1);
    check("@x = f32[70,100] fill -0.0\ny = NonZero(@x)\nreturn y\n", 1);
    check("@x = i32[70,100] fill 4\ny = NonZero(@x)\nreturn y\n", 1);
}

/* Conditions shorter than the axis; slices of odd and even sizes. */
static void slices(void **state)
{
    (void)state;
    static const struct {
        const char *shape, *condition, *axis;
    } cases[] = {
        {"[6]", "[6]", ""},           {"[2,3]", "[5]", ""},
        {"[2,3]", "[0]", ""},         {"[0,4]", "[0]", ""},
        {"[50,200]", "[10000]", ""},  {"[9,4]", "[9]", "axis=0"},
        {"[3,5,7]", "[5]", "axis=1"}, {"[3,5,7]", "[4]", "axis=-2"},
        {"[4,6,5]", "[5]", "axis=2"}, {"[5,6000,3]", "[6000]", "axis=1"},
        {"[3,5,0]", "[5]", "axis=1"}, {"[40,3,16]", "[40]", "axis=0"},
    };
    static const char *const types[] = {"f32", "f16", "u8", "i64", "bool"};
    for (int i = 0; i < CM_COUNT(cases); i++)
        for (int t = 0; t < CM_COUNT(types); t++) {
            char text[192];
            snprintf(text, sizeof text, "x: %s%s\nc: bool%s\ny = Compress(x, c) {%s}\nreturn y\n",
                     types[t], cases[i].shape, cases[i].condition, cases[i].axis);
            check(text, (uint32_t)i + 1);
        }
}

typedef struct {
    cm_arena arena, scratch;
    cm_ctx cx;
    cm_engine *e;
    cm_context *c;
} network;

static void open_on(network *n, const char *text, const cm_target *target)
{
    cm_network *g;
    cm_plan *plan;
    const cm_tensor *const *constants;
    const cm_context_options o = {.threads = 1, .target = target};
    *n = (network){0};
    cm_arena_init(&n->arena, NULL);
    cm_arena_init(&n->scratch, NULL);
    n->cx = (cm_ctx){.arena = &n->arena, .scratch = &n->scratch};
    if (cm_network_parse(&n->cx, &n->arena, text, strlen(text), &g) != CM_OK ||
        cm_network_infer(&n->cx, g) != CM_OK ||
        cm_lower(&n->cx, &n->arena, g, &plan, &constants) != CM_OK ||
        cm_engine_open_lowered(&n->cx, plan, constants, &n->e) != CM_OK ||
        cm_context_create(&n->cx, n->e, &o, &n->c) != CM_OK)
        fail_msg("%s\n%s", n->cx.message, text);
}

static void close_both(network *n)
{
    for (int i = 0; i < 2; i++) {
        cm_context_destroy(n[i].c);
        cm_engine_release(n[i].e);
        cm_arena_deinit(&n[i].arena);
        cm_arena_deinit(&n[i].scratch);
    }
}

static cm_status run_with(network *n, const cm_datum *in, int n_in)
{
    for (int i = 0; i < n_in; i++)
        assert_int_equal(cm_context_set_input(&n->cx, n->c, i, &in[i]), CM_OK);
    return cm_context_run(&n->cx, n->c);
}

static void same_outputs(const network *n)
{
    for (int o = 0; o < cm_engine_n_outputs(n->e); o++) {
        const cm_tensor *want = &cm_context_output(n[0].c, o)->tensor;
        const cm_tensor *got = &cm_context_output(n[1].c, o)->tensor;
        size_t bytes;
        assert_true(cm_tensor_same_shape(want, got));
        assert_true(cm_tensor_bytes(got, &bytes));
        if (bytes)
            assert_memory_equal(got->data, want->data, bytes);
    }
}

static bool on_gpu(const network *n)
{
    cm_layer_facts f = {0};
    for (int s = 0; s < cm_engine_n_steps(n->e) && !f.away; s++)
        if (!strcmp(cm_engine_step(n->e, s)->op, "NonZero"))
            cm_context_layer(n->c, s, &f);
    return f.away;
}

/* Each run has as many as its data tell; steps before and behind it run where they do. */
static void sizes_change_from_run_to_run(void **state)
{
    (void)state;
    static const cm_target cuda = {CM_DEVICE_CUDA, 0, 0};
    static const char text[] = "x: f32[rows,9]\na = Relu(x)\ny = NonZero(a)\nz = Transpose(y)\n"
                               "g = GatherND(x, z)\nb = Neg(x)\nreturn y, g, b\n";
    network n[2];
    float x[40 * 9];
    if (!op_targets()->stream)
        return;
    for (int i = 0; i < 2; i++)
        open_on(&n[i], text, i ? &cuda : NULL);
    for (int run = 0; run < 6; run++) {
        cm_datum d = {.kind = CM_TENSOR};
        int64_t rows = run == 4 ? 0 : 40 - 10 * (run % 2);
        assert_true(cm_tensor_shape(&d.tensor, CM_F32, 2, (int64_t[]){rows, 9}));
        d.tensor.data = x;
        for (int i = 0; i < 40 * 9; i++)
            x[i] = run == 2 ? -1.0f : (float)((i * 7 + run) % 11) - 5.0f;
        for (int i = 0; i < 2; i++)
            if (run_with(&n[i], &d, 1) != CM_OK)
                fail_msg("run %d: %s", run, n[i].cx.message);
        assert_true(on_gpu(&n[1]));
        same_outputs(n);
    }
    close_both(n);
}

/* A condition that names what is not there fails on the GPU as on the CPU, and the next run is a good one. */
static void bad_conditions(void **state)
{
    (void)state;
    static const cm_target cuda = {CM_DEVICE_CUDA, 0, 0};
    static const char text[] = "x: f32[5]\nc: bool[n]\ny = Compress(x, c)\nreturn y\n";
    const float x[5] = {1, 2, 3, 4, 5};
    unsigned char c[9] = {1, 0, 1, 0, 0, 0, 0, 0, 1};
    network n[2];
    if (!op_targets()->stream)
        return;
    for (int i = 0; i < 2; i++)
        open_on(&n[i], text, i ? &cuda : NULL);
    for (int run = 0; run < 3; run++) {
        cm_datum d[2] = {{.kind = CM_TENSOR}, {.kind = CM_TENSOR}};
        assert_true(cm_tensor_shape(&d[0].tensor, CM_F32, 1, (int64_t[]){5}));
        assert_true(cm_tensor_shape(&d[1].tensor, CM_BOOL, 1, (int64_t[]){9}));
        d[0].tensor.data = (void *)x;
        d[1].tensor.data = c;
        c[8] = run == 1;
        for (int i = 0; i < 2; i++)
            assert_int_equal(run_with(&n[i], d, 2), run == 1 ? CM_ERR_DATA : CM_OK);
        if (run != 1)
            same_outputs(n);
    }
    close_both(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places),
        cmocka_unit_test(element_types),
        cmocka_unit_test(all_or_none),
        cmocka_unit_test(slices),
        cmocka_unit_test(sizes_change_from_run_to_run),
        cmocka_unit_test(bad_conditions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
