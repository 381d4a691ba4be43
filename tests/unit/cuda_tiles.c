/* cuda_tiles.c -- how products are cut and walked on GPUs, as far as the host decides it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/conv.h"
#include "cuda/ranking.h"
#include "cuda/tactics.h"
#include "cuda/wgmma.h"

static void the_cheapest_are_kept_in_order(void **state)
{
    (void)state;
    static const double costs[] = {5, 3, 9, 3, 7, 1, 8};
    static const int wanted[] = {5, 1, 3, 0}; /* of equals the first comes first */
    cm_knobs out[CM_COUNT(wanted)];
    cm_ranking none = {.most = 0}, r = {.most = CM_COUNT(wanted), .out = out};
    for (int i = 0; i < CM_COUNT(costs); i++) {
        cm_rank(&r, &(cm_knobs){{i}}, costs[i]);
        cm_rank(&none, &(cm_knobs){{i}}, costs[i]);
        cm_rank(&r, &(cm_knobs){{5}}, 1); /* stands there once, however often it comes */
    }
    assert_int_equal(none.n, 0);
    assert_int_equal(r.n, CM_COUNT(wanted));
    for (int i = 0; i < r.n; i++)
        assert_int_equal(out[i].v[0], wanted[i]);
}

static void tilings_fit_every_class(void **state)
{
    (void)state;
    static const int levels[] = {750, 800, 860, 900, 1000};
    static const int64_t sizes[][3] = {
        {1, 8, 8}, {128, 768, 768}, {4096, 4096, 4096}, {49, 512, 4608}};
    cm_knobs knobs[CM_MAX_KNOBS];
    for (int l = 0; l < CM_COUNT(levels); l++) {
        for (int s = 0; s < CM_COUNT(sizes); s++) {
            for (int a = CM_ARITHMETIC_HALF; a <= CM_ARITHMETIC_FLOAT; a++) {
                cm_gpu_facts g;
                const cm_target target = {CM_DEVICE_CUDA, levels[l], 0};
                cm_gpu_facts_of(&target, &g);
                cm_extent e = {(cm_arithmetic)a,
                               sizes[s][0],
                               sizes[s][1],
                               sizes[s][2],
                               1,
                               a == CM_ARITHMETIC_HALF ? 2 : 4,
                               1e6,
                               1};
                int n = cm_tiling_choose(&g, &e, knobs);
                assert_in_range(n, 1, CM_MAX_KNOBS);
                double before = 0;
                for (int i = 0; i < n; i++) {
                    cm_tiling t = cm_tiling_of_knobs(&knobs[i]);
                    double ns = cm_tiling_cost(&g, &t, &e);
                    assert_true(cm_tiling_shared(&g, &t) <= (size_t)g.shared_bytes);
                    assert_true(ns > 0 && ns >= before); /* best first */
                    before = ns;
                }
            }
        }
    }
}

static void settings_of_warp_groups_fit(void **state)
{
    (void)state;
    cm_gpu_facts g;
    const cm_target target = {CM_DEVICE_CUDA, 900, 0};
    cm_knobs knobs[CM_MAX_KNOBS];
    cm_gpu_facts_of(&target, &g);
    cm_extent e = {CM_ARITHMETIC_HALF, 4096, 4096, 4096, 1, 2, 1e8, 1};
    int n = cm_wgmma_choose(&g, &e, false, knobs);
    static const cm_whole outs[] = {{.matrix = -1}, {true, 2, 2, -1, 64}, {true, 4, 2, 0, 128}};
    for (int i = 0; i < n * CM_COUNT(outs); i++) {
        cm_wgmma w = cm_wgmma_of_knobs(&knobs[i / CM_COUNT(outs)]);
        cm_wgmma_room room = cm_wgmma_room_of(&g, &w, i % 2, &outs[i % CM_COUNT(outs)]);
        /* A multiprocessor has 1 KiB more for each block than blocks can ask for. */
        assert_true((room.bytes + 1024) * (size_t)w.per_multiprocessor <=
                    (size_t)g.shared_bytes + 1024);
        assert_true(room.stages >= 2);
        assert_int_equal(cm_wgmma_blocks(&g, &w, &e) % w.together, 0);
    }
}

/* Heads beside one another: [batch, place, head, of head], a product for each batch and head. */
static void axes_of_a_product_that_is_not_dense(void **state)
{
    (void)state;
    cm_tensor out;
    cm_result_axes axes;
    assert_true(cm_tensor_shape(&out, CM_F16, 4, (int64_t[]){2, 12, 128, 64}));
    out.strides[0] = 128 * 768;
    out.strides[1] = 64;
    out.strides[2] = 768;
    cm_matmul s = {.m = 128,
                   .n = 64,
                   .k = 32,
                   .n_batch = 2,
                   .batch = {2, 12},
                   .c = {.row = 768, .col = 1, .batch = {128 * 768, 64}}};
    assert_true(cm_result_of_matmul(&out, &s, &axes));
    assert_int_equal(axes.z.n, 2);
    assert_int_equal(axes.z.axis[0], 0);
    assert_int_equal(axes.z.axis[1], 1);
    assert_int_equal(axes.row.n, 1);
    assert_int_equal(axes.row.axis[0], 2);
    assert_int_equal(axes.col.axis[0], 3);
    s.m = 64; /* not the output's */
    assert_false(cm_result_of_matmul(&out, &s, &axes));
}

static void axes_go_on_from_each_other(void **state)
{
    (void)state;
    cm_axes a = {0};
    assert_true(cm_axes_push(&a, 2, 60));
    assert_true(cm_axes_push(&a, 3, 20));
    assert_int_equal(a.n, 1);
    assert_int_equal(a.dim[0], 6);
    assert_int_equal(a.stride[0], 20);
    assert_true(cm_axes_push(&a, 1, 7)); /* one element goes nowhere */
    assert_true(cm_axes_push(&a, 4, 0));
    assert_int_equal(a.n, 2);
    assert_true(cm_axes_push(&a, 4, 1));
    assert_true(cm_axes_push(&a, 4, 3));
    assert_false(cm_axes_push(&a, 4, 5));
}

static void weights_have_k_innermost_in_whole_chunks(void **state)
{
    (void)state;
    cm_tensor x, w, y;
    const cm_tensor *in[2] = {&x, &w}, *out[1] = {&y};
    const bool constant[2] = {false, true};
    uint16_t from[2 * 3 * 2], to[2 * 8];
    assert_true(cm_tensor_shape(&x, CM_F16, 4, (int64_t[]){1, 3, 1, 4}));
    assert_true(cm_tensor_shape(&w, CM_F16, 4, (int64_t[]){2, 3, 1, 2}));
    assert_true(cm_tensor_shape(&y, CM_F16, 4, (int64_t[]){1, 2, 1, 3}));
    for (int i = 0; i < CM_COUNT(from); i++)
        from[i] = (uint16_t)(i + 1);
    cm_problem p = {.kind = CM_PROBLEM_CONV,
                    .n_in = 2,
                    .in = in,
                    .constant = constant,
                    .n_out = 1,
                    .out = out,
                    .target = {CM_DEVICE_CUDA, 800, 0}};
    p.as.conv = (cm_conv){.axes = 2,
                          .n = 1,
                          .groups = 1,
                          .c_in = 3,
                          .c_out = 2,
                          .in = {1, 1, 4},
                          .out = {1, 1, 3},
                          .kernel = {1, 1, 2},
                          .stride = {1, 1, 1},
                          .dilation = {1, 1, 1}};
    assert_null(cm_cuda_conv_reject(&p));
    assert_int_equal(cm_gpu_conv_pack_bytes(&p, NULL, 1), sizeof to);
    cm_gpu_conv_pack(&p, NULL, 1, from, to, NULL);
    static const uint16_t wanted[] = {1, 3, 5, 2, 4, 6, 0, 0, 7, 9, 11, 8, 10, 12, 0, 0};
    assert_memory_equal(to, wanted, sizeof to);
}

typedef struct {
    cm_tensor x, w, y;
    const cm_tensor *in[2], *out[1];
    bool constant[2];
    cm_problem p;
} layer;

static void channels_innermost(cm_tensor *t)
{
    t->strides[1] = 1;
    t->strides[3] = t->dims[1];
    t->strides[2] = t->dims[1] * t->dims[3];
    t->strides[0] = t->strides[2] * t->dims[2];
}

/* Eight square images under a kernel of 3x3, for sm_90. */
static void make_layer(layer *l, int64_t c_in, int64_t c_out, int64_t groups, int64_t size,
                       int64_t stride)
{
    int64_t to = (size - 1) / stride + 1;
    assert_true(cm_tensor_shape(&l->x, CM_F16, 4, (int64_t[]){8, c_in, size, size}));
    assert_true(cm_tensor_shape(&l->w, CM_F16, 4, (int64_t[]){c_out, c_in / groups, 3, 3}));
    assert_true(cm_tensor_shape(&l->y, CM_F16, 4, (int64_t[]){8, c_out, to, to}));
    channels_innermost(&l->x);
    channels_innermost(&l->y);
    l->in[0] = &l->x;
    l->in[1] = &l->w;
    l->out[0] = &l->y;
    l->constant[0] = false;
    l->constant[1] = true;
    l->p = (cm_problem){.kind = CM_PROBLEM_CONV,
                        .n_in = 2,
                        .in = l->in,
                        .constant = l->constant,
                        .n_out = 1,
                        .out = l->out,
                        .target = {CM_DEVICE_CUDA, 900, 0}};
    l->p.as.conv = (cm_conv){.axes = 2,
                             .n = 8,
                             .groups = groups,
                             .c_in = c_in,
                             .c_out = c_out,
                             .in = {1, size, size},
                             .out = {1, to, to},
                             .kernel = {1, 3, 3},
                             .stride = {1, stride, stride},
                             .dilation = {1, 1, 1},
                             .pad = {0, 1, 1}};
}

static const char *cheapest(const cm_problem *p)
{
    const char *name = NULL;
    double least = 0;
    for (int i = 0; i < cm_cuda_conv_count; i++) {
        const cm_tactic *t = &cm_cuda_conv_tactics[i];
        cm_knobs knobs[CM_MAX_KNOBS] = {0};
        int n = t->reject(p) ? 0 : t->knobs ? t->knobs(p, knobs) : 1;
        for (int k = 0; k < n; k++) {
            double ns = t->cost(p, &knobs[k]);
            if (name && ns >= least)
                continue;
            name = t->name;
            least = ns;
        }
    }
    return name;
}

/* What an H200 was measured to do fastest. */
static void few_channels_choose_as_measured(void **state)
{
    (void)state;
    static const struct {
        int c_in, c_out, groups, size, stride;
        const char *wanted;
    } layers[] = {
        {128, 128, 32, 56, 1, "conv_window"},  {256, 256, 32, 56, 2, "conv_window"},
        {512, 512, 32, 14, 1, "conv_window"},  {1024, 1024, 32, 14, 2, "conv_window"},
        {1024, 1024, 32, 7, 1, "conv_window"}, {24, 24, 1, 112, 1, "conv_window"},
        {24, 96, 1, 112, 2, "conv_wgmma"},     {48, 192, 1, 56, 2, "conv_bulk"},
        {58, 58, 58, 28, 1, "conv_depthwise"}, {64, 64, 1, 56, 1, "conv_bulk"},
    };
    layer l;
    for (int i = 0; i < CM_COUNT(layers); i++) {
        make_layer(&l, layers[i].c_in, layers[i].c_out, layers[i].groups, layers[i].size,
                   layers[i].stride);
        assert_string_equal(cheapest(&l.p), layers[i].wanted);
    }
}

static void settings_of_windows_differ(void **state)
{
    (void)state;
    static const int sizes[] = {1, 5, 7, 14, 112};
    layer l;
    for (int s = 0; s < CM_COUNT(sizes); s++) {
        cm_knobs knobs[CM_MAX_KNOBS];
        make_layer(&l, 256, 256, 32, sizes[s], 1);
        int n = cm_cuda_conv_window_knobs(&l.p, knobs);
        assert_in_range(n, 1, CM_MAX_KNOBS);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < i; k++)
                assert_memory_not_equal(&knobs[i], &knobs[k], sizeof knobs[i]);
    }
}

/* Kernels run into each other from sm_90 on; those of other libraries do not, and a tuner is told. */
static void other_libraries_stand_apart(void **state)
{
    (void)state;
    int apart = 0;
    for (int i = 0; i < cm_cuda_matmul_count; i++) {
        const cm_tactic *t = &cm_cuda_matmul_tactics[i];
        if (!t->apart_ns)
            continue;
        apart++;
        assert_string_equal(t->name, "matmul_cublaslt");
        assert_true(t->apart_ns(&(cm_problem){.target = {CM_DEVICE_CUDA, 900, 0}}) > 0);
        assert_true(t->apart_ns(&(cm_problem){.target = {CM_DEVICE_CUDA, 800, 0}}) == 0);
    }
    assert_int_equal(apart, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheapest_are_kept_in_order),
        cmocka_unit_test(tilings_fit_every_class),
        cmocka_unit_test(settings_of_warp_groups_fit),
        cmocka_unit_test(axes_of_a_product_that_is_not_dense),
        cmocka_unit_test(axes_go_on_from_each_other),
        cmocka_unit_test(weights_have_k_innermost_in_whole_chunks),
        cmocka_unit_test(few_channels_choose_as_measured),
        cmocka_unit_test(settings_of_windows_differ),
        cmocka_unit_test(other_libraries_stand_apart),
    };
    return cmocka_run_group_tests_name("cuda_tiles", tests, NULL, NULL);
}
