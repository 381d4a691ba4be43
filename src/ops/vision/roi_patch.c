/* roi_patch.c -- the regions of RoiAlign whose samples are few.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Rows and columns that some sample reads get slots; pixels at them are gathered as
 *     pixels[row slot][column slot][channel of LANES]
 * in double, and each sample combines four of these vectors. An element's sum has the same terms in the
 * same order as that of a region with many samples. */
#include "ops/vision/roi_patch.h"

#include <string.h>

enum { LANES = 8, MAX_SAMPLES = 1 << 12, MAX_PIXELS = 1 << 16 };

/* One axis of a sample: slots of its neighbours and their shares; outside: the sample reads as 0. */
typedef struct {
    int32_t low, high;
    double low_share, high_share;
    bool outside;
} tap;

typedef struct {
    tap *taps;
    int64_t *first_tap; /* of each cell, and the end of the last */
    bool *skips;        /* whether a cell has samples without a tap; they read as 0 */
    int64_t *used;      /* the row or column of each slot */
    int32_t *slot_of;   /* 1 + slot of a row or column; 0: none */
    int n_used;
} line;

struct cm_roi_patch {
    line rows, columns;
    double *pixels;
};

static int64_t count_samples(const cm_roi_axis *a)
{
    int64_t n = 0;
    for (int64_t i = 0; i < a->n_cells && n <= MAX_SAMPLES; i++) {
        cm_roi_samples s = cm_roi_cell_samples(a, i);
        n += s.end - s.first;
    }
    return n;
}

bool cm_roi_is_small(const cm_roi_axis *rows, const cm_roi_axis *columns, cm_roi_needs *needs)
{
    int64_t n_v = count_samples(rows), n_h = count_samples(columns);
    if (n_v > MAX_SAMPLES || n_h > MAX_SAMPLES)
        return false;
    int64_t v = cm_min_i64(2 * n_v, rows->size), h = cm_min_i64(2 * n_h, columns->size);
    if (v * h > MAX_PIXELS)
        return false;
    needs->samples = cm_max_i64(needs->samples, cm_max_i64(n_v, n_h));
    needs->slots = cm_max_i64(needs->slots, cm_max_i64(v, h));
    needs->cells = cm_max_i64(needs->cells, cm_max_i64(rows->n_cells, columns->n_cells));
    needs->pixels = cm_max_i64(needs->pixels, v * h);
    needs->size = cm_max_i64(needs->size, cm_max_i64(rows->size, columns->size));
    return true;
}

static cm_status alloc_line(cm_eval *e, const cm_roi_needs *needs, line *l)
{
    void *p;
    CM_TRY(cm_eval_scratch(e, (size_t)needs->samples, sizeof *l->taps, &p));
    l->taps = p;
    CM_TRY(cm_eval_scratch(e, (size_t)needs->cells + 1, sizeof *l->first_tap, &p));
    l->first_tap = p;
    CM_TRY(cm_eval_scratch(e, (size_t)needs->cells, sizeof *l->skips, &p));
    l->skips = p;
    CM_TRY(cm_eval_scratch(e, (size_t)needs->slots, sizeof *l->used, &p));
    l->used = p;
    CM_TRY(cm_eval_scratch(e, (size_t)needs->size, sizeof *l->slot_of, &p));
    l->slot_of = p;
    return CM_OK;
}

cm_status cm_roi_patch_alloc(cm_eval *e, const cm_roi_needs *needs, cm_roi_patch **out)
{
    void *p;
    CM_TRY(cm_eval_scratch(e, 1, sizeof(cm_roi_patch), &p));
    cm_roi_patch *patch = p;
    CM_TRY(alloc_line(e, needs, &patch->rows));
    CM_TRY(alloc_line(e, needs, &patch->columns));
    CM_TRY(cm_eval_scratch(e, (size_t)needs->pixels, LANES * sizeof(double), &p));
    patch->pixels = p;
    *out = patch;
    return CM_OK;
}

static int32_t slot_for(line *l, int64_t at)
{
    if (l->slot_of[at] == 0) {
        l->used[l->n_used++] = at;
        l->slot_of[at] = l->n_used;
    }
    return l->slot_of[at] - 1;
}

static void place_samples(line *l, const cm_roi_axis *a)
{
    for (int i = 0; i < l->n_used; i++) /* of the region before */
        l->slot_of[l->used[i]] = 0;
    l->n_used = 0;
    int64_t n = 0;
    for (int64_t c = 0; c < a->n_cells; c++) {
        cm_roi_samples s = cm_roi_cell_samples(a, c);
        l->first_tap[c] = n;
        l->skips[c] = s.first > 0 || s.end < s.n;
        for (int64_t i = s.first; i < s.end; i++) {
            int64_t low = 0, high = 0;
            double share = cm_roi_neighbours(&s, i, a->size, &low, &high);
            l->taps[n++] = share < 0 ? (tap){.outside = true}
                                     : (tap){.low = slot_for(l, low),
                                             .high = slot_for(l, high),
                                             .low_share = 1 - share,
                                             .high_share = share};
        }
    }
    l->first_tap[a->n_cells] = n;
}

/* to[lane] = pixel `at` of the plane that begins at base[lane] */
static inline void gather_pixel(const cm_tensor *x, const int64_t base[LANES], int64_t at,
                                double *to)
{
    for (int l = 0; l < LANES; l++)
        to[l] = cm_get_f64(x->dtype, x->data, base[l] + at);
}

static inline void gather_pixel_f32(const float *const plane[LANES], int64_t at, double *to)
{
#pragma GCC unroll 8
    for (int l = 0; l < LANES; l++)
        to[l] = plane[l][at];
}

/* The pixels of LANES channels from `channel` on; past the last channel it is repeated. */
static void gather(cm_roi_patch *p, const cm_tensor *x, int64_t image, int64_t channel)
{
    int64_t channels = x->dims[1], width = x->dims[3], plane = x->dims[2] * width;
    int64_t base[LANES];
    const float *planes[LANES];
    bool is_f32 = x->dtype == CM_F32;
    for (int l = 0; l < LANES; l++) {
        base[l] = (image * channels + cm_min_i64(channel + l, channels - 1)) * plane;
        planes[l] = is_f32 ? (const float *)x->data + base[l] : NULL;
    }
    double *to = p->pixels;
    for (int i = 0; i < p->rows.n_used; i++) {
        int64_t row = p->rows.used[i] * width;
        for (int k = 0; k < p->columns.n_used; k++, to += LANES) {
            if (is_f32)
                gather_pixel_f32(planes, row + p->columns.used[k], to);
            else
                gather_pixel(x, base, row + p->columns.used[k], to);
        }
    }
}

/* The four vectors that a sample combines, and their weights. */
typedef struct {
    const double *p[4];
    double w[4];
} corners;

static inline corners corners_of(const cm_roi_patch *p, const tap *v, const tap *h)
{
    const double *low = p->pixels + (int64_t)v->low * p->columns.n_used * LANES;
    const double *high = p->pixels + (int64_t)v->high * p->columns.n_used * LANES;
    return (corners){{low + h->low * LANES, low + h->high * LANES, high + h->low * LANES,
                      high + h->high * LANES},
                     {v->low_share * h->low_share, v->low_share * h->high_share,
                      v->high_share * h->low_share, v->high_share * h->high_share}};
}

typedef double pair __attribute__((vector_size(16)));

/* Lanes i and i + 1 of a sample. */
static inline pair sample(const corners *c, int i)
{
    const pair *a = (const pair *)(c->p[0] + i), *b = (const pair *)(c->p[1] + i);
    const pair *d = (const pair *)(c->p[2] + i), *e = (const pair *)(c->p[3] + i);
    return c->w[0] * *a + c->w[1] * *b + c->w[2] * *d + c->w[3] * *e;
}

static void sum_cell(const cm_roi_patch *p, int64_t row, int64_t column, double out[LANES])
{
    const int64_t *v = p->rows.first_tap + row, *h = p->columns.first_tap + column;
    pair s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}; /* in registers, which an array would not be */
    for (int64_t i = v[0]; i < v[1]; i++)
        for (int64_t k = h[0]; k < h[1]; k++) {
            if (p->rows.taps[i].outside || p->columns.taps[k].outside)
                continue;
            corners c = corners_of(p, &p->rows.taps[i], &p->columns.taps[k]);
            s0 += sample(&c, 0);
            s1 += sample(&c, 2);
            s2 += sample(&c, 4);
            s3 += sample(&c, 6);
        }
    const pair all[LANES / 2] = {s0, s1, s2, s3};
    memcpy(out, all, sizeof all);
}

static void best_of_cell(const cm_roi_patch *p, int64_t row, int64_t column, double best[LANES])
{
    const int64_t *v = p->rows.first_tap + row, *h = p->columns.first_tap + column;
    bool any = p->rows.skips[row] || p->columns.skips[column];
    for (int l = 0; l < LANES; l++)
        best[l] = 0;
    for (int64_t i = v[0]; i < v[1]; i++)
        for (int64_t k = h[0]; k < h[1]; k++) {
            bool outside = p->rows.taps[i].outside || p->columns.taps[k].outside;
            corners c = corners_of(p, &p->rows.taps[i], &p->columns.taps[k]);
            for (int l = 0; l < LANES; l++) {
                double top = outside
                                 ? 0
                                 : cm_roi_most(cm_roi_most(c.w[0] * c.p[0][l], c.w[1] * c.p[1][l]),
                                               cm_roi_most(c.w[2] * c.p[2][l], c.w[3] * c.p[3][l]));
                best[l] = any && best[l] > top ? best[l] : top;
            }
            any = true;
        }
}

static inline void divide(double v[LANES], int64_t n)
{
    double inverse = 1 / (double)n;
    bool is_exact = (n & (n - 1)) == 0; /* a power of two: a product is the quotient */
    for (int l = 0; l < LANES; l++)
        v[l] = is_exact ? v[l] * inverse : v[l] / (double)n;
}

/* Element `at` of y and those `cells` apart, one of each channel. */
static inline void store(cm_tensor *y, int64_t at, int64_t cells, const double *v, int64_t n)
{
    if (y->dtype == CM_F32) {
        float *to = (float *)y->data + at;
        for (int64_t l = 0; l < n; l++)
            to[l * cells] = (float)v[l];
    } else {
        for (int64_t l = 0; l < n; l++)
            cm_set_f64(y->dtype, y->data, at + l * cells, v[l]);
    }
}

void cm_roi_patch_run(cm_roi_patch *p, const cm_roi_images *m, const cm_roi_axis *rows,
                      const cm_roi_axis *columns, int64_t image, int64_t region)
{
    int64_t channels = m->x->dims[1], cells = rows->n_cells * columns->n_cells;
    double v[LANES];
    place_samples(&p->rows, rows);
    place_samples(&p->columns, columns);
    for (int64_t c = 0; c < channels && !cm_is_cancelled(m->cx); c += LANES) {
        gather(p, m->x, image, c);
        int64_t at = (region * channels + c) * cells;
        for (int64_t i = 0; i < rows->n_cells; i++)
            for (int64_t k = 0; k < columns->n_cells; k++, at++) {
                if (m->max_mode)
                    best_of_cell(p, i, k, v);
                else
                    sum_cell(p, i, k, v);
                if (!m->max_mode)
                    divide(v, rows->n * columns->n);
                store(m->y, at, cells, v, cm_min_i64(LANES, channels - c));
            }
    }
}
