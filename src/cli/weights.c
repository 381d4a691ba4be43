/* weights.c -- the 2:4 pattern: two of every four weights that are summed over are zero.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/weights.h"

#include <math.h>

static int summed_by(const cm_use *u, int rank)
{
    if (!u->node || u->index != 1)
        return -1;
    const cm_node *n = u->node;
    switch (n->op->id) {
    case CM_OP_MATMUL:
        return rank >= 2 ? rank - 2 : -1;
    case CM_OP_CONV:
        return rank >= 3 ? 1 : -1;
    case CM_OP_GEMM: {
        const cm_attr_field *f = cm_attr_find(n->op->attrs, "transB");
        return rank == 2 ? *(const int64_t *)cm_attr_get(n->attr, f) != 0 : -1;
    }
    default:
        return -1;
    }
}

int cm_weight_summed_axis(const cm_value *v)
{
    int axis = -1;
    if (!v->constant)
        return -1;
    for (const cm_use *u = v->uses; u; u = u->next) {
        int by = summed_by(u, v->constant->rank);
        if (by < 0 || (axis >= 0 && by != axis))
            return -1;
        axis = by;
    }
    return axis;
}

bool cm_fours_of(const cm_tensor *t, int axis, cm_fours *out)
{
    if (axis < 0 || axis >= t->rank || !cm_dtype_is_float(t->dtype) ||
        cm_dtype_is_sub_byte(t->dtype) || t->dims[axis] % 4)
        return false;
    *out = (cm_fours){1, t->dims[axis], 1};
    for (int i = 0; i < axis; i++)
        out->outer *= t->dims[i];
    for (int i = axis + 1; i < t->rank; i++)
        out->inner *= t->dims[i];
    return true;
}

/* Where the four begins: number k of the fours at (outer o, inner i). */
static int64_t start_of(const cm_fours *f, int64_t o, int64_t k, int64_t i)
{
    return (o * f->length + 4 * k) * f->inner + i;
}

static bool four_holds(const cm_tensor *t, const cm_fours *f, int64_t at)
{
    int n = 0;
    for (int j = 0; j < 4; j++)
        n += cm_get_f64(t->dtype, t->data, at + j * f->inner) != 0;
    return n <= 2;
}

bool cm_fours_hold(const cm_tensor *t, const cm_fours *f)
{
    for (int64_t o = 0; o < f->outer; o++)
        for (int64_t k = 0; k < f->length / 4; k++)
            for (int64_t i = 0; i < f->inner; i++)
                if (!four_holds(t, f, start_of(f, o, k, i)))
                    return false;
    return true;
}

/* Of equal ones the first stays. */
static void prune_four(cm_tensor *t, const cm_fours *f, int64_t at, double *before, double *after)
{
    double v[4];
    int keep[2] = {0, -1};
    for (int j = 0; j < 4; j++) {
        v[j] = cm_get_f64(t->dtype, t->data, at + j * f->inner);
        *before += v[j] * v[j];
    }
    for (int j = 1; j < 4; j++)
        if (fabs(v[j]) > fabs(v[keep[0]]))
            keep[0] = j;
    for (int j = 0; j < 4; j++)
        if (j != keep[0] && (keep[1] < 0 || fabs(v[j]) > fabs(v[keep[1]])))
            keep[1] = j;
    for (int j = 0; j < 4; j++) {
        if (j == keep[0] || j == keep[1])
            *after += v[j] * v[j];
        else
            cm_set_f64(t->dtype, t->data, at + j * f->inner, 0);
    }
}

void cm_fours_prune(cm_tensor *t, const cm_fours *f, double *before, double *after)
{
    *before = *after = 0;
    for (int64_t o = 0; o < f->outer; o++)
        for (int64_t k = 0; k < f->length / 4; k++)
            for (int64_t i = 0; i < f->inner; i++)
                prune_four(t, f, start_of(f, o, k, i), before, after);
}
