/* scatter.c -- reductions of odd types, equal indices, and refusals; ScatterElements against the plain loop
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_elements(void **state)
{
    (void)state;
    SAME(eval("ScatterElements", "reduction=add", "i8[2]{127,1}", "i64[3]{0,0,1}", "i8[3]{1,1,5}",
              NULL),
         "i8[2]{-127,6}");
    SAME(eval("ScatterElements", "reduction=max", "u64[1]{1}", "i64[1]{0}",
              "u64[1]{18446744073709551615}", NULL),
         "u64[1]{18446744073709551615}");
    SAME(eval("ScatterElements", "reduction=min", "f32[2]{1,nan}", "i64[2]{0,1}", "f32[2]{nan,1}",
              NULL),
         "f32[2]{nan,nan}");
    SAME(eval("ScatterElements", "reduction=mul", "c64[1]{1:1}", "i64[1]{0}", "c64[1]{2:3}", NULL),
         "c64[1]{-1:5}");
    SAME(eval("ScatterElements", "reduction=add", "bool[2]{1,0}", "i64[2]{0,1}", "bool[2]{1,0}",
              NULL),
         "bool[2]{1,0}");
    SAME(eval("ScatterElements", "axis=-1", "str[1,3]{a,b,c}", "i32[1,2]{-1,-1}", "str[1,2]{x,y}",
              NULL),
         "str[1,3]{a,b,y}");
    SAME(eval("ScatterND", "reduction=mul", "i64[2,2]{1,2,3,4}", "i64[2,1]{1,1}",
              "i64[2,2]{2,2,3,3}", NULL),
         "i64[2,2]{1,2,18,24}");
}

static void test_tensor_scatter(void **state)
{
    (void)state;
    SAME(eval("TensorScatter", "axis=1", "i32[1,3,1]{1,2,3}", "i32[1,2,1]{8,9}", "i64[1]{1}", NULL),
         "i32[1,3,1]{1,8,9}");
    SAME(eval("TensorScatter", "axis=1 mode=circular", "i32[1,3,1]{1,2,3}", "i32[1,2,1]{8,9}",
              "i64[1]{9223372036854775807}", NULL),
         "i32[1,3,1]{1,8,9}");
    SAME(eval("TensorScatter", "axis=1", "i32[1,3,1]{1,2,3}", "i32[1,2,1]{8,9}", "i64[1]{2}", NULL),
         "write_indices[0] is 2: 2 entries do not fit a cache of 3");
    SAME(infer("TensorScatter", "", "f16[b,8,64,d]", "f16[b,8,s,d]", NULL), "f16[b,8,64,d]");
    SAME(infer("TensorScatter", "axis=0", "f16[4,4]", "f16[4,4]", NULL),
         "axis 0 is the batch axis");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("ScatterElements", "reduction=add", "str[1]", "i64[1]", "str[1]", NULL),
         "reduction add is not defined for str");
    SAME(infer("ScatterND", "reduction=sum", "f32[1]", "i64[1,1]", "f32[1]", NULL),
         "reduction is 'sum', wanted none, add, mul, max or min");
    SAME(infer("ScatterND", "", "f32[b,3]", "i64[q,1]", "f32[q,4]", NULL),
         "an axis of updates: found 4, wanted 3");
    SAME(eval("ScatterND", "", "f32[2]{1,2}", "i64[1,1]{2}", "f32[1]{5}", NULL),
         "index 2 at position 0 is out of range for axis 0 of size 2");
}

enum { RANK = 4 };

typedef struct {
    const char *attrs;
    int axis;
    bool is_sum;
    cm_dtype dtype;
    int64_t data[RANK], index[RANK];
} elements_case;

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    return *state >> 8;
}

static cm_datum new_tensor(cm_dtype t, const int64_t *dims)
{
    cm_datum d = {.kind = CM_TENSOR};
    assert_true(cm_tensor_shape(&d.tensor, t, RANK, dims));
    assert_int_equal(op_text_alloc(NULL, &op_text_cx, 0, &d.tensor), CM_OK);
    return d;
}

static void fill(cm_tensor *t, uint32_t *state)
{
    for (int64_t i = 0; i < cm_tensor_elems(t); i++)
        cm_set_f64(t->dtype, t->data, i, (int)(draw(state) % 200) - 100);
}

/* Of each place along the axis one index for all elements, or each element its own. */
static void fill_index(const elements_case *k, bool expanded, cm_tensor *t, uint32_t *state)
{
    int64_t most = k->data[k->axis], *v = t->data, own[64];
    for (int i = 0; i < 64; i++)
        own[i] = (int64_t)(draw(state) % (uint32_t)(2 * most)) - most;
    for (int64_t i = 0; i < cm_tensor_elems(t); i++)
        v[i] = expanded ? own[i / t->strides[k->axis] % t->dims[k->axis] % 64]
                        : (int64_t)(draw(state) % (uint32_t)(2 * most)) - most;
}

static void plain_scatter(const elements_case *k, const cm_tensor *index, const cm_tensor *updates,
                          double *y)
{
    for (int64_t i = 0; i < cm_tensor_elems(index); i++) {
        int64_t to = 0, pick = ((const int64_t *)index->data)[i];
        for (int d = 0; d < RANK; d++) {
            int64_t at = i / index->strides[d] % index->dims[d];
            if (d == k->axis)
                at = pick < 0 ? pick + k->data[d] : pick;
            to = to * k->data[d] + at;
        }
        double u = cm_get_f64(updates->dtype, updates->data, i);
        y[to] = k->is_sum ? y[to] + u : u;
    }
}

static void check_elements(const elements_case *k, bool expanded, cm_threads *threads)
{
    uint32_t state = 3;
    op_text_reset();
    cm_datum x = new_tensor(k->dtype, k->data), index = new_tensor(CM_I64, k->index);
    cm_datum updates = new_tensor(k->dtype, k->index), y = {0};
    fill(&x.tensor, &state);
    fill(&updates.tensor, &state);
    fill_index(k, expanded, &index.tensor, &state);
    int64_t n = cm_tensor_elems(&x.tensor);
    double *wanted = cm_arena_alloc(&op_text_arena, (size_t)n * sizeof *wanted);
    cm_load_f64(k->dtype, x.tensor.data, n, wanted);
    plain_scatter(k, &index.tensor, &updates.tensor, wanted);
    const cm_op *op = cm_op_find("ScatterElements");
    cm_eval_host host = {op_text_alloc, NULL};
    cm_eval e = {.cx = &op_text_cx,
                 .op = op,
                 .attr = op_text_attrs(op, k->attrs),
                 .n_in = 3,
                 .in = (const cm_datum *[]){&x, &index, &updates},
                 .n_out = 1,
                 .out = (cm_datum *[]){&y},
                 .threads = threads,
                 .host = &host};
    assert_int_equal(cm_op_eval(&e), CM_OK);
    for (int64_t i = 0; i < n; i++)
        if (cm_get_f64(k->dtype, y.tensor.data, i) != wanted[i])
            fail_msg("%s, element %d: %g, wanted %g", k->attrs, (int)i,
                     cm_get_f64(k->dtype, y.tensor.data, i), wanted[i]);
    int64_t last =
        cm_tensor_elems(&index.tensor) - 1; /* of two that are wrong the first is named */
    ((int64_t *)index.tensor.data)[last] = -k->data[k->axis] - 1;
    ((int64_t *)index.tensor.data)[last / 2] = 1000;
    assert_int_equal(cm_op_eval(&e), CM_ERR_DATA);
    char sentence[64];
    snprintf(sentence, sizeof sentence, "index 1000 at position %d ", (int)(last / 2));
    assert_non_null(strstr(op_text_cx.message, sentence));
}

static void test_against_plain(void **state)
{
    (void)state;
    static const elements_case cases[] = {
        {"axis=0", 0, false, CM_F32, {6, 5, 30, 17}, {9, 5, 30, 17}},
        {"axis=0 reduction=add", 0, true, CM_F32, {6, 5, 30, 17}, {9, 4, 30, 17}},
        {"axis=1", 1, false, CM_I32, {3, 6, 50, 50}, {2, 7, 41, 50}},
        {"axis=1 reduction=add", 1, true, CM_F64, {3, 6, 50, 50}, {3, 7, 50, 49}},
        {"axis=2", 2, false, CM_F64, {3, 4, 7, 5}, {3, 4, 9, 3}},
        {"axis=3", 3, false, CM_F32, {3, 4, 7, 5}, {3, 4, 6, 8}},
        {"axis=-1 reduction=add", 3, true, CM_F32, {3, 4, 7, 5}, {2, 4, 7, 11}},
        {"axis=0 reduction=add", 0, true, CM_I32, {2, 1, 1, 3000}, {5, 1, 1, 2999}},
    };
    cm_threads *threads;
    assert_int_equal(cm_threads_create(&op_text_cx, 3, &threads), CM_OK);
    for (int i = 0; i < CM_COUNT(cases); i++)
        for (int expanded = 0; expanded < 2; expanded++) {
            check_elements(&cases[i], expanded, NULL);
            check_elements(&cases[i], expanded, threads);
        }
    cm_threads_destroy(threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_elements),
        OP_TEXT_TEST(test_tensor_scatter),
        OP_TEXT_TEST(test_refusals),
        OP_TEXT_TEST(test_against_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
