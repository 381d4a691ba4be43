/* sequence.c -- sequences and optionals: types joined, positions checked.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"
#include "ops/nested.h"

/* A type rule on a sequence of `elem`, which may be NULL. */
static const char *infer_seq(const char *name, cm_kind kind, const char *elem, const char *other)
{
    static op_text_value item, second;
    cm_type holder = {.kind = kind};
    cm_infer_in in[2] = {{.type = &holder}};
    cm_infer_out out[1] = {{.wanted = true}};
    const cm_op *op = cm_op_find(name);
    cm_infer f = {.cx = &op_text_cx,
                  .dims = op_text_dims,
                  .op = op,
                  .hint = "t",
                  .n_in = 1,
                  .in = in,
                  .n_out = 1,
                  .out = out};
    if (elem) {
        op_text_parse(elem, &item);
        holder.elem = &item.type;
    }
    if (other) {
        op_text_parse(other, &second);
        in[1].type = &second.type;
        f.n_in = 2;
    }
    f.attr = op_text_attrs(op, op->id == CM_OP_CONCAT_FROM_SEQUENCE ? "axis=-1 new_axis=1" : "");
    cm_buf b;
    cm_buf_init(&b, NULL);
    op_text_status = cm_op_infer(&f);
    if (op_text_status == CM_OK)
        cm_type_print(op_text_dims, &out[0].type, &b);
    return op_text_result(&b);
}

static void test_types(void **state)
{
    (void)state;
    SAME(infer("SequenceConstruct", "", "f32[b,3]", "f32[b,4]", NULL), "seq(f32[b,t.item_0])");
    SAME(infer("SequenceConstruct", "", "f32[b,3]", "f32[2]", NULL), "seq(f32[*])");
    SAME(infer("SequenceConstruct", "", "f32[b]", "i64[b]", NULL),
         "items of a sequence: found element type i64, wanted f32");
    SAME(infer_seq("SequenceInsert", CM_SEQUENCE, "f32[2,3]", "f32[2,4]"), "seq(f32[2,t.item_1])");
    SAME(infer_seq("SequenceInsert", CM_SEQUENCE, NULL, "f32[2,4]"), "seq(f32[2,4])");
    SAME(infer_seq("SequenceErase", CM_SEQUENCE, "f32[b,3]", NULL), "seq(f32[b,3])");
    SAME(infer_seq("SequenceLength", CM_SEQUENCE, "f32[b,3]", NULL), "i64[]");
    SAME(infer_seq("SequenceLength", CM_OPTIONAL, "f32[b,3]", NULL), "input 0 is not a sequence");
    SAME(infer("SplitToSequence", "axis=1 keepdims=0", "f32[b,s,4]", NULL), "seq(f32[b,4])");
    SAME(infer("SplitToSequence", "axis=1", "f32[b,6]", "i64[]{3}", NULL), "seq(f32[b,3])");
    SAME(infer("SequenceEmpty", "dtype=99", NULL), "dtype 99 is no element type");
}

/* Every item may have its own size where the type has a symbol. */
static void test_items(void **state)
{
    (void)state;
    SAME(infer_seq("SequenceAt", CM_SEQUENCE, "f32[b,3]", "i64[]"), "f32[t.item_0,3]");
    SAME(infer_seq("ConcatFromSequence", CM_SEQUENCE, "f32[2,3]", NULL), "f32[2,3,t.n_1]");
    SAME(infer_seq("OptionalGetElement", CM_OPTIONAL, "i8[4]", NULL), "i8[4]");
    SAME(infer_seq("OptionalHasElement", CM_OPTIONAL, "i8[4]", NULL), "bool[]");
    SAME(infer("OptionalGetElement", "", "f32[b]", NULL), "f32[b]");
    SAME(infer("Optional", "", "f32[b]", NULL), "opt(f32[b])");
    SAME(infer("Optional", "", NULL), "neither an input nor the attribute 'type' is given");
    SAME(eval("OptionalHasElement", "", NULL), "bool[]{0}");
    SAME(eval("OptionalHasElement", "", "f32[1]{1}", NULL), "bool[]{1}");
}

/* Evaluate on a sequence of two tensors. */
static const char *eval_seq(const char *name, const char *attrs, const char *a, const char *b,
                            const char *position)
{
    static op_text_value x, y, p;
    const cm_op *op = cm_op_find(name);
    cm_eval_host host = {op_text_alloc, NULL};
    cm_datum items[2], seq = {.kind = CM_SEQUENCE, .n = 2, .items = items};
    cm_datum result = {0}, *out[1] = {&result};
    const cm_datum *in[2] = {&seq, &p.datum};
    op_text_parse(a, &x);
    op_text_parse(b, &y);
    items[0] = x.datum;
    items[1] = y.datum;
    seq.elem = cm_elem_tensor(x.type.dtype);
    if (position)
        op_text_parse(position, &p);
    cm_eval e = {.cx = &op_text_cx,
                 .op = op,
                 .attr = op_text_attrs(op, attrs),
                 .in = in,
                 .n_in = position ? 2 : 1,
                 .n_out = 1,
                 .out = out,
                 .host = &host};
    op_text_status = cm_op_eval(&e);
    cm_buf text;
    cm_buf_init(&text, NULL);
    if (op_text_status == CM_OK && result.kind == CM_TENSOR)
        op_text_print(&result.tensor, &text);
    else if (op_text_status == CM_OK)
        cm_buf_printf(&text, "%lld items", (long long)result.n);
    return op_text_result(&text);
}

static void test_positions(void **state)
{
    (void)state;
    const char *a = "f32[2]{1,2}", *b = "f32[1]{3}";
    SAME(eval_seq("SequenceAt", "", a, b, "i64[]{-1}"), "3");
    SAME(eval_seq("SequenceAt", "", a, b, "i32[]{0}"), "1,2");
    SAME(eval_seq("SequenceAt", "", a, b, "i64[]{2}"),
         "position 2 is out of range for a sequence of 2");
    assert_int_equal(op_text_status, CM_ERR_DATA);
    SAME(eval_seq("SequenceAt", "", a, b, "i64[]{-9223372036854775808}"),
         "position -9223372036854775808 is out of range for a sequence of 2");
    SAME(eval_seq("SequenceErase", "", a, b, "i64[]{-2}"), "1 items");
    SAME(eval_seq("ConcatFromSequence", "axis=0", a, b, NULL), "1,2,3");
    SAME(eval_seq("ConcatFromSequence", "axis=0 new_axis=1", a, a, NULL), "1,2,1,2");
    SAME(eval_seq("ConcatFromSequence", "axis=0 new_axis=1", a, b, NULL),
         "item 1 of the sequence does not have the shape of item 0");
    SAME(eval_seq("ConcatFromSequence", "axis=1", a, b, NULL), "axis 1 is out of range for rank 1");
    SAME(eval("SplitToSequence", "", "f32[2]{1,2}", "i64[]{0}", NULL),
         "split is 0, wanted a positive number");
    SAME(eval("SplitToSequence", "", "f32[2]{1,2}", "i64[2]{1,2}", NULL),
         "parts of 'split' add up to 3, wanted 2");
    eval("SplitToSequence", "", "f32[2]{1,2}", "i64[]{9223372036854775807}", NULL);
    assert_int_equal(op_text_status, CM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_types),
        OP_TEXT_TEST(test_items),
        OP_TEXT_TEST(test_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
