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

/* How t, which broadcasts to `out`, lies beside the matrix. False: too many axes. */
static bool view(const cm_tensor *t, const cm_tensor *out, const order *o, int n_col_axes,
                 cm_tile_view *v)
{
    int n_rows = o->rank - n_col_axes;
    cm_tile_view_begin(v, t->dtype, NULL);
    for (int i = 0; i < o->rank; i++) {
        int64_t dim = out->dims[o->axis[i]], stride = stride_along(t, o->rank, o->axis[i]);
        if (!(i < n_rows ? cm_tile_view_row : cm_tile_view_col)(v, dim, stride))
            return false;
    }
    cm_tile_view_end(v);
    return true;
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
    cm_tile_view v;
    order o;
    if (!out || n_col_axes < 0 || n_col_axes > out->rank)
        return "there is no output to apply an epilogue to";
    if (!cm_tile_stores(out->dtype))
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
        if (!cm_tile_loads(p->operands[i]->dtype))
            return "an operand of the epilogue is not computed as float32";
        if (!broadcasts_to(p->operands[i], out))
            return "an operand of the epilogue does not broadcast to the output";
        if (!view(p->operands[i], out, &o, n_col_axes, &v))
            return "an operand of the epilogue is strided over too many axes";
    }
    return NULL;
}

/* Tiles have as many rows as the caller likes: only what is one number everywhere is so in each. */
void cm_epilogue_compile(cm_epilogue_plan *e)
{
    cm_tile_facts facts;
    facts.x_loaded = facts.out_stored = true;
    for (int i = 0; i < e->n_operands; i++) {
        const cm_tile_view *v = &e->operands[i];
        facts.one[i] =
            v->n_axes == 1 && v->n_col_axes == 1 && v->strides[0] == 0 && v->col_strides[0] == 0;
        facts.loaded[i] = !facts.one[i];
    }
    if (e->program)
        cm_tile_compile(&e->code, e->program, e->level, &facts);
    else
        cm_tile_compile_copy(&e->code, e->level);
}

void cm_epilogue_view(cm_epilogue_plan *e, const cm_run *r, int n_col_axes)
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

void cm_epilogue_init(cm_epilogue_plan *e, const cm_run *r, int n_col_axes)
{
    cm_epilogue_view(e, r, n_col_axes);
    cm_epilogue_compile(e);
}

bool cm_epilogue_init_or_simple(cm_epilogue_plan *e, const cm_run *r, int n_col_axes,
                                cm_simple_epilogue *out)
{
    cm_epilogue_view(e, r, n_col_axes);
    bool simple = cm_epilogue_simple(e, out);
    if (!simple)
        cm_epilogue_compile(e);
    return simple;
}

void cm_epilogue_tile(const cm_epilogue_plan *e, int64_t row, int64_t col, int64_t m, int64_t n,
                      const float *x, int64_t ld)
{
    cm_tile_job j = {&e->code, e->operands, &e->out, e->cols, false};
    cm_tile_run(&j, row, col, m, n, x, ld);
}

/* While a chain is being read. */
typedef struct reader {
    const cm_epilogue_plan *e;
    cm_chain *c;
    bool half;      /* operands may be bfloat16 */
    bool functions; /* the activation may be more than bounds */
    bool activated;
} reader;

static bool is_readable(const reader *r, const cm_tile_view *v)
{
    return (v->dtype == CM_F32 || (r->half && v->dtype == CM_BF16)) && v->n_axes == 1 &&
           v->n_col_axes == 1 && (v->col_strides[0] == 1 || r->e->cols == 1);
}

/* One addition of an operand. */
static bool take_add(reader *r, int operand)
{
    const cm_tile_view *v = &r->e->operands[operand];
    bool one_row = v->strides[0] == 0 || v->dims[0] == 1;
    if (r->activated || !is_readable(r, v))
        return false;
    cm_chain_operand o = {v->data, v->dtype, v->dims[0] == 1 ? 0 : v->strides[0]};
    if (!r->c->bias.data && one_row)
        r->c->bias = o;
    else if (!r->c->residual.data)
        r->c->residual = o;
    else
        return false;
    return true;
}

/* An activation of the form min(hi, max(lo, .)). */
static bool take_bounds(reader *r, double lo, double hi)
{
    if (r->activated || !(lo <= hi))
        return false;
    r->c->lo = (float)lo;
    r->c->hi = (float)hi;
    return r->activated = true;
}

static bool take_function(reader *r, cm_pointwise op)
{
    if (r->activated || !r->functions)
        return false;
    r->c->act = op;
    return r->activated = true;
}

static bool is_number(const cm_program_arg *a)
{
    return a->kind == CM_ARG_NUMBER;
}

static bool same_arg(const cm_program_arg *a, const cm_program_arg *b)
{
    return a->kind == b->kind && a->index == b->index;
}

static bool take_step(reader *r, const cm_program_step *s, const cm_program_arg *value)
{
    bool first = same_arg(&s->arg[0], value);
    const cm_program_arg *other = &s->arg[first ? 1 : 0];
    if (!first && (cm_pointwise_arity(s->op) != 2 || !same_arg(&s->arg[1], value)))
        return false;
    switch (s->op) {
    case CM_PW_RELU:
        return take_bounds(r, 0, INFINITY);
    case CM_PW_CLIP:
        return is_number(&s->arg[1]) && is_number(&s->arg[2]) &&
               take_bounds(r, s->arg[1].number, s->arg[2].number);
    case CM_PW_MAX:
        return is_number(other) && take_bounds(r, other->number, INFINITY);
    case CM_PW_MIN:
        return is_number(other) && take_bounds(r, -INFINITY, other->number);
    case CM_PW_ADD:
        return other->kind == CM_ARG_OPERAND && take_add(r, other->index);
    case CM_PW_GELU:
    case CM_PW_GELU_TANH:
    case CM_PW_SILU:
        return take_function(r, s->op);
    default:
        return false;
    }
}

static bool read_steps(reader *r, const cm_program *p)
{
    cm_program_arg value = cm_arg_x();
    for (int s = 0; p && s < p->n_steps; s++) {
        if (!take_step(r, &p->step[s], &value))
            return false;
        value = cm_arg_result(s);
    }
    return !p || p->output[0] == p->n_steps - 1;
}

static bool read_chain(const cm_epilogue_plan *e, bool half, bool functions, cm_chain *out)
{
    static const cm_chain none = {.act = CM_PW_CLIP, .lo = -INFINITY, .hi = INFINITY};
    reader r = {.e = e, .c = out, .half = half, .functions = functions};
    *out = none;
    if (e->out.dtype != (half ? CM_BF16 : CM_F32) || e->out.n_axes != 1 || e->out.n_col_axes != 1 ||
        (e->out.col_strides[0] != 1 && e->cols != 1))
        return false;
    if (read_steps(&r, e->program))
        return true;
    *out = none;
    return false;
}

bool cm_epilogue_chain(const cm_epilogue_plan *e, bool half, cm_chain *out)
{
    return read_chain(e, half, half, out);
}

bool cm_epilogue_simple(const cm_epilogue_plan *e, cm_simple_epilogue *out)
{
    cm_chain c;
    bool simple = read_chain(e, false, false, &c);
    *out = (cm_simple_epilogue){c.bias.data, c.residual.data, c.residual.ld, c.lo, c.hi};
    return simple;
}

bool cm_epilogue_simple_act(const cm_epilogue_plan *e, cm_simple_epilogue *out, cm_pointwise *act)
{
    cm_chain c;
    bool simple = read_chain(e, false, true, &c);
    *out = (cm_simple_epilogue){c.bias.data, c.residual.data, c.residual.ld, c.lo, c.hi};
    *act = c.act;
    return simple;
}
