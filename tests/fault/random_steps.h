/* random_steps.h -- the steps that random networks are made of: single operators, and patterns with one
 * thing changed now and then.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TESTS_FAULT_RANDOM_STEPS_H
#define CM_TESTS_FAULT_RANDOM_STEPS_H

#include "fault/random_patterns.h"

/* ---- Networks in nodes ---------------------------------------------------------------------- */

static cm_value *random_step(maker *m);

static inline cm_network *nested(maker *m)
{
    cm_network *g;
    if (cm_network_nested(m->cx, m->g, "inner", &g) != CM_OK)
        abort();
    return g;
}

/* v after a few steps that keep its type. */
static inline cm_value *same_type_steps(maker *m, cm_value *v)
{
    for (int i = 0, k = 1 + draw(m, 3); i < k; i++) {
        cm_value *y = chance(m, 50) ? OP(m, ONE_OF(m, "Relu", "Tanh", "Neg", "Identity"), "", v)
                                    : OP(m, ONE_OF(m, "Add", "Mul"), "", v, scalar(m, v, 0.5));
                                    if (y && cm_same_shape(y, v))
                                        v = y;
    }
    return v;
}

static inline cm_value *step_if(maker *m)
{
    cm_network *outer = m->g, *subs[2];
    cm_value *v = pick(m, any_float), *c = NULL, *in;
    cm_node *n;
    for (int i = 0; i < m->n && !c; i++)
        if (boolean(m->pool[i]) && cm_rank(m->pool[i]) == 0)
            c = m->pool[i];
    if (!c && chance(m, 50) && cm_make_scalar(m->cx, m->g, NULL, CM_BOOL, draw(m, 2), &c) != CM_OK)
        abort();
    if (!v || !c || m->depth > 1)
        return NULL;
    m->depth++;
    for (int i = 0; i < 2; i++) {
        int before = m->n;
        m->g = subs[i] = nested(m);
        m->g->outer = outer;
        if (chance(m, 40))
            random_step(m);
        in = same_type_steps(m, v);
        if (in == v)
            in = OP(m, "Identity", "", v);
        if (!in || cm_network_add_output(m->cx, m->g, in, NULL) != CM_OK)
            abort();
        m->n = before; /* nothing outside sees inside */
        m->g = outer;
    }
    m->depth--;
    if (cm_network_add_node(m->cx, outer, NULL, cm_op_builtin(CM_OP_IF), NULL, NULL, &c, 1, NULL, 1,
                            &n) != CM_OK ||
        cm_node_set_subs(m->cx, n, subs, 2) != CM_OK || cm_node_infer(m->cx, n) != CM_OK)
        abort();
    return n->out[0];
}

static inline cm_value *step_loop(maker *m)
{
    cm_network *outer = m->g, *body;
    cm_value *v = pick(m, any_float), *i, *go, *x, *y;
    cm_node *n;
    if (cm_rank(v) < 0 || m->depth > 0)
        return NULL;
    int before = m->n;
    cm_type count = cm_type_tensor(CM_I64, 0, NULL), flag = cm_type_tensor(CM_BOOL, 0, NULL);
    cm_value *in[3] = {one_int(m, 1 + draw(m, 3)), NULL, v};
    m->depth++;
    m->g = body = nested(m);
    if (cm_network_add_input(m->cx, body, "i", &count, &i) != CM_OK ||
        cm_network_add_input(m->cx, body, "go", &flag, &go) != CM_OK ||
        cm_network_add_input(m->cx, body, "x", &v->type, &x) != CM_OK)
        abort();
    keep(m, x);
    if (chance(m, 50))
        random_step(m);
    y = same_type_steps(m, x);
    go = OP(m, "Identity", "", go);
    if (cm_network_add_output(m->cx, body, go, NULL) != CM_OK ||
        cm_network_add_output(m->cx, body, y, NULL) != CM_OK)
        abort();
    m->n = before;
    m->g = outer;
    m->depth--;
    if (cm_network_add_node(m->cx, outer, NULL, cm_op_builtin(CM_OP_LOOP), NULL, NULL, in, 3, NULL,
                            1, &n) != CM_OK ||
        cm_node_set_subs(m->cx, n, &body, 1) != CM_OK || cm_node_infer(m->cx, n) != CM_OK)
        abort();
    return n->out[0];
}

/* ---- All of it ------------------------------------------------------------------------------ */

static cm_value *random_step(maker *m)
{
    static cm_value *(*const steps[])(maker *) = {
        step_unary,         step_unary,       step_binary,   step_binary,
        step_binary,        step_where,       step_cast,     step_move,
        step_move,          step_move,        step_shape,    step_reduce,
        step_product,       step_product,     step_conv,     step_conv,
        step_pool,          step_normal,      step_if,       step_loop,
        pattern_layer_norm, pattern_gelu,     pattern_gate,  pattern_softmax,
        pattern_attention,  pattern_residual, pattern_twice, pattern_algebra,
        pattern_quantised,  pattern_norms,    pattern_fused, pattern_axes,
        pattern_axes,       pattern_slices,   pattern_moved, pattern_flat_softmax,
    };
    return keep(m, steps[draw(m, CM_COUNT(steps))](m));
}

static inline void random_inputs(maker *m)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 4, 6, 8};
    static const cm_dtype types[] = {CM_F32, CM_F32, CM_F32, CM_F32, CM_F32, CM_F16, CM_I64};
    m->rank = 1 + draw(m, 4);
    bool symbols = chance(m, 50);
    for (int a = 0; a < m->rank; a++) {
        m->dims[a] = sizes[draw(m, CM_COUNT(sizes))];
        if (symbols && chance(m, a == 0 ? 70 : 20))
            m->dims[a] = cm_dim_symbol(m->g->dims, a == 0 ? "b" : a == 1 ? "s" : "t", CM_DIM_SIZE);
    }
    int n = 1 + draw(m, 3);
    for (int i = 0; i < n; i++) {
        cm_type t = cm_type_tensor(types[draw(m, CM_COUNT(types))], m->rank, m->dims);
        for (int a = 0; i > 0 && a < m->rank; a++)
            if (chance(m, 12))
                t.dims[a] = 1;
        cm_value *v;
        char name[16];
        snprintf(name, sizeof name, "in%d", i);
        if (cm_network_add_input(m->cx, m->g, name, &t, &v) != CM_OK)
            abort();
        keep(m, v);
    }
    if (chance(m, 30)) {
        cm_type t = cm_type_tensor(CM_BOOL, 0, NULL);
        cm_value *v;
        if (cm_network_add_input(m->cx, m->g, "flag", &t, &v) != CM_OK)
            abort();
        keep(m, v);
    }
    m->n_inputs = m->n;
}

/* The network of that seed, typed. */
static inline cm_network *random_network(cm_ctx *cx, cm_arena *arena, uint64_t seed)
{
    maker m = {.cx = cx, .state = seed * 0x632be59bd9b4e019u + 1};
    if (cm_network_create(cx, arena, "random", &m.g) != CM_OK)
        abort();
    random_inputs(&m);
    for (int i = 0, n = 2 + draw(&m, 14); i < n; i++)
        random_step(&m);
    int made = 0;
    for (int i = m.n - 1; i >= m.n_inputs && made < 6; i--)
        if (m.pool[i]->n_uses == 0 ? chance(&m, 85) : chance(&m, 6)) {
            char name[16];
            snprintf(name, sizeof name, "out%d", made++);
            if (cm_network_add_output(cx, m.g, m.pool[i], name) != CM_OK)
                abort();
        }
    if (!made && cm_network_add_output(cx, m.g, m.pool[m.n - 1], "out0") != CM_OK)
        abort();
    return m.g;
}

#endif
