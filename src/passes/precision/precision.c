/* precision.c -- float16 or bfloat16 where asked for, with the casts written out.
 *
 *     c = Conv(x, @w)                        h = Cast(x) {to=f16}
 *     y = Relu(c)            becomes         c = Conv(h, @w16)
 *                                            r = Relu(c)
 *                                            y = Cast(r) {to=f32}
 *
 * Products, convolutions, attention and reads of constant tables go first; what is pointwise, moves data,
 * pools or normalises follows where one of its inputs is in the small type already, so that no cast is put
 * where nothing was won. Inputs and outputs of the network keep their types. Inside, sums are kept in float32
 * or better whatever the storage (docs/numerics.md). These stay in float32: nodes that the user named (their
 * neighbours do not follow); Exp, Log, Pow and sums over axes, whose results leave float16's range;
 * and what reads a number that does not fit: a weight beyond the small type's range (the log names it), or
 * a value computed from one (a mask of -3e38), as far as pointwise work and moves carry it.
 *
 * needs: types, uses    keeps: types of the network's inputs and outputs, uses
 * numerics: answers move by what the small type rounds off. Does nothing unless asked.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "ops/signature.h"
#include "passes/match.h"

typedef enum { NEVER, FOLLOWS, MOVES, LEADS } role;

static role role_of(const cm_node *n)
{
    switch (n->op->id) {
    case CM_OP_MATMUL:
    case CM_OP_GEMM:
    case CM_OP_CONV:
    case CM_OP_CONV_TRANSPOSE:
    case CM_OP_ATTENTION:
    case CM_OP_FUSED_ATTENTION:
    case CM_OP_MS_MULTI_HEAD_ATTENTION:
    case CM_OP_MS_ATTENTION:
    case CM_OP_MS_FUSED_MATMUL:
    case CM_OP_EINSUM:
    case CM_OP_LSTM:
    case CM_OP_GRU:
    case CM_OP_RNN:
        return LEADS;
    case CM_OP_GATHER:
        return cm_is_const(n->in[0]) && cm_rank(n->in[0]) > 1 ? LEADS : MOVES;
    case CM_OP_CONCAT:
    case CM_OP_SPLIT:
    case CM_OP_TRANSPOSE:
    case CM_OP_SLICE:
    case CM_OP_PAD:
    case CM_OP_EXPAND:
    case CM_OP_TILE:
    case CM_OP_DEPTH_TO_SPACE:
    case CM_OP_SPACE_TO_DEPTH:
    case CM_OP_RESHAPE:
    case CM_OP_SQUEEZE:
    case CM_OP_UNSQUEEZE:
    case CM_OP_FLATTEN:
    case CM_OP_IDENTITY:
    case CM_OP_WHERE:
        return MOVES;
    case CM_OP_SOFTMAX:
    case CM_OP_LOG_SOFTMAX:
    case CM_OP_FUSED_SOFTMAX:
    case CM_OP_LAYER_NORMALIZATION:
    case CM_OP_RMS_NORMALIZATION:
    case CM_OP_GROUP_NORMALIZATION:
    case CM_OP_INSTANCE_NORMALIZATION:
    case CM_OP_BATCH_NORMALIZATION:
    case CM_OP_MS_SKIP_LAYER_NORMALIZATION:
    case CM_OP_AVERAGE_POOL:
    case CM_OP_GLOBAL_AVERAGE_POOL:
    case CM_OP_MAX_POOL:
    case CM_OP_GLOBAL_MAX_POOL:
    case CM_OP_REDUCE_MEAN:
    case CM_OP_REDUCE_MAX:
    case CM_OP_REDUCE_MIN:
    case CM_OP_RESIZE:
    case CM_OP_ROTARY_EMBEDDING:
        return FOLLOWS;
    case CM_OP_EXP:
    case CM_OP_LOG:
    case CM_OP_POW:
    case CM_OP_RECIPROCAL:
    case CM_OP_CAST: /* says itself what it wants */
        return NEVER;
    default:
        return (n->op->traits & CM_ELTWISE) && (n->op->traits & CM_PURE) ? FOLLOWS : NEVER;
    }
}

/* What the pass knows of one network. */
typedef struct {
    cm_rewriter *rw;
    cm_network *g;
    cm_dtype small;
    cm_map halves;  /* value -> the same in the small type */
    cm_map big;     /* values that may not fit the small type */
    cm_map checked; /* constants that were looked at */
} job;

static bool is_f32(const cm_value *v)
{
    return v && v->type.kind == CM_TENSOR && v->type.dtype == CM_F32;
}

static bool is_big(const job *j, const cm_value *v)
{
    return v && cm_map_has(&j->big, v->name);
}

static cm_status set_big(job *j, const cm_value *v)
{
    return cm_map_put(&j->big, v->name, (void *)(uintptr_t)1) ? CM_OK : cm_fail_memory(j->rw->cx);
}

/* v before it was cast back from the small type, or NULL. */
static cm_value *small_of(const job *j, const cm_value *v)
{
    const cm_node *c = cm_made_by(v, CM_OP_CAST);
    return c && c->in[0]->type.dtype == j->small ? c->in[0] : NULL;
}

static bool is_kept(const job *j, const cm_node *n)
{
    const cm_optimise_options *o = j->rw->options;
    for (int i = 0; i < o->n_keep_fp32; i++)
        for (int k = 0; k < n->n_from; k++)
            if (!strcmp(o->keep_fp32[i], n->from[k]))
                return true;
    return false;
}

/* The largest finite magnitude; what is not finite is so in every type. */
static float largest_finite(const float *x, int64_t n)
{
    float largest = 0;
    for (int64_t i = 0; i < n; i++) {
        float a = fabsf(x[i]);
        largest = a > largest && a <= FLT_MAX ? a : largest;
    }
    return largest;
}

/* Does a constant fit the small type? Those that do not become big. Every one is looked at once. */
static cm_status check_constant(job *j, const cm_value *v)
{
    cm_ctx *cx = j->rw->cx;
    const cm_tensor *t = v->constant;
    uint16_t code;
    if (cm_map_has(&j->checked, v->name))
        return CM_OK;
    if (!cm_map_put(&j->checked, v->name, (void *)(uintptr_t)1))
        return cm_fail_memory(cx);
    float largest = largest_finite(t->data, cm_tensor_elems(t));
    cm_f32_to_half(j->small, &largest, 1, &code);
    if (isfinite(cm_get_f64(j->small, &code, 0)))
        return CM_OK;
    cm_log(cx, CM_LOG_INFO, "'%s' stays in f32: it holds %g, which %s cannot", v->name,
           (double)largest, cm_dtype_name(j->small));
    return set_big(j, v);
}

static cm_status small_constant(job *j, const cm_value *v, cm_value **out)
{
    cm_ctx *cx = j->rw->cx;
    cm_tensor *t;
    size_t bytes;
    CM_NEW(cx, j->g->arena, t, cm_tensor);
    *t = *v->constant;
    t->dtype = j->small;
    if (!cm_tensor_bytes(t, &bytes))
        return cm_fail(cx, CM_ERR_MODEL, "'%s' is too large", v->name);
    uint16_t *to = cm_arena_alloc_n(j->g->arena, bytes ? bytes : 1, 1, 64, 0);
    if (!to)
        return cm_fail_memory(cx);
    t->data = to;
    t->capacity_bytes = bytes;
    cm_f32_to_half(j->small, v->constant->data, cm_tensor_elems(t), to);
    CM_TRY(cm_network_add_constant(cx, j->g, v->name, t, out));
    (*out)->weight = v->weight;
    return CM_OK;
}

/* v in the small type, for node n; NULL when it does not fit. Every cast is made once. */
static cm_status small_value(job *j, cm_node *n, cm_value *v, cm_value **out)
{
    *out = NULL;
    if (v->constant)
        CM_TRY(check_constant(j, v));
    if (is_big(j, v))
        return CM_OK;
    *out = small_of(j, v);
    if (!*out)
        *out = cm_map_get(&j->halves, v->name);
    if (*out)
        return CM_OK;
    if (v->constant) {
        CM_TRY(small_constant(j, v, out));
    } else {
        cm_node *c;
        CM_TRY(cm_make_cast(j->rw, n, n, v, j->small, &c));
        *out = c->out[0];
    }
    return cm_map_put(&j->halves, v->name, *out) ? CM_OK : cm_fail_memory(j->rw->cx);
}

/* Does the row take the small type at input i? */
static bool takes(const job *j, const cm_node *n, int i)
{
    uint32_t types = cm_signature_types(n->op, i);
    return !types || (types >> j->small & 1);
}

/* Outputs that turned small are cast back; the casts go where the next node finds small_of. */
static cm_status cast_back(job *j, cm_node *n, const bool *was_f32)
{
    for (int o = 0; o < n->n_out; o++) {
        cm_value *v = n->out[o];
        cm_node *c;
        if (!v || !was_f32[o] || v->type.dtype != j->small || !v->n_uses)
            continue;
        if (n->next) {
            CM_TRY(cm_make_cast(j->rw, n->next, n, v, CM_F32, &c));
        } else { /* a node put before nothing: at the end */
            void *attr;
            CM_TRY(cm_new_attr(j->rw->cx, j->g, CM_OP_CAST, &attr));
            CM_TRY(cm_attr_put_int(j->rw->cx, CM_OP_CAST, attr, "to", CM_F32));
            CM_TRY(cm_network_add_node(j->rw->cx, j->g, NULL, cm_op_builtin(CM_OP_CAST), n->name,
                                       attr, &v, 1, NULL, 1, &c));
            CM_TRY(cm_node_infer(j->rw->cx, c));
        }
        CM_TRY(cm_replace_uses(j->rw->cx, v, c->out[0]));
        CM_TRY(cm_node_set_input(j->rw->cx, c, 0, v));
    }
    return CM_OK;
}

/* A node that stays and carries what does not fit. */
static cm_status spread_big(job *j, const cm_node *n)
{
    bool any = false;
    role r = role_of(n);
    bool carries = r == MOVES || (n->op->traits & CM_ELTWISE) || n->op->id == CM_OP_CAST;
    for (int i = 0; carries && i < n->n_in; i++) {
        if (cm_is_const(n->in[i]) && is_f32(n->in[i]))
            CM_TRY(check_constant(j, n->in[i]));
        any |= is_big(j, n->in[i]);
    }
    for (int o = 0; any && o < n->n_out; o++)
        if (is_f32(n->out[o]))
            CM_TRY(set_big(j, n->out[o]));
    return CM_OK;
}

static bool wants(const job *j, const cm_node *n)
{
    role r = role_of(n);
    bool any = false, some_f32 = false;
    for (int i = 0; i < n->n_in; i++) {
        any |= n->in[i] && small_of(j, n->in[i]);
        some_f32 |= is_f32(n->in[i]);
    }
    for (int o = 0; o < n->n_out; o++)
        if (is_f32(n->out[o]))
            return r != NEVER && some_f32 && (r == LEADS || any) && !n->epilogue.program &&
                   !is_kept(j, n);
    return false;
}

/* Change n's inputs; take it back when its type rule does not agree. *done: is it small now? */
static cm_status lower(job *j, cm_node *n, bool *done)
{
    cm_ctx *cx = j->rw->cx;
    cm_value **old, **in;
    bool *was_f32;
    CM_NEW_N(cx, cx->scratch, old, n->n_in, cm_value *);
    CM_NEW_N(cx, cx->scratch, in, n->n_in, cm_value *);
    CM_NEW_N(cx, cx->scratch, was_f32, n->n_out, bool);
    for (int i = 0; i < n->n_in; i++) {
        old[i] = in[i] = n->in[i];
        if (is_f32(old[i]) && takes(j, n, i)) {
            CM_TRY(small_value(j, n, old[i], &in[i]));
            in[i] = in[i] ? in[i] : old[i];
        }
    }
    for (int i = 0; i < n->n_in; i++)
        CM_TRY(cm_node_set_input(cx, n, i, in[i]));
    for (int o = 0; o < n->n_out; o++)
        was_f32[o] = is_f32(n->out[o]);
    cm_status st = cm_node_infer(cx, n);
    if (st == CM_OK) {
        *done = true;
        return cast_back(j, n, was_f32);
    }
    if (st != CM_ERR_MODEL)
        return st;
    cx->message[0] = 0;
    for (int i = 0; i < n->n_in; i++)
        CM_TRY(cm_node_set_input(cx, n, i, old[i]));
    return cm_node_infer(cx, n);
}

CM_PASS(precision)
{
    cm_precision p = rw->options->precision;
    if (p != CM_PRECISION_FP16 && p != CM_PRECISION_BF16)
        return CM_OK;
    job j = {.rw = rw, .g = g, .small = p == CM_PRECISION_FP16 ? CM_F16 : CM_BF16};
    cm_map_init(&j.halves, rw->cx->scratch);
    cm_map_init(&j.big, rw->cx->scratch);
    cm_map_init(&j.checked, rw->cx->scratch);
    CM_FOR_NODES (n, g) {
        bool done = false;
        if (wants(&j, n)) {
            if (!cm_rewrite(rw, n))
                return CM_OK;
            CM_TRY(lower(&j, n, &done));
        }
        if (!done)
            CM_TRY(spread_big(&j, n));
    }
    return CM_OK;
}
