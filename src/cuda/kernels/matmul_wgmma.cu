// matmul_wgmma.cu -- matrix products on sm_90: one thread fills shared memory by bulk copies, warp groups multiply;
// blocks stay and take one tile after the other.
// SPDX-License-Identifier: Apache-2.0
//
// Beside what tile_wgmma.cuh wants: PER_MULTIPROCESSOR, B_EARLY, SPLITS. TOGETHER 2: two blocks have tiles below
// one another, and each copies half of B for both. SPLITS > 1: as many blocks, a cluster, share a tile's
// k; each has one tile. PIXELS: A is the input of a convolution (pixel_copies.cuh). MEMBERS > 0: rows of results are normalised, that
// so many blocks have together (finish_norm.cuh).
#include "common.cuh"
#include "finish.cuh"

enum {
    ALONE = PER_MULTIPROCESSOR == 1,
    PART = ALONE && TILE_N % 64 == 0 ? 64 : 32,
};
#define STACK TOGETHER
#include "tile_wgmma.cuh"
#if PIXELS
#include "pixel_copies.cuh"
#endif
#if MEMBERS > 0
#include "finish_norm.cuh"
#else
struct norm_args {};
#endif

enum {
    THREADS = CONSUMERS * 128 + (ALONE ? 128 : 32), // one of the last fills
    // Registers of a thread of those that fill; of the others, who have what is left.
    FEWER = CONSUMERS == 2 && (LATE || BLOCKS_M * TILE_N > 256) ? 40 : 56,
    MORE = CONSUMERS == 3 ? 152 : FEWER == 40 ? 232 : 224,
};

struct wgmma_args {
    int m, n, k;
    u32 places; // of tiles, or of two of them
    int a_moves, b_moves, added_moves; // along the batch, or the same for all
#if PIXELS
    image_args image;
#endif
};

// This block's tile of the cluster's n-th place, and how many clusters there are.
DEVICE u32 first_place() { return SPLITS > 1 ? blockIdx.x : blockIdx.x / TOGETHER; }
DEVICE u32 places_apart() { return SPLITS > 1 ? gridDim.x : gridDim.x / TOGETHER; }
DEVICE tile_place own_tile(u32 place, const wgmma_args &p, int rank)
{
#if MEMBERS > 0
    tile_place t = place_of_member(place, p.m, p.k);
#else
    tile_place t = place_of(place, p.m, p.n, p.k, SPLITS);
#endif
    t.row += rank * TILE_M;
    t.rows = t.rows - rank * TILE_M < TILE_M ? t.rows - rank * TILE_M : TILE_M;
    return t;
}

// Known here, not only where it is used: divisions are done before the grid's predecessor has ended.
DEVICE void settled(tile_place &t)
{
    asm volatile("" : "+r"(t.row), "+r"(t.col), "+r"(t.rows), "+r"(t.cols));
    asm volatile("" : "+r"(t.first), "+r"(t.tiles), "+r"(t.split), "+r"(t.z));
}
DEVICE void settled(finish_places &at)
{
    asm volatile("" : "+l"(at.out), "+l"(at.bias));
#pragma unroll
    for (int i = 0; i < FINISH_N; i++)
        asm volatile("" : "+l"(at.operand[i]));
}

DEVICE void copy_b(u32 to, const tensor_map &b, u32 full, int x, int y, int z)
{
#if TOGETHER > 1
    copy_box_to_both(to, b, full, x, y, z);
#else
    copy_box(to, b, full, x, y, z);
#endif
}

// Tile `i` of k of A, or of B, into stage `slot`.
DEVICE void fill_a(const tensor_map &a, const shared_places &s, u32 slot, const tile_place &t, int i, int z)
{
    u32 to = s.stages + slot * STAGE_BYTES, full = s.full + slot * 8;
    if (!A_ACROSS)
        copy_box(to, a, full, i * TILE_K, t.row, z);
    for (int q = 0; A_ACROSS && q < TILE_M / 64; q++)
        copy_box(to + q * BLOCK_BYTES, a, full, t.row + q * 64, i * TILE_K, z);
}
DEVICE void fill_b(const tensor_map &b, const shared_places &s, u32 slot, const tile_place &t, int i, int z,
                   int rank)
{
    enum { SHARE = TILE_N / TOGETHER }; // of the columns
    u32 to = s.stages + slot * STAGE_BYTES + A_BYTES + rank * SHARE * LINE, full = s.full + slot * 8;
    int col = t.col + rank * SHARE;
    if (!B_ACROSS)
        copy_b(to, b, full, i * TILE_K, col, z);
    for (int q = 0; B_ACROSS && q < (SHARE + 63) / 64; q++)
        copy_b(to + q * BLOCK_BYTES, b, full, col + q * 64, i * TILE_K, z);
}

// B_EARLY: B is constant; its first tiles are fetched before the grid's predecessor has ended.
DEVICE void fill(const tensor_map &a, const tensor_map &b, const wgmma_args &p, const shared_places &s,
                 int rank)
{
    u32 at = 0, early = 0, place = first_place();
    tile_place t = own_tile(place, p, rank);
#if PIXELS
    pixel_walk walk;
    walk.begin(p.image, t.row, t.first);
#endif
    for (; B_EARLY && place < p.places && early < STAGES && early < (u32)t.tiles; early++) {
        barrier_expect(s.full + early * 8, STAGE_BYTES);
        fill_b(b, s, early, t, t.first + early, p.b_moves ? t.z : 0, rank);
    }
    settled(t);
    wait_for_predecessor();
    while (place < p.places) {
        tile_place next = t; // known before this one ends: copies do not wait for divisions
        int za = p.a_moves ? t.z : 0, zb = p.b_moves ? t.z : 0;
        for (int i = 0; i < t.tiles; i++, at++) {
            u32 slot = at % STAGES;
            if (at >= early) {
                barrier_wait(s.empty + slot * 8, (at / STAGES & 1) ^ 1);
                barrier_expect(s.full + slot * 8, STAGE_BYTES);
                fill_b(b, s, slot, t, t.first + i, zb, rank);
            }
#if PIXELS
            walk.copy(p.image, a, s.stages + slot * STAGE_BYTES, s.full + slot * 8);
#else
            fill_a(a, s, slot, t, t.first + i, za);
#endif
            if (i == 0) {
                next = own_tile(place + places_apart(), p, rank);
                settled(next);
            }
        }
        place += places_apart();
        t = next;
#if PIXELS
        walk.begin(p.image, t.row, t.first);
#endif
    }
}

#if WHOLE
// A tile as it will be handed out.
struct tile_out {
    tile_place t;
    out_lines lines;
    int added_z; // the matrix of `added`
};
// Found while products are on their way: divisions take as long as a stage. What will be added sets out.
DEVICE tile_out prepare(u32 place, int rank, const tensor_map &added, const wgmma_args &p, const finish_args &f, way_out &w)
{
    tile_out o;
    o.t = own_tile(place, p, rank);
    o.added_z = p.added_moves ? o.t.z : 0;
    finish_places matrix = finish_matrix(f, o.t.z);
    expect(w, added, f, matrix, o.t, p.n, o.added_z);
    o.lines = out_lines_at(w, f, matrix.out, o.t);
    return o;
}
#endif

// What the warp groups that multiply do.
#if LATE
// A tile's products beside what is done to the tile before it.
DEVICE void step_late(float (&sum)[BLOCKS_M][TILE_N / 2], float (&kept)[BLOCKS_M][TILE_N / 2], u32 place, int stages,
                      int group, int rank, const tensor_map &added, const wgmma_args &p, const finish_args &f,
                      const shared_places &s, stage_place &at, way_out &w, tile_out &o)
{
    multiply_late(sum, kept, group, s, at, w, f, o.lines);
    o = prepare(place, rank, added, p, f, w);
    multiply_rest(sum, stages - 1 - LATE_STAGES, group, s, at);
}
DEVICE void consume(const tensor_map &added, const wgmma_args &p, const finish_args &f, const norm_args &,
                    const shared_places &s, char *, int group, int rank)
{
    float even[BLOCKS_M][TILE_N / 2], odd[BLOCKS_M][TILE_N / 2];
    int stages = (p.k + TILE_K - 1) / TILE_K;
    u32 place = first_place();
    stage_place at = {0, 0};
    way_out w = way_out_at(s.way_out);
    wait_for_predecessor();
    if (place >= p.places)
        return;
    multiply_begin(even, group, 0, s, at);
    tile_out o = prepare(place, rank, added, p, f, w);
    multiply_rest(even, stages - 1, group, s, at);
    for (;;) { // the sums stay where they are: to move them would make products wait for one another
        place += places_apart();
        if (place >= p.places) {
            finish_last(even, w, f, o.lines);
            return;
        }
        step_late(odd, even, place, stages, group, rank, added, p, f, s, at, w, o);
        place += places_apart();
        if (place >= p.places) {
            finish_last(odd, w, f, o.lines);
            return;
        }
        step_late(even, odd, place, stages, group, rank, added, p, f, s, at, w, o);
    }
}
#elif WHOLE
DEVICE void consume(const tensor_map &added, const wgmma_args &p, const finish_args &f, const norm_args &norm,
                    const shared_places &s, char *, int group, int rank)
{
    enum { EVERY = ALTERNATE ? 2 : 1 }; // such tile is this group's
    int stages = (p.k + TILE_K - 1) / TILE_K;
    u32 tile = ALTERNATE ? group : 0;
    stage_place at = {0, 0};
    skip_stages(at, tile * stages);
    way_out w = way_out_at(s.way_out);
    wait_for_predecessor();
    for (; first_place() + tile * places_apart() < p.places; tile += EVERY) {
        u32 place = first_place() + tile * places_apart();
        float sum[BLOCKS_M][TILE_N / 2];
        tile_out o;
        multiply_begin(sum, group, tile, s, at);
        if (WHOLE_MATRIX) // takes longer to come
            o = prepare(place, rank, added, p, f, w);
        multiply_rest(sum, stages - 1, group, s, at);
        if (ALTERNATE)
            pass_turn(s, group);
        if (!WHOLE_MATRIX)
            o = prepare(place, rank, added, p, f, w);
        multiply_end(sum, s, at);
        if (ALTERNATE)
            skip_stages(at, stages);
#if MEMBERS > 0
        hand_out_normalised(sum, w, added, f, norm, o.lines, o.t, o.added_z);
#else
        hand_out(sum, w, added, f, o.lines, o.t, o.added_z);
#endif
    }
}
#else
// One tile of a warp group.
DEVICE void make_tile(const tile_place &t, const finish_places &matrix, const finish_args &f, const shared_places &s,
                      char *shared, int group, u32 tile, stage_place &at)
{
    float sum[BLOCKS_M][TILE_N / 2];
#if SPLITS > 1
    meeting m;
    expect_sums(m, f, matrix, t);
    multiply(sum, t.tiles, group, tile, s, at);
    cluster_wait(); // the others' barriers are made
    send_sums(sum, s.way_out, s.turns, t.split);
    barrier_wait_for_cluster(s.turns, 0);
    finish_sums(m, f, matrix, t, sum, s.way_out);
#else
    if (ALONE) // two together hide each other's waiting, and have no registers for it
        finish_prefetch(f, matrix, t.row, t.col, t.rows, t.cols, threadIdx.x % (SHARING * 128), SHARING * 128);
    multiply(sum, t.tiles, group, tile, s, at);
    hand_out(sum, t, f, matrix, s, shared);
#endif
}
DEVICE void consume(const tensor_map &, const wgmma_args &p, const finish_args &f, const norm_args &,
                    const shared_places &s, char *shared, int group, int rank)
{
    u32 tile = 0, place = first_place();
    stage_place at = {0, 0};
    tile_place t = own_tile(place, p, rank);
    finish_places matrix = finish_matrix(f, t.z);
    settled(t);
    settled(matrix);
    wait_for_predecessor();
    for (; place < p.places; tile++) {
        if (ALTERNATE && tile % 2 != (u32)group)
            skip_stages(at, t.tiles);
        else
            make_tile(t, matrix, f, s, shared, group, tile, at);
        place += places_apart();
        t = own_tile(place, p, rank);
        matrix = finish_matrix(f, t.z);
    }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, PER_MULTIPROCESSOR)
    matmul_wgmma(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b,
                 const __grid_constant__ tensor_map added, const __grid_constant__ wgmma_args p,
                 const __grid_constant__ finish_args f
#if MEMBERS > 0
                 , const __grid_constant__ norm_args norm
#endif
    )
{
#if MEMBERS <= 0
    const norm_args norm = {};
#endif
    extern __shared__ __align__(1024) char shared[];
    shared_places s = lay_out(shared);
    int group = uniform(threadIdx.x / 128), rank = SPLITS > 1 ? 0 : blockIdx.x % TOGETHER;
#if WHOLE
    if (group < CONSUMERS)
        make_way_out(s.way_out);
#endif
    if (threadIdx.x == CONSUMERS * 128) {
        prefetch_map(a);
        prefetch_map(b);
#if WHOLE
        if (WHOLE_MATRIX)
            prefetch_map(added);
#endif
    }
    make_barriers(s, 1);
    if (group == CONSUMERS) {
        if (ALONE)
            fewer_registers<FEWER>();
        if (threadIdx.x % 128 == 0)
            fill(a, b, p, s, rank);
        __syncwarp();
#if SPLITS > 1
        cluster_wait();
#endif
    } else {
        if (ALONE) // what the others gave away
            more_registers<MORE>();
        consume(added, p, f, norm, s, shared, group, rank);
    }
#if TOGETHER > 1
    cluster_barrier(); // until nobody writes or arrives here any more
#endif
}
