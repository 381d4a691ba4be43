// finish_whole.cuh -- from sums to results that lie in whole lines: each warp finishes 16 rows by 128 or 64 bytes at a time in its
// own shared memory, and bulk copies bring what is added and take the results away.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: TILE_N, BLOCKS_M (blocks of 64 rows of a warp group), SLOTS (for such parts, of a warp), and by cuda/finish_whole.c
//     WHOLE_OUT (f16, bf16, float), WHOLE_BYTES (of one), WHOLE_VECTORS, WHOLE_MATRIX (how many are added of each), and
//     WHOLE_ADDED(X) X(index, type, kind, nth) ...: index as in finish_args, FINISH_N: the bias; kind 0 one number, 1 a number for
//     each column (the nth such vector), 2 a matrix; the last two have elements of WHOLE_BYTES.
// A slot's lines are swizzled as bulk copies do it. Nobody asks whether a part is inside the matrix: copies do.
#pragma once

enum {
    WIDE = TILE_N * WHOLE_BYTES % LINE ? LINE / 2 : LINE, // bytes of a part's lines
    COLS = WIDE / WHOLE_BYTES,
    PARTS = TILE_N / COLS,
    ALL_PARTS = BLOCKS_M * PARTS,
    SLOT_BYTES = 16 * WIDE,
    VECTOR_BYTES = TILE_N * WHOLE_BYTES,
    WARP_SLOTS = SLOTS * SLOT_BYTES,
    WARP_VECTORS = WHOLE_VECTORS * VECTOR_BYTES,
    WAY_OUT_BYTES = CONSUMERS * 4 * (WARP_SLOTS + WARP_VECTORS + SLOTS * 8),
};

static_assert(TILE_N % COLS == 0, "tiles are of whole parts");

#if WHOLE_BYTES == 2
template <class T> DEVICE u32 pack(float2 v);
template <> INLINE u32 pack<f16>(float2 v)
{
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(r) : "f"(v.x), "f"(v.y));
    return r;
}
template <> INLINE u32 pack<bf16>(float2 v)
{
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(r) : "f"(v.x), "f"(v.y));
    return r;
}
template <class T> DEVICE float2 pair_of(u32 v)
{
    T low, high;
    low.bits = (u16)v, high.bits = (u16)(v >> 16);
    return make_float2(to_float(low), to_float(high));
}
// Two neighbours of a line; what has another type is one number.
template <class T> DEVICE float2 unpacked(u32) { return make_float2(0, 0); }
template <> INLINE float2 unpacked<f16>(u32 v) { return pair_of<f16>(v); }
template <> INLINE float2 unpacked<bf16>(u32 v) { return pair_of<bf16>(v); }
template <class T> DEVICE float2 pair_at(u32 at) { return unpacked<T>(load_shared4(at)); }
#else
DEVICE float2 load_pair(u32 at)
{
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at));
    return v;
}
DEVICE void store_pair(u32 at, float2 v)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(v.x), "f"(v.y) : "memory");
}
template <class T> DEVICE float2 pair_at(u32 at) { return load_pair(at); }
#endif

// A warp's own, from tile to tile.
struct way_out {
    u32 slots, vectors, barriers;
    u32 pair;         // this lane's first two columns in vectors
    u32 slot, parity; // the next that is used
    int row;          // the warp's first, of its tile
    float number[FINISH_N + 1];
};

// Chunk c of 16 bytes of a line.
DEVICE u32 swizzled(u32 line, u32 c) { return line * WIDE + (c ^ (WIDE == LINE ? line % 8 : line / 2 % 4)) * 16; }

DEVICE u32 following(u32 slot) { return slot + 1 == SLOTS ? 0 : slot + 1; }

DEVICE way_out way_out_at(u32 base)
{
    u32 warp = threadIdx.x / 32, group = threadIdx.x / 128;
    way_out w;
    w.slots = base + warp * WARP_SLOTS;
    w.vectors = base + CONSUMERS * 4 * WARP_SLOTS + warp * WARP_VECTORS;
    w.barriers = base + CONSUMERS * 4 * (WARP_SLOTS + WARP_VECTORS) + warp * SLOTS * 8;
    w.pair = w.vectors + threadIdx.x % 4 * 2 * WHOLE_BYTES;
    w.slot = w.parity = 0;
    w.row = (ALTERNATE ? 0 : group * BLOCKS_M * 64) + warp % 4 * 16;
    return w;
}
// Its barriers: the warp groups that multiply, before the block meets.
DEVICE void make_way_out(u32 base)
{
    way_out w = way_out_at(base);
    if (WHOLE_MATRIX && threadIdx.x % 32 == 0)
        for (int i = 0; i < SLOTS; i++)
            barrier_init(w.barriers + i * 8, 1);
}

// Part `i` of what is added to the tile.
DEVICE void fetch_part(const way_out &w, const tensor_map &added, const tile_place &t, int i, u32 slot, int z)
{
    barrier_expect(w.barriers + slot * 8, SLOT_BYTES);
    copy_box(w.slots + slot * SLOT_BYTES, added, w.barriers + slot * 8, t.col + i % PARTS * COLS,
             t.row + w.row + i / PARTS * 64, z);
}

// Before the tile's products: what will be added sets out. added_z: the matrix of `added`.
DEVICE void expect(way_out &w, const tensor_map &added, const finish_args &f, const finish_places &at,
                   const tile_place &t, int n, int added_z)
{
    int lane = threadIdx.x % 32;
#define ADDED(k, type, kind, nth)                                                                  \
    {                                                                                              \
        const type *from = (const type *)(k < FINISH_N ? f.operand[k < FINISH_N ? k : 0] : f.bias).data + \
                           (k < FINISH_N ? at.operand[k < FINISH_N ? k : 0] : at.bias);            \
        if (kind == 0)                                                                             \
            w.number[k] = to_float(*from);                                                         \
        for (int c = lane; kind == 1 && c < VECTOR_BYTES / 16; c += 32)                            \
            copy16(w.vectors + nth * VECTOR_BYTES + c * 16, from + t.col + c * (16 / WHOLE_BYTES), \
                   t.col + c * (16 / WHOLE_BYTES) < n);                                            \
    }
    WHOLE_ADDED(ADDED)
#undef ADDED
    copies_end_group();
    if (WHOLE_MATRIX && lane == 0) {
        stores_wait<0>();
        u32 slot = w.slot;
        for (int i = 0; i < ALL_PARTS && i < SLOTS; i++, slot = following(slot))
            fetch_part(w, added, t, i, slot, added_z);
        for (int i = SLOTS; i < ALL_PARTS; i++)
            prefetch_box(added, t.col + i % PARTS * COLS, t.row + w.row + i / PARTS * 64, added_z);
    }
}

DEVICE float whole_result(float x, const float (&o)[FINISH_N + 1], const finish_args &f)
{
    x *= f.alpha;
#ifdef FINISH_BIAS
    x += f.beta * o[FINISH_N];
#endif
#ifdef FINISH_PROGRAM
    float result;
    finish_program(x, o, &result);
    x = result;
#endif
    return x;
}

// What is added to two columns, the first `col` of the tile, in all rows.
struct two_columns {
    float low[FINISH_N + 1], high[FINISH_N + 1];
};
DEVICE void read_columns(two_columns &o, const way_out &w, int col)
{
#define ADDED(k, type, kind, nth)                                                                  \
    if (kind == 0)                                                                                 \
        o.low[k] = o.high[k] = w.number[k];                                                        \
    if (kind == 1) {                                                                               \
        float2 v = pair_at<type>(w.pair + nth * VECTOR_BYTES + col * WHOLE_BYTES);                 \
        o.low[k] = v.x, o.high[k] = v.y;                                                           \
    }
    WHOLE_ADDED(ADDED)
#undef ADDED
}

// Of two sums of a row. added: of the matrix, as it lies in a slot.
template <class PAIR>
DEVICE float2 finish_pair(const float *sum, two_columns &o, PAIR added, const finish_args &f)
{
#if WHOLE_BYTES == 2
#define MATRIX_PAIR(type) unpacked<type>(added)
#else
#define MATRIX_PAIR(type) added
#endif
#define ADDED(k, type, kind, nth)                                                                  \
    if (kind == 2) {                                                                               \
        float2 v = MATRIX_PAIR(type);                                                              \
        o.low[k] = v.x, o.high[k] = v.y;                                                           \
    }
    WHOLE_ADDED(ADDED)
#undef ADDED
    return make_float2(whole_result(sum[0], o.low, f), whole_result(sum[1], o.high, f));
}

// One part in its slot: blocks of 8 x 8, two below one another. A lane has two columns of a row in each.
#if WHOLE_BYTES == 2
DEVICE void finish_part(const float *sum, const way_out &w, const finish_args &f, int part)
{
    u32 lane = threadIdx.x % 32, line = lane % 16;
    u32 at = w.slots + w.slot * SLOT_BYTES;
#pragma unroll
    for (int c = 0; c < COLS / 8; c += 2) {
        u32 here = at + swizzled(line, c + lane / 16), added[4] = {0, 0, 0, 0}, r[4];
        if (WHOLE_MATRIX)
            load_fragments(added, here);
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            two_columns o;
            read_columns(o, w, part % PARTS * COLS + (c + i / 2) * 8);
            r[i] = pack<WHOLE_OUT>(finish_pair(sum + c * 4 + i * 2, o, added[i], f));
            r[i + 1] = pack<WHOLE_OUT>(finish_pair(sum + c * 4 + i * 2 + 2, o, added[i + 1], f));
        }
        store_fragments(here, r);
    }
}
#else
DEVICE void finish_part(const float *sum, const way_out &w, const finish_args &f, int part)
{
    u32 lane = threadIdx.x % 32, line = lane / 4;
    u32 at = w.slots + w.slot * SLOT_BYTES + lane % 2 * 8;
#pragma unroll
    for (int c = 0; c < COLS / 8; c++) {
        two_columns o;
        read_columns(o, w, part % PARTS * COLS + c * 8);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            u32 here = at + swizzled(line + i * 8, c * 2 + lane % 4 / 2);
            float2 added = WHOLE_MATRIX ? load_pair(here) : make_float2(0, 0);
            store_pair(here, finish_pair(sum + c * 4 + i * 2, o, added, f));
        }
    }
}
#endif

DEVICE void hand_out(const float (&sum)[BLOCKS_M][TILE_N / 2], way_out &w, const tensor_map &out,
                     const tensor_map &added, const finish_args &f, const tile_place &t, int added_z)
{
    enum { BEHIND_BY = SLOTS > 1 }; // a slot's results are given that time to leave
    int lane = threadIdx.x % 32;
    u32 before = w.slot;
    copies_wait<0>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < ALL_PARTS; i++) {
        if (WHOLE_MATRIX) {
            barrier_wait(w.barriers + w.slot * 8, w.parity);
        } else {
            if (lane == 0)
                stores_wait<SLOTS - 1>();
            __syncwarp();
        }
        finish_part(&sum[i / PARTS][i % PARTS * (COLS / 2)], w, f, i);
        fence_for_bulk();
        __syncwarp();
        if (lane == 0) {
            store_box(out, w.slots + w.slot * SLOT_BYTES, t.col + i % PARTS * COLS,
                      t.row + w.row + i / PARTS * 64, t.z);
            stores_end_group();
            if (WHOLE_MATRIX && i >= BEHIND_BY && i - BEHIND_BY + SLOTS < ALL_PARTS) {
                stores_wait<BEHIND_BY>();
                fetch_part(w, added, t, i - BEHIND_BY + SLOTS, BEHIND_BY ? before : w.slot, added_z);
            }
        }
        before = w.slot;
        w.slot = following(w.slot);
        w.parity ^= w.slot == 0;
    }
}
