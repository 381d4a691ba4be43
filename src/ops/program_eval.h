/* program_eval.h -- the reference of pointwise programs.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_PROGRAM_EVAL_H
#define CM_OPS_PROGRAM_EVAL_H

#include "ops/eval.h"
#include "plan/program.h"

double cm_pointwise_apply(cm_pointwise op, double a, double b, double c);
/* Run `p` over whole tensors: x (NULL when the program does not read it) and operands broadcast to the
 * outputs' shape; output k gets result k. */
cm_status cm_program_eval(cm_eval *e, const cm_program *p, const cm_tensor *x,
                          const cm_datum *const *operands, cm_tensor *const *out) CM_MUST_USE;
/* The evaluator of e's operator, whose result has type `own`, then its epilogue: called by
 * cm_op_eval. */
cm_status cm_epilogue_eval(cm_eval *e, cm_dtype own) CM_MUST_USE;

#endif
