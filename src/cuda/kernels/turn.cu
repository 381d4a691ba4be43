// turn.cu -- two axes change places: one of a few planes, or both long, of elements of one or two bytes.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: ELEMENT, RANK (of the other axes), WIDE (nest.cuh), and for planes PLANES, RUN_BYTES (of the run of a
// plane that a thread holds), INTO_PIXELS: planes are read, pixels (an element of each plane, side by side) written; else
// the other way. RAGGED: tiles whose lines are not of whole vectors. cuda/turn.c lays the arguments out. Steps count bytes.
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"

struct arguments {
    const char *from;
    char *to;
    u64 units; // tiles
    i64 cols, rows; // pixels; of tiles: along `to`, along `from`
    i64 from_col, to_row; // pixels: from plane to plane
    axis across, down; // tiles
    axis dims[RANK];
    i64 from_step[RANK], to_step[RANK];
};

struct place {
    index col, row;
    const char *from;
    char *to;
};
DEVICE place find(const arguments &a, index u)
{
    place p;
    index rest = quotient(u, a.across);
    p.col = u - rest * size_of(a.across);
    index outer = quotient(rest, a.down);
    p.row = rest - outer * size_of(a.down);
    p.from = a.from;
    p.to = a.to;
#pragma unroll
    for (int d = RANK - 1; d >= 0; d--) {
        const index q = d ? quotient(outer, a.dims[d]) : 0;
        const i64 i = outer - q * size_of(a.dims[d]);
        outer = q;
        p.from += i * a.from_step[d];
        p.to += i * a.to_step[d];
    }
    return p;
}

#ifdef PLANES
enum { SIZE = sizeof(ELEMENT), RUN = RUN_BYTES / SIZE, WORDS = RUN_BYTES / 4, TILE = 256 * RUN };
typedef word<RUN_BYTES>::type vector;
union held { // of a thread: runs of planes, or pixels
    vector run[PLANES];
    u32 word[PLANES * WORDS];
};

// Four bytes from b on of pixels, the elements of which are in runs; or the other way round.
template <bool PIXELS> DEVICE u32 turned(const held &from, int b)
{
    u32 word[4], at[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int e = (b + i) / SIZE, byte = (b + i) % SIZE;
        const int other = PIXELS ? e % PLANES * RUN + e / PLANES : e % RUN * PLANES + e / RUN;
        word[i] = from.word[(other * SIZE + byte) / 4];
        at[i] = (other * SIZE + byte) % 4;
    }
    if (SIZE >= 4)
        return word[0];
    if (SIZE == 2)
        return __byte_perm(word[0], word[2], at[0] | at[1] << 4 | (4 + at[2]) << 8 | (4 + at[3]) << 12);
    const u32 low = __byte_perm(word[0], word[1], at[0] | (4 + at[1]) << 4);
    const u32 high = __byte_perm(word[2], word[3], at[2] | (4 + at[3]) << 4);
    return __byte_perm(low, high, 0x5410);
}

DEVICE void turn_held(const held &from, held &to)
{
#pragma unroll
    for (int w = 0; w < PLANES * WORDS; w++)
        to.word[w] = turned<INTO_PIXELS>(from, 4 * w);
}

// RUN_BYTES of a plane, `have` of them, of which p may be aligned to none.
DEVICE vector load_run_of_plane(const char *p, int have)
{
    run_of<u32, WORDS> r;
    if (have == RUN_BYTES && (u64)p % RUN_BYTES == 0) {
        r.all = *(const vector *)p;
        return r.all;
    }
    const uint4 v = load_shifted(p, 0, have);
    const u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        r.v[i] = words[i];
    return r.all;
}

// Where the 16 bytes at `unit` of pixels are in shared memory: an even number of planes would be in few banks.
DEVICE int place_of(int unit) { return PLANES % 2 == 0 && RUN_BYTES == 16 ? unit ^ (unit >> 3 & 7) : unit; }
DEVICE ELEMENT element_at(const vector *pixels, int e)
{
    return ((const ELEMENT *)pixels)[place_of(e / (16 / SIZE)) * (16 / SIZE) + e % (16 / SIZE)];
}

// A plane's run of `count` elements, which begins anywhere, of pixels in shared memory.
DEVICE void store_plane(char *to, const vector *pixels, int plane, int count)
{
    const int head = (int)((u64)to & 15), slots = (head + count * SIZE + 15) / 16;
    for (int s = threadIdx.x; s < slots; s += 256) {
        const int first = (s * 16 - head) / SIZE;
        run_of<ELEMENT, 16 / SIZE> r;
        bool whole = true;
#pragma unroll
        for (int i = 0; i < 16 / SIZE; i++) {
            const bool inside = (u32)(first + i) < (u32)count;
            whole &= inside;
            if (inside)
                r.v[i] = element_at(pixels, (first + i) * PLANES + plane);
        }
        char *at = to - head + s * 16;
        if (whole)
            *(decltype(r.all) *)at = r.all;
        else
#pragma unroll
            for (int i = 0; i < 16 / SIZE; i++)
                if ((u32)(first + i) < (u32)count)
                    ((ELEMENT *)at)[i] = r.v[i];
    }
}

extern "C" __global__ void __launch_bounds__(256) turn_planes(const __grid_constant__ arguments a)
{
    __shared__ __align__(16) vector shared[256 * PLANES];
    for (u64 u = blockIdx.x; u < a.units; u += gridDim.x) {
        const place p = find(a, (index)u);
        const i64 first = (i64)p.col * TILE;
        const int count = a.cols - first < TILE ? (int)(a.cols - first) : TILE;
        const int mine = (count - (int)threadIdx.x * RUN) * SIZE;
        const int have = mine < 0 ? 0 : mine < RUN_BYTES ? mine : RUN_BYTES, bytes = count * PLANES * SIZE;
        held planes, pixels;
#if INTO_PIXELS
        const char *from = p.from + (first + threadIdx.x * RUN) * SIZE;
#pragma unroll
        for (int c = 0; c < PLANES; c++)
            if (have)
                planes.run[c] = load_run_of_plane(from + c * a.from_col, have);
        turn_held(planes, pixels);
        __syncthreads(); // the tile before has left
#pragma unroll
        for (int c = 0; c < PLANES; c++)
            shared[threadIdx.x * PLANES + c] = pixels.run[c];
        __syncthreads();
        char *to = p.to + first * PLANES * SIZE;
        const int head = (int)((u64)to & 15), slots = (head + bytes + 15) / 16;
        for (int s = threadIdx.x; s < slots; s += 256) {
            const int low = s ? 0 : head, left = bytes + head - s * 16, high = left < 16 ? left : 16;
            const uint4 *held_at = (const uint4 *)shared + s - (head ? 1 : 0);
            const uint4 v = load_shifted(held_at, (16 - head) & 15, low, high);
            if (low == 0 && high == 16)
                *(uint4 *)(to - head + s * 16) = v;
            else
                store_part<ELEMENT>(to - head + s * 16, v, low, high);
        }
#else
        const char *from = p.from + first * PLANES * SIZE;
        __syncthreads(); // the tile before has left
#pragma unroll 4
        for (int s = threadIdx.x; s < (bytes + 15) / 16; s += 256) {
            const int left = bytes - s * 16;
            ((uint4 *)shared)[place_of(s)] = load_shifted(from + s * 16, 0, left < 16 ? left : 16);
        }
        __syncthreads();
        char *to = p.to + first * SIZE;
        if (((u64)to | (u64)a.to_row) % RUN_BYTES == 0) {
#pragma unroll
            for (int c = 0; c < PLANES; c++)
                pixels.run[c] = shared[place_of(threadIdx.x * PLANES + c)];
            turn_held(pixels, planes);
            char *at = to + threadIdx.x * RUN_BYTES;
#pragma unroll
            for (int c = 0; c < PLANES; c++)
                if (have == RUN_BYTES)
                    *(vector *)(at + c * a.to_row) = planes.run[c];
#pragma unroll 1
            for (int i = 0; have < RUN_BYTES && i < have / SIZE * PLANES; i++)
                *(ELEMENT *)(at + i % PLANES * a.to_row + i / PLANES * SIZE) =
                    element_at(shared, threadIdx.x * RUN * PLANES + i);
        } else {
#pragma unroll 1
            for (int c = 0; c < PLANES; c++)
                store_plane(to + c * a.to_row, shared, c, count);
        }
#endif
    }
}
#elif RAGGED
// Tiles are of 128 bytes in either direction. Lines begin anywhere: a warp reads the words that hold one, and what lies across two of
// them is put together of neighbours; so are those that it writes.
enum { SIZE = sizeof(ELEMENT), TILE = 128 / SIZE, RUN = 4 / SIZE, LOADS = 8 };

// Word `at` of line c in shared memory: those of neighbouring words' lines are in different banks.
DEVICE int word_place(int c, int at) { return c * 32 + ((at + c / RUN) & 31); }

// Bytes [4 * lane, + 4) of a line of n bytes; those behind its end have no meaning.
DEVICE void load_line(const char *line, int n, u32 &here, u32 &behind)
{
    const int lane = threadIdx.x % 32, skip = (int)((u64)line & 3);
    const u32 *words = (const u32 *)(line - skip) + lane;
    here = behind = 0;
    if (4 * lane - skip < n)
        here = *words;
    if (lane == 31 && 128 - skip < n && skip)
        behind = words[1];
}
DEVICE u32 line_word(const char *line, u32 here, u32 behind)
{
    const u32 next = __shfl_down_sync(~0u, here, 1);
    return __funnelshift_r(here, threadIdx.x % 32 == 31 ? behind : next, (u32)(u64)line % 4 * 8);
}

// Bytes [from, to) of the word at p, which are whole elements.
static __device__ __noinline__ void store_bytes(char *p, u32 v, int from, int to)
{
    if (from <= 0 && to >= 4)
        *(u32 *)p = v;
    else
#pragma unroll
        for (int i = 0; i < 4; i += SIZE)
            if (i >= from && i < to)
                *(ELEMENT *)(p + i) = (ELEMENT)(v >> 8 * i);
}
// Every lane brings four bytes of a line of n.
DEVICE void store_line(char *line, int n, u32 v)
{
    const int lane = threadIdx.x % 32, skip = (int)((u64)line & 3), first = 4 * lane - skip;
    const u32 before = __shfl_up_sync(~0u, v, 1), whole = __funnelshift_l(before, v, 8 * skip);
    char *to = line + first;
    if (first >= 0 && first + 4 <= n)
        *(u32 *)to = whole;
    else if (first < n)
        store_bytes(to, whole, -first, n - first);
    if (lane == 31 && first + 4 < n)
        store_bytes(to + 4, v >> (32 - 8 * skip), 0, n - first - 4);
}

// Words of RUN lines become words of RUN lines across them.
DEVICE void turn_block(u32 (&v)[RUN])
{
    if (SIZE == 2) {
        const u32 a = v[0], b = v[RUN - 1];
        v[0] = __byte_perm(a, b, 0x5410);
        v[RUN - 1] = __byte_perm(a, b, 0x7632);
        return;
    }
    const u32 a = __byte_perm(v[0], v[1 % RUN], 0x5140), b = __byte_perm(v[2 % RUN], v[3 % RUN], 0x5140);
    const u32 c = __byte_perm(v[0], v[1 % RUN], 0x7362), d = __byte_perm(v[2 % RUN], v[3 % RUN], 0x7362);
    v[0] = __byte_perm(a, b, 0x5410);
    v[1 % RUN] = __byte_perm(a, b, 0x7632);
    v[2 % RUN] = __byte_perm(c, d, 0x5410);
    v[3 % RUN] = __byte_perm(c, d, 0x7632);
}

extern "C" __global__ void __launch_bounds__(256, 5) turn_ragged(const __grid_constant__ arguments a)
{
    __shared__ u32 tile[TILE * 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (u64 u = blockIdx.x; u < a.units; u += gridDim.x) {
        const place p = find(a, (index)u);
        const i64 col = (i64)p.col * TILE, row = (i64)p.row * TILE;
        const int cols = (int)(a.cols - col < TILE ? a.cols - col : TILE) * SIZE;
        const int rows = (int)(a.rows - row < TILE ? a.rows - row : TILE) * SIZE;
        const char *from = p.from + col * a.from_col + row * SIZE;
#pragma unroll 1
        for (int c = warp; c < TILE; c += 8 * LOADS) {
            u32 here[LOADS], behind[LOADS];
#pragma unroll
            for (int i = 0; i < LOADS; i++)
                load_line(from + (c + i * 8) * a.from_col, (c + i * 8) * SIZE < cols ? rows : 0, here[i], behind[i]);
            if (c == warp)
                __syncthreads(); // the tile before has left
#pragma unroll
            for (int i = 0; i < LOADS; i++)
                tile[word_place(c + i * 8, lane)] = line_word(from + (c + i * 8) * a.from_col, here[i], behind[i]);
        }
        __syncthreads();
        char *to = p.to + row * a.to_row + col * SIZE;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int w = warp + i * 8; // of words along `from`
            u32 v[RUN];
#pragma unroll
            for (int j = 0; j < RUN; j++)
                v[j] = tile[word_place(lane * RUN + j, w)];
            turn_block(v);
#pragma unroll
            for (int j = 0; j < RUN; j++)
                if ((w * RUN + j) * SIZE < rows)
                    store_line(to + (w * RUN + j) * a.to_row, cols, v[j]);
        }
    }
}
#else
// Tiles are of 128 bytes in either direction; a block has DEEP of them side by side along the output's rows.
enum { SIZE = sizeof(ELEMENT), TILE = 128 / SIZE, RUN = 16 / SIZE, DEEP = SIZE, LOADS = DEEP * TILE / 32 };

// The elements of a word of each of RUN rows, one row after the other: RUN of the first element, then of the next.
DEVICE void turn_words(const u32 *from, uint4 *to)
{
    u32 out[4 / SIZE][4];
#pragma unroll
    for (int q = 0; q < 4; q++) {
        if (SIZE == 2) {
            out[0][q] = __byte_perm(from[2 * q], from[2 * q + 1], 0x5410);
            out[4 / SIZE - 1][q] = __byte_perm(from[2 * q], from[2 * q + 1], 0x7632);
        } else {
            const u32 *four = from + 4 * q % RUN;
            const u32 a = __byte_perm(four[0], four[1], 0x5140), b = __byte_perm(four[2], four[3], 0x5140);
            const u32 c = __byte_perm(four[0], four[1], 0x7362), d = __byte_perm(four[2], four[3], 0x7362);
            out[0][q] = __byte_perm(a, b, 0x5410);
            out[1][q] = __byte_perm(a, b, 0x7632);
            out[2 % (4 / SIZE)][q] = __byte_perm(c, d, 0x5410);
            out[3 % (4 / SIZE)][q] = __byte_perm(c, d, 0x7632);
        }
    }
#pragma unroll
    for (int j = 0; j < 4 / SIZE; j++)
        to[j] = make_uint4(out[j][0], out[j][1], out[j][2], out[j][3]);
}

// Rows of `from` are read by words of 16 bytes, which lie in shared memory so that those of a word, RUN rows apart, are in
// different banks; a warp has a column of such words.
extern "C" __global__ void __launch_bounds__(256) turn_tiles(const __grid_constant__ arguments a)
{
    __shared__ __align__(16) uint4 tile[DEEP * TILE][8];
    const int lane = threadIdx.x % 32, unit = threadIdx.x / 32, group = lane % 8, word = lane / 8;
    for (u64 u = blockIdx.x; u < a.units; u += gridDim.x) {
        const place p = find(a, (index)u);
        const i64 col = (i64)p.col * (DEEP * TILE), row = (i64)p.row * TILE;
        uint4 v[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const int c = i * 32 + threadIdx.x / 8, at = threadIdx.x % 8 * RUN;
            if (col + c < a.cols && row + at < a.rows)
                v[i] = *(const uint4 *)(p.from + (col + c) * a.from_col + (row + at) * SIZE);
        }
        __syncthreads(); // the tile before has left
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const int c = i * 32 + threadIdx.x / 8;
            tile[c][threadIdx.x % 8 ^ c / RUN % 8] = v[i];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEEP; k++) {
            u32 from[RUN];
            uint4 to[4 / SIZE];
#pragma unroll
            for (int i = 0; i < RUN; i++)
                from[i] = ((const u32 *)&tile[k * TILE + group * RUN + i][unit ^ group])[word];
            turn_words(from, to);
#pragma unroll
            for (int j = 0; j < 4 / SIZE; j++) {
                const i64 r = row + unit * RUN + word * (4 / SIZE) + j, c = col + k * TILE + group * RUN;
                if (r < a.rows && c < a.cols)
                    *(uint4 *)(p.to + r * a.to_row + c * SIZE) = to[j];
            }
        }
    }
}
#endif
