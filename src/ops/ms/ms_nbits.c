/* ms_nbits.c -- com.microsoft products with weights of a few bits: MatMulNBits, MatMulBnb4.
 * SPDX-License-Identifier: Apache-2.0
 *
 * MatMulNBits: row n of the weights is cut in blocks of block_size along K; each block is a run of
 * bits, low bits first, with a scale and a zero point. MatMulBnb4: all of [N, K] is one run of
 * 4-bit codes, high half first, with one factor a block. */
#include "ops/eval.h"

#include "base/size.h"
#include "ops/expect.h"
#include "ops/linear/gemm.h"

typedef struct {
    uint64_t present;
    int64_t K, N, accuracy_level, bits, block_size, weight_prepacked;
    int64_t quant_type, training_mode, transB;
} nbits_attr;

CM_ATTRS(ms_matmul_nbits, nbits_attr, CM_ATTR_INT_REQUIRED(nbits_attr, K),
         CM_ATTR_INT_REQUIRED(nbits_attr, N), CM_ATTR_INT(nbits_attr, accuracy_level, 0),
         CM_ATTR_INT(nbits_attr, bits, 4), CM_ATTR_INT_REQUIRED(nbits_attr, block_size),
         CM_ATTR_INT(nbits_attr, weight_prepacked, 0))
CM_ATTRS(ms_matmul_bnb4, nbits_attr, CM_ATTR_INT_REQUIRED(nbits_attr, K),
         CM_ATTR_INT_REQUIRED(nbits_attr, N), CM_ATTR_INT_REQUIRED(nbits_attr, block_size),
         CM_ATTR_INT_REQUIRED(nbits_attr, quant_type), CM_ATTR_INT(nbits_attr, training_mode, 0),
         CM_ATTR_INT(nbits_attr, transB, 1))

enum { A, B, SCALES, ZEROS, G_IDX, BIAS };

static cm_status check_attributes(cm_infer *f, const nbits_attr *a)
{
    int64_t elems;
    if (a->K < 1 || a->N < 1 || !cm_mul_i64(a->K, a->N, &elems) || elems > INT64_MAX / 64)
        return cm_fail(f->cx, CM_ERR_MODEL, "weights of %lld by %lld", (long long)a->N,
                       (long long)a->K);
    if (a->block_size < 1 || a->block_size > INT32_MAX)
        return cm_fail(f->cx, CM_ERR_MODEL, "block_size is %lld", (long long)a->block_size);
    if (f->op->id == CM_OP_MS_MATMUL_BNB4) {
        if (a->quant_type != 0 && a->quant_type != 1)
            return cm_fail(f->cx, CM_ERR_MODEL, "quant_type is %lld, wanted 0 or 1",
                           (long long)a->quant_type);
        return CM_OK;
    }
    if (a->bits < 1 || a->bits > 8 || a->block_size * a->bits % 8)
        return cm_fail(f->cx, CM_ERR_MODEL, "blocks of %lld elements of %lld bits",
                       (long long)a->block_size, (long long)a->bits);
    if (a->weight_prepacked)
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "weights packed for one kind of machine");
    return CM_OK;
}

/* Input i has `want` elements, or more where it is padded. */
static cm_status check_count(cm_infer *f, int i, const char *name, int64_t want)
{
    int64_t n = 1, d;
    if (!cm_expect_known(f, i))
        return CM_OK;
    for (int k = 0; k < cm_infer_rank(f, i); k++)
        if (!cm_infer_const(f, cm_infer_dim(f, i, k), &d) || !cm_mul_i64(n, d, &n))
            return CM_OK;
    if (n < want)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s has %lld elements, wanted %lld", name, (long long)n,
                       (long long)want);
    return CM_OK;
}

static cm_status check_nbits(cm_infer *f, const nbits_attr *a)
{
    int64_t blocks = cm_ceil_div(a->K, a->block_size), each;
    if (!cm_mul_i64(a->N * blocks, a->block_size * a->bits / 8, &each))
        return cm_fail(f->cx, CM_ERR_MODEL, "weights of %lld by %lld", (long long)a->N,
                       (long long)a->K);
    CM_TRY(check_count(f, B, "B", each));
    CM_TRY(check_count(f, SCALES, "scales", a->N * blocks));
    bool packed = cm_infer_has(f, ZEROS) && f->in[ZEROS].type->dtype == CM_U8;
    CM_TRY(check_count(f, ZEROS, "zero_points",
                       packed ? a->N * cm_ceil_div(blocks * a->bits, 8) : a->N * blocks));
    CM_TRY(check_count(f, G_IDX, "g_idx", a->K));
    return check_count(f, BIAS, "bias", a->N);
}

static cm_status infer(cm_infer *f)
{
    const nbits_attr *a = f->attr;
    CM_TRY(check_attributes(f, a));
    bool bnb = f->op->id == CM_OP_MS_MATMUL_BNB4;
    int64_t k = bnb && !a->transB ? a->N : a->K, n = bnb && !a->transB ? a->K : a->N;
    if (bnb) {
        CM_TRY(check_count(f, B, "B", (a->N * a->K + 1) / 2));
        CM_TRY(check_count(f, SCALES, "absmax", cm_ceil_div(a->N * a->K, a->block_size)));
    } else {
        CM_TRY(check_nbits(f, a));
    }
    CM_TRY(cm_infer_like(f, 0, A));
    if (!cm_infer_ranked(f, A))
        return CM_OK;
    int rank = cm_infer_rank(f, A);
    CM_TRY(cm_expect_rank(f, A, "A", 1, CM_MAX_RANK));
    CM_TRY(cm_infer_equal(f, "columns of A", cm_infer_dim(f, A, rank - 1), k));
    f->out[0].type.dims[rank - 1] = n;
    return CM_OK;
}

typedef struct {
    const nbits_attr *a;
    const cm_tensor *x;
    const uint8_t *codes, *packed_zeros;
    const double *scales, *zeros, *bias; /* zeros NULL: packed or the middle */
    const int64_t *group;                /* block of each k, or NULL */
    int64_t blocks, k, n;
    cm_tensor *y;
} run;

/* `bits` bits from bit `at` on. */
static unsigned read_bits(const uint8_t *p, int64_t at, int bits)
{
    unsigned v = p[at / 8];
    if (at % 8 + bits > 8)
        v |= (unsigned)p[at / 8 + 1] << 8;
    return v >> (at % 8) & ((1u << bits) - 1);
}

static double nbits_weight(const run *r, int64_t n, int64_t k)
{
    int bits = (int)r->a->bits;
    int64_t block = k / r->a->block_size;
    const uint8_t *blob = r->codes + (n * r->blocks + block) * (r->a->block_size * bits / 8);
    double code = read_bits(blob, k % r->a->block_size * bits, bits);
    if (r->group)
        block = r->group[k];
    double zero = 1 << (bits - 1);
    if (r->zeros)
        zero = r->zeros[n * r->blocks + block];
    else if (r->packed_zeros)
        zero = read_bits(r->packed_zeros + n * ((r->blocks * bits + 7) / 8), block * bits, bits);
    return (code - zero) * r->scales[n * r->blocks + block];
}

static double bnb_weight(const run *r, int64_t n, int64_t k)
{
    static const float fp4[] = {0,    5.208333333e-03f, 0.66666667f, 1, 0.33333333f,
                                0.5f, 0.16666667f,      0.25f};
    static const float nf4[] = {-1,
                                -0.6961928009986877f,
                                -0.5250730514526367f,
                                -0.39491748809814453f,
                                -0.28444138169288635f,
                                -0.18477343022823334f,
                                -0.09105003625154495f,
                                0,
                                0.07958029955625534f,
                                0.16093020141124725f,
                                0.24611230194568634f,
                                0.33791524171829224f,
                                0.44070982933044434f,
                                0.5626170039176941f,
                                0.7229568362236023f,
                                1};
    int64_t at = n * r->a->K + k;
    int code = at % 2 ? r->codes[at / 2] & 15 : r->codes[at / 2] >> 4;
    double v = r->a->quant_type ? nf4[code] : code & 8 ? -fp4[code & 7] : fp4[code];
    return v * r->scales[at / r->a->block_size];
}

static void load_a(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n, double *dst)
{
    const run *r = arg;
    (void)batch;
    cm_load_f64(r->x->dtype,
                (const char *)r->x->data + (size_t)(row * r->k + col) * cm_dtype_size(r->x->dtype),
                n, dst);
}

static void load_nbits(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                       double *dst)
{
    (void)batch;
    for (int64_t i = 0; i < n; i++)
        dst[i] = nbits_weight(arg, col + i, row);
}

static void load_bnb(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                     double *dst)
{
    const run *r = arg;
    (void)batch;
    for (int64_t i = 0; i < n; i++)
        dst[i] = r->a->transB ? bnb_weight(r, col + i, row) : bnb_weight(r, row, col + i);
}

static void store(void *arg, int64_t batch, int64_t row, int64_t col, int64_t n, const double *src)
{
    const run *r = arg;
    (void)batch;
    for (int64_t i = 0; i < n; i++)
        cm_set_f64(r->y->dtype, r->y->data, row * r->n + col + i,
                   src[i] + (r->bias ? r->bias[col + i] : 0));
}

static cm_status read_groups(cm_eval *e, run *r)
{
    if (!cm_eval_has(e, G_IDX))
        return CM_OK;
    CM_TRY(cm_eval_as_i64(e, G_IDX, &r->group));
    for (int64_t k = 0; k < r->k; k++)
        if (r->group[k] < 0 || r->group[k] >= r->blocks)
            return cm_fail(e->cx, CM_ERR_DATA, "g_idx[%lld] is %lld, wanted less than %lld",
                           (long long)k, (long long)r->group[k], (long long)r->blocks);
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const nbits_attr *a = e->attr;
    bool bnb = e->op->id == CM_OP_MS_MATMUL_BNB4;
    run r = {.a = a,
             .x = cm_eval_in(e, A),
             .codes = cm_eval_in(e, B)->data,
             .y = cm_eval_out(e, 0),
             .blocks = cm_ceil_div(a->K, a->block_size)};
    r.k = bnb && !a->transB ? a->N : a->K;
    r.n = bnb && !a->transB ? a->K : a->N;
    CM_TRY(cm_eval_as_f64(e, SCALES, &r.scales));
    if (!bnb) {
        if (cm_eval_has(e, ZEROS) && cm_eval_in(e, ZEROS)->dtype == CM_U8)
            r.packed_zeros = cm_eval_in(e, ZEROS)->data;
        else if (cm_eval_has(e, ZEROS))
            CM_TRY(cm_eval_as_f64(e, ZEROS, &r.zeros));
        if (cm_eval_has(e, BIAS))
            CM_TRY(cm_eval_as_f64(e, BIAS, &r.bias));
        CM_TRY(read_groups(e, &r));
    }
    cm_gemm_f64 g = {.batch = 1,
                     .m = cm_dims_product(r.x->dims, 0, r.x->rank - 1),
                     .n = r.n,
                     .k = r.k,
                     .load_a = load_a,
                     .load_b = bnb ? load_bnb : load_nbits,
                     .store = store,
                     .a = &r,
                     .b = &r,
                     .c = &r};
    return cm_gemm_run_f64(e->cx, e->threads, &g);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    const nbits_attr *a = f->attr;
    c->ops = 2 * cm_infer_volume(f, &f->out[0].type) * (double)a->K;
}

const cm_family cm_family_ms_nbits = {
    .name = "ms_nbits", .infer = infer, .eval = eval, .cost = cost};
