/* pointwise_wide.c -- pointwise work that float32 cannot hold: int64 and double inside.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Integers are computed in 64 bits and lose their high bits when they are stored, as the reference has
 * it; doubles are what the reference computes in, so results are the same to the bit. Casts between the
 * two are programs that only copy. Whatever needs an elementary function of a double, or may divide by an
 * integer zero, is left to the reference. */
#include "cpu/pointwise.h"

#include <math.h>

#include "base/size.h"

enum {
    PIECE = 256, /* elements at a time */
    STEPS = 8,
    OPERANDS = 8,
    THREAD_NS = 8000,
};

typedef union {
    int64_t i[PIECE];
    double f[PIECE];
} lanes;

typedef enum { NO_DOMAIN, WHOLE, REAL } domain;

typedef struct {
    const cm_program *p;
    domain in;
    bool copy;
    cm_tile_view operands[OPERANDS], out;
    int64_t rows, cols, pieces_per_row;
} job;

/* x * 1: what a Cast is as a program. */
static bool is_copy(const cm_program *p)
{
    const cm_program_step *s = &p->step[0];
    return p->n_steps == 1 && s->op == CM_PW_MUL && s->arg[0].kind == CM_ARG_OPERAND &&
           s->arg[1].kind == CM_ARG_NUMBER && s->arg[1].number == 1;
}

static bool whole_op(cm_pointwise op, bool u64)
{
    switch (op) {
    case CM_PW_ADD:
    case CM_PW_SUB:
    case CM_PW_MUL:
    case CM_PW_NEG:
    case CM_PW_EQ:
    case CM_PW_SELECT:
    case CM_PW_AND:
    case CM_PW_OR:
    case CM_PW_XOR:
    case CM_PW_NOT:
        return true;
    case CM_PW_ABS:
    case CM_PW_SIGN:
    case CM_PW_RELU:
    case CM_PW_MIN:
    case CM_PW_MAX:
    case CM_PW_CLIP:
    case CM_PW_LT:
    case CM_PW_LE:
    case CM_PW_GT:
    case CM_PW_GE:
        return !u64; /* compared as signed numbers */
    default:
        return false;
    }
}

static bool real_op(cm_pointwise op)
{
    switch (op) {
    case CM_PW_NEG:
    case CM_PW_ABS:
    case CM_PW_FLOOR:
    case CM_PW_CEIL:
    case CM_PW_ROUND:
    case CM_PW_SQRT:
    case CM_PW_RECIP:
    case CM_PW_RELU:
    case CM_PW_NOT:
    case CM_PW_IS_NAN:
    case CM_PW_ADD:
    case CM_PW_SUB:
    case CM_PW_MUL:
    case CM_PW_DIV:
    case CM_PW_MIN:
    case CM_PW_MAX:
    case CM_PW_EQ:
    case CM_PW_LT:
    case CM_PW_LE:
    case CM_PW_GT:
    case CM_PW_GE:
    case CM_PW_AND:
    case CM_PW_OR:
    case CM_PW_XOR:
    case CM_PW_SELECT:
        return true;
    default:
        return false;
    }
}

/* Can the arguments be int64? Infinite bounds of Clip can. */
static bool whole_numbers(const cm_program_step *s)
{
    for (int k = 0; k < cm_pointwise_arity(s->op); k++) {
        double v = s->arg[k].number;
        bool bound = s->op == CM_PW_CLIP && k > 0 && isinf(v);
        if (s->arg[k].kind == CM_ARG_NUMBER && !bound && !(v == rint(v) && fabs(v) <= 0x1p53))
            return false;
    }
    return true;
}

static bool is_whole(cm_dtype t)
{
    return t == CM_BOOL || (cm_dtype_is_integer(t) && !cm_dtype_is_sub_byte(t));
}

static bool is_real(cm_dtype t)
{
    return t == CM_F64 || t == CM_F32 || t == CM_F16 || t == CM_BF16;
}

/* In which numbers a problem is computed, the one output as type `to`. */
static domain domain_of(const cm_problem *p, cm_dtype to)
{
    const cm_program *g = p->program;
    bool whole = true, real = true, u64 = false, i64 = false, copy = is_copy(g);
    for (int i = 0; i < g->n_operands; i++) {
        if (!cm_pointwise_reads(g, i))
            continue;
        cm_dtype t = p->in[i]->dtype;
        whole &= is_whole(t);
        real &= is_whole(t) || is_real(t);
        u64 |= t == CM_U64;
        i64 |= t == CM_I64 || t == CM_U64;
    }
    for (int s = 0; s < g->n_steps; s++) {
        whole &= whole_op(g->step[s].op, u64) && whole_numbers(&g->step[s]);
        real &= real_op(g->step[s].op);
    }
    /* wrapping shows between steps, extremes apart */
    for (int s = 0; g->n_steps > 1 && s < g->n_steps; s++)
        whole &= g->step[s].op == CM_PW_MIN || g->step[s].op == CM_PW_MAX;
    if (whole && (is_whole(to) || (copy && is_real(to) && !u64)))
        return WHOLE;
    if (real && !i64 && (is_real(to) || to == CM_BOOL || (copy && is_whole(to) && to != CM_U64)))
        return REAL;
    return NO_DOMAIN;
}

const char *cm_pointwise_wide_reject(const cm_problem *p)
{
    const cm_pointwise_shape *s = &p->as.pointwise;
    cm_tile_view v;
    if (!cm_pointwise_tile_reject(p))
        return "float32 is enough for these element types";
    if (p->n_out != 1 || !p->out[0] || p->program->n_outputs != 1)
        return "there is more than one output";
    if (p->program->n_operands > OPERANDS || p->program->n_steps > STEPS)
        return "the program is too long";
    if (domain_of(p, p->out[0]->dtype) == NO_DOMAIN)
        return "the instructions are not exact on these element types";
    for (int i = 0; i < p->program->n_operands; i++)
        if (cm_pointwise_reads(p->program, i) &&
            !cm_pointwise_view(&v, s, s->rank - 1, s->in[i], p->in[i]->dtype, NULL))
            return "an input is strided over too many axes";
    if (!cm_pointwise_view(&v, s, s->rank - 1, s->out[0], p->out[0]->dtype, NULL))
        return "the output is strided over too many axes";
    return NULL;
}

static double element_ns(const cm_problem *p)
{
    return 1 + 2 * p->program->n_steps;
}

double cm_pointwise_wide_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_pointwise_shape *s = &p->as.pointwise;
    int64_t pieces = cm_pointwise_rows(s, s->rank - 1) * cm_ceil_div(s->dims[s->rank - 1], PIECE);
    double ns = element_ns(p) * (double)cm_tensor_elems(p->out[0]) + 30.0 * (double)pieces;
    return 150 + ns / cm_cpu_speedup(p, ns / THREAD_NS);
}

static void load(const job *j, const cm_tile_view *v, int64_t row, int64_t col, int64_t n,
                 lanes *to)
{
    int64_t stride = v->col_strides[0];
    const char *at = cm_tile_address(v, row, col);
    int64_t step = stride * (int64_t)cm_dtype_size(v->dtype), run = stride == 1 ? n : 1;
    for (int64_t i = 0; i < n; i += run, at += step * run) {
        if (stride == 0 && i > 0) {
            to->i[i] = to->i[0]; /* the same bits, whichever it is */
            continue;
        }
        if (j->in == WHOLE)
            cm_load_i64(v->dtype, at, run, to->i + i);
        else
            cm_load_f64(v->dtype, at, run, to->f + i);
    }
}

/* What x86-64's conversion gives, as Cast has it: cut toward zero, out of range the most negative. */
static int64_t cut(cm_dtype t, double x)
{
    if (t == CM_I64 || t == CM_U32)
        return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
    return x > -0x1p31 - 1 && x < 0x1p31 ? (int64_t)x : INT32_MIN;
}

static void store(const job *j, int64_t row, int64_t col, int64_t n, lanes *from)
{
    const cm_tile_view *v = &j->out;
    bool whole = j->in == WHOLE;
    if (!whole && cm_dtype_is_integer(v->dtype)) {
        for (int64_t i = 0; i < n; i++)
            from->i[i] = cut(v->dtype, from->f[i]);
        whole = true;
    }
    int64_t stride = v->col_strides[0], run = stride == 1 ? n : 1;
    char *at = cm_tile_address(v, row, col);
    for (int64_t i = 0; i < n; i += run, at += stride * run * (int64_t)cm_dtype_size(v->dtype)) {
        if (whole)
            cm_store_i64(v->dtype, from->i + i, run, at);
        else
            cm_store_f64(v->dtype, from->f + i, run, at);
    }
}

static int64_t to_whole(double v)
{
    return v == INFINITY ? INT64_MAX : v == -INFINITY ? INT64_MIN : (int64_t)v;
}

#define EACH_LANE(field, value)                                                                    \
    for (int64_t l = 0; l < n; l++) {                                                              \
        y->field[l] = (value);                                                                     \
    }                                                                                              \
    break
#define A    a->i[l]
#define B    b->i[l]
#define C    c->i[l]
#define U(x) ((uint64_t)(x))

/* clang-format off */
static void apply_whole(cm_pointwise op, lanes *y, const lanes *a, const lanes *b, const lanes *c, int64_t n)
{
    switch (op) {
    case CM_PW_ADD: EACH_LANE(i, (int64_t)(U(A) + U(B)));
    case CM_PW_SUB: EACH_LANE(i, (int64_t)(U(A) - U(B)));
    case CM_PW_MUL: EACH_LANE(i, (int64_t)(U(A) * U(B)));
    case CM_PW_NEG: EACH_LANE(i, (int64_t)(0 - U(A)));
    case CM_PW_ABS: EACH_LANE(i, A < 0 ? (int64_t)(0 - U(A)) : A);
    case CM_PW_SIGN: EACH_LANE(i, (A > 0) - (A < 0));
    case CM_PW_RELU: EACH_LANE(i, A > 0 ? A : 0);
    case CM_PW_MIN: EACH_LANE(i, A < B ? A : B);
    case CM_PW_MAX: EACH_LANE(i, A > B ? A : B);
    case CM_PW_CLIP: EACH_LANE(i, (A < B ? B : A) > C ? C : (A < B ? B : A));
    case CM_PW_EQ: EACH_LANE(i, A == B);
    case CM_PW_LT: EACH_LANE(i, A < B);
    case CM_PW_LE: EACH_LANE(i, A <= B);
    case CM_PW_GT: EACH_LANE(i, A > B);
    case CM_PW_GE: EACH_LANE(i, A >= B);
    case CM_PW_AND: EACH_LANE(i, A && B);
    case CM_PW_OR: EACH_LANE(i, A || B);
    case CM_PW_XOR: EACH_LANE(i, !A != !B);
    case CM_PW_NOT: EACH_LANE(i, !A);
    default: EACH_LANE(i, A ? B : C); /* SELECT */
    }
}
#undef A
#undef B
#undef C
#define A a->f[l]
#define B b->f[l]
#define C c->f[l]

static void apply_real(cm_pointwise op, lanes *y, const lanes *a, const lanes *b, const lanes *c, int64_t n)
{
    switch (op) {
    case CM_PW_NEG: EACH_LANE(f, -A);
    case CM_PW_ABS: EACH_LANE(f, fabs(A));
    case CM_PW_FLOOR: EACH_LANE(f, floor(A));
    case CM_PW_CEIL: EACH_LANE(f, ceil(A));
    case CM_PW_ROUND: EACH_LANE(f, rint(A));
    case CM_PW_SQRT: EACH_LANE(f, sqrt(A));
    case CM_PW_RECIP: EACH_LANE(f, 1 / A);
    case CM_PW_RELU: EACH_LANE(f, A != A || A > 0 ? A : 0);
    case CM_PW_NOT: EACH_LANE(f, A == 0);
    case CM_PW_IS_NAN: EACH_LANE(f, A != A);
    case CM_PW_ADD: EACH_LANE(f, A + B);
    case CM_PW_SUB: EACH_LANE(f, A - B);
    case CM_PW_MUL: EACH_LANE(f, A * B);
    case CM_PW_DIV: EACH_LANE(f, A / B);
    case CM_PW_MIN: EACH_LANE(f, B != B ? B : A != A || A < B ? A : B);
    case CM_PW_MAX: EACH_LANE(f, B != B ? B : A != A || A > B ? A : B);
    case CM_PW_EQ: EACH_LANE(f, A == B);
    case CM_PW_LT: EACH_LANE(f, A < B);
    case CM_PW_LE: EACH_LANE(f, A <= B);
    case CM_PW_GT: EACH_LANE(f, A > B);
    case CM_PW_GE: EACH_LANE(f, A >= B);
    case CM_PW_AND: EACH_LANE(f, A != 0 && B != 0);
    case CM_PW_OR: EACH_LANE(f, A != 0 || B != 0);
    case CM_PW_XOR: EACH_LANE(f, (A != 0) != (B != 0));
    default: EACH_LANE(f, A != 0 ? B : C); /* SELECT */
    }
}
/* clang-format on */

static void run_piece(const job *j, int64_t row, int64_t col, int64_t n)
{
    lanes operand[OPERANDS], result[STEPS], number[3];
    for (int i = 0; i < j->p->n_operands; i++)
        if (cm_pointwise_reads(j->p, i))
            load(j, &j->operands[i], row, col, n, &operand[i]);
    for (int s = 0; s < j->p->n_steps && !j->copy; s++) {
        const cm_program_step *step = &j->p->step[s];
        const lanes *arg[3] = {&number[0], &number[1], &number[2]};
        for (int k = 0; k < cm_pointwise_arity(step->op); k++) {
            const cm_program_arg *a = &step->arg[k];
            if (a->kind == CM_ARG_NUMBER)
                for (int64_t l = 0; l < n; l++) {
                    if (j->in == WHOLE)
                        number[k].i[l] = to_whole(a->number);
                    else
                        number[k].f[l] = a->number;
                }
            else
                arg[k] = a->kind == CM_ARG_OPERAND ? &operand[a->index] : &result[a->index];
        }
        (j->in == WHOLE ? apply_whole : apply_real)(step->op, &result[s], arg[0], arg[1], arg[2],
                                                    n);
    }
    store(j, row, col, n,
          j->copy ? &operand[j->p->step[0].arg[0].index] : &result[j->p->output[0]]);
}

static void run_pieces(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t u = begin; u < end; u++) {
        int64_t row = u / j->pieces_per_row, col = u % j->pieces_per_row * PIECE;
        run_piece(j, row, col, j->cols - col < PIECE ? j->cols - col : PIECE);
    }
}

cm_status cm_pointwise_wide_run(const cm_run *r)
{
    const cm_problem *p = r->p;
    const cm_pointwise_shape *s = &p->as.pointwise;
    job j = {.p = p->program, .in = domain_of(p, p->out[0]->dtype), .copy = is_copy(p->program)};
    j.rows = cm_pointwise_rows(s, s->rank - 1);
    j.cols = s->dims[s->rank - 1];
    j.pieces_per_row = (j.cols + PIECE - 1) / PIECE;
    for (int i = 0; i < p->program->n_operands; i++)
        if (cm_pointwise_reads(p->program, i))
            cm_pointwise_view(&j.operands[i], s, s->rank - 1, s->in[i], p->in[i]->dtype, r->in[i]);
    cm_pointwise_view(&j.out, s, s->rank - 1, s->out[0], p->out[0]->dtype, r->out[0]);
    int64_t cols = j.cols < PIECE ? j.cols : PIECE;
    int64_t grain = (int64_t)(THREAD_NS / (element_ns(p) * (double)(cols + 8))) + 1;
    cm_parallel(r->threads, j.rows * j.pieces_per_row, grain, run_pieces, &j);
    return CM_OK;
}
