/* trilu.c -- Trilu: the upper or lower triangle of matrices, the rest zero.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/move/move.h"

#include <string.h>

#include "base/size.h"

typedef struct {
    uint64_t present;
    int64_t upper;
} trilu_attr;
CM_ATTRS(trilu, trilu_attr, CM_ATTR_INT(trilu_attr, upper, 1))

static cm_status infer(cm_infer *f)
{
    if (cm_infer_rank(f, 0) >= 0 && cm_infer_rank(f, 0) < 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "the input has rank %d, wanted 2 or more",
                       cm_infer_rank(f, 0));
    if (cm_infer_has(f, 1))
        CM_TRY(cm_move_check_count(f, 1, "k", 1));
    return cm_infer_like(f, 0, 0);
}

static cm_status eval(cm_eval *e)
{
    const trilu_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
    int64_t k = cm_eval_has(e, 1) ? cm_eval_int(e, 1, 0) : 0;
    if (cm_tensor_elems(y) == 0)
        return CM_OK;
    k = cm_max_i64(-rows - 1, cm_min_i64(k, columns + 1)); /* further out is no different */
    size_t size = cm_dtype_size(x->dtype);
    int64_t all_rows = cm_tensor_elems(x) / columns;
    memset(y->data, 0, (size_t)cm_tensor_elems(y) * size);
    for (int64_t r = 0; r < all_rows; r++) {
        int64_t diagonal = r % rows + k; /* the column of the diagonal in this row */
        int64_t from = a->upper ? cm_max_i64(0, cm_min_i64(diagonal, columns)) : 0;
        int64_t to = a->upper ? columns : cm_max_i64(0, cm_min_i64(diagonal + 1, columns));
        memcpy(cm_move_to(y->data, r * columns + from, size),
               cm_move_at(x->data, r * columns + from, size), (size_t)(to - from) * size);
    }
    return CM_OK;
}

const cm_family cm_family_trilu = {"trilu", infer, eval, cm_move_cost};
