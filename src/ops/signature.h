/* signature.h -- element types of an operator's inputs and outputs, as a line of text in its row.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     "T=num: T T -> T"                     Add
 *     "T=all I=i32|i64: T I -> T"           Gather
 *     "T=float: T... -> T"                  Sum (the last input repeats)
 *     "T=all: T -> *"                       Cast (the rule sets the output's type)
 *     "T=all: seq(T) i64|i32 -> T"          SequenceAt
 *
 * A letter is a variable: every place that names it has one element type, of its set. A place is a
 * variable, a set ("i32|i64", "float"), `*` (anything, no check; as an output: the rule says),
 * or seq(place), opt(place). Named sets:
 *   float  f16 bf16 f32 f64           f8     the five 8-bit floats      small  2-, 4- and 6-bit types
 *   int    i8 i16 i32 i64             uint   u8 u16 u32 u64             num    float int uint
 *   all    every element type        cplx   c64 c128                   str bool f32 ...  themselves
 * An absent optional input is not checked; an output whose variable no input bound is left to the
 * rule. Fewer places than inputs: the rest are unchecked. */
#ifndef CM_OPS_SIGNATURE_H
#define CM_OPS_SIGNATURE_H

#include "ops/op.h"

/* Check input types against op's signature and fill kind and element type of outputs that it
 * determines. in[i] NULL: absent. */
cm_status cm_signature_apply(cm_ctx *cx, const cm_op *op, const cm_type *const *in, int n_in,
                             cm_type *out, int n_out) CM_MUST_USE;
/* Allowed types of place `input` as a bit mask (bit = cm_dtype), for documents. 0: not stated. */
uint32_t cm_signature_types(const cm_op *op, int input);
/* Is the text well-formed? For a test over all rows. */
bool cm_signature_valid(const char *signature);

#endif
