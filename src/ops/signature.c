/* signature.c -- reads a row's signature and applies it to types.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/signature.h"

#include <stdio.h>
#include <string.h>

typedef uint32_t set; /* bit = cm_dtype */

#define BIT(t) ((set)1 << CM_##t)
#define FLOATS (BIT(F16) | BIT(BF16) | BIT(F32) | BIT(F64))
#define INTS   (BIT(I8) | BIT(I16) | BIT(I32) | BIT(I64))
#define UINTS  (BIT(U8) | BIT(U16) | BIT(U32) | BIT(U64))

static const struct {
    const char *name;
    set types;
} named_sets[] = {
    {"float", FLOATS},
    {"int", INTS},
    {"uint", UINTS},
    {"num", FLOATS | INTS | UINTS},
    {"f8", BIT(F8E4M3FN) | BIT(F8E4M3FNUZ) | BIT(F8E5M2) | BIT(F8E5M2FNUZ) | BIT(F8E8M0)},
    {"small", BIT(U4) | BIT(I4) | BIT(F4E2M1) | BIT(U2) | BIT(I2) | BIT(F6E2M3) | BIT(F6E3M2)},
    {"cplx", BIT(C64) | BIT(C128)},
    {"all", (((set)1 << (CM_DTYPE_COUNT - 1)) - 1) << 1},
};

typedef struct {
    const char *p;
    set var[26];        /* allowed types of each letter */
    cm_dtype bound[26]; /* what an input bound it to */
    bool bad;
} parser;

/* One place: wrappers around a variable or a set. */
typedef struct {
    cm_kind wrap[2]; /* outermost first; CM_TENSOR ends */
    int n_wrap;
    bool any;   /* `*` */
    int letter; /* 0..25, or -1: a plain set */
    set types;
    bool repeats;
} place;

static void skip(parser *s)
{
    while (*s->p == ' ')
        s->p++;
}

static bool eat(parser *s, const char *token)
{
    skip(s);
    size_t n = strlen(token);
    if (strncmp(s->p, token, n) != 0)
        return false;
    s->p += n;
    return true;
}

static set read_name(parser *s)
{
    const char *from = s->p;
    while ((*s->p >= 'a' && *s->p <= 'z') || (*s->p >= '0' && *s->p <= '9'))
        s->p++;
    size_t n = (size_t)(s->p - from);
    for (int i = 0; i < CM_COUNT(named_sets); i++)
        if (strlen(named_sets[i].name) == n && !memcmp(named_sets[i].name, from, n))
            return named_sets[i].types;
    char name[16];
    cm_dtype t;
    if (n > 0 && n < sizeof name) {
        memcpy(name, from, n);
        name[n] = 0;
        if (cm_dtype_parse(name, &t) && strcmp(cm_dtype_name(t), name) == 0)
            return (set)1 << t;
    }
    s->bad = true;
    return 0;
}

static set read_set(parser *s)
{
    skip(s);
    set types = read_name(s);
    while (*s->p == '|' && !s->bad) {
        s->p++;
        types |= read_name(s);
    }
    return types;
}

static void read_variables(parser *s)
{
    skip(s);
    while (*s->p >= 'A' && *s->p <= 'Z' && s->p[1] == '=' && !s->bad) {
        int letter = *s->p - 'A';
        s->p += 2;
        s->var[letter] = read_set(s);
        skip(s);
    }
    if (!eat(s, ":"))
        s->bad = true;
}

static place read_place(parser *s)
{
    place p = {.letter = -1};
    skip(s);
    while (p.n_wrap < 2) {
        if (eat(s, "seq("))
            p.wrap[p.n_wrap++] = CM_SEQUENCE;
        else if (eat(s, "opt("))
            p.wrap[p.n_wrap++] = CM_OPTIONAL;
        else
            break;
    }
    if (*s->p == '*') {
        s->p++;
        p.any = true;
    } else if (*s->p >= 'A' && *s->p <= 'Z') {
        p.letter = *s->p++ - 'A';
        p.types = s->var[p.letter];
        if (!p.types)
            s->bad = true;
    } else {
        p.types = read_set(s);
    }
    for (int i = 0; i < p.n_wrap; i++)
        if (!eat(s, ")"))
            s->bad = true;
    if (strncmp(s->p, "...", 3) == 0) {
        s->p += 3;
        p.repeats = true;
    }
    return p;
}

/* At the end of a list of places? */
static bool at_end(parser *s)
{
    skip(s);
    return s->bad || *s->p == 0 || strncmp(s->p, "->", 2) == 0;
}

static cm_status wrong_type(cm_ctx *cx, int i, const char *found, set wanted)
{
    char list[256];
    size_t n = 0;
    list[0] = 0;
    for (int t = 1; t < CM_DTYPE_COUNT; t++) {
        if (!(wanted >> t & 1))
            continue;
        const char *name = cm_dtype_name((cm_dtype)t);
        if (n + strlen(name) + 3 > sizeof list)
            break;
        n += (size_t)sprintf(list + n, "%s%s", n ? " " : "", name);
    }
    return cm_fail(cx, CM_ERR_MODEL, "input %d has element type %s, wanted one of: %s", i, found,
                   list);
}

static cm_status check_input(cm_ctx *cx, parser *s, const place *p, int i, const cm_type *t)
{
    if (p->any || !t || t->kind == CM_NOTHING)
        return CM_OK;
    for (int w = 0; w < p->n_wrap; w++) {
        if (t->kind != p->wrap[w])
            return cm_fail(cx, CM_ERR_MODEL, "input %d is not %s", i,
                           p->wrap[w] == CM_SEQUENCE ? "a sequence" : "an optional");
        t = t->elem;
        if (!t)
            return CM_OK;
    }
    if (t->kind != CM_TENSOR)
        return cm_fail(cx, CM_ERR_MODEL, "input %d is not a tensor", i);
    if (!(p->types >> t->dtype & 1))
        return wrong_type(cx, i, cm_dtype_name(t->dtype), p->types);
    if (p->letter >= 0) {
        cm_dtype *b = &s->bound[p->letter];
        if (*b != CM_NO_DTYPE && *b != t->dtype)
            return cm_fail(cx, CM_ERR_MODEL,
                           "input %d has element type %s where an earlier input has %s", i,
                           cm_dtype_name(t->dtype), cm_dtype_name(*b));
        *b = t->dtype;
    }
    return CM_OK;
}

static void fill_output(const parser *s, const place *p, cm_type *out)
{
    if (p->any || p->n_wrap)
        return;
    cm_dtype t = p->letter >= 0 ? s->bound[p->letter] : CM_NO_DTYPE;
    if (t == CM_NO_DTYPE && p->types && !(p->types & (p->types - 1)))
        t = (cm_dtype)__builtin_ctz(p->types);
    if (t == CM_NO_DTYPE)
        return;
    out->kind = CM_TENSOR;
    out->dtype = t;
    out->rank = -1;
}

cm_status cm_signature_apply(cm_ctx *cx, const cm_op *op, const cm_type *const *in, int n_in,
                             cm_type *out, int n_out)
{
    parser s = {.p = op->signature};
    read_variables(&s);
    place p = {0};
    for (int i = 0; i < n_in; i++) {
        if (!p.repeats) {
            if (at_end(&s))
                break;
            p = read_place(&s);
        }
        CM_TRY(check_input(cx, &s, &p, i, in[i]));
    }
    while (!at_end(&s))
        read_place(&s);
    if (s.bad || !eat(&s, "->"))
        return cm_fail(cx, CM_ERR_INTERNAL, "signature of %s is malformed: \"%s\"", op->name,
                       op->signature);
    p = (place){0};
    for (int o = 0; o < n_out; o++) {
        if (!p.repeats) {
            if (at_end(&s))
                break;
            p = read_place(&s);
        }
        fill_output(&s, &p, &out[o]);
    }
    return CM_OK;
}

uint32_t cm_signature_types(const cm_op *op, int input)
{
    parser s = {.p = op->signature};
    read_variables(&s);
    for (int i = 0; !at_end(&s); i++) {
        place p = read_place(&s);
        if (i == input || (p.repeats && i <= input))
            return p.types;
    }
    return 0;
}

bool cm_signature_valid(const char *signature)
{
    parser s = {.p = signature};
    read_variables(&s);
    while (!at_end(&s))
        read_place(&s);
    if (s.bad || !eat(&s, "->"))
        return false;
    while (!at_end(&s))
        read_place(&s);
    return !s.bad && *s.p == 0;
}
