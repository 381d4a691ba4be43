// scatter.cu -- updates at places that indices tell, as if one after the other.
// SPDX-License-Identifier: Apache-2.0
//
// Places are `slots` of `inner` elements. First every update finds its slot and leaves its number there (the last
// one's; or, where updates are combined, all of them in a list); then the one whose number is in the slot does the work
// of all. Long slots that are set are written once, by their updates or as they were. Numbers begin with 1. Generated before this: RANK, DEPTH, INDEX (i32 or i64), WIDE (nest.cuh), ELEMENT, and
// COMBINE: 0 set, 1 add, 2 mul, 3 max, 4 min, with NUMBER, in which they are.
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"

struct arguments {
    const char *data; // NULL: it is in `to` already
    const INDEX *indices;
    const ELEMENT *updates;
    ELEMENT *to;
    u32 *fault;
    u32 fault_code, not_read;
    u32 *head, *count; // per slot
    u32 *slot, *next;  // per update
    u64 bytes;         // of the data
    u64 n;             // updates
    axis inner;
    i64 pick_size[DEPTH + 1], pick_step[DEPTH + 1]; // steps count slots
    axis dims[RANK];                                // of the updates
    i64 step[RANK];
};

enum { NOWHERE = 0xffffffffu };

DEVICE u32 slot_of(const arguments &a, index update)
{
    index rest = update;
    i64 at = 0;
#pragma unroll
    for (int d = RANK - 1; d >= 0; d--) {
        index q = d ? quotient(rest, a.dims[d]) : 0;
        at += (i64)(rest - q * size_of(a.dims[d])) * a.step[d];
        rest = q;
    }
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
        i64 i = (i64)a.indices[(u64)update * DEPTH + k], n = a.pick_size[k];
        if (i < -n || i >= n) {
            atomicCAS(a.fault, 0u, a.fault_code);
            return NOWHERE;
        }
        at += (i < 0 ? i + n : i) * a.pick_step[k];
    }
    return (u32)at;
}

extern "C" __global__ void __launch_bounds__(256) scatter_find(const __grid_constant__ arguments a)
{
    const u64 first = first_index(), step = all_threads();
    if (a.data) {
        const u64 words = a.bytes / 16;
        for (u64 i = first; i < words; i += step)
            ((uint4 *)a.to)[i] = ((const uint4 *)a.data)[i];
        for (u64 i = words * 16 + first; i < a.bytes; i += step)
            ((char *)a.to)[i] = a.data[i];
    }
    for (u64 i = first; i < a.n; i += step) {
        u32 slot = slot_of(a, (index)i);
        a.slot[i] = slot;
        if (slot == NOWHERE)
            continue;
#if COMBINE
        a.next[i] = atomicExch(a.head + slot, (u32)i + 1);
        atomicAdd(a.count + slot, 1u);
#else
        atomicMax(a.head + slot, (u32)i + 1);
#endif
    }
}

#if COMBINE
DEVICE ELEMENT combined(ELEMENT x, ELEMENT y)
{
    NUMBER a = get<NUMBER, ELEMENT>(x), b = get<NUMBER, ELEMENT>(y);
    if (COMBINE == 1)
        a += b;
    else if (COMBINE == 2)
        a *= b;
    else if (COMBINE == 3)
        a = a != a || a > b ? a : b; // NaN wins
    else
        a = a != a || a < b ? a : b;
    return element<ELEMENT>::put(a);
}

// All updates of a slot in their order: a short list is searched for the next one again and again; else all
// updates are looked at.
DEVICE ELEMENT all_of(const arguments &a, u32 slot, ELEMENT v, u32 column)
{
    const u32 inner = size_of(a.inner);
    const u64 many = a.count[slot];
    if (many * many > 4 * a.n) {
        for (u64 i = 0; i < a.n; i++)
            if (a.slot[i] == slot)
                v = combined(v, a.updates[i * inner + column]);
        return v;
    }
    u32 last = 0;
    for (u32 c = 0; c < many; c++) {
        u32 least = NOWHERE;
        for (u32 t = a.head[slot]; t; t = a.next[t - 1])
            if (t > last && t < least)
                least = t;
        v = combined(v, a.updates[(u64)(least - 1) * inner + column]);
        last = least;
    }
    return v;
}
#endif

extern "C" __global__ void __launch_bounds__(256) scatter_apply(const __grid_constant__ arguments a)
{
    const u64 all = a.n * a.inner.size;
    for (u64 e = first_index(); e < all; e += all_threads()) {
        const index update = quotient((index)e, a.inner);
        const u32 column = (u32)(e - (u64)update * a.inner.size), slot = a.slot[update];
        if (slot == NOWHERE || a.head[slot] != (u32)update + 1)
            continue;
        ELEMENT *to = a.to + ((u64)slot * a.inner.size + column);
#if COMBINE
        *to = all_of(a, slot, *to, column);
#else
        *to = a.updates[e];
#endif
    }
}

#if !COMBINE
// The data with the updates of slots that have one: everything is written once.
template <int U> DEVICE void merge_some(const arguments &a, index e, index step)
{
    ELEMENT v[U];
#pragma unroll
    for (int j = 0; j < U; j++) {
        const index at = e + j * step, slot = quotient(at, a.inner), column = at - slot * size_of(a.inner);
        const u32 update = a.head[slot];
        v[j] = update ? a.updates[(u64)(update - 1) * size_of(a.inner) + column] : ((const ELEMENT *)a.data)[at];
    }
#pragma unroll
    for (int j = 0; j < U; j++)
        a.to[e + j * step] = v[j];
}

extern "C" __global__ void __launch_bounds__(256) scatter_merge(const __grid_constant__ arguments a)
{
    const int many = 4;
    const index all = (index)(a.bytes / sizeof(ELEMENT)), step = all_threads();
    index e = first_index();
    for (; (u64)e + (many - 1) * (u64)step < all; e += many * step)
        merge_some<many>(a, e, step);
    for (; e < all; e += step)
        merge_some<1>(a, e, step);
}
#endif
