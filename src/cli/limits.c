/* limits.c -- what this machine can do at most: rates of multiply-adds, bandwidth of memory and cache.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/limits.h"

#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TRIALS = 5, CHAINS = 12, LEVEL_AVX2 = 1, LEVEL_AVX512 = 2, LEVEL_AMX = 3 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- Loops ------------------------------------------------------------------------------------ */

/* CHAINS independent chains hide an instruction's latency. STEP(x) is the instruction. */
#define CHAIN_LOOP(V, SET, STEP)                                                                   \
    V x[CHAINS];                                                                                   \
    float part, sum = 0;                                                                           \
    for (int i = 0; i < CHAINS; i++)                                                               \
        x[i] = SET(i);                                                                             \
    for (long n = 0; n < rounds; n++) {                                                            \
        _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) x[i] = STEP(x[i]);               \
    }                                                                                              \
    for (int i = 0; i < CHAINS; i++) {                                                             \
        memcpy(&part, &x[i], sizeof part);                                                         \
        sum += part;                                                                               \
    }                                                                                              \
    return sum

/* The multiplier keeps values near 1. */
#define NEAR_ONE 0.999999f
#define SMALL    1e-6f

#define SET_512(i)  _mm512_set1_ps((float)(i))
#define STEP_512(x) _mm512_fmadd_ps(x, m, a)
__attribute__((target("avx512f"))) static float f32_512(long rounds)
{
    __m512 m = _mm512_set1_ps(NEAR_ONE), a = _mm512_set1_ps(SMALL);
    CHAIN_LOOP(__m512, SET_512, STEP_512);
}

#define SET_256(i)  _mm256_set1_ps((float)(i))
#define STEP_256(x) _mm256_fmadd_ps(x, m, a)
__attribute__((target("avx2,fma"))) static float f32_256(long rounds)
{
    __m256 m = _mm256_set1_ps(NEAR_ONE), a = _mm256_set1_ps(SMALL);
    CHAIN_LOOP(__m256, SET_256, STEP_256);
}

#define SET_128(i)  _mm_set1_ps((float)(i))
#define STEP_128(x) _mm_add_ps(_mm_mul_ps(x, m), a)
static float f32_128(long rounds)
{
    __m128 m = _mm_set1_ps(NEAR_ONE), a = _mm_set1_ps(SMALL);
    CHAIN_LOOP(__m128, SET_128, STEP_128);
}

#define STEP_BF16(x) _mm512_dpbf16_ps(x, m, m)
__attribute__((target("avx512f,avx512bf16"))) static float bf16_512(long rounds)
{
    __m512bh m;
    memset(&m, 0, sizeof m);
    __asm__("" : "+v"(m));
    CHAIN_LOOP(__m512, SET_512, STEP_BF16);
}

#define SET_INT8(i)  _mm512_set1_epi32(i)
#define STEP_INT8(x) _mm512_dpbusd_epi32(x, m, m)
__attribute__((target("avx512f,avx512vnni"))) static float int8_512(long rounds)
{
    __m512i m = _mm512_setzero_si512();
    __asm__("" : "+v"(m));
    CHAIN_LOOP(__m512i, SET_INT8, STEP_INT8);
}

/* Four tiles of sums of 16 by 16; the operands are 16 rows of 64 bytes. */
__attribute__((target("amx-tile"))) static void tiles_begin(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } t = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        t.bytes[i] = 64;
        t.rows[i] = 16;
    }
    __asm__ volatile("" ::"r"(&t) : "memory");
    _tile_loadconfig(&t);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
}

__attribute__((target("amx-tile,amx-bf16"))) static float bf16_tiles(long rounds)
{
    tiles_begin();
    for (long n = 0; n < rounds; n++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    _tile_release();
    return 0;
}

__attribute__((target("amx-tile,amx-int8"))) static float int8_tiles(long rounds)
{
    tiles_begin();
    for (long n = 0; n < rounds; n++) {
        _tile_dpbssd(0, 4, 5);
        _tile_dpbssd(1, 4, 5);
        _tile_dpbssd(2, 4, 5);
        _tile_dpbssd(3, 4, 5);
    }
    _tile_release();
    return 0;
}

/* ---- Trials ----------------------------------------------------------------------------------- */

typedef float (*loop_fn)(long rounds);

/* Threads begin when all are there, or leave at once when one could not be made. */
typedef struct {
    pthread_mutex_t lock; /* held until that is known */
    bool failed;
    pthread_barrier_t barrier;
} gate;

static bool pass(gate *g)
{
    pthread_mutex_lock(&g->lock);
    bool failed = g->failed;
    pthread_mutex_unlock(&g->lock);
    return !failed;
}

typedef struct {
    gate *gate;
    loop_fn loop;
    long rounds;
    char *memory;
    size_t bytes;
    int passes; /* over the memory, in one trial */
    double seconds[TRIALS];
    volatile double sink;
} worker;

static void *compute(void *arg)
{
    worker *w = arg;
    for (int t = 0; pass(w->gate) && t < TRIALS; t++) {
        pthread_barrier_wait(&w->gate->barrier);
        double start = now();
        w->sink = w->sink + w->loop(w->rounds);
        w->seconds[t] = now() - start;
    }
    return NULL;
}

/* Several streams, as the prefetchers of today like it; combining words is never the limit. */
static int read_all(const char *memory, size_t bytes)
{
    enum { STREAMS = 4 };
    size_t part = bytes / STREAMS / 64 * 64;
    __m128i s[STREAMS] = {{0}};
    for (size_t i = 0; i < part; i += 64)
        for (int k = 0; k < STREAMS; k++) {
            const __m128i *p = (const __m128i *)(memory + (size_t)k * part + i);
            __m128i v = _mm_or_si128(_mm_or_si128(p[0], p[1]), _mm_or_si128(p[2], p[3]));
            s[k] = _mm_or_si128(s[k], v);
        }
    __m128i all = _mm_or_si128(_mm_or_si128(s[0], s[1]), _mm_or_si128(s[2], s[3]));
    return _mm_cvtsi128_si32(all);
}

static void *read_memory(void *arg)
{
    worker *w = arg;
    memset(w->memory, 1, w->bytes);
    for (int t = 0; pass(w->gate) && t < TRIALS; t++) {
        pthread_barrier_wait(&w->gate->barrier);
        double start = now();
        for (int p = 0; p < w->passes; p++)
            w->sink = w->sink + read_all(w->memory, w->bytes);
        w->seconds[t] = now() - start;
    }
    return NULL;
}

/* The best trial: all work over the slowest thread's time. 0: threads could not be made. */
static double best(worker *w, int n, void *(*fn)(void *), double work_each)
{
    pthread_t id[CM_LIMITS_MOST_THREADS];
    gate g = {.lock = PTHREAD_MUTEX_INITIALIZER};
    double rate = 0;
    int started = 0;
    pthread_barrier_init(&g.barrier, NULL, (unsigned)n);
    pthread_mutex_lock(&g.lock);
    for (; started < n; started++) {
        w[started].gate = &g;
        if (pthread_create(&id[started], NULL, fn, &w[started]) != 0)
            break;
    }
    g.failed = started < n;
    pthread_mutex_unlock(&g.lock);
    for (int i = 0; i < started; i++)
        pthread_join(id[i], NULL);
    for (int t = 0; t < TRIALS && started == n; t++) {
        double slowest = 0;
        for (int i = 0; i < n; i++)
            slowest = w[i].seconds[t] > slowest ? w[i].seconds[t] : slowest;
        rate = work_each * n / slowest > rate ? work_each * n / slowest : rate;
    }
    pthread_barrier_destroy(&g.barrier);
    return rate;
}

static double compute_rate(worker *w, int n, loop_fn loop, double ops_each_round)
{
    const double about = 100e6; /* instructions' worth, some milliseconds */
    long rounds = (long)(about / CHAINS / 8);
    for (int i = 0; i < n; i++) {
        w[i].loop = loop;
        w[i].rounds = rounds;
    }
    return best(w, n, compute, ops_each_round * (double)rounds);
}

static double read_rate(worker *w, int n, size_t bytes, int passes)
{
    double rate = 0;
    bool all = true;
    for (int i = 0; i < n; i++) {
        w[i].memory = aligned_alloc(64, bytes);
        w[i].bytes = bytes;
        w[i].passes = passes;
        all = all && w[i].memory;
    }
    if (all)
        rate = best(w, n, read_memory, (double)bytes * passes);
    for (int i = 0; i < n; i++)
        free(w[i].memory);
    return rate;
}

static void measure_compute(worker *w, int n, int level, cm_limits *out)
{
    out->f32_ops = level >= LEVEL_AVX512 ? compute_rate(w, n, f32_512, 2.0 * CHAINS * 16)
                   : level >= LEVEL_AVX2 ? compute_rate(w, n, f32_256, 2.0 * CHAINS * 8)
                                         : compute_rate(w, n, f32_128, 2.0 * CHAINS * 4);
    if (level >= LEVEL_AMX) { /* a tile instruction takes as long as a dozen others */
        out->bf16_ops = compute_rate(w, n, bf16_tiles, 2.0 * 4 * 16 * 16 * 32);
        out->int8_ops = compute_rate(w, n, int8_tiles, 2.0 * 4 * 16 * 16 * 64);
        return;
    }
    if (level >= LEVEL_AVX512 && __builtin_cpu_supports("avx512bf16"))
        out->bf16_ops = compute_rate(w, n, bf16_512, 2.0 * CHAINS * 32);
    if (level >= LEVEL_AVX512 && __builtin_cpu_supports("avx512vnni"))
        out->int8_ops = compute_rate(w, n, int8_512, 2.0 * CHAINS * 64);
}

/* A trial reads about 32 MB, so that it is long beside what a clock tells apart. */
static double cache_rate(worker *w, int n, size_t bytes)
{
    const size_t about = (size_t)32 << 20;
    bytes = bytes / 256 * 256;
    return read_rate(w, n, bytes, bytes < about ? (int)(about / bytes) + 1 : 1);
}

/* What each thread reads so that caches are of no use: four times their size in all, within reason. */
static size_t far_bytes(int threads, size_t shared)
{
    const size_t mb = (size_t)1 << 20;
    size_t each = shared ? 4 * shared / (size_t)threads / 256 * 256 : 192 * mb;
    size_t most = threads > 8 ? 64 * mb : 192 * mb;
    return each > most ? most : each < 32 * mb ? 32 * mb : each;
}

bool cm_limits_measure(int threads, int level, size_t near, size_t shared, cm_limits *out)
{
    *out = (cm_limits){.threads = threads};
    if (threads < 1 || threads > CM_LIMITS_MOST_THREADS)
        return false;
    worker *w = calloc((size_t)threads, sizeof *w);
    if (!w)
        return false;
    near = near ? near : (size_t)512 << 10;
    measure_compute(w, threads, level, out);
    out->near_bytes = cache_rate(w, threads, near / 2);
    if (shared / (size_t)threads > 2 * near)
        out->shared_bytes = cache_rate(w, threads, shared / (size_t)threads / 2);
    out->dram_bytes = read_rate(w, threads, far_bytes(threads, shared), 1);
    free(w);
    return out->f32_ops > 0 && out->near_bytes > 0 && out->dram_bytes > 0;
}
