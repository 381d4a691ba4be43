/* fourier.c -- DFT and STFT.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lengths that are powers of two by repeated halving; any other length by Bluestein's identity,
 * which turns it into a convolution of such a length. All in double. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/eval.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    int64_t inverse, onesided;
} dft_attr;
CM_ATTRS(dft, dft_attr, CM_ATTR_INT(dft_attr, inverse, 0), CM_ATTR_INT(dft_attr, onesided, 0))

typedef struct {
    uint64_t present;
    int64_t onesided;
} stft_attr;
CM_ATTRS(stft, stft_attr, CM_ATTR_INT(stft_attr, onesided, 1))

/* ---- type rules ---- */

/* Optional scalar input i as a dim. `dflt` when absent, a fresh symbol when not known. */
static cm_status scalar_dim(cm_infer *f, int i, const char *what, cm_dim dflt, cm_dim *out)
{
    int n = 0;
    cm_dim v[CM_MAX_ELEMS];
    *out = dflt;
    if (!cm_infer_has(f, i))
        return CM_OK;
    if (!cm_infer_elems(f, i, v, &n)) {
        *out = cm_infer_fresh(f, what);
        return *out == CM_DIM_ERROR ? cm_fail_memory(f->cx) : CM_OK;
    }
    if (n != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s has %d elements, wanted one", what, n);
    *out = v[0];
    return CM_OK;
}

static cm_status want_positive(cm_infer *f, const char *what, cm_dim d)
{
    int64_t v;
    if (cm_infer_const(f, d, &v) && v <= 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s is %lld, wanted a positive number", what,
                       (long long)v);
    return CM_OK;
}

static cm_status check_parts(cm_infer *f, int i, cm_dim d)
{
    int64_t parts;
    if (cm_infer_const(f, d, &parts) && parts != 1 && parts != 2)
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "last dim of input %d is %lld, wanted 1 (real) or 2 "
                       "(complex)",
                       i, (long long)parts);
    return CM_OK;
}

/* Which axis: input 2, or -2. *known false: only the data will tell. */
static cm_status dft_axis(cm_infer *f, int rank, int *axis, bool *known)
{
    int64_t v[1] = {-2}, n = 1;
    *known = !cm_infer_has(f, 2) || cm_infer_ints(f, 2, v, 1, &n);
    if (!*known)
        return CM_OK;
    if (n != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "axis has %lld elements, wanted one", (long long)n);
    CM_TRY(cm_axis(f->cx, v[0], rank, axis));
    if (*axis == rank - 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "axis %lld is the one of real and imaginary parts",
                       (long long)v[0]);
    return CM_OK;
}

static cm_status infer_dft(cm_infer *f)
{
    const dft_attr *a = f->attr;
    const bool irfft = a->inverse && a->onesided;
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const int rank = cm_infer_rank(f, 0);
    int axis = 0;
    bool known;
    cm_dim dims[CM_MAX_RANK], length;
    if (rank < 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "input of rank %d, wanted at least 2", rank);
    memcpy(dims, f->in[0].type->dims, (size_t)rank * sizeof *dims);
    CM_TRY(check_parts(f, 0, dims[rank - 1]));
    if (a->onesided && dims[rank - 1] == (irfft ? 1 : 2))
        return cm_fail(f->cx, CM_ERR_MODEL, "a one-sided %s wants %s input",
                       irfft ? "inverse" : "transform", irfft ? "complex" : "real");
    CM_TRY(dft_axis(f, rank, &axis, &known));
    dims[rank - 1] = irfft ? 1 : 2;
    if (!known) {
        for (int i = 0; i + 1 < rank; i++)
            dims[i] = cm_infer_fresh(f, "dft");
        return cm_infer_tensor(f, 0, rank, dims);
    }
    const cm_dim dflt = irfft ? cm_infer_mul(f, 2, cm_infer_sub(f, dims[axis], 1)) : dims[axis];
    CM_TRY(scalar_dim(f, 1, "dft_length", dflt, &length));
    CM_TRY(want_positive(f, "dft_length", length));
    dims[axis] =
        a->onesided && !a->inverse ? cm_infer_add(f, cm_infer_floor_div(f, length, 2), 1) : length;
    return cm_infer_tensor(f, 0, rank, dims);
}

static cm_status infer_stft(cm_infer *f)
{
    const stft_attr *a = f->attr;
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    if (cm_infer_rank(f, 0) != 3)
        return cm_fail(f->cx, CM_ERR_MODEL, "signal of rank %d, wanted [batch, length, 1 or 2]",
                       cm_infer_rank(f, 0));
    const cm_dim n = cm_infer_dim(f, 0, 1);
    cm_dim step, frame = n, bins;
    CM_TRY(check_parts(f, 0, cm_infer_dim(f, 0, 2)));
    CM_TRY(scalar_dim(f, 1, "frame_step", 1, &step));
    CM_TRY(want_positive(f, "frame_step", step));
    if (cm_infer_has(f, 2) && cm_infer_ranked(f, 2)) {
        if (cm_infer_rank(f, 2) != 1)
            return cm_fail(f->cx, CM_ERR_MODEL, "window of rank %d, wanted 1", cm_infer_rank(f, 2));
        frame = cm_infer_dim(f, 2, 0);
    } else if (cm_infer_has(f, 2)) {
        frame = cm_infer_fresh(f, "frame");
    }
    const cm_dim window = frame;
    CM_TRY(scalar_dim(f, 3, "frame_length", frame, &frame));
    CM_TRY(want_positive(f, "frame_length", frame));
    if (cm_infer_has(f, 2))
        CM_TRY(cm_infer_equal(f, "length of the window", window, frame));
    int64_t x, y;
    if (cm_infer_const(f, n, &x) && cm_infer_const(f, frame, &y) && y > x)
        return cm_fail(f->cx, CM_ERR_MODEL, "frame of %lld in a signal of %lld", (long long)y,
                       (long long)x);
    bins = a->onesided ? cm_infer_add(f, cm_infer_floor_div(f, frame, 2), 1) : frame;
    const cm_dim frames =
        cm_infer_add(f, cm_infer_floor_div(f, cm_infer_sub(f, n, frame), step), 1);
    return cm_infer_tensor(f, 0, 4, (cm_dim[]){cm_infer_dim(f, 0, 0), frames, bins, 2});
}

static cm_status infer(cm_infer *f)
{
    return f->op->id == CM_OP_DFT ? infer_dft(f) : infer_stft(f);
}

/* ---- transforms of one row ---- */

typedef struct {
    double re, im;
} cplx;

static cplx mul(cplx a, cplx b)
{
    return (cplx){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* e^(sign * 2 pi i k / n), k in [0, n) */
static cplx root(int64_t k, int64_t n, int sign)
{
    const double angle = 2 * M_PI * (double)k / (double)n;
    return (cplx){cm_cos(angle), sign * cm_sin(angle)};
}

/* What transforms of one length share. */
typedef struct {
    int64_t n;    /* length */
    int64_t m;    /* the power of two: n itself, or room for a convolution of n */
    cplx *roots;  /* m/2 of them, e^(-2 pi i k / m) */
    cplx *chirp;  /* n not a power of two: e^(-pi i k^2 / n), n of them */
    cplx *filter; /* the transform of the chirp's conjugate, wrapped */
} plan;

/* In place, m a power of two. */
static void halve(cplx *x, int64_t m, const cplx *roots)
{
    for (int64_t i = 1, j = 0; i < m; i++) {
        int64_t bit = m >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            const cplx t = x[i];
            x[i] = x[j];
            x[j] = t;
        }
    }
    for (int64_t len = 2; len <= m; len *= 2)
        for (int64_t i = 0; i < m; i += len)
            for (int64_t k = 0; k < len / 2; k++) {
                const cplx u = x[i + k], v = mul(x[i + k + len / 2], roots[k * (m / len)]);
                x[i + k] = (cplx){u.re + v.re, u.im + v.im};
                x[i + k + len / 2] = (cplx){u.re - v.re, u.im - v.im};
            }
}

static cm_status make_plan(cm_eval *e, int64_t n, plan *p)
{
    const bool power = (n & (n - 1)) == 0;
    void *v;
    if (n > (int64_t)1 << 40)
        return cm_fail(e->cx, CM_ERR_DATA, "a transform of length %lld is too long", (long long)n);
    *p = (plan){.n = n, .m = 1};
    while (p->m < (power ? n : 2 * n - 1))
        p->m *= 2;
    CM_TRY(cm_eval_scratch(e, (size_t)(p->m / 2 + 1), sizeof(cplx), &v));
    p->roots = v;
    for (int64_t k = 0; k < p->m / 2; k++)
        p->roots[k] = root(k, p->m, -1);
    if (power)
        return CM_OK;
    CM_TRY(cm_eval_scratch(e, (size_t)(n + p->m), sizeof(cplx), &v));
    p->chirp = v;
    p->filter = p->chirp + n;
    for (int64_t k = 0, square = 0; k < n; k++) {
        p->chirp[k] = root(square, 2 * n, -1); /* square is k^2 mod 2n */
        square = (square + 2 * k + 1) % (2 * n);
        const cplx c = {p->chirp[k].re, -p->chirp[k].im};
        p->filter[k] = c;
        if (k)
            p->filter[p->m - k] = c;
    }
    halve(p->filter, p->m, p->roots);
    return CM_OK;
}

/* x[0..n) becomes its transform; work has room for m. The inverse is the forward one with real and
 * imaginary parts exchanged, before and after. */
static void transform(const plan *p, cplx *x, cplx *work, bool inverse)
{
    const int64_t n = p->n, m = p->m;
    if (inverse)
        for (int64_t i = 0; i < n; i++)
            x[i] = (cplx){x[i].im, x[i].re};
    if (!p->chirp) {
        halve(x, n, p->roots);
    } else {
        for (int64_t i = 0; i < m; i++)
            work[i] = i < n ? mul(x[i], p->chirp[i]) : (cplx){0, 0};
        halve(work, m, p->roots);
        for (int64_t i = 0; i < m; i++) { /* times the filter; exchanged, for the way back */
            const cplx y = mul(work[i], p->filter[i]);
            work[i] = (cplx){y.im, y.re};
        }
        halve(work, m, p->roots);
        for (int64_t i = 0; i < n; i++)
            x[i] = mul((cplx){work[i].im / (double)m, work[i].re / (double)m}, p->chirp[i]);
    }
    if (inverse)
        for (int64_t i = 0; i < n; i++)
            x[i] = (cplx){x[i].im / (double)n, x[i].re / (double)n};
}

/* ---- evaluators ---- */

/* Rows of input and output: where row r begins, and how far apart its elements are. */
typedef struct job {
    plan p;
    const double *in;
    double *out;
    int64_t n_rows, n_pieces;
    int64_t n_in, n_out; /* elements of a row taken and given */
    int64_t in_len;      /* elements of a row along the axis, in memory */
    int64_t inner;       /* complex numbers between neighbours */
    int parts_in, parts_out;
    bool inverse, mirror; /* mirror: the second half of the input is the first's conjugate */
    /* STFT */
    int64_t frames, step;
    const double *window;
    cplx *work; /* n + m for each piece */
} job;

static void load_row(const job *j, int64_t row, cplx *x)
{
    const double *from;
    int64_t stride = j->inner * j->parts_in;
    if (j->frames)
        from = j->in + (row / j->frames * j->in_len + row % j->frames * j->step) * j->parts_in;
    else
        from = j->in + (row / j->inner * j->in_len * j->inner + row % j->inner) * j->parts_in;
    for (int64_t i = 0; i < j->p.n; i++) {
        x[i] = (cplx){0, 0};
        if (i >= j->n_in)
            continue;
        const double w = j->window ? j->window[i] : 1;
        x[i].re = from[i * stride] * w;
        x[i].im = j->parts_in == 2 ? from[i * stride + 1] * w : 0;
    }
    if (!j->mirror)
        return;
    x[0].im = 0;
    for (int64_t i = 1; i <= j->p.n / 2; i++) {
        if (2 * i == j->p.n)
            x[i].im = 0;
        else
            x[j->p.n - i] = (cplx){x[i].re, -x[i].im};
    }
}

static void store_row(const job *j, int64_t row, const cplx *x)
{
    const int64_t stride = j->inner * j->parts_out;
    double *to = j->out + (row / j->inner * j->n_out * j->inner + row % j->inner) * j->parts_out;
    for (int64_t i = 0; i < j->n_out; i++) {
        to[i * stride] = x[i].re;
        if (j->parts_out == 2)
            to[i * stride + 1] = x[i].im;
    }
}

static void run_pieces(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t piece = begin; piece < end; piece++) {
        cplx *x = j->work + piece * (j->p.n + j->p.m), *work = x + j->p.n;
        for (int64_t row = piece; row < j->n_rows; row += j->n_pieces) {
            load_row(j, row, x);
            transform(&j->p, x, work, j->inverse);
            store_row(j, row, x);
        }
    }
}

static cm_status run_job(cm_eval *e, job *j, int64_t length)
{
    cm_tensor *out = cm_eval_out(e, 0);
    const int64_t n_out = cm_tensor_elems(out);
    void *v;
    if (n_out == 0)
        return CM_OK;
    CM_TRY(make_plan(e, length, &j->p));
    j->n_pieces = cm_min_i64(j->n_rows, cm_threads_count(e->threads));
    CM_TRY(cm_eval_scratch(e, (size_t)(j->n_pieces * (j->p.n + j->p.m)), sizeof(cplx), &v));
    j->work = v;
    CM_TRY(cm_eval_scratch(e, (size_t)n_out, sizeof(double), &v));
    j->out = v;
    CM_TRY(cm_eval_as_f64(e, 0, &j->in));
    cm_parallel(e->threads, j->n_pieces, 1, run_pieces, j);
    cm_store_f64(out->dtype, j->out, n_out, out->data);
    return CM_OK;
}

static cm_status eval_dft(cm_eval *e)
{
    const dft_attr *a = e->attr;
    const cm_tensor *in = cm_eval_in(e, 0), *out = cm_eval_out(e, 0);
    const int rank = in->rank;
    int axis;
    CM_TRY(cm_axis(e->cx, cm_eval_has(e, 2) ? cm_eval_int(e, 2, 0) : -2, rank, &axis));
    const bool irfft = a->inverse && a->onesided;
    int64_t length = irfft ? 2 * (in->dims[axis] - 1) : in->dims[axis];
    if (cm_eval_has(e, 1))
        length = cm_eval_int(e, 1, 0);
    const int64_t inner = cm_dims_product(in->dims, axis + 1, rank - 1);
    job j = {
        .n_rows = cm_dims_product(in->dims, 0, axis) * inner,
        .n_in = cm_min_i64(in->dims[axis], irfft ? length / 2 + 1 : length),
        .n_out = out->dims[axis],
        .in_len = in->dims[axis],
        .inner = inner,
        .parts_in = (int)in->dims[rank - 1],
        .parts_out = (int)out->dims[rank - 1],
        .inverse = a->inverse != 0,
        .mirror = irfft,
    };
    return run_job(e, &j, length);
}

static cm_status eval_stft(cm_eval *e)
{
    const cm_tensor *in = cm_eval_in(e, 0), *out = cm_eval_out(e, 0);
    int64_t length = in->dims[1];
    if (cm_eval_has(e, 2))
        length = cm_eval_in(e, 2)->dims[0];
    if (cm_eval_has(e, 3))
        length = cm_eval_int(e, 3, 0);
    job j = {
        .n_rows = out->dims[0] * out->dims[1],
        .n_in = length,
        .n_out = out->dims[2],
        .in_len = in->dims[1],
        .inner = 1,
        .parts_in = (int)in->dims[2],
        .parts_out = 2,
        .frames = out->dims[1],
        .step = cm_eval_int(e, 1, 0),
    };
    if (cm_eval_has(e, 2))
        CM_TRY(cm_eval_as_f64(e, 2, &j.window));
    return run_job(e, &j, length);
}

static cm_status eval(cm_eval *e)
{
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    return e->op->id == CM_OP_DFT ? eval_dft(e) : eval_stft(e);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    const double n = cm_infer_volume(f, &f->out[0].type);
    double stages = 1;
    for (double k = n; k > 1; k /= 2)
        stages++;
    c->ops = 5 * n * stages;
}

const cm_family cm_family_fourier = {.name = "fourier", .infer = infer, .eval = eval, .cost = cost};
