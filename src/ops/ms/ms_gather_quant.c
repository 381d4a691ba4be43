/* ms_gather_quant.c -- com.microsoft GatherBlockQuantized: Gather from a table of quantised blocks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Codes of 2 or 4 bits in u8 data lie several to a byte along the last axis, low bits first. An
 * index out of range gives zeros. */
#include "ops/eval.h"

#include <string.h>

#include "base/size.h"
#include "ops/expect.h"

typedef struct {
    uint64_t present;
    int64_t bits, block_size, gather_axis, quantize_axis;
} gather_attr;

CM_ATTRS(ms_gather_block_quantized, gather_attr, CM_ATTR_INT(gather_attr, bits, 4),
         CM_ATTR_INT(gather_attr, block_size, 128), CM_ATTR_INT(gather_attr, gather_axis, 0),
         CM_ATTR_INT(gather_attr, quantize_axis, 1))

enum { DATA, INDICES, SCALES, ZEROS };

static int per_byte(cm_dtype t, const gather_attr *a)
{
    return t == CM_U8 ? (int)(8 / a->bits) : 1;
}

static cm_status check(cm_infer *f, const gather_attr *a)
{
    bool is_float = cm_dtype_is_float(f->in[DATA].type->dtype);
    if (!is_float && a->bits != 2 && a->bits != 4 && a->bits != 8)
        return cm_fail(f->cx, CM_ERR_MODEL, "bits is %lld, wanted 2, 4 or 8", (long long)a->bits);
    if (a->block_size < 0 || (a->block_size == 0 && !is_float))
        return cm_fail(f->cx, CM_ERR_MODEL, "block_size is %lld", (long long)a->block_size);
    if (is_float && cm_infer_has(f, ZEROS))
        return cm_fail(f->cx, CM_ERR_MODEL, "zero_points given for data of a float type");
    return CM_OK;
}

/* One scale a block along the axis; other axes as in the data, or 1 for all. */
static cm_status check_params(cm_infer *f, const gather_attr *a, int p, const char *name,
                              int quantize, int packed)
{
    int rank = cm_infer_rank(f, DATA);
    if (!cm_expect_known(f, p))
        return CM_OK;
    CM_TRY(cm_expect_rank(f, p, name, rank, rank));
    for (int d = 0; d < rank; d++) {
        cm_dim size = cm_infer_dim(f, DATA, d), found = cm_infer_dim(f, p, d);
        if (d == rank - 1)
            size = cm_infer_mul(f, size, per_byte(f->in[DATA].type->dtype, a));
        if (d == quantize)
            size = a->block_size ? cm_infer_ceil_div(f, size, a->block_size) : 1;
        if (d == rank - 1)
            size = cm_infer_ceil_div(f, size, packed);
        if (found != 1 || !cm_dtype_is_float(f->in[DATA].type->dtype))
            CM_TRY(cm_infer_equal(f, name, found, size));
    }
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const gather_attr *a = f->attr;
    CM_TRY(check(f, a));
    if (!cm_infer_ranked(f, DATA) || !cm_infer_ranked(f, INDICES)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    int rank = cm_infer_rank(f, DATA), q = cm_infer_rank(f, INDICES), gather, quantize, n = 0;
    CM_TRY(cm_axis(f->cx, a->gather_axis, rank, &gather));
    CM_TRY(cm_axis(f->cx, a->quantize_axis, rank, &quantize));
    int packed = per_byte(f->in[DATA].type->dtype, a);
    if (packed > 1 && gather == rank - 1)
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "gather_axis is the last axis, along which codes are packed");
    if (rank + q - 1 > CM_MAX_RANK)
        return cm_fail(f->cx, CM_ERR_MODEL, "the output has rank %d, the most is %d", rank + q - 1,
                       CM_MAX_RANK);
    CM_TRY(check_params(f, a, SCALES, "scales", quantize, 1));
    CM_TRY(check_params(f, a, ZEROS, "zero_points", quantize, packed));
    cm_dim dims[CM_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        if (d == gather)
            for (int i = 0; i < q; i++)
                dims[n++] = cm_infer_dim(f, INDICES, i);
        else
            dims[n++] = d == rank - 1 ? cm_infer_mul(f, cm_infer_dim(f, DATA, d), packed)
                                      : cm_infer_dim(f, DATA, d);
    }
    return cm_infer_tensor(f, 0, n, dims);
}

typedef struct {
    const gather_attr *a;
    const cm_tensor *data, *indices, *scales, *zeros;
    cm_tensor *y;
    int gather, quantize, packed;
    int64_t inner; /* logical elements after the gather axis */
} run;

/* Element `at` of codes packed along the last axis. */
static double code_at(const run *r, const cm_tensor *t, int64_t row, int64_t col)
{
    int64_t row_size = t->dims[t->rank - 1];
    if (r->packed == 1)
        return cm_get_f64(t->dtype, t->data, row * row_size + col);
    int bits = (int)r->a->bits;
    uint8_t byte = ((const uint8_t *)t->data)[row * row_size + col / r->packed];
    return byte >> (col % r->packed * bits) & ((1 << bits) - 1);
}

static double element(const run *r, int64_t outer, int64_t index, int64_t inner)
{
    int rank = r->data->rank;
    int64_t at[CM_MAX_RANK] = {0}, row = 0, p_row = 0, zero_row = 0;
    for (int d = rank - 1; d > r->gather; d--) {
        int64_t size = r->data->dims[d] * (d == rank - 1 ? r->packed : 1);
        at[d] = inner % size;
        inner /= size;
    }
    at[r->gather] = index;
    for (int d = r->gather - 1; d >= 0; d--) {
        at[d] = outer % r->data->dims[d];
        outer /= r->data->dims[d];
    }
    int64_t p_at[CM_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        p_at[d] = d == r->quantize ? r->a->block_size ? at[d] / r->a->block_size : 0 : at[d];
        if (r->scales->dims[d] == 1)
            p_at[d] = 0;
    }
    for (int d = 0; d < rank - 1; d++) {
        row = row * r->data->dims[d] + at[d];
        p_row = p_row * r->scales->dims[d] + p_at[d];
        zero_row = r->zeros ? zero_row * r->zeros->dims[d] + p_at[d] : 0;
    }
    double scale = cm_get_f64(r->scales->dtype, r->scales->data,
                              p_row * r->scales->dims[rank - 1] + p_at[rank - 1]);
    double zero = r->data->dtype == CM_U8 ? 1 << (r->a->bits - 1) : 0;
    if (r->zeros)
        zero = code_at(r, r->zeros, zero_row, p_at[rank - 1]);
    return (code_at(r, r->data, row, at[rank - 1]) - zero) * scale;
}

static void run_range(void *arg, int64_t begin, int64_t end)
{
    const run *r = arg;
    int64_t n = cm_tensor_elems(r->indices), size = r->data->dims[r->gather];
    for (int64_t i = begin; i < end; i++) {
        int64_t slice = i / r->inner, outer = slice / n;
        int64_t index = cm_get_i64(r->indices->dtype, r->indices->data, slice % n);
        index += index < 0 ? size : 0;
        double v = index < 0 || index >= size ? 0 : element(r, outer, index, i % r->inner);
        cm_set_f64(r->y->dtype, r->y->data, i, v);
    }
}

static cm_status eval(cm_eval *e)
{
    const gather_attr *a = e->attr;
    run r = {.a = a,
             .data = cm_eval_in(e, DATA),
             .indices = cm_eval_in(e, INDICES),
             .scales = cm_eval_in(e, SCALES),
             .y = cm_eval_out(e, 0)};
    r.zeros = cm_eval_has(e, ZEROS) ? cm_eval_in(e, ZEROS) : NULL;
    r.packed = per_byte(r.data->dtype, a);
    CM_TRY(cm_axis(e->cx, a->gather_axis, r.data->rank, &r.gather));
    CM_TRY(cm_axis(e->cx, a->quantize_axis, r.data->rank, &r.quantize));
    r.inner = cm_dims_product(r.data->dims, r.gather + 1, r.data->rank) * r.packed;
    cm_parallel(e->threads, cm_tensor_elems(r.y), 256, run_range, &r);
    return CM_OK;
}

const cm_family cm_family_ms_gather_quant = {
    .name = "ms_gather_quant", .infer = infer, .eval = eval};
