/* qconv.h -- what the tactics for convolutions of bytes share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * They work on images with the channels innermost. Row-major images are turned around in the
 * workspace, one at a time. */
#ifndef CM_CPU_QCONV_H
#define CM_CPU_QCONV_H

#include "cpu/qmatmul.h"

/* Why no tactic takes it, or NULL. */
const char *cm_qconv_reject(const cm_problem *p);

/* The images in the workspace, and where one begins. */
typedef struct cm_qconv_images {
    size_t x, y, bytes;            /* offsets in the workspace; its size */
    int64_t in_pixels, out_pixels; /* of an image */
    size_t y_size;                 /* bytes of an element of the output */
} cm_qconv_images;
cm_qconv_images cm_qconv_images_of(const cm_problem *p);
/* Image i with its channels innermost, brought there if need be. */
const uint8_t *cm_qconv_begin(const cm_run *r, const cm_qconv_images *m, int64_t i);
/* Where its result goes; cm_qconv_end puts it in its place. */
void *cm_qconv_result(const cm_run *r, const cm_qconv_images *m, int64_t i);
void cm_qconv_end(const cm_run *r, const cm_qconv_images *m, int64_t i);
double cm_qconv_images_cost(const cm_problem *p);

/* Zero point and scales of a run. */
int32_t cm_qconv_zero(const cm_run *r, int input);
/* factor[c] of channels [first, first + n) as the reference multiplies them. */
void cm_qconv_factors(const cm_run *r, int64_t first, int64_t n, float *factor);
cm_qfinish cm_qconv_finish(const cm_run *r);

/* Where tap t of an output pixel reads: index of the input's pixel, -1: padding. */
int64_t cm_qconv_tap(const cm_conv *c, int64_t pixel, int64_t tap);

/* Runs worker(job, slot) for slots of [0, p->threads), each until no task is left. */
void cm_qconv_workers(const cm_run *r, cm_range_fn fn, void *job);

/* The tactic for depthwise ones: qconv_depthwise.c. */
const char *cm_cpu_qconv_depthwise_reject(const cm_problem *p);
double cm_cpu_qconv_depthwise_cost(const cm_problem *p, const cm_knobs *k);
size_t cm_cpu_qconv_depthwise_workspace(const cm_problem *p, const cm_knobs *k);
size_t cm_cpu_qconv_depthwise_pack_bytes(const cm_problem *p, const cm_knobs *k, int input);
void cm_cpu_qconv_depthwise_pack(const cm_problem *p, const cm_knobs *k, int input,
                                 const void *from, void *to, cm_threads *threads);
cm_status cm_cpu_qconv_depthwise_run(const cm_run *r);

#endif
