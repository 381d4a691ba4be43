/* rows.h -- what the files of softmax and normalisations share: the kernels' argument and the text they are
 * specialised by.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_ROWS_H
#define CM_CUDA_ROWS_H

#include "cuda/nest.h"
#include "cuda/tactics.h"

enum { CM_ROWS_OUTER = 6, CM_ROWS_OPERANDS = 8 };

/* These two as in kernels/rows.cuh, which says what they mean. */
typedef struct cm_rows_place {
    int64_t outer[CM_ROWS_OUTER], col, side;
} cm_rows_place;
typedef struct cm_rows_args {
    const void *x, *skip, *third, *scale, *bias;
    void *y, *sum, *mean, *inv;
    const void *operand[CM_ROWS_OPERANDS];
    const void *ids, *place_ids, *segment_ids;
    uint32_t *fault;
    double *partials, *stats;
    cm_rows_place at_x, at_y, at_sum, at_operand[CM_ROWS_OPERANDS];
    int64_t dims[CM_ROWS_OUTER];
    int64_t rows, cols, skip_rows;
    int64_t lanes;
    int64_t channels, groups, space;
    int64_t parts, part;
    int64_t units;
    cm_gpu_axis by_space;
    int64_t table_rows[3];
    int n_outer, wide_ids[3];
    uint32_t fault_code;
    float epsilon;
} cm_rows_args;

/* Why the element types or strides of what is not the data itself are not for these kernels; NULL: they are. */
const char *cm_cuda_rows_reject(const cm_problem *p);
/* Sizes and places of rows as the axes of the output have them; `lanes`, where not -1, is the axis along which rows
 * lie side by side. */
const char *cm_cuda_rows_place(const cm_problem *p, int lanes, cm_rows_args *a);
/* The same for groups of channels, which `last` says are innermost. rows_group.c */
const char *cm_cuda_rows_place_groups(const cm_problem *p, cm_rows_args *a, bool *last);
/* The one or the other. rows.c */
const char *cm_cuda_rows_place_any(const cm_problem *p, cm_rows_args *a);
/* Elements of the input in 16 bytes. */
int cm_cuda_rows_vector(const cm_problem *p);
/* Do vectors fit all that is read and written along rows, as far as strides tell; and all pointers of a run? */
bool cm_cuda_rows_take_vectors(const cm_problem *p, const cm_rows_args *a);
bool cm_cuda_rows_are_aligned(const cm_rows_args *a);
/* The kernel of rows that registers hold or that are read twice: k as rows.c has it. */
cm_status cm_cuda_rows_compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_rows_args *a,
                               const cm_knobs *k, bool vectors, const char *entry,
                               const cm_kernel **out) CM_MUST_USE;
/* Definitions that every kernel of rows wants. */
void cm_cuda_rows_text(cm_buf *b, const cm_problem *p, const cm_rows_args *a);
/* The pointers of a run. */
void cm_cuda_rows_point(const cm_run *r, cm_rows_args *a);
/* Bytes that pass through memory once. */
double cm_cuda_rows_bytes(const cm_problem *p);

/* The functions of the tactic for long rows (rows_kept.c), those for rows side by side (rows_lanes.c; long ones: rows_slab.c) and groups in parts (rows_group.c; by vectors: rows_units.c; kept by a few blocks or all together: rows_abreast.c, rows_team.c, rows_bands.c). */
const char *cm_cuda_kept_reject(const cm_problem *p);
int cm_cuda_kept_knobs(const cm_problem *p, cm_knobs *out);
double cm_cuda_kept_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_kept_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                             const cm_knobs *k, const void **state) CM_MUST_USE;
cm_status cm_cuda_kept_run(const cm_run *r) CM_MUST_USE;
const char *cm_cuda_lanes_reject(const cm_problem *p);
int cm_cuda_lanes_knobs(const cm_problem *p, cm_knobs *out);
double cm_cuda_lanes_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_lanes_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                              const cm_knobs *k, const void **state) CM_MUST_USE;
cm_status cm_cuda_lanes_run(const cm_run *r) CM_MUST_USE;
/* Neighbours that one thread has at most, of rows that are placed. */
int cm_cuda_lanes_side(const cm_problem *p, cm_rows_args *a);
const char *cm_cuda_slab_reject(const cm_problem *p);
int cm_cuda_slab_knobs(const cm_problem *p, cm_knobs *out);
double cm_cuda_slab_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_slab_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                             const cm_knobs *k, const void **state) CM_MUST_USE;
cm_status cm_cuda_slab_run(const cm_run *r) CM_MUST_USE;
const char *cm_cuda_abreast_reject(const cm_problem *p);
int cm_cuda_abreast_knobs(const cm_problem *p, cm_knobs *out);
double cm_cuda_abreast_cost(const cm_problem *p, const cm_knobs *k);
size_t cm_cuda_abreast_workspace(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_abreast_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                const cm_knobs *k, const void **state) CM_MUST_USE;
cm_status cm_cuda_abreast_run(const cm_run *r) CM_MUST_USE;
const char *cm_cuda_groups_reject(const cm_problem *p);
/* Elements of a vector; why groups, which are placed, are not to be read by vectors; threads that join the channels of a group. */
int cm_cuda_groups_width(const cm_problem *p);
const char *cm_cuda_groups_by_vectors(const cm_problem *p, cm_rows_args *a, bool *last);
int cm_cuda_groups_joiners(const cm_rows_args *a);
double cm_cuda_groups_cost(const cm_problem *p, const cm_knobs *k);
size_t cm_cuda_groups_workspace(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_groups_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                               const cm_knobs *k, const void **state) CM_MUST_USE;
/* For pointers that vectors do not fit. */
cm_status cm_cuda_groups_ready_narrow(cm_ctx *cx, cm_device *d, cm_arena *arena,
                                      const cm_problem *p, const void **state) CM_MUST_USE;
cm_status cm_cuda_groups_run_narrow(const cm_run *r, const void *narrow) CM_MUST_USE;
cm_status cm_cuda_groups_run(const cm_run *r) CM_MUST_USE;
const char *cm_cuda_units_reject(const cm_problem *p);
double cm_cuda_units_cost(const cm_problem *p, const cm_knobs *k);
size_t cm_cuda_units_workspace(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_units_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                              const cm_knobs *k, const void **state) CM_MUST_USE;
cm_status cm_cuda_units_run(const cm_run *r) CM_MUST_USE;
/* Of kernels whose blocks are all there at once and keep groups together: what `ready` makes, and how that runs. `told` bytes of the
 * workspace, zeros at first, are what blocks tell each other; statistics of rows are behind them. */
typedef struct cm_rows_together {
    const cm_kernel *kernel;
    const void *narrow; /* state of the tactic that has no need of vectors */
    cm_grid grid;
    cm_rows_args args;
    size_t told;
} cm_rows_together;
cm_status cm_cuda_together_run(const cm_run *r) CM_MUST_USE;
const char *cm_cuda_team_reject(const cm_problem *p);
int cm_cuda_team_knobs(const cm_problem *p, cm_knobs *out);
double cm_cuda_team_cost(const cm_problem *p, const cm_knobs *k);
size_t cm_cuda_team_workspace(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_team_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                             const cm_knobs *k, const void **state) CM_MUST_USE;
const char *cm_cuda_bands_reject(const cm_problem *p);
int cm_cuda_bands_knobs(const cm_problem *p, cm_knobs *out);
double cm_cuda_bands_cost(const cm_problem *p, const cm_knobs *k);
size_t cm_cuda_bands_workspace(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_bands_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                              const cm_knobs *k, const void **state) CM_MUST_USE;

#endif
