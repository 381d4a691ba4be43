/* io.h -- tensors in files: NumPy's npy and npz.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Files are untrusted: every size in them is checked against the bytes that are there. */
#ifndef CM_IO_IO_H
#define CM_IO_IO_H

#include "base/buf.h"
#include "plan/tensor.h"

/* Read an npy file that lies in memory; the elements are copied to `arena`, dense, row-major, in
 * this machine's byte order. Every NumPy type that has an element type of ours; '|S' and '<U' give
 * STR (UTF-8, trailing NULs dropped). NumPy has no names for the short types: the ml_dtypes package
 * writes bfloat16 as '<V2', float8_e5m2 as '<f1' and every other type of 8 bits or fewer as '<V1'.
 * '<V2' gives BF16, '<f1' gives F8E5M2, '<V1' gives U8 holding the codes: cm_npy_view tells them
 * apart by the type that is wanted. ml_dtypes' names ('bfloat16', 'float8_e4m3fn', 'int4', ...) are
 * taken as well. Types under a byte come back unpacked. */
cm_status cm_npy_read(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n,
                      cm_tensor *out) CM_MUST_USE;
/* Look at a tensor that was read as codes (U8, I8, F8E5M2, U16, BF16) as `wanted`, of the same width:
 * "these bytes are float8_e4m3fn". True when nothing needs to be done or it was done. */
bool cm_npy_view(cm_tensor *t, cm_dtype wanted);
/* Append an npy file, version 1.0. Types that NumPy cannot name are written as ml_dtypes writes them: '<V2' or '<V1', a byte an element. Load them with
 * np.load(path).view(ml_dtypes.bfloat16). STR is written as '<U', or as '|S' when a string is not
 * UTF-8. */
cm_status cm_npy_write(cm_ctx *cx, const cm_tensor *t, cm_buf *out) CM_MUST_USE;

/* An npz archive in memory. `bytes` must stay while it is read. */
typedef struct cm_npz cm_npz;

/* Check the directory of an archive. Entries that are not named *.npy are left out. */
cm_status cm_npz_open(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n,
                      cm_npz **out) CM_MUST_USE;
int cm_npz_count(const cm_npz *z);
const char *cm_npz_name(const cm_npz *z, int index); /* without ".npy" */
int cm_npz_find(const cm_npz *z, const char *name);  /* -1: none */
/* Read one entry: stored or deflated. Refuses an entry that is not exactly as long as its npy header
 * says, before it is inflated. */
cm_status cm_npz_read(cm_ctx *cx, cm_arena *arena, const cm_npz *z, int index,
                      cm_tensor *out) CM_MUST_USE;
/* Append an archive of n tensors; names without ".npy". zip64 where sizes need it. */
cm_status cm_npz_write(cm_ctx *cx, int n, const char *const *names, const cm_tensor *const *tensors,
                       bool deflate, cm_buf *out) CM_MUST_USE;

#endif
