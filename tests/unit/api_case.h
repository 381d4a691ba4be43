/* api_case.h -- for tests of the public API: calls that must work or be refused, a small network, opened.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TESTS_API_CASE_H
#define CM_TESTS_API_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cameo.h"

static cameo_error err;

static inline void ok(cameo_status st)
{
    if (st != CAMEO_OK)
        fail_msg("%s: %s", cameo_status_text(st), err.message);
}

/* A call that must be refused with this status and a sentence. */
#define REFUSED(status_, call)                                                                     \
    do {                                                                                           \
        err = (cameo_error){CAMEO_OK, ""};                                                         \
        cameo_status st_ = (call);                                                                 \
        if (st_ != (status_))                                                                      \
            fail_msg("%s: found %d, wanted %d (%s)", #call, (int)st_, (int)(status_),              \
                     err.message);                                                                 \
        assert_int_equal(err.status, status_);                                                     \
        assert_true(strlen(err.message) > 5);                                                      \
    } while (0)
#define WRONG(call) REFUSED(CAMEO_ERR_ARGUMENT, call)

static inline cameo_tensor floats(float *data, int rank, int64_t a, int64_t b)
{
    cameo_tensor t = {CAMEO_F32, rank, {a, b}, data, 0};
    t.bytes = (size_t)((rank > 0 ? a : 1) * (rank > 1 ? b : 1)) * sizeof *data;
    return t;
}

static inline void node(cameo_network *n, const char *op, const char *in0, const char *in1,
                        const char *out)
{
    const char *in[] = {in0, in1};
    ok(cameo_network_add_node(n, op, out, in1 ? 2 : in0 ? 1 : 0, in, 1, &out, 0, NULL, &err));
}

/* x f32[n,2]: y = Relu(x) * 2, nz = NonZero(x). */
static inline cameo_network *sample(const cameo_network_options *options)
{
    cameo_network *n = NULL;
    float two = 2;
    cameo_tensor t = floats(&two, 0, 0, 0);
    ok(cameo_network_create("sample", options, &n, &err));
    ok(cameo_network_add_input(n, "x", CAMEO_F32, 2, (const int64_t[]){-1, 2},
                               (const char *const[]){"n", NULL}, &err));
    ok(cameo_network_add_constant(n, "two", &t, &err));
    node(n, "Relu", "x", NULL, "r");
    node(n, "Mul", "r", "two", "y");
    node(n, "NonZero", "x", NULL, "nz");
    ok(cameo_network_mark_output(n, "y", &err));
    ok(cameo_network_mark_output(n, "nz", &err));
    return n;
}

typedef struct {
    void *bytes;
    size_t n;
    cameo_engine *engine;
    cameo_context *context;
} opened;

static inline opened open_network(cameo_network *n)
{
    opened o = {0};
    ok(cameo_build_memory(n, NULL, &o.bytes, &o.n, &err));
    cameo_network_destroy(n);
    ok(cameo_engine_open_memory(o.bytes, o.n, NULL, &o.engine, &err));
    ok(cameo_context_create(o.engine, NULL, &o.context, &err));
    return o;
}

static inline void close_all(opened *o)
{
    cameo_context_destroy(o->context);
    cameo_engine_release(o->engine);
    cameo_free(o->bytes);
}

#endif
