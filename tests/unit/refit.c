/* refit.c -- plans without weights, plans compared, build options as text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "api/recipe.h"
#include "cameo.h"
#include "unit/run_case.h"

#include <stdio.h>
#include <unistd.h>

#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)

static const char *const network = "x: f32[n,4]\n@w = f32[4,4] fill 0.5\n@v = f32[4,8] fill 2\n"
                                   "@s = str[2] {\"a\", \"bc\"}\na = MatMul(x, @w)\nb = MatMul(a, "
                                   "@v)\ny = Relu(b)\nreturn y, @s as \"names\"\n";

static void fails(const run_case *t, cm_status want, cm_status st, const char *why)
{
    assert_int_equal(want, st);
    if (!strstr(t->cx.message, why))
        fail_msg("found: %s\nwanted: %s", t->cx.message, why);
}

/* Build again, with the weights left out. */
static void strip(run_case *t)
{
    static const cm_plan_option options[] = {{"dim", "n=3"}, {"precision", "fp32"}};
    static const cm_plan_build how = {2, options, 0};
    t->plan->build = &how;
    t->plan->stripped = true;
    t->bytes.n = 0;
    ok(t, cm_plan_write_memory(&t->cx, t->plan, t->constants, &t->bytes));
}

static void stripped_plans_keep_everything_but_the_weights(void **state)
{
    run_case *t = *state;
    cm_plan *whole, *bare;
    build(t, network);
    void *bytes = cm_arena_memdup(&t->arena, t->bytes.data, t->bytes.n);
    ok(t, cm_plan_read(&t->cx, &t->arena, bytes, t->bytes.n, &whole));
    assert_null(whole->build);
    strip(t);
    ok(t, cm_plan_read(&t->cx, &t->arena, t->bytes.data, t->bytes.n, &bare));
    assert_true(bare->stripped);
    assert_null(bare->weights_data);
    assert_int_equal(bare->weights_bytes, whole->weights_bytes);
    assert_int_equal(bare->build->weights_checksum, whole->weights_checksum);
    assert_int_equal(bare->build->n_options, 2);
    assert_string_equal(bare->build->options[0].name, "dim");
    assert_string_equal(bare->build->options[0].value, "n=3");
    ok(t, cm_plan_same(&t->cx, whole, bare));
}

static void stripped_plans_do_not_run(void **state)
{
    run_case *t = *state;
    build(t, network);
    strip(t);
    cm_plan *p;
    ok(t, cm_plan_read(&t->cx, &t->arena, t->bytes.data, t->bytes.n, &p));
    fails(t, CM_ERR_PLAN, cm_plan_verify_weights(&t->cx, p), "cameo refit PLAN --from MODEL");
    fails(t, CM_ERR_PLAN,
          cm_engine_open_memory(&t->cx, t->bytes.data, t->bytes.n, true, NULL, &t->engine),
          "cameo refit PLAN --from MODEL");
    cm_engine_options look = {.to_look = true};
    ok(t, cm_engine_open_memory(&t->cx, t->bytes.data, t->bytes.n, true, &look, &t->engine));
    fails(t, CM_ERR_PLAN, cm_context_create(&t->cx, t->engine, NULL, &t->context),
          "cameo refit PLAN --from MODEL");
}

/* Every byte of the build section changed in turn: refused, or read. */
static void damaged_build_sections_are_refused(void **state)
{
    run_case *t = *state;
    build(t, network);
    strip(t);
    uint32_t sections;
    memcpy(&sections, t->bytes.data + 12, 4);
    for (uint32_t i = 0; i < sections; i++) {
        unsigned char *e = t->bytes.data + CM_PLAN_HEADER_BYTES + i * CM_PLAN_ENTRY_BYTES;
        uint32_t kind;
        uint64_t offset, size;
        memcpy(&kind, e, 4);
        memcpy(&offset, e + 8, 8);
        memcpy(&size, e + 16, 8);
        for (uint64_t at = 0; kind == CM_SECTION_BUILD && at < size; at++) {
            unsigned char *byte = t->bytes.data + offset + at;
            *byte ^= 0x55;
            uint64_t sum = cm_checksum(t->bytes.data + offset, size);
            memcpy(e + 24, &sum, 8);
            sum = cm_checksum(t->bytes.data + CM_PLAN_HEADER_BYTES, sections * CM_PLAN_ENTRY_BYTES);
            memcpy(t->bytes.data + 24, &sum, 8);
            cm_plan *p;
            cm_status st = cm_plan_read(&t->cx, &t->arena, t->bytes.data, t->bytes.n, &p);
            assert_true(st == CM_OK || st == CM_ERR_PLAN);
            if (at == 0) /* flags */
                assert_int_equal(st, CM_ERR_PLAN);
            *byte ^= 0x55;
        }
    }
}

static void plans_of_other_networks_are_told_apart(void **state)
{
    run_case *t = *state;
    static const struct {
        const char *text, *why;
    } others[] = {
        {"x: f32[n,4]\n@w = f32[4,4] fill 7\ny = MatMul(x, @w)\nreturn y\n", NULL},
        {"x: f32[n,4]\n@other = f32[4,4] fill 7\nz = MatMul(x, @other)\nreturn z as \"y\"\n", NULL},
        {"x: f32[n,4]\n@w = f32[4,5] fill 7\ny = MatMul(x, @w)\nreturn y\n",
         "value 'w' is f32[4,5], in the plan 'w' is f32[4,4]"},
        {"x: f32[n,4]\n@w = f32[4,4] fill 7\ny = Add(x, @w)\nreturn y\n",
         "layer 'Add' is Add, in the plan MatMul 'MatMul' stands there"},
        {"x: f32[n,4]\n@w = f32[4,4] fill 7\nz = MatMul(x, @w)\nreturn z\n",
         "output 0 is 'z', in the plan 'y'"},
        {"u: f32[n,4]\n@w = f32[4,4] fill 7\ny = MatMul(u, @w)\nreturn y\n",
         "input 0 is 'u', in the plan 'x'"},
        {"x: f32[n,4]\n@w = f32[4,4] fill 7\ny = MatMul(x, @w)\nz = Relu(y)\nreturn z as \"y\"\n",
         "2 layers, the plan has 1"},
        {"x: f32[n,4]\n@w = f32[4,4] fill 7\ny = MatMul(x, @w) then \"relu x\"\nreturn y\n",
         "has other pointwise operations after it"},
        {"x: f32[m,4]\n@w = f32[4,4] fill 7\ny = MatMul(x, @w)\nreturn y\n",
         "its symbolic sizes are not the plan's"},
    };
    build(t, "x: f32[n,4]\n@w = f32[4,4] fill 0.5\ny = MatMul(x, @w)\nreturn y\n");
    const cm_plan *plan = t->plan;
    for (int i = 0; i < CM_COUNT(others); i++) {
        build(t, others[i].text);
        if (others[i].why)
            fails(t, CM_ERR_MODEL, cm_plan_same(&t->cx, plan, t->plan), others[i].why);
        else
            ok(t, cm_plan_same(&t->cx, plan, t->plan));
    }
}

static void recipes_say_what_is_wrong(void **state)
{
    run_case *t = *state;
    static const struct {
        cm_plan_option option;
        const char *why;
    } bad[] = {
        {{"dim", "n"}, "--dim n: wanted NAME=..."},
        {{"dim", "n=-1"}, "--dim n=-1: wanted NAME=N"},
        {{"shape", "x=1xx"}, "--shape x=1xx: wanted NAME=AxBxC"},
        {{"precision", "int3"}, "wanted fp32, tf32, fp16, bf16"},
        {{"precision", "auto"}, "is for build only"},
        {{"stop-after", "fold_constant"}, "did you mean 'fold_constants'?"},
        {{"stop-after-rewrite", "many"}, "wanted a number"},
        {{"colour", "blue"}, "build option 'colour' is not known to this version"},
    };
    cm_recipe r;
    for (int i = 0; i < CM_COUNT(bad); i++) {
        cm_plan_build b = {1, &bad[i].option, 0};
        fails(t, CM_ERR_ARGUMENT, cm_recipe_parse(&t->cx, &t->arena, &b, &r), bad[i].why);
    }
}

static void recipes_are_read_as_written(void **state)
{
    run_case *t = *state;
    cm_plan_build b = {0};
    cm_recipe r;
    static const cm_plan_option options[] = {
        {"dim", "a=b=4"},        {"shape", "x=2x3"},          {"outputs", "mid"},
        {"only-outputs", "mid"}, {"precision", "bf16"},       {"keep-fp32", "one"},
        {"keep-fp32", "two"},    {"stop-after", "fuse_gelu"}, {"stop-after-rewrite", "17"},
        {"no-optimise", ""},
    };
    for (int i = 0; i < CM_COUNT(options); i++)
        ok(t, cm_recipe_add(&t->cx, &t->arena, &b, options[i].name, options[i].value));
    ok(t, cm_recipe_parse(&t->cx, &t->arena, &b, &r));
    assert_string_equal(r.import.dims[0].name, "a=b");
    assert_int_equal(r.import.dims[0].value, 4);
    assert_int_equal(r.import.shapes[0].rank, 2);
    assert_int_equal(r.import.shapes[0].dims[1], 3);
    assert_string_equal(r.import.outputs[0], "mid");
    assert_int_equal(r.n_only_outputs, 1);
    assert_int_equal(r.compile.optimise.precision, CM_PRECISION_BF16);
    assert_int_equal(r.compile.optimise.n_keep_fp32, 2);
    assert_string_equal(r.compile.optimise.keep_fp32[1], "two");
    assert_int_equal(r.compile.optimise.stop_after_rewrite, 17);
    assert_true(r.compile.no_optimise);
    assert_ptr_equal(r.compile.build, &b);
}

static void public_calls_refuse_what_was_not_a_model(void **state)
{
    (void)state;
    cameo_error err;
    cameo_network *n;
    cameo_build_options o = CAMEO_BUILD_OPTIONS_INIT;
    int64_t dims[] = {2};
    const char *in[] = {"x"}, *out[] = {"y"};
    char path[] = "/tmp/cameo-test-XXXXXX";
    assert_int_equal(CAMEO_OK, cameo_network_create("calls", NULL, &n, &err));
    assert_int_equal(CAMEO_OK, cameo_network_add_input(n, "x", CAMEO_F32, 1, dims, NULL, &err));
    assert_int_equal(CAMEO_OK,
                     cameo_network_add_node(n, "Relu", "r", 1, in, 1, out, 0, NULL, &err));
    assert_int_equal(CAMEO_OK, cameo_network_mark_output(n, "y", &err));
    o.strip_weights = true;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(CAMEO_ERR_ARGUMENT, cameo_build_file(n, &o, path, &err));
    assert_non_null(strstr(err.message, "could not be put back"));
    assert_int_equal(CAMEO_OK, cameo_build_file(n, NULL, path, &err));
    cameo_network_destroy(n);
    assert_int_equal(CAMEO_ERR_ARGUMENT, cameo_refit_file(path, path, NULL, path, &err));
    assert_non_null(strstr(err.message, "does not say how it was built"));
    assert_int_equal(CAMEO_ERR_ARGUMENT, cameo_refit_file(path, NULL, NULL, path, &err));
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stripped_plans_keep_everything_but_the_weights),
        TEST(stripped_plans_do_not_run),
        TEST(damaged_build_sections_are_refused),
        TEST(plans_of_other_networks_are_told_apart),
        TEST(recipes_say_what_is_wrong),
        TEST(recipes_are_read_as_written),
        TEST(public_calls_refuse_what_was_not_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
