/* to_program.h -- pointwise nodes as instructions of a program (plan/program.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_TO_PROGRAM_H
#define CM_PASSES_TO_PROGRAM_H

#include "passes/match.h"

/* Can n be part of a program? One output, float (or bool, for comparisons) computed from floats and
 * bools; Casts between floats; attributes that are numbers. Also a cameo.Pointwise of one output. */
bool cm_is_pointwise(const cm_node *n);
/* Does what is appended for n read input i? Clip's bounds are numbers in it, whatever their shape. */
bool cm_program_reads(const cm_node *n, int i);
/* Append what n computes. args[i] stands for n's input i. The result's argument goes to *out. False:
 * the program has no room. */
bool cm_append_node(cm_program *p, const cm_node *n, const cm_program_arg *args,
                    cm_program_arg *out);
/* The text, in the network's arena. */
cm_status cm_program_text(cm_ctx *cx, cm_network *g, const cm_program *p,
                          const char **out) CM_MUST_USE;

#endif
