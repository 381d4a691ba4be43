/* space.c -- DepthToSpace and SpaceToDepth: blocks of the image against channels.
 *
 * Both are one transposition of six axes. A channel of the deep side is (row, column, c) of the
 * block in mode DCR and (c, row, column) in mode CRD.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/move/move.h"

typedef struct {
    uint64_t present;
    int64_t blocksize;
    cm_str mode;
} space_attr;
CM_ATTRS(depth_to_space, space_attr, CM_ATTR_INT_REQUIRED(space_attr, blocksize),
         CM_ATTR_STR(space_attr, mode, "DCR"))
CM_ATTRS(space_to_depth, space_attr, CM_ATTR_INT_REQUIRED(space_attr, blocksize),
         CM_ATTR_STR(space_attr, mode, "DCR"))

static bool is_crd(const space_attr *a)
{
    return cm_str_equal(a->mode, cm_str_of("CRD"));
}

/* size / by, which must be exact where that can be seen. */
static cm_status divide(cm_infer *f, const char *what, cm_dim size, int64_t by, cm_dim *out)
{
    int64_t v;
    if (cm_infer_const(f, size, &v) && v % by != 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "%lld %s do not divide by %lld", (long long)v, what,
                       (long long)by);
    *out = cm_infer_floor_div(f, size, by);
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const space_attr *a = f->attr;
    int64_t b = a->blocksize;
    if (b < 1 || b > INT32_MAX)
        return cm_fail(f->cx, CM_ERR_MODEL, "blocksize is %lld", (long long)b);
    if (!is_crd(a) && !cm_str_equal(a->mode, cm_str_of("DCR")))
        return cm_fail(f->cx, CM_ERR_MODEL, "mode is '%.*s', wanted DCR or CRD",
                       (int)cm_min_i64((int64_t)a->mode.n, 40), a->mode.p ? a->mode.p : "");
    if (!cm_infer_ranked(f, 0))
        return cm_move_fresh_shape(f, 0, 4);
    if (cm_infer_rank(f, 0) != 4)
        return cm_fail(f->cx, CM_ERR_MODEL, "the input has rank %d, wanted 4", cm_infer_rank(f, 0));
    const cm_dim *x = f->in[0].type->dims;
    cm_dim dims[4] = {x[0]};
    if (f->op->id == CM_OP_DEPTH_TO_SPACE) {
        CM_TRY(divide(f, "channels", x[1], b * b, &dims[1]));
        dims[2] = cm_infer_mul(f, x[2], b);
        dims[3] = cm_infer_mul(f, x[3], b);
    } else {
        dims[1] = cm_infer_mul(f, x[1], b * b);
        CM_TRY(divide(f, "rows", x[2], b, &dims[2]));
        CM_TRY(divide(f, "columns", x[3], b, &dims[3]));
    }
    return cm_move_shape(f, 0, 4, dims);
}

static cm_status eval(cm_eval *e)
{
    const space_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    bool to_space = e->op->id == CM_OP_DEPTH_TO_SPACE;
    const cm_tensor *deep = to_space ? x : y, *wide = to_space ? y : x;
    int64_t b = a->blocksize, c = wide->dims[1], h = deep->dims[2], w = deep->dims[3];
    int64_t plane = h * w;
    int64_t of_c = is_crd(a) ? b * b * plane : plane; /* strides of c, row, column when deep */
    int64_t of_row = is_crd(a) ? b * plane : b * c * plane;
    int64_t of_column = is_crd(a) ? plane : c * plane;
    const int64_t dims[6] = {x->dims[0], c, h, b, w, b};
    const int64_t in_wide[6] = {c * plane * b * b, plane * b * b, b * w * b, w * b, b, 1};
    const int64_t in_deep[6] = {c * plane * b * b, of_c, w, of_row, 1, of_column};
    cm_move m = {.elem_bytes = cm_dtype_size(x->dtype)};
    static const int deep_order[2][6] = {{0, 3, 5, 1, 2, 4}, {0, 1, 3, 5, 2, 4}};
    for (int i = 0; i < 6; i++) {
        int k = to_space ? i : deep_order[is_crd(a)][i]; /* in the order of the output */
        cm_move_axis(&m, dims[k], to_space ? in_deep[k] : in_wide[k],
                     to_space ? in_wide[k] : in_deep[k]);
    }
    cm_move_run(&m, x->data, y->data, e->threads);
    return CM_OK;
}

const cm_family cm_family_space = {"space", infer, eval, cm_move_cost};
