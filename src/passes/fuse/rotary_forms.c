/* rotary_forms.c -- rotary operators as cameo.Rotary, which has kernels.
 *
 *     y = RotaryEmbedding(x, @cos, @sin, ids)          x: [batch, heads, len, size], cos: [n, size / 2]
 *  becomes
 *     c = Gather(@cos, ids); d = Concat(c, c); e = Unsqueeze(d, @1)
 *     y = cameo.Rotary(x, e, ...)                      the same for sin
 *
 * and com.microsoft.RotaryEmbedding likewise; of rank 3, x is seen as [batch, len, heads, size]. Where only the first columns
 * of heads are rotated these are split off, and put together with the others behind. Fires when every token has a position of its
 * own, or angles are given for each.
 *
 * needs: types    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/heads_view.h"

typedef struct {
    cm_value *x, *cos, *sin, *ids;
    int64_t heads, head; /* how many of how many columns */
    int64_t size;        /* columns of a head that are rotated, the first ones */
    bool interleaved;
} form;

static bool read(const cm_node *n, form *f)
{
    bool onnx = cm_is(n, CM_OP_ROTARY_EMBEDDING);
    if ((!onnx && !cm_is(n, CM_OP_MS_ROTARY_EMBEDDING)) || n->n_in < 3)
        return false;
    *f = (form){.x = n->in[0],
                .cos = n->in[onnx ? 1 : 2],
                .sin = n->in[onnx ? 2 : 3],
                .ids = onnx ? (n->n_in > 3 ? n->in[3] : NULL) : n->in[1],
                .heads = cm_int(n, "num_heads"),
                .interleaved = cm_int(n, "interleaved") != 0};
    int rank = cm_rank(f->x);
    if ((rank != 3 && rank != 4) || cm_rank(f->cos) != (f->ids ? 2 : 3) ||
        cm_rank(f->sin) != cm_rank(f->cos) || (f->ids && cm_rank(f->ids) != 2) ||
        (!onnx && cm_int(n, "is_packed_batching")))
        return false;
    cm_dim columns = f->x->type.dims[rank - 1], half = f->cos->type.dims[cm_rank(f->cos) - 1];
    if (!cm_dim_is_size(columns) || !cm_dim_is_size(half) || half < 1)
        return false;
    f->size = 2 * half;
    int64_t rotated = cm_int(n, "rotary_embedding_dim");
    if (rank == 3 && !f->heads)
        f->heads = rotated ? 0 : columns / f->size;
    f->head = rank == 4 ? columns : f->heads > 0 ? columns / f->heads : 0;
    if (rank == 3 && f->heads * f->head != columns)
        return false;
    return rotated == 0 ? f->head == f->size : rotated == f->size && f->size <= f->head;
}

/* The columns that are rotated, and those that are not. */
static cm_status split(cm_rewriter *rw, cm_node *n, const form *f, cm_value *v, cm_node **out)
{
    const int64_t two = 2, sizes[] = {f->size, f->head - f->size};
    cm_value *at;
    void *attr;
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &two, sizes, &at));
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_SPLIT, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_SPLIT, attr, "axis", -1));
    return cm_make_with(rw, n, CM_OP_SPLIT, attr, n, (cm_value *[]){v, at}, 2, 2, out);
}

static cm_status join(cm_rewriter *rw, cm_node *n, cm_value *a, cm_value *b, cm_node **out)
{
    void *attr;
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_CONCAT, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_CONCAT, attr, "axis", -1));
    return cm_make_with(rw, n, CM_OP_CONCAT, attr, n, (cm_value *[]){a, b}, 2, 1, out);
}

static cm_status make_unsqueeze(cm_rewriter *rw, cm_node *n, cm_value *v, int64_t axis,
                                cm_value **out)
{
    static const int64_t one = 1;
    cm_value *at;
    cm_node *m;
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &one, &axis, &at));
    CM_TRY(cm_make(rw, n, CM_OP_UNSQUEEZE, n, (cm_value *[]){v, at}, 2, 1, &m));
    *out = m->out[0];
    return CM_OK;
}

/* Cosines or sines of every column: [batch, 1, len, size], or heads behind the length. */
static cm_status make_angles(cm_rewriter *rw, cm_node *n, const form *f, cm_value *v,
                             cm_value **out)
{
    cm_node *m;
    if (f->ids) {
        CM_TRY(cm_make(rw, n, CM_OP_GATHER, n, (cm_value *[]){v, f->ids}, 2, 1, &m));
        v = m->out[0];
    }
    if (f->interleaved)
        CM_TRY(make_unsqueeze(rw, n, v, 3, &v));
    CM_TRY(join(rw, n, v, v, &m));
    v = m->out[0];
    if (f->interleaved) {
        const cm_dim dims[] = {v->type.dims[0], v->type.dims[1], f->size};
        CM_TRY(cm_view_as(rw, n, n, v, 3, dims, &v));
    }
    return make_unsqueeze(rw, n, v, cm_rank(f->x) == 4 ? 1 : 2, out);
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, const form *f)
{
    cm_value *in[3] = {f->x}, *y;
    const cm_type *t = &f->x->type;
    cm_node *m, *parts = NULL;
    void *attr;
    if (t->rank == 3) {
        const cm_dim dims[] = {t->dims[0], t->dims[1], f->heads, f->head};
        CM_TRY(cm_view_as(rw, n, n, f->x, 4, dims, &in[0]));
    }
    if (f->size < f->head) {
        CM_TRY(split(rw, n, f, in[0], &parts));
        in[0] = parts->out[0];
    }
    CM_TRY(make_angles(rw, n, f, f->cos, &in[1]));
    CM_TRY(make_angles(rw, n, f, f->sin, &in[2]));
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_FUSED_ROTARY, &attr));
    if (f->interleaved)
        CM_TRY(cm_attr_put_int(rw->cx, CM_OP_FUSED_ROTARY, attr, "interleaved", 1));
    CM_TRY(cm_make_with(rw, n, CM_OP_FUSED_ROTARY, attr, n, in, 3, 1, &m));
    if (parts)
        CM_TRY(join(rw, n, m->out[0], parts->out[1], &m));
    CM_TRY(cm_view_as(rw, n, n, m->out[0], t->rank, t->dims, &y));
    return cm_replace(rw, n, y, m);
}

CM_PASS(rotary_forms)
{
    CM_FOR_NODES (n, g) {
        form f;
        if (!read(n, &f) || !n->out[0]->n_uses)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(rewrite(rw, n, &f));
    }
    return CM_OK;
}
