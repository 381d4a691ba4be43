/* ms_conv.c -- com.microsoft FusedConv, NhwcConv, NhwcFusedConv: Conv, a sum and an activation.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/patch_conv.h"

#include "ops/pointwise/activation.h"
#include "ops/expect.h"

typedef struct {
    uint64_t present;
    cm_conv_fields conv;
    cm_str activation;
    cm_floats activation_params;
} conv_attr;

#define FIELD(kind, name, ...)                                                                     \
    {                                                                                              \
#name, kind, 0, offsetof(conv_attr, conv.name), __VA_ARGS__                                \
    }
#define CONV_FIELDS                                                                                \
    FIELD(CM_A_STR, auto_pad, 0, "NOTSET"), FIELD(CM_A_INTS, dilations, 0, NULL),                  \
        FIELD(CM_A_INT, group, 1, NULL), FIELD(CM_A_INTS, kernel_shape, 0, NULL),                  \
        FIELD(CM_A_INTS, pads, 0, NULL), FIELD(CM_A_INTS, strides, 0, NULL)

CM_ATTRS(ms_nhwc_conv, conv_attr, CONV_FIELDS)
CM_ATTRS(ms_fused_conv, conv_attr, CONV_FIELDS, CM_ATTR_STR(conv_attr, activation, ""),
         CM_ATTR_FLOATS(conv_attr, activation_params, 0))

enum { X, W, B, Z };

static cm_status find_activation(cm_ctx *cx, const conv_attr *a, cm_activation *out)
{
    CM_TRY(cm_activation_find(cx, a->activation, out));
    if (a->activation_params.n > 0)
        out->alpha = a->activation_params.v[0];
    if (a->activation_params.n > 1)
        out->beta = a->activation_params.v[1];
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const conv_attr *a = f->attr;
    cm_activation function;
    CM_TRY(find_activation(f->cx, a, &function));
    CM_TRY(cm_patch_conv_infer(f, 0, X, W, B, &a->conv, f->op->id != CM_OP_MS_FUSED_CONV));
    const cm_type *y = &f->out[0].type;
    return y->rank < 0 ? CM_OK : cm_expect_shape(f, Z, "Z", y->rank, y->dims);
}

typedef struct {
    cm_tensor *y;
    const double *bias, *z; /* NULL: none */
    cm_activation function;
} result;

static void store(const cm_patch_conv *c, int64_t image, int64_t channel, int64_t at, int64_t n,
                  const double *v)
{
    const result *r = c->arg;
    int64_t index = image * c->y_image + channel * c->y_channel + at * c->y_position;
    double bias = r->bias ? r->bias[channel] : 0;
    for (int64_t i = 0; i < n; i++, index += c->y_position) {
        double x = v[i] + bias + (r->z ? r->z[index] : 0);
        cm_set_f64(r->y->dtype, r->y->data, index, cm_activation_apply(&r->function, x));
    }
}

static cm_status eval(cm_eval *e)
{
    const conv_attr *a = e->attr;
    cm_patch_conv c;
    result r = {.y = cm_eval_out(e, 0)};
    CM_TRY(find_activation(e->cx, a, &r.function));
    CM_TRY(cm_patch_conv_read(e, X, W, &a->conv, e->op->id != CM_OP_MS_FUSED_CONV, &c));
    if (cm_eval_has(e, B))
        CM_TRY(cm_eval_as_f64(e, B, &r.bias));
    if (cm_eval_has(e, Z))
        CM_TRY(cm_eval_as_f64(e, Z, &r.z));
    c.store = store;
    c.arg = &r;
    return cm_patch_conv_run(e, &c);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    const cm_type *w = f->in[W].type;
    if (w->rank > 0)
        c->ops = 2 * cm_infer_volume(f, &f->out[0].type) * cm_infer_volume(f, w) /
                 cm_infer_extent(f, w->dims[0]);
}

const cm_family cm_family_ms_conv = {.name = "ms_conv", .infer = infer, .eval = eval, .cost = cost};
