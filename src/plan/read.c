/* read.c -- bytes to a plan, trusting none of them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sections are read through cursors (cursor.h). Weights are neither read nor touched. */
#include <string.h>

#include "base/size.h"
#include "plan/cursor.h"
#include "plan/format.h"
#include "plan/packed.h"

typedef struct {
    uint32_t kind, flags;
    uint64_t offset, size, checksum;
} entry;

static cm_status read_strings(cm_cursor *c)
{
    cm_plan_reader *r = c->r;
    int n;
    CM_TRY(cm_take_count(c, 5, "strings", &n));
    const unsigned char *ends = c->p;
    const unsigned char *text = ends + 4 * (size_t)n;
    size_t text_n = c->left - 4 * (size_t)n;
    CM_NEW_N(r->cx, r->arena, r->strings, n, const char *);
    uint32_t begin = 0;
    for (int i = 0; i < n; i++) {
        uint32_t end;
        memcpy(&end, ends + 4 * (size_t)i, 4);
        if (end <= begin || end > text_n || memchr(text + begin, 0, end - begin) != text + end - 1)
            return cm_plan_damaged(r, "a string has a wrong end");
        r->strings[i] = (const char *)text + begin;
        begin = end;
    }
    if (begin != text_n)
        return cm_plan_damaged(r, "bytes are left over after the strings");
    r->n_strings = (uint32_t)n;
    return CM_OK;
}

static cm_status read_dims(cm_cursor *c)
{
    return cm_dim_table_read(c->r->cx, c->r->arena, c->p, c->left, &c->r->plan->dims);
}

static cm_status read_meta(cm_cursor *c)
{
    CM_TRY(cm_take_string(c, &c->r->plan->producer));
    CM_TRY(cm_take_string(c, &c->r->plan->model_name));
    return cm_cursor_end(c);
}

static cm_status read_build(cm_cursor *c)
{
    cm_plan_reader *r = c->r;
    uint32_t flags;
    uint64_t bytes, checksum;
    int n;
    CM_TRY(cm_take_u32(c, &flags));
    CM_TRY(cm_take_u64(c, &bytes));
    CM_TRY(cm_take_u64(c, &checksum));
    if (flags & ~(uint32_t)CM_BUILD_STRIPPED)
        return cm_fail(r->cx, CM_ERR_PLAN, "the plan's build flags %u are not known", flags);
    r->plan->stripped = flags & CM_BUILD_STRIPPED;
    if (r->plan->weights_bytes != (r->plan->stripped ? 0 : bytes))
        return cm_plan_damaged(r, "its weights are not as long as its build section states");
    if (r->plan->stripped) {
        r->plan->weights_data = NULL;
        r->plan->weights_bytes = bytes;
    }
    CM_TRY(cm_take_count(c, 8, "options", &n));
    cm_plan_option *options;
    cm_plan_build *build;
    CM_NEW_N(r->cx, r->arena, options, n, cm_plan_option);
    CM_NEW(r->cx, r->arena, build, cm_plan_build);
    for (int i = 0; i < n; i++) {
        CM_TRY(cm_take_string(c, &options[i].name));
        CM_TRY(cm_take_string(c, &options[i].value));
    }
    *build = (cm_plan_build){n, options, checksum};
    r->plan->build = build;
    return cm_cursor_end(c);
}

/* Are its stored bytes those of the packing, and the packing of its type? */
static bool fits_packing(const cm_plan_value *v, const cm_packing *k, size_t plain_bytes)
{
    return v->type.dtype != CM_STR && !cm_dtype_is_sub_byte(v->type.dtype) &&
           cm_dtype_size(v->type.dtype) == k->elem_bytes &&
           plain_bytes / k->elem_bytes == (uint64_t)k->plain && v->bytes % k->elem_bytes == 0 &&
           v->bytes / k->elem_bytes == (uint64_t)k->packed;
}

/* Does a constant's place fit the weights section and its type? */
static cm_status check_constant(cm_plan_reader *r, const cm_plan_value *v,
                                const cm_plan_packed *packed)
{
    const cm_plan *p = r->plan;
    int64_t n = 1;
    bool ok = v->type.kind == CM_TENSOR && v->type.rank >= 0 && cm_dtype_valid(v->type.dtype);
    for (int i = 0; ok && i < v->type.rank; i++)
        ok = cm_dim_is_size(v->type.dims[i]) && cm_mul_i64(n, v->type.dims[i], &n);
    size_t want = 0;
    if (ok && v->type.dtype == CM_STR)
        ok = cm_mul((size_t)n, 8, &want) && want <= v->bytes;
    else if (ok)
        ok = cm_dtype_bytes(v->type.dtype, n, &want) &&
             (packed ? fits_packing(v, packed->packing, want) : want == v->bytes);
    if (!ok)
        return cm_fail(r->cx, CM_ERR_PLAN,
                       "the plan is damaged: constant '%s' does not fit its type", v->name);
    if (v->offset % CM_PLAN_CONSTANT_ALIGN || v->offset > p->weights_bytes ||
        v->bytes > p->weights_bytes - v->offset)
        return cm_fail(r->cx, CM_ERR_PLAN,
                       "the plan is damaged: constant '%s' lies at %llu, %llu bytes long, in %llu "
                       "bytes of weights",
                       v->name, (unsigned long long)v->offset, (unsigned long long)v->bytes,
                       (unsigned long long)p->weights_bytes);
    return CM_OK;
}

static cm_status read_value(cm_cursor *c, int32_t index, cm_plan_value *v)
{
    int storage;
    CM_TRY(cm_take_string(c, &v->name));
    CM_TRY(cm_take_enum(c, CM_STORE_INPUT + 1, "storage", &storage));
    v->storage = (cm_storage)storage;
    v->weight = -1;
    CM_TRY(cm_take_type(c, &v->type, 0));
    if (v->storage == CM_STORE_CONSTANT) {
        CM_TRY(cm_take_u64(c, &v->offset));
        CM_TRY(cm_take_u64(c, &v->bytes));
        CM_TRY(cm_take_i32(c, &v->weight));
        CM_TRY(check_constant(c->r, v, cm_plan_packed_of(c->r->plan, index)));
    }
    int32_t n;
    CM_TRY(cm_take_i32(c, &n));
    if (n < -1 || (n > 0 && (size_t)n > c->left / 8))
        return cm_plan_damaged(c->r, "a value's tracked elements have a wrong count");
    v->n_elems = n < 0 ? 0 : n;
    if (n >= 0) {
        cm_dim *elems;
        CM_NEW_N(c->r->cx, c->r->arena, elems, n, cm_dim);
        for (int i = 0; i < n; i++)
            CM_TRY(cm_take_dim(c, &elems[i]));
        v->elems = elems;
    }
    return CM_OK;
}

static cm_status read_values(cm_cursor *c)
{
    cm_plan *p = c->r->plan;
    CM_TRY(cm_take_count(c, 16, "values", &p->n_values));
    cm_plan_value *values;
    CM_NEW_N(c->r->cx, c->r->arena, values, p->n_values, cm_plan_value);
    for (int i = 0; i < p->n_values; i++)
        CM_TRY(read_value(c, i, &values[i]));
    p->values = values;
    return cm_cursor_end(c);
}

static cm_status read_recipes(cm_cursor *c)
{
    cm_plan *p = c->r->plan;
    CM_TRY(cm_take_count(c, 4, "weights", &p->n_weights));
    cm_plan_weight *weights;
    CM_NEW_N(c->r->cx, c->r->arena, weights, p->n_weights, cm_plan_weight);
    for (int i = 0; i < p->n_weights; i++)
        CM_TRY(cm_take_string(c, &weights[i].name));
    p->weights = weights;
    return cm_cursor_end(c);
}

static cm_status read_plugins(cm_cursor *c)
{
    cm_plan *p = c->r->plan;
    CM_TRY(cm_take_count(c, 8, "plugins", &p->n_plugins));
    cm_plan_plugin *plugins;
    CM_NEW_N(c->r->cx, c->r->arena, plugins, p->n_plugins, cm_plan_plugin);
    for (int i = 0; i < p->n_plugins; i++) {
        CM_TRY(cm_take_string(c, &plugins[i].op));
        CM_TRY(cm_take_string(c, &plugins[i].plugin));
    }
    p->plugins = plugins;
    return cm_cursor_end(c);
}

static cm_status read_target(cm_cursor *c, cm_plan_target *t)
{
    uint32_t kind, spare;
    CM_TRY(cm_take_u32(c, &kind));
    CM_TRY(cm_take(c, &t->target.level, 4));
    CM_TRY(cm_take_i32(c, &t->variant));
    CM_TRY(cm_take_u32(c, &spare));
    t->target.kind = (cm_device_kind)kind; /* one that is not known matches no machine */
    t->bytes = c->p;
    t->n = c->left;
    return CM_OK;
}

static cm_status read_aliases(cm_cursor *c)
{
    cm_plan *p = c->r->plan;
    CM_TRY(cm_take_count(c, 8, "aliases", &p->n_aliases));
    cm_plan_alias *aliases;
    CM_NEW_N(c->r->cx, c->r->arena, aliases, p->n_aliases, cm_plan_alias);
    for (int i = 0; i < p->n_aliases; i++) {
        CM_TRY(cm_take_i32(c, &aliases[i].input));
        CM_TRY(cm_take_i32(c, &aliases[i].output));
    }
    p->aliases = aliases;
    return cm_cursor_end(c);
}

static cm_status read_packed(cm_cursor *c)
{
    return cm_packed_read(c->r->cx, c->r->arena, c->p, c->left, c->r->strings, c->r->n_strings,
                          c->r->plan);
}

static cm_status check_head(cm_plan_reader *r, uint32_t *n_sections)
{
    if (r->n < CM_PLAN_HEADER_BYTES || memcmp(r->bytes, CM_PLAN_MAGIC, 8) != 0)
        return cm_fail(r->cx, CM_ERR_PLAN, "not a plan: wanted a file that begins with \"%s\"",
                       CM_PLAN_MAGIC);
    uint32_t version;
    uint64_t total, table_sum;
    memcpy(&version, r->bytes + 8, 4);
    memcpy(n_sections, r->bytes + 12, 4);
    memcpy(&total, r->bytes + 16, 8);
    memcpy(&table_sum, r->bytes + 24, 8);
    if (version < 1 || version > CM_PLAN_VERSION)
        return cm_fail(r->cx, CM_ERR_PLAN,
                       "the plan has format version %u, this library reads 1 to %d", version,
                       CM_PLAN_VERSION);
    if (total != r->n)
        return cm_fail(r->cx, CM_ERR_PLAN, "the plan is %s: found %zu bytes, wanted %llu",
                       r->n < total ? "cut short" : "damaged", r->n, (unsigned long long)total);
    if (*n_sections > CM_PLAN_MAX_SECTIONS ||
        *n_sections > (r->n - CM_PLAN_HEADER_BYTES) / CM_PLAN_ENTRY_BYTES)
        return cm_fail(r->cx, CM_ERR_PLAN, "the plan is damaged: it states %u sections",
                       *n_sections);
#ifndef CM_FUZZ_NO_CHECKSUM
    uint64_t sum =
        cm_checksum(r->bytes + CM_PLAN_HEADER_BYTES, (size_t)*n_sections * CM_PLAN_ENTRY_BYTES);
    if (sum != table_sum)
        return cm_fail(
            r->cx, CM_ERR_PLAN,
            "the plan is damaged: its section table has checksum %016llx, wanted %016llx",
            (unsigned long long)sum, (unsigned long long)table_sum);
#endif
    return CM_OK;
}

static const struct {
    uint32_t kind;
    const char *name;
    bool required, many;
} known[] = {
    {CM_SECTION_STRINGS, "strings", true, false},  {CM_SECTION_DIMS, "dims", true, false},
    {CM_SECTION_META, "meta", true, false},        {CM_SECTION_VALUES, "values", true, false},
    {CM_SECTION_RECIPES, "recipes", false, false}, {CM_SECTION_VARIANT, "variant", true, true},
    {CM_SECTION_TARGET, "target", false, true},    {CM_SECTION_ALIASES, "aliases", false, false},
    {CM_SECTION_WEIGHTS, "weights", true, false},  {CM_SECTION_BUILD, "build", false, false},
    {CM_SECTION_PACKED, "packed", false, false},   {CM_SECTION_PLUGINS, "plugins", false, false},
};

static const char *section_name(uint32_t kind)
{
    for (int i = 0; i < CM_COUNT(known); i++)
        if (known[i].kind == kind)
            return known[i].name;
    return NULL;
}

/* Bounds and checksums of all sections; unknown ones must be optional. */
static cm_status check_sections(cm_plan_reader *r, const entry *table, uint32_t n)
{
    uint64_t floor = CM_PLAN_HEADER_BYTES + (uint64_t)n * CM_PLAN_ENTRY_BYTES;
    for (uint32_t i = 0; i < n; i++) {
        const entry *e = &table[i];
        const char *name = section_name(e->kind);
        if (!name && !(e->flags & CM_SECTION_OPTIONAL))
            return cm_fail(r->cx, CM_ERR_PLAN,
                           "the plan needs a later version: its section kind %u is not known here",
                           e->kind);
        if (e->offset % CM_PLAN_PAGE || e->offset < floor || e->offset > r->n ||
            e->size > r->n - e->offset)
            return cm_fail(r->cx, CM_ERR_PLAN,
                           "the plan is damaged: section %s lies at %llu, %llu bytes long, in a "
                           "file of %zu",
                           name ? name : "?", (unsigned long long)e->offset,
                           (unsigned long long)e->size, r->n);
#ifndef CM_FUZZ_NO_CHECKSUM
        if (!name || e->kind == CM_SECTION_WEIGHTS)
            continue;
        uint64_t sum = cm_checksum(r->bytes + e->offset, (size_t)e->size);
        if (sum != e->checksum)
            return cm_fail(r->cx, CM_ERR_PLAN,
                           "the plan is damaged: section %s has checksum %016llx, wanted %016llx",
                           name, (unsigned long long)sum, (unsigned long long)e->checksum);
#endif
    }
    for (int k = 0; k < CM_COUNT(known); k++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < n; i++)
            count += table[i].kind == known[k].kind;
        if ((known[k].required && !count) || (count > 1 && !known[k].many))
            return cm_fail(r->cx, CM_ERR_PLAN, "the plan is damaged: it has %u sections %s", count,
                           known[k].name);
    }
    return CM_OK;
}

static cm_cursor section_at(cm_plan_reader *r, const entry *e)
{
    return (cm_cursor){r, section_name(e->kind), r->bytes + e->offset, (size_t)e->size};
}

typedef cm_status (*section_fn)(cm_cursor *c);

static cm_status read_one(cm_plan_reader *r, const entry *table, uint32_t n, uint32_t kind,
                          section_fn fn)
{
    for (uint32_t i = 0; i < n; i++) {
        if (table[i].kind == kind) {
            cm_cursor c = section_at(r, &table[i]);
            return fn(&c);
        }
    }
    return CM_OK;
}

static cm_status read_many(cm_plan_reader *r, const entry *table, uint32_t n)
{
    cm_plan *p = r->plan;
    cm_plan_variant *variants;
    cm_plan_target *targets;
    CM_NEW_N(r->cx, r->arena, variants, n, cm_plan_variant);
    CM_NEW_N(r->cx, r->arena, targets, n, cm_plan_target);
    for (uint32_t i = 0; i < n; i++) {
        cm_cursor c = section_at(r, &table[i]);
        if (table[i].kind == CM_SECTION_VARIANT)
            CM_TRY(cm_read_variant(&c, &variants[p->n_variants++]));
        else if (table[i].kind == CM_SECTION_TARGET)
            CM_TRY(read_target(&c, &targets[p->n_targets++]));
    }
    p->variants = variants;
    p->targets = targets;
    return CM_OK;
}

cm_status cm_plan_read(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n, cm_plan **out)
{
    cm_plan_reader r = {.cx = cx, .arena = arena, .bytes = bytes, .n = n};
    uint32_t n_sections = 0;
    CM_TRY(check_head(&r, &n_sections));
    CM_NEW(cx, arena, r.plan, cm_plan);
    entry *table;
    CM_NEW_N(cx, arena, table, n_sections, entry);
    for (uint32_t i = 0; i < n_sections; i++)
        memcpy(&table[i], r.bytes + CM_PLAN_HEADER_BYTES + (size_t)i * CM_PLAN_ENTRY_BYTES,
               sizeof *table);
    CM_TRY(check_sections(&r, table, n_sections));
    for (uint32_t i = 0; i < n_sections; i++) {
        if (table[i].kind == CM_SECTION_WEIGHTS) {
            r.plan->weights_data = r.bytes + table[i].offset;
            r.plan->weights_bytes = table[i].size;
            r.plan->weights_checksum = table[i].checksum;
        }
    }
    CM_TRY(read_one(&r, table, n_sections, CM_SECTION_STRINGS, read_strings));
    CM_TRY(read_one(&r, table, n_sections, CM_SECTION_DIMS, read_dims));
    CM_TRY(read_one(&r, table, n_sections, CM_SECTION_META, read_meta));
    CM_TRY(read_one(&r, table, n_sections, CM_SECTION_BUILD, read_build));
    CM_TRY(read_one(&r, table, n_sections, CM_SECTION_PACKED, read_packed)); /* before values */
    CM_TRY(read_one(&r, table, n_sections, CM_SECTION_VALUES, read_values));
    CM_TRY(read_one(&r, table, n_sections, CM_SECTION_RECIPES, read_recipes));
    CM_TRY(read_one(&r, table, n_sections, CM_SECTION_PLUGINS, read_plugins));
    CM_TRY(read_one(&r, table, n_sections, CM_SECTION_ALIASES, read_aliases));
    CM_TRY(read_many(&r, table, n_sections));
    CM_TRY(cm_plan_verify(cx, r.plan));
    CM_TRY(cm_packed_check(cx, r.plan));
    *out = r.plan;
    return CM_OK;
}

cm_status cm_plan_fail_stripped(cm_ctx *cx)
{
    return cm_fail(cx, CM_ERR_PLAN,
                   "the plan was built without its weights: put them back with `cameo refit PLAN "
                   "--from MODEL`");
}

cm_status cm_plan_verify_weights(cm_ctx *cx, const cm_plan *p)
{
    if (p->stripped)
        return cm_plan_fail_stripped(cx);
    uint64_t sum = cm_checksum(p->weights_data, (size_t)p->weights_bytes);
    if (sum != p->weights_checksum)
        return cm_fail(cx, CM_ERR_PLAN,
                       "the plan is damaged: its weights have checksum %016llx, wanted %016llx",
                       (unsigned long long)sum, (unsigned long long)p->weights_checksum);
    return CM_OK;
}
