/* late.c -- networks whose sizes come with the data: a device's context gives what one of the CPU gives, run after run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/networks.h"

enum { MOST = 600 };

/* Input 0: so many of 100 elements are not 0. */
static void run(fixture *f, int filled, uint32_t seed)
{
    static float x[MOST];
    const cm_type *t = cm_engine_input_type(f->e, 0);
    cm_datum d = {.kind = CM_TENSOR};
    assert_true(cm_tensor_shape(&d.tensor, CM_F32, t->rank, t->dims));
    assert_true(cm_tensor_elems(&d.tensor) <= MOST);
    for (int i = 0; i < MOST; i++)
        x[i] = (int)(op_random(&seed) % 100) < filled ? (float)(op_random(&seed) % 64) - 31 : 0;
    d.tensor.data = x;
    for (int i = 0; i < 2 && f->c[i]; i++)
        if (cm_context_set_input(&f->cx, f->c[i], 0, &d) != CM_OK ||
            cm_context_run(&f->cx, f->c[i]) != CM_OK)
            fail_msg("%s", f->cx.message);
}

/* Exponentials of numbers to -63, squared: their relative error is twice 63 * 2^-24, and some. */
static void compare(const fixture *f)
{
    for (int o = 0; f->c[1] && o < cm_engine_n_outputs(f->e); o++) {
        const cm_tensor *a = &cm_context_output(f->c[0], o)->tensor;
        const cm_tensor *b = &cm_context_output(f->c[1], o)->tensor;
        assert_true(a->dtype == b->dtype && cm_tensor_same_shape(a, b));
        float largest = 0;
        for (int64_t i = 0; a->dtype == CM_F32 && i < cm_tensor_elems(a); i++)
            largest = fmaxf(largest, fabsf(((const float *)a->data)[i]));
        for (int64_t i = 0; i < cm_tensor_elems(a); i++) {
            if (a->dtype == CM_F32) {
                float x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
                assert_true(fabsf(x - y) <= 2e-5f * fabsf(x) + f->slack * largest);
            } else {
                assert_int_equal(((const int64_t *)a->data)[i], ((const int64_t *)b->data)[i]);
            }
        }
    }
}

/* Steps that ran on the GPU. */
static int away(const fixture *f)
{
    int n = 0;
    cm_layer_facts facts;
    for (int i = 0; f->c[1] && i < cm_engine_n_steps(f->e); i++) {
        cm_context_layer(f->c[1], i, &facts);
        n += facts.away;
    }
    return n;
}

/* So many steps run on the GPU the first time: at least, and at most. */
static void check_between(const char *text, int least, int most, float slack)
{
    static const int filled[] = {40, 40, 0, 100, 7, 40, 93};
    fixture f;
    open_network(&f, text);
    f.slack = slack;
    for (int i = 0; i < CM_COUNT(filled); i++) {
        run(&f, filled[i], 17 + (uint32_t)i / 2);
        compare(&f);
        if (f.c[1] && i == 0)
            assert_in_range(away(&f), least, most);
    }
    close_network(&f);
}

/* n_away -1: the data decide. */
static void check(const char *text, int n_away)
{
    check_between(text, n_away < 0 ? 0 : n_away, n_away < 0 ? INT_MAX : n_away, 0);
}

static void readers_of_what_was_counted(void **state)
{
    (void)state;
    check("x: f32[20,30]\np = NonZero(x)\nt = Transpose(p)\nv = GatherND(x, t)\ny = Relu(v)\n"
          "return y, p\n",
          4);
}

/* Late ones among late ones, and what the device had before. */
static void counted_again(void **state)
{
    (void)state;
    check(
        "x: f32[20,30]\n@z = f32[1] {0}\na = Softmax(x)\np = NonZero(x)\nt = Transpose(p)\n"
        "v = GatherND(a, t)\nw = GatherND(x, t)\nk = Greater(w, @z)\nc = Compress(v, k) {axis=0}\n"
        "s = Mul(c, c)\nreturn s, v\n",
        8);
}

/* Sizes that elements tell which the host has. */
static void sizes_from_shapes(void **state)
{
    (void)state;
    check("x: f32[20,30]\n@one = i64[1] {1}\n@two = i64[1] {2}\n@zero = i64[1] {0}\n"
          "@c = f32[1,1] {2.5}\np = NonZero(x)\ns = Shape(p)\ne = Expand(@c, s)\n"
          "n = Gather(s, @one) {axis=0}\nh = Div(n, @two)\nq = Cast(p) {to=1}\n"
          "m = Mul(e, q)\ny = Slice(m, @zero, h, @one)\nreturn y\n",
          5);
}

/* What the host makes goes up; a result nobody has downloaded is still one. */
static void made_by_the_host(void **state)
{
    (void)state;
    check("x: f32[600]\n@m = i64[2] {-1,1}\nu = Unique(x)\nv = Mul(u, u)\nw = Exp(u)\nr = "
          "Reshape(v, @m)\n"
          "y = ReduceSum(r)\nreturn y, w\n",
          4);
}

/* Branches read what the device has, what is late, and each other's. */
static void branches(void **state)
{
    (void)state;
    check(
        "x: f32[20,30]\n@z = f32[] {0}\n@i = f32[20,30] random 1\na = Softmax(x)\np = NonZero(x)\n"
        "m = ReduceSum(x) {keepdims=0}\nc = Greater(m, @z)\n"
        "y, q = If(c) do\n"
        "  b = Mul(a, @i)\n  t = Transpose(p)\n"
        "  e = If(c) do\n    f = Exp(b)\n    return f\n  end do\n    return b\n  end\n"
        "  g = Add(e, b)\n  r = ReduceMax(g)\n  return r, t\n"
        "end do\n  h = Neg(x)\n  k = ReduceMin(h)\n  return k, p\nend\n"
        "s = Mul(y, y)\nreturn s, q\n",
        -1);
}

/* Work that pays off in a body: what is carried, exchanged, stacked, captured, and a condition that hangs on it. */
static void loops(void **state)
{
    (void)state;
    check_between(
        "x: f32[20,30]\n@n = i64[] {3}\n@w = f32[30,4096] random 1\n@v = f32[4096,30] random 2\n"
        "@lim = f32[] {1e30}\n@small = f32[] {0.015625}\na = Softmax(x)\n"
        "p, q, r = Loop(@n, _, a, x) do\n"
        "  i: i64[]\n  go: bool[]\n  s: f32[20,30]\n  t: f32[20,30]\n"
        "  m = MatMul(s, @w)\n  e = Relu(m)\n  u = MatMul(e, @v)\n  k = Mul(u, @small)\n"
        "  z = ReduceMax(k) {keepdims=0}\n  on = Less(z, @lim)\n  both = Add(k, a)\n"
        "  return on, t, k, both\nend\ny = Add(p, q)\nreturn y, r\n",
        4, INT_MAX, 1e-5f);
}

/* Slices of what the device has, forwards and backwards, and branches inside a body. */
static void scans(void **state)
{
    (void)state;
    check_between(
        "x: f32[20,30]\n@w = f32[30,20000] random 1\n@v = f32[20000,30] random 2\n"
        "@z = f32[] {0}\n@small = f32[] {0.001}\n@rows = i64[1] {0}\na = Softmax(x)\n"
        "first = ReduceSum(a, @rows)\n"
        "f, ys = Scan(first, a, x) {num_scan_inputs=2, scan_input_directions=[0,1]} do\n"
        "  h: f32[1,30]\n  c: f32[30]\n  d: f32[30]\n"
        "  o = Add(h, c)\n  m = MatMul(o, @w)\n  u = MatMul(m, @v)\n"
        "  b = ReduceSum(d) {keepdims=0}\n  g = Greater(b, @z)\n"
        "  k = If(g) do\n    l = Mul(u, @small)\n    return l\n  end do\n    return o\n  end\n"
        "  return k, k\nend\n"
        "return f, ys\n",
        4, INT_MAX, 1e-5f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_of_what_was_counted),
        cmocka_unit_test(counted_again),
        cmocka_unit_test(sizes_from_shapes),
        cmocka_unit_test(made_by_the_host),
        cmocka_unit_test(branches),
        cmocka_unit_test(loops),
        cmocka_unit_test(scans),
    };
    return cmocka_run_group_tests_name("late", tests, NULL, NULL);
}
