/* write.c -- a plan to bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every section but the weights is built in a buffer; then offsets and checksums are known, and
 * header, section table, sections and weights go out in order, the weights straight from where the
 * constants lie. Constants with the same bytes are stored once. The bytes depend on the plan alone. */
#include "plan/format.h"
#include "plan/plan.h"

#include <string.h>

#include "base/map.h"
#include "base/size.h"
#include "plan/packed.h"
#include "plan/write_weights.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "plan files are little-endian and are mapped: this needs a little-endian machine"
#endif

typedef struct {
    uint32_t kind, flags;
    cm_buf body; /* empty for the weights */
    uint64_t offset, size, checksum;
} section;

typedef struct {
    cm_ctx *cx;
    const cm_plan *plan;
    const cm_tensor *const *constants;
    int n_constants;
    cm_weight_place *places;
    cm_arena arena; /* tables needed while writing */
    cm_map strings; /* text -> index + 1 */
    section *sections;
    int n_sections, max_sections;
    uint64_t weights_bytes, weights_sum;
    uint64_t total; /* bytes of the file */
} writer;

/* Where the bytes go. */
typedef struct {
    cm_buf *buf;
    cm_file_writer *file;
    uint64_t at;
} sink;

static cm_status put(cm_ctx *cx, sink *s, const void *p, size_t n)
{
    s->at += n;
    if (s->file)
        return cm_file_writer_bytes(cx, s->file, p, n);
    cm_buf_bytes(s->buf, p, n);
    return s->buf->failed ? cm_fail_memory(cx) : CM_OK;
}

static cm_status pad_to(cm_ctx *cx, sink *s, uint64_t offset)
{
    static const unsigned char zeros[CM_PLAN_PAGE];
    while (s->at < offset) {
        uint64_t n = offset - s->at;
        CM_TRY(put(cx, s, zeros, n < sizeof zeros ? (size_t)n : sizeof zeros));
    }
    return CM_OK;
}

static void i32(cm_buf *b, int32_t v)
{
    cm_buf_u32(b, (uint32_t)v);
}

static void put_dim(cm_buf *b, cm_dim d)
{
    cm_buf_u64(b, (uint64_t)d);
}

/* The index of a string in the table; NULL is "". */
static cm_status put_string(writer *w, cm_buf *b, const char *s)
{
    if (!s)
        s = "";
    uintptr_t index = (uintptr_t)cm_map_get(&w->strings, s);
    if (!index) {
        index = w->strings.n + 1;
        if (!cm_map_put(&w->strings, s, (void *)index))
            return cm_fail_memory(w->cx);
    }
    cm_buf_u32(b, (uint32_t)(index - 1));
    return CM_OK;
}

static section *add_section(writer *w, uint32_t kind, uint32_t flags)
{
    section *s = &w->sections[w->n_sections++];
    s->kind = kind;
    s->flags = flags;
    cm_buf_init(&s->body, w->cx->allocator);
    return s;
}

static void write_type(cm_buf *b, const cm_type *t)
{
    cm_buf_u8(b, (uint8_t)t->kind);
    cm_buf_u8(b, (uint8_t)t->dtype);
    cm_buf_u8(b, (uint8_t)t->key);
    int rank = t->kind == CM_TENSOR ? t->rank : t->elem ? 1 : 0;
    cm_buf_u8(b, (uint8_t)(int8_t)rank);
    if (t->kind == CM_TENSOR)
        for (int i = 0; i < t->rank; i++)
            put_dim(b, t->dims[i]);
    else if (t->elem)
        write_type(b, t->elem);
}

static cm_status write_values(writer *w, cm_buf *b)
{
    const cm_plan *p = w->plan;
    cm_buf_u32(b, (uint32_t)p->n_values);
    for (int i = 0, c = 0; i < p->n_values; i++) {
        const cm_plan_value *v = &p->values[i];
        CM_TRY(put_string(w, b, v->name));
        cm_buf_u32(b, (uint32_t)v->storage);
        write_type(b, &v->type);
        if (v->storage == CM_STORE_CONSTANT) {
            cm_buf_u64(b, w->places[c].offset);
            cm_buf_u64(b, w->places[c].bytes);
            i32(b, v->weight);
            c++;
        }
        i32(b, v->elems ? v->n_elems : -1);
        for (int j = 0; v->elems && j < v->n_elems; j++)
            put_dim(b, v->elems[j]);
    }
    return CM_OK;
}

static void write_operand(cm_buf *b, const cm_operand *o)
{
    bool layout = o->layout.kind != CM_LAYOUT_ROW_MAJOR;
    bool quant = o->quant.scale >= 0;
    i32(b, o->value);
    cm_buf_u32(b, (layout ? CM_OPERAND_LAYOUT : 0) | (quant ? CM_OPERAND_QUANT : 0));
    if (layout) {
        i32(b, (int32_t)o->layout.kind);
        i32(b, o->layout.axis);
        i32(b, o->layout.block);
    }
    if (quant) {
        i32(b, o->quant.scale);
        i32(b, o->quant.zero_point);
        i32(b, o->quant.axis);
        cm_buf_u64(b, (uint64_t)o->quant.block);
    }
}

static cm_status write_step(writer *w, cm_buf *b, const cm_plan_step *s)
{
    cm_buf_u32(b, (uint32_t)s->kind);
    cm_buf_u32(b, (uint32_t)s->problem);
    CM_TRY(put_string(w, b, s->op));
    CM_TRY(put_string(w, b, s->name));
    cm_buf_u32(b, (uint32_t)s->n_from);
    for (int i = 0; i < s->n_from; i++)
        CM_TRY(put_string(w, b, s->from[i]));
    cm_buf_u32(b, (uint32_t)s->n_in);
    for (int i = 0; i < s->n_in; i++)
        write_operand(b, &s->in[i]);
    cm_buf_u32(b, (uint32_t)s->n_out);
    for (int i = 0; i < s->n_out; i++)
        write_operand(b, &s->out[i]);
    cm_buf_u32(b, (uint32_t)s->n_lists);
    for (int i = 0; i < s->n_lists; i++)
        i32(b, s->lists[i]);
    cm_buf_u64(b, s->attr_n);
    cm_buf_bytes(b, s->attr_bytes, s->attr_n);
    CM_TRY(put_string(w, b, s->epilogue.program ? s->epilogue.program : ""));
    cm_buf_u32(b, (uint32_t)s->epilogue.n_operands);
    cm_buf_u32(b, (uint32_t)s->epilogue.to);
    return CM_OK;
}

static void write_indices(cm_buf *b, const int32_t *v, int n)
{
    cm_buf_u32(b, (uint32_t)n);
    for (int i = 0; i < n; i++)
        i32(b, v[i]);
}

static cm_status write_variant(writer *w, cm_buf *b, const cm_plan_variant *v)
{
    CM_TRY(put_string(w, b, v->name));
    cm_buf_u32(b, (uint32_t)v->n_lists);
    for (int l = 0; l < v->n_lists; l++) {
        const cm_plan_list *list = &v->lists[l];
        write_indices(b, list->inputs, list->n_inputs);
        write_indices(b, list->outputs, list->n_outputs);
        cm_buf_u32(b, list->output_names ? 1 : 0);
        for (int i = 0; list->output_names && i < list->n_outputs; i++)
            CM_TRY(put_string(w, b, list->output_names[i]));
        write_indices(b, list->captures, list->n_captures);
        cm_buf_u32(b, (uint32_t)list->n_steps);
        for (int i = 0; i < list->n_steps; i++)
            CM_TRY(write_step(w, b, &list->steps[i]));
    }
    return CM_OK;
}

static void write_strings(writer *w, cm_buf *b)
{
    cm_buf_u32(b, (uint32_t)w->strings.n);
    uint32_t end = 0;
    for (size_t i = 0; i < w->strings.n; i++) {
        end += (uint32_t)strlen(w->strings.entries[i].key) + 1;
        cm_buf_u32(b, end);
    }
    for (size_t i = 0; i < w->strings.n; i++)
        cm_buf_bytes(b, w->strings.entries[i].key, strlen(w->strings.entries[i].key) + 1);
}

static cm_status add_to_sum(cm_ctx *cx, void *arg, const void *p, size_t n)
{
    (void)cx;
    cm_checksum_add(arg, p, n);
    return CM_OK;
}

static cm_status add_to_sink(cm_ctx *cx, void *arg, const void *p, size_t n)
{
    return put(cx, arg, p, n);
}

static cm_status write_build(writer *w)
{
    const cm_plan_build *build = w->plan->build;
    if (!build)
        return CM_OK;
    uint32_t flags = w->plan->stripped ? 0 : CM_SECTION_OPTIONAL;
    cm_buf *b = &add_section(w, CM_SECTION_BUILD, flags)->body;
    cm_buf_u32(b, w->plan->stripped ? CM_BUILD_STRIPPED : 0);
    cm_buf_u64(b, w->weights_bytes);
    cm_buf_u64(b, w->weights_sum);
    cm_buf_u32(b, (uint32_t)build->n_options);
    for (int i = 0; i < build->n_options; i++) {
        CM_TRY(put_string(w, b, build->options[i].name));
        CM_TRY(put_string(w, b, build->options[i].value));
    }
    return CM_OK;
}

static cm_status write_packed(writer *w, cm_buf *b)
{
    uint32_t *names;
    cm_buf indices;
    CM_NEW_N(w->cx, &w->arena, names, w->plan->n_packed, uint32_t);
    cm_buf_init(&indices, w->cx->allocator);
    cm_status st = CM_OK;
    for (int i = 0; st == CM_OK && i < w->plan->n_packed; i++)
        st = put_string(w, &indices, w->plan->packed[i].tactic);
    if (st == CM_OK && indices.failed)
        st = cm_fail_memory(w->cx);
    if (st == CM_OK)
        memcpy(names, indices.data, indices.n);
    cm_buf_deinit(&indices);
    CM_TRY(st);
    return cm_packed_write(w->cx, &w->arena, w->plan, names, b);
}

static cm_status write_plugins(writer *w)
{
    const cm_plan *p = w->plan;
    if (!p->n_plugins)
        return CM_OK;
    cm_buf *b = &add_section(w, CM_SECTION_PLUGINS, CM_SECTION_OPTIONAL)->body;
    cm_buf_u32(b, (uint32_t)p->n_plugins);
    for (int i = 0; i < p->n_plugins; i++) {
        CM_TRY(put_string(w, b, p->plugins[i].op));
        CM_TRY(put_string(w, b, p->plugins[i].plugin));
    }
    return CM_OK;
}

static cm_status build_sections(writer *w)
{
    const cm_plan *p = w->plan;
    w->max_sections = 10 + p->n_variants + p->n_targets;
    if (w->max_sections > CM_PLAN_MAX_SECTIONS)
        return cm_fail(w->cx, CM_ERR_ARGUMENT, "%d sections in a plan, at most %d are possible",
                       w->max_sections, CM_PLAN_MAX_SECTIONS);
    CM_NEW_N(w->cx, &w->arena, w->sections, w->max_sections, section);

    section *strings = add_section(w, CM_SECTION_STRINGS, 0); /* filled last */
    cm_dim_table_write(p->dims, &add_section(w, CM_SECTION_DIMS, 0)->body);
    cm_buf *b = &add_section(w, CM_SECTION_META, 0)->body;
    CM_TRY(put_string(w, b, p->producer));
    CM_TRY(put_string(w, b, p->model_name));
    CM_TRY(write_values(w, &add_section(w, CM_SECTION_VALUES, 0)->body));
    b = &add_section(w, CM_SECTION_RECIPES, 0)->body;
    cm_buf_u32(b, (uint32_t)p->n_weights);
    for (int i = 0; i < p->n_weights; i++)
        CM_TRY(put_string(w, b, p->weights[i].name));
    for (int i = 0; i < p->n_variants; i++)
        CM_TRY(write_variant(w, &add_section(w, CM_SECTION_VARIANT, 0)->body, &p->variants[i]));
    for (int i = 0; i < p->n_targets; i++) {
        b = &add_section(w, CM_SECTION_TARGET, CM_SECTION_OPTIONAL)->body;
        i32(b, (int32_t)p->targets[i].target.kind);
        i32(b, p->targets[i].target.level);
        i32(b, p->targets[i].variant);
        cm_buf_u32(b, 0);
        cm_buf_bytes(b, p->targets[i].bytes, p->targets[i].n);
    }
    b = &add_section(w, CM_SECTION_ALIASES, 0)->body;
    cm_buf_u32(b, (uint32_t)p->n_aliases);
    for (int i = 0; i < p->n_aliases; i++) {
        i32(b, p->aliases[i].input);
        i32(b, p->aliases[i].output);
    }
    CM_TRY(write_plugins(w));
    CM_TRY(write_build(w));
    if (p->n_packed)
        CM_TRY(write_packed(w, &add_section(w, CM_SECTION_PACKED, 0)->body));
    write_strings(w, &strings->body);
    return CM_OK;
}

/* Offsets, sizes and checksums of all sections, the weights last. */
static cm_status lay_out(writer *w)
{
    section *weights = add_section(w, CM_SECTION_WEIGHTS, 0);
    weights->size = w->plan->stripped ? 0 : w->weights_bytes;
    weights->checksum = w->plan->stripped ? cm_checksum(NULL, 0) : w->weights_sum;
    size_t at = CM_PLAN_HEADER_BYTES + (size_t)w->n_sections * CM_PLAN_ENTRY_BYTES;
    for (int i = 0; i < w->n_sections; i++) {
        section *s = &w->sections[i];
        if (s->body.failed)
            return cm_fail_memory(w->cx);
        if (s != weights) {
            s->size = s->body.n;
            s->checksum = cm_checksum(s->body.data, s->body.n);
        }
        if (!cm_align_up(at, CM_PLAN_PAGE, &at))
            return cm_fail(w->cx, CM_ERR_MODEL, "the plan's size in bytes overflows");
        s->offset = at;
        if (!cm_add(at, s->size, &at))
            return cm_fail(w->cx, CM_ERR_MODEL, "the plan's size in bytes overflows");
    }
    w->total = at;
    return CM_OK;
}

static cm_status sum_weights(writer *w)
{
    cm_checksum_state sum;
    cm_checksum_begin(&sum);
    CM_TRY(cm_weights_walk(w->cx, w->constants, w->n_constants, w->places, add_to_sum, &sum));
    w->weights_bytes = sum.n;
    w->weights_sum = cm_checksum_end(&sum);
    return CM_OK;
}

static cm_status write_head(writer *w, sink *out)
{
    cm_buf table;
    cm_buf_init(&table, w->cx->allocator);
    for (int i = 0; i < w->n_sections; i++) {
        const section *s = &w->sections[i];
        cm_buf_u32(&table, s->kind);
        cm_buf_u32(&table, s->flags);
        cm_buf_u64(&table, s->offset);
        cm_buf_u64(&table, s->size);
        cm_buf_u64(&table, s->checksum);
        cm_buf_u64(&table, 0);
    }
    uint64_t table_sum = cm_checksum(table.data, table.n);
    cm_buf head;
    cm_buf_init(&head, w->cx->allocator);
    cm_buf_bytes(&head, CM_PLAN_MAGIC, 8);
    cm_buf_u32(&head, CM_PLAN_VERSION);
    cm_buf_u32(&head, (uint32_t)w->n_sections);
    cm_buf_u64(&head, w->total);
    cm_buf_u64(&head, table_sum);
    cm_buf_zeros(&head, CM_PLAN_HEADER_BYTES - 32);
    cm_buf_bytes(&head, table.data, table.n);
    cm_status st =
        table.failed || head.failed ? cm_fail_memory(w->cx) : put(w->cx, out, head.data, head.n);
    cm_buf_deinit(&head);
    cm_buf_deinit(&table);
    return st;
}

static cm_status write_all(writer *w, sink *out)
{
    for (int i = 0; i < w->plan->n_values; i++)
        w->n_constants += w->plan->values[i].storage == CM_STORE_CONSTANT;
    CM_TRY(cm_weights_place(w->cx, &w->arena, w->constants, w->n_constants, &w->places));
    CM_TRY(sum_weights(w));
    CM_TRY(build_sections(w));
    CM_TRY(lay_out(w));
    CM_TRY(write_head(w, out));
    for (int i = 0; i < w->n_sections; i++) {
        const section *s = &w->sections[i];
        CM_TRY(pad_to(w->cx, out, s->offset));
        if (s->kind == CM_SECTION_WEIGHTS && s->size)
            CM_TRY(
                cm_weights_walk(w->cx, w->constants, w->n_constants, w->places, add_to_sink, out));
        else
            CM_TRY(put(w->cx, out, s->body.data, s->body.n));
    }
    return CM_OK;
}

static cm_status write_plan(cm_ctx *cx, const cm_plan *p, const cm_tensor *const *constants,
                            sink *out)
{
    writer w = {.cx = cx, .plan = p, .constants = constants};
    cm_arena_init(&w.arena, cx->allocator);
    cm_map_init(&w.strings, &w.arena);
    cm_status st = write_all(&w, out);
    for (int i = 0; i < w.n_sections; i++)
        cm_buf_deinit(&w.sections[i].body);
    cm_arena_deinit(&w.arena);
    return st;
}

cm_status cm_plan_write_memory(cm_ctx *cx, const cm_plan *p, const cm_tensor *const *constants,
                               cm_buf *out)
{
    sink s = {.buf = out};
    return write_plan(cx, p, constants, &s);
}

cm_status cm_plan_write_file(cm_ctx *cx, const cm_plan *p, const cm_tensor *const *constants,
                             const char *path)
{
    sink s = {0};
    CM_TRY(cm_file_writer_open(cx, path, &s.file));
    cm_status st = write_plan(cx, p, constants, &s);
    if (st != CM_OK) {
        cm_file_writer_abandon(s.file);
        return st;
    }
    CM_TRY(cm_file_writer_commit(cx, s.file));
    /* Large ones go past the system's cache, and who builds a plan will open it. */
    cm_file_fetch(path);
    return CM_OK;
}
