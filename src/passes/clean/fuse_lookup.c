/* fuse_lookup.c -- what is computed of one byte alone, as a table of what becomes of each byte.
 *
 *     a = DequantizeLinear(x, @xs, @xz)
 *     b = Mul(a, Sigmoid(a))
 *     y = QuantizeLinear(b, @ys, @yz)
 *  becomes
 *     y = cameo.Lookup(x, @table)
 *
 * Any functions of elements, constants of one element among their operands, quantised and dequantised again in between or
 * not; QLinearAdd, Mul, Sigmoid and LeakyRelu likewise. The table is made by the nodes' own evaluators. Fires for results of 8
 * bits that somebody else reads, and that are of x's shape; not for one node that has kernels for bytes.
 * Who reads numbers in between still does.
 *
 * needs: types, uses, folded scales    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ops/eval.h"
#include "passes/folding.h"

enum { ENTRIES = 256, MOST_INPUTS = 8 };

typedef enum { NOT_NEEDED, NEEDED, TABLE } need;

/* Of a node, by its mark. */
typedef struct {
    cm_value *root;  /* the bytes that its result is a function of; NULL: it is not one */
    need need;       /* of such a one */
    bool wanted;     /* a table is made of its result */
    cm_datum *table; /* its result for every byte; NULL: it has none */
} facts;

typedef struct {
    cm_rewriter *rw;
    cm_network *g;
    facts *of;
} job;

static bool is_byte(const cm_value *v)
{
    return v->type.kind == CM_TENSOR && (v->type.dtype == CM_U8 || v->type.dtype == CM_I8);
}

static bool maps_elements(const cm_node *n)
{
    static const cm_op_id others[] = {CM_OP_QUANTIZE_LINEAR,    CM_OP_DEQUANTIZE_LINEAR,
                                      CM_OP_MS_QUANTIZE_LINEAR, CM_OP_MS_DEQUANTIZE_LINEAR,
                                      CM_OP_MS_QLINEAR_ADD,     CM_OP_MS_QLINEAR_MUL,
                                      CM_OP_MS_QLINEAR_SIGMOID, CM_OP_MS_QLINEAR_LEAKY_RELU};
    for (int i = 0; i < CM_COUNT(others); i++)
        if (cm_is(n, others[i]))
            return true;
    return (n->op->traits & CM_ELTWISE) && (n->op->traits & CM_PURE) && !n->epilogue.program;
}

static cm_value *root_of(const job *j, cm_value *v)
{
    const cm_node *by = v->producer && v->network == j->g ? v->producer : NULL;
    if (by && by->n_out == 1 && j->of[by->mark].root)
        return j->of[by->mark].root;
    return is_byte(v) ? v : NULL;
}

/* What n's result is a function of, element by element. */
static cm_value *find_root(const job *j, cm_node *n)
{
    cm_value *root = NULL;
    if (n->n_out != 1 || n->n_subs || n->n_in > MOST_INPUTS || !maps_elements(n) ||
        n->out[0]->type.kind != CM_TENSOR)
        return NULL;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i] || (cm_is_const(n->in[i]) && cm_volume(n->in[i]) == 1))
            continue;
        cm_value *r = cm_is_const(n->in[i]) ? NULL : root_of(j, n->in[i]);
        if (!r || (root && r != root))
            return NULL;
        root = r;
    }
    return root && cm_same_shape(n->out[0], root) ? root : NULL;
}

/* One node on the bytes themselves that has kernels for bytes. */
static bool has_kernel(const job *j, const cm_node *n)
{
    return (cm_is(n, CM_OP_MS_QLINEAR_SIGMOID) || cm_is(n, CM_OP_MS_QLINEAR_LEAKY_RELU)) &&
           n->in[0] == j->of[n->mark].root;
}

/* Readers of n come behind it, and know already. */
static need need_of(const job *j, const cm_node *n)
{
    for (const cm_use *u = n->out[0]->uses; u; u = u->next) {
        const facts *f = u->node && u->node->network == j->g ? &j->of[u->node->mark] : NULL;
        if (!f || f->root != j->of[n->mark].root || f->need == NEEDED)
            return is_byte(n->out[0]) && !has_kernel(j, n) ? TABLE : NEEDED;
    }
    return NOT_NEEDED;
}

/* ---- Tables --------------------------------------------------------------------------------- */

static cm_status every_byte(const job *j, cm_dtype dtype, cm_datum *out)
{
    *out = (cm_datum){.kind = CM_TENSOR};
    if (!cm_tensor_shape(&out->tensor, dtype, 1, (int64_t[]){ENTRIES}))
        return cm_fail_memory(j->rw->cx);
    CM_TRY(cm_fold_give(j->g->arena, j->rw->cx, 0, &out->tensor));
    for (int i = 0; i < ENTRIES; i++)
        ((uint8_t *)out->tensor.data)[i] = (uint8_t)i;
    return CM_OK;
}

/* Input i of n for every byte: a constant, every byte there is, or what the node before makes of these, where `has` says that
 * it makes something. */
static cm_status tabulate_input(const job *j, const cm_node *n, int i, cm_datum *out, bool *has)
{
    const cm_value *v = n->in[i];
    if (v->constant) {
        *out = (cm_datum){.kind = CM_TENSOR, .tensor = *v->constant};
        return CM_OK;
    }
    if (v == j->of[n->mark].root)
        return every_byte(j, v->type.dtype, out);
    const cm_datum *before = j->of[v->producer->mark].table;
    *has = *has && before;
    if (before)
        *out = *before;
    return CM_OK;
}

/* n's result for every byte. What its evaluator refuses has none: the network will tell when it runs. */
static cm_status tabulate(const job *j, const cm_node *n)
{
    cm_datum data[MOST_INPUTS], *out;
    const cm_datum *in[MOST_INPUTS] = {NULL};
    uint64_t unused = 0;
    bool has = true;
    cm_ctx *cx = j->rw->cx;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]) {
            CM_TRY(tabulate_input(j, n, i, &data[i], &has));
            in[i] = &data[i];
        }
    if (!has)
        return CM_OK;
    CM_NEW(cx, j->g->arena, out, cm_datum);
    out->kind = CM_TENSOR;
    cm_eval_host host = {cm_fold_give, j->g->arena};
    cm_eval e = {.cx = cx,
                 .op = n->op,
                 .attr = n->attr,
                 .n_in = n->n_in,
                 .in = in,
                 .n_out = 1,
                 .out = &out,
                 .random = &unused,
                 .host = &host};
    cm_status st = cm_op_eval(&e);
    if (st == CM_OK && cm_tensor_elems(&out->tensor) == ENTRIES)
        j->of[n->mark].table = out;
    if (st != CM_OK && st != CM_ERR_MEMORY)
        cx->message[0] = 0;
    return st == CM_ERR_MEMORY ? st : CM_OK;
}

static cm_status fuse(const job *j, cm_node *n)
{
    cm_tensor *t;
    cm_value *table;
    cm_node *y;
    cm_ctx *cx = j->rw->cx;
    if (!j->of[n->mark].table || !cm_rewrite(j->rw, n))
        return CM_OK;
    CM_NEW(cx, j->g->arena, t, cm_tensor);
    if (!cm_tensor_shape(t, n->out[0]->type.dtype, 1, (int64_t[]){ENTRIES}))
        return cm_fail_memory(cx);
    t->data = j->of[n->mark].table->tensor.data;
    t->capacity_bytes = ENTRIES;
    CM_TRY(cm_network_add_constant(cx, j->g, "table", t, &table));
    CM_TRY(cm_make(j->rw, n, CM_OP_FUSED_LOOKUP, n, (cm_value *[]){j->of[n->mark].root, table}, 2,
                   1, &y));
    return cm_replace(j->rw, n, y->out[0], y);
}

/* Which results somebody reads, and which are to be tabulated for that; from the last node to the first. */
static void find_needs(const job *j)
{
    for (const cm_node *n = j->g->last; n; n = n->prev) {
        facts *f = &j->of[n->mark];
        if (!f->root)
            continue;
        f->need = need_of(j, n);
        f->wanted = f->wanted || f->need == TABLE;
        for (int i = 0; f->wanted && i < n->n_in; i++)
            if (n->in[i] && !n->in[i]->constant && n->in[i] != f->root)
                j->of[n->in[i]->producer->mark].wanted = true;
    }
}

CM_PASS(fuse_lookup)
{
    job j = {.rw = rw, .g = g};
    int n_nodes = 0;
    cm_number_nodes(g);
    CM_FOR_NODES (n, g)
        n_nodes++;
    CM_NEW_N(rw->cx, rw->cx->scratch, j.of, n_nodes + 1, facts);
    CM_FOR_NODES (n, g)
        j.of[n->mark].root = find_root(&j, n);
    find_needs(&j);
    CM_FOR_NODES (n, g)
        if (j.of[n->mark].wanted)
            CM_TRY(tabulate(&j, n));
    CM_FOR_NODES (n, g)
        if (j.of[n->mark].need == TABLE)
            CM_TRY(fuse(&j, n));
    return CM_OK;
}
