/* export_program.c -- programs as plain nodes: cameo.Pointwise, cameo.PointwiseReduce and epilogues.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     y = Conv(x, @w | r) then "add x $0; relu %0"     becomes     c = Conv(x, @w)
 *                                                                  s = Add(c, r)
 *                                                                  y = Relu(s)
 *
 * Programs compute in float32 at least: operands of half precision are cast before and the result after. */
#include <math.h>
#include <string.h>

#include "onnx/export.h"

typedef struct expander {
    cm_ctx *cx;
    cm_node *node; /* what is expanded: new nodes go before it */
    cm_dtype wide; /* what numbers are computed in */
} expander;

/* ---- Making nodes --------------------------------------------------------------------------- */

static cm_status new_attr(const expander *e, cm_op_id op, void **out)
{
    return cm_attr_new(e->cx, e->node->network->arena, cm_op_builtin(op)->attrs, out);
}

static void set_attr(cm_op_id op, void *attr, const char *name, const void *value)
{
    const cm_attr_desc *d = cm_op_builtin(op)->attrs;
    const cm_attr_field *f = cm_attr_find(d, name);
    if (f)
        cm_attr_set(d, attr, f, value);
}

static cm_status emit_with(const expander *e, cm_op_id op, void *attr, cm_value *const *in, int n,
                           cm_value **out)
{
    cm_node *made;
    CM_TRY(cm_network_add_node(e->cx, e->node->network, e->node, cm_op_builtin(op), e->node->name,
                               attr, in, n, NULL, 1, &made));
    CM_TRY(cm_node_infer(e->cx, made));
    *out = made->out[0];
    return CM_OK;
}

static cm_status emit(const expander *e, cm_op_id op, cm_value *a, cm_value *b, cm_value *c,
                      cm_value **out)
{
    cm_value *in[3] = {a, b, c};
    return emit_with(e, op, NULL, in, c ? 3 : b ? 2 : 1, out);
}

static cm_status emit_cast(const expander *e, cm_value *v, cm_dtype to, cm_value **out)
{
    void *attr;
    int64_t number = to;
    *out = v;
    if (v->type.dtype == to)
        return CM_OK;
    CM_TRY(new_attr(e, CM_OP_CAST, &attr));
    set_attr(CM_OP_CAST, attr, "to", &number);
    return emit_with(e, CM_OP_CAST, attr, &v, 1, out);
}

static cm_status emit_float(const expander *e, cm_op_id op, cm_value *v, const char *name_a,
                            double a, const char *name_b, double b, cm_value **out)
{
    void *attr;
    float x = (float)a, y = (float)b;
    CM_TRY(new_attr(e, op, &attr));
    set_attr(op, attr, name_a, &x);
    if (name_b)
        set_attr(op, attr, name_b, &y);
    return emit_with(e, op, attr, &v, 1, out);
}

static cm_status constant(const expander *e, cm_dtype dtype, int rank, int64_t n, const void *data,
                          size_t bytes, cm_value **out)
{
    cm_network *g = e->node->network;
    cm_tensor *t;
    CM_NEW(e->cx, g->arena, t, cm_tensor);
    if (!cm_tensor_shape(t, dtype, rank, &n))
        return cm_fail(e->cx, CM_ERR_INTERNAL, "a constant is too large");
    t->data = cm_arena_memdup(g->arena, data, bytes);
    t->capacity_bytes = bytes;
    if (!t->data)
        return cm_fail_memory(e->cx);
    return cm_network_add_constant(e->cx, g, NULL, t, out);
}

static cm_status number(const expander *e, double v, cm_value **out)
{
    double room = 0;
    cm_set_f64(e->wide, &room, 0, v);
    return constant(e, e->wide, 0, 0, &room, cm_dtype_size(e->wide), out);
}

/* ---- Instructions --------------------------------------------------------------------------- */

/* Instructions that are one operator; `bools`: it takes them. */
static const struct {
    cm_pointwise instruction;
    cm_op_id op;
    bool bools;
} plain[] = {
    {CM_PW_NEG, CM_OP_NEG, false},
    {CM_PW_ABS, CM_OP_ABS, false},
    {CM_PW_SIGN, CM_OP_SIGN, false},
    {CM_PW_FLOOR, CM_OP_FLOOR, false},
    {CM_PW_CEIL, CM_OP_CEIL, false},
    {CM_PW_ROUND, CM_OP_ROUND, false},
    {CM_PW_SQRT, CM_OP_SQRT, false},
    {CM_PW_RECIP, CM_OP_RECIPROCAL, false},
    {CM_PW_EXP, CM_OP_EXP, false},
    {CM_PW_LOG, CM_OP_LOG, false},
    {CM_PW_SIN, CM_OP_SIN, false},
    {CM_PW_COS, CM_OP_COS, false},
    {CM_PW_TANH, CM_OP_TANH, false},
    {CM_PW_SIGMOID, CM_OP_SIGMOID, false},
    {CM_PW_ERF, CM_OP_ERF, false},
    {CM_PW_RELU, CM_OP_RELU, false},
    {CM_PW_GELU, CM_OP_GELU, false},
    {CM_PW_MISH, CM_OP_MISH, false},
    {CM_PW_SOFTPLUS, CM_OP_SOFTPLUS, false},
    {CM_PW_SOFTSIGN, CM_OP_SOFTSIGN, false},
    {CM_PW_HARDSWISH, CM_OP_HARD_SWISH, false},
    {CM_PW_NOT, CM_OP_NOT, true},
    {CM_PW_IS_NAN, CM_OP_IS_NAN, false},
    {CM_PW_ADD, CM_OP_ADD, false},
    {CM_PW_SUB, CM_OP_SUB, false},
    {CM_PW_MUL, CM_OP_MUL, false},
    {CM_PW_DIV, CM_OP_DIV, false},
    {CM_PW_POW, CM_OP_POW, false},
    {CM_PW_MIN, CM_OP_MIN, false},
    {CM_PW_MAX, CM_OP_MAX, false},
    {CM_PW_EQ, CM_OP_EQUAL, false},
    {CM_PW_LT, CM_OP_LESS, false},
    {CM_PW_LE, CM_OP_LESS_OR_EQUAL, false},
    {CM_PW_GT, CM_OP_GREATER, false},
    {CM_PW_GE, CM_OP_GREATER_OR_EQUAL, false},
    {CM_PW_AND, CM_OP_AND, true},
    {CM_PW_OR, CM_OP_OR, true},
    {CM_PW_XOR, CM_OP_XOR, true},
};

/* x < 0 ? other : x */
static cm_status below_zero(const expander *e, cm_value *x, cm_value *other, cm_value **out)
{
    cm_value *zero, *less;
    CM_TRY(number(e, 0, &zero));
    CM_TRY(emit(e, CM_OP_LESS, x, zero, NULL, &less));
    return emit(e, CM_OP_WHERE, less, other, x, out);
}

static cm_status leaky(const expander *e, const cm_program_arg *arg, cm_value **in, cm_value **out)
{
    cm_value *scaled;
    if (arg[1].kind == CM_ARG_NUMBER)
        return emit_float(e, CM_OP_LEAKY_RELU, in[0], "alpha", arg[1].number, NULL, 0, out);
    CM_TRY(emit(e, CM_OP_MUL, in[1], in[0], NULL, &scaled));
    return below_zero(e, in[0], scaled, out);
}

static cm_status elu(const expander *e, const cm_program_arg *arg, cm_value **in, cm_value **out)
{
    cm_value *t, *one;
    if (arg[1].kind == CM_ARG_NUMBER)
        return emit_float(e, CM_OP_ELU, in[0], "alpha", arg[1].number, NULL, 0, out);
    CM_TRY(number(e, 1, &one));
    CM_TRY(emit(e, CM_OP_EXP, in[0], NULL, NULL, &t));
    CM_TRY(emit(e, CM_OP_SUB, t, one, NULL, &t));
    CM_TRY(emit(e, CM_OP_MUL, in[1], t, NULL, &t));
    return below_zero(e, in[0], t, out);
}

static cm_status hard_sigmoid(const expander *e, const cm_program_arg *arg, cm_value **in,
                              cm_value **out)
{
    cm_value *t, *zero, *one;
    if (arg[1].kind == CM_ARG_NUMBER && arg[2].kind == CM_ARG_NUMBER)
        return emit_float(e, CM_OP_HARD_SIGMOID, in[0], "alpha", arg[1].number, "beta",
                          arg[2].number, out);
    CM_TRY(number(e, 0, &zero));
    CM_TRY(number(e, 1, &one));
    CM_TRY(emit(e, CM_OP_MUL, in[1], in[0], NULL, &t));
    CM_TRY(emit(e, CM_OP_ADD, t, in[2], NULL, &t));
    CM_TRY(emit(e, CM_OP_MIN, one, t, NULL, &t));
    return emit(e, CM_OP_MAX, zero, t, NULL, out);
}

static cm_status clip(const expander *e, const cm_program_arg *arg, cm_value **in, cm_value **out)
{
    cm_value *t;
    if (arg[1].kind == CM_ARG_NUMBER && arg[2].kind == CM_ARG_NUMBER)
        return emit(e, CM_OP_CLIP, in[0], in[1], in[2], out);
    CM_TRY(emit(e, CM_OP_MAX, in[0], in[1], NULL, &t));
    return emit(e, CM_OP_MIN, t, in[2], NULL, out);
}

static cm_status composite(const expander *e, const cm_program_step *s, cm_value **in,
                           cm_value **out)
{
    cm_value *t;
    void *attr;
    cm_str tanh = cm_str_of("tanh");
    switch (s->op) {
    case CM_PW_RSQRT:
        CM_TRY(emit(e, CM_OP_SQRT, in[0], NULL, NULL, &t));
        return emit(e, CM_OP_RECIPROCAL, t, NULL, NULL, out);
    case CM_PW_SILU:
        CM_TRY(emit(e, CM_OP_SIGMOID, in[0], NULL, NULL, &t));
        return emit(e, CM_OP_MUL, in[0], t, NULL, out);
    case CM_PW_GELU_TANH:
        CM_TRY(new_attr(e, CM_OP_GELU, &attr));
        set_attr(CM_OP_GELU, attr, "approximate", &tanh);
        return emit_with(e, CM_OP_GELU, attr, in, 1, out);
    case CM_PW_LEAKY:
        return leaky(e, s->arg, in, out);
    case CM_PW_ELU:
        return elu(e, s->arg, in, out);
    case CM_PW_CLIP:
        return clip(e, s->arg, in, out);
    case CM_PW_HARDSIGMOID:
        return hard_sigmoid(e, s->arg, in, out);
    case CM_PW_SELECT:
        return emit(e, CM_OP_WHERE, in[0], in[1], in[2], out);
    default:
        return cm_fail(e->cx, CM_ERR_UNSUPPORTED, "ONNX has no word for the instruction '%s'",
                       cm_pointwise_name(s->op));
    }
}

static cm_status instruction(const expander *e, const cm_program_step *s, cm_value **in,
                             cm_value **out)
{
    int row = 0, arity = cm_pointwise_arity(s->op);
    while (row < CM_COUNT(plain) && plain[row].instruction != s->op)
        row++;
    bool found = row < CM_COUNT(plain), bools = found && plain[row].bools;
    for (int i = 0; i < arity; i++) {
        bool condition = bools || (s->op == CM_PW_SELECT && i == 0);
        CM_TRY(emit_cast(e, in[i], condition ? CM_BOOL : e->wide, &in[i]));
    }
    if (found)
        return emit(e, plain[row].op, in[0], arity > 1 ? in[1] : NULL, NULL, out);
    return composite(e, s, in, out);
}

/* ---- Programs ------------------------------------------------------------------------------- */

static bool reads(const cm_program *p, int operand)
{
    for (int s = 0; s < p->n_steps; s++)
        for (int k = 0; k < cm_pointwise_arity(p->step[s].op); k++)
            if (p->step[s].arg[k].kind == CM_ARG_OPERAND && p->step[s].arg[k].index == operand)
                return true;
    return false;
}

/* An operand that is not read still broadcasts. */
static cm_status widen(const expander *e, const cm_program *p, cm_value *const *operands, int n,
                       cm_value **v)
{
    for (int k = 0; k < n; k++) {
        cm_value *shape;
        if (reads(p, k) || operands[k]->type.rank == 0)
            continue;
        CM_TRY(emit(e, CM_OP_SHAPE, operands[k], NULL, NULL, &shape));
        CM_TRY(emit(e, CM_OP_EXPAND, *v, shape, NULL, v));
    }
    return CM_OK;
}

static cm_status run_program(const expander *e, cm_str text, cm_value *x, cm_value *const *operands,
                             int n_operands, const cm_dtype *to, cm_value **out)
{
    cm_program p;
    cm_value *result[CM_PROGRAM_MAX];
    CM_TRY(cm_program_parse(e->cx, text.p, text.n, &p));
    for (int s = 0; s < p.n_steps; s++) {
        cm_value *in[3] = {NULL};
        for (int k = 0; k < cm_pointwise_arity(p.step[s].op); k++) {
            const cm_program_arg *a = &p.step[s].arg[k];
            if (a->kind == CM_ARG_NUMBER)
                CM_TRY(number(e, a->number, &in[k]));
            else
                in[k] = a->kind == CM_ARG_X         ? x
                        : a->kind == CM_ARG_OPERAND ? operands[a->index]
                                                    : result[a->index];
        }
        CM_TRY(instruction(e, &p.step[s], in, &result[s]));
    }
    for (int o = 0; o < p.n_outputs; o++) {
        out[o] = result[p.output[o]];
        if (!x)
            CM_TRY(widen(e, &p, operands, n_operands, &out[o]));
        CM_TRY(emit_cast(e, out[o], to[o], &out[o]));
    }
    return CM_OK;
}

/* ---- Nodes ---------------------------------------------------------------------------------- */

static cm_status expand_group(expander *e, cm_value **out)
{
    const cm_node *n = e->node;
    const cm_attr_desc *d = n->op->attrs;
    const cm_str *text = cm_attr_get(n->attr, cm_attr_find(d, "program"));
    cm_dtype to[CM_PROGRAM_MAX];
    if (n->n_out > CM_PROGRAM_MAX)
        return cm_fail(e->cx, CM_ERR_UNSUPPORTED, "a group of %d outputs", n->n_out);
    const cm_ints *types = cm_attr_get(n->attr, cm_attr_find(d, "to"));
    for (int o = 0; o < n->n_out; o++)
        to[o] = (cm_dtype)types->v[o];
    return run_program(e, *text, NULL, n->in, n->n_in, to, out);
}

static cm_status expand_reduce(expander *e, cm_value **out)
{
    const cm_node *n = e->node;
    const cm_attr_desc *d = n->op->attrs;
    const cm_str *text = cm_attr_get(n->attr, cm_attr_find(d, "program"));
    const cm_str *name = cm_attr_get(n->attr, cm_attr_find(d, "reduce"));
    const cm_ints *axes = cm_attr_get(n->attr, cm_attr_find(d, "axes"));
    const void *keepdims = cm_attr_get(n->attr, cm_attr_find(d, "keepdims"));
    cm_dtype to = n->in[0]->type.dtype;
    cm_value *in[2];
    void *attr;
    const char *op_name = cm_arena_strndup(n->network->arena, name->p, name->n);
    const cm_op *op = op_name ? cm_op_find(op_name) : NULL;
    if (!op)
        return cm_fail(e->cx, CM_ERR_INTERNAL, "no reduction '%s'", op_name ? op_name : "");
    CM_TRY(run_program(e, *text, NULL, n->in, cm_node_own_inputs(n), &to, &in[0]));
    CM_TRY(constant(e, CM_I64, 1, axes->n, axes->v, (size_t)axes->n * sizeof *axes->v, &in[1]));
    CM_TRY(new_attr(e, op->id, &attr));
    set_attr(op->id, attr, "keepdims", keepdims);
    return emit_with(e, op->id, attr, in, 2, out);
}

/* The node without its epilogue; further outputs move to it. */
static cm_status bare_node(expander *e, cm_value **out)
{
    cm_node *n = e->node, *made;
    const char *names[64] = {NULL};
    for (int o = 1; o < n->n_out && o < CM_COUNT(names); o++)
        names[o] = n->out[o] ? NULL : "";
    CM_TRY(cm_network_add_node(e->cx, n->network, n, n->op, n->name, n->attr, n->in,
                               cm_node_own_inputs(n), names, n->n_out, &made));
    CM_TRY(cm_node_infer(e->cx, made));
    for (int o = 1; o < n->n_out; o++)
        if (n->out[o])
            CM_TRY(cm_replace_uses(e->cx, n->out[o], made->out[o]));
    *out = made->out[0];
    return CM_OK;
}

static cm_dtype width(const cm_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->type.dtype == CM_F64)
            return CM_F64;
    return n->out[0] && n->out[0]->type.dtype == CM_F64 ? CM_F64 : CM_F32;
}

static cm_status expand_node(cm_ctx *cx, cm_node *n)
{
    expander e = {.cx = cx, .node = n, .wide = width(n)};
    cm_value *out[CM_PROGRAM_MAX] = {NULL};
    int n_made = 1;
    if (n->op->id == CM_OP_POINTWISE) {
        CM_TRY(expand_group(&e, out));
        n_made = n->n_out;
    } else if (n->op->id == CM_OP_POINTWISE_REDUCE) {
        CM_TRY(expand_reduce(&e, out));
    } else {
        CM_TRY(bare_node(&e, out));
    }
    if (n->epilogue.program) {
        int own = cm_node_own_inputs(n);
        cm_dtype to = n->out[0]->type.dtype;
        CM_TRY(run_program(&e, cm_str_of(n->epilogue.program), out[0], n->in + own, n->n_in - own,
                           &to, &out[0]));
    }
    for (int o = 0; o < n_made; o++)
        if (n->out[o])
            CM_TRY(cm_replace_uses(cx, n->out[o], out[o]));
    cm_node_remove(n);
    return CM_OK;
}

cm_status cm_onnx_expand_programs(cm_ctx *cx, cm_network *g)
{
    CM_FOR_NODES (n, g) {
        for (int s = 0; s < n->n_subs; s++)
            CM_TRY(cm_onnx_expand_programs(cx, n->subs[s]));
        if (!n->epilogue.program && n->op->id != CM_OP_POINTWISE &&
            n->op->id != CM_OP_POINTWISE_REDUCE)
            continue;
        const char *op = n->op->name, *name = n->name;
        cm_status st = expand_node(cx, n);
        if (st != CM_OK)
            return cm_while(cx, st, "%s node '%s'", op, name);
    }
    return CM_OK;
}
