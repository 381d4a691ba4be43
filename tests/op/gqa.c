/* gqa.c -- tactics of GroupQueryAttention against the reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

/* Two sequences. `more`: packed, norm, sink, bias, positions, half (of each head is rotated). */
typedef struct {
    const char *type, *cache;
    int len, past, total;
    const char *lengths; /* seqlens_k */
    int heads, kv_heads, size;
    const char *more, *attrs;
    int hurt; /* as in op_case */
    double high;
} form;

static bool with(const form *f, const char *word)
{
    return strstr(f->more, word) != NULL;
}

static void print_inputs(const form *f, char *to, size_t room)
{
    int kv = f->kv_heads * f->size, angles = f->size / (with(f, "half") ? 4 : 2);
    bool packed = with(f, "packed");
    char old[200] = "", apart[200] = "";
    if (f->past)
        snprintf(old, sizeof old, "pk: %s[2,%d,%d,%d]\npv: %s[2,%d,%d,%d]\n", f->cache, f->kv_heads,
                 f->past, f->size, f->cache, f->kv_heads, f->past, f->size);
    if (!packed)
        snprintf(apart, sizeof apart, "k: %s[2,%d,%d]\nv: %s[2,%d,%d]\n", f->type, f->len, kv,
                 f->type, f->len, kv);
    snprintf(to, room,
             "q: %s[2,%d,%d]\n%s%s@n = i32[2] {%s}\n@t = i32[] {%d}\np: i64[2,%d]\n"
             "@c = %s[600,%d] random 3\n@s = %s[600,%d] random 4\nw: %s[%d]\nz: %s[%d]\n"
             "m: %s[1,%d,%d,%d]\n",
             f->type, f->len, f->heads * f->size + (packed ? 2 * kv : 0), apart, old, f->lengths,
             f->total, f->len, f->type, angles, f->type, angles, f->type, f->size, f->type,
             f->heads, f->type, f->heads, f->len, f->total);
}

/* Float32 against double; results of 16 bits are rounded once, keys too. */
static void check_form(const form *f)
{
    char text[2000];
    print_inputs(f, text, sizeof text);
    size_t at = strlen(text);
    snprintf(text + at, sizeof text - at,
             "y, a, b = com.microsoft.GroupQueryAttention(q, %s, %s, @n, @t, %s, %s, %s, %s, _, _, "
             "%s) {num_heads=%d, kv_num_heads=%d%s}\nreturn y, a, b\n",
             with(f, "packed") ? "_, _" : "k, v", f->past ? "pk, pv" : "_, _",
             strstr(f->attrs, "do_rotary") ? "@c, @s" : "_, _", with(f, "positions") ? "p" : "_",
             with(f, "bias") ? "m" : "_", with(f, "sink") ? "z" : "_",
             with(f, "norm") ? "w, w" : "_, _", f->heads, f->kv_heads, f->attrs);
    op_case c = op_case_of(text);
    bool f32 = !strcmp(f->type, "f32") && !strcmp(f->cache, "f32");
    c.tolerance = f32 ? 1e-5 : strcmp(f->type, "bf16") && strcmp(f->cache, "bf16") ? 2e-3 : 1.6e-2;
    c.int_high = 600;
    c.hurt = f->hurt;
    if (f->high > 0)
        c.low = -(c.high = f->high);
    op_check(&c);
    assert_true(c.is_problem);
    assert_true(strcmp(f->type, f->cache) || c.ran > 0);
}

static void check(const char *type, const char *cache, int len, int past, int total,
                  const char *lengths, int heads, int kv_heads, int size, const char *more,
                  const char *attrs)
{
    check_form(
        &(form){type, cache, len, past, total, lengths, heads, kv_heads, size, more, attrs, 0, 0});
}

static void check_f32(int len, int past, int total, const char *lengths, int heads, int kv_heads,
                      int size, const char *more, const char *attrs)
{
    check("f32", "f32", len, past, total, lengths, heads, kv_heads, size, more, attrs);
}

static void every_form(void **state)
{
    (void)state;
    check_f32(3, 0, 3, "2, 1", 4, 2, 16, "", "");
    check_f32(5, 0, 5, "4, 4", 2, 1, 8, "", ", do_rotary=1");
    check_f32(1, 9, 10, "9, 6", 4, 2, 16, "", ", do_rotary=1");
    check_f32(1, 12, 10, "9, 6", 4, 4, 24, "", ", do_rotary=1, rotary_interleaved=1");
    check_f32(2, 12, 9, "8, 3", 6, 2, 40, "packed", ", do_rotary=1, local_window_size=4");
    check_f32(1, 200, 190, "189, 150", 2, 1, 32, "", ", softcap=2.0");
    check_f32(3, 6, 9, "8, 7", 2, 2, 8, "sink", ", scale=0.25");
    check_f32(3, 6, 9, "8, 7", 2, 2, 8, "", ", smooth_softmax=1");
    check_f32(4, 6, 10, "9, 8", 4, 2, 130, "norm", ", do_rotary=1");
    check_f32(3, 6, 9, "8, 6", 2, 2, 8, "", ", causal=0");
    check("f16", "f16", 1, 30, 20, "19, 11", 4, 2, 64, "packed", ", do_rotary=1");
    check("f16", "f16", 6, 0, 6, "5, 5", 4, 2, 64, "", ", do_rotary=1");
    check("bf16", "bf16", 2, 7, 9, "8, 5", 2, 1, 32, "norm", "");
    check("f16", "f32", 2, 7, 9, "8, 5", 2, 1, 32, "", "");
}

/* Prompts of several blocks of queries and keys. */
static void prompts(void **state)
{
    (void)state;
    check_f32(70, 0, 70, "69, 69", 4, 1, 64, "", ", do_rotary=1");
    check_f32(70, 0, 70, "69, 30", 3, 3, 33, "packed", "");
    check_f32(300, 0, 300, "299, 299", 2, 1, 32, "packed",
              ", do_rotary=1, rotary_interleaved=1, softcap=3.0");
    check_f32(20, 40, 20, "19, 12", 8, 1, 48, "half", ", do_rotary=1");
}

/* Steps of generation: every number of heads that share keys, caches that are longer than what they hold. */
static void steps(void **state)
{
    (void)state;
    static const int sizes[] = {32, 64, 80, 96, 128, 7, 40, 24};
    char lengths[32];
    for (int n = 1; n <= 8; n++) {
        snprintf(lengths, sizeof lengths, "%d, %d", 60 + n, 7 * n);
        check_f32(1, 60 + n, 61 + n, lengths, 2 * n, 2, sizes[n - 1], "",
                  sizes[n - 1] % 2 ? "" : ", do_rotary=1");
    }
    check_f32(1, 300, 300, "299, 299", 4, 1, 64, "packed half", ", do_rotary=1");
    check_f32(1, 520, 500, "499, 3", 12, 1, 64, "norm", ", do_rotary=1, rotary_interleaved=1");
    check_f32(1, 4, 5, "4, 0", 2, 1, 16, "positions", ", do_rotary=1");
}

/* Some tokens behind a past: guesses that are checked, prompts in parts. */
static void chunks(void **state)
{
    (void)state;
    check_f32(2, 30, 32, "31, 20", 2, 1, 64, "packed", ", do_rotary=1");
    check_f32(16, 300, 316, "315, 260", 4, 2, 64, "", ", do_rotary=1");
    check_f32(80, 50, 130, "129, 129", 2, 1, 32, "positions", ", do_rotary=1");
    check_f32(5, 300, 290, "280, 4", 8, 2, 20, "bias", "");
}

static void windows(void **state)
{
    (void)state;
    check_f32(1, 400, 401, "400, 10", 4, 1, 64, "", ", local_window_size=100");
    check_f32(1, 400, 401, "400, 90", 8, 1, 32, "sink", ", local_window_size=16");
    check_f32(90, 0, 90, "89, 89", 2, 1, 32, "packed", ", local_window_size=7");
    check_f32(100, 300, 400, "399, 350", 2, 1, 40, "bias", ", local_window_size=33, softcap=4.0");
    check_f32(4, 300, 304, "303, 120", 1, 1, 16, "", ", local_window_size=64, causal=0");
    check_f32(40, 0, 40, "39, 12", 1, 1, 16, "", ", local_window_size=5, causal=0");
}

static void sinks(void **state)
{
    (void)state;
    check_f32(40, 0, 40, "39, 39", 4, 2, 32, "sink", "");
    check_f32(1, 300, 300, "299, 100", 4, 1, 32, "sink bias", "");
    check_f32(30, 20, 50, "49, 40", 2, 2, 32, "", ", smooth_softmax=1");
    /* Sinks far above all scores. */
    check_form(
        &(form){"f32", "f32", 1, 20, 21, "20, 9", 4, 2, 8, "sink", ", scale=0.0001", 0, 300});
    check_form(&(form){"f32", "f32", 9, 0, 9, "8, 8", 4, 2, 8, "sink", ", scale=0.0001", 0, 300});
}

static void halves(void **state)
{
    (void)state;
    check("f16", "f16", 70, 0, 70, "69, 60", 4, 2, 64, "packed half", ", do_rotary=1");
    check("f16", "f16", 20, 30, 50, "49, 33", 4, 1, 24, "norm sink",
          ", do_rotary=1, rotary_interleaved=1");
    check("f16", "f16", 1, 300, 290, "289, 100", 8, 1, 32, "bias sink", ", local_window_size=50");
    check("bf16", "bf16", 1, 90, 91, "90, 70", 3, 1, 40, "packed", ", do_rotary=1");
    check("bf16", "bf16", 30, 0, 30, "29, 11", 2, 2, 16, "", ", causal=0, softcap=2.0");
}

static void hurting_values(void **state)
{
    (void)state;
    check_form(&(form){"f32", "f32", 30, 10, 40, "39, 30", 4, 2, 16, "sink", "", 400, 0});
    check_form(
        &(form){"f32", "f32", 1, 40, 41, "40, 30", 4, 2, 16, "", ", local_window_size=20", 300, 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form), cmocka_unit_test(prompts),        cmocka_unit_test(steps),
        cmocka_unit_test(chunks),     cmocka_unit_test(windows),        cmocka_unit_test(sinks),
        cmocka_unit_test(halves),     cmocka_unit_test(hurting_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
