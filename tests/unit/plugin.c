/* plugin.c -- operators that a program registers: rules, references, tactics, attributes, refusals.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cameo_plugin.h"
#include "unit/needs_nvrtc.h"
#include "unit/run_case.h"

#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)

/* ---- test.Above: the elements above a bound; how many, only the data tell -------------------- */

static cameo_status above_rule(const cameo_rule *r)
{
    cameo_dim dims[] = {CAMEO_DIM_DATA, 2};
    return r->call->output(r, 0, CAMEO_I64, 2, dims);
}

static cameo_status above_eval(const cameo_eval *e)
{
    const float *x = e->inputs[0]->data;
    int64_t n = (int64_t)(e->inputs[0]->bytes / sizeof *x), dims[] = {0, 2}, k = 0;
    for (int64_t i = 0; i < n; i++)
        dims[0] += x[i] > e->attrs[0].f;
    if (dims[0] == 0)
        return (e->call->fail)(e, "nothing is above the bound");
    cameo_status st = e->call->allocate(e, 0, CAMEO_I64, 2, dims);
    if (st != CAMEO_OK)
        return st;
    int64_t *y = e->outputs[0]->data;
    for (int64_t i = 0; i < n; i++)
        if (x[i] > e->attrs[0].f) {
            y[k++] = i;
            y[k++] = (int64_t)x[i];
        }
    return CAMEO_OK;
}

static const cameo_attr_spec bound = {
    .size = sizeof bound, .name = "bound", .kind = CAMEO_ATTR_FLOAT, .default_float = 1.5f};
static const cameo_attr_spec *const above_attrs[] = {&bound};
static const cameo_plugin_op above = {.size = sizeof above,
                                      .name = "test.Above",
                                      .min_inputs = 1,
                                      .max_inputs = 1,
                                      .min_outputs = 1,
                                      .max_outputs = 1,
                                      .traits = CAMEO_OP_PURE,
                                      .types = ": f32 -> i64",
                                      .n_attrs = 1,
                                      .attrs = above_attrs,
                                      .rule = above_rule,
                                      .eval = above_eval};

/* ---- test.Double: twice the input after itself, of an odd shape; a tactic in place ------------ */

static cameo_status twice_rule(const cameo_rule *r)
{
    const cameo_operand_type *x = &r->inputs[0];
    if (x->rank < 0)
        return CAMEO_OK;
    return r->call->output(r, 0, x->dtype, x->rank, x->dims);
}

static cameo_status twice_eval(const cameo_eval *e)
{
    const float *x = e->inputs[0]->data;
    float *y = e->outputs[0]->data;
    for (size_t i = 0; i < e->inputs[0]->bytes / sizeof *x; i++)
        y[i] = 2 * x[i];
    return CAMEO_OK;
}

static int n_runs, n_in_place;

/* None for eight elements. */
static size_t hundred(const cameo_problem *p)
{
    return p->inputs[0]->dims[0] == 8 ? 0 : 100;
}

static cameo_status twice_run(const cameo_run *r)
{
    const float *x = r->inputs[0];
    float *y = r->outputs[0];
    n_runs++;
    n_in_place += (const void *)x == (const void *)y;
    assert_non_null(r->workspace);
    memset(r->workspace, 1, hundred(r->problem));
    for (size_t i = 0; i < r->problem->inputs[0]->bytes / sizeof *x; i++)
        y[i] = 2 * x[i];
    return CAMEO_OK;
}

static const char *odd_lengths(const cameo_problem *p)
{
    return p->inputs[0]->dims[0] % 2 ? "an odd length" : NULL;
}

static const cameo_plugin_tactic twice_tactic = {.size = sizeof twice_tactic,
                                                 .name = "test_twice",
                                                 .reject = odd_lengths,
                                                 .workspace = hundred,
                                                 .in_place = 1,
                                                 .run = twice_run};
static const cameo_plugin_tactic *const twice_tactics[] = {&twice_tactic};
static const cameo_plugin_op twice = {.size = sizeof twice,
                                      .name = "test.Double",
                                      .min_inputs = 1,
                                      .max_inputs = 1,
                                      .min_outputs = 1,
                                      .max_outputs = 1,
                                      .traits = CAMEO_OP_PURE,
                                      .rule = twice_rule,
                                      .eval = twice_eval,
                                      .n_tactics = 1,
                                      .tactics = twice_tactics};

/* ---- test.Add: two inputs, the second optional, on CUDA alone --------------------------------- */

static int bad_launch; /* which mistake `add_launch` makes */

static cameo_status add_launch(const cameo_problem *p, cameo_kernel_launch *l)
{
    assert_int_equal(p->level, 800);
    l->grid[0] = 1;
    l->block[0] = bad_launch == 1 ? 2048 : 32;
    l->n_args = bad_launch == 2 ? CAMEO_MAX_KERNEL_ARGS + 1 : 3;
    l->args[0] = (cameo_kernel_arg){CAMEO_ARG_INPUT, bad_launch == 3 ? 5 : 0, 0};
    l->args[1] = (cameo_kernel_arg){CAMEO_ARG_OUTPUT, bad_launch == 4 ? -1 : 0, 0};
    l->args[2] =
        (cameo_kernel_arg){bad_launch == 5 ? (cameo_kernel_arg_kind)9 : CAMEO_ARG_FLOAT, 0, 1};
    return bad_launch == 6 ? CAMEO_ERR_UNSUPPORTED : CAMEO_OK;
}

static const cameo_plugin_tactic add_tactic = {
    .size = sizeof add_tactic,
    .name = "test_add_block",
    .device = CAMEO_CUDA,
    .in_place = 1,
    .source = "extern \"C\" __global__ void add(const float *x, float *y, float z)\n"
              "{\n    y[threadIdx.x] = x[threadIdx.x] + z;\n}\n",
    .kernel = "add",
    .launch = add_launch};
static const cameo_plugin_tactic broken_tactic = {.size = sizeof broken_tactic,
                                                  .name = "test_broken",
                                                  .device = CAMEO_CUDA,
                                                  .source = "this is no CUDA C",
                                                  .kernel = "add",
                                                  .launch = add_launch};
static const cameo_plugin_tactic *const add_tactics[] = {&add_tactic};
static const cameo_plugin_tactic *const broken_tactics[] = {&broken_tactic};
#define DEVICE_OP(id, text, list)                                                                  \
    static const cameo_plugin_op id = {.size = sizeof id,                                          \
                                       .name = text,                                               \
                                       .min_inputs = 1,                                            \
                                       .max_inputs = 1,                                            \
                                       .min_outputs = 1,                                           \
                                       .max_outputs = 1,                                           \
                                       .traits = CAMEO_OP_PURE,                                    \
                                       .rule = twice_rule,                                         \
                                       .eval = twice_eval,                                         \
                                       .n_tactics = 1,                                             \
                                       .tactics = list}
DEVICE_OP(add, "test.Add", add_tactics);
DEVICE_OP(broken, "test.Broken", broken_tactics);

/* ---- test.Shape: sizes computed from sizes, attributes of every kind -------------------------- */

static cameo_status shape_rule(const cameo_rule *r)
{
    const cameo_operand_type *x = &r->inputs[0];
    const cameo_rule_calls *c = r->call;
    cameo_dim n = x->dims[0];
    cameo_dim dims[] = {c->combine(r, c->combine(r, n, '+', 1), '*', r->attrs[0].i),
                        c->combine(r, n, '/', 2), c->combine(r, n, '^', 2),
                        c->combine(r, n, '-', 1)};
    return c->output(r, 0, CAMEO_F32, 4, dims);
}

/* The attributes, one after the other, as numbers. */
static cameo_status shape_eval(const cameo_eval *e)
{
    const cameo_attr *a = e->attrs;
    float *y = e->outputs[0]->data;
    int k = 0;
    y[k++] = (float)a[0].i;
    y[k++] = a[1].f;
    y[k++] = (float)strlen(a[2].s);
    for (int64_t i = 0; i < a[3].n; i++)
        y[k++] = (float)a[3].ints[i];
    for (int64_t i = 0; i < a[4].n; i++)
        y[k++] = a[4].floats[i];
    for (int64_t i = 0; i < a[5].n; i++)
        y[k++] = (float)strlen(a[5].strings[i]);
    y[k++] = a[6].tensor ? ((const float *)a[6].tensor->data)[1] : -1;
    return CAMEO_OK;
}

#define SPEC(id, text, k)                                                                          \
    static const cameo_attr_spec id = {.size = sizeof id, .name = text, .kind = k}
SPEC(times, "times", CAMEO_ATTR_INT);
SPEC(real, "real", CAMEO_ATTR_FLOAT);
SPEC(word, "word", CAMEO_ATTR_STRING);
SPEC(ints, "ints", CAMEO_ATTR_INTS);
SPEC(reals, "reals", CAMEO_ATTR_FLOATS);
SPEC(words, "words", CAMEO_ATTR_STRINGS);
SPEC(block, "block", CAMEO_ATTR_TENSOR);
static const cameo_attr_spec *const shape_attrs[] = {&times, &real,  &word, &ints,
                                                     &reals, &words, &block};
static const cameo_plugin_op shape = {.size = sizeof shape,
                                      .name = "test.Shape",
                                      .min_inputs = 1,
                                      .max_inputs = 1,
                                      .min_outputs = 1,
                                      .max_outputs = 1,
                                      .traits = CAMEO_OP_PURE,
                                      .types = ": f32 -> f32",
                                      .n_attrs = 7,
                                      .attrs = shape_attrs,
                                      .rule = shape_rule,
                                      .eval = shape_eval};

static const cameo_plugin_op *const ops[] = {&above, &twice, &shape, &add, &broken};
static const cameo_plugin plugin = {.size = sizeof plugin,
                                    .abi = CAMEO_PLUGIN_ABI,
                                    .name = "tests",
                                    .version = "2",
                                    .n_ops = CM_COUNT(ops),
                                    .ops = ops};

static void plugins_register_once(void **state)
{
    (void)state;
    cameo_error err;
    assert_int_equal(CAMEO_OK, cameo_plugin_register(&plugin, &err));
    assert_int_equal(CAMEO_OK, cameo_plugin_register(&plugin, &err));
    cameo_plugin twin = plugin;
    assert_int_equal(CAMEO_ERR_ARGUMENT, cameo_plugin_register(&twin, &err));
    assert_string_equal(err.message, "plugin 'tests': there is an operator 'test.Above' already");
    assert_string_equal(cm_op_find("test.Double")->plugin, "tests 2");
}

static void data_size_outputs(void **state)
{
    run_case *t = *state;
    static const float x[] = {1, 2, 3, 0};
    load(t, "x: f32[n]\ny = test.Above(x)\nz = Shape(y)\nreturn y, z\n");
    give(t, 0, CM_F32, 1, (int64_t[]){4}, x);
    run(t);
    expect_i64(t, 0, 4, (int64_t[]){1, 2, 2, 3});
    expect_i64(t, 1, 2, (int64_t[]){2, 2});
    give(t, 0, CM_F32, 1, (int64_t[]){1}, x);
    assert_int_equal(CM_ERR_DATA, cm_context_run(&t->cx, t->context));
    assert_non_null(strstr(t->cx.message, "nothing is above the bound"));
}

static void a_workspace_of_no_bytes_is_somewhere(void **state)
{
    run_case *t = *state;
    static const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    load(t, "x: f32[*]\ny = test.Double(x)\nreturn y\n"); /* of no known rank: it is in no arena */
    give(t, 0, CM_F32, 1, (int64_t[]){8}, x);
    n_runs = 0;
    run(t);
    assert_int_equal(n_runs, 1);
    assert_int_equal(cm_context_arena_bytes(t->context), 0);
    expect_f32(t, 0, 8, (float[]){2, 4, 6, 8, 10, 12, 14, 16});
}

static void tactics_run_where_they_take_the_problem(void **state)
{
    run_case *t = *state;
    static const float x[] = {1, 2, 3, 4};
    load(t, "x: f32[n]\na = Relu(x)\nb = test.Double(a)\nc = test.Double(b)\nreturn c\n");
    n_runs = n_in_place = 0;
    give(t, 0, CM_F32, 1, (int64_t[]){4}, x);
    run(t);
    expect_f32(t, 0, 4, (float[]){4, 8, 12, 16});
    assert_int_equal(n_runs, 2);
    assert_int_equal(n_in_place, 2);
    cm_layer_facts f;
    cm_context_layer(t->context, 1, &f);
    assert_string_equal(f.tactic, "test_twice");
    assert_false(f.reference);
    give(t, 0, CM_F32, 1, (int64_t[]){3}, x);
    run(t);
    expect_f32(t, 0, 3, (float[]){4, 8, 12});
    assert_int_equal(n_runs, 2);
    cm_context_layer(t->context, 1, &f);
    assert_true(f.reference);
}

static cm_status bind_for_a_class(run_case *t, const char *text)
{
    static const float x[32];
    const cm_target target = {CM_DEVICE_CUDA, 800, 0};
    if (t->context)
        cm_context_destroy(t->context);
    t->context = NULL;
    if (text) {
        load(t, text);
        cm_context_destroy(t->context);
    }
    cm_context_options o = {.threads = 1, .target = &target};
    ok(t, cm_context_create(&t->cx, t->engine, &o, &t->context));
    give(t, 0, CM_F32, 1, (int64_t[]){32}, x);
    return cm_context_bind(&t->cx, t->context);
}

/* Kernels are compiled for a class of GPUs; what a plugin says of their launch is checked. */
static void kernels_of_plugins_compile(void **state)
{
    run_case *t = *state;
    needs_nvrtc();
    static const char *const mistakes[] = {NULL,
                                           "a block of 2048x",
                                           "33 arguments",
                                           "argument 0 of the kernel is input 5",
                                           "output -1",
                                           "the unknown kind 9",
                                           "refuses it without a reason"};
    cm_layer_facts f;
    bad_launch = 0;
    ok(t, bind_for_a_class(t, "x: f32[n]\na = Relu(x)\ny = test.Add(a)\nreturn y\n"));
    cm_context_layer(t->context, 1, &f);
    assert_string_equal(f.tactic, "test_add_block");
    for (bad_launch = 1; bad_launch < CM_COUNT(mistakes); bad_launch++) {
        assert_int_not_equal(CM_OK, bind_for_a_class(t, NULL));
        if (!strstr(t->cx.message, mistakes[bad_launch]) ||
            !strstr(t->cx.message, "tactic 'test_add_block'"))
            fail_msg("found: %s\nwanted: %s", t->cx.message, mistakes[bad_launch]);
    }
    bad_launch = 0;
}

static void kernels_that_do_not_compile_say_why(void **state)
{
    run_case *t = *state;
    needs_nvrtc();
    assert_int_not_equal(CM_OK, bind_for_a_class(t, "x: f32[n]\ny = test.Broken(x)\nreturn y\n"));
    assert_non_null(strstr(t->cx.message, "test.Broken node"));
    assert_non_null(
        strstr(t->cx.message, "kernel add of test_broken.cu does not compile for sm_80"));
}

/* A value that is read again, and the caller's input, are never written over. */
static void values_that_are_needed_stay(void **state)
{
    run_case *t = *state;
    float x[] = {1, 2, 3, 4};
    load(t, "x: f32[4]\n@to = i64[2] {2, 2}\na = Relu(x)\nb = test.Double(a)\nc = "
            "test.Double(x)\nd = Add(a, b)\n"
            "e = Add(c, d)\nv = Reshape(e, @to)\nf = test.Double(e)\ng = Relu(v)\n"
            "return d, e, f, g\n");
    give(t, 0, CM_F32, 1, (int64_t[]){4}, x);
    run(t);
    expect_f32(t, 0, 4, (float[]){3, 6, 9, 12});
    expect_f32(t, 1, 4, (float[]){5, 10, 15, 20});
    expect_f32(t, 2, 4, (float[]){10, 20, 30, 40});
    expect_f32(t, 3, 4, (float[]){5, 10, 15, 20});
    assert_true(x[0] == 1 && x[3] == 4);
}

static void sizes_and_attributes_reach_the_plan(void **state)
{
    run_case *t = *state;
    static const float x[5];
    load(t, "x: f32[n]\ny = test.Shape(x) {times=2, real=0.5, word=\"four\", ints=[7,8], "
            "reals=[0.25], words=[\"a\",\"bcd\"], block=f32[2]{3,9}}\nreturn y\n");
    const cm_type *type = cm_engine_output_type(t->engine, 0);
    assert_int_equal(type->rank, 4);
    give(t, 0, CM_F32, 1, (int64_t[]){5}, x);
    run(t);
    const cm_tensor *y = out(t, 0);
    assert_int_equal(y->dims[0], 12);
    assert_int_equal(y->dims[1], 2);
    assert_int_equal(y->dims[2], 3);
    assert_int_equal(y->dims[3], 4);
    static const float want[] = {2, 0.5f, 4, 7, 8, 0.25f, 1, 3, 9};
    for (int i = 0; i < CM_COUNT(want); i++)
        assert_true(((const float *)y->data)[i] == want[i]);
    assert_int_equal(cm_engine_plan(t->engine)->n_plugins, 1);
    assert_string_equal(cm_engine_plan(t->engine)->plugins[0].op, "test.Shape");
    assert_string_equal(cm_engine_plan(t->engine)->plugins[0].plugin, "tests 2");
}

static void plans_name_the_plugin_that_is_missing(void **state)
{
    run_case *t = *state;
    build(t, "x: f32[4]\ny = Relu(x)\nreturn y\n");
    cm_plan_step *s = (cm_plan_step *)&t->plan->variants[0].lists[0].steps[0];
    static const cm_plan_plugin needs = {"gone.Operator", "elsewhere 3"};
    s->op = "gone.Operator";
    t->plan->plugins = &needs;
    t->plan->n_plugins = 1;
    t->bytes.n = 0;
    ok(t, cm_plan_write_memory(&t->cx, t->plan, t->constants, &t->bytes));
    assert_int_equal(CM_ERR_PLAN, cm_engine_open_memory(&t->cx, t->bytes.data, t->bytes.n, true,
                                                        NULL, &t->engine));
    assert_non_null(strstr(t->cx.message, "the plan needs plugin 'elsewhere 3' for operator "
                                          "gone.Operator, and it is not loaded"));
}

static void malformed_plugins_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        int what;
    } cases[] = {
        {"ABI 9, this library has 1", 0}, {"no name or no operators", 1},
        {"has no domain of its own", 2},  {"lacks a type rule or a reference", 3},
        {"its types are malformed", 4},   {"2 to 1 inputs", 5},
        {"tactic 'bare' lacks run", 6},   {"tactic 'bare' lacks source, kernel or launch", 7},
        {"is listed twice", 8},           {"has no domain of its own", 9},
        {"too small a struct", 10},       {"traits 128 are unknown", 11},
        {"holds white space", 12},
    };
    static cameo_plugin_tactic bare[CM_COUNT(cases)];
    static const cameo_plugin_tactic *lists[CM_COUNT(cases)];
    static const cameo_attr_spec *const twins[] = {&bound, &bound};
    for (int i = 0; i < CM_COUNT(cases); i++) {
        cameo_error err;
        cameo_plugin p = plugin;
        cameo_plugin_op op = above;
        const cameo_plugin_op *one = &op;
        int w = cases[i].what;
        op.name = w == 2 ? "Plain" : w == 9 ? "ai.onnx.ml.Mine" : "bad.Operator";
        bare[i] = twice_tactic;
        bare[i].name = w == 12 ? "a b" : "bare";
        bare[i].run = NULL;
        bare[i].device = w == 7 ? CAMEO_CUDA : CAMEO_CPU;
        lists[i] = &bare[i];
        p.n_ops = w == 1 ? 0 : 1;
        p.ops = &one;
        p.abi = w == 0 ? 9 : p.abi;
        op.rule = w == 3 ? NULL : op.rule;
        op.types = w == 4 ? "what" : op.types;
        op.min_inputs = w == 5 ? 2 : 1;
        op.n_tactics = w == 6 || w == 7 || w == 12;
        op.tactics = &lists[i];
        op.n_attrs = w == 8 ? 2 : 1;
        op.attrs = w == 8 ? twins : op.attrs;
        op.size = w == 10 ? 8 : op.size;
        op.traits = w == 11 ? 128 : op.traits;
        assert_int_equal(CAMEO_ERR_ARGUMENT, cameo_plugin_register(&p, &err));
        if (!strstr(err.message, cases[i].why))
            fail_msg("found: %s\nwanted: %s", err.message, cases[i].why);
        assert_null(cm_op_find("bad.Operator"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(plugins_register_once),
        TEST(data_size_outputs),
        TEST(a_workspace_of_no_bytes_is_somewhere),
        TEST(tactics_run_where_they_take_the_problem),
        TEST(kernels_of_plugins_compile),
        TEST(kernels_that_do_not_compile_say_why),
        TEST(values_that_are_needed_stay),
        TEST(sizes_and_attributes_reach_the_plan),
        TEST(plans_name_the_plugin_that_is_missing),
        TEST(malformed_plugins_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
