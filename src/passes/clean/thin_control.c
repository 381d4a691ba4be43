/* thin_control.c -- control nodes without the values that nobody reads.
 *
 *     y, z = If(c) do ... return a, b end do ... return d, e end      z unread
 *  becomes
 *     y = If(c) do ... return a end do ... return d end
 *
 * Outputs of If, Loop, Scan and SequenceMap that nobody reads go, and so do carried values that serve only to
 * compute themselves, and scanned inputs that nobody looks at (one stays: it says how long). The nodes of a
 * body that are dead then go with them.
 *
 * needs: uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ir/clone.h"
#include "ops/control.h"
#include "passes/match.h"

/* Which values of a body are needed. Body input first_in + i is carried from body output first_out + i. */
typedef struct {
    cm_node *node;
    cm_network *body;
    int n_carried, first_in, first_out;
    bool *in;  /* body inputs that are needed */
    bool *out; /* body outputs */
    cm_node **stack;
    int n;
    bool changed;
} liveness;

static void need(liveness *l, cm_value *v)
{
    if (!v || v->network != l->body || v->constant)
        return;
    if (!v->producer) {
        if (!l->in[v->index])
            l->changed = l->in[v->index] = true;
        return;
    }
    if (!v->producer->mark) {
        v->producer->mark = 1;
        l->stack[l->n++] = v->producer;
    }
}

/* What node m of the body, or a node nested in it, reads. */
static void need_inputs(liveness *l, cm_node *m)
{
    for (int i = 0; i < m->n_in; i++)
        need(l, m->in[i]);
    for (int s = 0; s < m->n_subs; s++) {
        CM_FOR_NODES (k, m->subs[s])
            need_inputs(l, k);
        for (int i = 0; i < m->subs[s]->n_outputs; i++)
            need(l, m->subs[s]->outputs[i]);
    }
}

static void spread(liveness *l)
{
    do {
        l->changed = false;
        for (int o = 0; o < l->body->n_outputs; o++)
            if (l->out[o])
                need(l, l->body->outputs[o]);
        while (l->n)
            need_inputs(l, l->stack[--l->n]);
        for (int i = 0; i < l->n_carried; i++)
            if (l->in[l->first_in + i])
                l->out[l->first_out + i] = true;
    } while (l->changed);
}

static bool is_read(const cm_node *n, int o)
{
    return n->out[o] && n->out[o]->n_uses;
}

/* Lists that say something of every scanned input or output, without those that go. */
static cm_status kept_ints(cm_ctx *cx, cm_network *g, cm_ints *list, const bool *keep, int n)
{
    int64_t *v;
    int64_t k = 0;
    CM_NEW_N(cx, g->arena, v, n, int64_t);
    for (int i = 0; i < n && list->n; i++)
        if (keep[i])
            v[k++] = i < list->n ? list->v[i] : 0;
    *list = (cm_ints){k, v};
    return CM_OK;
}

static cm_status thin_attr(cm_rewriter *rw, cm_node *n, const bool *in, const bool *out,
                           void **attr)
{
    cm_network *g = n->network;
    CM_TRY(cm_attr_copy(rw->cx, g->arena, n->op->attrs, n->attr, attr));
    if (n->op->id != CM_OP_SCAN)
        return CM_OK;
    cm_scan_attr *a = *attr;
    int m = (int)a->num_scan_inputs, n_state = n->n_in - m;
    CM_TRY(kept_ints(rw->cx, g, &a->scan_input_axes, in + n_state, m));
    CM_TRY(kept_ints(rw->cx, g, &a->scan_input_directions, in + n_state, m));
    CM_TRY(kept_ints(rw->cx, g, &a->scan_output_axes, out + n_state, n->n_out - n_state));
    CM_TRY(kept_ints(rw->cx, g, &a->scan_output_directions, out + n_state, n->n_out - n_state));
    for (int i = 0; i < m; i++)
        a->num_scan_inputs -= !in[n_state + i];
    return CM_OK;
}

static bool all(const bool *v, int n)
{
    for (int i = 0; i < n; i++)
        if (!v[i])
            return false;
    return true;
}

static cm_status thin(cm_rewriter *rw, cm_node *n, const bool *in, const bool *out,
                      const bool *body_out, bool *stop)
{
    cm_control_parts p = {in, out, body_out, NULL};
    if (all(in, n->n_in) && all(out, n->n_out))
        return CM_OK;
    if (!cm_rewrite(rw, n)) {
        *stop = true;
        return CM_OK;
    }
    CM_TRY(thin_attr(rw, n, in, out, &p.attr));
    return cm_control_thin(rw->cx, n, &p, &n);
}

static cm_status thin_if(cm_rewriter *rw, cm_node *n, bool *stop)
{
    bool *out, in[] = {true};
    CM_NEW_N(rw->cx, rw->cx->scratch, out, n->n_out, bool);
    for (int o = 0; o < n->n_out; o++)
        out[o] = is_read(n, o);
    return thin(rw, n, in, out, out, stop);
}

static void remove_dead(cm_network *body)
{
    for (cm_node *m = body->last, *prev; m; m = prev) {
        prev = m->prev;
        if (!m->mark)
            cm_node_remove(m);
    }
}

static cm_status thin_loop(cm_rewriter *rw, cm_node *n, bool *stop)
{
    cm_ctx *cx = rw->cx;
    cm_network *body = n->subs[0];
    bool loop = n->op->id == CM_OP_LOOP, scan = n->op->id == CM_OP_SCAN, *out;
    int m = scan ? (int)((const cm_scan_attr *)n->attr)->num_scan_inputs : 0;
    liveness l = {.node = n, .body = body};
    l.first_in = loop ? 2 : 0;
    l.first_out = loop ? 1 : 0;
    l.n_carried = loop ? n->n_in - 2 : scan ? n->n_in - m : 0;
    CM_NEW_N(cx, cx->scratch, l.in, body->n_inputs, bool);
    CM_NEW_N(cx, cx->scratch, l.out, body->n_outputs, bool);
    CM_NEW_N(cx, cx->scratch, l.stack, body->n_nodes, cm_node *);
    CM_NEW_N(cx, cx->scratch, out, n->n_out, bool);
    CM_FOR_NODES (k, body)
        k->mark = 0;
    for (int i = 0; i < l.first_in; i++)
        l.in[i] = true;
    for (int o = 0; o < l.first_out; o++)
        l.out[o] = true;
    if (!loop && !scan) /* a map's inputs all stay */
        for (int i = 0; i < n->n_in; i++)
            l.in[i] = true;
    for (int o = 0; o < n->n_out; o++) {
        l.out[l.first_out + o] |= is_read(n, o);
        if (o < l.n_carried && is_read(n, o))
            l.in[l.first_in + o] = true;
    }
    spread(&l);
    bool any = false;
    for (int i = 0; i < m; i++)
        any |= l.in[l.n_carried + i];
    if (m && !any)
        l.in[l.n_carried] = true; /* one stays: it says how long */
    for (int o = 0; o < n->n_out; o++)
        out[o] = o < l.n_carried ? l.in[l.first_in + o] : l.out[l.first_out + o];
    for (int i = 0; i < l.n_carried; i++)
        l.out[l.first_out + i] = l.in[l.first_in + i];
    bool thinner = !all(l.in, n->n_in) || !all(out, n->n_out);
    CM_TRY(thin(rw, n, l.in, out, l.out, stop));
    if (thinner && !*stop)
        remove_dead(body);
    return CM_OK;
}

CM_PASS(thin_control)
{
    bool stop = false;
    CM_FOR_NODES (n, g) {
        bool read = false;
        for (int o = 0; o < n->n_out; o++)
            read |= is_read(n, o);
        if (!read || !n->n_subs)
            continue;
        CM_TRY(n->op->id == CM_OP_IF ? thin_if(rw, n, &stop) : thin_loop(rw, n, &stop));
        if (stop)
            break;
    }
    return CM_OK;
}
