/* views.c -- what the passes on reshapes share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/views.h"

bool cm_reshape_target(const cm_type *from, const cm_type *to, int64_t *shape)
{
    bool open = false;
    if (from->kind != CM_TENSOR || to->kind != CM_TENSOR || from->rank < 0 || to->rank < 0)
        return false;
    for (int i = 0; i < to->rank; i++) {
        if (i < from->rank && to->dims[i] == from->dims[i]) {
            shape[i] = 0;
        } else if (cm_dim_is_size(to->dims[i]) && to->dims[i] > 0) {
            shape[i] = to->dims[i];
        } else if (!open && to->dims[i] != 0) {
            shape[i] = -1;
            open = true;
        } else {
            return false;
        }
    }
    for (int i = 0; i < to->rank && i < from->rank; i++) /* say sizes where they are known */
        if (shape[i] == 0 && cm_dim_is_size(to->dims[i]) && to->dims[i] > 0)
            shape[i] = to->dims[i];
    if (!open)
        return true;
    for (int i = 0; i < to->rank;
         i++) /* -1 is found by division: a zero among the rest forbids it */
        if (to->dims[i] == 0)
            return false;
    return true;
}

cm_status cm_make_reshape(cm_rewriter *rw, cm_node *before, cm_value *x, const int64_t *shape,
                          int rank, const cm_node *like, cm_node **out)
{
    cm_value *s;
    int64_t dims[1] = {rank};
    CM_TRY(cm_make_const_i64(rw->cx, before->network, "shape", 1, dims, shape, &s));
    return cm_make(rw, before, CM_OP_RESHAPE, like, (cm_value *[]){x, s}, 2, 1, out);
}
