/* program_eval.c -- runs pointwise programs element by element, in double.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/program_eval.h"

#include <math.h>
#include <string.h>

#include "ops/elementwise.h"
#include "ops/math.h"

static double sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + cm_exp(-x)) : cm_exp(x) / (1 + cm_exp(x));
}

static double softplus(double x)
{
    return x > 0 ? x + cm_log1p(cm_exp(-x)) : cm_log1p(cm_exp(x));
}

/* As the operator's: 1 + erf(t) = erfc(-t) keeps its precision below zero. */
static double gelu(double x)
{
    return x == -INFINITY ? 0 : x / 2 * cm_erfc(-x * 0.70710678118654752440);
}

static double gelu_tanh(double x)
{
    return x / 2 * (1 + cm_tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static double at_most(double a, double b)
{
    return isnan(a) || a < b ? a : b;
}

static double at_least(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

static double apply_unary(cm_pointwise op, double a)
{
    switch (op) {
    case CM_PW_NEG:
        return -a;
    case CM_PW_ABS:
        return fabs(a);
    case CM_PW_SIGN:
        return isnan(a) ? a : (a > 0) - (a < 0);
    case CM_PW_FLOOR:
        return floor(a);
    case CM_PW_CEIL:
        return ceil(a);
    case CM_PW_ROUND:
        return rint(a);
    case CM_PW_SQRT:
        return sqrt(a);
    case CM_PW_RSQRT:
        return 1 / sqrt(a);
    case CM_PW_RECIP:
        return 1 / a;
    case CM_PW_EXP:
        return cm_exp(a);
    case CM_PW_LOG:
        return cm_ln(a);
    case CM_PW_SIN:
        return cm_sin(a);
    case CM_PW_COS:
        return cm_cos(a);
    case CM_PW_TANH:
        return cm_tanh(a);
    case CM_PW_SIGMOID:
        return sigmoid(a);
    case CM_PW_ERF:
        return cm_erf(a);
    case CM_PW_RELU:
        return isnan(a) || a > 0 ? a : 0;
    case CM_PW_GELU:
        return gelu(a);
    case CM_PW_GELU_TANH:
        return gelu_tanh(a);
    case CM_PW_SILU:
        return a * sigmoid(a);
    case CM_PW_MISH:
        return a * cm_tanh(softplus(a));
    case CM_PW_SOFTPLUS:
        return softplus(a);
    case CM_PW_SOFTSIGN:
        return a / (1 + fabs(a));
    case CM_PW_HARDSWISH:
        return a * at_most(at_least(a / 6 + 0.5, 0), 1);
    case CM_PW_NOT:
        return a == 0;
    case CM_PW_IS_NAN:
        return isnan(a);
    default:
        return NAN;
    }
}

static double apply_binary(cm_pointwise op, double a, double b)
{
    switch (op) {
    case CM_PW_ADD:
        return a + b;
    case CM_PW_SUB:
        return a - b;
    case CM_PW_MUL:
        return a * b;
    case CM_PW_DIV:
        return a / b;
    case CM_PW_POW:
        return cm_pow(a, b);
    case CM_PW_MIN:
        return isnan(b) ? b : at_most(a, b);
    case CM_PW_MAX:
        return isnan(b) ? b : at_least(a, b);
    case CM_PW_LEAKY:
        return a < 0 ? b * a : a;
    case CM_PW_ELU:
        return a < 0 ? b * cm_expm1(a) : a;
    case CM_PW_EQ:
        return a == b;
    case CM_PW_LT:
        return a < b;
    case CM_PW_LE:
        return a <= b;
    case CM_PW_GT:
        return a > b;
    case CM_PW_GE:
        return a >= b;
    case CM_PW_AND:
        return a != 0 && b != 0;
    case CM_PW_OR:
        return a != 0 || b != 0;
    case CM_PW_XOR:
        return (a != 0) != (b != 0);
    default:
        return NAN;
    }
}

double cm_pointwise_apply(cm_pointwise op, double a, double b, double c)
{
    switch (op) {
    case CM_PW_CLIP:
        return at_most(at_least(a, b), c);
    case CM_PW_HARDSIGMOID:
        return at_least(at_most(b * a + c, 1), 0);
    case CM_PW_SELECT:
        return a != 0 ? b : c;
    default:
        return cm_pointwise_arity(op) == 1 ? apply_unary(op, a) : apply_binary(op, a, b);
    }
}

typedef struct {
    const cm_program *p;
    cm_spread x;
    cm_spread *operands;
    cm_tensor *const *out;
} job;

/* A block is small enough to keep every result of a program on the stack. */
enum { PIECE = 32 };

static void fetch(const job *j, const cm_program_arg *a, int64_t at, int64_t n,
                  double (*results)[PIECE], double *to)
{
    switch (a->kind) {
    case CM_ARG_X:
        cm_spread_f64(&j->x, at, n, to);
        break;
    case CM_ARG_OPERAND:
        cm_spread_f64(&j->operands[a->index], at, n, to);
        break;
    case CM_ARG_RESULT:
        for (int64_t i = 0; i < n; i++)
            to[i] = results[a->index][i];
        break;
    case CM_ARG_NUMBER:
        for (int64_t i = 0; i < n; i++)
            to[i] = a->number;
    }
}

static void run_piece(const job *j, int64_t at, int64_t n)
{
    double results[CM_PROGRAM_MAX][PIECE], arg[3][PIECE] = {{0}};
    for (int s = 0; s < j->p->n_steps; s++) {
        const cm_program_step *step = &j->p->step[s];
        for (int k = 0; k < cm_pointwise_arity(step->op); k++)
            fetch(j, &step->arg[k], at, n, results, arg[k]);
        for (int64_t i = 0; i < n; i++)
            results[s][i] = cm_pointwise_apply(step->op, arg[0][i], arg[1][i], arg[2][i]);
    }
    for (int o = 0; o < j->p->n_outputs; o++) {
        cm_tensor *t = j->out[o];
        if (t)
            cm_store_f64(t->dtype, results[j->p->output[o]], n,
                         (char *)t->data + (size_t)at * cm_dtype_size(t->dtype));
    }
}

static void run_block(void *arg, int64_t at, int64_t n)
{
    for (int64_t i = 0; i < n; i += PIECE)
        run_piece(arg, at + i, n - i < PIECE ? n - i : PIECE);
}

static bool is_number(const cm_tensor *t)
{
    cm_dtype_kind kind = cm_dtype_get(t->dtype)->kind;
    return kind != CM_KIND_STRING && kind != CM_KIND_COMPLEX;
}

cm_status cm_program_eval(cm_eval *e, const cm_program *p, const cm_tensor *x,
                          const cm_datum *const *operands, cm_tensor *const *out)
{
    const cm_tensor *shape = NULL;
    for (int o = 0; o < p->n_outputs && !shape; o++)
        shape = out[o];
    if (!shape)
        return CM_OK; /* nobody wants anything */
    job j = {.p = p, .out = out};
    if (p->uses_x && !x)
        return cm_fail(e->cx, CM_ERR_MODEL, "the program reads x, and there is none");
    if (x)
        cm_spread_init(&j.x, x, shape);
    CM_NEW_N(e->cx, e->cx->scratch, j.operands, p->n_operands, cm_spread);
    for (int k = 0; k < p->n_operands; k++) {
        if (!operands[k] || operands[k]->kind != CM_TENSOR || !is_number(&operands[k]->tensor))
            return cm_fail(e->cx, CM_ERR_MODEL,
                           "operand %d of a program is not a tensor of numbers", k);
        cm_spread_init(&j.operands[k], &operands[k]->tensor, shape);
    }
    for (int o = 0; o < p->n_outputs; o++)
        if (out[o] && !is_number(out[o]))
            return cm_fail(e->cx, CM_ERR_MODEL, "output %d of a program is not of numbers", o);
    return cm_eval_blocks(e, cm_tensor_elems(shape), run_block, &j);
}

cm_status cm_epilogue_eval(cm_eval *e, cm_dtype own)
{
    cm_program p;
    const cm_epilogue *ep = e->epilogue;
    CM_TRY(cm_program_parse(e->cx, ep->program, strlen(ep->program), &p));
    if (p.n_operands > ep->n_operands || p.n_outputs != 1)
        return cm_fail(e->cx, CM_ERR_MODEL,
                       "an epilogue reads %d operands of %d and has %d results", p.n_operands,
                       ep->n_operands, p.n_outputs);
    cm_datum *final = e->out[0], raw = {.kind = CM_TENSOR};
    if (final)
        CM_TRY(cm_eval_temp(e, own, final->tensor.rank, final->tensor.dims, &raw.tensor));
    e->out[0] = final ? &raw : NULL;
    e->n_in -= ep->n_operands;
    cm_status st = e->op->family->eval(e);
    e->n_in += ep->n_operands;
    e->out[0] = final;
    CM_TRY(st);
    if (!final)
        return CM_OK;
    cm_tensor *out[1] = {&final->tensor};
    return cm_program_eval(e, &p, &raw.tensor, e->in + e->n_in - ep->n_operands, out);
}
