/* op_text.h -- operators on text: types, elements and attributes in, types and elements out.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     infer("Reshape", "allowzero=1", "f32[b,6]", "i64[2]{-1,3}", NULL)   "f32[2*b,3]"
 *     eval("Transpose", "perm=1,0", "i32[1,2]{7,8}", NULL)                "i32[2,1]{7,8}"
 *
 * A type is dtype[dims]; [*] has no known rank; "-" is an absent input. Elements in braces are
 * known (symbols too, for integers, in type rules). Several outputs are separated by "; ", a failure is
 * its sentence. Results live until the next call but one. */
#ifndef CM_TESTS_OP_TEXT_H
#define CM_TESTS_OP_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/eval.h"

enum { OP_TEXT_INPUTS = 16, OP_TEXT_OUTPUTS = 8 };

static cm_arena op_text_arena, op_text_scratch;
static cm_dim_table *op_text_dims;
static cm_ctx op_text_cx;
static cm_status op_text_status; /* of the last call */
static int op_text_n_out = 1;    /* how many outputs the next calls ask for */

/* Begin: symbols and memory of earlier calls are gone. */
static void op_text_reset(void)
{
    cm_arena_deinit(&op_text_arena);
    cm_arena_deinit(&op_text_scratch);
    cm_arena_init(&op_text_arena, NULL);
    cm_arena_init(&op_text_scratch, NULL);
    op_text_cx = (cm_ctx){.arena = &op_text_arena, .scratch = &op_text_scratch};
    op_text_n_out = 1;
    assert_int_equal(cm_dim_table_create(&op_text_cx, &op_text_arena, &op_text_dims), CM_OK);
}

static int op_text_setup(void **state)
{
    (void)state;
    op_text_reset();
    return 0;
}

static int op_text_teardown(void **state)
{
    (void)state;
    cm_arena_deinit(&op_text_arena);
    cm_arena_deinit(&op_text_scratch);
    return 0;
}

/* The next item of a list; *p stands at the opening bracket or at the comma before it, and is left
 * at the comma or bracket behind it. False at the end. */
static bool op_text_item(const char **p, char close, const char **item, size_t *n)
{
    int depth = 0;
    bool is_first = **p == '[' || **p == '{';
    if (**p == close || **p == '\0')
        return false;
    ++*p;
    if (is_first && **p == close)
        return false;
    *item = *p;
    while (**p && (depth > 0 || (**p != ',' && **p != close))) {
        depth += (**p == '(') - (**p == ')');
        ++*p;
    }
    *n = (size_t)(*p - *item);
    return true;
}

typedef struct {
    cm_type type;
    cm_dim elems[CM_MAX_ELEMS];
    int n_elems;      /* -1: not given */
    bool is_symbolic; /* the elements are dims, not only numbers */
    cm_datum datum;
} op_text_value;

static void op_text_set_element(cm_tensor *t, int64_t i, const char *item, size_t n)
{
    if (t->dtype == CM_STR)
        ((cm_str *)t->data)[i] = (cm_str){item, n};
    else if (cm_dtype_is_float(t->dtype))
        cm_set_f64(t->dtype, t->data, i, strtod(item, NULL));
    else if (t->dtype == CM_C64 || t->dtype == CM_C128) { /* 1:-2 */
        char *end;
        cm_dtype part = t->dtype == CM_C64 ? CM_F32 : CM_F64;
        cm_set_f64(part, t->data, 2 * i, strtod(item, &end));
        cm_set_f64(part, t->data, 2 * i + 1, *end == ':' ? strtod(end + 1, NULL) : 0);
    } else
        cm_set_i64(t->dtype, t->data, i,
                   item[0] == '-' ? (int64_t)strtoll(item, NULL, 10)
                                  : (int64_t)strtoull(item, NULL, 10));
}

static void op_text_parse(const char *text, op_text_value *v)
{
    const char *p = strchr(text, '['), *item;
    char name[16];
    size_t n;
    assert_non_null(p);
    *v = (op_text_value){.n_elems = -1};
    snprintf(name, sizeof name, "%.*s", (int)(p - text), text);
    v->type.kind = CM_TENSOR;
    assert_true(cm_dtype_parse(name, &v->type.dtype));
    while (op_text_item(&p, ']', &item, &n)) {
        if (*item == '*')
            v->type.rank = -1;
        else
            assert_int_equal(
                cm_dim_parse(&op_text_cx, op_text_dims, item, n, &v->type.dims[v->type.rank++]),
                CM_OK);
    }
    v->datum.kind = CM_TENSOR;
    cm_tensor *t = &v->datum.tensor;
    bool is_concrete =
        v->type.rank >= 0 && cm_tensor_shape(t, v->type.dtype, v->type.rank, v->type.dims);
    if (*p == '\0' || p[1] != '{')
        return;
    t->dtype = v->type.dtype;
    int64_t elems = is_concrete ? cm_tensor_elems(t) : CM_MAX_ELEMS;
    t->capacity_bytes = (size_t)(elems + 1) * 16;
    t->data = cm_arena_alloc(&op_text_arena, t->capacity_bytes);
    v->n_elems = 0;
    for (p++; op_text_item(&p, '}', &item, &n); v->n_elems++) {
        assert_true(v->n_elems < elems);
        bool is_number = strspn(item, "-0123456789") >= n || !cm_dtype_is_integer(v->type.dtype);
        if (!is_number) {
            v->is_symbolic = true;
            assert_true(v->n_elems < CM_MAX_ELEMS);
        }
        if (!is_number || (n < 18 && v->n_elems < CM_MAX_ELEMS))
            (void)!cm_dim_parse(&op_text_cx, op_text_dims, item, n, &v->elems[v->n_elems]);
        op_text_set_element(t, v->n_elems, item, n);
    }
}

/* "axis=1 perm=0,2,1 value=i64[1]{7}" by the operator's descriptor. */
static void *op_text_attrs(const cm_op *op, const char *text)
{
    void *attr = NULL;
    assert_int_equal(cm_attr_new(&op_text_cx, &op_text_arena, op->attrs, &attr), CM_OK);
    while (*text) {
        char name[64];
        size_t n = strcspn(text, "="), m;
        snprintf(name, sizeof name, "%.*s", (int)n, text);
        const cm_attr_field *f = cm_attr_find(op->attrs, name);
        assert_non_null(f);
        text += n + 1;
        m = strcspn(text, " ");
        char *value = cm_arena_strndup(&op_text_arena, text, m);
        text += m + (text[m] == ' ');
        int64_t number = strtoll(value, NULL, 10), *list;
        float real = strtof(value, NULL);
        cm_str str = cm_str_of(value);
        float *reals;
        cm_str *words;
        cm_ints ints = {0, NULL};
        cm_floats floats = {0, NULL};
        cm_strs strs = {0, NULL};
        op_text_value *tensor;
        const cm_tensor *pointer;
        switch (f->kind) {
        case CM_A_INT:
            cm_attr_set(op->attrs, attr, f, &number);
            break;
        case CM_A_FLOAT:
            cm_attr_set(op->attrs, attr, f, &real);
            break;
        case CM_A_STR:
            cm_attr_set(op->attrs, attr, f, &str);
            break;
        case CM_A_INTS:
            ints.v = list = cm_arena_alloc(&op_text_arena, 32 * sizeof *list);
            for (char *q = strtok(value, ","); q; q = strtok(NULL, ","))
                list[ints.n++] = strtoll(q, NULL, 10);
            cm_attr_set(op->attrs, attr, f, &ints);
            break;
        case CM_A_FLOATS:
            floats.v = reals = cm_arena_alloc(&op_text_arena, 32 * sizeof *reals);
            for (char *q = strtok(value, ","); q; q = strtok(NULL, ","))
                reals[floats.n++] = strtof(q, NULL);
            cm_attr_set(op->attrs, attr, f, &floats);
            break;
        case CM_A_STRS:
            strs.v = words = cm_arena_alloc(&op_text_arena, 32 * sizeof *words);
            for (char *q = strtok(value, ","); q; q = strtok(NULL, ","))
                words[strs.n++] = cm_str_of(q);
            cm_attr_set(op->attrs, attr, f, &strs);
            break;
        case CM_A_TENSOR:
            tensor = cm_arena_alloc(&op_text_arena, sizeof *tensor);
            op_text_parse(value, tensor);
            pointer = &tensor->datum.tensor;
            cm_attr_set(op->attrs, attr, f, &pointer);
            break;
        default:
            fail_msg("no text form for attribute %s", name);
        }
    }
    return attr;
}

static int op_text_inputs(op_text_value *v, bool *absent, va_list ap)
{
    int n = 0;
    for (const char *text; (text = va_arg(ap, const char *)) != NULL; n++) {
        absent[n] = strcmp(text, "-") == 0;
        if (!absent[n])
            op_text_parse(text, &v[n]);
    }
    return n;
}

static const char *op_text_result(cm_buf *b)
{
    const char *s = op_text_status == CM_OK ? cm_buf_text(b) : op_text_cx.message;
    s = cm_arena_strdup(&op_text_arena, s);
    cm_buf_deinit(b);
    return s;
}

static const char *infer(const char *name, const char *attrs, ...)
{
    static op_text_value v[OP_TEXT_INPUTS];
    static cm_infer_out out[OP_TEXT_OUTPUTS];
    bool absent[OP_TEXT_INPUTS];
    cm_infer_in in[OP_TEXT_INPUTS] = {{0}};
    const cm_op *op = cm_op_find(name);
    va_list ap;
    assert_non_null(op);
    va_start(ap, attrs);
    cm_infer f = {.cx = &op_text_cx,
                  .dims = op_text_dims,
                  .op = op,
                  .hint = "t",
                  .in = in,
                  .out = out,
                  .n_out = op_text_n_out};
    f.n_in = op_text_inputs(v, absent, ap);
    va_end(ap);
    f.attr = op_text_attrs(op, attrs);
    for (int i = 0; i < f.n_in; i++) {
        if (absent[i])
            continue;
        in[i].type = &v[i].type;
        if (v[i].is_symbolic) {
            in[i].elems = v[i].elems;
            in[i].n_elems = v[i].n_elems;
        } else if (v[i].n_elems >= 0) {
            in[i].constant = &v[i].datum.tensor;
        }
    }
    memset(out, 0, sizeof out);
    for (int o = 0; o < f.n_out; o++)
        out[o].wanted = true;
    cm_buf b;
    cm_buf_init(&b, NULL);
    op_text_status = cm_op_infer(&f);
    for (int o = 0; op_text_status == CM_OK && o < f.n_out; o++) {
        cm_buf_str(&b, o ? "; " : "");
        cm_type_print(op_text_dims, &out[o].type, &b);
        for (int i = 0; i < out[o].n_elems; i++) {
            cm_buf_str(&b, i ? "," : "{");
            cm_dim_print(op_text_dims, out[o].elems[i], &b);
        }
        cm_buf_str(&b, out[o].n_elems > 0 ? "}" : out[o].n_elems == 0 ? "{}" : "");
    }
    return op_text_result(&b);
}

static cm_status op_text_alloc(void *user, cm_ctx *cx, int output, cm_tensor *t)
{
    (void)user, (void)output;
    size_t bytes;
    if (!cm_tensor_bytes(t, &bytes) || bytes > (1 << 24))
        return cm_fail(cx, CM_ERR_MEMORY, "an output of %zu bytes", bytes);
    t->data = cm_arena_alloc(&op_text_arena, bytes + 16);
    t->capacity_bytes = bytes;
    return t->data ? CM_OK : cm_fail_memory(cx);
}

static void op_text_print(const cm_tensor *t, cm_buf *b)
{
    for (int64_t i = 0; i < cm_tensor_elems(t); i++) {
        cm_buf_str(b, i ? "," : "");
        cm_str s = t->dtype == CM_STR ? ((const cm_str *)t->data)[i] : (cm_str){NULL, 0};
        if (t->dtype == CM_STR)
            cm_buf_bytes(b, s.p, s.n);
        else if (t->dtype == CM_C64 || t->dtype == CM_C128)
            cm_buf_printf(b, "%g:%g",
                          cm_get_f64(t->dtype == CM_C64 ? CM_F32 : CM_F64, t->data, 2 * i),
                          cm_get_f64(t->dtype == CM_C64 ? CM_F32 : CM_F64, t->data, 2 * i + 1));
        else if (cm_dtype_is_float(t->dtype))
            cm_buf_printf(b, "%g", cm_get_f64(t->dtype, t->data, i));
        else if (t->dtype == CM_U64)
            cm_buf_printf(b, "%llu", (unsigned long long)cm_get_i64(t->dtype, t->data, i));
        else
            cm_buf_printf(b, "%lld", (long long)cm_get_i64(t->dtype, t->data, i));
    }
}

static const char *eval(const char *name, const char *attrs, ...)
{
    static op_text_value v[OP_TEXT_INPUTS];
    bool absent[OP_TEXT_INPUTS];
    const cm_datum *in[OP_TEXT_INPUTS] = {NULL};
    cm_datum data[OP_TEXT_OUTPUTS] = {{0}}, *out[OP_TEXT_OUTPUTS];
    const cm_op *op = cm_op_find(name);
    cm_eval_host host = {op_text_alloc, NULL};
    va_list ap;
    assert_non_null(op);
    va_start(ap, attrs);
    cm_eval e = {
        .cx = &op_text_cx, .op = op, .in = in, .n_out = op_text_n_out, .out = out, .host = &host};
    e.n_in = op_text_inputs(v, absent, ap);
    va_end(ap);
    e.attr = op_text_attrs(op, attrs);
    for (int i = 0; i < e.n_in; i++)
        in[i] = absent[i] ? NULL : &v[i].datum;
    for (int o = 0; o < e.n_out; o++)
        out[o] = &data[o];
    cm_buf b;
    cm_buf_init(&b, NULL);
    op_text_status = cm_op_eval(&e);
    for (int o = 0; op_text_status == CM_OK && o < e.n_out; o++) {
        cm_tensor *t = &data[o].tensor;
        cm_type type = cm_type_of_tensor(t);
        void *unpacked = cm_arena_alloc(&op_text_arena, (size_t)cm_tensor_elems(t) + 1);
        if (t->packed) {
            cm_unpack_sub_byte(t->dtype, t->data, cm_tensor_elems(t), unpacked);
            t->data = unpacked;
        }
        cm_buf_str(&b, o ? "; " : "");
        cm_type_print(op_text_dims, &type, &b);
        cm_buf_str(&b, "{");
        op_text_print(t, &b);
        cm_buf_str(&b, "}");
    }
    return op_text_result(&b);
}

#define SAME(call, wanted) assert_string_equal(call, wanted)
#define OP_TEXT_TEST(fn)   cmocka_unit_test_setup_teardown(fn, op_text_setup, op_text_teardown)

#endif
