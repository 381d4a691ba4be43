/* device_plan.c -- contexts for a class of GPUs, without one: which steps go there, which copies are planned.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lowered.h"
#include "runtime/device.h"
#include "unit/needs_nvrtc.h"

typedef struct {
    cm_arena arena, scratch;
    cm_ctx cx;
    cm_engine *e;
    cm_context *c;
} fixture;

static void open_text(fixture *f, const char *text, const cm_target *target)
{
    memset(f, 0, sizeof *f);
    cm_arena_init(&f->arena, NULL);
    cm_arena_init(&f->scratch, NULL);
    f->cx = (cm_ctx){.arena = &f->arena, .scratch = &f->scratch};
    const cm_context_options o = {.threads = 1, .target = target};
    open_lowered(&f->cx, &f->arena, text, &f->e);
    if (cm_context_create(&f->cx, f->e, &o, &f->c) != CM_OK)
        fail_msg("%s", f->cx.message);
}

static void bind(fixture *f)
{
    for (int i = 0; i < cm_engine_n_inputs(f->e); i++) {
        const cm_type *t = cm_engine_input_type(f->e, i);
        assert_int_equal(cm_context_set_shape(&f->cx, f->c, i, t->rank, t->dims), CM_OK);
    }
    if (cm_context_bind(&f->cx, f->c) != CM_OK)
        fail_msg("%s", f->cx.message);
}

static void close_text(fixture *f)
{
    cm_context_destroy(f->c);
    cm_engine_release(f->e);
    cm_arena_deinit(&f->arena);
    cm_arena_deinit(&f->scratch);
}

/* One letter an action: host, up, segment (and how many steps), down, wait, count, late, fetch. */
static const char *actions(const fixture *f, char *buf, size_t n)
{
    size_t at = 0;
    for (int i = 0; i < f->c->device->tables.n_actions; i++) {
        const cm_action *a = &f->c->device->tables.actions[i];
        if (a->kind == CM_DO_SEGMENT)
            at += (size_t)snprintf(buf + at, n - at, "s%d", a->n);
        else
            at += (size_t)snprintf(buf + at, n - at, "%c", "hu?dowclf"[a->kind]);
    }
    return buf;
}

static const cm_target sm_90 = {CM_DEVICE_CUDA, 900, 0};

static void a_chain_of_kernels_is_one_segment(void **state)
{
    (void)state;
    needs_nvrtc();
    fixture f;
    char text[64];
    open_text(&f, "x: f32[4,64]\na = Softmax(x)\nb = Softmax(a)\ny = Softmax(b)\nreturn y\n",
              &sm_90);
    bind(&f);
    assert_string_equal(actions(&f, text, sizeof text), "us3d");
    close_text(&f);
}

static void what_no_kernel_takes_runs_on_the_host(void **state)
{
    (void)state;
    needs_nvrtc();
    fixture f;
    char text[64];
    open_text(&f, "x: f32[8,8]\na = Softmax(x)\nb = Bernoulli(a)\nc = Softmax(b)\nreturn c\n",
              &sm_90);
    bind(&f);
    assert_string_equal(actions(&f, text, sizeof text), "us1dwhus1d");
    close_text(&f);
}

static void shape_arithmetic_breaks_no_segment(void **state)
{
    (void)state;
    needs_nvrtc();
    fixture f;
    char text[64];
    open_text(&f,
              "x: f32[4,64]\na = Softmax(x)\ns = Shape(a)\nb = Reshape(a, s)\ny = Softmax(b)\n"
              "return y, s\n",
              &sm_90);
    bind(&f);
    assert_string_equal(actions(&f, text, sizeof text), "us3d");
    const cm_tensor *s = &f.c->slots[f.e->variant->lists[0].outputs[1]].datum.tensor;
    assert_int_equal(((const int64_t *)s->data)[1], 64);
    close_text(&f);
}

static void what_the_host_makes_goes_ahead_of_a_segment(void **state)
{
    (void)state;
    needs_nvrtc();
    fixture f;
    char text[64];
    open_text(&f,
              "x: f32[8,8]\nz: f32[8,8]\na = Softmax(x)\nb = Bernoulli(z)\nc = Softmax(b)\n"
              "return a, c\n",
              &sm_90);
    bind(&f);
    assert_string_equal(actions(&f, text, sizeof text), "uhus2dd");
    close_text(&f);
}

/* What data size is counted on the device; what follows is late, and fetched where the host wants it. */
static void what_data_size_is_counted_there(void **state)
{
    (void)state;
    needs_nvrtc();
    fixture f;
    char text[64];
    open_text(&f, "x: f32[8,8]\na = Softmax(x)\ny = NonZero(a)\nz = Transpose(y)\nreturn z\n",
              &sm_90);
    bind(&f);
    assert_string_equal(actions(&f, text, sizeof text), "us2clf");
    close_text(&f);
    /* ... and late itself where memory for all that could be would be too much. */
    open_text(&f, "x: f32[9000,9000]\na = Softmax(x)\ny = NonZero(a)\nreturn y\n", &sm_90);
    bind(&f);
    assert_string_equal(actions(&f, text, sizeof text), "us1lf");
    close_text(&f);
}

static void copied_values_keep_memory_of_their_own(void **state)
{
    (void)state;
    needs_nvrtc();
    fixture f;
    open_text(&f, "x: f32[4,64]\na = Softmax(x)\nb = Softmax(a)\ny = Softmax(b)\nreturn a, y\n",
              &sm_90);
    bind(&f);
    const cm_place *p = f.c->device->tables.places;
    for (int v = 0; v < f.e->plan->n_values; v++)
        for (int w = 0; w < v; w++)
            if (p[v].planned && p[w].planned && (p[v].up || p[v].down) && (p[w].up || p[w].down))
                assert_true(p[v].offset + 1024 <= p[w].offset || p[w].offset + 1024 <= p[v].offset);
    close_text(&f);
}

static void a_class_runs_nothing(void **state)
{
    (void)state;
    needs_nvrtc();
    fixture f;
    float data[256] = {0};
    cm_datum x = {.kind = CM_TENSOR};
    assert_true(cm_tensor_shape(&x.tensor, CM_F32, 2, (int64_t[]){4, 64}));
    x.tensor.data = data;
    open_text(&f, "x: f32[4,64]\ny = Softmax(x)\nreturn y\n", &sm_90);
    assert_int_equal(cm_context_set_input(&f.cx, f.c, 0, &x), CM_OK);
    assert_int_equal(cm_context_run(&f.cx, f.c), CM_ERR_DEVICE);
    assert_string_equal(f.cx.message, "sm_90 was compiled for; there is no device to run on");
    close_text(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_of_kernels_is_one_segment),
        cmocka_unit_test(what_no_kernel_takes_runs_on_the_host),
        cmocka_unit_test(shape_arithmetic_breaks_no_segment),
        cmocka_unit_test(what_the_host_makes_goes_ahead_of_a_segment),
        cmocka_unit_test(what_data_size_is_counted_there),
        cmocka_unit_test(copied_values_keep_memory_of_their_own),
        cmocka_unit_test(a_class_runs_nothing),
    };
    return cmocka_run_group_tests_name("device_plan", tests, NULL, NULL);
}
