/* api_values.c -- the public API: models with options; sequences and optionals
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit/api_case.h"
#include "unit/onnx_model.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extra_outputs_and_fixed_dims),
        cmocka_unit_test(options_of_an_older_header),
        cmocka_unit_test(sequences_go_in_and_out),
        cmocka_unit_test(optionals_go_in_and_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
