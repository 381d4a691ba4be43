/* fold_pad.c -- convolutions and pools pad their input themselves.
 *
 *     p = Pad(x, @[0,0,1,1,0,0,1,1])
 *     y = Conv(p, @w)
 *  becomes
 *     y = Conv(x, @w) {pads=[1,1,1,1]}
 *
 * Spatial axes only, nothing cut off. Conv: padded with zeros. AveragePool: zeros that count, so count_include_pad is
 * set, and its own padding must count too. MaxPool: padded with -inf; or with zeros in front of what is surely not
 * negative, when every window sees an element of the input. Not with ceil_mode, where the last window would differ.
 *
 * needs: types, explicit pads    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "passes/match.h"

/* Padding in front and behind per axis, rank numbers each. */
static bool read_pads(const cm_node *p, int64_t *pads)
{
    int64_t v[2 * CM_MAX_RANK], axes[CM_MAX_RANK];
    int rank = cm_rank(p->in[0]), n, k = rank;
    if (rank < 3 || !cm_string_is(p, "mode", "constant") ||
        !cm_const_ints(p->in[1], v, CM_COUNT(v), &n))
        return false;
    bool some = p->n_in > 3 && p->in[3];
    if (some && !cm_const_ints(p->in[3], axes, CM_COUNT(axes), &k))
        return false;
    if (n != 2 * k)
        return false;
    for (int i = 0; i < 2 * rank; i++)
        pads[i] = 0;
    for (int i = 0; i < k; i++) {
        int64_t a = some ? axes[i] + (axes[i] < 0 ? rank : 0) : i;
        if (a < 0 || a >= rank || v[i] < 0 || v[k + i] < 0 || v[i] > 1 << 20 ||
            v[k + i] > 1 << 20 || (a < 2 && (v[i] || v[k + i])))
            return false;
        pads[a] = v[i];
        pads[rank + a] = v[k + i];
    }
    return true;
}

static bool pad_value(const cm_node *p, double *out)
{
    *out = 0;
    return p->n_in < 3 || !p->in[2] || cm_splat(p->in[2], out);
}

static bool all_zero(cm_ints v)
{
    for (int i = 0; i < v.n; i++)
        if (v.v[i] != 0)
            return false;
    return true;
}

static bool never_negative(const cm_value *v)
{
    return cm_made_by(v, CM_OP_RELU) || cm_made_by(v, CM_OP_SIGMOID) || cm_made_by(v, CM_OP_ABS);
}

/* Does every window overlap the input? */
static bool sees_input(const cm_node *pool, const int64_t *pads, int rank)
{
    cm_ints kernel = cm_int_list(pool, "kernel_shape"), own = cm_int_list(pool, "pads");
    cm_ints dilations = cm_int_list(pool, "dilations");
    for (int i = 0; i < dilations.n; i++)
        if (dilations.v[i] != 1)
            return false;
    for (int i = 0; i < rank - 2; i++) {
        int64_t before = pads[i + 2] + (own.n ? own.v[i] : 0);
        int64_t after = pads[rank + i + 2] + (own.n ? own.v[rank - 2 + i] : 0);
        if (before >= kernel.v[i] || after >= kernel.v[i])
            return false;
    }
    return true;
}

static bool fits(const cm_node *n, const cm_node *p, const int64_t *pads)
{
    double value;
    int rank = cm_rank(p->in[0]);
    if (!cm_string_is(n, "auto_pad", "NOTSET") || !pad_value(p, &value))
        return false;
    if (n->op->id == CM_OP_CONV)
        return value == 0;
    if (cm_int(n, "ceil_mode") || !cm_one_output(n))
        return false;
    if (n->op->id == CM_OP_AVERAGE_POOL)
        return value == 0 && (cm_int(n, "count_include_pad") || all_zero(cm_int_list(n, "pads")));
    bool least = value == -INFINITY && cm_is_float(p->in[0]);
    return (least || (value == 0 && never_negative(p->in[0]))) && sees_input(n, pads, rank);
}

static cm_status fold(cm_rewriter *rw, cm_node *n, cm_node *p, const int64_t *pads)
{
    int rank = cm_rank(p->in[0]), spatial = rank - 2;
    int64_t sum[CM_MAX_RANK];
    cm_ints own = cm_int_list(n, "pads");
    for (int i = 0; i < spatial; i++) {
        sum[i] = pads[i + 2] + (own.n ? own.v[i] : 0);
        sum[spatial + i] = pads[rank + i + 2] + (own.n ? own.v[spatial + i] : 0);
    }
    CM_TRY(cm_set_ints(rw->cx, n, "pads", sum, 2 * spatial));
    if (n->op->id == CM_OP_AVERAGE_POOL)
        CM_TRY(cm_set_int(rw->cx, n, "count_include_pad", 1));
    CM_TRY(cm_node_add_from(rw->cx, n, p));
    CM_TRY(cm_node_set_input(rw->cx, n, 0, p->in[0]));
    CM_TRY(cm_node_infer(rw->cx, n));
    cm_drop_if_dead(p);
    return CM_OK;
}

CM_PASS(fold_pad)
{
    CM_FOR_NODES (n, g) {
        int64_t pads[2 * CM_MAX_RANK];
        if (!cm_is(n, CM_OP_CONV) && !cm_is(n, CM_OP_MAX_POOL) && !cm_is(n, CM_OP_AVERAGE_POOL))
            continue;
        cm_node *p = cm_made_by(n->in[0], CM_OP_PAD);
        if (!p || 2 * cm_rank(n->in[0]) > CM_MAX_RANK || !read_pads(p, pads))
            continue;
        if (!fits(n, p, pads)) {
            cm_near(rw, n, "Pad not folded into %s: it would count for something else",
                    n->op->name);
            continue;
        }
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(fold(rw, n, p, pads));
    }
    return CM_OK;
}
