/* compare_error.c -- how far two tensors are apart, in every figure that people ask for.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "cli/compare.h"

static bool is_number(const cm_tensor *t)
{
    cm_dtype_kind k = cm_dtype_get(t->dtype)->kind;
    return k != CM_KIND_STRING && k != CM_KIND_COMPLEX && k != CM_KIND_NONE;
}

static void refuse(cm_error *e, const char *why)
{
    e->distance = INFINITY;
    snprintf(e->why, sizeof e->why, "%s", why);
}

/* Sizes of 1 aside: [1,1000] is compared with [1000]. */
static bool same_elements(const cm_tensor *a, const cm_tensor *b)
{
    int i = 0, k = 0;
    for (;;) {
        while (i < a->rank && a->dims[i] == 1)
            i++;
        while (k < b->rank && b->dims[k] == 1)
            k++;
        if (i == a->rank || k == b->rank)
            return i == a->rank && k == b->rank;
        if (a->dims[i++] != b->dims[k++])
            return false;
    }
}

static double scale_of(const cm_tensor *t, int64_t n)
{
    double scale = 0;
    for (int64_t i = 0; i < n; i++) {
        double v = fabs(cm_get_f64(t->dtype, t->data, i));
        scale = isfinite(v) && v > scale ? v : scale;
    }
    return scale;
}

static int bin_of(double relative)
{
    if (relative == 0)
        return 0;
    int decade = (int)floor(log10(relative)) - CM_ERROR_LOWEST + 2;
    return decade < 1 ? 1 : decade >= CM_ERROR_BINS ? CM_ERROR_BINS - 1 : decade;
}

typedef struct {
    double aa, bb, ab, dd, abs, rel;
    int64_t finite;
} sums;

static void add_element(cm_error *e, sums *s, int64_t i, double x, double y)
{
    bool same = x == y || (isnan(x) && isnan(y));
    e->differ += !same;
    if (!isfinite(x) || !isfinite(y)) {
        e->broken += !same;
        e->bins[same ? 0 : CM_ERROR_BINS - 1]++;
        return;
    }
    double d = fabs(x - y), floor_ = e->scale * 1e-6, by = fabs(x) > floor_ ? fabs(x) : floor_;
    double rel = d == 0 ? 0 : by > 0 ? d / by : INFINITY;
    s->finite++;
    s->aa += x * x;
    s->bb += y * y;
    s->ab += x * y;
    s->dd += d * d;
    s->abs += d;
    s->rel += rel;
    e->max_rel = rel > e->max_rel ? rel : e->max_rel;
    e->bins[bin_of(e->scale > 0 ? d / e->scale : d)]++;
    if (d > e->max_abs || e->worst < 0) {
        e->max_abs = d;
        e->worst = i;
        e->worst_a = x;
        e->worst_b = y;
    }
}

void cm_error_measure(const cm_tensor *a, const cm_tensor *b, cm_error *out)
{
    char text[2][40];
    sums s = {0};
    *out = (cm_error){.worst = -1, .cosine = 1, .snr_db = INFINITY};
    if (!is_number(a) || !is_number(b)) {
        refuse(out, "not plain numbers");
        return;
    }
    if (!same_elements(a, b)) {
        refuse(out, "");
        snprintf(out->why, sizeof out->why, "shapes differ: %s and %s",
                 cm_shape_text(text[0], sizeof text[0], a->rank, a->dims),
                 cm_shape_text(text[1], sizeof text[1], b->rank, b->dims));
        return;
    }
    out->comparable = true;
    out->n = cm_tensor_elems(a);
    out->scale = scale_of(a, out->n);
    for (int64_t i = 0; i < out->n; i++)
        add_element(out, &s, i, cm_get_f64(a->dtype, a->data, i), cm_get_f64(b->dtype, b->data, i));
    if (s.finite) {
        out->mean_abs = s.abs / (double)s.finite;
        out->mean_rel = s.rel / (double)s.finite;
    }
    if (out->n && !s.finite) { /* nothing to say but that */
        out->cosine = out->broken ? 0 : 1;
        out->snr_db = out->broken ? -INFINITY : INFINITY;
    } else if (s.aa > 0 && s.bb > 0)
        out->cosine = s.ab / sqrt(s.aa) / sqrt(s.bb);
    else
        out->cosine = s.aa == s.bb ? 1 : 0;
    if (s.dd > 0)
        out->snr_db = s.aa > 0 ? 10 * log10(s.aa / s.dd) : -INFINITY;
    out->distance = out->broken         ? INFINITY
                    : out->max_abs == 0 ? 0
                    : out->scale > 0    ? out->max_abs / out->scale
                                        : INFINITY;
}
