/* onnx_import.c -- graphs, scopes, functions and options of the importer; what it refuses, and how.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "onnx_model.h"

typedef struct job {
    cm_arena arena;
    cm_ctx cx;
    cm_network *g;
    cm_buf bytes; /* constants point into it */
} job;

static cm_status import(job *j, cm_buf model, const cm_import_options *o)
{
    *j = (job){.bytes = model};
    cm_arena_init(&j->arena, NULL);
    j->cx.arena = &j->arena;
    cm_status st = cm_onnx_import(&j->cx, &j->arena, model.data, model.n, o, &j->g);
    if (st == CM_OK)
        st = cm_network_verify(&j->cx, j->g);
    return st;
}

static void end(job *j)
{
    cm_arena_deinit(&j->arena);
    cm_buf_deinit(&j->bytes);
}

static cm_buf graph(void)
{
    cm_buf g;
    cm_buf_init(&g, NULL);
    pb_write_text(&g, F_GRAPH_NAME, "g");
    return g;
}

/* x -> y with nothing between, to be filled by the test. */
static cm_buf frame(const char *dims)
{
    cm_buf g = graph();
    m_value(&g, F_INPUT, "x", CM_F32, dims);
    m_value(&g, F_OUTPUT, "y", CM_F32, dims);
    return g;
}

static void expect_failure(cm_buf model, cm_status st, const char *words)
{
    job j;
    assert_int_equal(import(&j, model, NULL), st);
    if (!strstr(j.cx.message, words))
        fail_msg("'%s' does not say '%s'", j.cx.message, words);
    end(&j);
}

static void sorts_nodes(void **state)
{
    (void)state;
    cm_buf g = frame("2 n");
    m_add(&g, "Neg", "b", "y");
    m_add(&g, "Abs", "a", "b");
    m_add(&g, "Relu", "x", "a");
    job j;
    assert_int_equal(import(&j, m_model(&g, 13, NULL), NULL), CM_OK);
    assert_string_equal(j.g->first->op->name, "Relu");
    assert_string_equal(j.g->last->op->name, "Neg");
    assert_int_equal(j.g->outputs[0]->type.dims[0], 2);
    assert_true(j.g->outputs[0]->type.dims[1] == j.g->inputs[0]->type.dims[1]);
    end(&j);
}

static void names_cycles(void **state)
{
    (void)state;
    cm_buf g = frame("2");
    m_add(&g, "Add", "x b", "a");
    m_add(&g, "Neg", "a", "b");
    m_add(&g, "Neg", "b", "y");
    expect_failure(m_model(&g, 13, NULL), CM_ERR_MODEL, "cycle through 'a'");
}

static void lists_all_that_is_unsupported(void **state)
{
    (void)state;
    cm_buf g = frame("2"), then_g = graph(), else_g = graph();
    cm_buf a = m_node("Frob", "my.domain", "x", "a"), b = m_node("If", "", "c", "y");
    m_add(&then_g, "Nonsense", "x", "t");
    m_value(&then_g, F_OUTPUT, "t", CM_F32, "2");
    m_add(&else_g, "Neg", "x", "e");
    m_value(&else_g, F_OUTPUT, "e", CM_F32, "2");
    m_graph_attr(&b, "then_branch", &then_g);
    m_graph_attr(&b, "else_branch", &else_g);
    m_in(&g, F_NODE, &a);
    m_in(&g, F_NODE, &b);
    cm_buf m = m_model(&g, 13, NULL);
    job j;
    assert_int_equal(import(&j, m, NULL), CM_ERR_UNSUPPORTED);
    assert_non_null(strstr(j.cx.message, "2 nodes are not supported"));
    assert_non_null(strstr(j.cx.message, "Frob node 'a' (domain 'my.domain'"));
    assert_non_null(strstr(j.cx.message, "Nonsense node 't'"));
    end(&j);
}

static void keeps_nul_in_names(void **state)
{
    (void)state;
    cm_buf g = graph(), n = m_node("Relu", "", "x", "");
    m_value(&g, F_INPUT, "x", CM_F32, "2");
    m_value(&g, F_OUTPUT, "y", CM_F32, "2");
    pb_write_bytes(&n, 2, "y\0z", 3);
    m_in(&g, F_NODE, &n);
    m_add(&g, "Neg", "x", "y");
    job j;
    assert_int_equal(import(&j, m_model(&g, 13, NULL), NULL), CM_OK);
    assert_string_equal(j.g->outputs[0]->producer->op->name, "Neg");
    assert_non_null(cm_network_find_value(j.g, "y\xc0\x80z"));
    end(&j);
}

/* Both branches name their result `r`, shadowing the outer one, and capture x. */
static void scopes_of_branches(void **state)
{
    (void)state;
    cm_buf g = frame("2"), then_g = graph(), else_g = graph(), n = m_node("If", "", "c", "y");
    m_value(&g, F_INPUT, "c", CM_BOOL, "");
    m_add(&g, "Relu", "x", "r");
    m_add(&then_g, "Neg", "x", "r");
    m_value(&then_g, F_OUTPUT, "r", CM_F32, "2");
    m_add(&else_g, "Abs", "x", "r");
    m_value(&else_g, F_OUTPUT, "r", CM_F32, "2");
    m_graph_attr(&n, "then_branch", &then_g);
    m_graph_attr(&n, "else_branch", &else_g);
    m_in(&g, F_NODE, &n);
    job j;
    assert_int_equal(import(&j, m_model(&g, 13, NULL), NULL), CM_OK);
    cm_node *branch = j.g->outputs[0]->producer;
    assert_int_equal(branch->n_subs, 2);
    assert_string_equal(branch->subs[0]->outputs[0]->producer->op->name, "Neg");
    assert_string_equal(branch->subs[1]->outputs[0]->producer->op->name, "Abs");
    assert_true(cm_value_is_captured_by(branch->subs[0]->first->in[0], branch->subs[0]));
    end(&j);
}

/* function F(a; axis = 0) { b = Neg(a); r = Softmax(b, axis = ref axis) } */
static cm_buf function_f(bool with_default)
{
    cm_buf f, all, neg = m_node("Neg", "", "a", "b"), soft = m_node("Softmax", "", "b", "r"), dflt;
    cm_buf_init(&f, NULL);
    cm_buf_init(&all, NULL);
    cm_buf_init(&dflt, NULL);
    pb_write_text(&f, 1, "F");
    pb_write_text(&f, 10, "local");
    m_names(&f, 4, "a");
    m_names(&f, 5, "r");
    m_ref(&soft, "axis", "axis");
    m_in(&f, 7, &neg);
    m_in(&f, 7, &soft);
    m_opset(&f, 9, "", 13);
    if (with_default) {
        pb_write_text(&dflt, 1, "axis");
        pb_write_int(&dflt, 3, 0);
        pb_write_int(&dflt, 20, 2);
        m_in(&f, 11, &dflt);
    }
    m_in(&all, F_FUNCTION, &f);
    return all;
}

static int64_t axis_of(const cm_node *n)
{
    return *(const int64_t *)cm_attr_get(n->attr, cm_attr_find(n->op->attrs, "axis"));
}

static void inlines_functions(void **state)
{
    (void)state;
    for (int given = 0; given < 3; given++) { /* given, default of the function, of the operator */
        cm_buf g = frame("2 3"), call = m_node("F", "local", "x", "y"), f = function_f(given == 1);
        if (given == 0)
            m_int(&call, "axis", 1);
        m_in(&g, F_NODE, &call);
        job j;
        assert_int_equal(import(&j, m_model(&g, 13, &f), NULL), CM_OK);
        assert_int_equal(j.g->n_nodes, 2);
        assert_string_equal(j.g->outputs[0]->name, "y");
        assert_string_equal(j.g->first->name, "y/b");
        assert_int_equal(axis_of(j.g->last), given == 0 ? 1 : given == 1 ? 0 : -1);
        end(&j);
    }
}

/* f0 calls f1 twice, f1 calls f2 twice ...: 2^60 nodes. */
static void bounds_expansion(void **state)
{
    (void)state;
    cm_buf g = frame("2"), call = m_node("f0", "local", "x", "y"), all;
    cm_buf_init(&all, NULL);
    for (int i = 0; i < 60; i++) {
        cm_buf f;
        char name[16], next[16];
        snprintf(name, sizeof name, "f%d", i);
        snprintf(next, sizeof next, "f%d", i + 1);
        cm_buf_init(&f, NULL);
        pb_write_text(&f, 1, name);
        pb_write_text(&f, 10, "local");
        m_names(&f, 4, "a");
        m_names(&f, 5, "c");
        m_opset(&f, 9, "", 13);
        cm_buf one = m_node(i < 59 ? next : "Neg", i < 59 ? "local" : "", "a", "b");
        cm_buf two = m_node(i < 59 ? next : "Neg", i < 59 ? "local" : "", "b", "c");
        m_in(&f, 7, &one);
        m_in(&f, 7, &two);
        m_in(&all, F_FUNCTION, &f);
    }
    m_in(&g, F_NODE, &call);
    expect_failure(m_model(&g, 13, &all), CM_ERR_UNSUPPORTED, "expand to over");
}

/* Two bytes of file for each of a million nodes. */
static void bounds_memory(void **state)
{
    (void)state;
    cm_buf g = frame("2");
    for (int i = 0; i < 1000000; i++)
        pb_write_bytes(&g, F_NODE, "", 0);
    expect_failure(m_model(&g, 13, NULL), CM_ERR_MODEL, "far more messages");
}

static void takes_options(void **state)
{
    (void)state;
    cm_buf g = frame("n seq");
    m_add(&g, "Relu", "x", "r");
    m_add(&g, "Neg", "r", "y");
    cm_buf m = m_model(&g, 13, NULL);
    const char *outputs[] = {"r"};
    cm_import_dim dims[] = {{"n", 4}};
    int64_t shape[] = {-1, 7};
    cm_import_shape shapes[] = {{"x", 2, shape}};
    cm_import_options o = {.n_outputs = 1,
                           .outputs = outputs,
                           .n_dims = 1,
                           .dims = dims,
                           .n_shapes = 1,
                           .shapes = shapes};
    job j;
    assert_int_equal(import(&j, m, &o), CM_OK);
    assert_int_equal(j.g->n_outputs, 2);
    assert_string_equal(j.g->output_names[1], "r");
    assert_int_equal(j.g->outputs[1]->type.dims[0], 4);
    assert_int_equal(j.g->outputs[1]->type.dims[1], 7);
    end(&j);
}

/* An initialiser that is also an input is a constant, or an input when asked. Unused ones are
 * gone. */
static void initialisers(void **state)
{
    (void)state;
    const float v[] = {1, 2};
    for (int keep = 0; keep < 2; keep++) {
        cm_buf g = frame("2");
        m_value(&g, F_INPUT, "w", CM_F32, "2");
        m_tensor(&g, F_INIT, "w", 2, v);
        m_tensor(&g, F_INIT, "unused", 2, v);
        m_add(&g, "Add", "x w", "y");
        cm_import_options o = {.keep_overridable = keep};
        job j;
        assert_int_equal(import(&j, m_model(&g, 13, NULL), &o), CM_OK);
        assert_int_equal(j.g->n_inputs, 1 + keep);
        assert_null(cm_network_find_value(j.g, "unused"));
        const cm_value *w = cm_network_find_value(j.g, "w");
        assert_true((w->constant == NULL) == (keep == 1));
        if (!keep) {
            assert_string_equal(w->weight, "w");
            assert_true((uintptr_t)w->constant->data % sizeof(float) == 0);
            assert_memory_equal(w->constant->data, v, sizeof v);
        }
        end(&j);
    }
}

static void refuses(void **state)
{
    (void)state;
    cm_buf g = frame("2"), n = m_node("Softmax", "", "x", "y");
    m_int(&n, "axes", 1);
    m_in(&g, F_NODE, &n);
    expect_failure(m_model(&g, 13, NULL), CM_ERR_MODEL, "did you mean 'axis'");
    g = frame("2");
    m_add(&g, "Neg", "nowhere", "y");
    expect_failure(m_model(&g, 13, NULL), CM_ERR_MODEL, "Neg node 'y': input 0: 'nowhere'");
    g = frame("2");
    m_add(&g, "Dropout", "x", "");
    expect_failure(m_model(&g, 11, NULL), CM_ERR_MODEL, "none of its outputs has a name");
    g = frame("2");
    m_value(&g, F_INPUT, "untyped", 0, "");
    expect_failure(m_model(&g, 13, NULL), CM_ERR_MODEL, "input 'untyped': the type is missing");
    g = frame("2");
    expect_failure(m_model(&g, 29, NULL), CM_ERR_UNSUPPORTED, "the newest known is 28");
}

/* Old forms become the newest: spot checks that the conformance data does not make. */
static void upgrades(void **state)
{
    (void)state;
    cm_buf g = frame("2 3 4");
    m_add(&g, "Softmax", "x", "y"); /* opset 12: over the last two dims at once */
    job j;
    assert_int_equal(import(&j, m_model(&g, 12, NULL), NULL), CM_OK);
    assert_int_equal(j.g->n_nodes, 4);
    assert_string_equal(j.g->last->op->name, "Reshape");
    assert_string_equal(j.g->outputs[0]->name, "y");
    assert_int_equal(j.g->outputs[0]->type.dims[2], 4);
    end(&j);

    cm_buf n = m_node("Add", "", "x b", "y");
    g = frame("2 3 4");
    m_value(&g, F_INPUT, "b", CM_F32, "3");
    m_int(&n, "broadcast", 1);
    m_int(&n, "axis", 1);
    m_in(&g, F_NODE, &n);
    assert_int_equal(import(&j, m_model(&g, 6, NULL), NULL), CM_OK);
    assert_string_equal(j.g->first->op->name, "Unsqueeze");
    assert_int_equal(j.g->first->out[0]->type.rank, 2);
    end(&j);
}

/* An allocator that fails once, at its n-th call. */
typedef struct failing {
    int left;
} failing;

static void *failing_alloc(void *user, size_t bytes, size_t align)
{
    failing *f = user;
    return f->left-- == 0 ? NULL : cm_allocator_default.alloc(NULL, bytes, align);
}

static void failing_release(void *user, void *p, size_t bytes)
{
    (void)user;
    cm_allocator_default.release(NULL, p, bytes);
}

static void survives_failing_memory(void **state)
{
    (void)state;
    cm_buf g = frame("2 3"), call = m_node("F", "local", "x", "y"), f = function_f(true);
    m_in(&g, F_NODE, &call);
    cm_buf m = m_model(&g, 13, &f);
    cm_status st = CM_ERR_MEMORY;
    for (int n = 0; st == CM_ERR_MEMORY && n < 1000; n++) {
        failing fail = {n};
        cm_allocator a = {failing_alloc, failing_release, &fail};
        cm_arena arena;
        cm_arena_init(&arena, &a);
        cm_ctx cx = {.allocator = &a, .arena = &arena};
        cm_network *net;
        st = cm_onnx_import(&cx, &arena, m.data, m.n, NULL, &net);
        cm_arena_deinit(&arena);
    }
    assert_int_equal(st, CM_OK);
    st = CM_ERR_MEMORY;
    for (size_t n = 1; st == CM_ERR_MEMORY && n < 10000; n++) { /* every place in the arena */
        cm_arena arena;
        cm_arena_init(&arena, NULL);
        arena.fail_after = n;
        cm_ctx cx = {.arena = &arena};
        cm_network *net;
        st = cm_onnx_import(&cx, &arena, m.data, m.n, NULL, &net);
        cm_arena_deinit(&arena);
    }
    assert_int_equal(st, CM_OK);
    cm_buf_deinit(&m);
}

static void every_row_has_versions(void **state)
{
    (void)state;
    int n = 0;
    for (const cm_onnx_op *op; (op = cm_onnx_op_at(n)); n++)
        assert_true(atoi(op->since) >= 1 && *op->name);
    assert_true(n > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_nodes),
        cmocka_unit_test(names_cycles),
        cmocka_unit_test(lists_all_that_is_unsupported),
        cmocka_unit_test(keeps_nul_in_names),
        cmocka_unit_test(scopes_of_branches),
        cmocka_unit_test(inlines_functions),
        cmocka_unit_test(bounds_expansion),
        cmocka_unit_test(bounds_memory),
        cmocka_unit_test(takes_options),
        cmocka_unit_test(initialisers),
        cmocka_unit_test(refuses),
        cmocka_unit_test(upgrades),
        cmocka_unit_test(survives_failing_memory),
        cmocka_unit_test(every_row_has_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
