// attention_wgmma.cu -- attention of 16-bit elements on sm_90: one thread fills shared memory by bulk copies, GROUPS warp
// groups have 64 rows of queries each; scores and weights never leave registers. A block takes one share after the other: while
// the results of one leave, the queries and keys of the next are on their way.
// SPDX-License-Identifier: Apache-2.0
//
// Beside what attention.cuh wants: GROUPS, PARTS (so many groups have the same rows, and every PARTS-th tile of the keys each; 1, or
// all groups), STAGES, PER_MULTIPROCESSOR, PLAIN (scores are products times a positive scale, apart
// from causality), Y_VECTORS (results lie in whole vectors of 16 bytes), KEYED (bias and mask are the same for all queries of a
// head), and
//   multiply_scores(s, q, k, add): s (+)= q k^T, 64 rows by BLOCK_KEYS from 16 of D, both from shared memory;
//   multiply_values(o, p, v): o += p v, 64 rows by DV from 16 keys, the weights from registers.
//
// Operands lie in shared memory in blocks of 64 columns with 128-byte swizzling: a line of 128 bytes for each row. While the
// scores of a tile of keys become weights the products of the tile before are under way, and those of the other groups.
#include "common.cuh"
#include "ptx_matrix.cuh"
#include "ptx_bulk.cuh"
#include "ptx_groups.cuh"

#define THREADS (GROUPS * 128) // that have rows
#define BLOCK_ROWS (GROUPS / PARTS * 64)
#define TEAM 128 // a group
#define TEAM_INDEX ((int)threadIdx.x / TEAM)
#define TEAM_SYNC() named_sync(1 + TEAM_INDEX, TEAM)
#define TEAM_OR(x) named_or(1 + TEAM_INDEX, TEAM, x)
#include "attention.cuh"

enum {
    LINE = 128, // bytes
    ALL_THREADS = THREADS + (GROUPS > 1 ? 128 : 32), // one of the last fills
    D_BLOCKS = (D + 63) / 64,
    DV_BLOCKS = (DV + 63) / 64,
    Q_BLOCK = BLOCK_ROWS * LINE,
    K_BLOCK = BLOCK_KEYS * LINE,
    Q_BYTES = D_BLOCKS * Q_BLOCK,
    Q_ROOM = (D_BLOCKS > DV_BLOCKS ? D_BLOCKS : DV_BLOCKS) * Q_BLOCK, // results leave through it
    K_BYTES = D_BLOCKS * K_BLOCK,
    V_BYTES = DV_BLOCKS * K_BLOCK,
    FIRST_TURN = 1 + GROUPS, // named barriers: from 1 on of each group, then turns or those of results that are joined
    JOIN_FREE = FIRST_TURN,
    JOIN_FULL = JOIN_FREE + PARTS,
    Q_SLOTS = 2,
    ALONE = PER_MULTIPROCESSOR == 1 && GROUPS > 1,
};

struct places {
    u32 q, k, v, q_full, q_empty, k_full, k_empty, v_full, v_empty; // in shared memory; queries: of Q_SLOTS, others of STAGES
};

DEVICE places lay_out(char *shared)
{
    u32 base = shared_address(shared);
    places s;
    s.q = base + (1024 - base % 1024) % 1024;
    s.k = s.q + Q_SLOTS * Q_ROOM;
    s.v = s.k + STAGES * K_BYTES;
    s.q_full = s.v + STAGES * V_BYTES;
    s.q_empty = s.q_full + Q_SLOTS * 8;
    s.k_full = s.q_empty + Q_SLOTS * 8;
    s.k_empty = s.k_full + STAGES * 8;
    s.v_full = s.k_empty + STAGES * 8;
    s.v_empty = s.v_full + STAGES * 8;
    if (threadIdx.x == 0) {
        for (int i = 0; i < Q_SLOTS; i++) {
            barrier_init(s.q_full + i * 8, 1);
            barrier_init(s.q_empty + i * 8, GROUPS);
        }
        for (int i = 0; i < STAGES; i++) {
            barrier_init(s.k_full + i * 8, 1);
            barrier_init(s.v_full + i * 8, 1);
            barrier_init(s.k_empty + i * 8, GROUPS / PARTS);
            barrier_init(s.v_empty + i * 8, GROUPS / PARTS);
        }
        barriers_made();
    }
    __syncthreads();
    return s;
}

// ---- To shared memory --------------------------------------------------------------------------

// A tile of keys or values when its place is free.
template <int BLOCKS>
DEVICE void fill_tile(const tensor_map &from, u32 to, u32 full, u32 empty, int i, int key, int head, int batch)
{
    u32 slot = i % STAGES;
    barrier_wait(empty + slot * 8, (i / STAGES & 1) ^ 1);
    barrier_expect(full + slot * 8, BLOCKS * K_BLOCK);
    for (int b = 0; b < BLOCKS; b++)
        copy_box_4d(to + (slot * BLOCKS + b) * K_BLOCK, from, full + slot * 8, b * 64, key, head, batch);
}

// Of keys that one of a share's rows sees. The groups of a block walk over all of them: their turns go round.
DEVICE int tiles_of(const attention_args &a, const share &h)
{
    int end = h.to;
#if defined CAUSAL && !(defined FILL && defined BIAS_LAST)
    int seen = most_seen(a, h);
    end = seen < end ? seen : end;
#endif
    return end > 0 ? (end + BLOCK_KEYS - 1) / BLOCK_KEYS : 1;
}

DEVICE int shares_of(const attention_args &a) { return a.batch * a.kv_heads * a.spans * a.blocks; }

// Known here, not only where it is used: divisions are done before the grid's predecessor has ended.
DEVICE void settled(share &h)
{
    asm volatile("" : "+r"(h.unit), "+r"(h.row), "+r"(h.rows), "+r"(h.split), "+r"(h.from), "+r"(h.to));
}

DEVICE void fill(const tensor_map &q, const tensor_map &k, const tensor_map &v, const attention_args &a,
                 const places &s)
{
    int all = shares_of(a), turn = 0, tile = 0;
    prefetch_map(q);
    prefetch_map(k);
    prefetch_map(v);
    share h = share_of(a, blockIdx.x);
    query from = query_of(a, h.unit, h.row);
    settled(h);
    asm volatile("" : "+r"(from.batch), "+r"(from.head), "+r"(from.at));
    wait_for_predecessor();
    for (int index = blockIdx.x;; turn++) {
        int head = h.unit % a.kv_heads, slot = turn % Q_SLOTS, tiles = tiles_of(a, h);
        barrier_wait(s.q_empty + slot * 8, (turn / Q_SLOTS & 1) ^ 1);
        barrier_expect(s.q_full + slot * 8, Q_BYTES);
        for (int b = 0; b < D_BLOCKS; b++)
            copy_box_4d(s.q + slot * Q_ROOM + b * Q_BLOCK, q, s.q_full + slot * 8, b * 64, from.at, from.head,
                        from.batch);
        for (int i = 0; i < tiles; i++, tile++) {
            fill_tile<D_BLOCKS>(k, s.k, s.k_full, s.k_empty, tile, i * BLOCK_KEYS, head, from.batch);
            fill_tile<DV_BLOCKS>(v, s.v, s.v_full, s.v_empty, tile, i * BLOCK_KEYS, head, from.batch);
        }
        index += gridDim.x;
        if (index >= all)
            return;
        h = share_of(a, index);
        from = query_of(a, h.unit, h.row);
    }
}

// ---- Products ----------------------------------------------------------------------------------

// A matrix in shared memory as products want it told: 8 lines repeat every 1024 bytes; across (lines are of k), the next 64
// columns are `leading` bytes further.
DEVICE u64 described(u32 at, u32 leading)
{
    return (u64)(at >> 4 & 0x3fff) | (u64)(leading >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

// Nothing that products write or read is moved across this.
template <int N> DEVICE void keep(float (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(x[i])::"memory");
}
template <int N> DEVICE void keep(u32 (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(x[i])::"memory");
}

DEVICE void begin_scores(float (&s)[BLOCK_KEYS / 2], u32 q, u32 k)
{
#pragma unroll
    for (int d = 0; d < D / 16; d++)
        multiply_scores(s, described(q + d / 4 * Q_BLOCK + d % 4 * 32, 16),
                        described(k + d / 4 * K_BLOCK + d % 4 * 32, 16), d > 0);
    products_end_group();
}

DEVICE void begin_values(float (&o)[DV / 2], const u32 (&p)[BLOCK_KEYS / 4], u32 v)
{
#pragma unroll
    for (int j = 0; j < BLOCK_KEYS / 16; j++)
        multiply_values(o, p + 4 * j, described(v + j * 16 * LINE, K_BLOCK));
    products_end_group();
}

#include "attention_weights.cuh"

// ---- One share ---------------------------------------------------------------------------------

// The groups issue their products one after the other, so that one's weights are computed beside another's products.
DEVICE void take_turn(int group)
{
    if (GROUPS > PARTS)
        named_sync(FIRST_TURN + group, 256);
}
DEVICE void pass_turn(int group, bool last)
{
    if (GROUPS > PARTS && !(last && group == GROUPS - 1))
        named_arrive(FIRST_TURN + (group + 1) % GROUPS, 256);
}

DEVICE void was_read(u32 empty, int i)
{
    if (threadIdx.x % 128 == 0)
        barrier_arrive(empty + i % STAGES * 8);
}

// Weighted values of all keys, or of the group's part of them, not yet divided by the sum of weights. `q`: the group's queries;
// `met`: how many tiles the block has met before.
DEVICE void meet_keys(const attention_args &a, const share &h, const places &at, u32 q, int tiles, int met,
                      two_rows &w, float (&o)[DV / 2])
{
    float s[BLOCK_KEYS / 2], factor[2];
    u32 p[BLOCK_KEYS / 4];
    int group = threadIdx.x / 128, first = group % PARTS, slot = (met + first) % STAGES;
    if (PARTS > 1 && first >= tiles)
        return;
    if (group == GROUPS - 1 && tiles > 1)
        pass_turn(group, false);
    barrier_wait(at.k_full + slot * 8, (met + first) / STAGES & 1);
    products_begin();
    begin_scores(s, q, at.k + slot * K_BYTES);
#if KEYED
    find_by_key(a, w, first);
#endif
    products_wait<0>();
    keep(s);
    was_read(at.k_empty, met + first);
    mask_scores(a, h, w, first * BLOCK_KEYS, s);
    soften(a, s, w, factor);
    shorten(s, p);
    for (int i = first + PARTS; i < tiles; i += PARTS) {
        int tile = met + i;
        u32 k_slot = tile % STAGES, v_slot = (tile - PARTS) % STAGES;
        barrier_wait(at.v_full + v_slot * 8, (tile - PARTS) / STAGES & 1);
        barrier_wait(at.k_full + k_slot * 8, tile / STAGES & 1);
        take_turn(group);
        keep(o);
        keep(p);
        products_begin();
        begin_scores(s, q, at.k + k_slot * K_BYTES);
        begin_values(o, p, at.v + v_slot * V_BYTES);
        pass_turn(group, i == tiles - 1);
#if KEYED
        find_by_key(a, w, i);
#endif
        products_wait<1>();
        keep(s);
        was_read(at.k_empty, tile);
        mask_scores(a, h, w, i * BLOCK_KEYS, s);
        soften(a, s, w, factor);
        products_wait<0>();
        keep(o);
        keep(p);
        was_read(at.v_empty, tile - PARTS);
#pragma unroll
        for (int d = 0; d < DV / 2; d++)
            o[d] *= factor[d / 2 % 2];
        shorten(s, p);
    }
    int last = met + tiles - 1 - (tiles - 1 - first) % PARTS; // of the group's
    slot = last % STAGES;
    barrier_wait(at.v_full + slot * 8, last / STAGES & 1);
    keep(o);
    keep(p);
    products_begin();
    begin_values(o, p, at.v + slot * V_BYTES);
    products_wait<0>();
    keep(o);
    was_read(at.v_empty, last);
}

#if PARTS > 1
// What the groups but the first have of the same rows: largest scores, sums of weights, weighted values.
__shared__ float parts[PARTS - 1][DV / 2 + 4][128];

// To the first group; before that one asks for them again they are there.
DEVICE void send_part(int part, const two_rows &w, const float (&o)[DV / 2])
{
    int t = threadIdx.x % 128;
    float(&to)[DV / 2 + 4][128] = parts[part - 1];
    named_sync(JOIN_FREE + part, 256);
#pragma unroll
    for (int i = 0; i < DV / 2; i++)
        to[i][t] = o[i];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        to[DV / 2 + r][t] = w.most[r];
        to[DV / 2 + 2 + r][t] = w.sum[r];
    }
    named_arrive(JOIN_FULL + part, 256);
}

DEVICE void join_part(const attention_args &a, int part, two_rows &w, float (&o)[DV / 2])
{
    int t = threadIdx.x % 128;
    const float(&from)[DV / 2 + 4][128] = parts[part - 1];
    float factor[2], other[2];
    named_sync(JOIN_FULL + part, 256);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float theirs = from[DV / 2 + r][t], most = fmaxf(w.most[r], theirs);
        float base = most == -INFINITE ? 0.0f : most;
        factor[r] = weight_of(a, w.most[r], base);
        other[r] = weight_of(a, theirs, base);
        w.most[r] = most;
        w.sum[r] = w.sum[r] * factor[r] + from[DV / 2 + 2 + r][t] * other[r];
    }
#pragma unroll
    for (int i = 0; i < DV / 2; i++)
        o[i] = o[i] * factor[i / 2 % 2] + from[i][t] * other[i / 2 % 2];
}
#endif

DEVICE void begin(const attention_args &a, const share &h, int row, two_rows &w, float (&o)[DV / 2])
{
    w.fewest = a.total;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int at = row + r * 8;
        w.mask[r] = masks_of(a, query_of(a, h.unit, h.row + (at < h.rows ? at : 0)));
        w.mask[r].sees = w.mask[r].sees < a.total ? w.mask[r].sees : a.total;
        w.fewest = w.fewest < w.mask[r].sees ? w.fewest : w.mask[r].sees;
        w.most[r] = -INFINITE;
        w.sum[r] = 0;
    }
#pragma unroll
    for (int d = 0; d < DV / 2; d++)
        o[d] = 0;
}

// ---- Results -----------------------------------------------------------------------------------

// Divides a row's sums; false: it is to be done again in doubles. Keys that causality forbids weigh something where they
// have a value and no score is far above it.
DEVICE bool divide(const attention_args &a, const two_rows &w, int r, float (&o)[DV / 2])
{
    float sum = w.sum[r];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    float factor = 1.0f / sum;
    bool good = is_good(sum);
#if defined CAUSAL && defined FILL && !defined BIAS_LAST
    good = good && w.most[r] * (PLAIN ? a.scale : 1.0f) > a.mask_value + 104.0f;
#endif
#pragma unroll
    for (int i = 2 * r; i < DV / 2; i += 4)
#pragma unroll
        for (int k = 0; k < 2; k++) {
            o[i + k] *= factor;
            good = good && fabsf(o[i + k]) < INFINITE;
        }
    return good;
}

#if Y_VECTORS
// Through the shared memory of the group's queries, by full lines; `row`: the warp's first.
DEVICE void hand_out(const attention_args &a, const share &h, u32 q, int row, const float (&o)[DV / 2])
{
    int lane = threadIdx.x % 32;
    u32 own = q + row * LINE;
    TEAM_SYNC(); // nobody's products read them any more
#pragma unroll
    for (int i = 0; i < DV / 2; i += 2) {
        int line = lane / 4 + i / 2 % 2 * 8, chunk = i / 4 % 8;
        store_shared4(own + i / 32 * Q_BLOCK + line * LINE + (chunk ^ line % 8) * 16 + lane % 4 * 4,
                      pair_of<YT>(o[i], o[i + 1]));
    }
    __syncwarp();
    query first = query_of(a, h.unit, h.row);
    YT *y = (YT *)a.y + place_of(a.at_y, first.batch, first.head, first.at + row);
    int chunks = a.v_head_size / 8;
#pragma unroll
    for (int i = 0; i < 16 * (DV / 8); i += 32) {
        int line = (i + lane) / (DV / 8), chunk = (i + lane) % (DV / 8);
        if (row + line < h.rows && chunk < chunks)
            *(uint4 *)(y + line * a.at_y.seq + chunk * 8) =
                load_shared16(own + chunk / 8 * Q_BLOCK + line * LINE + (chunk % 8 ^ line % 8) * 16);
    }
}
#else
// Y_PAIRS: adjacent elements of results that begin at even places, and there is an even number of them.
DEVICE void put_two(const attention_args &a, const query &q, int d, float first, float second)
{
#if Y_PAIRS
    struct alignas(2 * sizeof(YT)) pair {
        YT v[2];
    };
    if (d >= a.v_head_size)
        return;
    pair both = {{from_float<YT>(finished(a, q, d, first)), from_float<YT>(finished(a, q, d + 1, second))}};
    *(pair *)((YT *)a.y + place_of(a.at_y, q.batch, q.head, q.at) + d) = both;
#else
    if (d < a.v_head_size)
        put(a, q, d, first);
    if (d + 1 < a.v_head_size)
        put(a, q, d + 1, second);
#endif
}

DEVICE void hand_out(const attention_args &a, const share &h, u32 q, int row, const float (&o)[DV / 2])
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int line = row + lane / 4 + r * 8;
        if (line >= h.rows)
            return;
        query at = query_of(a, h.unit, h.row + line);
#pragma unroll
        for (int i = 2 * r; i < DV / 2; i += 4)
            put_two(a, at, i / 4 * 8 + lane % 4 * 2, o[i], o[i + 1]);
    }
}
#endif

__shared__ u8 bad[BLOCK_ROWS]; // rows that are to be done again

// One share, whose queries lie in a slot; `met`: as above.
DEVICE void do_share(const attention_args &a, const share &h, const places &at, int slot, int tiles, int met)
{
    int group = threadIdx.x / 128, row = group / PARTS * 64 + threadIdx.x % 128 / 32 * 16;
    int own = row + threadIdx.x % 32 / 4;
    u32 q = at.q + slot * Q_ROOM;
    two_rows w;
    float o[DV / 2];
    begin(a, h, own, w, o);
#if PARTS > 1
    for (int i = 1; group == 0 && i < PARTS; i++)
        named_arrive(JOIN_FREE + i, 256);
#endif
    meet_keys(a, h, at, q + group / PARTS * 64 * LINE, tiles, met, w, o);
#if PARTS > 1
    if (group > 0) {
        send_part(group, w, o);
        if (threadIdx.x % 128 == 0)
            barrier_arrive(at.q_empty + slot * 8);
        return;
    }
    for (int i = 1; i < PARTS; i++)
        join_part(a, i, w, o);
#endif
    bool good[2];
#pragma unroll
    for (int r = 0; r < 2; r++)
        good[r] = divide(a, w, r, o) || own + r * 8 >= h.rows;
    hand_out(a, h, q, row, o);
    fence_for_bulk();
    bool again = TEAM_OR(!(good[0] && good[1]));
    if (threadIdx.x % 128 == 0)
        barrier_arrive(at.q_empty + slot * 8);
    if (!again)
        return;
    for (int r = 0; r < 2; r++)
        if (!good[r])
            bad[own + r * 8] = 1;
    TEAM_SYNC();
    int first = row / 64 * 64;
    for (int i = first; i < h.rows && i < first + 64; i++)
        if (bad[i])
            slow_row(a, h.unit, h.row + i);
    TEAM_SYNC();
    bad[own] = bad[own + 8] = 0;
}

extern "C" __global__ void __launch_bounds__(ALL_THREADS, PER_MULTIPROCESSOR)
    attention(const __grid_constant__ tensor_map q, const __grid_constant__ tensor_map k,
              const __grid_constant__ tensor_map v, const __grid_constant__ attention_args a)
{
    extern __shared__ __align__(1024) char shared[];
    if (threadIdx.x < BLOCK_ROWS)
        bad[threadIdx.x] = 0;
    places at = lay_out(shared);
    if (threadIdx.x / 128 == GROUPS) {
        if (ALONE)
            fewer_registers<GROUPS == 3 ? 32 : 24>();
        if (threadIdx.x == THREADS)
            fill(q, k, v, a, at);
        return;
    }
    if (ALONE)
        more_registers<GROUPS == 4 ? 112 : GROUPS == 3 ? 160 : 240>();
    share h = share_of(a, blockIdx.x);
    settled(h);
    wait_for_predecessor();
    int all = shares_of(a), turn = 0, met = 0;
    for (int index = blockIdx.x;; turn++) {
        int tiles = tiles_of(a, h), slot = turn % Q_SLOTS;
        barrier_wait(at.q_full + slot * 8, turn / Q_SLOTS & 1);
        do_share(a, h, at, slot, tiles, met);
        met += tiles;
        index += gridDim.x;
        if (index >= all)
            return;
        h = share_of(a, index);
    }
}
