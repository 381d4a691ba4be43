/* program_text.c -- pointwise programs as CUDA C: one line an instruction.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is more than an operator or a function of the toolkit stands in kernels/program.cuh, for float and
 * for double; NaNs go the way of ops/program_eval.c. */
#include "cuda/program_text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A, B, C are the arguments. Floats have a form for every instruction, whole numbers for some; floats for results of
 * 16 bits have their own where that is cheaper, and so has what becomes a float16 as it is. */
typedef struct {
    const char *real, *whole, *brief, *half;
} form;

/* clang-format off */
static const form forms[CM_PW_ALL] = {
    [CM_PW_NEG] = {"-A", "-A"},
    [CM_PW_ABS] = {"fabs(A)", "pw_abs(A)"},
    [CM_PW_SIGN] = {"pw_sign(A)", "pw_sign(A)"},
    [CM_PW_FLOOR] = {"floor(A)", NULL},
    [CM_PW_CEIL] = {"ceil(A)", NULL},
    [CM_PW_ROUND] = {"rint(A)", NULL},
    [CM_PW_SQRT] = {"sqrt(A)", NULL},
    [CM_PW_RSQRT] = {"rsqrt(A)", NULL},
    [CM_PW_RECIP] = {"1 / A", NULL},
    [CM_PW_EXP] = {"exp(A)", NULL, "short_exp(A)"},
    [CM_PW_LOG] = {"log(A)", NULL},
    [CM_PW_SIN] = {"sin(A)", NULL},
    [CM_PW_COS] = {"cos(A)", NULL},
    [CM_PW_TANH] = {"tanh(A)", NULL, "short_tanh(A)"},
    [CM_PW_SIGMOID] = {"pw_sigmoid(A)", NULL, "short_sigmoid(A)"},
    [CM_PW_ERF] = {"erf(A)", NULL},
    [CM_PW_RELU] = {"A <= 0 ? 0 : A", "A > 0 ? A : 0", "short_max(A, 0)"},
    [CM_PW_GELU] = {"pw_gelu(A)", NULL, "short_gelu(A)", "half_gelu(A)"},
    [CM_PW_GELU_TANH] = {"pw_gelu_tanh(A)", NULL, "short_gelu_tanh(A)"},
    [CM_PW_SILU] = {"A * pw_sigmoid(A)", NULL, "short_silu(A)"},
    [CM_PW_MISH] = {"pw_mish(A)", NULL},
    [CM_PW_SOFTPLUS] = {"pw_softplus(A)", NULL},
    [CM_PW_SOFTSIGN] = {"A / (1 + fabs(A))", NULL},
    [CM_PW_HARDSWISH] = {"A * pw_at_most(pw_at_least(A / 6 + (T)0.5, (T)0), (T)1)", NULL, "short_hardswish(A)"},
    [CM_PW_NOT] = {"A == 0", "A == 0"},
    [CM_PW_IS_NAN] = {"A != A", NULL},
    [CM_PW_ADD] = {"A + B", "A + B"},
    [CM_PW_SUB] = {"A - B", "A - B"},
    [CM_PW_MUL] = {"A * B", "A * B"},
    [CM_PW_DIV] = {"A / B", NULL},
    [CM_PW_POW] = {"pow(A, B)", NULL},
    [CM_PW_MIN] = {"B != B ? B : pw_at_most(A, B)", "A < B ? A : B"},
    [CM_PW_MAX] = {"B != B ? B : pw_at_least(A, B)", "A > B ? A : B"},
    [CM_PW_LEAKY] = {"A < 0 ? B * A : A", NULL},
    [CM_PW_ELU] = {"A < 0 ? B * expm1(A) : A", NULL},
    [CM_PW_EQ] = {"A == B", "A == B"},
    [CM_PW_LT] = {"A < B", "A < B"},
    [CM_PW_LE] = {"A <= B", "A <= B"},
    [CM_PW_GT] = {"A > B", "A > B"},
    [CM_PW_GE] = {"A >= B", "A >= B"},
    [CM_PW_AND] = {"A != 0 && B != 0", "A != 0 && B != 0"},
    [CM_PW_OR] = {"A != 0 || B != 0", "A != 0 || B != 0"},
    [CM_PW_XOR] = {"(A != 0) != (B != 0)", "(A != 0) != (B != 0)"},
    [CM_PW_CLIP] = {"pw_at_most(pw_at_least(A, B), C)", "pw_at_most(pw_at_least(A, B), C)", "short_min(short_max(A, B), C)"},
    [CM_PW_HARDSIGMOID] = {"pw_at_least(pw_at_most(B * A + C, (T)1), (T)0)", NULL, "short_max(short_min(B * A + C, 1), 0)"},
    [CM_PW_SELECT] = {"A != 0 ? B : C", "A != 0 ? B : C"},
    [CM_PW_TAN] = {"tan(A)", NULL},
    [CM_PW_ASIN] = {"asin(A)", NULL},
    [CM_PW_ACOS] = {"acos(A)", NULL},
    [CM_PW_ATAN] = {"atan(A)", NULL},
    [CM_PW_SINH] = {"sinh(A)", NULL},
    [CM_PW_COSH] = {"cosh(A)", NULL},
    [CM_PW_ASINH] = {"asinh(A)", NULL},
    [CM_PW_ACOSH] = {"acosh(A)", NULL},
    [CM_PW_ATANH] = {"atanh(A)", NULL},
    [CM_PW_OPEN] = {"A", NULL},
    [CM_PW_CELU] = {"pw_celu(A, B)", NULL},
    [CM_PW_SHRINK] = {"A < -B ? A + C : A > B ? A - C : 0", NULL},
    [CM_PW_MOD] = {"pw_mod(A, B)", "pw_mod_whole(A, B)"},
    [CM_PW_FMOD] = {"fmod(A, B)", "pw_fmod_whole(A, B)"},
    [CM_PW_DIV_WHOLE] = {NULL, "pw_div_whole(A, B)"},
    [CM_PW_POW_WHOLE] = {NULL, "pw_pow_whole(A, B)"},
    [CM_PW_BIT_NOT] = {NULL, "~A"},
    [CM_PW_BIT_AND] = {NULL, "A & B"},
    [CM_PW_BIT_OR] = {NULL, "A | B"},
    [CM_PW_BIT_XOR] = {NULL, "A ^ B"},
    [CM_PW_SHIFT_LEFT] = {NULL, "pw_shift_left(A, B)"},
    [CM_PW_SHIFT_RIGHT] = {NULL, "pw_shift_right(A, B)"},
};
/* clang-format on */

const char *cm_text_number_type(cm_text_number n)
{
    static const char *const names[] = {
        [CM_TEXT_FLOAT] = "float",   [CM_TEXT_SHORT] = "float",
        [CM_TEXT_HALF] = "float",    [CM_TEXT_DOUBLE] = "double",
        [CM_TEXT_I64] = "long long", [CM_TEXT_U64] = "unsigned long long"};
    return names[n];
}

bool cm_cuda_program_reads(const cm_program *p, int operand)
{
    for (int s = 0; s < p->n_steps; s++)
        for (int k = 0; k < cm_pointwise_arity(p->step[s].op); k++)
            if (p->step[s].arg[k].kind == CM_ARG_OPERAND && p->step[s].arg[k].index == operand)
                return true;
    return false;
}

static bool is_whole_number(const cm_program_step *s, int k)
{
    double v = s->arg[k].number;
    bool bound = s->op == CM_PW_CLIP && k > 0 && isinf(v);
    return bound || (v == rint(v) && fabs(v) <= 0x1p53);
}

bool cm_program_is_whole(const cm_program *p)
{
    for (int i = 0; i < p->n_steps; i++) {
        const cm_program_step *s = &p->step[i];
        if (!forms[s->op].whole)
            return false;
        for (int k = 0; k < cm_pointwise_arity(s->op); k++)
            if (s->arg[k].kind == CM_ARG_NUMBER && !is_whole_number(s, k))
                return false;
    }
    return true;
}

/* By its bits: nothing is lost, and there are no words for infinities. */
static void put_number(cm_buf *out, double v, cm_text_number n)
{
    float f = (float)v;
    uint32_t bits;
    uint64_t wide;
    memcpy(&bits, &f, sizeof bits);
    memcpy(&wide, &v, sizeof wide);
    if (n <= CM_TEXT_HALF)
        cm_buf_printf(out, "__int_as_float(0x%08" PRIx32 ")", bits);
    else if (n == CM_TEXT_DOUBLE)
        cm_buf_printf(out, "__longlong_as_double(0x%016" PRIx64 "ll)", wide);
    else if (isinf(v))
        cm_buf_str(out, n == CM_TEXT_U64 ? (v > 0 ? "~0ull" : "0ull")
                        : v > 0          ? "0x7fffffffffffffffll"
                                         : "(-0x7fffffffffffffffll - 1)");
    else
        cm_buf_printf(out, "(T)%" PRId64 "ll", (int64_t)v);
}

static void put_arg(cm_buf *out, const cm_program_arg *a, cm_text_number n)
{
    switch (a->kind) {
    case CM_ARG_X:
        cm_buf_str(out, "x");
        break;
    case CM_ARG_OPERAND:
        cm_buf_printf(out, "o[%d]", a->index);
        break;
    case CM_ARG_RESULT:
        cm_buf_printf(out, "v%d", a->index);
        break;
    case CM_ARG_NUMBER:
        put_number(out, a->number, n);
    }
}

/* Powers that need no logarithm; NULL: not one. */
static const char *power_form(double exponent)
{
    return exponent == 1     ? "A"
           : exponent == 2   ? "A * A"
           : exponent == 3   ? "A * A * A"
           : exponent == 0.5 ? "sqrt(A < -3.4e38f && isinf(A) ? -A : A + 0)"
           : exponent == -1  ? "1 / A"
                             : NULL;
}

/* last: its result is the program's. */
static const char *form_of(const cm_program_step *s, cm_text_number n, bool last)
{
    if (n == CM_TEXT_I64 || n == CM_TEXT_U64)
        return forms[s->op].whole;
    const char *power =
        s->op == CM_PW_POW && s->arg[1].kind == CM_ARG_NUMBER ? power_form(s->arg[1].number) : NULL;
    if (n == CM_TEXT_HALF && last && forms[s->op].half)
        return forms[s->op].half;
    if ((n == CM_TEXT_SHORT || n == CM_TEXT_HALF) && forms[s->op].brief)
        return forms[s->op].brief;
    return power ? power : forms[s->op].real;
}

static void put_form(cm_buf *out, const cm_program_step *s, const char *text, cm_text_number n)
{
    for (const char *c = text; *c; c++) {
        bool argument = *c >= 'A' && *c <= 'C';
        if (argument)
            put_arg(out, &s->arg[*c - 'A'], n);
        else
            cm_buf_bytes(out, c, 1);
    }
}

static void put_step(cm_buf *out, const cm_program *p, int index, cm_text_number n)
{
    const cm_program_step *s = &p->step[index];
    cm_buf_printf(out, "    T v%d = (T)(", index);
    put_form(out, s, form_of(s, n, index == p->n_steps - 1), n);
    cm_buf_str(out, ");\n");
}

/* When the data are such that it cannot be computed; NULL: never. */
static const char *fault_form(cm_pointwise op)
{
    switch (op) {
    case CM_PW_MOD:
    case CM_PW_FMOD:
    case CM_PW_DIV_WHOLE:
        return "B == 0";
    case CM_PW_POW_WHOLE:
        return "A == 0 && B < 0";
    default:
        return NULL;
    }
}

const char *cm_cuda_program_fault(const cm_program *p, cm_text_number n)
{
    bool whole = n == CM_TEXT_I64 || n == CM_TEXT_U64;
    return whole && p->n_steps == 1 ? fault_form(p->step[0].op) : NULL;
}

void cm_cuda_program_text(cm_buf *out, const cm_program *p, const char *name, cm_text_number n)
{
    const char *type = cm_text_number_type(n);
    cm_buf_printf(out,
                  "#include \"program.cuh\"\n"
                  "static __device__ __forceinline__ void %s(%s x, const %s *o, %s *r)\n"
                  "{\n"
                  "    typedef %s T;\n",
                  name, type, type, type, type);
    for (int i = 0; i < p->n_steps; i++)
        put_step(out, p, i, n);
    for (int i = 0; i < p->n_outputs; i++)
        cm_buf_printf(out, "    r[%d] = v%d;\n", i, p->output[i]);
    const char *fault = cm_cuda_program_fault(p, n);
    if (fault) {
        cm_buf_printf(out, "    r[%d] = (T)(", p->n_outputs);
        put_form(out, &p->step[0], fault, n);
        cm_buf_str(out, ");\n");
    }
    cm_buf_str(out, "}\n");
}
