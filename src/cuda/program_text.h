/* program_text.h -- a pointwise program as CUDA C.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_PROGRAM_TEXT_H
#define CM_CUDA_PROGRAM_TEXT_H

#include "base/buf.h"
#include "plan/program.h"

/* In which numbers it is computed. Whole ones wrap, know no elementary function, and compare as their type. SHORT are
 * floats whose results go into 16 bits: functions are as exact as that needs (kernels/program.cuh); HALF: into float16, where what is
 * computed last may be nothing sooner. */
typedef enum {
    CM_TEXT_FLOAT,
    CM_TEXT_SHORT,
    CM_TEXT_HALF,
    CM_TEXT_DOUBLE,
    CM_TEXT_I64,
    CM_TEXT_U64,
} cm_text_number;

/* Does any instruction read the operand? */
bool cm_cuda_program_reads(const cm_program *p, int operand);
const char *cm_text_number_type(cm_text_number n); /* "float": T below */
/* Can every instruction be computed in whole numbers, and are its constants such? */
bool cm_program_is_whole(const cm_program *p);

/* When data can be such that it has no result (a condition as CUDA C), NULL: never. Then there is one result more, not 0 if
 * they are. */
const char *cm_cuda_program_fault(const cm_program *p, cm_text_number n);

/* Appends
 *     static __device__ __forceinline__ void NAME(T x, const T *o, T *r)
 * x: what the program follows; o[k]: operand k; r[k]: output k. It stands before any #include of a kernel: what it
 * needs it includes itself. */
void cm_cuda_program_text(cm_buf *out, const cm_program *p, const char *name, cm_text_number n);

#endif
