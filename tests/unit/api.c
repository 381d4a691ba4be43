/* api.c -- the public API: wrong arguments, same bytes, outputs at the caller's
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit/api_case.h"

#include <unistd.h>

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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
