/* norm_match.h -- means, maxima and sums over axes as exporters write them, and normalisations by them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_NORM_MATCH_H
#define CM_PASSES_NORM_MATCH_H

#include "passes/forms.h"

/* Statistics of x over some axes, on their way from the reduction to where they meet x again: Casts,
 * numbers, and the axes kept, dropped, put back or expanded. Every value on the way is remembered, and
 * cm_stats_fit says at the end whether each has one of those shapes. */
typedef struct cm_stats {
    cm_form form;
    const cm_value *value[CM_FORM_MAX]; /* statistics seen */
    int n_values;
    const cm_value *met[8]; /* those that met x */
    int n_met;
    uint32_t axes;           /* bit a: axis a of x is reduced; 0: no reduction met yet */
    const cm_value *reduced; /* what it is reduced from: of x's shape */
    bool confused;           /* too many, or axes that differ */
} cm_stats;

/* v before Casts and changes of layout. */
cm_value *cm_past_layout(cm_stats *s, cm_value *v);
/* Is v the reduction `op` of something? */
bool cm_reduced(cm_stats *s, cm_value *v, cm_op_id op, cm_value **of);
/* Is v the mean of something? A sum divided by the number of its terms counts. */
bool cm_mean_of(cm_stats *s, cm_value *v, cm_value **of);
/* v, a statistic, is met by x in a sum or product. */
void cm_meets(cm_stats *s, const cm_value *v);
/* Do the statistics of x fit, and meet it aligned? */
bool cm_stats_fit(const cm_stats *s, const cm_value *x);
/* One axis: which; several or none: -1. */
int cm_one_axis(const cm_stats *s);
/* Axes that follow each other: the first and how many. False: others, or none. */
bool cm_axes_in_a_row(const cm_stats *s, int *first, int *count);
/* The last axes, from which on; -1: other axes. */
int cm_last_axes(const cm_stats *s, int rank);

/* (x - mean) / sqrt(variance + epsilon), or x / sqrt(mean square + epsilon). */
typedef struct cm_norm {
    cm_stats stats;
    cm_value *x; /* before Casts that widen it */
    bool is_centred;
    double epsilon;
    cm_value *scale, *bias; /* NULL: none */
    bool has_no_bias;       /* the composite has none: a sum is not followed */
    cm_node *last;          /* what makes the result */
} cm_norm;

/* Does d (a Div or Mul; or the Add or Sub at the end when mean and scale are multiplied out) normalise?
 * Scale and bias are set where they are part of that expression. */
bool cm_match_norm(cm_node *d, cm_norm *out);
/* Go on from `v`, the normalised values, to a product with a scale and a sum with a bias, which `fits`
 * accepts; Casts before them are passed. */
void cm_norm_follow(cm_norm *n, cm_value *v, cm_node *reader,
                    bool (*fits)(const cm_norm *n, const cm_value *v));
/* `v` or, where NULL, `absent` everywhere, as a tensor of these dims and element type. v is a constant
 * that broadcasts to dims (extra leading ones are dropped), or already has that type. */
cm_status cm_norm_parameter(cm_rewriter *rw, cm_network *g, const char *name, cm_value *v,
                            double absent, cm_dtype dtype, int rank, const int64_t *dims,
                            cm_value **out) CM_MUST_USE;

#endif
