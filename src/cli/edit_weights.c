/* edit_weights.c -- `cameo edit prune` and what `restore-weights` takes weights from.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "cli/edit.h"
#include "cli/weights.h"

/* ---- Pruning -------------------------------------------------------------------------------- */

typedef struct {
    int n_weights, n_pruned;
    int64_t elems;
    double before, after; /* sums of squares */
} pruning;

/* A copy of the constant, pruned: the old one may lie in a mapped file. */
static cm_status prune(cm_ctx *cx, cm_network *g, cm_value *v, pruning *p)
{
    cm_fours fours;
    cm_tensor *t;
    size_t bytes;
    double before, after;
    if (!cm_fours_of(v->constant, cm_weight_summed_axis(v), &fours) ||
        !cm_tensor_bytes(v->constant, &bytes))
        return CM_OK;
    CM_NEW(cx, g->arena, t, cm_tensor);
    *t = *v->constant;
    t->data = cm_arena_memdup(g->arena, v->constant->data, bytes);
    if (!t->data)
        return cm_fail_memory(cx);
    cm_fours_prune(t, &fours, &before, &after);
    v->constant = t;
    p->n_pruned++;
    p->elems += cm_tensor_elems(t) / 2;
    p->before += before;
    p->after += after;
    return CM_OK;
}

static cm_status prune_all(cm_ctx *cx, cm_network *g, cm_map *seen, pruning *p)
{
    CM_FOR_NODES (n, g) {
        for (int i = 0; i < n->n_in; i++) {
            cm_value *v = n->in[i];
            if (!v || !v->constant || v->producer || cm_map_has(seen, v->name))
                continue;
            if (!cm_map_put(seen, v->name, v))
                return cm_fail_memory(cx);
            p->n_weights++;
            CM_TRY(prune(cx, g, v, p));
        }
        for (int s = 0; s < n->n_subs; s++)
            CM_TRY(prune_all(cx, n->subs[s], seen, p));
    }
    return CM_OK;
}

cm_status cm_edit_prune(cm_ctx *cx, const cm_edit_options *o, cm_network *g)
{
    pruning p = {0};
    cm_map seen;
    cm_map_init(&seen, cx->arena);
    CM_TRY(prune_all(cx, g, &seen, &p));
    if (!p.n_pruned)
        return cm_fail(cx, CM_ERR_ARGUMENT,
                       "no weight can be pruned: products and convolutions must have constant "
                       "weights whose summed axis is a multiple of four");
    if (!o->quiet)
        printf("pruned 2:4: %d of %d constants, %lld weights set to zero, %.1f %% of their squares "
               "stay\n",
               p.n_pruned, p.n_weights, (long long)p.elems,
               p.before > 0 ? 100 * p.after / p.before : 100);
    return CM_OK;
}

/* ---- Weights for a model that lacks them ---------------------------------------------------- */

static cm_status from_model(void *user, cm_ctx *cx, cm_str name, const cm_tensor *shape,
                            uint64_t checksum, const void **bytes)
{
    cm_donor *d = user;
    const char *text = cm_arena_strndup(cx->arena, name.p, name.n);
    size_t n;
    if (!text)
        return cm_fail_memory(cx);
    const cm_value *v = cm_network_find_value(d->model.network, text);
    if (!v || !v->constant)
        return cm_fail(cx, CM_ERR_MODEL, "the model that gives the weights has no '%s'", text);
    if (v->constant->dtype != shape->dtype || !cm_tensor_same_shape(v->constant, shape) ||
        !cm_tensor_bytes(v->constant, &n))
        return cm_fail(cx, CM_ERR_MODEL,
                       "weight '%s' has another type or shape in the model that gives it", text);
    d->n_found++;
    d->n_same += cm_checksum(v->constant->data, n) == checksum;
    *bytes = v->constant->data;
    return CM_OK;
}

/* The same name gives the same numbers: uniform, of the size that keeps sums of `fan` terms near 1. */
static cm_status made_up(void *user, cm_ctx *cx, cm_str name, const cm_tensor *shape,
                         uint64_t checksum, const void **bytes)
{
    cm_donor *d = user;
    size_t n;
    (void)checksum;
    if (!cm_tensor_bytes(shape, &n))
        return cm_fail(cx, CM_ERR_MODEL, "a weight is too large");
    int64_t elems = cm_tensor_elems(shape);
    if (cm_dtype_is_sub_byte(shape->dtype) && !cm_dtype_bytes(shape->dtype, elems, &n))
        return cm_fail(cx, CM_ERR_MODEL, "a weight is too large");
    void *data = cm_arena_alloc_n(cx->arena, n + 1, 1, 64, 1);
    if (!data)
        return cm_fail_memory(cx);
    *bytes = data;
    d->n_found++;
    if (!cm_dtype_is_float(shape->dtype) || cm_dtype_is_sub_byte(shape->dtype))
        return CM_OK; /* zeros: as good as any where numbers may be indices */
    double fan = shape->rank > 1 ? (double)elems / (double)shape->dims[0] : 1;
    double size = sqrt(3 / (fan > 1 ? fan : 1));
    uint64_t state = cm_hash_bytes(name.p, name.n, (uint64_t)d->seed);
    for (int64_t i = 0; i < elems; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        cm_set_f64(shape->dtype, data, i, ((double)(state >> 33) / (1u << 30) - 1) * size);
    }
    return CM_OK;
}

cm_status cm_donor_init(cm_ctx *cx, const cm_edit_options *o, cm_donor *d)
{
    static const cm_model_options as_it_is = {0};
    *d = (cm_donor){.seed = o->random};
    d->source = (cm_weight_source){o->from ? from_model : made_up, d};
    if (!o->from == (o->random < 0))
        return cm_fail(cx, CM_ERR_ARGUMENT,
                       "restore-weights needs --from MODEL or --random SEED, not both");
    d->open = true;
    return o->from ? cm_model_import(cx, o->from, &as_it_is, &d->model) : CM_OK;
}

void cm_donor_deinit(cm_donor *d)
{
    if (d->open && d->source.find == from_model)
        cm_model_close(&d->model);
    d->open = false;
}
