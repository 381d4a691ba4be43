/* runtime.c -- engines and contexts: shapes, memory, outputs, control steps, threads, failures.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit/run_case.h"

#include <pthread.h>

#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)
#define DIMS(...)                                                                                  \
    (const int64_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static const char *const chain = "x: f32[n,2]\n"
                                 "y: f32[n,2]\n"
                                 "a = Add(x, y)\n"
                                 "b = Relu(a)\n"
                                 "c = Mul(b, x)\n"
                                 "d = Sub(c, a)\n"
                                 "return d, b as \"also\"\n";

static void a_network_runs_with_any_shape(void **state)
{
    run_case *t = *state;
    load(t, chain);
    const float x[6] = {1, -2, 3, -4, 5, -6}, y[6] = {1, 1, 1, 1, 1, 1};
    give(t, 0, CM_F32, 2, DIMS(3, 2), x);
    give(t, 1, CM_F32, 2, DIMS(3, 2), y);
    run(t);
    expect_f32(t, 0, 6, (const float[]){0, 1, 8, 3, 24, 5});
    expect_f32(t, 1, 6, (const float[]){2, 0, 4, 0, 6, 0});
    give(t, 0, CM_F32, 2, DIMS(1, 2), x);
    give(t, 1, CM_F32, 2, DIMS(1, 2), y);
    ok(t, cm_context_bind(&t->cx, t->context));
    int rank;
    int64_t dims[CM_MAX_RANK];
    assert_true(cm_context_output_shape(t->context, 0, &rank, dims));
    assert_int_equal(rank, 2);
    assert_int_equal(dims[0], 1);
    assert_true(cm_context_arena_bytes(t->context) > 0);
    run(t);
    expect_f32(t, 0, 2, (const float[]){0, 1});
    assert_string_equal(cm_engine_output_name(t->engine, 1), "also");
    assert_int_equal(cm_engine_find_input(t->engine, "y"), 1);
    assert_int_equal(cm_engine_find_output(t->engine, "z"), -1);
}

static void shapes_that_do_not_fit_are_named(void **state)
{
    run_case *t = *state;
    load(t, chain);
    const float x[8] = {0};
    give(t, 0, CM_F32, 2, DIMS(3, 2), x);
    assert_int_equal(CM_ERR_ARGUMENT, cm_context_run(&t->cx, t->context));
    assert_string_equal(t->cx.message, "input 'y' was not set");
    give(t, 1, CM_F32, 2, DIMS(4, 2), x);
    assert_int_equal(CM_ERR_ARGUMENT, cm_context_run(&t->cx, t->context));
    assert_string_equal(t->cx.message, "input 'y' axis 0: found 4, wanted 3, which is n");
    give(t, 1, CM_F32, 2, DIMS(3, 1), x);
    assert_int_equal(CM_ERR_ARGUMENT, cm_context_run(&t->cx, t->context));
    assert_string_equal(t->cx.message, "input 'y' axis 1: found 1, wanted 2");
    cm_datum d = tensor(CM_I64, 2, DIMS(1, 2), x);
    assert_int_equal(CM_ERR_ARGUMENT, cm_context_set_input(&t->cx, t->context, 1, &d));
    assert_string_equal(t->cx.message, "input 'y': found element type i64, wanted f32");
    d = tensor(CM_F32, 1, DIMS(2), x);
    assert_int_equal(CM_ERR_ARGUMENT, cm_context_set_input(&t->cx, t->context, 1, &d));
    assert_string_equal(t->cx.message, "input 'y': found rank 1, wanted 2");
    assert_null(cm_context_output(t->context, 0));
}

static void expressions_in_input_shapes_are_checked(void **state)
{
    run_case *t = *state;
    load(t, "x: f32[n]\ny: f32[2*n + 1]\na = Relu(x)\nb = Relu(y)\nreturn a, b\n");
    const float x[8] = {0};
    give(t, 0, CM_F32, 1, DIMS(2), x);
    give(t, 1, CM_F32, 1, DIMS(5), x);
    run(t);
    give(t, 1, CM_F32, 1, DIMS(4), x);
    assert_int_equal(CM_ERR_ARGUMENT, cm_context_run(&t->cx, t->context));
    assert_string_equal(t->cx.message, "input 'y' axis 0: found 4, wanted 5, which is 2*n + 1");
}

static void inputs_and_constants_may_be_outputs(void **state)
{
    run_case *t = *state;
    load(t, "x: i64[2]\n@k = i64[3] {7, 8, 9}\n@unused = i64[1] {1}\n"
            "@s = i64[2] {1, 2}\nr = Reshape(x, @s)\n"
            "return x as \"a\", @k as \"b\", @k as \"c\", r as \"d\", r as \"e\"\n");
    const int64_t x[2] = {5, 6};
    give(t, 0, CM_I64, 1, DIMS(2), x);
    int64_t own[2] = {0}, again[3] = {0};
    ok(t, cm_context_set_output(&t->cx, t->context, 4, own, sizeof own));
    ok(t, cm_context_set_output(&t->cx, t->context, 2, again, sizeof again));
    run(t);
    expect_i64(t, 0, 2, x);
    expect_i64(t, 1, 3, DIMS(7, 8, 9));
    expect_i64(t, 3, 2, x);
    assert_int_equal(out(t, 3)->rank, 2);
    assert_ptr_equal(out(t, 3)->data, x); /* a view costs nothing */
    assert_memory_equal(own, x, sizeof own);
    assert_memory_equal(again, DIMS(7, 8, 9), sizeof again);
}

static void outputs_go_to_the_callers_memory(void **state)
{
    run_case *t = *state;
    load(t, chain);
    const float x[4] = {1, 2, 3, 4};
    float y[4] = {1, 1, 1, 1}, d[4];
    give(t, 0, CM_F32, 2, DIMS(2, 2), x);
    give(t, 1, CM_F32, 2, DIMS(2, 2), y);
    ok(t, cm_context_set_output(&t->cx, t->context, 0, d, sizeof d));
    ok(t, cm_context_set_output(&t->cx, t->context, 1, y, sizeof y)); /* where an input lies */
    run(t);
    assert_ptr_equal(out(t, 0)->data, d);
    assert_float_equal(d[3], 4 * 5 - 5, 0);
    assert_float_equal(y[3], 5, 0);
    ok(t, cm_context_set_output(&t->cx, t->context, 0, d, 4));
    assert_int_equal(CM_ERR_ARGUMENT, cm_context_run(&t->cx, t->context));
    assert_non_null(strstr(t->cx.message, "output 'd' has 16 bytes, its memory only 4"));
}

static void *asked(void *user, int output, const cm_tensor *t, size_t bytes)
{
    (void)output;
    assert_int_equal(t->rank, 2);
    assert_true(bytes <= 64);
    return user;
}

static void outputs_sized_by_data_are_asked_for(void **state)
{
    run_case *t = *state;
    load(t, "x: f32[n]\ny = NonZero(x)\nreturn y\n");
    const float x[4] = {0, 1, 0, 2};
    int64_t y[8];
    int rank;
    int64_t dims[CM_MAX_RANK];
    give(t, 0, CM_F32, 1, DIMS(4), x);
    ok(t, cm_context_bind(&t->cx, t->context));
    assert_false(cm_context_output_shape(t->context, 0, &rank, dims));
    ok(t, cm_context_set_output_fn(&t->cx, t->context, 0, asked, y));
    run(t);
    assert_ptr_equal(out(t, 0)->data, y);
    expect_i64(t, 0, 2, DIMS(1, 3));
}

static void misaligned_and_empty_inputs_work(void **state)
{
    run_case *t = *state;
    load(t, "x: f32[n]\ny = Relu(x)\nreturn y\n");
    unsigned char raw[32] = {0};
    const float v[2] = {-1, 2};
    memcpy(raw + 1, v, sizeof v);
    give(t, 0, CM_F32, 1, DIMS(2), raw + 1);
    run(t);
    expect_f32(t, 0, 2, (const float[]){0, 2});
    give(t, 0, CM_F32, 1, DIMS(0), NULL);
    run(t);
    assert_int_equal(cm_tensor_elems(out(t, 0)), 0);
    cm_tensor mine;
    ok(t, cm_context_input_memory(&t->cx, t->context, 0, 1, DIMS(1), &mine));
    *(float *)mine.data = 3;
    run(t);
    expect_f32(t, 0, 1, (const float[]){3});
}

static void a_context_may_need_no_memory(void **state)
{
    run_case *t = *state;
    load(t, "data: f32[3,0,2]\n"
            "@axes = i64[1] {2}\n"
            "y = ReduceMax(data, @axes) {keepdims=0}\n"
            "return y\n");
    give(t, 0, CM_F32, 3, DIMS(3, 0, 2), NULL);
    run(t);
    assert_int_equal(cm_context_arena_bytes(t->context), 0);
    assert_int_equal(cm_tensor_elems(out(t, 0)), 0);
}

static void steps_take_over_what_nobody_reads_again(void **state)
{
    run_case *t = *state;
    enum { N = 1000 };
    static float x[N], want[N];
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i - N / 2);
        want[i] = (float)abs(i - N / 2);
    }
    load(t, "x: f32[n]\na = Neg(x)\nb = Abs(a)\nc = Neg(b)\nd = Abs(c)\nreturn d\n");
    give(t, 0, CM_F32, 1, DIMS(N), x);
    run(t);
    assert_in_range(cm_context_arena_bytes(t->context), 1, N * sizeof *x + 64);
    expect_f32(t, 0, N, want);
}

/* a is read again, s twice, and the row of b does not lie as the sum does. */
static void steps_leave_what_is_read_again(void **state)
{
    run_case *t = *state;
    load(t, "x: f32[n,2]\n@zero = i64[1] {0}\na = Neg(x)\nb = ReduceSum(a, @zero)\nc = Add(a, b)\n"
            "s = Sub(a, c)\np = Mul(s, s)\nreturn p\n");
    give(t, 0, CM_F32, 2, DIMS(3, 2), (const float[]){1, 2, 3, 4, 5, 6});
    run(t);
    expect_f32(t, 0, 6, (const float[]){81, 144, 81, 144, 81, 144});
}

static void if_takes_one_branch(void **state)
{
    run_case *t = *state;
    load(t, "c: bool[]\nx: i64[2]\n@one = i64[1] {1}\n@s = i64[1] {2}\n@k = i64[2] {70, 80}\n"
            "u = Add(x, @one)\n"
            "y, z = If(c) do\n  p = Add(u, x)\n  q = Reshape(p, @s)\n  return q, u\nend do\n"
            "  return x, @k\nend\n"
            "w = Add(y, z)\nreturn w, y\n");
    const int64_t x[2] = {1, 2};
    for (int k = 0; k < 4; k++) {
        const bool c = k % 2 == 0;
        give(t, 0, CM_BOOL, 0, NULL, &c);
        give(t, 1, CM_I64, 1, DIMS(2), x);
        run(t);
        expect_i64(t, 0, 2, c ? DIMS(5, 8) : DIMS(71, 82));
        expect_i64(t, 1, 2, c ? DIMS(3, 5) : DIMS(1, 2));
    }
}

/* Carried values exchanged, one unchanged, one captured, one twice; a scanned output. */
static const char *const loop = "n: i64[]\nc: bool[]\n@one = i64[1] {1}\n@zero = i64[1] {0}\n"
                                "o = Add(@one, @zero)\n"
                                "a, b, k, m, s, v = Loop(n, c, @zero, @one, @one, @one) do\n"
                                "  i: i64[]\n  go: bool[]\n  f: i64[1]\n  g: i64[1]\n  h: i64[1]\n"
                                "  j: i64[1]\n"
                                "  t = Add(f, g)\n"
                                "  return go, g, t, h, o, t, f\nend\n"
                                "return a, b, k, m, s, v\n";

static void loops_carry_and_stack(void **state)
{
    run_case *t = *state;
    load(t, loop);
    const bool yes = true, no = false;
    int64_t n = 6;
    for (int k = 0; k < 3; k++) {
        give(t, 0, CM_I64, 0, NULL, &n);
        give(t, 1, CM_BOOL, 0, NULL, &yes);
        run(t);
        expect_i64(t, 0, 1, DIMS(8));
        expect_i64(t, 1, 1, DIMS(13));
        expect_i64(t, 2, 1, DIMS(1));
        expect_i64(t, 3, 1, DIMS(1));
        expect_i64(t, 4, 6, DIMS(1, 2, 3, 5, 8, 13));
        expect_i64(t, 5, 6, DIMS(0, 1, 1, 2, 3, 5));
        assert_int_equal(out(t, 4)->rank, 2);
    }
    give(t, 1, CM_BOOL, 0, NULL, &no);
    run(t);
    expect_i64(t, 0, 1, DIMS(0));
    assert_int_equal(out(t, 4)->dims[0], 0);
    assert_int_equal(out(t, 4)->dims[1], 1);
    n = -3;
    give(t, 1, CM_BOOL, 0, NULL, &yes);
    run(t);
    expect_i64(t, 1, 1, DIMS(1));
}

static void loops_change_shapes_and_stop_early(void **state)
{
    run_case *t = *state;
    load(t, "@x = f32[1] {1}\n@limit = i64[] {5}\n@yes = bool[] {1}\n"
            "y, s = Loop(_, @yes, @x) do\n  i: i64[]\n  c: bool[]\n  v: f32[k]\n"
            "  w = Concat(v, v) {axis=0}\n  more = Less(i, @limit)\n  return more, w, i\nend\n"
            "return y, s\n");
    run(t);
    assert_int_equal(cm_tensor_elems(out(t, 0)), 64);
    expect_i64(t, 1, 6, DIMS(0, 1, 2, 3, 4, 5));
}

static void loops_carry_sequences_and_strings(void **state)
{
    run_case *t = *state;
    load(t, "n: i64[]\n@a = str[1] {\"ab\"}\n@x = str[1] {\"c\"}\ns0 = SequenceConstruct(@a)\n"
            "s, y, all = Loop(n, _, s0, @a) do\n  i: i64[]\n  c: bool[]\n  q: seq(str[1])\n"
            "  v: str[1]\n  w = StringConcat(v, @x)\n  r = SequenceInsert(q, w)\n"
            "  return c, r, w, w\nend\n"
            "@at = i64[] {2}\nz = SequenceAt(s, @at)\nlen = SequenceLength(s)\n"
            "return z, len, y, all\n");
    int64_t n = 3;
    for (int k = 0; k < 3; k++) {
        give(t, 0, CM_I64, 0, NULL, &n);
        run(t);
        const cm_str *z = out(t, 0)->data, *y = out(t, 2)->data, *all = out(t, 3)->data;
        assert_true(cm_str_equal(z[0], cm_str_of("abcc")));
        expect_i64(t, 1, 1, DIMS(4));
        assert_true(cm_str_equal(y[0], cm_str_of("abccc")));
        assert_int_equal(cm_tensor_elems(out(t, 3)), 3);
        assert_true(cm_str_equal(all[0], cm_str_of("abc")));
        assert_true(cm_str_equal(all[2], cm_str_of("abccc")));
    }
}

static void loops_nest(void **state)
{
    run_case *t = *state;
    load(t, "n: i64[]\n@z = i64[] {0}\n"
            "y, rows = Loop(n, _, @z) do\n  i: i64[]\n  c: bool[]\n  u: i64[]\n"
            "  v, row = Loop(i, _, u) do\n    j: i64[]\n    d: bool[]\n    w: i64[]\n"
            "    p = Add(w, i)\n    q = Add(p, j)\n    return d, q, p\n  end\n"
            "  r = ReduceSum(row) {keepdims=0}\n  return c, v, r\nend\n"
            "return y, rows\n");
    const int64_t n = 4;
    int64_t sum = 0, rows[4] = {0};
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            rows[i] += sum + i;
            sum += i + j;
        }
    for (int k = 0; k < 2; k++) {
        give(t, 0, CM_I64, 0, NULL, &n);
        run(t);
        expect_i64(t, 0, 1, &sum);
        expect_i64(t, 1, 4, rows);
    }
}

static void scans_cut_and_stack_along_any_axis(void **state)
{
    run_case *t = *state;
    load(t,
         "x: i64[2,n]\ny: i64[n,2]\n@z = i64[2] {0, 0}\n"
         "s, o, p = Scan(@z, x, y) {num_scan_inputs=2, scan_input_axes=[1,-2], "
         "scan_input_directions=[0,1], scan_output_axes=[-1,0], scan_output_directions=[0,1]} do\n"
         "  a: i64[2]\n  b: i64[2]\n  c: i64[2]\n  d = Add(a, b)\n  e = Mul(b, c)\n"
         "  return d, d, e\nend\nreturn s, o, p\n");
    const int64_t x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {1, 1, 10, 10, 100, 100};
    for (int k = 0; k < 2; k++) {
        give(t, 0, CM_I64, 2, DIMS(2, 3), x);
        give(t, 1, CM_I64, 2, DIMS(3, 2), y);
        run(t);
        expect_i64(t, 0, 2, DIMS(6, 15));
        expect_i64(t, 1, 6, DIMS(1, 3, 6, 4, 9, 15));
        expect_i64(t, 2, 6, DIMS(3, 6, 20, 50, 100, 400));
    }
    give(t, 0, CM_I64, 2, DIMS(2, 0), x);
    give(t, 1, CM_I64, 2, DIMS(0, 2), y);
    run(t);
    expect_i64(t, 0, 2, DIMS(0, 0));
    assert_int_equal(out(t, 1)->dims[0], 2);
    assert_int_equal(out(t, 1)->dims[1], 0);
}

static void sub_byte_values_stay_packed(void **state)
{
    run_case *t = *state;
    load(t, "x: i4[3,3]\n@z = f32[] {0}\ns, o = Scan(@z, x) {num_scan_inputs=1} do\n"
            "  a: f32[]\n  b: i4[3]\n  c = Identity(b)\n  return a, c\nend\n"
            "y = Identity(x)\nreturn o, y\n");
    const unsigned char x[5] = {0x21, 0xF3, 0x54, 0x76, 0x08};
    give(t, 0, CM_I4, 2, DIMS(3, 3), x);
    run(t);
    assert_true(out(t, 0)->packed);
    assert_memory_equal(out(t, 0)->data, x, 5);
    assert_memory_equal(out(t, 1)->data, x, 5);
}

static void maps_run_over_sequences(void **state)
{
    run_case *t = *state;
    load(t, "x: i64[2]\n@k = i64[1] {10}\nu = Add(x, @k)\nq = SequenceConstruct(x, u)\n"
            "s, r = SequenceMap(q, @k) do\n  a: i64[2]\n  b: i64[1]\n  c = Mul(a, b)\n"
            "  return c, a\nend\n@one = i64[] {1}\ny = SequenceAt(s, @one)\nn = SequenceLength(r)\n"
            "return y, n\n");
    const int64_t x[2] = {1, 2};
    for (int k = 0; k < 2; k++) {
        give(t, 0, CM_I64, 1, DIMS(2), x);
        run(t);
        expect_i64(t, 0, 2, DIMS(110, 120));
        expect_i64(t, 1, 1, DIMS(2));
    }
}

static void endless_loops_stop_at_the_deadline(void **state)
{
    run_case *t = *state;
    load(t, "@x = i64[] {0}\ny = Loop(_, _, @x) do\n  i: i64[]\n  c: bool[]\n  v: i64[]\n"
            "  return c, v\nend\nreturn y\n");
    t->cx.deadline_ns = cm_now_ns() + 20 * 1000 * 1000;
    assert_int_equal(CM_ERR_CANCELLED, cm_context_run(&t->cx, t->context));
    atomic_bool stop = true;
    t->cx.deadline_ns = 0;
    t->cx.cancel = &stop;
    assert_int_equal(CM_ERR_CANCELLED, cm_context_run(&t->cx, t->context));
    t->cx.cancel = NULL;
}

static void failures_name_the_node_and_can_be_followed_by_a_run(void **state)
{
    run_case *t = *state;
    load(t, "x: i64[]\n@d = f32[3] {1, 2, 3}\ny = Gather(@d, x) from \"/pick\"\nreturn y\n");
    int64_t x = 9;
    give(t, 0, CM_I64, 0, NULL, &x);
    assert_int_equal(CM_ERR_DATA, cm_context_run(&t->cx, t->context));
    assert_memory_equal(t->cx.message, "Gather node '/pick': ", 21);
    assert_null(cm_context_output(t->context, 0));
    x = 1;
    run(t);
    expect_f32(t, 0, 1, (const float[]){2});
}

static void running_again_allocates_nothing(void **state)
{
    run_case *t = *state;
    t->cx.allocator = &t->counting;
    cm_buf_deinit(&t->bytes);
    load(t, loop);
    const bool yes = true;
    const int64_t n = 50;
    give(t, 0, CM_I64, 0, NULL, &n);
    give(t, 1, CM_BOOL, 0, NULL, &yes);
    run(t);
    run(t);
    long before = t->count.calls;
    for (int k = 0; k < 5; k++)
        run(t);
    assert_int_equal(t->count.calls, before);
    cm_context_destroy(t->context);
    cm_engine_release(t->engine);
    t->context = NULL;
    t->engine = NULL;
    assert_int_equal(t->count.live, 0);
    t->cx.allocator = NULL;
}

static void count_steps(void *user, int step, uint64_t start, uint64_t end)
{
    int *n = user;
    assert_true(end >= start && step >= 0 && step < 4);
    ++*n;
}

static void profiles_see_every_step(void **state)
{
    run_case *t = *state;
    load(t, chain);
    cm_context_destroy(t->context);
    int n = 0;
    cm_context_options o = {.threads = 1, .profile = count_steps, .profile_user = &n};
    ok(t, cm_context_create(&t->cx, t->engine, &o, &t->context));
    const float x[2] = {1, 2};
    give(t, 0, CM_F32, 2, DIMS(1, 2), x);
    give(t, 1, CM_F32, 2, DIMS(1, 2), x);
    run(t);
    assert_int_equal(n, 4);
    assert_int_equal(cm_engine_n_steps(t->engine), 4);
    assert_string_equal(cm_engine_step(t->engine, 1)->op, "Relu");
}

typedef struct {
    cm_engine *engine;
    float y[64 * 64];
    cm_status st;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    cm_arena scratch;
    cm_arena_init(&scratch, NULL);
    cm_ctx cx = {.arena = &scratch, .scratch = &scratch};
    cm_context_options o = {.threads = 2};
    cm_context *c = NULL;
    float x[64 * 64];
    for (int i = 0; i < 64 * 64; i++)
        x[i] = (float)(i % 97) / 97 - 0.5f;
    w->st = cm_context_create(&cx, w->engine, &o, &c);
    for (int k = 0; k < 5 && w->st == CM_OK; k++) {
        cm_datum d = tensor(CM_F32, 2, DIMS(64, 64), x);
        w->st = cm_context_set_input(&cx, c, 0, &d);
        if (w->st == CM_OK)
            w->st = cm_context_run(&cx, c);
    }
    if (w->st == CM_OK)
        memcpy(w->y, cm_context_output(c, 0)->tensor.data, sizeof w->y);
    cm_context_destroy(c);
    cm_arena_deinit(&scratch);
    return NULL;
}

static void threads_share_an_engine(void **state)
{
    run_case *t = *state;
    load(t, "x: f32[n,64]\n@w = f32[64,64] random 1\na = MatMul(x, @w)\nb = Tanh(a)\n"
            "c = MatMul(b, @w)\nd = Softmax(c)\nreturn d\n");
    static worker w[8];
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        w[i].engine = t->engine;
        assert_int_equal(0, pthread_create(&threads[i], NULL, work, &w[i]));
    }
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(CM_OK, w[i].st);
        assert_memory_equal(w[i].y, w[0].y, sizeof w[0].y);
    }
}

/* Open, create and run with the n-th allocation failing, for every n: a status, and no leak. */
static void every_failing_allocation_is_reported(void **state)
{
    run_case *t = *state;
    build(t, loop);
    const bool yes = true;
    const int64_t n = 5;
    for (long k = 1;; k++) {
        cm_engine *e = NULL;
        cm_context *c = NULL;
        cm_context_options o = {.threads = 1};
        cm_arena scratch;
        counter count = {.fail_at = k};
        cm_allocator a = {counted_alloc, counted_release, &count};
        cm_arena_init(&scratch, &a);
        cm_ctx cx = {.allocator = &a, .scratch = &scratch};
        cm_status st = cm_engine_open_memory(&cx, t->bytes.data, t->bytes.n, true, NULL, &e);
        if (st == CM_OK)
            st = cm_context_create(&cx, e, &o, &c);
        cm_datum dn = tensor(CM_I64, 0, NULL, &n), dc = tensor(CM_BOOL, 0, NULL, &yes);
        if (st == CM_OK)
            st = cm_context_set_input(&cx, c, 0, &dn);
        if (st == CM_OK)
            st = cm_context_set_input(&cx, c, 1, &dc);
        if (st == CM_OK)
            st = cm_context_run(&cx, c);
        cm_context_destroy(c);
        cm_engine_release(e);
        cm_arena_deinit(&scratch);
        assert_int_equal(count.live, 0);
        if (count.calls < k) {
            assert_int_equal(CM_OK, st);
            assert_true(k > 10);
            return;
        }
        if (st != CM_ERR_MEMORY)
            fail_msg("allocation %ld: %s: %s", k, cm_status_text(st), cx.message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_network_runs_with_any_shape),
        TEST(shapes_that_do_not_fit_are_named),
        TEST(expressions_in_input_shapes_are_checked),
        TEST(inputs_and_constants_may_be_outputs),
        TEST(outputs_go_to_the_callers_memory),
        TEST(outputs_sized_by_data_are_asked_for),
        TEST(misaligned_and_empty_inputs_work),
        TEST(a_context_may_need_no_memory),
        TEST(steps_take_over_what_nobody_reads_again),
        TEST(steps_leave_what_is_read_again),
        TEST(if_takes_one_branch),
        TEST(loops_carry_and_stack),
        TEST(loops_change_shapes_and_stop_early),
        TEST(loops_carry_sequences_and_strings),
        TEST(loops_nest),
        TEST(scans_cut_and_stack_along_any_axis),
        TEST(sub_byte_values_stay_packed),
        TEST(maps_run_over_sequences),
        TEST(endless_loops_stop_at_the_deadline),
        TEST(failures_name_the_node_and_can_be_followed_by_a_run),
        TEST(running_again_allocates_nothing),
        TEST(profiles_see_every_step),
        TEST(threads_share_an_engine),
        TEST(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
