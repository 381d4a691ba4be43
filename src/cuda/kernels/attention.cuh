// attention.cuh -- what the kernels of attention share: arguments, what becomes of scores, results.
// SPDX-License-Identifier: Apache-2.0
//
// A *unit* is a head of keys in one batch with the queries of every head that shares it: `rep` heads of q_len rows. A
// *span* is what blocks of rows lie in: all rows of a unit where heads have few queries, else those of one head.
//
// Specialised by macros: QT, KT, VT, YT (elements), D and DV (head sizes, padded), THREADS, BLOCK_ROWS, BLOCK_KEYS, and
// PLAIN (1: scores are products times a positive scale, apart from causality), and
// where there are such: BIAST, MASK, CAUSAL, SOFTCAP, FILL (forbidden scores become mask_value, else they take no
// part), BIAS_LAST, SPLITS, EPILOGUE with OPERANDS(X).
#pragma once

#ifndef TEAM // threads that have rows in common, their number in the block, their barriers: the whole block
#define TEAM THREADS
#define TEAM_INDEX 0
#define TEAM_OR(x) __syncthreads_or(x)
#define TEAM_SYNC() __syncthreads()
#endif

#define MAX_OPERANDS 8
#define INFINITE __int_as_float(0x7f800000)
#define LOG2E 1.44269504089f

struct heads {
    i64 offset, batch, head, seq, dim;
};
struct attention_args { // as cuda/attention.h has it
    const void *q, *k, *v, *bias, *past_k, *past_v;
    const u8 *mask;
    void *y, *present_k, *present_v;
    const void *operand[MAX_OPERANDS];
    float *parts; // SPLITS: sums of weighted values; behind them largest score and sum of weights
    heads at_q, at_k, at_v, at_y, at_past_k, at_past_v, at_operand[MAX_OPERANDS];
    i64 bias_at[4], mask_at[4];
    int bias_batch, mask_batch;
    int batch, kv_heads, rep, q_len, total, past, head_size, v_head_size;
    int span, spans, blocks;  // rows of a span, spans of a unit, blocks of a span
    int splits, split_keys;   // parts of the keys, keys of a part
    float scale, softcap, mask_value;
    float unit; // what a difference of scores is in powers of two
};

#ifdef EPILOGUE
DEVICE float operand_float(u8 v) { return v ? 1.0f : 0.0f; }
template <class T> DEVICE float operand_float(T v) { return to_float(v); }
#endif

// A row of queries.
struct query {
    int batch, head, at;
};

DEVICE query query_of(const attention_args &a, int unit, int row)
{
    query q;
    q.batch = unit / a.kv_heads;
    q.head = unit % a.kv_heads * a.rep + row / a.q_len;
    q.at = row % a.q_len;
    return q;
}

DEVICE i64 place_of(const heads &h, int batch, int head, int seq)
{
    return h.offset + batch * h.batch + head * h.head + seq * h.seq;
}

// How many keys causality lets a query see.
DEVICE int sees(const attention_args &a, int at)
{
#ifdef CAUSAL
    int n = at + a.total - a.q_len + 1;
    return n < 0 ? 0 : n;
#else
    return a.total;
#endif
}

// Where the biases and the mask of a row begin.
struct masks {
    i64 bias, mask;
    int sees;
};

DEVICE masks masks_of(const attention_args &a, const query &q)
{
    masks m;
    m.bias = q.batch % a.bias_batch * a.bias_at[0] + q.head * a.bias_at[1] + q.at * a.bias_at[2];
    m.mask = q.batch % a.mask_batch * a.mask_at[0] + q.head * a.mask_at[1] + q.at * a.mask_at[2];
    m.sees = sees(a, q.at);
    return m;
}

DEVICE bool takes_part(const attention_args &a, const masks &m, int key)
{
    bool part = key < m.sees;
#ifdef MASK
    part = part && a.mask[m.mask + key * a.mask_at[3]] != 0;
#endif
    return part;
}

DEVICE double capped(double v, float softcap) { return softcap * tanh(v / softcap); }
DEVICE float capped(float v, float softcap)
{
    // tanh(x) = 1 - 2 / (e^2x + 1)
    return softcap * (1.0f - 2.0f / (__expf(v * (2.0f / softcap)) + 1.0f));
}

// The score of a key from its product with the query, already scaled. T: the numbers it is computed in.
template <class T>
DEVICE T score_of(const attention_args &a, const masks &m, int key, T product)
{
    T s = product, bias = 0;
#ifdef SOFTCAP
    s = capped(s, a.softcap);
#endif
#ifdef BIAST
    bias = to_float(((const BIAST *)a.bias)[m.bias + key * a.bias_at[3]]);
#endif
    if (takes_part(a, m, key))
        return s + bias;
#ifdef FILL
#ifdef BIAS_LAST
    return a.mask_value + bias;
#else
    return a.mask_value;
#endif
#else
    return -INFINITE;
#endif
}

// Row s of keys or values of a unit: among the past ones, or the fresh.
template <class T>
DEVICE const T *key_row(const void *fresh, const heads &at, const void *past, const heads &at_past,
                        const attention_args &a, int unit, int s)
{
    int batch = unit / a.kv_heads, head = unit % a.kv_heads;
    return s < a.past ? (const T *)past + place_of(at_past, batch, head, s)
                      : (const T *)fresh + place_of(at, batch, head, s - a.past);
}

DEVICE i64 key_step(const heads &at, const heads &at_past, const attention_args &a, int s)
{
    return s < a.past ? at_past.dim : at.dim;
}

// ---- Weights -----------------------------------------------------------------------------------

DEVICE float exp2_fast(float x)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

template <class T> DEVICE u32 pair_of(float low, float high)
{
    return (u32)from_float<T>(low).bits | (u32)from_float<T>(high).bits << 16;
}
#if __CUDA_ARCH__ >= 800
template <> __device__ __forceinline__ u32 pair_of<f16>(float low, float high)
{
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
template <> __device__ __forceinline__ u32 pair_of<bf16>(float low, float high)
{
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
#endif

// What a score weighs beside the largest. PLAIN: scores are not yet scaled, `unit` does it.
DEVICE float weight_of(const attention_args &a, float score, float most)
{
    return exp2_fast(PLAIN ? score * a.unit - most * a.unit : (score - most) * a.unit);
}

// ---- Results -----------------------------------------------------------------------------------

DEVICE float finished(const attention_args &a, const query &q, int d, float v)
{
#ifdef EPILOGUE
    float with[MAX_OPERANDS], results[1];
#ifdef OPERANDS
#define X(i, type)                                                                                 \
    with[i] = operand_float(((const type *)a.operand[i])[place_of(a.at_operand[i], q.batch,        \
                                                                  q.head, q.at) +                  \
                                                         d * a.at_operand[i].dim]);
    OPERANDS(X)
#undef X
#endif
    epilogue(v, with, results);
    v = results[0];
#endif
    return v;
}

DEVICE void put(const attention_args &a, const query &q, int d, float v)
{
    ((YT *)a.y)[place_of(a.at_y, q.batch, q.head, q.at) + d * a.at_y.dim] = from_float<YT>(finished(a, q, d, v));
}

// Parts: [unit][row][split] of v_head_size sums, then of two numbers.
DEVICE float *part_of(const attention_args &a, int unit, int row, int split)
{
    i64 index = ((i64)unit * a.rep * a.q_len + row) * a.splits + split;
    return a.parts + index * a.v_head_size;
}

DEVICE float *part_stats(const attention_args &a, int unit, int row, int split)
{
    i64 rows = (i64)a.batch * a.kv_heads * a.rep * a.q_len;
    i64 index = ((i64)unit * a.rep * a.q_len + row) * a.splits + split;
    return a.parts + rows * a.splits * a.v_head_size + index * 2;
}

// Did float32 hold what the row is made of? Not where there is nothing, or what is no number, or a weight of zero
// met an infinite value.
DEVICE bool is_good(float sum) { return sum < 1e30f && sum > 0; }

DEVICE double slow_score(const attention_args &a, const query &q, const masks &m, int unit, int key)
{
    const QT *x = (const QT *)a.q + place_of(a.at_q, q.batch, q.head, q.at);
    const KT *k = key_row<KT>(a.k, a.at_k, a.past_k, a.at_past_k, a, unit, key);
    i64 step = key_step(a.at_k, a.at_past_k, a, key);
    double sum = 0;
    for (int d = 0; d < a.head_size; d++)
        sum += (double)to_float(x[d * a.at_q.dim]) * to_float(k[d * step]);
    return score_of<double>(a, m, key, sum * a.scale);
}

// One row in doubles, by all of a team: values that are not finite, scores that float32 cannot hold,
// masks that leave a row nothing.
static __device__ __noinline__ void slow_row(const attention_args &a, int unit, int row)
{
    __shared__ double all[THREADS];
    double *held = all + TEAM_INDEX * TEAM;
    int t = threadIdx.x % TEAM;
    query q = query_of(a, unit, row);
    masks m = masks_of(a, q);
    double most = -INFINITE, sum = 0;
    bool any = false, undefined = false;
    for (int k = t; k < a.total; k += TEAM) {
#if !defined FILL
        if (!takes_part(a, m, k))
            continue;
#endif
        double s = slow_score(a, q, m, unit, k);
        any = true;
        undefined = undefined || s != s;
        most = s > most ? s : most;
    }
    undefined = TEAM_OR(undefined);
    any = TEAM_OR(any);
    held[t] = most;
    TEAM_SYNC();
    for (int i = 0; i < TEAM; i++)
        most = held[i] > most ? held[i] : most;
    TEAM_SYNC();
    if (undefined || !any || most == -INFINITE) {
        for (int d = t; d < a.v_head_size; d += TEAM)
            put(a, q, d, undefined ? INFINITE - INFINITE : 0.0f);
        return;
    }
    for (int k = t; k < a.total; k += TEAM) {
        double s = slow_score(a, q, m, unit, k);
        sum += s == -INFINITE ? 0 : exp(s - most);
    }
    held[t] = sum;
    TEAM_SYNC();
    sum = 0;
    for (int i = 0; i < TEAM; i++)
        sum += held[i];
    TEAM_SYNC();
    for (int from = 0; from < a.v_head_size; from += TEAM) {
        int d = from + t;
        double y = 0;
        for (int first = 0; first < a.total; first += TEAM) {
            int n = a.total - first < TEAM ? a.total - first : TEAM;
            double s = t < n ? slow_score(a, q, m, unit, first + t) : -INFINITE;
            held[t] = s == -INFINITE ? 0 : exp(s - most) / sum;
            TEAM_SYNC();
            for (int i = 0; i < n && d < a.v_head_size; i++) {
                if (held[i] == 0)
                    continue;
                const VT *v = key_row<VT>(a.v, a.at_v, a.past_v, a.at_past_v, a, unit, first + i);
                y += held[i] * to_float(v[d * key_step(a.at_v, a.at_past_v, a, first + i)]);
            }
            TEAM_SYNC();
        }
        if (d < a.v_head_size)
            put(a, q, d, (float)y);
    }
}

// ---- Shares ------------------------------------------------------------------------------------

// What a block does at a time: rows [row, row + rows) of a unit with keys [from, to).
struct share {
    int unit, row, rows, split, from, to;
};

// Keys that causality forbids all rows are left out where they take no part.
DEVICE share share_of(const attention_args &a, int index)
{
    share s;
    int block, span;
#ifdef CAUSAL
    // The last blocks of a span see most: they go first, those of a few spans whose keys stay in the L2 cache.
    enum { TOGETHER = 32 };
    int all = a.batch * a.kv_heads * a.spans, first = index / (TOGETHER * a.blocks) * TOGETHER;
    int spans = all - first < TOGETHER ? all - first : TOGETHER;
    index -= first * a.blocks;
    block = a.blocks - 1 - index / spans;
    span = first + index % spans;
#else
    block = index % a.blocks;
    span = index / a.blocks;
#endif
    s.unit = span / a.spans;
    span %= a.spans;
    s.split = blockIdx.y;
    s.row = span * a.span + block * BLOCK_ROWS;
    s.rows = a.span - block * BLOCK_ROWS < BLOCK_ROWS ? a.span - block * BLOCK_ROWS : BLOCK_ROWS;
    s.from = s.split * a.split_keys;
    s.to = s.from + a.split_keys < a.total ? s.from + a.split_keys : a.total;
    return s;
}

// How many keys the rows of a share see at most.
DEVICE int most_seen(const attention_args &a, const share &s)
{
    int first = s.row % a.q_len, last = first + s.rows - 1;
    return sees(a, last < a.q_len ? last : a.q_len - 1);
}
