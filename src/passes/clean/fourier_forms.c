/* fourier_forms.c -- short Fourier transforms as products with a constant matrix; for a plan only.
 *
 *     y = STFT(x, @step, @window, @length)
 *  becomes
 *     c = Conv(x) {strides=[step]} with waves for weights, a channel for each bin's real and imaginary part
 *     y = Reshape(Transpose(c))
 *
 *     y = DFT(x, _, @axis)
 *  becomes
 *     y = MatMul(x with the axis last, @waves), its axes put back
 *
 * Powers of two to 256 (STFT) and 512 (DFT), other lengths, which a fast transform is slow for, to 1024: up to there the product
 * takes the CPU no longer than the reference's fast transform, and it has kernels. Left alone: transforms back to reals, sizes that
 * are not numbers.
 *
 * needs: types    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "passes/chain.h"

enum { MOST_FRAME = 256, MOST_ROW = 512, MOST = 1024 };

static bool is_short(int64_t n, int64_t most_power)
{
    return n > 0 && n <= ((n & (n - 1)) ? MOST : most_power);
}

static bool read_number(const cm_node *n, int i, int64_t otherwise, int64_t *out)
{
    int k;
    *out = otherwise;
    return i >= n->n_in || !n->in[i] || (cm_const_ints(n->in[i], out, 1, &k) && k == 1);
}

/* cos and sin of 2 pi i / n, exact where they are simple. */
static void wave(int64_t i, int64_t n, double *re, double *im)
{
    double a = 2 * acos(-1) * (double)(i % n) / (double)n;
    *re = 4 * (i % n) % n ? cos(a) : (double[]){1, 0, -1, 0}[4 * (i % n) / n];
    *im = 4 * (i % n) % n ? sin(a) : (double[]){0, 1, 0, -1}[4 * (i % n) / n];
}

/* ---- STFT ----------------------------------------------------------------------------------------- */

typedef struct {
    int64_t step, length, bins;
    cm_value *window;
} frames;

static bool read_stft(const cm_node *n, frames *f)
{
    if (!cm_is(n, CM_OP_STFT) || cm_rank(n->in[0]) != 3 || n->in[0]->type.dims[2] != 1 ||
        n->in[0]->type.dtype != CM_F32)
        return false;
    f->window = n->n_in > 2 ? n->in[2] : NULL;
    int64_t of_window = f->window && cm_rank(f->window) == 1 ? f->window->type.dims[0] : -1;
    if ((f->window && !cm_is_const(f->window)) || !read_number(n, 1, -1, &f->step) ||
        !read_number(n, 3, of_window, &f->length) || f->step < 1 || f->step > INT32_MAX)
        return false;
    f->bins = cm_int(n, "onesided") ? f->length / 2 + 1 : f->length;
    return is_short(f->length, MOST_FRAME) && (!f->window || of_window == f->length);
}

/* [2 * bins, 1, length]: of each bin a wave and a quarter of it later, both seen through the window. */
static cm_value *windowed_waves(cm_chain *c, const frames *f)
{
    const double *window = NULL;
    int64_t count, dims[] = {2 * f->bins, 1, f->length};
    cm_value *out = NULL;
    double *v = cm_new_n(c->rw->cx->scratch, dims[0] * f->length, double);
    if (!v)
        c->st = cm_fail_memory(c->rw->cx);
    if (c->st == CM_OK && f->window)
        c->st = cm_const_f64(c->rw->cx, f->window, &window, &count);
    for (int64_t k = 0; c->st == CM_OK && k < f->bins; k++)
        for (int64_t i = 0; i < f->length; i++) {
            double re, im, w = window ? window[i] : 1;
            wave(k * i, f->length, &re, &im);
            v[2 * k * f->length + i] = w * re;
            v[(2 * k + 1) * f->length + i] = -w * im;
        }
    if (c->st == CM_OK)
        c->st = cm_make_const_f64(c->rw->cx, c->at->network, NULL, CM_F32, 3, dims, v, &out);
    return out;
}

static void expand_stft(cm_chain *c)
{
    frames of, *f = &of;
    (void)read_stft(c->at, f); /* it is one */
    static const int64_t frames_first[] = {0, 2, 1};
    void *attr = cm_chain_attr(c, CM_OP_CONV), *perm = cm_chain_attr(c, CM_OP_TRANSPOSE);
    cm_chain_ints(c, CM_OP_CONV, attr, "strides", 1, &f->step);
    cm_chain_ints(c, CM_OP_TRANSPOSE, perm, "perm", 3, frames_first);
    cm_value *x = cm_chain_reshape(c, c->at->in[0], 3, (int64_t[]){0, 1, -1});
    cm_value *y = CM_THEN(c, CM_OP_CONV, attr, x, windowed_waves(c, f));
    y = CM_THEN(c, CM_OP_TRANSPOSE, perm, y);
    cm_chain_end(c, 0, cm_chain_reshape(c, y, 4, (int64_t[]){0, 0, f->bins, 2}));
}

/* ---- DFT ------------------------------------------------------------------------------------------ */

typedef struct {
    int rank, axis;
    int64_t parts, n_in, length, bins;
    bool inverse;
} rows;

/* Sizes must be numbers, but for the first where it is no axis of the transform. */
static bool read_dft(const cm_node *n, rows *r)
{
    int64_t axis;
    if (!cm_is(n, CM_OP_DFT) || n->in[0]->type.dtype != CM_F32 || cm_rank(n->in[0]) < 2 ||
        !read_number(n, 2, -2, &axis))
        return false;
    const cm_dim *dims = n->in[0]->type.dims;
    r->rank = cm_rank(n->in[0]);
    r->axis = (int)(axis + (axis < 0 ? r->rank : 0));
    if (r->axis < 0 || r->axis > r->rank - 2)
        return false;
    for (int i = 0; i < r->rank; i++)
        if ((i || r->axis == 0) && (!cm_dim_is_size(dims[i]) || dims[i] < 1))
            return false;
    r->parts = dims[r->rank - 1];
    r->n_in = dims[r->axis];
    r->inverse = cm_int(n, "inverse") != 0;
    if (r->parts > 2 || !read_number(n, 1, r->n_in, &r->length) || !is_short(r->length, MOST_ROW) ||
        r->n_in > MOST || (r->inverse && cm_int(n, "onesided")))
        return false;
    r->bins = cm_int(n, "onesided") ? r->length / 2 + 1 : r->length;
    return true;
}

/* [n_in * parts, bins * 2]: what each part of each element adds to each part of each bin. */
static cm_value *waves(cm_chain *c, const rows *r)
{
    int64_t dims[] = {r->n_in * r->parts, r->bins * 2};
    cm_value *out = NULL;
    double *v = cm_new_n(c->rw->cx->scratch, dims[0] * dims[1], double);
    if (!v)
        c->st = cm_fail_memory(c->rw->cx);
    for (int64_t i = 0; c->st == CM_OK && i < r->n_in && i < r->length; i++)
        for (int64_t k = 0; k < r->bins; k++) {
            double re, im, scale = r->inverse ? 1 / (double)r->length : 1;
            wave(k * i, r->length, &re, &im);
            im = r->inverse ? im : -im;
            double *at = v + i * r->parts * dims[1] + 2 * k;
            at[0] = scale * re;
            at[1] = scale * im;
            if (r->parts == 2) {
                at[dims[1]] = -scale * im;
                at[dims[1] + 1] = scale * re;
            }
        }
    if (c->st == CM_OK)
        c->st = cm_make_const_f64(c->rw->cx, c->at->network, NULL, CM_F32, 2, dims, v, &out);
    return out;
}

/* The transform's axis to the place before the parts, or from there back. */
static cm_value *move_axis(cm_chain *c, const rows *r, cm_value *x, bool back)
{
    int64_t perm[CM_MAX_RANK];
    int last = r->rank - 2, from = back ? last : r->axis, to = back ? r->axis : last;
    if (from == to)
        return x;
    for (int i = 0, k = 0; i < r->rank; i++)
        if (i != to)
            perm[i] = k + (k >= from), k++;
    perm[to] = from;
    void *attr = cm_chain_attr(c, CM_OP_TRANSPOSE);
    cm_chain_ints(c, CM_OP_TRANSPOSE, attr, "perm", r->rank, perm);
    return CM_THEN(c, CM_OP_TRANSPOSE, attr, x);
}

static void expand_dft(cm_chain *c)
{
    rows of, *r = &of;
    (void)read_dft(c->at, r); /* it is one */
    const cm_dim *sizes = c->at->in[0]->type.dims;
    int64_t dims[CM_MAX_RANK];
    int k = 0;
    for (int i = 0; i < r->rank - 1; i++)
        if (i != r->axis)
            dims[k++] = i ? sizes[i] : -1;
    cm_value *x = move_axis(c, r, c->at->in[0], false);
    x = cm_chain_reshape(c, x, 2, (int64_t[]){-1, r->n_in * r->parts});
    cm_value *y = CM_THEN(c, CM_OP_MATMUL, NULL, x, waves(c, r));
    dims[k++] = r->bins;
    dims[k++] = 2;
    y = cm_chain_reshape(c, y, k, dims);
    cm_chain_end(c, 0, move_axis(c, r, y, true));
}

static bool is_stft(const cm_node *n)
{
    frames f;
    return n->out[0] && read_stft(n, &f);
}

static bool is_dft(const cm_node *n)
{
    rows r;
    return n->out[0] && read_dft(n, &r);
}

CM_PASS(fourier_forms)
{
    static const cm_chain_form forms[] = {{is_stft, expand_stft}, {is_dft, expand_dft}};
    return cm_chain_rewrite(rw, g, forms, CM_COUNT(forms));
}
