/* to_program.c -- pointwise nodes as instructions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/to_program.h"

#include <math.h>

#include "ops/op_program.h"

/* Clip's bounds: absent, or constants of one number. */
static bool bound(const cm_node *n, int i, double absent, double *out)
{
    *out = absent;
    return i >= n->n_in || !n->in[i] || cm_splat(n->in[i], out);
}

bool cm_program_reads(const cm_node *n, int i)
{
    return n->in[i] && (i == 0 || n->op->id != CM_OP_CLIP);
}

static bool numbers_only(const cm_value *v)
{
    if (!v || v->type.kind != CM_TENSOR)
        return false;
    return cm_dtype_is_float(v->type.dtype) || v->type.dtype == CM_BOOL;
}

static bool float_of_use(cm_dtype t) /* floats that are computed with, not only stored */
{
    return t == CM_F32 || t == CM_F16 || t == CM_BF16 || t == CM_F64;
}

static bool known_operator(const cm_node *n)
{
    double low, high;
    switch (n->op->id) {
    case CM_OP_CLIP:
        return bound(n, 1, -INFINITY, &low) && bound(n, 2, INFINITY, &high) && low <= high;
    case CM_OP_CAST:
        return float_of_use(n->out[0]->type.dtype) && float_of_use(n->in[0]->type.dtype);
    case CM_OP_POINTWISE:
        return true;
    case CM_OP_SUM:
    case CM_OP_MAX:
    case CM_OP_MIN:
        return n->n_in == 2;
    case CM_OP_CAST_LIKE:
    case CM_OP_MEAN:
    case CM_OP_IS_INF:
        return false;
    default:
        return cm_op_is_program(n->op);
    }
}

bool cm_is_pointwise(const cm_node *n)
{
    if (!n || n->epilogue.program || n->n_out != 1 || !n->out[0] || n->n_in > CM_PROGRAM_MAX)
        return false;
    if (!numbers_only(n->out[0]))
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !numbers_only(n->in[i]))
            return false;
    return known_operator(n);
}

static bool append_group(cm_program *p, const cm_node *n, const cm_program_arg *args,
                         cm_program_arg *out)
{
    cm_ctx cx = {0};
    cm_program inner;
    cm_str text = cm_string(n, "program");
    if (cm_program_parse(&cx, text.p, text.n, &inner) != CM_OK)
        return false;
    return cm_append_program(p, &inner, NULL, args, out);
}

bool cm_append_node(cm_program *p, const cm_node *n, const cm_program_arg *args,
                    cm_program_arg *out)
{
    if (n->op->id == CM_OP_POINTWISE)
        return append_group(p, n, args, out);
    if (n->op->id == CM_OP_CLIP) {
        double low, high;
        bound(n, 1, -INFINITY, &low);
        bound(n, 2, INFINITY, &high);
        cm_program_arg clip[] = {args[0], cm_arg_number(low), cm_arg_number(high)};
        return cm_op_append(p, n->op, n->attr, 3, clip, out);
    }
    return cm_op_append(p, n->op, n->attr, n->n_in, args, out);
}

cm_status cm_program_text(cm_ctx *cx, cm_network *g, const cm_program *p, const char **out)
{
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_program_print(p, &b);
    *out = cm_arena_strdup(g->arena, cm_buf_text(&b));
    bool failed = b.failed || !*out;
    cm_buf_deinit(&b);
    return failed ? cm_fail_memory(cx) : CM_OK;
}
