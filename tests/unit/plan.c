/* plan.c -- the plan file: what goes in comes out; what is damaged is refused with a sentence.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unit/run_case.h"

#include <stdio.h>
#include <unistd.h>

#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)

static const char *const network =
    "x: f32[n,4]\nc: bool[]\nk: i64[]\n"
    "@w = f32[4,4] fill 0.5\n@same = f32[4,4] fill 0.5\n@s = str[2] {\"a\", \"bc\"}\n"
    "@q = i4[3] {1, -2, 3}\n"
    "a = MatMul(x, @w) from \"/one\"\nb = MatMul(a, @same | a) then \"add x $0; relu %0\"\n"
    "y = If(c) do\n  t = Relu(b)\n  return t\nend do\n  return a\nend\n"
    "z, all = Loop(k, _, y) do\n  i: i64[]\n  g: bool[]\n  v: f32[n,4]\n  u = Add(v, a)\n"
    "  return g, u, v\nend\n"
    "return z, all, @s as \"names\", @q as \"small\", y\n";

static void read_back(run_case *t, cm_plan **p)
{
    ok(t, cm_plan_read(&t->cx, &t->arena, t->bytes.data, t->bytes.n, p));
}

static void plans_come_back_as_written(void **state)
{
    run_case *t = *state;
    build(t, network);
    cm_plan *p;
    read_back(t, &p);
    assert_int_equal(p->n_values, t->plan->n_values);
    assert_int_equal(p->n_variants, 1);
    const cm_plan_variant *a = &p->variants[0], *b = &t->plan->variants[0];
    assert_int_equal(a->n_lists, b->n_lists);
    for (int i = 0; i < p->n_values; i++) {
        assert_string_equal(p->values[i].name, t->plan->values[i].name);
        assert_true(cm_type_equal(&p->values[i].type, &t->plan->values[i].type));
        assert_int_equal(p->values[i].storage, t->plan->values[i].storage);
    }
    for (int l = 0; l < a->n_lists; l++) {
        assert_int_equal(a->lists[l].n_captures, b->lists[l].n_captures);
        for (int i = 0; i < a->lists[l].n_steps; i++) {
            const cm_plan_step *s = &a->lists[l].steps[i], *w = &b->lists[l].steps[i];
            assert_string_equal(s->op, w->op);
            assert_string_equal(s->name, w->name);
            assert_int_equal(s->n_from, w->n_from);
            assert_int_equal(s->attr_n, w->attr_n);
            assert_memory_equal(s->attr_bytes, w->attr_bytes, s->attr_n);
            assert_memory_equal(s->in, w->in, (size_t)s->n_in * sizeof *s->in);
        }
    }
    ok(t, cm_plan_verify_weights(&t->cx, p));
    /* Written again from what was read, the bytes are the same. */
    cm_buf again;
    cm_buf_init(&again, NULL);
    ok(t, cm_plan_write_memory(&t->cx, p, t->constants, &again));
    assert_int_equal(again.n, t->bytes.n);
    assert_memory_equal(again.data, t->bytes.data, again.n);
    cm_buf_deinit(&again);
}

static void the_same_network_gives_the_same_bytes(void **state)
{
    run_case *t = *state;
    build(t, network);
    unsigned char *first = cm_arena_memdup(&t->arena, t->bytes.data, t->bytes.n);
    size_t n = t->bytes.n;
    build(t, network);
    assert_int_equal(t->bytes.n, n);
    assert_memory_equal(t->bytes.data, first, n);
    char path[] = "/tmp/cameo-test-XXXXXX";
    int fd = mkstemp(path);
    close(fd);
    ok(t, cm_plan_write_file(&t->cx, t->plan, t->constants, path));
    cm_mapping m;
    ok(t, cm_file_map(&t->cx, path, &m));
    assert_int_equal(m.n, n);
    assert_memory_equal(m.data, first, n);
    cm_file_unmap(&m);
    unlink(path);
}

static void equal_constants_are_stored_once_and_aligned(void **state)
{
    run_case *t = *state;
    build(t, network);
    cm_plan *p;
    read_back(t, &p);
    uint64_t shared[2] = {0};
    int n = 0;
    for (int i = 0; i < p->n_values; i++) {
        const cm_plan_value *v = &p->values[i];
        if (v->storage != CM_STORE_CONSTANT)
            continue;
        assert_int_equal(v->offset % CM_PLAN_CONSTANT_ALIGN, 0);
        if (v->type.dtype == CM_F32)
            shared[n++] = v->offset;
    }
    assert_int_equal(n, 2);
    assert_int_equal(shared[0], shared[1]);
    assert_int_equal((p->weights_data - t->bytes.data) % CM_PLAN_PAGE, 0);
}

static void refused(run_case *t, const char *why)
{
    cm_plan *p;
    assert_int_equal(CM_ERR_PLAN, cm_plan_read(&t->cx, &t->arena, t->bytes.data, t->bytes.n, &p));
    if (!strstr(t->cx.message, why))
        fail_msg("found: %s\nwanted: %s", t->cx.message, why);
}

static void put_u32(run_case *t, size_t at, uint32_t v)
{
    memcpy(t->bytes.data + at, &v, 4);
}

static void damage_is_told_in_a_sentence(void **state)
{
    run_case *t = *state;
    build(t, network);
    size_t n = t->bytes.n;
    t->bytes.n = n - 1;
    refused(t, "the plan is cut short: found ");
    t->bytes.n = 10;
    refused(t, "not a plan: wanted a file that begins with \"CAMEOPLN\"");
    t->bytes.n = n;
    t->bytes.data[0] = 'X';
    refused(t, "not a plan");
    t->bytes.data[0] = 'C';
    put_u32(t, 8, 99);
    refused(t, "the plan has format version 99, this library reads 1 to 1");
    put_u32(t, 8, 1);
    t->bytes.data[CM_PLAN_HEADER_BYTES] ^= 1;
    refused(t, "its section table has checksum ");
    t->bytes.data[CM_PLAN_HEADER_BYTES] ^= 1;
    t->bytes.data[CM_PLAN_PAGE + 5] ^= 1;
    refused(t, "section strings has checksum ");
    t->bytes.data[CM_PLAN_PAGE + 5] ^= 1;
    t->bytes.data[n - 64] ^= 1; /* weights are not read on opening */
    cm_plan *p;
    read_back(t, &p);
    assert_int_equal(CM_ERR_PLAN, cm_plan_verify_weights(&t->cx, p));
}

/* Make the checksums right again. */
static void reseal(unsigned char *p, size_t n)
{
    uint32_t sections;
    memcpy(&sections, p + 12, 4);
    if (sections > (n - CM_PLAN_HEADER_BYTES) / CM_PLAN_ENTRY_BYTES)
        return;
    for (uint32_t i = 0; i < sections; i++) {
        unsigned char *e = p + CM_PLAN_HEADER_BYTES + i * CM_PLAN_ENTRY_BYTES;
        uint64_t offset, size, sum;
        memcpy(&offset, e + 8, 8);
        memcpy(&size, e + 16, 8);
        if (offset > n || size > n - offset)
            continue;
        sum = cm_checksum(p + offset, size);
        memcpy(e + 24, &sum, 8);
    }
    uint64_t sum = cm_checksum(p + CM_PLAN_HEADER_BYTES, sections * CM_PLAN_ENTRY_BYTES);
    memcpy(p + 24, &sum, 8);
}

static void unknown_sections_must_be_optional(void **state)
{
    run_case *t = *state;
    build(t, network);
    uint32_t sections;
    memcpy(&sections, t->bytes.data + 12, 4);
    size_t at = CM_PLAN_HEADER_BYTES + sections * CM_PLAN_ENTRY_BYTES;
    memcpy(t->bytes.data + at, t->bytes.data + CM_PLAN_HEADER_BYTES, CM_PLAN_ENTRY_BYTES);
    put_u32(t, 12, sections + 1);
    put_u32(t, at, 77);
    reseal(t->bytes.data, t->bytes.n);
    refused(t, "its section kind 77 is not known here");
    put_u32(t, at + 4, CM_SECTION_OPTIONAL);
    reseal(t->bytes.data, t->bytes.n);
    cm_plan *p;
    read_back(t, &p);
}

/* An allocator with little to give, so that absurd sizes fail at once. */
typedef struct {
    size_t live;
} small_heap;

static void *small_alloc(void *user, size_t bytes, size_t align)
{
    small_heap *h = user;
    if (bytes > (size_t)64 << 20 || h->live > ((size_t)64 << 20) - bytes)
        return NULL;
    h->live += bytes;
    return cm_alloc(NULL, bytes, align);
}

static void small_release(void *user, void *p, size_t bytes)
{
    ((small_heap *)user)->live -= bytes;
    cm_release(NULL, p, bytes);
}

/* Open, and run on zeros if it opens. */
static cm_status try_plan(const unsigned char *bytes, size_t n)
{
    small_heap heap = {0};
    cm_allocator a = {small_alloc, small_release, &heap};
    cm_arena scratch;
    cm_arena_init(&scratch, &a);
    cm_ctx cx = {.allocator = &a, .arena = &scratch, .scratch = &scratch};
    cx.deadline_ns = cm_now_ns() + 50 * 1000 * 1000;
    static const int64_t zeros[64];
    cm_engine *e = NULL;
    cm_context *c = NULL;
    cm_context_options o = {.threads = 1};
    cm_status st = cm_engine_open_memory(&cx, bytes, n, true, NULL, &e);
    if (st == CM_OK)
        st = cm_context_create(&cx, e, &o, &c);
    for (int i = 0; st == CM_OK && i < cm_engine_n_inputs(e); i++) {
        const cm_type *t = cm_engine_input_type(e, i);
        int64_t dims[CM_MAX_RANK];
        for (int k = 0; k < CM_MAX_RANK; k++)
            dims[k] = t->kind == CM_TENSOR && k < t->rank && t->dims[k] >= 0 ? t->dims[k] : 2;
        cm_datum d = {.kind = CM_TENSOR};
        size_t bytes_wanted;
        if (t->kind != CM_TENSOR || t->rank < 0 ||
            !cm_tensor_shape(&d.tensor, t->dtype, t->rank, dims) ||
            !cm_tensor_bytes(&d.tensor, &bytes_wanted) || bytes_wanted > sizeof zeros)
            st = CM_ERR_ARGUMENT;
        d.tensor.data = (void *)zeros;
        d.tensor.packed = cm_dtype_is_sub_byte(t->dtype);
        if (st == CM_OK)
            st = cm_context_set_input(&cx, c, i, &d);
    }
    if (st == CM_OK)
        st = cm_context_run(&cx, c);
    cm_context_destroy(c);
    cm_engine_release(e);
    cm_arena_deinit(&scratch);
    assert_int_equal(heap.live, 0);
    return st;
}

static uint32_t next(uint32_t *s)
{
    return *s = *s * 1664525u + 1013904223u;
}

/* Damage that checksums do not show: a status, never a crash. CAMEO_MUTATIONS asks for more. */
static void hostile_plans_are_refused_or_run(void **state)
{
    run_case *t = *state;
    build(t, network);
    assert_int_equal(CM_OK, try_plan(t->bytes.data, t->bytes.n));
    size_t n = t->bytes.n;
    unsigned char *p = cm_arena_alloc(&t->arena, n);
    uint32_t sections, seed = 12345;
    memcpy(&sections, t->bytes.data + 12, 4);
    const char *more = getenv("CAMEO_MUTATIONS");
    int rounds = more ? atoi(more) : 3000, opened = 0;
    for (int k = 0; k < rounds; k++) {
        memcpy(p, t->bytes.data, n);
        for (int m = 0, count = 1 + (int)(next(&seed) >> 30); m < count; m++) {
            unsigned char *e = p + CM_PLAN_HEADER_BYTES +
                               (next(&seed) >> 8) % (sections - 1) * CM_PLAN_ENTRY_BYTES;
            uint64_t offset, size;
            memcpy(&offset, e + 8, 8);
            memcpy(&size, e + 16, 8);
            if (next(&seed) >> 27 == 0) { /* the table itself */
                e[next(&seed) >> 8 & 31] ^= (unsigned char)(1u << (next(&seed) >> 29));
                continue;
            }
            if (!size || offset >= n || size > n - offset)
                continue;
            unsigned char *at = p + offset + (next(&seed) >> 4) % size;
            switch (next(&seed) >> 30) {
            case 0:
                *at ^= (unsigned char)(1u << (next(&seed) >> 29));
                break;
            case 1:
                *at = (unsigned char)(*at + (next(&seed) >> 31 ? 1 : 255));
                break;
            case 2:
                *at = (unsigned char)(next(&seed) >> 24);
                break;
            default:
                *at = next(&seed) >> 31 ? 0xFF : 0;
                break;
            }
        }
        reseal(p, n);
        opened += try_plan(p, n) == CM_OK;
    }
    assert_true(opened > 0 && opened < rounds);
}

static void large_plans_open_at_once(void **state)
{
    run_case *t = *state;
    build(t, "x: f32[1,4096]\n@w = f32[4096,6656] fill 1\ny = MatMul(x, @w)\nreturn y\n");
    assert_true(t->bytes.n > 100u << 20);
    uint64_t start = cm_now_ns();
    ok(t, cm_engine_open_memory(&t->cx, t->bytes.data, t->bytes.n, false, NULL, &t->engine));
    assert_true(cm_now_ns() - start < 20 * 1000 * 1000);
}

static void checksums_see_every_bit_and_any_pieces(void **state)
{
    (void)state;
    unsigned char b[97];
    for (int i = 0; i < 97; i++)
        b[i] = (unsigned char)(i * 7);
    uint64_t whole = cm_checksum(b, sizeof b);
    for (size_t cut = 0; cut <= sizeof b; cut++) {
        cm_checksum_state s;
        cm_checksum_begin(&s);
        cm_checksum_add(&s, b, cut);
        cm_checksum_add(&s, b + cut, sizeof b - cut);
        assert_true(cm_checksum_end(&s) == whole);
    }
    for (int i = 0; i < 97 * 8; i++) {
        b[i / 8] ^= (unsigned char)(1 << i % 8);
        assert_true(cm_checksum(b, sizeof b) != whole);
        b[i / 8] ^= (unsigned char)(1 << i % 8);
    }
    assert_true(cm_checksum(b, 96) != cm_checksum(b, 95));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(plans_come_back_as_written),
        TEST(the_same_network_gives_the_same_bytes),
        TEST(equal_constants_are_stored_once_and_aligned),
        TEST(damage_is_told_in_a_sentence),
        TEST(unknown_sections_must_be_optional),
        TEST(hostile_plans_are_refused_or_run),
        TEST(large_plans_open_at_once),
        TEST(checksums_see_every_bit_and_any_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
