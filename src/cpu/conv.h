/* conv.h -- the tactics for convolutions, and what they share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A tactic is a file that defines the functions of its row, named cm_cpu_<tactic>_reject and so on; the table
 * is in conv.c. It serves every level from its own up: kernels are chosen by p->target.level. */
#ifndef CM_CPU_CONV_H
#define CM_CPU_CONV_H

#include "cpu/cpu.h"
#include "cpu/epilogue.h"

/* Each needs workspace where weights are not constant, and packs those that are. */
#define CONV_TACTIC(stem)                                                                          \
    CM_TACTIC(stem);                                                                               \
    CM_TACTIC_WORKSPACE(stem);                                                                     \
    CM_TACTIC_PACK(stem)
CONV_TACTIC(conv_depthwise_f32);
CONV_TACTIC(conv_winograd_f4);
CONV_TACTIC(conv_winograd_f6);
CONV_TACTIC(conv_winograd_f2);
CONV_TACTIC(conv_lines_f32);
CONV_TACTIC(conv_indirect_f32);
CONV_TACTIC(conv_product_f32);
CONV_TACTIC(conv_strassen_f32);
CONV_TACTIC(conv_pairs_f32);
CONV_TACTIC(conv_planes_f32);
CONV_TACTIC(conv_transposed_f32);
CONV_TACTIC(conv_transposed_apart_f32);
CONV_TACTIC(conv_transposed_turned_f32);
CONV_TACTIC(conv_transposed_depthwise_f32);
CONV_TACTIC(conv_amx_lines);
CONV_TACTIC(conv_amx);
CONV_TACTIC(conv_bf16);
CONV_TACTIC(conv_amx_patch);
CONV_TACTIC(conv_bf16_patch);
CONV_TACTIC(conv_depthwise_half);
CONV_TACTIC(conv_half);
#undef CONV_TACTIC
/* Packs as conv_indirect_f32 does. */
CM_TACTIC(conv_inside_f32);
CM_TACTIC_WORKSPACE(conv_inside_f32);
/* Packs as conv_planes_f32 does. */
CM_TACTIC(conv_shifted_f32);
CM_TACTIC_WORKSPACE(conv_shifted_f32);
/* Reads weights where they lie. */
CM_TACTIC(conv_depthwise_planes_f32);
CM_TACTIC_WORKSPACE(conv_depthwise_planes_f32);
CM_TACTIC_KNOBS(conv_winograd_f4);
CM_TACTIC_KNOBS(conv_winograd_f6);
CM_TACTIC_KNOBS(conv_winograd_f2);
CM_TACTIC_KNOBS(conv_lines_f32);
CM_TACTIC_KNOBS(conv_transposed_turned_f32);
CM_TACTIC_KNOBS(conv_half);

CM_TACTIC_BAND(conv_depthwise_f32);
CM_TACTIC_BAND(conv_lines_f32);
CM_TACTIC_BAND(conv_indirect_f32);
CM_TACTIC_BAND(conv_pairs_f32);

/* How an activation [n, c, spatial...] lies in memory; both where they are the same. */
typedef enum { CM_CONV_ROW_MAJOR = 1, CM_CONV_CHANNELS_LAST = 2 } cm_conv_layout;
int cm_conv_layout_of(const cm_tensor *t); /* a set of cm_conv_layout; 0: strided in another way */

/* The column axes, as cm_epilogue_init counts them, of a channels-last output: the columns are the
 * channels. */
int cm_conv_channel_columns(const cm_tensor *out);
/* Those of a row-major output: the columns are the pixels of a plane, the rows n * c_out. */
int cm_conv_plane_columns(const cm_tensor *out);

/* What all tactics want of a problem: float32, epilogues in tiles with `n_col_axes`. A
 * sentence, or NULL. */
const char *cm_conv_reject_common(const cm_problem *p, int n_col_axes);
/* The same for those that read and write float32 with the channels innermost. */
const char *cm_conv_reject_channels_last(const cm_problem *p);

/* What happens to the sums of a channels-last output: `e` on registers; then, unless `simple`, tiles of
 * `plan`. The operator's own bias is part of e. */
typedef struct cm_conv_sink {
    bool simple;
    cm_simple_epilogue e;
    cm_epilogue_plan plan;
} cm_conv_sink;
/* sum: c_out floats of workspace, for when there are two biases. */
void cm_conv_sink_init(cm_conv_sink *s, const cm_run *r, float *sum);

/* Pointers to the channels of the inputs under output pixels, for one kernel position after the other. */
typedef struct cm_conv_window {
    const cm_conv *c;
    const float *x;    /* channels-last, from the first channel of the group */
    const float *zero; /* what lies outside the input */
} cm_conv_window;
/* to[q * m + i] for kernel positions [tap, tap + taps) and output pixels [pixel, pixel + m), both counted
 * in the order of memory. */
void cm_conv_pointers(const cm_conv_window *w, int64_t tap, int64_t taps, int64_t pixel, int64_t m,
                      const float **to);

/* Where kernel position `tap` of a filter lies in the weights, whatever their strides. */
int64_t cm_conv_tap_offset(const cm_problem *p, int64_t tap);

static inline int64_t cm_conv_taps(const cm_conv *c)
{
    return c->kernel[0] * c->kernel[1] * c->kernel[2];
}
static inline int64_t
cm_conv_rows(const cm_conv *c) /* of the output along its last axis, all images */
{
    return c->n * c->out[0] * c->out[1];
}
static inline int64_t cm_conv_pixels(const cm_conv *c)
{
    return cm_conv_rows(c) * c->out[2];
}

/* Is every window one pixel, and every pixel a window? */
bool cm_conv_is_points(const cm_conv *c);

/* Would neighbouring pixels of a channels-last input meet in one set of the first-level cache? */
bool cm_conv_pixels_meet(const cm_conv *c);

/* For costs: columns that tiles of nr compute for each of `n`. They are done in vectors of nr / 2. */
double cm_conv_columns(int nr, int64_t n);
double cm_conv_flops(const cm_conv *c);

double cm_conv_ns(const cm_problem *p); /* on one thread at the machine's peak */

/* `ns` of work in units among threads: each is asked for so much that it gains. */
void cm_conv_parallel(const cm_run *r, double ns, int64_t units, cm_range_fn fn, void *arg);
/* Of that many units at most, one where it is not shared out: each has memory of its own. */
int64_t cm_conv_slots(double ns, int64_t most);
/* What a cost becomes so, where cm_conv_parallel is given `ns`. */
double cm_conv_shared(const cm_problem *p, double cost, double ns, double units);
double cm_conv_bytes(const cm_problem *p); /* of input, output and weights */

/* Weights that are not constant are packed before each run, into the workspace. */
static inline bool cm_conv_packs_in_run(const cm_problem *p)
{
    return !p->constant[1];
}

static inline size_t cm_round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

#endif
