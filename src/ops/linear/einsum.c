/* einsum.c -- Einsum: sums of products of any number of operands, by index labels.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The equation is read into labels: 0..51 for letters, ELLIPSIS + i for the i-th axis from the
 * right that "..." stands for. Operands are folded from the left, two at a time: each step is one
 * batched matrix product, with labels that neither the output nor a later operand needs summed away,
 * and its result kept as double or int64 until the last. */
#include "ops/eval.h"
#include "ops/linear/gemm.h"

#include <string.h>

#include "base/size.h"

typedef struct {
    uint64_t present;
    cm_str equation;
} einsum_attr;

CM_ATTRS(einsum, einsum_attr, CM_ATTR_STR_REQUIRED(einsum_attr, equation))

enum { ELLIPSIS = 52, N_LABELS = ELLIPSIS + CM_MAX_RANK, WILD = -1 };

/* Labels of one term, in order; WILD stands for the whole ellipsis until its size is known. */
typedef struct {
    int n;
    int label[CM_MAX_RANK + 1];
} term;

static int letter(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

/* Read one term from *p up to a comma, an arrow or the end. */
static cm_status read_term(cm_ctx *cx, const char **p, const char *end, term *t)
{
    bool ellipsis = false;
    t->n = 0;
    while (*p < end && **p != ',' && **p != '-') {
        int label = letter(**p);
        if (**p == ' ') {
            ++*p;
            continue;
        }
        if (label < 0 && end - *p >= 3 && memcmp(*p, "...", 3) == 0 && !ellipsis) {
            label = WILD;
            ellipsis = true;
            *p += 2;
        } else if (label < 0) {
            return cm_fail(cx, CM_ERR_MODEL, "equation has '%c' where an index was wanted", **p);
        }
        if (t->n > CM_MAX_RANK - !ellipsis)
            return cm_fail(cx, CM_ERR_MODEL, "a term of the equation has more than %d indices",
                           CM_MAX_RANK);
        t->label[t->n++] = label;
        ++*p;
    }
    return CM_OK;
}

/* All terms: n operands' and the output's. *has_output: was there an arrow? */
static cm_status read_equation(cm_ctx *cx, cm_str s, int n, term *in, term *out, bool *has_output)
{
    const char *p = s.p, *end = s.p + s.n;
    *has_output = false;
    for (int i = 0; i < n; i++) {
        CM_TRY(read_term(cx, &p, end, &in[i]));
        if (i + 1 < n && (p == end || *p != ','))
            return cm_fail(cx, CM_ERR_MODEL, "equation has %d terms for %d operands", i + 1, n);
        p += i + 1 < n;
    }
    if (p < end && *p == ',')
        return cm_fail(cx, CM_ERR_MODEL, "equation has more terms than the %d operands", n);
    if (p == end)
        return CM_OK;
    if (end - p < 2 || p[1] != '>')
        return cm_fail(cx, CM_ERR_MODEL, "equation has '-' without '>'");
    p += 2;
    *has_output = true;
    CM_TRY(read_term(cx, &p, end, out));
    return p == end ? CM_OK : cm_fail(cx, CM_ERR_MODEL, "equation goes on after the output term");
}

/* Put the labels of the ellipsis, of `size` axes, in its place. */
static cm_status widen(cm_ctx *cx, term *t, int size)
{
    term w = {0};
    for (int i = 0; i < t->n; i++) {
        int count = t->label[i] == WILD ? size : 1;
        if (w.n + count > CM_MAX_RANK)
            return cm_fail(cx, CM_ERR_MODEL, "a term of the equation has more than %d indices",
                           CM_MAX_RANK);
        for (int k = 0; k < count; k++)
            w.label[w.n++] = t->label[i] == WILD ? ELLIPSIS + size - 1 - k : t->label[i];
    }
    *t = w;
    return CM_OK;
}

static bool has_wild(const term *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->label[i] == WILD)
            return true;
    return false;
}

/* Without an arrow: the ellipsis, then letters that appear exactly once, in order. */
static cm_status implicit_output(cm_ctx *cx, int n, const term *in, term *out)
{
    int count[ELLIPSIS] = {0};
    bool wild = false;
    out->n = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < in[i].n; k++) {
            if (in[i].label[k] == WILD)
                wild = true;
            else
                count[in[i].label[k]]++;
        }
    if (wild)
        out->label[out->n++] = WILD;
    for (int l = 0; l < ELLIPSIS; l++) {
        if (count[l] != 1)
            continue;
        if (out->n > CM_MAX_RANK - !wild)
            return cm_fail(cx, CM_ERR_MODEL, "the output has more than %d indices", CM_MAX_RANK);
        out->label[out->n++] = l;
    }
    return CM_OK;
}

/* The equation against operands of the given ranks: labels for every axis. */
static cm_status resolve(cm_ctx *cx, cm_str equation, int n, const int *ranks, term *in, term *out)
{
    bool explicit_output;
    int widest = 0;
    CM_TRY(read_equation(cx, equation, n, in, out, &explicit_output));
    if (!explicit_output)
        CM_TRY(implicit_output(cx, n, in, out));
    for (int i = 0; i < n; i++) {
        int size = ranks[i] - in[i].n + has_wild(&in[i]);
        if (has_wild(&in[i]) ? size < 0 : size != 0)
            return cm_fail(cx, CM_ERR_MODEL,
                           "term %d of the equation has %d indices, operand of rank %d", i,
                           in[i].n - has_wild(&in[i]), ranks[i]);
        CM_TRY(widen(cx, &in[i], has_wild(&in[i]) ? size : 0));
        if (size > widest)
            widest = size;
    }
    CM_TRY(widen(cx, out, widest));
    bool seen[N_LABELS] = {false}, used[N_LABELS] = {false};
    for (int i = 0; i < n; i++)
        for (int k = 0; k < in[i].n; k++)
            used[in[i].label[k]] = true;
    for (int k = 0; k < out->n; k++) {
        if (seen[out->label[k]] || !used[out->label[k]])
            return cm_fail(cx, CM_ERR_MODEL,
                           "an output index of the equation is repeated or unknown");
        seen[out->label[k]] = true;
    }
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const einsum_attr *a = f->attr;
    cm_arena_mark mark = cm_arena_save(f->cx->scratch);
    term *in, out;
    int *ranks;
    CM_NEW_N(f->cx, f->cx->scratch, in, f->n_in, term);
    CM_NEW_N(f->cx, f->cx->scratch, ranks, f->n_in, int);
    for (int i = 0; i < f->n_in; i++) {
        if (!cm_infer_has(f, i))
            return cm_fail(f->cx, CM_ERR_MODEL, "operand %d is absent", i);
        if (!cm_infer_ranked(f, i)) {
            cm_infer_unknown(f, 0);
            bool arrow;
            return read_equation(f->cx, a->equation, f->n_in, in, &out, &arrow);
        }
        ranks[i] = cm_infer_rank(f, i);
    }
    CM_TRY(resolve(f->cx, a->equation, f->n_in, ranks, in, &out));
    cm_dim size[N_LABELS], dims[CM_MAX_RANK];
    for (int l = 0; l < N_LABELS; l++)
        size[l] = 1;
    for (int i = 0; i < f->n_in; i++)
        for (int k = 0; k < in[i].n; k++) {
            int rank = 1;
            cm_dim d = cm_infer_dim(f, i, k);
            CM_TRY(cm_broadcast_dims(f, &rank, &size[in[i].label[k]], 1, &d));
        }
    for (int k = 0; k < out.n; k++)
        dims[k] = size[out.label[k]];
    cm_arena_restore(f->cx->scratch, mark);
    return cm_infer_tensor(f, 0, out.n, dims);
}

/* An operand: data, and the stride of each label (0 when it does not have it, or broadcasts). */
typedef struct {
    cm_dtype dtype;
    void *data;
    bool has[N_LABELS];
    int64_t stride[N_LABELS];
} view;

/* One pairwise step: where rows, columns, summed positions and batches lie in a, b and c. */
typedef struct {
    const view *a, *b, *c;
    const int64_t *a_batch, *b_batch, *c_batch, *a_row, *c_row, *b_col, *c_col, *a_sum, *b_sum;
} step;

#define LOADS_AND_STORE(NUM, suffix)                                                               \
    static void load_a_##suffix(const void *arg, int64_t batch, int64_t row, int64_t col,          \
                                int64_t n, NUM *dst)                                               \
    {                                                                                              \
        const step *s = arg;                                                                       \
        int64_t base = s->a_batch[batch] + s->a_row[row];                                          \
        for (int64_t j = 0; j < n; j++)                                                            \
            dst[j] = cm_get_##suffix(s->a->dtype, s->a->data, base + s->a_sum[col + j]);           \
    }                                                                                              \
    static void load_b_##suffix(const void *arg, int64_t batch, int64_t row, int64_t col,          \
                                int64_t n, NUM *dst)                                               \
    {                                                                                              \
        const step *s = arg;                                                                       \
        int64_t base = s->b_batch[batch] + s->b_sum[row];                                          \
        for (int64_t j = 0; j < n; j++)                                                            \
            dst[j] = cm_get_##suffix(s->b->dtype, s->b->data, base + s->b_col[col + j]);           \
    }                                                                                              \
    static void store_##suffix(void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,      \
                               const NUM *src)                                                     \
    {                                                                                              \
        const step *s = arg;                                                                       \
        int64_t base = s->c_batch[batch] + s->c_row[row];                                          \
        for (int64_t j = 0; j < n; j++)                                                            \
            cm_set_##suffix(s->c->dtype, s->c->data, base + s->c_col[col + j], src[j]);            \
    }

LOADS_AND_STORE(double, f64)
LOADS_AND_STORE(int64_t, i64)

/* Offsets of `v` for every combination of the labels in `group`, in the order of the labels. */
static cm_status offsets(cm_eval *e, const view *v, const bool *group, const int64_t *size,
                         int64_t count, const int64_t **out)
{
    void *p;
    CM_TRY(cm_eval_scratch(e, (size_t)count, sizeof(int64_t), &p));
    int64_t *o = p, done = 1; /* o[0] is 0 */
    *out = o;
    if (count == 0)
        return CM_OK;
    for (int l = N_LABELS - 1; l >= 0; l--) {
        if (!group[l])
            continue;
        for (int64_t i = done; i < done * size[l]; i++)
            o[i] = o[i % done] + i / done * v->stride[l];
        done *= size[l];
    }
    return CM_OK;
}

static bool volume(const bool *group, const int64_t *size, int64_t *out)
{
    *out = 1;
    for (int l = 0; l < N_LABELS; l++)
        if (group[l] && !cm_mul_i64(*out, size[l], out))
            return false;
    return true;
}

/* c = sum over labels not in c of a * b. c's labels, strides and memory are set. */
static cm_status contract(cm_eval *e, const view *a, const view *b, view *c, const int64_t *size)
{
    bool batch[N_LABELS], row[N_LABELS], col[N_LABELS], sum[N_LABELS];
    for (int l = 0; l < N_LABELS; l++) {
        batch[l] = c->has[l] && a->has[l] && b->has[l];
        row[l] = c->has[l] && a->has[l] && !b->has[l];
        col[l] = c->has[l] && !a->has[l] && b->has[l];
        sum[l] = !c->has[l] && (a->has[l] || b->has[l]);
    }
    int64_t n_batch, m, n, k;
    if (!volume(batch, size, &n_batch) || !volume(row, size, &m) || !volume(col, size, &n) ||
        !volume(sum, size, &k))
        return cm_fail(e->cx, CM_ERR_DATA, "the sum has too many terms");
    step s = {.a = a, .b = b, .c = c};
    CM_TRY(offsets(e, a, batch, size, n_batch, &s.a_batch));
    CM_TRY(offsets(e, b, batch, size, n_batch, &s.b_batch));
    CM_TRY(offsets(e, c, batch, size, n_batch, &s.c_batch));
    CM_TRY(offsets(e, a, row, size, m, &s.a_row));
    CM_TRY(offsets(e, c, row, size, m, &s.c_row));
    CM_TRY(offsets(e, b, col, size, n, &s.b_col));
    CM_TRY(offsets(e, c, col, size, n, &s.c_col));
    CM_TRY(offsets(e, a, sum, size, k, &s.a_sum));
    CM_TRY(offsets(e, b, sum, size, k, &s.b_sum));
    if (cm_dtype_is_float(c->dtype)) {
        cm_gemm_f64 g = {n_batch, m, n, k, load_a_f64, load_b_f64, store_f64, &s, &s, &s};
        return cm_gemm_run_f64(e->cx, e->threads, &g);
    }
    cm_gemm_i64 g = {n_batch, m, n, k, load_a_i64, load_b_i64, store_i64, &s, &s, &s};
    return cm_gemm_run_i64(e->cx, e->threads, &g);
}

/* Operand i as a view: a repeated label walks the diagonal; an axis of 1 may broadcast. */
static view view_of(const cm_tensor *t, const term *labels, const int64_t *size)
{
    view v = {.dtype = t->dtype, .data = t->data};
    int64_t stride = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        int l = labels->label[d];
        v.has[l] = true;
        if (t->dims[d] == size[l])
            v.stride[l] += stride;
        stride *= t->dims[d];
    }
    return v;
}

/* A place for an intermediate result with the labels of a and b that are still needed. */
static cm_status intermediate(cm_eval *e, const view *a, const view *b, const int *needed,
                              const int64_t *size, view *c)
{
    size_t elems = 1;
    *c = (view){.dtype = cm_dtype_is_float(a->dtype) ? CM_F64 : CM_I64};
    for (int l = N_LABELS - 1; l >= 0; l--) {
        c->has[l] = (a->has[l] || b->has[l]) && needed[l] > 0;
        if (!c->has[l])
            continue;
        c->stride[l] = (int64_t)elems;
        if (!cm_mul(elems, (size_t)size[l], &elems) || elems > INT64_MAX / 8)
            return cm_fail(e->cx, CM_ERR_DATA, "an intermediate result is too large");
    }
    return cm_eval_scratch(e, elems, 8, &c->data);
}

static void measure(cm_eval *e, const term *in, int64_t *size, int *needed)
{
    for (int l = 0; l < N_LABELS; l++)
        size[l] = 1;
    for (int i = 0; i < e->n_in; i++) {
        bool counted[N_LABELS] = {false};
        for (int k = 0; k < in[i].n; k++) {
            int l = in[i].label[k];
            int64_t d = cm_eval_in(e, i)->dims[k];
            if (d != 1)
                size[l] = d;
            needed[l] += !counted[l];
            counted[l] = true;
        }
    }
}

static cm_status eval(cm_eval *e)
{
    const einsum_attr *a = e->attr;
    cm_tensor *y = cm_eval_out(e, 0);
    term *in, out;
    int *ranks, needed[N_LABELS] = {0}; /* by how many operands to come, and the output */
    int64_t size[N_LABELS], one_i64 = 1;
    double one_f64 = 1;
    CM_NEW_N(e->cx, e->cx->scratch, in, e->n_in, term);
    CM_NEW_N(e->cx, e->cx->scratch, ranks, e->n_in, int);
    for (int i = 0; i < e->n_in; i++)
        ranks[i] = cm_eval_in(e, i)->rank;
    CM_TRY(resolve(e->cx, a->equation, e->n_in, ranks, in, &out));
    measure(e, in, size, needed);
    view one = {.dtype = CM_I64, .data = &one_i64}, result = {.dtype = y->dtype, .data = y->data};
    if (cm_dtype_is_float(y->dtype))
        one = (view){.dtype = CM_F64, .data = &one_f64};
    int64_t stride = 1;
    for (int k = out.n - 1; k >= 0; k--) {
        needed[out.label[k]]++;
        result.has[out.label[k]] = true;
        result.stride[out.label[k]] = stride;
        stride *= y->dims[k];
    }
    view left = one;
    for (int i = 0; i < e->n_in; i++) {
        view right = view_of(cm_eval_in(e, i), &in[i], size), next = result;
        for (int l = 0; l < N_LABELS; l++)
            needed[l] -= right.has[l];
        if (i == 0 && e->n_in > 1) { /* nothing to multiply yet */
            left = right;
            continue;
        }
        if (i + 1 < e->n_in)
            CM_TRY(intermediate(e, &left, &right, needed, size, &next));
        CM_TRY(contract(e, &left, &right, &next, size));
        left = next;
    }
    return CM_OK;
}

/* Two operations for every combination of labels, as if nothing were summed early. */
static void cost(const cm_infer *f, cm_cost *c)
{
    enum { MOST = 8 };
    const einsum_attr *a = f->attr;
    term in[MOST], out;
    int ranks[MOST];
    double size[N_LABELS];
    c->ops = 2 * cm_infer_volume(f, &f->out[0].type);
    for (int i = 0; i < f->n_in; i++) {
        if (f->n_in > MOST || !cm_infer_ranked(f, i))
            return;
        ranks[i] = cm_infer_rank(f, i);
    }
    if (resolve(f->cx, a->equation, f->n_in, ranks, in, &out) != CM_OK)
        return;
    for (int l = 0; l < N_LABELS; l++)
        size[l] = 1;
    for (int i = 0; i < f->n_in; i++)
        for (int k = 0; k < in[i].n; k++) {
            double d = cm_infer_extent(f, cm_infer_dim(f, i, k));
            size[in[i].label[k]] = d != 1 ? d : size[in[i].label[k]];
        }
    c->ops = 2;
    for (int l = 0; l < N_LABELS; l++)
        c->ops *= size[l];
}

const cm_family cm_family_einsum = {.name = "einsum", .infer = infer, .eval = eval, .cost = cost};
