/* move.c -- strided copies, and what type rules of movement share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/move/move.h"

#include <string.h>

#include "base/size.h"

/* Numbers beyond this serve as "past every size"; sums of two of them do not overflow. */
#define FAR_AWAY ((int64_t)1 << 62)

static int64_t known_length(const cm_infer *f, int i)
{
    int64_t n;
    if (cm_infer_rank(f, i) == 0)
        return 1;
    return cm_infer_rank(f, i) == 1 && cm_infer_const(f, cm_infer_dim(f, i, 0), &n) ? n : -1;
}

cm_status cm_move_vector(cm_infer *f, int i, const char *what, cm_vector *out)
{
    out->known = false;
    if (cm_infer_rank(f, i) > 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s has rank %d, wanted a vector", what,
                       cm_infer_rank(f, i));
    int64_t v[CM_MAX_ELEMS];
    int n;
    out->n = known_length(f, i);
    if (cm_infer_ints(f, i, v, CM_MAX_ELEMS, &out->n)) {
        out->known = true;
        for (int64_t j = 0; j < out->n; j++)
            out->v[j] = cm_infer_number(f, cm_max_i64(-FAR_AWAY, cm_min_i64(v[j], FAR_AWAY)));
    } else if (cm_infer_elems(f, i, out->v, &n)) {
        out->known = true;
        out->n = n;
    } else {
        out->n = known_length(f, i);
    }
    return CM_OK;
}

cm_status cm_move_numbers(cm_infer *f, int i, const char *what, cm_vector *out, int64_t *v)
{
    CM_TRY(cm_move_vector(f, i, what, out));
    for (int64_t j = 0; out->known && j < out->n; j++)
        out->known = cm_infer_const(f, out->v[j], &v[j]);
    return CM_OK;
}

cm_status cm_move_check_count(cm_infer *f, int i, const char *what, int64_t wanted)
{
    int64_t n;
    if (!cm_infer_ranked(f, i) ||
        !cm_infer_const(f, cm_move_product(f, f->in[i].type->dims, 0, cm_infer_rank(f, i)), &n) ||
        n == wanted)
        return CM_OK;
    return cm_fail(f->cx, CM_ERR_MODEL, "%s has %lld elements, wanted %lld", what, (long long)n,
                   (long long)wanted);
}

bool cm_move_may_be_anything(const cm_infer *f, cm_dim e)
{
    if (!f->dims || cm_dim_is_nonneg(f->dims, e))
        return false;
    int n = cm_dim_symbol_count(f->dims);
    cm_arena_mark mark = cm_arena_save(f->cx->scratch);
    cm_dim *to = cm_arena_alloc_n(f->cx->scratch, (size_t)n, sizeof *to, 16, 0);
    if (!to)
        return true;
    for (int s = 0; s < n; s++)
        to[s] = cm_dim_symbol_sign(f->dims, s) == CM_DIM_ANY ? 0 : CM_DIM_UNBOUND;
    bool same = cm_dim_substitute(f->dims, e, to, n) == e;
    cm_arena_restore(f->cx->scratch, mark);
    return !same;
}

cm_status cm_move_size(cm_infer *f, const char *what, cm_dim e, cm_dim *out)
{
    int64_t v;
    if (cm_infer_const(f, e, &v)) {
        if (v < 0)
            return cm_fail(f->cx, CM_ERR_MODEL, "%s holds %lld, wanted sizes >= 0", what,
                           (long long)v);
        *out = v;
    } else {
        *out = cm_move_may_be_anything(f, e) ? cm_infer_fresh(f, "size") : e;
    }
    return CM_OK;
}

cm_status cm_move_shape(cm_infer *f, int o, int64_t rank, const cm_dim *dims)
{
    cm_dim d[CM_MAX_RANK];
    if (rank > CM_MAX_RANK)
        return cm_fail(f->cx, CM_ERR_MODEL, "the output has rank %lld, the most is %d",
                       (long long)rank, CM_MAX_RANK);
    for (int64_t i = 0; i < rank; i++) {
        int64_t v;
        d[i] = dims[i];
        if (d[i] == CM_DIM_ERROR && f->dims)
            d[i] = cm_infer_fresh(f, "size");
        if (d[i] == CM_DIM_ERROR)
            return cm_fail(f->cx, CM_ERR_MODEL, "size %lld of the output overflows", (long long)i);
        if (cm_infer_const(f, d[i], &v) && v < 0)
            return cm_fail(f->cx, CM_ERR_MODEL, "size %lld of the output would be %lld",
                           (long long)i, (long long)v);
    }
    return cm_infer_tensor(f, o, (int)rank, d);
}

cm_status cm_move_fresh_shape(cm_infer *f, int o, int64_t rank)
{
    cm_dim d[CM_MAX_RANK];
    for (int i = 0; i < rank && i < CM_MAX_RANK; i++)
        d[i] = cm_infer_fresh(f, "size");
    return cm_move_shape(f, o, rank, d);
}

bool cm_move_tracked(const cm_infer *f, int i, cm_dim *v, int *n)
{
    return f->dims && cm_infer_has(f, i) && f->in[i].type->kind == CM_TENSOR &&
           cm_dtype_is_integer(f->in[i].type->dtype) && cm_infer_elems(f, i, v, n);
}

void cm_move_pass_elems(cm_infer *f)
{
    cm_dim v[CM_MAX_ELEMS];
    int n;
    if (f->out[0].type.rank >= 0 && cm_move_tracked(f, 0, v, &n))
        cm_infer_set_elems(f, 0, v, n);
}

bool cm_move_numeric_shape(const cm_infer *f, const cm_type *t, cm_tensor *out)
{
    int64_t dims[CM_MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        if (!cm_infer_const(f, t->dims[i], &dims[i]))
            return false;
    *out = (cm_tensor){0};
    return t->rank >= 0 && cm_tensor_shape(out, t->dtype, t->rank, dims);
}

bool cm_move_nonneg(const cm_infer *f, cm_dim d)
{
    if (d == CM_DIM_ERROR)
        return false;
    return f->dims ? cm_dim_is_nonneg(f->dims, d) : d >= 0;
}

cm_dim cm_move_min(cm_infer *f, cm_dim a, cm_dim b)
{
    if (cm_move_nonneg(f, cm_infer_sub(f, b, a)))
        return a;
    if (cm_move_nonneg(f, cm_infer_sub(f, a, b)))
        return b;
    return f->dims ? cm_dim_min(f->dims, a, b) : CM_DIM_ERROR;
}

cm_dim cm_move_max(cm_infer *f, cm_dim a, cm_dim b)
{
    if (cm_move_nonneg(f, cm_infer_sub(f, a, b)))
        return a;
    if (cm_move_nonneg(f, cm_infer_sub(f, b, a)))
        return b;
    return f->dims ? cm_dim_max(f->dims, a, b) : CM_DIM_ERROR;
}

cm_dim cm_move_product(cm_infer *f, const cm_dim *dims, int from, int to)
{
    cm_dim p = 1;
    for (int i = from; i < to; i++)
        p = cm_infer_mul(f, p, dims[i]);
    return p;
}

void cm_move_cost(const cm_infer *f, cm_cost *c)
{
    (void)f;
    c->ops = 0;
}

/* Elements by size. They alias whatever type the tensors really have. */
typedef uint8_t __attribute__((may_alias)) e1;
typedef uint16_t __attribute__((may_alias)) e2;
typedef uint32_t __attribute__((may_alias)) e4;
typedef uint64_t __attribute__((may_alias)) e8;
typedef struct __attribute__((may_alias)) {
    uint64_t a, b;
} e16;

enum { TILE = 16 }; /* rows and columns of a block that stays in the first cache */

/* Rows and tiles of one element size: a row is n elements apart by (from, to); a tile is a
 * transposition, contiguous down the source and across the destination. */
#define KERNELS(T)                                                                                 \
    static void row_##T(const void *src, int64_t from, void *dst, int64_t to, int64_t n)           \
    {                                                                                              \
        const T *s = src;                                                                          \
        T *d = dst;                                                                                \
        if (to == 1)                                                                               \
            for (int64_t i = 0; i < n; i++)                                                        \
                d[i] = s[i * from];                                                                \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                d[i * to] = s[i * from];                                                           \
    }                                                                                              \
    static void tile_##T(const void *src, int64_t from, void *dst, int64_t to, int64_t rows,       \
                         int64_t columns)                                                          \
    {                                                                                              \
        const T *s = src;                                                                          \
        T *d = dst;                                                                                \
        for (int64_t c = 0; c < columns; c += TILE)                                                \
            for (int64_t i = 0; i < rows; i++)                                                     \
                for (int64_t j = c; j < cm_min_i64(c + TILE, columns); j++)                        \
                    d[i * to + j] = s[i + j * from];                                               \
    }
KERNELS(e1)
KERNELS(e2)
KERNELS(e4)
KERNELS(e8)
KERNELS(e16)

typedef struct kernels {
    void (*row)(const void *, int64_t, void *, int64_t, int64_t);
    void (*tile)(const void *, int64_t, void *, int64_t, int64_t, int64_t);
} kernels;

static kernels kernels_for(size_t elem_bytes)
{
    switch (elem_bytes) {
    case 1:
        return (kernels){row_e1, tile_e1};
    case 2:
        return (kernels){row_e2, tile_e2};
    case 4:
        return (kernels){row_e4, tile_e4};
    case 8:
        return (kernels){row_e8, tile_e8};
    default:
        return (kernels){row_e16, tile_e16};
    }
}

void cm_move_axis(cm_move *m, int64_t size, int64_t from, int64_t to)
{
    int i = m->rank++;
    m->dims[i] = size;
    m->from[i] = from;
    m->to[i] = to;
}

/* Drop axes of size 1 and join neighbours that are one run in both places. */
static void simplify(cm_move *m)
{
    int n = 0;
    for (int i = 0; i < m->rank; i++) {
        if (m->dims[i] == 1)
            continue;
        if (n > 0 && m->from[n - 1] == m->from[i] * m->dims[i] &&
            m->to[n - 1] == m->to[i] * m->dims[i]) {
            m->dims[n - 1] *= m->dims[i];
        } else {
            m->dims[n] = m->dims[i];
            n++;
        }
        m->from[n - 1] = m->from[i];
        m->to[n - 1] = m->to[i];
    }
    m->rank = n;
}

/* If the destination is contiguous along the last axis and the source along another, put that one
 * second to last: the two make a transposition. */
static bool make_plane(cm_move *m)
{
    int last = m->rank - 1, p = last - 1;
    if (last < 1 || m->to[last] != 1 || m->from[last] == 1 || m->from[last] == 0)
        return false;
    while (p >= 0 && m->from[p] != 1)
        p--;
    if (p < 0)
        return false;
    int64_t size = m->dims[p], to = m->to[p];
    for (int i = p; i < last - 1; i++) {
        m->dims[i] = m->dims[i + 1];
        m->from[i] = m->from[i + 1];
        m->to[i] = m->to[i + 1];
    }
    m->dims[last - 1] = size;
    m->from[last - 1] = 1;
    m->to[last - 1] = to;
    return true;
}

typedef struct job {
    const cm_move *m;
    int n_outer;    /* axes that are walked one by one; the rest is a kernel's */
    int64_t strips; /* of TILE rows in a plane */
    kernels k;
    const char *src;
    char *dst;
} job;

/* Where the `index`-th step of the outer axes begins. */
static void locate(const job *j, int64_t index, const char **src, char **dst)
{
    const cm_move *m = j->m;
    int64_t from = 0, to = 0;
    for (int i = j->n_outer - 1; i >= 0; i--) {
        int64_t at = index % m->dims[i];
        index /= m->dims[i];
        from += at * m->from[i];
        to += at * m->to[i];
    }
    *src = cm_move_at(j->src, from, m->elem_bytes);
    *dst = cm_move_to(j->dst, to, m->elem_bytes);
}

static void run_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_move *m = j->m;
    int last = m->rank - 1;
    for (int64_t r = begin; r < end; r++) {
        const char *src;
        char *dst;
        locate(j, r, &src, &dst);
        if (m->from[last] == 1 && m->to[last] == 1)
            memcpy(dst, src, (size_t)m->dims[last] * m->elem_bytes);
        else
            j->k.row(src, m->from[last], dst, m->to[last], m->dims[last]);
    }
}

static void run_strips(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_move *m = j->m;
    int last = m->rank - 1;
    for (int64_t r = begin; r < end; r++) {
        const char *src;
        char *dst;
        locate(j, r / j->strips, &src, &dst);
        int64_t row = r % j->strips * TILE;
        j->k.tile(cm_move_at(src, row, m->elem_bytes), m->from[last],
                  cm_move_to(dst, row * m->to[last - 1], m->elem_bytes), m->to[last - 1],
                  cm_min_i64(TILE, m->dims[last - 1] - row), m->dims[last]);
    }
}

/* One axis only: cut it into pieces. */
static void run_piece(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_move *m = j->m;
    const char *src = cm_move_at(j->src, begin * m->from[0], m->elem_bytes);
    char *dst = cm_move_to(j->dst, begin * m->to[0], m->elem_bytes);
    if (m->from[0] == 1 && m->to[0] == 1)
        memcpy(dst, src, (size_t)(end - begin) * m->elem_bytes);
    else
        j->k.row(src, m->from[0], dst, m->to[0], end - begin);
}

void cm_move_run(cm_move *m, const void *src, void *dst, cm_threads *threads)
{
    enum { PIECE_BYTES = 1 << 16 }; /* less is not worth a thread */
    for (int i = 0; i < m->rank; i++)
        if (m->dims[i] == 0)
            return;
    simplify(m);
    job j = {m, 0, 1, kernels_for(m->elem_bytes), src, dst};
    if (m->rank == 0) {
        memcpy(dst, src, m->elem_bytes);
    } else if (m->rank == 1) {
        cm_parallel(threads, m->dims[0], PIECE_BYTES / (int64_t)m->elem_bytes, run_piece, &j);
    } else if (make_plane(m)) {
        j.n_outer = m->rank - 2;
        j.strips = cm_ceil_div(m->dims[m->rank - 2], TILE);
        int64_t strip_bytes = TILE * m->dims[m->rank - 1] * (int64_t)m->elem_bytes;
        cm_parallel(threads, cm_dims_product(m->dims, 0, j.n_outer) * j.strips,
                    PIECE_BYTES / strip_bytes + 1, run_strips, &j);
    } else {
        j.n_outer = m->rank - 1;
        int64_t row_bytes = m->dims[m->rank - 1] * (int64_t)m->elem_bytes;
        cm_parallel(threads, cm_dims_product(m->dims, 0, j.n_outer), PIECE_BYTES / row_bytes + 1,
                    run_rows, &j);
    }
}

void cm_move_fill(size_t elem_bytes, const void *value, void *dst, int64_t n, cm_threads *threads)
{
    cm_move m = {.elem_bytes = elem_bytes};
    cm_move_axis(&m, n, 0, 1);
    cm_move_run(&m, value, dst, threads);
}

void cm_move_copy(const cm_tensor *src, cm_tensor *dst)
{
    size_t bytes = (size_t)cm_tensor_elems(src) * cm_dtype_size(src->dtype);
    if (bytes)
        memcpy(dst->data, src->data, bytes);
}

cm_status cm_move_index(cm_ctx *cx, int64_t index, int64_t size, int axis, int64_t position,
                        int64_t *out)
{
    if (index < -size || index >= size)
        return cm_fail(cx, CM_ERR_DATA,
                       "index %lld at position %lld is out of range for axis %d of size %lld",
                       (long long)index, (long long)position, axis, (long long)size);
    *out = index < 0 ? index + size : index;
    return CM_OK;
}

static uint64_t key_of_f64(double x)
{
    const uint64_t sign = (uint64_t)1 << 63;
    uint64_t bits;
    if (x != x)
        return UINT64_MAX;
    x += 0.0; /* -0 becomes 0 */
    memcpy(&bits, &x, sizeof bits);
    return bits & sign ? ~bits : bits | sign;
}

void cm_sort_keys(cm_dtype t, const void *src, int64_t n, uint64_t *keys)
{
    enum { BLOCK = 256 };
    double f[BLOCK];
    int64_t v[BLOCK];
    bool is_float = cm_dtype_is_float(t);
    uint64_t flip = cm_dtype_get(t)->kind == CM_KIND_INT ? (uint64_t)1 << 63 : 0;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = cm_min_i64(BLOCK, n - i);
        const void *from = cm_move_at(src, i, cm_dtype_size(t));
        if (is_float)
            cm_load_f64(t, from, m, f);
        else
            cm_load_i64(t, from, m, v);
        for (int64_t j = 0; j < m; j++)
            keys[i + j] = is_float ? key_of_f64(f[j]) : (uint64_t)v[j] ^ flip;
    }
}
