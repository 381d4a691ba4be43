/* epilogue.c -- epilogues on tiles against the reference of programs, at every ISA level.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "cpu/epilogue.h"
#include "ops/program_eval.h"

static uint32_t seed = 1;

static int pick(int n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)n);
}

static double number(void)
{
    return pick(20001) / 5000.0 - 2;
}

/* A tensor in memory of its own, which ends where the tensor ends. */
typedef struct {
    cm_tensor t;
    void *block;
} owned;

static void set_strides(cm_tensor *t, bool channels_last)
{
    int64_t step = 1;
    if (channels_last && t->rank >= 3) {
        t->strides[1] = 1;
        step = t->dims[1];
    }
    for (int a = t->rank - 1; a >= 0; a--) {
        if (channels_last && t->rank >= 3 && a == 1)
            continue;
        t->strides[a] = step;
        step *= t->dims[a];
    }
}

static owned make(cm_dtype dtype, int rank, const int64_t *dims, bool channels_last)
{
    owned o;
    assert_true(cm_tensor_shape(&o.t, dtype, rank, dims));
    set_strides(&o.t, channels_last);
    size_t size = cm_dtype_size(dtype), n = (size_t)cm_tensor_elems(&o.t);
    o.block = malloc((n + 1) * size); /* one element in: aligned to nothing larger */
    o.t.data = (char *)o.block + size;
    for (size_t i = 0; i < n; i++) {
        if (dtype == CM_BOOL || cm_dtype_is_integer(dtype))
            cm_set_i64(dtype, o.t.data, (int64_t)i, pick(2));
        else
            cm_set_f64(dtype, o.t.data, (int64_t)i, pick(40) ? number() : NAN);
    }
    return o;
}

typedef struct {
    const cm_program *p;
    owned out, operand[4];
    int n_operands, n_col_axes;
    int order[8]; /* axes of the output in memory */
} world;

static int64_t element(const cm_tensor *t, const cm_tensor *out, const int64_t *index)
{
    int64_t at = 0;
    for (int a = 0; a < t->rank; a++)
        if (t->dims[a] != 1)
            at += index[out->rank - t->rank + a] * t->strides[a];
    return at;
}

static double reference(const world *w, const int64_t *index, double x)
{
    double result[CM_PROGRAM_MAX];
    for (int s = 0; w->p && s < w->p->n_steps; s++) {
        double v[3] = {0};
        for (int k = 0; k < cm_pointwise_arity(w->p->step[s].op); k++) {
            const cm_program_arg *a = &w->p->step[s].arg[k];
            const cm_tensor *t = &w->operand[a->kind == CM_ARG_OPERAND ? a->index : 0].t;
            v[k] = a->kind == CM_ARG_X        ? x
                   : a->kind == CM_ARG_NUMBER ? a->number
                   : a->kind == CM_ARG_RESULT
                       ? result[a->index]
                       : cm_get_f64(t->dtype, t->data, element(t, &w->out.t, index));
        }
        result[s] = cm_pointwise_apply(w->p->step[s].op, v[0], v[1], v[2]);
    }
    return w->p ? result[w->p->output[0]] : x;
}

/* The index of row r, column c. */
static void index_of(const world *w, int64_t r, int64_t c, int64_t *index)
{
    const cm_tensor *t = &w->out.t;
    for (int i = t->rank - 1; i >= 0; i--) {
        int a = w->order[i];
        int64_t *v = i >= t->rank - w->n_col_axes ? &c : &r;
        index[a] = *v % t->dims[a];
        *v /= t->dims[a];
    }
}

static void set_order(world *w, bool channels_last)
{
    int rank = w->out.t.rank, n = 0;
    for (int a = 0; a < rank; a++)
        if (!(channels_last && rank >= 3 && a == 1))
            w->order[n++] = a;
    if (n < rank)
        w->order[n] = 1;
}

/* One element may be off by a rounding of the output's type and those of a few float32 steps. */
static void check_element(const world *w, const char *text, int level, const int64_t *index,
                          double x)
{
    const cm_tensor *t = &w->out.t;
    double want = reference(w, index, x);
    double rounded, got = cm_get_f64(t->dtype, t->data, element(t, t, index));
    char one[8];
    cm_set_f64(t->dtype, one, 0, want);
    rounded = cm_get_f64(t->dtype, one, 0);
    double step = t->dtype == CM_F32 ? 1e-6 : t->dtype == CM_F16 ? 0x1p-10 : 0x1p-7;
    bool good = isnan(rounded) ? isnan(got) : fabs(got - rounded) <= step * (4 + fabs(rounded)) / 2;
    if (t->dtype == CM_BOOL)
        good = got == rounded;
    if (!good)
        fail_msg("'%s' at %s: %.9g, wanted %.9g (x %.9g)", text ? text : "-",
                 cm_isa_name((cm_isa)level), got, rounded, x);
}

static void run_tiles(const cm_epilogue_plan *e, const float *x)
{
    for (int64_t r = 0; r < e->rows;) {
        int64_t m = 1 + pick(7);
        if (m > e->rows - r)
            m = e->rows - r;
        for (int64_t c = 0; c < e->cols;) {
            int64_t n = pick(3) ? 1 + pick(40) : 1 + pick(2000);
            if (n > e->cols - c)
                n = e->cols - c;
            /* a copy that ends where the tile ends */
            int64_t ld = n + pick(2) * 3;
            float *tile = malloc((size_t)((m - 1) * ld + n) * sizeof *tile);
            for (int64_t i = 0; i < m; i++)
                memcpy(tile + i * ld, x + (r + i) * e->cols + c, (size_t)n * sizeof *x);
            cm_epilogue_tile(e, r, c, m, n, tile, ld);
            free(tile);
            c += n;
        }
        r += m;
    }
}

static void run_simple(const cm_epilogue_plan *e, const cm_simple_epilogue *s, const float *x,
                       float *y)
{
    for (int64_t r = 0; r < e->rows; r++) {
        for (int64_t c = 0; c < e->cols; c++) {
            float v = x[r * e->cols + c];
            if (s->bias)
                v += s->bias[c];
            if (s->residual)
                v += s->residual[r * s->residual_ld + c];
            if (v < s->lo)
                v = s->lo;
            if (v > s->hi)
                v = s->hi;
            y[r * e->out.strides[0] + c] = v;
        }
    }
}

/* Operands are the output's shape with some axes 1 and leading ones dropped. */
static owned make_operand(const cm_tensor *out, bool channels_last)
{
    static const cm_dtype types[] = {CM_F32,  CM_F32,  CM_F32, CM_F16,
                                     CM_BF16, CM_BOOL, CM_I8,  CM_U16};
    int64_t dims[8];
    int drop = pick(3) ? 0 : pick(out->rank + 1), style = pick(5);
    for (int a = drop; a < out->rank; a++) {
        bool keep = style == 0 || (style == 1 && a == 1) || (style == 2 && a == out->rank - 1) ||
                    (style == 3 && pick(2));
        dims[a - drop] = keep ? out->dims[a] : 1;
    }
    return make(types[pick(CM_COUNT(types))], out->rank - drop, dims, channels_last);
}

static int simple_seen;

static void run_world(const char *text)
{
    static const cm_dtype types[] = {CM_F32, CM_F32, CM_F32, CM_F16, CM_BF16};
    static const int64_t sizes[] = {1, 2, 3, 7, 16, 33};
    world w = {0};
    cm_program program;
    cm_ctx cx = {0};
    if (text)
        assert_int_equal(cm_program_parse(&cx, text, strlen(text), &program), CM_OK);
    w.p = text ? &program : NULL;
    int64_t dims[8];
    int rank = 1 + pick(4);
    bool last = pick(2) && rank >= 3;
    for (int a = 0; a < rank; a++)
        dims[a] = sizes[pick(CM_COUNT(sizes))];
    if (rank == 2 && pick(3) == 0)
        dims[1] = 1300;
    /* a sum that is zero in one precision need not be in another: bool is for comparisons */
    bool truth = text && !strcmp(text, "lt x $0");
    w.out = make(truth ? CM_BOOL : types[pick(CM_COUNT(types))], rank, dims, last);
    set_order(&w, last);
    w.n_col_axes = last ? 1 : rank > 2 && pick(2) ? rank - 2 : pick(8) ? 1 : 0;
    w.n_operands = w.p ? w.p->n_operands : 0;
    const cm_tensor *operands[4], *out[1] = {&w.out.t};
    const void *operand_data[4];
    void *out_data[1] = {w.out.t.data};
    for (int i = 0; i < w.n_operands; i++) {
        w.operand[i] = make_operand(&w.out.t, last);
        operands[i] = &w.operand[i].t;
        operand_data[i] = w.operand[i].t.data;
    }
    int64_t n = cm_tensor_elems(&w.out.t);
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = pick(30) ? (float)number() : pick(2) ? NAN : 0;
    for (int level = 0; level <= (int)cm_cpu_info()->isa; level++) {
        cm_problem p = {.n_out = 1,
                        .out = out,
                        .epilogue = w.p,
                        .n_operands = w.n_operands,
                        .operands = operands,
                        .target = {CM_DEVICE_CPU, level, 0}};
        cm_run r = {.p = &p, .out = out_data, .operands = operand_data};
        cm_epilogue_plan e;
        cm_simple_epilogue simple;
        assert_null(cm_epilogue_reject(&p, w.n_col_axes));
        cm_epilogue_init(&e, &r, w.n_col_axes);
        assert_true(e.rows * e.cols == n);
        bool is_simple = cm_epilogue_simple(&e, &simple);
        simple_seen += is_simple;
        for (int way = 0; way < 1 + is_simple; way++) {
            if (way)
                run_simple(&e, &simple, x, w.out.t.data);
            else
                run_tiles(&e, x);
            for (int64_t i = 0; i < n; i++) {
                int64_t index[8];
                index_of(&w, i / e.cols, i % e.cols, index);
                check_element(&w, text, level, index, x[i]);
            }
        }
    }
    free(x);
    free(w.out.block);
    for (int i = 0; i < w.n_operands; i++)
        free(w.operand[i].block);
}

static void tiles_agree_with_the_reference(void **state)
{
    (void)state;
    static const char *programs[] = {
        NULL,
        "add x $0",
        "add $0 x; relu %0",
        "add x $0; add %0 $1",
        "add x $0; add $1 %0; relu %1",
        "add x $0; clip %0 -1 1",
        "max 0 x; min %0 1.5",
        "mul x $0; add %0 $1; relu %1",
        "sigmoid x; mul x %0",
        "gelu x",
        "add x $0; tanh %0; mul %1 $1; add %2 x; abs %3; softplus %4",
        "lt x $0",
        "lt x $0; select %0 $1 x",
        "sub $0 x; mul $1 %0; exp $0; mul %1 %2",
        "add $0 $0; mul 2 3; add %0 %1; add x %2",
        "pow x 2; sub 1 %0; leaky %1 0.1; hardsigmoid %2 0.2 0.5; clip x $0 $1; add %3 %4",
        "neg x; abs %0; floor x; mul %1 %2 -> %1",
        "isnan x; select %0 0 x; max %1 $0; min %2 $1",
        "add $0 $1; mul $0 $2; sub %0 %1; add x %2; erf %3; add %4 $3",
    };
    for (int i = 0; i < 1900; i++) {
        seed = (uint32_t)i * 2654435761u;
        run_world(programs[i % CM_COUNT(programs)]);
    }
    assert_true(simple_seen > 300);
}

/* What a product with a bias and its likes must be recognised as. */
static void common_forms_are_simple(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool bias, residual;
        double lo, hi;
    } rows[] = {
        {NULL, false, false, -INFINITY, INFINITY},
        {"add x $0", true, false, -INFINITY, INFINITY},
        {"add $0 x", true, false, -INFINITY, INFINITY},
        {"relu x", false, false, 0, INFINITY},
        {"add x $0; relu %0", true, false, 0, INFINITY},
        {"add x $0; clip %0 0 6", true, false, 0, 6},
        {"add x $0; max 0 %0", true, false, 0, INFINITY},
        {"add x $0; add %0 $1", true, true, -INFINITY, INFINITY},
        {"add x $1; add $0 %0; relu %1", true, true, 0, INFINITY},
        {"add x $1", false, true, -INFINITY, INFINITY},
    };
    int64_t dims[2] = {5, 9}, cols[1] = {9};
    owned out = make(CM_F32, 2, dims, false), bias = make(CM_F32, 1, cols, false),
          residual = make(CM_F32, 2, dims, false);
    const cm_tensor *outs[1] = {&out.t}, *operands[2] = {&bias.t, &residual.t};
    const void *data[2] = {bias.t.data, residual.t.data};
    void *out_data[1] = {out.t.data};
    for (int i = 0; i < CM_COUNT(rows); i++) {
        cm_program program;
        cm_ctx cx = {0};
        if (rows[i].text)
            assert_int_equal(cm_program_parse(&cx, rows[i].text, strlen(rows[i].text), &program),
                             CM_OK);
        cm_problem p = {.n_out = 1,
                        .out = outs,
                        .epilogue = rows[i].text ? &program : NULL,
                        .n_operands = 2,
                        .operands = operands};
        cm_run r = {.p = &p, .out = out_data, .operands = data};
        cm_epilogue_plan e;
        cm_simple_epilogue s;
        cm_epilogue_init(&e, &r, 1);
        assert_true(cm_epilogue_simple(&e, &s));
        assert_ptr_equal(s.bias, rows[i].bias ? bias.t.data : NULL);
        assert_ptr_equal(s.residual, rows[i].residual ? residual.t.data : NULL);
        assert_true(!s.residual || s.residual_ld == 9);
        assert_true(s.lo == (float)rows[i].lo && s.hi == (float)rows[i].hi);
    }
    free(out.block);
    free(bias.block);
    free(residual.block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_agree_with_the_reference),
        cmocka_unit_test(common_forms_are_simple),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
