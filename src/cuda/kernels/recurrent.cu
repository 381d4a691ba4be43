// recurrent.cu -- RNN, GRU and LSTM: the inputs' products for many steps at once, then a kernel for each step.
// SPDX-License-Identifier: Apache-2.0
//
// Specialised by ELEMENT (elements), KIND, LINEAR_BEFORE_RESET, INPUT_FORGET, PEEPHOLES, ROWS (of the batch that a warp takes at
// once), GATE_0(x), GATE_1(x), GATE_2(x) (functions, in the operator's order). States are float32. Gate g of hidden unit j is column
// g * hidden + j.
#include "common.cuh"

#define RNN 0
#define GRU 1
#define LSTM 2
#define GATES (KIND == RNN ? 1 : KIND == GRU ? 3 : 4)
#define THREADS 256
#define TILE 64
#define DEPTH 16

struct recurrent_args { // as cuda/recurrent.c has it
    const void *x, *w, *r, *b, *h0, *c0, *p;
    const int *lens;
    void *y, *y_h, *y_c;
    float *gates;                  // [direction][step of the chunk][row][column]
    float *h[2], *c, *reset, *keep; // [direction][row][hidden]; `keep`: a GRU's update gate
    u32 *fault;
    i64 x_step, x_row, y_step, y_direction, y_row;
    i64 h0_direction, h0_row, c0_direction, c0_row;
    i64 h_direction, h_row, c_direction, c_row; // of the final states
    int steps, batch, input, hidden, directions, reverse;
    u32 fault_code;
    float clip;
};
// Steps [from[d], from[d] + n) of direction d are in `gates`.
struct chunk {
    int from[2], n;
};

// A gate's function, by cm_gate_function; parameters as bits.
enum { SIGMOID, TANH, RELU, LEAKY_RELU, HARD_SIGMOID, SOFTSIGN };
template <int F> DEVICE float gate_value(float x, u32 alpha_bits, u32 beta_bits)
{
    const float alpha = __uint_as_float(alpha_bits), beta = __uint_as_float(beta_bits);
    if (F == SIGMOID)
        return 1.0f / (1.0f + expf(-x));
    if (F == TANH)
        return tanhf(x);
    if (F == RELU)
        return x < 0.0f ? 0.0f : x;
    if (F == LEAKY_RELU)
        return x < 0.0f ? alpha * x : x;
    if (F == SOFTSIGN)
        return x / (1.0f + fabsf(x));
    const float y = alpha * x + beta;
    return y < 0.0f ? 0.0f : y > 1.0f ? 1.0f : y;
}

// NaN stays.
DEVICE float within(const recurrent_args &a, float x)
{
    return a.clip > 0 ? (x > a.clip ? a.clip : x < -a.clip ? -a.clip : x) : x;
}

DEVICE bool is_backward(const recurrent_args &a, int d) { return d == 1 || a.reverse; }

DEVICE int length_of(const recurrent_args &a, int row)
{
    if (!a.lens)
        return a.steps;
    int n = a.lens[row];
    if (n >= 0 && n <= a.steps)
        return n;
    atomicCAS(a.fault, 0u, a.fault_code);
    return 0;
}

// ---- Inputs ------------------------------------------------------------------------------------

// What both biases give column c; a GRU's for the state stands inside its reset gate where that is asked for.
DEVICE float bias_of(const recurrent_args &a, int d, int c)
{
    int columns = GATES * a.hidden;
    if (!a.b)
        return 0;
    const ELEMENT *b = (const ELEMENT *)a.b + (i64)d * 2 * columns;
    bool inside = KIND == GRU && LINEAR_BEFORE_RESET && c >= 2 * a.hidden;
    return to_float(b[c]) + (inside ? 0.0f : to_float(b[columns + c]));
}

// Rows of x (a step and a row of the batch) times columns of w: 64 x 64 results to a block, 4 x 4 to a thread.
extern "C" __global__ void __launch_bounds__(THREADS)
    inputs(const __grid_constant__ recurrent_args a, const chunk k)
{
    __shared__ float left[DEPTH][TILE + 4], right[DEPTH][TILE + 4];
    int columns = GATES * a.hidden, rows = k.n * a.batch, d = blockIdx.z;
    int row0 = blockIdx.x * TILE, col0 = blockIdx.y * TILE, x = threadIdx.x % 16, y = threadIdx.x / 16;
    const ELEMENT *w = (const ELEMENT *)a.w + (i64)d * columns * a.input;
    float sum[4][4] = {};
    for (int first = 0; first < a.input; first += DEPTH) {
        for (int i = threadIdx.x; i < TILE * DEPTH; i += THREADS) {
            int at = i / DEPTH, depth = first + i % DEPTH, row = row0 + at, col = col0 + at;
            bool inside = depth < a.input;
            i64 from = (k.from[d] + row / a.batch) * a.x_step + row % a.batch * a.x_row + depth;
            left[i % DEPTH][at] = inside && row < rows ? to_float(((const ELEMENT *)a.x)[from]) : 0.0f;
            right[i % DEPTH][at] =
                inside && col < columns ? to_float(w[(i64)col * a.input + depth]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int l = 0; l < DEPTH; l++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sum[i][j] += left[l][y * 4 + i] * right[l][x * 4 + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int row = row0 + y * 4 + i, col = col0 + x * 4 + j;
            if (row < rows && col < columns)
                a.gates[((i64)d * rows + row) * columns + col] = sum[i][j] + bias_of(a, d, col);
        }
}

// ---- States ------------------------------------------------------------------------------------

DEVICE i64 state_at(const recurrent_args &a, int d, int row, int j)
{
    return ((i64)d * a.batch + row) * a.hidden + j;
}

extern "C" __global__ void begin(const __grid_constant__ recurrent_args a)
{
    i64 n = (i64)a.directions * a.batch * a.hidden;
    for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (i64)gridDim.x * THREADS) {
        int j = (int)(i % a.hidden), row = (int)(i / a.hidden % a.batch),
            d = (int)(i / a.hidden / a.batch);
        a.h[0][i] =
            a.h0 ? to_float(((const ELEMENT *)a.h0)[d * a.h0_direction + row * a.h0_row + j]) : 0.0f;
        if (KIND == LSTM)
            a.c[i] =
                a.c0 ? to_float(((const ELEMENT *)a.c0)[d * a.c0_direction + row * a.c0_row + j]) : 0.0f;
    }
}

extern "C" __global__ void end(const __grid_constant__ recurrent_args a)
{
    i64 n = (i64)a.directions * a.batch * a.hidden;
    const float *h = a.h[a.steps % 2];
    for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (i64)gridDim.x * THREADS) {
        int j = (int)(i % a.hidden), row = (int)(i / a.hidden % a.batch),
            d = (int)(i / a.hidden / a.batch);
        bool none = length_of(a, row) == 0;
        if (a.y_h)
            ((ELEMENT *)a.y_h)[d * a.h_direction + row * a.h_row + j] = from_float<ELEMENT>(none ? 0.0f : h[i]);
        if (KIND == LSTM && a.y_c)
            ((ELEMENT *)a.y_c)[d * a.c_direction + row * a.c_row + j] =
                from_float<ELEMENT>(none ? 0.0f : a.c[i]);
    }
}

// A warp's share of a step: ROWS rows of the batch of one hidden unit.
struct share {
    int d, j, row;
    bool there;
};

DEVICE share share_of(const recurrent_args &a)
{
    int parts = (a.batch + ROWS - 1) / ROWS;
    i64 i = ((i64)blockIdx.x * THREADS + threadIdx.x) / 32;
    share s;
    s.j = (int)(i % a.hidden);
    s.row = (int)(i / a.hidden % parts) * ROWS;
    s.d = (int)(i / a.hidden / parts);
    s.there = s.d < a.directions;
    return s;
}

// Columns first, first + 1, ... of N gates times the rows' states; lane i gets those of row i.
template <int N>
DEVICE void multiply(const recurrent_args &a, const share &s, const float *state, int first,
                     float (&out)[N])
{
    int lane = threadIdx.x % 32;
    const ELEMENT *r = (const ELEMENT *)a.r + ((i64)s.d * GATES + first) * a.hidden * a.hidden;
    float sum[N][ROWS];
    for (int g = 0; g < N; g++)
        for (int i = 0; i < ROWS; i++)
            sum[g][i] = 0;
    for (int k = lane; k < a.hidden; k += 32) {
        float weight[N];
#pragma unroll
        for (int g = 0; g < N; g++)
            weight[g] = to_float(r[((i64)g * a.hidden + s.j) * a.hidden + k]);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            float h = s.row + i < a.batch ? state[state_at(a, s.d, s.row + i, k)] : 0.0f;
#pragma unroll
            for (int g = 0; g < N; g++)
                sum[g][i] += weight[g] * h;
        }
    }
#pragma unroll
    for (int g = 0; g < N; g++)
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            for (int o = 16; o > 0; o /= 2)
                sum[g][i] += __shfl_xor_sync(~0u, sum[g][i], o);
            if (lane == i)
                out[g] = sum[g][i];
        }
}

// Lane i's row at a step: where it is in time, and its gates from the inputs.
struct moment {
    int row, t;
    bool there, goes_on; // there is such a row; its sequence has not ended
    const float *gates;
    i64 state;
};

DEVICE moment moment_of(const recurrent_args &a, const chunk &k, const share &s, int step)
{
    moment m;
    int lane = threadIdx.x % 32;
    m.row = s.row + lane;
    m.there = lane < ROWS && m.row < a.batch;
    int len = m.there ? length_of(a, m.row) : 0;
    m.goes_on = step < len;
    m.t = m.goes_on && is_backward(a, s.d) ? len - 1 - step : step;
    i64 at = ((i64)s.d * k.n + (m.t - k.from[s.d])) * a.batch + m.row;
    m.gates = a.gates + at * GATES * a.hidden + s.j;
    m.state = state_at(a, s.d, m.row, s.j);
    return m;
}

DEVICE float gate(const recurrent_args &a, const moment &m, int g) { return m.gates[(i64)g * a.hidden]; }

DEVICE void put(const recurrent_args &a, const share &s, const moment &m, int step, float h)
{
    a.h[(step + 1) % 2][m.state] = h;
    if (a.y)
        ((ELEMENT *)a.y)[m.t * a.y_step + s.d * a.y_direction + m.row * a.y_row + s.j] =
            from_float<ELEMENT>(m.goes_on ? h : 0.0f);
}

#if KIND == GRU && !LINEAR_BEFORE_RESET
// Update and reset gates of a step; the second multiplies the state.
extern "C" __global__ void __launch_bounds__(THREADS)
    reset(const __grid_constant__ recurrent_args a, const chunk k, int step)
{
    share s = share_of(a);
    if (!s.there)
        return;
    const float *h = a.h[step % 2];
    float r[2];
    multiply<2>(a, s, h, 0, r);
    moment m = moment_of(a, k, s, step);
    if (!m.there || !m.goes_on)
        return;
    a.keep[m.state] = GATE_0(within(a, gate(a, m, 0) + r[0]));
    a.reset[m.state] = GATE_0(within(a, gate(a, m, 1) + r[1])) * h[m.state];
}
#endif

// The new state of one unit.
#if KIND == RNN
DEVICE float advance(const recurrent_args &a, const share &s, const moment &m, const float *r, float h)
{
    return GATE_0(within(a, gate(a, m, 0) + r[0]));
}
#elif KIND == LSTM
// What gate g (input, output, forget) sees of the cell.
DEVICE float peep(const recurrent_args &a, const share &s, int g, float c)
{
    return PEEPHOLES ? to_float(((const ELEMENT *)a.p)[((i64)s.d * 3 + g) * a.hidden + s.j]) * c : 0.0f;
}
DEVICE float advance(const recurrent_args &a, const share &s, const moment &m, const float *r, float h)
{
    const float was = a.c[m.state];
    float in = GATE_0(within(a, gate(a, m, 0) + r[0] + peep(a, s, 0, was)));
    float forget = INPUT_FORGET ? 1.0f - in : GATE_0(within(a, gate(a, m, 2) + r[2] + peep(a, s, 2, was)));
    float cell = GATE_1(within(a, gate(a, m, 3) + r[3]));
    float c = forget * was + in * cell;
    float out = GATE_0(within(a, gate(a, m, 1) + r[1] + peep(a, s, 1, c)));
    a.c[m.state] = c;
    return out * GATE_2(c);
}
#elif LINEAR_BEFORE_RESET
DEVICE float advance(const recurrent_args &a, const share &s, const moment &m, const float *r, float h)
{
    int columns = GATES * a.hidden;
    float inner = r[2];
    if (a.b)
        inner += to_float(((const ELEMENT *)a.b)[((i64)s.d * 2 + 1) * columns + 2 * a.hidden + s.j]);
    float keep = GATE_0(within(a, gate(a, m, 0) + r[0]));
    float reset = GATE_0(within(a, gate(a, m, 1) + r[1]));
    float now = GATE_1(within(a, gate(a, m, 2) + reset * inner));
    return keep * (h - now) + now;
}
#else
DEVICE float advance(const recurrent_args &a, const share &s, const moment &m, const float *r, float h)
{
    float now = GATE_1(within(a, gate(a, m, 2) + r[0]));
    return a.keep[m.state] * (h - now) + now;
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    advance_all(const __grid_constant__ recurrent_args a, const chunk k, int step)
{
    share s = share_of(a);
    if (!s.there)
        return;
    const float *h = a.h[step % 2];
#if KIND == GRU && !LINEAR_BEFORE_RESET
    float r[1];
    multiply<1>(a, s, a.reset, 2, r);
#else
    float r[GATES];
    multiply<GATES>(a, s, h, 0, r);
#endif
    moment m = moment_of(a, k, s, step);
    if (m.there)
        put(a, s, m, step, m.goes_on ? advance(a, s, m, r, h[m.state]) : h[m.state]);
}
