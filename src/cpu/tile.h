/* tile.h -- pointwise programs compiled to a list of functions over tiles that stay in the L1 cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The elements are seen as a matrix of rows and columns, as in epilogue.h; a tile is a piece of a row or
 * some whole short rows, at most `CM_TILE_ELEMS` elements. Each instruction is one function of the level
 * that runs over the tile from and to registers: small buffers, shared by results that do not
 * live at the same time. Operands of float32 that lie densely are read where they are. */
#ifndef CM_CPU_TILE_H
#define CM_CPU_TILE_H

#include "plan/program.h"
#include "plan/tensor.h"

enum {
    CM_TILE_ELEMS = 1024,        /* in a register, at most */
    CM_TILE_FLOATS = 4096,       /* in all registers */
    CM_TILE_UNBOUNDED = 1 << 20, /* elements of a tile that needs no register */
    CM_TILE_AXES = 6,            /* of rows and of columns, those merged that can be */
    CM_TILE_OPERANDS = 64,       /* of a program */
    CM_TILE_STEPS = 4 * CM_PROGRAM_MAX,
    CM_TILE_NUMBERS = 3 * CM_PROGRAM_MAX,
    CM_TILE_SLOTS = 7 * CM_PROGRAM_MAX,
};

/* How a tensor lies beside the matrix. */
typedef struct cm_tile_view {
    const void *data;
    cm_dtype dtype;
    int n_axes; /* of rows, outermost first; at least 1 */
    int64_t dims[CM_TILE_AXES], strides[CM_TILE_AXES];
    int n_col_axes; /* at least 1 */
    int64_t col_dims[CM_TILE_AXES], col_strides[CM_TILE_AXES];
} cm_tile_view;

/* Begin a view, add axes from the outermost in, rows before columns, then end it. An axis is merged into
 * the one before where that can be. False: too many. */
void cm_tile_view_begin(cm_tile_view *v, cm_dtype dtype, const void *data);
bool cm_tile_view_row(cm_tile_view *v, int64_t dim, int64_t stride);
bool cm_tile_view_col(cm_tile_view *v, int64_t dim, int64_t stride);
void cm_tile_view_end(cm_tile_view *v);

/* Where an element is. */
char *cm_tile_address(const cm_tile_view *v, int64_t row, int64_t col);

/* Types that are computed as float32 without loss, and those that results are rounded to. */
bool cm_tile_loads(cm_dtype t);
bool cm_tile_stores(cm_dtype t);

/* y[i] = f(a[i], b[i], c[i]) for i < n. y may be one of the others. */
typedef void (*cm_tile_fn)(float *y, const float *a, const float *b, const float *c, int64_t n);

/* Instructions beside those of programs. */
typedef enum {
    CM_TILE_SPLAT = CM_PW_COUNT, /* a[0] everywhere */
    CM_TILE_MUL_ADD,             /* a * b + c */
    CM_TILE_SQUARE,
    CM_TILE_SUM, /* CM_TILE_SUM + f: f(a + b), for functions f of one argument that often follow a sum */
    CM_TILE_OPS = CM_TILE_SUM + CM_PW_COUNT
} cm_tile_op;

/* What each ISA level has. */
typedef struct cm_tile_kernels {
    struct {
        cm_tile_fn each;  /* every argument a vector */
        cm_tile_fn right; /* arguments after the first are one number each; NULL: not there */
        cm_tile_fn left;  /* the first is one number */
    } op[CM_TILE_OPS];
    void (*load[CM_DTYPE_COUNT])(float *y, const void *from, int64_t stride, int64_t n);
    void (*store[CM_DTYPE_COUNT])(void *to, int64_t stride, const float *x, int64_t n);
} cm_tile_kernels;
extern const cm_tile_kernels cm_cpu_tile__generic, cm_cpu_tile__avx2, cm_cpu_tile__avx512;
const cm_tile_kernels *cm_tile_kernels_at(int level);

typedef struct cm_tile_step {
    cm_tile_fn fn;
    uint16_t to, arg[3]; /* slots */
} cm_tile_step;

/* Slots are pointers while running: operands, x, numbers, the place that the last step writes to, then
 * registers. Slot 0 of `home` means that there is none. */
typedef struct cm_tile_code {
    const cm_tile_kernels *kernels;
    int n_steps, n_operands, n_numbers, n_registers, n_outputs;
    int tile;                            /* elements of a register */
    int direct;                          /* output that is the last step's result, -1: none */
    uint16_t direct_home;                /* register for it where it cannot be written in place */
    uint16_t out[CM_PROGRAM_MAX];        /* slot of each output */
    uint16_t home[CM_TILE_OPERANDS + 1]; /* register that an operand (x last) is loaded to */
    bool one[CM_TILE_OPERANDS];          /* operand is one number in a tile */
    bool used[CM_TILE_OPERANDS];
    float number[CM_TILE_NUMBERS];
    cm_tile_step step[CM_TILE_STEPS];
} cm_tile_code;

/* What is known of operands and outputs before: */
typedef struct cm_tile_facts {
    bool one[CM_TILE_OPERANDS];    /* the operand is one number in each tile */
    bool loaded[CM_TILE_OPERANDS]; /* it may have to be brought to a register */
    bool x_loaded;
    bool out_stored; /* outputs may have to be computed in a register, then stored */
} cm_tile_facts;

/* Is the operand one run of elements in every tile? */
bool cm_tile_is_run(const cm_tile_view *v, int64_t cols, bool rows_apart);
/* Rough nanoseconds that one core takes for an element of the program, memory not counted. */
double cm_tile_cost(const cm_program *p, int level);
/* Why the program cannot be compiled, or NULL. */
const char *cm_tile_reject(const cm_program *p);
void cm_tile_compile(cm_tile_code *c, const cm_program *p, int level, const cm_tile_facts *facts);
/* The program that hands x out as it is. */
void cm_tile_compile_copy(cm_tile_code *c, int level);

/* A compiled program and where its operands and outputs are. */
typedef struct cm_tile_job {
    const cm_tile_code *code;
    const cm_tile_view *operands;
    const cm_tile_view *out; /* per output of the program; data NULL: nobody wants it */
    int64_t cols;            /* of the whole matrix */
    bool rows_apart;         /* no tile has more than one row */
} cm_tile_job;

/* Rows [row, row + m) and columns [col, col + n). x: m rows of n, `ld` apart, or NULL. */
void cm_tile_run(const cm_tile_job *j, int64_t row, int64_t col, int64_t m, int64_t n,
                 const float *x, int64_t ld);

#endif
