/* random.c -- tensors of random numbers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * With a seed the result depends on it alone; without, on the context's generator. */
#include "ops/pointwise/random.h"

#include <math.h>

#include "ops/elementwise.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    int64_t dtype;
    float seed;
} bernoulli_attr;
typedef struct {
    uint64_t present;
    int64_t dtype, sample_size;
    float seed;
} multinomial_attr;
typedef struct {
    uint64_t present;
    int64_t dtype;
    float mean, scale, seed;
    cm_ints shape;
} normal_attr;
typedef struct {
    uint64_t present;
    int64_t dtype;
    float high, low, seed;
    cm_ints shape;
} uniform_attr;

CM_ATTRS(bernoulli, bernoulli_attr, CM_ATTR_INT(bernoulli_attr, dtype, 0),
         CM_ATTR_FLOAT(bernoulli_attr, seed, 0))
CM_ATTRS(multinomial, multinomial_attr, CM_ATTR_INT(multinomial_attr, dtype, CM_I32),
         CM_ATTR_INT(multinomial_attr, sample_size, 1), CM_ATTR_FLOAT(multinomial_attr, seed, 0))
CM_ATTRS(random_normal, normal_attr, CM_ATTR_INT(normal_attr, dtype, CM_F32),
         CM_ATTR_FLOAT(normal_attr, mean, 0), CM_ATTR_FLOAT(normal_attr, scale, 1),
         CM_ATTR_FLOAT(normal_attr, seed, 0), CM_ATTR_INTS(normal_attr, shape, CM_REQUIRED))
CM_ATTRS(random_normal_like, normal_attr, CM_ATTR_INT(normal_attr, dtype, 0),
         CM_ATTR_FLOAT(normal_attr, mean, 0), CM_ATTR_FLOAT(normal_attr, scale, 1),
         CM_ATTR_FLOAT(normal_attr, seed, 0))
CM_ATTRS(random_uniform, uniform_attr, CM_ATTR_INT(uniform_attr, dtype, CM_F32),
         CM_ATTR_FLOAT(uniform_attr, high, 1), CM_ATTR_FLOAT(uniform_attr, low, 0),
         CM_ATTR_FLOAT(uniform_attr, seed, 0), CM_ATTR_INTS(uniform_attr, shape, CM_REQUIRED))
CM_ATTRS(random_uniform_like, uniform_attr, CM_ATTR_INT(uniform_attr, dtype, 0),
         CM_ATTR_FLOAT(uniform_attr, high, 1), CM_ATTR_FLOAT(uniform_attr, low, 0),
         CM_ATTR_FLOAT(uniform_attr, seed, 0))

static uint64_t key_of(const cm_eval *e)
{
    uint32_t bits;
    if (!cm_attr_has(e->op->attrs, e->attr, "seed"))
        return cm_random_key(e->random);
    memcpy(&bits, cm_attr_get(e->attr, cm_attr_find(e->op->attrs, "seed")), sizeof bits);
    return cm_random_seed_key(bits);
}

typedef struct {
    const cm_eval *e;
    uint64_t key;
    cm_tensor *out;
} job;

/* Two uniform numbers make a normal one, by Box and Muller. */
static double normal(uint64_t key, int64_t i)
{
    uint64_t at = 2 * (uint64_t)i;
    double u = 1 - cm_random_unit(key, at), v = cm_random_unit(key, at + 1);
    return sqrt(-2 * cm_ln(u)) * cm_cos(0x1.921fb54442d18p2 * v);
}

static void compute(void *arg, int64_t at, int64_t n)
{
    const job *j = arg;
    cm_op_id id = j->e->op->id;
    const normal_attr *g = j->e->attr;
    const uniform_attr *u = j->e->attr;
    double v[CM_BLOCK], p[CM_BLOCK];
    if (id == CM_OP_BERNOULLI) {
        const cm_tensor *in = cm_eval_in(j->e, 0);
        size_t offset = (size_t)at * cm_dtype_size(in->dtype);
        cm_load_f64(in->dtype, (const unsigned char *)in->data + offset, n, p);
    }
    for (int64_t i = 0; i < n; i++) {
        double unit = cm_random_unit(j->key, (uint64_t)(at + i));
        if (id == CM_OP_BERNOULLI)
            v[i] = unit < p[i];
        else if (id == CM_OP_RANDOM_NORMAL || id == CM_OP_RANDOM_NORMAL_LIKE)
            v[i] = (double)g->mean + (double)g->scale * normal(j->key, at + i);
        else
            v[i] = (double)u->low + ((double)u->high - (double)u->low) * unit;
    }
    cm_dtype t = j->out->dtype;
    cm_store_f64(t, v, n, (unsigned char *)j->out->data + (size_t)at * cm_dtype_size(t));
}

/* Rows of unnormalised log-probabilities; samples are found in the running sum of probabilities. */
static cm_status multinomial(cm_eval *e)
{
    const cm_tensor *in = cm_eval_in(e, 0);
    cm_tensor *out = cm_eval_out(e, 0);
    int64_t n_rows = in->dims[0], n_classes = in->dims[1], n_samples = out->dims[1];
    uint64_t key = key_of(e);
    const double *logits;
    void *scratch;
    if (n_rows == 0 || n_samples == 0)
        return CM_OK;
    if (n_classes == 0)
        return cm_fail(e->cx, CM_ERR_DATA, "there is no class to sample from");
    CM_TRY(cm_eval_as_f64(e, 0, &logits));
    CM_TRY(cm_eval_scratch(e, (size_t)n_classes, sizeof(double), &scratch));
    double *upto = scratch;
    for (int64_t r = 0; r < n_rows; r++) {
        const double *x = logits + r * n_classes;
        double top = x[0], total = 0;
        CM_TRY(cm_check_cancel(e->cx));
        for (int64_t c = 1; c < n_classes; c++)
            top = x[c] > top ? x[c] : top;
        for (int64_t c = 0; c < n_classes; c++)
            upto[c] = total += x[c] == top ? 1 : cm_exp(x[c] - top);
        for (int64_t s = 0; s < n_samples; s++) {
            double at = total * cm_random_unit(key, (uint64_t)(r * n_samples + s));
            int64_t low = 0, high = n_classes - 1; /* the first class whose sum is above `at` */
            while (low < high) {
                int64_t mid = low + (high - low) / 2;
                if (upto[mid] > at)
                    high = mid;
                else
                    low = mid + 1;
            }
            cm_set_i64(out->dtype, out->data, r * n_samples + s, low);
        }
    }
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    if (e->op->id == CM_OP_MULTINOMIAL)
        return multinomial(e);
    job j = {e, key_of(e), cm_eval_out(e, 0)};
    return cm_eval_blocks(e, cm_tensor_elems(j.out), compute, &j);
}

/* The dtype attribute, or where it is absent the input's type. */
static cm_status set_dtype(cm_infer *f)
{
    const cm_attr_desc *d = f->op->attrs;
    int64_t t = *(const int64_t *)cm_attr_get(f->attr, cm_attr_find(d, "dtype"));
    if (f->n_in > 0 && f->op->id != CM_OP_MULTINOMIAL && !cm_attr_has(d, f->attr, "dtype"))
        t = f->in[0].type->dtype;
    bool ok = t > 0 && t < CM_DTYPE_COUNT && cm_dtype_valid((int)t);
    bool is_float = t == CM_F32 || t == CM_F64 || t == CM_F16 || t == CM_BF16;
    if (f->op->id == CM_OP_MULTINOMIAL)
        ok = t == CM_I32 || t == CM_I64;
    else if (f->op->id == CM_OP_BERNOULLI)
        ok = ok && (is_float || t == CM_BOOL ||
                    (cm_dtype_is_integer((cm_dtype)t) && !cm_dtype_is_sub_byte((cm_dtype)t)));
    else
        ok = is_float;
    if (!ok)
        return cm_fail(f->cx, CM_ERR_MODEL, "dtype %lld is not one that %s can give", (long long)t,
                       f->op->name);
    f->out[0].type.kind = CM_TENSOR;
    f->out[0].type.dtype = (cm_dtype)t;
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    CM_TRY(set_dtype(f));
    if (f->op->id == CM_OP_MULTINOMIAL) {
        int64_t n = ((const multinomial_attr *)f->attr)->sample_size;
        if (n < 0)
            return cm_fail(f->cx, CM_ERR_MODEL, "sample_size is %lld", (long long)n);
        if (!cm_infer_ranked(f, 0))
            return cm_infer_data_dependent(f, 0, 2);
        if (f->in[0].type->rank != 2)
            return cm_fail(f->cx, CM_ERR_MODEL, "the input has rank %d, wanted 2",
                           f->in[0].type->rank);
        return cm_infer_tensor(f, 0, 2, (const cm_dim[]){f->in[0].type->dims[0], n});
    }
    if (f->op->id != CM_OP_RANDOM_NORMAL && f->op->id != CM_OP_RANDOM_UNIFORM)
        return cm_infer_like(f, 0, 0);
    const cm_ints *shape = cm_attr_get(f->attr, cm_attr_find(f->op->attrs, "shape"));
    if (shape->n > CM_MAX_RANK)
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "shape has %lld entries, the most is %d",
                       (long long)shape->n, CM_MAX_RANK);
    for (int64_t i = 0; i < shape->n; i++)
        if (shape->v[i] < 0)
            return cm_fail(f->cx, CM_ERR_MODEL, "shape has %lld at axis %lld",
                           (long long)shape->v[i], (long long)i);
    return cm_infer_tensor(f, 0, (int)shape->n, shape->v);
}

const cm_family cm_family_random = {.name = "random", .infer = infer, .eval = eval};
