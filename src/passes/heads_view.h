/* heads_view.h -- how the operands of an attention lie in memory: batch, heads, rows and columns of a
 * matrix product, traced through reshapes, transposes and slices to the tensor that holds them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_HEADS_VIEW_H
#define CM_PASSES_HEADS_VIEW_H

#include "passes/match.h"

/* A run of elements along one logical axis: 'b' batch, 'h' heads, 's' rows, 'd' columns, 'n' batch and
 * heads not told apart yet; outermost first. 'w': what follows, `len` units in all, is a window that
 * begins at `start` among `dim` units. */
typedef struct cm_factor {
    char label;
    cm_dim dim;
    cm_dim step; /* in its logical axis, from one to the next */
    int64_t start, len;
} cm_factor;

enum { CM_VIEW_MOST = 16 };
typedef struct cm_view {
    cm_value *v;
    int n;
    cm_factor f[CM_VIEW_MOST];
    double scale;   /* that v's elements are multiplied by */
    int64_t groups; /* heads that share one head of v */
} cm_view;

/* A place where a view can be handed to cameo.Attention. */
typedef struct cm_heads_at {
    cm_value *v;
    const char *layout;
    cm_dim batch, heads, rows, cols;
    int64_t offset, head_step;
    int rank; /* of the tensor that the operator wants, and its dims */
    cm_dim dims[4];
    double scale;
    int64_t groups;
} cm_heads_at;

/* v with one factor an axis, labelled by `labels` (a letter each). False: rank unknown or too large. */
bool cm_view_start(cm_view *w, cm_value *v, const char *labels);
/* 'n' becomes b and h, h of `heads`. */
bool cm_view_split_batch(cm_dim_table *t, cm_view *w, cm_dim heads);
/* One step towards where the elements come from. False: none that keeps track. */
bool cm_view_back(cm_dim_table *t, cm_view *w, bool scaled);
/* One step to the only reader. */
bool cm_view_on(cm_dim_table *t, cm_view *w);
/* Can it be used as it is here? `transposed`: "bhds" too. `made`: the view is what the operator gives,
 * not what it reads. */
bool cm_view_accept(cm_dim_table *t, const cm_view *w, bool transposed, bool made,
                    cm_heads_at *out);
/* Can a Reshape between these be written without shape arithmetic? */
bool cm_can_reshape(int from_rank, const cm_dim *from, int rank, const cm_dim *dims);
/* v in that shape; v itself when it has it. */
cm_status cm_view_as(cm_rewriter *rw, cm_node *before, const cm_node *like, cm_value *v, int rank,
                     const cm_dim *dims, cm_value **out) CM_MUST_USE;

#endif
