/* fuse_fake_quant.c -- values that are quantised and at once dequantised are rounded to steps.
 *
 *     q = QuantizeLinear(x, @s, @z)
 *     y = DequantizeLinear(q, @s, @z)
 *  becomes
 *     y = cameo.Pointwise(x) {program="div $0 s; round %0; clip %1 low high; mul %2 s"}
 *
 * low and high: the least and the largest integer less z. Behind the passes that compute on integers: what is left then is
 * read as floats, and as pointwise work it becomes part of the node before or of a group. Fires when nobody else
 * reads the integers, for float32, constant scales and zero points that are one number and alike on both sides. The same
 * division, rounding and product as before: a kernel that contracts what stands before them may move a value that lies
 * between two steps to the other one.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ops/quant/quant.h"
#include "passes/qdq.h"
#include "passes/to_program.h"

typedef struct {
    double scale, low, high;
} steps;

static bool one_number(const cm_node *n, double *scale, double *zero)
{
    *zero = 0;
    return cm_int(n, "block_size") == 0 && n->in[1]->type.dtype == CM_F32 &&
           cm_splat(n->in[1], scale) && cm_volume(n->in[1]) == 1 &&
           (n->n_in < 3 || !n->in[2] || cm_splat(n->in[2], zero));
}

/* dq dequantises what q quantises for it alone. */
static cm_node *find(const cm_node *dq, steps *s)
{
    double scale, zero, zero_after;
    int32_t low, high;
    cm_node *q =
        cm_is(dq, CM_OP_DEQUANTIZE_LINEAR) ? cm_made_by(dq->in[0], CM_OP_QUANTIZE_LINEAR) : NULL;
    if (!q || !cm_sole_use(dq->in[0]) || q->in[0]->type.dtype != CM_F32 ||
        dq->out[0]->type.dtype != CM_F32 || cm_int(q, "precision") != 0 ||
        !one_number(q, &s->scale, &zero) || !one_number(dq, &scale, &zero_after) ||
        scale != s->scale || zero != zero_after || !(scale > 0) ||
        !cm_quant_range(q->out[0]->type.dtype, &low, &high))
        return NULL;
    s->low = low - zero;
    s->high = high - zero;
    return q;
}

static void write(const steps *s, cm_program *p)
{
    cm_program_arg scale = cm_arg_number(s->scale), none = {0};
    *p = (cm_program){.n_operands = 1, .n_outputs = 1};
    int r = cm_program_add(p, CM_PW_DIV, cm_arg_operand(0), scale, none);
    r = cm_program_add(p, CM_PW_ROUND, cm_arg_result(r), none, none);
    r = cm_program_add(p, CM_PW_CLIP, cm_arg_result(r), cm_arg_number(s->low),
                       cm_arg_number(s->high));
    p->output[0] = cm_program_add(p, CM_PW_MUL, cm_arg_result(r), scale, none);
}

static cm_status fuse(cm_rewriter *rw, cm_node *dq, const cm_node *q, const steps *s)
{
    cm_program program;
    const char *text;
    void *attr;
    cm_node *y;
    int64_t to = CM_F32;
    cm_network *g = dq->network;
    write(s, &program);
    CM_TRY(cm_program_text(rw->cx, g, &program, &text));
    CM_TRY(cm_new_attr(rw->cx, g, CM_OP_POINTWISE, &attr));
    CM_TRY(cm_attr_put_string(rw->cx, g, CM_OP_POINTWISE, attr, "program", text));
    CM_TRY(cm_attr_put_ints(rw->cx, g, CM_OP_POINTWISE, attr, "to", &to, 1));
    CM_TRY(cm_make_with(rw, dq, CM_OP_POINTWISE, attr, q, (cm_value *[]){q->in[0]}, 1, 1, &y));
    CM_TRY(cm_replace(rw, dq, y->out[0], y));
    cm_drop_if_dead(dq);
    return CM_OK;
}

CM_PASS(fuse_fake_quant)
{
    CM_FOR_NODES (n, g) {
        steps s;
        cm_node *q = n->out[0] && n->out[0]->n_uses ? find(n, &s) : NULL;
        if (!q || cm_rank(q->in[0]) < 0)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(fuse(rw, n, q, &s));
    }
    return CM_OK;
}
