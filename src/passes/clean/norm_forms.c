/* norm_forms.c -- normalisations without kernels as the plain nodes that they are made of; for a plan only.
 *
 *     y = LRN(x) {size=5, alpha=a, beta=b, bias=k}
 *  becomes
 *     s = Pow(x, 2)
 *     m = AveragePool(s, channels as an image's rows) {kernel_shape=[5,1], count_include_pad=1}
 *     y = Div(x, Pow(Add(Mul(m, a), k), b))
 *
 * also MeanVarianceNormalization, and BatchNormalization in training, whose statistics are the batch's. The
 * pool of LRN wants sizes that are numbers (the number of images need not be one). Squares are powers, since those stay in float32
 * where halves are asked for: they would leave float16's range.
 *
 * needs: types    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/chain.h"

/* ---- LRN ---------------------------------------------------------------------------------------- */

/* Channels and positions of x as numbers. */
static bool read_planes(const cm_value *x, int64_t *channels, int64_t *positions)
{
    enum { MOST = 1 << 30 };
    *positions = 1;
    if (cm_rank(x) < 2)
        return false;
    for (int i = 1; i < cm_rank(x); i++) {
        cm_dim d = x->type.dims[i];
        if (!cm_dim_is_size(d) || d < 1 || d > MOST / *positions)
            return false;
        if (i > 1)
            *positions *= d;
    }
    *channels = x->type.dims[1];
    return true;
}

/* Means of `size` neighbouring channels, zeros beyond the first and the last. */
static cm_value *channel_means(cm_chain *c, cm_value *x, int64_t size)
{
    const int64_t before = (size - 1) / 2;
    const int64_t kernel[] = {size, 1}, pads[] = {before, 0, size - 1 - before, 0};
    int64_t channels = 0, positions = 0, back[CM_MAX_RANK];
    (void)read_planes(x, &channels, &positions);
    void *attr = cm_chain_attr(c, CM_OP_AVERAGE_POOL);
    cm_chain_ints(c, CM_OP_AVERAGE_POOL, attr, "kernel_shape", 2, kernel);
    cm_chain_ints(c, CM_OP_AVERAGE_POOL, attr, "pads", 4, pads);
    cm_chain_int(c, CM_OP_AVERAGE_POOL, attr, "count_include_pad", 1);
    cm_value *v = cm_chain_reshape(c, x, 4, (int64_t[]){-1, 1, channels, positions});
    v = CM_THEN(c, CM_OP_AVERAGE_POOL, attr, v);
    back[0] = -1;
    for (int i = 1; i < cm_rank(x); i++)
        back[i] = x->type.dims[i];
    return cm_chain_reshape(c, v, cm_rank(x), back);
}

static bool is_lrn(const cm_node *n)
{
    enum { MOST = 1 << 16 };
    int64_t channels, positions;
    return cm_is(n, CM_OP_LRN) && read_planes(n->in[0], &channels, &positions) &&
           cm_int(n, "size") <= MOST;
}

static cm_value *square(cm_chain *c, cm_value *x)
{
    cm_dtype t = c->st == CM_OK ? x->type.dtype : CM_F32;
    return CM_THEN(c, CM_OP_POW, NULL, x, cm_chain_number(c, t, 2));
}

static void expand_lrn(cm_chain *c)
{
    const cm_node *n = c->at;
    cm_value *x = cm_chain_widen(c, n->in[0]);
    cm_dtype t = n->in[0]->type.dtype == CM_F64 ? CM_F64 : CM_F32;
    cm_value *v = channel_means(c, square(c, x), cm_int(n, "size"));
    v = CM_THEN(c, CM_OP_MUL, NULL, v, cm_chain_number(c, t, cm_float(n, "alpha")));
    v = CM_THEN(c, CM_OP_ADD, NULL, v, cm_chain_number(c, t, cm_float(n, "bias")));
    v = CM_THEN(c, CM_OP_POW, NULL, v, cm_chain_number(c, t, cm_float(n, "beta")));
    cm_chain_end(c, 0, CM_THEN(c, CM_OP_DIV, NULL, x, v));
}

/* ---- Means and variances ------------------------------------------------------------------------ */

typedef struct {
    cm_value *centred, *mean, *variance; /* the latter two with axes of 1 */
} statistics;

static statistics statistics_of(cm_chain *c, cm_value *x, int k, const int64_t *axes)
{
    cm_value *mean = cm_chain_reduce(c, CM_OP_REDUCE_MEAN, x, k, axes, true);
    cm_value *d = CM_THEN(c, CM_OP_SUB, NULL, x, mean);
    cm_value *variance = cm_chain_reduce(c, CM_OP_REDUCE_MEAN, square(c, d), k, axes, true);
    return (statistics){d, mean, variance};
}

static bool is_mean_variance(const cm_node *n)
{
    return cm_is(n, CM_OP_MEAN_VARIANCE_NORMALIZATION) && cm_rank(n->in[0]) > 0;
}

static void expand_mean_variance(cm_chain *c)
{
    static const int64_t usual[] = {0, 2, 3};
    const cm_node *n = c->at;
    cm_ints axes = cm_given(n, "axes") ? cm_int_list(n, "axes") : (cm_ints){CM_COUNT(usual), usual};
    statistics s = statistics_of(c, cm_chain_widen(c, n->in[0]), (int)axes.n, axes.v);
    cm_dtype t = n->in[0]->type.dtype == CM_F64 ? CM_F64 : CM_F32;
    cm_value *v = CM_THEN(c, CM_OP_SQRT, NULL, s.variance);
    v = CM_THEN(c, CM_OP_ADD, NULL, v, cm_chain_number(c, t, 1e-9));
    cm_chain_end(c, 0, CM_THEN(c, CM_OP_DIV, NULL, s.centred, v));
}

static bool is_training(const cm_node *n)
{
    if (!cm_is(n, CM_OP_BATCH_NORMALIZATION) || !cm_int(n, "training_mode") ||
        cm_rank(n->in[0]) < 2)
        return false;
    for (int i = 0; i < 5; i++)
        if (n->in[i]->type.dtype != CM_F32)
            return false;
    return true;
}

/* The given one moved towards the batch's. */
static void move_running(cm_chain *c, int o, cm_value *given, cm_value *batch)
{
    static const int64_t all = -1;
    const cm_node *n = c->at;
    if (o >= n->n_out || !n->out[o])
        return;
    double m = cm_float(n, "momentum");
    cm_value *is = CM_THEN(c, CM_OP_MUL, NULL, cm_chain_reshape(c, batch, 1, &all),
                           cm_chain_number(c, CM_F32, 1 - m));
    cm_value *was = CM_THEN(c, CM_OP_MUL, NULL, given, cm_chain_number(c, CM_F32, m));
    cm_chain_end(c, o, CM_THEN(c, CM_OP_ADD, NULL, was, is));
}

static void expand_training(cm_chain *c)
{
    const cm_node *n = c->at;
    cm_value *x = n->in[0];
    int64_t axes[CM_MAX_RANK] = {0}, shape[CM_MAX_RANK] = {-1};
    int rank = cm_rank(x);
    for (int i = 1; i < rank - 1; i++) {
        axes[i] = i + 1;
        shape[i] = 1;
    }
    statistics s = statistics_of(c, x, rank - 1, axes);
    cm_value *v =
        CM_THEN(c, CM_OP_ADD, NULL, s.variance, cm_chain_number(c, CM_F32, cm_float(n, "epsilon")));
    v = CM_THEN(c, CM_OP_DIV, NULL, s.centred, CM_THEN(c, CM_OP_SQRT, NULL, v));
    v = CM_THEN(c, CM_OP_MUL, NULL, v, cm_chain_reshape(c, n->in[1], rank - 1, shape));
    v = CM_THEN(c, CM_OP_ADD, NULL, v, cm_chain_reshape(c, n->in[2], rank - 1, shape));
    if (n->out[0])
        cm_chain_end(c, 0, v);
    move_running(c, 1, n->in[3], s.mean);
    move_running(c, 2, n->in[4], s.variance);
}

CM_PASS(norm_forms)
{
    static const cm_chain_form forms[] = {{is_lrn, expand_lrn},
                                          {is_mean_variance, expand_mean_variance},
                                          {is_training, expand_training}};
    return cm_chain_rewrite(rw, g, forms, CM_COUNT(forms));
}
