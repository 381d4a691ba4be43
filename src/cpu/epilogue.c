/* epilogue.c -- epilogues on tiles of an output.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/epilogue.h"

#include <math.h>

/* Axes of output 0 in the order of memory. */
typedef struct order {
    int rank;
    int axis[CM_MAX_RANK];
} order;

/* Is axis a outside axis b? */
static bool outside(const cm_tensor *t, int a, int b)
{
    if (t->strides[a] != t->strides[b])
        return t->strides[a] > t->strides[b];
    if ((t->dims[a] == 1) != (t->dims[b] == 1))
        return t->dims[b] == 1;
    return a < b;
}

static void order_in_memory(const cm_tensor *t, order *o)
{
    o->rank = t->rank;
    for (int i = 0; i < t->rank; i++) {
        int at = i;
        for (; at > 0 && outside(t, i, o->axis[at - 1]); at--)
            o->axis[at] = o->axis[at - 1];
        o->axis[at] = i;
    }
}

/* The stride of operand t along axis `a` of an output of `rank` axes; 0: broadcast. */
static int64_t stride_along(const cm_tensor *t, int rank, int a)
{
    int own = a - (rank - t->rank);
    return own < 0 || t->dims[own] == 1 ? 0 : t->strides[own];
}

/* Add an axis inside those that are there, merged with the last where it can be. False: too many. */
static bool push_axis(int *n, int64_t *dims, int64_t *strides, int64_t dim, int64_t stride)
{
    if (dim == 1)
        return true;
    if (*n > 0 && strides[*n - 1] == dim * stride) {
        dims[*n - 1] *= dim;
        strides[*n - 1] = stride;
        return true;
    }
    if (*n == CM_EPILOGUE_AXES)
        return false;
    dims[*n] = dim;
    strides[(*n)++] = stride;
    return true;
}

/* How t, which broadcasts to `out`, lies beside the matrix. False: too many axes. */
static bool view(const cm_tensor *t, const cm_tensor *out, const order *o, int n_col_axes,
                 cm_epilogue_operand *v)
{
    v->dtype = t->dtype;
    v->n_axes = v->n_col_axes = 0;
    int n_rows = o->rank - n_col_axes;
    for (int i = 0; i < o->rank; i++) {
        int64_t dim = out->dims[o->axis[i]], stride = stride_along(t, o->rank, o->axis[i]);
        bool fits = i < n_rows
                        ? push_axis(&v->n_axes, v->dims, v->strides, dim, stride)
                        : push_axis(&v->n_col_axes, v->col_dims, v->col_strides, dim, stride);
        if (!fits)
            return false;
    }
    if (v->n_axes == 0) {
        v->n_axes = 1;
        v->dims[0] = 1;
        v->strides[0] = 0;
    }
    if (v->n_col_axes == 0) {
        v->n_col_axes = 1;
        v->col_dims[0] = 1;
        v->col_strides[0] = 1;
    }
    return true;
}

static bool loads(cm_dtype t)
{
    return t == CM_F32 || t == CM_F16 || t == CM_BF16 || t == CM_BOOL || t == CM_U8 || t == CM_I8 ||
           t == CM_U16 || t == CM_I16;
}

static bool stores(cm_dtype t)
{
    return t == CM_F32 || t == CM_F16 || t == CM_BF16 || t == CM_BOOL;
}

static bool broadcasts_to(const cm_tensor *t, const cm_tensor *out)
{
    if (t->rank > out->rank)
        return false;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] != 1 && t->dims[i] != out->dims[out->rank - t->rank + i])
            return false;
    return true;
}

const char *cm_epilogue_reject(const cm_problem *p, int n_col_axes)
{
    const cm_tensor *out = p->n_out > 0 ? p->out[0] : NULL;
    cm_epilogue_operand v;
    order o;
    if (!out || n_col_axes < 0 || n_col_axes > out->rank)
        return "there is no output to apply an epilogue to";
    if (!stores(out->dtype))
        return "the output is not of float32, float16, bfloat16 or bool";
    order_in_memory(out, &o);
    if (!view(out, out, &o, n_col_axes, &v))
        return "the output is strided over too many axes";
    if (!p->epilogue)
        return NULL;
    if (p->n_operands > CM_EPILOGUE_OPERANDS || p->epilogue->n_operands > p->n_operands)
        return "the epilogue has too many operands";
    if (p->epilogue->n_outputs != 1)
        return "the epilogue has more than one result";
    for (int i = 0; i < p->n_operands; i++) {
        if (!p->operands[i])
            return "an operand of the epilogue is absent";
        if (!loads(p->operands[i]->dtype))
            return "an operand of the epilogue is not computed as float32";
        if (!broadcasts_to(p->operands[i], out))
            return "an operand of the epilogue does not broadcast to the output";
        if (!view(p->operands[i], out, &o, n_col_axes, &v))
            return "an operand of the epilogue is strided over too many axes";
    }
    return NULL;
}

void cm_epilogue_init(cm_epilogue_plan *e, const cm_run *r, int n_col_axes)
{
    const cm_problem *p = r->p;
    const cm_tensor *out = p->out[0];
    order o;
    order_in_memory(out, &o);
    e->program = p->epilogue;
    e->level = p->target.level;
    e->n_operands = p->epilogue ? p->n_operands : 0;
    view(out, out, &o, n_col_axes, &e->out);
    e->out.data = r->out[0];
    for (int i = 0; i < e->n_operands; i++) {
        view(p->operands[i], out, &o, n_col_axes, &e->operands[i]);
        e->operands[i].data = r->operands[i];
    }
    e->rows = e->cols = 1;
    for (int i = 0; i < o.rank; i++)
        *(i < o.rank - n_col_axes ? &e->rows : &e->cols) *= out->dims[o.axis[i]];
}

/* The offset of element i along axes walked as one. */
static int64_t offset(int n, const int64_t *dims, const int64_t *strides, int64_t i)
{
    int64_t at = 0;
    for (int a = n - 1; a > 0; a--) {
        at += i % dims[a] * strides[a];
        i /= dims[a];
    }
    return at + i * strides[0];
}

static int64_t element(const cm_epilogue_operand *v, int64_t row, int64_t col)
{
    return offset(v->n_axes, v->dims, v->strides, row) +
           offset(v->n_col_axes, v->col_dims, v->col_strides, col);
}

static double sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double at_most(double a, double b)
{
    return isnan(a) || a < b ? a : b;
}

static double at_least(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

static double unary(cm_pointwise op, double a)
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
        return exp(a);
    case CM_PW_LOG:
        return log(a);
    case CM_PW_SIN:
        return sin(a);
    case CM_PW_COS:
        return cos(a);
    case CM_PW_TANH:
        return tanh(a);
    case CM_PW_SIGMOID:
        return sigmoid(a);
    case CM_PW_ERF:
        return erf(a);
    case CM_PW_RELU:
        return isnan(a) || a > 0 ? a : 0;
    case CM_PW_GELU:
        return a / 2 * (1 + erf(a * 0.70710678118654752440));
    case CM_PW_GELU_TANH:
        return a / 2 * (1 + tanh(0.79788456080286535588 * (a + 0.044715 * a * a * a)));
    case CM_PW_SILU:
        return a * sigmoid(a);
    case CM_PW_MISH:
        return a * tanh(softplus(a));
    case CM_PW_SOFTPLUS:
        return softplus(a);
    case CM_PW_SOFTSIGN:
        return a / (1 + fabs(a));
    case CM_PW_HARDSWISH:
        return a * at_most(at_least(a / 6 + 0.5, 0), 1);
    case CM_PW_NOT:
        return a == 0;
    default: /* CM_PW_IS_NAN */
        return isnan(a);
    }
}

static double binary(cm_pointwise op, double a, double b)
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
        return pow(a, b);
    case CM_PW_MIN:
        return isnan(b) ? b : at_most(a, b);
    case CM_PW_MAX:
        return isnan(b) ? b : at_least(a, b);
    case CM_PW_LEAKY:
        return a < 0 ? b * a : a;
    case CM_PW_ELU:
        return a < 0 ? b * expm1(a) : a;
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
    default: /* CM_PW_XOR */
        return (a != 0) != (b != 0);
    }
}

static double apply(cm_pointwise op, double a, double b, double c)
{
    switch (op) {
    case CM_PW_CLIP:
        return at_most(at_least(a, b), c);
    case CM_PW_HARDSIGMOID:
        return at_least(at_most(b * a + c, 1), 0);
    case CM_PW_SELECT:
        return a != 0 ? b : c;
    default:
        return cm_pointwise_arity(op) == 1 ? unary(op, a) : binary(op, a, b);
    }
}

static double run_element(const cm_epilogue_plan *e, int64_t row, int64_t col, float x)
{
    const cm_program *p = e->program;
    if (!p)
        return x;
    double result[CM_PROGRAM_MAX];
    for (int s = 0; s < p->n_steps; s++) {
        double arg[3] = {0};
        for (int k = 0; k < cm_pointwise_arity(p->step[s].op); k++) {
            const cm_program_arg *a = &p->step[s].arg[k];
            const cm_epilogue_operand *v = &e->operands[a->kind == CM_ARG_OPERAND ? a->index : 0];
            arg[k] = a->kind == CM_ARG_X        ? x
                     : a->kind == CM_ARG_NUMBER ? a->number
                     : a->kind == CM_ARG_RESULT
                         ? result[a->index]
                         : cm_get_f64(v->dtype, v->data, element(v, row, col));
        }
        result[s] = apply(p->step[s].op, arg[0], arg[1], arg[2]);
    }
    return result[p->output[0]];
}

void cm_epilogue_tile(const cm_epilogue_plan *e, int64_t row, int64_t col, int64_t m, int64_t n,
                      const float *x, int64_t ld)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            cm_set_f64(e->out.dtype, (void *)e->out.data, element(&e->out, row + i, col + j),
                       run_element(e, row + i, col + j, x[i * ld + j]));
}

/* The chain x -> add -> add -> activation, while it is being read. */
typedef struct chain {
    const cm_epilogue_plan *e;
    cm_simple_epilogue s;
    bool bounded;
} chain;

static bool is_row_vector(const cm_epilogue_operand *v, int64_t cols)
{
    return v->dtype == CM_F32 && v->n_axes == 1 && (v->strides[0] == 0 || v->dims[0] == 1) &&
           v->n_col_axes == 1 && (v->col_strides[0] == 1 || cols == 1);
}

static bool is_matrix(const cm_epilogue_operand *v, int64_t cols)
{
    return v->dtype == CM_F32 && v->n_axes == 1 && v->n_col_axes == 1 &&
           (v->col_strides[0] == 1 || cols == 1);
}

/* One addition of an operand. */
static bool take_add(chain *c, int operand)
{
    const cm_epilogue_operand *v = &c->e->operands[operand];
    if (c->bounded)
        return false;
    if (!c->s.bias && is_row_vector(v, c->e->cols)) {
        c->s.bias = v->data;
        return true;
    }
    if (c->s.residual || !is_matrix(v, c->e->cols))
        return false;
    c->s.residual = v->data;
    c->s.residual_ld = v->dims[0] == 1 ? 0 : v->strides[0];
    return true;
}

/* An activation of the form min(hi, max(lo, .)). */
static bool take_bounds(chain *c, double lo, double hi)
{
    if (c->bounded || !(lo <= hi))
        return false;
    c->s.lo = (float)lo;
    c->s.hi = (float)hi;
    return c->bounded = true;
}

static bool is_number(const cm_program_arg *a)
{
    return a->kind == CM_ARG_NUMBER;
}

static bool same_arg(const cm_program_arg *a, const cm_program_arg *b)
{
    return a->kind == b->kind && a->index == b->index;
}

static bool take_step(chain *c, const cm_program_step *s, const cm_program_arg *value)
{
    bool first = same_arg(&s->arg[0], value);
    const cm_program_arg *other = &s->arg[first ? 1 : 0];
    if (!first && (cm_pointwise_arity(s->op) != 2 || !same_arg(&s->arg[1], value)))
        return false;
    switch (s->op) {
    case CM_PW_RELU:
        return take_bounds(c, 0, INFINITY);
    case CM_PW_CLIP:
        return is_number(&s->arg[1]) && is_number(&s->arg[2]) &&
               take_bounds(c, s->arg[1].number, s->arg[2].number);
    case CM_PW_MAX:
        return is_number(other) && take_bounds(c, other->number, INFINITY);
    case CM_PW_MIN:
        return is_number(other) && take_bounds(c, -INFINITY, other->number);
    case CM_PW_ADD:
        return other->kind == CM_ARG_OPERAND && take_add(c, other->index);
    default:
        return false;
    }
}

bool cm_epilogue_simple(const cm_epilogue_plan *e, cm_simple_epilogue *out)
{
    chain c = {.e = e, .s = {.lo = -INFINITY, .hi = INFINITY}};
    const cm_program *p = e->program;
    if (e->out.dtype != CM_F32 || e->out.n_axes != 1 || e->out.n_col_axes != 1 ||
        (e->out.col_strides[0] != 1 && e->cols != 1))
        return false;
    cm_program_arg value = cm_arg_x();
    for (int s = 0; p && s < p->n_steps; s++) {
        if (!take_step(&c, &p->step[s], &value))
            return false;
        value = cm_arg_result(s);
    }
    if (p && p->output[0] != p->n_steps - 1)
        return false;
    *out = c.s;
    return true;
}
