/* where.c -- elements of one tensor or another, as a condition says.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/elementwise.h"

typedef struct {
    cm_spread condition, x, y;
    cm_tensor *out;
} job;

static void compute(void *arg, int64_t at, int64_t n)
{
    const job *j = arg;
    cm_block c, a, b;
    size_t size = j->x.size;
    const unsigned char *yes = cm_spread_get(&j->condition, at, n, &c);
    const unsigned char *x = cm_spread_get(&j->x, at, n, &a), *y = cm_spread_get(&j->y, at, n, &b);
    unsigned char *dst = (unsigned char *)j->out->data + (size_t)at * size;
    for (size_t i = 0; i < (size_t)n; i++)
        memcpy(dst + i * size, (yes[i] ? x : y) + i * size, size);
}

static cm_status eval(cm_eval *e)
{
    job j = {.out = cm_eval_out(e, 0)};
    cm_spread_init(&j.condition, cm_eval_in(e, 0), j.out);
    cm_spread_init(&j.x, cm_eval_in(e, 1), j.out);
    cm_spread_init(&j.y, cm_eval_in(e, 2), j.out);
    return cm_eval_blocks(e, cm_tensor_elems(j.out), compute, &j);
}

static cm_status infer(cm_infer *f)
{
    cm_dim v[3 * CM_MAX_ELEMS], r[CM_MAX_ELEMS];
    int n;
    int64_t yes;
    CM_TRY(cm_infer_broadcast(f, 0, 0, 3));
    if (!cm_infer_elems_together(f, 3, v, &n))
        return CM_OK;
    for (int i = 0; i < n; i++) {
        cm_dim x = v[CM_MAX_ELEMS + i], y = v[2 * CM_MAX_ELEMS + i];
        r[i] = CM_DIM_ERROR;
        if (x == y)
            r[i] = x;
        else if (cm_infer_const(f, v[i], &yes))
            r[i] = yes ? x : y;
    }
    cm_infer_set_elems(f, 0, r, n);
    return CM_OK;
}

const cm_family cm_family_where = {.name = "where", .infer = infer, .eval = eval};
