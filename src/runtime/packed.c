/* packed.c -- weights in the form that tactics want: made once per engine, shared by its contexts.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/internal.h"

/* What a packed form hangs on; see `pack_bytes` in plan/tactic.h. */
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
};

static bool same_operator(const cm_ready_step *a, const cm_ready_step *b)
{
    return a == b || (a->op == b->op && a->plan->attr_n == b->plan->attr_n &&
                      (a->plan->attr_n == 0 ||
                       memcmp(a->plan->attr_bytes, b->plan->attr_bytes, a->plan->attr_n) == 0));
}

static const cm_packed *find(const cm_engine *e, const cm_ready_step *s, const cm_problem *problem,
                             const cm_choice *c, int i, size_t bytes)
{
    int32_t value = s->plan->in[i].value;
    for (const cm_packed *p = e->packed; p; p = p->next)
        if (p->value == value && p->input == i && p->tactic == c->tactic &&
            p->level == problem->target.level && p->bytes == bytes &&
            memcmp(&p->knobs, &c->knobs, sizeof p->knobs) == 0 && same_operator(p->step, s))
            return p;
    return NULL;
}

static cm_status add(cm_ctx *cx, cm_engine *e, const cm_ready_step *s, const cm_problem *p,
                     const cm_choice *c, int i, size_t bytes, cm_threads *threads,
                     const cm_packed **out)
{
    cm_packed *k = cm_alloc(e->allocator, sizeof *k, 16);
    if (!k)
        return cm_fail_memory(cx);
    *k = (cm_packed){.next = e->packed,
                     .value = s->plan->in[i].value,
                     .input = i,
                     .tactic = c->tactic,
                     .level = p->target.level,
                     .knobs = c->knobs,
                     .step = s,
                     .bytes = bytes};
    k->data = cm_alloc(e->allocator, bytes, CM_MEMORY_ALIGN);
    if (!k->data) {
        cm_release(e->allocator, k, sizeof *k);
        return cm_fail(cx, CM_ERR_MEMORY, "out of memory: %zu bytes wanted for packed weights",
                       bytes);
    }
    c->tactic->pack(p, &c->knobs, i, p->in[i]->data, k->data, threads);
    if (e->mapping.data) /* the packed form is what will be read from now on */
        cm_file_forget(&e->mapping, p->in[i]->data, (size_t)e->plan->values[k->value].bytes);
    e->packed = k;
    e->packed_bytes += bytes;
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
    const cm_packed *k = find(e, s, p, c, i, bytes);
    cm_status st = k ? CM_OK : add(cx, e, s, p, c, i, bytes, threads, &k);
    if (st == CM_OK)
        *out = k->data;
    pthread_mutex_unlock(&e->packing);
    return st;
}

void cm_packed_release(cm_engine *e)
{
    while (e->packed) {
        cm_packed *k = e->packed;
        e->packed = k->next;
        cm_release(e->allocator, k->data, k->bytes);
        cm_release(e->allocator, k, sizeof *k);
    }
}
