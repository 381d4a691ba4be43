/* packed.c -- weights in the form that tactics want: made once per engine, shared by its contexts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A plan may hold some of them packed already, and then has no plain form of these. Where the same kernels
 * run with the same choice, they are used where they are mapped; else the packing is undone first. */
#include <stdlib.h>
#include <string.h>

#include "packing_id.h"
#include "runtime/internal.h"

/* What a packed form hangs on; see `pack_bytes` in plan/tactic.h. Tactics that pack by the same function share it. */
struct cm_packed {
    struct cm_packed *next;
    int32_t value;
    int input;
    const cm_tactic *tactic;
    int level;
    cm_knobs knobs;
    const cm_ready_step *step;
    void *data;
    size_t bytes;
    bool mapped; /* in the plan, not ours */
    bool used;
};

static bool same_operator(const cm_ready_step *a, const cm_ready_step *b)
{
    return a == b || (a->op == b->op && a->plan->attr_n == b->plan->attr_n &&
                      (a->plan->attr_n == 0 ||
                       memcmp(a->plan->attr_bytes, b->plan->attr_bytes, a->plan->attr_n) == 0));
}

static cm_packed *find(const cm_engine *e, const cm_ready_step *s, const cm_problem *problem,
                       const cm_choice *c, int i, size_t bytes)
{
    int32_t value = s->plan->in[i].value;
    for (cm_packed *p = e->packed; p; p = p->next)
        if (p->value == value && p->input == i && p->tactic->pack == c->tactic->pack &&
            p->level == problem->target.level && p->bytes == bytes &&
            memcmp(&p->knobs, &c->knobs, sizeof p->knobs) == 0 && same_operator(p->step, s))
            return p;
    return NULL;
}

static const cm_tactic *find_tactic(cm_device_kind device, cm_problem_kind kind, const char *name)
{
    int n;
    for (int b = 0; cm_backend_at(b); b++) {
        if (cm_backend_at(b)->device != device)
            continue;
        const cm_tactic *rows = cm_backend_at(b)->tactics(kind, &n);
        for (int i = 0; i < n; i++)
            if (strcmp(rows[i].name, name) == 0)
                return &rows[i];
    }
    return NULL;
}

cm_status cm_packed_open(cm_ctx *cx, cm_engine *e)
{
    const cm_plan *p = e->plan;
    if (p->packed_by != CM_PACKING_ID || p->packed_for.kind != CM_DEVICE_CPU)
        return CM_OK;
    for (int i = 0; i < p->n_packed; i++) {
        const cm_plan_packed *stored = &p->packed[i];
        if (&p->variants[stored->variant] != e->variant)
            continue;
        const cm_ready_step *s = &e->lists[stored->list].steps[stored->step];
        const cm_tactic *t =
            s->problem ? find_tactic(p->packed_for.kind, s->problem->kind, stored->tactic) : NULL;
        if (!t)
            continue;
        cm_packed *k = cm_alloc(e->allocator, sizeof *k, 16);
        if (!k)
            return cm_fail_memory(cx);
        *k = (cm_packed){.next = e->packed,
                         .value = stored->value,
                         .input = stored->input,
                         .tactic = t,
                         .level = p->packed_for.level,
                         .knobs = stored->knobs,
                         .step = s,
                         .data = (void *)(p->weights_data + p->values[stored->stored].offset),
                         .bytes = (size_t)p->values[stored->stored].bytes,
                         .mapped = true};
        e->packed = k;
    }
    return CM_OK;
}

/* The plain form of a constant that is stored packed, to be released. */
static cm_status unpack(cm_ctx *cx, const cm_engine *e, const cm_plan_packed *stored, void **out,
                        size_t *bytes)
{
    const cm_packing *k = stored->packing;
    const unsigned char *from = e->plan->weights_data + e->plan->values[stored->value].offset;
    *bytes =
        (size_t)k->plain * k->elem_bytes; /* fits: the packed form, in the file, is no smaller */
    *out = cm_alloc(e->allocator, *bytes ? *bytes : 1, CM_MEMORY_ALIGN);
    if (!*out)
        return cm_fail(cx, CM_ERR_MEMORY, "out of memory: %zu bytes wanted for weights", *bytes);
    memset(*out, 0, *bytes); /* whatever a damaged packing leaves out */
    cm_packing_undo(k, from, *out);
    if (e->mapping.data)
        cm_file_forget(&e->mapping, from, (size_t)k->packed * k->elem_bytes);
    return CM_OK;
}

static size_t constant_bytes(const cm_engine *e, int32_t value)
{
    const cm_type *type = &e->plan->values[value].type;
    cm_tensor t = {.packed = cm_dtype_is_sub_byte(type->dtype)};
    size_t bytes = 0; /* fits: it is in memory */
    if (cm_tensor_shape(&t, type->dtype, type->rank, type->dims))
        (void)cm_tensor_bytes(&t, &bytes);
    return bytes;
}

/* One that the engine's source has let go, to be released. */
static cm_status fetch(cm_ctx *cx, const cm_engine *e, int32_t value, void **out, size_t *bytes)
{
    *bytes = constant_bytes(e, value);
    *out = cm_alloc(e->allocator, *bytes, CM_MEMORY_ALIGN);
    if (!*out)
        return cm_fail(cx, CM_ERR_MEMORY, "out of memory: %zu bytes wanted for weights", *bytes);
    e->source.fetch(e->source.user, e->values[value].gone, *bytes, *out);
    return CM_OK;
}

/* The plain form of a constant that has none in memory; *out NULL: nor anywhere else. */
static cm_status make_plain(cm_ctx *cx, const cm_engine *e, int32_t value, void **out,
                            size_t *bytes)
{
    const cm_plan_packed *stored = cm_plan_packed_of(e->plan, value);
    *out = NULL;
    if (stored)
        return unpack(cx, e, stored, out, bytes);
    return e->values[value].gone ? fetch(cx, e, value, out, bytes) : CM_OK;
}

static cm_status plain_constant(cm_ctx *cx, cm_engine *e, int32_t value, const void **out)
{
    cm_ready_value *v = &e->values[value];
    v->plain = true;
    if (!v->data) {
        void *data;
        CM_TRY(make_plain(cx, e, value, &data, &v->own_bytes));
        v->data = data;
    }
    *out = v->data;
    return CM_OK;
}

cm_status cm_plain_constant(cm_ctx *cx, cm_engine *e, int32_t value, const void **out)
{
    pthread_mutex_lock(&e->packing);
    cm_status st = plain_constant(cx, e, value, out);
    pthread_mutex_unlock(&e->packing);
    return st;
}

/* What will be read now is the packed form. */
static void let_go(cm_engine *e, int32_t value)
{
    cm_ready_value *v = &e->values[value];
    const size_t bytes = constant_bytes(e, value);
    if (e->mapping.data)
        cm_file_forget(&e->mapping, v->data, bytes);
    else if (e->source.let_go && !v->plain && !v->own_bytes &&
             e->source.let_go(e->source.user, v->data, bytes)) {
        v->gone = v->data;
        v->data = NULL;
    }
}

static cm_status pack(cm_ctx *cx, cm_engine *e, const cm_problem *p, const cm_choice *c,
                      cm_packed *k, cm_threads *threads)
{
    const void *from = e->values[k->value].data;
    void *own = NULL;
    size_t own_bytes = 0;
    k->data = cm_alloc(e->allocator, k->bytes, CM_MEMORY_ALIGN);
    if (!k->data)
        return cm_fail(cx, CM_ERR_MEMORY, "out of memory: %zu bytes wanted for packed weights",
                       k->bytes);
    if (!from) { /* it is packed otherwise */
        CM_TRY(make_plain(cx, e, k->value, &own, &own_bytes));
        from = own;
        e->repacked = e->repacked || !e->values[k->value].gone;
    }
    c->tactic->pack(p, &c->knobs, k->input, from, k->data, threads);
    if (!own)
        let_go(e, k->value);
    cm_release(e->allocator, own, own_bytes);
    return CM_OK;
}

static cm_status add(cm_ctx *cx, cm_engine *e, const cm_ready_step *s, const cm_problem *p,
                     const cm_choice *c, int i, size_t bytes, cm_threads *threads, cm_packed **out)
{
    cm_packed *k = cm_alloc(e->allocator, sizeof *k, 16);
    if (!k)
        return cm_fail_memory(cx);
    *k = (cm_packed){.value = s->plan->in[i].value,
                     .input = i,
                     .tactic = c->tactic,
                     .level = p->target.level,
                     .knobs = c->knobs,
                     .step = s,
                     .bytes = bytes};
    cm_status st = pack(cx, e, p, c, k, threads);
    if (st != CM_OK) {
        cm_release(e->allocator, k->data, bytes);
        cm_release(e->allocator, k, sizeof *k);
        return st;
    }
    k->next = e->packed;
    e->packed = k;
    *out = k;
    return CM_OK;
}

cm_status cm_packed_input(cm_ctx *cx, cm_engine *e, const cm_ready_step *s, const cm_problem *p,
                          const cm_choice *c, int i, cm_threads *threads, const void **out)
{
    *out = NULL;
    if (!c->tactic || !c->tactic->pack_bytes || !p->in[i] || !p->constant[i])
        return CM_OK;
    size_t bytes = c->tactic->pack_bytes(p, &c->knobs, i);
    if (!bytes)
        return CM_OK;
    pthread_mutex_lock(&e->packing);
    cm_packed *k = find(e, s, p, c, i, bytes);
    cm_status st = k ? CM_OK : add(cx, e, s, p, c, i, bytes, threads, &k);
    if (st == CM_OK) {
        if (k->mapped && !k->used && e->mapping.data)
            cm_file_expect(&e->mapping, k->data, bytes);
        k->used = true;
        *out = k->data;
    }
    pthread_mutex_unlock(&e->packing);
    return st;
}

cm_status cm_plain_inputs(cm_ctx *cx, cm_context *c, const cm_ready_step *s, const cm_solution *sol)
{
    cm_engine *e = c->engine;
    const bool all_there = !e->plan->n_packed && !e->source.let_go;
    for (int i = 0; !all_there && i < s->plan->n_in; i++) {
        int32_t v = s->plan->in[i].value;
        const void *data;
        if (v < 0 || e->plan->values[v].storage != CM_STORE_CONSTANT)
            continue;
        if (sol->way == CM_WAY_TACTIC && i < sol->p.n_in && sol->packed[i])
            continue;
        CM_TRY(cm_plain_constant(cx, e, v, &data));
        c->slots[v].datum.tensor.data = (void *)data;
    }
    return CM_OK;
}

void cm_refresh_constants(cm_context *c)
{
    cm_engine *e = c->engine;
    if (!e->source.let_go)
        return;
    pthread_mutex_lock(&e->packing);
    for (int i = 0; i < e->plan->n_values; i++)
        if (e->plan->values[i].storage == CM_STORE_CONSTANT)
            c->slots[i].datum.tensor.data = (void *)e->values[i].data;
    pthread_mutex_unlock(&e->packing);
}

/* ---- a source ---- */

typedef struct {
    uintptr_t begin, end;
    cm_ready_value *value;
} extent;

static int by_begin(const void *a, const void *b)
{
    const extent *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Constants that share bytes stay: one may be packed where another is read. */
static cm_status keep_shared(cm_ctx *cx, cm_engine *e)
{
    extent *all, *widest = NULL;
    int n = 0;
    cm_arena_mark mark = cm_arena_save(cx->scratch);
    CM_NEW_N(cx, cx->scratch, all, e->plan->n_values, extent);
    for (int i = 0; i < e->plan->n_values; i++) {
        const uintptr_t at = (uintptr_t)e->values[i].data;
        if (e->plan->values[i].storage == CM_STORE_CONSTANT && at)
            all[n++] = (extent){at, at + constant_bytes(e, i), &e->values[i]};
    }
    qsort(all, (size_t)n, sizeof *all, by_begin);
    for (int i = 0; i < n; i++) {
        if (widest && all[i].begin < widest->end)
            widest->value->plain = all[i].value->plain = true;
        if (!widest || all[i].end > widest->end)
            widest = &all[i];
    }
    cm_arena_restore(cx->scratch, mark);
    return CM_OK;
}

cm_status cm_engine_set_source(cm_ctx *cx, cm_engine *e, const cm_constant_source *source)
{
    CM_TRY(keep_shared(cx, e));
    for (int l = 0; l < e->variant->n_lists; l++) /* handed out, they are read as they are */
        for (int i = 0; i < e->variant->lists[l].n_outputs; i++)
            e->values[e->variant->lists[l].outputs[i]].plain = true;
    e->source = *source;
    return CM_OK;
}

void cm_packed_release(cm_engine *e)
{
    while (e->packed) {
        cm_packed *k = e->packed;
        e->packed = k->next;
        if (!k->mapped)
            cm_release(e->allocator, k->data, k->bytes);
        cm_release(e->allocator, k, sizeof *k);
    }
    for (int i = 0; e->values && i < e->plan->n_values; i++)
        if (e->values[i].own_bytes)
            cm_release(e->allocator, (void *)e->values[i].data, e->values[i].own_bytes);
}
