/* ms_moe.c -- com.microsoft MoE and QMoE: each token goes through its k best experts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An expert: fc2(f(fc1(x))), or with a gate fc2(f(fc1(x)) * fc3(x)); swiglu takes the gate from the
 * other half of fc1, interleaved (1) or behind (2). Results are summed by routing weight. QMoE's
 * weights are integers of 2, 4 or 8 bits along the columns, low bits first, with a scale a row or a
 * block of it. */
#include "ops/eval.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/pointwise/activation.h"
#include "ops/linear/dot.h"
#include "ops/expect.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    float swiglu_limit, activation_alpha, activation_beta;
    cm_str activation_type;
    int64_t k, normalize_routing_weights, swiglu_fusion, use_sparse_mixer;
    cm_str quant_type; /* QMoE */
    int64_t accuracy_level, block_size, expert_weight_bits, weights_prepacked;
    int64_t fc1_expert_weight_bits, fc2_expert_weight_bits,
        fc3_expert_weight_bits; /* 0: as above */
} moe_attr;

enum { HAS_LIMIT = 1 };

#define FIELDS                                                                                     \
    CM_ATTR_FLOAT(moe_attr, swiglu_limit, 0), CM_ATTR_FLOAT(moe_attr, activation_alpha, 1),        \
        CM_ATTR_FLOAT(moe_attr, activation_beta, 0),                                               \
        CM_ATTR_STR(moe_attr, activation_type, "relu"), CM_ATTR_INT(moe_attr, k, 1),               \
        CM_ATTR_INT(moe_attr, normalize_routing_weights, 0),                                       \
        CM_ATTR_INT(moe_attr, swiglu_fusion, 0), CM_ATTR_INT(moe_attr, use_sparse_mixer, 0)
CM_ATTRS(ms_moe, moe_attr, FIELDS)
CM_ATTRS(ms_qmoe, moe_attr, FIELDS, CM_ATTR_STR(moe_attr, quant_type, "int"),
         CM_ATTR_INT(moe_attr, accuracy_level, 0), CM_ATTR_INT(moe_attr, block_size, 0),
         CM_ATTR_INT(moe_attr, expert_weight_bits, 4), CM_ATTR_INT(moe_attr, weights_prepacked, -1),
         CM_ATTR_INT(moe_attr, fc1_expert_weight_bits, 0),
         CM_ATTR_INT(moe_attr, fc2_expert_weight_bits, 0),
         CM_ATTR_INT(moe_attr, fc3_expert_weight_bits, 0))

enum { X, ROUTER };

/* Where a layer's inputs are; -1: none. */
typedef struct {
    int weights, scales, bias, zeros;
} places;

static const places *places_of(cm_op_id id, int layer)
{
    static const places plain[] = {{2, -1, 3, -1}, {4, -1, 5, -1}, {6, -1, 7, -1}};
    static const places quantised[] = {{2, 3, 4, 11}, {5, 6, 7, 12}, {8, 9, 10, 13}};
    return id == CM_OP_MS_MOE ? &plain[layer] : &quantised[layer];
}

static const char *const layer_names[] = {"fc1", "fc2", "fc3"};

/* Bits of a weight: 0 when it is a float. */
static int64_t bits_of(cm_op_id id, const moe_attr *a, int layer)
{
    int64_t own[] = {a->fc1_expert_weight_bits, a->fc2_expert_weight_bits,
                     a->fc3_expert_weight_bits};
    return id == CM_OP_MS_MOE ? 0 : own[layer] ? own[layer] : a->expert_weight_bits;
}

static bool is_swiglu(const moe_attr *a)
{
    return cm_str_equal(a->activation_type, cm_str_of("swiglu"));
}

/* "gelu" is the tanh form here. */
static cm_status find_function(cm_ctx *cx, const moe_attr *a, cm_activation *out)
{
    if (is_swiglu(a))
        return CM_OK;
    bool gelu = cm_str_equal(a->activation_type, cm_str_of("gelu"));
    return cm_activation_find(cx, gelu ? cm_str_of("FastGelu") : a->activation_type, out);
}

static cm_status check_quantised(cm_infer *f, const moe_attr *a)
{
    if (f->op->id == CM_OP_MS_MOE)
        return CM_OK;
    if (!cm_str_equal(a->quant_type, cm_str_of("int")) || a->weights_prepacked == 1)
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "experts of quant_type '%.*s'",
                       (int)(a->quant_type.n < 20 ? a->quant_type.n : 20), a->quant_type.p);
    for (int i = 0; i < 3; i++) {
        int64_t bits = bits_of(f->op->id, a, i);
        if (bits != 2 && bits != 4 && bits != 8)
            return cm_fail(f->cx, CM_ERR_MODEL, "weights of %lld bits, wanted 2, 4 or 8",
                           (long long)bits);
    }
    if (a->block_size < 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "block_size is %lld", (long long)a->block_size);
    return CM_OK;
}

/* Weights [experts, rows, cols], packed or not, their bias, scales and zero points. */
static cm_status check_layer(cm_infer *f, const moe_attr *a, int layer, cm_dim experts, cm_dim rows,
                             cm_dim cols)
{
    const places *at = places_of(f->op->id, layer);
    int64_t bits = bits_of(f->op->id, a, layer);
    bool known = rows != CM_DIM_ERROR && cols != CM_DIM_ERROR;
    cm_dim packed = known && bits ? cm_infer_floor_div(f, cm_infer_mul(f, cols, bits), 8) : cols;
    cm_dim w[] = {experts, rows, packed}, b[] = {experts, rows};
    CM_TRY(cm_expect_shape(f, at->weights, layer_names[layer], 3, w));
    CM_TRY(cm_expect_shape(f, at->bias, layer_names[layer], 2, b));
    if (!bits || !cm_infer_has(f, at->weights))
        return CM_OK;
    CM_TRY(cm_expect_present(f, &at->scales, 1));
    cm_dim blocks =
        known && a->block_size ? cm_infer_ceil_div(f, cols, a->block_size) : CM_DIM_ERROR;
    cm_dim s[] = {experts, rows, blocks};
    CM_TRY(cm_expect_shape(f, at->scales, "scales", a->block_size ? 3 : 2, s));
    if (!known)
        return CM_OK;
    cm_dim line = a->block_size ? blocks : rows;
    cm_dim zeros = cm_infer_ceil_div(f, cm_infer_mul(f, line, bits), 8);
    cm_dim by_block[] = {experts, rows, zeros}, by_row[] = {experts, zeros};
    return cm_expect_shape(f, at->zeros, "zero points", a->block_size ? 3 : 2,
                           a->block_size ? by_block : by_row);
}

static cm_status check_weights(cm_infer *f, const moe_attr *a, cm_dim experts, cm_dim hidden)
{
    cm_dim rows = cm_expect_dim(f, places_of(f->op->id, 0)->weights, 1), inter = rows;
    if (rows != CM_DIM_ERROR && is_swiglu(a) && a->swiglu_fusion != 0)
        CM_TRY(cm_expect_split(f, "rows of fc1", rows, 2, &inter));
    CM_TRY(check_layer(f, a, 0, experts, rows, hidden));
    CM_TRY(check_layer(f, a, 1, experts, hidden, inter));
    return check_layer(f, a, 2, experts, inter, hidden);
}

static cm_status infer(cm_infer *f)
{
    const moe_attr *a = f->attr;
    cm_activation function;
    CM_TRY(cm_expect_present(f, &places_of(f->op->id, 1)->weights, 1));
    CM_TRY(check_quantised(f, a));
    if (a->use_sparse_mixer)
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "use_sparse_mixer");
    if (a->k < 1 || a->swiglu_fusion < 0 || a->swiglu_fusion > 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "k is %lld and swiglu_fusion %lld", (long long)a->k,
                       (long long)a->swiglu_fusion);
    CM_TRY(find_function(f->cx, a, &function));
    CM_TRY(cm_infer_like(f, 0, X));
    if (!cm_infer_ranked(f, X))
        return CM_OK;
    CM_TRY(cm_expect_rank(f, X, "input", 2, 3));
    CM_TRY(cm_expect_rank(f, ROUTER, "router_probs", 2, 2));
    int64_t experts;
    cm_dim n = cm_expect_dim(f, ROUTER, 1), tokens = cm_infer_dim(f, X, 0);
    if (cm_infer_rank(f, X) == 3)
        tokens = cm_infer_mul(f, tokens, cm_infer_dim(f, X, 1));
    cm_dim router[] = {tokens, n};
    CM_TRY(cm_expect_shape(f, ROUTER, "router_probs", 2, router));
    if (f->op->id == CM_OP_MS_QMOE)
        CM_TRY(cm_expect_shape(f, 14, "router_weights", 2, router));
    if (n != CM_DIM_ERROR && cm_infer_const(f, n, &experts) && a->k > experts)
        return cm_fail(f->cx, CM_ERR_MODEL, "k is %lld of %lld experts", (long long)a->k,
                       (long long)experts);
    return check_weights(f, a, n, cm_infer_dim(f, X, cm_infer_rank(f, X) - 1));
}

typedef struct {
    const double *w, *bias;       /* w NULL: codes, or no such layer */
    const uint8_t *codes, *zeros; /* NULL: none */
    const double *scales;
    int bits;
    int64_t block, blocks; /* block 0: one for the row */
} layer;

typedef struct {
    const moe_attr *a;
    cm_activation function;
    const double *x, *router, *weights; /* weights NULL: those of the router */
    layer fc[3];
    int64_t tokens, hidden, experts, rows, inter;
    double *scratch; /* per token: experts + 2*rows + hidden */
    cm_tensor *y;
} run;

static unsigned code(const uint8_t *p, int64_t i, int bits)
{
    return p[i * bits / 8] >> (i * bits % 8) & ((1u << bits) - 1);
}

/* Row n (of all experts) of quantised weights times x. */
static double quantised_dot(const layer *l, int64_t expert, int64_t row, int64_t rows, int64_t cols,
                            const double *x)
{
    int64_t n = expert * rows + row, zero_bytes = (l->blocks * l->bits + 7) / 8;
    const uint8_t *codes = l->codes + n * (cols * l->bits / 8);
    double sum = 0;
    for (int64_t k = 0; k < cols; k++) {
        int64_t block = l->block ? k / l->block : 0;
        double zero = 1 << (l->bits - 1);
        if (l->zeros && l->block)
            zero = code(l->zeros + n * zero_bytes, block, l->bits);
        else if (l->zeros)
            zero = code(l->zeros + expert * ((rows * l->bits + 7) / 8), row, l->bits);
        sum += (code(codes, k, l->bits) - zero) * l->scales[n * l->blocks + block] * x[k];
    }
    return sum;
}

static double dense(const run *r, int which, int64_t expert, int64_t row, int64_t rows,
                    int64_t cols, const double *x)
{
    const layer *l = &r->fc[which];
    double bias = l->bias ? l->bias[expert * rows + row] : 0;
    if (l->codes)
        return quantised_dot(l, expert, row, rows, cols, x) + bias;
    return cm_dot_f64(l->w + (expert * rows + row) * cols, x, cols) + bias;
}

static bool has_layer(const run *r, int which)
{
    return r->fc[which].w || r->fc[which].codes;
}

static double swiglu(const run *r, double g, double l)
{
    if (r->a->present & HAS_LIMIT) {
        double limit = r->a->swiglu_limit;
        g = g > limit ? limit : g;
        l = l > limit ? limit : l < -limit ? -limit : l;
    }
    return g * cm_sigmoid(r->a->activation_alpha * g) * (l + r->a->activation_beta);
}

static void run_expert(const run *r, int64_t e, const double *x, double weight, double *mid,
                       double *y)
{
    bool gated = is_swiglu(r->a);
    double *h = mid + r->rows;
    for (int64_t i = 0; i < r->rows; i++)
        mid[i] = dense(r, 0, e, i, r->rows, r->hidden, x);
    for (int64_t i = 0; i < r->inter; i++) {
        if (gated && r->a->swiglu_fusion) {
            bool woven = r->a->swiglu_fusion == 1;
            h[i] =
                swiglu(r, woven ? mid[2 * i] : mid[i], woven ? mid[2 * i + 1] : mid[r->inter + i]);
        } else if (gated) {
            h[i] =
                swiglu(r, mid[i], has_layer(r, 2) ? dense(r, 2, e, i, r->inter, r->hidden, x) : 1);
        } else {
            h[i] = cm_activation_apply(&r->function, mid[i]);
            if (has_layer(r, 2))
                h[i] *= dense(r, 2, e, i, r->inter, r->hidden, x);
        }
    }
    for (int64_t i = 0; i < r->hidden; i++)
        y[i] += weight * dense(r, 1, e, i, r->hidden, r->inter, h);
}

/* Routing weights: the softmax over all experts, made to add up to 1 over those chosen when that is
 * asked for (QMoE: always), or what router_weights says. */
static void run_token(const run *r, int64_t t, double *s)
{
    double *p = s, *mid = p + r->experts, *y = mid + 2 * r->rows, max = -INFINITY, sum = 0,
           kept = 0;
    memcpy(p, r->router + t * r->experts, (size_t)r->experts * sizeof(double));
    for (int64_t i = 0; i < r->experts; i++)
        max = p[i] > max ? p[i] : max;
    for (int64_t i = 0; i < r->experts; i++)
        sum += p[i] = cm_exp(p[i] - max);
    for (int64_t i = 0; i < r->experts; i++)
        p[i] /= sum;
    memset(y, 0, (size_t)r->hidden * sizeof(double));
    const double *own = r->weights ? r->weights + t * r->experts : NULL;
    bool normalise = r->a->normalize_routing_weights || (r->fc[0].codes && !own);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t k = 0; k < r->a->k; k++) {
            int64_t best = -1;
            for (int64_t i = 0; i < r->experts; i++)
                if ((pass ? p[i] < 0 : p[i] >= 0) && (best < 0 || fabs(p[i]) > fabs(p[best])))
                    best = i;
            if (best < 0)
                break;
            if (pass == 0) { /* chosen: marked by its sign */
                kept += own ? own[best] : p[best];
                p[best] = -p[best] - 1e-300;
                continue;
            }
            double weight = (own ? own[best] : -p[best]) / (normalise ? kept : 1);
            run_expert(r, best, r->x + t * r->hidden, weight, mid, y);
            p[best] = 0;
        }
    }
    cm_store_f64(r->y->dtype, y, r->hidden,
                 (char *)r->y->data + (size_t)(t * r->hidden) * cm_dtype_size(r->y->dtype));
}

static void run_range(void *arg, int64_t begin, int64_t end)
{
    const run *r = arg;
    for (int64_t t = begin; t < end; t++)
        run_token(r, t, r->scratch + t * (r->experts + 2 * r->rows + r->hidden));
}

static cm_status read_layer(cm_eval *e, int which, layer *l)
{
    const moe_attr *a = e->attr;
    const places *at = places_of(e->op->id, which);
    if (!cm_eval_has(e, at->weights))
        return CM_OK;
    if (cm_eval_has(e, at->bias))
        CM_TRY(cm_eval_as_f64(e, at->bias, &l->bias));
    l->bits = (int)bits_of(e->op->id, a, which);
    if (!l->bits)
        return cm_eval_as_f64(e, at->weights, &l->w);
    const cm_tensor *scales = cm_eval_in(e, at->scales);
    l->codes = cm_eval_in(e, at->weights)->data;
    l->zeros = cm_eval_has(e, at->zeros) ? cm_eval_in(e, at->zeros)->data : NULL;
    l->block = a->block_size;
    l->blocks = scales->rank == 3 ? scales->dims[2] : 1;
    return cm_eval_as_f64(e, at->scales, &l->scales);
}

static cm_status eval(cm_eval *e)
{
    const moe_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, X), *w1 = cm_eval_in(e, places_of(e->op->id, 0)->weights);
    run r = {.a = a,
             .hidden = x->dims[x->rank - 1],
             .experts = w1->dims[0],
             .rows = w1->dims[1],
             .tokens = cm_dims_product(x->dims, 0, x->rank - 1),
             .y = cm_eval_out(e, 0)};
    r.inter = is_swiglu(a) && a->swiglu_fusion ? r.rows / 2 : r.rows;
    CM_TRY(find_function(e->cx, a, &r.function));
    CM_TRY(cm_eval_as_f64(e, X, &r.x));
    CM_TRY(cm_eval_as_f64(e, ROUTER, &r.router));
    for (int i = 0; i < 3; i++)
        CM_TRY(read_layer(e, i, &r.fc[i]));
    if (e->op->id == CM_OP_MS_QMOE && cm_eval_has(e, 14))
        CM_TRY(cm_eval_as_f64(e, 14, &r.weights));
    int64_t dims[] = {r.tokens, r.experts + 2 * r.rows + r.hidden};
    cm_tensor t;
    CM_TRY(cm_eval_temp(e, CM_F64, 2, dims, &t));
    r.scratch = t.data;
    cm_parallel(e->threads, r.tokens, 1, run_range, &r);
    return CM_OK;
}

const cm_family cm_family_ms_moe = {.name = "ms_moe", .infer = infer, .eval = eval};
