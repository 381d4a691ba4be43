/* epilogue.h -- a problem's epilogue, applied to tiles of its output while they are in the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Output 0 is seen as a matrix: its axes in the order of memory (strides falling), the innermost
 * `n_col_axes` of them multiplied together being the columns, the rest the rows. A product's output has one
 * column axis; a channels-last convolution's too (the channels); a row-major convolution's has the spatial
 * axes as columns and n * c rows. 0 column axes: every element is a row of its own (a matrix times a
 * vector). Among equal strides axes of size 1 come last, then the order of the axes counts, so that a
 * channels-last output of one channel has one column.
 *
 *     cm_epilogue_plan e;
 *     cm_epilogue_init(&e, r, 1);                  // once per run, cheap
 *     ...
 *     cm_epilogue_tile(&e, row, col, m, n, acc, ld);   // from any thread
 *
 * A problem without an epilogue works too: a tile is then converted to the output's type and stored. */
#ifndef CM_CPU_EPILOGUE_H
#define CM_CPU_EPILOGUE_H

#include "cpu/tile.h"
#include "plan/tactic.h"

enum { CM_EPILOGUE_OPERANDS = 16 };

typedef struct cm_epilogue_plan {
    const cm_program *program; /* NULL: none */
    int level;
    int n_operands;
    cm_tile_view operands[CM_EPILOGUE_OPERANDS];
    cm_tile_view out; /* where the result goes */
    int64_t rows, cols;
    cm_tile_code code;
} cm_epilogue_plan;

/* Why tiles of this problem's output cannot be handled (for `reject`), or NULL: all element types that are
 * computed as float32 can (float32, float16, bfloat16, bool; operands of 8- and 16-bit integers too), up to
 * CM_EPILOGUE_OPERANDS operands. */
const char *cm_epilogue_reject(const cm_problem *p, int n_col_axes);
void cm_epilogue_init(cm_epilogue_plan *e, const cm_run *r, int n_col_axes);
/* Its two parts: what cm_epilogue_simple looks at, and what cm_epilogue_tile runs. */
void cm_epilogue_view(cm_epilogue_plan *e, const cm_run *r, int n_col_axes);
void cm_epilogue_compile(cm_epilogue_plan *e);
/* x: m rows of n float32, `ld` apart: the results before the epilogue of rows [row, row + m) and columns
 * [col, col + n). The epilogue's results go to their place in the output; x may be that very place. */
void cm_epilogue_tile(const cm_epilogue_plan *e, int64_t row, int64_t col, int64_t m, int64_t n,
                      const float *x, int64_t ld);

/* An operand that is added: rows `ld` apart, 0: the same for all. */
typedef struct cm_chain_operand {
    const void *data; /* NULL: none */
    cm_dtype type;    /* CM_F32 or CM_BF16 */
    int64_t ld;
} cm_chain_operand;

/* x -> add bias -> add residual -> activation, in any order of the additions. */
typedef struct cm_chain {
    cm_chain_operand bias, residual;
    cm_pointwise
        act; /* CM_PW_CLIP to lo and hi, or one of CM_PW_GELU, CM_PW_GELU_TANH, CM_PW_SILU */
    float lo, hi;
} cm_chain;

/* Has it that form, the output having adjacent columns? half: it is bfloat16, operands too or float32; else all is
 * float32 and the activation clips. False: *out changes nothing. */
bool cm_epilogue_chain(const cm_epilogue_plan *e, bool half, cm_chain *out);

/* The commonest epilogues in a form that a kernel does on registers before it stores:
 *     y = min(hi, max(lo, x + bias[col] + residual[row * residual_ld + col]))
 * with lo and hi infinite when there is no activation. NaN stays NaN. */
typedef struct cm_simple_epilogue {
    const float *bias;     /* NULL: none */
    const float *residual; /* NULL: none */
    int64_t residual_ld;
    float lo, hi;
} cm_simple_epilogue;

/* Has it that form, the output being float32 with rows `ld` apart and adjacent columns? False: use
 * tiles, and *out changes nothing. Also true without an epilogue. */
bool cm_epilogue_simple(const cm_epilogue_plan *e, cm_simple_epilogue *out);
/* The same with an activation that is no clipping: *act is CM_PW_GELU, CM_PW_GELU_TANH or CM_PW_SILU, and lo and hi are
 * infinite; or CM_PW_CLIP. */
bool cm_epilogue_simple_act(const cm_epilogue_plan *e, cm_simple_epilogue *out, cm_pointwise *act);
/* Both at once: where it is true, tiles are not made ready. */
bool cm_epilogue_init_or_simple(cm_epilogue_plan *e, const cm_run *r, int n_col_axes,
                                cm_simple_epilogue *out);

#endif
