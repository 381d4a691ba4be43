/* conv.h -- what the tactics of convolutions on GPUs share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_CONV_H
#define CM_CUDA_CONV_H

#include "cuda/epilogue_text.h"
#include "cuda/product_tiles.h"

/* What kernels are told of sizes; axes are depth, height, width. The layout is that of kernels/conv_sizes.cuh. */
typedef struct cm_gpu_conv_sizes {
    int32_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    int64_t image, channel, step[3]; /* strides of the input */
} cm_gpu_conv_sizes;
void cm_gpu_conv_sizes_of(const cm_problem *p, cm_gpu_conv_sizes *s);

/* A convolution as a product with a gathered operand; the layout is that of kernels/pixel_source.cuh. Weights are packed
 * as [group][output channel][k], k being kernel positions and, inside, the group's input channels, with rows that are multiples
 * of 16 bytes. */
typedef struct cm_gpu_conv_args {
    const void *x, *w;
    float *partial;
    int32_t m, n, k, splits, k_pitch, channels;
    cm_gpu_conv_sizes sizes;
    uint32_t groups;
} cm_gpu_conv_args;
void cm_gpu_conv_args_of(const cm_problem *p, int splits, cm_gpu_conv_args *out);
cm_extent cm_gpu_conv_extent(const cm_problem *p);
/* ns that warp groups need for results while memory is busy, beside what their products take. */
double cm_gpu_conv_way_out(const cm_problem *p);
bool cm_gpu_conv_whole(const cm_problem *p); /* are 16 bytes of the input channels of one pixel? */
/* Are the channels of a group so few that 128 bytes of k, that matrix units multiply at once, are those of several kernel positions?
 * Gathering them then takes longer than the products. */
bool cm_gpu_conv_scattered(const cm_problem *p);
/* Of one kernel position over all channels, outputs at the places of inputs, and these evenly apart: a matrix. */
bool cm_gpu_conv_is_product(const cm_problem *p);
int64_t cm_gpu_conv_pixel_pitch(const cm_tensor *t); /* from pixel to pixel */
bool cm_gpu_conv_volume(const cm_problem *p);        /* is there a third axis? */
/* Channels of a kernel position, and how far apart they are packed: those of the next one follow after `room`. */
void cm_gpu_conv_pack_taps(const cm_problem *p, int64_t room, int64_t pitch, const void *from,
                           void *to, cm_threads *threads);
size_t cm_gpu_conv_pack_bytes(const cm_problem *p, const cm_knobs *k, int input);
void cm_gpu_conv_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from, void *to,
                      cm_threads *threads);

/* Types, sizes, constant weights, the results; NULL, or why not. */
const char *cm_cuda_conv_reject(const cm_problem *p);
/* The bias, one a channel, as it broadcasts to the output: NULL without one, else `room`. */
const cm_tensor *cm_gpu_conv_bias(const cm_problem *p, cm_tensor *room);
cm_arithmetic cm_gpu_conv_arithmetic(const cm_problem *p);
double cm_gpu_conv_memory(const cm_problem *p); /* bytes read and written at the least */
int64_t cm_gpu_conv_taps(const cm_conv *c);
/* Where kernel position `tap` of a filter lies in the weights. */
int64_t cm_gpu_conv_tap_at(const cm_tensor *w, int64_t tap);

#define CONV_TACTIC(stem)                                                                          \
    const char *cm_cuda_##stem##_reject(const cm_problem *p);                                      \
    double cm_cuda_##stem##_cost(const cm_problem *p, const cm_knobs *k);                          \
    cm_status cm_cuda_##stem##_ready(cm_ctx *cx, cm_device *d, cm_arena *arena,                    \
                                     const cm_problem *p, const cm_knobs *k, const void **state);  \
    cm_status cm_cuda_##stem##_run(const cm_run *r)
CONV_TACTIC(conv_depthwise);
CONV_TACTIC(conv_band);
CONV_TACTIC(conv_tile);
CONV_TACTIC(conv_wgmma);
CONV_TACTIC(conv_few);
CONV_TACTIC(conv_cudnn);
CONV_TACTIC(conv_narrow);
CONV_TACTIC(conv_patch);
CONV_TACTIC(conv_window);
CONV_TACTIC(conv_bulk);
CONV_TACTIC(conv_matmul);
CONV_TACTIC(conv_variable);
#undef CONV_TACTIC
size_t cm_cuda_conv_depthwise_pack_bytes(const cm_problem *p, const cm_knobs *k, int input);
void cm_cuda_conv_depthwise_pack(const cm_problem *p, const cm_knobs *k, int input,
                                 const void *from, void *to, cm_threads *threads);
size_t cm_cuda_conv_few_pack_bytes(const cm_problem *p, const cm_knobs *k, int input);
void cm_cuda_conv_few_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                           void *to, cm_threads *threads);
size_t cm_cuda_conv_patch_pack_bytes(const cm_problem *p, const cm_knobs *k, int input);
void cm_cuda_conv_patch_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                             void *to, cm_threads *threads);
size_t cm_cuda_conv_window_pack_bytes(const cm_problem *p, const cm_knobs *k, int input);
void cm_cuda_conv_window_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                              void *to, cm_threads *threads);
int cm_cuda_conv_window_knobs(const cm_problem *p, cm_knobs *out);
int cm_cuda_conv_matmul_knobs(const cm_problem *p, cm_knobs *out);
int cm_cuda_conv_bulk_knobs(const cm_problem *p, cm_knobs *out);
size_t cm_cuda_conv_bulk_pack_bytes(const cm_problem *p, const cm_knobs *k, int input);
void cm_cuda_conv_bulk_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                            void *to, cm_threads *threads);
int cm_cuda_conv_patch_knobs(const cm_problem *p, cm_knobs *out);
int cm_cuda_conv_few_knobs(const cm_problem *p, cm_knobs *out);
size_t cm_cuda_conv_few_workspace(const cm_problem *p, const cm_knobs *k);
int cm_cuda_conv_depthwise_knobs(const cm_problem *p, cm_knobs *out);
int cm_cuda_conv_band_knobs(const cm_problem *p, cm_knobs *out);
int cm_cuda_conv_narrow_knobs(const cm_problem *p, cm_knobs *out);
int cm_cuda_conv_wgmma_knobs(const cm_problem *p, cm_knobs *out);
int cm_cuda_conv_tile_knobs(const cm_problem *p, cm_knobs *out);
size_t cm_cuda_conv_tile_workspace(const cm_problem *p, const cm_knobs *k);
int cm_cuda_conv_variable_knobs(const cm_problem *p, cm_knobs *out);
size_t cm_cuda_conv_variable_workspace(const cm_problem *p, const cm_knobs *k);
int cm_cuda_conv_cudnn_knobs(const cm_problem *p, cm_knobs *out);
size_t cm_cuda_conv_cudnn_workspace(const cm_problem *p, const cm_knobs *k);

#endif
