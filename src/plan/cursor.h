/* cursor.h -- a plan's section, read bit by bit and trusted in nothing; for read.c and the files beside it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A cursor never passes its section's end, and a count is checked against the bytes left before anything is allocated
 * for it, so that memory stays within a small multiple of the file's metadata. */
#ifndef CAMEO_PLAN_CURSOR_H
#define CAMEO_PLAN_CURSOR_H

#include "plan/plan.h"

typedef struct {
    cm_ctx *cx;
    cm_arena *arena;
    const unsigned char *bytes;
    size_t n;
    cm_plan *plan;
    const char **strings;
    uint32_t n_strings;
} cm_plan_reader;

/* A section being read. */
typedef struct {
    cm_plan_reader *r;
    const char *what; /* for messages */
    const unsigned char *p;
    size_t left;
} cm_cursor;

cm_status cm_plan_damaged(cm_plan_reader *r, const char *what);

cm_status cm_take(cm_cursor *c, void *to, size_t n) CM_MUST_USE;
cm_status cm_take_u32(cm_cursor *c, uint32_t *v) CM_MUST_USE;
cm_status cm_take_i32(cm_cursor *c, int32_t *v) CM_MUST_USE;
cm_status cm_take_u64(cm_cursor *c, uint64_t *v) CM_MUST_USE;

/* A count of things that take at least `least` bytes each. */
cm_status cm_take_count(cm_cursor *c, size_t least, const char *what, int *n) CM_MUST_USE;

/* An enumerator in [0, count). */
cm_status cm_take_enum(cm_cursor *c, int count, const char *what, int *v) CM_MUST_USE;

cm_status cm_take_string(cm_cursor *c, const char **s) CM_MUST_USE;
cm_status cm_take_dim(cm_cursor *c, cm_dim *d) CM_MUST_USE;
cm_status cm_take_indices(cm_cursor *c, const char *what, const int32_t **out, int *n) CM_MUST_USE;

/* A type; depth is 0 but for those inside others. */
cm_status cm_take_type(cm_cursor *c, cm_type *t, int depth) CM_MUST_USE;

/* Nothing may be left over. */
cm_status cm_cursor_end(cm_cursor *c) CM_MUST_USE;

/* read_steps.c: the step lists of a section. */
cm_status cm_read_variant(cm_cursor *c, cm_plan_variant *v) CM_MUST_USE;

#endif
