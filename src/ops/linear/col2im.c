/* col2im.c -- Col2Im: columns of blocks added back into an image.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include "base/size.h"
#include "ops/linear/window_shape.h"

typedef struct {
    uint64_t present;
    cm_ints dilations, pads, strides;
} col2im_attr;

CM_ATTRS(col2im, col2im_attr, CM_ATTR_INTS(col2im_attr, dilations, 0),
         CM_ATTR_INTS(col2im_attr, pads, 0), CM_ATTR_INTS(col2im_attr, strides, 0))

static cm_window_attr window_attr(const col2im_attr *a)
{
    return (cm_window_attr){.strides = a->strides, .dilations = a->dilations, .pads = a->pads};
}

/* How many blocks there are must be what the image gives. */
static cm_status check_blocks(cm_infer *f, int n, const cm_dim *image, const cm_dim *block)
{
    cm_window_attr wa = window_attr(f->attr);
    cm_window w;
    cm_dim count[CM_MAX_RANK], blocks = 1;
    CM_TRY(cm_window_read(f, &wa, n, block, &w));
    CM_TRY(cm_window_out(f, &w, image, false, count));
    for (int d = 0; d < n; d++)
        blocks = cm_infer_mul(f, blocks, count[d]);
    return cm_infer_equal(f, "number of blocks", cm_infer_dim(f, 0, 2), blocks);
}

static cm_status infer(cm_infer *f)
{
    cm_dim image[CM_MAX_ELEMS], block[CM_MAX_ELEMS];
    int n = 0, n_block = 0;
    if (f->out[0].type.dtype == CM_STR)
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "strings cannot be added");
    if (cm_infer_ranked(f, 0) && cm_infer_rank(f, 0) != 3)
        return cm_fail(f->cx, CM_ERR_MODEL, "input of rank %d, wanted 3", cm_infer_rank(f, 0));
    bool has_image = cm_infer_elems(f, 1, image, &n);
    bool has_block = cm_infer_elems(f, 2, block, &n_block);
    if (has_image && has_block && n != n_block)
        return cm_fail(f->cx, CM_ERR_MODEL, "image_shape has %d elements, block_shape %d", n,
                       n_block);
    if (!f->dims && !(has_image && has_block))
        return cm_fail(f->cx, CM_ERR_MODEL, "image_shape or block_shape has too many elements");
    if (!cm_infer_ranked(f, 0) || !(has_image || has_block)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    n = has_image ? n : n_block;
    if (n < 1 || n > CM_MAX_RANK - 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "image_shape has %d elements, wanted 1 to %d", n,
                       CM_MAX_RANK - 2);
    cm_dim dims[CM_MAX_RANK] = {cm_infer_dim(f, 0, 0)}, volume = 1;
    for (int d = 0; d < n && has_block; d++)
        volume = cm_infer_mul(f, volume, block[d]);
    dims[1] = has_block ? cm_infer_floor_div(f, cm_infer_dim(f, 0, 1), volume) : CM_DIM_ERROR;
    if (has_block && dims[1] != CM_DIM_ERROR)
        CM_TRY(cm_infer_equal(f, "axis 1 against the block's volume", cm_infer_dim(f, 0, 1),
                              cm_infer_mul(f, dims[1], volume)));
    for (int d = 0; d < n; d++)
        dims[d + 2] = has_image ? image[d] : cm_infer_fresh(f, "image");
    if (has_image && has_block)
        CM_TRY(check_blocks(f, n, image, block));
    if (dims[1] == CM_DIM_ERROR)
        dims[1] = cm_infer_fresh(f, "channels");
    return cm_infer_tensor(f, 0, n + 2, dims);
}

typedef struct {
    const cm_tensor *x;
    cm_tensor *y;
    cm_dtype dtype; /* of a component */
    int parts;      /* components of an element: 2 for complex numbers */
    cm_window w;
    int64_t image[CM_MAX_RANK], count[CM_MAX_RANK]; /* sizes; blocks along each axis */
    int64_t positions, blocks;                      /* in a block; in all */
} job;

/* The block whose position k lies on image coordinate p, as a flat number; -1: none. */
static int64_t block_at(const job *j, const int64_t *p, const int64_t *k)
{
    int64_t block = 0;
    for (int d = 0; d < j->w.n; d++) {
        int64_t from = p[d] + j->w.pad_begin[d] - k[d] * j->w.dilation[d];
        if (from < 0 || from % j->w.stride[d] != 0 || from / j->w.stride[d] >= j->count[d])
            return -1;
        block = block * j->count[d] + from / j->w.stride[d];
    }
    return block;
}

/* Component `part` of the pixel at `p` in plane `plane`: the sum over the block positions on it. */
static void pixel(const job *j, int64_t plane, const int64_t *p, int part, int64_t to)
{
    int64_t k[CM_MAX_RANK] = {0};
    double sum = 0;
    uint64_t whole = 0;
    for (int64_t i = 0; i < j->positions; i++) {
        int64_t block = block_at(j, p, k);
        int64_t from = ((plane * j->positions + i) * j->blocks + block) * j->parts + part;
        if (block >= 0 && cm_dtype_is_float(j->dtype))
            sum += cm_get_f64(j->dtype, j->x->data, from);
        else if (block >= 0)
            whole += (uint64_t)cm_get_i64(j->dtype, j->x->data, from);
        for (int d = j->w.n - 1; d >= 0 && ++k[d] == j->w.kernel[d]; d--)
            k[d] = 0;
    }
    if (cm_dtype_is_float(j->dtype))
        cm_set_f64(j->dtype, j->y->data, to * j->parts + part, sum);
    else
        cm_set_i64(j->dtype, j->y->data, to * j->parts + part,
                   j->dtype == CM_BOOL ? whole != 0 : (int64_t)whole);
}

static void planes(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t volume = cm_dims_product(j->image, 0, j->w.n);
    for (int64_t plane = begin; plane < end; plane++) {
        int64_t p[CM_MAX_RANK] = {0};
        for (int64_t i = 0; i < volume; i++) {
            for (int part = 0; part < j->parts; part++)
                pixel(j, plane, p, part, plane * volume + i);
            for (int d = j->w.n - 1; d >= 0 && ++p[d] == j->image[d]; d--)
                p[d] = 0;
        }
    }
}

static cm_status eval(cm_eval *e)
{
    job j = {
        .x = cm_eval_in(e, 0), .y = cm_eval_out(e, 0), .parts = 1, .positions = 1, .blocks = 1};
    j.dtype = j.x->dtype == CM_C64 ? CM_F32 : j.x->dtype == CM_C128 ? CM_F64 : j.x->dtype;
    if (j.dtype != j.x->dtype)
        j.parts = 2;
    int n = j.y->rank - 2;
    int64_t block[CM_MAX_RANK] = {0};
    for (int d = 0; d < n; d++) {
        j.image[d] = j.y->dims[d + 2];
        block[d] = cm_eval_int(e, 2, d);
        j.positions *= block[d];
    }
    cm_window_attr wa = window_attr(e->attr);
    cm_window_of(&wa, n, block, j.image, &j.w);
    for (int d = 0; d < n; d++) {
        int64_t extent = (block[d] - 1) * j.w.dilation[d] + 1;
        int64_t room = j.image[d] + j.w.pad_begin[d] + j.w.pad_end[d] - extent;
        j.count[d] = cm_max_i64(cm_floor_div(room, j.w.stride[d]) + 1, 0);
        j.blocks *= j.count[d];
    }
    cm_parallel(e->threads, j.y->dims[0] * j.y->dims[1], 1, planes, &j);
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    c->ops = cm_infer_volume(f, f->in[0].type);
}

const cm_family cm_family_col2im = {.name = "col2im", .infer = infer, .eval = eval, .cost = cost};
