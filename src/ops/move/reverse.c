/* reverse.c -- ReverseSequence: the first elements of each sequence of a batch, backwards.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/move/move.h"

#include <string.h>

typedef struct {
    uint64_t present;
    int64_t batch_axis, time_axis;
} reverse_sequence_attr;
CM_ATTRS(reverse_sequence, reverse_sequence_attr, CM_ATTR_INT(reverse_sequence_attr, batch_axis, 1),
         CM_ATTR_INT(reverse_sequence_attr, time_axis, 0))

static cm_status infer(cm_infer *f)
{
    const reverse_sequence_attr *a = f->attr;
    int rank = cm_infer_rank(f, 0);
    if (a->batch_axis < 0 || a->batch_axis > 1 || a->time_axis != 1 - a->batch_axis)
        return cm_fail(f->cx, CM_ERR_MODEL, "batch_axis=%lld and time_axis=%lld, wanted 0 and 1",
                       (long long)a->batch_axis, (long long)a->time_axis);
    if (rank >= 0 && rank < 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "the input has rank %d, wanted 2 or more", rank);
    if (cm_infer_ranked(f, 1) && cm_infer_rank(f, 1) != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "sequence_lens has rank %d, wanted 1",
                       cm_infer_rank(f, 1));
    if (rank >= 0 && cm_infer_ranked(f, 1))
        CM_TRY(cm_infer_equal(f, "size of sequence_lens", cm_infer_dim(f, 1, 0),
                              cm_infer_dim(f, 0, (int)a->batch_axis)));
    return cm_infer_like(f, 0, 0);
}

static cm_status eval(cm_eval *e)
{
    const reverse_sequence_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    int64_t batch = x->dims[a->batch_axis], time = x->dims[a->time_axis];
    int64_t run = cm_dims_product(x->dims, 2, x->rank);
    int64_t of_batch = a->batch_axis == 0 ? time * run : run;
    int64_t of_time = a->time_axis == 0 ? batch * run : run;
    size_t size = cm_dtype_size(x->dtype);
    for (int64_t b = 0; b < batch; b++) {
        int64_t length = cm_eval_int(e, 1, b);
        if (length < 0 || length > time)
            return cm_fail(e->cx, CM_ERR_DATA,
                           "sequence_lens[%lld] is %lld, the time axis has %lld", (long long)b,
                           (long long)length, (long long)time);
        for (int64_t t = 0; run > 0 && t < time; t++) {
            int64_t from = t < length ? length - 1 - t : t;
            memcpy(cm_move_to(y->data, b * of_batch + t * of_time, size),
                   cm_move_at(x->data, b * of_batch + from * of_time, size), (size_t)run * size);
        }
    }
    return CM_OK;
}

const cm_family cm_family_reverse = {"reverse", infer, eval, cm_move_cost};
