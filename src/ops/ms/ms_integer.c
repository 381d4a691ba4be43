/* ms_integer.c -- com.microsoft MulInteger and ReduceSumInteger: 8-bit in, 32-bit out.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include "ops/expect.h"

typedef struct {
    uint64_t present;
    cm_ints axes;
    int64_t keepdims;
} sum_attr;

CM_ATTRS(ms_reduce_sum_integer, sum_attr, CM_ATTR_INTS(sum_attr, axes, CM_REQUIRED),
         CM_ATTR_INT(sum_attr, keepdims, 1))

enum { A, A_ZERO, B, B_ZERO };

static cm_status infer_mul(cm_infer *f)
{
    static const int required[] = {B};
    CM_TRY(cm_expect_present(f, required, 1));
    CM_TRY(cm_expect_one(f, A_ZERO, "A_zero_point"));
    CM_TRY(cm_expect_one(f, B_ZERO, "B_zero_point"));
    if (!cm_infer_ranked(f, A) || !cm_infer_ranked(f, B)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    int rank = 0;
    cm_dim dims[CM_MAX_RANK];
    CM_TRY(cm_broadcast_dims(f, &rank, dims, cm_infer_rank(f, A), f->in[A].type->dims));
    CM_TRY(cm_broadcast_dims(f, &rank, dims, cm_infer_rank(f, B), f->in[B].type->dims));
    return cm_infer_tensor(f, 0, rank, dims);
}

static cm_status infer_sum(cm_infer *f)
{
    const sum_attr *a = f->attr;
    bool reduced[CM_MAX_RANK] = {false};
    cm_dim dims[CM_MAX_RANK];
    int n = 0;
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
    } else {
        int rank = cm_infer_rank(f, 0);
        CM_TRY(cm_axes(f->cx, a->axes.v, a->axes.n, rank, reduced));
        for (int d = 0; d < rank; d++)
            if (!reduced[d] || a->keepdims)
                dims[n++] = reduced[d] ? 1 : cm_infer_dim(f, 0, d);
        CM_TRY(cm_infer_tensor(f, 0, n, dims));
    }
    f->out[0].type.dtype = f->in[0].type->dtype == CM_U8 ? CM_U32 : CM_I32;
    return CM_OK;
}

static cm_status eval_mul(cm_eval *e)
{
    const cm_tensor *a = cm_eval_in(e, A), *b = cm_eval_in(e, B);
    cm_tensor *y = cm_eval_out(e, 0);
    int64_t sa[CM_MAX_RANK], sb[CM_MAX_RANK], n = cm_tensor_elems(y);
    int64_t za = cm_eval_has(e, A_ZERO) ? cm_eval_int(e, A_ZERO, 0) : 0;
    int64_t zb = cm_eval_has(e, B_ZERO) ? cm_eval_int(e, B_ZERO, 0) : 0;
    cm_broadcast_strides(a, y->rank, y->dims, sa);
    cm_broadcast_strides(b, y->rank, y->dims, sb);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, ia = 0, ib = 0;
        for (int d = y->rank - 1; d >= 0; rest /= y->dims[d--]) {
            ia += rest % y->dims[d] * sa[d];
            ib += rest % y->dims[d] * sb[d];
        }
        cm_set_i64(y->dtype, y->data, i,
                   (cm_get_i64(a->dtype, a->data, ia) - za) *
                       (cm_get_i64(b->dtype, b->data, ib) - zb));
    }
    return CM_OK;
}

static cm_status eval_sum(cm_eval *e)
{
    const sum_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    bool reduced[CM_MAX_RANK] = {false};
    int64_t n = cm_tensor_elems(x), *sums;
    CM_TRY(cm_axes(e->cx, a->axes.v, a->axes.n, x->rank, reduced));
    CM_NEW_N(e->cx, e->cx->scratch, sums, cm_tensor_elems(y) + 1, int64_t);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, at = 0, stride = 1;
        for (int d = x->rank - 1; d >= 0; rest /= x->dims[d--])
            if (!reduced[d]) {
                at += rest % x->dims[d] * stride;
                stride *= x->dims[d];
            }
        sums[at] += cm_get_i64(x->dtype, x->data, i);
    }
    cm_store_i64(y->dtype, sums, cm_tensor_elems(y), y->data);
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    return f->op->id == CM_OP_MS_MUL_INTEGER ? infer_mul(f) : infer_sum(f);
}

static cm_status eval(cm_eval *e)
{
    return e->op->id == CM_OP_MS_MUL_INTEGER ? eval_mul(e) : eval_sum(e);
}

const cm_family cm_family_ms_integer = {.name = "ms_integer", .infer = infer, .eval = eval};
