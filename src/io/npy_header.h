/* npy_header.h -- the head of an npy file, between npy.c and npz.c.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_IO_NPY_HEADER_H
#define CM_IO_NPY_HEADER_H

#include "plan/tensor.h"

enum { CM_NPY_HEADER_MAX = 65536 + 12 }; /* longer heads are refused */

typedef struct cm_npy_header {
    size_t header_bytes; /* where the data begins */
    size_t data_bytes;
    cm_dtype dtype;
    char kind;         /* of the descr: 'f' 'i' 'u' 'b' 'c' 'S' 'U' 'V' */
    size_t item_bytes; /* in the file */
    bool swap;         /* the file's byte order is not ours */
    bool fortran;
    int rank;
    int64_t dims[CM_MAX_RANK];
    int64_t elems;
} cm_npy_header;

/* `n` may be less than the file has, but at least its head. */
cm_status cm_npy_header_read(cm_ctx *cx, const void *bytes, size_t n,
                             cm_npy_header *out) CM_MUST_USE;

#endif
