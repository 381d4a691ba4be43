/* upgrade_scan.c -- Scan-8, which had a batch: a Scan over the batch whose body is a Scan.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     Scan-8(lens, state [b, ...], x [b, t, ...])
 *  becomes
 *     Scan over axis 0 of (state, x, lens):
 *         x' = x[:len];  state', y = Scan over axis 0 of x';  y padded to t
 */
#include <string.h>

#include "onnx/upgrade/upgrade.h"

typedef struct batched {
    int n_state, n_scan, n_out; /* n_out: states, then scanned outputs */
    bool has_lens;
    cm_scope *inside;
    cm_value **in; /* of the outer body: states, scanned, lens */
} batched;

static cm_type without_batch(const cm_type *t)
{
    cm_type out = *t;
    if (t->kind == CM_TENSOR && t->rank > 0) {
        out.rank--;
        memmove(out.dims, t->dims + 1, (size_t)out.rank * sizeof *t->dims);
    }
    return out;
}

static cm_status begin_body(cm_pending *u, batched *b, cm_value *const *in, int n_in)
{
    cm_importer *im = u->im;
    CM_NEW(im->cx, im->tmp, b->inside, cm_scope);
    *b->inside = *u->scope;
    b->inside->outer = u->scope;
    b->inside->rename = NULL;
    cm_map_init(&b->inside->values, im->tmp);
    CM_TRY(cm_network_nested(im->cx, u->scope->g, u->name, &b->inside->g));
    CM_NEW_N(im->cx, im->tmp, b->in, n_in, cm_value *);
    for (int i = 0; i < n_in; i++) {
        cm_type t = without_batch(&in[i]->type);
        CM_TRY(cm_network_add_input(im->cx, b->inside->g, u->name, &t, &b->in[i]));
    }
    return CM_OK;
}

/* A pending node that emits into the outer body. */
static cm_pending within(cm_pending *u, batched *b)
{
    return (cm_pending){.im = u->im,
                        .scope = b->inside,
                        .domain = "",
                        .name = u->name,
                        .version = CM_ONNX_NEWEST_OPSET};
}

/* Cut scanned inputs to this sequence's length, a vector of one. */
static cm_status cut(cm_pending *w, batched *b, cm_value **length, cm_value **longest)
{
    int64_t zero = 0, one = 1, whole = -1;
    cm_value *from, *axis, *flat;
    cm_up_attr first[] = {CM_UP_INT("start", 0), CM_UP_INT("end", one)};
    CM_TRY(cm_up_ints(w, &zero, 1, &from));
    CM_TRY(cm_up_ints(w, &zero, 1, &axis));
    CM_TRY(cm_up_ints(w, &whole, 1, &flat));
    CM_TRY(cm_up_node(w, "Shape", &b->in[b->n_state], 1, first, 2, longest));
    CM_TRY(cm_up_cast(w, b->in[b->n_state + b->n_scan], CM_I64, length));
    CM_TRY(cm_up_binary(w, "Reshape", *length, flat, length));
    for (int i = 0; i < b->n_scan; i++) {
        cm_value *in[] = {b->in[b->n_state + i], from, *length, axis};
        CM_TRY(cm_up_node(w, "Slice", in, 4, NULL, 0, &b->in[b->n_state + i]));
    }
    return CM_OK;
}

static cm_status fill(cm_pending *w, cm_value *length, cm_value *longest, cm_value **y)
{
    int64_t zero = 0;
    cm_value *none, *rest, *pads;
    cm_up_attr attrs[] = {CM_UP_INT("axis", 0)};
    CM_TRY(cm_up_ints(w, &zero, 1, &none));
    CM_TRY(cm_up_binary(w, "Sub", longest, length, &rest));
    cm_value *parts[] = {none, rest};
    CM_TRY(cm_up_node(w, "Concat", parts, 2, attrs, 1, &pads));
    cm_value *in[] = {*y, pads, NULL, none};
    return cm_up_node(w, "Pad", in, 4, NULL, 0, y);
}

/* The Scan of one sequence, and its results as the outer body's. */
static cm_status inner_scan(cm_pending *u, batched *b)
{
    cm_importer *im = u->im;
    cm_pending w = within(u, b), scan = w;
    cm_value *length = NULL, *longest = NULL;
    cm_ints directions = {0};
    bool found;
    if (b->has_lens)
        CM_TRY(cut(&w, b, &length, &longest));
    CM_TRY(cm_up_take_ints(u, "directions", &directions, &found));
    scan.op = "Scan";
    scan.in = b->in;
    scan.n_in = scan.cap_in = b->n_state + b->n_scan;
    scan.n_out = b->n_out;
    CM_NEW_N(im->cx, im->tmp, scan.out, scan.n_out, const char *);
    for (int i = 0; i < scan.n_out; i++)
        if (!(scan.out[i] = cm_arena_printf(im->tmp, "%s.%d", u->name, i)))
            return cm_fail_memory(im->cx);
    scan.attrs = u->attrs;
    scan.n_attrs = scan.cap_attrs = u->n_attrs;
    if (found)
        CM_TRY(cm_up_set_ints(&scan, "scan_input_directions", directions.v, directions.n));
    CM_TRY(cm_onnx_emit(&scan));
    for (int i = 0; i < b->n_out; i++) {
        cm_value *y;
        CM_TRY(cm_onnx_lookup(im, b->inside, scan.out[i], &y));
        if (b->has_lens && i >= b->n_state)
            CM_TRY(fill(&w, length, longest, &y));
        CM_TRY(cm_network_add_output(im->cx, b->inside->g, y, NULL));
    }
    return CM_OK;
}

static cm_status outer_scan(cm_pending *u, batched *b, cm_value *const *in, int n_in)
{
    cm_importer *im = u->im;
    cm_pending scan = {.im = im,
                       .scope = u->scope,
                       .domain = "",
                       .name = u->name,
                       .version = CM_ONNX_NEWEST_OPSET};
    const cm_op *op = cm_onnx_find_op(im, "", "Scan");
    const char **names;
    void *attr;
    cm_node *n;
    CM_TRY(cm_up_set_int(&scan, "num_scan_inputs", n_in));
    CM_TRY(cm_onnx_attr_struct(&scan, op, &attr));
    CM_NEW_N(im->cx, im->tmp, names, b->n_out, const char *);
    for (int i = 0; i < b->n_out; i++)
        names[i] = i < u->n_out ? cm_onnx_value_name(u, u->out[i]) : "";
    CM_TRY(cm_network_add_node(im->cx, u->scope->g, NULL, op, u->name, attr, in, n_in, names,
                               b->n_out, &n));
    CM_TRY(cm_node_set_subs(im->cx, n, &b->inside->g, 1));
    CM_TRY(cm_node_infer(im->cx, n));
    for (int i = 0; i < u->n_out; i++)
        if (n->out[i])
            CM_TRY(cm_onnx_bind(im, u->scope, u->out[i], n->out[i]));
    return CM_OK;
}

cm_status cm_up_scan(cm_pending *u)
{
    cm_importer *im = u->im;
    const cm_attribute *body = cm_onnx_find_attr(u, "body");
    const cm_attribute *num = cm_onnx_find_attr(u, "num_scan_inputs");
    batched b = {0};
    if (!body || !body->p->g || !num)
        return cm_fail(im->cx, CM_ERR_MODEL, "the body or num_scan_inputs is missing");
    if (num->p->i < 1 || num->p->i > u->n_in - 1)
        return cm_fail(im->cx, CM_ERR_MODEL, "num_scan_inputs is %lld with %d inputs",
                       (long long)num->p->i, u->n_in - 1);
    b.n_scan = (int)num->p->i;
    b.n_state = u->n_in - 1 - b.n_scan;
    b.n_out = (int)body->p->g->output.n;
    b.has_lens = u->in[0] != NULL;
    if (b.n_out < b.n_state || u->n_out > b.n_out)
        return cm_fail(im->cx, CM_ERR_MODEL, "the body has %d outputs, the node %d", b.n_out,
                       u->n_out);
    int n_in = u->n_in - 1 + b.has_lens;
    cm_value **in;
    CM_NEW_N(im->cx, im->tmp, in, n_in, cm_value *);
    for (int i = 1; i < u->n_in; i++) {
        CM_TRY(cm_up_need_input(u, i));
        in[i - 1] = u->in[i];
    }
    if (b.has_lens)
        in[n_in - 1] = u->in[0];
    CM_TRY(begin_body(u, &b, in, n_in));
    CM_TRY(inner_scan(u, &b));
    u->done = true;
    return outer_scan(u, &b, in, n_in);
}
