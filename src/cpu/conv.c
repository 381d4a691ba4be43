/* conv.c -- the table of convolution tactics, and what they share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/conv.h"

#include "cpu/epilogue.h"

static const cm_tactic rows[] = {
#define X(stem, isa)                                                                               \
    {.name = #stem,                                                                                \
     .level = CM_ISA_##isa,                                                                        \
     .reject = cm_cpu_##stem##_reject,                                                             \
     .knobs = cm_cpu_##stem##_knobs,                                                               \
     .cost = cm_cpu_##stem##_cost,                                                                 \
     .workspace = cm_cpu_##stem##_workspace,                                                       \
     .pack_bytes = cm_cpu_##stem##_pack_bytes,                                                     \
     .pack = cm_cpu_##stem##_pack,                                                                 \
     .run = cm_cpu_##stem##_run},
    CM_CPU_CONV_TACTICS(X)
#undef X
        {NULL}};

const cm_cpu_table cm_cpu_conv = {rows, CM_COUNT(rows) - 1};

int cm_conv_layout_of(const cm_tensor *t)
{
    int64_t row_major = 1, last = t->dims[1];
    int found = CM_CONV_ROW_MAJOR;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->dims[d] != 1 && t->strides[d] != row_major)
            found = 0;
        row_major *= t->dims[d];
    }
    bool channels_last = t->dims[1] == 1 || t->strides[1] == 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (d == 1)
            continue;
        channels_last = channels_last && (t->dims[d] == 1 || t->strides[d] == last);
        last *= t->dims[d];
    }
    return channels_last ? found | CM_CONV_CHANNELS_LAST : found;
}

int cm_conv_channel_columns(const cm_tensor *out)
{
    int n = 1;
    if (out->dims[1] == 1)
        return 0;
    for (int d = 0; d < out->rank; d++)
        n += d != 1 && (out->strides[d] < out->strides[1] ||
                        (out->strides[d] == out->strides[1] && out->dims[d] == 1));
    return n;
}

const char *cm_conv_reject_common(const cm_problem *p, int n_col_axes)
{
    if (p->in[0]->dtype != CM_F32 || p->in[1]->dtype != CM_F32)
        return "float32 only";
    if (p->as.conv.bias && (p->in[2]->dtype != CM_F32 || !cm_tensor_is_dense(p->in[2])))
        return "the bias is not dense float32";
    if (!cm_tensor_is_dense(p->in[1]))
        return "the weights are strided";
    return cm_epilogue_reject(p, n_col_axes);
}

double cm_conv_flops(const cm_conv *c)
{
    double products = 2.0 * (double)c->n * (double)c->c_in * (double)c->c_out / (double)c->groups;
    for (int d = 0; d < 3; d++)
        products *= (double)c->kernel[d] * (double)(c->transposed ? c->in[d] : c->out[d]);
    return products;
}

double cm_conv_bytes(const cm_problem *p)
{
    double elems = 0;
    for (int i = 0; i < 2; i++)
        elems += (double)cm_tensor_elems(p->in[i]);
    return 4 * (elems + (double)cm_tensor_elems(p->out[0]));
}
