// turn.cu -- two axes change places: one of a few planes, or both long.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: ELEMENT, RANK (of the other axes), WIDE (nest.cuh). PLANES: so many are read, pixels (an element of
// each, side by side) written; RUN_BYTES of a plane are held by a thread. RAGGED: tiles whose lines need not be of whole vectors,
// of COLS columns and LINE_BYTES of each; ALIGN (of what is written, bytes), BLOCKS (of a multiprocessor), PIXELS: WRITTEN or
// READ as one line. cuda/turn.c lays the arguments out. Steps count bytes.
#define WRITTEN 1
#define READ 2
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"
#include "ptx_matrix.cuh"

struct arguments {
    const char *from;
    char *to;
    u64 units; // tiles
    i64 cols, rows; // along `to`, along `from`
    i64 from_col, to_row;
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

// Four bytes from b on of pixels, the elements of which, of a byte or two, are in runs.
DEVICE u32 turned(const held &from, int b)
{
    u32 word[4], at[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int e = (b + i) / SIZE, byte = (b + i) % SIZE;
        const int other = e % PLANES * RUN + e / PLANES;
        word[i] = from.word[(other * SIZE + byte) / 4];
        at[i] = (other * SIZE + byte) % 4;
    }
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
        to.word[w] = turned(from, 4 * w);
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

extern "C" __global__ void __launch_bounds__(256) turn_planes(const __grid_constant__ arguments a)
{
    __shared__ __align__(16) vector shared[256 * PLANES];
    for (u64 u = blockIdx.x; u < a.units; u += gridDim.x) {
        const place p = find(a, (index)u);
        const i64 first = (i64)p.row * TILE;
        const int count = a.rows - first < TILE ? (int)(a.rows - first) : TILE;
        const int mine = (count - (int)threadIdx.x * RUN) * SIZE;
        const int have = mine < 0 ? 0 : mine < RUN_BYTES ? mine : RUN_BYTES, bytes = count * PLANES * SIZE;
        held planes, pixels;
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
    }
}
#elif RAGGED
// Lines begin anywhere. The words of 16 bytes that hold a tile's part of them come as they lie. Lines of the output are written
// by such words too, but at their ends: a tile has those that begin less than ALIGN bytes before it, with the lines of `from`
// that they need.
// Pixels written: a tile has whole lines of the output, which follow each other, and writes them as one.
// Pixels read: its lines of `from` are whole and follow each other; they come as one.
enum {
    SIZE = sizeof(ELEMENT), WIDTH = 16 / SIZE, ROWS = LINE_BYTES / SIZE,
    EDGE = PIXELS == WRITTEN ? 0 : ALIGN / SIZE, LINES = EDGE + COLS, // lines: of `from`
    HELD = PIXELS == WRITTEN ? LINES : LINES + WIDTH - 1, // with those that words at lines' ends have besides
    WORDS = LINE_BYTES / 16 + 1, PITCH = 16 * WORDS,
    SHARED_BYTES = PIXELS == READ ? (HELD * LINE_BYTES + 16 + 127) / 128 * 128 : HELD * PITCH + HELD / WIDTH * 16,
    LANES = COLS <= WIDTH ? 1 : COLS <= 2 * WIDTH ? 2 : COLS <= 4 * WIDTH ? 4 : 8 // that write a line
};

#if PIXELS == READ
// Where the word `unit` is: pixels of an even number of elements would be in few banks.
DEVICE u32 word_place(u32 unit) { return 16 * (ROWS % 2 == 0 ? unit ^ (unit >> 3 & 7) : unit); }
#else
// Line c of a tile: of lines WIDTH apart, the same words are in different banks.
DEVICE int line_place(int c) { return c * PITCH + c / WIDTH * 16; }
#endif

// What is on its way to shared memory of lines [first, end), of which line 0 is at `from`.
DEVICE void bring_lines(u32 tile, const char *from, i64 from_col, int first, int end, int bytes)
{
#if PIXELS == READ
    const int skip = (int)((u64)from & 15), words = (skip + end * LINE_BYTES + 15) / 16;
    for (int s = (skip + first * LINE_BYTES) / 16 + threadIdx.x; s < words; s += 256)
        copy16(tile + word_place(s), from - skip + s * 16, true);
#else
    for (int s = first * WORDS + threadIdx.x; s < end * WORDS; s += 256) {
        const int c = s / WORDS, at = s % WORDS * 16;
        const char *line = from + c * from_col;
        const int skip = (int)((u64)line & 15);
        if (at < skip + bytes)
            copy16(tile + line_place(c) + at, line - skip + at, true);
    }
#endif
}

// Where lines begin in their first word; elements of the r-th place of them.
struct brought {
    const char *tile;
    u32 from, from_col;

    __device__ __forceinline__ ELEMENT at(int c, int r) const
    {
#if PIXELS == READ
        const u32 at = from % 16 + c * LINE_BYTES + r * SIZE;
        return *(const ELEMENT *)(tile + word_place(at / 16) + at % 16);
#else
        return *(const ELEMENT *)(tile + line_place(c) + (from + c * from_col) % 16 + r * SIZE);
#endif
    }
};

// The word at `to` is of lines [c, c + WIDTH); those of [first, end) are there, others are not written.
DEVICE void store_word(char *to, const brought &b, int c, int r, int first, int end)
{
    run_of<ELEMENT, WIDTH> v;
#pragma unroll
    for (int i = 0; i < WIDTH; i++)
        v.v[i] = b.at(c + i, r);
    const int low = c < first ? first - c : 0, high = end - c < WIDTH ? end - c : WIDTH;
    if (low == 0 && high == WIDTH)
        *(uint4 *)to = v.all;
    else
        store_part<ELEMENT>(to, v.all, low * SIZE, high * SIZE);
}

#if PIXELS == WRITTEN
// The word at `to` is of elements [e, e + WIDTH) of `all` in a tile's pixels, e in the r-th.
DEVICE void store_pixels(char *to, const brought &b, int e, int r, int all)
{
    const int c = e - r * COLS;
    if (e >= 0 && e + WIDTH <= all) {
        run_of<ELEMENT, WIDTH> v;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            const int next = COLS < WIDTH ? (u32)(c + i) / COLS : c + i >= COLS;
            v.v[i] = b.at(c + i - next * COLS, r + next);
        }
        *(uint4 *)to = v.all;
    } else {
#pragma unroll 1
        for (int i = e < 0 ? -e : 0; i < WIDTH && e + i < all; i++)
            ((ELEMENT *)to)[i] = b.at((u32)(e + i) % COLS, (u32)(e + i) / COLS);
    }
}

// Pixels of a tile: of WIDTH elements or more, so many lanes have one that they meet few banks twice.
DEVICE void store_tile(char *to, const brought &b, int rows)
{
    const int head = (int)((u64)to & 15) / SIZE, all = rows * COLS;
    to -= head * SIZE;
#if COLS < 16
    for (int w = threadIdx.x; w * WIDTH < head + all; w += 256) {
        const int e = w * WIDTH - head;
        store_pixels(to + w * 16, b, e, e < 0 ? 0 : (u32)e / COLS, all);
    }
#else
    for (int r = threadIdx.x / LANES; r < rows; r += 256 / LANES) {
        const int end = (head + (r + 1) * COLS + WIDTH - 1) / WIDTH; // words that begin in the pixel
        int w = r ? (head + r * COLS + WIDTH - 1) / WIDTH : 0;
        for (w += threadIdx.x % LANES; w < end; w += LANES)
            store_pixels(to + w * 16, b, w * WIDTH - head, r, all);
    }
#endif
}
#endif

extern "C" __global__ void __launch_bounds__(256, BLOCKS) turn_ragged(const __grid_constant__ arguments a)
{
    __shared__ __align__(128) char tile[SHARED_BYTES];
    for (u64 u = blockIdx.x; u < a.units; u += gridDim.x) {
        const place p = find(a, (index)u);
        const i64 col = (i64)p.col * COLS, row = (i64)p.row * ROWS;
        const bool last = p.col + 1 == size_of(a.across);
        const int first = p.col ? 1 : EDGE, end = EDGE + (last ? (int)(a.cols - col) : COLS);
        const int rows = a.rows - row < ROWS ? (int)(a.rows - row) : ROWS;
        const char *from = p.from + (col - EDGE) * a.from_col + row * SIZE;
        bring_lines(shared_address(tile), from, a.from_col, first, end, rows * SIZE);
        copies_end_group();
        copies_wait<0>();
        __syncthreads();
        const brought b = {tile, (u32)(u64)from, (u32)a.from_col};
#if PIXELS == WRITTEN
        store_tile(p.to + row * a.to_row, b, rows);
#else
        // Lanes have a line of pixels that are read in turns, so that all threads have something.
        const int turns = PIXELS == READ ? ((last ? LINES : COLS) / WIDTH + LANES - 1) / LANES : 1;
        for (int l = threadIdx.x / LANES; l < rows * turns; l += 256 / LANES) {
            const int r = PIXELS == READ ? l % ROWS : l, from_word = PIXELS == READ ? l / ROWS * LANES : 0;
            char *to = p.to + (row + r) * a.to_row + col * SIZE;
            const int skip = (int)((u64)to % ALIGN);
            const int words = last ? (skip + (end - EDGE) * SIZE + 15) / 16 : COLS / WIDTH;
            for (int w = from_word + threadIdx.x % LANES; w < words; w += LANES * turns)
                store_word(to - skip + w * 16, b, EDGE - skip / SIZE + w * WIDTH, r, first, end);
        }
#endif
        __syncthreads(); // the next tile may come
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
