/* dim_table.c -- the interning of atoms, monomials and expressions, and their order.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/map.h"
#include "base/size.h"
#include "plan/dim_impl.h"

static void *alloc_from_arena(void *user, size_t bytes, size_t align)
{
    return cm_arena_alloc_n(user, bytes, 1, align, 0);
}

static void release_to_arena(void *user, void *p, size_t bytes)
{
    (void)user;
    (void)p;
    (void)bytes;
}

cm_status cm_dim_table_create(cm_ctx *cx, cm_arena *arena, cm_dim_table **out)
{
    cm_dim_table *t;
    CM_NEW(cx, arena, t, cm_dim_table);
    t->arena = arena;
    t->from_arena = (cm_allocator){alloc_from_arena, release_to_arena, arena};
    cm_arena_init(&t->work, &t->from_arena);
    if (dim_intern_mono(t, NULL, 0) != EMPTY_MONO)
        return cm_fail_memory(cx);
    *out = t;
    return CM_OK;
}

/* Room for one more in a growing array of the arena. */
static bool reserve(cm_dim_table *t, void **items, int n, int *cap, size_t size)
{
    if (n < *cap)
        return true;
    if (n >= DIM_MAX_COUNT)
        return false;
    int wanted = *cap ? *cap * 2 : 16;
    void *p = cm_arena_alloc_n(t->arena, (size_t)wanted, size, 16, 1);
    if (!p)
        return false;
    if (n)
        memcpy(p, *items, (size_t)n * size);
    *items = p;
    *cap = wanted;
    return true;
}

typedef const dim_head *(*head_fn)(const cm_dim_table *t, uint32_t i);
typedef bool (*same_fn)(const cm_dim_table *t, uint32_t i, const void *key);

/* The slot of what equals `key`, or a free one. */
static uint32_t *find(const cm_dim_table *t, const dim_index *x, uint64_t hash, head_fn head,
                      same_fn same, const void *key)
{
    size_t mask = x->n_slots - 1, i = (size_t)hash & mask;
    while (x->slots[i]) {
        uint32_t at = x->slots[i] - 1;
        if (head(t, at)->hash == hash && same(t, at, key))
            break;
        i = (i + 1) & mask;
    }
    return &x->slots[i];
}

static bool reserve_slots(cm_dim_table *t, dim_index *x, int n, head_fn head)
{
    if ((size_t)n * 2 < x->n_slots)
        return true;
    size_t n_slots = x->n_slots ? x->n_slots * 2 : 64;
    uint32_t *slots = cm_new_n(t->arena, n_slots, uint32_t);
    if (!slots)
        return false;
    for (uint32_t i = 0; i < (uint32_t)n; i++) {
        size_t at = (size_t)head(t, i)->hash & (n_slots - 1);
        while (slots[at])
            at = (at + 1) & (n_slots - 1);
        slots[at] = i + 1;
    }
    x->slots = slots;
    x->n_slots = n_slots;
    return true;
}

static const dim_head *atom_head(const cm_dim_table *t, uint32_t i)
{
    return &t->atoms[i].head;
}

static bool same_atom(const cm_dim_table *t, uint32_t i, const void *key)
{
    const dim_atom *a = &t->atoms[i], *b = key;
    if (a->kind != b->kind)
        return false;
    if (a->kind == ATOM_SYMBOL)
        return strcmp(a->name, b->name) == 0;
    return a->a == b->a && a->b == b->b;
}

static uint64_t hash_name(const char *name)
{
    return cm_hash_bytes(name, strlen(name), 0);
}

int32_t dim_find_symbol_atom(const cm_dim_table *t, const char *name)
{
    if (!t->atom_index.n_slots)
        return -1;
    dim_atom key = {.kind = ATOM_SYMBOL, .name = name};
    uint32_t s = *find(t, &t->atom_index, hash_name(name), atom_head, same_atom, &key);
    return s ? (int32_t)(s - 1) : -1;
}

/* Find or add `key`; `list` is where its kind is listed by ordinal. */
static int32_t intern_atom(cm_dim_table *t, dim_atom key, int32_t **list, int *n_list,
                           int *cap_list)
{
    if (!reserve(t, (void **)&t->atoms, t->n_atoms, &t->cap_atoms, sizeof *t->atoms) ||
        !reserve(t, (void **)list, *n_list, cap_list, sizeof **list) ||
        !reserve_slots(t, &t->atom_index, t->n_atoms, atom_head))
        return -1;
    uint32_t *slot = find(t, &t->atom_index, key.head.hash, atom_head, same_atom, &key);
    if (*slot)
        return (int32_t)(*slot - 1);
    if (key.name && !(key.name = cm_arena_strdup(t->arena, key.name)))
        return -1;
    key.ordinal = *n_list;
    key.born = t->n_exprs;
    t->atoms[t->n_atoms] = key;
    (*list)[(*n_list)++] = t->n_atoms;
    *slot = (uint32_t)t->n_atoms + 1;
    return t->n_atoms++;
}

int32_t dim_intern_symbol(cm_dim_table *t, const char *name, cm_dim_sign sign)
{
    dim_atom key = {.kind = ATOM_SYMBOL, .name = name, .sign = sign};
    size_t length = strlen(name);
    if (length / DIM_NAME_UNIT >= DIM_MAX_WEIGHT)
        return -1;
    key.head.hash = hash_name(name);
    key.head.range = (range){sign == CM_DIM_SIZE ? 0 : INT64_MIN, INT64_MAX};
    key.head.weight = 1 + (int)(length / DIM_NAME_UNIT);
    return intern_atom(t, key, &t->symbols, &t->n_symbols, &t->cap_symbols);
}

static dim_head head_of(const cm_dim_table *t, cm_dim d)
{
    if (d >= 0)
        return (dim_head){.weight = 1};
    return dim_expr_of(t, d)->head;
}

int32_t dim_intern_function(cm_dim_table *t, atom_kind kind, cm_dim a, cm_dim b)
{
    dim_head ha = head_of(t, a), hb = head_of(t, b);
    dim_atom key = {.kind = kind, .a = a, .b = b};
    int64_t words[3] = {kind, a, b};
    key.head.hash = cm_hash_bytes(words, sizeof words, 1);
    key.head.weight = 1 + ha.weight + hb.weight;
    key.head.depth = 1 + (ha.depth > hb.depth ? ha.depth : hb.depth);
    if (key.head.weight > DIM_MAX_WEIGHT || key.head.depth > DIM_MAX_DEPTH)
        return -1;
    key.head.range = dim_function_range(t, kind, a, b);
    return intern_atom(t, key, &t->functions, &t->n_functions, &t->cap_functions);
}

static const dim_head *mono_head(const cm_dim_table *t, uint32_t i)
{
    return &t->monos[i].head;
}

static bool same_mono(const cm_dim_table *t, uint32_t i, const void *key)
{
    const dim_mono *a = &t->monos[i], *b = key;
    return a->n == b->n &&
           (a->n == 0 || memcmp(a->atoms, b->atoms, (size_t)a->n * sizeof *a->atoms) == 0);
}

int32_t dim_intern_mono(cm_dim_table *t, const int32_t *atoms, int n)
{
    dim_mono key = {.n = n, .atoms = atoms};
    if (n > DIM_MAX_DEGREE)
        return -1;
    if (!reserve(t, (void **)&t->monos, t->n_monos, &t->cap_monos, sizeof *t->monos) ||
        !reserve_slots(t, &t->mono_index, t->n_monos, mono_head))
        return -1;
    key.head.hash = cm_hash_bytes(atoms, (size_t)n * sizeof *atoms, 2);
    uint32_t *slot = find(t, &t->mono_index, key.head.hash, mono_head, same_mono, &key);
    if (*slot)
        return (int32_t)(*slot - 1);
    for (int i = 0; i < n; i++) {
        const dim_head *h = &t->atoms[atoms[i]].head;
        key.head.weight += h->weight;
        if (key.head.weight > DIM_MAX_WEIGHT)
            return -1;
        if (h->depth > key.head.depth)
            key.head.depth = h->depth;
    }
    key.head.range = dim_mono_range(t, atoms, n);
    key.atoms = cm_arena_memdup(t->arena, atoms, (size_t)n * sizeof *atoms);
    if (!key.atoms)
        return -1;
    t->monos[t->n_monos] = key;
    *slot = (uint32_t)t->n_monos + 1;
    return t->n_monos++;
}

static const dim_head *expr_head(const cm_dim_table *t, uint32_t i)
{
    return &t->exprs[i].head;
}

static bool same_expr(const cm_dim_table *t, uint32_t i, const void *key)
{
    const dim_expr *a = &t->exprs[i], *b = key;
    if (a->n != b->n)
        return false;
    for (int k = 0; k < a->n; k++) {
        if (a->terms[k].coeff != b->terms[k].coeff || a->terms[k].mono != b->terms[k].mono)
            return false;
    }
    return true;
}

static uint64_t hash_terms(const dim_term *terms, int n)
{
    uint64_t h = 3;
    for (int i = 0; i < n; i++) {
        int64_t words[2] = {terms[i].coeff, terms[i].mono};
        h = cm_hash_bytes(words, sizeof words, h);
    }
    return h;
}

cm_dim dim_intern_poly(cm_dim_table *t, poly p)
{
    int64_t number;
    if (dim_poly_is_const(p, &number) && number >= 0)
        return number;
    dim_expr key = {.n = p.n, .terms = p.terms};
    if (!reserve(t, (void **)&t->exprs, t->n_exprs, &t->cap_exprs, sizeof *t->exprs) ||
        !reserve_slots(t, &t->expr_index, t->n_exprs, expr_head))
        return CM_DIM_ERROR;
    key.head.hash = hash_terms(p.terms, p.n);
    uint32_t *slot = find(t, &t->expr_index, key.head.hash, expr_head, same_expr, &key);
    if (*slot)
        return -(cm_dim)*slot;
    for (int i = 0; i < p.n; i++) {
        const dim_head *h = &t->monos[p.terms[i].mono].head;
        key.head.weight += 1 + h->weight;
        if (key.head.weight > DIM_MAX_WEIGHT || p.terms[i].coeff == INT64_MIN)
            return CM_DIM_ERROR; /* coefficients can be negated */
        if (h->depth > key.head.depth)
            key.head.depth = h->depth;
    }
    key.head.range = dim_poly_range(t, p);
    key.terms = cm_arena_memdup(t->arena, p.terms, (size_t)p.n * sizeof *p.terms);
    if (!key.terms)
        return CM_DIM_ERROR;
    t->exprs[t->n_exprs++] = key;
    *slot = (uint32_t)t->n_exprs;
    return -(cm_dim)t->n_exprs;
}

cm_dim dim_bare(cm_dim_table *t, int32_t atom)
{
    if (atom < 0)
        return CM_DIM_ERROR;
    int32_t mono = dim_intern_mono(t, &atom, 1);
    if (mono < 0)
        return CM_DIM_ERROR;
    dim_term one = {1, mono};
    return dim_intern_poly(t, (poly){1, &one});
}

int dim_compare_atoms(const cm_dim_table *t, int32_t a, int32_t b)
{
    if (a == b)
        return 0;
    const dim_atom *x = &t->atoms[a], *y = &t->atoms[b];
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->kind == ATOM_SYMBOL)
        return strcmp(x->name, y->name);
    int c = dim_compare(t, x->a, y->a);
    return c ? c : dim_compare(t, x->b, y->b);
}

int dim_compare_monos(const cm_dim_table *t, int32_t a, int32_t b)
{
    if (a == b)
        return 0;
    const dim_mono *x = &t->monos[a], *y = &t->monos[b];
    for (int i = 0; i < x->n && i < y->n; i++) {
        int c = dim_compare_atoms(t, x->atoms[i], y->atoms[i]);
        if (c)
            return c;
    }
    return y->n - x->n; /* the longer one first, so the empty one last */
}

int dim_compare(const cm_dim_table *t, cm_dim a, cm_dim b)
{
    if (a == b)
        return 0;
    if (a >= 0 || b >= 0) { /* expressions before numbers, numbers by size */
        if (a >= 0 && b >= 0)
            return a < b ? -1 : 1;
        return a < 0 ? -1 : 1;
    }
    const dim_expr *x = dim_expr_of(t, a), *y = dim_expr_of(t, b);
    for (int i = 0; i < x->n && i < y->n; i++) {
        int c = dim_compare_monos(t, x->terms[i].mono, y->terms[i].mono);
        if (c)
            return c;
        if (x->terms[i].coeff != y->terms[i].coeff)
            return x->terms[i].coeff < y->terms[i].coeff ? -1 : 1;
    }
    return y->n - x->n;
}

poly dim_poly(const cm_dim_table *t, cm_dim d, dim_term *one)
{
    if (d >= 0) {
        *one = (dim_term){d, EMPTY_MONO};
        return (poly){d != 0, one};
    }
    const dim_expr *e = dim_expr_of(t, d);
    return (poly){e->n, e->terms};
}

bool dim_poly_is_const(poly p, int64_t *out)
{
    if (p.n == 0) {
        *out = 0;
        return true;
    }
    *out = p.terms[0].coeff;
    return p.n == 1 && p.terms[0].mono == EMPTY_MONO;
}
