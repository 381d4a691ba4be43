/* format.h -- the numbers of the plan file, shared by its writer and its reader.
 * SPDX-License-Identifier: Apache-2.0
 *
 * docs/plan-format.md describes the bytes. Nothing here is ever renumbered. */
#ifndef CM_PLAN_FORMAT_H
#define CM_PLAN_FORMAT_H

#include "base/status.h"

#define CM_PLAN_MAGIC "CAMEOPLN"

enum {
    CM_PLAN_VERSION = 1, /* what this library writes; it reads 1 up to this */
    CM_PLAN_HEADER_BYTES = 64,
    CM_PLAN_ENTRY_BYTES = 40, /* of the section table */
    CM_PLAN_PAGE = 4096,      /* sections begin at multiples of it */
    CM_PLAN_CONSTANT_ALIGN = 64,
    CM_PLAN_MAX_SECTIONS = 4096,
    CM_PLAN_MAX_TYPE_DEPTH = 8, /* of seq(opt(...)) */
    CM_PLAN_MAX_NESTING = 64,   /* of step lists */
};

typedef enum {
    CM_SECTION_STRINGS = 1,
    CM_SECTION_DIMS = 2,
    CM_SECTION_META = 3,
    CM_SECTION_VALUES = 4,
    CM_SECTION_RECIPES = 5, /* of weights */
    CM_SECTION_VARIANT = 6, /* one each; in order */
    CM_SECTION_TARGET = 7,  /* one each */
    CM_SECTION_ALIASES = 8,
    CM_SECTION_WEIGHTS = 9,
    CM_SECTION_BUILD = 10,   /* how a model became this plan; whether its weights were left out */
    CM_SECTION_PACKED = 11,  /* which constants are stored packed, and how to undo it */
    CM_SECTION_PLUGINS = 12, /* operators that are no part of Cameo, and who brings them */
} cm_section_kind;

enum { CM_SECTION_OPTIONAL = 1 }; /* flag: a reader that does not know the kind may go on */

enum { CM_BUILD_STRIPPED = 1 }; /* flag of the build section */

/* Operand flags. */
enum { CM_OPERAND_LAYOUT = 1, CM_OPERAND_QUANT = 2 };

/* A checksum over bytes that come in pieces. */
typedef struct cm_checksum_state {
    uint64_t lane[4];
    unsigned char tail[32];
    size_t n_tail;
    uint64_t n;
} cm_checksum_state;

void cm_checksum_begin(cm_checksum_state *s);
void cm_checksum_add(cm_checksum_state *s, const void *p, size_t n);
uint64_t cm_checksum_end(const cm_checksum_state *s);

struct cm_plan;
/* What holds across sections: indices in range, lists nested as a tree, every operand defined before
 * it is read, captures complete. Part of reading (verify.c). */
cm_status cm_plan_verify(cm_ctx *cx, const struct cm_plan *p) CM_MUST_USE;

#endif
