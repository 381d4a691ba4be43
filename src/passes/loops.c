/* loops.c -- how often a loop runs, and its body copied that often.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/loops.h"

#include "ir/clone.h"
#include "ops/control.h"

bool cm_known_condition(const cm_value *v, bool *out)
{
    int64_t x;
    int k;
    double d;
    if (cm_is_const(v) && cm_volume(v) == 1 && cm_splat(v, &d)) {
        *out = d != 0;
        return true;
    }
    if (!v || !cm_const_ints(v, &x, 1, &k) || k != 1)
        return false;
    *out = x != 0;
    return true;
}

/* The condition that the body hands on: known, or the one it was given. */
static bool known_next(const cm_network *body, bool *out)
{
    if (body->outputs[0] == body->inputs[1]) {
        *out = true; /* it ran, so it was true */
        return true;
    }
    return cm_known_condition(body->outputs[0], out);
}

bool cm_loop_trips(const cm_node *n, int64_t *trips)
{
    int64_t most = INT64_MAX;
    int k;
    bool first = true, next;
    bool bounded = n->in[0] && cm_const_ints(n->in[0], &most, 1, &k) && k == 1;
    if (bounded && most <= 0) {
        *trips = 0;
        return true;
    }
    if (n->in[1] && !cm_known_condition(n->in[1], &first))
        return false;
    if (!first) {
        *trips = 0;
        return true;
    }
    if (n->in[0] && !bounded)
        return false; /* may be 0 */
    if (most > 1 && !known_next(n->subs[0], &next))
        return false;
    *trips = most > 1 && !next ? 1 : most;
    return *trips != INT64_MAX;
}

bool cm_scan_trips(const cm_node *n, int64_t *trips)
{
    const cm_scan_attr *a = n->attr;
    int n_state = n->n_in - (int)a->num_scan_inputs;
    const cm_value *x = n->in[n_state];
    int64_t axis = a->scan_input_axes.n ? a->scan_input_axes.v[0] : 0;
    if (cm_rank(x) < 1)
        return false;
    *trips = x->type.dims[axis < 0 ? axis + x->type.rank : axis];
    return *trips >= 0;
}

cm_status cm_infer_all(cm_rewriter *rw, cm_network *g)
{
    while (g->outer)
        g = g->outer;
    return cm_network_infer(rw->cx, g);
}

/* ---- What unrolling makes ------------------------------------------------------------------- */

enum { FOLDED = 1 }; /* mark of a node of a body: its copies are constants */

/* Is v, in or around `body`, known in every copy? */
static bool is_folded(const cm_value *v, const cm_network *body, uint64_t known)
{
    if (!v || v->constant)
        return true;
    for (int i = 0; i < body->n_inputs; i++)
        if (body->inputs[i] == v)
            return i > 63 || known >> i & 1;
    return v->producer && v->producer->network == body && v->producer->mark == FOLDED;
}

/* Marks the nodes of the body whose copies are constants, given which of its inputs are. */
static void mark_folded(cm_network *body, uint64_t known)
{
    CM_FOR_NODES (m, body) {
        bool all = m->op->traits & CM_PURE && !m->n_subs;
        for (int i = 0; i < m->n_in && all; i++)
            all = is_folded(m->in[i], body, known);
        m->mark = all ? FOLDED : 0;
    }
}

/* Which of the body's inputs are constants in every copy: `known`, less carried ones that the body makes something else
 * of. Output `shift` + i is carried to input i. */
static uint64_t settle(cm_network *body, int first, int n_state, int shift, uint64_t known)
{
    for (;;) {
        uint64_t before = known;
        mark_folded(body, known);
        for (int i = 0; i < n_state && first + i < 64; i++)
            if (!is_folded(body->outputs[shift + i], body, known))
                known &= ~(1ull << (first + i));
        if (known == before)
            return known;
    }
}

int64_t cm_unrolled_nodes(const cm_node *n, int64_t trips)
{
    cm_network *body = n->subs[0];
    bool loop = n->op->id == CM_OP_LOOP;
    int scanned = loop ? 0 : (int)((const cm_scan_attr *)n->attr)->num_scan_inputs;
    int given = loop ? 2 : 0, shift = loop ? 1 : 0; /* iteration, condition; condition */
    int n_state = n->n_in - given - scanned;
    int64_t each = 0, pointwise = 0, once = 0;
    uint64_t known = loop ? 3 : 0;
    for (int i = given; i < n->n_in && i < 64; i++)
        known |= (uint64_t)cm_is_const(n->in[i]) << i;
    known = settle(body, given, n_state, shift, known);
    for (int i = n_state; i < n->n_in && !loop; i++)
        each += !cm_is_const(n->in[i]); /* a slice */
    CM_FOR_NODES (m, body) {
        bool light = m->op->traits & CM_ELTWISE;
        pointwise += light && m->mark != FOLDED;
        each += !light && m->mark != FOLDED;
    }
    for (int o = n_state; o < n->n_out; o++)
        if (n->out[o] && n->out[o]->n_uses && !is_folded(body->outputs[shift + o], body, known)) {
            /* stacked: each made a slice, then put together */
            each += 1 + (pointwise > 0);
            once++;
        }
    each += each > 0 && pointwise > 0;
    return trips * each + once + (each == 0 && pointwise > 0);
}

/* ---- Stacking ------------------------------------------------------------------------------- */

/* One axis more in front of each, and side by side along it. */
static cm_status stack(cm_rewriter *rw, cm_node *n, cm_value **each, int64_t trips, int64_t axis,
                       cm_value **out)
{
    cm_value *axes;
    cm_node *m;
    void *attr;
    int64_t one = 1;
    CM_TRY(cm_make_const_i64(rw->cx, n->network, "axes", 1, &one, &axis, &axes));
    for (int64_t t = 0; t < trips; t++) {
        CM_TRY(cm_make(rw, n, CM_OP_UNSQUEEZE, n, (cm_value *[]){each[t], axes}, 2, 1, &m));
        each[t] = m->out[0];
    }
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_CONCAT, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_CONCAT, attr, "axis", axis));
    CM_TRY(cm_make_with(rw, n, CM_OP_CONCAT, attr, n, each, (int)trips, 1, &m));
    *out = m->out[0];
    return CM_OK;
}

/* What a loop that never runs hands out for a stacked output. */
static cm_status empty_stack(cm_rewriter *rw, const cm_node *n, const cm_type *each, cm_value **out)
{
    int64_t dims[CM_MAX_RANK] = {0};
    double none = 0;
    for (int i = 0; i < each->rank; i++)
        dims[i + 1] = each->dims[i];
    return cm_make_const_f64(rw->cx, n->network, "empty", each->dtype, each->rank + 1, dims, &none,
                             out);
}

static bool read(const cm_node *n, int o)
{
    return n->out[o] && n->out[o]->n_uses;
}

/* Values of the carried (`state`) and, per trip, of the stacked outputs; then they replace n's. */
typedef struct {
    int n_state, n_stacked;
    cm_value **state;    /* n_state */
    cm_value ***stacked; /* n_stacked lists of `trips` */
} results;

static cm_status begin(cm_rewriter *rw, const cm_node *n, int n_state, int64_t trips,
                       cm_value *const *first, results *r)
{
    cm_ctx *cx = rw->cx;
    *r = (results){.n_state = n_state, .n_stacked = n->n_out - n_state};
    CM_NEW_N(cx, cx->scratch, r->state, n_state, cm_value *);
    CM_NEW_N(cx, cx->scratch, r->stacked, r->n_stacked, cm_value **);
    for (int i = 0; i < n_state; i++)
        r->state[i] = first[i];
    for (int k = 0; k < r->n_stacked; k++)
        CM_NEW_N(cx, cx->scratch, r->stacked[k], trips, cm_value *);
    return CM_OK;
}

static cm_status replace(cm_rewriter *rw, cm_node *n, cm_network *body, int body_out,
                         const results *r, int64_t trips, const cm_ints *axes)
{
    for (int i = 0; i < r->n_state; i++)
        if (read(n, i))
            CM_TRY(cm_replace_uses(rw->cx, n->out[i], r->state[i]));
    for (int k = 0; k < r->n_stacked; k++) {
        int o = r->n_state + k;
        cm_value *v;
        if (!read(n, o))
            continue;
        if (trips)
            CM_TRY(stack(rw, n, r->stacked[k], trips, axes && k < axes->n ? axes->v[k] : 0, &v));
        else
            CM_TRY(empty_stack(rw, n, &body->outputs[body_out + o]->type, &v));
        CM_TRY(cm_replace_uses(rw->cx, n->out[o], v));
    }
    cm_node_remove(n);
    return CM_OK;
}

/* ---- Unrolling ------------------------------------------------------------------------------ */

static cm_status scalar_i64(cm_rewriter *rw, cm_network *g, const char *name, int64_t v,
                            cm_value **out)
{
    return cm_make_const_i64(rw->cx, g, name, 0, NULL, &v, out);
}

cm_status cm_loop_unroll(cm_rewriter *rw, cm_node *n, int64_t trips)
{
    cm_ctx *cx = rw->cx;
    cm_network *body = n->subs[0];
    cm_value **args, **outs;
    results r;
    CM_TRY(begin(rw, n, n->n_in - 2, trips, n->in + 2, &r));
    CM_NEW_N(cx, cx->scratch, args, body->n_inputs, cm_value *);
    CM_NEW_N(cx, cx->scratch, outs, body->n_outputs, cm_value *);
    for (int64_t t = 0; t < trips; t++) {
        CM_TRY(scalar_i64(rw, n->network, "trip", t, &args[0]));
        CM_TRY(cm_make_scalar(cx, n->network, "go_on", CM_BOOL, 1, &args[1]));
        for (int i = 0; i < r.n_state; i++)
            args[2 + i] = r.state[i];
        CM_TRY(cm_network_inline(cx, n->network, body, args, n, outs));
        for (int i = 0; i < r.n_state; i++)
            r.state[i] = outs[1 + i];
        for (int k = 0; k < r.n_stacked; k++)
            r.stacked[k][t] = outs[1 + r.n_state + k];
    }
    return replace(rw, n, body, 1, &r, trips, NULL);
}

/* Slice t of scanned input i. */
static cm_status scanned(cm_rewriter *rw, cm_node *n, int i, cm_value *x, int64_t t, int64_t trips,
                         cm_value **out)
{
    const cm_scan_attr *a = n->attr;
    bool backward = i < a->scan_input_directions.n && a->scan_input_directions.v[i];
    cm_value *at;
    void *attr;
    cm_node *m;
    CM_TRY(scalar_i64(rw, n->network, "step", backward ? trips - 1 - t : t, &at));
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_GATHER, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_GATHER, attr, "axis",
                           i < a->scan_input_axes.n ? a->scan_input_axes.v[i] : 0));
    CM_TRY(cm_make_with(rw, n, CM_OP_GATHER, attr, n, (cm_value *[]){x, at}, 2, 1, &m));
    *out = m->out[0];
    return CM_OK;
}

cm_status cm_scan_unroll(cm_rewriter *rw, cm_node *n, int64_t trips)
{
    cm_ctx *cx = rw->cx;
    const cm_scan_attr *a = n->attr;
    cm_network *body = n->subs[0];
    int m = (int)a->num_scan_inputs;
    cm_value **args, **outs;
    results r;
    CM_TRY(begin(rw, n, n->n_in - m, trips, n->in, &r));
    CM_NEW_N(cx, cx->scratch, args, body->n_inputs, cm_value *);
    CM_NEW_N(cx, cx->scratch, outs, body->n_outputs, cm_value *);
    for (int64_t t = 0; t < trips; t++) {
        for (int i = 0; i < r.n_state; i++)
            args[i] = r.state[i];
        for (int i = 0; i < m; i++)
            CM_TRY(scanned(rw, n, i, n->in[r.n_state + i], t, trips, &args[r.n_state + i]));
        CM_TRY(cm_network_inline(cx, n->network, body, args, n, outs));
        for (int i = 0; i < r.n_state; i++)
            r.state[i] = outs[i];
        for (int k = 0; k < r.n_stacked; k++) {
            bool backward = k < a->scan_output_directions.n && a->scan_output_directions.v[k];
            r.stacked[k][backward ? trips - 1 - t : t] = outs[r.n_state + k];
        }
    }
    return replace(rw, n, body, 0, &r, trips, &a->scan_output_axes);
}
