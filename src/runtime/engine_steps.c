/* engine_steps.c -- the steps of an engine: operators found, attributes read, lifetimes computed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The plan's structure was verified by its reader. What is checked here needs the operators: arity,
 * attributes, element types, the shapes of control steps. */
#include "runtime/device.h"

#include <string.h>

#include "base/map.h"
#include "ops/signature.h"

typedef struct {
    cm_ctx *cx;
    cm_engine *e;
    cm_map ops;      /* name -> cm_op, since many steps share few operators */
    cm_map programs; /* text -> cm_program */
    cm_arena *scratch;
    int position;
} opening;

/* Who would bring the operator? */
static cm_status unknown_op(opening *o, const char *name)
{
    const cm_plan *p = o->e->plan;
    for (int i = 0; i < p->n_plugins; i++)
        if (strcmp(p->plugins[i].op, name) == 0)
            return cm_fail(o->cx, CM_ERR_PLAN,
                           "the plan needs plugin '%s' for operator %s, and it is not loaded: load "
                           "it with --plugins LIBRARY or cameo_plugin_load()",
                           p->plugins[i].plugin, name);
    return cm_fail(o->cx, CM_ERR_PLAN, "operator %s is not known to this version", name);
}

static cm_status find_op(opening *o, const char *name, const cm_op **out)
{
    const cm_op *op = cm_map_get(&o->ops, name);
    if (!op) {
        op = cm_op_find(name);
        if (!op)
            return unknown_op(o, name);
        if (!cm_map_put(&o->ops, name, (void *)op))
            return cm_fail_memory(o->cx);
    }
    *out = op;
    return CM_OK;
}

/* Types in attributes keep the numbers of their dims: those must be the plan's. */
static cm_status check_attr_dims(opening *o, const cm_attr_desc *d, const void *attr)
{
    for (int i = 0; attr && i < d->n_fields; i++) {
        if (d->fields[i].kind != CM_A_TYPE)
            continue;
        const cm_type *t = *(const cm_type *const *)cm_attr_get(attr, &d->fields[i]);
        for (; t; t = t->elem)
            for (int k = 0; t->kind == CM_TENSOR && k < t->rank; k++)
                if (!cm_dim_valid(o->e->plan->dims, t->dims[k]))
                    return cm_fail(o->cx, CM_ERR_PLAN, "attribute %s refers to a dim that is none",
                                   d->fields[i].name);
    }
    return CM_OK;
}

static cm_status check_types(opening *o, const cm_ready_step *s)
{
    const cm_plan_step *p = s->plan;
    cm_arena_mark mark = cm_arena_save(o->scratch);
    const cm_type **in;
    cm_type *out;
    CM_NEW_N(o->cx, o->scratch, in, p->n_in, const cm_type *);
    CM_NEW_N(o->cx, o->scratch, out, p->n_out, cm_type);
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i].value >= 0)
            in[i] = &o->e->plan->values[p->in[i].value].type;
    CM_TRY(cm_signature_apply(o->cx, s->op, in, p->n_in - p->epilogue.n_operands, out, p->n_out));
    if (p->n_out && p->epilogue.to != CM_NO_DTYPE)
        out[0].dtype = p->epilogue.to;
    for (int i = 0; i < p->n_out; i++) {
        if (p->out[i].value < 0 || out[i].kind != CM_TENSOR || !out[i].dtype)
            continue;
        const cm_type *stated = &o->e->plan->values[p->out[i].value].type;
        if (stated->kind == CM_TENSOR && stated->dtype != out[i].dtype)
            return cm_fail(o->cx, CM_ERR_PLAN, "output %d is stated as %s, it is %s", i,
                           cm_dtype_name(stated->dtype), cm_dtype_name(out[i].dtype));
    }
    cm_arena_restore(o->scratch, mark);
    return CM_OK;
}

static cm_status check_arity(opening *o, const cm_ready_step *s)
{
    const cm_op *op = s->op;
    const cm_plan_step *p = s->plan;
    bool control = p->kind != CM_STEP_PROBLEM;
    if (p->kind == CM_STEP_COPY)
        return cm_fail(o->cx, CM_ERR_PLAN, "this version has no device to copy to");
    if (control != !!(op->traits & CM_CONTROL) || (!control && !op->family->eval))
        return cm_fail(o->cx, CM_ERR_PLAN, "the operator does not go with the kind of step");
    if (p->epilogue.program && !(op->traits & CM_EPILOGUE))
        return cm_fail(o->cx, CM_ERR_PLAN, "an epilogue follows an operator that takes none");
    int n_in = p->n_in - p->epilogue.n_operands;
    if (n_in < op->min_in || n_in > op->max_in)
        return cm_fail(o->cx, CM_ERR_PLAN, "%d inputs, wanted %d to %d", n_in, op->min_in,
                       op->max_in);
    if (p->n_out < op->min_out || p->n_out > op->max_out)
        return cm_fail(o->cx, CM_ERR_PLAN, "%d outputs, wanted %d to %d", p->n_out, op->min_out,
                       op->max_out);
    return CM_OK;
}

/* Many steps share few programs. */
static cm_status open_epilogue(opening *o, const cm_epilogue *e, const cm_program **out)
{
    *out = NULL;
    if (!e->program)
        return CM_OK;
    cm_program *p = cm_map_get(&o->programs, e->program);
    if (!p) {
        CM_NEW(o->cx, &o->e->arena, p, cm_program);
        CM_TRY(cm_program_parse(o->cx, e->program, strlen(e->program), p));
        if (!cm_map_put(&o->programs, e->program, p))
            return cm_fail_memory(o->cx);
    }
    if (p->n_operands > e->n_operands || p->n_outputs != 1)
        return cm_fail(o->cx, CM_ERR_PLAN, "an epilogue reads %d operands of %d and has %d results",
                       p->n_operands, e->n_operands, p->n_outputs);
    *out = p;
    return CM_OK;
}

/* What the evaluator wants of the attributes. */
static cm_status prepare_step(opening *o, cm_ready_step *s)
{
    if (!s->op->family->prepare)
        return CM_OK;
    cm_arena_mark mark = cm_arena_save(o->scratch);
    CM_TRY(s->op->family->prepare(o->cx, &o->e->arena, s->op, s->attr, &s->prepared));
    cm_arena_restore(o->scratch, mark);
    return CM_OK;
}

static cm_status open_list(opening *o, int list);

static cm_status open_step(opening *o, cm_ready_step *s)
{
    cm_engine *e = o->e;
    const cm_plan_step *p = s->plan;
    CM_TRY(find_op(o, p->op, &s->op));
    CM_TRY(check_arity(o, s));
    void *attr = NULL;
    CM_TRY(cm_attr_read(o->cx, &e->arena, s->op->attrs, p->attr_bytes, p->attr_n, &attr));
    CM_TRY(cm_attr_check(o->cx, s->op->attrs, attr));
    CM_TRY(check_attr_dims(o, s->op->attrs, attr));
    s->attr = attr;
    CM_TRY(prepare_step(o, s));
    CM_TRY(open_epilogue(o, &p->epilogue, &s->program));
    s->problem = cm_problem_find(s->op);
    CM_TRY(check_types(o, s));
    s->control = p->kind == CM_STEP_PROBLEM ? -1 : e->n_controls++;
    if (s->control >= 0)
        CM_TRY(cm_control_check(o->cx, e, s));
    e->max_in = p->n_in > e->max_in ? p->n_in : e->max_in;
    e->max_out = p->n_out > e->max_out ? p->n_out : e->max_out;
    return CM_OK;
}

static bool is_view(const cm_ready_step *s)
{
    return s->control < 0 && s->op->traits & CM_VIEW;
}

/* Is the tensor one that an evaluator writes to memory it is given? */
static bool may_be_in_arena(const cm_ready_step *s, const cm_type *t)
{
    return s->control < 0 && !is_view(s) && t->kind == CM_TENSOR && t->dtype != CM_STR &&
           t->dtype != CM_NO_DTYPE && t->rank >= 0;
}

static cm_status open_nested(opening *o, cm_ready_step *s)
{
    s->begin = s->end = o->position++;
    if (s->control < 0)
        return CM_OK;
    for (int i = 0; i < s->plan->n_lists; i++)
        CM_TRY(open_list(o, s->plan->lists[i]));
    s->end = o->position++;
    return CM_OK;
}

static cm_status open_list(opening *o, int list)
{
    cm_engine *e = o->e;
    cm_ready_list *l = &e->lists[list];
    l->plan = &e->variant->lists[list];
    CM_NEW_N(o->cx, &e->arena, l->steps, l->plan->n_steps, cm_ready_step);
    for (int i = 0; i < l->plan->n_inputs; i++)
        e->values[l->plan->inputs[i]].list = list;
    for (int i = 0; i < l->plan->n_steps; i++) {
        cm_ready_step *s = &l->steps[i];
        s->plan = &l->plan->steps[i];
        s->index = e->n_steps;
        e->ready[e->n_steps] = s;
        e->steps[e->n_steps++] = s->plan;
        cm_status st = open_step(o, s);
        if (st != CM_OK)
            return cm_while(o->cx, st, "%s node '%s'", s->plan->op, s->plan->name);
        CM_TRY(open_nested(o, s));
        for (int j = 0; j < s->plan->n_out; j++) {
            int32_t v = s->plan->out[j].value;
            if (v < 0)
                continue;
            e->values[v].list = list;
            e->values[v].by_step = true;
            e->values[v].first = e->values[v].last = s->end;
            e->values[v].in_arena = may_be_in_arena(s, &e->plan->values[v].type);
        }
    }
    return CM_OK;
}

static void read_until(cm_engine *e, int32_t value, int position)
{
    if (value >= 0 && e->values[value].last < position)
        e->values[value].last = position;
}

/* Carried values made in a body stay out of the arena: their rooms change hands instead. */
static void mark_carried(cm_engine *e, const cm_ready_step *s)
{
    int first_in, first_out, n = cm_control_carried(s, &first_in, &first_out);
    for (int k = 0; k < n; k++) {
        int list = s->plan->lists[0];
        cm_ready_value *v = &e->values[e->lists[list].plan->outputs[first_out + k]];
        if (v->list == list && v->by_step) {
            v->in_arena = false;
            v->movable = true;
        }
    }
}

/* Last reads, walking backwards so that what reads a view has been seen before the view. */
static void find_lifetimes(cm_engine *e, int list, int end)
{
    const cm_ready_list *l = &e->lists[list];
    for (int i = 0; i < l->plan->n_outputs; i++)
        read_until(e, l->plan->outputs[i], end);
    for (int i = l->plan->n_steps - 1; i >= 0; i--) {
        const cm_ready_step *s = &l->steps[i];
        const cm_plan_step *p = s->plan;
        for (int k = 0; k < p->n_lists; k++) {
            const cm_plan_list *inner = e->lists[p->lists[k]].plan;
            if (p->kind == CM_STEP_IF) /* an If's outputs are those of the branch taken */
                for (int j = 0; j < p->n_out; j++)
                    if (p->out[j].value >= 0)
                        read_until(e, inner->outputs[j], e->values[p->out[j].value].last);
            find_lifetimes(e, p->lists[k], s->end);
            for (int j = 0; j < inner->n_captures; j++)
                read_until(e, inner->captures[j], s->end);
        }
        if (s->control >= 0)
            mark_carried(e, s);
        if (is_view(s) && p->out[0].value >= 0 && p->n_in > 0)
            read_until(e, p->in[0].value, e->values[p->out[0].value].last);
        for (int j = 0; j < p->n_in; j++)
            read_until(e, p->in[j].value, s->end);
    }
}

static int count_steps(const cm_plan_variant *v)
{
    int64_t n = 0; /* fits: each step took bytes of the file */
    for (int i = 0; i < v->n_lists; i++)
        n += v->lists[i].n_steps;
    return (int)n;
}

cm_status cm_open_steps(cm_ctx *cx, cm_engine *e)
{
    opening o = {.cx = cx, .e = e, .scratch = cx->scratch};
    CM_NEW_N(cx, &e->arena, e->lists, e->variant->n_lists, cm_ready_list);
    CM_NEW_N(cx, &e->arena, e->steps, count_steps(e->variant), const cm_plan_step *);
    CM_NEW_N(cx, &e->arena, e->ready, count_steps(e->variant), const cm_ready_step *);
    cm_map_init(&o.ops, cx->scratch);
    cm_map_init(&o.programs, cx->scratch);
    CM_TRY(open_list(&o, 0));
    find_lifetimes(e, 0, INT_MAX);
    return CM_OK;
}
