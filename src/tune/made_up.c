/* made_up.c -- data to measure with.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tune/made_up.h"

#include <stdlib.h>
#include <string.h>

enum { PERIOD = 1 << 16 }; /* bytes, after which numbers come again */

size_t cm_extent_bytes(const cm_tensor *t)
{
    int64_t last = 0;
    size_t bytes;
    if (cm_tensor_elems(t) == 0)
        return 0;
    if (t->packed) /* always dense */
        return cm_tensor_bytes(t, &bytes) ? bytes : 0;
    for (int a = 0; a < t->rank; a++)
        last += (t->dims[a] - 1) * llabs(t->strides[a]);
    return ((size_t)last + 1) * cm_dtype_size(t->dtype);
}

void cm_make_up(cm_dtype type, void *data, size_t bytes)
{
    uint32_t state = 1;
    if (!bytes)
        return;
    if (!cm_dtype_is_float(type) || cm_dtype_is_sub_byte(type)) {
        memset(data, 0, bytes);
        return;
    }
    size_t made = bytes < PERIOD ? bytes : PERIOD;
    for (int64_t i = 0, n = (int64_t)(made / cm_dtype_size(type)); i < n; i++) {
        state = state * 1664525u + 1013904223u;
        cm_set_f64(type, data, i, (double)(int32_t)state * 0x1p-31);
    }
    for (size_t more; made < bytes; made += more) {
        more = made < bytes - made ? made : bytes - made;
        memcpy((char *)data + made, data, more);
    }
}
