/* tensor.h -- a typed block of memory with a shape; and the values that are not tensors.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PLAN_TENSOR_H
#define CM_PLAN_TENSOR_H

#include "base/status.h"
#include "base/str.h"
#include "plan/dim.h"
#include "plan/dtype.h"

enum { CM_MAX_RANK = 32 };

/* A tensor with actual sizes. The memory belongs to somebody else. */
typedef struct cm_tensor {
    cm_dtype dtype;
    int rank;
    int64_t dims[CM_MAX_RANK];
    int64_t strides[CM_MAX_RANK]; /* in elements; sub-byte types are always dense */
    void *data;
    size_t capacity_bytes; /* what `data` has room for, at least what the shape needs */
    bool packed; /* a sub-byte type in packed form (files, plans, callers); else a byte each */
} cm_tensor;

/* Sets dtype, shape and dense row-major strides. False when the rank or a dim is out of range or
 * the byte size overflows. */
bool cm_tensor_shape(cm_tensor *t, cm_dtype dtype, int rank, const int64_t *dims);
int64_t cm_tensor_elems(const cm_tensor *t);           /* product of dims; 1 for rank 0 */
bool cm_tensor_bytes(const cm_tensor *t, size_t *out); /* dense, in the tensor's own form */
bool cm_tensor_is_dense(const cm_tensor *t);
/* Do the elements along axes [first, end) lie side by side, in whatever order of these axes? All of them: of the whole tensor. */
bool cm_tensor_side_by_side(const cm_tensor *t, int first, int end);
bool cm_tensor_is_packed(const cm_tensor *t);
bool cm_tensor_same_strides(const cm_tensor *a, const cm_tensor *b); /* of the same shape */
void cm_set_channels_last(cm_tensor *t); /* strides of [n, c, spatial...], channels innermost */
bool cm_tensor_same_shape(const cm_tensor *a, const cm_tensor *b);
/* dims[from..to) multiplied. */
int64_t cm_dims_product(const int64_t *dims, int from, int to);
/* "[2,3,s]" style text of a concrete shape into buf; returns buf. */
const char *cm_shape_text(char *buf, size_t n, int rank, const int64_t *dims);
/* Copy elements of `src` (any strides) densely to `dst`; same dtype, both unpacked. */
void cm_tensor_copy_dense(const cm_tensor *src, void *dst);

typedef enum {
    CM_NOTHING, /* an absent value, or a type not yet known */
    CM_TENSOR,
    CM_SEQUENCE, /* of data of one type */
    CM_OPTIONAL, /* none or one datum */
    CM_MAP       /* keys (int64 or string) to scalars */
} cm_kind;

/* A type, shapes symbolic. Copied by value; `elem` points to a type that lives as long. */
typedef struct cm_type {
    cm_kind kind;
    cm_dtype dtype; /* TENSOR, MAP: of the elements, of the values */
    cm_dtype key;   /* MAP: of the keys */
    int rank;       /* TENSOR: -1 when unknown */
    cm_dim dims[CM_MAX_RANK];
    const struct cm_type *elem; /* SEQUENCE, OPTIONAL: of what; NULL when unknown */
} cm_type;

/* A value while running. Evaluators see sub-byte tensors unpacked and every tensor dense. */
typedef struct cm_datum {
    cm_kind kind;
    cm_tensor tensor;       /* TENSOR */
    const cm_type *elem;    /* SEQUENCE, OPTIONAL: what they hold, NULL when unknown */
    int64_t n;              /* SEQUENCE: items; OPTIONAL: 0 or 1; MAP: 2 */
    struct cm_datum *items; /* MAP: items[0] the keys, items[1] the values, 1-D tensors */
} cm_datum;

cm_type cm_type_tensor(cm_dtype dtype, int rank, const cm_dim *dims); /* dims NULL when rank <= 0 */
bool cm_type_equal(const cm_type *a, const cm_type *b);
void cm_type_print(const cm_dim_table *t, const cm_type *type, cm_buf *out); /* f32[batch,3] */
cm_type cm_type_of_tensor(const cm_tensor *t);
/* The type of a datum; element types of sequences as the datum states them. */
cm_type cm_type_of_datum(const cm_datum *d);

#endif
