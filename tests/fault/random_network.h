/* random_network.h -- a network from a seed: what the optimiser looks for, and what almost looks like it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The same seed gives the same network, node for node. A step that the type rules refuse is given up,
 * so that every network is valid; whether it also runs depends on the sizes of its symbolic dims. */
#ifndef CM_TESTS_FAULT_RANDOM_NETWORK_H
#define CM_TESTS_FAULT_RANDOM_NETWORK_H

#include <stdlib.h>
#include <string.h>

#include "passes/match.h"

enum { POOL = 256 };

typedef struct {
    cm_ctx *cx;
    cm_network *g;
    uint64_t state;
    cm_value *pool[POOL];
    int n;
    int n_inputs; /* of the outermost network, first in the pool */
    int depth;
    cm_dim dims[4];
    int rank; /* of the shape that most inputs share */
} maker;

/* ---- Choosing ------------------------------------------------------------------------------- */

static inline uint64_t draw_bits(uint64_t *s)
{
    uint64_t z = (*s += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static inline int draw(maker *m, int n) /* 0 .. n-1 */
{
    return (int)(draw_bits(&m->state) >> 33) % n;
}
static inline bool chance(maker *m, int percent)
{
    return draw(m, 100) < percent;
}
#define ONE_OF(m, ...)                                                                             \
    ((const char *const[]){                                                                        \
        __VA_ARGS__}[draw(m, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))])

static inline cm_value *keep(maker *m, cm_value *v)
{
    if (v && m->n < POOL)
        m->pool[m->n++] = v;
    return v;
}
/* Something in the middle of a pattern, that others may read now and then. */
static inline cm_value *mid(maker *m, cm_value *v)
{
    return chance(m, 8) ? keep(m, v) : v;
}

typedef bool (*wanted)(const cm_value *v);
static inline bool any_float(const cm_value *v)
{
    return cm_is_float(v) && v->type.rank >= 0;
}
static inline bool f32_only(const cm_value *v)
{
    return v->type.kind == CM_TENSOR && v->type.dtype == CM_F32 && v->type.rank >= 1;
}
static inline bool numeric(const cm_value *v)
{
    return v->type.kind == CM_TENSOR && v->type.rank >= 0 && v->type.dtype != CM_BOOL;
}
static inline bool boolean(const cm_value *v)
{
    return v->type.kind == CM_TENSOR && v->type.dtype == CM_BOOL && v->type.rank >= 0;
}
/* One from the pool, of late ones rather; NULL: none. */
static inline cm_value *pick(maker *m, wanted want)
{
    for (int k = 0; k < 12; k++) {
        int i = chance(m, 60) && m->n > 3 ? m->n - 1 - draw(m, 4) : draw(m, m->n);
        if (want(m->pool[i]))
            return m->pool[i];
    }
    return NULL;
}
/* One that has the type of v, or nearly. */
static inline cm_value *pick_like(maker *m, const cm_value *v)
{
    for (int k = 0; k < 16; k++) {
        cm_value *c = m->pool[draw(m, m->n)];
        if (c->type.kind == CM_TENSOR && c->type.dtype == v->type.dtype &&
            (k > 8 || cm_same_shape(c, v)))
            return c;
    }
    return NULL;
}

/* ---- Making --------------------------------------------------------------------------------- */

static cm_value absent_value;
#define ABSENT (&absent_value)

/* "axis=1 perm=0,2,1 epsilon=1e-5 auto_pad=VALID" */
static inline bool set_attrs(maker *m, const cm_op *op, void *attr, const char *text)
{
    while (*text) {
        char name[64], value[128];
        int used = 0;
        if (sscanf(text, " %63[^=]=%127[^ ]%n", name, value, &used) != 2)
            return true;
        text += used;
        const cm_attr_field *f = cm_attr_find(op->attrs, name);
        if (!f)
            continue; /* not every operator of a kind has it */
        cm_status st = CM_OK;
        int64_t list[16];
        int n = 0;
        switch (f->kind) {
        case CM_A_INT:
            st = cm_attr_put_int(m->cx, op->id, attr, name, atoll(value));
            break;
        case CM_A_FLOAT:
            st = cm_attr_put_float(m->cx, op->id, attr, name, atof(value));
            break;
        case CM_A_STR:
            st = cm_attr_put_string(m->cx, m->g, op->id, attr, name, value);
            break;
        default:
            for (char *p = value; *p && n < 16; p += *p == ',')
                list[n++] = strtoll(p, &p, 10);
            st = cm_attr_put_ints(m->cx, m->g, op->id, attr, name, list, n);
        }
        if (st != CM_OK)
            return false;
    }
    return true;
}

static inline bool makes_empty(const cm_node *n)
{
    for (int o = 0; o < n->n_out; o++)
        for (int a = 0; a < cm_rank(n->out[o]); a++)
            if (n->out[o]->type.dims[a] == 0)
                return true;
    return false;
}

/* A node, typed; NULL when the rules refuse it or an input is NULL. */
static inline cm_node *node(maker *m, const char *op_name, const char *attrs, cm_value **in,
                            int n_in, int n_out)
{
    const cm_op *op = cm_op_find(op_name);
    void *attr;
    cm_value *got[32];
    cm_node *n;
    if (!op || n_in > 32)
        abort();
    for (int i = 0; i < n_in; i++) {
        if (!in[i])
            return NULL;
        got[i] = in[i] == ABSENT ? NULL : in[i];
    }
    if (cm_new_attr(m->cx, m->g, op->id, &attr) != CM_OK || !set_attrs(m, op, attr, attrs) ||
        cm_network_add_node(m->cx, m->g, NULL, op, NULL, attr, got, n_in, NULL, n_out, &n) != CM_OK)
        abort();
    if (cm_node_infer(m->cx, n) == CM_OK && !makes_empty(n))
        return n;
    m->cx->message[0] = 0;
    cm_node_give_up(n);
    return NULL;
}
static inline cm_value *make(maker *m, const char *op, const char *attrs, cm_value **in, int n_in)
{
    cm_node *n = node(m, op, attrs, in, n_in, 1);
    return n ? n->out[0] : NULL;
}
#define OP(m, op, attrs, ...)                                                                      \
    make(m, op, attrs, (cm_value *[]){__VA_ARGS__},                                                \
         (int)(sizeof((cm_value *[]){__VA_ARGS__}) / sizeof(cm_value *)))
static inline cm_value *text_op(maker *m, const char *op, cm_value *x, const char *fmt, int a)
{
    char attrs[64];
    snprintf(attrs, sizeof attrs, fmt, a);
    return OP(m, op, attrs, x);
}

static inline cm_value *scalar(maker *m, const cm_value *like, double v)
{
    cm_value *c = NULL;
    if (!like)
        return NULL;
    int64_t one[4] = {1, 1, 1, 1};
    if (cm_make_const_f64(m->cx, m->g, NULL, like->type.dtype, chance(m, 80) ? 0 : draw(m, 3), one,
                          &v, &c) != CM_OK)
        abort();
    return c;
}
static inline cm_value *ints(maker *m, int n, const int64_t *v)
{
    cm_value *c = NULL;
    int64_t dim = n;
    if (cm_make_const_i64(m->cx, m->g, NULL, 1, &dim, v, &c) != CM_OK)
        abort();
    return c;
}
#define INTS(m, ...)                                                                               \
    ints(m, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
static inline cm_value *one_int(maker *m, int64_t v)
{
    cm_value *c = NULL;
    if (cm_make_const_i64(m->cx, m->g, NULL, 0, NULL, &v, &c) != CM_OK)
        abort();
    return c;
}
/* Weights: small random numbers, sometimes all the same. */
static inline cm_value *weight(maker *m, cm_dtype t, int rank, const int64_t *dims)
{
    double v[4096];
    int64_t n = cm_dims_product(dims, 0, rank);
    cm_value *c = NULL;
    if (n > 4096)
        return NULL;
    bool same = chance(m, 5);
    for (int64_t i = 0; i < n; i++)
        v[i] = same && i ? v[0] : (draw(m, 2001) - 1000) / 1000.0;
    if (cm_make_const_f64(m->cx, m->g, NULL, t, rank, dims, v, &c) != CM_OK)
        abort();
    return c;
}
#define WEIGHT(m, t, ...)                                                                          \
    weight(m, t, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                        \
           (int64_t[]){__VA_ARGS__})

/* The size of axis a (from the end when negative) when it is a number over 0, else 0. */
static inline int64_t size_of(const cm_value *v, int a)
{
    if (!v || v->type.rank < 0)
        return 0;
    a = a < 0 ? a + v->type.rank : a;
    return a >= 0 && a < v->type.rank && v->type.dims[a] > 0 && v->type.dims[a] < 64
               ? v->type.dims[a]
               : 0;
}
/* A constant that x may be combined with: a scalar, a vector along one axis, the whole shape. */
static inline cm_value *constant_for(maker *m, const cm_value *x)
{
    static const double numbers[] = {0, 1, -1, 2, 0.5, 3, 1e-5, 0.044715, 1.702};
    int64_t dims[8];
    int r = cm_rank(x);
    if (r <= 0 || r > 6 || chance(m, 40))
        return scalar(m, x, numbers[draw(m, CM_COUNT(numbers))]);
    int axis = chance(m, 60) ? r - 1 : draw(m, r);
    for (int a = 0; a < r; a++)
        dims[a] = a == axis || chance(m, 10) ? size_of(x, a) : 1;
    for (int a = 0; a < r; a++)
        if (!dims[a])
            return scalar(m, x, 2);
    int skip = chance(m, 70) ? axis : 0;
    for (int a = 0; a < skip; a++)
        if (dims[a] != 1)
            skip = a;
    return weight(m, x->type.dtype, r - skip, dims + skip);
}
/* Either order. */
static inline cm_value *commute(maker *m, const char *op, cm_value *a, cm_value *b)
{
    return chance(m, 70) ? OP(m, op, "", a, b) : OP(m, op, "", b, a);
}

#endif
