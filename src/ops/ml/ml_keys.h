/* ml_keys.h -- lists of labels or numbers as keys: where in a list is one?
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_ML_KEYS_H
#define CM_OPS_ML_KEYS_H

#include "ops/eval.h"

/* Elements of an attribute or a tensor; data NULL: 0, 1, 2, ... */
typedef struct cm_keys {
    cm_dtype dtype;
    int64_t n;
    const void *data;
} cm_keys;

static inline cm_keys cm_keys_of_tensor(const cm_tensor *t)
{
    return (cm_keys){t->dtype, cm_tensor_elems(t), t->data};
}

typedef struct cm_key_table {
    cm_keys keys;
    int64_t *slots; /* by hash: 0 free, else the place + 1 */
    uint64_t mask;
} cm_key_table;

/* In scratch. Of keys that are repeated the last counts; every NaN is one key, and so are the zeros. */
cm_status cm_key_table_build(cm_eval *e, cm_keys keys, cm_key_table *out) CM_MUST_USE;
/* The place of element i of `of`, which is of the same kind as the keys; -1: not among them. */
int64_t cm_key_table_find(const cm_key_table *t, cm_keys of, int64_t i);
/* Places of keys in ascending order of the keys, those of equal keys as they come; n of them. */
cm_status cm_keys_sort(cm_eval *e, cm_keys keys, int64_t **places) CM_MUST_USE;

#endif
