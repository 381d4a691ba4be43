/* attend.h -- scaled dot product attention on doubles: the core of every attention operator.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     y = softmax(softcap(scale * q k^T) + bias) v        per (batch, head), a query row at a time
 *
 * No score matrix is held: one row of scores per head. A key takes part when the causal frontier,
 * the window and the padding allow it and its bias is not -infinity; a row where none does is
 * zero. */
#ifndef CM_OPS_ATTEND_H
#define CM_OPS_ATTEND_H

#include "ops/eval.h"

/* Element (batch, head, row, i) lies at at[batch*b + head*h + row*r + i]. */
typedef struct cm_heads {
    const double *at;
    int64_t batch, head, row; /* strides in elements */
} cm_heads;

/* The same for a tensor that is written, a row at a time. */
typedef struct cm_heads_out {
    cm_dtype dtype;
    void *at; /* NULL: not wanted */
    int64_t batch, head, row;
} cm_heads_out;

/* What the scores output holds. TAKING_PART: biased, 0 for keys that do not take part. */
typedef enum {
    CM_SCORE_RAW,
    CM_SCORE_CAPPED,
    CM_SCORE_BIASED,
    CM_SCORE_SOFTMAX,
    CM_SCORE_TAKING_PART
} cm_score_mode;

typedef struct cm_attend {
    int64_t batch, q_heads, kv_heads; /* q_heads a multiple of kv_heads */
    int64_t q_len, kv_len, head, v_head;
    cm_heads q, k, v;
    double scale, softcap; /* softcap 0: none */
    const double *bias;    /* NULL: none. Else element (b, h, q, k), strides 0 where broadcast */
    int64_t bias_batch, bias_head, bias_row, bias_col;
    int64_t bias_cols;   /* keys that it covers; later ones do not take part */
    int64_t bias_period; /* batches that it covers, after which it repeats; 0: all */
    bool causal;
    int64_t left, right;     /* window around the query's position, -1: unbounded */
    const int64_t *position; /* of the first query among the keys, per batch; NULL: 0 */
    const int64_t *kv_valid; /* keys that are no padding, per batch; NULL: all */
    const double *sink;      /* per query head: a score that takes part and has no value, or NULL */
    /* NULL, or: does key `k` take part for query `q`? */
    bool (*allow)(const void *arg, int64_t batch, int64_t head, int64_t q, int64_t k);
    const void *allow_arg;
    bool from_bool; /* the bias was a boolean mask: scores that it rules out are shown as the lowest
                       finite number, as ONNX Runtime shows them, not as -infinity */
    const double *fill; /* NULL, or the score of keys that causality or `allow` forbid */
    bool fill_biased;   /* the bias is added to that score too */
    cm_heads_out y;
    cm_heads_out scores; /* rows of kv_len */
    cm_score_mode score_mode;
} cm_attend;

cm_status cm_attend_run(cm_eval *e, const cm_attend *a) CM_MUST_USE;

/* Strides of a dense [batch, heads, len, size] (bnsh) or [batch, len, heads, size] (bsnh). */
cm_heads cm_heads_bnsh(const double *at, int64_t heads, int64_t len, int64_t size);
cm_heads cm_heads_bsnh(const double *at, int64_t heads, int64_t len, int64_t size);
cm_heads_out cm_heads_out_bnsh(cm_tensor *t, int64_t heads, int64_t len, int64_t size);
cm_heads_out cm_heads_out_bsnh(cm_tensor *t, int64_t heads, int64_t len, int64_t size);

/* A cache of `len` rows a head in scratch: row r < past_len of each head from `past`, then the rows
 * of `fresh`. past_len is one number for all, and rows behind `fresh` are then what `past` holds
 * there (a shared buffer); or it differs by batch (past_lens), and they are zero. */
typedef struct cm_cache {
    int64_t batch, heads, len, size;
    cm_heads past; /* at NULL: none */
    int64_t past_rows;
    const int64_t *past_lens;
    int64_t past_len;
    cm_heads fresh;
    int64_t fresh_len;
} cm_cache;
cm_status cm_cache_join(cm_eval *e, const cm_cache *c, double **out) CM_MUST_USE;

/* Keys or values `h` with input `past`, where it is given, before them, in scratch; output `out` gets
 * the whole where it is wanted. */
cm_status cm_attend_join_past(cm_eval *e, const cm_attend *a, int past, int out, int64_t fresh_len,
                              int64_t size, cm_heads *h) CM_MUST_USE;

#endif
