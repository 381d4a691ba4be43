/* qconv.h -- what the tactics for convolutions of bytes share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * They work on images with the channels innermost. Row-major images are turned around in the
 * workspace, one at a time. */
#ifndef CM_CPU_QCONV_H
#define CM_CPU_QCONV_H

#include "cpu/qmatmul.h"

enum { CM_QCONV_MOST_RUNS = 512 };

/* Why no tactic takes it, or NULL; `runs`: of adjacent elements under an output pixel, each with an offset. */
const char *cm_qconv_reject(const cm_problem *p, int64_t runs);

/* The input of one image as kernels read it, and the output where it is made: with the channels innermost,
 * padded, elements in a form of cm_qrow_form. */
typedef struct cm_qconv_images {
    cm_qrow_form form;
    bool in_place;              /* the input is read where it is */
    int64_t size[3];            /* of the padded image */
    int64_t step[3];            /* elements from one depth, row, column to the next */
    int64_t elem;               /* bytes of an element */
    size_t turned, x, y, bytes; /* offsets in the workspace, and what it needs */
    int64_t in_pixels, out_pixels;
    size_t y_size; /* bytes of an element of the output */
} cm_qconv_images;
/* length: elements of a run that a kernel reads, `real` of which are there. */
cm_qconv_images cm_qconv_images_of(const cm_problem *p, cm_qrow_form form, int64_t length,
                                   int64_t real);
/* Image i made ready. */
const void *cm_qconv_begin(const cm_run *r, const cm_qconv_images *m, int64_t i);
/* Where its result goes; cm_qconv_end puts it in its place. */
void *cm_qconv_result(const cm_run *r, const cm_qconv_images *m, int64_t i);
void cm_qconv_end(const cm_run *r, const cm_qconv_images *m, int64_t i);
double cm_qconv_images_cost(const cm_problem *p, const cm_qconv_images *m);

/* Offsets of the taps of a kernel, or of its rows where `whole_rows`, from where a pixel is. */
void cm_qconv_offsets(const cm_conv *c, const cm_qconv_images *m, bool whole_rows, int64_t *to);

/* Zero point and scales of a run. */
int32_t cm_qconv_zero(const cm_run *r, int input);
/* factor[c] of channels [first, first + n) as the reference multiplies them. */
void cm_qconv_factors(const cm_run *r, int64_t first, int64_t n, float *factor);
cm_qfinish cm_qconv_finish(const cm_run *r);

/* The tactic for depthwise ones: qconv_depthwise.c. */
const char *cm_cpu_qconv_depthwise_reject(const cm_problem *p);
double cm_cpu_qconv_depthwise_cost(const cm_problem *p, const cm_knobs *k);
size_t cm_cpu_qconv_depthwise_workspace(const cm_problem *p, const cm_knobs *k);
size_t cm_cpu_qconv_depthwise_pack_bytes(const cm_problem *p, const cm_knobs *k, int input);
void cm_cpu_qconv_depthwise_pack(const cm_problem *p, const cm_knobs *k, int input,
                                 const void *from, void *to, cm_threads *threads);
cm_status cm_cpu_qconv_depthwise_run(const cm_run *r);

#endif
