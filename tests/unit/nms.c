/* nms.c -- ties, NaN, thresholds met, nothing to select; boxes of all kinds against a plain selection
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#include <float.h>
#include <math.h>

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("NonMaxSuppression", "", "f32[b,n,4]", "f32[b,c,n]", NULL), "i64[t.selected_0,3]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("NonMaxSuppression", "", "f32[1,1,4]{0,0,1,1}", "f32[1,1,1]{1}", NULL), "i64[0,3]{}");
    SAME(eval("NonMaxSuppression", "", "f32[1,3,4]{0,0,1,1,0,0,1,1,5,5,6,6}",
              "f32[1,1,3]{0.5,nan,0.5}", "i64[1]{9223372036854775807}", NULL),
         "i64[2,3]{0,0,0,0,0,2}");
    SAME(eval("NonMaxSuppression", "", "f32[1,2,4]{0,0,1,1,5,5,6,6}", "f32[1,1,2]{0.6,0.5}",
              "i64[]{5}", "f32[]{0.5}", "f32[]{0.5}", NULL),
         "i64[1,3]{0,0,0}");
    SAME(eval("NonMaxSuppression", "", "f32[1,0,4]{}", "f32[1,1,0]{}", "i64[]{5}", NULL),
         "i64[0,3]{}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("NonMaxSuppression", "", "f32[b,n,5]", "f32[b,c,n]", NULL),
         "numbers of a box: found 5, wanted 4");
    SAME(infer("NonMaxSuppression", "", "f32[b,8,4]", "f32[b,c,9]", NULL),
         "scores for the boxes: found 9, wanted 8");
    SAME(infer("NonMaxSuppression", "center_point_box=2", "f32[b,8,4]", "f32[b,c,8]", NULL),
         "center_point_box is 2, wanted 0 or 1");
    SAME(eval("NonMaxSuppression", "", "f32[1,1,4]{0,0,1,1}", "f32[1,1,1]{1}", "i64[2]{1,2}", NULL),
         "input 2 has 2 elements, wanted 1");
}

enum { MOST_BATCHES = 2, MOST_CLASSES = 2, MOST_BOXES = 3000 };

typedef struct {
    int n_batches, n_classes, n, most;
    bool by_center;
    float iou, least_score;
    float boxes[MOST_BATCHES * MOST_BOXES * 4];
    float scores[MOST_BATCHES * MOST_CLASSES * MOST_BOXES];
} problem;

static uint64_t seed;

static int below(int n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}
static float between(float lo, float hi)
{
    return lo + (hi - lo) * (float)below(1 << 20) / (1 << 20);
}

/* Where boxes lie, (x, y), and how large they are, (w, h). */
typedef void placer(float at[2], float size[2]);

static void place_anywhere(float at[2], float size[2])
{
    for (int i = 0; i < 2; i++) {
        at[i] = between(-50, 250);
        size[i] = between(0, 60);
    }
}
static void place_clusters(float at[2], float size[2])
{
    float middle = (float)(below(5) * 40);
    for (int i = 0; i < 2; i++) {
        at[i] = middle + between(0, 4);
        size[i] = between(20, 25);
    }
}
static void place_classes(float at[2], float size[2]) /* each class is moved by an offset */
{
    float offset = (float)below(90) * 301;
    for (int i = 0; i < 2; i++) {
        at[i] = offset + between(0, 200);
        size[i] = between(1, 100);
    }
}
static void place_grid(float at[2], float size[2]) /* edges that touch, equal boxes, no area */
{
    for (int i = 0; i < 2; i++) {
        at[i] = (float)below(20);
        size[i] = (float)below(4);
    }
}
static void place_column(float at[2], float size[2]) /* one x0 for all */
{
    at[0] = 7;
    at[1] = between(0, 1000);
    size[0] = between(0, 3);
    size[1] = between(0, 30);
}
static void place_sizes(float at[2], float size[2]) /* huge and tiny ones together */
{
    for (int i = 0; i < 2; i++) {
        at[i] = between(-1, 1) * powf(10, between(-6, 6));
        size[i] = powf(10, between(-8, 8));
    }
}
static void place_far(float at[2], float size[2]) /* areas up to overflow */
{
    for (int i = 0; i < 2; i++) {
        at[i] = between(-1, 1) * (below(2) ? 1e30f : 100);
        size[i] = below(2) ? 1e18f : 1e12f;
    }
}
static void place_overflowing(float at[2], float size[2])
{
    for (int i = 0; i < 2; i++) {
        at[i] = between(-1, 1) * 1e30f;
        size[i] = below(20) ? 1e18f : 3e38f;
    }
}
static void place_denormals(float at[2], float size[2]) /* areas of few bits, and of none */
{
    for (int i = 0; i < 2; i++) {
        at[i] = (float)below(40) * (i ? 1e-22f : FLT_TRUE_MIN);
        size[i] = (float)below(12) * (i ? 1e-22f : FLT_TRUE_MIN);
    }
    if (below(2)) {
        at[0] = (float)below(40) * 1e-22f;
        size[0] = (float)below(12) * 1e-23f;
    }
}
static void place_odd(float at[2], float size[2]) /* one box in a hundred is infinite or NaN */
{
    place_anywhere(at, size);
    if (below(100) == 0)
        (below(2) ? at : size)[below(2)] = below(2) ? NAN : below(2) ? INFINITY : -INFINITY;
}

static placer *const placers[] = {place_anywhere,  place_clusters, place_classes, place_grid,
                                  place_column,    place_sizes,    place_far,     place_overflowing,
                                  place_denormals, place_odd};

static void write_box(problem *p, int i, placer *place)
{
    float at[2], size[2], *b = &p->boxes[i * 4];
    place(at, size);
    for (int k = 0; k < 2; k++) {
        if (p->by_center) { /* sizes below zero are boxes that nothing can hide */
            b[k] = at[k];
            b[2 + k] = below(50) ? size[k] : -size[k];
        } else { /* y first; either corner first */
            bool is_flipped = below(2);
            b[(1 - k) + 2 * is_flipped] = at[k];
            b[(1 - k) + 2 * !is_flipped] = at[k] + size[k];
        }
    }
}

static void write_problem(problem *p, int n, placer *place)
{
    static const float thresholds[] = {0, 0.5f, 1, 0.3f, 0.9f, 1e-30f, -0.0f, -0.5f, INFINITY, NAN};
    *p = (problem){.n = n, .most = below(3) ? n : 1 + below(n), .by_center = below(3) == 0};
    p->iou = thresholds[below(below(2) ? 5 : 10)];
    p->least_score = below(2) ? -INFINITY : 0.2f;
    p->n_batches = n < MOST_BOXES ? MOST_BATCHES : 1;
    p->n_classes = n < MOST_BOXES ? MOST_CLASSES : 1;
    bool has_ties = below(2);
    for (int i = 0; i < p->n_batches * n; i++)
        write_box(p, i, place);
    for (int i = 0; i < p->n_batches * p->n_classes * n; i++)
        p->scores[i] = has_ties ? (float)below(10) / 10 : between(0, 1);
}

static void corners(const problem *p, int i, float c[4]) /* y0, x0, y1, x1 */
{
    const float *b = &p->boxes[i * 4];
    for (int k = 0; k < 2; k++) {
        c[k] = p->by_center ? b[1 - k] - b[3 - k] / 2 : fminf(b[k], b[2 + k]);
        c[2 + k] = p->by_center ? b[1 - k] + b[3 - k] / 2 : fmaxf(b[k], b[2 + k]);
    }
}

static bool hides(const problem *p, int i, int j)
{
    float a[4], b[4];
    corners(p, i, a);
    corners(p, j, b);
    float area_a = (a[2] - a[0]) * (a[3] - a[1]), area_b = (b[2] - b[0]) * (b[3] - b[1]);
    float height = fmaxf(fminf(a[2], b[2]) - fmaxf(a[0], b[0]), 0);
    float width = fmaxf(fminf(a[3], b[3]) - fmaxf(a[1], b[1]), 0);
    float both = height * width, either = area_a + area_b - both;
    if ((p->iou >= 0 && both <= 0) || area_a <= 0 || area_b <= 0 || either <= 0)
        return false;
    return both / either > p->iou;
}

static const float *compared_scores;

static int best_first(const void *x, const void *y)
{
    int i = *(const int *)x, j = *(const int *)y;
    if (compared_scores[i] != compared_scores[j])
        return compared_scores[i] > compared_scores[j] ? -1 : 1;
    return i - j;
}

/* Each candidate against all that were kept before it. */
static int select_plainly(const problem *p, int batch, int class, int *kept)
{
    static int order[MOST_BOXES];
    int n = 0, n_kept = 0;
    compared_scores = &p->scores[(batch * p->n_classes + class) * p->n];
    for (int i = 0; i < p->n; i++)
        if (compared_scores[i] > p->least_score)
            order[n++] = i;
    qsort(order, (size_t)n, sizeof *order, best_first);
    for (int i = 0; i < n && n_kept < p->most; i++) {
        bool is_hidden = false;
        for (int k = 0; k < n_kept && !is_hidden; k++)
            is_hidden = hides(p, batch * p->n + order[i], batch * p->n + kept[k]);
        if (!is_hidden)
            kept[n_kept++] = order[i];
    }
    return n_kept;
}

static cm_datum dense(cm_dtype dtype, int rank, const int64_t *dims, void *data)
{
    cm_datum d = {.kind = CM_TENSOR};
    assert_true(cm_tensor_shape(&d.tensor, dtype, rank, dims));
    assert_true(cm_tensor_bytes(&d.tensor, &d.tensor.capacity_bytes));
    d.tensor.data = data;
    return d;
}

static cm_tensor select_by_operator(problem *p)
{
    int64_t most = p->most;
    cm_datum d[] = {dense(CM_F32, 3, (int64_t[]){p->n_batches, p->n, 4}, p->boxes),
                    dense(CM_F32, 3, (int64_t[]){p->n_batches, p->n_classes, p->n}, p->scores),
                    dense(CM_I64, 0, NULL, &most), dense(CM_F32, 0, NULL, &p->iou),
                    dense(CM_F32, 0, NULL, &p->least_score)};
    const cm_datum *in[] = {&d[0], &d[1], &d[2], &d[3], &d[4]};
    cm_datum result = {0}, *out = &result;
    cm_eval_host host = {op_text_alloc, NULL};
    const cm_op *op = cm_op_find("NonMaxSuppression");
    cm_eval e = {.cx = &op_text_cx, .op = op, .in = in, .n_in = 5, .n_out = 1, .out = &out};
    e.host = &host;
    e.attr = op_text_attrs(op, p->by_center ? "center_point_box=1" : "");
    assert_int_equal(cm_op_eval(&e), CM_OK);
    return result.tensor;
}

static void check_problem(problem *p)
{
    static int kept[MOST_BOXES];
    cm_tensor t = select_by_operator(p);
    const int64_t *row = t.data, *end = row + cm_tensor_elems(&t);
    for (int b = 0; b < p->n_batches; b++)
        for (int c = 0; c < p->n_classes; c++) {
            int n = select_plainly(p, b, c, kept);
            for (int k = 0; k < n; k++, row += 3) {
                assert_true(row < end);
                assert_int_equal(row[0], b);
                assert_int_equal(row[1], c);
                assert_int_equal(row[2], kept[k]);
            }
        }
    assert_ptr_equal(row, end);
}

static void test_boxes_of_all_kinds(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 15, 17, 63, 64, 65, 100, 128, 200, 333, 500};
    enum { N_SIZES = sizeof sizes / sizeof *sizes, EACH = 4 };
    static problem p;
    seed = 1;
    for (size_t i = 0; i < sizeof placers / sizeof *placers; i++)
        for (int k = 0; k < EACH * N_SIZES + 1; k++) {
            op_text_reset();
            write_problem(&p, k < EACH * N_SIZES ? sizes[k / EACH] : MOST_BOXES, placers[i]);
            check_problem(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_shapes),
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
        OP_TEXT_TEST(test_boxes_of_all_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
