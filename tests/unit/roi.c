/* roi.c -- regions far outside, hostile numbers; RoiAlign against the plain loop, element by element
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#include <math.h>

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("RoiAlign", "output_height=2 output_width=3", "f32[n,c,h,w]", "f32[r,4]", "i64[r]",
               NULL),
         "f32[r,c,2,3]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("RoiAlign", "", "f32[1,1,1,1]{3}", "f32[2,4]{-1e8,-1e8,1e8,1e8,5,5,1,1}",
              "i64[2]{0,0}", NULL),
         "f32[2,1,1,1]{6.75e-16,0}");
    SAME(eval("RoiAlign", "mode=max", "f32[1,1,1,1]{-3}", "f32[1,4]{0,0,5,5}", "i64[1]{0}", NULL),
         "f32[1,1,1,1]{0}");
    SAME(eval("RoiAlign", "sampling_ratio=2", "f32[1,1,1,2]{3,3}", "f32[1,4]{8,0,0,1}", "i64[1]{0}",
              NULL),
         "f32[1,1,1,1]{1.5}");
    SAME(eval("MaxRoiPool", "pooled_shape=1,2", "f32[1,1,2,2]{1,2,3,4}",
              "f32[2,5]{0,0,0,1,1,0,9,9,9,9}", NULL),
         "f32[2,1,1,2]{3,4,0,0}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("RoiAlign", "mode=min", "f32[n,c,h,w]", "f32[r,4]", "i64[r]", NULL),
         "mode is 'min', wanted avg or max");
    SAME(infer("RoiAlign", "output_height=0", "f32[n,c,h,w]", "f32[r,4]", "i64[r]", NULL),
         "output of 0 by 1, wanted at least 1 by 1");
    SAME(infer("RoiAlign", "", "f32[n,c,h,w]", "f32[r,5]", "i64[r]", NULL),
         "numbers of a region: found 5, wanted 4");
    SAME(eval("RoiAlign", "", "f32[1,1,1,1]{3}", "f32[1,4]{0,0,1,1}", "i64[1]{1}", NULL),
         "region 0 is of image 1 of 1");
    SAME(eval("RoiAlign", "", "f32[1,1,1,1]{3}", "f32[1,4]{0,0,nan,1}", "i64[1]{0}", NULL),
         "region 0 has the coordinate nan");
    SAME(infer("MaxRoiPool", "pooled_shape=2", "f32[n,c,h,w]", "f32[r,5]", NULL),
         "pooled_shape has 1 entries, wanted 2");
    SAME(eval("MaxRoiPool", "pooled_shape=1,2", "f32[1,1,2,2]{1,2,3,4}", "f32[1,5]{7,0,0,1,1}",
              NULL),
         "region 0 is of image 7 of 1");
}

enum { IMAGES = 2, HEIGHT = 13, WIDTH = 17, REGIONS = 10 };

typedef struct {
    const char *attrs;
    cm_dtype dtype;
    int channels, rows, columns, ratio;
    bool max_mode, half;
    double scale;
} align_case;

/* Left, top, right, bottom: inside, of one point, reversed, across each border, outside, huge. */
static const float regions[REGIONS][4] = {{1.25F, 2.5F, 9.75F, 8}, {4, 4, 4, 4},
                                          {12, 9, 3, 2},           {-6, -5, 5.5F, 7},
                                          {10, 8, 40, 30},         {50, 60, 70, 80},
                                          {-90, -90, -80, -70},    {0, 0, WIDTH, HEIGHT},
                                          {-200, -300, 250, 150},  {-0.5F, 3, 16.5F, 3.0000002F}};

static const int64_t image_of[REGIONS] = {0, 1, 0, 1, 1, 0, 1, 0, 1, 0};

/* 0 where the sample is outside; in max mode the greatest of the weighted corners. */
static double sample(const double *x, double y, double at, bool max_mode)
{
    if (y < -1 || y > HEIGHT || at < -1 || at > WIDTH)
        return 0;
    y = fmin(fmax(y, 0), HEIGHT - 1);
    at = fmin(fmax(at, 0), WIDTH - 1);
    int y0 = (int)y, x0 = (int)at;
    int y1 = y0 + 1 < HEIGHT ? y0 + 1 : y0, x1 = x0 + 1 < WIDTH ? x0 + 1 : x0;
    double fy = y - y0, fx = at - x0;
    double a = (1 - fy) * (1 - fx) * x[y0 * WIDTH + x0], b = (1 - fy) * fx * x[y0 * WIDTH + x1];
    double c = fy * (1 - fx) * x[y1 * WIDTH + x0], d = fy * fx * x[y1 * WIDTH + x1];
    return max_mode ? fmax(fmax(a, b), fmax(c, d)) : a + b + c + d;
}

static double plain_align(const align_case *k, const float *roi, const double *x, int row,
                          int column)
{
    double shift = k->half ? 0.5 : 0;
    double left = roi[0] * k->scale - shift, top = roi[1] * k->scale - shift;
    double width = roi[2] * k->scale - shift - left, height = roi[3] * k->scale - shift - top;
    if (!k->half) {
        width = fmax(width, 1);
        height = fmax(height, 1);
    }
    double cell_h = height / k->rows, cell_w = width / k->columns, sum = 0, best = -INFINITY;
    int64_t n_v = k->ratio ? k->ratio : (int64_t)fmax(ceil(cell_h), 1);
    int64_t n_h = k->ratio ? k->ratio : (int64_t)fmax(ceil(cell_w), 1);
    for (int64_t i = 0; i < n_v; i++)
        for (int64_t j = 0; j < n_h; j++) {
            double y = top + row * cell_h + ((double)i + 0.5) * (cell_h / (double)n_v);
            double at = left + column * cell_w + ((double)j + 0.5) * (cell_w / (double)n_h);
            double v = sample(x, y, at, k->max_mode);
            sum += v;
            best = best > v ? best : v;
        }
    return k->max_mode ? best : sum / (double)(n_v * n_h);
}

static cm_datum new_tensor(cm_dtype t, int rank, const int64_t *dims)
{
    cm_datum d = {.kind = CM_TENSOR};
    assert_true(cm_tensor_shape(&d.tensor, t, rank, dims));
    assert_int_equal(op_text_alloc(NULL, &op_text_cx, 0, &d.tensor), CM_OK);
    return d;
}

/* Eighths, which every type holds. */
static void fill_images(cm_tensor *t)
{
    uint32_t state = 7;
    for (int64_t i = 0; i < cm_tensor_elems(t); i++) {
        state = state * 1664525U + 1013904223U;
        cm_set_f64(t->dtype, t->data, i, ((int)(state >> 24) - 128) / 8.0);
    }
}

static void check_region(const align_case *k, const cm_tensor *images, const cm_tensor *y, int r)
{
    double x[HEIGHT * WIDTH];
    cm_dtype t = y->dtype;
    int64_t plane = (int64_t)HEIGHT * WIDTH, cells = (int64_t)k->rows * k->columns;
    for (int c = 0; c < k->channels; c++) {
        for (int64_t i = 0; i < plane; i++)
            x[i] = cm_get_f64(t, images->data, (image_of[r] * k->channels + c) * plane + i);
        for (int64_t i = 0; i < cells; i++) {
            double wanted, found = cm_get_f64(t, y->data, (r * k->channels + c) * cells + i);
            cm_set_f64(t, &wanted, 0,
                       plain_align(k, regions[r], x, (int)(i / k->columns), (int)(i % k->columns)));
            wanted = cm_get_f64(t, &wanted, 0);
            if (wanted != found)
                fail_msg("%s, region %d, channel %d, cell %d: %.17g, wanted %.17g", k->attrs, r, c,
                         (int)i, found, wanted);
        }
    }
}

static void check_align(const align_case *k, cm_threads *threads)
{
    op_text_reset();
    cm_datum x = new_tensor(k->dtype, 4, (int64_t[]){IMAGES, k->channels, HEIGHT, WIDTH});
    cm_datum rois = new_tensor(k->dtype, 2, (int64_t[]){REGIONS, 4});
    cm_datum batch = new_tensor(CM_I64, 1, (int64_t[]){REGIONS}), y = {0};
    fill_images(&x.tensor);
    for (int i = 0; i < REGIONS * 4; i++)
        cm_set_f64(k->dtype, rois.tensor.data, i, regions[i / 4][i % 4]);
    memcpy(batch.tensor.data, image_of, sizeof image_of);
    const cm_op *op = cm_op_find("RoiAlign");
    cm_eval_host host = {op_text_alloc, NULL};
    cm_eval e = {.cx = &op_text_cx,
                 .op = op,
                 .attr = op_text_attrs(op, k->attrs),
                 .n_in = 3,
                 .in = (const cm_datum *[]){&x, &rois, &batch},
                 .n_out = 1,
                 .out = (cm_datum *[]){&y},
                 .threads = threads,
                 .host = &host};
    assert_int_equal(cm_op_eval(&e), CM_OK);
    for (int r = 0; r < REGIONS; r++)
        check_region(k, &x.tensor, &y.tensor, r);
}

static void test_against_plain(void **state)
{
    (void)state;
    static const align_case cases[] = {
        {"output_height=7 output_width=7 sampling_ratio=2", CM_F32, 19, 7, 7, 2, false, true, 1},
        {"output_height=3 output_width=5 sampling_ratio=3 spatial_scale=0.25", CM_F32, 8, 3, 5, 3,
         false, true, 0.25},
        {"output_height=2 output_width=3 "
         "coordinate_transformation_mode=output_half_pixel",
         CM_F32, 3, 2, 3, 0, false, false, 1},
        {"output_height=2 output_width=3", CM_F64, 9, 2, 3, 0, false, true, 1},
        {"output_height=4 output_width=3 sampling_ratio=2 mode=max", CM_F32, 9, 4, 3, 2, true, true,
         1},
        {"output_height=4 output_width=3 mode=max "
         "coordinate_transformation_mode=output_half_pixel",
         CM_F32, 1, 4, 3, 0, true, false, 1},
        {"output_height=4200 output_width=2 sampling_ratio=1", CM_F32, 2, 4200, 2, 1, false, true,
         1},
        {"output_height=4200 output_width=2 sampling_ratio=1 mode=max", CM_F32, 2, 4200, 2, 1, true,
         true, 1},
    };
    cm_threads *threads;
    assert_int_equal(cm_threads_create(&op_text_cx, 3, &threads), CM_OK);
    for (int i = 0; i < CM_COUNT(cases); i++) {
        check_align(&cases[i], NULL);
        check_align(&cases[i], threads);
    }
    cm_threads_destroy(threads);
}

static void test_empty(void **state)
{
    (void)state;
    SAME(eval("RoiAlign", "", "f32[1,1,1,1]{3}", "f32[0,4]{}", "i64[0]{}", NULL), "f32[0,1,1,1]{}");
    SAME(eval("RoiAlign", "", "f32[1,0,0,0]{}", "f32[1,4]{0,0,1,1}", "i64[1]{0}", NULL),
         "f32[1,0,1,1]{}");
    SAME(eval("RoiAlign", "", "f32[1,1,0,1]{}", "f32[1,4]{0,0,1,1}", "i64[1]{0}", NULL),
         "the images are empty");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_shapes),        OP_TEXT_TEST(test_values), OP_TEXT_TEST(test_refusals),
        OP_TEXT_TEST(test_against_plain), OP_TEXT_TEST(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
