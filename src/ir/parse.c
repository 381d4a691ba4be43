/* parse.c -- text into a network; README.md has the grammar. The text is untrusted: nesting, sizes
 * and counts are bounded, and every mistake is a sentence with its line.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/size.h"
#include "ir/network.h"
#include "ir/text.h"

enum { MAX_DEPTH = 64, MAX_CONSTANT_BYTES = 1 << 28, MAX_LIST = 1 << 16 };

typedef struct {
    cm_ctx *cx;
    cm_arena *arena;
    const char *p, *end;
    int line;
} parser;

/* Names that can be seen from a network: its own, then those of the outer ones. */
typedef struct scope {
    cm_map names;
    struct scope *outer;
} scope;

#define FAIL(s, ...)                                                                               \
    cm_while((s)->cx, cm_fail((s)->cx, CM_ERR_MODEL, __VA_ARGS__), "line %d", (s)->line)

static void skip(parser *s, bool lines)
{
    for (; s->p < s->end; s->p++) {
        if (*s->p == '#' && (s->p + 1 == s->end || s->p[1] == ' ' || s->p[1] == '\n')) {
            while (s->p < s->end && *s->p != '\n')
                s->p++;
            s->p--;
        } else if (*s->p == '\n' && lines) {
            s->line++;
        } else if (*s->p != ' ' && *s->p != '\t' && *s->p != '\r') {
            return;
        }
    }
}

static char peek(parser *s)
{
    skip(s, false);
    return s->p < s->end ? *s->p : 0;
}

static bool eat(parser *s, char c)
{
    if (peek(s) != c)
        return false;
    s->p++;
    return true;
}

static cm_status expect(parser *s, char c)
{
    if (eat(s, c))
        return CM_OK;
    return FAIL(s, "wanted '%c', found '%.*s'", c, (int)cm_min_i64(s->end - s->p, 12), s->p);
}

static bool eat_word(parser *s, const char *word)
{
    skip(s, false);
    size_t n = strlen(word);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return false;
    if (s->p + n < s->end && cm_text_is_name_char(s->p[n]))
        return false;
    s->p += n;
    return true;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static cm_status read_quoted(parser *s, cm_str *out)
{
    CM_TRY(expect(s, '"'));
    const char *line_end = memchr(s->p, '\n', (size_t)(s->end - s->p));
    char *text =
        cm_arena_alloc_n(s->arena, (size_t)((line_end ? line_end : s->end) - s->p) + 1, 1, 1, 1);
    if (!text)
        return cm_fail_memory(s->cx);
    size_t n = 0;
    for (; s->p < s->end && *s->p != '"' && *s->p != '\n'; s->p++) {
        if (*s->p != '\\') {
            text[n++] = *s->p;
        } else if (s->end - s->p > 3 && s->p[1] == 'x' && hex(s->p[2]) >= 0 && hex(s->p[3]) >= 0) {
            text[n++] = (char)(hex(s->p[2]) * 16 + hex(s->p[3]));
            s->p += 3;
        } else if (s->end - s->p > 1 && s->p[1] != '\n') {
            text[n++] = *++s->p;
        }
    }
    if (s->p >= s->end || *s->p != '"')
        return FAIL(s, "a quoted text does not end");
    s->p++;
    *out = (cm_str){text, n};
    return CM_OK;
}

static cm_status read_name(parser *s, const char **out)
{
    if (peek(s) == '"') {
        cm_str q;
        CM_TRY(read_quoted(s, &q));
        if (strlen(q.p) != q.n || !q.n)
            return FAIL(s, "a name is empty or holds a zero byte");
        *out = q.p;
        return CM_OK;
    }
    const char *from = s->p;
    while (s->p < s->end && cm_text_is_name_char(*s->p))
        s->p++;
    if (s->p == from)
        return FAIL(s, "wanted a name, found '%.*s'", (int)cm_min_i64(s->end - s->p, 12), s->p);
    char *copy = cm_arena_strndup(s->arena, from, (size_t)(s->p - from));
    *out = copy;
    return copy ? CM_OK : cm_fail_memory(s->cx);
}

/* Numbers: read into a bounded copy, since the text has no terminator. */
static cm_status number_text(parser *s, char *buf, size_t n)
{
    skip(s, true);
    size_t k = 0;
    while (s->p < s->end && (cm_text_is_name_char(*s->p) || *s->p == '+') && k + 1 < n)
        buf[k++] = *s->p++;
    buf[k] = 0;
    return k ? CM_OK
             : FAIL(s, "wanted a number, found '%.*s'", (int)cm_min_i64(s->end - s->p, 12), s->p);
}

static cm_status read_real(parser *s, double *out)
{
    char buf[64], *end;
    CM_TRY(number_text(s, buf, sizeof buf));
    *out = strtod(buf, &end);
    return *end ? FAIL(s, "'%s' is not a number", buf) : CM_OK;
}

static cm_status read_int(parser *s, int64_t *out)
{
    char buf[64], *end;
    CM_TRY(number_text(s, buf, sizeof buf));
    *out = *buf == '-' ? strtoll(buf, &end, 10) : (int64_t)strtoull(buf, &end, 10);
    return *end ? FAIL(s, "'%s' is not an integer", buf) : CM_OK;
}

/* One dim: up to a comma or bracket outside parentheses. */
static cm_status read_dim(parser *s, cm_dim_table *dims, cm_dim *out)
{
    skip(s, false);
    const char *from = s->p;
    int depth = 0;
    for (; s->p < s->end && *s->p != '\n'; s->p++) {
        depth += (*s->p == '(') - (*s->p == ')');
        if (depth == 0 && (*s->p == ',' || *s->p == ']'))
            break;
    }
    cm_status st = cm_dim_parse(s->cx, dims, from, (size_t)(s->p - from), out);
    return st == CM_OK ? st : cm_while(s->cx, st, "line %d", s->line);
}

static cm_status read_type(parser *s, cm_dim_table *dims, int depth, cm_type *out);

static cm_status read_elem(parser *s, cm_dim_table *dims, int depth, cm_kind kind, cm_type *out)
{
    cm_type *elem;
    CM_NEW(s->cx, s->arena, elem, cm_type);
    CM_TRY(expect(s, '('));
    if (peek(s) == '?') {
        s->p++;
        elem = NULL;
    } else {
        CM_TRY(read_type(s, dims, depth + 1, elem));
    }
    *out = (cm_type){.kind = kind, .elem = elem};
    return expect(s, ')');
}

static cm_status read_dtype(parser *s, cm_dtype *out)
{
    char buf[32];
    skip(s, false);
    size_t k = 0;
    while (s->p < s->end && cm_text_is_name_char(*s->p) && k + 1 < sizeof buf)
        buf[k++] = *s->p++;
    buf[k] = 0;
    return cm_dtype_parse(buf, out) ? CM_OK : FAIL(s, "'%s' is not an element type", buf);
}

static cm_status read_type(parser *s, cm_dim_table *dims, int depth, cm_type *out)
{
    if (depth > 8)
        return FAIL(s, "types are nested too deeply");
    if (eat_word(s, "seq"))
        return read_elem(s, dims, depth, CM_SEQUENCE, out);
    if (eat_word(s, "opt"))
        return read_elem(s, dims, depth, CM_OPTIONAL, out);
    *out = (cm_type){.kind = CM_TENSOR};
    if (eat_word(s, "map")) {
        out->kind = CM_MAP;
        CM_TRY(expect(s, '('));
        CM_TRY(read_dtype(s, &out->key));
        CM_TRY(expect(s, ','));
        CM_TRY(read_dtype(s, &out->dtype));
        return expect(s, ')');
    }
    CM_TRY(read_dtype(s, &out->dtype));
    CM_TRY(expect(s, '['));
    if (eat(s, '*')) {
        out->rank = -1;
        return expect(s, ']');
    }
    while (peek(s) != ']') {
        if (out->rank == CM_MAX_RANK)
            return FAIL(s, "a type has more than %d dims", CM_MAX_RANK);
        if (out->rank)
            CM_TRY(expect(s, ','));
        CM_TRY(read_dim(s, dims, &out->dims[out->rank]));
        out->rank++;
    }
    return expect(s, ']');
}

static cm_status read_element(parser *s, cm_dtype t, void *data, int64_t i)
{
    cm_dtype_kind kind = cm_dtype_get(t)->kind;
    if (kind == CM_KIND_STRING) {
        skip(s, true);
        return read_quoted(s, &((cm_str *)data)[i]);
    }
    if (kind == CM_KIND_COMPLEX) {
        cm_dtype part = t == CM_C64 ? CM_F32 : CM_F64;
        CM_TRY(read_element(s, part, data, 2 * i));
        return read_element(s, part, data, 2 * i + 1);
    }
    if (kind == CM_KIND_FLOAT) {
        double v;
        CM_TRY(read_real(s, &v));
        cm_set_f64(t, data, i, v);
    } else {
        int64_t v;
        CM_TRY(read_int(s, &v));
        cm_set_i64(t, data, i, v);
    }
    return CM_OK;
}

/* Reproducible values between -1 and 1 (integers: 0 to 7), for tests. */
static void fill_random(cm_tensor *t, void *data, uint64_t seed)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0, n = cm_tensor_elems(t); i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (cm_dtype_get(t->dtype)->kind == CM_KIND_FLOAT)
            cm_set_f64(t->dtype, data, i, (double)(int64_t)(x >> 11) / (double)(1LL << 52) - 1.0);
        else
            cm_set_i64(t->dtype, data, i, (int64_t)(x >> 61));
    }
}

static cm_status read_data(parser *s, cm_tensor *t, void *data)
{
    int64_t n = cm_tensor_elems(t);
    if (eat_word(s, "fill")) {
        for (int64_t i = 0; i < n; i++) {
            const char *from = s->p;
            CM_TRY(read_element(s, t->dtype, data, i));
            if (i + 1 < n)
                s->p = from;
        }
        return CM_OK;
    }
    if (eat_word(s, "random") && t->dtype != CM_STR &&
        cm_dtype_get(t->dtype)->kind != CM_KIND_COMPLEX) {
        int64_t seed;
        CM_TRY(read_int(s, &seed));
        fill_random(t, data, (uint64_t)seed);
        return CM_OK;
    }
    CM_TRY(expect(s, '{'));
    for (int64_t i = 0; i < n; i++) {
        if (i)
            CM_TRY(expect(s, ','));
        CM_TRY(read_element(s, t->dtype, data, i));
    }
    return expect(s, '}');
}

static cm_status read_tensor(parser *s, cm_dim_table *dims, const cm_tensor **out)
{
    cm_type type;
    cm_tensor *t;
    CM_TRY(read_type(s, dims, 0, &type));
    CM_NEW(s->cx, s->arena, t, cm_tensor);
    size_t bytes;
    if (type.kind != CM_TENSOR || type.rank < 0 ||
        !cm_tensor_shape(t, type.dtype, type.rank, type.dims) ||
        !cm_mul((size_t)cm_tensor_elems(t), cm_dtype_size(type.dtype), &bytes) ||
        bytes > MAX_CONSTANT_BYTES)
        return FAIL(s, "a constant needs a tensor type with numbers for dims, not too large");
    void *data = cm_arena_alloc_n(s->arena, bytes, 1, 64, 1);
    if (!data)
        return cm_fail_memory(s->cx);
    CM_TRY(read_data(s, t, data));
    t->data = data;
    t->capacity_bytes = bytes;
    if (cm_dtype_is_sub_byte(t->dtype)) {
        int64_t n = cm_tensor_elems(t);
        t->packed = true;
        if (!cm_tensor_bytes(t, &t->capacity_bytes))
            return cm_fail_memory(s->cx);
        t->data = cm_arena_alloc_n(s->arena, t->capacity_bytes, 1, 64, 1);
        if (!t->data)
            return cm_fail_memory(s->cx);
        cm_pack_sub_byte(t->dtype, data, n, t->data);
    }
    *out = t;
    return CM_OK;
}

static cm_value *look_up(const scope *sc, const char *name)
{
    for (; sc; sc = sc->outer) {
        cm_value *v = cm_map_get(&sc->names, name);
        if (v)
            return v;
    }
    return NULL;
}

static cm_status declare(parser *s, scope *sc, const char *name, cm_value *v)
{
    if (cm_map_has(&sc->names, name))
        return FAIL(s, "'%s' is defined twice", name);
    return cm_map_put(&sc->names, name, v) ? CM_OK : cm_fail_memory(s->cx);
}

static cm_status read_reference(parser *s, const scope *sc, cm_value **out)
{
    const char *name;
    *out = NULL;
    if (eat_word(s, "_"))
        return CM_OK;
    eat(s, '@');
    CM_TRY(read_name(s, &name));
    *out = look_up(sc, name);
    return *out ? CM_OK : FAIL(s, "'%s' is not defined before it is used", name);
}

static cm_status read_list(parser *s, const cm_attr_field *f, void *attr, const cm_attr_desc *d)
{
    int64_t n = 0, cap = 8;
    size_t size = f->kind == CM_A_INTS ? 8 : f->kind == CM_A_FLOATS ? 4 : sizeof(cm_str);
    unsigned char *v = cm_arena_alloc_n(s->arena, (size_t)cap, size, 16, 1);
    CM_TRY(expect(s, '['));
    while (v && !eat(s, ']')) {
        if (n)
            CM_TRY(expect(s, ','));
        if (n == MAX_LIST)
            return FAIL(s, "a list is too long");
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
            CM_TRY(read_quoted(s, &((cm_str *)v)[n]));
        } else if (f->kind == CM_A_INTS) {
            CM_TRY(read_int(s, &((int64_t *)v)[n]));
        } else {
            double x;
            CM_TRY(read_real(s, &x));
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

static cm_status read_attribute(parser *s, cm_network *g, const cm_op *op, void *attr)
{
    const char *name;
    CM_TRY(read_name(s, &name));
    const cm_attr_field *f = cm_attr_find(op->attrs, name);
    if (!f)
        return FAIL(s, "%s has no attribute '%s'", op->name, name);
    CM_TRY(expect(s, '='));
    union {
        int64_t i;
        float f;
        cm_str s;
        const void *p;
    } v;
    double x;
    switch (f->kind) {
    case CM_A_INT:
        CM_TRY(read_int(s, &v.i));
        break;
    case CM_A_FLOAT:
        CM_TRY(read_real(s, &x));
        v.f = (float)x;
        break;
    case CM_A_STR:
        CM_TRY(read_quoted(s, &v.s));
        break;
    case CM_A_TENSOR:
        CM_TRY(read_tensor(s, g->dims, (const cm_tensor **)&v.p));
        break;
    case CM_A_TYPE: {
        cm_type *t;
        CM_NEW(s->cx, s->arena, t, cm_type);
        if (!eat_word(s, "type"))
            return FAIL(s, "attribute '%s' wants `type T`", name);
        CM_TRY(read_type(s, g->dims, 0, t));
        v.p = t;
        break;
    }
    default:
        return read_list(s, f, attr, op->attrs);
    }
    cm_attr_set(op->attrs, attr, f, &v);
    return CM_OK;
}

static cm_status read_attributes(parser *s, cm_network *g, const cm_op *op, void **out)
{
    CM_TRY(cm_attr_new(s->cx, s->arena, op->attrs, out));
    if (!eat(s, '{'))
        return CM_OK;
    while (!eat(s, '}')) {
        CM_TRY(read_attribute(s, g, op, *out));
        if (peek(s) != '}')
            CM_TRY(expect(s, ','));
    }
    return CM_OK;
}

static cm_status read_from(parser *s, cm_node *n)
{
    enum { MOST = 256 };
    const char *names[MOST];
    int k = 0;
    if (!eat_word(s, "from"))
        return CM_OK;
    do {
        cm_str q;
        if (k == MOST)
            return FAIL(s, "a node comes from more than %d nodes", MOST);
        CM_TRY(read_quoted(s, &q));
        names[k++] = q.p;
    } while (eat(s, ','));
    n->from = cm_arena_memdup(s->arena, names, (size_t)k * sizeof *names);
    if (!n->from)
        return cm_fail_memory(s->cx);
    n->n_from = k;
    n->name = n->from[0];
    return CM_OK;
}

static cm_status read_epilogue(parser *s, cm_node *n, cm_value *const *operands, int n_operands)
{
    cm_str program;
    cm_program p;
    cm_dtype to = CM_NO_DTYPE;
    if (!eat_word(s, "then"))
        return n_operands ? FAIL(s, "operands after '|' without a program") : CM_OK;
    CM_TRY(read_quoted(s, &program));
    CM_TRY(cm_program_parse(s->cx, program.p, program.n, &p));
    if (eat_word(s, "to"))
        CM_TRY(read_dtype(s, &to));
    return cm_node_set_epilogue(s->cx, n, program.p, operands, n_operands, to);
}

static cm_status read_network(parser *s, cm_network *g, scope *outer, int depth);

static cm_status read_subs(parser *s, cm_network *g, scope *sc, cm_node *n, int depth)
{
    cm_network *subs[4];
    int k = 0;
    while (eat_word(s, "do")) {
        if (k == CM_COUNT(subs) || depth >= MAX_DEPTH)
            return FAIL(s, "networks are nested too deeply, or too many in one node");
        CM_TRY(cm_network_nested(s->cx, g, n->name, &subs[k]));
        CM_TRY(read_network(s, subs[k++], sc, depth + 1));
        if (!eat_word(s, "end"))
            return FAIL(s, "wanted 'end' after a nested network");
    }
    return k ? cm_node_set_subs(s->cx, n, subs, k) : CM_OK;
}

typedef struct {
    const void **v;
    int n, cap;
} pointers;

static cm_status push(parser *s, pointers *l, const void *p)
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
static cm_status read_node(parser *s, cm_network *g, scope *sc, const pointers *names, int depth)
{
    const char *op_name;
    pointers in = {0};
    int own = -1; /* inputs before `|` */
    CM_TRY(read_name(s, &op_name));
    const cm_op *op = cm_op_find(op_name);
    if (!op)
        return FAIL(s, "there is no operator '%s'", op_name);
    CM_TRY(expect(s, '('));
    while (!eat(s, ')')) {
        cm_value *v;
        if (own < 0 && eat(s, '|'))
            own = in.n;
        else if (in.n)
            CM_TRY(expect(s, ','));
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

static cm_status read_constant(parser *s, cm_network *g, scope *sc)
{
    const char *name;
    const cm_tensor *t;
    cm_value *v;
    CM_TRY(read_name(s, &name));
    CM_TRY(expect(s, '='));
    CM_TRY(read_tensor(s, g->dims, &t));
    CM_TRY(cm_network_add_constant(s->cx, g, name, t, &v));
    return declare(s, sc, name, v);
}

/* A line that starts with a name: an input, or the first output of a node. */
static cm_status read_statement(parser *s, cm_network *g, scope *sc, int depth)
{
    pointers names = {0};
    do {
        const char *name = "";
        if (!eat_word(s, "_"))
            CM_TRY(read_name(s, &name));
        CM_TRY(push(s, &names, name));
        if (names.n == 1 && *name && eat(s, ':')) {
            cm_type t;
            cm_value *v;
            CM_TRY(read_type(s, g->dims, 0, &t));
            CM_TRY(cm_network_add_input(s->cx, g, name, &t, &v));
            return declare(s, sc, name, v);
        }
    } while (eat(s, ','));
    CM_TRY(expect(s, '='));
    return read_node(s, g, sc, &names, depth);
}

static cm_status read_return(parser *s, cm_network *g, scope *sc)
{
    if (peek(s) == '\n' || peek(s) == 0)
        return CM_OK;
    do {
        cm_value *v;
        cm_str as = {0};
        CM_TRY(read_reference(s, sc, &v));
        if (!v)
            return FAIL(s, "an output is missing");
        if (eat_word(s, "as"))
            CM_TRY(read_quoted(s, &as));
        CM_TRY(cm_network_add_output(s->cx, g, v, as.p));
    } while (eat(s, ','));
    return CM_OK;
}

static cm_status read_network(parser *s, cm_network *g, scope *outer, int depth)
{
    scope sc = {.outer = outer};
    cm_map_init(&sc.names, s->arena);
    for (;;) {
        skip(s, true);
        if (s->p >= s->end)
            return FAIL(s, "the text ends without 'return'");
        if (eat_word(s, "return")) {
            CM_TRY(read_return(s, g, &sc));
            skip(s, true);
            return CM_OK;
        }
        CM_TRY(eat(s, '@') ? read_constant(s, g, &sc) : read_statement(s, g, &sc, depth));
        if (peek(s) && *s->p != '\n')
            return FAIL(s, "wanted the end of the line, found '%.*s'",
                        (int)cm_min_i64(s->end - s->p, 12), s->p);
    }
}

cm_status cm_network_parse(cm_ctx *cx, cm_arena *arena, const char *text, size_t n,
                           cm_network **out)
{
    parser s = {.cx = cx, .arena = arena, .p = text, .end = text + n, .line = 1};
    cm_network *g;
    CM_TRY(cm_network_create(cx, arena, "", &g));
    CM_TRY(read_network(&s, g, NULL, 0));
    if (s.p < s.end)
        return FAIL(&s, "text follows the last 'return'");
    *out = g;
    return CM_OK;
}
