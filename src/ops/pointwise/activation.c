/* activation.c -- activation functions by name.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/pointwise/activation.h"

#include <math.h>
#include <strings.h>

#include "ops/math.h"

enum {
    IDENTITY,
    AFFINE,
    RELU,
    LEAKY_RELU,
    THRESHOLDED_RELU,
    TANH,
    SCALED_TANH,
    SIGMOID,
    HARD_SIGMOID,
    ELU,
    SOFTSIGN,
    SOFTPLUS,
    CLIP,
    GELU,
    FAST_GELU,
    SILU,
    QUICK_GELU,
    HARD_SWISH,
    PARAMETRIC_SOFTPLUS
};

static const struct {
    const char *name;
    int kind, n_params;
    double alpha, beta; /* defaults */
} functions[] = {
    {"", IDENTITY, 0, 0, 0},
    {"Identity", IDENTITY, 0, 0, 0},
    {"Affine", AFFINE, 2, 1, 0},
    {"Relu", RELU, 0, 0, 0},
    {"LeakyRelu", LEAKY_RELU, 1, 0.01f, 0},
    {"ThresholdedRelu", THRESHOLDED_RELU, 1, 1, 0},
    {"Tanh", TANH, 0, 0, 0},
    {"ScaledTanh", SCALED_TANH, 2, 1, 1},
    {"Sigmoid", SIGMOID, 0, 0, 0},
    {"HardSigmoid", HARD_SIGMOID, 2, 0.2f, 0.5f},
    {"Elu", ELU, 1, 1, 0},
    {"Softsign", SOFTSIGN, 0, 0, 0},
    {"Softplus", SOFTPLUS, 0, 0, 0},
    {"Clip", CLIP, 2, -INFINITY, INFINITY},
    {"Gelu", GELU, 0, 0, 0},
    {"FastGelu", FAST_GELU, 0, 0, 0},
    {"Silu", SILU, 0, 0, 0},
    {"QuickGelu", QUICK_GELU, 1, 1.702f, 0},
    {"HardSwish", HARD_SWISH, 0, 0, 0},
    {"ParametricSoftplus", PARAMETRIC_SOFTPLUS, 2, 1, 1},
};

cm_status cm_activation_find(cm_ctx *cx, cm_str name, cm_activation *out)
{
    for (int i = 0; i < CM_COUNT(functions); i++)
        if (strlen(functions[i].name) == name.n &&
            (name.n == 0 || strncasecmp(functions[i].name, name.p, name.n) == 0)) {
            *out = (cm_activation){functions[i].kind, functions[i].alpha, functions[i].beta};
            return CM_OK;
        }
    return cm_fail(cx, CM_ERR_MODEL, "unknown activation function '%.*s'",
                   (int)(name.n < 64 ? name.n : 64), name.p);
}

int cm_activation_params(const cm_activation *a)
{
    for (int i = 0; i < CM_COUNT(functions); i++)
        if (functions[i].kind == a->kind)
            return functions[i].n_params;
    return 0;
}

double cm_activation_apply(const cm_activation *a, double x)
{
    switch (a->kind) {
    case AFFINE:
        return a->alpha * x + a->beta;
    case RELU:
        return x < 0 ? 0 : x;
    case LEAKY_RELU:
        return x < 0 ? a->alpha * x : x;
    case THRESHOLDED_RELU:
        return x >= a->alpha ? x : 0;
    case TANH:
        return cm_tanh(x);
    case SCALED_TANH:
        return a->alpha * cm_tanh(a->beta * x);
    case SIGMOID:
        return cm_sigmoid(x);
    case HARD_SIGMOID: {
        double y = a->alpha * x + a->beta;
        return y < 0 ? 0 : y > 1 ? 1 : y;
    }
    case ELU:
        return x >= 0 ? x : a->alpha * cm_expm1(x);
    case SOFTSIGN:
        return x / (1 + fabs(x));
    case SOFTPLUS:
        return cm_softplus(x);
    case CLIP:
        return x < a->alpha ? a->alpha : x > a->beta ? a->beta : x;
    case GELU:
        return 0.5 * x * (1 + cm_erf(x * 0.70710678118654752440));
    case FAST_GELU:
        return 0.5 * x * (1 + cm_tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case SILU:
        return x * cm_sigmoid(x);
    case QUICK_GELU:
        return x * cm_sigmoid(a->alpha * x);
    case HARD_SWISH: {
        double y = x / 6 + 0.5;
        return x * (y < 0 ? 0 : y > 1 ? 1 : y);
    }
    case PARAMETRIC_SOFTPLUS:
        return a->alpha * cm_softplus(a->beta * x);
    default:
        return x;
    }
}

cm_status cm_activation_list(cm_ctx *cx, cm_strs names, const char *const *default_names, int n,
                             cm_floats alphas, cm_floats betas, cm_activation *out)
{
    if (names.n != 0 && names.n < n)
        return cm_fail(cx, CM_ERR_MODEL, "activations has %lld entries, wanted %d",
                       (long long)names.n, n);
    int64_t next_alpha = 0, next_beta = 0;
    for (int i = 0; i < n; i++) {
        cm_str name = names.n ? names.v[i] : cm_str_of(default_names[i]);
        CM_TRY(cm_activation_find(cx, name, &out[i]));
        int n_params = cm_activation_params(&out[i]);
        if (n_params >= 1 && next_alpha < alphas.n)
            out[i].alpha = alphas.v[next_alpha++];
        if (n_params >= 2 && next_beta < betas.n)
            out[i].beta = betas.v[next_beta++];
    }
    return CM_OK;
}
