/* dim_serial.c -- dim tables as bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Little-endian. Symbols in order, then functions and expressions in the order in which they were
 * made, so that each refers to earlier ones only:
 *
 *     u32 symbols       each: u8 sign, u32 length, the name
 *     u32 records       each: u8 tag, then
 *         function:     u8 kind, i64 dim, i64 dim
 *         expression:   u32 terms, each: i64 coefficient, u32 atoms, each: u32
 *
 * An atom is twice its symbol index, or twice its function index plus 1. A reader takes nothing on
 * trust: whatever is out of range, out of order, doubled or over a bound is refused. */
#include <string.h>

#include "plan/dim_impl.h"

enum { TAG_FUNCTION = 1, TAG_EXPRESSION = 2 };

static void write_function(const dim_atom *f, cm_buf *out)
{
    cm_buf_u8(out, TAG_FUNCTION);
    cm_buf_u8(out, (uint8_t)f->kind);
    cm_buf_u64(out, (uint64_t)f->a);
    cm_buf_u64(out, (uint64_t)f->b);
}

static void write_expression(const cm_dim_table *t, const dim_expr *e, cm_buf *out)
{
    cm_buf_u8(out, TAG_EXPRESSION);
    cm_buf_u32(out, (uint32_t)e->n);
    for (int i = 0; i < e->n; i++) {
        const dim_mono *m = &t->monos[e->terms[i].mono];
        cm_buf_u64(out, (uint64_t)e->terms[i].coeff);
        cm_buf_u32(out, (uint32_t)m->n);
        for (int k = 0; k < m->n; k++) {
            const dim_atom *a = &t->atoms[m->atoms[k]];
            cm_buf_u32(out, (uint32_t)a->ordinal * 2 + (a->kind != ATOM_SYMBOL));
        }
    }
}

void cm_dim_table_write(const cm_dim_table *t, cm_buf *out)
{
    cm_buf_u32(out, (uint32_t)t->n_symbols);
    for (int i = 0; i < t->n_symbols; i++) {
        const dim_atom *a = &t->atoms[t->symbols[i]];
        cm_buf_u8(out, (uint8_t)a->sign);
        cm_buf_u32(out, (uint32_t)strlen(a->name));
        cm_buf_str(out, a->name);
    }
    cm_buf_u32(out, (uint32_t)(t->n_functions + t->n_exprs));
    int f = 0;
    for (int i = 0; i <= t->n_exprs; i++) {
        for (; f < t->n_functions && t->atoms[t->functions[f]].born <= i; f++)
            write_function(&t->atoms[t->functions[f]], out);
        if (i < t->n_exprs)
            write_expression(t, &t->exprs[i], out);
    }
}

typedef struct reader {
    cm_ctx *cx;
    cm_dim_table *t;
    const unsigned char *at, *end;
} reader;

static cm_status fail_read(reader *r, const char *what)
{
    return cm_fail(r->cx, CM_ERR_PLAN, "dim table: %s", what);
}

/* Interning failed: for want of memory, or because the bytes ask for what no table holds. */
static cm_status fail_intern(reader *r)
{
    if (r->t->arena->failed)
        return cm_fail_memory(r->cx);
    return fail_read(r, "an expression over the limits");
}

static cm_status read_bytes(reader *r, void *to, size_t n)
{
    if ((size_t)(r->end - r->at) < n)
        return fail_read(r, "cut short");
    memcpy(to, r->at, n);
    r->at += n;
    return CM_OK;
}

static cm_status read_symbol(reader *r, int index)
{
    uint8_t sign;
    uint32_t n;
    CM_TRY(read_bytes(r, &sign, 1));
    CM_TRY(read_bytes(r, &n, 4));
    if (sign > CM_DIM_ANY)
        return fail_read(r, "a symbol of unknown sign");
    if ((size_t)(r->end - r->at) < n || (n && memchr(r->at, 0, n)))
        return fail_read(r, "a symbol with a wrong name");
    char *name = cm_arena_strndup(r->t->arena, (const char *)r->at, n);
    if (!name)
        return cm_fail_memory(r->cx);
    r->at += n;
    if (dim_find_symbol_atom(r->t, name) >= 0)
        return fail_read(r, "a symbol given twice");
    if (dim_intern_symbol(r->t, name, (cm_dim_sign)sign) < 0)
        return fail_intern(r);
    if (r->t->n_symbols != index + 1)
        return fail_read(r, "symbols out of order");
    return CM_OK;
}

static cm_status read_function(reader *r)
{
    uint8_t kind;
    int64_t a, b;
    CM_TRY(read_bytes(r, &kind, 1));
    CM_TRY(read_bytes(r, &a, 8));
    CM_TRY(read_bytes(r, &b, 8));
    if (kind == ATOM_SYMBOL || kind >= ATOM_KIND_COUNT)
        return fail_read(r, "a function of unknown kind");
    if (!cm_dim_valid(r->t, a) || !cm_dim_valid(r->t, b))
        return fail_read(r, "a function of a dim not yet defined");
    int n = r->t->n_functions;
    if (dim_intern_function(r->t, (atom_kind)kind, a, b) < 0)
        return fail_intern(r);
    return r->t->n_functions == n + 1 ? CM_OK : fail_read(r, "a function given twice");
}

static cm_status read_mono(reader *r, int32_t *out)
{
    uint32_t n, ref;
    int32_t atoms[DIM_MAX_DEGREE];
    CM_TRY(read_bytes(r, &n, 4));
    if (n > DIM_MAX_DEGREE)
        return fail_read(r, "a term of too many factors");
    for (uint32_t i = 0; i < n; i++) {
        CM_TRY(read_bytes(r, &ref, 4));
        uint32_t have = (uint32_t)(ref & 1 ? r->t->n_functions : r->t->n_symbols);
        if (ref / 2 >= have)
            return fail_read(r, "a factor not yet defined");
        atoms[i] = (ref & 1 ? r->t->functions : r->t->symbols)[ref / 2];
        if (i && dim_compare_atoms(r->t, atoms[i - 1], atoms[i]) > 0)
            return fail_read(r, "factors out of order");
    }
    *out = dim_intern_mono(r->t, atoms, (int)n);
    return *out < 0 ? fail_intern(r) : CM_OK;
}

static cm_status read_expression(reader *r, int index)
{
    uint32_t n;
    CM_TRY(read_bytes(r, &n, 4));
    if (n == 0 || n > DIM_MAX_WEIGHT)
        return fail_read(r, "an expression of too few or too many terms");
    dim_term *terms = cm_arena_alloc_n(&r->t->work, n, sizeof *terms, 16, 0);
    if (!terms)
        return cm_fail_memory(r->cx);
    for (uint32_t i = 0; i < n; i++) {
        CM_TRY(read_bytes(r, &terms[i].coeff, 8));
        CM_TRY(read_mono(r, &terms[i].mono));
        if (terms[i].coeff == 0)
            return fail_read(r, "a term of coefficient 0");
        if (i && dim_compare_monos(r->t, terms[i - 1].mono, terms[i].mono) >= 0)
            return fail_read(r, "terms out of order");
    }
    cm_dim d = dim_intern_poly(r->t, (poly){(int)n, terms});
    if (d == CM_DIM_ERROR)
        return fail_intern(r);
    return d == -(cm_dim)(index + 1) ? CM_OK
                                     : fail_read(r, "an expression given twice, or a number");
}

static cm_status read_records(reader *r, uint32_t n)
{
    uint8_t tag;
    for (uint32_t i = 0; i < n; i++) {
        CM_TRY(read_bytes(r, &tag, 1));
        cm_arena_mark mark = cm_arena_save(&r->t->work);
        if (tag == TAG_FUNCTION)
            CM_TRY(read_function(r));
        else if (tag == TAG_EXPRESSION)
            CM_TRY(read_expression(r, r->t->n_exprs));
        else
            return fail_read(r, "a record of unknown kind");
        cm_arena_restore(&r->t->work, mark);
    }
    return r->at == r->end ? CM_OK : fail_read(r, "bytes left over");
}

cm_status cm_dim_table_read(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n,
                            cm_dim_table **out)
{
    reader r = {.cx = cx, .at = bytes, .end = (const unsigned char *)bytes + n};
    uint32_t count;
    CM_TRY(cm_dim_table_create(cx, arena, &r.t));
    CM_TRY(read_bytes(&r, &count, 4));
    for (uint32_t i = 0; i < count; i++)
        CM_TRY(read_symbol(&r, (int)i));
    CM_TRY(read_bytes(&r, &count, 4));
    CM_TRY(read_records(&r, count));
    *out = r.t;
    return CM_OK;
}
