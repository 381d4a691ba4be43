/* noise.h -- a network whose every float is a little off: what rounding may do to its answers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Inputs a rounding apart do not show everything: the mean of x - mean(x) is 0 for all of them, and behind a
 * quantiser all of them are the same. Here each value that a node makes is multiplied by 1 + nudge or 1 - nudge. */
#ifndef CM_TESTS_NOISE_H
#define CM_TESTS_NOISE_H

#include "fault/random_network.h"
#include "passes/match.h"

static inline bool noise_fits(const cm_value *v)
{
    return v && v->n_uses && v->type.kind == CM_TENSOR &&
           (v->type.dtype == CM_F32 || v->type.dtype == CM_F16 || v->type.dtype == CM_BF16 ||
            v->type.dtype == CM_F64);
}

static inline cm_status noise_after(cm_ctx *cx, cm_node *n, cm_value *v, double factor)
{
    cm_value *c;
    cm_node *m;
    CM_TRY(cm_make_scalar(cx, n->network, "noise", v->type.dtype, factor, &c));
    CM_TRY(cm_network_add_node(cx, n->network, n->next, cm_op_find("Mul"), "noise", NULL,
                               (cm_value *[]){v, c}, 2, NULL, 1, &m));
    CM_TRY(cm_node_infer(cx, m));
    CM_TRY(cm_replace_uses(cx, v, m->out[0]));
    return cm_node_set_input(cx, m, 0, v);
}

/* Multiply what the nodes of g and of nested networks make. */
static inline cm_status noise_add(cm_ctx *cx, cm_network *g, double nudge, uint64_t *state)
{
    CM_FOR_NODES (n, g) {
        for (int s = 0; s < n->n_subs; s++)
            CM_TRY(noise_add(cx, n->subs[s], nudge, state));
        for (int o = 0; o < n->n_out; o++)
            if (noise_fits(n->out[o]))
                CM_TRY(noise_after(cx, n, n->out[o], draw_bits(state) & 1 ? 1 + nudge : 1 - nudge));
    }
    return CM_OK;
}

/* Does anything in g round to a grid? */
static inline bool noise_has_quantiser(const cm_network *g)
{
    CM_FOR_NODES (n, g) {
        if (strstr(n->op->name, "Quantize") || strstr(n->op->name, "QLinear"))
            return true;
        for (int s = 0; s < n->n_subs; s++)
            if (noise_has_quantiser(n->subs[s]))
                return true;
    }
    return false;
}

#endif
