/* close.c -- compares results with what was wanted.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/close.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[] = {"nothing", "tensor", "sequence", "optional", "map"};

/* Twice the relative spacing of the type's numbers; 0 for those finer than the default tolerance. */
static double coarseness(cm_dtype t)
{
    switch (t) {
    case CM_F16:
        return 2.0 / 1024;
    case CM_BF16:
        return 2.0 / 128;
    case CM_F8E4M3FN:
    case CM_F8E4M3FNUZ:
    case CM_F6E2M3:
        return 2.0 / 8;
    case CM_F8E5M2:
    case CM_F8E5M2FNUZ:
    case CM_F6E3M2:
        return 2.0 / 4;
    case CM_F4E2M1:
        return 2.0 / 2;
    case CM_F8E8M0:
        return 2.0;
    default:
        return 0;
    }
}

/* Where element `i` stands, as "[1,0,3]". */
static void position(const cm_tensor *t, int64_t i, char *buf, size_t n)
{
    int64_t at[CM_MAX_RANK];
    for (int a = t->rank - 1; a >= 0; a--) {
        at[a] = t->dims[a] ? i % t->dims[a] : 0;
        i = t->dims[a] ? i / t->dims[a] : 0;
    }
    cm_shape_text(buf, n, t->rank, at);
}

static double element(const cm_tensor *t, int64_t i)
{
    if (t->packed && cm_dtype_is_sub_byte(t->dtype)) {
        int bits = cm_dtype_get(t->dtype)->bits;
        int64_t per = 24 / bits; /* whole elements in whole bytes: 3 bytes hold 12, 6 or 4 */
        unsigned char group[3] = {0}, unpacked[12];
        int64_t g = i / per, have = cm_tensor_elems(t) - g * per;
        int64_t n = have < per ? have : per;
        memcpy(group, (const unsigned char *)t->data + g * 3, (size_t)((n * bits + 7) / 8));
        cm_unpack_sub_byte(t->dtype, group, n, unpacked);
        return cm_get_f64(t->dtype, unpacked, i % per);
    }
    return cm_get_f64(t->dtype, t->data, i);
}

static bool strings_close(const cm_tensor *a, const cm_tensor *b, char *why, size_t n)
{
    for (int64_t i = 0, k = cm_tensor_elems(a); i < k; i++) {
        cm_str x = ((cm_str *)a->data)[i], y = ((cm_str *)b->data)[i];
        if (cm_str_equal(x, y))
            continue;
        char at[128];
        position(a, i, at, sizeof at);
        snprintf(why, n, "at %s found \"%.*s\", wanted \"%.*s\"", at, (int)(x.n > 60 ? 60 : x.n),
                 x.p, (int)(y.n > 60 ? 60 : y.n), y.p);
        return false;
    }
    return true;
}

typedef struct {
    int64_t worst;
    double error; /* of the worst, in multiples of what is allowed */
    int64_t n_wrong;
} verdict;

static void judge(verdict *v, int64_t i, double x, double y, double allowed)
{
    double e;
    if (x == y || (isnan(x) && isnan(y)))
        return;
    if (isnan(x) || isnan(y) || isinf(x) || isinf(y))
        e = INFINITY;
    else
        e = fabs(x - y) / (allowed > 0 ? allowed : 5e-324);
    if (e <= 1)
        return;
    v->n_wrong++;
    if (v->worst < 0 || e > v->error) {
        v->worst = i;
        v->error = e;
    }
}

static void range_of(const cm_tensor *t, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (int64_t i = 0, n = cm_tensor_elems(t); i < n; i++) {
        double x = element(t, i);
        if (isfinite(x)) {
            *low = x < *low ? x : *low;
            *high = x > *high ? x : *high;
        }
    }
}

/* Random results: finite, and inside the wanted range widened by its own width. */
static bool range_close(const cm_tensor *a, const cm_tensor *b, char *why, size_t n)
{
    double low, high;
    range_of(b, &low, &high);
    double width = high > low ? high - low : 1;
    for (int64_t i = 0, k = cm_tensor_elems(a); i < k; i++) {
        double x = element(a, i);
        if (isfinite(x) && x >= low - width && x <= high + width)
            continue;
        snprintf(why, n, "element %lld is %g, far outside the wanted range %g to %g", (long long)i,
                 x, low, high);
        return false;
    }
    return true;
}

static bool tensors_close(const cm_tensor *a, const cm_tensor *b, const cm_tolerance *t, char *why,
                          size_t n)
{
    char at[128], sa[128], sb[128];
    if (a->dtype != b->dtype || !cm_tensor_same_shape(a, b)) {
        snprintf(why, n, "found %s%s, wanted %s%s", cm_dtype_name(a->dtype),
                 cm_shape_text(sa, sizeof sa, a->rank, a->dims), cm_dtype_name(b->dtype),
                 cm_shape_text(sb, sizeof sb, b->rank, b->dims));
        return false;
    }
    if (a->dtype == CM_STR)
        return t->shape_only || strings_close(a, b, why, n);
    cm_tensor pa = *a, pb = *b;
    int64_t parts = 1;
    if (cm_dtype_get(a->dtype)->kind == CM_KIND_COMPLEX) {
        pa.dtype = pb.dtype = a->dtype == CM_C64 ? CM_F32 : CM_F64;
        parts = 2;
    }
    bool real = cm_dtype_get(pa.dtype)->kind == CM_KIND_FLOAT;
    double rtol = real ? fmax(t->rtol, coarseness(a->dtype)) : 0, atol = real ? t->atol : 0;
    if (real && t->scale_atol > 0) {
        double low, high;
        range_of(&pb, &low, &high);
        atol += t->scale_atol * fmax(fabs(low), fabs(high)) * (low <= high);
    }
    verdict v = {.worst = -1};
    for (int64_t i = 0, k = cm_tensor_elems(a) * parts; i < k; i++) {
        double y = element(&pb, i);
        judge(&v, i, element(&pa, i), y, atol + rtol * fabs(y));
    }
    if (v.worst < 0)
        return true;
    if (t->shape_only)
        return range_close(&pa, &pb, why, n);
    position(a, v.worst / parts, at, sizeof at);
    snprintf(why, n, "%lld of %lld elements; worst at %s: found %.9g, wanted %.9g",
             (long long)v.n_wrong, (long long)cm_tensor_elems(a), at, element(&pa, v.worst),
             element(&pb, v.worst));
    return false;
}

bool cm_datum_close(const cm_datum *found, const cm_datum *wanted, const cm_tolerance *t, char *why,
                    size_t n)
{
    /* An optional that holds a value may be stored as the value itself. */
    if (found->kind == CM_OPTIONAL && wanted->kind != CM_OPTIONAL && found->n == 1)
        return cm_datum_close(&found->items[0], wanted, t, why, n);
    if (wanted->kind == CM_OPTIONAL && found->kind != CM_OPTIONAL && wanted->n == 1)
        return cm_datum_close(found, &wanted->items[0], t, why, n);
    if (found->kind != wanted->kind) {
        snprintf(why, n, "found a %s, wanted a %s", kind_names[found->kind],
                 kind_names[wanted->kind]);
        return false;
    }
    if (found->kind == CM_TENSOR)
        return tensors_close(&found->tensor, &wanted->tensor, t, why, n);
    if (found->n != wanted->n) {
        snprintf(why, n, "found %lld items, wanted %lld", (long long)found->n,
                 (long long)wanted->n);
        return false;
    }
    for (int64_t i = 0; i < found->n; i++) {
        char inner[300];
        if (cm_datum_close(&found->items[i], &wanted->items[i], t, inner, sizeof inner))
            continue;
        snprintf(why, n, "item %lld: %s", (long long)i, inner);
        return false;
    }
    return true;
}
