/* pointwise_typed_steps.c -- which kernels make up an operator on whole numbers or doubles, or a cast.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "cpu/pointwise_typed.h"

const cm_typed_kernels *cm_typed_kernels_at(int level)
{
    return level >= CM_ISA_AVX512 ? &cm_cpu_typed__avx512
           : level >= CM_ISA_AVX2 ? &cm_cpu_typed__avx2
                                  : &cm_cpu_typed__generic;
}

cm_typed cm_typed_of(cm_dtype t)
{
    switch (t) {
    case CM_I8:
        return CM_TYPED_I8;
    case CM_I16:
        return CM_TYPED_I16;
    case CM_I32:
        return CM_TYPED_I32;
    case CM_I64:
        return CM_TYPED_I64;
    case CM_U8:
        return CM_TYPED_U8;
    case CM_U16:
        return CM_TYPED_U16;
    case CM_U32:
        return CM_TYPED_U32;
    case CM_U64:
        return CM_TYPED_U64;
    case CM_BOOL:
        return CM_TYPED_BOOL;
    case CM_F32:
        return CM_TYPED_F32;
    case CM_F64:
        return CM_TYPED_F64;
    default:
        return CM_TYPED_NONE;
    }
}

static size_t size_of(cm_typed t)
{
    return t == CM_TYPED_BOOL  ? 1
           : t == CM_TYPED_F32 ? 4
           : t == CM_TYPED_F64 ? 8
                               : (size_t)1 << (t & 3);
}

static bool is_whole(cm_typed t)
{
    return t <= CM_TYPED_U64;
}

/* Is there a kernel for the instruction on elements of that type? */
static bool has(cm_pointwise op, cm_typed t)
{
    switch (op) {
    case CM_PW_AND:
    case CM_PW_OR:
    case CM_PW_XOR:
    case CM_PW_NOT:
        return t == CM_TYPED_BOOL;
    case CM_PW_SELECT:
        return is_whole(t) || t == CM_TYPED_F32 || t == CM_TYPED_F64;
    case CM_PW_DIV:
    case CM_PW_SQRT:
    case CM_PW_RELU:
        return t == CM_TYPED_F64;
    case CM_PW_ADD:
    case CM_PW_SUB:
    case CM_PW_MUL:
    case CM_PW_NEG:
    case CM_PW_ABS:
    case CM_PW_MIN:
    case CM_PW_MAX:
    case CM_PW_EQ:
    case CM_PW_LT:
    case CM_PW_LE:
    case CM_PW_GT:
    case CM_PW_GE:
        return is_whole(t) || t == CM_TYPED_F64;
    case CM_PW_SIGN:
    case CM_PW_BIT_NOT:
    case CM_PW_BIT_AND:
    case CM_PW_BIT_OR:
    case CM_PW_BIT_XOR:
    case CM_PW_SHIFT_LEFT:
    case CM_PW_SHIFT_RIGHT:
        return is_whole(t);
    default:
        return false;
    }
}

static bool compares(cm_pointwise op)
{
    return op == CM_PW_EQ || op == CM_PW_LT || op == CM_PW_LE || op == CM_PW_GT || op == CM_PW_GE;
}

/* The bits of a number as an element. Infinite bounds of Clip are the type's own. */
static bool bits_of(cm_typed t, double v, uint64_t *bits)
{
    int width = 8 * (int)size_of(t);
    if (t == CM_TYPED_F64 || t == CM_TYPED_F32) {
        float f = (float)v;
        *bits = 0;
        memcpy(bits, t == CM_TYPED_F64 ? (void *)&v : (void *)&f, size_of(t));
        return true;
    }
    bool is_signed = t <= CM_TYPED_I64;
    uint64_t top = UINT64_MAX >> (64 - width + is_signed);
    *bits = v == INFINITY ? top : v == -INFINITY ? (is_signed ? ~top : 0) : 0;
    if (isinf(v))
        return true;
    double least = is_signed ? -ldexp(1, width - 1) : 0, above = ldexp(1, width - is_signed);
    if (!(v == rint(v) && fabs(v) <= 0x1p53 && v >= least && v < above))
        return false;
    *bits = (uint64_t)(int64_t)v;
    return true;
}

/* The place of an input of the problem, a new one where it has none; -1: too many. */
static int place_of_input(cm_typed_code *c, const cm_problem *p, int input)
{
    for (int i = 0; i < c->n_in; i++)
        if (c->input[i] == input)
            return i;
    if (c->n_in == CM_TYPED_INPUTS)
        return -1;
    c->input[c->n_in] = input;
    c->size[c->n_in] = cm_dtype_size(p->in[input]->dtype);
    return c->n_in++;
}

/* The place of an argument that is to be of type t. -1: it is none. */
static int place_of(cm_typed_code *c, const cm_problem *p, const cm_program_arg *a, cm_typed t)
{
    if (a->kind == CM_ARG_RESULT) /* the one before: only Min and Max have several */
        return a->index == c->n_steps - 1 ? CM_TYPED_BETWEEN + a->index : -1;
    if (a->kind == CM_ARG_OPERAND)
        return cm_typed_of(p->in[a->index]->dtype) == t ? place_of_input(c, p, a->index) : -1;
    if (c->n_numbers == 3 || !bits_of(t, a->number, &c->number[c->n_numbers]))
        return -1;
    c->size[CM_TYPED_NUMBERS + c->n_numbers] = size_of(t);
    return CM_TYPED_NUMBERS + c->n_numbers++;
}

/* The type that a program's instructions are of: that of the first operand that is no condition. */
static cm_typed type_of(const cm_problem *p)
{
    for (int s = 0; s < p->program->n_steps; s++) {
        const cm_program_step *t = &p->program->step[s];
        for (int k = t->op == CM_PW_SELECT; k < cm_pointwise_arity(t->op); k++)
            if (t->arg[k].kind == CM_ARG_OPERAND)
                return cm_typed_of(p->in[t->arg[k].index]->dtype);
    }
    return CM_TYPED_NONE;
}

static bool add_instruction(cm_typed_code *c, const cm_problem *p, const cm_program_step *from,
                            cm_typed t)
{
    cm_typed_step *s = &c->step[c->n_steps];
    bool swapped = from->op == CM_PW_GT || from->op == CM_PW_GE;
    *s = (cm_typed_step){
        .kind = CM_TYPED_APPLY, .op = from->op, .type = t, .to = CM_TYPED_BETWEEN + c->n_steps};
    if (swapped)
        s->op = from->op == CM_PW_GT ? CM_PW_LT : CM_PW_LE;
    int arity = cm_pointwise_arity(from->op);
    for (int k = 0; k < 3; k++) {
        bool condition = from->op == CM_PW_SELECT && k == 0;
        int from_k = swapped && k < 2 ? 1 - k : k;
        s->arg[k] = k < arity ? place_of(c, p, &from->arg[from_k], condition ? CM_TYPED_BOOL : t)
                              : s->arg[0];
        if (s->arg[k] < 0)
            return false;
    }
    c->size[s->to] = compares(s->op) ? 1 : size_of(t);
    c->n_steps++;
    return true;
}

/* x * 1: what a Cast is as a program. */
static bool is_copy(const cm_program *p)
{
    const cm_program_step *s = &p->step[0];
    return p->n_steps == 1 && s->op == CM_PW_MUL && s->arg[0].kind == CM_ARG_OPERAND &&
           s->arg[1].kind == CM_ARG_NUMBER && s->arg[1].number == 1;
}

static void add_step(cm_typed_code *c, cm_typed_step s)
{
    s.arg[0] = s.arg[1] = s.arg[2] = c->n_steps ? CM_TYPED_BETWEEN + c->n_steps - 1 : 0;
    s.to = CM_TYPED_BETWEEN + c->n_steps;
    c->size[s.to] = s.kind == CM_TYPED_TO_HALF ? 2 : size_of(s.to_type);
    c->step[c->n_steps++] = s;
}

static void add_convert(cm_typed_code *c, cm_typed from, cm_typed to)
{
    bool same = (from == to && from != CM_TYPED_BOOL) ||
                (is_whole(from) && is_whole(to) && (from & 3) == (to & 3));
    if (!same || !c->n_steps)
        add_step(c, (cm_typed_step){.kind = same ? CM_TYPED_COPY : CM_TYPED_CONVERT,
                                    .type = from,
                                    .to_type = to});
}

/* The next type on the way from one to the other. Floats become what x86-64 has instructions for, of which Cast keeps the
 * lower bits; nothing else between loses anything. */
static cm_typed way(cm_typed from, cm_typed to)
{
    bool narrow = is_whole(from) && ((int)from & 3) < 2, to_float = to >= CM_TYPED_F32;
    if (from == CM_TYPED_BOOL)
        return to == CM_TYPED_BOOL ? to : CM_TYPED_U8;
    if (from >= CM_TYPED_F32 && is_whole(to))
        return to == CM_TYPED_I64 || to == CM_TYPED_U32 ? CM_TYPED_I64 : CM_TYPED_I32;
    if (narrow && (to_float || (is_whole(to) && ((int)to & 3) == 3)))
        return CM_TYPED_I32;
    if (is_whole(from) && ((int)from & 3) == 3 && is_whole(to) && ((int)to & 3) < 2)
        return CM_TYPED_I32;
    return to;
}

/* A truth value as a byte is one made of it again: any byte but 0 is true. */
static void add_conversions(cm_typed_code *c, cm_typed from, cm_typed to)
{
    for (cm_typed next; c->n_steps == 0 || from != to; from = next) {
        next = way(from, to);
        add_convert(c, from, from == CM_TYPED_BOOL ? CM_TYPED_BOOL : next);
        if (from == to)
            return;
    }
}

static bool compile_cast(cm_typed_code *c, const cm_problem *p)
{
    int input = p->program->step[0].arg[0].index;
    cm_dtype from = p->in[input]->dtype, to = p->out[0]->dtype;
    cm_typed t = cm_typed_of(from), last = cm_typed_of(to);
    bool from_half = from == CM_F16 || from == CM_BF16;
    if ((t == CM_TYPED_NONE && !from_half) || place_of_input(c, p, input) < 0)
        return false;
    if (from_half) {
        add_step(
            c, (cm_typed_step){.kind = CM_TYPED_FROM_HALF, .half = from, .to_type = CM_TYPED_F32});
        t = CM_TYPED_F32;
    }
    if (to == CM_F16 && is_whole(t)) { /* what float32 rounds is beyond float16's range */
        add_conversions(c, t, CM_TYPED_F32);
        t = CM_TYPED_F32;
    }
    if ((to == CM_F16 || to == CM_BF16) && t == CM_TYPED_F32) {
        add_step(c, (cm_typed_step){.kind = CM_TYPED_TO_HALF, .half = to});
        return true;
    }
    if (last == CM_TYPED_NONE || (t >= CM_TYPED_F32 && last == CM_TYPED_U64))
        return false;
    add_conversions(c, t, last);
    return true;
}

/* Float32 to the power of whole numbers. */
static bool compile_power(cm_typed_code *c, const cm_problem *p)
{
    const cm_program_arg *a = p->program->step[0].arg;
    if (a[0].kind != CM_ARG_OPERAND || a[1].kind != CM_ARG_OPERAND ||
        p->in[a[0].index]->dtype != CM_F32 || p->out[0]->dtype != CM_F32)
        return false;
    cm_typed t = cm_typed_of(p->in[a[1].index]->dtype);
    if (!is_whole(t) || t == CM_TYPED_U64)
        return false;
    int exponent = place_of_input(c, p, a[1].index), base = place_of_input(c, p, a[0].index);
    if (t != CM_TYPED_I64) { /* the exponent's place is the first */
        add_conversions(c, t, CM_TYPED_I64);
        exponent = CM_TYPED_BETWEEN + c->n_steps - 1;
    }
    c->step[c->n_steps++] = (cm_typed_step){.kind = CM_TYPED_POWER, .arg = {base, exponent, base}};
    return true;
}

/* Clip is the upper bound of the lower one, Relu the larger of x and 0; of unsigned numbers the sign is the smaller of x
 * and 1. */
static bool compile_bounds(cm_typed_code *c, const cm_problem *p, cm_typed t)
{
    const cm_program_step *g = &p->program->step[0];
    cm_program_step low = {CM_PW_MAX, {g->arg[0], cm_arg_number(0)}};
    cm_program_step high = {CM_PW_MIN, {cm_arg_result(0), g->arg[2]}};
    if (!is_whole(t) || cm_typed_of(p->out[0]->dtype) != t)
        return false;
    if (g->op == CM_PW_SIGN)
        low = (cm_program_step){CM_PW_MIN, {g->arg[0], cm_arg_number(1)}};
    if (g->op != CM_PW_CLIP)
        return add_instruction(c, p, &low, t);
    low.arg[1] = g->arg[1];
    return add_instruction(c, p, &low, t) && add_instruction(c, p, &high, t);
}

/* Instructions as they are. */
static bool compile_plain(cm_typed_code *c, const cm_problem *p, cm_typed t)
{
    const cm_program *g = p->program;
    for (int s = 0; s < g->n_steps; s++) {
        cm_pointwise op = g->step[s].op;
        bool extreme = op == CM_PW_MIN || op == CM_PW_MAX;
        cm_typed to = compares(op) ? CM_TYPED_BOOL : t;
        if (!has(op, t) || cm_typed_of(p->out[0]->dtype) != to || (g->n_steps > 1 && !extreme) ||
            !add_instruction(c, p, &g->step[s], t))
            return false;
    }
    return true;
}

bool cm_typed_compile(cm_typed_code *c, const cm_problem *p)
{
    const cm_program *g = p->program;
    c->n_in = c->n_steps = c->n_numbers = 0;
    if (g->n_steps < 1 || g->n_steps > CM_TYPED_STEPS || g->n_outputs != 1 ||
        g->output[0] != g->n_steps - 1)
        return false;
    cm_typed t = type_of(p);
    cm_pointwise op = g->step[0].op;
    bool natural = is_whole(t) && t > CM_TYPED_I64;
    bool bounds = op == CM_PW_CLIP || (op == CM_PW_RELU && t != CM_TYPED_F64) ||
                  (natural && (op == CM_PW_SIGN || op == CM_PW_ABS));
    if (!(is_copy(g)        ? compile_cast(c, p)
          : op == CM_PW_POW ? g->n_steps == 1 && compile_power(c, p)
          : bounds          ? g->n_steps == 1 && compile_bounds(c, p, t)
                            : compile_plain(c, p, t)))
        return false;
    c->step[c->n_steps - 1].to = CM_TYPED_OUT;
    c->size[CM_TYPED_OUT] = cm_dtype_size(p->out[0]->dtype);
    return c->n_in > 0;
}
