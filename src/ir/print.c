/* print.c -- a network as text; README.md has the grammar.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "ir/network.h"
#include "ir/text.h"

typedef struct {
    cm_buf *out;
    int64_t max_elems;
    int depth;
} printer;

bool cm_text_is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_/.-$", c));
}

static bool is_plain(const char *name)
{
    if (!*name || !strcmp(name, "_") || !strcmp(name, "return") || !strcmp(name, "end") ||
        *name == '-' || (*name >= '0' && *name <= '9') || *name == '.')
        return false;
    for (const char *p = name; *p; p++)
        if (!cm_text_is_name_char(*p))
            return false;
    return true;
}

static void quoted(cm_buf *b, const char *s, size_t n)
{
    cm_buf_str(b, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            cm_buf_printf(b, "\\%c", c);
        else if (c < 32 || c == 127)
            cm_buf_printf(b, "\\x%02x", c);
        else
            cm_buf_u8(b, c);
    }
    cm_buf_str(b, "\"");
}

static void name(cm_buf *b, const char *s)
{
    if (is_plain(s))
        cm_buf_str(b, s);
    else
        quoted(b, s, strlen(s));
}

static void reference(cm_buf *b, const cm_value *v)
{
    if (!v) {
        cm_buf_str(b, "_");
        return;
    }
    if (v->constant)
        cm_buf_str(b, "@");
    name(b, v->name);
}

static void number(cm_buf *b, double v)
{
    if (isnan(v))
        cm_buf_str(b, "nan");
    else if (isinf(v))
        cm_buf_str(b, v > 0 ? "inf" : "-inf");
    else
        cm_buf_printf(b, "%.17g", v);
}

/* A float in the fewest digits that read back as the same float. */
static void short_float(cm_buf *b, float v)
{
    char text[32];
    if (isnan(v) || isinf(v)) {
        number(b, (double)v);
        return;
    }
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)v);
        if (strtof(text, NULL) == v)
            break;
    }
    cm_buf_str(b, text);
}

static void element(cm_buf *b, cm_dtype t, const void *data, int64_t i)
{
    cm_dtype_kind kind = cm_dtype_get(t)->kind;
    if (kind == CM_KIND_STRING)
        quoted(b, ((const cm_str *)data)[i].p, ((const cm_str *)data)[i].n);
    else if (t == CM_U64)
        cm_buf_printf(b, "%" PRIu64, ((const uint64_t *)data)[i]);
    else if (kind == CM_KIND_INT || kind == CM_KIND_UINT || kind == CM_KIND_BOOLEAN)
        cm_buf_printf(b, "%" PRId64, cm_get_i64(t, data, i));
    else if (t == CM_F32)
        short_float(b, ((const float *)data)[i]);
    else if (kind == CM_KIND_FLOAT)
        number(b, cm_get_f64(t, data, i));
}

static void elements(cm_buf *b, const cm_tensor *t, int64_t n)
{
    unsigned char *bytes = NULL;
    const void *data = t->data;
    if (t->packed && n) { /* small: printed constants are bounded */
        bytes = cm_alloc(NULL, (size_t)n, 16);
        if (!bytes) {
            b->failed = true;
            return;
        }
        cm_unpack_sub_byte(t->dtype, t->data, n, bytes);
        data = bytes;
    }
    cm_buf_str(b, "{");
    for (int64_t i = 0; i < n; i++) {
        if (i)
            cm_buf_str(b, ", ");
        if (cm_dtype_get(t->dtype)->kind == CM_KIND_COMPLEX) {
            cm_dtype part = t->dtype == CM_C64 ? CM_F32 : CM_F64;
            element(b, part, data, 2 * i);
            cm_buf_str(b, " ");
            element(b, part, data, 2 * i + 1);
        } else {
            element(b, t->dtype, data, i);
        }
    }
    cm_buf_str(b, "}");
    cm_release(NULL, bytes, (size_t)n);
}

static void tensor(printer *p, const cm_dim_table *dims, const cm_tensor *t)
{
    cm_type type = cm_type_of_tensor(t);
    int64_t n = cm_tensor_elems(t);
    cm_type_print(dims, &type, p->out);
    cm_buf_str(p->out, " ");
    if (n <= p->max_elems) {
        elements(p->out, t, n);
        return;
    }
    uint64_t hash = 0;
    size_t bytes;
    if (t->dtype == CM_STR)
        for (int64_t i = 0; i < n; i++)
            hash = cm_hash_bytes(((cm_str *)t->data)[i].p, ((cm_str *)t->data)[i].n, hash);
    else if (cm_tensor_bytes(t, &bytes))
        hash = cm_hash_bytes(t->data, bytes, 0);
    cm_buf_printf(p->out, "#%016" PRIx64, hash);
}

static void attribute(printer *p, const cm_dim_table *dims, const cm_attr_field *f, const void *v)
{
    cm_buf *b = p->out;
    switch (f->kind) {
    case CM_A_INT:
        cm_buf_printf(b, "%" PRId64, *(const int64_t *)v);
        break;
    case CM_A_FLOAT:
        short_float(b, *(const float *)v);
        break;
    case CM_A_STR:
        quoted(b, ((const cm_str *)v)->p, ((const cm_str *)v)->n);
        break;
    case CM_A_TENSOR:
        tensor(p, dims, *(cm_tensor *const *)v);
        break;
    case CM_A_TYPE:
        cm_buf_str(b, "type ");
        cm_type_print(dims, *(cm_type *const *)v, b);
        break;
    case CM_A_INTS:
    case CM_A_FLOATS:
    case CM_A_STRS: {
        int64_t n = ((const cm_ints *)v)->n;
        cm_buf_str(b, "[");
        for (int64_t i = 0; i < n; i++) {
            if (i)
                cm_buf_str(b, ",");
            if (f->kind == CM_A_INTS)
                cm_buf_printf(b, "%" PRId64, ((const cm_ints *)v)->v[i]);
            else if (f->kind == CM_A_FLOATS)
                short_float(b, ((const cm_floats *)v)->v[i]);
            else
                quoted(b, ((const cm_strs *)v)->v[i].p, ((const cm_strs *)v)->v[i].n);
        }
        cm_buf_str(b, "]");
    }
    }
}

static void attributes(printer *p, const cm_node *n)
{
    const cm_attr_desc *d = n->op->attrs;
    bool any = false;
    for (int i = 0; i < d->n_fields; i++) {
        const cm_attr_field *f = &d->fields[i];
        if (!n->attr || !(*(const uint64_t *)n->attr >> i & 1))
            continue;
        const void *v = cm_attr_get(n->attr, f);
        if ((f->kind == CM_A_TENSOR || f->kind == CM_A_TYPE) && !*(void *const *)v)
            continue;
        cm_buf_str(p->out, any ? ", " : " {");
        any = true;
        cm_buf_printf(p->out, "%s=", f->name);
        attribute(p, n->network->dims, f, v);
    }
    if (any)
        cm_buf_str(p->out, "}");
}

static void provenance(printer *p, const cm_node *n)
{
    if (n->n_from == 1 && !strcmp(n->from[0], n->op->name))
        return; /* a name that parsing makes up again */
    for (int i = 0; i < n->n_from; i++) {
        cm_buf_str(p->out, i ? ", " : " from ");
        quoted(p->out, n->from[i], strlen(n->from[i]));
    }
}

static void epilogue(printer *p, const cm_node *n)
{
    if (!n->epilogue.program)
        return;
    cm_buf_str(p->out, " then ");
    quoted(p->out, n->epilogue.program, strlen(n->epilogue.program));
    if (n->epilogue.to != CM_NO_DTYPE)
        cm_buf_printf(p->out, " to %s", cm_dtype_name(n->epilogue.to));
}

static void indent(printer *p)
{
    for (int i = 0; i < p->depth; i++)
        cm_buf_str(p->out, "  ");
}

static void network(printer *p, const cm_network *g);

static void constant_once(printer *p, const cm_network *g, const cm_value *v, cm_map *seen)
{
    if (!v || !v->constant || v->network != g || cm_map_has(seen, v->name))
        return;
    if (!cm_map_put(seen, v->name, seen))
        p->out->failed = true;
    indent(p);
    reference(p->out, v);
    cm_buf_str(p->out, " = ");
    tensor(p, g->dims, v->constant);
    cm_buf_str(p->out, "\n");
}

/* Constants of g that its own nodes or nested networks read. */
static void constants(printer *p, const cm_network *g, const cm_network *in, cm_map *seen)
{
    CM_FOR_NODES (n, in) {
        for (int i = 0; i < n->n_in; i++)
            constant_once(p, g, n->in[i], seen);
        for (int s = 0; s < n->n_subs; s++)
            constants(p, g, n->subs[s], seen);
    }
    for (int i = 0; i < in->n_outputs; i++)
        constant_once(p, g, in->outputs[i], seen);
}

static void node(printer *p, const cm_node *n)
{
    indent(p);
    for (int o = 0; o < n->n_out; o++) {
        if (o)
            cm_buf_str(p->out, ", ");
        reference(p->out, n->out[o]);
    }
    cm_buf_printf(p->out, " = %s(", n->op->name);
    for (int i = 0; i < n->n_in; i++) {
        if (i == cm_node_own_inputs(n))
            cm_buf_str(p->out, " | ");
        else if (i)
            cm_buf_str(p->out, ", ");
        reference(p->out, n->in[i]);
    }
    cm_buf_str(p->out, ")");
    attributes(p, n);
    epilogue(p, n);
    provenance(p, n);
    for (int s = 0; s < n->n_subs; s++) {
        cm_buf_str(p->out, " do\n");
        p->depth++;
        network(p, n->subs[s]);
        p->depth--;
        indent(p);
        cm_buf_str(p->out, "end");
    }
    cm_buf_str(p->out, "\n");
}

static void network(printer *p, const cm_network *g)
{
    for (int i = 0; i < g->n_inputs; i++) {
        indent(p);
        name(p->out, g->inputs[i]->name);
        cm_buf_str(p->out, ": ");
        cm_type_print(g->dims, &g->inputs[i]->type, p->out);
        cm_buf_str(p->out, "\n");
    }
    cm_arena arena;
    cm_map seen;
    cm_arena_init(&arena, NULL);
    cm_map_init(&seen, &arena);
    constants(p, g, g, &seen);
    cm_arena_deinit(&arena);
    CM_FOR_NODES (n, g)
        node(p, n);
    indent(p);
    cm_buf_str(p->out, "return");
    for (int i = 0; i < g->n_outputs; i++) {
        cm_buf_str(p->out, i ? ", " : " ");
        reference(p->out, g->outputs[i]);
        if (strcmp(g->output_names[i], g->outputs[i]->name) != 0) {
            cm_buf_str(p->out, " as ");
            quoted(p->out, g->output_names[i], strlen(g->output_names[i]));
        }
    }
    cm_buf_str(p->out, "\n");
}

void cm_network_print(const cm_network *g, int64_t max_elems, cm_buf *out)
{
    printer p = {out, max_elems, 0};
    network(&p, g);
}
