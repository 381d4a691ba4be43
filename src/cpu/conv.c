/* conv.c -- the table of convolution tactics, and what they share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/conv.h"

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
