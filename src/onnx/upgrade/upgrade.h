/* upgrade.h -- old forms of operators to the newest: the functions that versions.def names, and
 * what they are written with.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An upgrade changes the pending node in place (attributes become inputs, names change), or
 * emits nodes before it with cm_up_node and goes on from their results. */
#ifndef CM_ONNX_UPGRADE_H
#define CM_ONNX_UPGRADE_H

#include "onnx/import.h"

/* Attributes. take: false in *found when absent; present ones are removed from the node; a wrong
 * type is a sentence. */
cm_status cm_up_take_int(cm_pending *u, const char *name, int64_t *v, bool *found) CM_MUST_USE;
cm_status cm_up_take_float(cm_pending *u, const char *name, float *v, bool *found) CM_MUST_USE;
cm_status cm_up_take_ints(cm_pending *u, const char *name, cm_ints *v, bool *found) CM_MUST_USE;
cm_status cm_up_take_floats(cm_pending *u, const char *name, cm_floats *v, bool *found) CM_MUST_USE;
cm_status cm_up_take_str(cm_pending *u, const char *name, const char **v, bool *found) CM_MUST_USE;
void cm_up_drop(cm_pending *u, const char *name);
cm_status cm_up_set_int(cm_pending *u, const char *name, int64_t v) CM_MUST_USE;
cm_status cm_up_set_float(cm_pending *u, const char *name, float v) CM_MUST_USE;
cm_status cm_up_set_str(cm_pending *u, const char *name, const char *v) CM_MUST_USE;
cm_status cm_up_set_ints(cm_pending *u, const char *name, const int64_t *v, int64_t n) CM_MUST_USE;

/* Constants. */
cm_status cm_up_ints(cm_pending *u, const int64_t *v, int64_t n, cm_value **out) CM_MUST_USE;
cm_status cm_up_int(cm_pending *u, int64_t v, cm_value **out) CM_MUST_USE; /* rank 0 */
cm_status cm_up_floats(cm_pending *u, const float *v, int64_t n, cm_value **out) CM_MUST_USE;
/* A scalar of any numeric type. */
cm_status cm_up_number(cm_pending *u, cm_dtype t, double v, cm_value **out) CM_MUST_USE;

/* Inputs. The list grows as needed; what is between stays absent. */
cm_status cm_up_set_input(cm_pending *u, int i, cm_value *v) CM_MUST_USE;
cm_status cm_up_need_input(cm_pending *u, int i) CM_MUST_USE; /* a sentence unless it is there */
int cm_up_rank(const cm_pending *u, int i);                   /* -1: absent or unknown */

/* A node of ONNX's own domain in its newest form, in the pending node's network and name. */
typedef struct cm_up_attr {
    const char *name;
    pb_attribute_type type; /* INT, FLOAT, STRING, INTS */
    int64_t i;
    float f;
    const char *s;
    cm_ints ints;
} cm_up_attr;
#define CM_UP_INT(n, v)                                                                            \
    {                                                                                              \
        .name = (n), .type = PB_ATTR_INT, .i = (v)                                                 \
    }
#define CM_UP_STR(n, v)                                                                            \
    {                                                                                              \
        .name = (n), .type = PB_ATTR_STRING, .s = (v)                                              \
    }
cm_status cm_up_node(cm_pending *u, const char *op, cm_value *const *in, int n_in,
                     const cm_up_attr *attrs, int n_attrs, cm_value **out) CM_MUST_USE;
cm_status cm_up_unary(cm_pending *u, const char *op, cm_value *x, cm_value **out) CM_MUST_USE;
cm_status cm_up_binary(cm_pending *u, const char *op, cm_value *a, cm_value *b,
                       cm_value **out) CM_MUST_USE;
cm_status cm_up_cast(cm_pending *u, cm_value *x, cm_dtype to, cm_value **out) CM_MUST_USE;
/* Give the pending node's output i the value v, and be done with it. */
cm_status cm_up_result(cm_pending *u, int i, cm_value *v) CM_MUST_USE;

/* The upgrades, as versions.def names them. */
/* clang-format off */
#define CM_UPGRADES(X)                                                                             \
    X(axes) X(split) X(slice) X(top_k) X(reshape) X(tile) X(pad) X(clip) X(dft) X(scatter)         \
    X(broadcast) X(prelu) X(gemm) X(softmax) X(concat) X(selu) X(upsample) X(resize_10)            \
    X(resize_11) X(grid_sample) X(roi_align) X(batch_norm) X(group_norm) X(dropout) X(lp_pool)     \
    X(average_pool) X(rnn) X(cast_by_name) X(cast_small) X(one_hot) X(label_encoder) X(scan)       \
    X(flex_attention) X(affine) X(scale) X(scaled_curve) X(image_scaler) X(crop)                   \
    X(dynamic_slice) X(constant_fill) X(beam_search) X(greedy_search)
/* clang-format on */
#define X(id) cm_status cm_up_##id(cm_pending *u);
CM_UPGRADES(X)
#undef X

#endif
