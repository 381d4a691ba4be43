// rows_vectors.cuh -- a row of softmax and normalisations by vectors: where it lies, elements in and out, what is done to one when
// the row's statistics are known; and a row in doubles, where float32 cannot hold these.
// SPDX-License-Identifier: Apache-2.0
//
// Follows rows.cuh. THREADS threads of CLUSTER blocks share a row. VECTORS: every row begins at 16 bytes and has whole vectors; else
// thread t has elements t, t + TEAM, ... FULL: all threads have as many vectors of every row. SHORT: rows have less than 2^30 elements.
// WHOLE_CHANNELS: those of a group are of whole vectors.
#pragma once

#define TEAM (THREADS * CLUSTER)

// What counts elements of a row.
#if SHORT
typedef int column;
#else
typedef i64 column;
#endif

struct row_places {
    i64 row, x, y, skip, third, sum;
    column channel; // GROUP_NORM: the first
    operand_places operands;
};

#ifdef EMBED
DEVICE i64 id_at(const void *ids, int wide, i64 i)
{
    return wide ? ((const i64 *)ids)[i] : ((const int *)ids)[i];
}

DEVICE i64 table_row(const rows_args &a, int table, i64 id)
{
    i64 n = a.table_rows[table];
    if (id < -n || id >= n) {
        atomicCAS(a.fault, 0u, a.fault_code);
        id = 0;
    }
    return (id < 0 ? id + n : id) * a.cols;
}
#endif

DEVICE void find_row(const rows_args &a, i64 row, row_places &p)
{
    p.row = row;
    p.y = place_of(a, a.at_y, row);
#ifdef EMBED
    i64 place = row % a.skip_rows;
    p.x = table_row(a, 0, id_at(a.ids, a.wide_ids[0], row));
    p.skip =
        table_row(a, 1, a.place_ids ? id_at(a.place_ids, a.wide_ids[1], place) : place);
#ifdef THIRDT
    p.third = table_row(a, 2, id_at(a.segment_ids, a.wide_ids[2], row));
#endif
#else
    p.x = place_of(a, a.at_x, row);
#ifdef SKIPT
    p.skip = (row < a.skip_rows ? row : row % a.skip_rows) * a.cols;
#endif
    p.third = 0;
#endif
#ifdef SUMT
    p.sum = place_of(a, a.at_sum, row);
#endif
#if KIND == GROUP_NORM
    p.channel = (column)((u32)row % (u32)a.groups * ((u32)a.channels / (u32)a.groups)); // rows fill groups of images
#endif
    find_operands(a, row, p.operands);
}

// Element c of a row, with what is added to it.
DEVICE float element(const rows_args &a, const row_places &p, column c)
{
    float v = to_float(((const XT *)a.x)[p.x + c * a.at_x.col]);
#ifdef SKIPT
    v += to_float(((const SKIPT *)a.skip)[p.skip + c]);
#endif
#ifdef THIRDT
    v += to_float(((const THIRDT *)a.third)[p.third + c]);
#endif
    return v;
}

// Which elements: number i of vector j of this thread.
DEVICE column index_of(int t, int j, int i)
{
    return VECTORS ? (column)(j * TEAM + t) * VECTOR + i : (column)(j * VECTOR + i) * TEAM + t;
}

// Is it there? All of a vector are, or none.
DEVICE bool inside(const rows_args &a, int t, int j, int i)
{
    return FULL || index_of(t, j, VECTORS ? 0 : i) < (column)a.cols;
}

template <class T> DEVICE void get_vector(const void *from, i64 at, float *v)
{
    vec<T, VECTOR> x = *(const vec<T, VECTOR> *)((const T *)from + at);
    for (int i = 0; i < VECTOR; i++)
        v[i] = to_float(x.v[i]);
}
template <class T> DEVICE void add_vector(const void *from, i64 at, float *v)
{
    vec<T, VECTOR> x = *(const vec<T, VECTOR> *)((const T *)from + at);
    for (int i = 0; i < VECTOR; i++)
        v[i] += to_float(x.v[i]);
}

// Vector j of this thread; `absent` behind the row's end.
#if VECTORS
DEVICE void load(const rows_args &a, const row_places &p, int t, int j, float absent, float *v)
{
    column first = index_of(t, j, 0);
    for (int i = 0; i < VECTOR; i++)
        v[i] = absent;
    if (!inside(a, t, j, 0))
        return;
    get_vector<XT>(a.x, p.x + first, v);
#ifdef SKIPT
    add_vector<SKIPT>(a.skip, p.skip + first, v);
#endif
#ifdef THIRDT
    add_vector<THIRDT>(a.third, p.third + first, v);
#endif
}

template <class T> DEVICE void put_vector(void *to, i64 at, const float *v)
{
    vec<T, VECTOR> x;
    for (int i = 0; i < VECTOR; i++)
        x.v[i] = from_float<T>(v[i]);
    *(vec<T, VECTOR> *)((T *)to + at) = x;
}

// Results of vector j.
DEVICE void store(const rows_args &a, const row_places &p, int t, int j, const float *v)
{
    if (inside(a, t, j, 0))
        put_vector<YT>(a.y, p.y + index_of(t, j, 0), v);
}
#else
DEVICE void load(const rows_args &a, const row_places &p, int t, int j, float absent, float *v)
{
    for (int i = 0; i < VECTOR; i++)
        v[i] = inside(a, t, j, i) ? element(a, p, index_of(t, j, i)) : absent;
}

DEVICE void store(const rows_args &a, const row_places &p, int t, int j, const float *v)
{
    for (int i = 0; i < VECTOR; i++)
        if (inside(a, t, j, i))
            ((YT *)a.y)[p.y + index_of(t, j, i) * a.at_y.col] = from_float<YT>(v[i]);
}
#endif

// What was added up, where it is wanted.
DEVICE void store_sum(const rows_args &a, const row_places &p, int t, int j, const float *v)
{
#if defined SUMT && VECTORS
    if (inside(a, t, j, 0))
        put_vector<SUMT>(a.sum, p.sum + index_of(t, j, 0), v);
#elif defined SUMT
    for (int i = 0; i < VECTOR; i++)
        if (inside(a, t, j, i))
            ((SUMT *)a.sum)[p.sum + index_of(t, j, i) * a.at_sum.col] = from_float<SUMT>(v[i]);
#endif
}

#if KIND == SOFTMAX || KIND == LOG_SOFTMAX

DEVICE void soft_vector(const rows_args &a, const row_places &p, int t, int j, float most,
                        float factor, float *v)
{
    for (int i = 0; i < VECTOR; i++) {
        column c = index_of(t, j, i);
#if KIND == SOFTMAX
        v[i] = v[i] * factor;
#else
        v[i] = v[i] - most - factor;
#endif
        if (inside(a, t, j, i))
            v[i] = finish(a, p.operands, c, 0, v[i]);
    }
    store(a, p, t, j, v);
}

#else // normalisations

// Channel and position of element c; what scale and bias run over is the channel.
DEVICE void find_channel(const rows_args &a, const row_places &p, column c, column &channel,
                         column &position)
{
    channel = c;
    position = 0;
#if KIND == GROUP_NORM
    const u32 of_group = over_space(a, (u32)c);
    channel = p.channel + of_group;
    position = (column)((u32)c - of_group * (u32)a.space);
#endif
}

// Scales and biases of a thread's vector, as they are read: where they are few, before the first row if they are CONSTANT or else
// with each row; where they are many, when they are wanted.
#define AS_VECTOR(step) (VECTORS && step && KIND != GROUP_NORM)
struct factors {
#if defined SCALET && AS_VECTOR(SCALE_STEP)
    vec<SCALET, VECTOR> scale;
#endif
#if defined BIAST && AS_VECTOR(BIAS_STEP)
    vec<BIAST, VECTOR> bias;
#endif
};

DEVICE void load_factors(const rows_args &a, int t, int j, factors &f)
{
    if (!inside(a, t, j, 0))
        return;
#if defined SCALET && AS_VECTOR(SCALE_STEP)
    f.scale = *(const vec<SCALET, VECTOR> *)((const SCALET *)a.scale + index_of(t, j, 0));
#endif
#if defined BIAST && AS_VECTOR(BIAS_STEP)
    f.bias = *(const vec<BIAST, VECTOR> *)((const BIAST *)a.bias + index_of(t, j, 0));
#endif
}

// Element i of a vector, scaled and biased.
DEVICE float scaled(const rows_args &a, const factors &f, column channel, int i, float v)
{
#if defined SCALET && AS_VECTOR(SCALE_STEP)
    v *= to_float(f.scale.v[i]);
#else
    v *= scale_of(a, channel);
#endif
#if defined BIAST && AS_VECTOR(BIAS_STEP)
    return v + to_float(f.bias.v[i]);
#else
    return v + bias_of(a, channel);
#endif
}

// v = (v - shift) * factor, scaled and biased, and what follows.
#if KIND == GROUP_NORM && VECTORS
DEVICE void normalise(const rows_args &a, const row_places &p, int t, int j, float shift,
                      float factor, const factors &f, float *v)
{
    column channel, position;
    if (!inside(a, t, j, 0))
        return;
    find_channel(a, p, index_of(t, j, 0), channel, position);
    float scale = scale_of(a, channel) * factor, bias = bias_of(a, channel);
    for (int i = 0; i < VECTOR; i++) {
        v[i] = finish(a, p.operands, channel, position, (v[i] - shift) * scale + bias);
        position++;
        if (!WHOLE_CHANNELS && position == (column)a.space && i + 1 < VECTOR) {
            position = 0;
            channel++;
            scale = scale_of(a, channel) * factor;
            bias = bias_of(a, channel);
        }
    }
    store(a, p, t, j, v);
}
#else
DEVICE void normalise(const rows_args &a, const row_places &p, int t, int j, float shift,
                      float factor, const factors &f, float *v)
{
    for (int i = 0; i < VECTOR; i++) {
        column channel, position;
        if (!inside(a, t, j, i))
            continue;
        find_channel(a, p, index_of(t, j, i), channel, position);
        v[i] = finish(a, p.operands, channel, position,
                      scaled(a, f, channel, i, (v[i] - shift) * factor));
    }
    store(a, p, t, j, v);
}
#endif

DEVICE void store_stats(const rows_args &a, i64 row, int t, double mean, double inv)
{
    if (t != 0)
        return;
#ifdef MEANT
    ((MEANT *)a.mean)[row] = from_float<MEANT>((float)mean);
#endif
#ifdef INVT
    ((INVT *)a.inv)[row] = from_float<INVT>((float)inv);
#endif
}

// In doubles, an element at a time.
static __device__ __noinline__ void do_row_in_double(const rows_args &a, i64 row, int t, bool there)
{
    int turn = 0;
    row_places p;
    find_row(a, row, p);
#if CLUSTER > 1
    cluster_barrier(); // the caller's sums are read before these begin
#elif THREADS > 32
    __syncthreads();
#endif
    double mean = 0, sum = 0;
    column cols = there ? (column)a.cols : 0;
#if CENTERED
    for (column c = t; c < cols; c += TEAM)
        mean += element(a, p, c);
    mean = over_row<plus>(mean, turn) / (double)a.cols;
#endif
    for (column c = t; c < cols; c += TEAM)
        sum += term<double>(element(a, p, c) - mean);
    double by = deviation_of<double>(a, over_row<plus>(sum, turn));
    for (column c = t; c < cols; c += TEAM) {
        column channel, position;
        find_channel(a, p, c, channel, position);
        double v = IS_NORM && by == 0 ? 0 : (element(a, p, c) - mean) / by;
        ((YT *)a.y)[p.y + c * a.at_y.col] = from_float<YT>(
            finish(a, p.operands, channel, position, (float)(v * scale_of(a, channel) + bias_of(a, channel))));
    }
    if (there)
        store_stats(a, p.row, t, mean, 1 / by);
}
#endif
