/* ms_same.c -- com.microsoft operators that are ONNX's own under another name, or nearly.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     Trilu, GatherND, TorchEmbedding (Gather), SampleOp (Identity)     the same
 *     Pad            pads may be [1, 2*rank]       Range       delta may be absent; [1] for scalars
 *     GridSample     other names of the modes      ExpandDims  Unsqueeze with a scalar axis
 *     NhwcMaxPool    channels last                 ConvTransposeWithDynamicPads   pads are an input
 *
 * The rule and the evaluator are those of the ONNX operator. */
#include "ops/delegate.h"

#include <string.h>

#include "ops/expect.h"

enum { MAX_IN = 4 };

static cm_op_id standard(cm_op_id id)
{
    switch (id) {
    case CM_OP_MS_TRILU:
        return CM_OP_TRILU;
    case CM_OP_MS_GATHER_ND:
        return CM_OP_GATHER_ND;
    case CM_OP_MS_TORCH_EMBEDDING:
        return CM_OP_GATHER;
    case CM_OP_MS_PAD:
        return CM_OP_PAD;
    case CM_OP_MS_RANGE:
        return CM_OP_RANGE;
    case CM_OP_MS_GRID_SAMPLE:
        return CM_OP_GRID_SAMPLE;
    case CM_OP_MS_EXPAND_DIMS:
        return CM_OP_UNSQUEEZE;
    case CM_OP_MS_NHWC_MAX_POOL:
        return CM_OP_MAX_POOL;
    case CM_OP_MS_CONV_TRANSPOSE_WITH_DYNAMIC_PADS:
        return CM_OP_CONV_TRANSPOSE;
    default:
        return CM_OP_IDENTITY;
    }
}

static cm_status standard_attr(cm_ctx *cx, cm_op_id id, const void *attr, void **out)
{
    const cm_attr_desc *d = cm_op_builtin(standard(id))->attrs;
    if (id == CM_OP_MS_TORCH_EMBEDDING || d->n_fields == 0)
        return cm_attr_new(cx, cx->scratch, d, out);
    CM_TRY(cm_attr_copy(cx, cx->scratch, d, attr, out));
    if (id == CM_OP_MS_GRID_SAMPLE) {
        const cm_attr_field *field = cm_attr_find(d, "mode");
        const cm_str *mode = cm_attr_get(*out, field);
        cm_str linear = cm_str_of("linear"), cubic = cm_str_of("cubic");
        if (cm_str_equal(*mode, cm_str_of("bilinear")))
            cm_attr_set(d, *out, field, &linear);
        else if (cm_str_equal(*mode, cm_str_of("bicubic")))
            cm_attr_set(d, *out, field, &cubic);
    }
    return CM_OK;
}

static void move_channel(int rank, int64_t *dims, bool to_first)
{
    if (rank < 3)
        return;
    int64_t c = to_first ? dims[rank - 1] : dims[1];
    if (to_first)
        memmove(dims + 2, dims + 1, (size_t)(rank - 2) * sizeof *dims);
    else
        memmove(dims + 1, dims + 2, (size_t)(rank - 2) * sizeof *dims);
    dims[to_first ? 1 : rank - 1] = c;
}

/* The pads input as an attribute. False: its elements are not known. */
static bool set_pads(cm_infer *f, void *attr)
{
    static const int64_t none[1] = {0};
    int64_t *v, n;
    cm_ints pads = {0, none};
    if (cm_infer_has(f, 2)) {
        v = cm_new_n(f->cx->scratch, 2 * CM_MAX_RANK, int64_t);
        if (!v || !cm_infer_ints(f, 2, v, 2 * CM_MAX_RANK, &n))
            return false;
        pads = (cm_ints){n, v};
    }
    if (pads.n)
        cm_delegate_set(CM_OP_CONV_TRANSPOSE, attr, "pads", &pads);
    return true;
}

/* A convolution whose pads are not known yet: rank, batch and nothing more. */
static cm_status infer_unpadded(cm_infer *f)
{
    cm_dim dims[CM_MAX_RANK];
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    int rank = cm_infer_rank(f, 0);
    for (int i = 0; i < rank; i++)
        dims[i] = i == 0 ? cm_infer_dim(f, 0, 0) : cm_infer_fresh(f, "size");
    return cm_infer_tensor(f, 0, rank, dims);
}

/* An integer tensor of one element. */
static cm_status axis_tensor(cm_ctx *cx, int64_t axis, cm_tensor *out)
{
    int64_t one = 1, *v;
    CM_NEW_N(cx, cx->scratch, v, 1, int64_t);
    *v = axis;
    *out = (cm_tensor){0};
    cm_tensor_shape(out, CM_I64, 1, &one);
    out->data = v;
    return CM_OK;
}

static cm_status one_of_type(cm_ctx *cx, cm_dtype t, cm_tensor *out)
{
    double *v;
    CM_NEW_N(cx, cx->scratch, v, 1, double);
    *out = (cm_tensor){0};
    cm_tensor_shape(out, t, 0, NULL);
    cm_set_f64(t, v, 0, 1);
    out->data = v;
    return CM_OK;
}

static cm_status infer_adapted(cm_infer *f, void *attr, int n_in, cm_infer_in *in, cm_type *types,
                               cm_tensor *made)
{
    switch (f->op->id) {
    case CM_OP_MS_PAD:
        if (types[1].rank == 2) {
            types[1].rank = 1;
            types[1].dims[0] = types[1].dims[1];
        }
        break;
    case CM_OP_MS_RANGE:
        for (int i = 0; i < n_in; i++) {
            CM_TRY(cm_expect_one(f, i, "a bound"));
            types[i].rank = 0;
        }
        if (!cm_infer_has(f, 2)) {
            CM_TRY(one_of_type(f->cx, types[0].dtype, made));
            types[2] = cm_type_tensor(types[0].dtype, 0, NULL);
            in[2] = (cm_infer_in){.type = &types[2], .constant = made};
            n_in = 3;
        }
        break;
    case CM_OP_MS_EXPAND_DIMS: {
        int64_t axis, n;
        CM_TRY(cm_expect_one(f, 1, "axis"));
        if (!cm_infer_ints(f, 1, &axis, 1, &n) || n != 1) {
            cm_infer_unknown(f, 0);
            return CM_OK;
        }
        CM_TRY(axis_tensor(f->cx, axis, made));
        types[1] = cm_type_tensor(CM_I64, 1, (cm_dim[]){1});
        in[1] = (cm_infer_in){.type = &types[1], .constant = made};
        break;
    }
    case CM_OP_MS_NHWC_MAX_POOL:
        move_channel(types[0].rank, types[0].dims, true);
        break;
    case CM_OP_MS_CONV_TRANSPOSE_WITH_DYNAMIC_PADS:
        if (!set_pads(f, attr))
            return infer_unpadded(f);
        in[2] = n_in > 3 ? in[3] : (cm_infer_in){0};
        n_in = 3;
        break;
    case CM_OP_MS_TORCH_EMBEDDING:
        n_in = 2;
        break;
    default:
        break;
    }
    CM_TRY(cm_delegate_infer(f, standard(f->op->id), attr, n_in, in, 1, f->out));
    if (f->op->id == CM_OP_MS_NHWC_MAX_POOL)
        move_channel(f->out[0].type.rank, f->out[0].type.dims, false);
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    cm_infer_in in[MAX_IN] = {{0}};
    cm_type types[MAX_IN];
    cm_tensor made;
    void *attr;
    CM_TRY(standard_attr(f->cx, f->op->id, f->attr, &attr));
    for (int i = 0; i < f->n_in && i < MAX_IN; i++) {
        in[i] = f->in[i];
        if (in[i].type) {
            types[i] = *in[i].type;
            in[i].type = &types[i];
        }
    }
    return infer_adapted(f, attr, f->n_in, in, types, &made);
}

/* A copy with the channel axis moved. */
static cm_status swap_channel(cm_eval *e, const cm_tensor *t, bool to_first, cm_tensor *out)
{
    int64_t dims[CM_MAX_RANK];
    memcpy(dims, t->dims, sizeof dims);
    move_channel(t->rank, dims, to_first);
    if (!out->data)
        CM_TRY(cm_eval_temp(e, t->dtype, t->rank, dims, out));
    size_t size = cm_dtype_size(t->dtype);
    int split = to_first ? t->rank - 1 : 2;
    int64_t a = cm_dims_product(t->dims, 1, split), b = cm_dims_product(t->dims, split, t->rank);
    for (int64_t i = 0; i < t->dims[0]; i++)
        for (int64_t j = 0; j < a; j++)
            for (int64_t k = 0; k < b; k++)
                memcpy((char *)out->data + (size_t)((i * b + k) * a + j) * size,
                       (const char *)t->data + (size_t)((i * a + j) * b + k) * size, size);
    return CM_OK;
}

static cm_status eval_pool(cm_eval *e, const void *attr)
{
    cm_tensor x = {0}, y = {0}, *out = cm_eval_out(e, 0);
    const cm_tensor *in[] = {&x};
    int64_t dims[CM_MAX_RANK];
    CM_TRY(swap_channel(e, cm_eval_in(e, 0), true, &x));
    memcpy(dims, out->dims, sizeof dims);
    move_channel(out->rank, dims, true);
    CM_TRY(cm_eval_temp(e, out->dtype, out->rank, dims, &y));
    CM_TRY(cm_delegate_eval(e, CM_OP_MAX_POOL, attr, 1, in, &y));
    return swap_channel(e, &y, false, out);
}

static cm_status eval(cm_eval *e)
{
    cm_op_id id = e->op->id;
    const cm_tensor *in[MAX_IN] = {NULL};
    cm_tensor made = {0}, scalars[3];
    cm_ints pads = {0};
    int n_in = e->n_in < MAX_IN ? e->n_in : MAX_IN;
    void *attr;
    CM_TRY(standard_attr(e->cx, id, e->attr, &attr));
    for (int i = 0; i < n_in; i++)
        in[i] = cm_eval_has(e, i) ? cm_eval_in(e, i) : NULL;
    switch (id) {
    case CM_OP_MS_NHWC_MAX_POOL:
        return eval_pool(e, attr);
    case CM_OP_MS_PAD:
        scalars[0] = *in[1];
        cm_tensor_shape(&scalars[0], CM_I64, 1, (int64_t[]){cm_tensor_elems(in[1])});
        in[1] = &scalars[0];
        break;
    case CM_OP_MS_RANGE:
        CM_TRY(one_of_type(e->cx, in[0]->dtype, &made));
        for (int i = 0; i < 3; i++) {
            scalars[i] = i < n_in && in[i] ? *in[i] : made;
            cm_tensor_shape(&scalars[i], scalars[i].dtype, 0, NULL);
            in[i] = &scalars[i];
        }
        n_in = 3;
        break;
    case CM_OP_MS_EXPAND_DIMS:
        CM_TRY(axis_tensor(e->cx, cm_eval_int(e, 1, 0), &made));
        in[1] = &made;
        break;
    case CM_OP_MS_CONV_TRANSPOSE_WITH_DYNAMIC_PADS:
        if (in[2]) {
            CM_TRY(cm_eval_as_i64(e, 2, &pads.v));
            pads.n = cm_tensor_elems(in[2]);
            cm_delegate_set(CM_OP_CONV_TRANSPOSE, attr, "pads", &pads);
        }
        in[2] = in[3];
        n_in = 3;
        break;
    case CM_OP_MS_TORCH_EMBEDDING:
        n_in = 2;
        break;
    default:
        break;
    }
    return cm_delegate_eval(e, standard(id), attr, n_in, in, cm_eval_out(e, 0));
}

const cm_family cm_family_ms_same = {.name = "ms_same", .infer = infer, .eval = eval};
