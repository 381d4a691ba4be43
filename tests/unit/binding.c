/* binding.c -- contexts whose input shapes come back: what was bound is taken up again. On the CPU, and on the driver
 * of tests/fake, which counts what it is asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lowered.h"
#include "runtime/binding.h"
#include "runtime/device.h"
#include "unit/fake_driver.h"
#include "unit/needs_nvrtc.h"

enum { MOST_ROWS = 16, COLUMNS = 8 };

static const char network[] = "x: f32[rows,8]\na = Abs(x)\ny = Softmax(a)\nreturn y\n";
static const cm_target cuda = {CM_DEVICE_CUDA, 0, 0};

typedef struct {
    cm_arena arena, scratch;
    cm_ctx cx;
    cm_engine *e;
    cm_context *c;
    float x[MOST_ROWS * COLUMNS];
} fixture;

static void open_with(fixture *f, const char *text, const cm_context_options *o)
{
    memset(f, 0, sizeof *f);
    cm_arena_init(&f->arena, NULL);
    cm_arena_init(&f->scratch, NULL);
    f->cx = (cm_ctx){.arena = &f->arena, .scratch = &f->scratch};
    open_lowered(&f->cx, &f->arena, text, &f->e);
    if (cm_context_create(&f->cx, f->e, o, &f->c) != CM_OK)
        fail_msg("%s", f->cx.message);
    for (int i = 0; i < MOST_ROWS * COLUMNS; i++)
        f->x[i] = (float)(i % 13) - 6;
}

static void open_text(fixture *f, const char *text, const cm_target *target)
{
    open_with(f, text, &(cm_context_options){.threads = 1, .target = target});
}

static void open_network(fixture *f, const cm_target *target)
{
    open_text(f, network, target);
}

static void close_network(fixture *f)
{
    cm_context_destroy(f->c);
    cm_engine_release(f->e);
    cm_arena_deinit(&f->arena);
    cm_arena_deinit(&f->scratch);
}

static void run(fixture *f)
{
    if (cm_context_run(&f->cx, f->c) != CM_OK)
        fail_msg("%s", f->cx.message);
}

static const float *run_rows(fixture *f, int rows)
{
    cm_datum d = {.kind = CM_TENSOR};
    assert_true(cm_tensor_shape(&d.tensor, CM_F32, 2, (int64_t[]){rows, COLUMNS}));
    d.tensor.data = f->x;
    assert_int_equal(cm_context_set_input(&f->cx, f->c, 0, &d), CM_OK);
    run(f);
    assert_int_equal(cm_context_output(f->c, 0)->tensor.dims[0], rows);
    return cm_context_output(f->c, 0)->tensor.data;
}

static void check_rows(fixture *f, int rows)
{
    const float *y = run_rows(f, rows);
    for (int r = 0; r < rows; r++) {
        float sum = 0;
        for (int i = 0; i < COLUMNS; i++)
            sum += y[r * COLUMNS + i];
        assert_float_equal(sum, 1, 1e-5);
    }
}

static void shapes_that_come_back_are_not_bound_again(void **state)
{
    (void)state;
    fixture f;
    open_network(&f, NULL);
    for (int turn = 0; turn < 3; turn++)
        for (int rows = 1; rows <= CM_MOST_BINDINGS; rows++) {
            check_rows(&f, rows);
            assert_int_equal(f.c->binding, rows - 1);
        }
    size_t held = cm_context_total_bytes(f.c);
    check_rows(&f, 3);
    assert_int_equal(cm_context_total_bytes(f.c), held);
    /* One more: the one whose use is longest ago goes. */
    check_rows(&f, CM_MOST_BINDINGS + 1);
    assert_int_equal(f.c->binding, 0);
    check_rows(&f, 2);
    assert_int_equal(f.c->binding, 1);
    check_rows(&f, 1); /* 4 has not been used for longest */
    assert_int_equal(f.c->binding, 3);
    close_network(&f);
}

static void a_binding_that_failed_is_not_taken_up(void **state)
{
    (void)state;
    fixture f;
    cm_datum d = {.kind = CM_TENSOR};
    open_network(&f, NULL);
    check_rows(&f, 2);
    assert_true(cm_tensor_shape(&d.tensor, CM_F32, 2, (int64_t[]){2, COLUMNS + 1}));
    d.tensor.data = f.x;
    assert_int_equal(cm_context_set_input(&f.cx, f.c, 0, &d), CM_OK);
    assert_int_equal(cm_context_run(&f.cx, f.c), CM_ERR_ARGUMENT);
    assert_int_equal(cm_context_run(&f.cx, f.c), CM_ERR_ARGUMENT);
    check_rows(&f, 2);
    close_network(&f);
}

/* ---- Elements that tell sizes -------------------------------------------------------------------- */

/* Bind a sum along the axis that an input tells. Did it go to the device? */
static bool sum_goes(fixture *f, int64_t axis)
{
    cm_layer_facts facts;
    cm_datum d = {.kind = CM_TENSOR}, a = {.kind = CM_TENSOR};
    assert_true(cm_tensor_shape(&d.tensor, CM_F32, 2, (int64_t[]){4, COLUMNS}));
    assert_true(cm_tensor_shape(&a.tensor, CM_I64, 1, (int64_t[]){1}));
    d.tensor.data = f->x;
    a.tensor.data = &axis;
    if (cm_context_set_input(&f->cx, f->c, 0, &d) != CM_OK ||
        cm_context_set_input(&f->cx, f->c, 1, &a) != CM_OK ||
        cm_context_bind(&f->cx, f->c) != CM_OK)
        fail_msg("%s", f->cx.message);
    cm_context_layer(f->c, 0, &facts);
    return facts.away;
}

static const char summing[] =
    "x: f32[4,8]\na: i64[1]\ny = ReduceSum(x, a) {keepdims=0}\nreturn y\n";

static void elements_that_tell_sizes_are_bound(void **state)
{
    static const cm_target sm_90 = {CM_DEVICE_CUDA, 900, 0};
    fixture f;
    (void)state;
    needs_nvrtc();
    open_text(&f, summing, &sm_90);
    int value = f.e->lists[0].plan->outputs[0];
    for (int turn = 0; turn < 2; turn++)
        for (int64_t axis = 0; axis < 2; axis++) {
            assert_true(sum_goes(&f, axis));
            assert_int_equal(f.c->slots[value].datum.tensor.dims[0], axis == 0 ? 8 : 4);
            assert_int_equal(f.c->binding, axis);
        }
    assert_int_equal(f.c->elements_changed, 1); /* the second axis; after that both are known */
    close_network(&f);
}

static void elements_that_vary_are_not_bound_for_ever(void **state)
{
    static const cm_target sm_90 = {CM_DEVICE_CUDA, 900, 0};
    fixture f;
    (void)state;
    needs_nvrtc();
    open_text(&f, "x: f32[4,8]\na: i64[1]\n@end = i64[1] {100}\ny = Slice(x, a, @end)\nreturn y\n",
              &sm_90);
    int gone = 0, n = 0;
    for (int64_t from = -40; from < 60; from++, n++)
        gone += sum_goes(&f, from);
    assert_in_range(gone, 1, n - 1);
    assert_false(sum_goes(&f, 3));
    close_network(&f);
}

/* On the CPU a large step is formed for what the numbers are in this run. */
static void elements_form_late_steps(void **state)
{
    enum { ROWS = 64, WIDE = 128 };
    static float x[ROWS * WIDE];
    fixture f;
    (void)state;
    open_text(&f, "x: f32[64,128]\na: i64[1]\ny = ReduceSum(x, a) {keepdims=0}\nreturn y\n", NULL);
    for (int i = 0; i < ROWS * WIDE; i++)
        x[i] = 1;
    for (int64_t turn = 0; turn < 4; turn++) {
        int64_t axis = turn % 2, n = axis ? ROWS : WIDE;
        cm_layer_facts facts;
        cm_datum d = {.kind = CM_TENSOR}, a = {.kind = CM_TENSOR};
        assert_true(cm_tensor_shape(&d.tensor, CM_F32, 2, (int64_t[]){ROWS, WIDE}));
        assert_true(cm_tensor_shape(&a.tensor, CM_I64, 1, (int64_t[]){1}));
        d.tensor.data = x;
        a.tensor.data = &axis;
        assert_int_equal(cm_context_set_input(&f.cx, f.c, 0, &d), CM_OK);
        assert_int_equal(cm_context_set_input(&f.cx, f.c, 1, &a), CM_OK);
        run(&f);
        const cm_tensor *y = &cm_context_output(f.c, 0)->tensor;
        assert_int_equal(cm_tensor_elems(y), n);
        for (int64_t i = 0; i < n; i++)
            assert_true(((const float *)y->data)[i] == (axis ? WIDE : ROWS));
        cm_context_layer(f.c, 0, &facts);
        assert_false(facts.reference);
    }
    close_network(&f);
}

/* ---- On the driver that counts ------------------------------------------------------------------ */

static int (*count)(const char *name);

static int made(void)
{
    return count("cuGraphInstantiateWithFlags");
}

static int updated(void)
{
    return count("cuGraphExecUpdate_v2");
}

static void graphs_are_made_once_for_a_shape(void **state)
{
    (void)state;
    needs_nvrtc();
    fixture f;
    open_network(&f, &cuda);
    int before = made();
    for (int turn = 0; turn < 3; turn++)
        for (int rows = CM_MOST_BINDINGS; rows > 0;
             rows--) /* the largest first: memory stays where it is */
            run_rows(&f, rows);
    assert_int_equal(made() - before, CM_MOST_BINDINGS);
    assert_int_equal(updated(), 0);
    run_rows(
        &f,
        MOST_ROWS); /* wants more memory: the others are recorded again when they come, not made anew */
    assert_int_equal(made() - before, CM_MOST_BINDINGS + 1);
    run_rows(&f, 2);
    assert_int_equal(made() - before, CM_MOST_BINDINGS + 1);
    assert_int_equal(updated(), 1);
    close_network(&f);
}

/* Memory on the device is the host's with this driver. */
static void run_there(fixture *f, float *x, float *y)
{
    cm_tensor t;
    assert_true(cm_tensor_shape(&t, CM_F32, 2, (int64_t[]){4, COLUMNS}));
    t.data = x;
    if (cm_context_set_device_input(&f->cx, f->c, 0, &t) != CM_OK ||
        cm_context_set_device_output(&f->cx, f->c, 0, y, sizeof(float) * 4 * COLUMNS) != CM_OK)
        fail_msg("%s", f->cx.message);
    run(f);
}

static void other_pointers_change_the_graph(void **state)
{
    (void)state;
    needs_nvrtc();
    fixture f;
    _Alignas(16) static float x[2][4 * COLUMNS], y[2][4 * COLUMNS];
    open_network(&f, &cuda);
    run_there(&f, x[0], y[0]);
    int before = made(), was = updated(), copies = count("cuMemcpyDtoDAsync_v2");
    run_there(&f, x[0], y[0]);
    assert_int_equal(updated(), was);
    run_there(&f, x[1], y[1]);
    assert_int_equal(updated(), was + 1);
    run_there(&f, x[1], y[0]);
    assert_int_equal(updated(), was + 2);
    assert_int_equal(made(), before);
    /* Kernels write where the caller wants it; only over an input the result comes last. */
    assert_int_equal(count("cuMemcpyDtoDAsync_v2"), copies);
    run_there(&f, x[1], x[1]);
    assert_int_equal(count("cuMemcpyDtoDAsync_v2"), copies + 1);
    close_network(&f);
}

static void count_problem(void *user, uint64_t signature, const cm_problem *p, cm_candidate *list,
                          int n, cm_threads *threads)
{
    (void)signature, (void)p, (void)list, (void)n, (void)threads;
    ++*(int *)user;
}

/* How often a tactic is chosen while x: f32[2,16,32] is bound: once for each layout of a step. */
static int choices_of(const char *text)
{
    fixture f;
    int n = 0;
    const cm_context_options o = {.threads = 1, .tune = count_problem, .tune_user = &n};
    open_with(&f, text, &o);
    assert_int_equal(cm_context_set_shape(&f.cx, f.c, 0, 3, (int64_t[]){2, 16, 32}), CM_OK);
    if (cm_context_bind(&f.cx, f.c) != CM_OK)
        fail_msg("%s", f.cx.message);
    close_network(&f);
    return n;
}

static void channels_last_is_asked_for_where_a_step_may_want_it(void **state)
{
    (void)state;
    assert_int_equal(choices_of("x: f32[2,16,32]\na = Abs(x)\n"
                                "b = Softmax(a)\ny = Exp(b)\nreturn y\n"),
                     3);
    assert_true(choices_of("x: f32[2,16,32]\na = Softmax(x)\n"
                           "b = Transpose(a) {perm=[0,2,1]}\ny = Exp(b)\nreturn y\n") > 3);
    assert_true(choices_of("x: f32[2,16,32]\na = Abs(x)\ny = Softmax(a) {axis=1}\nreturn y\n") > 2);
}

static int find_driver(void **state)
{
    char path[4096];
    (void)state;
    assert_true(use_fake_driver(path, sizeof path));
    void *driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        fail_msg("%s", dlerror());
    *(void **)&count = dlsym(driver, "fake_cuda_count");
    return count ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_that_come_back_are_not_bound_again),
        cmocka_unit_test(a_binding_that_failed_is_not_taken_up),
        cmocka_unit_test(elements_that_tell_sizes_are_bound),
        cmocka_unit_test(elements_that_vary_are_not_bound_for_ever),
        cmocka_unit_test(elements_form_late_steps),
        cmocka_unit_test(graphs_are_made_once_for_a_shape),
        cmocka_unit_test(other_pointers_change_the_graph),
        cmocka_unit_test(channels_last_is_asked_for_where_a_step_may_want_it),
    };
    return cmocka_run_group_tests_name("binding", tests, find_driver, NULL);
}
