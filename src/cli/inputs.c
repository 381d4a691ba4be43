/* inputs.c -- data for a context's inputs: from files, or drawn from a seed.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "cli/model.h"
#include "io/io.h"

cm_status cm_inputs_create(cm_ctx *cx, const cm_engine *e, cm_inputs *in)
{
    in->n = cm_engine_n_inputs(e);
    CM_NEW_N(cx, cx->arena, in->datum, in->n, cm_datum);
    return CM_OK;
}

static bool ends_with(const char *path, const char *suffix)
{
    size_t n = strlen(path), k = strlen(suffix);
    return n >= k && !strcmp(path + n - k, suffix);
}

/* Element types that numpy cannot name come as codes of the same width. */
static cm_status give(cm_ctx *cx, const cm_engine *e, cm_inputs *in, int i, const cm_tensor *t)
{
    const cm_type *want = cm_engine_input_type(e, i);
    cm_datum *d = &in->datum[i];
    d->kind = CM_TENSOR;
    d->tensor = *t;
    if (want->kind == CM_TENSOR)
        cm_npy_view(&d->tensor, want->dtype);
    if (!cm_dtype_is_sub_byte(d->tensor.dtype) || d->tensor.packed)
        return CM_OK;
    int64_t n = cm_tensor_elems(&d->tensor);
    d->tensor.packed = true;
    size_t bytes;
    if (!cm_tensor_bytes(&d->tensor, &bytes))
        return cm_fail_memory(cx);
    void *packed = cm_arena_alloc_n(cx->arena, bytes, 1, 64, 1);
    if (!packed)
        return cm_fail_memory(cx);
    cm_pack_sub_byte(d->tensor.dtype, t->data, n, packed);
    d->tensor.data = packed;
    return CM_OK;
}

static cm_status add_npz(cm_ctx *cx, const cm_engine *e, cm_inputs *in, const cm_mapping *m)
{
    cm_npz *z;
    CM_TRY(cm_npz_open(cx, cx->arena, m->data, m->n, &z));
    for (int k = 0; k < cm_npz_count(z); k++) {
        int i = cm_engine_find_input(e, cm_npz_name(z, k));
        cm_tensor t;
        if (i < 0)
            return cm_fail(cx, CM_ERR_ARGUMENT, "'%s' is not an input of the model",
                           cm_npz_name(z, k));
        CM_TRY(cm_npz_read(cx, cx->arena, z, k, &t));
        CM_TRY(give(cx, e, in, i, &t));
    }
    return CM_OK;
}

/* The input that `name` names, or the first that was not given. */
static cm_status pick(cm_ctx *cx, const cm_engine *e, const cm_inputs *in, const char *name,
                      int *out)
{
    if (name) {
        *out = cm_engine_find_input(e, name);
        return *out >= 0
                   ? CM_OK
                   : cm_fail(cx, CM_ERR_ARGUMENT, "the model has no input '%s'; its first is '%s'",
                             name, cm_engine_n_inputs(e) ? cm_engine_input_name(e, 0) : "");
    }
    for (int i = 0; i < in->n; i++) {
        if (in->datum[i].kind == CM_NOTHING) {
            *out = i;
            return CM_OK;
        }
    }
    return cm_fail(cx, CM_ERR_ARGUMENT, "more data than the model's %d inputs", in->n);
}

cm_status cm_inputs_add_file(cm_ctx *cx, const cm_engine *e, cm_inputs *in, const char *name,
                             const char *path)
{
    cm_mapping m;
    int i = 0;
    CM_TRY(cm_file_map(cx, path, &m)); /* stays mapped: tensors may point into it */
    if (ends_with(path, ".npz")) {
        cm_status st = add_npz(cx, e, in, &m);
        return st == CM_OK ? st : cm_while(cx, st, "%s", path);
    }
    CM_TRY(pick(cx, e, in, name, &i));
    cm_status st;
    if (ends_with(path, ".npy")) {
        cm_tensor t;
        st = cm_npy_read(cx, cx->arena, m.data, m.n, &t);
        if (st == CM_OK)
            st = give(cx, e, in, i, &t);
    } else if (ends_with(path, ".pb")) {
        st = cm_onnx_read_datum(cx, cx->arena, m.data, m.n, cm_engine_input_type(e, i),
                                &in->datum[i]);
    } else {
        st = cm_fail(cx, CM_ERR_ARGUMENT, "wanted a .npy, .npz or .pb file");
    }
    return st == CM_OK ? st : cm_while(cx, st, "%s", path);
}

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Floats in [0, 1), integers 0 or 1 (valid as indices almost everywhere), letters for strings. */
static cm_status fill(cm_ctx *cx, cm_tensor *t, uint64_t *state)
{
    int64_t n = cm_tensor_elems(t);
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = next(state);
        cm_dtype_kind kind = cm_dtype_get(t->dtype)->kind;
        if (kind == CM_KIND_STRING) {
            char *s = cm_arena_alloc(cx->arena, 2);
            if (!s)
                return cm_fail_memory(cx);
            s[0] = (char)('a' + r % 26);
            ((cm_str *)t->data)[i] = (cm_str){s, 1};
        } else if (kind == CM_KIND_COMPLEX) {
            cm_dtype part = t->dtype == CM_C64 ? CM_F32 : CM_F64;
            cm_set_f64(part, t->data, 2 * i, (double)(r >> 40) / (1 << 24));
            cm_set_f64(part, t->data, 2 * i + 1, (double)(next(state) >> 40) / (1 << 24));
        } else if (kind == CM_KIND_FLOAT) {
            cm_set_f64(t->dtype, t->data, i, (double)(r >> 40) / (1 << 24));
        } else {
            cm_set_i64(t->dtype, t->data, i, (int64_t)(r >> 63));
        }
    }
    return CM_OK;
}

static cm_status random_tensor(cm_ctx *cx, cm_dtype dtype, int rank, const int64_t *dims,
                               uint64_t *state, cm_tensor *t)
{
    size_t bytes;
    *t = (cm_tensor){0};
    if (!cm_tensor_shape(t, dtype, rank, dims) ||
        !cm_mul((size_t)cm_tensor_elems(t), cm_dtype_size(dtype), &bytes))
        return cm_fail(cx, CM_ERR_ARGUMENT, "an input is too large");
    t->data = cm_arena_alloc_n(cx->arena, bytes, 1, 64, 1);
    if (!t->data)
        return cm_fail_memory(cx);
    t->capacity_bytes = bytes;
    return fill(cx, t, state);
}

enum { NOT_GIVEN = -1 }; /* as the value of a symbol */

/* The number that --dim gives a symbol. */
static int64_t symbol_value(const cm_model_options *o, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < o->dims.n; i++)
        if (!strncmp(o->dims.v[i], name, n) && o->dims.v[i][n] == '=')
            return strtoll(o->dims.v[i] + n + 1, NULL, 10);
    return NOT_GIVEN;
}

static const char *shape_option(const cm_model_options *o, const char *input)
{
    size_t n = strlen(input);
    for (int i = 0; i < o->shapes.n; i++)
        if (!strncmp(o->shapes.v[i], input, n) && o->shapes.v[i][n] == '=')
            return o->shapes.v[i] + n + 1;
    return NULL;
}

static cm_status choose_shape(cm_ctx *cx, const cm_engine *e, const cm_model_options *o, int i,
                              const int64_t *symbols, int *rank, int64_t *dims)
{
    const cm_type *t = cm_engine_input_type(e, i);
    const char *given = shape_option(o, cm_engine_input_name(e, i));
    *rank = 0;
    if (given) {
        for (char *end; *given && *rank < CM_MAX_RANK; given = *end ? end + 1 : end)
            dims[(*rank)++] = strtoll(given, &end, 10);
        return CM_OK;
    }
    for (; *rank < t->rank; ++*rank)
        if (!cm_dim_eval(cm_engine_plan(e)->dims, t->dims[*rank], symbols, &dims[*rank]))
            return cm_fail(cx, CM_ERR_ARGUMENT, "input '%s': give its shape with --shape",
                           cm_engine_input_name(e, i));
    return CM_OK;
}

/* Symbols from what was given already, then --dim. */
static cm_status choose_symbols(cm_ctx *cx, const cm_engine *e, const cm_model_options *o,
                                const cm_inputs *in, int64_t **out)
{
    const cm_dim_table *table = cm_engine_plan(e)->dims;
    int n = cm_dim_symbol_count(table);
    CM_NEW_N(cx, cx->arena, *out, n, int64_t);
    for (int s = 0; s < n; s++)
        (*out)[s] = symbol_value(o, cm_dim_symbol_name(table, s));
    for (int i = 0; i < in->n; i++) {
        const cm_type *t = cm_engine_input_type(e, i);
        const cm_datum *d = &in->datum[i];
        for (int a = 0; d->kind == CM_TENSOR && a < t->rank && a < d->tensor.rank; a++) {
            int s = cm_dim_symbol_index(table, t->dims[a]);
            if (s >= 0)
                (*out)[s] = d->tensor.dims[a];
        }
    }
    return CM_OK;
}

/* Symbols that nobody gave are 1. That is as expected of a batch; where it may be of an image or a sentence, which takes another
 * time then and other ways through the model, or none, it is told, once. */
static cm_status assume_symbols(cm_ctx *cx, const cm_engine *e, const cm_model_options *o,
                                const cm_inputs *in, int64_t *symbols)
{
    static bool told;
    const cm_dim_table *table = cm_engine_plan(e)->dims;
    cm_buf names;
    cm_buf_init(&names, cx->allocator);
    for (int i = 0; i < in->n; i++) {
        const cm_type *t = cm_engine_input_type(e, i);
        bool open = t->kind == CM_TENSOR && in->datum[i].kind == CM_NOTHING &&
                    !shape_option(o, cm_engine_input_name(e, i));
        for (int a = 1; open && a < t->rank; a++) {
            int s = cm_dim_symbol_index(table, t->dims[a]);
            if (s < 0 || symbols[s] != NOT_GIVEN)
                continue;
            symbols[s] = 1;
            cm_buf_printf(&names, "%s%s", names.n ? ", " : "", cm_dim_symbol_name(table, s));
        }
    }
    for (int s = 0; s < cm_dim_symbol_count(table); s++)
        if (symbols[s] == NOT_GIVEN)
            symbols[s] = 1;
    bool failed = names.failed;
    if (names.n && !failed && !told)
        cm_log(cx, CM_LOG_WARNING,
               "sizes that the model leaves open are taken as 1: %s; --dim or --shape gives others",
               cm_buf_text(&names));
    told = told || names.n;
    cm_buf_deinit(&names);
    return failed ? cm_fail_memory(cx) : CM_OK;
}

static cm_status random_datum(cm_ctx *cx, const cm_type *t, int rank, const int64_t *dims,
                              uint64_t *state, cm_datum *d)
{
    d->kind = t->kind;
    d->elem = t->elem;
    switch (t->kind) {
    case CM_TENSOR: {
        cm_tensor u;
        CM_TRY(random_tensor(cx, t->dtype, rank, dims, state, &u));
        d->tensor = u;
        if (cm_dtype_is_sub_byte(t->dtype)) {
            size_t bytes;
            d->tensor.packed = true;
            if (!cm_tensor_bytes(&d->tensor, &bytes))
                return cm_fail_memory(cx);
            d->tensor.data = cm_arena_alloc_n(cx->arena, bytes, 1, 64, 1);
            if (!d->tensor.data)
                return cm_fail_memory(cx);
            cm_pack_sub_byte(t->dtype, u.data, cm_tensor_elems(&u), d->tensor.data);
        }
        return CM_OK;
    }
    case CM_SEQUENCE:
    case CM_OPTIONAL:
        d->n = 0; /* empty: nothing is known about what to put in */
        return CM_OK;
    default:
        return cm_fail(cx, CM_ERR_ARGUMENT,
                       "random data cannot be made for this input: give a file");
    }
}

cm_status cm_inputs_random(cm_ctx *cx, const cm_engine *e, const cm_model_options *o, uint64_t seed,
                           cm_inputs *in)
{
    int64_t *symbols;
    CM_TRY(choose_symbols(cx, e, o, in, &symbols));
    CM_TRY(assume_symbols(cx, e, o, in, symbols));
    uint64_t state = seed;
    for (int i = 0; i < in->n; i++) {
        int rank;
        int64_t dims[CM_MAX_RANK];
        if (in->datum[i].kind != CM_NOTHING)
            continue;
        CM_TRY(choose_shape(cx, e, o, i, symbols, &rank, dims));
        CM_TRY(random_datum(cx, cm_engine_input_type(e, i), rank, dims, &state, &in->datum[i]));
    }
    return CM_OK;
}

cm_status cm_inputs_of_network(cm_ctx *cx, cm_network *g, const cm_model_options *o,
                               const char *file, uint64_t seed, cm_inputs *in)
{
    static const cm_compile_options as_it_is = {.no_optimise = true};
    cm_buf plan;
    cm_engine *e = NULL;
    cm_buf_init(&plan, cx->allocator);
    cm_status st = cm_compile_memory(cx, g, &as_it_is, &plan);
    if (st == CM_OK)
        st = cm_engine_open_memory(cx, plan.data, plan.n, false, NULL, &e);
    if (st == CM_OK)
        st = cm_inputs_create(cx, e, in);
    if (st == CM_OK && file)
        st = cm_inputs_add_file(cx, e, in, NULL, file);
    if (st == CM_OK)
        st = cm_inputs_random(cx, e, o, seed, in);
    cm_engine_release(e);
    cm_buf_deinit(&plan);
    return st;
}

cm_status cm_inputs_set(cm_ctx *cx, cm_context *c, const cm_inputs *in)
{
    for (int i = 0; i < in->n; i++) {
        if (in->datum[i].kind == CM_NOTHING)
            return cm_fail(cx, CM_ERR_ARGUMENT,
                           "no data for input '%s': give a file, or --random SEED",
                           cm_engine_input_name(cm_context_engine(c), i));
        CM_TRY(cm_context_set_input(cx, c, i, &in->datum[i]));
    }
    return CM_OK;
}
