/* gqa.c -- tactics of GroupQueryAttention against the reference. CPUs have none.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

/* `lengths`: seqlens_k of two sequences. Float32 against double; results of 16 bits are rounded once, keys too. */
static void check(const char *type, const char *cache, int len, int past, int total,
                  const char *lengths, int heads, int kv_heads, int size, const char *more,
                  const char *attrs)
{
    char text[1600], old[200] = "", apart[200] = "";
    bool packed = strstr(more, "packed");
    bool rotary = strstr(attrs, "do_rotary"), norm = strstr(more, "norm");
    if (past)
        snprintf(old, sizeof old, "pk: %s[2,%d,%d,%d]\npv: %s[2,%d,%d,%d]\n", cache, kv_heads, past,
                 size, cache, kv_heads, past, size);
    if (!packed)
        snprintf(apart, sizeof apart, "k: %s[2,%d,%d]\nv: %s[2,%d,%d]\n", type, len,
                 kv_heads * size, type, len, kv_heads * size);
    snprintf(text, sizeof text,
             "q: %s[2,%d,%d]\n%s%s@n = i32[2] {%s}\n@t = i32[] {%d}\n"
             "@c = %s[40,%d] random 3\n@s = %s[40,%d] random 4\nw: %s[%d]\nz: %s[%d]\n"
             "y, a, b = com.microsoft.GroupQueryAttention(q, %s, %s, @n, @t, %s, _, _, %s, _, _, "
             "%s) {num_heads=%d, kv_num_heads=%d%s}\nreturn y, a, b\n",
             type, len, (heads + (packed ? 2 * kv_heads : 0)) * size, apart, old, lengths, total,
             type, size / 2, type, size / 2, type, size, type, heads, packed ? "_, _" : "k, v",
             past ? "pk, pv" : "_, _", rotary ? "@c, @s" : "_, _", strstr(more, "sink") ? "z" : "_",
             norm ? "w, w" : "_, _", heads, kv_heads, attrs);
    op_case c = op_case_of(text);
    c.tolerance = !strcmp(type, "f32") && !strcmp(cache, "f32")   ? 1e-5
                  : strcmp(type, "bf16") && strcmp(cache, "bf16") ? 2e-3
                                                                  : 1.6e-2;
    op_check(&c);
    assert_true(c.is_problem);
}

static void every_form(void **state)
{
    (void)state;
    check("f32", "f32", 3, 0, 3, "2, 1", 4, 2, 16, "", "");
    check("f32", "f32", 5, 0, 5, "4, 4", 2, 1, 8, "", ", do_rotary=1");
    check("f32", "f32", 1, 9, 10, "9, 6", 4, 2, 16, "", ", do_rotary=1");
    check("f32", "f32", 1, 12, 10, "9, 6", 4, 4, 24, "", ", do_rotary=1, rotary_interleaved=1");
    check("f32", "f32", 2, 12, 9, "8, 3", 6, 2, 40, "packed", ", do_rotary=1, local_window_size=4");
    check("f32", "f32", 1, 200, 190, "189, 150", 2, 1, 32, "", ", softcap=2.0");
    check("f32", "f32", 3, 6, 9, "8, 7", 2, 2, 8, "sink", ", scale=0.25");
    check("f32", "f32", 3, 6, 9, "8, 7", 2, 2, 8, "", ", smooth_softmax=1");
    check("f32", "f32", 4, 6, 10, "9, 8", 4, 2, 130, "norm", ", do_rotary=1");
    check("f32", "f32", 3, 6, 9, "8, 6", 2, 2, 8, "", ", causal=0");
    check("f16", "f16", 1, 30, 20, "19, 11", 4, 2, 64, "packed", ", do_rotary=1");
    check("f16", "f16", 6, 0, 6, "5, 5", 4, 2, 64, "", ", do_rotary=1");
    check("bf16", "bf16", 2, 7, 9, "8, 5", 2, 1, 32, "norm", "");
    check("f16", "f32", 2, 7, 9, "8, 5", 2, 1, 32, "", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_form)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
