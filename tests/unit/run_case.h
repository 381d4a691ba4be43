/* run_case.h -- for tests: a network's text to plan bytes, and an allocator that counts and fails.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TESTS_RUN_CASE_H
#define CM_TESTS_RUN_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ir/network.h"
#include "lower/lower.h"
#include "plan/format.h"
#include "plan/plan.h"
#include "runtime/runtime.h"

typedef struct {
    atomic_long calls, live; /* allocations so far; bytes held */
    long fail_at;            /* 0: never; else this call fails */
} counter;

static inline void *counted_alloc(void *user, size_t bytes, size_t align)
{
    counter *c = user;
    if (atomic_fetch_add(&c->calls, 1) + 1 == c->fail_at)
        return NULL;
    atomic_fetch_add(&c->live, (long)bytes);
    return cm_alloc(NULL, bytes, align);
}

static inline void counted_release(void *user, void *p, size_t bytes)
{
    atomic_fetch_sub(&((counter *)user)->live, (long)bytes);
    cm_release(NULL, p, bytes);
}

typedef struct {
    cm_ctx cx;
    cm_arena arena, scratch;
    cm_buf bytes; /* of the plan */
    cm_plan *plan;
    const cm_tensor *const *constants;
    cm_engine *engine;
    cm_context *context;
    counter count;
    cm_allocator counting; /* for those who want it: cx.allocator = &counting */
} run_case;

static inline void ok(const run_case *t, cm_status st)
{
    if (st != CM_OK)
        fail_msg("%s: %s", cm_status_text(st), t->cx.message);
}

static inline int case_setup(void **state)
{
    run_case *t = test_calloc(1, sizeof *t);
    cm_arena_init(&t->arena, NULL);
    cm_arena_init(&t->scratch, NULL);
    cm_buf_init(&t->bytes, NULL);
    t->cx.arena = &t->arena;
    t->cx.scratch = &t->scratch;
    t->counting = (cm_allocator){counted_alloc, counted_release, &t->count};
    *state = t;
    return 0;
}

static inline int case_teardown(void **state)
{
    run_case *t = *state;
    cm_context_destroy(t->context);
    cm_engine_release(t->engine);
    cm_buf_deinit(&t->bytes);
    cm_arena_deinit(&t->scratch);
    cm_arena_deinit(&t->arena);
    test_free(t);
    return 0;
}

static inline cm_network *parse(run_case *t, const char *text)
{
    cm_network *g = NULL;
    ok(t, cm_network_parse(&t->cx, &t->arena, text, strlen(text), &g));
    ok(t, cm_network_infer(&t->cx, g));
    ok(t, cm_network_verify(&t->cx, g));
    return g;
}

/* Text to t->plan and t->bytes. */
static inline void build(run_case *t, const char *text)
{
    ok(t, cm_lower(&t->cx, &t->arena, parse(t, text), &t->plan, &t->constants));
    t->bytes.n = 0;
    ok(t, cm_plan_write_memory(&t->cx, t->plan, t->constants, &t->bytes));
}

/* ... to t->engine and t->context. */
static inline void load(run_case *t, const char *text)
{
    build(t, text);
    ok(t, cm_engine_open_memory(&t->cx, t->bytes.data, t->bytes.n, false, NULL, &t->engine));
    cm_context_options o = {.threads = 1};
    ok(t, cm_context_create(&t->cx, t->engine, &o, &t->context));
}

/* Another context of t->engine, bound to a shape of its only input. */
static inline void bind_again(run_case *t, const cm_context_options *o, int rank,
                              const int64_t *dims)
{
    cm_context_destroy(t->context);
    t->context = NULL;
    ok(t, cm_context_create(&t->cx, t->engine, o, &t->context));
    ok(t, cm_context_set_shape(&t->cx, t->context, 0, rank, dims));
    ok(t, cm_context_bind(&t->cx, t->context));
}

static inline cm_datum tensor(cm_dtype dtype, int rank, const int64_t *dims, const void *data)
{
    cm_datum d = {.kind = CM_TENSOR};
    assert_true(cm_tensor_shape(&d.tensor, dtype, rank, dims));
    d.tensor.data = (void *)data;
    d.tensor.packed = cm_dtype_is_sub_byte(dtype);
    return d;
}

static inline void give(run_case *t, int i, cm_dtype dtype, int rank, const int64_t *dims,
                        const void *data)
{
    cm_datum d = tensor(dtype, rank, dims, data);
    ok(t, cm_context_set_input(&t->cx, t->context, i, &d));
}

static inline void run(run_case *t)
{
    ok(t, cm_context_run(&t->cx, t->context));
}

static inline const cm_tensor *out(const run_case *t, int i)
{
    const cm_datum *d = cm_context_output(t->context, i);
    assert_non_null(d);
    assert_int_equal(d->kind, CM_TENSOR);
    return &d->tensor;
}

/* Output i is a vector (or scalar) of these elements. */
static inline void expect_i64(const run_case *t, int i, int64_t n, const int64_t *want)
{
    const cm_tensor *x = out(t, i);
    assert_int_equal(x->dtype, CM_I64);
    assert_int_equal(cm_tensor_elems(x), n);
    for (int64_t k = 0; k < n; k++)
        assert_int_equal(((const int64_t *)x->data)[k], want[k]);
}

static inline void expect_f32(const run_case *t, int i, int64_t n, const float *want)
{
    const cm_tensor *x = out(t, i);
    assert_int_equal(x->dtype, CM_F32);
    assert_int_equal(cm_tensor_elems(x), n);
    for (int64_t k = 0; k < n; k++)
        assert_float_equal(((const float *)x->data)[k], want[k], 1e-6f);
}

#endif
