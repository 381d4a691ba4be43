/* packed.c -- constants that are stored packed, to and from the plan file.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A head, then three arrays of records of fixed size: packings, their nests, and the constants. */
#include "plan/packed.h"

#include <string.h>

#include "base/size.h"

typedef struct {
    uint32_t kind;
    int32_t level;
    uint64_t kernels;
    uint32_t n_packings, n_nests, n_packed, spare;
} head;

typedef struct {
    uint32_t elem_bytes, n_nests;
    int64_t plain, packed;
} packing_record;

typedef struct {
    int32_t value, variant, list, step, input;
    uint32_t packing; /* NONE: besides */
    uint32_t tactic;
    int32_t stored;
    int32_t knobs[8];
} packed_record;

#define NONE UINT32_MAX

_Static_assert(sizeof(head) == 32 && sizeof(packing_record) == 24 && sizeof(packed_record) == 64 &&
                   sizeof(cm_nest) == 16 + 24 * CM_NEST_DIMS,
               "records have no gaps");

/* The packings that entries name, each once. */
static int list_packings(const cm_plan *p, const cm_packing **list, uint32_t *of)
{
    int n = 0;
    for (int i = 0; i < p->n_packed; i++) {
        int k = 0;
        of[i] = NONE;
        if (!p->packed[i].packing)
            continue;
        while (k < n && list[k] != p->packed[i].packing)
            k++;
        if (k == n)
            list[n++] = p->packed[i].packing;
        of[i] = (uint32_t)k;
    }
    return n;
}

cm_status cm_packed_write(cm_ctx *cx, cm_arena *arena, const cm_plan *p, const uint32_t *names,
                          cm_buf *out)
{
    const cm_packing **list;
    uint32_t *of;
    CM_NEW_N(cx, arena, list, p->n_packed, const cm_packing *);
    CM_NEW_N(cx, arena, of, p->n_packed, uint32_t);
    head h = {.kind = (uint32_t)p->packed_for.kind,
              .level = p->packed_for.level,
              .kernels = p->packed_by,
              .n_packings = (uint32_t)list_packings(p, list, of),
              .n_packed = (uint32_t)p->n_packed};
    for (uint32_t i = 0; i < h.n_packings; i++)
        h.n_nests += (uint32_t)list[i]->n_nests;
    cm_buf_bytes(out, &h, sizeof h);
    for (uint32_t i = 0; i < h.n_packings; i++) {
        const cm_packing *k = list[i];
        packing_record r = {k->elem_bytes, (uint32_t)k->n_nests, k->plain, k->packed};
        cm_buf_bytes(out, &r, sizeof r);
    }
    for (uint32_t i = 0; i < h.n_packings; i++)
        cm_buf_bytes(out, list[i]->nests, (size_t)list[i]->n_nests * sizeof(cm_nest));
    for (int i = 0; i < p->n_packed; i++) {
        const cm_plan_packed *k = &p->packed[i];
        packed_record r = {.value = k->value,
                           .variant = k->variant,
                           .list = k->list,
                           .step = k->step,
                           .input = k->input,
                           .packing = of[i],
                           .tactic = names[i],
                           .stored = k->stored};
        memcpy(r.knobs, k->knobs.v, sizeof r.knobs);
        cm_buf_bytes(out, &r, sizeof r);
    }
    return out->failed ? cm_fail_memory(cx) : CM_OK;
}

static cm_status damaged(cm_ctx *cx, const char *what)
{
    return cm_fail(cx, CM_ERR_PLAN, "the plan is damaged: section packed: %s", what);
}

static cm_status read_packings(cm_ctx *cx, cm_arena *arena, const head *h,
                               const unsigned char *bytes, const unsigned char *nest_bytes,
                               const cm_packing **out)
{
    cm_packing *list;
    cm_nest *nests;
    uint32_t used = 0;
    CM_NEW_N(cx, arena, list, h->n_packings, cm_packing);
    CM_NEW_N(cx, arena, nests, h->n_nests, cm_nest);
    if (h->n_nests)
        memcpy(nests, nest_bytes, (size_t)h->n_nests * sizeof *nests);
    for (uint32_t i = 0; i < h->n_packings; i++) {
        packing_record r;
        memcpy(&r, bytes + i * sizeof r, sizeof r);
        if (r.n_nests > h->n_nests - used)
            return damaged(cx, "more nests than there are");
        list[i] = (cm_packing){r.elem_bytes, r.plain, r.packed, (int)r.n_nests, nests + used};
        used += r.n_nests;
        if (r.plain < 0 || r.packed < r.plain || !cm_packing_is_sound(&list[i]))
            return damaged(cx, "a packing leaves its bounds");
    }
    *out = list;
    return CM_OK;
}

static cm_status read_entries(cm_ctx *cx, cm_arena *arena, const head *h,
                              const unsigned char *bytes, const cm_packing *packings,
                              const char *const *strings, uint32_t n_strings,
                              const cm_plan_packed **out)
{
    cm_plan_packed *list;
    CM_NEW_N(cx, arena, list, h->n_packed, cm_plan_packed);
    for (uint32_t i = 0; i < h->n_packed; i++) {
        packed_record r;
        memcpy(&r, bytes + i * sizeof r, sizeof r);
        bool besides = r.packing == NONE;
        if ((r.packing >= h->n_packings && !besides) || r.tactic >= n_strings ||
            besides != (r.stored != r.value))
            return damaged(cx, "an index is out of range");
        if (i && r.value <= list[i - 1].value)
            return damaged(cx, "its constants are not in order");
        list[i] = (cm_plan_packed){.value = r.value,
                                   .stored = r.stored,
                                   .variant = r.variant,
                                   .list = r.list,
                                   .step = r.step,
                                   .input = r.input,
                                   .tactic = strings[r.tactic],
                                   .packing = besides ? NULL : &packings[r.packing]};
        memcpy(list[i].knobs.v, r.knobs, sizeof r.knobs);
    }
    *out = list;
    return CM_OK;
}

cm_status cm_packed_read(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n,
                         const char *const *strings, uint32_t n_strings, cm_plan *p)
{
    head h;
    const unsigned char *at = bytes;
    if (n < sizeof h)
        return damaged(cx, "it ends too early");
    memcpy(&h, at, sizeof h);
    size_t packings = (size_t)h.n_packings * sizeof(packing_record); /* fit: 32 bits times few */
    size_t nests = (size_t)h.n_nests * sizeof(cm_nest);
    size_t entries = (size_t)h.n_packed * sizeof(packed_record);
    if (n - sizeof h != packings + nests + entries || h.n_packed > INT32_MAX)
        return damaged(cx, "its size is not that of its records");
    at += sizeof h;
    const cm_packing *list;
    CM_TRY(read_packings(cx, arena, &h, at, at + packings, &list));
    CM_TRY(
        read_entries(cx, arena, &h, at + packings + nests, list, strings, n_strings, &p->packed));
    p->n_packed = (int)h.n_packed;
    p->packed_for = (cm_target){(cm_device_kind)h.kind, h.level, 0};
    p->packed_by = h.kernels;
    return CM_OK;
}

const cm_plan_packed *cm_plan_packed_of(const cm_plan *p, int32_t value)
{
    int lo = 0, hi = p->n_packed;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (p->packed[mid].value < value)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == p->n_packed || p->packed[lo].value != value)
        return NULL;
    return p->packed[lo].packing ? &p->packed[lo] : NULL;
}

static bool has_step(const cm_plan *p, const cm_plan_packed *k)
{
    if (k->variant < 0 || k->variant >= p->n_variants)
        return false;
    const cm_plan_variant *v = &p->variants[k->variant];
    if (k->list < 0 || k->list >= v->n_lists)
        return false;
    const cm_plan_list *l = &v->lists[k->list];
    return k->step >= 0 && k->step < l->n_steps && k->input >= 0 &&
           k->input < l->steps[k->step].n_in && l->steps[k->step].in[k->input].value == k->value;
}

static bool is_constant(const cm_plan *p, int32_t value)
{
    return value >= 0 && value < p->n_values && p->values[value].storage == CM_STORE_CONSTANT;
}

cm_status cm_packed_check(cm_ctx *cx, const cm_plan *p)
{
    for (int i = 0; i < p->n_packed; i++) {
        const cm_plan_packed *k = &p->packed[i];
        if (!is_constant(p, k->value) || !is_constant(p, k->stored))
            return damaged(cx, "an entry is for no constant");
        if (!k->packing && p->values[k->stored].type.dtype != CM_U8)
            return damaged(cx, "bytes beside a constant have another type");
        if (!has_step(p, k))
            return damaged(cx, "an entry is for no step's operand");
    }
    return CM_OK;
}

void cm_plan_drop_besides(cm_plan *p)
{
    bool found = true;
    while (found && p->n_packed) {
        found = false;
        for (int i = 0; i < p->n_packed && !found; i++)
            found = !p->packed[i].packing && p->packed[i].stored == p->n_values - 1;
        p->n_values -= found;
    }
}

cm_status cm_plan_pack_like(cm_ctx *cx, cm_arena *arena, const cm_plan *like, cm_plan *p,
                            const cm_tensor *const **constants)
{
    cm_plan_packed *packed;
    cm_tensor *bytes;
    const cm_tensor **list;
    int n_constants = 0;
    CM_NEW_N(cx, arena, packed, like->n_packed, cm_plan_packed);
    CM_NEW_N(cx, arena, bytes, like->n_packed, cm_tensor);
    CM_NEW_N(cx, arena, list, p->n_values, const cm_tensor *);
    p->n_packed = 0;
    for (int i = 0; i < p->n_values; i++) {
        const cm_plan_packed *k = cm_plan_packed_of(like, i);
        if (p->values[i].storage != CM_STORE_CONSTANT)
            continue;
        const cm_tensor *plain = (*constants)[n_constants];
        list[n_constants] = plain;
        if (k) {
            cm_tensor *t = &bytes[p->n_packed];
            int64_t n = k->packing->packed * k->packing->elem_bytes; /* fits: it was in a file */
            (void)cm_tensor_shape(t, CM_U8, 1, &n);
            t->data = cm_arena_alloc_n(arena, (size_t)n, 1, 64, 1);
            if (!t->data)
                return cm_fail_memory(cx);
            cm_packing_redo(k->packing, plain->data, t->data);
            packed[p->n_packed++] = *k;
            list[n_constants] = t;
        }
        n_constants++;
    }
    p->packed = packed;
    p->packed_for = like->packed_for;
    p->packed_by = like->packed_by;
    *constants = list;
    return CM_OK;
}
