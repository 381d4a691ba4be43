/* ms_padding.c -- com.microsoft RemovePadding and RestorePadding: sequences of a batch to tokens
 * one after the other, and back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <string.h>

#include "base/size.h"
#include "ops/expect.h"

static cm_status infer_remove(cm_infer *f)
{
    CM_TRY(cm_expect_rank(f, 0, "input", 3, 3));
    CM_TRY(cm_expect_rank(f, 1, "sequence_token_count", 1, 1));
    if (!cm_infer_ranked(f, 0)) {
        for (int o = 0; o < 4; o++)
            cm_infer_unknown(f, o);
        return CM_OK;
    }
    cm_dim batch = cm_infer_dim(f, 0, 0), v[CM_MAX_ELEMS], tokens = 0, one = 1;
    cm_dim offsets[] = {batch, cm_infer_dim(f, 0, 1)}, ends = cm_infer_add(f, batch, 1);
    CM_TRY(cm_expect_shape(f, 1, "sequence_token_count", 1, &batch));
    int n;
    const cm_tensor *counts = f->in[1].constant;
    if (counts) {
        int64_t sum = 0;
        for (int64_t i = 0; i < cm_tensor_elems(counts); i++)
            sum += cm_max_i64(cm_get_i64(counts->dtype, counts->data, i), 0);
        tokens = sum;
    } else if (cm_infer_elems(f, 1, v, &n)) {
        for (int i = 0; i < n; i++)
            tokens = cm_infer_add(f, tokens, v[i]);
    } else {
        tokens = cm_infer_fresh(f, "tokens");
    }
    cm_dim out[] = {tokens, cm_infer_dim(f, 0, 2)};
    CM_TRY(cm_infer_tensor(f, 0, 2, out));
    CM_TRY(cm_infer_tensor(f, 1, 2, offsets));
    CM_TRY(cm_infer_tensor(f, 2, 1, &ends));
    return cm_infer_tensor(f, 3, 1, &one);
}

static cm_status infer(cm_infer *f)
{
    if (f->op->id == CM_OP_MS_REMOVE_PADDING)
        return infer_remove(f);
    CM_TRY(cm_expect_rank(f, 0, "input", 2, 2));
    CM_TRY(cm_expect_rank(f, 1, "token_offset", 2, 2));
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    cm_dim out[] = {cm_infer_dim(f, 1, 0), cm_infer_dim(f, 1, 1), cm_infer_dim(f, 0, 1)};
    return cm_infer_tensor(f, 0, 3, out);
}

static cm_status eval_remove(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    int64_t batch = x->dims[0], len = x->dims[1], next = 0, most = 0, n_tokens = 0;
    size_t row = (size_t)x->dims[2] * cm_dtype_size(x->dtype);
    int32_t *offsets = cm_eval_wants(e, 1) ? cm_eval_out(e, 1)->data : NULL;
    int32_t *ends = cm_eval_wants(e, 2) ? cm_eval_out(e, 2)->data : NULL;
    char *to = cm_eval_wants(e, 0) ? cm_eval_out(e, 0)->data : NULL;
    for (int64_t b = 0; b < batch; b++) {
        int64_t n = cm_eval_int(e, 1, b);
        if (n < 0 || n > len)
            return cm_fail(e->cx, CM_ERR_DATA,
                           "sequence_token_count[%lld] is %lld, wanted 0 to %lld", (long long)b,
                           (long long)n, (long long)len);
        n_tokens += n;
        most = cm_max_i64(most, n);
    }
    int64_t padding = n_tokens;
    for (int64_t b = 0; b < batch; b++) {
        int64_t n = cm_eval_int(e, 1, b);
        if (ends)
            ends[b] = (int32_t)next;
        for (int64_t i = 0; i < len; i++) {
            int64_t at = i < n ? next++ : padding++;
            if (offsets)
                offsets[at] = (int32_t)(b * len + i);
            if (to && i < n && row)
                memcpy(to + (size_t)at * row, (const char *)x->data + (size_t)(b * len + i) * row,
                       row);
        }
    }
    if (ends)
        ends[batch] = (int32_t)next;
    if (cm_eval_wants(e, 3))
        *(int32_t *)cm_eval_out(e, 3)->data = (int32_t)most;
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    if (e->op->id == CM_OP_MS_REMOVE_PADDING)
        return eval_remove(e);
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    int64_t places = y->dims[0] * y->dims[1];
    size_t row = (size_t)x->dims[1] * cm_dtype_size(x->dtype);
    if (row == 0)
        return CM_OK;
    memset(y->data, 0, (size_t)places * row);
    for (int64_t i = 0; i < x->dims[0]; i++) {
        int64_t at = i < places ? cm_eval_int(e, 1, i) : -1;
        if (at < 0 || at >= places)
            return cm_fail(e->cx, CM_ERR_DATA, "token %lld belongs to place %lld of %lld",
                           (long long)i, (long long)at, (long long)places);
        memcpy((char *)y->data + (size_t)at * row, (const char *)x->data + (size_t)i * row, row);
    }
    return CM_OK;
}

const cm_family cm_family_ms_padding = {.name = "ms_padding", .infer = infer, .eval = eval};
