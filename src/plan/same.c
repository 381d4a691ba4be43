/* same.c -- are two plans the same network but for the bytes of their constants?
 * SPDX-License-Identifier: Apache-2.0
 *
 * Everything that a run, a memory plan or a measurement hangs on is compared; what only people read
 * (names of layers and of inner values, provenance) is not. */
#include "plan/plan.h"

#include <string.h>

#include "base/buf.h"

typedef struct {
    cm_ctx *cx;
    const cm_plan *a, *b;
} pair;

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_indices(const int32_t *a, int n_a, const int32_t *b, int n_b)
{
    return n_a == n_b && (n_a == 0 || memcmp(a, b, (size_t)n_a * sizeof *a) == 0);
}

static bool same_bytes(const void *a, size_t n_a, const void *b, size_t n_b)
{
    return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a) == 0);
}

static cm_status same_count(pair *p, const char *what, int a, int b)
{
    return a == b ? CM_OK : cm_fail(p->cx, CM_ERR_MODEL, "%d %s, the plan has %d", b, what, a);
}

/* Dims are compared as numbers, which mean the same where the tables are the same. */
static cm_status same_dims(pair *p)
{
    cm_buf a, b;
    cm_buf_init(&a, p->cx->allocator);
    cm_buf_init(&b, p->cx->allocator);
    cm_dim_table_write(p->a->dims, &a);
    cm_dim_table_write(p->b->dims, &b);
    bool failed = a.failed || b.failed, same = same_bytes(a.data, a.n, b.data, b.n);
    cm_buf_deinit(&a);
    cm_buf_deinit(&b);
    if (failed)
        return cm_fail_memory(p->cx);
    return same ? CM_OK : cm_fail(p->cx, CM_ERR_MODEL, "its symbolic sizes are not the plan's");
}

static cm_status other_type(pair *p, int i)
{
    const cm_plan_value *a = &p->a->values[i], *b = &p->b->values[i];
    cm_buf found, wanted;
    cm_buf_init(&found, p->cx->allocator);
    cm_buf_init(&wanted, p->cx->allocator);
    cm_type_print(p->b->dims, &b->type, &found);
    cm_type_print(p->a->dims, &a->type, &wanted);
    cm_status st = cm_fail(p->cx, CM_ERR_MODEL, "value '%s' is %s, in the plan '%s' is %s", b->name,
                           cm_buf_text(&found), a->name, cm_buf_text(&wanted));
    cm_buf_deinit(&found);
    cm_buf_deinit(&wanted);
    return st;
}

static cm_status same_value(pair *p, int i)
{
    const cm_plan_value *a = &p->a->values[i], *b = &p->b->values[i];
    if (a->storage != b->storage)
        return cm_fail(p->cx, CM_ERR_MODEL, "value '%s' is %s, in the plan it is %s", b->name,
                       b->storage == CM_STORE_CONSTANT ? "constant" : "computed",
                       a->storage == CM_STORE_CONSTANT ? "constant" : "computed");
    if (!cm_type_equal(&a->type, &b->type))
        return other_type(p, i);
    size_t n = a->elems ? (size_t)a->n_elems : 0;
    if (!a->elems != !b->elems || a->n_elems != b->n_elems ||
        (n && memcmp(a->elems, b->elems, n * sizeof *a->elems) != 0))
        return cm_fail(p->cx, CM_ERR_MODEL, "value '%s' holds other sizes than in the plan",
                       b->name);
    return CM_OK;
}

static bool same_operands(const cm_operand *a, int n_a, const cm_operand *b, int n_b)
{
    if (n_a != n_b)
        return false;
    for (int i = 0; i < n_a; i++)
        if (a[i].value != b[i].value || a[i].layout.kind != b[i].layout.kind ||
            a[i].layout.axis != b[i].layout.axis || a[i].layout.block != b[i].layout.block ||
            a[i].quant.scale != b[i].quant.scale ||
            a[i].quant.zero_point != b[i].quant.zero_point || a[i].quant.axis != b[i].quant.axis ||
            a[i].quant.block != b[i].quant.block)
            return false;
    return true;
}

static cm_status same_step(pair *p, const cm_plan_step *a, const cm_plan_step *b)
{
    const char *what = NULL;
    if (a->kind != b->kind || a->problem != b->problem || strcmp(a->op, b->op) != 0)
        return cm_fail(p->cx, CM_ERR_MODEL, "layer '%s' is %s, in the plan %s '%s' stands there",
                       b->name, b->op, a->op, a->name);
    if (!same_bytes(a->attr_bytes, a->attr_n, b->attr_bytes, b->attr_n))
        what = "attributes";
    else if (!same_operands(a->in, a->n_in, b->in, b->n_in) ||
             !same_operands(a->out, a->n_out, b->out, b->n_out))
        what = "operands";
    else if (!same_text(a->epilogue.program, b->epilogue.program) ||
             a->epilogue.n_operands != b->epilogue.n_operands || a->epilogue.to != b->epilogue.to)
        what = "pointwise operations after it";
    else if (!same_indices(a->lists, a->n_lists, b->lists, b->n_lists))
        what = "nested step lists";
    return what ? cm_fail(p->cx, CM_ERR_MODEL, "%s layer '%s' has other %s than in the plan", b->op,
                          b->name, what)
                : CM_OK;
}

static cm_status same_list(pair *p, const cm_plan_list *a, const cm_plan_list *b)
{
    CM_TRY(same_count(p, "inputs", a->n_inputs, b->n_inputs));
    CM_TRY(same_count(p, "outputs", a->n_outputs, b->n_outputs));
    for (int i = 0; i < a->n_steps && i < b->n_steps; i++)
        CM_TRY(same_step(p, &a->steps[i], &b->steps[i]));
    CM_TRY(same_count(p, "layers", a->n_steps, b->n_steps));
    if (!same_indices(a->inputs, a->n_inputs, b->inputs, b->n_inputs) ||
        !same_indices(a->outputs, a->n_outputs, b->outputs, b->n_outputs) ||
        !same_indices(a->captures, a->n_captures, b->captures, b->n_captures))
        return cm_fail(p->cx, CM_ERR_MODEL, "values go other ways than in the plan");
    return CM_OK;
}

/* What callers know inputs and outputs by. */
static cm_status same_names(pair *p, const cm_plan_list *a, const cm_plan_list *b)
{
    for (int i = 0; i < a->n_inputs; i++) {
        const char *wanted = p->a->values[a->inputs[i]].name;
        const char *found = p->b->values[b->inputs[i]].name;
        if (!same_text(wanted, found))
            return cm_fail(p->cx, CM_ERR_MODEL, "input %d is '%s', in the plan '%s'", i, found,
                           wanted);
    }
    for (int i = 0; i < a->n_outputs; i++)
        if (!same_text(a->output_names[i], b->output_names[i]))
            return cm_fail(p->cx, CM_ERR_MODEL, "output %d is '%s', in the plan '%s'", i,
                           b->output_names[i], a->output_names[i]);
    return CM_OK;
}

static cm_status same_variant(pair *p, const cm_plan_variant *a, const cm_plan_variant *b)
{
    CM_TRY(same_count(p, "step lists", a->n_lists, b->n_lists));
    for (int i = 0; i < a->n_lists; i++)
        CM_TRY(same_list(p, &a->lists[i], &b->lists[i]));
    return same_names(p, &a->lists[0], &b->lists[0]);
}

cm_status cm_plan_same(cm_ctx *cx, const cm_plan *a, const cm_plan *b)
{
    pair p = {cx, a, b};
    CM_TRY(same_count(&p, "variants", a->n_variants, b->n_variants));
    for (int i = 0; i < a->n_variants; i++)
        CM_TRY(same_variant(&p, &a->variants[i], &b->variants[i]));
    CM_TRY(same_count(&p, "values", a->n_values, b->n_values));
    CM_TRY(same_dims(&p));
    for (int i = 0; i < a->n_values; i++)
        CM_TRY(same_value(&p, i));
    CM_TRY(same_count(&p, "aliases", a->n_aliases, b->n_aliases));
    for (int i = 0; i < a->n_aliases; i++)
        if (a->aliases[i].input != b->aliases[i].input ||
            a->aliases[i].output != b->aliases[i].output)
            return cm_fail(cx, CM_ERR_MODEL,
                           "other inputs and outputs share memory than in the "
                           "plan");
    return CM_OK;
}
