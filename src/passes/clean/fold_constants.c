/* fold_constants.c -- compute early what depends on constants only.
 *
 *     y = Transpose(@w)
 *  becomes
 *     @y
 *
 * A pure node whose inputs are all constants, or whose outputs' elements are tracked as numbers (shape
 * arithmetic on static shapes), is evaluated now by its reference. Size-aware: a result that is larger than
 * what it is made from by more than GROWTH bytes stays a node, so that a plan is not inflated to save
 * nothing (an Expand of a scalar costs less to run than to load). Arithmetic on such large values is done when the
 * first node is met that cannot be folded: weights made by a formula become weights, what was between is forgotten.
 * So do weights that are stored in fewer bits, where only products and convolutions read them.
 * A large matrix that others read as it is (an embedding that the last product reads transposed) is not kept both ways:
 * products take it as it is (absorb_transpose). Where a size became a number by it, all types are inferred anew and it is
 * done again: shapes that are computed from that size are numbers too.
 *
 * needs: types, tracked elements    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "ops/eval.h"
#include "passes/folding.h"
#include "passes/loops.h"
#include "passes/product.h"

enum { GROWTH = 1 << 16 };

/* A large value that is known but not written down. */
typedef struct {
    cm_node *node;
    bool computes; /* more than repetition went into it */
    bool needed;
    cm_datum *out; /* while something made from it is computed */
} late_node;

typedef struct {
    late_node *v; /* in the network's order; node->mark - 1 is the index */
    int n;
} late_list;

cm_status cm_fold_give(void *user, cm_ctx *cx, int output, cm_tensor *t)
{
    cm_arena *arena = user;
    size_t bytes;
    (void)output;
    if (!cm_tensor_bytes(t, &bytes))
        return cm_fail(cx, CM_ERR_DATA, "a constant would be too large");
    t->data = cm_arena_alloc_n(arena, bytes, 1, 64, 0);
    t->capacity_bytes = bytes;
    return t->data ? CM_OK : cm_fail_memory(cx);
}

static size_t constant_bytes(const cm_value *v)
{
    size_t bytes = 0;
    return v && v->constant && cm_tensor_bytes(v->constant, &bytes) ? bytes : 0;
}

/* Bytes of the outputs when the types say, else SIZE_MAX. */
static size_t result_bytes(const cm_node *n)
{
    size_t sum = 0;
    for (int o = 0; o < n->n_out; o++) {
        size_t bytes;
        if (!n->out[o] || !n->out[o]->n_uses)
            continue;
        int64_t elems = cm_volume(n->out[o]);
        if (elems < 0 || !cm_dtype_bytes(n->out[o]->type.dtype, elems, &bytes))
            return SIZE_MAX;
        sum += bytes;
    }
    return sum;
}

static bool is_read(const cm_node *n)
{
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o] && n->out[o]->n_uses)
            return true;
    return false;
}

/* Weights of a node that computes on quantised values, and is a matrix product or has a result that is quantised: they
 * stay integers, so that the group stays whole. */
static bool is_quantised_weight(const cm_node *n)
{
    cm_node *reader = cm_is(n, CM_OP_DEQUANTIZE_LINEAR) ? cm_only_reader(n->out[0]) : NULL;
    if (!reader || reader->n_out != 1)
        return false;
    bool among = false;
    for (int i = 0; i < reader->n_in; i++) {
        const cm_node *d = cm_made_by(reader->in[i], CM_OP_DEQUANTIZE_LINEAR);
        among = among || (d && d != n && !d->in[0]->constant);
    }
    if (among && (cm_is(reader, CM_OP_MATMUL) || cm_is(reader, CM_OP_GEMM)))
        return true;
    for (const cm_use *u = reader->out[0]->uses; among && u; u = u->next)
        if (u->node && (cm_is(u->node, CM_OP_QUANTIZE_LINEAR) || cm_is(u->node, CM_OP_RELU) ||
                        cm_is(u->node, CM_OP_CLIP)))
            return true;
    return false;
}

/* A large matrix that products read transposed, and others as it is. */
static bool is_tied_weight(const cm_node *n)
{
    if (!cm_is(n, CM_OP_TRANSPOSE) || cm_rank(n->in[0]) != 2 || !cm_is_shared_weight(n->in[0]) ||
        !cm_only_products_read(n->out[0]))
        return false;
    for (const cm_use *u = n->out[0]->uses; u; u = u->next)
        if (u->node->in[0] == n->out[0])
            return false;
    return true;
}

static bool can_fold(const cm_node *n, bool keep_quantised)
{
    if (!(n->op->traits & CM_PURE) || !n->op->family->eval ||
        (keep_quantised && is_quantised_weight(n)) || is_tied_weight(n))
        return false;
    size_t from = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] && !n->in[i]->constant)
            return false;
        from += constant_bytes(n->in[i]);
    }
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o] && n->out[o]->n_uses && n->out[o]->type.kind != CM_TENSOR)
            return false;
    size_t to = result_bytes(n);
    return to != SIZE_MAX ? to <= from + GROWTH : from <= GROWTH;
}

/* Strings that an evaluator wrote are borrowed: make them the network's. */
static cm_status own_strings(cm_ctx *cx, cm_network *g, cm_tensor *t)
{
    if (t->dtype != CM_STR)
        return CM_OK;
    cm_str *s = t->data;
    for (int64_t i = 0, n = cm_tensor_elems(t); i < n; i++) {
        s[i].p = cm_arena_strndup(g->arena, s[i].p, s[i].n);
        if (!s[i].p)
            return cm_fail_memory(cx);
    }
    return CM_OK;
}

static late_node *late_of(const late_list *late, const cm_value *v, const cm_network *g)
{
    const cm_node *p = v->producer;
    return p && p->network == g && p->mark ? &late->v[p->mark - 1] : NULL;
}

/* Evaluate, results in `arena`; CM_ERR_DATA (an index out of range) leaves the node for run time to complain
 * about. */
static cm_status evaluate(cm_rewriter *rw, cm_node *n, const late_list *late, cm_arena *arena,
                          cm_datum *out)
{
    cm_ctx *cx = rw->cx;
    cm_datum *in, **outs;
    const cm_datum **ins;
    uint64_t unused = 0;
    CM_NEW_N(cx, cx->scratch, in, n->n_in, cm_datum);
    CM_NEW_N(cx, cx->scratch, ins, n->n_in, const cm_datum *);
    CM_NEW_N(cx, cx->scratch, outs, n->n_out, cm_datum *);
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i])
            continue;
        if (n->in[i]->constant)
            in[i] = (cm_datum){.kind = CM_TENSOR, .tensor = *n->in[i]->constant};
        else
            in[i] = *late_of(late, n->in[i], n->network)->out;
        ins[i] = &in[i];
    }
    for (int o = 0; o < n->n_out; o++)
        outs[o] = n->out[o] ? &out[o] : NULL;
    cm_eval_host host = {cm_fold_give, arena};
    cm_eval e = {.cx = cx,
                 .op = n->op,
                 .attr = n->attr,
                 .n_in = n->n_in,
                 .in = ins,
                 .n_out = n->n_out,
                 .out = outs,
                 .random = &unused,
                 .host = &host,
                 .epilogue = &n->epilogue};
    return cm_op_eval(&e);
}

static cm_status put_constant(cm_rewriter *rw, cm_node *n, int o, const cm_tensor *t)
{
    cm_network *g = n->network;
    cm_tensor *copy = cm_arena_memdup(g->arena, t, sizeof *t);
    cm_value *v;
    if (!copy)
        return cm_fail_memory(rw->cx);
    CM_TRY(own_strings(rw->cx, g, copy));
    CM_TRY(cm_network_add_constant(rw->cx, g, n->out[o]->name, copy, &v));
    return cm_replace_uses(rw->cx, n->out[o], v);
}

static cm_status fold(cm_rewriter *rw, cm_node *n)
{
    cm_datum *out;
    CM_NEW_N(rw->cx, rw->cx->scratch, out, n->n_out, cm_datum);
    cm_status st = evaluate(rw, n, NULL, n->network->arena, out);
    if (st == CM_ERR_DATA) {
        rw->cx->message[0] = 0;
        return CM_OK;
    }
    CM_TRY(st);
    if (!cm_rewrite(rw, n))
        return CM_OK;
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o] && n->out[o]->n_uses && out[o].kind == CM_TENSOR)
            CM_TRY(put_constant(rw, n, o, &out[o].tensor));
    return CM_OK;
}

/* Shape arithmetic whose result is known though its inputs are not constants. */
static cm_status fold_tracked(cm_rewriter *rw, cm_node *n)
{
    for (int o = 0; o < n->n_out; o++) {
        cm_value *v = n->out[o], *c;
        int64_t elems[64], dims[1];
        int k;
        cm_tensor *t;
        if (!v || !v->n_uses || !v->elems || !cm_const_ints(v, elems, CM_COUNT(elems), &k) ||
            v->type.rank > 1 || (n->op->traits & CM_RANDOM))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        dims[0] = k;
        CM_NEW(rw->cx, n->network->arena, t, cm_tensor);
        size_t bytes;
        if (!cm_tensor_shape(t, v->type.dtype, v->type.rank, dims) || !cm_tensor_bytes(t, &bytes))
            return cm_fail(rw->cx, CM_ERR_INTERNAL, "tracked elements of '%s' do not fit it",
                           v->name);
        CM_TRY(cm_fold_give(n->network->arena, rw->cx, o, t));
        cm_store_i64(t->dtype, elems, k, t->data);
        CM_TRY(cm_network_add_constant(rw->cx, n->network, v->name, t, &c));
        CM_TRY(cm_replace_uses(rw->cx, v, c));
    }
    return CM_OK;
}

/* Sizes and elements of n's outputs that are numbers. */
static int64_t numbers_known(const cm_node *n)
{
    int64_t known = 0;
    for (int o = 0; o < n->n_out; o++) {
        const cm_value *v = n->out[o];
        for (int i = 0; v && i < v->type.rank; i++)
            known += cm_dim_is_size(v->type.dims[i]);
        for (int i = 0; v && v->elems && i < v->n_elems; i++)
            known += cm_dim_is_size(v->elems[i]);
    }
    return known;
}

/* A node whose inputs became constants may know more about its outputs. */
static cm_status infer_again(cm_rewriter *rw, cm_node *n, bool *learned)
{
    bool fresh = false;
    for (int i = 0; i < n->n_in; i++)
        fresh |= n->in[i] && n->in[i]->constant;
    if (!fresh)
        return CM_OK;
    int64_t before = numbers_known(n);
    CM_TRY(cm_node_infer(rw->cx, n));
    *learned |= numbers_known(n) > before;
    return CM_OK;
}

/* ---- Large values --------------------------------------------------------------------------- */

/* Weights that were stored in fewer bits: products would have them dequantised in every run, in as much memory. */
static bool makes_weights(const cm_node *n)
{
    if (!cm_is(n, CM_OP_DEQUANTIZE_LINEAR))
        return false;
    for (const cm_use *u = n->out[0]->uses; u; u = u->next)
        if (!cm_is(u->node, CM_OP_MATMUL) && !cm_is(u->node, CM_OP_GEMM) &&
            !cm_is(u->node, CM_OP_CONV) && !cm_is(u->node, CM_OP_CONV_TRANSPOSE))
            return false;
    return true;
}

/* Note n as known when all it reads is. */
static void note_late(late_list *late, cm_node *n)
{
    enum { MOST_BYTES = 1 << 30 };
    bool computes = (n->op->traits & CM_ELTWISE) || makes_weights(n);
    if (!(n->op->traits & CM_PURE) || !n->op->family->eval || n->n_subs || n->n_out != 1 ||
        n->out[0]->type.kind != CM_TENSOR || n->out[0]->type.dtype == CM_STR ||
        result_bytes(n) > MOST_BYTES || is_quantised_weight(n))
        return;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i] || n->in[i]->constant)
            continue;
        const late_node *l = late_of(late, n->in[i], n->network);
        if (!l)
            return;
        computes = computes || l->computes;
    }
    late->v[late->n++] = (late_node){.node = n, .computes = computes};
    n->mark = (uint32_t)late->n;
}

/* Flag what entry `at` is made from; returns the first of them. */
static int flag_needed(const late_list *late, int at)
{
    int first = at;
    late->v[at].needed = true;
    for (int k = at; k >= first; k--) {
        cm_node *n = late->v[k].node;
        for (int i = 0; late->v[k].needed && i < n->n_in; i++) {
            late_node *l = n->in[i] ? late_of(late, n->in[i], n->network) : NULL;
            if (!l)
                continue;
            l->needed = true;
            first = l - late->v < first ? (int)(l - late->v) : first;
        }
    }
    return first;
}

static cm_status compute(cm_rewriter *rw, const late_list *late, int at, cm_arena *between)
{
    cm_status st = CM_OK;
    for (int k = flag_needed(late, at); k <= at; k++) {
        late_node *l = &late->v[k];
        if (!l->needed)
            continue;
        l->needed = false;
        if (st == CM_OK)
            st = cm_check_cancel(rw->cx);
        l->out = cm_new(between, cm_datum);
        if (st == CM_OK && !l->out)
            st = cm_fail_memory(rw->cx);
        if (st == CM_OK)
            st = evaluate(rw, l->node, late, k == at ? l->node->network->arena : between, l->out);
    }
    return st;
}

/* n cannot be folded and reads a large value that was computed: write that down. */
static cm_status settle(cm_rewriter *rw, const late_list *late, cm_value *v)
{
    cm_node *n = v->producer;
    cm_arena between;
    cm_datum out = {CM_NOTHING};
    int at = (int)n->mark - 1;
    if (!cm_rewrite(rw, n))
        return CM_OK;
    cm_arena_init(&between, NULL);
    cm_status st = compute(rw, late, at, &between);
    if (st == CM_OK)
        out = *late->v[at].out;
    cm_arena_deinit(&between);
    n->mark = 0;
    if (st == CM_ERR_DATA) {
        rw->cx->message[0] = 0;
        return CM_OK;
    }
    CM_TRY(st);
    return put_constant(rw, n, 0, &out.tensor);
}

static cm_status settle_inputs(cm_rewriter *rw, const late_list *late, cm_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const late_node *l =
            n->in[i] && !n->in[i]->constant ? late_of(late, n->in[i], n->network) : NULL;
        if (l && l->computes && rw->n_rewrites < rw->limit)
            CM_TRY(settle(rw, late, n->in[i]));
    }
    return CM_OK;
}

/* learned: sizes became known, and what follows does not know of them yet. */
static cm_status fold_once(cm_rewriter *rw, cm_network *g, bool keep_quantised, bool *learned)
{
    late_list late = {.n = 0};
    CM_NEW_N(rw->cx, rw->cx->scratch, late.v, g->n_nodes, late_node);
    CM_FOR_NODES (n, g)
        n->mark = 0;
    CM_FOR_NODES (n, g) {
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
        if (!is_read(n))
            continue;
        CM_TRY(cm_check_cancel(rw->cx));
        cm_arena_mark mark = cm_arena_save(rw->cx->scratch);
        if (!(n->op->traits & CM_CONTROL))
            CM_TRY(infer_again(rw, n, learned));
        if (can_fold(n, keep_quantised))
            CM_TRY(fold(rw, n));
        else if (!(n->op->traits & CM_CONTROL))
            CM_TRY(fold_tracked(rw, n));
        cm_arena_restore(rw->cx->scratch, mark);
        if (!can_fold(n, keep_quantised))
            note_late(&late, n);
        if (!n->mark)
            CM_TRY(settle_inputs(rw, &late, n));
    }
    return CM_OK;
}

/* A size that was computed may be that of a Resize, whose result's shape is computed with in its turn. */
cm_status cm_fold_all(cm_rewriter *rw, cm_network *g, bool keep_quantised)
{
    enum { MOST_ROUNDS = 8 };
    bool learned = true;
    for (int i = 0; i < MOST_ROUNDS && learned; i++) {
        learned = false;
        CM_TRY(fold_once(rw, g, keep_quantised, &learned));
        if (learned)
            CM_TRY(cm_infer_all(rw, g));
    }
    return CM_OK;
}

CM_PASS(fold_constants)
{
    return cm_fold_all(rw, g, true);
}
