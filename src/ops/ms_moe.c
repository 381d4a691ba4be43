/* ms_moe.c -- com.microsoft MoE: each token goes through its k best experts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An expert: fc2(f(fc1(x))), or with a gate fc2(f(fc1(x)) * fc3(x)); swiglu takes the gate from the
 * other half of fc1, interleaved (1) or behind (2). Results are summed by routing weight. */
#include "ops/eval.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/activation.h"
#include "ops/dot.h"
#include "ops/expect.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    float swiglu_limit, activation_alpha, activation_beta;
    cm_str activation_type;
    int64_t k, normalize_routing_weights, swiglu_fusion, use_sparse_mixer;
} moe_attr;

enum { HAS_LIMIT = 1 };

CM_ATTRS(ms_moe, moe_attr, CM_ATTR_FLOAT(moe_attr, swiglu_limit, 0),
         CM_ATTR_FLOAT(moe_attr, activation_alpha, 1), CM_ATTR_FLOAT(moe_attr, activation_beta, 0),
         CM_ATTR_STR(moe_attr, activation_type, "relu"), CM_ATTR_INT(moe_attr, k, 1),
         CM_ATTR_INT(moe_attr, normalize_routing_weights, 0),
         CM_ATTR_INT(moe_attr, swiglu_fusion, 0), CM_ATTR_INT(moe_attr, use_sparse_mixer, 0))

enum { X, ROUTER, W1, B1, W2, B2, W3, B3 };

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

static cm_status check_weights(cm_infer *f, const moe_attr *a, cm_dim experts, cm_dim hidden)
{
    cm_dim rows = cm_expect_dim(f, W1, 1), inter = rows;
    bool fused = is_swiglu(a) && a->swiglu_fusion != 0;
    if (rows != CM_DIM_ERROR && fused)
        CM_TRY(cm_expect_split(f, "rows of fc1", rows, 2, &inter));
    cm_dim w1[] = {experts, CM_DIM_ERROR, hidden}, w2[] = {experts, hidden, inter};
    cm_dim w3[] = {experts, inter, hidden}, b1[] = {experts, rows}, b2[] = {experts, hidden};
    cm_dim b3[] = {experts, inter};
    CM_TRY(cm_expect_shape(f, W1, "fc1_experts_weights", 3, w1));
    CM_TRY(cm_expect_shape(f, W2, "fc2_experts_weights", 3, w2));
    CM_TRY(cm_expect_shape(f, W3, "fc3_experts_weights", 3, w3));
    CM_TRY(cm_expect_shape(f, B1, "fc1_experts_bias", 2, b1));
    CM_TRY(cm_expect_shape(f, B2, "fc2_experts_bias", 2, b2));
    return cm_expect_shape(f, B3, "fc3_experts_bias", 2, b3);
}

static cm_status infer(cm_infer *f)
{
    const moe_attr *a = f->attr;
    static const int required[] = {W2};
    cm_activation function;
    CM_TRY(cm_expect_present(f, required, 1));
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
    if (n != CM_DIM_ERROR && cm_infer_const(f, n, &experts) && a->k > experts)
        return cm_fail(f->cx, CM_ERR_MODEL, "k is %lld of %lld experts", (long long)a->k,
                       (long long)experts);
    return check_weights(f, a, n, cm_infer_dim(f, X, cm_infer_rank(f, X) - 1));
}

typedef struct {
    const moe_attr *a;
    cm_activation function;
    const double *x, *router, *w[3], *b[3]; /* fc1, fc2, fc3; NULL: none */
    int64_t tokens, hidden, experts, rows, inter;
    double *scratch; /* per token: experts + 2*rows + hidden */
    cm_tensor *y;
} run;

static double dense(const run *r, int layer, int64_t expert, int64_t row, int64_t rows, int64_t cols,
                    const double *x)
{
    double bias = r->b[layer] ? r->b[layer][expert * rows + row] : 0;
    return cm_dot_f64(r->w[layer] + (expert * rows + row) * cols, x, cols) + bias;
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

static void run_expert(const run *r, int64_t e, const double *x, double weight, double *mid, double *y)
{
    bool gated = is_swiglu(r->a);
    double *h = mid + r->rows;
    for (int64_t i = 0; i < r->rows; i++)
        mid[i] = dense(r, 0, e, i, r->rows, r->hidden, x);
    for (int64_t i = 0; i < r->inter; i++) {
        if (gated && r->a->swiglu_fusion) {
            bool woven = r->a->swiglu_fusion == 1;
            h[i] = swiglu(r, woven ? mid[2 * i] : mid[i], woven ? mid[2 * i + 1] : mid[r->inter + i]);
        } else if (gated) {
            h[i] = swiglu(r, mid[i], r->w[2] ? dense(r, 2, e, i, r->inter, r->hidden, x) : 1);
        } else {
            h[i] = cm_activation_apply(&r->function, mid[i]);
            if (r->w[2])
                h[i] *= dense(r, 2, e, i, r->inter, r->hidden, x);
        }
    }
    for (int64_t i = 0; i < r->hidden; i++)
        y[i] += weight * dense(r, 1, e, i, r->hidden, r->inter, h);
}

/* Routing weights: the softmax over all experts, over those chosen when normalised. */
static void run_token(const run *r, int64_t t, double *s)
{
    double *p = s, *mid = p + r->experts, *y = mid + 2 * r->rows, max = -INFINITY, sum = 0, kept = 0;
    memcpy(p, r->router + t * r->experts, (size_t)r->experts * sizeof(double));
    for (int64_t i = 0; i < r->experts; i++)
        max = p[i] > max ? p[i] : max;
    for (int64_t i = 0; i < r->experts; i++)
        sum += p[i] = cm_exp(p[i] - max);
    for (int64_t i = 0; i < r->experts; i++)
        p[i] /= sum;
    memset(y, 0, (size_t)r->hidden * sizeof(double));
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t k = 0; k < r->a->k; k++) {
            int64_t best = -1;
            for (int64_t i = 0; i < r->experts; i++)
                if ((pass ? p[i] < 0 : p[i] >= 0) && (best < 0 || fabs(p[i]) > fabs(p[best])))
                    best = i;
            if (best < 0)
                break;
            if (pass == 0) { /* chosen: marked by its sign */
                kept += p[best];
                p[best] = -p[best] - 1e-300;
                continue;
            }
            double weight = -p[best] / (r->a->normalize_routing_weights ? kept : 1);
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

static cm_status eval(cm_eval *e)
{
    const moe_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, X), *w1 = cm_eval_in(e, W1);
    static const int weights[] = {W1, W2, W3}, biases[] = {B1, B2, B3};
    run r = {.a = a, .hidden = x->dims[x->rank - 1], .experts = w1->dims[0], .rows = w1->dims[1],
             .tokens = cm_dims_product(x->dims, 0, x->rank - 1), .y = cm_eval_out(e, 0)};
    r.inter = cm_eval_in(e, W2)->dims[2];
    CM_TRY(find_function(e->cx, a, &r.function));
    CM_TRY(cm_eval_as_f64(e, X, &r.x));
    CM_TRY(cm_eval_as_f64(e, ROUTER, &r.router));
    for (int i = 0; i < 3; i++) {
        if (cm_eval_has(e, weights[i]))
            CM_TRY(cm_eval_as_f64(e, weights[i], &r.w[i]));
        if (cm_eval_has(e, biases[i]))
            CM_TRY(cm_eval_as_f64(e, biases[i], &r.b[i]));
    }
    int64_t dims[] = {r.tokens, r.experts + 2 * r.rows + r.hidden};
    cm_tensor t;
    CM_TRY(cm_eval_temp(e, CM_F64, 2, dims, &t));
    r.scratch = t.data;
    cm_parallel(e->threads, r.tokens, 1, run_range, &r);
    return CM_OK;
}

const cm_family cm_family_ms_moe = {.name = "ms_moe", .infer = infer, .eval = eval};
