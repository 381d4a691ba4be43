// rows_bands.cu -- group normalisation, channels innermost, of images that many blocks keep together: each element is read once and written once.
// SPDX-License-Identifier: Apache-2.0
//
// As rows_team.cu, which says how blocks share a whole; here that is a band of an image: some whole groups' channels, LANES vectors at each
// position, so that several bands are on their way or wait for statistics at a time. A thread keeps to one vector of the band, at every
// WAYS-th position, and has a stream of elements for each of its channels. CHANNELS: of an image; EACH: of a group.
//
// Nobody waits for ever: a block brings the moments of what it has of a band with its last unit of it, which is not behind step s where
// the statistics are waited for at step s + DELAY.
//
// At barriers each thread tells of what it wrote or read itself, so that tools that look for races see who waits for whom.
#include "common.cuh"
#define THREADS MAIN
#include "rows.cuh"
#include "ptx_bulk.cuh"
#include "rows_group.cuh"
#define JOINERS 1
#include "rows_team.cuh"

enum {
    BAND = LANES * WIDTH,
    BANDS = CHANNELS / BAND,
    GROUPS = BAND / EACH, // of a band
    WAYS = MAIN / LANES,
    // Groups that a vector has channels of, at most.
    PIECES = EACH % WIDTH == 0 ? 1 : WIDTH % EACH == 0 ? WIDTH / EACH : (WIDTH + EACH - 2) / EACH + 1,
    WARPS = MAIN / 32,
    DELAY = SLOTS - AHEAD,
    FIRST_JOINER = WARPS + PUBLISHERS / 32,
    FIRST_FETCHER = FIRST_JOINER + JOINERS,
    ALL_WARPS = FIRST_FETCHER + 1,
};

// The shared memory of a block.
extern __shared__ uint4 kept[]; // vector k of thread t of a slot at (slot * PER + k) * MAIN + t

struct desk {
    alignas(16) u64 ready[SLOTS], given[SLOTS], free; // barriers: statistics of bands in turns are there; moments are; and may be again
    warp_moments of_threads[PIECES][MAIN]; // all zeros where there are none; a square is NaN where they are extreme
    alignas(16) told_stats stats[SLOTS][GROUPS];
};
DEVICE desk &the_desk() { return *(desk *)(kept + SLOTS * PER * MAIN); }
DEVICE u32 given_to(u32 band) { return shared_address(&the_desk().given[band % SLOTS]); }
DEVICE u32 slot_vector(int slot, int k) { return shared_address(kept) + (u32)(((slot * PER + k) * MAIN + threadIdx.x) * 16); }
DEVICE vec<XT, WIDTH> get_kept(int slot, int k) { return *(const vec<XT, WIDTH> *)(kept + (slot * PER + k) * MAIN + threadIdx.x); }

// ---- What a thread has of a unit ------------------------------------------------------------------

DEVICE int own_lane() { return (int)threadIdx.x % LANES; }
DEVICE int own_way() { return (int)threadIdx.x / LANES; }

struct own_part {
    u32 first; // position
    int n;     // vectors
};
DEVICE own_part part_of(const rows_args &a, u32 part)
{
    const u32 begin = part * (WAYS * PER), end = begin + WAYS * PER < (u32)a.space ? begin + WAYS * PER : (u32)a.space;
    const u32 first = begin + own_way();
    int n = 0;
#pragma unroll
    for (int k = 0; k < PER; k++)
        n += own_way() < WAYS && first + k * WAYS < end;
    return {first, n};
}
DEVICE u32 first_channel(u32 whole) { return whole % BANDS * BAND + own_lane() * WIDTH; }
DEVICE i64 vector_place(const rows_place &at, u32 whole, u32 position)
{
    return whole / BANDS * at.outer[0] + (i64)position * CHANNELS + first_channel(whole);
}
#define APART (WAYS * CHANNELS)

DEVICE void fetch(const rows_args &a, const cursor &c, int slot, bool exists)
{
    asm volatile("" ::: "memory"); // what was there has been read
    if (exists) {
        const own_part p = part_of(a, c.part);
        const XT *x = (const XT *)a.x + vector_place(a.at_x, c.whole, p.first);
#pragma unroll
        for (int k = 0; k < PER; k++)
            if (k < p.n)
                copy16(slot_vector(slot, k), x + k * APART, true);
    }
    copies_end_group();
}

// Is this unit of a whole the last that the block has of it?
DEVICE bool is_last(const rows_args &a, const cursor &c) { return c.part + gridDim.x >= (u32)a.parts; }

// ---- Moments --------------------------------------------------------------------------------------

// Streams of the band that comes in, each about its first element: they are so short that squares about that tell those about the mean well.
struct gathering {
    float first[WIDTH], sum[WIDTH], square[WIDTH];
    int n;
    u32 bands; // brought
};

DEVICE void add_vector(const vec<XT, WIDTH> &v, gathering &g)
{
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        const float d = to_float(v.v[i]) - g.first[i];
        g.sum[i] += d;
        g.square[i] += d * d;
    }
}

DEVICE void add_vectors(const own_part &p, int slot, gathering &g)
{
    if (p.n > 0 && g.n == 0) {
        const vec<XT, WIDTH> v = get_kept(slot, 0);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            g.first[i] = to_float(v.v[i]);
            g.sum[i] = g.square[i] = 0;
        }
    }
    if (p.n == PER) { // without a branch for each
#pragma unroll
        for (int k = 0; k < PER; k++)
            add_vector(get_kept(slot, k), g);
    } else {
#pragma unroll 1
        for (int k = 0; k < p.n; k++)
            add_vector(get_kept(slot, k), g);
    }
    g.n += p.n;
}

// Does a group begin with channel i of the thread's vector, which is not the first?
DEVICE bool begins_group(int i)
{
    const int c = own_lane() * WIDTH;
    return EACH % WIDTH == 0 ? false : WIDTH % EACH == 0 ? i % EACH == 0 : EACH > WIDTH ? i == EACH - c % EACH : (c + i) % EACH == 0;
}

DEVICE void put_piece(const rows_args &a, int piece, const warp_moments &m)
{
    const bool held = m.first < 1e15f && m.first > -1e15f && !out_of_range(m.square * 1e4f, a.epsilon);
    const warp_moments none = {0, 0, 0, 0}, some = {m.first, m.sum, held ? m.square : __int_as_float(0x7fffffff), m.n};
    the_desk().of_threads[piece][threadIdx.x] = m.n == 0 ? none : some;
}

// To the desk: those of each group that the thread has channels of, about the first element of the first of them.
DEVICE void put_pieces(const rows_args &a, const gathering &g)
{
    const float n = (float)g.n, share = g.n > 0 ? __fdividef(1.0f, n) : 0.0f;
    warp_moments m;
    int piece = 0;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        if (i > 0 && begins_group(i))
            put_piece(a, piece++, m);
        if (i == 0 || begins_group(i))
            m = {g.first[i], 0, 0, 0};
        const float off = g.sum[i] * share, from = g.first[i] - m.first + off;
        m.sum += from * n;
        m.square += fmaxf(g.square[i] - g.sum[i] * off, 0.0f) + from * from * n;
        if (!(g.square[i] < 1e37f)) // fmaxf takes NaN for 0
            m.square = g.square[i];
        m.n += n;
    }
    put_piece(a, piece, m);
}

DEVICE void bring_moments(const rows_args &a, const cursor &c, int slot, gathering &g)
{
    add_vectors(part_of(a, c.part), slot, g);
    if (!is_last(a, c))
        return;
    if (g.bands > 0)
        barrier_wait(shared_address(&the_desk().free), (g.bands - 1) & 1);
    put_pieces(a, g);
    g.n = 0;
    barrier_arrive(given_to(g.bands++));
}

// What join_rows of rows_team.cuh asks for: each block that has units of an image has every gridDim.x-th of them.
DEVICE const XT *row_begin(const rows_args &a, u32 row)
{
    return (const XT *)a.x + row / (u32)a.groups * a.at_x.outer[0] + row % (u32)a.groups * EACH;
}
DEVICE i64 place_in_row(const rows_args &, u32 c) { return (i64)(c / EACH) * CHANNELS + c % EACH; }
DEVICE u32 members_of(const rows_args &a) { return (u32)a.parts < gridDim.x ? (u32)a.parts : gridDim.x; }
DEVICE u32 count_of(const rows_args &a, u32 member)
{
    const u32 parts = (u32)a.parts, units = parts / gridDim.x + (member < parts % gridDim.x);
    const u32 lacking = member == (parts - 1) % gridDim.x ? parts * (WAYS * PER) - (u32)a.space : 0;
    return (units * (WAYS * PER) - lacking) * EACH;
}

// PUBLISHERS threads: those of a band as far as this block has it, from unit `member` of it on. As many threads of a warp as there are for
// each group.
DEVICE void publish_band(const rows_args &a, u32 whole, u32 member)
{
    enum {
        MOST = PUBLISHERS / GROUPS,
        HELPERS = MOST >= 32 ? 32 : MOST >= 16 ? 16 : MOST >= 8 ? 8 : MOST >= 4 ? 4 : MOST >= 2 ? 2 : 1,
        TEAMS = PUBLISHERS / HELPERS,
    };
    const desk &d = the_desk();
    const int t = (int)threadIdx.x - MAIN, part = t % HELPERS;
    const double count = count_of(a, member);
    for (int from = 0; from < GROUPS; from += TEAMS) {
        const int at = from + t / HELPERS, g = at < GROUPS ? at : 0;
        const int begin = g * EACH / WIDTH, end = (g * EACH + EACH - 1) / WIDTH;
        const double about = d.of_threads[g - begin * WIDTH / EACH][begin].first;
        double sum = 0, square = 0;
        for (int lane = begin; lane <= end; lane++) {
            const warp_moments *pieces = d.of_threads[g - lane * WIDTH / EACH] + lane;
#pragma unroll 4
            for (int way = part; way < WAYS; way += HELPERS) {
                const warp_moments m = pieces[way * LANES];
                const double off = m.first - about;
                sum += m.sum + off * m.n;
                square += m.square + off * (2 * (double)m.sum + off * m.n);
            }
        }
        sum = over_some(sum, HELPERS);
        square = over_some(square, HELPERS);
        const double off = sum / count, about_mean = square - sum * off;
        if (part == 0 && at < GROUPS)
            tell(parts_told(a) + ((i64)whole * GROUPS + g) * members_of(a) + member,
                 moments_told(about + off, about_mean > 0 ? (float)about_mean : 0.0f, square != square));
    }
}

DEVICE void publish(const rows_args &a, u32 steps)
{
    const stride s = stride_of(a);
    cursor c = cursor_of(a, blockIdx.x);
    u32 bands = 0;
    for (u32 step = 0; step < steps; step++, advance(a, s, c)) {
        if (!is_last(a, c))
            continue;
        barrier_wait(given_to(bands), bands / SLOTS & 1);
        publish_band(a, c.whole, c.part % gridDim.x);
        barrier_arrive(shared_address(&the_desk().free));
        bands++;
    }
}

// A warp: the statistics of bands that this block has units of, in turns. When they are told, this block has given its moments, and before that
// it read the statistics whose place they take.
DEVICE void fetch_stats(const rows_args &a, u32 steps)
{
    const stride s = stride_of(a);
    cursor c = cursor_of(a, blockIdx.x);
    u32 bands = 0;
    for (u32 step = 0; step < steps; step++, advance(a, s, c)) {
        if (!is_last(a, c))
            continue;
        bool extreme = false;
        barrier_wait(given_to(bands), bands / SLOTS & 1);
        for (int g = threadIdx.x % 32; g < GROUPS; g += 32) {
            const uint4 v = wait_until_told(rows_told(a) + (i64)c.whole * GROUPS + g);
            extreme = extreme || v.w == EXTREME;
            *(uint4 *)&the_desk().stats[bands % SLOTS][g] = v;
        }
        if (extreme)
            __threadfence(); // what was there before it was told is read later
        barrier_arrive(shared_address(&the_desk().ready[bands % SLOTS]));
        bands++;
    }
}

// ---- Results --------------------------------------------------------------------------------------

// What is done to a thread's channels, of the band that goes out.
struct leaving {
    channel of[WIDTH];
    u32 bands; // of which the last goes out
    bool begins, extreme;
};

DEVICE void find_channels(const rows_args &a, u32 whole, leaving &h)
{
    const u32 first = first_channel(whole);
    const vec<SCALET, WIDTH> scale = *(const vec<SCALET, WIDTH> *)((const SCALET *)a.scale + first);
    const vec<BIAST, WIDTH> bias = *(const vec<BIAST, WIDTH> *)((const BIAST *)a.bias + first);
    barrier_wait(shared_address(&the_desk().ready[h.bands % SLOTS]), h.bands / SLOTS & 1);
    const told_stats *stats = the_desk().stats[h.bands % SLOTS] + own_lane() * WIDTH / EACH;
    told_stats r = *stats;
    h.extreme = r.how == EXTREME;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        if (i > 0 && begins_group(i)) {
            r = *++stats;
            h.extreme = h.extreme || r.how == EXTREME;
        }
        h.of[i].center = r.center;
        h.of[i].factor = r.factor * to_float(scale.v[i]);
        h.of[i].shift = to_float(bias.v[i]) - r.rest * h.of[i].factor;
    }
    h.bands++;
}

// One element of a vector some of which float32 cannot bring where they should be.
DEVICE float result_of(const rows_args &a, u32 whole, const told_stats *stats, int slot, int k, int i)
{
    const float e = to_float(((const XT *)(kept + (slot * PER + k) * MAIN + threadIdx.x))[i]);
    const u32 group = (own_lane() * WIDTH + i) / EACH, channel = first_channel(whole) + i;
    return stats[group].how == EXTREME ? normalise_in_double(a, stats_of_row(a, (i64)whole * GROUPS + group), channel, e)
                                       : normalise(channel_of(a, stats[group], channel), e);
}

DEVICE vec<YT, WIDTH> apply_vector(const rows_args &a, const operand_places &o, const leaving &h, u32 first, u32 position,
                                   const vec<XT, WIDTH> &v)
{
    vec<YT, WIDTH> to;
#pragma unroll
    for (int i = 0; i < WIDTH; i++)
        to.v[i] = from_float<YT>(finish(a, o, first + i, position, normalise(h.of[i], to_float(v.v[i]))));
    return to;
}

// Whole vectors at once, which the compiler cuts in pieces if it may.
DEVICE void put_vector(YT *y, const vec<YT, WIDTH> &v)
{
    if (sizeof v == 8) {
        *(uint2 *)y = *(const uint2 *)&v;
        return;
    }
#pragma unroll
    for (int j = 0; j < (int)sizeof v / 16; j++)
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"((uint4 *)y + j), "r"(((const uint4 *)&v)[j].x),
                     "r"(((const uint4 *)&v)[j].y), "r"(((const uint4 *)&v)[j].z), "r"(((const uint4 *)&v)[j].w)
                     : "memory");
}

DEVICE void put_unit(const rows_args &a, const cursor &c, int slot, leaving &h)
{
    const own_part p = part_of(a, c.part);
    if (h.begins)
        find_channels(a, c.whole, h);
    h.begins = is_last(a, c);
    const u32 first = first_channel(c.whole);
    YT *y = (YT *)a.y + vector_place(a.at_y, c.whole, p.first);
    operand_places o;
    find_operands(a, (i64)(c.whole / BANDS) * a.groups, o);
    if (h.extreme) {
#pragma unroll 1
        for (int k = 0; k < p.n; k++)
#pragma unroll 1
            for (int i = 0; i < WIDTH; i++) {
                const float v = result_of(a, c.whole, the_desk().stats[(h.bands - 1) % SLOTS], slot, k, i);
                y[k * APART + i] = from_float<YT>(finish(a, o, first + i, p.first + k * WAYS, v));
            }
        return;
    }
    if (p.n == PER) {
#pragma unroll
        for (int k = 0; k < PER; k++)
            put_vector(y + k * APART, apply_vector(a, o, h, first, p.first + k * WAYS, get_kept(slot, k)));
    } else {
#pragma unroll 1
        for (int k = 0; k < p.n; k++)
            put_vector(y + k * APART, apply_vector(a, o, h, first, p.first + k * WAYS, get_kept(slot, k)));
    }
}

DEVICE void keep_units(const rows_args &a, u32 steps)
{
    const stride s = stride_of(a);
    cursor coming = cursor_of(a, blockIdx.x), here = coming, going = coming;
    gathering g;
    leaving h;
    g.n = 0;
    g.bands = h.bands = 0;
    h.begins = true;
    h.extreme = false;
    for (u32 step = 0; step < AHEAD; step++, advance(a, s, coming))
        fetch(a, coming, step, step < steps);
    for (u32 step = 0; step < steps + DELAY; step++) {
        copies_wait<AHEAD - 1>();
        if (step < steps) {
            bring_moments(a, here, step % SLOTS, g);
            advance(a, s, here);
        }
        if (step >= DELAY) {
            put_unit(a, going, (step - DELAY) % SLOTS, h);
            advance(a, s, going);
        }
        fetch(a, coming, (step + AHEAD) % SLOTS, step + AHEAD < steps);
        advance(a, s, coming);
    }
}

extern "C" __global__ void __launch_bounds__(ALL_WARPS * 32, 1) rows_bands(const __grid_constant__ rows_args a)
{
    const int warp = threadIdx.x / 32;
    const u32 steps = steps_of(a);
    wait_for_predecessor();
    if (threadIdx.x == 0) {
        desk &d = the_desk();
        for (int i = 0; i < SLOTS; i++) {
            barrier_init(shared_address(&d.ready[i]), 32);
            barrier_init(shared_address(&d.given[i]), MAIN);
        }
        barrier_init(shared_address(&d.free), PUBLISHERS);
        barriers_made();
    }
    __syncthreads();
    if (warp < WARPS)
        keep_units(a, steps);
    else if (warp < FIRST_JOINER)
        publish(a, steps);
    else if (warp < FIRST_FETCHER)
        join_rows(a, warp - FIRST_JOINER);
    else
        fetch_stats(a, steps);
}
