/* ms_position.c -- com.microsoft RelativePositionBias (T5's buckets) and GatedRelativePositionBias.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>

#include "base/size.h"
#include "ops/expect.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    int64_t is_bidirectional, max_distance, num_heads;
} position_attr;

CM_ATTRS(ms_relative_position_bias, position_attr, CM_ATTR_INT(position_attr, is_bidirectional, 0),
         CM_ATTR_INT_REQUIRED(position_attr, max_distance))
CM_ATTRS(ms_gated_relative_position_bias, position_attr,
         CM_ATTR_INT_REQUIRED(position_attr, num_heads))

static cm_dim one_elem(cm_infer *f, int i, const char *what)
{
    cm_dim v[CM_MAX_ELEMS];
    int n = 0;
    return cm_infer_elems(f, i, v, &n) && n == 1 ? v[0] : cm_infer_fresh(f, what);
}

static cm_status infer_relative(cm_infer *f)
{
    CM_TRY(cm_expect_rank(f, 0, "bias_table", 2, 2));
    CM_TRY(cm_expect_one(f, 1, "query_length"));
    CM_TRY(cm_expect_one(f, 2, "key_length"));
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    cm_dim dims[] = {1, cm_infer_dim(f, 0, 1), one_elem(f, 1, "query"), one_elem(f, 2, "key")};
    int64_t v;
    for (int i = 2; i < 4; i++)
        if (cm_infer_const(f, dims[i], &v) && v < 0)
            return cm_fail(f->cx, CM_ERR_MODEL, "a length is %lld", (long long)v);
    return cm_infer_tensor(f, 0, 4, dims);
}

/* Near positions have a bucket each; far ones share, by the logarithm of their distance. */
static int64_t bucket_of(const position_attr *a, int64_t buckets, int64_t distance)
{
    int64_t base = 0;
    if (a->is_bidirectional) {
        buckets /= 2;
        base = distance > 0 ? buckets : 0;
        distance = distance < 0 ? -distance : distance;
    } else {
        distance = distance < 0 ? -distance : 0;
    }
    int64_t exact = buckets / 2;
    if (distance < exact || exact < 1 || a->max_distance <= exact)
        return base + cm_max_i64(cm_min_i64(distance, buckets - 1), 0);
    double far = cm_ln((double)distance / (double)exact) /
                 cm_ln((double)a->max_distance / (double)exact) * (double)(buckets - exact);
    return base + (far < (double)(buckets - 1 - exact) ? exact + (int64_t)far : buckets - 1);
}

static cm_status eval_relative(cm_eval *e)
{
    const cm_tensor *table = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    int64_t buckets = table->dims[0], heads = table->dims[1], q = y->dims[2], k = y->dims[3];
    if (buckets < 1 && cm_tensor_elems(y) > 0)
        return cm_fail(e->cx, CM_ERR_DATA, "bias_table is empty");
    for (int64_t i = 0; i < q; i++)
        for (int64_t j = 0; j < k; j++) {
            int64_t bucket = bucket_of(e->attr, buckets, j - i);
            for (int64_t h = 0; h < heads; h++) /* the table is column by column */
                cm_set_f64(y->dtype, y->data, (h * q + i) * k + j,
                           cm_get_f64(table->dtype, table->data, h * buckets + bucket));
        }
    return CM_OK;
}

enum { QUERY, QUERY_BIAS, REL_POS, WEIGHT, BIAS, ECO_A, OFFSET };

static cm_status infer_gated(cm_infer *f)
{
    const position_attr *a = f->attr;
    cm_dim hidden, head, columns;
    if (a->num_heads < 1 || a->num_heads > INT32_MAX)
        return cm_fail(f->cx, CM_ERR_MODEL, "num_heads is %lld", (long long)a->num_heads);
    bool packed = cm_infer_has(f, OFFSET);
    CM_TRY(cm_expect_rank(f, QUERY, "query_layer", packed ? 2 : 3, packed ? 2 : 3));
    CM_TRY(cm_expect_rank(f, WEIGHT, "weight", 2, 2));
    CM_TRY(cm_expect_rank(f, OFFSET, "token_offset", 2, 2));
    int source = packed ? OFFSET : QUERY;
    if (!cm_infer_ranked(f, QUERY) || !cm_infer_ranked(f, source)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    cm_dim batch = cm_infer_dim(f, source, 0), len = cm_infer_dim(f, source, 1);
    hidden = cm_infer_dim(f, QUERY, packed ? 1 : 2);
    CM_TRY(cm_expect_split(f, "hidden size", hidden, a->num_heads, &head));
    columns = cm_expect_dim(f, WEIGHT, 1);
    cm_dim weight[] = {head, columns}, rel[] = {1, a->num_heads, len, len},
           eco[] = {1, a->num_heads, 1, 1};
    CM_TRY(cm_expect_shape(f, QUERY_BIAS, "query_bias", 1, &hidden));
    CM_TRY(cm_expect_shape(f, WEIGHT, "weight", 2, weight));
    CM_TRY(cm_expect_shape(f, BIAS, "bias", 1, &columns));
    CM_TRY(cm_expect_shape(f, REL_POS, "rel_pos", 4, rel));
    CM_TRY(cm_expect_shape(f, ECO_A, "eco_a", 4, eco));
    if (columns != CM_DIM_ERROR)
        CM_TRY(cm_expect_split(f, "columns of weight", columns, 2, &head));
    cm_dim out[] = {batch, a->num_heads, len, len};
    return cm_infer_tensor(f, 0, 4, out);
}

/* Sum of one half of the columns of (query + bias) * weight + bias. */
static double half_sum(const double *q, const double *qb, const double *w, const double *b,
                       int64_t head, int64_t columns, int64_t half)
{
    double sum = 0;
    for (int64_t c = half * columns / 2; c < (half + 1) * columns / 2; c++) {
        sum += b[c];
        for (int64_t i = 0; i < head; i++)
            sum += (q[i] + qb[i]) * w[i * columns + c];
    }
    return sum;
}

static cm_status eval_gated(cm_eval *e)
{
    const position_attr *a = e->attr;
    cm_tensor *y = cm_eval_out(e, 0);
    int64_t batch = y->dims[0], heads = a->num_heads, len = y->dims[2], n = batch * len;
    const cm_tensor *q = cm_eval_in(e, QUERY);
    int64_t head = q->dims[q->rank - 1] / heads, columns = cm_eval_in(e, WEIGHT)->dims[1];
    const double *v[6];
    void *rows;
    for (int i = 0; i < 6; i++)
        CM_TRY(cm_eval_as_f64(e, i, &v[i]));
    CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(int64_t), &rows)); /* of each place; -1: padding */
    int64_t *row = rows, tokens = cm_dims_product(q->dims, 0, q->rank - 1);
    for (int64_t i = 0; i < n; i++)
        row[i] = cm_eval_has(e, OFFSET) ? -1 : i;
    for (int64_t t = 0; cm_eval_has(e, OFFSET) && t < tokens && t < n; t++) {
        int64_t at = cm_eval_int(e, OFFSET, t);
        if (at < 0 || at >= n)
            return cm_fail(e->cx, CM_ERR_DATA, "token %lld belongs to place %lld of %lld",
                           (long long)t, (long long)at, (long long)n);
        row[at] = t;
    }
    for (int64_t i = 0; i < n * heads; i++) {
        int64_t b = i / len / heads, h = i / len % heads, s = i % len, t = row[b * len + s];
        const double *x = v[QUERY] + (t < 0 ? 0 : t) * heads * head + h * head,
                     *qb = v[QUERY_BIAS] + h * head;
        double gate = 0;
        if (t >= 0) {
            double u = cm_sigmoid(half_sum(x, qb, v[WEIGHT], v[BIAS], head, columns, 0));
            double r = cm_sigmoid(half_sum(x, qb, v[WEIGHT], v[BIAS], head, columns, 1));
            gate = u * (r * v[ECO_A][h] - 1) + 2;
        }
        for (int64_t j = 0; j < len; j++)
            cm_set_f64(y->dtype, y->data, i * len + j, gate * v[REL_POS][(h * len + s) * len + j]);
    }
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    return f->op->id == CM_OP_MS_RELATIVE_POSITION_BIAS ? infer_relative(f) : infer_gated(f);
}

static cm_status eval(cm_eval *e)
{
    return e->op->id == CM_OP_MS_RELATIVE_POSITION_BIAS ? eval_relative(e) : eval_gated(e);
}

const cm_family cm_family_ms_position = {.name = "ms_position", .infer = infer, .eval = eval};
