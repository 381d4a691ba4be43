/* dim.c -- dims: one form for equal expressions, and the same values as plain arithmetic.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/size.h"
#include "plan/dim.h"

static cm_ctx cx;
static cm_arena arena;
static cm_dim_table *t;

static int open_table(void **state)
{
    (void)state;
    cm_arena_init(&arena, NULL);
    return cm_dim_table_create(&cx, &arena, &t);
}

static int close_table(void **state)
{
    (void)state;
    cm_arena_deinit(&arena);
    return 0;
}

static cm_dim parse(const char *text)
{
    cm_dim d = CM_DIM_ERROR;
    cm_status st = cm_dim_parse(&cx, t, text, strlen(text), &d);
    if (st != CM_OK)
        fail_msg("%s", cx.message);
    return d;
}

static void expect_text(cm_dim d, const char *want)
{
    cm_buf b;
    cm_buf_init(&b, NULL);
    cm_dim_print(t, d, &b);
    assert_string_equal(cm_buf_text(&b), want);
    cm_buf_deinit(&b);
}

static void equal_expressions_have_one_form(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"1 + batch*2", "2*batch + 1"},
        {"h - h", "0"},
        {"seq*heads*batch", "batch*heads*seq"},
        {"(h + 1)*(h - 1)", "h*h - 1"},
        {"2 - h", "2 - h"},
        {"-h - w", "-h - w"},
        /* quotients: exact, by a common factor, in part */
        {"floor(6*b*s/(3*s))", "2*b"},
        {"(b*s + b)//(s + 1)", "b"},
        {"(a*a - b*b)//(a + b)", "a - b"},
        {"2*h//(4*w)", "floor(h/(2*w))"},
        {"(h*w + 3)//w", "h + floor(3/w)"},
        {"floor((4*h + 6)/2)", "2*h + 3"},
        {"5*h//4", "h + floor(h/4)"},
        {"(2*h + 1)//4", "floor(h/2)"},
        {"h//1", "h"},
        {"h//(-2)", "-floor((h + 1)/2)"},
        {"h//2//3", "floor(h/6)"},
        {"((h - 1)//2 - 1)//2", "floor((h + 1)/4) - 1"},
        {"h//w//w", "floor(floor(h/w)/w)"},
        /* convolutions: kernel 3, stride 2, padding 1; kernel 2, stride 2 */
        {"floor((h + 2*1 - 1*(3 - 1) - 1)/2) + 1", "floor((h + 1)/2)"},
        {"floor((h - 1*(2 - 1) - 1)/2) + 1", "floor(h/2)"},
        /* ceil and mod have floor's form over numbers */
        {"ceil(h/2)", "floor((h + 1)/2)"},
        {"-(-h//2)", "floor((h + 1)/2)"},
        {"ceil(h/w)", "ceil(h/w)"},
        {"-floor(-h/w)", "ceil(h/w)"},
        {"ceil(2*h*w/w)", "2*h"},
        {"h % 4", "h - 4*floor(h/4)"},
        {"mod(8*h, 4)", "0"},
        {"mod(h*w, w)", "0"},
        {"h + (32 - h % 32) % 32", "32*floor((h + 31)/32)"},
        {"h - h % 8", "8*floor(h/8)"},
        /* min and max where the sign of the difference is known */
        {"max(h, 0)", "h"},
        {"min(h, h + w)", "h"},
        {"max(h//2, h)", "h"},
        {"max(h % 4, 0)", "h - 4*floor(h/4)"},
        {"max(n - min(n, 5), 0)", "n - min(n, 5)"},
        {"min(c, b, a, b)", "min(a, b, c)"},
        {"max(min(x, 5), 3, x)", "max(x, 3)"},
        /* broadcasting */
        {"broadcast(a, 1)", "a"},
        {"broadcast(a, 3)", "3"},
        {"broadcast(0, a)", "0"},
        {"broadcast(b, a)", "broadcast(a, b)"},
        {"broadcast(broadcast(c, a), broadcast(a, b))", "broadcast(a, b, c)"},
        {"broadcast(a, b + 2)", "b + 2"},
        /* numbers */
        {"-7//2", "-4"},
        {"-7 % 3", "2"},
        {"7 % -3", "-2"},
        {"ceil((-7)/2)", "-3"},
        {"min(-3, 2)", "-3"},
        /* names that are not words */
        {"'a b' + 'it\\'s'", "'a b' + 'it\\'s'"},
    };
    for (int i = 0; i < CM_COUNT(cases); i++) {
        cm_dim d = parse(cases[i][0]);
        expect_text(d, cases[i][1]);
        assert_int_equal(parse(cases[i][1]), d);
    }
}

static void the_form_does_not_depend_on_the_order_of_making(void **state)
{
    (void)state;
    expect_text(parse("z*2 + y + x*y"), "x*y + y + 2*z");
    expect_text(parse("w + a + floor(z/2) + floor(b/2)"), "a + w + floor(b/2) + floor(z/2)");
}

static void numbers_need_no_table(void **state)
{
    (void)state;
    assert_int_equal(cm_dim_add(NULL, 2, 3), 5);
    assert_int_equal(cm_dim_sub(NULL, 5, 3), 2);
    assert_int_equal(cm_dim_mul(NULL, 2, 3), 6);
    assert_int_equal(cm_dim_floor_div(NULL, 7, 2), 3);
    assert_int_equal(cm_dim_ceil_div(NULL, 7, 2), 4);
    assert_int_equal(cm_dim_mod(NULL, 7, 2), 1);
    assert_int_equal(cm_dim_min(NULL, 7, 2), 2);
    assert_int_equal(cm_dim_max(NULL, 7, 2), 7);
    assert_int_equal(cm_dim_broadcast(NULL, 1, 2), 2);
    assert_int_equal(cm_dim_broadcast(NULL, 3, 2), CM_DIM_ERROR);
    assert_int_equal(cm_dim_sub(NULL, 3, 5), CM_DIM_ERROR);
    assert_int_equal(cm_dim_add(NULL, INT64_MAX, 1), CM_DIM_ERROR);
    assert_true(cm_dim_is_nonneg(NULL, 0) && !cm_dim_is_positive(NULL, 0));
}

static void errors_pass_through(void **state)
{
    (void)state;
    cm_dim h = cm_dim_symbol(t, "h", CM_DIM_SIZE), e = CM_DIM_ERROR;
    assert_int_equal(cm_dim_floor_div(t, h, 0), e);
    assert_int_equal(cm_dim_mod(t, h, 0), e);
    assert_int_equal(cm_dim_mul(t, INT64_MAX, 2), e);
    assert_int_equal(cm_dim_mul(t, cm_dim_mul(t, INT64_MAX, h), 2), e);
    assert_int_equal(cm_dim_const(t, INT64_MIN), e);
    cm_dim (*const all[])(cm_dim_table *, cm_dim, cm_dim) = {
        cm_dim_add, cm_dim_sub, cm_dim_mul, cm_dim_floor_div, cm_dim_ceil_div,
        cm_dim_mod, cm_dim_min, cm_dim_max, cm_dim_broadcast};
    for (int i = 0; i < CM_COUNT(all); i++) {
        assert_int_equal(all[i](t, e, h), e);
        assert_int_equal(all[i](t, h, e), e);
        assert_int_equal(all[i](t, 2, e), e);
    }
    assert_false(cm_dim_valid(t, e) || cm_dim_valid(t, -1000000));
    assert_true(cm_dim_valid(t, h) && cm_dim_valid(t, 5) && cm_dim_valid(NULL, 5));
    assert_false(cm_dim_never_equal(t, e, h));
    expect_text(e, "?");
}

static void what_is_assumed_decides_minima_and_maxima(void **state)
{
    (void)state;
    cm_dim h = cm_dim_symbol(t, "h", CM_DIM_SIZE), e = cm_dim_sub(t, h, 2), a, b;
    cm_dim before = cm_dim_max(t, e, 0);
    assert_int_not_equal(before, e);
    assert_false(cm_dim_assume(t, 3, 0, 2));
    assert_false(cm_dim_assume(t, CM_DIM_ERROR, 0, 2));
    assert_true(cm_dim_assume(t, e, 0, INT64_MAX));
    assert_false(cm_dim_assume(t, e, 0, INT64_MAX));  /* nothing new */
    assert_false(cm_dim_assume(t, e, INT64_MIN, -1)); /* nor what cannot be */
    assert_int_equal(cm_dim_max(t, e, 0), e);
    assert_true(cm_dim_is_nonneg(t, e));
    cm_dim least = cm_dim_min(t, e, 9);
    assert_true(cm_dim_is_min(t, least, &a, &b));
    assert_true((a == e && b == 9) || (a == 9 && b == e));
    assert_false(cm_dim_is_min(t, e, &a, &b) || cm_dim_is_min(t, 3, &a, &b));
    assert_true(cm_dim_most(t, e) == INT64_MAX && cm_dim_most(t, 7) == 7);
    assert_true(cm_dim_assume(t, e, INT64_MIN, 9));
    assert_true(cm_dim_most(t, e) == 9);
    assert_int_equal(cm_dim_min(t, e, 9), e);
}

static void symbols_have_names_signs_and_numbers(void **state)
{
    (void)state;
    cm_dim h = cm_dim_symbol(t, "h", CM_DIM_SIZE), any = cm_dim_symbol(t, "any", CM_DIM_ANY);
    assert_int_equal(cm_dim_symbol(t, "h", CM_DIM_SIZE), h);
    assert_int_equal(cm_dim_symbol_count(t), 2);
    assert_int_equal(cm_dim_symbol_index(t, any), 1);
    assert_int_equal(cm_dim_symbol_index(t, cm_dim_add(t, h, 1)), -1);
    assert_int_equal(cm_dim_symbol_index(t, 3), -1);
    assert_int_equal(cm_dim_find_symbol(t, "any"), 1);
    assert_int_equal(cm_dim_find_symbol(t, "none"), -1);
    assert_string_equal(cm_dim_symbol_name(t, 1), "any");
    assert_int_equal(cm_dim_symbol_sign(t, 1), CM_DIM_ANY);
    cm_dim f = cm_dim_fresh(t, "h", CM_DIM_SIZE), g = cm_dim_fresh(t, "h", CM_DIM_SIZE);
    assert_int_not_equal(f, g);
    expect_text(f, "h_0");
    cm_dim_symbol(t, "h_2", CM_DIM_SIZE); /* taken: the next number */
    expect_text(cm_dim_fresh(t, "h", CM_DIM_SIZE), "h_3");

    int64_t v;
    assert_true(cm_dim_is_const(t, cm_dim_const(t, -4), &v) && v == -4);
    assert_true(cm_dim_is_const(t, 4, &v) && v == 4);
    assert_false(cm_dim_is_const(t, h, &v));
    assert_true(cm_dim_is_nonneg(t, h) && !cm_dim_is_positive(t, h));
    assert_false(cm_dim_is_nonneg(t, any) || cm_dim_is_nonneg(t, cm_dim_sub(t, h, 1)));
    assert_true(cm_dim_is_positive(t, parse("h*h + 1")));
    assert_true(cm_dim_never_equal(t, h, cm_dim_add(t, h, 1)));
    assert_false(cm_dim_never_equal(t, h, any));
}

/* A random expression made twice: in the table, and with plain integers. */
enum { SYMBOLS = 4, SETS = 4 };
static const char *const names[SYMBOLS] = {"n", "c", "h", "any"};

typedef struct {
    cm_dim dim;
    int64_t value[SETS];
    bool defined[SETS];
} both;

static uint64_t seed;

static uint64_t random_below(uint64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}

static int64_t sample(int symbol)
{
    int64_t v = (int64_t)random_below(random_below(2) ? 4 : 100);
    return symbol == 3 ? v - 50 : v;
}

static both apply(int op, both a, both b)
{
    cm_dim (*const fn[])(cm_dim_table *, cm_dim, cm_dim) = {
        cm_dim_add, cm_dim_sub, cm_dim_mul, cm_dim_floor_div, cm_dim_ceil_div,
        cm_dim_mod, cm_dim_min, cm_dim_max, cm_dim_broadcast};
    both r = {.dim = fn[op](t, a.dim, b.dim)};
    for (int i = 0; i < SETS; i++) {
        int64_t x = a.value[i], y = b.value[i], q = 0, v = 0;
        bool ok = a.defined[i] && b.defined[i];
        if (ok && op >= 3 && op <= 5) {
            ok = y != 0;
            q = ok ? x / y - (x % y != 0 && (x < 0) != (y < 0)) : 0;
        }
        switch (op) {
        case 0:
            v = x + y;
            break;
        case 1:
            v = x - y;
            break;
        case 2:
            v = x * y;
            break;
        case 3:
            v = q;
            break;
        case 4:
            v = ok ? q + (x % y != 0) : 0;
            break;
        case 5:
            v = x - q * y;
            break;
        case 6:
            v = cm_min_i64(x, y);
            break;
        case 7:
            v = cm_max_i64(x, y);
            break;
        default:
            v = x == 1 ? y : x;
            ok = ok && (x == y || x == 1 || y == 1);
        }
        r.value[i] = v;
        r.defined[i] = ok && v > -1000000000 && v < 1000000000;
    }
    return r;
}

static both random_expression(int depth, int64_t values[SETS][SYMBOLS])
{
    if (depth == 0 || random_below(5) == 0) {
        both r = {0};
        int s = (int)random_below(SYMBOLS + 2);
        int64_t c = (int64_t)random_below(10) - 3;
        r.dim = s < SYMBOLS ? cm_dim_symbol(t, names[s], s == 3 ? CM_DIM_ANY : CM_DIM_SIZE)
                            : cm_dim_const(t, c);
        for (int i = 0; i < SETS; i++) {
            r.value[i] = s < SYMBOLS ? values[i][s] : c;
            r.defined[i] = true;
        }
        return r;
    }
    static const int ops[] = {0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8};
    both a = random_expression(depth - 1, values), b = random_expression(depth - 1, values);
    return apply(ops[random_below(sizeof ops / sizeof *ops)], a, b);
}

static void check_values(both e, int64_t values[SETS][SYMBOLS], int round)
{
    for (int i = 0; i < SETS; i++) {
        int64_t v;
        if (!e.defined[i])
            continue;
        bool ok = cm_dim_eval(t, e.dim, values[i], &v);
        if (!ok || v != e.value[i]) {
            cm_buf b;
            cm_buf_init(&b, NULL);
            cm_dim_print(t, e.dim, &b);
            fail_msg("round %d: %s is %lld with %lld %lld %lld %lld, wanted %lld", round,
                     cm_buf_text(&b), ok ? (long long)v : -999, (long long)values[i][0],
                     (long long)values[i][1], (long long)values[i][2], (long long)values[i][3],
                     (long long)e.value[i]);
        }
        if (cm_dim_is_nonneg(t, e.dim))
            assert_true(v >= 0);
        if (cm_dim_is_positive(t, e.dim))
            assert_true(v >= 1);
    }
}

static void check_text(cm_dim d)
{
    cm_buf b;
    cm_dim again;
    cm_buf_init(&b, NULL);
    cm_dim_print(t, d, &b);
    assert_false(b.failed);
    assert_int_equal(cm_dim_parse(&cx, t, (const char *)b.data, b.n, &again), CM_OK);
    if (again != d)
        fail_msg("'%s' came back as another", cm_buf_text(&b));
    cm_buf_deinit(&b);
}

static void expressions_have_the_values_of_plain_arithmetic(void **state)
{
    (void)state;
    seed = 1;
    for (int s = 0; s < SYMBOLS; s++)
        cm_dim_symbol(t, names[s], s == 3 ? CM_DIM_ANY : CM_DIM_SIZE);
    int made = 0;
    for (int round = 0; round < 20000; round++) {
        int64_t values[SETS][SYMBOLS];
        for (int i = 0; i < SETS; i++) {
            for (int s = 0; s < SYMBOLS; s++)
                values[i][s] = sample(s);
        }
        both e = random_expression(1 + round % 4, values);
        if (e.dim == CM_DIM_ERROR) /* a division by the number 0, or the like */
            continue;
        made++;
        check_values(e, values, round);
        check_text(e.dim);
    }
    assert_true(made > 15000);
}

static void substitution_is_evaluation_in_steps(void **state)
{
    (void)state;
    seed = 2;
    for (int s = 0; s < SYMBOLS; s++)
        cm_dim_symbol(t, names[s], s == 3 ? CM_DIM_ANY : CM_DIM_SIZE);
    for (int round = 0; round < 2000; round++) {
        int64_t values[SETS][SYMBOLS];
        for (int s = 0; s < SYMBOLS; s++)
            values[0][s] = values[1][s] = values[2][s] = values[3][s] = sample(s);
        both e = random_expression(3, values);
        int64_t v;
        if (e.dim == CM_DIM_ERROR || !cm_dim_eval(t, e.dim, values[0], &v))
            continue;
        cm_dim to[SYMBOLS];
        for (int s = 0; s < SYMBOLS; s++)
            to[s] = random_below(3) ? cm_dim_const(t, values[0][s]) : CM_DIM_UNBOUND;
        cm_dim d = cm_dim_substitute(t, e.dim, to, SYMBOLS);
        int64_t w;
        assert_int_not_equal(d, CM_DIM_ERROR);
        assert_true(cm_dim_eval(t, d, values[0], &w));
        assert_int_equal(v, w);
    }
    cm_dim h = parse("h"), to[SYMBOLS] = {CM_DIM_UNBOUND, CM_DIM_UNBOUND, parse("2*w")};
    expect_text(cm_dim_substitute(t, parse("floor((h + 1)/2) + n"), to, 3), "n + w");
    assert_int_equal(cm_dim_substitute(t, h, to, 0), h);
}

static void evaluation_says_when_there_is_no_value(void **state)
{
    (void)state;
    cm_dim q = parse("floor(a/b)"), p = parse("a*b"), s = parse("broadcast(a, b)");
    int64_t v, unbound[] = {3, CM_DIM_UNBOUND}, zero[] = {3, 0}, huge[] = {INT64_MAX, 3};
    assert_false(cm_dim_eval(t, q, unbound, &v));
    assert_false(cm_dim_eval(t, q, zero, &v));
    assert_false(cm_dim_eval(t, p, huge, &v));
    assert_false(cm_dim_eval(t, s, huge, &v));
    assert_false(cm_dim_eval(t, CM_DIM_ERROR, huge, &v));
    assert_true(cm_dim_eval(t, q, huge, &v) && v == INT64_MAX / 3);
}

static void growth_is_bounded(void **state)
{
    (void)state;
    /* products of sums: (a0 + b0)(a1 + b1)... has 2^n terms */
    cm_dim product = 1;
    for (int i = 0; i < 40 && product != CM_DIM_ERROR; i++) {
        cm_dim sum =
            cm_dim_add(t, cm_dim_fresh(t, "a", CM_DIM_SIZE), cm_dim_fresh(t, "b", CM_DIM_SIZE));
        product = cm_dim_mul(t, product, sum);
    }
    assert_int_equal(product, CM_DIM_ERROR);
    /* squaring, nesting, and doubling the size of a function's operands */
    cm_dim x = parse("x + 1"), deep = parse("x"), wide = parse("x");
    for (int i = 0; i < 100 && x != CM_DIM_ERROR; i++)
        x = cm_dim_mul(t, x, x);
    for (int i = 0; i < 1000 && deep != CM_DIM_ERROR; i++)
        deep = cm_dim_floor_div(t, cm_dim_add(t, deep, i), parse("y"));
    for (int i = 0; i < 100 && wide != CM_DIM_ERROR; i++)
        wide = cm_dim_floor_div(t, cm_dim_add(t, wide, parse("y")), cm_dim_add(t, wide, 1));
    assert_int_equal(x, CM_DIM_ERROR);
    assert_int_equal(deep, CM_DIM_ERROR);
    assert_int_equal(wide, CM_DIM_ERROR);
    assert_true(arena.total < 16u << 20);
    /* long names count for their length */
    static char name[200001];
    memset(name, 'n', sizeof name - 1);
    cm_dim n = cm_dim_symbol(t, name, CM_DIM_SIZE);
    assert_int_equal(cm_dim_mul(t, n, n), CM_DIM_ERROR);
}

static void bad_text_gets_a_sentence(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",         "+",         "1 +",    "a b",          "(a", "a)",
        "floor(a)", "floor(a/)", "min(a,", "'a",           "2a", "99999999999999999999",
        "a//0",     "a % 0",     "a/2",    "floor(a/b/c)", "\\"};
    cm_dim d;
    for (int i = 0; i < CM_COUNT(bad); i++) {
        cx.message[0] = 0;
        assert_int_equal(cm_dim_parse(&cx, t, bad[i], strlen(bad[i]), &d), CM_ERR_ARGUMENT);
        assert_non_null(strstr(cx.message, "dim '"));
    }
    static char nested[20000];
    memset(nested, '(', sizeof nested);
    assert_int_equal(cm_dim_parse(&cx, t, nested, sizeof nested, &d), CM_ERR_ARGUMENT);
    memset(nested, '-', sizeof nested);
    assert_int_equal(cm_dim_parse(&cx, t, nested, sizeof nested, &d), CM_ERR_ARGUMENT);
}

/* A table with something of everything. */
static int fill_table(cm_dim *dims, int max)
{
    static const char *const texts[] = {"n",
                                        "any",
                                        "2*n + 1",
                                        "floor((h - 1)/2)",
                                        "ceil(h/w)",
                                        "min(n, h, w)",
                                        "max(h - 1, 0)",
                                        "broadcast(n, h)*w",
                                        "-5",
                                        "-n",
                                        "floor(min(n, 3*h)/(w + 1))",
                                        "'odd name'*n*n"};
    int n = 0;
    cm_dim_symbol(t, "any", CM_DIM_ANY);
    for (; n < CM_COUNT(texts) && n < max; n++)
        dims[n] = parse(texts[n]);
    return n;
}

static void a_table_keeps_its_handles_as_bytes(void **state)
{
    (void)state;
    cm_dim dims[32];
    int n = fill_table(dims, 32);
    cm_buf bytes, again;
    cm_buf_init(&bytes, NULL);
    cm_buf_init(&again, NULL);
    cm_dim_table_write(t, &bytes);
    cm_dim_table *old = t;
    assert_int_equal(cm_dim_table_read(&cx, &arena, bytes.data, bytes.n, &t), CM_OK);
    cm_dim_table_write(t, &again);
    assert_int_equal(again.n, bytes.n);
    assert_memory_equal(again.data, bytes.data, bytes.n);
    for (int i = 0; i < n; i++) {
        cm_buf a, b;
        cm_buf_init(&a, NULL);
        cm_buf_init(&b, NULL);
        cm_dim_print(old, dims[i], &a);
        cm_dim_print(t, dims[i], &b);
        assert_string_equal(cm_buf_text(&a), cm_buf_text(&b));
        assert_int_equal(parse(cm_buf_text(&a)), dims[i]);
        cm_buf_deinit(&a);
        cm_buf_deinit(&b);
    }
    assert_int_equal(cm_dim_symbol_sign(t, cm_dim_find_symbol(t, "any")), CM_DIM_ANY);
    cm_buf_deinit(&bytes);
    cm_buf_deinit(&again);
}

static void use_all(const cm_dim_table *table)
{
    int64_t values[64], v;
    cm_buf b;
    cm_buf_init(&b, NULL);
    for (int i = 0; i < 64; i++)
        values[i] = i;
    for (cm_dim d = -1; cm_dim_valid(table, d); d--) {
        cm_dim_print(table, d, &b);
        if (cm_dim_symbol_count(table) <= 64)
            cm_dim_eval(table, d, values, &v);
    }
    cm_buf_deinit(&b);
}

static void damaged_bytes_are_refused_or_safe(void **state)
{
    (void)state;
    cm_dim dims[32];
    cm_buf bytes;
    fill_table(dims, 32);
    cm_buf_init(&bytes, NULL);
    cm_dim_table_write(t, &bytes);
    for (size_t n = 0; n < bytes.n; n++) { /* cut short at every place */
        cm_arena a;
        cm_dim_table *read;
        cm_arena_init(&a, NULL);
        assert_int_equal(cm_dim_table_read(&cx, &a, bytes.data, n, &read), CM_ERR_PLAN);
        cm_arena_deinit(&a);
    }
    seed = 3;
    for (int round = 0; round < 20000; round++) { /* one byte changed */
        cm_arena a;
        cm_dim_table *read;
        unsigned char *p = bytes.data + random_below(bytes.n), was = *p;
        cm_arena_init(&a, NULL);
        *p = (unsigned char)(random_below(2) ? random_below(256) : was ^ 1);
        if (cm_dim_table_read(&cx, &a, bytes.data, bytes.n, &read) == CM_OK)
            use_all(read);
        *p = was;
        cm_arena_deinit(&a);
    }
    cm_buf_deinit(&bytes);
}

static void memory_failure_at_every_allocation(void **state)
{
    (void)state;
    bool done = false;
    for (size_t fail = 1; !done; fail++) {
        cm_arena a;
        cm_dim_table *table = NULL;
        cm_arena_init(&a, NULL);
        a.fail_after = fail;
        cm_dim d = CM_DIM_ERROR;
        cm_status st = cm_dim_table_create(&cx, &a, &table);
        if (st == CM_OK) {
            const char *text = "floor((h*w + min(n, 3))/(2*c)) + broadcast(a, b)*max(h - 1, 0)";
            st = cm_dim_parse(&cx, table, text, strlen(text), &d);
        }
        done = a.fail_after != 0;
        a.fail_after = 0;
        assert_true(done ? st == CM_OK : st != CM_OK);
        if (table) { /* what is left still works */
            cm_dim h = cm_dim_symbol(table, "h", CM_DIM_SIZE);
            assert_int_equal(cm_dim_sub(table, cm_dim_mul(table, h, h), cm_dim_mul(table, h, h)),
                             0);
        }
        cm_arena_deinit(&a);
    }
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_table, close_table)
    const struct CMUnitTest tests[] = {
        CASE(equal_expressions_have_one_form),
        CASE(the_form_does_not_depend_on_the_order_of_making),
        CASE(numbers_need_no_table),
        CASE(errors_pass_through),
        CASE(what_is_assumed_decides_minima_and_maxima),
        CASE(symbols_have_names_signs_and_numbers),
        CASE(expressions_have_the_values_of_plain_arithmetic),
        CASE(substitution_is_evaluation_in_steps),
        CASE(evaluation_says_when_there_is_no_value),
        CASE(growth_is_bounded),
        CASE(bad_text_gets_a_sentence),
        CASE(a_table_keeps_its_handles_as_bytes),
        CASE(damaged_bytes_are_refused_or_safe),
        CASE(memory_failure_at_every_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
