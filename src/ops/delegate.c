/* delegate.c -- an operator that is another one with something around it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/delegate.h"

cm_status cm_delegate_attr(cm_ctx *cx, cm_op_id id, void **out)
{
    return cm_attr_new(cx, cx->scratch, cm_op_builtin(id)->attrs, out);
}

void cm_delegate_set(cm_op_id id, void *attr, const char *name, const void *value)
{
    const cm_attr_desc *d = cm_op_builtin(id)->attrs;
    const cm_attr_field *field = cm_attr_find(d, name);
    if (field)
        cm_attr_set(d, attr, field, value);
}

cm_status cm_delegate_infer(cm_infer *f, cm_op_id id, const void *attr, int n_in,
                            const cm_infer_in *in, int n_out, cm_infer_out *out)
{
    for (int o = 0; o < n_out; o++)
        out[o].wanted = true;
    cm_infer g = {.cx = f->cx,
                  .dims = f->dims,
                  .op = cm_op_builtin(id),
                  .attr = attr,
                  .hint = f->hint,
                  .n_in = n_in,
                  .in = in,
                  .n_out = n_out,
                  .out = out};
    return cm_op_infer(&g);
}

cm_status cm_delegate_eval(cm_eval *e, cm_op_id id, const void *attr, int n_in,
                           const cm_tensor *const *in, cm_tensor *out)
{
    const cm_op *op = cm_op_builtin(id);
    cm_datum *data;
    const cm_datum **ins;
    CM_NEW_N(e->cx, e->cx->scratch, data, n_in + 1, cm_datum);
    CM_NEW_N(e->cx, e->cx->scratch, ins, n_in + 1, const cm_datum *);
    for (int i = 0; i < n_in; i++)
        if (in[i]) {
            data[i] = (cm_datum){.kind = CM_TENSOR, .tensor = *in[i]};
            ins[i] = &data[i];
        }
    cm_datum result = {.kind = CM_TENSOR, .tensor = *out}, *outs[] = {&result};
    cm_eval g = *e;
    g.op = op;
    g.attr = attr;
    g.prepared = NULL;
    g.n_in = n_in;
    g.in = ins;
    g.n_out = 1;
    g.out = outs;
    if (op->family->prepare)
        CM_TRY(op->family->prepare(e->cx, e->cx->scratch, op, attr, &g.prepared));
    return op->family->eval(&g);
}
