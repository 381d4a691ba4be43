/* joined.c -- products whose kernel normalises their rows too: a device's context gives what one of the CPU gives.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What lies between the two is rounded on the CPU and not in the kernel: half a step of 16 bits, 2^-11 (2^-8), of numbers up to 8, which a row's
 * deviation, 1 or more, divides; and the result's own half step. */
#include "cuda/gpu.h"
#include "op/networks.h"

/* hurt: one row in so many has a NaN or an infinity, 0: none. */
static void set_inputs(fixture *f, int hurt, uint32_t seed)
{
    for (int i = 0; i < cm_engine_n_inputs(f->e); i++) {
        const cm_type *t = cm_engine_input_type(f->e, i);
        cm_datum d = {.kind = CM_TENSOR};
        assert_true(cm_tensor_shape(&d.tensor, t->dtype, t->rank, t->dims));
        int64_t cols = t->dims[t->rank - 1];
        d.tensor.data = cm_arena_alloc_n(&f->arena, op_bytes(&d.tensor), 1, 64, 0);
        assert_non_null(d.tensor.data);
        for (int64_t k = 0; k < cm_tensor_elems(&d.tensor); k++)
            cm_set_f64(t->dtype, d.tensor.data, k, op_unit(&seed) * 4 - 1);
        for (int64_t k = cols / 2; hurt && k < cm_tensor_elems(&d.tensor); k += hurt * cols)
            cm_set_f64(t->dtype, d.tensor.data, k, k % 2 ? NAN : INFINITY);
        for (int k = 0; k < 2 && f->c[k]; k++)
            assert_int_equal(cm_context_set_input(&f->cx, f->c[k], i, &d), CM_OK);
    }
}

static void compare(const fixture *f, double tolerance)
{
    for (int o = 0; o < cm_engine_n_outputs(f->e); o++) {
        const cm_tensor *a = &cm_context_output(f->c[0], o)->tensor;
        const cm_tensor *b = &cm_context_output(f->c[1], o)->tensor;
        assert_true(a->dtype == b->dtype && cm_tensor_same_shape(a, b));
        for (int64_t i = 0; i < cm_tensor_elems(a); i++) {
            double x = cm_get_f64(a->dtype, a->data, i), y = cm_get_f64(b->dtype, b->data, i);
            if (isnan(x) ? !isnan(y) : !(fabs(x - y) <= tolerance * (1 + fabs(x))))
                fail_msg("output %d element %lld is %.9g, wanted %.9g", o, (long long)i, y, x);
        }
    }
}

static int joined_steps(const fixture *f)
{
    int n = 0;
    for (int i = 0; i < f->e->n_steps; i++)
        n += f->c[1]->solutions[i].joined;
    return n;
}

/* Blocks that wait for each other want a GPU that has room for many. */
static bool is_large(const fixture *f)
{
    enum { LARGE = 64 };
    cm_gpu_facts facts;
    cm_gpu_facts_of(&f->c[1]->device->target, &facts);
    return facts.multiprocessors >= LARGE;
}

/* Twice with other data: what blocks told each other is gone. joined: how many steps are, of a large GPU; -1: as it may be. */
static void check(const char *text, int joined, int hurt, double tolerance)
{
    fixture f;
    open_network(&f, text);
    for (uint32_t run = 0; run < 2 && f.c[1]; run++) {
        set_inputs(&f, hurt, run + 1);
        for (int k = 0; k < 2; k++)
            if (cm_context_run(&f.cx, f.c[k]) != CM_OK)
                fail_msg("%s", f.cx.message);
        compare(&f, tolerance);
    }
    if (f.c[1] && joined >= 0 && is_large(&f) && joined_steps(&f) != joined)
        fail_msg("%d steps are joined, wanted %d:\n%s", joined_steps(&f), joined, text);
    close_network(&f);
}

/* A product with all that may follow it; rows of so many columns, by one to eight blocks. */
static void layer(const char *type, int m, int n, int k, const char *bias, double tolerance)
{
    char text[600];
    snprintf(text, sizeof text,
             "a: %s[%d,%d]\n@w = %s[%d,%d] random 1\n@o = %s[%d] random 2\nr: %s[%d,%d]\n"
             "@g = %s[%d] random 3\n@b = %s[%d] random 4\n"
             "s = MatMul(a, @w | @o, r) then \"add x $0; add %%0 $1\"\n"
             "y = LayerNormalization(s, @g%s) {epsilon=1e-5}\nreturn y\n",
             type, m, k, type, k, n, type, n, type, m, n, type, n, type, n, bias);
    check(text, -1, 0, tolerance);
}

static void rows_of_several_blocks(void **state)
{
    (void)state;
    static const int widths[] = {128, 192, 256, 384, 512, 768, 1024};
    for (int i = 0; i < CM_COUNT(widths); i += getenv("FAKE_CUDA_RUN") ? 3 : 1)
        layer("f16", 300 + 37 * i, widths[i], 72 + 64 * (i % 3), ", @b", 6e-3);
    layer("bf16", 333, 192, 136, ", @b", 5e-2);
    layer("f16", 333, 768, 72, "", 6e-3);
}

/* On a real GPU several tiles for every block, so that what was told of earlier tiles stands beside that of later ones. */
static void two_layers(int hurt)
{
    char text[600];
    int m = getenv("FAKE_CUDA_RUN") ? 200 : 9001;
    snprintf(text, sizeof text,
             "a: f16[%d,72]\n@w = f16[72,384] random 1\n@o = f16[384] random 2\nr: f16[%d,384]\n"
             "@g = f16[384] random 3\n@b = f16[384] random 4\n@v = f16[384,384] random 5\n"
             "s = MatMul(a, @w | @o, r) then \"add x $0; add %%0 $1\"\n"
             "h = LayerNormalization(s, @g, @b) {epsilon=1e-5}\n"
             "t = MatMul(h, @v | h) then \"add x $0\"\n"
             "y = LayerNormalization(t, @g, @b) {epsilon=1e-5}\nreturn y\n",
             m, m);
    check(text, 2, hurt, 3e-2);
}

static void layers_one_behind_the_other(void **state)
{
    (void)state;
    two_layers(0);
}

static void rows_that_are_not_finite(void **state)
{
    (void)state;
    two_layers(7);
}

/* Somebody else reads what lies between, or wants it: it is written as well. */
static void sums_that_others_read(void **state)
{
    (void)state;
    check("a: f16[300,72]\n@w = f16[72,384] random 1\nr: f16[300,384]\n@g = f16[384] random 3\n"
          "s = MatMul(a, @w | r) then \"add x $0\"\nh = LayerNormalization(s, @g)\n"
          "t = Add(h, s)\ny = Mul(t, h)\nreturn y\n",
          1, 0, 6e-2);
    check("a: f16[333,72]\n@w = f16[72,192] random 1\n@g = f16[192] random 3\n"
          "s = MatMul(a, @w)\nh = LayerNormalization(s, @g)\nreturn h, s\n",
          1, 0, 6e-3);
}

static void rows_by_their_mean_square(void **state)
{
    (void)state;
    check("a: f16[200,72]\n@w = f16[72,384] random 1\nr: f16[200,384]\n@g = f16[384] random 3\n"
          "s = MatMul(a, @w | r) then \"add x $0\"\nh = RMSNormalization(s, @g)\n"
          "y = Add(h, s)\nreturn y\n",
          1, 0, 6e-3);
}

/* What is normalised is not all that there is of a row, or comes from two places. */
static void steps_that_stay_apart(void **state)
{
    (void)state;
    check("a: f16[300,72]\n@w = f16[72,768] random 1\n@g = f16[4,192] random 3\n@z = i64[3] "
          "{300, 4, 192}\n"
          "s = MatMul(a, @w)\nt = Reshape(s, @z)\nh = LayerNormalization(t, @g) {axis=1}\n"
          "return h\n",
          0, 0, 6e-3);
    check("a: f16[300,72]\n@w = f16[72,768] random 1\n@g = f16[768] random 3\n"
          "s = MatMul(a, @w)\nh = LayerNormalization(s, s)\nreturn h\n",
          0, 0, 6e-2);
}

int main(void)
{
    if (getenv("FAKE_CUDA_RUN"))
        setenv("FAKE_CUDA_MULTIPROCESSORS", "132", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_several_blocks),    cmocka_unit_test(layers_one_behind_the_other),
        cmocka_unit_test(rows_that_are_not_finite),  cmocka_unit_test(sums_that_others_read),
        cmocka_unit_test(rows_by_their_mean_square), cmocka_unit_test(steps_that_stay_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
