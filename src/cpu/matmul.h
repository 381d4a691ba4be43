/* matmul.h -- what the tactics of matrix products share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A tactic sees the product so that columns of the result are adjacent in memory: as it is, or with the
 * roles of the operands exchanged (the transposed product). */
#ifndef CM_CPU_MATMUL_H
#define CM_CPU_MATMUL_H

#include <stdatomic.h>

#include "cpu/cpu.h"
#include "cpu/epilogue.h"
#include "cpu/gemm.h"

typedef struct cm_matmul_view {
    cm_matmul s; /* with exchanged roles where `exchanged` */
    bool exchanged;
    int a, b;       /* inputs that play the roles */
    int n_col_axes; /* of the output, as epilogues count them */
    /* The epilogue's row of row i of batch (x, y...) is i * row + x * batch[0] + ... */
    int64_t row, batch[CM_BATCH_AXES];
    int64_t n_batch; /* all batch axes multiplied */
} cm_matmul_view;

/* False: no order of roles makes columns adjacent. */
bool cm_matmul_view_of(const cm_problem *p, cm_matmul_view *v);

/* Does the operand in the role of B hold whole matrices one after the other, each by rows or by columns? */
bool cm_matmul_is_regular(const cm_problem *p, const cm_matmul_view *v);

/* One of the batch: offsets of its matrices, in elements, and its first row as the epilogue counts. */
typedef struct cm_matmul_at {
    int64_t a, b, c, row;
} cm_matmul_at;
cm_matmul_at cm_matmul_batch_at(const cm_matmul_view *v, int64_t index);

/* What is done to sums on their way out. */
typedef struct cm_matmul_out {
    const cm_matmul_view *v;
    cm_epilogue_plan plan;
    bool simple; /* `e` is all */
    cm_simple_epilogue e;
    const float *bias; /* Gemm's, times beta; strides along rows and columns of the view */
    int64_t bias_row, bias_col;
    float beta;
} cm_matmul_out;
/* Why results cannot be handled, or NULL. `tiles`: sums are made elsewhere and never `simple`, so that the
 * output may be of any type that epilogues store. */
const char *cm_matmul_out_reject(const cm_problem *p, const cm_matmul_view *v, bool tiles);
void cm_matmul_out_init(cm_matmul_out *o, const cm_run *r, const cm_matmul_view *v, bool tiles);

/* For cm_gemm_f32_args.done, where not `simple`: parts of one of the batch. */
typedef struct cm_matmul_part {
    const cm_matmul_out *out;
    float *x; /* sums, from the first element of the part */
    int64_t ld;
    int64_t row, i,
        j; /* the batch's first row as the epilogue counts; the part's place in the batch */
} cm_matmul_part;
void cm_matmul_part_done(void *part, int64_t i, int64_t j, int64_t m, int64_t n);

/* Work cut into a grid of rows and columns for each of the batch, handed out one by one to threads that
 * each have scratch memory of their own. */
typedef struct cm_matmul_grid {
    int64_t batch, rows, cols; /* pieces */
    int64_t workers;
} cm_matmul_grid;
/* m_units and n_units: what rows and columns can be cut into. rows_first: cut rows before columns. */
cm_matmul_grid cm_matmul_cut(int64_t batch, int64_t m_units, int64_t n_units, bool rows_first,
                             double total_ns, int threads);
typedef void (*cm_matmul_piece_fn)(void *arg, int64_t worker, int64_t batch, int64_t row,
                                   int64_t col);
void cm_matmul_run_grid(cm_threads *t, const cm_matmul_grid *g, cm_matmul_piece_fn fn, void *arg);

/* Nanoseconds on one thread at `efficiency` of the machine's peak, of computing or of reading B. */
double cm_matmul_ns(const cm_problem *p, double efficiency);

/* cpu/<tactic>.c has the functions of its row. */
CM_TACTIC(matmul_dot);
CM_TACTIC(matmul_packed);
CM_TACTIC_WORKSPACE(matmul_packed);
CM_TACTIC_PACK(matmul_packed);
CM_TACTIC(matmul_strassen);
CM_TACTIC_WORKSPACE(matmul_strassen);
CM_TACTIC(matmul_by_pairs);
CM_TACTIC_WORKSPACE(matmul_by_pairs);
CM_TACTIC(matmul_left);
CM_TACTIC_WORKSPACE(matmul_left);
CM_TACTIC_PACK(matmul_left);
CM_TACTIC(matmul_pair);
CM_TACTIC_WORKSPACE(matmul_pair);
CM_TACTIC(matmul_amx);
CM_TACTIC_WORKSPACE(matmul_amx);
CM_TACTIC_PACK(matmul_amx);
CM_TACTIC(matmul_bf16);
CM_TACTIC_WORKSPACE(matmul_bf16);
CM_TACTIC_PACK(matmul_bf16);
CM_TACTIC(matmul_half);
CM_TACTIC_WORKSPACE(matmul_half);
CM_TACTIC_PACK(matmul_half);

#endif
