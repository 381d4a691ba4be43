/* pointwise_reduce.c -- cameo.PointwiseReduce: a pointwise program whose result is reduced at once.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     y = ReduceMean(program(in0, in1, ...), axes)      `reduce` names the operator
 *
 * What is between the two never exists in memory on a device; the reference keeps it in double. */
#include "ops/delegate.h"
#include "ops/program_eval.h"

typedef struct {
    uint64_t present;
    cm_str program, reduce;
    cm_ints axes;
    int64_t keepdims;
} pointwise_reduce_attr;

CM_ATTRS(pointwise_reduce, pointwise_reduce_attr,
         CM_ATTR_STR_REQUIRED(pointwise_reduce_attr, program),
         CM_ATTR_STR_REQUIRED(pointwise_reduce_attr, reduce),
         CM_ATTR_INTS(pointwise_reduce_attr, axes, CM_REQUIRED),
         CM_ATTR_INT(pointwise_reduce_attr, keepdims, 1))

static const cm_op_id reductions[] = {CM_OP_REDUCE_SUM, CM_OP_REDUCE_MEAN,      CM_OP_REDUCE_MAX,
                                      CM_OP_REDUCE_MIN, CM_OP_REDUCE_PROD,      CM_OP_REDUCE_L1,
                                      CM_OP_REDUCE_L2,  CM_OP_REDUCE_SUM_SQUARE};

static cm_status find_reduction(cm_ctx *cx, const pointwise_reduce_attr *a, cm_op_id *out)
{
    for (int i = 0; i < CM_COUNT(reductions); i++) {
        if (cm_str_equal(a->reduce, cm_str_of(cm_op_builtin(reductions[i])->name))) {
            *out = reductions[i];
            return CM_OK;
        }
    }
    return cm_fail(cx, CM_ERR_MODEL, "'%.*s' is not a reduction that can follow a program",
                   (int)a->reduce.n, a->reduce.p);
}

static cm_status read_program(cm_ctx *cx, const pointwise_reduce_attr *a, int n_in, cm_program *p)
{
    CM_TRY(cm_program_parse(cx, a->program.p, a->program.n, p));
    if (p->uses_x || p->n_operands > n_in || p->n_outputs != 1)
        return cm_fail(cx, CM_ERR_MODEL, "the program has %d operands and %d results for %d inputs",
                       p->n_operands, p->n_outputs, n_in);
    return CM_OK;
}

/* The reduction's own inputs: the program's result and the axes. */
static cm_status axes_tensor(cm_ctx *cx, const pointwise_reduce_attr *a, cm_tensor *out)
{
    *out = (cm_tensor){0};
    if (!cm_tensor_shape(out, CM_I64, 1, &a->axes.n))
        return cm_fail(cx, CM_ERR_MODEL, "axes are too many");
    out->data = (void *)a->axes.v;
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const pointwise_reduce_attr *a = f->attr;
    cm_program p;
    cm_op_id reduce;
    cm_tensor axes;
    void *attr;
    CM_TRY(read_program(f->cx, a, f->n_in, &p));
    CM_TRY(find_reduction(f->cx, a, &reduce));
    CM_TRY(axes_tensor(f->cx, a, &axes));
    CM_TRY(cm_infer_broadcast(f, 0, 0, f->n_in));
    CM_TRY(cm_delegate_attr(f->cx, reduce, &attr));
    cm_delegate_set(reduce, attr, "keepdims", &a->keepdims);
    cm_type x = f->out[0].type, axes_type = cm_type_of_tensor(&axes);
    x.dtype = f->in[0].type->dtype;
    cm_infer_in in[] = {{.type = &x}, {.type = &axes_type, .constant = &axes}};
    cm_infer_out *out;
    CM_NEW(f->cx, f->cx->scratch, out, cm_infer_out);
    CM_TRY(cm_delegate_infer(f, reduce, attr, 2, in, 1, out));
    f->out[0].type = out->type;
    return CM_OK;
}

/* The shape that the inputs broadcast to: at run time, numbers. */
static cm_status whole_shape(cm_eval *e, int *rank, int64_t *dims)
{
    *rank = 0;
    for (int i = 0; i < e->n_in; i++) {
        const cm_tensor *t = cm_eval_in(e, i);
        int r = t->rank > *rank ? t->rank : *rank;
        int64_t out[CM_MAX_RANK];
        for (int k = 1; k <= r; k++) {
            int64_t x = k <= *rank ? dims[*rank - k] : 1,
                    y = k <= t->rank ? t->dims[t->rank - k] : 1;
            out[r - k] = x == 1 ? y : x;
        }
        for (int k = 0; k < r; k++)
            dims[k] = out[k];
        *rank = r;
    }
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const pointwise_reduce_attr *a = e->attr;
    cm_program p;
    cm_op_id reduce;
    cm_tensor axes, whole;
    void *attr;
    int rank;
    int64_t dims[CM_MAX_RANK];
    CM_TRY(read_program(e->cx, a, e->n_in, &p));
    CM_TRY(find_reduction(e->cx, a, &reduce));
    CM_TRY(axes_tensor(e->cx, a, &axes));
    CM_TRY(whole_shape(e, &rank, dims));
    CM_TRY(cm_eval_temp(e, CM_F64, rank, dims, &whole));
    CM_TRY(cm_program_eval(e, &p, NULL, e->in, (cm_tensor *[]){&whole}));
    CM_TRY(cm_delegate_attr(e->cx, reduce, &attr));
    cm_delegate_set(reduce, attr, "keepdims", &a->keepdims);
    const cm_tensor *in[] = {&whole, &axes};
    return cm_delegate_eval(e, reduce, attr, 2, in, cm_eval_out(e, 0));
}

static void cost(const cm_infer *f, cm_cost *c)
{
    const pointwise_reduce_attr *a = f->attr;
    double instructions = 2, most = 0;
    for (size_t i = 0; i < a->program.n; i++)
        instructions += a->program.p[i] == ';';
    for (int i = 0; i < f->n_in; i++) {
        double n = cm_infer_volume(f, f->in[i].type);
        most = n > most ? n : most;
    }
    c->ops = instructions * most;
}

const cm_family cm_family_pointwise_reduce = {
    .name = "pointwise_reduce", .infer = infer, .eval = eval, .cost = cost};
