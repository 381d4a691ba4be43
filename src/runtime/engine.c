/* engine.c -- opens a plan, and answers what is asked about it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device.h"

#include <string.h>

#include "base/size.h"
#include "plan/format.h"

/* String constants are stored as ends and characters; here they become cm_str. */
static cm_status open_strings(cm_ctx *cx, cm_engine *e, const cm_plan_value *v, const void **out)
{
    int64_t n = cm_dims_product(v->type.dims, 0, v->type.rank);
    const unsigned char *ends = e->plan->weights_data + v->offset;
    const char *text = (const char *)ends + 8 * (size_t)n;
    uint64_t text_n = v->bytes - 8 * (uint64_t)n, begin = 0;
    cm_str *s = cm_arena_alloc_n(&e->arena, (size_t)n, sizeof *s, 64, 0);
    if (!s)
        return cm_fail_memory(cx);
    for (int64_t i = 0; i < n; i++) {
        uint64_t end;
        memcpy(&end, ends + 8 * (size_t)i, 8);
        if (end < begin || end > text_n)
            return cm_fail(cx, CM_ERR_PLAN,
                           "the plan is damaged: string %lld of constant '%s' has a wrong end",
                           (long long)i, v->name);
        s[i] = (cm_str){text + begin, (size_t)(end - begin)};
        begin = end;
    }
    *out = s;
    return CM_OK;
}

/* `given`: where the constants are when not in the plan's bytes. */
static cm_status open_constants(cm_ctx *cx, cm_engine *e, const cm_tensor *const *given)
{
    for (int i = 0; i < e->plan->n_values; i++) {
        const cm_plan_value *v = &e->plan->values[i];
        e->values[i].list = -1;
        if (v->storage != CM_STORE_CONSTANT)
            continue;
        if (given) {
            e->values[i].data = (*given++)->data;
            continue;
        }
        if (e->plan->stripped || cm_plan_packed_of(e->plan, i))
            continue;
        e->values[i].data = e->plan->weights_data + v->offset;
        if (v->type.dtype == CM_STR)
            CM_TRY(open_strings(cx, e, v, &e->values[i].data));
    }
    return CM_OK;
}

static cm_status choose_variant(cm_ctx *cx, cm_engine *e, const char *name)
{
    e->variant = &e->plan->variants[0];
    if (!name)
        return CM_OK;
    for (int i = 0; i < e->plan->n_variants; i++) {
        if (strcmp(e->plan->variants[i].name, name) == 0) {
            e->variant = &e->plan->variants[i];
            return CM_OK;
        }
    }
    return cm_fail(cx, CM_ERR_ARGUMENT, "the plan has no variant '%s'; its first is '%s'", name,
                   e->variant->name);
}

/* What was measured on this machine, whatever instruction set it was tuned for: a problem's signature
 * tells them apart. A section that this version cannot read is as good as none. */
static void open_timings(cm_ctx *cx, cm_engine *e)
{
    const cm_target here = {CM_DEVICE_CPU, (int)cm_cpu_info()->isa, 0};
    for (int i = 0; i < e->plan->n_targets; i++) {
        const cm_plan_target *t = &e->plan->targets[i];
        if (t->target.kind != here.kind)
            continue;
        if (!e->timings)
            cm_timings_init(&e->own_timings, e->allocator, &here);
        e->timings = &e->own_timings;
        if (cm_timings_parse(cx, &e->own_timings, t->bytes, cm_plan_target_text(t)) != CM_OK)
            cx->message[0] = 0;
    }
}

/* Bytes of a plan, or one that was lowered just now. */
typedef struct {
    const void *bytes;
    size_t n;
    cm_plan *lowered; /* NULL: read the bytes */
    const cm_tensor *const *constants;
} plan_source;

static cm_status open_plan(cm_ctx *cx, cm_engine *e, const plan_source *from,
                           const cm_engine_options *options)
{
    static const cm_engine_options defaults = {0};
    if (!options)
        options = &defaults;
    e->plan = from->lowered;
    if (!e->plan)
        CM_TRY(cm_plan_read(cx, &e->arena, from->bytes, from->n, &e->plan));
    if (e->plan->stripped && !options->to_look)
        return cm_plan_fail_stripped(cx);
    if (options->verify_weights && !from->lowered)
        CM_TRY(cm_plan_verify_weights(cx, e->plan));
    CM_TRY(choose_variant(cx, e, options->variant));
    e->tf32 = strcmp(e->variant->name, "tf32") == 0;
    CM_NEW_N(cx, &e->arena, e->values, e->plan->n_values, cm_ready_value);
    CM_TRY(open_constants(cx, e, from->constants));
    CM_TRY(cm_open_steps(cx, e));
    CM_TRY(cm_packed_open(cx, e));
    open_timings(cx, e);
    return CM_OK;
}

/* The engine owns what it was given, whatever happens. */
static cm_status open_source(cm_ctx *cx, cm_engine *e, const plan_source *from,
                             const cm_engine_options *options, cm_engine **out)
{
    cm_arena scratch, *outer = cx->scratch;
    cm_arena_init(&scratch, cx->allocator);
    cx->scratch = &scratch;
    cm_status st = open_plan(cx, e, from, options);
    cx->scratch = outer;
    cm_arena_deinit(&scratch);
    if (st != CM_OK) {
        cm_engine_release(e);
        return st;
    }
    *out = e;
    return CM_OK;
}

static cm_status new_engine(cm_ctx *cx, cm_engine **out)
{
    cm_engine *e = cm_alloc(cx->allocator, sizeof *e, 16);
    if (!e)
        return cm_fail_memory(cx);
    memset(e, 0, sizeof *e);
    atomic_init(&e->refs, 1);
    e->allocator = cx->allocator;
    cm_arena_init(&e->arena, cx->allocator);
    pthread_mutex_init(&e->packing, NULL);
    *out = e;
    return CM_OK;
}

cm_status cm_engine_open_file(cm_ctx *cx, const char *path, const cm_engine_options *options,
                              cm_engine **out)
{
    cm_engine *e;
    CM_TRY(new_engine(cx, &e));
    cm_status st = cm_file_map(cx, path, &e->mapping);
    if (st != CM_OK) {
        e->mapping = (cm_mapping){0};
        cm_engine_release(e);
        return st;
    }
    const plan_source from = {.bytes = e->mapping.data, .n = e->mapping.n};
    st = open_source(cx, e, &from, options, out);
    return st == CM_OK ? st : cm_while(cx, st, "%s", path);
}

cm_status cm_engine_open_memory(cm_ctx *cx, const void *bytes, size_t n, bool copy,
                                const cm_engine_options *options, cm_engine **out)
{
    cm_engine *e;
    CM_TRY(new_engine(cx, &e));
    if (copy || (uintptr_t)bytes % CM_PLAN_CONSTANT_ALIGN) { /* constants are used in place */
        e->copy = cm_alloc(cx->allocator, n ? n : 1, CM_MEMORY_ALIGN);
        e->copy_bytes = n ? n : 1;
        if (!e->copy) {
            cm_engine_release(e);
            return cm_fail_memory(cx);
        }
        if (n)
            memcpy(e->copy, bytes, n);
        bytes = e->copy;
    }
    const plan_source from = {.bytes = bytes, .n = n};
    return open_source(cx, e, &from, options, out);
}

cm_status cm_engine_open_lowered(cm_ctx *cx, cm_plan *plan, const cm_tensor *const *constants,
                                 cm_engine **out)
{
    cm_engine *e;
    CM_TRY(new_engine(cx, &e));
    const plan_source from = {.lowered = plan, .constants = constants};
    return open_source(cx, e, &from, NULL, out);
}

cm_status cm_engine_constants(cm_ctx *cx, cm_engine *e, const cm_tensor *const **out)
{
    const cm_plan *p = e->plan;
    const cm_tensor **list;
    cm_tensor *tensors;
    int n = 0;
    CM_NEW_N(cx, cx->arena, list, p->n_values, const cm_tensor *);
    CM_NEW_N(cx, cx->arena, tensors, p->n_values, cm_tensor);
    for (int i = 0; i < p->n_values; i++) {
        const cm_plan_value *v = &p->values[i];
        cm_tensor *t = &tensors[i];
        if (v->storage != CM_STORE_CONSTANT)
            continue;
        if (!cm_tensor_shape(t, v->type.dtype, v->type.rank, v->type.dims))
            return cm_fail(cx, CM_ERR_PLAN, "constant '%s' is too large", v->name);
        CM_TRY(cm_plain_constant(cx, e, i, (const void **)&t->data));
        t->packed = cm_dtype_is_sub_byte(v->type.dtype);
        (void)cm_tensor_bytes(t, &t->capacity_bytes); /* fits: the reader checked */
        list[n++] = t;
    }
    *out = list;
    return CM_OK;
}

cm_engine *cm_engine_retain(cm_engine *e)
{
    atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    return e;
}

void cm_engine_release(cm_engine *e)
{
    if (!e || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
        return;
    cm_packed_release(e);
    cm_device_weights_release(e);
    if (e->timings)
        cm_timings_deinit(&e->own_timings);
    pthread_mutex_destroy(&e->packing);
    cm_arena_deinit(&e->arena);
    if (e->mapping.data)
        cm_file_unmap(&e->mapping);
    cm_release(e->allocator, e->copy, e->copy_bytes);
    cm_release(e->allocator, e, sizeof *e);
}

const cm_plan *cm_engine_plan(const cm_engine *e)
{
    return e->plan;
}

const cm_plan_variant *cm_engine_variant(const cm_engine *e)
{
    return e->variant;
}

int cm_engine_n_inputs(const cm_engine *e)
{
    return e->variant->lists[0].n_inputs;
}

int cm_engine_n_outputs(const cm_engine *e)
{
    return e->variant->lists[0].n_outputs;
}

const char *cm_engine_input_name(const cm_engine *e, int i)
{
    return e->plan->values[e->variant->lists[0].inputs[i]].name;
}

const char *cm_engine_output_name(const cm_engine *e, int i)
{
    return e->variant->lists[0].output_names[i];
}

const cm_type *cm_engine_input_type(const cm_engine *e, int i)
{
    return &e->plan->values[e->variant->lists[0].inputs[i]].type;
}

const cm_type *cm_engine_output_type(const cm_engine *e, int i)
{
    return &e->plan->values[e->variant->lists[0].outputs[i]].type;
}

int cm_engine_find_input(const cm_engine *e, const char *name)
{
    for (int i = 0; i < cm_engine_n_inputs(e); i++)
        if (strcmp(cm_engine_input_name(e, i), name) == 0)
            return i;
    return -1;
}

int cm_engine_find_output(const cm_engine *e, const char *name)
{
    for (int i = 0; i < cm_engine_n_outputs(e); i++)
        if (strcmp(cm_engine_output_name(e, i), name) == 0)
            return i;
    return -1;
}

int cm_engine_n_steps(const cm_engine *e)
{
    return e->n_steps;
}

const cm_plan_step *cm_engine_step(const cm_engine *e, int index)
{
    return e->steps[index];
}
