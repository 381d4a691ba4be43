/* winograd.c -- how exact Winograd convolutions are: the numbers of docs/numerics.md.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/conv.h"

enum { SIDE = 20, C_IN = 256, C_OUT = 8 };

typedef struct data {
    float x[SIDE * SIDE * C_IN], w[C_OUT * C_IN * 9];
    float y[SIDE * SIDE * C_OUT];
    double want[SIDE * SIDE * C_OUT];
    char way[64]; /* how y was made */
} data;

static uint32_t seed = 1;
static double uniform(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) / 16777216.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform() + 1e-9)) * cos(6.283185307179586 * uniform());
}

/* Numbers without any order. */
static void fill_random(data *d)
{
    for (int i = 0; i < SIDE * SIDE * C_IN; i++)
        d->x[i] = (float)normal();
    for (int i = 0; i < C_OUT * C_IN * 9; i++)
        d->w[i] = (float)normal();
}

/* What trained networks are like: no activation below zero, channels of very different sizes, neighbours
 * alike; few large weights among small ones. */
static void fill_trained(data *d)
{
    for (int c = 0; c < C_IN; c++) {
        double size = exp(normal()), last = normal();
        for (int i = 0; i < SIDE * SIDE; i++) {
            last = 0.7 * last + 0.7 * normal();
            d->x[i * C_IN + c] = (float)(last > 0 ? last * size : 0);
        }
    }
    for (int i = 0; i < C_OUT * C_IN * 9; i++) {
        double v = normal();
        d->w[i] = (float)(v * v * v * 0.05);
    }
}

/* Channels of all sizes, each one's weights as small as its inputs are large: the worst case for products by pairs. */
static void fill_opposed(data *d)
{
    fill_random(d);
    for (int c = 0; c < C_IN; c++) {
        double size = exp(normal());
        for (int i = 0; i < SIDE * SIDE; i++)
            d->x[i * C_IN + c] = (float)(fmax(d->x[i * C_IN + c], 0) * size);
        for (int i = 0; i < C_OUT * 9; i++)
            d->w[(i / 9 * C_IN + c) * 9 + i % 9] /= (float)size;
    }
}

static void reference(data *d)
{
    memset(d->want, 0, sizeof d->want);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            for (int tap = 0; tap < 9; tap++) {
                int iy = y + tap / 3 - 1, ix = x + tap % 3 - 1;
                if (iy < 0 || iy >= SIDE || ix < 0 || ix >= SIDE)
                    continue;
                for (int c = 0; c < C_IN; c++)
                    for (int o = 0; o < C_OUT; o++)
                        d->want[(y * SIDE + x) * C_OUT + o] +=
                            (double)d->x[(iy * SIDE + ix) * C_IN + c] *
                            d->w[(o * C_IN + c) * 9 + tap];
            }
}

static void channels_last(cm_tensor *t, int64_t c)
{
    int64_t dims[4] = {1, c, SIDE, SIDE};
    assert_true(cm_tensor_shape(t, CM_F32, 4, dims));
    t->strides[0] = SIDE * SIDE * c;
    t->strides[1] = 1;
    t->strides[2] = SIDE * c;
    t->strides[3] = c;
}

/* With setting `way` of the tactic's knobs; false: it has fewer. raw: whether weights are transformed while running. */
static bool run(const cm_tactic *t, int level, bool raw, int way, data *d)
{
    cm_tensor x = {0}, w = {0}, y = {0};
    int64_t dims[4] = {C_OUT, C_IN, 3, 3};
    channels_last(&x, C_IN);
    channels_last(&y, C_OUT);
    assert_true(cm_tensor_shape(&w, CM_F32, 4, dims));
    const cm_tensor *in[] = {&x, &w}, *out[] = {&y};
    const bool constant[] = {false, true};
    cm_problem p = {.kind = CM_PROBLEM_CONV,
                    .n_in = 2,
                    .in = in,
                    .constant = constant,
                    .n_out = 1,
                    .out = out,
                    .target = {CM_DEVICE_CPU, level, 0},
                    .threads = 1,
                    .lean = raw};
    p.as.conv = (cm_conv){.axes = 2,
                          .n = 1,
                          .groups = 1,
                          .c_in = C_IN,
                          .c_out = C_OUT,
                          .in = {1, SIDE, SIDE},
                          .out = {1, SIDE, SIDE},
                          .kernel = {1, 3, 3},
                          .stride = {1, 1, 1},
                          .dilation = {1, 1, 1},
                          .pad = {0, 1, 1}};
    assert_null(t->reject(&p));
    cm_knobs all[CM_MAX_KNOBS], *k = &all[way];
    int n = t->knobs(&p, all);
    assert_true(n > 0);
    if (way >= n)
        return false;
    snprintf(d->way, sizeof d->way, "knobs %d %d %d %d %d", k->v[0], k->v[1], k->v[2], k->v[3],
             k->v[4]);
    void *packed = aligned_alloc(64, (t->pack_bytes(&p, k, 1) + 63) / 64 * 64);
    void *work = aligned_alloc(64, (t->workspace(&p, k) + 63) / 64 * 64);
    t->pack(&p, k, 1, d->w, packed, NULL);
    const void *inputs[] = {d->x, packed};
    void *outputs[] = {d->y};
    cm_ctx cx = {0};
    cm_run r = {&cx, &p, k, inputs, outputs, NULL, work, NULL};
    assert_int_equal(t->run(&r), CM_OK);
    if (raw) /* a panel has at most 63 channels too many */
        assert_true(t->pack_bytes(&p, k, 1) <= (C_OUT + 63) * C_IN * 9 * sizeof(float));
    free(packed);
    free(work);
    return true;
}

/* The largest error over the largest magnitude, and the root of the mean squares over that of the
 * results. */
static void errors(const data *d, double *most, double *typical)
{
    double scale = 0, error = 0, squares = 0, results = 0;
    for (int i = 0; i < SIDE * SIDE * C_OUT; i++) {
        double e = fabs(d->y[i] - d->want[i]);
        scale = fmax(scale, fabs(d->want[i]));
        error = fmax(error, e);
        squares += e * e;
        results += d->want[i] * d->want[i];
    }
    *most = error / scale;
    *typical = sqrt(squares / results);
}

typedef struct bound {
    const char *name;
    double most, typical;
} bound;

static const bound bounds[] = {
    {"conv_winograd_f2", 2e-6, 1e-6},
    {"conv_winograd_f4", 1e-5, 4e-6},
    {"conv_winograd_f6", 5e-5, 1.5e-5},
};

static void check_bounds(const cm_tactic *t, const bound *within, int level, const char *way,
                         const data *d)
{
    double most, typical;
    errors(d, &most, &typical);
    if (getenv("CAMEO_SHOW"))
        print_message("%s level %d, %s: most %.1e, typical %.1e\n", t->name, level, way, most,
                      typical);
    assert_true(most < within->most);
    assert_true(typical < within->typical);
}

static const cm_tactic *tactic_of(const char *name)
{
    for (int i = 0; i < cm_cpu_conv.n; i++)
        if (strcmp(cm_cpu_conv.rows[i].name, name) == 0)
            return &cm_cpu_conv.rows[i];
    fail_msg("no %s", name);
    return NULL;
}

/* promise: what is promised of any float32 answer, in place of what each form is held to. */
static void check_errors(void (*fill)(data *d), const bound *promise)
{
    data *d = malloc(sizeof *d);
    fill(d);
    reference(d);
    for (int b = 0; b < CM_COUNT(bounds); b++) {
        const cm_tactic *t = tactic_of(bounds[b].name);
        for (int level = 0; level <= (int)cm_cpu_info()->isa; level++) {
            for (int way = 0; run(t, level, false, way, d); way++)
                check_bounds(t, promise ? promise : &bounds[b], level, d->way, d);
            run(t, level, true, 0, d);
            check_bounds(t, promise ? promise : &bounds[b], level, "lean", d);
        }
    }
    free(d);
}

static void random_data(void **state)
{
    (void)state;
    check_errors(fill_random, NULL);
}

static void trained_data(void **state)
{
    (void)state;
    check_errors(fill_trained, NULL);
}

static void opposed_data(void **state)
{
    (void)state;
    static const bound promise = {.most = 1e-4, .typical = 1e-5};
    check_errors(fill_opposed, &promise);
}

static void check_near(const data *d, int at, int m)
{
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            bool near = abs(y - at) <= 1 && abs(x - at) <= 1;
            bool tile = y / m >= (at - 1) / m && y / m <= (at + 1) / m && x / m >= (at - 1) / m &&
                        x / m <= (at + 1) / m;
            if (near)
                assert_true(isnan(d->y[(y * SIDE + x) * C_OUT]));
            else if (!tile)
                assert_true(isfinite(d->y[(y * SIDE + x) * C_OUT]));
        }
}

/* A NaN reaches every output that depends on it, and none beyond the tiles that hold those. */
static void nan_stays_near(void **state)
{
    (void)state;
    data *d = calloc(1, sizeof *d);
    fill_random(d);
    const int at = 9;
    d->x[(at * SIDE + at) * C_IN + 3] = NAN;
    for (int b = 0; b < CM_COUNT(bounds); b++) {
        const cm_tactic *t = tactic_of(bounds[b].name);
        for (int way = 0; run(t, (int)cm_cpu_info()->isa, false, way, d); way++)
            check_near(d, at, t->name[strlen(t->name) - 1] - '0');
    }
    free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_data),
        cmocka_unit_test(opposed_data),
        cmocka_unit_test(trained_data),
        cmocka_unit_test(nan_stays_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
