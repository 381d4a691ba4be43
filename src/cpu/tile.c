/* tile.c -- pointwise programs compiled for tiles: views, slots, registers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/tile.h"

#include <math.h>

#include "base/cpu.h"

const cm_tile_kernels *cm_tile_kernels_at(int level)
{
    return level == CM_ISA_GENERIC ? &cm_cpu_tile__generic
           : level == CM_ISA_AVX2  ? &cm_cpu_tile__avx2
                                   : &cm_cpu_tile__avx512;
}

bool cm_tile_loads(cm_dtype t)
{
    return cm_cpu_tile__generic.load[t] != NULL;
}

bool cm_tile_stores(cm_dtype t)
{
    return cm_cpu_tile__generic.store[t] != NULL;
}

void cm_tile_view_begin(cm_tile_view *v, cm_dtype dtype, const void *data)
{
    v->data = data;
    v->dtype = dtype;
    v->n_axes = v->n_col_axes = 0;
}

static bool push_axis(int *n, int64_t *dims, int64_t *strides, int64_t dim, int64_t stride)
{
    if (dim == 1)
        return true;
    if (*n > 0 && strides[*n - 1] == dim * stride) {
        dims[*n - 1] *= dim;
        strides[*n - 1] = stride;
        return true;
    }
    if (*n == CM_TILE_AXES)
        return false;
    dims[*n] = dim;
    strides[(*n)++] = stride;
    return true;
}

bool cm_tile_view_row(cm_tile_view *v, int64_t dim, int64_t stride)
{
    return push_axis(&v->n_axes, v->dims, v->strides, dim, stride);
}

bool cm_tile_view_col(cm_tile_view *v, int64_t dim, int64_t stride)
{
    return push_axis(&v->n_col_axes, v->col_dims, v->col_strides, dim, stride);
}

void cm_tile_view_end(cm_tile_view *v)
{
    if (v->n_axes == 0) {
        v->n_axes = 1;
        v->dims[0] = 1;
        v->strides[0] = 0;
    }
    if (v->n_col_axes == 0) {
        v->n_col_axes = 1;
        v->col_dims[0] = 1;
        v->col_strides[0] = 0;
    }
}

bool cm_tile_is_run(const cm_tile_view *v, int64_t cols, bool rows_apart)
{
    if (v->n_col_axes != 1 || (v->col_strides[0] != 1 && cols != 1))
        return false;
    return rows_apart || (v->n_axes == 1 && v->strides[0] == cols);
}

/* Nanoseconds an element with 512-bit vectors, measured on tensors in the cache. */
static double instruction_cost(cm_pointwise op)
{
    switch (op) {
    case CM_PW_EXP:
        return 0.17;
    case CM_PW_SIGMOID:
    case CM_PW_TANH:
    case CM_PW_SILU:
    case CM_PW_GELU_TANH:
    case CM_PW_ELU:
    case CM_PW_MISH:
        return 0.25;
    case CM_PW_LOG:
        return 0.4;
    case CM_PW_ERF:
    case CM_PW_GELU:
    case CM_PW_SOFTPLUS:
        return 0.5;
    case CM_PW_SIN:
    case CM_PW_COS:
        return 0.65;
    case CM_PW_POW:
        return 2.2;
    case CM_PW_DIV:
    case CM_PW_SQRT:
    case CM_PW_RECIP:
    case CM_PW_SOFTSIGN:
    case CM_PW_RSQRT:
        return 0.15;
    default:
        return 0.05;
    }
}

double cm_tile_cost(const cm_program *p, int level)
{
    double ns = 0;
    for (int s = 0; s < p->n_steps; s++)
        ns += instruction_cost(p->step[s].op);
    return ns * (level == CM_ISA_GENERIC ? 4 : level == CM_ISA_AVX2 ? 1.5 : 1);
}

const char *cm_tile_reject(const cm_program *p)
{
    if (p->n_operands > CM_TILE_OPERANDS)
        return "the program has too many operands";
    for (int s = 0; s < p->n_steps; s++)
        if (cm_pointwise_is_alone(p->step[s].op))
            return "the operator is left to its evaluator";
    return NULL;
}

/* One instruction with its arguments; what peepholes turn a step into. */
typedef struct instruction {
    int op, arity;
    cm_program_arg arg[3];
} instruction;

/* Compiling. Slots: [operands] x [numbers] [results written in place: one] [registers]. Numbers are
 * counted first, so that every slot's place is known. */
typedef struct builder {
    cm_tile_code *c;
    const cm_program *p;
    const cm_tile_facts *facts;
    int last_use[CM_PROGRAM_MAX];           /* of each result: step, n_steps for outputs */
    int operand_last[CM_TILE_OPERANDS + 1]; /* of each operand that has a register; x the last */
    bool fused[CM_PROGRAM_MAX];             /* step is part of a later one */
    instruction in[CM_PROGRAM_MAX];
    uint16_t slot[CM_PROGRAM_MAX]; /* of each result */
    uint16_t free[CM_TILE_SLOTS];
    int n_free;
    int first_register;
} builder;

static int slot_of_x(const cm_tile_code *c)
{
    return c->n_operands;
}

static int slot_direct(const cm_tile_code *c)
{
    return c->n_operands + 1 + c->n_numbers;
}

static uint16_t take_register(builder *b)
{
    if (b->n_free)
        return b->free[--b->n_free];
    return (uint16_t)(b->first_register + b->c->n_registers++);
}

static void note_uses(builder *b)
{
    const cm_program *p = b->p;
    for (int i = 0; i <= b->c->n_operands; i++)
        b->operand_last[i] = -1;
    for (int s = 0; s < p->n_steps; s++) {
        b->last_use[s] = -1;
        b->fused[s] = false;
        for (int k = 0; k < cm_pointwise_arity(p->step[s].op); k++) {
            const cm_program_arg *a = &p->step[s].arg[k];
            if (a->kind == CM_ARG_RESULT)
                b->last_use[a->index] = s;
            else if (a->kind == CM_ARG_OPERAND)
                b->operand_last[a->index] = s;
            else if (a->kind == CM_ARG_X)
                b->operand_last[b->c->n_operands] = s;
        }
    }
    for (int o = 0; o < p->n_outputs; o++)
        b->last_use[p->output[o]] = p->n_steps;
}

static bool read_once(const builder *b, const cm_program_arg *a, int by)
{
    if (a->kind != CM_ARG_RESULT || b->last_use[a->index] != by)
        return false;
    int uses = 0;
    for (int s = a->index + 1; s <= by; s++)
        for (int k = 0; k < cm_pointwise_arity(b->p->step[s].op); k++)
            uses += b->p->step[s].arg[k].kind == CM_ARG_RESULT &&
                    b->p->step[s].arg[k].index == a->index;
    return uses == 1;
}

static bool is_result(const cm_program_arg *a, int s)
{
    return a->kind == CM_ARG_RESULT && a->index == s;
}

/* Step s swallows the one before it; what that read is then read by s. */
static void swallow(builder *b, int s)
{
    b->fused[s - 1] = true;
    for (int k = 0; k < cm_pointwise_arity(b->p->step[s - 1].op); k++) {
        const cm_program_arg *a = &b->p->step[s - 1].arg[k];
        if (a->kind == CM_ARG_RESULT && b->last_use[a->index] < s)
            b->last_use[a->index] = s;
    }
}

static bool is_one(const builder *b, const cm_program_arg *a)
{
    return a->kind == CM_ARG_NUMBER || (a->kind == CM_ARG_OPERAND && b->facts->one[a->index]);
}

/* Steps that have a shorter form, or that swallow the one right before: functions of a + b, a * b + c,
 * squares. */
static void simplify(builder *b, int s, instruction *out)
{
    const cm_program_step *step = &b->p->step[s], *before = s > 0 ? step - 1 : NULL;
    *out = (instruction){
        (int)step->op, cm_pointwise_arity(step->op), {step->arg[0], step->arg[1], step->arg[2]}};
    if (step->op == CM_PW_POW && step->arg[1].kind == CM_ARG_NUMBER && step->arg[1].number == 2)
        *out = (instruction){CM_TILE_SQUARE, 1, {step->arg[0]}};
    if (s == 0 || (s > 1 && b->fused[s - 2]))
        return;
    int at = is_result(&step->arg[0], s - 1) ? 0 : 1;
    if (at >= out->arity || !is_result(&step->arg[at], s - 1) || !read_once(b, &step->arg[at], s))
        return;
    if (before->op == CM_PW_ADD && b->c->kernels->op[CM_TILE_SUM + step->op].each) {
        bool turned = is_one(b, &before->arg[0]); /* a number comes second */
        *out = (instruction){
            CM_TILE_SUM + (int)step->op, 2, {before->arg[turned], before->arg[!turned]}};
        swallow(b, s);
    } else if (step->op == CM_PW_ADD && before->op == CM_PW_MUL) {
        *out =
            (instruction){CM_TILE_MUL_ADD, 3, {before->arg[0], before->arg[1], step->arg[1 - at]}};
        swallow(b, s);
    }
}

static uint16_t slot_of(builder *b, const cm_program_arg *a)
{
    cm_tile_code *c = b->c;
    switch (a->kind) {
    case CM_ARG_X:
        return (uint16_t)slot_of_x(c);
    case CM_ARG_OPERAND:
        return (uint16_t)a->index;
    case CM_ARG_RESULT:
        return b->slot[a->index];
    default:
        break;
    }
    for (int i = 0; i < c->n_numbers; i++) { /* those of the program were all put there */
        float f = (float)a->number;
        if (memcmp(&c->number[i], &f, sizeof f) == 0)
            return (uint16_t)(c->n_operands + 1 + i);
    }
    return 0;
}

static void collect_numbers(builder *b)
{
    cm_tile_code *c = b->c;
    c->n_numbers = 0;
    for (int s = 0; s < b->p->n_steps; s++) {
        for (int k = 0; k < cm_pointwise_arity(b->p->step[s].op); k++) {
            const cm_program_arg *a = &b->p->step[s].arg[k];
            float f = (float)a->number;
            int i = 0;
            if (a->kind != CM_ARG_NUMBER)
                continue;
            while (i < c->n_numbers && memcmp(&c->number[i], &f, sizeof f) != 0)
                i++;
            c->number[i] = f;
            c->n_numbers += i == c->n_numbers;
        }
    }
}

static void emit(builder *b, cm_tile_fn fn, uint16_t to, uint16_t x, uint16_t y, uint16_t z)
{
    b->c->step[b->c->n_steps++] = (cm_tile_step){fn, to, {x, y, z}};
}

/* Arguments that are one number where the function wants vectors are spread into registers. Returns
 * how many of `spread` are to be given back. */
static int emit_spread(builder *b, const instruction *in, uint16_t *slots, unsigned ones,
                       uint16_t *spread)
{
    int n = 0;
    for (int k = 0; k < in->arity; k++) {
        if (!(ones >> k & 1))
            continue;
        uint16_t to = take_register(b);
        emit(b, b->c->kernels->op[CM_TILE_SPLAT].each, to, slots[k], slots[k], slots[k]);
        slots[k] = spread[n++] = to;
    }
    return n;
}

static bool bounds_are_numbers(const instruction *in)
{
    for (int k = 1; k < 3; k++)
        if (in->arg[k].kind != CM_ARG_NUMBER || isnan(in->arg[k].number))
            return false;
    return true;
}

/* The function for an instruction whose arguments in `ones` are one number each, those that must be
 * spread first left in it. */
static cm_tile_fn function_of(const builder *b, const instruction *in, unsigned *ones)
{
    const cm_tile_kernels *k = b->c->kernels;
    unsigned right = in->arity == 3 ? 6 : 2;
    bool clip = in->op == CM_PW_CLIP;
    if (in->arity > 1 && *ones == right && k->op[in->op].right &&
        (!clip || bounds_are_numbers(in))) {
        *ones = 0;
        return k->op[in->op].right;
    }
    if (*ones == 1 && k->op[in->op].left) {
        *ones = 0;
        return k->op[in->op].left;
    }
    if (in->arity == 2 && *ones == 3) { /* both: the second stays one */
        *ones = 1;
        return k->op[in->op].right;
    }
    return k->op[in->op].each;
}

static void release(builder *b, int s, const instruction *in)
{
    for (int k = 0; k < in->arity; k++) {
        const cm_program_arg *a = &in->arg[k];
        bool again = false;
        for (int l = 0; l < k; l++)
            again |= in->arg[l].kind == a->kind && in->arg[l].index == a->index;
        if (again)
            continue;
        if (a->kind == CM_ARG_RESULT && b->last_use[a->index] == s)
            b->free[b->n_free++] = b->slot[a->index];
    }
}

static void compile_step(builder *b, int s)
{
    const instruction *in = &b->in[s];
    uint16_t slots[3] = {0}, spread[3];
    unsigned ones = 0;
    if (b->fused[s] || b->last_use[s] < 0)
        return;
    for (int k = 0; k < in->arity; k++) {
        slots[k] = slot_of(b, &in->arg[k]);
        ones |= (unsigned)is_one(b, &in->arg[k]) << k;
    }
    cm_tile_fn fn = function_of(b, in, &ones);
    int n_spread = emit_spread(b, in, slots, ones, spread);
    release(b, s, in);
    for (int i = 0; i < n_spread; i++)
        b->free[b->n_free++] = spread[i];
    bool direct = b->c->direct >= 0 && s == b->p->n_steps - 1;
    b->slot[s] = direct ? (uint16_t)slot_direct(b->c) : take_register(b);
    emit(b, fn, b->slot[s], slots[0], slots[1], slots[2]);
}

/* Registers of operands that may have to be loaded: held from the beginning of a tile to its end. */
static void give_homes(builder *b)
{
    cm_tile_code *c = b->c;
    for (int i = 0; i <= c->n_operands; i++) {
        bool x = i == c->n_operands;
        bool used = b->operand_last[i] >= 0;
        bool loaded = x ? b->facts->x_loaded : b->facts->loaded[i] && !b->facts->one[i];
        c->home[i] = used && loaded ? take_register(b) : 0;
        if (!x) {
            c->one[i] = b->facts->one[i];
            c->used[i] = used;
        }
    }
}

void cm_tile_compile(cm_tile_code *c, const cm_program *p, int level, const cm_tile_facts *facts)
{
    builder b;
    b.c = c;
    b.p = p;
    b.facts = facts;
    b.n_free = 0;
    c->kernels = cm_tile_kernels_at(level);
    c->n_operands = p->n_operands;
    c->n_steps = c->n_registers = 0;
    c->n_outputs = p->n_outputs;
    c->direct = -1;
    for (int o = p->n_outputs - 1; o >= 0; o--)
        if (p->output[o] == p->n_steps - 1)
            c->direct = o;
    collect_numbers(&b);
    b.first_register = slot_direct(c) + 1;
    note_uses(&b);
    give_homes(&b);
    c->direct_home = c->direct >= 0 && facts->out_stored ? take_register(&b) : 0;
    for (int s = 0; s < p->n_steps; s++)
        simplify(&b, s, &b.in[s]);
    for (int s = 0; s < p->n_steps; s++)
        compile_step(&b, s);
    for (int o = 0; o < p->n_outputs; o++)
        c->out[o] = b.slot[p->output[o]];
    int share = c->n_registers ? CM_TILE_FLOATS / c->n_registers / 16 * 16 : INT32_MAX;
    c->tile = c->n_registers ? (share < CM_TILE_ELEMS ? share : CM_TILE_ELEMS) : CM_TILE_UNBOUNDED;
}

void cm_tile_compile_copy(cm_tile_code *c, int level)
{
    c->kernels = cm_tile_kernels_at(level);
    c->n_steps = c->n_operands = c->n_numbers = 0;
    c->n_registers = c->n_outputs = 1;
    c->direct = -1;
    c->direct_home = 0;
    c->out[0] = 0; /* x */
    c->home[0] = 2;
    c->tile = CM_TILE_ELEMS;
}
