/* tensor_stats.c -- numbers about the elements of a tensor, in two walks.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/tensor_stats.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 4096 }; /* a multiple of four: packed elements begin at a byte */

typedef struct {
    cm_tensor_stats *out;
    double sum, squares;
    bool counting; /* the second walk: range and mean are known */
} walk;

static void look(walk *w, double v)
{
    cm_tensor_stats *s = w->out;
    if (w->counting) {
        if (!isfinite(v))
            return;
        double width = (s->max - s->min) / CM_STATS_BINS;
        int bin = width > 0 ? (int)((v - s->min) / width) : 0;
        s->bins[bin < CM_STATS_BINS ? bin : CM_STATS_BINS - 1]++;
        w->squares += (v - s->mean) * (v - s->mean);
        return;
    }
    s->n_nan += isnan(v);
    s->n_inf += isinf(v) != 0;
    s->n_zero += v == 0;
    if (!isfinite(v))
        return;
    s->min = s->n_finite ? fmin(s->min, v) : v;
    s->max = s->n_finite ? fmax(s->max, v) : v;
    s->n_finite++;
    w->sum += v;
}

static void walk_dense(walk *w, const cm_tensor *t)
{
    double v[CHUNK];
    unsigned char bytes[CHUNK];
    for (int64_t at = 0; at < w->out->n; at += CHUNK) {
        int64_t n = w->out->n - at < CHUNK ? w->out->n - at : CHUNK;
        const unsigned char *from = t->data;
        if (t->packed) {
            size_t skip = 0;
            (void)cm_dtype_bytes(t->dtype, at, &skip);
            cm_unpack_sub_byte(t->dtype, from + skip, n, bytes);
            from = bytes;
        } else {
            from += (size_t)at * cm_dtype_size(t->dtype);
        }
        cm_load_f64(t->dtype, from, n, v);
        for (int64_t i = 0; i < n; i++)
            look(w, v[i]);
    }
}

bool cm_tensor_stats_of(const cm_tensor *t, cm_tensor_stats *out)
{
    memset(out, 0, sizeof *out);
    if (t->dtype == CM_STR || t->dtype == CM_C64 || t->dtype == CM_C128 || !cm_tensor_is_dense(t))
        return false;
    walk w = {.out = out};
    out->n = cm_tensor_elems(t);
    walk_dense(&w, t);
    if (!out->n_finite)
        return true;
    out->mean = w.sum / (double)out->n_finite;
    w.counting = true;
    walk_dense(&w, t);
    out->deviation = sqrt(w.squares / (double)out->n_finite);
    return true;
}
