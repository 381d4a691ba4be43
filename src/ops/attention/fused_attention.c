/* fused_attention.c -- cameo.Attention: what an attention kernel does in one go.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     y = softmax(masked(softcap(scale * q k^T) + bias)) v
 *
 * Inputs: q, k, v, bias, mask, past_key, past_value. Outputs: y, present_key, present_value. A layout
 * says how a tensor lies in memory:
 *
 *     "bshd"  [batch, len, columns]       "sbhd"  [len, batch, columns]
 *     "bhsd"  [batch, heads, len, size]   "bhds"  [batch, heads, size, len], k only
 *
 * Among `columns` head h begins at offsets[i] + h * head_steps[i], i being 0, 1, 2 for q, k, v; so one
 * packed tensor may be all three. Past and present are [batch, kv_heads, len, size]; the past
 * comes before k and v. bias and mask broadcast to [batch, heads, q_len, total]; with fewer batches than
 * there are they repeat. A score that the mask (false) or causality forbids becomes mask_value, or
 * takes no part when none is given (bias_last: the bias is added to mask_value too); a row where none takes part is zero. is_causal lets the last
 * query see all keys, the one before all but one, and so on. */
#include <math.h>
#include <string.h>

#include "ops/attention/attend_mask.h"
#include "ops/expect.h"

typedef struct {
    uint64_t present;
    float mask_value, scale, softcap;
    int64_t bias_last, is_causal, q_num_heads, kv_num_heads, head_size, v_head_size;
    cm_str q_layout, k_layout, v_layout, y_layout;
    cm_ints offsets, head_steps;
} fused_attr;

enum { HAS_MASK_VALUE = 1 };

CM_ATTRS(fused_attention, fused_attr, CM_ATTR_FLOAT(fused_attr, mask_value, 0),
         CM_ATTR_INT_REQUIRED(fused_attr, q_num_heads),
         CM_ATTR_INT_REQUIRED(fused_attr, kv_num_heads),
         CM_ATTR_INT_REQUIRED(fused_attr, head_size), CM_ATTR_INT_REQUIRED(fused_attr, v_head_size),
         CM_ATTR_FLOAT(fused_attr, scale, 1), CM_ATTR_FLOAT(fused_attr, softcap, 0),
         CM_ATTR_INT(fused_attr, is_causal, 0), CM_ATTR_INT(fused_attr, bias_last, 0),
         CM_ATTR_STR(fused_attr, q_layout, "bshd"), CM_ATTR_STR(fused_attr, k_layout, "bshd"),
         CM_ATTR_STR(fused_attr, v_layout, "bshd"), CM_ATTR_STR(fused_attr, y_layout, "bshd"),
         CM_ATTR_INTS(fused_attr, offsets, 0), CM_ATTR_INTS(fused_attr, head_steps, 0))

enum { Q, K, V, BIAS, MASK, PAST_K, PAST_V };
typedef enum { BSHD, SBHD, BHSD, BHDS, N_LAYOUTS } layout;

static layout layout_of(cm_str s)
{
    static const char *const names[] = {"bshd", "sbhd", "bhsd", "bhds"};
    for (int i = 0; i < N_LAYOUTS; i++)
        if (cm_str_equal(s, cm_str_of(names[i])))
            return (layout)i;
    return N_LAYOUTS;
}

static layout input_layout(const fused_attr *a, int i)
{
    return layout_of(i == Q ? a->q_layout : i == K ? a->k_layout : a->v_layout);
}

/* Of operand i: its heads, their size, where the first begins, from one to the next. */
static int64_t heads_of(const fused_attr *a, int i)
{
    return i == Q ? a->q_num_heads : a->kv_num_heads;
}
static int64_t size_of(const fused_attr *a, int i)
{
    return i == V ? a->v_head_size : a->head_size;
}
static int64_t offset_of(const fused_attr *a, int i)
{
    return a->offsets.n ? a->offsets.v[i] : 0;
}
static int64_t step_of(const fused_attr *a, int i)
{
    return a->head_steps.n ? a->head_steps.v[i] : size_of(a, i);
}

static cm_status check_attributes(cm_infer *f, const fused_attr *a)
{
    enum { MOST = 1 << 30 };
    const int64_t counts[] = {a->q_num_heads, a->kv_num_heads, a->head_size, a->v_head_size};
    for (int i = 0; i < CM_COUNT(counts); i++)
        if (counts[i] < 1 || counts[i] > MOST)
            return cm_fail(f->cx, CM_ERR_MODEL, "a number of heads or their size is %lld",
                           (long long)counts[i]);
    if (a->q_num_heads % a->kv_num_heads)
        return cm_fail(f->cx, CM_ERR_MODEL, "%lld query heads are no multiple of %lld key heads",
                       (long long)a->q_num_heads, (long long)a->kv_num_heads);
    if ((a->offsets.n && a->offsets.n != 3) || (a->head_steps.n && a->head_steps.n != 3))
        return cm_fail(f->cx, CM_ERR_MODEL, "offsets and head_steps want 3 entries");
    for (int i = Q; i <= V; i++) {
        layout l = input_layout(a, i);
        if (l == N_LAYOUTS || (l == BHDS && i != K))
            return cm_fail(f->cx, CM_ERR_MODEL, "the layout of input %d is not known", i);
        if (offset_of(a, i) < 0 || offset_of(a, i) > MOST || step_of(a, i) < size_of(a, i) ||
            step_of(a, i) > MOST)
            return cm_fail(f->cx, CM_ERR_MODEL, "input %d has offset %lld and head step %lld", i,
                           (long long)offset_of(a, i), (long long)step_of(a, i));
    }
    if (layout_of(a->y_layout) > BHSD)
        return cm_fail(f->cx, CM_ERR_MODEL, "the layout of the output is not known");
    if (cm_infer_has(f, PAST_K) != cm_infer_has(f, PAST_V))
        return cm_fail(f->cx, CM_ERR_MODEL, "past_key and past_value must be given together");
    return CM_OK;
}

/* Batch and length of operand i, whose heads and columns are checked. */
static cm_status read_operand(cm_infer *f, const fused_attr *a, int i, cm_dim *batch, cm_dim *len)
{
    static const char *const names[] = {"q", "k", "v"};
    layout l = input_layout(a, i);
    int rank = l >= BHSD ? 4 : 3;
    CM_TRY(cm_expect_rank(f, i, names[i], rank, rank));
    *batch = cm_infer_dim(f, i, l == SBHD);
    *len = cm_infer_dim(f, i, l == BSHD ? 1 : l == SBHD ? 0 : l == BHSD ? 2 : 3);
    if (rank == 4) {
        CM_TRY(cm_infer_equal(f, "heads", cm_infer_dim(f, i, 1), heads_of(a, i)));
        return cm_infer_equal(f, "head size", cm_infer_dim(f, i, l == BHSD ? 3 : 2), size_of(a, i));
    }
    int64_t columns, need = offset_of(a, i) + (heads_of(a, i) - 1) * step_of(a, i) + size_of(a, i);
    if (cm_infer_const(f, cm_infer_dim(f, i, 2), &columns) && columns < need)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s has %lld columns, wanted %lld", names[i],
                       (long long)columns, (long long)need);
    return CM_OK;
}

static cm_status check_mask(cm_infer *f, int i, const char *name, const cm_dim *want)
{
    CM_TRY(cm_expect_rank(f, i, name, 0, 4));
    if (!cm_expect_known(f, i))
        return CM_OK;
    int rank = cm_infer_rank(f, i);
    for (int d = 0; d < rank; d++) {
        cm_dim have = cm_infer_dim(f, i, d), w = want[4 - rank + d];
        int64_t n, m;
        if (have == 1)
            continue;
        if (d == 0 && rank == 4) { /* repeats */
            if (cm_infer_const(f, have, &n) && cm_infer_const(f, w, &m) && (n < 1 || m % n))
                return cm_fail(f->cx, CM_ERR_MODEL, "%s has %lld batches for %lld", name,
                               (long long)n, (long long)m);
            continue;
        }
        CM_TRY(cm_infer_equal(f, name, have, w));
    }
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const fused_attr *a = f->attr;
    CM_TRY(check_attributes(f, a));
    if (!cm_infer_ranked(f, Q) || !cm_infer_ranked(f, K) || !cm_infer_ranked(f, V)) {
        for (int o = 0; o < f->n_out; o++)
            cm_infer_unknown(f, o);
        return CM_OK;
    }
    cm_dim batch[3], len[3], past = 0;
    for (int i = Q; i <= V; i++)
        CM_TRY(read_operand(f, a, i, &batch[i], &len[i]));
    CM_TRY(cm_infer_equal(f, "batch of k", batch[K], batch[Q]));
    CM_TRY(cm_infer_equal(f, "batch of v", batch[V], batch[Q]));
    CM_TRY(cm_infer_equal(f, "length of v", len[V], len[K]));
    CM_TRY(cm_expect_rank(f, PAST_K, "past_key", 4, 4));
    if (cm_infer_has(f, PAST_K))
        past = cm_infer_ranked(f, PAST_K) ? cm_infer_dim(f, PAST_K, 2) : cm_infer_fresh(f, "past");
    cm_dim past_k[] = {batch[Q], a->kv_num_heads, past, a->head_size};
    cm_dim past_v[] = {batch[Q], a->kv_num_heads, past, a->v_head_size};
    CM_TRY(cm_expect_shape(f, PAST_K, "past_key", 4, past_k));
    CM_TRY(cm_expect_shape(f, PAST_V, "past_value", 4, past_v));
    cm_dim total = cm_infer_add(f, past, len[K]);
    cm_dim scores[] = {batch[Q], a->q_num_heads, len[Q], total};
    CM_TRY(check_mask(f, BIAS, "bias", scores));
    CM_TRY(check_mask(f, MASK, "mask", scores));
    layout l = layout_of(a->y_layout);
    cm_dim columns = cm_infer_mul(f, a->q_num_heads, a->v_head_size);
    cm_dim y3[] = {l == SBHD ? len[Q] : batch[Q], l == SBHD ? batch[Q] : len[Q], columns};
    cm_dim y4[] = {batch[Q], a->q_num_heads, len[Q], a->v_head_size};
    cm_dim present_k[] = {batch[Q], a->kv_num_heads, total, a->head_size};
    cm_dim present_v[] = {batch[Q], a->kv_num_heads, total, a->v_head_size};
    CM_TRY(cm_infer_tensor(f, 0, l == BHSD ? 4 : 3, l == BHSD ? y4 : y3));
    if (f->n_out > 1)
        CM_TRY(cm_infer_tensor(f, 1, 4, present_k));
    return f->n_out > 2 ? cm_infer_tensor(f, 2, 4, present_v) : CM_OK;
}

/* ---- Evaluation ----------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *at;
    int64_t period, batch, head, row, col;
} bool_mask;

static bool allowed(const void *arg, int64_t b, int64_t h, int64_t q, int64_t k)
{
    const bool_mask *m = arg;
    return m->at[b % m->period * m->batch + h * m->head + q * m->row + k * m->col] != 0;
}

/* Strides of a mask along columns, rows, heads and batches, 0 where it broadcasts. */
static int64_t mask_strides(const cm_tensor *t, int64_t *strides)
{
    int64_t stride = 1;
    for (int i = 0; i < 4; i++) {
        int64_t d = i < t->rank ? t->dims[t->rank - 1 - i] : 1;
        strides[i] = d == 1 ? 0 : stride;
        stride *= d;
    }
    return t->rank == 4 && t->dims[0] > 0 ? t->dims[0] : 1;
}

/* Operand i: batch, heads and rows of it in `h`, its length in *len. */
static cm_status read_heads(cm_eval *e, const fused_attr *a, int i, int64_t *batch, int64_t *len,
                            cm_heads *h)
{
    const cm_tensor *t = cm_eval_in(e, i);
    layout l = input_layout(a, i);
    const double *x;
    CM_TRY(cm_eval_as_f64(e, i, &x));
    *batch = t->dims[l == SBHD];
    *len = t->dims[l == BSHD ? 1 : l == SBHD ? 0 : l == BHSD ? 2 : 3];
    int64_t heads = heads_of(a, i), size = size_of(a, i);
    if (l == BHSD) {
        *h = cm_heads_bnsh(x, heads, *len, size);
    } else if (l == BHDS) {
        void *copy;
        CM_TRY(cm_eval_scratch(e, (size_t)cm_tensor_elems(t), sizeof(double), &copy));
        double *to = copy;
        for (int64_t b = 0; b < *batch * heads; b++)
            for (int64_t s = 0; s < *len; s++)
                for (int64_t d = 0; d < size; d++)
                    *to++ = x[(b * size + d) * *len + s];
        *h = cm_heads_bnsh(copy, heads, *len, size);
    } else {
        int64_t columns = t->dims[2];
        *h = (cm_heads){x + offset_of(a, i), l == BSHD ? *len * columns : columns, step_of(a, i),
                        l == BSHD ? columns : *batch * columns};
    }
    return CM_OK;
}

static cm_status read_bias(cm_eval *e, cm_attend *a)
{
    if (!cm_eval_has(e, BIAS))
        return CM_OK;
    const cm_tensor *t = cm_eval_in(e, BIAS);
    int64_t s[4];
    CM_TRY(cm_eval_as_f64(e, BIAS, &a->bias));
    a->bias_period = mask_strides(t, s);
    a->bias_col = s[0], a->bias_row = s[1], a->bias_head = s[2], a->bias_batch = s[3];
    a->bias_cols = a->kv_len;
    return CM_OK;
}

static cm_heads_out output(cm_tensor *t, layout l, const cm_attend *a)
{
    if (l == BHSD)
        return cm_heads_out_bnsh(t, a->q_heads, a->q_len, a->v_head);
    if (l == BSHD)
        return cm_heads_out_bsnh(t, a->q_heads, a->q_len, a->v_head);
    int64_t columns = a->q_heads * a->v_head;
    return (cm_heads_out){t->dtype, t->data, columns, a->v_head, a->batch * columns};
}

static cm_status eval(cm_eval *e)
{
    const fused_attr *attr = e->attr;
    cm_attend a = {.q_heads = attr->q_num_heads,
                   .kv_heads = attr->kv_num_heads,
                   .head = attr->head_size,
                   .v_head = attr->v_head_size,
                   .scale = attr->scale,
                   .softcap = attr->softcap,
                   .causal = attr->is_causal != 0,
                   .left = -1,
                   .right = -1};
    int64_t batch, fresh;
    double fill = attr->mask_value;
    bool_mask mask;
    CM_TRY(read_heads(e, attr, Q, &a.batch, &a.q_len, &a.q));
    CM_TRY(read_heads(e, attr, K, &batch, &fresh, &a.k));
    CM_TRY(read_heads(e, attr, V, &batch, &fresh, &a.v));
    a.kv_len = fresh + (cm_eval_has(e, PAST_K) ? cm_eval_in(e, PAST_K)->dims[2] : 0);
    CM_TRY(cm_attend_join_past(e, &a, PAST_K, 1, fresh, a.head, &a.k));
    CM_TRY(cm_attend_join_past(e, &a, PAST_V, 2, fresh, a.v_head, &a.v));
    CM_TRY(cm_attend_position(e, &a, a.kv_len - a.q_len));
    CM_TRY(read_bias(e, &a));
    if (cm_eval_has(e, MASK)) {
        int64_t s[4], period = mask_strides(cm_eval_in(e, MASK), s);
        mask = (bool_mask){cm_eval_in(e, MASK)->data, period, s[3], s[2], s[1], s[0]};
        a.allow = allowed;
        a.allow_arg = &mask;
    }
    a.fill = attr->present & HAS_MASK_VALUE ? &fill : NULL;
    a.fill_biased = attr->bias_last != 0;
    if (cm_eval_wants(e, 0))
        a.y = output(cm_eval_out(e, 0), layout_of(attr->y_layout), &a);
    return cm_attend_run(e, &a);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    const fused_attr *a = f->attr;
    if (!cm_expect_known(f, Q) || !cm_expect_known(f, K))
        return;
    layout q = input_layout(a, Q), k = input_layout(a, K);
    double rows = cm_infer_extent(f, cm_infer_dim(f, Q, q == SBHD)) *
                  cm_infer_extent(f, cm_infer_dim(f, Q,
                                                  q == BSHD   ? 1
                                                  : q == SBHD ? 0
                                                              : 2));
    double keys = cm_infer_extent(f, cm_infer_dim(f, K,
                                                  k == BSHD   ? 1
                                                  : k == SBHD ? 0
                                                  : k == BHSD ? 2
                                                              : 3));
    c->ops = 2 * rows * keys * (double)a->q_num_heads * (double)(a->head_size + a->v_head_size);
}

const cm_family cm_family_fused_attention = {
    .name = "fused_attention", .infer = infer, .eval = eval, .cost = cost};
