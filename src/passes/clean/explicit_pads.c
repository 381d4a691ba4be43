/* explicit_pads.c -- padding in numbers.
 *
 *     y = Conv(x, @w) {auto_pad="SAME_UPPER"}            x: f32[n,3,224,224], w 3x3
 *  becomes
 *     y = Conv(x, @w) {pads=[1,1,1,1]}
 *
 * Conv, MaxPool and AveragePool, when the sizes are known or the stride is 1, which makes padding independent of
 * them. VALID is no padding. Pools with ceil_mode are left alone.
 *
 * needs: types    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/match.h"

static bool is_window(const cm_node *n)
{
    return cm_is(n, CM_OP_CONV) || cm_is(n, CM_OP_MAX_POOL) || cm_is(n, CM_OP_AVERAGE_POOL);
}

/* Size of the window on spatial axis i. */
static bool kernel_size(const cm_node *n, int i, int64_t *out)
{
    cm_ints shape = cm_int_list(n, "kernel_shape");
    if (shape.n) {
        *out = shape.v[i];
        return true;
    }
    *out = n->op->id == CM_OP_CONV && cm_rank(n->in[1]) > i + 2 ? n->in[1]->type.dims[i + 2] : -1;
    return *out >= 0;
}

static bool same_padding(const cm_node *n, int i, int64_t *total)
{
    cm_ints strides = cm_int_list(n, "strides"), dilations = cm_int_list(n, "dilations");
    int64_t s = strides.n ? strides.v[i] : 1, d = dilations.n ? dilations.v[i] : 1, k;
    if (!kernel_size(n, i, &k))
        return false;
    cm_dim in = n->in[0]->type.dims[i + 2];
    int64_t extent = (k - 1) * d + 1;
    if (!cm_dim_is_size(in)) {
        *total = extent - 1;
        return s == 1;
    }
    *total = in == 0 ? 0 : ((in - 1) / s * s + extent) - in;
    *total = *total < 0 ? 0 : *total;
    return true;
}

static bool numbers(const cm_node *n, int64_t *pads)
{
    int spatial = cm_rank(n->in[0]) - 2;
    bool upper = cm_string_is(n, "auto_pad", "SAME_UPPER");
    bool lower = cm_string_is(n, "auto_pad", "SAME_LOWER");
    if (spatial < 1 || 2 * spatial > CM_MAX_RANK ||
        (n->op->id != CM_OP_CONV && cm_int(n, "ceil_mode")))
        return false;
    for (int i = 0; i < spatial; i++) {
        int64_t total = 0;
        if ((upper || lower) && !same_padding(n, i, &total))
            return false;
        int64_t less = total / 2, more = total - less;
        pads[i] = lower ? more : less;
        pads[spatial + i] = lower ? less : more;
    }
    return upper || lower || cm_string_is(n, "auto_pad", "VALID");
}

CM_PASS(explicit_pads)
{
    CM_FOR_NODES (n, g) {
        int64_t pads[CM_MAX_RANK];
        if (!is_window(n) || cm_string_is(n, "auto_pad", "NOTSET") || !numbers(n, pads))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(cm_set_string(rw->cx, n, "auto_pad", "NOTSET"));
        CM_TRY(cm_set_ints(rw->cx, n, "pads", pads, 2 * (cm_rank(n->in[0]) - 2)));
        CM_TRY(cm_node_infer(rw->cx, n));
    }
    return CM_OK;
}
