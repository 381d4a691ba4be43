/* op_program.h -- elementwise operators as instructions of a program (plan/program.h): the one table.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_OP_PROGRAM_H
#define CM_OPS_OP_PROGRAM_H

#include "ops/op.h"
#include "plan/program.h"

/* Append what `op` computes. args[i] stands for input i; bounds of Clip that are absent are infinite
 * numbers. The result's argument goes to *out: one of args where there is nothing to compute (Cast, a sum
 * of one). False: the operator is not elementwise in this sense, or the program has no room. Not for
 * cameo.Pointwise, which is a program already. */
bool cm_op_append(cm_program *p, const cm_op *op, const void *attr, int n_in,
                  const cm_program_arg *args, cm_program_arg *out);
/* Has it a form as a program, whatever its attributes? */
bool cm_op_is_program(const cm_op *op);
/* Append another program, `x` and operand k of it standing for the given arguments. */
bool cm_append_program(cm_program *p, const cm_program *other, const cm_program_arg *x,
                       const cm_program_arg *operands, cm_program_arg *out);

#endif
