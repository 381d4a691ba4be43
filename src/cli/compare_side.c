/* compare_side.c -- one of the two that are compared: opened, run, its values kept.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/size.h"
#include "cli/compare.h"
#include "io/io.h"

/* ---- Opening ------------------------------------------------------------------------------------ */

static bool is_npz(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".npz");
}

static cm_status open_saved(cm_ctx *cx, cm_side *s)
{
    cm_mapping m;
    cm_npz *z;
    CM_TRY(cm_file_map(cx, s->path, &m)); /* stays mapped: tensors may point into it */
    cm_status st = cm_npz_open(cx, &s->arena, m.data, m.n, &z);
    if (st != CM_OK)
        return cm_while(cx, st, "%s", s->path);
    s->saved = true;
    s->n_outputs = cm_npz_count(z);
    CM_NEW_N(cx, &s->arena, s->output_names, s->n_outputs, const char *);
    CM_NEW_N(cx, &s->arena, s->outputs, s->n_outputs, cm_datum);
    for (int i = 0; i < s->n_outputs; i++) {
        s->output_names[i] = cm_npz_name(z, i);
        s->outputs[i].kind = CM_TENSOR;
        st = cm_npz_read(cx, &s->arena, z, i, &s->outputs[i].tensor);
        if (st != CM_OK)
            return cm_while(cx, st, "%s: '%s'", s->path, cm_npz_name(z, i));
    }
    return CM_OK;
}

cm_status cm_side_open(cm_ctx *cx, const char *path, const char *target, cm_side *s)
{
    s->path = path;
    cm_arena_init(&s->arena, cx->allocator);
    if (is_npz(path))
        return open_saved(cx, s);
    if (target)
        s->model.target = target;
    CM_TRY(cm_model_context_options(cx, &s->model, &s->target, &s->how));
    CM_TRY(cm_model_open(cx, path, &s->model, &s->opened));
    cm_onnx_source_recall(s->opened.source); /* layers are run again on their references */
    s->engine = s->opened.engine;
    return CM_OK;
}

void cm_side_close(cm_side *s)
{
    cm_context_destroy(s->context);
    cm_model_close(&s->opened);
    cm_arena_deinit(&s->arena);
}

/* ---- Tensors ------------------------------------------------------------------------------------ */

static cm_status new_data(cm_ctx *cx, cm_arena *arena, cm_tensor *t)
{
    size_t bytes;
    if (!cm_mul((size_t)cm_tensor_elems(t), cm_dtype_size(t->dtype), &bytes))
        return cm_fail_memory(cx);
    t->data = cm_arena_alloc_n(arena, bytes ? bytes : 1, 1, 64, 0);
    t->capacity_bytes = bytes;
    return t->data ? CM_OK : cm_fail_memory(cx);
}

cm_status cm_tensor_cast(cm_ctx *cx, cm_arena *arena, const cm_tensor *t, cm_dtype to,
                         cm_tensor *out)
{
    if (!cm_tensor_shape(out, to, t->rank, t->dims))
        return cm_fail_memory(cx);
    out->packed = false;
    CM_TRY(new_data(cx, arena, out));
    for (int64_t i = 0, n = cm_tensor_elems(t); i < n; i++)
        cm_set_f64(to, out->data, i, cm_get_f64(t->dtype, t->data, i));
    return CM_OK;
}

/* Sub-byte elements into a byte each. */
static cm_status unpack(cm_ctx *cx, cm_arena *arena, cm_tensor *t)
{
    cm_tensor packed = *t;
    if (!t->packed)
        return CM_OK;
    t->packed = false;
    CM_TRY(new_data(cx, arena, t));
    cm_unpack_sub_byte(t->dtype, packed.data, cm_tensor_elems(t), t->data);
    return CM_OK;
}

static cm_status copy_plain(cm_ctx *cx, cm_arena *arena, const cm_tensor *t, cm_tensor *out)
{
    size_t bytes;
    if (!cm_tensor_shape(out, t->dtype, t->rank, t->dims) || !cm_tensor_bytes(t, &bytes))
        return cm_fail_memory(cx);
    out->packed = t->packed;
    out->data = cm_arena_memdup(arena, t->data, bytes ? bytes : 1);
    return out->data ? unpack(cx, arena, out) : cm_fail_memory(cx);
}

/* ---- Running ------------------------------------------------------------------------------------ */

/* The engine's input i among those that were made for `from`. */
static cm_status find_input(cm_ctx *cx, const cm_side *s, int i, const cm_side *from, int *out)
{
    const char *name = cm_engine_input_name(s->engine, i);
    *out = cm_engine_find_input(from->engine, name);
    if (*out >= 0)
        return CM_OK;
    *out = i;
    return cm_engine_n_inputs(from->engine) == cm_engine_n_inputs(s->engine)
               ? CM_OK
               : cm_fail(cx, CM_ERR_ARGUMENT, "%s has an input '%s', %s has none", s->path, name,
                         from->path);
}

static cm_status give_inputs(cm_ctx *cx, cm_side *s, const cm_side *from, const cm_inputs *in)
{
    for (int i = 0; i < cm_engine_n_inputs(s->engine); i++) {
        int k;
        CM_TRY(find_input(cx, s, i, from, &k));
        cm_datum d = in->datum[k];
        const cm_type *want = cm_engine_input_type(s->engine, i);
        bool floats = d.kind == CM_TENSOR && want->kind == CM_TENSOR &&
                      cm_dtype_get(d.tensor.dtype)->kind == CM_KIND_FLOAT &&
                      cm_dtype_get(want->dtype)->kind == CM_KIND_FLOAT;
        if (floats && d.tensor.dtype != want->dtype)
            CM_TRY(cm_tensor_cast(cx, &s->arena, &in->datum[k].tensor, want->dtype, &d.tensor));
        CM_TRY(cm_context_set_input(cx, s->context, i, &d));
    }
    return CM_OK;
}

/* Keep what a step just made, where it is wanted. */
static void on_step(void *user, int step, uint64_t start_ns, uint64_t end_ns)
{
    cm_side *s = user;
    const cm_plan_step *p = cm_engine_step(s->engine, step);
    cm_ctx cx = {0};
    (void)start_ns, (void)end_ns;
    for (int o = 0; o < p->n_out && s->wanted; o++) {
        int v = p->out[o].value;
        const cm_datum *d = v >= 0 && s->wanted[v] ? cm_context_value(s->context, v) : NULL;
        if (!d || d->kind != CM_TENSOR || d->tensor.dtype == CM_STR)
            continue;
        cm_status st = cm_context_copy_value(&cx, s->context, v, &s->arena, &s->kept[v]);
        if (st == CM_OK)
            st = unpack(&cx, &s->arena, &s->kept[v]);
        if (st != CM_OK) {
            s->kept[v].rank = -1;
            s->kept_status = st;
        }
    }
}

static cm_status take_outputs(cm_ctx *cx, cm_side *s)
{
    s->n_outputs = cm_engine_n_outputs(s->engine);
    CM_NEW_N(cx, &s->arena, s->output_names, s->n_outputs, const char *);
    CM_NEW_N(cx, &s->arena, s->outputs, s->n_outputs, cm_datum);
    for (int i = 0; i < s->n_outputs; i++) {
        const cm_datum *d = cm_context_output(s->context, i);
        s->output_names[i] = cm_engine_output_name(s->engine, i);
        s->outputs[i] = *d; /* lives in the context, which stays */
        if (d->kind == CM_TENSOR && d->tensor.dtype != CM_STR)
            CM_TRY(copy_plain(cx, &s->arena, &d->tensor, &s->outputs[i].tensor));
    }
    return CM_OK;
}

static cm_status run(cm_ctx *cx, cm_side *s, const cm_side *from, const cm_inputs *in)
{
    int n = cm_engine_plan(s->engine)->n_values;
    CM_NEW_N(cx, &s->arena, s->kept, n, cm_tensor);
    for (int v = 0; v < n; v++)
        s->kept[v].rank = -1;
    s->how.profile = on_step;
    s->how.profile_user = s;
    CM_TRY(cm_context_create(cx, s->engine, &s->how, &s->context));
    CM_TRY(give_inputs(cx, s, from, in));
    CM_TRY(cm_context_run(cx, s->context));
    if (s->kept_status != CM_OK)
        return cm_fail(cx, s->kept_status, "a layer's result could not be kept");
    return take_outputs(cx, s);
}

cm_status cm_side_run(cm_ctx *cx, cm_side *s, const cm_side *from, const cm_inputs *in)
{
    if (s->saved)
        return CM_OK;
    cm_status st = run(cx, s, from, in);
    return st == CM_OK ? st : cm_while(cx, st, "%s (%c)", s->path, s->label);
}
