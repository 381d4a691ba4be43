/* rt_plugin_calls.c -- type rules and evaluators of plugins' operators.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/rt_plugin.h"

cm_status cm_plugin_status(cm_ctx *cx, const cm_op *op, cameo_status st)
{
    if (st == CAMEO_OK)
        return CM_OK;
    if (st < CAMEO_OK || st > CAMEO_ERR_INTERNAL)
        return cm_fail(cx, CM_ERR_INTERNAL, "plugin %s: %s returned the status %d", op->plugin,
                       op->name, (int)st);
    if (!cx->message[0])
        return cm_fail(cx, (cm_status)st, "%s refuses it without a reason", op->name);
    return (cm_status)st;
}

/* ---- Type rules ----------------------------------------------------------------------------- */

static cm_infer *infer_of(const cameo_rule *r)
{
    return r->host;
}

static cameo_status rule_fail(const cameo_rule *r, const char *sentence)
{
    return (cameo_status)cm_fail(infer_of(r)->cx, CM_ERR_MODEL, "%s", sentence ? sentence : "?");
}

static cameo_status rule_output(const cameo_rule *r, int o, cameo_dtype dtype, int rank,
                                const cameo_dim *dims)
{
    cm_infer *f = infer_of(r);
    cm_dim d[CM_MAX_RANK];
    if (o < 0 || o >= f->n_out)
        return CAMEO_OK;
    if (!cm_dtype_valid((int)dtype) || rank < -1 || rank > CM_MAX_RANK || (rank > 0 && !dims))
        return (cameo_status)cm_fail(f->cx, CM_ERR_MODEL,
                                     "its rule gives output %d element type %d and rank %d", o,
                                     (int)dtype, rank);
    bool known = rank >= 0;
    for (int i = 0; i < rank; i++) {
        char what[32];
        snprintf(what, sizeof what, "%d_%d", o, i);
        d[i] = dims[i];
        if (dims[i] == CAMEO_DIM_DATA && f->dims)
            d[i] = cm_infer_fresh(f, what);
        known = known && d[i] != CAMEO_DIM_DATA && d[i] != CM_DIM_ERROR;
    }
    if (known)
        return (cameo_status)cm_infer_typed(f, o, (cm_dtype)dtype, rank, d);
    cm_infer_unknown(f, o); /* while running: the evaluator will say */
    f->out[o].type.dtype = (cm_dtype)dtype;
    return CAMEO_OK;
}

static cameo_dim rule_combine(const cameo_rule *r, cameo_dim a, char op, cameo_dim b)
{
    cm_infer *f = infer_of(r);
    if (a == CAMEO_DIM_DATA || b == CAMEO_DIM_DATA)
        return CAMEO_DIM_DATA;
    cm_dim d = CM_DIM_ERROR;
    switch (op) {
    case '+':
        d = cm_infer_add(f, a, b);
        break;
    case '-':
        d = cm_infer_sub(f, a, b);
        break;
    case '*':
        d = cm_infer_mul(f, a, b);
        break;
    case '/':
        d = cm_infer_floor_div(f, a, b);
        break;
    case '^':
        d = cm_infer_ceil_div(f, a, b);
        break;
    default:
        break;
    }
    return d == CM_DIM_ERROR ? CAMEO_DIM_DATA : d;
}

static cameo_status rule_equal(const cameo_rule *r, const char *what, cameo_dim found,
                               cameo_dim wanted)
{
    return (cameo_status)cm_infer_equal(infer_of(r), what ? what : "sizes", found, wanted);
}

static const cameo_rule_calls rule_calls = {sizeof rule_calls, rule_output, rule_combine,
                                            rule_equal, rule_fail};

static cm_status show_inputs(cm_infer *f, cameo_operand_type *in, cameo_tensor *values)
{
    for (int i = 0; i < f->n_in; i++) {
        const cm_type *t = f->in[i].type;
        if (!t)
            continue;
        if (t->kind != CM_TENSOR && t->kind != CM_NOTHING)
            return cm_fail(f->cx, CM_ERR_MODEL, "input %d is no tensor: plugins take tensors", i);
        bool ranked = t->kind == CM_TENSOR && t->rank >= 0;
        in[i] =
            (cameo_operand_type){true, (cameo_dtype)t->dtype, ranked ? t->rank : -1, t->dims, NULL};
        if (f->in[i].constant) {
            cm_tensor_to_api(f->in[i].constant, &values[i]);
            in[i].value = &values[i];
        }
    }
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const cm_plugin_row *row = cm_plugin_row_of(f->op);
    cm_arena_mark mark = cm_arena_save(f->cx->scratch);
    cameo_operand_type *in;
    cameo_tensor *values;
    cameo_rule r = {.size = sizeof r,
                    .call = &rule_calls,
                    .host = f,
                    .n_attrs = row->attrs.n_fields,
                    .n_inputs = f->n_in,
                    .n_outputs = f->n_out};
    CM_NEW_N(f->cx, f->cx->scratch, in, f->n_in, cameo_operand_type);
    CM_NEW_N(f->cx, f->cx->scratch, values, f->n_in, cameo_tensor);
    CM_TRY(cm_plugin_attrs(f->cx, f->cx->scratch, row, f->attr, &r.attrs));
    CM_TRY(show_inputs(f, in, values));
    r.inputs = in;
    for (int o = 0; o < f->n_out; o++)
        cm_infer_unknown(f, o); /* unless the rule says more */
    f->cx->message[0] = 0;
    cm_status st = cm_plugin_status(f->cx, f->op, row->own->rule(&r));
    cm_arena_restore(f->cx->scratch, mark);
    return st;
}

/* ---- Evaluators ----------------------------------------------------------------------------- */

typedef struct {
    cm_eval *e;
    cameo_tensor *const *outputs;
} evaluation;

static const evaluation *evaluation_of(const cameo_eval *e)
{
    return e->host;
}

static cameo_status eval_allocate(const cameo_eval *e, int o, cameo_dtype dtype, int rank,
                                  const int64_t *dims)
{
    const evaluation *j = evaluation_of(e);
    if (o < 0 || !cm_eval_wants(j->e, o))
        return CAMEO_OK;
    if (!cm_dtype_valid((int)dtype) || rank < 0 || rank > CM_MAX_RANK || (rank && !dims))
        return (cameo_status)cm_fail(j->e->cx, CM_ERR_DATA,
                                     "output %d would have element type %d and rank %d", o,
                                     (int)dtype, rank);
    cm_status st = cm_eval_alloc(j->e, o, (cm_dtype)dtype, rank, dims);
    if (st == CM_OK)
        cm_tensor_to_api(cm_eval_out(j->e, o), j->outputs[o]);
    return (cameo_status)st;
}

static void *eval_scratch(const cameo_eval *e, size_t bytes)
{
    void *p;
    return cm_eval_scratch(evaluation_of(e)->e, bytes, 1, &p) == CM_OK ? p : NULL;
}

static void eval_parallel(const cameo_eval *e, int64_t n, int64_t grain, cameo_range fn, void *arg)
{
    cm_parallel(evaluation_of(e)->e->threads, n, grain > 0 ? grain : 1, fn, arg);
}

static cameo_status eval_fail(const cameo_eval *e, const char *sentence)
{
    return (cameo_status)cm_fail(evaluation_of(e)->e->cx, CM_ERR_DATA, "%s",
                                 sentence ? sentence : "?");
}

static const cameo_eval_calls eval_calls = {sizeof eval_calls, eval_allocate, eval_scratch,
                                            eval_parallel, eval_fail};

static cm_status show_tensors(cm_eval *e, const cameo_tensor **in, cameo_tensor **out)
{
    cameo_tensor *tensors;
    CM_NEW_N(e->cx, e->cx->scratch, tensors, e->n_in + e->n_out, cameo_tensor);
    for (int i = 0; i < e->n_in; i++) {
        if (!e->in[i])
            continue;
        cm_tensor_to_api(cm_eval_in(e, i), &tensors[i]);
        in[i] = &tensors[i];
    }
    for (int o = 0; o < e->n_out; o++) {
        if (!cm_eval_wants(e, o))
            continue;
        out[o] = &tensors[e->n_in + o];
        if (e->out[o]->tensor.data)
            cm_tensor_to_api(cm_eval_out(e, o), out[o]);
    }
    return CM_OK;
}

/* An output that the plugin neither found shaped nor allocated. */
static cm_status check_made(const cm_eval *e, cameo_tensor *const *out)
{
    for (int o = 0; o < e->n_out; o++)
        if (out[o] && !out[o]->data && e->out[o]->tensor.data == NULL &&
            cm_tensor_elems(&e->out[o]->tensor) != 0)
            return cm_fail(e->cx, CM_ERR_INTERNAL, "plugin %s left output %d of %s unmade",
                           e->op->plugin, o, e->op->name);
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const cm_plugin_row *row = cm_plugin_row_of(e->op);
    const cameo_tensor **in;
    cameo_tensor **out;
    CM_NEW_N(e->cx, e->cx->scratch, in, e->n_in, const cameo_tensor *);
    CM_NEW_N(e->cx, e->cx->scratch, out, e->n_out, cameo_tensor *);
    CM_TRY(show_tensors(e, in, out));
    evaluation j = {e, out};
    cameo_eval api = {.size = sizeof api,
                      .call = &eval_calls,
                      .host = &j,
                      .n_attrs = row->attrs.n_fields,
                      .n_inputs = e->n_in,
                      .inputs = in,
                      .n_outputs = e->n_out,
                      .outputs = out};
    CM_TRY(cm_plugin_attrs(e->cx, e->cx->scratch, row, e->attr, &api.attrs));
    e->cx->message[0] = 0;
    CM_TRY(cm_plugin_status(e->cx, e->op, row->own->eval(&api)));
    return check_made(e, out);
}

const cm_family cm_plugin_family = {.name = "plugin", .infer = infer, .eval = eval};
