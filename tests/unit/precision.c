/* precision.c -- which nodes stay in float32 is found by measuring.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/precision.h"

/* Stored in float16, p loses what q needs of it; the rest does not mind. */
static const char text[] = "x: f32[2,8]\n"
                           "@w = f32[8,8] random 1\n"
                           "@big = f32[] {100}\n"
                           "a = MatMul(x, @w) from \"first\"\n"
                           "b = Tanh(a) from \"tanh\"\n"
                           "c = MatMul(b, @w) from \"second\"\n"
                           "p = Add(c, @big) from \"shift\"\n"
                           "q = Sub(p, @big) from \"unshift\"\n"
                           "y = MatMul(q, @w) from \"third\"\n"
                           "z = MatMul(p, @w) from \"other\"\n"
                           "return y, z\n";

typedef struct {
    cm_arena arena, scratch;
    cm_ctx cx;
    float x[16];
    cm_datum in;
} job;

static cm_status make(void *user, cm_ctx *cx, cm_network **out)
{
    job *j = user;
    CM_TRY(cm_network_parse(cx, &j->arena, text, strlen(text), out));
    return cm_network_infer(cx, *out);
}

static cm_status feed(void *user, cm_ctx *cx, cm_context *c, int sample)
{
    job *j = user;
    for (int i = 0; i < 16; i++)
        j->x[i] = (float)((i * 7 + sample * 3) % 11) / 11 - 0.5f;
    j->in.kind = CM_TENSOR;
    assert_true(cm_tensor_shape(&j->in.tensor, CM_F32, 2, (int64_t[]){2, 8}));
    j->in.tensor.data = j->x;
    return cm_context_set_input(cx, c, 0, &j->in);
}

static cm_precision_result search(job *j, double tolerance)
{
    cm_precision_job p = {.make = make,
                          .feed = feed,
                          .user = j,
                          .n_samples = 2,
                          .compile = CM_COMPILE_DEFAULT,
                          .tolerance = tolerance,
                          .threads = 1};
    cm_precision_result r;
    p.compile.optimise.precision = CM_PRECISION_FP16;
    if (cm_precision_search(&j->cx, &j->arena, &p, &r) != CM_OK)
        fail_msg("%s", j->cx.message);
    return r;
}

static bool keeps(const cm_precision_result *r, const char *name)
{
    for (int i = 0; i < r->n_names; i++)
        if (!strcmp(r->names[i], name))
            return true;
    return false;
}

static void start(job *j)
{
    memset(j, 0, sizeof *j);
    cm_arena_init(&j->arena, NULL);
    cm_arena_init(&j->scratch, NULL);
    j->cx.arena = &j->arena;
    j->cx.scratch = &j->scratch;
}

static void end(job *j)
{
    cm_arena_deinit(&j->scratch);
    cm_arena_deinit(&j->arena);
}

static void a_wide_tolerance_keeps_nothing(void **state)
{
    (void)state;
    job j;
    start(&j);
    cm_precision_result r = search(&j, 1);
    assert_true(r.n_candidates > 0);
    assert_int_equal(r.n_kept, 0);
    assert_true(r.error > 0 && r.error <= 1);
    end(&j);
}

static void the_sensitive_node_stays(void **state)
{
    (void)state;
    job j;
    start(&j);
    cm_precision_result r = search(&j, 5e-3);
    assert_true(r.error <= 5e-3);
    assert_true(r.n_kept > 0 && r.n_kept < r.n_candidates);
    assert_true(keeps(&r, "shift"));
    assert_false(keeps(&r, "first"));
    end(&j);
}

static void a_tolerance_of_nothing_moves_nothing(void **state)
{
    (void)state;
    job j;
    start(&j);
    cm_precision_result r = search(&j, 0);
    assert_true(r.n_kept > 0);
    assert_true(r.error == 0);
    end(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wide_tolerance_keeps_nothing),
        cmocka_unit_test(the_sensitive_node_stays),
        cmocka_unit_test(a_tolerance_of_nothing_moves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
