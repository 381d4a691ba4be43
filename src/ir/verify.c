/* verify.c -- is a network as network.h promises?
 * SPDX-License-Identifier: Apache-2.0 */
#include "ir/network.h"

/* Does `v`'s definition come before node `at` of network g (or at its end when `at` is NULL)? Nodes
 * already passed carry `mark`; inputs and constants are defined everywhere below their network. */
static bool defined(const cm_value *v, const cm_network *g, uint32_t mark)
{
    for (const cm_network *h = g; h; h = h->outer)
        if (v->network == h)
            return !v->producer || v->producer->mark == mark;
    return false;
}

static int count_uses(const cm_value *v)
{
    int n = 0;
    for (const cm_use *u = v->uses; u; u = u->next)
        n++;
    return n;
}

static bool has_use(const cm_value *v, const cm_node *n, const cm_network *g, int index)
{
    for (const cm_use *u = v->uses; u; u = u->next)
        if (u->node == n && u->network == g && u->index == index)
            return true;
    return false;
}

static cm_status broken(cm_ctx *cx, const cm_node *n, const char *what, const cm_value *v)
{
    return cm_fail(cx, CM_ERR_INTERNAL, "%s node '%s': %s '%s'", n->op->name, n->name, what,
                   v ? v->name : "");
}

static cm_status verify_network(cm_ctx *cx, const cm_network *g, uint32_t mark);

static cm_status verify_node(cm_ctx *cx, const cm_network *g, cm_node *n, uint32_t mark)
{
    if (n->network != g)
        return broken(cx, n, "stands in a network that is not its own", NULL);
    for (int i = 0; i < n->n_in; i++) {
        cm_value *v = n->in[i];
        if (!v)
            continue;
        if (!defined(v, g, mark))
            return broken(cx, n, "reads a value that is not defined before it:", v);
        if (v->n_uses < 64 && !has_use(v, n, NULL, i))
            return broken(cx, n, "is missing in the uses of", v);
    }
    for (int o = 0; o < n->n_out; o++) {
        cm_value *v = n->out[o];
        if (v && (v->producer != n || v->index != o || v->network != g))
            return broken(cx, n, "is not the producer that its output names:", v);
        if (v && v->n_uses < 64 && count_uses(v) != v->n_uses)
            return broken(cx, n, "has a wrong count of uses on", v);
    }
    for (int s = 0; s < n->n_subs; s++) {
        if (n->subs[s]->outer != g || n->subs[s]->owner != n)
            return broken(cx, n, "holds a network that belongs elsewhere", NULL);
        CM_TRY(verify_network(cx, n->subs[s], mark));
    }
    n->mark = mark;
    return CM_OK;
}

static cm_status verify_network(cm_ctx *cx, const cm_network *g, uint32_t mark)
{
    int count = 0;
    CM_FOR_NODES (n, g) {
        CM_TRY(verify_node(cx, g, n, mark));
        count++;
    }
    if (count != g->n_nodes)
        return cm_fail(cx, CM_ERR_INTERNAL, "network '%s' counts %d nodes and has %d", g->name,
                       g->n_nodes, count);
    for (int i = 0; i < g->n_outputs; i++)
        if (!g->outputs[i] || !defined(g->outputs[i], g, mark))
            return cm_fail(cx, CM_ERR_INTERNAL, "output %d of network '%s' is not defined", i,
                           g->name);
    return CM_OK;
}

static void clear_marks(const cm_network *g)
{
    CM_FOR_NODES (n, g) {
        n->mark = 0;
        for (int s = 0; s < n->n_subs; s++)
            clear_marks(n->subs[s]);
    }
}

cm_status cm_network_verify(cm_ctx *cx, const cm_network *g)
{
    clear_marks(g);
    return verify_network(cx, g, 1);
}
