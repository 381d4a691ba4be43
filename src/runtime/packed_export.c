/* packed_export.c -- a plan with the weights that a context packed, in place of the plain ones.
 * SPDX-License-Identifier: Apache-2.0
 *
 * How a tactic packs is found out by packing the numbers of the elements: where they come out is where the
 * elements go. What cannot be described so (a transform, a sum beside the weights) stays plain. */
#include <string.h>

#include "base/size.h"
#include "packing_id.h"
#include "runtime/internal.h"

/* How a constant is read. */
typedef struct {
    bool plain;         /* by somebody as it is, or in two packed forms */
    const void *packed; /* else so, by: */
    int step, input;
} use;

/* A packing that was found, for others like it. */
typedef struct {
    const cm_solution *sol;
    const cm_ready_step *step;
    int input;
    const cm_packing *packing; /* NULL: it cannot be undone */
} known;

typedef struct {
    cm_ctx *cx;
    const cm_context *c;
    const cm_tensor *const *constants; /* by value; NULL: not a constant */
    use *uses;
    known *found;
    int n_found;
} exporting;

static void note_use(use *u, const void *packed, int step, int input)
{
    if (!packed || (u->packed && u->packed != packed)) {
        u->plain = true;
        return;
    }
    if (!u->packed)
        *u = (use){u->plain, packed, step, input};
}

static void note_uses(exporting *x)
{
    const cm_engine *e = x->c->engine;
    for (int k = 0; k < e->n_steps; k++) {
        const cm_plan_step *s = e->steps[k];
        const cm_solution *sol = &x->c->solutions[k];
        for (int i = 0; i < s->n_in; i++) {
            bool packed = sol->way == CM_WAY_TACTIC && i < sol->p.n_in;
            if (s->in[i].value >= 0)
                note_use(&x->uses[s->in[i].value], packed ? sol->packed[i] : NULL, k, i);
        }
    }
    for (int l = 0; l < e->variant->n_lists; l++)
        for (int i = 0; i < e->variant->lists[l].n_outputs; i++)
            x->uses[e->variant->lists[l].outputs[i]].plain = true;
}

/* Part `part` of the number of each element, in as many bytes as an element has. */
static void number(unsigned char *to, int64_t n, size_t size, int part)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)(i + 1) >> (8 * size * (size_t)part);
        memcpy(to + (size_t)i * size, &bits, size);
    }
}

typedef struct {
    size_t plain, packed, place; /* bytes */
    unsigned char *numbers, *moved;
    uint32_t *places;
} trial;

static bool trial_init(const cm_allocator *a, trial *t)
{
    t->numbers = cm_alloc(a, t->plain, CM_MEMORY_ALIGN);
    t->moved = cm_alloc(a, t->packed, CM_MEMORY_ALIGN);
    t->places = cm_alloc(a, t->place, CM_MEMORY_ALIGN);
    return t->numbers && t->moved && t->places;
}

static void trial_deinit(const cm_allocator *a, trial *t)
{
    cm_release(a, t->numbers, t->plain);
    cm_release(a, t->moved, t->packed);
    cm_release(a, t->places, t->place);
}

static cm_status try_packing(exporting *x, const cm_solution *sol, int input, size_t size, trial *t,
                             const cm_packing **out)
{
    int64_t plain = (int64_t)(t->plain / size), packed = (int64_t)(t->packed / size);
    memset(t->places, 0, t->place);
    for (int part = 0; part < (int)(4 / size); part++) {
        number(t->numbers, plain, size, part);
        memset(t->moved, 0, t->packed); /* gaps that nobody reads */
        sol->choice.tactic->pack(&sol->p, &sol->choice.knobs, input, t->numbers, t->moved,
                                 x->c->threads);
        for (int64_t i = 0; i < packed; i++) {
            uint32_t bits = 0;
            memcpy(&bits, t->moved + (size_t)i * size, size);
            t->places[i] |= bits << (8 * size * (size_t)part);
        }
    }
    return cm_packing_find(x->cx, x->cx->arena, (uint32_t)size, plain, t->places, packed, out);
}

static bool same_packing(const known *k, const cm_solution *sol, const cm_ready_step *s, int input)
{
    const cm_plan_step *a = k->step->plan, *b = s->plan;
    return k->input == input && k->sol->choice.tactic == sol->choice.tactic &&
           memcmp(&k->sol->choice.knobs, &sol->choice.knobs, sizeof(cm_knobs)) == 0 &&
           k->step->op == s->op && a->attr_n == b->attr_n &&
           (a->attr_n == 0 || memcmp(a->attr_bytes, b->attr_bytes, a->attr_n) == 0) &&
           k->sol->p.in[input]->dtype == sol->p.in[input]->dtype &&
           cm_tensor_same_shape(k->sol->p.in[input], sol->p.in[input]);
}

/* How the step packs this input; *out NULL: in a way that cannot be undone. */
static cm_status packing_of(exporting *x, int step, int input, const cm_packing **out)
{
    const cm_solution *sol = &x->c->solutions[step];
    const cm_ready_step *s = x->c->engine->ready[step];
    const cm_tensor *w = sol->p.in[input];
    size_t size = cm_dtype_size(w->dtype);
    trial t = {.packed = sol->choice.tactic->pack_bytes(&sol->p, &sol->choice.knobs, input)};
    for (int i = 0; i < x->n_found; i++) {
        if (same_packing(&x->found[i], sol, s, input)) {
            *out = x->found[i].packing;
            return CM_OK;
        }
    }
    *out = NULL;
    if (cm_dtype_is_sub_byte(w->dtype) || w->dtype == CM_STR || size > 4 ||
        !cm_tensor_bytes(w, &t.plain) || t.plain / size >= UINT32_MAX || t.packed % size ||
        t.packed < t.plain || !cm_mul(t.packed / size, sizeof(uint32_t), &t.place))
        return CM_OK;
    const cm_allocator *a = x->c->allocator;
    cm_status st =
        trial_init(a, &t) ? try_packing(x, sol, input, size, &t, out) : cm_fail_memory(x->cx);
    trial_deinit(a, &t);
    if (st == CM_OK)
        x->found[x->n_found++] = (known){sol, s, input, *out};
    return st;
}

/* Does the packing give these very bytes, both ways? */
static cm_status check(exporting *x, const cm_packing *k, const void *packed, const cm_tensor *want,
                       bool *good)
{
    size_t bytes = (size_t)k->packed * k->elem_bytes;
    void *again = cm_alloc(x->c->allocator, bytes ? bytes : 1, CM_MEMORY_ALIGN);
    if (!again)
        return cm_fail_memory(x->cx);
    memset(again, 0, bytes);
    cm_packing_redo(k, want->data, again);
    *good = memcmp(again, packed, bytes) == 0;
    cm_packing_undo(k, packed, again);
    *good = *good && memcmp(again, want->data, (size_t)k->plain * k->elem_bytes) == 0;
    cm_release(x->c->allocator, again, bytes ? bytes : 1);
    return CM_OK;
}

/* Which list of the plan has this step, and where. */
static void find_step(const cm_engine *e, int index, cm_plan_packed *out)
{
    for (int l = 0; l < e->variant->n_lists; l++) {
        const cm_plan_list *list = &e->variant->lists[l];
        if (e->steps[index] >= list->steps && e->steps[index] < list->steps + list->n_steps) {
            out->list = l;
            out->step = (int32_t)(e->steps[index] - list->steps);
        }
    }
}

static void describe(const exporting *x, int32_t value, cm_plan_packed *out)
{
    const use *u = &x->uses[value];
    const cm_choice *choice = &x->c->solutions[u->step].choice;
    *out = (cm_plan_packed){.value = value,
                            .stored = value,
                            .input = u->input,
                            .tactic = choice->tactic->name,
                            .knobs = choice->knobs};
    find_step(x->c->engine, u->step, out);
}

/* In place of the plain form; *done false: that cannot be. */
static cm_status replace(exporting *x, int32_t value, cm_plan_packed *out, bool *done)
{
    const use *u = &x->uses[value];
    const cm_packing *k = NULL;
    *done = false;
    if (u->plain)
        return CM_OK;
    CM_TRY(packing_of(x, u->step, u->input, &k));
    if (k)
        CM_TRY(check(x, k, u->packed, x->constants[value], done));
    out->packing = k;
    return CM_OK;
}

static void packed_bytes(const exporting *x, int32_t value, cm_tensor *out)
{
    const use *u = &x->uses[value];
    const cm_solution *sol = &x->c->solutions[u->step];
    int64_t n = (int64_t)sol->choice.tactic->pack_bytes(&sol->p, &sol->choice.knobs, u->input);
    (void)cm_tensor_shape(out, CM_U8, 1, &n); /* one dim always fits */
    out->data = (void *)u->packed;
}

/* Entries for all constants; `list` by value, with the bytes to store for each: n_values, and behind them
 * those that stand besides, `besides` bytes of them at most. */
static cm_status export_all(exporting *x, cm_plan *p, size_t besides, const cm_tensor **list,
                            int *n_besides)
{
    cm_plan_packed *packed;
    cm_tensor *bytes;
    CM_NEW_N(x->cx, x->cx->arena, packed, p->n_values, cm_plan_packed);
    CM_NEW_N(x->cx, x->cx->arena, bytes, p->n_values, cm_tensor);
    *n_besides = 0;
    for (int32_t i = 0; i < p->n_values; i++) {
        cm_plan_packed *k = &packed[p->n_packed];
        bool in_place;
        if (!x->constants[i] || !x->uses[i].packed)
            continue;
        describe(x, i, k);
        CM_TRY(replace(x, i, k, &in_place));
        packed_bytes(x, i, &bytes[p->n_packed]);
        size_t more = in_place ? 0 : (size_t)bytes[p->n_packed].dims[0];
        if (!in_place && more > besides)
            continue;
        besides -= more;
        k->stored = in_place ? i : p->n_values + (*n_besides)++;
        k->packing = in_place ? k->packing : NULL;
        list[k->stored] = &bytes[p->n_packed++];
    }
    p->packed = packed;
    return CM_OK;
}

/* The plan's values with constants for what stands besides. */
static cm_status add_values(cm_ctx *cx, cm_plan *p, const cm_tensor *const *list, int n)
{
    cm_plan_value *values;
    CM_NEW_N(cx, cx->arena, values, p->n_values + n, cm_plan_value);
    if (p->n_values)
        memcpy(values, p->values, (size_t)p->n_values * sizeof *values);
    for (int i = p->n_values; i < p->n_values + n; i++)
        values[i] = (cm_plan_value){.name = "",
                                    .type = cm_type_of_tensor(list[i]),
                                    .storage = CM_STORE_CONSTANT,
                                    .weight = -1};
    p->values = values;
    p->n_values += n;
    return CM_OK;
}

/* What may stand besides: as much as the constants themselves take. */
static size_t constants_bytes(const exporting *x, int n_values)
{
    size_t all = 0;
    for (int i = 0; i < n_values; i++) {
        size_t bytes;
        if (x->constants[i] && cm_tensor_bytes(x->constants[i], &bytes))
            all += bytes; /* fits: they are in memory */
    }
    return all;
}

cm_status cm_context_packed(cm_ctx *cx, const cm_context *c, cm_plan *p,
                            const cm_tensor *const *constants, bool all,
                            const cm_tensor *const **stored)
{
    exporting x = {.cx = cx, .c = c};
    const cm_tensor **list, **by_value;
    int n_besides, n = 0;
    CM_NEW_N(cx, cx->arena, x.uses, p->n_values, use);
    CM_NEW_N(cx, cx->arena, x.found, p->n_values, known);
    CM_NEW_N(cx, cx->arena, by_value, p->n_values, const cm_tensor *);
    CM_NEW_N(cx, cx->arena, list, 2 * (int64_t)p->n_values, const cm_tensor *);
    for (int i = 0, k = 0; i < p->n_values; i++)
        if (p->values[i].storage == CM_STORE_CONSTANT)
            list[i] = by_value[i] = constants[k++];
    x.constants = by_value;
    if (p->n_variants == 1 &&
        c->target.kind == CM_DEVICE_CPU) /* another variant may want them plain */
        note_uses(&x);
    p->n_packed = 0;
    p->packed_for = c->target;
    p->packed_by = CM_PACKING_ID;
    size_t besides = all ? SIZE_MAX : constants_bytes(&x, p->n_values);
    CM_TRY(export_all(&x, p, besides, list, &n_besides));
    if (n_besides)
        CM_TRY(add_values(cx, p, list, n_besides));
    for (int i = 0; i < p->n_values; i++)
        if (list[i])
            list[n++] = list[i];
    *stored = list;
    return CM_OK;
}
