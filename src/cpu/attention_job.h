/* attention_job.h -- one run of attention: sizes, memory, and what its files share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A *unit* is a head of keys in one batch with the queries of every head that shares it: `rep` heads of q_len
 * rows each. Rows are numbered within a unit, head by head. */
#ifndef CM_CPU_ATTENTION_JOB_H
#define CM_CPU_ATTENTION_JOB_H

#include "cpu/attention.h"
#include "cpu/cpu.h"
#include "cpu/epilogue.h"
#include "cpu/gemm.h"

enum { Q, K, V, BIAS, MASK, PAST_K, PAST_V }; /* inputs */
enum {
    BLOCK_ROWS = 64,   /* queries that are done together */
    BLOCK_KEYS = 256,  /* scores of one query that are held */
    BLOCK_DEPTH = 128, /* keys of a panel of values that stay in L1 */
    BLOCK_STEP = 64,   /* keys that panels of every width divide: blocks begin at multiples */
    FEW_ROWS = 6       /* so few queries that keys are not worth packing */
};

/* Keys or values of a unit: float32, but where rows are done again in doubles. */
typedef struct source {
    const void *at;
    cm_dtype type;
    int64_t seq, dim;
} source;

/* Memory of one piece of work. */
typedef struct space {
    float *keys, *values; /* packed, or joined where few */
    float *q, *s, *o, *stats, *bias;
    uint8_t *mask;
} space;

typedef struct job {
    const cm_run *run;
    const cm_attention *a;
    const cm_attention_kernels *kernels;
    const cm_gemm_f32_kernel *g;
    cm_epilogue_plan epilogue;
    bool q_in_place;
    bool direct; /* float32 rows of y are stored where they belong, no epilogue follows */
    int64_t total, units, rep;
    bool few, joins[2];                    /* keys, values: copied to one place first */
    bool skips;                            /* keys that causality forbids need no scores */
    int64_t span, blocks_per_span, blocks; /* rows that blocks may span, blocks of a unit */
    int64_t splits;                        /* of the keys, where few */
    int64_t q_ld, s_ld, o_ld, mask_ld;
    int64_t slots;                   /* rows that are scored together */
    int64_t unit_elems, block_elems; /* floats of the two parts of a space */
    int64_t n_pieces;
    float *units_at, *blocks_at;
    bool shared; /* units are packed first, then blocks of all of them are done */
    /* Set by operators that are attention and more; 0 and NULL: nothing more. */
    int64_t present_rows; /* of a unit in the present outputs; 0: as many as there are keys */
    int64_t window;       /* a query sees its own place, behind the past, and window - 1 before */
    const float *sink;    /* scores, `sink_step` apart per head, that take part and have no value */
    int64_t sink_step;
} job;

static inline int64_t round16(int64_t n)
{
    return (n + 15) / 16 * 16;
}

bool cm_attention_has_present(const cm_problem *p, int which);
/* Why no tactic takes it, or NULL. */
const char *cm_attention_reject(const cm_problem *p);
void cm_attention_plan(const cm_problem *p, int threads, job *j);
int64_t cm_attention_most_pieces(int threads); /* job.n_pieces */
double cm_attention_cost(const cm_problem *p, const cm_knobs *k);
size_t cm_attention_workspace(const cm_problem *p, const cm_knobs *k);
/* All of it; of the job only `run` and what operators add are set. */
void cm_attention_execute(job *j);
/* Keys (0) or values (1) of a unit, joined in `room` or in the present output where they have to be; only keys
 * [from, to) are copied. */
source cm_attention_source(const job *j, int which, int64_t unit, int64_t from, int64_t to,
                           float *room);
/* Query r of a unit as float32: in place, or copied to `to` where it is of another type, strided, or rows
 * would fall into the same lines of the cache. */
const float *cm_attention_query(const job *j, int64_t unit, int64_t r, float *to);
/* How many keys causality lets row r see. */
int64_t cm_attention_sees(const job *j, int64_t r);
/* The first key that the window lets row r see; it may lie behind the last one. */
int64_t cm_attention_first(const job *j, int64_t r);
/* What becomes of row r's scores, from key `from` on; `n` of them. Rows that are scored together have
 * slots of their own. */
void cm_attention_score(const job *j, int64_t unit, int64_t r, int64_t from, int64_t n,
                        int64_t slot, const space *w, cm_score *out);
/* Row r is complete in w->o but for its division, or is done again in doubles; store it. */
void cm_attention_finish(const job *j, int64_t unit, int64_t r, const source *k, const source *v,
                         const float *stats, float *o);
/* Row r in doubles: for values that are not finite, and masks that leave a row nothing. */
void cm_attention_slow(const job *j, int64_t unit, int64_t r, const source *k, const source *v,
                       float *y);
void cm_attention_block(const job *j, int64_t unit, int64_t block, const source *k, const source *v,
                        const float *keys, const float *values, const space *w);
void cm_attention_pack(const job *j, const source *k, const source *v, float *keys, float *values);
/* Few queries against keys [from, to): w->o and w->stats get sums and statistics, undivided. */
void cm_attention_few(const job *j, int64_t unit, int64_t from, int64_t to, const source *k,
                      const source *v, const space *w);

/* cpu/attention_bf16.c has the functions of these rows. */
CM_TACTIC(attention_bf16);
CM_TACTIC_WORKSPACE(attention_bf16);
CM_TACTIC(attention_amx);
CM_TACTIC_WORKSPACE(attention_amx);

#endif
