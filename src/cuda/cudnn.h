/* cudnn.h -- the functions of cuDNN that we call, as we declare them, and graphs of operations.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_CUDNN_H
#define CM_CUDA_CUDNN_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/device.h"

enum {                   /* its enumerations, as far as they are used */
       CM_DNN_FLOAT = 0, /* element types */
       CM_DNN_HALF = 2,
       CM_DNN_BFLOAT16 = 9,
       CM_DNN_CROSS_CORRELATION = 1,
       CM_DNN_HEURISTICS_A = 3,
       CM_DNN_PROPAGATE_NAN = 1,
       CM_DNN_ADD = 0, /* pointwise operations */
       CM_DNN_MUL = 1,
       CM_DNN_RELU = 100,
       CM_DNN_TANH = 101,
       CM_DNN_SIGMOID = 102,
       CM_DNN_GELU = 104,
       CM_DNN_SWISH = 106,
       CM_DNN_GELU_TANH = 107,
};

/* Every object of its graphs is a descriptor: made, given attributes, finished, dropped. */
typedef void *cm_dnn_object;
typedef struct cm_cudnn {
    int (*create)(void **handle);
    int (*set_stream)(void *handle, cm_cu_stream stream);
    int (*make)(int type, cm_dnn_object *out);
    int (*drop)(cm_dnn_object o);
    int (*finish)(cm_dnn_object o);
    int (*set)(cm_dnn_object o, int attribute, int type, int64_t n, const void *values);
    int (*get)(cm_dnn_object o, int attribute, int type, int64_t most, int64_t *n, void *values);
    int (*execute)(void *handle, cm_dnn_object plan, cm_dnn_object pack);
} cm_cudnn;

/* Opened once per process; NULL: it was not found, or lacks one of these. */
const cm_cudnn *cm_cudnn_get(void);

/* A convolution of two spatial axes and what follows it. Written as bytes: all of it is set, so that two can be compared. */
enum { CM_DNN_STEPS = 6, CM_DNN_RANK = 4 };
typedef struct cm_dnn_tensor {
    int64_t type, dims[CM_DNN_RANK], strides[CM_DNN_RANK];
} cm_dnn_tensor;
typedef struct cm_dnn_conv {
    cm_dnn_tensor x, w, y;
    int64_t pad[2], pad_after[2], stride[2], dilation[2];
    int64_t n_steps;
    struct cm_dnn_step {
        int64_t op;
        int64_t has_operand;
        cm_dnn_tensor operand;
    } step[CM_DNN_STEPS];
} cm_dnn_conv;

/* The library's `way`-th choice that works within `workspace` bytes, made once and kept as long as the process. Any
 * thread; the device is entered. */
typedef struct cm_dnn_plan cm_dnn_plan;
cm_status cm_dnn_plan_of(cm_ctx *cx, const cm_device *d, const cm_dnn_conv *c, int way,
                         size_t workspace, const cm_dnn_plan **out) CM_MUST_USE;
/* data: x, w, y, then the operands of the steps that have one. Enqueues. */
cm_status cm_dnn_run(cm_ctx *cx, const cm_dnn_plan *plan, cm_cu_stream stream, void *const *data,
                     int n_data, void *workspace) CM_MUST_USE;

#endif
