/* packed.c -- plans that hold weights as tactics want them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit/run_case.h"

#include "plan/packed.h"

#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)

/* Products and convolutions, plain, grouped and depthwise; `shared` is read plain too, and must stay. */
static const char *const network = "x: f32[1,24,13,11]\n"
                                   "@shape = i64[2] {19, 143}\n"
                                   "@a = f32[37,24,3,3] random 1\n"
                                   "@b = f32[37,1,3,3] random 2\n"
                                   "@c = f32[19,37,1,1] random 3\n"
                                   "@d = f32[143,50] random 4\n"
                                   "@shared = f32[50,50] random 5\n"
                                   "p = Conv(x, @a) {pads=[1,1,1,1]}\n"
                                   "q = Conv(p, @b) {pads=[1,1,1,1], group=37}\n"
                                   "r = Conv(q, @c)\n"
                                   "s = Reshape(r, @shape)\n"
                                   "t = MatMul(s, @d)\n"
                                   "u = MatMul(t, @shared)\n"
                                   "v = Relu(@shared)\n"
                                   "w = MatMul(u, v)\n"
                                   "return w\n";

static float input[24 * 13 * 11];

/* An engine of the lowered network, bound; its plan with packed weights to t->bytes. */
static void pack(run_case *t, const cm_target *target, bool all, cm_plan *p)
{
    cm_engine *e;
    cm_context *c;
    const cm_tensor *const *stored;
    build(t, network);
    ok(t, cm_engine_open_lowered(&t->cx, t->plan, t->constants, &e));
    cm_context_options o = {.threads = 1, .target = target};
    ok(t, cm_context_create(&t->cx, e, &o, &c));
    ok(t, cm_context_set_shape(&t->cx, c, 0, 4, (const int64_t[]){1, 24, 13, 11}));
    ok(t, cm_context_bind(&t->cx, c));
    *p = *t->plan;
    ok(t, cm_context_packed(&t->cx, c, p, t->constants, all, &stored));
    t->bytes.n = 0;
    ok(t, cm_plan_write_memory(&t->cx, p, stored, &t->bytes));
    cm_context_destroy(c);
    cm_engine_release(e);
}

/* The output of t->bytes at a level, copied. */
static const float *answer(run_case *t, const cm_target *target)
{
    const int64_t dims[] = {1, 24, 13, 11};
    for (int i = 0; i < 24 * 13 * 11; i++)
        input[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
    cm_context_destroy(t->context);
    cm_engine_release(t->engine);
    ok(t, cm_engine_open_memory(&t->cx, t->bytes.data, t->bytes.n, false, NULL, &t->engine));
    cm_context_options o = {.threads = 1, .target = target};
    ok(t, cm_context_create(&t->cx, t->engine, &o, &t->context));
    give(t, 0, CM_F32, 4, dims, input);
    run(t);
    assert_int_equal(cm_tensor_elems(out(t, 0)), 19 * 50);
    return cm_arena_memdup(&t->arena, out(t, 0)->data, 19 * 50 * sizeof(float));
}

static cm_target here(int level)
{
    return (cm_target){CM_DEVICE_CPU, level, 0};
}

/* At every level, from plans packed for every level: the same bits as from the plain plan. */
static void packed_plans_give_the_same_bits(void **state)
{
    run_case *t = *state;
    int best = (int)cm_cpu_info()->isa;
    for (int level = 0; level <= best; level++) {
        const cm_target run_on = here(level);
        build(t, network);
        size_t plain = t->bytes.n;
        const float *want = answer(t, &run_on);
        for (int for_level = 0; for_level <= best; for_level++) {
            const cm_target packed_for = here(for_level);
            cm_plan p;
            pack(t, &packed_for, false, &p);
            assert_true(p.n_packed > 0);
            assert_true(t->bytes.n < plain * 3 / 2); /* in place, but for padding */
            assert_memory_equal(answer(t, &run_on), want, 19 * 50 * sizeof(float));
            pack(t, &packed_for, true, &p);
            assert_memory_equal(answer(t, &run_on), want, 19 * 50 * sizeof(float));
        }
    }
}

static void other_kernels_pack_again(void **state)
{
    run_case *t = *state;
    const cm_target target = here((int)cm_cpu_info()->isa);
    cm_plan p;
    build(t, network);
    const float *want = answer(t, &target);
    pack(t, &target, true, &p);
    cm_plan *other;
    cm_engine *e;
    const cm_tensor *const *constants;
    ok(t, cm_engine_open_memory(&t->cx, t->bytes.data, t->bytes.n, true, NULL, &e));
    ok(t, cm_engine_constants(&t->cx, e, &constants));
    ok(t, cm_plan_read(&t->cx, &t->arena, t->bytes.data, t->bytes.n, &other));
    other->packed_by ^= 1;
    cm_plan_drop_besides(other);
    cm_plan plain = *t->plan;
    ok(t, cm_plan_pack_like(&t->cx, &t->arena, other, &plain, &constants));
    assert_true(plain.n_packed > 0);
    t->bytes.n = 0;
    ok(t, cm_plan_write_memory(&t->cx, &plain, constants, &t->bytes));
    assert_memory_equal(answer(t, &target), want, 19 * 50 * sizeof(float));
    cm_engine_release(e);
}

static void constants_come_back_as_they_were(void **state)
{
    run_case *t = *state;
    const cm_target target = here((int)cm_cpu_info()->isa);
    cm_plan p;
    pack(t, &target, false, &p);
    const cm_tensor *const *constants;
    ok(t, cm_engine_open_memory(&t->cx, t->bytes.data, t->bytes.n, false, NULL, &t->engine));
    ok(t, cm_engine_constants(&t->cx, t->engine, &constants));
    for (int i = 0, k = 0; i < t->plan->n_values; i++) {
        if (t->plan->values[i].storage != CM_STORE_CONSTANT)
            continue;
        size_t bytes;
        assert_true(cm_tensor_bytes(constants[k], &bytes));
        assert_memory_equal(constants[k]->data, t->constants[k]->data, bytes);
        k++;
    }
}

/* Constants whose memory is spoilt when the engine lets them go. */
typedef struct {
    int n, n_gone;
    const cm_tensor *const *constants;
    const void *copies[16];
} spoiling;

static int place_of(const spoiling *s, const void *bytes, size_t n)
{
    for (int i = 0; i < s->n; i++) {
        size_t size;
        assert_true(cm_tensor_bytes(s->constants[i], &size));
        if (s->constants[i]->data == bytes) {
            assert_int_equal(n, size);
            return i;
        }
    }
    fail_msg("bytes that were never lent");
    return -1;
}

static bool spoil(void *user, const void *bytes, size_t n)
{
    spoiling *s = user;
    s->n_gone++;
    memset(s->constants[place_of(s, bytes, n)]->data, 0xff, n);
    return true;
}

static void give_again(void *user, const void *bytes, size_t n, void *to)
{
    const spoiling *s = user;
    memcpy(to, s->copies[place_of(s, bytes, n)], n);
}

static void copy_constants(run_case *t, spoiling *s)
{
    *s = (spoiling){.constants = t->constants};
    for (int i = 0; i < t->plan->n_values; i++)
        s->n += t->plan->values[i].storage == CM_STORE_CONSTANT;
    assert_true(s->n <= CM_COUNT(s->copies));
    for (int i = 0; i < s->n; i++) {
        size_t bytes;
        assert_true(cm_tensor_bytes(s->constants[i], &bytes));
        s->copies[i] = cm_arena_memdup(&t->arena, s->constants[i]->data, bytes);
    }
}

/* What the steps read packed goes, and comes again for other kernels and for whoever wants it plain. */
static void constants_go_when_they_are_packed(void **state)
{
    run_case *t = *state;
    const int64_t dims[] = {1, 24, 13, 11};
    const int best = (int)cm_cpu_info()->isa;
    const float *want[CM_ISA_AMX + 1];
    spoiling s;
    for (int level = 0; level <= best; level++) {
        const cm_target target = here(level);
        build(t, network);
        want[level] = answer(t, &target);
    }
    copy_constants(t, &s);
    const cm_constant_source source = {spoil, give_again, &s};
    cm_engine_release(t->engine);
    cm_context_destroy(t->context);
    t->context = NULL;
    ok(t, cm_engine_open_lowered(&t->cx, t->plan, t->constants, &t->engine));
    ok(t, cm_engine_set_source(&t->cx, t->engine, &source));
    for (int turn = 0; turn < 2; turn++)
        for (int level = best; level >= 0; level--) {
            const cm_target target = here(level);
            cm_context_options o = {.threads = 1, .target = &target};
            cm_context_destroy(t->context);
            ok(t, cm_context_create(&t->cx, t->engine, &o, &t->context));
            give(t, 0, CM_F32, 4, dims, input);
            run(t);
            assert_memory_equal(out(t, 0)->data, want[level], 19 * 50 * sizeof(float));
        }
    assert_true(s.n_gone >= 3);
    const cm_tensor *const *again;
    ok(t, cm_engine_constants(&t->cx, t->engine, &again));
    for (int i = 0; i < s.n; i++) {
        size_t bytes;
        assert_true(cm_tensor_bytes(again[i], &bytes));
        assert_memory_equal(again[i]->data, s.copies[i], bytes);
    }
}

/* Two constants in the same memory: one is packed, the other read as it is. */
static void constants_that_share_memory_stay(void **state)
{
    run_case *t = *state;
    spoiling s;
    static float x[32 * 48];
    for (int i = 0; i < 32 * 48; i++)
        x[i] = (float)(i % 37) - 18;
    build(t, "x: f32[32,48]\n@a = f32[48,40] random 1\n@b = f32[48,40] random 1\n"
             "y = MatMul(x, @a)\nz = Neg(@b)\nreturn y, z\n");
    copy_constants(t, &s);
    assert_int_equal(s.n, 2);
    assert_memory_equal(s.copies[0], s.copies[1], 48 * 40 * sizeof(float));
    ((cm_tensor *)t->constants[1])->data = t->constants[0]->data;
    const cm_constant_source source = {spoil, give_again, &s};
    ok(t, cm_engine_open_lowered(&t->cx, t->plan, t->constants, &t->engine));
    ok(t, cm_engine_set_source(&t->cx, t->engine, &source));
    ok(t, cm_context_create(&t->cx, t->engine, &(cm_context_options){.threads = 1}, &t->context));
    give(t, 0, CM_F32, 2, (const int64_t[]){32, 48}, x);
    run(t);
    assert_int_equal(s.n_gone, 0);
    for (int i = 0; i < 48 * 40; i++)
        assert_true(((const float *)out(t, 1)->data)[i] == -((const float *)s.copies[0])[i]);
}

static void what_is_read_plain_stays_plain(void **state)
{
    run_case *t = *state;
    const cm_target target = here((int)cm_cpu_info()->isa);
    cm_plan p;
    pack(t, &target, false, &p);
    for (int i = 0; i < p.n_values; i++)
        if (strcmp(p.values[i].name, "shared") == 0)
            assert_null(cm_plan_packed_of(&p, i));
}

/* A section with a byte changed is refused, or describes packings that stay inside their bounds. */
static void damaged_sections_are_refused_or_harmless(void **state)
{
    run_case *t = *state;
    const cm_target target = here((int)cm_cpu_info()->isa);
    const char *const strings[] = {"conv", "matmul"};
    cm_plan p;
    pack(t, &target, true, &p);
    uint32_t *names = cm_arena_alloc_n(&t->arena, (size_t)p.n_packed, 4, 4, 1);
    cm_buf b;
    cm_buf_init(&b, NULL);
    ok(t, cm_packed_write(&t->cx, &t->arena, &p, names, &b));
    int refused = 0;
    for (size_t i = 0; i < b.n; i++) {
        cm_plan q = p;
        cm_arena_mark mark = cm_arena_save(&t->arena);
        b.data[i] ^= (unsigned char)(1 + i % 255);
        cm_status st = cm_packed_read(&t->cx, &t->arena, b.data, b.n, strings, 2, &q);
        if (st == CM_OK)
            st = cm_packed_check(&t->cx, &q);
        assert_true(st == CM_OK || st == CM_ERR_PLAN);
        for (int k = 0; st == CM_OK && k < q.n_packed; k++)
            assert_true(!q.packed[k].packing || cm_packing_is_sound(q.packed[k].packing));
        refused += st != CM_OK;
        b.data[i] ^= (unsigned char)(1 + i % 255);
        cm_arena_restore(&t->arena, mark);
    }
    assert_true(refused > 0);
    for (size_t n = 0; n < b.n; n++) {
        cm_plan q = p;
        assert_int_equal(CM_ERR_PLAN, cm_packed_read(&t->cx, &t->arena, b.data, n, strings, 2, &q));
    }
    cm_buf_deinit(&b);
}

static void failing_allocations_are_reported(void **state)
{
    run_case *t = *state;
    const cm_target target = here((int)cm_cpu_info()->isa), low = here(0);
    cm_plan p;
    pack(t, &target, false, &p);
    t->cx.allocator = &t->counting;
    for (long k = 1;; k++) {
        cm_engine *e = NULL;
        cm_context *c = NULL;
        t->count.calls = 0;
        t->count.fail_at = k;
        cm_status st = cm_engine_open_memory(&t->cx, t->bytes.data, t->bytes.n, false, NULL, &e);
        cm_context_options o = {.threads = 1, .target = &low};
        if (st == CM_OK)
            st = cm_context_create(&t->cx, e, &o, &c);
        if (st == CM_OK)
            st = cm_context_set_shape(&t->cx, c, 0, 4, (const int64_t[]){1, 24, 13, 11});
        if (st == CM_OK)
            st = cm_context_bind(&t->cx, c);
        bool failed = t->count.calls >= k;
        t->count.fail_at = 0;
        cm_context_destroy(c);
        cm_engine_release(e);
        assert_int_equal(t->count.live, 0);
        if (!failed) {
            ok(t, st);
            break;
        }
        assert_int_equal(st, CM_ERR_MEMORY);
    }
    t->cx.allocator = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(packed_plans_give_the_same_bits),          TEST(other_kernels_pack_again),
        TEST(constants_come_back_as_they_were),         TEST(constants_go_when_they_are_packed),
        TEST(constants_that_share_memory_stay),         TEST(what_is_read_plain_stays_plain),
        TEST(damaged_sections_are_refused_or_harmless), TEST(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
