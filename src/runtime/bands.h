/* bands.h -- chains of convolutions that run band by band of rows.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where each of several steps in a row reads what the one before it made, and that is more than the
 * caches hold, the last one's rows are asked for a few at a time and every step makes the rows that this takes.
 * What lies between two steps is then a few rows in a part of the memory that it has anyway, and stays in the
 * second-level cache. */
#ifndef CM_RUNTIME_BANDS_H
#define CM_RUNTIME_BANDS_H

#include "runtime/internal.h"

enum { CM_CHAIN_MOST = 8, CM_CHAIN_INPUTS = 20 }; /* steps of a chain; inputs of one of its steps */

/* Find the chains of a context whose steps' ways are known (cm_solution.chain, .band), and let all that
 * they read and make live until their end. */
void cm_chains_find(cm_context *c);

/* Bytes that the output of a bound step needs, of `bytes` in all; and its workspace. */
size_t cm_chain_bytes(const cm_context *c, const cm_solution *sol, size_t bytes);
size_t cm_chain_workspace(const cm_context *c, const cm_solution *sol);

/* Run the chain that begins with step s. */
cm_status cm_run_chain(cm_ctx *cx, cm_context *c, const cm_ready_step *s) CM_MUST_USE;

#endif
