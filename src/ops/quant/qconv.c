/* qconv.c -- ConvInteger, QLinearConv (ONNX's, and com.microsoft's with channels last).
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/patch_conv.h"

#include "ops/expect.h"
#include "ops/quant/quant.h"

typedef struct {
    uint64_t present;
    cm_conv_fields conv;
    int64_t channels_last;
} qconv_attr;

#define FIELD(kind, name, ...)                                                                     \
    {                                                                                              \
#name, kind, 0, offsetof(qconv_attr, conv.name), __VA_ARGS__                               \
    }
#define CONV_FIELDS                                                                                \
    FIELD(CM_A_STR, auto_pad, 0, "NOTSET"), FIELD(CM_A_INTS, dilations, 0, NULL),                  \
        FIELD(CM_A_INT, group, 1, NULL), FIELD(CM_A_INTS, kernel_shape, 0, NULL),                  \
        FIELD(CM_A_INTS, pads, 0, NULL), FIELD(CM_A_INTS, strides, 0, NULL)

CM_ATTRS(conv_integer, qconv_attr, CONV_FIELDS)
CM_ATTRS(qlinear_conv, qconv_attr, CONV_FIELDS)
CM_ATTRS(ms_qlinear_conv, qconv_attr, CONV_FIELDS, CM_ATTR_INT(qconv_attr, channels_last, 0))

/* Where the inputs are. */
typedef struct {
    int x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias; /* -1: none */
} places;

static const places *places_of(cm_op_id id)
{
    static const places integer = {0, -1, 2, 1, -1, 3, -1, -1, -1};
    static const places linear = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    return id == CM_OP_CONV_INTEGER ? &integer : &linear;
}

/* One element, or one per output channel. */
static cm_status check_weight_param(cm_infer *f, int p, const char *name, int w)
{
    if (!cm_expect_known(f, p) || !cm_expect_known(f, w) || cm_infer_rank(f, w) == 0)
        return CM_OK;
    CM_TRY(cm_expect_rank(f, p, name, 0, 1));
    if (cm_infer_rank(f, p) == 0 || cm_infer_dim(f, p, 0) == 1)
        return CM_OK;
    return cm_infer_equal(f, name, cm_infer_dim(f, p, 0), cm_infer_dim(f, w, 0));
}

static cm_status infer(cm_infer *f)
{
    const qconv_attr *a = f->attr;
    const places *at = places_of(f->op->id);
    CM_TRY(cm_expect_one(f, at->x_zero, "x_zero_point"));
    CM_TRY(check_weight_param(f, at->w_zero, "w_zero_point", at->w));
    if (at->y_scale >= 0) {
        CM_TRY(cm_expect_one(f, at->x_scale, "x_scale"));
        CM_TRY(check_weight_param(f, at->w_scale, "w_scale", at->w));
        CM_TRY(cm_expect_one(f, at->y_scale, "y_scale"));
        CM_TRY(cm_expect_one(f, at->y_zero, "y_zero_point"));
    }
    return cm_patch_conv_infer(f, 0, at->x, at->w, at->bias, &a->conv, a->channels_last != 0);
}

typedef struct {
    cm_tensor *y;
    const double *w_scale, *bias;
    int64_t n_w_scale;
    float x_scale, y_scale;
    double y_zero;
    bool sums; /* ConvInteger: the sums themselves */
} result;

static void store(const cm_patch_conv *c, int64_t image, int64_t channel, int64_t at, int64_t n,
                  const double *v)
{
    const result *r = c->arg;
    int64_t index = image * c->y_image + channel * c->y_channel + at * c->y_position;
    float scale = 1;
    if (!r->sums)
        scale = r->x_scale * (float)cm_quant_pick(r->w_scale, r->n_w_scale, channel) / r->y_scale;
    for (int64_t i = 0; i < n; i++, index += c->y_position) {
        if (r->sums) {
            cm_set_f64(r->y->dtype, r->y->data, index, v[i]);
            continue;
        }
        double x = (float)(v[i] + (r->bias ? r->bias[channel] : 0)) * scale;
        cm_quant_store(r->y->dtype, &x, 1, 1, r->y_zero, (char *)r->y->data + index);
    }
}

static cm_status eval(cm_eval *e)
{
    const qconv_attr *a = e->attr;
    const places *at = places_of(e->op->id);
    cm_patch_conv c;
    CM_TRY(cm_patch_conv_read(e, at->x, at->w, &a->conv, a->channels_last != 0, &c));
    result r = {.y = cm_eval_out(e, 0), .sums = at->y_scale < 0};
    c.store = store;
    c.arg = &r;
    if (cm_eval_has(e, at->x_zero))
        c.x_zero = cm_eval_f64(e, at->x_zero, 0);
    if (cm_eval_has(e, at->w_zero)) {
        CM_TRY(cm_eval_as_f64(e, at->w_zero, &c.w_zero));
        c.n_w_zero = cm_tensor_elems(cm_eval_in(e, at->w_zero));
    }
    if (!r.sums) {
        CM_TRY(cm_eval_as_f64(e, at->w_scale, &r.w_scale));
        r.n_w_scale = cm_tensor_elems(cm_eval_in(e, at->w_scale));
        r.x_scale = (float)cm_eval_f64(e, at->x_scale, 0);
        r.y_scale = (float)cm_eval_f64(e, at->y_scale, 0);
        r.y_zero = cm_eval_f64(e, at->y_zero, 0);
        if (cm_eval_has(e, at->bias))
            CM_TRY(cm_eval_as_f64(e, at->bias, &r.bias));
    }
    return cm_patch_conv_run(e, &c);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    const places *at = places_of(f->op->id);
    const cm_type *w = f->in[at->w].type;
    if (w->rank > 0)
        c->ops = 2 * cm_infer_volume(f, &f->out[0].type) * cm_infer_volume(f, w) /
                 cm_infer_extent(f, w->dims[0]);
}

const cm_family cm_family_qconv = {.name = "qconv", .infer = infer, .eval = eval, .cost = cost};
