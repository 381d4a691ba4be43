/* norm_match.c -- means, maxima and sums over axes as exporters write them, and normalisations by them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/norm_match.h"

#include <math.h>
#include <string.h>

#include "ops/eval.h"

/* ---- Statistics ----------------------------------------------------------------------------- */

static void see(cm_stats *s, const cm_value *v)
{
    if (s->n_values == CM_FORM_MAX)
        s->confused = true;
    else
        s->value[s->n_values++] = v;
}

void cm_meets(cm_stats *s, const cm_value *v)
{
    if (s->n_met == CM_COUNT(s->met))
        s->confused = true;
    else
        s->met[s->n_met++] = v;
}

static bool changes_layout(const cm_node *n)
{
    return cm_is(n, CM_OP_EXPAND) || cm_is(n, CM_OP_RESHAPE) || cm_is(n, CM_OP_SQUEEZE) ||
           cm_is(n, CM_OP_UNSQUEEZE) || cm_is(n, CM_OP_IDENTITY);
}

cm_value *cm_past_layout(cm_stats *s, cm_value *v)
{
    for (const cm_node *n;;) {
        see(s, v);
        cm_value *before = cm_past_casts(&s->form, v);
        if (before != v) {
            v = before;
            continue;
        }
        if (!(n = cm_maker(v)) || !changes_layout(n))
            return v;
        cm_note(&s->form, n);
        v = n->in[0];
    }
}

/* The axes that n reduces, as bits; 0: not known. */
static uint32_t axes_of(const cm_node *n)
{
    int64_t axes[CM_MAX_RANK];
    int k = 0, rank = cm_rank(n->in[0]);
    uint32_t bits = 0;
    if (rank < 1)
        return 0;
    if (cm_is(n, CM_OP_GLOBAL_AVERAGE_POOL))
        return ((1u << rank) - 1) & ~3u;
    if (n->n_in > 1 && n->in[1] && !cm_const_ints(n->in[1], axes, CM_MAX_RANK, &k))
        return 0;
    if (k == 0)
        return cm_int(n, "noop_with_empty_axes") ? 0 : (1u << rank) - 1;
    for (int i = 0; i < k; i++) {
        int64_t a = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (a < 0 || a >= rank)
            return 0;
        bits |= 1u << a;
    }
    return bits;
}

bool cm_reduced(cm_stats *s, cm_value *v, cm_op_id op, cm_value **of)
{
    const cm_node *n = cm_made_by(cm_past_layout(s, v), op);
    uint32_t axes = n ? axes_of(n) : 0;
    if (!axes)
        return false;
    cm_note(&s->form, n);
    if (s->axes && (s->axes != axes || !cm_same_shape(s->reduced, n->in[0])))
        s->confused = true;
    s->axes = axes;
    s->reduced = n->in[0];
    *of = n->in[0];
    return true;
}

/* v = number * something, something a statistic too? */
static cm_value *scaled_down(cm_stats *s, cm_value *v, double *number)
{
    const cm_node *n = cm_maker(cm_past_layout(s, v));
    cm_value *inner = NULL;
    if (cm_is(n, CM_OP_DIV)) {
        inner = cm_first_with_number(n, number);
        *number = 1 / *number;
    } else if (cm_is(n, CM_OP_MUL)) {
        inner = cm_other_than_number(n, number);
    }
    if (inner)
        cm_note(&s->form, n);
    return inner;
}

static double terms(const cm_stats *s, const cm_value *of)
{
    double n = 1;
    for (int a = 0; a < cm_rank(of); a++)
        if (s->axes >> a & 1)
            n *= cm_dim_is_size(of->type.dims[a]) ? (double)of->type.dims[a] : NAN;
    return n;
}

/* Is v the mean over axes of what `mean` or, with a division, `sum` reduces? */
static bool averaged(cm_stats *s, cm_value *v, cm_op_id mean, cm_op_id sum, cm_value **of)
{
    cm_stats before = *s;
    double number;
    if (mean != sum && cm_reduced(s, v, mean, of))
        return true;
    *s = before;
    if (mean != sum && cm_reduced(s, v, CM_OP_GLOBAL_AVERAGE_POOL, of))
        return true;
    *s = before;
    cm_value *total = scaled_down(s, v, &number);
    if (total && cm_reduced(s, total, sum, of) &&
        cm_near_number(number * terms(s, *of), 1, cm_slack(*of)))
        return true;
    *s = before;
    return false;
}

bool cm_mean_of(cm_stats *s, cm_value *v, cm_value **of)
{
    return averaged(s, v, CM_OP_REDUCE_MEAN, CM_OP_REDUCE_SUM, of);
}

typedef enum { KEPT, DROPPED, EXPANDED, OTHER } layout;

static layout layout_of(const cm_stats *s, const cm_value *x, const cm_value *v)
{
    int rank = cm_rank(x), k = 0;
    bool is_kept = true, is_dropped = true, is_expanded = true;
    if (cm_rank(v) == rank) {
        for (int a = 0; a < rank; a++) {
            cm_dim d = v->type.dims[a], full = x->type.dims[a];
            bool reduced = s->axes >> a & 1;
            is_kept = is_kept && d == (reduced ? 1 : full);
            is_expanded = is_expanded && (d == full || (reduced && d == 1));
        }
        return is_kept ? KEPT : is_expanded ? EXPANDED : OTHER;
    }
    for (int a = 0; a < rank; a++) {
        if (s->axes >> a & 1)
            continue;
        is_dropped = is_dropped && k < cm_rank(v) && v->type.dims[k] == x->type.dims[a];
        k++;
    }
    return is_dropped && k == cm_rank(v) ? DROPPED : OTHER;
}

bool cm_stats_fit(const cm_stats *s, const cm_value *x)
{
    if (s->confused || !s->axes || cm_rank(x) < 1 || !cm_same_shape(s->reduced, x) ||
        s->form.n_nodes == CM_FORM_MAX)
        return false;
    for (int i = 0; i < s->n_values; i++)
        if (layout_of(s, x, s->value[i]) == OTHER)
            return false;
    for (int i = 0; i < s->n_met; i++)
        if (cm_rank(s->met[i]) != cm_rank(x))
            return false;
    for (int i = 0; i < s->form.n_nodes; i++) {
        const cm_node *n = s->form.node[i];
        if (!changes_layout(n))
            continue;
        layout from = layout_of(s, x, n->in[0]), to = layout_of(s, x, n->out[0]);
        if (cm_is(n, CM_OP_EXPAND) ? from == DROPPED : (from == EXPANDED) != (to == EXPANDED))
            return false;
        if (from == EXPANDED && !cm_same_shape(n->in[0], n->out[0]) && !cm_is(n, CM_OP_EXPAND))
            return false;
    }
    return true;
}

int cm_one_axis(const cm_stats *s)
{
    for (int a = 0; a < CM_MAX_RANK; a++)
        if (s->axes == 1u << a)
            return a;
    return -1;
}

bool cm_axes_in_a_row(const cm_stats *s, int *first, int *count)
{
    if (!s->axes)
        return false;
    *first = __builtin_ctz(s->axes);
    *count = __builtin_popcount(s->axes);
    return s->axes >> *first == (1u << *count) - 1;
}

int cm_last_axes(const cm_stats *s, int rank)
{
    for (int a = 0; a < rank; a++)
        if (s->axes == (((1u << rank) - 1) & ~((1u << a) - 1)))
            return a;
    return -1;
}

/* ---- Normalisations ------------------------------------------------------------------------- */

static bool square_of(cm_stats *s, cm_value *v, cm_value **base)
{
    double two;
    const cm_node *n = cm_maker(cm_past_casts(&s->form, v));
    if (cm_is(n, CM_OP_MUL) && cm_same_numbers(n->in[0], n->in[1]))
        *base = n->in[0];
    else if (!cm_is(n, CM_OP_POW) || !(*base = cm_first_with_number(n, &two)) || two != 2)
        return false;
    cm_note(&s->form, n);
    return true;
}

static bool mean_square_of(cm_stats *s, cm_value *v, cm_value **base)
{
    cm_stats before = *s;
    cm_value *square;
    if (cm_mean_of(s, v, &square) && square_of(s, square, base))
        return true;
    *s = before;
    return averaged(s, v, CM_OP_REDUCE_SUM_SQUARE, CM_OP_REDUCE_SUM_SQUARE, base);
}

/* v = x - mean(x) (or the other way round, where only squares are wanted)? */
static bool centred(cm_stats *s, cm_value *v, bool either_way, cm_value **x)
{
    cm_stats before = *s;
    const cm_node *n = cm_made_by(cm_past_casts(&s->form, v), CM_OP_SUB);
    for (int i = 0; n && i < (either_way ? 2 : 1); i++) {
        cm_value *of;
        cm_note(&s->form, n);
        if (cm_mean_of(s, n->in[1 - i], &of) && cm_same_numbers(of, n->in[i])) {
            cm_meets(s, n->in[1 - i]);
            *x = cm_root(n->in[i]);
            return true;
        }
        *s = before;
    }
    return false;
}

/* mean(x^2) - mean(x)^2, bounded by 0 or not */
static bool fast_variance(cm_stats *s, cm_value *v, cm_value **x)
{
    cm_value *base, *mean, *of;
    double zero;
    cm_node *n = cm_maker(cm_past_layout(s, v));
    cm_value *inner =
        !n                     ? NULL
        : cm_is(n, CM_OP_RELU) ? n->in[0]
        : cm_is(n, CM_OP_MAX)  ? cm_other_than_number(n, &zero)
        : cm_is(n, CM_OP_CLIP) && cm_is_number(n->in[1], 0, 0) && (n->n_in < 3 || !n->in[2])
            ? n->in[0]
            : NULL;
    if (inner && cm_is(n, CM_OP_MAX) && zero != 0)
        return false;
    if (inner) {
        cm_note(&s->form, n);
        n = cm_maker(cm_past_layout(s, inner));
    }
    if (!cm_is(n, CM_OP_SUB) || !mean_square_of(s, n->in[0], &base))
        return false;
    cm_note(&s->form, n);
    cm_value *square = cm_past_layout(s, n->in[1]);
    if (!square_of(s, square, &mean) || !cm_mean_of(s, mean, &of) || !cm_same_numbers(of, base))
        return false;
    *x = cm_root(base);
    return true;
}

/* v = variance or mean square of something */
static bool spread_of(cm_norm *n, cm_value *v)
{
    cm_stats *s = &n->stats, before = *s;
    cm_value *base;
    if (mean_square_of(s, v, &base)) {
        n->is_centred = centred(s, base, true, &n->x);
        if (!n->is_centred)
            n->x = cm_root(base);
        return true;
    }
    *s = before;
    n->is_centred = true;
    return fast_variance(s, v, &n->x);
}

/* v = spread + epsilon */
static bool guarded_spread(cm_norm *n, cm_value *v)
{
    const cm_node *sum = cm_made_by(cm_past_layout(&n->stats, v), CM_OP_ADD);
    cm_value *inner = sum ? cm_other_than_number(sum, &n->epsilon) : NULL;
    if (!inner) {
        n->epsilon = 0;
        return spread_of(n, v);
    }
    cm_note(&n->stats.form, sum);
    return n->epsilon >= 0 && spread_of(n, inner);
}

/* v = sqrt(spread + epsilon), or with *inverted one over that */
static bool deviation(cm_norm *n, cm_value *v, bool *inverted)
{
    *inverted = false;
    for (int depth = 0; depth < 3; depth++) {
        double p;
        const cm_node *m = cm_maker(cm_past_layout(&n->stats, v));
        if (!m)
            return false;
        cm_note(&n->stats.form, m);
        if (cm_is(m, CM_OP_SQRT))
            return guarded_spread(n, m->in[0]);
        if (cm_is(m, CM_OP_POW) && cm_first_with_number(m, &p) && fabs(p) == 0.5) {
            *inverted ^= p < 0;
            return guarded_spread(n, m->in[0]);
        }
        if (!cm_is(m, CM_OP_RECIPROCAL) && !(cm_is(m, CM_OP_DIV) && cm_is_number(m->in[0], 1, 0)))
            return false;
        *inverted = !*inverted;
        v = m->in[m->n_in - 1];
    }
    return false;
}

/* v = 1 / sqrt(spread + epsilon), times a scale or not */
static bool inverse_deviation(cm_norm *n, cm_value *v)
{
    bool inverted;
    cm_norm before = *n;
    if (deviation(n, v, &inverted) && inverted) {
        cm_meets(&n->stats, v);
        return true;
    }
    *n = before;
    const cm_node *m = cm_made_by(cm_past_casts(&n->stats.form, v), CM_OP_MUL);
    for (int i = 0; m && i < 2; i++) {
        cm_note(&n->stats.form, m);
        if (deviation(n, m->in[i], &inverted) && inverted) {
            cm_meets(&n->stats, m->in[i]);
            n->scale = m->in[1 - i];
            return true;
        }
        *n = before;
    }
    return false;
}

/* Is `above` what is divided by the deviation? */
static bool is_numerator(cm_norm *n, cm_value *above)
{
    cm_value *x;
    if (n->is_centred)
        return centred(&n->stats, above, false, &x) && x == n->x;
    return cm_root(cm_past_casts(&n->stats.form, above)) == n->x;
}

static bool quotient(cm_node *d, cm_norm *n)
{
    bool inverted;
    if (!deviation(n, d->in[1], &inverted) || inverted)
        return false;
    cm_meets(&n->stats, d->in[1]);
    return is_numerator(n, d->in[0]);
}

static bool product(cm_node *d, cm_norm *n)
{
    for (int i = 0; i < 2; i++) {
        memset(n, 0, sizeof *n);
        if (inverse_deviation(n, d->in[i]) && is_numerator(n, d->in[1 - i]))
            return true;
    }
    return false;
}

/* v = Mul(x, t) or Mul(mean, t): the input that is not t. */
static cm_value *times(cm_norm *n, const cm_node *m, const cm_value *t)
{
    if (!m || (m->in[0] != t && m->in[1] != t))
        return NULL;
    cm_note(&n->stats.form, m);
    return m->in[m->in[0] == t];
}

/* x t + (bias - mean t), or x t - mean t, with t = inverse deviation times scale */
static bool multiplied_out(cm_node *d, cm_norm *n)
{
    bool is_sub = cm_is(d, CM_OP_SUB);
    for (int i = 0; i < (is_sub ? 1 : 2); i++) {
        const cm_node *xt = cm_made_by(d->in[i], CM_OP_MUL);
        const cm_node *rest = is_sub ? NULL : cm_made_by(d->in[1 - i], CM_OP_SUB);
        const cm_node *mt = cm_made_by(is_sub ? d->in[1] : rest ? rest->in[1] : NULL, CM_OP_MUL);
        for (int k = 0; xt && mt && k < 2; k++) {
            cm_value *of;
            memset(n, 0, sizeof *n);
            cm_value *mean = times(n, mt, xt->in[k]), *x = xt->in[1 - k];
            if (!mean || !inverse_deviation(n, xt->in[k]) || !n->is_centred ||
                !cm_mean_of(&n->stats, mean, &of) || cm_root(of) != n->x || cm_root(x) != n->x)
                continue;
            cm_meets(&n->stats, mean);
            cm_note(&n->stats.form, xt);
            if (rest) {
                cm_note(&n->stats.form, rest);
                n->bias = rest->in[0];
            }
            return true;
        }
    }
    return false;
}

bool cm_match_norm(cm_node *d, cm_norm *n)
{
    memset(n, 0, sizeof *n);
    if (d->n_in != 2 || !cm_is_float(d->out[0]))
        return false;
    bool ok = cm_is(d, CM_OP_DIV)                          ? quotient(d, n)
              : cm_is(d, CM_OP_MUL)                        ? product(d, n)
              : cm_is(d, CM_OP_ADD) || cm_is(d, CM_OP_SUB) ? multiplied_out(d, n)
                                                           : false;
    n->last = d;
    cm_note(&n->stats.form, d);
    return ok && cm_same_shape(n->x, d->out[0]) && cm_stats_fit(&n->stats, n->x);
}

void cm_norm_follow(cm_norm *n, cm_value *v, cm_node *reader,
                    bool (*fits)(const cm_norm *n, const cm_value *v))
{
    while (reader && cm_is(reader, CM_OP_CAST) && !n->scale && !n->bias &&
           cm_is_float(reader->out[0])) {
        cm_note(&n->stats.form, reader);
        v = reader->out[0];
        n->last = reader;
        reader = cm_only_reader(v);
    }
    if (cm_is(reader, CM_OP_MUL) && !n->scale && !n->bias && reader->in[0] != reader->in[1]) {
        cm_value *scale = reader->in[reader->in[0] == v];
        if (fits(n, scale)) {
            n->scale = scale;
            n->last = reader;
            cm_note(&n->stats.form, reader);
            v = reader->out[0];
            reader = cm_only_reader(v);
        }
    }
    if (cm_is(reader, CM_OP_ADD) && !n->bias && !n->has_no_bias && reader->in[0] != reader->in[1]) {
        cm_value *bias = reader->in[reader->in[0] == v];
        if (fits(n, bias)) {
            n->bias = bias;
            n->last = reader;
            cm_note(&n->stats.form, reader);
        }
    }
}

/* ---- Parameters ----------------------------------------------------------------------------- */

static bool has_dims(const cm_value *v, int rank, const int64_t *dims)
{
    if (cm_rank(v) != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (v->type.dims[i] != dims[i])
            return false;
    return true;
}

cm_status cm_norm_parameter(cm_rewriter *rw, cm_network *g, const char *name, cm_value *v,
                            double absent, cm_dtype dtype, int rank, const int64_t *dims,
                            cm_value **out)
{
    double *full;
    const double *from = NULL;
    int64_t n = 1, n_from = 0, strides[CM_MAX_RANK] = {0};
    if (v && v->type.dtype == dtype && (has_dims(v, rank, dims) || !cm_is_const(v))) {
        *out = v;
        return CM_OK;
    }
    for (int i = 0; i < rank; i++)
        n *= dims[i];
    CM_NEW_N(rw->cx, rw->cx->scratch, full, n, double);
    if (v) {
        cm_tensor t;
        int extra = v->constant->rank > rank ? v->constant->rank - rank : 0; /* leading ones */
        cm_tensor_shape(&t, v->constant->dtype, v->constant->rank - extra,
                        v->constant->dims + extra);
        CM_TRY(cm_const_f64(rw->cx, v, &from, &n_from));
        cm_broadcast_strides(&t, rank, dims, strides);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0, rest = i;
        for (int d = rank - 1; d >= 0; rest /= dims[d--])
            at += rest % dims[d] * strides[d];
        full[i] = v ? from[at] : absent;
    }
    return cm_make_const_f64(rw->cx, g, name, dtype, rank, dims, full, out);
}
