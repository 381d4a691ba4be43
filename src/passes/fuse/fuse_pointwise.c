/* fuse_pointwise.c -- chains and trees of pointwise nodes as one group.
 *
 *     a = Add(x, b)
 *     s = Sigmoid(a)
 *     y = Mul(a, s)
 *  becomes
 *     y = cameo.Pointwise(x, b) {program="add $0 $1; sigmoid %0; mul %0 %1"}
 *
 * A pointwise node takes in a producer that is pointwise too when all readers of the producer's result are
 * this node, and the result has the shape of this node's (nothing is computed again for a broadcast). Numbers
 * become part of the program. Not across networks, not past the size of a program, not for integers.
 *
 * needs: types, uses    keeps: types, uses
 * numerics: a chain of operators is rounded once, at its end
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "passes/to_program.h"

enum { MOST_INPUTS = 16 };

static bool read_by_only(const cm_value *v, const cm_node *n)
{
    for (const cm_use *u = v->uses; u; u = u->next)
        if (u->node != n)
            return false;
    return v->n_uses > 0;
}

typedef struct {
    cm_program program;
    cm_value *in[MOST_INPUTS];
    int n_in;
} group;

/* How the group reads v: a number, or one of its inputs. False: too many inputs. */
static bool read_value(group *gr, cm_value *v, cm_program_arg *out)
{
    double number;
    if (cm_splat(v, &number) && cm_rank(v) == 0) {
        *out = cm_arg_number(number);
        return true;
    }
    int k = 0;
    while (k < gr->n_in && gr->in[k] != v)
        k++;
    if (k == MOST_INPUTS)
        return false;
    gr->in[k] = v;
    gr->n_in = k == gr->n_in ? k + 1 : gr->n_in;
    *out = cm_arg_operand(k);
    return true;
}

static bool can_take_in(const cm_node *n, const cm_value *v)
{
    return v && v->producer && v->network == n->network && cm_is_pointwise(v->producer) &&
           read_by_only(v, n) && cm_same_shape(v, n->out[0]);
}

static bool append_with(group *gr, const cm_node *n, const cm_value *inner,
                        cm_program_arg inner_result, cm_program_arg *out)
{
    cm_program_arg args[CM_PROGRAM_MAX];
    for (int i = 0; i < n->n_in; i++) {
        if (!cm_program_reads(n, i))
            args[i] = cm_arg_number(0);
        else if (n->in[i] == inner)
            args[i] = inner_result;
        else if (!read_value(gr, n->in[i], &args[i]))
            return false;
    }
    return cm_append_node(&gr->program, n, args, out);
}

/* Do the group's inputs broadcast to the shape of v, surely? (PRelu's slope does not widen its result,
 * and symbols that were found equal on the way may be forgotten.) */
static bool gives_shape(const group *gr, const cm_value *v)
{
    int r = cm_rank(v);
    for (int k = 0; k < gr->n_in; k++)
        if (cm_rank(gr->in[k]) < 0 || cm_rank(gr->in[k]) > r)
            return false;
    for (int a = 1; a <= r; a++) {
        cm_dim d = 1;
        for (int k = 0; k < gr->n_in; k++) {
            const cm_type *t = &gr->in[k]->type;
            if (t->rank >= a)
                d = cm_dim_broadcast(v->network->dims, d, t->dims[t->rank - a]);
        }
        if (d != v->type.dims[r - a])
            return false;
    }
    return true;
}

/* n with the producer of v inside it. */
static bool join(group *gr, const cm_node *n, const cm_value *v)
{
    cm_program_arg inner, result;
    if (!append_with(gr, v->producer, NULL, (cm_program_arg){0}, &inner) ||
        !append_with(gr, n, v, inner, &result))
        return false;
    if (result.kind != CM_ARG_RESULT) { /* Casts alone */
        int r =
            cm_program_add(&gr->program, CM_PW_MUL, result, cm_arg_number(1), (cm_program_arg){0});
        if (r < 0)
            return false;
        result = cm_arg_result(r);
    }
    gr->program.output[0] = result.index;
    gr->program.n_outputs = 1;
    return gr->n_in > 0 && gives_shape(gr, n->out[0]);
}

static cm_status make_group(cm_rewriter *rw, cm_node *n, const cm_node *inner, group *gr,
                            cm_node **out)
{
    void *attr;
    const char *text;
    int64_t to = n->out[0]->type.dtype;
    cm_network *g = n->network;
    CM_TRY(cm_program_text(rw->cx, g, &gr->program, &text));
    CM_TRY(cm_new_attr(rw->cx, g, CM_OP_POINTWISE, &attr));
    CM_TRY(cm_attr_put_string(rw->cx, g, CM_OP_POINTWISE, attr, "program", text));
    CM_TRY(cm_attr_put_ints(rw->cx, g, CM_OP_POINTWISE, attr, "to", &to, 1));
    CM_TRY(cm_make_with(rw, n, CM_OP_POINTWISE, attr, inner, gr->in, gr->n_in, 1, out));
    return cm_replace(rw, n, (*out)->out[0], *out);
}

CM_PASS(fuse_pointwise)
{
    CM_FOR_NODES (node, g) {
        cm_node *n = node;
        if (!cm_is_pointwise(n) || !n->out[0]->n_uses || cm_rank(n->out[0]) < 0)
            continue;
        for (int i = 0; i < n->n_in;) {
            group gr;
            memset(&gr, 0, sizeof gr);
            if (!can_take_in(n, n->in[i]) || !join(&gr, n, n->in[i])) {
                i++;
                continue;
            }
            if (!cm_rewrite(rw, n))
                return CM_OK;
            cm_node *joined;
            CM_TRY(make_group(rw, n, n->in[i]->producer, &gr, &joined));
            cm_drop_if_dead(n);
            n = joined;
            i = 0;
        }
    }
    return CM_OK;
}
