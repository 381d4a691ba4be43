// rows_team.cu -- group and instance normalisation of groups that many blocks keep together: each element is read once and written once.
// SPDX-License-Identifier: Apache-2.0
//
// All blocks are there at once and take units in turns. A block's shared memory has SLOTS of them: AHEAD are on their way, the others wait for
// the statistics of their group, which all blocks that have a unit of it bring together through device memory. MAIN threads keep
// PER vectors each of a unit and read no other's; warps behind them bring moments together (PUBLISHERS threads), join those of all blocks, and
// fetch what was joined. What rows_group.cuh says of other macros; channels are first, and a row has `parts` units.
//
// Nobody waits for ever: a block brings the moments of its unit s before it waits for the statistics of its unit s - DELAY, and the row of
// that one has no units behind step s.
#include "common.cuh"
#define THREADS MAIN
#include "rows.cuh"
#include "ptx_bulk.cuh"
#include "rows_group.cuh"
#define JOINERS 2
#include "rows_team.cuh"

enum {
    WARPS = MAIN / 32,
    DELAY = SLOTS - AHEAD,
    FIRST_JOINER = WARPS + PUBLISHERS / 32,
    FIRST_FETCHER = FIRST_JOINER + JOINERS,
    ALL_WARPS = FIRST_FETCHER + 1,
};

// The shared memory of a block.
extern __shared__ uint4 kept[]; // vector k of thread t of a slot at (slot * PER + k) * MAIN + t

struct desk {
    alignas(16) u64 ready[SLOTS], given[SLOTS]; // barriers: statistics are there; moments are
    warp_moments of_warps[SLOTS][WARPS]; // n: 0 where they are extreme, less where there are none
};
DEVICE desk &the_desk() { return *(desk *)(kept + SLOTS * PER * MAIN); }
// Of the row that a slot's unit is of.
DEVICE told_stats *stats_of(const rows_args &a, int slot)
{
    return (told_stats *)(&the_desk() + 1) + slot;
}
DEVICE u32 slot_vector(int slot, int k) { return shared_address(kept) + (u32)(((slot * PER + k) * MAIN + threadIdx.x) * 16); }
DEVICE vec<XT, WIDTH> get_kept(int slot, int k) { return *(const vec<XT, WIDTH> *)(kept + (slot * PER + k) * MAIN + threadIdx.x); }

// ---- What a thread has of a unit ------------------------------------------------------------------

struct own_part {
    u32 first; // element of the row
    int n;     // vectors
};

DEVICE own_part part_of(const rows_args &a, u32 part)
{
    const u32 first = part * (u32)a.part + threadIdx.x * WIDTH;
    const u32 end = (part + 1) * (u32)a.part < (u32)a.cols ? (part + 1) * (u32)a.part : (u32)a.cols;
    int n = 0;
#pragma unroll
    for (int k = 0; k < PER; k++)
        n += first + k * (MAIN * WIDTH) < end;
    return {first, n};
}
DEVICE i64 vector_place(const rows_args &a, const rows_place &at, u32 whole, u32 first)
{
    return place_of(a, at, whole) + first;
}
#define APART (MAIN * WIDTH)

DEVICE void fetch(const rows_args &a, const cursor &c, int slot, bool exists)
{
    asm volatile("" ::: "memory"); // what was there has been read
    if (exists) {
        const own_part p = part_of(a, c.part);
        const XT *x = (const XT *)a.x + vector_place(a, a.at_x, c.whole, p.first);
#pragma unroll
        for (int k = 0; k < PER; k++)
            if (k < p.n)
                copy16(slot_vector(slot, k), x + k * APART, true);
    }
    copies_end_group();
}

// ---- Moments --------------------------------------------------------------------------------------

// About an element of the warp's own: they are so few that squares about it tell those about the mean well.
DEVICE void bring_moments(const rows_args &a, const cursor &c, int slot)
{
    const own_part p = part_of(a, c.part);
    float first = 0, sum[2] = {0, 0}, square[2] = {0, 0};
    vec<XT, WIDTH> v[PER];
#pragma unroll
    for (int k = 0; k < PER; k++)
        if (k < p.n)
            v[k] = get_kept(slot, k);
    if (p.n > 0)
        first = to_float(v[0].v[0]);
    first = __shfl_sync(~0u, first, 0);
#pragma unroll
    for (int k = 0; k < PER; k++)
        if (k < p.n)
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                const float d = to_float(v[k].v[i]) - first;
                sum[i % 2] += d;
                square[i % 2] += d * d;
            }
    const float all = over_some(sum[0] + sum[1], 32), squares = over_some(square[0] + square[1], 32);
    const u32 n = __reduce_add_sync(~0u, (u32)p.n) * WIDTH;
    if (threadIdx.x % 32 == 0) {
        const bool held = first < 1e15f && first > -1e15f && !out_of_range(squares * 1e4f, a.epsilon);
        the_desk().of_warps[slot][threadIdx.x / 32] = {first, all, squares, n == 0 ? -1.0f : held ? (float)n : 0.0f};
        barrier_arrive(shared_address(&the_desk().given[slot]));
    }
}

// Warps in turns: those of a unit.
DEVICE void publish(const rows_args &a, u32 steps)
{
    const int lane = threadIdx.x % 32;
    for (u32 step = threadIdx.x / 32 - WARPS; step < steps; step += PUBLISHERS / 32) {
        const int slot = step % SLOTS;
        const u32 unit = unit_of(step), part = unit % (u32)a.parts;
        const u32 size = (part + 1) * (u32)a.part < (u32)a.cols ? (u32)a.part : (u32)a.cols - part * (u32)a.part;
        warp_moments m = {0, 0, 0, -1};
        barrier_wait(shared_address(&the_desk().given[slot]), step / SLOTS & 1);
        if (lane < WARPS)
            m = the_desk().of_warps[slot][lane];
        const bool extreme = __any_sync(~0u, m.n == 0);
        const double n = m.n > 0 ? m.n : 0, off = m.n > 0 ? (double)m.sum / n : 0, own = m.first + off;
        const double mean = over_some(n > 0 ? own * n : 0, 32) / (double)size;
        double square = n > 0 ? m.square - off * m.sum : 0;
        square = (square > 0 ? square : 0) + (n > 0 ? (own - mean) * (own - mean) * n : 0);
        square = over_some(square, 32);
        if (lane == 0)
            tell(parts_told(a) + unit, moments_told(mean, (float)square, extreme));
    }
}

// ---- Rows are joined ------------------------------------------------------------------------------

// What join_rows of rows_team.cuh asks for: rows are of `parts` units.
DEVICE const XT *row_begin(const rows_args &a, u32 row) { return (const XT *)a.x + place_of(a, a.at_x, row); }
DEVICE i64 place_in_row(const rows_args &, u32 c) { return c; }
DEVICE u32 members_of(const rows_args &a) { return (u32)a.parts; }
DEVICE u32 count_of(const rows_args &a, u32 member)
{
    return member + 1 < (u32)a.parts ? (u32)a.part : (u32)a.cols - member * (u32)a.part;
}

// A warp, each lane for every 32nd unit of this block. None waits for another one's.
DEVICE void fetch_stats(const rows_args &a, u32 steps)
{
    u32 step = threadIdx.x % 32, row = unit_of(step) / (u32)a.parts;
    while (__any_sync(~0u, step < steps)) {
        if (step < steps) {
            const uint4 v = ask(rows_told(a) + row);
            if (v.w != 0) {
                if (v.w == EXTREME)
                    __threadfence(); // what was there before it was told is read later
                *(uint4 *)stats_of(a, step % SLOTS) = v;
                barrier_arrive(shared_address(&the_desk().ready[step % SLOTS]));
                step += 32;
                row = unit_of(step) / (u32)a.parts;
            }
        }
        __nanosleep(32);
    }
}

// ---- Results --------------------------------------------------------------------------------------

// One element, that float32 cannot bring where it should be if its row is extreme.
DEVICE float result_of(const rows_args &a, const told_stats &stats, u32 row, u32 c, int slot, int k, int i)
{
    const float e = to_float(((const XT *)(kept + (slot * PER + k) * MAIN + threadIdx.x))[i]);
    return stats.how == EXTREME ? normalise_in_double(a, stats_of_row(a, row), c, e) : normalise(channel_of(a, stats, c), e);
}

DEVICE void put_unit(const rows_args &a, const cursor &c, int slot)
{
    const own_part p = part_of(a, c.part);
    const told_stats stats = *stats_of(a, slot);
    const u32 each = (u32)a.channels / (u32)a.groups, group = (u32)a.groups == 1 ? 0 : c.whole % (u32)a.groups;
    const u32 first = group * each;
    YT *y = (YT *)a.y + vector_place(a, a.at_y, c.whole, p.first);
    u32 known = ~0u;
    channel h;
    operand_places o;
    find_operands(a, c.whole, o);
    if (stats.how == EXTREME) {
#pragma unroll 1
        for (int k = 0; k < p.n; k++)
#pragma unroll 1
            for (int i = 0; i < WIDTH; i++) {
                const u32 e = p.first + k * APART + i, channel = over_space(a, e);
                const float v = result_of(a, stats, c.whole, first + channel, slot, k, i);
                y[k * APART + i] = from_float<YT>(finish(a, o, first + channel, e - channel * (u32)a.space, v));
            }
        return;
    }
#pragma unroll
    for (int k = 0; k < PER; k++)
        if (k < p.n)
            *(vec<YT, WIDTH> *)(y + k * APART) = apply_vector(a, o, stats, first, p.first + k * APART, get_kept(slot, k), h, known);
}

DEVICE void keep_units(const rows_args &a, u32 steps)
{
    const stride s = stride_of(a);
    cursor coming = cursor_of(a, blockIdx.x), here = coming, going = coming;
    for (u32 step = 0; step < AHEAD; step++, advance(a, s, coming))
        fetch(a, coming, step, step < steps);
    for (u32 step = 0; step < steps + DELAY; step++) {
        copies_wait<AHEAD - 1>();
        if (step < steps) {
            bring_moments(a, here, step % SLOTS);
            advance(a, s, here);
        }
        if (step >= DELAY) {
            const u32 before = step - DELAY;
            barrier_wait(shared_address(&the_desk().ready[before % SLOTS]), before / SLOTS & 1);
            put_unit(a, going, before % SLOTS);
            advance(a, s, going);
        }
        fetch(a, coming, (step + AHEAD) % SLOTS, step + AHEAD < steps);
        advance(a, s, coming);
    }
}

extern "C" __global__ void __launch_bounds__(ALL_WARPS * 32, 1) rows_team(const __grid_constant__ rows_args a)
{
    const int warp = threadIdx.x / 32;
    const u32 steps = steps_of(a);
    wait_for_predecessor();
    if (threadIdx.x == 0) {
        desk &d = the_desk();
        for (int i = 0; i < SLOTS; i++) {
            barrier_init(shared_address(&d.ready[i]), 1);
            barrier_init(shared_address(&d.given[i]), WARPS);
        }
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
