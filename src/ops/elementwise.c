/* elementwise.c -- walking outputs block by block, with inputs broadcast to them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/elementwise.h"

#include <string.h>

typedef struct {
    cm_block_fn fn;
    void *arg;
    int64_t offset;
} walk;

static void walk_range(void *p, int64_t begin, int64_t end)
{
    const walk *w = p;
    for (int64_t at = begin; at < end; at += CM_BLOCK) {
        int64_t n = end - at < CM_BLOCK ? end - at : CM_BLOCK;
        w->fn(w->arg, w->offset + at, n);
    }
}

cm_status cm_eval_blocks(cm_eval *e, int64_t n, cm_block_fn fn, void *arg)
{
    enum { STRETCH = 1 << 22, GRAIN = 16 * CM_BLOCK };
    for (int64_t at = 0; at < n; at += STRETCH) {
        walk w = {fn, arg, at};
        cm_parallel(e->threads, n - at < STRETCH ? n - at : STRETCH, GRAIN, walk_range, &w);
        CM_TRY(cm_check_cancel(e->cx));
    }
    return CM_OK;
}

void cm_spread_init(cm_spread *s, const cm_tensor *in, const cm_tensor *out)
{
    int64_t strides[CM_MAX_RANK];
    *s = (cm_spread){.data = in->data, .dtype = in->dtype, .size = cm_dtype_size(in->dtype)};
    if (cm_tensor_elems(in) == cm_tensor_elems(out))
        return; /* SAME: what differs is axes of size 1 */
    if (cm_tensor_elems(in) == 1) {
        s->mode = CM_SPREAD_SCALAR;
        return;
    }
    s->mode = CM_SPREAD_WALK;
    cm_broadcast_strides(in, out->rank, out->dims, strides);
    for (int a = 0; a < out->rank; a++) {
        int last = s->rank - 1;
        if (out->dims[a] == 1)
            continue;
        if (s->rank && s->strides[last] == strides[a] * out->dims[a]) { /* one run, or both 0 */
            s->dims[last] *= out->dims[a];
            s->strides[last] = strides[a];
        } else {
            s->dims[s->rank] = out->dims[a];
            s->strides[s->rank++] = strides[a];
        }
    }
}

static void fill(void *dst, const void *one, size_t size, int64_t n)
{
    unsigned char *d = dst;
    switch (size) {
    case 1:
        memset(d, *(const unsigned char *)one, (size_t)n);
        break;
    case 4: {
        uint32_t v;
        memcpy(&v, one, 4);
        for (int64_t i = 0; i < n; i++)
            memcpy(d + 4 * i, &v, 4);
        break;
    }
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(d + size * (size_t)i, one, size);
    }
}

static void gather(const cm_spread *s, int64_t at, int64_t n, unsigned char *dst)
{
    int64_t index[CM_MAX_RANK] = {0}, from = 0;
    int last = s->rank - 1;
    for (int a = last; a >= 0; a--) {
        index[a] = at % s->dims[a];
        at /= s->dims[a];
        from += index[a] * s->strides[a];
    }
    while (n > 0) {
        int64_t run = s->dims[last] - index[last];
        run = run < n ? run : n;
        if (s->strides[last])
            memcpy(dst, s->data + (size_t)from * s->size, (size_t)run * s->size);
        else
            fill(dst, s->data + (size_t)from * s->size, s->size, run);
        dst += (size_t)run * s->size;
        n -= run;
        from += run * s->strides[last];
        index[last] += run;
        for (int a = last; a > 0 && index[a] == s->dims[a]; a--) { /* carry */
            from += s->strides[a - 1] - index[a] * s->strides[a];
            index[a] = 0;
            index[a - 1]++;
        }
    }
}

const void *cm_spread_get(const cm_spread *s, int64_t at, int64_t n, cm_block *buf)
{
    if (s->mode == CM_SPREAD_SAME)
        return s->data + (size_t)at * s->size;
    if (s->mode == CM_SPREAD_SCALAR)
        fill(buf, s->data, s->size, n);
    else
        gather(s, at, n, buf->bytes);
    return buf;
}

void cm_spread_f64(const cm_spread *s, int64_t at, int64_t n, double *dst)
{
    cm_block buf;
    if (s->mode == CM_SPREAD_SCALAR) {
        double v = cm_get_f64(s->dtype, s->data, 0);
        for (int64_t i = 0; i < n; i++)
            dst[i] = v;
        return;
    }
    cm_load_f64(s->dtype, cm_spread_get(s, at, n, &buf), n, dst);
}

void cm_spread_i64(const cm_spread *s, int64_t at, int64_t n, int64_t *dst)
{
    cm_block buf;
    if (s->mode == CM_SPREAD_SCALAR) {
        int64_t v = cm_get_i64(s->dtype, s->data, 0);
        for (int64_t i = 0; i < n; i++)
            dst[i] = v;
        return;
    }
    cm_load_i64(s->dtype, cm_spread_get(s, at, n, &buf), n, dst);
}

/* cm_infer_elems, and constants of bool too. */
static bool elems_of(const cm_infer *f, int i, cm_dim *v, int *n)
{
    const cm_tensor *c = f->in[i].constant;
    if (cm_infer_elems(f, i, v, n))
        return true;
    if (!c || c->dtype != CM_BOOL || cm_tensor_elems(c) > CM_MAX_ELEMS)
        return false;
    *n = (int)cm_tensor_elems(c);
    for (int k = 0; k < *n; k++)
        v[k] = cm_get_i64(CM_BOOL, c->data, k);
    return true;
}

bool cm_infer_elems_together(const cm_infer *f, int n_in, cm_dim *v, int *n)
{
    const cm_type *t = &f->out[0].type;
    if (!f->dims || t->rank < 0 || t->rank > 1 ||
        (t->dtype != CM_I64 && t->dtype != CM_I32 && t->dtype != CM_BOOL))
        return false;
    int count[8], most = 1;
    for (int i = 0; i < n_in; i++) {
        if (!cm_infer_has(f, i) || !elems_of(f, i, v + i * CM_MAX_ELEMS, &count[i]))
            return false;
        if (count[i] != 1)
            most = count[i];
    }
    for (int i = 0; i < n_in; i++) {
        if (count[i] != 1 && count[i] != most)
            return false;
        for (int k = 1; count[i] == 1 && k < most; k++)
            v[i * CM_MAX_ELEMS + k] = v[i * CM_MAX_ELEMS];
    }
    *n = most;
    return true;
}

bool cm_infer_elem_fits(const cm_infer *f, cm_dtype t, cm_dim d)
{
    int64_t v;
    return t == CM_I64 || !cm_infer_const(f, d, &v) || (v >= INT32_MIN && v <= INT32_MAX);
}
