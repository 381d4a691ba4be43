/* scatter.c -- ScatterElements, ScatterND, TensorScatter: a copy with some elements replaced or
 * combined. Updates apply one after the other, so that equal indices have a defined result.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/move/move.h"

#include <string.h>

#include "base/size.h"

typedef struct {
    uint64_t present;
    int64_t axis;
    cm_str reduction;
} scatter_attr;
CM_ATTRS(scatter_elements, scatter_attr, CM_ATTR_INT(scatter_attr, axis, 0),
         CM_ATTR_STR(scatter_attr, reduction, "none"))
CM_ATTRS(scatter_nd, scatter_attr, CM_ATTR_STR(scatter_attr, reduction, "none"))

typedef struct {
    uint64_t present;
    int64_t axis;
    cm_str mode;
} tensor_scatter_attr;
CM_ATTRS(tensor_scatter, tensor_scatter_attr, CM_ATTR_INT(tensor_scatter_attr, axis, -2),
         CM_ATTR_STR(tensor_scatter_attr, mode, "linear"))

typedef enum { NONE, ADD, MUL, MAX, MIN } reduction;

static cm_status read_reduction(cm_ctx *cx, cm_str name, cm_dtype t, reduction *out)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    for (int i = 0; i < CM_COUNT(names); i++) {
        if (!cm_str_equal(name, cm_str_of(names[i])))
            continue;
        if (i != NONE && (t == CM_STR || (i >= MAX && cm_dtype_get(t)->kind == CM_KIND_COMPLEX)))
            return cm_fail(cx, CM_ERR_MODEL, "reduction %s is not defined for %s", names[i],
                           cm_dtype_name(t));
        *out = (reduction)i;
        return CM_OK;
    }
    return cm_fail(cx, CM_ERR_MODEL, "reduction is '%.*s', wanted none, add, mul, max or min",
                   (int)cm_min_i64((int64_t)name.n, 40), name.p ? name.p : "");
}

static cm_status infer_elements(cm_infer *f)
{
    const scatter_attr *a = f->attr;
    int r = cm_infer_rank(f, 0), q = cm_infer_rank(f, 1), u = cm_infer_rank(f, 2), axis;
    reduction how;
    CM_TRY(read_reduction(f->cx, a->reduction, f->in[0].type->dtype, &how));
    if (r >= 0)
        CM_TRY(cm_axis(f->cx, a->axis, r, &axis));
    if (q >= 0 && u >= 0 && q != u)
        return cm_fail(f->cx, CM_ERR_MODEL, "updates has rank %d, but indices has rank %d", u, q);
    if (r >= 0 && q >= 0 && r != q)
        return cm_fail(f->cx, CM_ERR_MODEL, "indices has rank %d, wanted %d as the data", q, r);
    for (int i = 0; i < q; i++) {
        int64_t size, n;
        if (u >= 0)
            CM_TRY(cm_infer_equal(f, "an axis of updates", cm_infer_dim(f, 2, i),
                                  cm_infer_dim(f, 1, i)));
        if (r >= 0 && i != axis && cm_infer_const(f, cm_infer_dim(f, 0, i), &size) &&
            cm_infer_const(f, cm_infer_dim(f, 1, i), &n) && n > size)
            return cm_fail(f->cx, CM_ERR_MODEL,
                           "axis %d of indices has size %lld, the data only %lld", i, (long long)n,
                           (long long)size);
    }
    return cm_infer_like(f, 0, 0);
}

static cm_status infer_nd(cm_infer *f)
{
    const scatter_attr *a = f->attr;
    int r = cm_infer_rank(f, 0), q = cm_infer_rank(f, 1), u = cm_infer_rank(f, 2);
    reduction how;
    int64_t depth;
    CM_TRY(read_reduction(f->cx, a->reduction, f->in[0].type->dtype, &how));
    if (r == 0 || q == 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "data and indices may not be scalars");
    if (r < 0 || q < 0 || !cm_infer_const(f, cm_infer_dim(f, 1, q - 1), &depth))
        return cm_infer_like(f, 0, 0);
    if (depth < 0 || depth > r)
        return cm_fail(f->cx, CM_ERR_MODEL, "indices hold tuples of %lld for data of rank %d",
                       (long long)depth, r);
    if (u < 0)
        return cm_infer_like(f, 0, 0);
    if (u != q - 1 + r - depth)
        return cm_fail(f->cx, CM_ERR_MODEL, "updates has rank %d, wanted %lld", u,
                       (long long)(q - 1 + r - depth));
    for (int i = 0; i < u; i++) {
        cm_dim wanted =
            i < q - 1 ? cm_infer_dim(f, 1, i) : cm_infer_dim(f, 0, (int)depth + i - (q - 1));
        CM_TRY(cm_infer_equal(f, "an axis of updates", cm_infer_dim(f, 2, i), wanted));
    }
    return cm_infer_like(f, 0, 0);
}

static cm_status infer_tensor_scatter(cm_infer *f)
{
    const tensor_scatter_attr *a = f->attr;
    int r = cm_infer_rank(f, 0), axis;
    if (!cm_str_equal(a->mode, cm_str_of("linear")) &&
        !cm_str_equal(a->mode, cm_str_of("circular")))
        return cm_fail(f->cx, CM_ERR_MODEL, "mode is '%.*s', wanted linear or circular",
                       (int)cm_min_i64((int64_t)a->mode.n, 40), a->mode.p ? a->mode.p : "");
    if (r < 0 || !cm_infer_ranked(f, 1))
        return cm_infer_like(f, 0, 0);
    CM_TRY(cm_axis(f->cx, a->axis, r, &axis));
    if (axis == 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "axis %lld is the batch axis", (long long)a->axis);
    if (cm_infer_rank(f, 1) != r)
        return cm_fail(f->cx, CM_ERR_MODEL, "update has rank %d, wanted %d as the cache",
                       cm_infer_rank(f, 1), r);
    for (int i = 0; i < r; i++)
        if (i != axis)
            CM_TRY(cm_infer_equal(f, "an axis of update", cm_infer_dim(f, 1, i),
                                  cm_infer_dim(f, 0, i)));
    int64_t n, most;
    if (cm_infer_const(f, cm_infer_dim(f, 1, axis), &n) &&
        cm_infer_const(f, cm_infer_dim(f, 0, axis), &most) && n > most)
        return cm_fail(f->cx, CM_ERR_MODEL, "update is %lld long, the cache only %lld",
                       (long long)n, (long long)most);
    if (cm_infer_has(f, 2) && cm_infer_ranked(f, 2)) {
        if (cm_infer_rank(f, 2) != 1)
            return cm_fail(f->cx, CM_ERR_MODEL, "write_indices has rank %d, wanted 1",
                           cm_infer_rank(f, 2));
        CM_TRY(cm_infer_equal(f, "size of write_indices", cm_infer_dim(f, 2, 0),
                              cm_infer_dim(f, 0, 0)));
    }
    return cm_infer_like(f, 0, 0);
}

static cm_status infer(cm_infer *f)
{
    switch (f->op->id) {
    case CM_OP_SCATTER_ELEMENTS:
        return infer_elements(f);
    case CM_OP_SCATTER_ND:
        return infer_nd(f);
    default:
        return infer_tensor_scatter(f);
    }
}

static double combine_f64(reduction how, double a, double b)
{
    switch (how) {
    case ADD:
        return a + b;
    case MUL:
        return a * b;
    case MAX:
        return a != a || a > b ? a : b; /* NaN wins */
    default:
        return a != a || a < b ? a : b;
    }
}

/* In 64 bits, wrapping; narrower types wrap when stored. */
static int64_t combine_i64(reduction how, bool is_unsigned, int64_t a, int64_t b)
{
    uint64_t flip = is_unsigned ? (uint64_t)1 << 63 : 0;
    bool less = (int64_t)((uint64_t)a ^ flip) < (int64_t)((uint64_t)b ^ flip);
    switch (how) {
    case ADD:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case MUL:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case MAX:
        return less ? b : a;
    default:
        return less ? a : b;
    }
}

static void combine_complex(reduction how, cm_dtype t, void *dst, const void *src)
{
    cm_dtype part = t == CM_C64 ? CM_F32 : CM_F64;
    double a[2], b[2], r[2];
    cm_load_f64(part, dst, 2, a);
    cm_load_f64(part, src, 2, b);
    r[0] = how == ADD ? a[0] + b[0] : a[0] * b[0] - a[1] * b[1];
    r[1] = how == ADD ? a[1] + b[1] : a[0] * b[1] + a[1] * b[0];
    cm_store_f64(part, r, 2, dst);
}

/* The sum in double, rounded, is that in float. */
static void add_f32(float *dst, const float *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] += src[i];
}

/* dst[i] = reduction(dst[i], src[i]) */
static void combine(reduction how, cm_dtype t, void *dst, const void *src, int64_t n)
{
    size_t size = cm_dtype_size(t);
    cm_dtype_kind kind = cm_dtype_get(t)->kind;
    if (how == NONE) {
        memcpy(dst, src, (size_t)n * size);
        return;
    }
    if (how == ADD && t == CM_F32) {
        add_f32(dst, src, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (kind == CM_KIND_COMPLEX)
            combine_complex(how, t, cm_move_to(dst, i, size), cm_move_at(src, i, size));
        else if (kind == CM_KIND_FLOAT)
            cm_set_f64(t, dst, i, combine_f64(how, cm_get_f64(t, dst, i), cm_get_f64(t, src, i)));
        else
            cm_set_i64(t, dst, i,
                       combine_i64(how, t == CM_U64, cm_get_i64(t, dst, i), cm_get_i64(t, src, i)));
    }
}

enum { BLOCK = 1024 }; /* so many elements of a row make a piece of work */

/* Rows are of the axes from `tail` on, which lie together in the output as in the updates. */
typedef struct {
    reduction how;
    int axis, tail;
    bool along; /* rows run along the axis */
    int64_t row, rows, block;
    const int64_t *v;
    const cm_tensor *index, *updates;
    cm_tensor *y;
    int64_t *failed; /* of each thread the first position whose index is out of range */
} elements_job;

static bool all_equal(const int64_t *v, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (v[i] != v[0])
            return false;
    return true;
}

/* Updates [at, at + n) of one row; the first of them goes to y[base + index * stride]. Returns how many were
 * applied before an index out of range. */
static int64_t scatter_run(const elements_job *j, int64_t at, int64_t n, int64_t base)
{
    const int64_t *v = j->v + at, most = j->y->dims[j->axis], stride = j->y->strides[j->axis];
    cm_dtype t = j->y->dtype;
    size_t size = cm_dtype_size(t);
    bool is_word = size == 4 && j->how == NONE, is_sum = t == CM_F32 && j->how == ADD;
    int64_t step = !j->along && all_equal(v, n) ? n : 1;
    for (int64_t i = 0; i < n; i += step) {
        if (v[i] < -most || v[i] >= most)
            return i;
        int64_t pick = v[i] < 0 ? v[i] + most : v[i];
        void *dst = cm_move_to(j->y->data, base + pick * stride + (j->along ? 0 : i), size);
        const void *src = cm_move_at(j->updates->data, at + i, size);
        if (step > 1)
            combine(j->how, t, dst, src, step);
        else if (is_word)
            memcpy(dst, src, 4);
        else if (is_sum)
            *(float *)dst += *(const float *)src;
        else
            combine(j->how, t, dst, src, 1);
    }
    return n;
}

/* Blocks [begin, end) of every row, one row after the other. No other block writes to the same elements. */
static void scatter_blocks(void *arg, int thread, int64_t begin, int64_t end)
{
    const elements_job *j = arg;
    int64_t at[CM_MAX_RANK] = {0}, first = begin * j->block;
    int64_t n = cm_min_i64(end * j->block, j->row) - first;
    for (int64_t r = 0; r < j->rows; r++) {
        int64_t base = j->along ? 0 : first;
        for (int k = 0; k < j->tail; k++)
            base += k == j->axis ? 0 : at[k] * j->y->strides[k];
        int64_t done = scatter_run(j, r * j->row + first, n, base);
        if (done < n) {
            j->failed[thread] = cm_min_i64(j->failed[thread], r * j->row + first + done);
            return;
        }
        for (int k = j->tail - 1; k >= 0 && ++at[k] == j->index->dims[k]; k--)
            at[k] = 0;
    }
}

static void lay_rows(elements_job *j)
{
    const int64_t *dims = j->index->dims;
    j->tail = j->y->rank - 1;
    j->along = j->axis == j->tail;
    j->row = dims[j->tail];
    for (; j->tail - 1 > j->axis && dims[j->tail] == j->y->dims[j->tail]; j->tail--)
        j->row *= dims[j->tail - 1];
    j->rows = cm_dims_product(dims, 0, j->tail);
    j->block = j->along ? j->row : cm_min_i64(j->row, BLOCK);
}

/* y[i][index[i][j][k]][k] = updates[i][j][k] when the axis is 1. */
static cm_status eval_elements(cm_eval *e, reduction how)
{
    const scatter_attr *a = e->attr;
    elements_job j = {
        .how = how, .index = cm_eval_in(e, 1), .updates = cm_eval_in(e, 2), .y = cm_eval_out(e, 0)};
    CM_TRY(cm_axis(e->cx, a->axis, j.y->rank, &j.axis));
    CM_TRY(cm_eval_as_i64(e, 1, &j.v));
    if (cm_tensor_elems(j.index) == 0)
        return CM_OK;
    lay_rows(&j);
    int threads = cm_threads_count(e->threads);
    void *p;
    CM_TRY(cm_eval_scratch(e, (size_t)threads, sizeof *j.failed, &p));
    j.failed = p;
    for (int t = 0; t < threads; t++)
        j.failed[t] = INT64_MAX;
    cm_parallel_numbered(e->threads, threads, cm_ceil_div(j.row, j.block), scatter_blocks, &j);
    int64_t failed = INT64_MAX, pick;
    for (int t = 0; t < threads; t++)
        failed = cm_min_i64(failed, j.failed[t]);
    if (failed < INT64_MAX)
        CM_TRY(cm_move_index(e->cx, j.v[failed], j.y->dims[j.axis], j.axis, failed, &pick));
    return cm_check_cancel(e->cx);
}

static cm_status eval_nd(cm_eval *e, reduction how)
{
    const cm_tensor *index = cm_eval_in(e, 1), *updates = cm_eval_in(e, 2);
    cm_tensor *y = cm_eval_out(e, 0);
    const int64_t *v = index->data;
    size_t size = cm_dtype_size(y->dtype);
    int depth = (int)index->dims[index->rank - 1];
    int64_t tuples = cm_dims_product(index->dims, 0, index->rank - 1);
    int64_t run = cm_dims_product(y->dims, depth, y->rank);
    for (int64_t i = 0; i < tuples; i++) {
        int64_t to = 0;
        for (int k = 0; k < depth; k++) {
            int64_t pick;
            CM_TRY(cm_move_index(e->cx, v[i * depth + k], y->dims[k], k, i * depth + k, &pick));
            to += pick * y->strides[k];
        }
        if (run > 0)
            combine(how, y->dtype, cm_move_to(y->data, to, size),
                    cm_move_at(updates->data, i * run, size), run);
    }
    return CM_OK;
}

static cm_status eval_tensor_scatter(cm_eval *e)
{
    const tensor_scatter_attr *a = e->attr;
    const cm_tensor *update = cm_eval_in(e, 1);
    cm_tensor *y = cm_eval_out(e, 0);
    int axis;
    CM_TRY(cm_axis(e->cx, a->axis, y->rank, &axis));
    bool is_circular = cm_str_equal(a->mode, cm_str_of("circular"));
    size_t size = cm_dtype_size(y->dtype);
    int64_t most = y->dims[axis], n = update->dims[axis];
    int64_t inner = cm_dims_product(y->dims, axis + 1, y->rank);
    int64_t per_batch = cm_dims_product(y->dims, 1, axis);
    int64_t rows = cm_dims_product(y->dims, 0, axis);
    for (int64_t r = 0; inner > 0 && n > 0 && r < rows; r++) {
        int64_t start = cm_eval_has(e, 2) ? cm_eval_int(e, 2, r / per_batch) : 0;
        if (start < 0 || (!is_circular && start > most - n))
            return cm_fail(e->cx, CM_ERR_DATA,
                           "write_indices[%lld] is %lld: %lld entries do not fit a cache of %lld",
                           (long long)(r / per_batch), (long long)start, (long long)n,
                           (long long)most);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = is_circular ? (start % most + i) % most : start + i;
            memcpy(cm_move_to(y->data, (r * most + at) * inner, size),
                   cm_move_at(update->data, (r * n + i) * inner, size), (size_t)inner * size);
        }
    }
    return CM_OK;
}

static void copy_data(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_move m = {.elem_bytes = cm_dtype_size(x->dtype)};
    cm_move_axis(&m, cm_tensor_elems(x), 1, 1);
    cm_move_run(&m, x->data, cm_eval_out(e, 0)->data, e->threads);
}

static cm_status eval(cm_eval *e)
{
    const scatter_attr *a = e->attr;
    reduction how;
    copy_data(e);
    CM_TRY(cm_check_cancel(e->cx));
    if (e->op->id == CM_OP_TENSOR_SCATTER)
        return eval_tensor_scatter(e);
    CM_TRY(read_reduction(e->cx, a->reduction, cm_eval_in(e, 0)->dtype, &how));
    return e->op->id == CM_OP_SCATTER_ND ? eval_nd(e, how) : eval_elements(e, how);
}

const cm_family cm_family_scatter = {"scatter", infer, eval, NULL};
