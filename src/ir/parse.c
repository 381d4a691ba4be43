/* parse.c -- text into a network; README.md has the grammar. The text is untrusted: see parse.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ir/parse.h"

#include <string.h>

#include "base/map.h"
#include "base/size.h"
#include "ir/network.h"
#include "ir/text.h"

enum { MAX_DEPTH = 64, MAX_LIST = 1 << 16 };

/* Names that can be seen from a network: its own, then those of the outer ones. */
typedef struct scope {
    cm_map names;
    struct scope *outer;
} scope;

static cm_value *look_up(const scope *sc, const char *name)
{
    for (; sc; sc = sc->outer) {
        cm_value *v = cm_map_get(&sc->names, name);
        if (v)
            return v;
    }
    return NULL;
}

static cm_status declare(cm_parser *s, scope *sc, const char *name, cm_value *v)
{
    if (cm_map_has(&sc->names, name))
        return CM_PARSE_FAIL(s, "'%s' is defined twice", name);
    return cm_map_put(&sc->names, name, v) ? CM_OK : cm_fail_memory(s->cx);
}

static cm_status read_reference(cm_parser *s, const scope *sc, cm_value **out)
{
    const char *name;
    *out = NULL;
    if (cm_parse_eat_word(s, "_"))
        return CM_OK;
    cm_parse_eat(s, '@');
    CM_TRY(cm_parse_name(s, &name));
    *out = look_up(sc, name);
    return *out ? CM_OK : CM_PARSE_FAIL(s, "'%s' is not defined before it is used", name);
}

static cm_status read_list(cm_parser *s, const cm_attr_field *f, void *attr, const cm_attr_desc *d)
{
    int64_t n = 0, cap = 8;
    size_t size = f->kind == CM_A_INTS ? 8 : f->kind == CM_A_FLOATS ? 4 : sizeof(cm_str);
    unsigned char *v = cm_arena_alloc_n(s->arena, (size_t)cap, size, 16, 1);
    CM_TRY(cm_parse_expect(s, '['));
    while (v && !cm_parse_eat(s, ']')) {
        if (n)
            CM_TRY(cm_parse_expect(s, ','));
        if (n == MAX_LIST)
            return CM_PARSE_FAIL(s, "a list is too long");
        if (n == cap) {
            unsigned char *bigger = cm_arena_alloc_n(s->arena, (size_t)cap * 2, size, 16, 1);
            if (bigger)
                memcpy(bigger, v, (size_t)cap * size);
            v = bigger;
            cap *= 2;
            if (!v)
                break;
        }
        if (f->kind == CM_A_STRS) {
            CM_TRY(cm_parse_quoted(s, &((cm_str *)v)[n]));
        } else if (f->kind == CM_A_INTS) {
            CM_TRY(cm_parse_int(s, &((int64_t *)v)[n]));
        } else {
            double x;
            CM_TRY(cm_parse_real(s, &x));
            ((float *)v)[n] = (float)x;
        }
        n++;
    }
    if (!v)
        return cm_fail_memory(s->cx);
    cm_ints list = {n, (const int64_t *)v}; /* all lists have this shape */
    cm_attr_set(d, attr, f, &list);
    return CM_OK;
}

static cm_status read_attribute(cm_parser *s, cm_network *g, const cm_op *op, void *attr)
{
    const char *name;
    CM_TRY(cm_parse_name(s, &name));
    const cm_attr_field *f = cm_attr_find(op->attrs, name);
    if (!f)
        return CM_PARSE_FAIL(s, "%s has no attribute '%s'", op->name, name);
    CM_TRY(cm_parse_expect(s, '='));
    union {
        int64_t i;
        float f;
        cm_str s;
        const void *p;
    } v;
    double x;
    switch (f->kind) {
    case CM_A_INT:
        CM_TRY(cm_parse_int(s, &v.i));
        break;
    case CM_A_FLOAT:
        CM_TRY(cm_parse_real(s, &x));
        v.f = (float)x;
        break;
    case CM_A_STR:
        CM_TRY(cm_parse_quoted(s, &v.s));
        break;
    case CM_A_TENSOR:
        CM_TRY(cm_parse_tensor(s, g->dims, (const cm_tensor **)&v.p));
        break;
    case CM_A_TYPE: {
        cm_type *t;
        CM_NEW(s->cx, s->arena, t, cm_type);
        if (!cm_parse_eat_word(s, "type"))
            return CM_PARSE_FAIL(s, "attribute '%s' wants `type T`", name);
        CM_TRY(cm_parse_type(s, g->dims, 0, t));
        v.p = t;
        break;
    }
    default:
        return read_list(s, f, attr, op->attrs);
    }
    cm_attr_set(op->attrs, attr, f, &v);
    return CM_OK;
}

static cm_status read_attributes(cm_parser *s, cm_network *g, const cm_op *op, void **out)
{
    CM_TRY(cm_attr_new(s->cx, s->arena, op->attrs, out));
    if (!cm_parse_eat(s, '{'))
        return CM_OK;
    while (!cm_parse_eat(s, '}')) {
        CM_TRY(read_attribute(s, g, op, *out));
        if (cm_parse_peek(s) != '}')
            CM_TRY(cm_parse_expect(s, ','));
    }
    return CM_OK;
}

static cm_status read_from(cm_parser *s, cm_node *n)
{
    enum { MOST = 256 };
    const char *names[MOST];
    int k = 0;
    if (!cm_parse_eat_word(s, "from"))
        return CM_OK;
    do {
        cm_str q;
        if (k == MOST)
            return CM_PARSE_FAIL(s, "a node comes from more than %d nodes", MOST);
        CM_TRY(cm_parse_quoted(s, &q));
        names[k++] = q.p;
    } while (cm_parse_eat(s, ','));
    n->from = cm_arena_memdup(s->arena, names, (size_t)k * sizeof *names);
    if (!n->from)
        return cm_fail_memory(s->cx);
    n->n_from = k;
    n->name = n->from[0];
    return CM_OK;
}

static cm_status read_epilogue(cm_parser *s, cm_node *n, cm_value *const *operands, int n_operands)
{
    cm_str program;
    cm_program p;
    cm_dtype to = CM_NO_DTYPE;
    if (!cm_parse_eat_word(s, "then"))
        return n_operands ? CM_PARSE_FAIL(s, "operands after '|' without a program") : CM_OK;
    CM_TRY(cm_parse_quoted(s, &program));
    CM_TRY(cm_program_parse(s->cx, program.p, program.n, &p));
    if (cm_parse_eat_word(s, "to"))
        CM_TRY(cm_parse_dtype(s, &to));
    return cm_node_set_epilogue(s->cx, n, program.p, operands, n_operands, to);
}

static cm_status read_network(cm_parser *s, cm_network *g, scope *outer, int depth);

static cm_status read_subs(cm_parser *s, cm_network *g, scope *sc, cm_node *n, int depth)
{
    cm_network *subs[4];
    int k = 0;
    while (cm_parse_eat_word(s, "do")) {
        if (k == CM_COUNT(subs) || depth >= MAX_DEPTH)
            return CM_PARSE_FAIL(s, "networks are nested too deeply, or too many in one node");
        CM_TRY(cm_network_nested(s->cx, g, n->name, &subs[k]));
        CM_TRY(read_network(s, subs[k++], sc, depth + 1));
        if (!cm_parse_eat_word(s, "end"))
            return CM_PARSE_FAIL(s, "wanted 'end' after a nested network");
    }
    return k ? cm_node_set_subs(s->cx, n, subs, k) : CM_OK;
}

typedef struct {
    const void **v;
    int n, cap;
} pointers;

static cm_status push(cm_parser *s, pointers *l, const void *p)
{
    if (l->n == l->cap) {
        int cap = l->cap ? l->cap * 2 : 8;
        const void **v;
        CM_NEW_N(s->cx, s->arena, v, cap, const void *);
        if (l->n)
            memcpy(v, l->v, (size_t)l->n * sizeof *v);
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = p;
    return CM_OK;
}

/* `names = Op(args) {attributes} from ... do ... end`, the names already read. */
static cm_status read_node(cm_parser *s, cm_network *g, scope *sc, const pointers *names, int depth)
{
    const char *op_name;
    pointers in = {0};
    int own = -1; /* inputs before `|` */
    CM_TRY(cm_parse_name(s, &op_name));
    const cm_op *op = cm_op_find(op_name);
    if (!op)
        return CM_PARSE_FAIL(s, "there is no operator '%s'", op_name);
    CM_TRY(cm_parse_expect(s, '('));
    while (!cm_parse_eat(s, ')')) {
        cm_value *v;
        if (own < 0 && cm_parse_eat(s, '|'))
            own = in.n;
        else if (in.n)
            CM_TRY(cm_parse_expect(s, ','));
        CM_TRY(read_reference(s, sc, &v));
        CM_TRY(push(s, &in, v));
    }
    if (own < 0)
        own = in.n;
    void *attr;
    cm_node *n;
    CM_TRY(read_attributes(s, g, op, &attr));
    CM_TRY(cm_network_add_node(s->cx, g, NULL, op, NULL, attr, (cm_value *const *)in.v, own,
                               (const char *const *)names->v, names->n, &n));
    cm_value *const *rest = in.n > own ? (cm_value *const *)in.v + own : NULL;
    CM_TRY(read_epilogue(s, n, rest, in.n - own));
    CM_TRY(read_from(s, n));
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o])
            CM_TRY(declare(s, sc, names->v[o], n->out[o]));
    return read_subs(s, g, sc, n, depth);
}

static cm_status read_constant(cm_parser *s, cm_network *g, scope *sc)
{
    const char *name;
    const cm_tensor *t;
    cm_value *v;
    CM_TRY(cm_parse_name(s, &name));
    CM_TRY(cm_parse_expect(s, '='));
    CM_TRY(cm_parse_tensor(s, g->dims, &t));
    CM_TRY(cm_network_add_constant(s->cx, g, name, t, &v));
    return declare(s, sc, name, v);
}

/* A line that starts with a name: an input, or the first output of a node. */
static cm_status read_statement(cm_parser *s, cm_network *g, scope *sc, int depth)
{
    pointers names = {0};
    do {
        const char *name = "";
        if (!cm_parse_eat_word(s, "_"))
            CM_TRY(cm_parse_name(s, &name));
        CM_TRY(push(s, &names, name));
        if (names.n == 1 && *name && cm_parse_eat(s, ':')) {
            cm_type t;
            cm_value *v;
            CM_TRY(cm_parse_type(s, g->dims, 0, &t));
            CM_TRY(cm_network_add_input(s->cx, g, name, &t, &v));
            return declare(s, sc, name, v);
        }
    } while (cm_parse_eat(s, ','));
    CM_TRY(cm_parse_expect(s, '='));
    return read_node(s, g, sc, &names, depth);
}

static cm_status read_return(cm_parser *s, cm_network *g, scope *sc)
{
    if (cm_parse_peek(s) == '\n' || cm_parse_peek(s) == 0)
        return CM_OK;
    do {
        cm_value *v;
        cm_str as = {0};
        CM_TRY(read_reference(s, sc, &v));
        if (!v)
            return CM_PARSE_FAIL(s, "an output is missing");
        if (cm_parse_eat_word(s, "as"))
            CM_TRY(cm_parse_quoted(s, &as));
        CM_TRY(cm_network_add_output(s->cx, g, v, as.p));
    } while (cm_parse_eat(s, ','));
    return CM_OK;
}

static cm_status read_network(cm_parser *s, cm_network *g, scope *outer, int depth)
{
    scope sc = {.outer = outer};
    cm_map_init(&sc.names, s->arena);
    for (;;) {
        cm_parse_skip(s, true);
        if (s->p >= s->end)
            return CM_PARSE_FAIL(s, "the text ends without 'return'");
        if (cm_parse_eat_word(s, "return")) {
            CM_TRY(read_return(s, g, &sc));
            cm_parse_skip(s, true);
            return CM_OK;
        }
        CM_TRY(cm_parse_eat(s, '@') ? read_constant(s, g, &sc) : read_statement(s, g, &sc, depth));
        if (cm_parse_peek(s) && *s->p != '\n')
            return CM_PARSE_FAIL(s, "wanted the end of the line, found '%.*s'",
                                 (int)cm_min_i64(s->end - s->p, 12), s->p);
    }
}

cm_status cm_network_parse(cm_ctx *cx, cm_arena *arena, const char *text, size_t n,
                           cm_network **out)
{
    cm_parser s = {.cx = cx, .arena = arena, .p = text, .end = text + n, .line = 1};
    cm_network *g;
    CM_TRY(cm_network_create(cx, arena, "", &g));
    CM_TRY(read_network(&s, g, NULL, 0));
    if (s.p < s.end)
        return CM_PARSE_FAIL(&s, "text follows the last 'return'");
    *out = g;
    return CM_OK;
}
