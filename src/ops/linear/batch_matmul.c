/* batch_matmul.c -- shapes of numpy's matmul.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/batch_matmul.h"

#include <string.h>

#include "base/size.h"

static const cm_batch_matmul_form plain = {0};

/* The axes of an operand in the order batch..., row, column. A vector has one of them only. */
static void order_axes(int rank, bool trans, bool batch, int *order)
{
    for (int i = 0; i < rank; i++)
        order[i] = i;
    if (rank < 2)
        return;
    if (batch) { /* [row, batch..., column] */
        memmove(order, order + 1, (size_t)(rank - 2) * sizeof *order);
        order[rank - 2] = 0;
    }
    if (trans) {
        int t = order[rank - 1];
        order[rank - 1] = order[rank - 2];
        order[rank - 2] = t;
    }
}

static void ordered_dims(const cm_infer *f, int i, bool trans, bool batch, cm_dim *dims)
{
    int order[CM_MAX_RANK], rank = cm_infer_rank(f, i);
    order_axes(rank, trans, batch, order);
    for (int d = 0; d < rank; d++)
        dims[d] = cm_infer_dim(f, i, order[d]);
}

cm_status cm_batch_matmul_infer(cm_infer *f, int o, int a, int b, const cm_batch_matmul_form *form)
{
    if (!cm_infer_ranked(f, a) || !cm_infer_ranked(f, b)) {
        cm_infer_unknown(f, o);
        return CM_OK;
    }
    form = form ? form : &plain;
    int ra = cm_infer_rank(f, a), rb = cm_infer_rank(f, b), rank = 0;
    if (ra == 0 || rb == 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "a matrix product of a scalar");
    cm_dim da[CM_MAX_RANK], db[CM_MAX_RANK], dims[CM_MAX_RANK];
    ordered_dims(f, a, form->trans_a, form->batch_a, da);
    ordered_dims(f, b, form->trans_b, form->batch_b, db);
    CM_TRY(cm_infer_equal(f, "inner sizes of the product", da[ra - 1], db[rb > 1 ? rb - 2 : 0]));
    CM_TRY(cm_broadcast_dims(f, &rank, dims, ra > 2 ? ra - 2 : 0, da));
    CM_TRY(cm_broadcast_dims(f, &rank, dims, rb > 2 ? rb - 2 : 0, db));
    if (ra > 1)
        dims[rank++] = da[ra - 2];
    if (rb > 1)
        dims[rank++] = db[rb - 1];
    return cm_infer_tensor(f, o, rank, dims);
}

typedef struct {
    int n; /* batch axes */
    int64_t dims[CM_MAX_RANK], strides[CM_MAX_RANK];
} batch_axes;

static void read_operand(const cm_tensor *t, bool is_b, bool trans, bool batch,
                         cm_batch_operand *out, batch_axes *axes)
{
    int order[CM_MAX_RANK], rank = t->rank;
    order_axes(rank, trans, batch, order);
    axes->n = rank > 2 ? rank - 2 : 0;
    for (int i = 0; i < axes->n; i++) {
        axes->dims[i] = t->dims[order[i]];
        axes->strides[i] = axes->dims[i] == 1 ? 0 : t->strides[order[i]];
    }
    if (rank == 1) {
        *out = is_b ? (cm_batch_operand){.rows = t->dims[0], .cols = 1, .row = 1}
                    : (cm_batch_operand){.rows = 1, .cols = t->dims[0], .col = 1};
        return;
    }
    int r = order[rank - 2], c = order[rank - 1];
    *out = (cm_batch_operand){
        .rows = t->dims[r], .cols = t->dims[c], .row = t->strides[r], .col = t->strides[c]};
}

static int64_t offset_of(const batch_axes *x, int n, const int64_t *at)
{
    int64_t offset = 0;
    for (int i = 0; i < x->n; i++)
        offset += at[n - x->n + i] * x->strides[i];
    return offset;
}

cm_status cm_batch_matmul_read(cm_eval *e, const cm_tensor *a, const cm_tensor *b,
                               const cm_batch_matmul_form *form, cm_batch_matmul *out)
{
    batch_axes xa, xb;
    form = form ? form : &plain;
    read_operand(a, false, form->trans_a, form->batch_a, &out->a, &xa);
    read_operand(b, true, form->trans_b, form->batch_b, &out->b, &xb);
    out->m = out->a.rows;
    out->k = out->a.cols;
    out->n = out->b.cols;
    int n = xa.n > xb.n ? xa.n : xb.n;
    int64_t dims[CM_MAX_RANK] = {0}, at[CM_MAX_RANK] = {0};
    out->batch = 1;
    for (int i = 0; i < n; i++) {
        int64_t da = i >= n - xa.n ? xa.dims[i - (n - xa.n)] : 1;
        int64_t db = i >= n - xb.n ? xb.dims[i - (n - xb.n)] : 1;
        dims[i] = da == 1 ? db : da;
        if (!cm_mul_i64(out->batch, dims[i], &out->batch))
            return cm_fail(e->cx, CM_ERR_DATA, "the batch is too large");
    }
    void *offsets[2];
    for (int i = 0; i < 2; i++)
        CM_TRY(cm_eval_scratch(e, (size_t)out->batch, sizeof(int64_t), &offsets[i]));
    out->a.offsets = offsets[0];
    out->b.offsets = offsets[1];
    for (int64_t i = 0; i < out->batch; i++) {
        out->a.offsets[i] = offset_of(&xa, n, at);
        out->b.offsets[i] = offset_of(&xb, n, at);
        for (int d = n - 1; d >= 0 && ++at[d] == dims[d]; d--)
            at[d] = 0;
    }
    return CM_OK;
}
