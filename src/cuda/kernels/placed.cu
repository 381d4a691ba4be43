// placed.cu -- elements that a rule of their place tells.
// SPDX-License-Identifier: Apache-2.0
//
// The output is [outer, n, inner] of ELEMENT, a plain word. Generated before this: ELEMENT, WIDE (nest.cuh) and RULE: 0
// one hot, 1 triangle, 2 reversed, 3 cache, 4 fill, 5 eye, 6 range (ELEMENT has its own type then); INDEX; REAL: indices, or the
// range, are floats.
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"

struct arguments {
    const ELEMENT *x;
    const ELEMENT *more;  // ONE_HOT: off and on; CACHE: the update
    const INDEX *indices; // ONE_HOT: classes; REVERSED: lengths; CACHE: where windows begin, NULL: at 0
    ELEMENT *y;
    u32 *fault;
    u32 fault_code, circular;
    u64 all;
    axis outer, n, inner;
    axis rows;      // TRIANGLE
    axis per_batch; // REVERSED: elements of a batch inside, else 0; CACHE: outer of a batch
    i64 diagonal, upper, inside, update;
    u64 value; // FILL, EYE
    double start, step;
    i64 first, by;
};

struct place {
    index outer, at, inner;
};

DEVICE place place_of(const arguments &a, index e)
{
    place p;
    index rest = quotient(e, a.inner);
    p.inner = e - rest * size_of(a.inner);
    p.outer = quotient(rest, a.n);
    p.at = rest - p.outer * size_of(a.n);
    return p;
}

#if RULE == 0
DEVICE ELEMENT value_at(const arguments &a, index e)
{
    const place p = place_of(a, e);
    const INDEX i = a.indices[(u64)p.outer * size_of(a.inner) + p.inner];
    const i64 n = (i64)a.n.size;
    i64 c;
#if REAL
    double x = get<double, INDEX>(i);
    c = x > -9e18 && x < 9e18 ? (i64)x : n; // floats are cut
#else
    c = (i64)i;
    c = (INDEX)-1 > (INDEX)0 && c < 0 ? n : c;
#endif
    c = c < 0 && c >= -n ? c + n : c;
    return a.more[c == (i64)p.at];
}
#elif RULE == 1
DEVICE ELEMENT value_at(const arguments &a, index e)
{
    const place p = place_of(a, e);
    const i64 row = p.outer - quotient(p.outer, a.rows) * size_of(a.rows);
    const i64 beyond = (i64)p.at - row - a.diagonal; // columns right of the diagonal
    return (a.upper ? beyond >= 0 : beyond <= 0) ? a.x[e] : ELEMENT();
}
#elif RULE == 2
DEVICE ELEMENT value_at(const arguments &a, index e)
{
    const place p = place_of(a, e);
    const i64 length = (i64)a.indices[a.inside ? quotient(p.inner, a.per_batch) : p.outer];
    if (length < 0 || length > (i64)a.n.size) {
        atomicCAS(a.fault, 0u, a.fault_code);
        return ELEMENT();
    }
    const u64 from = p.at < length ? length - 1 - p.at : p.at;
    return a.x[((u64)p.outer * a.n.size + from) * a.inner.size + p.inner];
}
#elif RULE == 3
DEVICE ELEMENT value_at(const arguments &a, index e)
{
    const place p = place_of(a, e);
    const i64 n = (i64)a.n.size;
    i64 begin = a.indices ? (i64)a.indices[quotient(p.outer, a.per_batch)] : 0;
    if (begin < 0 || (!a.circular && begin > n - a.update)) {
        atomicCAS(a.fault, 0u, a.fault_code);
        return ELEMENT();
    }
    i64 at = (i64)p.at - (a.circular ? begin % n : begin);
    at += a.circular && at < 0 ? n : 0;
    return at >= 0 && at < a.update ? a.more[((u64)p.outer * a.update + at) * a.inner.size + p.inner]
                                    : a.x[e];
}
#elif RULE == 6
DEVICE ELEMENT value_at(const arguments &a, index e)
{
#if REAL
    return element<ELEMENT>::put(__dadd_rn(a.start, __dmul_rn((double)e, a.step)));
#else
    return (ELEMENT)((u64)a.first + (u64)e * (u64)a.by);
#endif
}
#else
// As the word of its first bytes.
DEVICE ELEMENT value_at(const arguments &a, index e)
{
    const place p = place_of(a, e);
    const bool there = RULE == 4 || (i64)p.at - (i64)p.outer == a.diagonal;
    return there ? *(const ELEMENT *)&a.value : ELEMENT();
}
#endif

extern "C" __global__ void __launch_bounds__(256) placed(const __grid_constant__ arguments a)
{
    const int many = 4;
    const u64 step = all_threads();
    u64 e = first_index();
    for (; e + (many - 1) * step < a.all; e += many * step) {
        ELEMENT v[many];
#pragma unroll
        for (int i = 0; i < many; i++)
            v[i] = value_at(a, (index)(e + i * step));
#pragma unroll
        for (int i = 0; i < many; i++)
            a.y[e + i * step] = v[i];
    }
    for (; e < a.all; e += step)
        a.y[e] = value_at(a, (index)e);
}
