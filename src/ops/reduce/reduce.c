/* reduce.c -- one value for all elements along some axes: sums, products, extremes, norms.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Floats accumulate in double, integers in 128 bits (kept modulo 2^64 in the end). Axes that
 * neighbour each other and are both kept or both reduced are one axis here; so the innermost one is
 * reduced (an output is folded from contiguous runs) or kept (a run of outputs at a time). */
#include <math.h>
#include <string.h>

#include "ops/elementwise.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    int64_t keepdims, noop_with_empty_axes;
} reduce_attr;

#define REDUCE_ATTRS(id)                                                                           \
    CM_ATTRS(id, reduce_attr, CM_ATTR_INT(reduce_attr, keepdims, 1),                               \
             CM_ATTR_INT(reduce_attr, noop_with_empty_axes, 0))
REDUCE_ATTRS(reduce_l1)
REDUCE_ATTRS(reduce_l2)
REDUCE_ATTRS(reduce_log_sum)
REDUCE_ATTRS(reduce_log_sum_exp)
REDUCE_ATTRS(reduce_max)
REDUCE_ATTRS(reduce_mean)
REDUCE_ATTRS(reduce_min)
REDUCE_ATTRS(reduce_prod)
REDUCE_ATTRS(reduce_sum)
REDUCE_ATTRS(reduce_sum_square)

typedef __int128 wide;
typedef unsigned __int128 uwide;

/* Joined axes of one kind, outermost first. */
typedef struct {
    int n;
    int64_t dims[CM_MAX_RANK], strides[CM_MAX_RANK];
} axes;

typedef struct {
    cm_op_id id;
    const cm_tensor *in;
    cm_tensor *out;
    bool wide;     /* integers exactly; else doubles */
    int64_t count; /* elements folded into one */
    axes kept, gone;
    int64_t run;   /* length of the innermost axis if it is kept, else 1 */
    int64_t piece; /* outputs at a time, at most CM_BLOCK; divides no row */
    int64_t pieces_per_row;
} job;

/* Fold v[0..n) into acc[0], or each v[i] into acc[i]. `shift`: what LogSumExp subtracts. */
static void fold_f64(const job *j, double *acc, const double *shift, const double *v, int64_t n,
                     bool into_one)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t k = into_one ? 0 : i;
        double x = v[i], a = acc[k];
        switch (j->id) {
        case CM_OP_REDUCE_L1:
            a += fabs(x);
            break;
        case CM_OP_REDUCE_L2:
        case CM_OP_REDUCE_SUM_SQUARE:
            a += x * x;
            break;
        case CM_OP_REDUCE_LOG_SUM_EXP:
            if (shift)
                a += cm_exp(x - shift[k]);
            else
                a = x > a || x != x ? x : a;
            break;
        case CM_OP_REDUCE_MAX:
            a = x > a || x != x ? x : a;
            break;
        case CM_OP_REDUCE_MIN:
            a = x < a || x != x ? x : a;
            break;
        case CM_OP_REDUCE_PROD:
            a *= x;
            break;
        default:
            a += x;
        }
        acc[k] = a;
    }
}

static void fold_wide(const job *j, wide *acc, const int64_t *v, int64_t n, bool into_one)
{
    bool u64 = j->in->dtype == CM_U64;
    for (int64_t i = 0; i < n; i++) {
        wide *a = &acc[into_one ? 0 : i], x = u64 ? (wide)(uint64_t)v[i] : v[i];
        switch (j->id) {
        case CM_OP_REDUCE_L1:
            *a = (wide)((uwide)*a + (uwide)(x < 0 ? -x : x));
            break;
        case CM_OP_REDUCE_MAX:
            *a = x > *a ? x : *a;
            break;
        case CM_OP_REDUCE_MIN:
            *a = x < *a ? x : *a;
            break;
        case CM_OP_REDUCE_PROD:
            *a = (wide)((uwide)*a * (uwide)x);
            break;
        case CM_OP_REDUCE_SUM_SQUARE:
            *a = (wide)((uwide)*a + (uwide)x * (uwide)x);
            break;
        default:
            *a = (wide)((uwide)*a + (uwide)x);
        }
    }
}

/* What an empty reduction gives, and folding begins with. */
static double start_f64(const job *j, bool shifted)
{
    switch (j->id) {
    case CM_OP_REDUCE_LOG_SUM_EXP:
        return shifted ? 0 : -INFINITY;
    case CM_OP_REDUCE_MAX:
        return -INFINITY;
    case CM_OP_REDUCE_MIN:
        return INFINITY;
    case CM_OP_REDUCE_PROD:
        return 1;
    default:
        return 0;
    }
}

static wide start_wide(const job *j)
{
    const cm_dtype_info *info = cm_dtype_get(j->in->dtype);
    int bits = info->kind == CM_KIND_BOOLEAN ? 1 : info->bits;
    bool is_signed = info->kind == CM_KIND_INT;
    switch (j->id) {
    case CM_OP_REDUCE_MAX:
        return is_signed ? -((wide)1 << (bits - 1)) : 0;
    case CM_OP_REDUCE_MIN:
        return ((wide)1 << (bits - is_signed)) - 1;
    case CM_OP_REDUCE_PROD:
        return 1;
    default:
        return 0;
    }
}

static double finish_f64(const job *j, double a, double shift)
{
    switch (j->id) {
    case CM_OP_REDUCE_L2:
        return sqrt(a);
    case CM_OP_REDUCE_LOG_SUM:
        return cm_ln(a);
    case CM_OP_REDUCE_LOG_SUM_EXP:
        return fabs(shift) < INFINITY ? shift + cm_ln(a) : shift; /* an infinity or NaN as it is */
    case CM_OP_REDUCE_MEAN:
        return a / (double)j->count;
    default:
        return a;
    }
}

static const void *at_elem(const cm_tensor *t, int64_t i)
{
    return (const unsigned char *)t->data + (size_t)i * cm_dtype_size(t->dtype);
}

/* One pass over the elements that a piece of outputs depends on; the first is at `from`. */
static void pass(const job *j, int64_t from, int64_t n_out, double *acc, const double *shift,
                 wide *wacc)
{
    const axes *g = &j->gone;
    int last = g->n - 1;
    bool inner = j->run == 1 && g->n > 0 && g->strides[last] == 1; /* contiguous along `gone` */
    int64_t length = inner ? g->dims[last] : 1, index[CM_MAX_RANK] = {0};
    int n_outer = inner ? last : g->n;
    if (j->count == 0)
        return;
    for (;;) {
        for (int64_t k = 0; k < length; k += CM_BLOCK) {
            cm_block b;
            int64_t n = inner ? (length - k < CM_BLOCK ? length - k : CM_BLOCK) : n_out;
            const void *src = at_elem(j->in, from + (inner ? k : 0));
            if (j->wide) {
                cm_load_i64(j->in->dtype, src, n, b.i);
                fold_wide(j, wacc, b.i, n, inner);
            } else {
                cm_load_f64(j->in->dtype, src, n, b.f);
                fold_f64(j, acc, shift, b.f, n, inner);
            }
        }
        int a = n_outer - 1;
        for (; a >= 0; a--) {
            from += g->strides[a];
            if (++index[a] < g->dims[a])
                break;
            from -= g->strides[a] * g->dims[a];
            index[a] = 0;
        }
        if (a < 0)
            return;
    }
}

static void compute_piece(const job *j, int64_t from, int64_t first_out, int64_t n)
{
    double acc[CM_BLOCK], shift[CM_BLOCK] = {0};
    wide wacc[CM_BLOCK];
    int64_t r[CM_BLOCK];
    cm_dtype t = j->out->dtype;
    void *dst = (void *)at_elem(j->out, first_out);
    if (j->wide) {
        for (int64_t i = 0; i < n; i++)
            wacc[i] = start_wide(j);
        pass(j, from, n, NULL, NULL, wacc);
        for (int64_t i = 0; i < n; i++) {
            if (j->id == CM_OP_REDUCE_MEAN)
                wacc[i] = j->count ? wacc[i] / j->count : 0;
            r[i] = (int64_t)(uint64_t)(uwide)wacc[i];
        }
        cm_store_i64(t, r, n, dst);
        return;
    }
    bool twice = j->id == CM_OP_REDUCE_LOG_SUM_EXP;
    for (int64_t i = 0; i < n; i++)
        acc[i] = start_f64(j, false);
    pass(j, from, n, acc, NULL, NULL);
    if (twice) {
        for (int64_t i = 0; i < n; i++) {
            shift[i] = acc[i];
            acc[i] = start_f64(j, true);
        }
        pass(j, from, n, acc, shift, NULL);
    }
    for (int64_t i = 0; i < n; i++)
        acc[i] = finish_f64(j, acc[i], shift[i]);
    cm_store_f64(t, acc, n, dst);
}

/* Pieces [begin, end): each is part of a row of outputs, a row being the innermost kept axis. */
static void compute(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t p = begin; p < end; p++) {
        int64_t row = p / j->pieces_per_row, at = p % j->pieces_per_row * j->piece;
        int64_t n = j->run - at < j->piece ? j->run - at : j->piece, from = at, rest = row;
        for (int a = j->kept.n - 1 - (j->run > 1); a >= 0; a--) {
            from += rest % j->kept.dims[a] * j->kept.strides[a];
            rest /= j->kept.dims[a];
        }
        compute_piece(j, from, row * j->run + at, n);
    }
}

/* Join neighbouring axes of one kind and find strides. */
static void join(job *j, const bool *is_gone)
{
    int64_t stride = 1;
    const cm_tensor *in = j->in;
    bool group[CM_MAX_RANK];
    int64_t dims[CM_MAX_RANK];
    int n = 0;
    for (int a = 0; a < in->rank; a++) {
        if (in->dims[a] == 1)
            continue;
        if (n && group[n - 1] == is_gone[a]) {
            dims[n - 1] *= in->dims[a];
        } else {
            group[n] = is_gone[a];
            dims[n++] = in->dims[a];
        }
    }
    int64_t strides[CM_MAX_RANK];
    for (int a = n - 1; a >= 0; a--) {
        strides[a] = stride;
        stride *= dims[a];
    }
    j->count = 1;
    for (int a = 0; a < n; a++) {
        axes *x = group[a] ? &j->gone : &j->kept;
        x->dims[x->n] = dims[a];
        x->strides[x->n++] = strides[a];
        if (group[a])
            j->count *= dims[a];
    }
    j->run = n && !group[n - 1] ? dims[n - 1] : 1;
    j->piece = j->run < CM_BLOCK ? j->run : CM_BLOCK;
}

/* Which axes go: those listed, or without a list all of them or none. */
static cm_status which(cm_ctx *cx, const reduce_attr *a, const int64_t *list, int64_t n, int rank,
                       bool *is_gone)
{
    if (n > 0)
        return cm_axes(cx, list, n, rank, is_gone);
    for (int i = 0; i < rank; i++)
        is_gone[i] = !a->noop_with_empty_axes;
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    job j = {.id = e->op->id, .in = cm_eval_in(e, 0), .out = cm_eval_out(e, 0)};
    bool is_gone[CM_MAX_RANK] = {0};
    const int64_t *list = NULL;
    int64_t n = 0, n_out = cm_tensor_elems(j.out);
    if (cm_eval_has(e, 1)) {
        n = cm_tensor_elems(cm_eval_in(e, 1));
        CM_TRY(cm_eval_as_i64(e, 1, &list));
    }
    CM_TRY(which(e->cx, e->attr, list, n, j.in->rank, is_gone));
    bool by_function =
        j.id == CM_OP_REDUCE_L2 || j.id == CM_OP_REDUCE_LOG_SUM || j.id == CM_OP_REDUCE_LOG_SUM_EXP;
    j.wide = !cm_dtype_is_float(j.in->dtype) && !by_function;
    if (n_out == 0)
        return CM_OK;
    join(&j, is_gone);
    j.pieces_per_row = (j.run + j.piece - 1) / j.piece;
    int64_t pieces = n_out / j.run * j.pieces_per_row, work = j.count * j.piece;
    int64_t grain = work > 0 && work < 16384 ? 16384 / work : 1;
    cm_parallel(e->threads, pieces, grain, compute, &j);
    return cm_check_cancel(e->cx);
}

/* All elements of a tracked vector folded into one, or each passed on where nothing is reduced. */
static void track(cm_infer *f, const bool *is_gone)
{
    cm_dim v[CM_MAX_ELEMS];
    int n;
    cm_op_id id = f->op->id;
    if (id != CM_OP_REDUCE_SUM && id != CM_OP_REDUCE_PROD && id != CM_OP_REDUCE_MAX &&
        id != CM_OP_REDUCE_MIN)
        return;
    if (f->in[0].type->rank > 1 || !cm_infer_elems_together(f, 1, v, &n))
        return;
    if (f->in[0].type->rank == 1 && is_gone[0]) {
        bool extreme = id == CM_OP_REDUCE_MAX || id == CM_OP_REDUCE_MIN;
        cm_dim r = id == CM_OP_REDUCE_PROD ? 1 : 0;
        if (extreme && n == 0)
            return;
        for (int i = 0; i < n; i++) {
            if (extreme && i == 0)
                r = v[0];
            else if (extreme)
                r = id == CM_OP_REDUCE_MAX ? cm_dim_max(f->dims, r, v[i])
                                           : cm_dim_min(f->dims, r, v[i]);
            else
                r = id == CM_OP_REDUCE_PROD ? cm_infer_mul(f, r, v[i]) : cm_infer_add(f, r, v[i]);
        }
        v[0] = r;
        n = 1;
    }
    if (n && !cm_infer_elem_fits(f, f->out[0].type.dtype, v[0]))
        return;
    cm_infer_set_elems(f, 0, v, n);
}

/* Axes that are not known yet: only the rank may be. */
static cm_status infer_unknown_axes(cm_infer *f, bool keep)
{
    const cm_type *in = f->in[0].type, *list = f->in[1].type;
    int64_t n;
    if (in->rank < 0)
        keep = false;
    if (keep)
        return cm_infer_data_dependent(f, 0, in->rank);
    if (in->rank >= 0 && list->rank == 1 && cm_infer_const(f, list->dims[0], &n) && n > 0 &&
        n <= in->rank)
        return cm_infer_data_dependent(f, 0, in->rank - (int)n);
    cm_infer_unknown(f, 0);
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const reduce_attr *a = f->attr;
    int64_t list[CM_MAX_RANK], n = 0;
    bool is_gone[CM_MAX_RANK] = {0};
    cm_dim dims[CM_MAX_RANK];
    int rank = 0;
    if (cm_infer_has(f, 1)) {
        if (cm_infer_rank(f, 1) > 1)
            return cm_fail(f->cx, CM_ERR_MODEL, "axes has rank %d, wanted 1", cm_infer_rank(f, 1));
        if (!cm_infer_ints(f, 1, list, CM_MAX_RANK, &n)) {
            if (f->in[1].constant)
                return cm_fail(f->cx, CM_ERR_MODEL, "axes has more than %d entries", CM_MAX_RANK);
            return infer_unknown_axes(f, a->keepdims != 0);
        }
    }
    if (!cm_infer_ranked(f, 0)) {
        if (n == 0 && !a->noop_with_empty_axes && !a->keepdims)
            return cm_infer_tensor(f, 0, 0, NULL);
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const cm_type *in = f->in[0].type;
    CM_TRY(which(f->cx, a, list, n, in->rank, is_gone));
    for (int i = 0; i < in->rank; i++) {
        if (!is_gone[i])
            dims[rank++] = in->dims[i];
        else if (a->keepdims)
            dims[rank++] = 1;
    }
    CM_TRY(cm_infer_tensor(f, 0, rank, dims));
    track(f, is_gone);
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    double each = f->op->id == CM_OP_REDUCE_LOG_SUM_EXP ? 12 : 1;
    c->ops = each * cm_infer_volume(f, f->in[0].type);
}

const cm_family cm_family_reduce = {.name = "reduce", .infer = infer, .eval = eval, .cost = cost};
