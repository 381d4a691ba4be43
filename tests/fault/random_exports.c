/* random_exports.c -- random networks written as ONNX and read again answer as before; optimised ones too,
 * whose programs become plain nodes on the way.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "api/verify.h"
#include "fault/random_steps.h"
#include "onnx/export.h"
#include "onnx/onnx.h"

enum { NETWORKS = 1500 };

typedef struct {
    cm_arena arena, scratch;
    cm_ctx cx;
} job;

static void job_init(job *j)
{
    memset(j, 0, sizeof *j);
    cm_arena_init(&j->arena, NULL);
    cm_arena_init(&j->scratch, NULL);
    j->cx.arena = &j->arena;
    j->cx.scratch = &j->scratch;
}

static void job_deinit(job *j)
{
    cm_arena_deinit(&j->scratch);
    cm_arena_deinit(&j->arena);
}

/* Data for every input of g; symbols are 2. */
static cm_datum *inputs_of(job *j, const cm_network *g, uint64_t seed)
{
    cm_datum *in = cm_new_n(&j->arena, g->n_inputs + 1, cm_datum);
    for (int i = 0; i < g->n_inputs; i++) {
        const cm_type *t = &g->inputs[i]->type;
        int64_t dims[CM_MAX_RANK];
        for (int a = 0; a < t->rank; a++)
            dims[a] = cm_dim_is_size(t->dims[a]) ? t->dims[a] : 2;
        in[i].kind = CM_TENSOR;
        assert_true(cm_tensor_shape(&in[i].tensor, t->dtype, t->rank, dims));
        int64_t n = cm_tensor_elems(&in[i].tensor);
        in[i].tensor.data =
            cm_arena_alloc_n(&j->arena, (size_t)n + 1, cm_dtype_size(t->dtype), 64, 1);
        uint64_t state = seed + (uint64_t)i;
        for (int64_t k = 0; k < n; k++) {
            uint64_t bits = draw_bits(&state);
            if (cm_dtype_is_float(t->dtype))
                cm_set_f64(t->dtype, in[i].tensor.data, k, (double)(bits >> 40) / (1 << 23) - 1);
            else
                cm_set_i64(t->dtype, in[i].tensor.data, k, (int64_t)(bits >> 63));
        }
    }
    return in;
}

#define OK(expr)                                                                                   \
    do {                                                                                           \
        if ((expr) != CM_OK)                                                                       \
            fail_msg("seed %llu: %s", (unsigned long long)seed, j->cx.message);                    \
    } while (0)

/* What g answers, and what it does after a way through ONNX. False: it cannot be told. */
static bool round_trip(job *j, uint64_t seed, cm_network *g, double tolerance)
{
    cm_answers before, found;
    cm_difference d;
    cm_network *again;
    cm_buf b;
    const cm_datum *in = inputs_of(j, g, seed);
    if (cm_answer(&j->cx, g, in, 1, &j->arena, &before) != CM_OK)
        return false; /* sizes that do not fit: it runs neither way */
    tolerance = cm_tolerance_for(g, tolerance);
    cm_buf_init(&b, NULL);
    cm_status st = cm_onnx_export(&j->cx, g, &b);
    if (st == CM_ERR_UNSUPPORTED) {
        cm_buf_deinit(&b);
        return false;
    }
    OK(st);
    OK(cm_onnx_import(&j->cx, &j->arena, b.data, b.n, NULL, &again));
    OK(cm_network_verify(&j->cx, again));
    OK(cm_answer(&j->cx, again, in, 1, &j->arena, &found));
    assert_int_equal(found.n, before.n);
    cm_answers_compare(&found, &before, &d);
    if (d.distance > tolerance)
        fail_msg("seed %llu: output '%s': %s", (unsigned long long)seed, d.output, d.what);
    for (int o = 0; o < before.n; o++)
        assert_string_equal(found.name[o], before.name[o]);
    cm_buf_deinit(&b);
    return true;
}

static void plain_networks_survive_onnx(void **state)
{
    int n = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= NETWORKS; seed++) {
        job j;
        job_init(&j);
        n += round_trip(&j, seed, random_network(&j.cx, &j.arena, seed), 0);
        job_deinit(&j);
    }
    assert_true(n > NETWORKS * 8 / 10);
}

static void optimised_networks_survive_onnx(void **state)
{
    static const cm_optimise_options o = CM_OPTIMISE_DEFAULT;
    int n = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= NETWORKS; seed++) {
        job j;
        job_init(&j);
        cm_network *g = random_network(&j.cx, &j.arena, seed);
        if (cm_optimise(&j.cx, g, &o, NULL, NULL) == CM_OK)
            n += round_trip(&j, seed, g, 1e-3);
        job_deinit(&j);
    }
    assert_true(n > NETWORKS * 7 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_networks_survive_onnx),
        cmocka_unit_test(optimised_networks_survive_onnx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
