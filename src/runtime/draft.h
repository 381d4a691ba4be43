/* draft.h -- steps between shapes and solutions: what prepare.c and the files beside it know while shapes are bound.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CAMEO_RUNTIME_DRAFT_H
#define CAMEO_RUNTIME_DRAFT_H

#include "runtime/device.h"

/* A step with the sizes of its operands, and its best choices in every layout. */
typedef struct {
    const cm_ready_step *s;
    cm_solution *sol;
    cm_tensor *in, *out;    /* by input and output; row-major until layouts are known */
    const cm_tensor **outs; /* NULL: not wanted */
    bool *constant;
    cm_choice choice[2][2]; /* [layout of inputs][of outputs], tactic NULL: the reference */
    bool view[2][2];
    bool in_main, may_go, away[2][2]; /* to the device; in that layout it does */
    int *reads, *makes;               /* layout variables; see cm_layout_step */
    double *convert;
    bool *follows_output;
} cm_draft;

typedef struct {
    cm_ctx *cx;
    cm_context *c;
    cm_dim_table *dims; /* for symbols of sizes that are not known */
    int n;
    cm_draft *drafts;   /* in the order of execution */
    bool *plain;        /* per value: somebody needs it row-major */
    const void **known; /* per value: its elements, where shape arithmetic knows them */
    bool *small;        /* per value: a few integers that the host has */
} cm_preparing;

/* draft_shapes.c: sizes through the main list and the branches of Ifs; a draft for every step whose sizes are known. */
cm_status cm_draft_shapes(cm_preparing *p) CM_MUST_USE;

/* The cheapest tactic for a draft, as its tensors lie now; tactic NULL: none takes it. */
void cm_draft_choose(cm_preparing *p, cm_draft *d, const cm_target *target, cm_choice *choice);

/* draft_layouts.c: a layout for each value (labels, by value: 1 is channels-last) and for the inputs of each draft (modes), with
 * the best choices in every layout. Both arrays come zeroed. */
cm_status cm_draft_layouts(cm_preparing *p, unsigned char *labels,
                           unsigned char *modes) CM_MUST_USE;

/* Lays the tensors of a draft out: those it reads for itself, and those it makes (with what its epilogue reads). */
void cm_draft_set_layouts(cm_draft *d, bool in_last, bool out_last);

/* The layout variable of a value, by which labels are found; -1: it is row-major whatever comes. */
int cm_draft_variable(const cm_preparing *p, int32_t v, const cm_tensor *t);

#endif
