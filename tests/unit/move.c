/* move.c -- type rules against evaluators: a symbolic result, with numbers put in for its symbols,
 * is what running gives.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static uint64_t seed;

static int64_t draw(int64_t low, int64_t high)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((seed >> 33) % (uint64_t)(high - low + 1));
}

/* An input twice: with numbers, and with symbols for some of them. */
typedef struct {
    cm_buf numbers, symbols;
    int rank;
    int64_t dims[4];
} operand;

static int64_t symbol_values[8]; /* of a, b, ... h */

/* `v`, or an expression of a symbol that has that value. */
static void write_number(operand *x, int64_t v)
{
    int s = (int)draw(0, 7);
    int64_t by = v - symbol_values[s];
    cm_buf_printf(&x->numbers, "%lld", (long long)v);
    if (draw(0, 2) != 0 || v <= 0)
        cm_buf_printf(&x->symbols, "%lld", (long long)v);
    else
        cm_buf_printf(&x->symbols, by ? "%c+%lld" : "%c", 'a' + s, (long long)by);
}

static void begin(operand *x, const char *dtype)
{
    cm_buf_init(&x->numbers, NULL);
    cm_buf_init(&x->symbols, NULL);
    cm_buf_str(&x->numbers, dtype);
    cm_buf_str(&x->symbols, dtype);
}

static void both(operand *x, const char *text)
{
    cm_buf_str(&x->numbers, text);
    cm_buf_str(&x->symbols, text);
}

/* Data of rank `low` to `high`. A vector of integers has known elements; others are counted up. */
static void make_data(operand *x, const char *dtype, int low, int high)
{
    begin(x, dtype);
    int64_t n = 1;
    x->rank = (int)draw(low, high);
    bool is_tracked = strcmp(dtype, "i64") == 0 && x->rank == 1;
    both(x, "[");
    for (int i = 0; i < x->rank; i++) {
        both(x, i ? "," : "");
        n *= x->dims[i] = draw(is_tracked ? 1 : 0, 5);
        if (is_tracked) {
            cm_buf_printf(&x->numbers, "%lld", (long long)n);
            cm_buf_printf(&x->symbols, "%lld", (long long)n);
        } else {
            write_number(x, x->dims[i]);
        }
    }
    both(x, "]");
    cm_buf_str(&x->numbers, "{");
    cm_buf_str(&x->symbols, is_tracked ? "{" : "");
    for (int64_t i = 0; i < n; i++) {
        cm_buf_str(&x->numbers, i ? "," : "");
        if (is_tracked) {
            cm_buf_str(&x->symbols, i ? "," : "");
            write_number(x, draw(1, 9));
        } else {
            cm_buf_printf(&x->numbers, "%lld", (long long)i);
        }
    }
    cm_buf_str(&x->numbers, "}");
    cm_buf_str(&x->symbols, is_tracked ? "}" : "");
}

static void make_vector(operand *x, int n, int64_t low, int64_t high)
{
    begin(x, "i64");
    cm_buf_printf(&x->numbers, n >= 0 ? "[%d]{" : "[]{", n);
    cm_buf_printf(&x->symbols, n >= 0 ? "[%d]{" : "[]{", n);
    for (int i = 0; i < (n < 0 ? 1 : n); i++) {
        both(x, i ? "," : "");
        write_number(x, draw(low, high));
    }
    both(x, "}");
}

/* Does a dim of the symbolic result, if it can be computed, give `wanted`? */
static void check_dim(cm_dim d, int64_t wanted, const char *name, const char *where)
{
    static int64_t values[4096];
    int n = cm_dim_symbol_count(op_text_dims);
    assert_true(n <= 4096);
    for (int i = 0; i < n; i++)
        values[i] = CM_DIM_UNBOUND;
    for (int s = 0; s < 8; s++) {
        int i = cm_dim_find_symbol(op_text_dims, (char[]){(char)('a' + s), '\0'});
        if (i >= 0)
            values[i] = symbol_values[s];
    }
    int64_t v;
    if (cm_dim_eval(op_text_dims, d, values, &v) && v != wanted)
        fail_msg("%s: the rule says %lld, running %lld in %s", name, (long long)v,
                 (long long)wanted, where);
}

static void compare(const char *name, const char *attrs, operand *x, int n)
{
    const char *t[5] = {NULL}, *u[5] = {NULL};
    for (int i = 0; i < n; i++) {
        t[i] = cm_buf_text(&x[i].numbers);
        u[i] = cm_buf_text(&x[i].symbols);
    }
    const char *run = eval(name, attrs, t[0], t[1], t[2], t[3], t[4], NULL);
    if (op_text_status == CM_OK) {
        op_text_value actual, symbolic;
        const char *rule = infer(name, attrs, u[0], u[1], u[2], u[3], u[4], NULL);
        char where[512];
        snprintf(where, sizeof where, "(%s) %s %s %s %s -> %s; %s", attrs, u[0], n > 1 ? u[1] : "",
                 n > 2 ? u[2] : "", n > 3 ? u[3] : "", rule, run);
        if (op_text_status != CM_OK)
            fail_msg("%s runs, but the rule refuses: %s", name, where);
        op_text_parse(run, &actual);
        op_text_parse(rule, &symbolic);
        if (symbolic.type.rank >= 0 && symbolic.type.rank != actual.type.rank)
            fail_msg("%s: ranks differ: %s", name, where);
        for (int i = 0; i < symbolic.type.rank; i++)
            check_dim(symbolic.type.dims[i], actual.type.dims[i], name, where);
        for (int i = 0; i < symbolic.n_elems; i++)
            check_dim(
                symbolic.is_symbolic
                    ? symbolic.elems[i]
                    : cm_dim_const(op_text_dims, cm_get_i64(CM_I64, symbolic.datum.tensor.data, i)),
                cm_get_i64(CM_I64, actual.datum.tensor.data, i), name, where);
    }
    for (int i = 0; i < n; i++) {
        cm_buf_deinit(&x[i].numbers);
        cm_buf_deinit(&x[i].symbols);
    }
}

static void try_slice(operand *x, const char *dtype)
{
    make_data(&x[0], dtype, 1, 3);
    int n = (int)draw(1, x[0].rank);
    make_vector(&x[1], n, -6, 6);
    make_vector(&x[2], n, -6, 9);
    begin(&x[3], "i64");
    begin(&x[4], "i64");
    for (int k = 3; k <= 4; k++) {
        cm_buf_printf(&x[k].numbers, "[%d]{", n);
        cm_buf_printf(&x[k].symbols, "[%d]{", n);
        for (int i = 0; i < n; i++) {
            char text[32];
            int64_t step = draw(0, 2) ? 1 : draw(0, 1) ? draw(1, 3) : -draw(1, 3);
            snprintf(text, sizeof text, i ? ",%d" : "%d", k == 3 ? i : (int)step);
            both(&x[k], text);
        }
        both(&x[k], "}");
    }
    compare("Slice", "", x, 5);
}

static void try_one(operand *x, int which)
{
    char attrs[64];
    const char *dtype = draw(0, 1) ? "i64" : "f32";
    switch (which) {
    case 0:
        make_data(&x[0], dtype, 0, 3);
        make_vector(&x[1], (int)draw(0, 3), -1, 6);
        compare("Reshape", "", x, 2);
        break;
    case 1:
        try_slice(x, dtype);
        break;
    case 2:
        make_data(&x[0], dtype, 1, 3);
        make_vector(&x[1], 2 * x[0].rank, -2, 4);
        compare("Pad", "", x, 2);
        break;
    case 3:
        make_data(&x[0], dtype, 0, 3);
        make_vector(&x[1], x[0].rank, 0, 3);
        compare("Tile", "", x, 2);
        break;
    case 4:
        make_data(&x[0], dtype, 0, 2);
        make_vector(&x[1], (int)draw(0, 3), 0, 4);
        compare("Expand", "", x, 2);
        break;
    case 5:
        for (int i = 0; i < 3; i++)
            make_vector(&x[i], -1, i == 2 ? -3 : -9, i == 2 ? 3 : 9);
        compare("Range", "", x, 3);
        break;
    case 6:
        make_data(&x[0], dtype, 1, 2);
        make_vector(&x[1], draw(0, 1) ? -1 : (int)draw(0, 3), -2, 2);
        compare("Gather", "", x, 2);
        break;
    case 7:
        make_data(&x[0], dtype, 1, 2);
        make_data(&x[1], dtype, 1, 2);
        compare("Concat", "axis=0", x, 2);
        break;
    case 8:
        make_data(&x[0], dtype, 1, 2);
        op_text_n_out = (int)draw(1, 3);
        snprintf(attrs, sizeof attrs, "num_outputs=%d", op_text_n_out);
        compare("Split", attrs, x, 1);
        op_text_n_out = 1;
        break;
    case 9:
        make_data(&x[0], dtype, 2, 3);
        make_vector(&x[1], x[0].rank, 0, 7);
        compare("CenterCropPad", "", x, 2);
        break;
    case 10:
        make_data(&x[0], dtype, 0, 3);
        compare(draw(0, 1) ? "Shape" : "Size", "", x, 1);
        break;
    case 11:
        make_data(&x[0], dtype, 1, 2);
        make_vector(&x[1], 1, 0, 5);
        op_text_n_out = 2;
        compare("TopK", "axis=0", x, 2);
        op_text_n_out = 1;
        break;
    default:
        make_vector(&x[0], (int)draw(0, 3), 0, 5);
        compare("ConstantOfShape", "value=i64[1]{7}", x, 1);
    }
}

static void test_rules_against_running(void **state)
{
    (void)state;
    operand x[5];
    for (int round = 0; round < 400; round++) {
        seed = (uint64_t)round;
        op_text_reset();
        for (int s = 0; s < 8; s++)
            symbol_values[s] = draw(0, 9);
        for (int which = 0; which <= 12; which++)
            try_one(x, which);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_rules_against_running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
