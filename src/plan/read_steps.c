/* read_steps.c -- step lists out of a plan's section.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/cursor.h"
#include "plan/format.h"

static cm_status take_operands(cm_cursor *c, const cm_operand **out, int *n)
{
    CM_TRY(cm_take_count(c, 8, "operands", n));
    cm_operand *ops;
    CM_NEW_N(c->r->cx, c->r->arena, ops, *n, cm_operand);
    for (int i = 0; i < *n; i++) {
        cm_operand *o = &ops[i];
        uint32_t flags;
        o->quant = (cm_quant){-1, -1, -1, 0};
        CM_TRY(cm_take_i32(c, &o->value));
        CM_TRY(cm_take_u32(c, &flags));
        if (flags & ~(uint32_t)(CM_OPERAND_LAYOUT | CM_OPERAND_QUANT))
            return cm_fail(c->r->cx, CM_ERR_PLAN, "the plan's operand flags %u are not known",
                           flags);
        if (flags & CM_OPERAND_LAYOUT) {
            int kind;
            CM_TRY(cm_take_enum(c, CM_LAYOUT_BLOCKED + 1, "layout", &kind));
            o->layout.kind = (cm_layout_kind)kind;
            CM_TRY(cm_take(c, &o->layout.axis, 4));
            CM_TRY(cm_take(c, &o->layout.block, 4));
            if (o->layout.axis < 0 || o->layout.axis >= CM_MAX_RANK || o->layout.block < 0)
                return cm_plan_damaged(c->r, "a layout has a wrong axis or block");
        }
        if (flags & CM_OPERAND_QUANT) {
            CM_TRY(cm_take_i32(c, &o->quant.scale));
            CM_TRY(cm_take_i32(c, &o->quant.zero_point));
            CM_TRY(cm_take_i32(c, &o->quant.axis));
            CM_TRY(cm_take(c, &o->quant.block, 8));
            if (o->quant.axis < -1 || o->quant.axis >= CM_MAX_RANK || o->quant.block < 0)
                return cm_plan_damaged(c->r, "a quantisation has a wrong axis or block");
        }
    }
    *out = ops;
    return CM_OK;
}

static cm_status take_names(cm_cursor *c, int n, const char *const **out)
{
    if ((size_t)n > c->left / 4)
        return cm_plan_damaged(c->r, "more names than bytes");
    const char **names;
    CM_NEW_N(c->r->cx, c->r->arena, names, n, const char *);
    for (int i = 0; i < n; i++)
        CM_TRY(cm_take_string(c, &names[i]));
    *out = names;
    return CM_OK;
}

static cm_status read_epilogue(cm_cursor *c, cm_plan_step *s)
{
    cm_epilogue *e = &s->epilogue;
    int32_t n, to;
    CM_TRY(cm_take_string(c, &e->program));
    CM_TRY(cm_take_i32(c, &n));
    CM_TRY(cm_take_i32(c, &to));
    if (n < 0 || n > s->n_in || (to != CM_NO_DTYPE && !cm_dtype_valid(to)))
        return cm_plan_damaged(c->r, "an epilogue has a wrong count of operands or element type");
    e->n_operands = n;
    e->to = (cm_dtype)to;
    if (*e->program)
        return CM_OK;
    e->program = NULL;
    return n || to ? cm_plan_damaged(c->r, "an epilogue without a program") : CM_OK;
}

static cm_status read_step(cm_cursor *c, cm_plan_step *s)
{
    int kind, problem;
    CM_TRY(cm_take_enum(c, CM_STEP_COPY + 1, "step kind", &kind));
    CM_TRY(cm_take_enum(c, CM_PROBLEM_KIND_COUNT, "problem kind", &problem));
    s->kind = (cm_step_kind)kind;
    s->problem = (cm_problem_kind)problem;
    CM_TRY(cm_take_string(c, &s->op));
    CM_TRY(cm_take_string(c, &s->name));
    CM_TRY(cm_take_count(c, 4, "names", &s->n_from));
    CM_TRY(take_names(c, s->n_from, &s->from));
    CM_TRY(take_operands(c, &s->in, &s->n_in));
    CM_TRY(take_operands(c, &s->out, &s->n_out));
    CM_TRY(cm_take_indices(c, "step lists", &s->lists, &s->n_lists));
    uint64_t n;
    CM_TRY(cm_take_u64(c, &n));
    if (n > c->left)
        return cm_plan_damaged(c->r, "a step's attributes end too early");
    s->attr_bytes = c->p;
    s->attr_n = (size_t)n;
    c->p += n;
    c->left -= (size_t)n;
    return read_epilogue(c, s);
}

static cm_status read_list(cm_cursor *c, cm_plan_list *l)
{
    uint32_t named;
    CM_TRY(cm_take_indices(c, "inputs", &l->inputs, &l->n_inputs));
    CM_TRY(cm_take_indices(c, "outputs", &l->outputs, &l->n_outputs));
    CM_TRY(cm_take_u32(c, &named));
    if (named > 1)
        return cm_plan_damaged(c->r, "a step list has a wrong flag");
    if (named)
        CM_TRY(take_names(c, l->n_outputs, &l->output_names));
    CM_TRY(cm_take_indices(c, "captures", &l->captures, &l->n_captures));
    CM_TRY(cm_take_count(c, 52, "steps", &l->n_steps));
    cm_plan_step *steps;
    CM_NEW_N(c->r->cx, c->r->arena, steps, l->n_steps, cm_plan_step);
    for (int i = 0; i < l->n_steps; i++)
        CM_TRY(read_step(c, &steps[i]));
    l->steps = steps;
    return CM_OK;
}

cm_status cm_read_variant(cm_cursor *c, cm_plan_variant *v)
{
    CM_TRY(cm_take_string(c, &v->name));
    CM_TRY(cm_take_count(c, 20, "step lists", &v->n_lists));
    cm_plan_list *lists;
    CM_NEW_N(c->r->cx, c->r->arena, lists, v->n_lists, cm_plan_list);
    for (int i = 0; i < v->n_lists; i++)
        CM_TRY(read_list(c, &lists[i]));
    v->lists = lists;
    return cm_cursor_end(c);
}
