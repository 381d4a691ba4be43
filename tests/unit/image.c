/* image.c -- ImageDecoder: the readers of our own, and files that lie.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

/* The pixels of a file given as bytes. */
static const char *decode(const char *format, const void *bytes, size_t n)
{
    const cm_op *op = cm_op_find("ImageDecoder");
    char attrs[64];
    cm_eval_host host = {op_text_alloc, NULL};
    cm_datum in = {.kind = CM_TENSOR}, image = {0};
    const cm_datum *ins[1] = {&in};
    cm_datum *outs[1] = {&image};
    snprintf(attrs, sizeof attrs, "pixel_format=%s", format);
    assert_true(cm_tensor_shape(&in.tensor, CM_U8, 1, (int64_t[]){(int64_t)n}));
    in.tensor.data = (void *)(uintptr_t)bytes;
    cm_eval e = {.cx = &op_text_cx,
                 .op = op,
                 .attr = op_text_attrs(op, attrs),
                 .n_in = 1,
                 .in = ins,
                 .n_out = 1,
                 .out = outs,
                 .host = &host};
    cm_buf b;
    cm_buf_init(&b, NULL);
    op_text_status = cm_op_eval(&e);
    if (op_text_status == CM_OK) {
        cm_type type = cm_type_of_tensor(&image.tensor);
        cm_type_print(op_text_dims, &type, &b);
        op_text_print(&image.tensor, &b);
    }
    return op_text_result(&b);
}
#define DECODE(format, text) decode(format, text, sizeof(text) - 1)

static void test_pnm(void **state)
{
    (void)state;
    SAME(DECODE("RGB", "P6\n# a comment\n2 1\n255\n\1\2\3\4\5\6"), "u8[1,2,3]1,2,3,4,5,6");
    SAME(DECODE("BGR", "P3 1 1 15 0 15 5"), "u8[1,1,3]85,255,0");
    SAME(DECODE("Grayscale", "P4 9 1\n\x80\x80"), "u8[1,9,1]0,255,255,255,255,255,255,255,0");
    SAME(DECODE("Grayscale", "P5 1 1 65535\n\x80\x00"), "u8[1,1,1]128");
    SAME(DECODE("RGB", "P6 2 1 255\n\1\2\3"), "u8[0,0,3]");
    SAME(DECODE("RGB", "P6 99999999 99999999 255\n\1\2\3"), "u8[0,0,3]");
    SAME(DECODE("RGB", "P6 1 1 0\n\1\2\3"), "u8[0,0,3]");
}

/* A BMP of 2 x 2 with 8 bits a pixel and two colours. */
#define BMP(height, compression, pixels)                                                           \
    "BM\0\0\0\0\0\0\0\0\x3E\0\0\0\x28\0\0\0\2\0\0\0" height "\1\0\x08\0" compression               \
    "\0\0\0\0\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xFF\0" pixels

static void test_bmp(void **state)
{
    (void)state;
    SAME(DECODE("Grayscale", BMP("\2\0\0\0", "\0\0\0\0", "\0\1\0\0\1\1\0\0")),
         "u8[2,2,1]255,255,0,255");
    SAME(DECODE("Grayscale", BMP("\xFE\xFF\xFF\xFF", "\0\0\0\0", "\0\1\0\0\1\1\0\0")),
         "u8[2,2,1]0,255,255,255");
    SAME(DECODE("Grayscale", BMP("\2\0\0\0", "\1\0\0\0", "\2\1\0\0\1\1\0\1")),
         "u8[2,2,1]255,0,255,255");
    SAME(DECODE("Grayscale", BMP("\2\0\0\0", "\1\0\0\0", "\xFF\1\xFF\1\0\2\xFF\xFF\0\1")),
         "u8[2,2,1]0,0,255,255");
    SAME(DECODE("Grayscale", BMP("\2\0\0\0", "\0\0\0\0", "\0\1")), "u8[0,0,1]");
    SAME(DECODE("Grayscale", BMP("\0\0\0\x80", "\0\0\0\0", "\0\1")), "u8[0,0,1]");
    SAME(DECODE("Grayscale", BMP("\2\0\0\0", "\7\0\0\0", "\0\1")), "u8[0,0,1]");
}

static void test_others(void **state)
{
    (void)state;
    SAME(infer("ImageDecoder", "", "u8[n]", NULL), "u8[t.height_0,t.width_1,3]");
    SAME(infer("ImageDecoder", "pixel_format=YUV", "u8[n]", NULL),
         "pixel_format is none of RGB, BGR, Grayscale");
    SAME(eval("ImageDecoder", "", "u8[2]{1,2}", NULL), "u8[0,0,3]{}");
    SAME(DECODE("RGB", ""), "u8[0,0,3]");
    SAME(DECODE("RGB", "\xFF\xD8\xFF"), "u8[0,0,3]");
    SAME(DECODE("RGB",
                "\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\x7F\xFF\xFF\xFF\x7F\xFF\xFF\xFF\x08\2\0\0\0"),
         "u8[0,0,3]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_pnm),
        OP_TEXT_TEST(test_bmp),
        OP_TEXT_TEST(test_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
