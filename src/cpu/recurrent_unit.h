/* recurrent_unit.h -- what runs a recurrent network, shared by recurrent*.c.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_RECURRENT_UNIT_H
#define CM_CPU_RECURRENT_UNIT_H

#include "cpu/gemm.h"
#include "cpu/recurrent.h"

enum { CM_SHARED_ELEMS = 96 * 1024 }; /* weights of a product from which threads are worth waking */

/* The operator's inputs. */
enum {
    CM_RECURRENT_X,
    CM_RECURRENT_W,
    CM_RECURRENT_R,
    CM_RECURRENT_B,
    CM_RECURRENT_LENS,
    CM_RECURRENT_H0,
    CM_RECURRENT_C0
};

/* Columns of the state's product that are done first; a GRU's new value comes after its gates. */
static inline int64_t cm_recurrent_first_cols(const cm_recurrent *r)
{
    return (r->kind == CM_RECURRENT_RNN ? 1 : r->kind == CM_RECURRENT_GRU ? 2 : 4) * r->hidden;
}
/* Elements from one row of the state to the next. */
static inline int64_t cm_recurrent_round(int64_t n)
{
    return (n + 15) / 16 * 16;
}

/* Floats of a direction's packed weights. */
typedef struct cm_recurrent_packed {
    int64_t w;        /* of the inputs */
    int64_t first, r; /* of the state: of its first columns, of all */
} cm_recurrent_packed;
cm_recurrent_packed cm_recurrent_packed_of(const cm_gemm_f32_kernel *g, const cm_recurrent *r);

typedef struct cm_recurrent_job {
    const cm_run *run;
    const cm_recurrent *r;
    const cm_recurrent_kernels *kernels;
    const cm_gemm_f32_kernel *g;
    cm_gates gates;
    int64_t cols;  /* of all gates */
    int64_t parts; /* of the batch */
    int64_t rows;  /* of the batch in a part, at most */
    int64_t chunk; /* steps whose inputs' product is held */
    int panel;     /* columns of a panel that kernels->panel knows */
    bool shares;   /* one unit, or teams: products are shared among threads */
    bool teams;    /* steps are shared too (recurrent_team.c); units are the directions */
    int64_t
        helpers; /* threads that multiply the inputs of the next steps beside the one that does these; 0: none */
    int rate;   /* of the panels that have a piece beside them, 4 or 8; 0: none has */
    int64_t ld; /* from step to step of the gates */
    int64_t unit_elems, scratch_elems;
    float *workspace;
} cm_recurrent_job;

/* The inputs' product of the next steps, piece by piece: panels of weights, each in `parts` of `share` elements. */
typedef struct cm_recurrent_ahead {
    const float *rows[CM_AHEAD_ROWS];
    float *to;
    int64_t panel, part; /* the next */
    int64_t panels, parts, share;
} cm_recurrent_ahead;

/* Rows [row, row + n) of the batch in direction d. */
typedef struct cm_recurrent_unit {
    const cm_recurrent_job *j;
    int d;
    bool backward;
    int64_t row, n;
    const float *w, *r_first, *r_rest, *r_bias; /* r_bias: inside the reset gate, NULL: none */
    float *gates;                               /* [chunk][n][ld] */
    float *h, *c, *more, *next;                 /* [n][round16(hidden)]; next: a team's next h */
    float *bias;                                /* NULL: none */
    void *scratch;
    int64_t state;
    cm_recurrent_ahead *ahead; /* NULL: inputs are multiplied before */
} cm_recurrent_unit;

/* Gates of steps [t, t + n) from the inputs alone, biases too: one of so many parts of their columns. */
void cm_recurrent_multiply_inputs(const cm_recurrent_unit *u, int64_t t, int64_t n, int64_t part,
                                  int64_t parts);

/* Steps [from, from + n), n <= 8, whose gates go to `to`: biases first. */
void cm_recurrent_begin_ahead(const cm_recurrent_unit *u, int64_t from, int64_t n, float *to);
/* The next piece. False: there is none left. */
bool cm_recurrent_take_piece(const cm_recurrent_unit *u, cm_ahead_piece *to);
/* The pieces that had no place beside a panel. */
void cm_recurrent_finish_ahead(const cm_recurrent_unit *u);

/* Where row b of step t goes. */
float *cm_recurrent_y_row(const cm_recurrent_unit *u, int64_t t, int64_t b);
/* Steps of row b. */
int64_t cm_recurrent_length(const cm_recurrent_unit *u, int64_t b);
/* Step k of every row, up to mr rows at a time; the first gates that are held are of time `from`. */
void cm_recurrent_step(const cm_recurrent_unit *u, int64_t k, int64_t from);
/* All steps of everything, for a job whose sizes are known. */
void cm_recurrent_run_job(const cm_recurrent_job *j);

/* Does a team fit the job, whose sizes are known? */
bool cm_recurrent_has_teams(const cm_problem *p, const cm_recurrent_job *j);
/* Steps [k, k + n) of all directions at once; their inputs' product begins at step from[direction] of the gates. */
void cm_recurrent_run_teams(const cm_recurrent_job *j, cm_recurrent_unit *u, int64_t k, int64_t n,
                            const int64_t *from);

#endif
