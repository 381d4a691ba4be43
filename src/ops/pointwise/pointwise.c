/* pointwise.c -- cameo.Pointwise: a group of pointwise operators as one program.
 * SPDX-License-Identifier: Apache-2.0
 *
 * `program` is as plan/program.h has it; `$k` is input k. `to` lists the element type of each output,
 * in ONNX's numbers. Every output has the shape that all inputs broadcast to. */
#include "ops/eval.h"
#include "ops/program_eval.h"

typedef struct {
    uint64_t present;
    cm_str program;
    cm_ints to;
} pointwise_attr;

CM_ATTRS(pointwise, pointwise_attr, CM_ATTR_STR_REQUIRED(pointwise_attr, program),
         CM_ATTR_INTS(pointwise_attr, to, CM_REQUIRED))

static cm_status read_program(cm_ctx *cx, const pointwise_attr *a, int n_in, int n_out,
                              cm_program *p)
{
    CM_TRY(cm_program_parse(cx, a->program.p, a->program.n, p));
    if (p->uses_x || p->n_operands > n_in || p->n_outputs != n_out || a->to.n != n_out)
        return cm_fail(
            cx, CM_ERR_MODEL,
            "the program has %d operands and %d results (%lld types) for %d inputs and %d "
            "outputs",
            p->n_operands, p->n_outputs, (long long)a->to.n, n_in, n_out);
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const pointwise_attr *a = f->attr;
    cm_program p;
    CM_TRY(read_program(f->cx, a, f->n_in, f->n_out, &p));
    for (int o = 0; o < f->n_out; o++) {
        if (!cm_dtype_valid((int)a->to.v[o]))
            return cm_fail(f->cx, CM_ERR_MODEL, "to has an unknown element type, %lld",
                           (long long)a->to.v[o]);
        f->out[o].type.dtype = (cm_dtype)a->to.v[o];
        CM_TRY(cm_infer_broadcast(f, o, 0, f->n_in));
    }
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    cm_program p;
    cm_tensor *out[CM_PROGRAM_MAX];
    CM_TRY(read_program(e->cx, e->attr, e->n_in, e->n_out, &p));
    for (int o = 0; o < e->n_out; o++)
        out[o] = cm_eval_wants(e, o) ? cm_eval_out(e, o) : NULL;
    return cm_program_eval(e, &p, NULL, e->in, out);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    const pointwise_attr *a = f->attr;
    double instructions = 1;
    for (size_t i = 0; i < a->program.n; i++)
        instructions += a->program.p[i] == ';';
    c->ops = instructions * cm_infer_volume(f, &f->out[0].type);
}

const cm_family cm_family_pointwise = {
    .name = "pointwise", .infer = infer, .eval = eval, .cost = cost};
