// finish_whole.cuh -- from sums to results that lie in whole lines: each warp finishes 16 rows by 128 or 64 bytes at a time in its
// own shared memory, which bulk copies fill with what is added, and writes it line by line.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: TILE_N, BLOCKS_M (blocks of 64 rows of a warp group), SLOTS (for such parts, of a warp), and by cuda/finish_whole.c
//     WHOLE_OUT (f16, bf16, float), WHOLE_BYTES (of one), WHOLE_VECTORS, WHOLE_MATRIX (how many are added of each), and
//     WHOLE_ADDED(X) X(index, type, kind, nth) ...: index as in finish_args, FINISH_N: the bias; kind 0 one number, 1 a number for
//     each column (the nth such vector), 2 a matrix; the last two have elements of WHOLE_BYTES.
// A slot's lines are swizzled as bulk copies do it.
//
// Results do not leave by bulk copies: those queue behind the ones that fill stages, for 2000 cycles and more, and a slot would be
// waited for as long.
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

// By all lanes, before one of them has a slot filled again.
DEVICE void slots_were_read()
{
    fence_for_bulk();
    __syncwarp();
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
    if (WHOLE_MATRIX)
        slots_were_read();
    if (WHOLE_MATRIX && lane == 0) {
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

// A lane has two neighbours of each 8 columns, in the upper and in the lower 8 rows of a part: results, or what is added to them, as
// they are stored. N: of so many times 8 columns.
#if WHOLE_BYTES == 2
typedef u32 stored_pair;
#define PAIR_OF(type, v) unpacked<type>(v)
#define PAIR_STORED(v) pack<WHOLE_OUT>(v)
#else
typedef float2 stored_pair;
#define PAIR_OF(type, v) v
#define PAIR_STORED(v) v
#endif
template <int N> struct pairs {
    stored_pair of[N][2];
};

#if WHOLE_BYTES == 2
DEVICE stored_pair load_stored(u32 at) { return load_shared4(at); }
// Blocks of 8 x 8, two below one another; four at once.
DEVICE u32 pairs_place(const way_out &w, int c)
{
    u32 lane = threadIdx.x % 32;
    return w.slots + w.slot * SLOT_BYTES + swizzled(lane % 16, c + lane / 16);
}
template <int N> DEVICE void take_pairs(pairs<N> &p, const way_out &w, int first)
{
#pragma unroll
    for (int c = 0; c < N; c += 2) {
        u32 r[4];
        load_fragments(r, pairs_place(w, first + c));
        p.of[c][0] = r[0], p.of[c][1] = r[1], p.of[c + 1][0] = r[2], p.of[c + 1][1] = r[3];
    }
}
template <int N> DEVICE void put_pairs(const pairs<N> &p, const way_out &w, int first)
{
#pragma unroll
    for (int c = 0; c < N; c += 2) {
        u32 r[4] = {p.of[c][0], p.of[c][1], p.of[c + 1][0], p.of[c + 1][1]};
        store_fragments(pairs_place(w, first + c), r);
    }
}
#else
DEVICE stored_pair load_stored(u32 at) { return load_pair(at); }
DEVICE u32 pairs_place(const way_out &w, int c, int half)
{
    u32 lane = threadIdx.x % 32;
    return w.slots + w.slot * SLOT_BYTES + lane % 2 * 8 + swizzled(lane / 4 + half * 8, c * 2 + lane % 4 / 2);
}
template <int N> DEVICE void take_pairs(pairs<N> &p, const way_out &w, int first)
{
#pragma unroll
    for (int i = 0; i < N * 2; i++)
        p.of[i / 2][i % 2] = load_pair(pairs_place(w, first + i / 2, i % 2));
}
template <int N> DEVICE void put_pairs(const pairs<N> &p, const way_out &w, int first)
{
#pragma unroll
    for (int i = 0; i < N * 2; i++)
        store_pair(pairs_place(w, first + i / 2, i % 2), p.of[i / 2][i % 2]);
}
#endif

// Results from 8 times `first` of the part's columns on. Everything that is to be read is, before the first result: nothing waits in between.
template <int N>
DEVICE void finish_floats(float2 (&r)[N][2], const float *sum, const way_out &w, const finish_args &f, int part, int first)
{
    stored_pair columns[WHOLE_VECTORS > 0 ? WHOLE_VECTORS : 1][N];
    pairs<N> added;
#pragma unroll
    for (int i = 0; i < WHOLE_VECTORS * N; i++)
        columns[i / N][i % N] = load_stored(w.pair + i / N * VECTOR_BYTES +
                                            (part % PARTS * COLS + (first + i % N) * 8) * WHOLE_BYTES);
    if (WHOLE_MATRIX)
        take_pairs(added, w, first);
#pragma unroll
    for (int i = 0; i < N * 2; i++) {
        int c = i / 2, half = i % 2;
        float low[FINISH_N + 1], high[FINISH_N + 1];
        float2 v;
#define ADDED(k, type, kind, nth)                                                                  \
    v = kind == 0   ? make_float2(w.number[k], w.number[k])                                        \
        : kind == 1 ? PAIR_OF(type, columns[kind == 1 ? nth : 0][c])                               \
                    : PAIR_OF(type, added.of[c][half]);                                            \
    low[k] = v.x, high[k] = v.y;
        WHOLE_ADDED(ADDED)
#undef ADDED
        r[c][half] = make_float2(whole_result(sum[i * 2], low, f), whole_result(sum[i * 2 + 1], high, f));
    }
}
template <int N>
DEVICE void finish_pairs(pairs<N> &r, const float *sum, const way_out &w, const finish_args &f, int part, int first)
{
    float2 v[N][2];
    finish_floats(v, sum, w, f, part, first);
#pragma unroll
    for (int i = 0; i < N * 2; i++)
        r.of[i / 2][i % 2] = PAIR_STORED(v[i / 2][i % 2]);
}

DEVICE uint4 load_chunk(u32 at)
{
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}

// Where this lane writes: 16 bytes of every AT_ONCE-th line of a part.
enum { CHUNKS = WIDE / 16, AT_ONCE = 32 / CHUNKS, WRITES = 16 / AT_ONCE };
struct out_lines {
    char *to;       // of the tile's first part
    i64 apart;      // bytes
    int rows, cols; // of the matrix, from there
};
DEVICE out_lines out_lines_at(const way_out &w, const finish_args &f, i64 matrix, const tile_place &t)
{
    int lane = threadIdx.x % 32, row = w.row + lane / CHUNKS, col = lane % CHUNKS * (16 / WHOLE_BYTES);
    i64 stride = f.out.row.stride[0];
    out_lines o;
    o.to = (char *)f.out.data + (matrix + (t.row + row) * stride + t.col + col) * WHOLE_BYTES;
    o.apart = AT_ONCE * stride * WHOLE_BYTES;
    o.rows = t.rows - row;
    o.cols = t.cols - col;
    return o;
}

struct part_lines {
    uint4 of[WRITES];
};
DEVICE void read_part(part_lines &p, const way_out &w, u32 slot)
{
    u32 lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < WRITES; k++)
        p.of[k] = load_chunk(w.slots + slot * SLOT_BYTES + swizzled(lane / CHUNKS + k * AT_ONCE, lane % CHUNKS));
}
DEVICE void write_part(const part_lines &p, const out_lines &o, int part)
{
    int row = part / PARTS * 64, col = part % PARTS * COLS;
#pragma unroll
    for (int k = 0; k < WRITES; k++)
        if (row + k * AT_ONCE < o.rows && col < o.cols)
            *(uint4 *)(o.to + (row / AT_ONCE + k) * o.apart + col * WHOLE_BYTES) = p.of[k];
}

// A part is written when the next one is finished: nothing waits for its way through shared memory. Where a matrix is added its slot is
// wanted at once, unless there is one for every part.
DEVICE void hand_out(const float (&sum)[BLOCKS_M][TILE_N / 2], way_out &w, const tensor_map &added, const finish_args &f,
                     const out_lines &o, const tile_place &t, int added_z)
{
    enum { LATER = !WHOLE_MATRIX || SLOTS >= ALL_PARTS };
    u32 before = w.slot;
    part_lines lines;
    copies_wait<0>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < ALL_PARTS; i++) {
        pairs<COLS / 8> r;
        if (WHOLE_MATRIX)
            barrier_wait(w.barriers + w.slot * 8, w.parity);
        finish_pairs(r, &sum[i / PARTS][i % PARTS * (COLS / 2)], w, f, i, 0);
        if (LATER && i > 0)
            read_part(lines, w, before);
        __syncwarp();
        put_pairs(r, w, 0);
        if (LATER && i > 0)
            write_part(lines, o, i - 1);
        __syncwarp();
        if (!LATER || i == ALL_PARTS - 1) {
            read_part(lines, w, w.slot);
            write_part(lines, o, i);
        }
        if (WHOLE_MATRIX && i + SLOTS < ALL_PARTS) {
            slots_were_read();
            if (threadIdx.x % 32 == 0)
                fetch_part(w, added, t, i + SLOTS, w.slot, added_z);
        }
        before = w.slot;
        w.slot = following(w.slot);
        w.parity ^= w.slot == 0;
    }
}

#if LATE
// A tile that is finished while the next one is multiplied, piece by piece: 16 rows by 16 columns (8 of four bytes) of each warp. Where a
// matrix is added every part has its slot, else all have the same.
enum {
    PIECE = WHOLE_BYTES == 2 ? 2 : 1, // times 8 columns
    PIECES_OF_PART = COLS / 8 / PIECE,
    ALL_PIECES = ALL_PARTS * PIECES_OF_PART,
    PIECES_OF_STAGE = 2,
    LATE_STAGES = ALL_PIECES / PIECES_OF_STAGE,
};
static_assert(SLOTS == (WHOLE_MATRIX ? ALL_PARTS : 1), "slots of tiles that are finished late");

DEVICE void leave_late(const way_out &w, const out_lines &o, int part)
{
    part_lines lines;
    read_part(lines, w, WHOLE_MATRIX ? part : 0);
    write_part(lines, o, part);
}
DEVICE void finish_piece(const float (&sum)[BLOCKS_M][TILE_N / 2], way_out &w, const finish_args &f, const out_lines &o, int i)
{
    int part = i / PIECES_OF_PART, piece = i % PIECES_OF_PART;
    pairs<PIECE> r;
    w.slot = WHOLE_MATRIX ? part : 0;
    if (WHOLE_MATRIX && piece == 0)
        barrier_wait(w.barriers + part * 8, w.parity);
    finish_pairs(r, &sum[part / PARTS][part % PARTS * (COLS / 2) + piece * PIECE * 4], w, f, part, piece * PIECE);
    if (piece == 0 && part > 0) { // nothing waited for its way through shared memory
        leave_late(w, o, part - 1);
        __syncwarp();
    }
    put_pairs(r, w, piece * PIECE);
    if (piece == PIECES_OF_PART - 1)
        __syncwarp();
    if (i == ALL_PIECES - 1) {
        leave_late(w, o, part);
        w.slot = 0;
        w.parity ^= 1;
    }
}
#endif
