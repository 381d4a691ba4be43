/* api.c -- the public API: wrong arguments, hooks, outputs, values, cancelling, and same bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cameo.h"
#include "unit/onnx_model.h"

static cameo_error err;

static void ok(cameo_status st)
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

static cameo_tensor floats(float *data, int rank, int64_t a, int64_t b)
{
    cameo_tensor t = {CAMEO_F32, rank, {a, b}, data, 0};
    t.bytes = (size_t)((rank > 0 ? a : 1) * (rank > 1 ? b : 1)) * sizeof *data;
    return t;
}

static void node(cameo_network *n, const char *op, const char *in0, const char *in1,
                 const char *out)
{
    const char *in[] = {in0, in1};
    ok(cameo_network_add_node(n, op, out, in1 ? 2 : in0 ? 1 : 0, in, 1, &out, 0, NULL, &err));
}

/* x f32[n,2]: y = Relu(x) * 2, nz = NonZero(x). */
static cameo_network *sample(const cameo_network_options *options)
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

static opened open_network(cameo_network *n)
{
    opened o = {0};
    ok(cameo_build_memory(n, NULL, &o.bytes, &o.n, &err));
    cameo_network_destroy(n);
    ok(cameo_engine_open_memory(o.bytes, o.n, NULL, &o.engine, &err));
    ok(cameo_context_create(o.engine, NULL, &o.context, &err));
    return o;
}

static void close_all(opened *o)
{
    cameo_context_destroy(o->context);
    cameo_engine_release(o->engine);
    cameo_free(o->bytes);
}

static void words(void **state)
{
    (void)state;
    assert_string_equal(cameo_version(), "0.1.0");
    assert_string_equal(cameo_dtype_name(CAMEO_BF16), "bf16");
    assert_string_equal(cameo_dtype_name((cameo_dtype)99), "?");
    for (int i = 0; i <= CAMEO_ERR_INTERNAL; i++)
        assert_true(strlen(cameo_status_text((cameo_status)i)) > 1);
    assert_non_null(cameo_status_text((cameo_status)77));
    cameo_free(NULL);
    cameo_network_destroy(NULL);
    cameo_engine_release(NULL);
    cameo_context_destroy(NULL);
    cameo_value_destroy(NULL);
    cameo_context_cancel(NULL);
    assert_null(cameo_engine_retain(NULL));
    assert_int_equal(cameo_network_input_count(NULL) + cameo_network_output_count(NULL), 0);
    assert_int_equal(cameo_engine_input_count(NULL) + cameo_engine_output_count(NULL), 0);
    assert_int_equal(cameo_engine_find_input(NULL, "x"), -1);
    assert_int_equal(cameo_context_memory(NULL), 0);
    assert_null(cameo_context_output_value(NULL, 0));
    assert_int_equal(cameo_value_kind(NULL), CAMEO_NOTHING);
}

static void networks_refuse_wrong_arguments(void **state)
{
    (void)state;
    cameo_network *n = NULL;
    cameo_info info;
    char *text;
    void *bytes;
    size_t size;
    WRONG(cameo_network_from_file(NULL, NULL, &n, &err));
    WRONG(cameo_network_from_file("x.onnx", NULL, NULL, &err));
    REFUSED(CAMEO_ERR_IO, cameo_network_from_file("/nowhere/x.onnx", NULL, &n, &err));
    assert_non_null(strstr(err.message, "/nowhere/x.onnx"));
    WRONG(cameo_network_from_memory(NULL, 1, NULL, &n, &err));
    REFUSED(CAMEO_ERR_MODEL, cameo_network_from_memory("rubbish", 7, NULL, &n, &err));
    WRONG(cameo_network_create("x", NULL, NULL, &err));
    n = sample(NULL);
    const int64_t dims[] = {1, 2};
    WRONG(cameo_network_add_input(NULL, "a", CAMEO_F32, 2, dims, NULL, &err));
    WRONG(cameo_network_add_input(n, NULL, CAMEO_F32, 2, dims, NULL, &err));
    WRONG(cameo_network_add_input(n, "a", (cameo_dtype)99, 2, dims, NULL, &err));
    WRONG(cameo_network_add_input(n, "a", CAMEO_F32, CAMEO_MAX_RANK + 1, dims, NULL, &err));
    WRONG(cameo_network_add_input(n, "a", CAMEO_F32, -1, dims, NULL, &err));
    WRONG(cameo_network_add_input(n, "a", CAMEO_F32, 2, NULL, NULL, &err));
    WRONG(cameo_network_add_input(n, "x", CAMEO_F32, 2, dims, NULL, &err)); /* twice */
    float v[2] = {1, 2};
    cameo_tensor t = floats(v, 1, 2, 0), bad = t;
    WRONG(cameo_network_add_constant(NULL, "c", &t, &err));
    WRONG(cameo_network_add_constant(n, NULL, &t, &err));
    WRONG(cameo_network_add_constant(n, "c", NULL, &err));
    bad.bytes = 7;
    WRONG(cameo_network_add_constant(n, "c", &bad, &err));
    assert_string_equal(err.message, "a tensor has 7 bytes, its shape needs 8");
    bad = t;
    bad.data = NULL;
    WRONG(cameo_network_add_constant(n, "c", &bad, &err));
    bad = t;
    bad.dims[0] = -3;
    WRONG(cameo_network_add_constant(n, "c", &bad, &err));
    bad.dims[0] = INT64_MAX;
    WRONG(cameo_network_add_constant(n, "c", &bad, &err));
    WRONG(cameo_network_mark_output(NULL, "y", &err));
    WRONG(cameo_network_mark_output(n, NULL, &err));
    WRONG(cameo_network_mark_output(n, "none", &err));
    WRONG(cameo_network_input(n, 1, &info, &err));
    WRONG(cameo_network_input(n, 0, NULL, &err));
    WRONG(cameo_network_input(NULL, 0, &info, &err));
    WRONG(cameo_network_output(n, -1, &info, &err));
    WRONG(cameo_network_output(NULL, 0, &info, &err));
    WRONG(cameo_network_text(n, NULL, &err));
    WRONG(cameo_network_text(NULL, &text, &err));
    WRONG(cameo_build_file(n, NULL, NULL, &err));
    WRONG(cameo_build_file(NULL, NULL, "x", &err));
    REFUSED(CAMEO_ERR_IO, cameo_build_file(n, NULL, "/nowhere/x.plan", &err));
    WRONG(cameo_build_memory(n, NULL, NULL, &size, &err));
    WRONG(cameo_build_memory(NULL, NULL, &bytes, &size, &err));
    assert_int_equal(cameo_network_mark_output(n, "none", NULL), CAMEO_ERR_ARGUMENT);
    cameo_network_destroy(n);
}

static void nodes_refuse_what_does_not_fit(void **state)
{
    (void)state;
    cameo_network *n = sample(NULL);
    const char *x = "x", *none = "none", *out = "z", *y = "y";
    cameo_attr attr = {.name = "axis", .kind = CAMEO_ATTR_INT, .i = 9};
    WRONG(cameo_network_add_node(NULL, "Relu", "a", 1, &x, 1, &out, 0, NULL, &err));
    WRONG(cameo_network_add_node(n, NULL, "a", 1, &x, 1, &out, 0, NULL, &err));
    WRONG(cameo_network_add_node(n, "Relu", "a", 1, NULL, 1, &out, 0, NULL, &err));
    WRONG(cameo_network_add_node(n, "Relu", "a", 1, &x, 1, NULL, 0, NULL, &err));
    WRONG(cameo_network_add_node(n, "Relu", "a", 1, &x, 1, &out, 1, NULL, &err));
    WRONG(cameo_network_add_node(n, "Relu", "a", -1, &x, 1, &out, 0, NULL, &err));
    WRONG(cameo_network_add_node(n, "Relu", "a", 1, &none, 1, &out, 0, NULL, &err));
    WRONG(cameo_network_add_node(n, "Relu", "a", 1, &x, 1, &y, 0, NULL, &err));
    WRONG(cameo_network_add_node(n, "Relu", "a", 1, &x, 1, &out, 1, &attr, &err));
    assert_string_equal(err.message, "Relu has no attribute 'axis'");
    REFUSED(CAMEO_ERR_UNSUPPORTED,
            cameo_network_add_node(n, "Relux", "a", 1, &x, 1, &out, 0, NULL, &err));
    REFUSED(CAMEO_ERR_UNSUPPORTED,
            cameo_network_add_node(n, "If", "a", 1, &x, 1, &out, 0, NULL, &err));
    REFUSED(CAMEO_ERR_MODEL,
            cameo_network_add_node(n, "Softmax", "a", 1, &x, 1, &out, 1, &attr, &err));
    attr.kind = CAMEO_ATTR_INTS;
    WRONG(cameo_network_add_node(n, "Softmax", "a", 1, &x, 1, &out, 1, &attr, &err));
    attr = (cameo_attr){.name = NULL};
    WRONG(cameo_network_add_node(n, "Softmax", "a", 1, &x, 1, &out, 1, &attr, &err));
    attr = (cameo_attr){.name = "perm", .kind = CAMEO_ATTR_INTS, .n = 2};
    WRONG(cameo_network_add_node(n, "Transpose", "a", 1, &x, 1, &out, 1, &attr, &err));
    attr.n = -1;
    WRONG(cameo_network_add_node(n, "Transpose", "a", 1, &x, 1, &out, 1, &attr, &err));
    attr = (cameo_attr){.name = "value", .kind = CAMEO_ATTR_TENSOR};
    WRONG(cameo_network_add_node(n, "Constant", "a", 0, NULL, 1, &out, 1, &attr, &err));
    /* After all that, the name is still free. */
    const int64_t perm[] = {1, 0};
    attr = (cameo_attr){.name = "perm", .kind = CAMEO_ATTR_INTS, .n = 2, .ints = perm};
    ok(cameo_network_add_node(n, "Transpose", "a", 1, &x, 1, &out, 1, &attr, &err));
    cameo_network_destroy(n);
}

static void questions_and_text(void **state)
{
    (void)state;
    cameo_network *n = sample(NULL);
    cameo_info info;
    char *text;
    assert_int_equal(cameo_network_input_count(n), 1);
    assert_int_equal(cameo_network_output_count(n), 2);
    ok(cameo_network_input(n, 0, &info, &err));
    assert_string_equal(info.name, "x");
    assert_string_equal(info.type_text, "f32[n,2]");
    assert_int_equal(info.kind, CAMEO_TENSOR);
    assert_int_equal(info.dims[0], -1);
    assert_int_equal(info.dims[1], 2);
    ok(cameo_network_output(n, 0, &info, &err));
    assert_string_equal(info.type_text, "f32[n,2]");
    ok(cameo_network_text(n, &text, &err));
    assert_non_null(strstr(text, "x: f32[n,2]"));
    assert_non_null(strstr(text, "Relu(x)"));
    cameo_free(text);
    opened o = open_network(n);
    assert_int_equal(cameo_engine_input_count(o.engine), 1);
    assert_int_equal(cameo_engine_output_count(o.engine), 2);
    ok(cameo_engine_input(o.engine, 0, &info, &err));
    assert_string_equal(info.type_text, "f32[n,2]");
    ok(cameo_engine_output(o.engine, 1, &info, &err));
    assert_string_equal(info.name, "nz");
    assert_int_equal(info.dtype, CAMEO_I64);
    assert_int_equal(cameo_engine_find_input(o.engine, "x"), 0);
    assert_int_equal(cameo_engine_find_output(o.engine, "nz"), 1);
    assert_int_equal(cameo_engine_find_output(o.engine, "none"), -1);
    assert_int_equal(cameo_engine_find_output(o.engine, NULL), -1);
    close_all(&o);
}

static void building_twice_gives_the_same_bytes(void **state)
{
    (void)state;
    cameo_network *a = sample(NULL), *b = sample(NULL);
    void *one, *two, *three;
    size_t n1, n2, n3;
    ok(cameo_build_memory(a, NULL, &one, &n1, &err));
    ok(cameo_build_memory(a, NULL, &two, &n2, &err));
    ok(cameo_build_memory(b, NULL, &three, &n3, &err));
    assert_int_equal(n1, n2);
    assert_int_equal(n1, n3);
    assert_memory_equal(one, two, n1);
    assert_memory_equal(one, three, n1);
    char path[] = "/tmp/cameo-api-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    ok(cameo_build_file(a, NULL, path, &err));
    unsigned char *file = test_malloc(n1 + 1);
    assert_int_equal(pread(fd, file, n1 + 1, 0),
                     0); /* replaced whole: our descriptor saw nothing */
    close(fd);
    FILE *f = fopen(path, "rb");
    assert_int_equal(fread(file, 1, n1 + 1, f), n1);
    fclose(f);
    assert_memory_equal(one, file, n1);
    cameo_engine *e;
    ok(cameo_engine_open_file(path, NULL, &e, &err));
    cameo_engine_release(e);
    unlink(path);
    test_free(file);
    cameo_free(one);
    cameo_free(two);
    cameo_free(three);
    cameo_network_destroy(a);
    cameo_network_destroy(b);
}

static void engines_refuse_damage(void **state)
{
    (void)state;
    cameo_engine *e = NULL;
    cameo_info info;
    opened o = open_network(sample(NULL));
    WRONG(cameo_engine_open_file(NULL, NULL, &e, &err));
    REFUSED(CAMEO_ERR_IO, cameo_engine_open_file("/nowhere/x.plan", NULL, &e, &err));
    WRONG(cameo_engine_open_memory(NULL, 8, NULL, &e, &err));
    WRONG(cameo_engine_open_memory(o.bytes, o.n, NULL, NULL, &err));
    REFUSED(CAMEO_ERR_PLAN, cameo_engine_open_memory(o.bytes, 100, NULL, &e, &err));
    REFUSED(CAMEO_ERR_PLAN, cameo_engine_open_memory(o.bytes, 0, NULL, &e, &err));
    REFUSED(CAMEO_ERR_PLAN, cameo_engine_open_memory("not a plan, not at all", 20, NULL, &e, &err));
    WRONG(cameo_engine_input(o.engine, 1, &info, &err));
    WRONG(cameo_engine_input(o.engine, 0, NULL, &err));
    WRONG(cameo_engine_output(o.engine, -1, &info, &err));
    WRONG(cameo_engine_output(NULL, 0, &info, &err));
    close_all(&o);
}

static void contexts_refuse_wrong_arguments(void **state)
{
    (void)state;
    opened o = open_network(sample(NULL));
    cameo_context *c = NULL;
    float x[6] = {0};
    cameo_tensor t = floats(x, 2, 3, 2), bad, out;
    WRONG(cameo_context_create(NULL, NULL, &c, &err));
    WRONG(cameo_context_create(o.engine, NULL, NULL, &err));
    cameo_context_options co = CAMEO_CONTEXT_OPTIONS_INIT;
    co.target = "cpu:mmx";
    WRONG(cameo_context_create(o.engine, &co, &c, &err));
    assert_non_null(strstr(err.message, "mmx"));
    co.target = "cpu:generic";
    ok(cameo_context_create(o.engine, &co, &c, &err));
    cameo_context_destroy(c);
    c = o.context;
    WRONG(cameo_context_run(c, 0, &err)); /* no input yet */
    WRONG(cameo_context_bind(c, &err));
    WRONG(cameo_context_output(c, 0, &out, &err));
    assert_null(cameo_context_output_value(c, 0));
    WRONG(cameo_context_set_input(NULL, 0, &t, &err));
    WRONG(cameo_context_set_input(c, 0, NULL, &err));
    WRONG(cameo_context_set_input(c, 1, &t, &err));
    WRONG(cameo_context_set_input(c, -1, &t, &err));
    WRONG(cameo_context_set_input_value(c, 0, NULL, &err));
    WRONG(cameo_context_set_input_value(NULL, 0, NULL, &err));
    bad = t;
    bad.bytes = 23;
    WRONG(cameo_context_set_input(c, 0, &bad, &err));
    bad = t;
    bad.rank = 99;
    WRONG(cameo_context_set_input(c, 0, &bad, &err));
    WRONG(cameo_context_set_output(c, 2, x, sizeof x, &err));
    WRONG(cameo_context_set_output(NULL, 0, x, sizeof x, &err));
    WRONG(cameo_context_set_output_allocator(NULL, NULL, NULL, &err));
    WRONG(cameo_context_output_shape(c, 7, &out, &err));
    WRONG(cameo_context_output_shape(c, 0, NULL, &err));
    WRONG(cameo_context_output(c, 9, &out, &err));
    WRONG(cameo_context_output(c, 0, NULL, &err));
    WRONG(cameo_context_run(NULL, 0, &err));
    WRONG(cameo_context_bind(NULL, &err));
    bad = t; /* another element type, then another rank */
    bad.dtype = CAMEO_I32;
    cameo_status st = cameo_context_set_input(c, 0, &bad, &err);
    assert_int_equal(st == CAMEO_OK ? cameo_context_run(c, 0, &err) : st, CAMEO_ERR_ARGUMENT);
    bad = floats(x, 1, 6, 0);
    st = cameo_context_set_input(c, 0, &bad, &err);
    assert_int_equal(st == CAMEO_OK ? cameo_context_run(c, 0, &err) : st, CAMEO_ERR_ARGUMENT);
    ok(cameo_context_set_input(c, 0, &t, &err)); /* and it still works */
    ok(cameo_context_run(c, 1e300, &err));
    ok(cameo_context_run(c, -5, &err));
    close_all(&o);
}

static void outputs_go_to_the_callers_memory(void **state)
{
    (void)state;
    opened o = open_network(sample(NULL));
    float x[6] = {1, -2, 3, 0, 5, 6}, y[6] = {0};
    cameo_tensor t = floats(x, 2, 3, 2), out;
    t.data = NULL; /* shapes before data */
    ok(cameo_context_set_input(o.context, 0, &t, &err));
    ok(cameo_context_bind(o.context, &err));
    ok(cameo_context_output_shape(o.context, 0, &out, &err));
    assert_int_equal(out.rank, 2);
    assert_int_equal(out.dims[0], 3);
    assert_int_equal(out.dtype, CAMEO_F32);
    ok(cameo_context_output_shape(o.context, 1, &out, &err));
    assert_int_equal(out.rank, -1);
    t.data = x;
    ok(cameo_context_set_input(o.context, 0, &t, &err));
    ok(cameo_context_set_output(o.context, 0, y, sizeof y, &err));
    ok(cameo_context_run(o.context, 10, &err));
    const float want[] = {2, 0, 6, 0, 10, 12};
    assert_memory_equal(y, want, sizeof want);
    ok(cameo_context_output(o.context, 0, &out, &err));
    assert_ptr_equal(out.data, y);
    assert_int_equal(out.bytes, sizeof want);
    ok(cameo_context_set_output(o.context, 0, y, sizeof y - 1, &err));
    WRONG(cameo_context_run(o.context, 0, &err));
    ok(cameo_context_set_output(o.context, 0, NULL, 0, &err));
    ok(cameo_context_run(o.context, 0, &err));
    ok(cameo_context_output(o.context, 0, &out, &err));
    assert_ptr_not_equal(out.data, y);
    assert_memory_equal(out.data, want, sizeof want);
    close_all(&o);
}

typedef struct {
    int64_t room[64];
    int asked, output;
    int64_t columns;
    bool refuse;
} room;

static void *ask_room(void *user, int output, const cameo_tensor *shape)
{
    room *r = user;
    r->asked++;
    r->output = output;
    if (output == 1)
        r->columns = shape->dims[1];
    return r->refuse || shape->bytes > sizeof r->room ? NULL : output == 1 ? r->room : r->room + 32;
}

static void the_output_allocator_is_asked(void **state)
{
    (void)state;
    opened o = open_network(sample(NULL));
    float x[6] = {1, -2, 3, 0, 5, 6};
    cameo_tensor t = floats(x, 2, 3, 2), out;
    room r = {0};
    ok(cameo_context_set_input(o.context, 0, &t, &err));
    ok(cameo_context_set_output_allocator(o.context, ask_room, &r, &err));
    ok(cameo_context_run(o.context, 0, &err));
    assert_true(r.asked >= 2);
    assert_int_equal(r.columns, 5);
    ok(cameo_context_output(o.context, 1, &out, &err));
    assert_ptr_equal(out.data, r.room);
    assert_int_equal(r.room[4], 2); /* rows of the non-zero elements, then columns */
    r.refuse = true;
    REFUSED(CAMEO_ERR_MEMORY, cameo_context_run(o.context, 0, &err));
    ok(cameo_context_set_output_allocator(o.context, NULL, NULL, &err));
    ok(cameo_context_run(o.context, 0, &err));
    close_all(&o);
}

/* ---- Hooks --------------------------------------------------------------------------------------- */

typedef struct {
    atomic_long calls, live, blocks;
    int lines;
    int left; /* of progress calls before it says no */
} watched;

static void *count_alloc(void *user, size_t bytes, size_t align)
{
    watched *w = user;
    atomic_fetch_add(&w->calls, 1);
    atomic_fetch_add(&w->blocks, 1);
    atomic_fetch_add(&w->live, (long)bytes);
    void *p = NULL;
    return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes) ? NULL : p;
}

static void count_release(void *user, void *p, size_t bytes)
{
    watched *w = user;
    atomic_fetch_sub(&w->blocks, p ? 1 : 0);
    atomic_fetch_sub(&w->live, (long)bytes);
    free(p);
}

static void count_line(void *user, cameo_log_level level, const char *sentence)
{
    (void)level;
    assert_non_null(sentence);
    ((watched *)user)->lines++;
}

static bool count_down(void *user, const char *what, int64_t done, int64_t total)
{
    assert_non_null(what);
    assert_true(done <= total);
    return ((watched *)user)->left-- > 0;
}

static cameo_hooks hooks_of(watched *w)
{
    return (cameo_hooks){sizeof(cameo_hooks), count_alloc, count_release, w,
                         count_line,          w,           count_down,    w};
}

static void allocator_hooks_balance(void **state)
{
    (void)state;
    watched w = {.left = 1000000};
    cameo_network_options no = CAMEO_NETWORK_OPTIONS_INIT;
    cameo_engine_options eo = CAMEO_ENGINE_OPTIONS_INIT;
    cameo_context_options co = CAMEO_CONTEXT_OPTIONS_INIT;
    no.hooks = eo.hooks = hooks_of(&w);
    co.threads = 1;
    cameo_network *n = sample(&no);
    void *bytes;
    size_t size;
    cameo_engine *e;
    cameo_context *c;
    ok(cameo_build_memory(n, NULL, &bytes, &size, &err));
    cameo_network_destroy(n);
    assert_true(w.calls > 0);
    assert_int_equal(w.live, 0);
    assert_int_equal(w.blocks, 0);
    ok(cameo_engine_open_memory(bytes, size, &eo, &e, &err));
    long engine = w.live;
    assert_true(engine > 0);
    ok(cameo_context_create(e, &co, &c, &err));
    cameo_engine_release(e); /* the context holds it */
    float x[6] = {1, -2, 3, 0, 5, 6}, y[6];
    cameo_tensor t = floats(x, 2, 3, 2);
    ok(cameo_context_set_input(c, 0, &t, &err));
    ok(cameo_context_set_output(c, 0, y, sizeof y, &err));
    ok(cameo_context_run(c, 0, &err));
    assert_true(w.live > engine);
    assert_true(cameo_context_memory(c) > 0);
    ok(cameo_context_run(c, 0, &err));
    long calls = w.calls;
    for (int i = 0; i < 3; i++)
        ok(cameo_context_run(c, 0, &err));
    assert_int_equal(w.calls, calls); /* nothing is allocated once shapes are known */
    cameo_context_destroy(c);
    assert_int_equal(w.live, 0);
    assert_int_equal(w.blocks, 0);
    cameo_free(bytes);
}

static void progress_cancels_and_log_speaks(void **state)
{
    (void)state;
    cameo_network *n = sample(NULL);
    void *bytes;
    size_t size;
    for (int left = 0; left < 3; left++) {
        watched w = {.left = left};
        cameo_build_options bo = CAMEO_BUILD_OPTIONS_INIT;
        bo.hooks = hooks_of(&w);
        REFUSED(CAMEO_ERR_CANCELLED, cameo_build_memory(n, &bo, &bytes, &size, &err));
        assert_int_equal(w.live, 0);
    }
    ok(cameo_build_memory(n, NULL, &bytes, &size, &err)); /* a cancelled build can be repeated */
    cameo_free(bytes);
    cameo_network_destroy(n);

    watched w = {.left = 1000000};
    cameo_network_options no = CAMEO_NETWORK_OPTIONS_INIT;
    no.hooks = hooks_of(&w);
    cm_buf g, m;
    cm_buf_init(&g, NULL);
    m_value(&g, F_INPUT, "x", CAMEO_F32, "2");
    m_add(&g, "Relu", "x", "a");
    m_add(&g, "NoSuchThing", "a", "b");
    m_add(&g, "NorThis", "b", "y");
    m_value(&g, F_OUTPUT, "y", CAMEO_F32, "2");
    m = m_model(&g, 17, NULL);
    REFUSED(CAMEO_ERR_UNSUPPORTED, cameo_network_from_memory(m.data, m.n, &no, &n, &err));
    assert_non_null(strstr(err.message, "NoSuchThing")); /* both in one sentence */
    assert_non_null(strstr(err.message, "NorThis"));
    assert_int_equal(w.lines, 2);
    assert_int_equal(w.live, 0);
    cm_buf_deinit(&m);
}

/* ---- Models with options ------------------------------------------------------------------------- */

static cm_buf small_model(void)
{
    cm_buf g;
    cm_buf_init(&g, NULL);
    m_value(&g, F_INPUT, "x", CAMEO_F32, "batch 2");
    m_add(&g, "Relu", "x", "middle");
    m_add(&g, "Neg", "middle", "y");
    m_value(&g, F_OUTPUT, "y", CAMEO_F32, "batch 2");
    return m_model(&g, 17, NULL);
}

static void extra_outputs_and_fixed_dims(void **state)
{
    (void)state;
    cm_buf m = small_model();
    cameo_network *n;
    cameo_info info;
    cameo_network_options no = CAMEO_NETWORK_OPTIONS_INIT;
    const char *extra[] = {"middle"}, *dims[] = {"batch"};
    const int64_t three[] = {3}, minus[] = {-3};
    no.n_extra_outputs = 1;
    no.extra_outputs = extra;
    no.n_dims = 1;
    no.dim_names = dims;
    no.dim_values = three;
    ok(cameo_network_from_memory(m.data, m.n, &no, &n, &err));
    assert_int_equal(cameo_network_output_count(n), 2);
    ok(cameo_network_output(n, 1, &info, &err));
    assert_string_equal(info.name, "middle");
    assert_string_equal(info.type_text, "f32[3,2]");
    opened o = open_network(n);
    float x[6] = {1, -2, 3, 0, 5, 6};
    cameo_tensor t = floats(x, 2, 3, 2), out;
    ok(cameo_context_set_input(o.context, 0, &t, &err));
    ok(cameo_context_run(o.context, 0, &err));
    ok(cameo_context_output(o.context, 1, &out, &err));
    assert_true(((float *)out.data)[4] == 5);
    t.dims[0] = 2;
    cameo_status st = cameo_context_set_input(o.context, 0, &t, &err);
    assert_int_equal(st == CAMEO_OK ? cameo_context_run(o.context, 0, &err) : st,
                     CAMEO_ERR_ARGUMENT);
    close_all(&o);
    no.dim_values = minus;
    WRONG(cameo_network_from_memory(m.data, m.n, &no, &n, &err));
    no.dim_values = NULL;
    WRONG(cameo_network_from_memory(m.data, m.n, &no, &n, &err));
    no.n_dims = 0;
    extra[0] = "nothing like it";
    WRONG(cameo_network_from_memory(m.data, m.n, &no, &n, &err));
    no.extra_outputs = NULL;
    WRONG(cameo_network_from_memory(m.data, m.n, &no, &n, &err));
    cm_buf_deinit(&m);
}

static void options_of_an_older_header(void **state)
{
    (void)state;
    cm_buf m = small_model();
    cameo_network *n;
    const char *extra[] = {"middle"};
    cameo_network_options no = CAMEO_NETWORK_OPTIONS_INIT;
    no.n_extra_outputs = 1;
    no.extra_outputs = extra;
    no.size = sizeof(size_t); /* knows nothing but its size */
    ok(cameo_network_from_memory(m.data, m.n, &no, &n, &err));
    assert_int_equal(cameo_network_output_count(n), 1);
    cameo_network_destroy(n);
    cm_buf_deinit(&m);
}

/* ---- Sequences and optionals --------------------------------------------------------------------- */

/* A graph's input or output of type sequence (field 4) or optional (field 9) of f32[]. */
static void m_wrapped(cm_buf *graph, uint32_t field, const char *name, uint32_t wrapper)
{
    cm_buf tensor, type, wrap, outer, v;
    cm_buf_init(&tensor, NULL);
    cm_buf_init(&type, NULL);
    cm_buf_init(&wrap, NULL);
    cm_buf_init(&outer, NULL);
    cm_buf_init(&v, NULL);
    pb_write_int(&tensor, 1, CAMEO_F32);
    m_in(&type, 1, &tensor);
    m_in(&wrap, 1, &type);
    m_in(&outer, wrapper, &wrap);
    pb_write_text(&v, 1, name);
    m_in(&v, 2, &outer);
    m_in(graph, field, &v);
}

enum { SEQUENCE_TYPE = 4, OPTIONAL_TYPE = 9 };

static void sequences_go_in_and_out(void **state)
{
    (void)state;
    cm_buf g, m;
    cm_buf_init(&g, NULL);
    m_wrapped(&g, F_INPUT, "s", SEQUENCE_TYPE);
    m_value(&g, F_INPUT, "x", CAMEO_F32, "k");
    m_add(&g, "SequenceInsert", "s x", "longer");
    m_add(&g, "SequenceLength", "longer", "n");
    m_wrapped(&g, F_OUTPUT, "longer", SEQUENCE_TYPE);
    m_value(&g, F_OUTPUT, "n", CAMEO_I64, "");
    m = m_model(&g, 17, NULL);
    cameo_network *n;
    cameo_info info;
    ok(cameo_network_from_memory(m.data, m.n, NULL, &n, &err));
    opened o = open_network(n);
    ok(cameo_engine_input(o.engine, 0, &info, &err));
    assert_int_equal(info.kind, CAMEO_SEQUENCE);

    float a[2] = {1, 2}, b[3] = {3, 4, 5}, x[1] = {6};
    cameo_tensor ta = floats(a, 1, 2, 0), tb = floats(b, 1, 3, 0), tx = floats(x, 1, 1, 0), got;
    cameo_value *va, *vb, *seq;
    ok(cameo_value_from_tensor(&ta, &va, &err));
    ok(cameo_value_from_tensor(&tb, &vb, &err));
    ok(cameo_value_from_items(CAMEO_SEQUENCE, 2, (const cameo_value *const[]){va, vb}, &seq, &err));
    assert_int_equal(cameo_value_kind(seq), CAMEO_SEQUENCE);
    assert_int_equal(cameo_value_count(seq), 2);
    ok(cameo_context_set_input_value(o.context, 0, seq, &err));
    ok(cameo_context_set_input(o.context, 1, &tx, &err));
    ok(cameo_context_run(o.context, 0, &err));
    const cameo_value *out = cameo_context_output_value(o.context, 0);
    assert_int_equal(cameo_value_kind(out), CAMEO_SEQUENCE);
    assert_int_equal(cameo_value_count(out), 3);
    assert_true(cameo_value_tensor(cameo_value_item(out, 1), &got));
    assert_int_equal(got.dims[0], 3);
    assert_memory_equal(got.data, b, sizeof b);
    assert_true(cameo_value_tensor(cameo_value_item(out, 2), &got));
    assert_true(((float *)got.data)[0] == 6);
    assert_null(cameo_value_item(out, 3));
    assert_null(cameo_value_item(out, -1));
    assert_false(cameo_value_tensor(out, &got));
    WRONG(cameo_context_output(o.context, 0, &got, &err)); /* not a tensor */
    ok(cameo_context_output(o.context, 1, &got, &err));
    assert_int_equal(*(int64_t *)got.data, 3);
    WRONG(cameo_context_set_output(o.context, 0, a, sizeof a, &err));

    cameo_value *bad;
    WRONG(cameo_value_from_tensor(NULL, &bad, &err));
    WRONG(cameo_value_from_tensor(&ta, NULL, &err));
    ta.bytes = 1;
    WRONG(cameo_value_from_tensor(&ta, &bad, &err));
    WRONG(cameo_value_from_items(CAMEO_SEQUENCE, -1, NULL, &bad, &err));
    WRONG(cameo_value_from_items(CAMEO_SEQUENCE, 1, NULL, &bad, &err));
    WRONG(
        cameo_value_from_items(CAMEO_SEQUENCE, 1, (const cameo_value *const[]){NULL}, &bad, &err));
    WRONG(cameo_value_from_items(CAMEO_TENSOR, 0, NULL, &bad, &err));
    WRONG(cameo_value_from_items(CAMEO_OPTIONAL, 2, (const cameo_value *const[]){va, vb}, &bad,
                                 &err));
    cameo_value_destroy(seq);
    cameo_value_destroy(va);
    cameo_value_destroy(vb);
    close_all(&o);
    cm_buf_deinit(&m);
}

static void optionals_go_in_and_out(void **state)
{
    (void)state;
    cm_buf g, m;
    cm_buf_init(&g, NULL);
    m_wrapped(&g, F_INPUT, "maybe", OPTIONAL_TYPE);
    m_add(&g, "OptionalHasElement", "maybe", "has");
    m_add(&g, "Identity", "maybe", "same");
    m_value(&g, F_OUTPUT, "has", CAMEO_BOOL, "");
    m_wrapped(&g, F_OUTPUT, "same", OPTIONAL_TYPE);
    m = m_model(&g, 18, NULL);
    cameo_network *n;
    ok(cameo_network_from_memory(m.data, m.n, NULL, &n, &err));
    opened o = open_network(n);
    float a[2] = {1, 2};
    cameo_tensor ta = floats(a, 1, 2, 0), got;
    cameo_value *va, *some, *none;
    ok(cameo_value_from_tensor(&ta, &va, &err));
    ok(cameo_value_from_items(CAMEO_OPTIONAL, 1, (const cameo_value *const[]){va}, &some, &err));
    ok(cameo_value_from_items(CAMEO_OPTIONAL, 0, NULL, &none, &err));
    for (int has = 1; has >= 0; has--) {
        ok(cameo_context_set_input_value(o.context, 0, has ? some : none, &err));
        ok(cameo_context_run(o.context, 0, &err));
        ok(cameo_context_output(o.context, 0, &got, &err));
        assert_int_equal(*(unsigned char *)got.data, has);
        const cameo_value *out = cameo_context_output_value(o.context, 1);
        assert_int_equal(cameo_value_kind(out), CAMEO_OPTIONAL);
        assert_int_equal(cameo_value_count(out), has);
    }
    cameo_value_destroy(some);
    cameo_value_destroy(none);
    cameo_value_destroy(va);
    close_all(&o);
    cm_buf_deinit(&m);
}

/* ---- Stopping ------------------------------------------------------------------------------------ */

/* A chain of large matrix products: seconds of work. */
static opened slow(float *a)
{
    enum { N = 512, LINKS = 200 };
    cameo_network *n;
    char in[16] = "x", out[16];
    ok(cameo_network_create("slow", NULL, &n, &err));
    ok(cameo_network_add_input(n, "x", CAMEO_F32, 2, (const int64_t[]){N, N}, NULL, &err));
    for (int i = 0; i < LINKS; i++) {
        snprintf(out, sizeof out, "m%d", i);
        node(n, "MatMul", in, "x", out);
        memcpy(in, out, sizeof in);
    }
    ok(cameo_network_mark_output(n, in, &err));
    opened o = open_network(n);
    cameo_tensor t = floats(a, 2, N, N);
    ok(cameo_context_set_input(o.context, 0, &t, &err));
    return o;
}

static void *cancel_soon(void *context)
{
    usleep(50000);
    cameo_context_cancel(context);
    return NULL;
}

static void runs_stop_when_told(void **state)
{
    (void)state;
    float *a = test_calloc(512 * 512, sizeof *a);
    opened o = slow(a);
    REFUSED(CAMEO_ERR_CANCELLED, cameo_context_run(o.context, 0.02, &err));
    pthread_t thread;
    pthread_create(&thread, NULL, cancel_soon, o.context);
    REFUSED(CAMEO_ERR_CANCELLED, cameo_context_run(o.context, 60, &err));
    pthread_join(thread, NULL);
    close_all(&o);
    test_free(a);
}

static void engines_are_counted_and_shared(void **state)
{
    (void)state;
    opened o = open_network(sample(NULL));
    cameo_context *second;
    assert_ptr_equal(cameo_engine_retain(o.engine), o.engine);
    cameo_engine_release(o.engine);
    ok(cameo_context_create(o.engine, NULL, &second, &err));
    cameo_engine_release(o.engine); /* ours is gone; two contexts hold it */
    o.engine = NULL;
    float x[2] = {3, -4};
    cameo_tensor t = floats(x, 2, 1, 2), out;
    cameo_context *contexts[] = {o.context, second};
    for (int i = 0; i < 2; i++) {
        ok(cameo_context_set_input(contexts[i], 0, &t, &err));
        ok(cameo_context_run(contexts[i], 0, &err));
        ok(cameo_context_output(contexts[i], 0, &out, &err));
        assert_true(((float *)out.data)[0] == 6);
    }
    cameo_context_destroy(second);
    close_all(&o);
}

static void random_numbers_follow_the_seed(void **state)
{
    (void)state;
    cameo_network *n;
    const char *out = "r";
    const int64_t shape[] = {4};
    const cameo_attr attr = {.name = "shape", .kind = CAMEO_ATTR_INTS, .n = 1, .ints = shape};
    ok(cameo_network_create("random", NULL, &n, &err));
    ok(cameo_network_add_node(n, "RandomNormal", "r", 0, NULL, 1, &out, 1, &attr, &err));
    ok(cameo_network_mark_output(n, "r", &err));
    opened o = open_network(n);
    float drawn[3][4];
    for (int i = 0; i < 3; i++) {
        cameo_context *c;
        cameo_tensor t;
        cameo_context_options co = CAMEO_CONTEXT_OPTIONS_INIT;
        co.seed = i < 2 ? 7 : 8;
        ok(cameo_context_create(o.engine, &co, &c, &err));
        ok(cameo_context_run(c, 0, &err));
        ok(cameo_context_output(c, 0, &t, &err));
        memcpy(drawn[i], t.data, sizeof drawn[i]);
        cameo_context_destroy(c);
    }
    assert_memory_equal(drawn[0], drawn[1], sizeof drawn[0]);
    assert_memory_not_equal(drawn[0], drawn[2], sizeof drawn[0]);
    close_all(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(networks_refuse_wrong_arguments),
        cmocka_unit_test(nodes_refuse_what_does_not_fit),
        cmocka_unit_test(questions_and_text),
        cmocka_unit_test(building_twice_gives_the_same_bytes),
        cmocka_unit_test(engines_refuse_damage),
        cmocka_unit_test(contexts_refuse_wrong_arguments),
        cmocka_unit_test(outputs_go_to_the_callers_memory),
        cmocka_unit_test(the_output_allocator_is_asked),
        cmocka_unit_test(allocator_hooks_balance),
        cmocka_unit_test(progress_cancels_and_log_speaks),
        cmocka_unit_test(extra_outputs_and_fixed_dims),
        cmocka_unit_test(options_of_an_older_header),
        cmocka_unit_test(sequences_go_in_and_out),
        cmocka_unit_test(optionals_go_in_and_out),
        cmocka_unit_test(runs_stop_when_told),
        cmocka_unit_test(engines_are_counted_and_shared),
        cmocka_unit_test(random_numbers_follow_the_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
