/* limits.c -- what this machine can do at most: FMA rate and DRAM read bandwidth, by threads.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Usage: limits THREADS [avx2|avx512|generic]. Prints one JSON object. The best of several short
 * trials: the limit is what the machine reaches when nobody disturbs it. */
#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_THREADS = 256, TRIALS = 5, CHAINS = 12 };

typedef struct {
    pthread_barrier_t *barrier;
    int isa; /* 0: SSE, 1: AVX2, 2: AVX-512 */
    double seconds[TRIALS];
    double work; /* operations or bytes in one trial */
    char *memory;
    size_t bytes;
    double sink;
} worker;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* CHAINS independent chains hide an FMA's latency. The multiplier keeps values near 1. */
#define FMA_LOOP(V, SET, FMA, ADD, LANES)                                                          \
    V x[CHAINS], m = SET(0.999999f), a = SET(1e-6f);                                               \
    for (int i = 0; i < CHAINS; i++)                                                               \
        x[i] = SET((float)i);                                                                      \
    for (long n = 0; n < rounds; n++) {                                                            \
        _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) x[i] = FMA(x[i], m, a);          \
    }                                                                                              \
    V s = x[0];                                                                                    \
    for (int i = 1; i < CHAINS; i++)                                                               \
        s = ADD(s, x[i]);                                                                          \
    float out[LANES];                                                                              \
    memcpy(out, &s, sizeof out);                                                                   \
    return out[0] + out[LANES - 1]

__attribute__((target("avx512f"), optimize("O3"))) static float fma_512(long rounds)
{
    FMA_LOOP(__m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, 16);
}

__attribute__((target("avx2,fma"), optimize("O3"))) static float fma_256(long rounds)
{
    FMA_LOOP(__m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, 8);
}

#define MUL_ADD(x, m, a) _mm_add_ps(_mm_mul_ps(x, m), a)
__attribute__((optimize("O3"))) static float fma_128(long rounds)
{
    FMA_LOOP(__m128, _mm_set1_ps, MUL_ADD, _mm_add_ps, 4);
}

static void *compute(void *arg)
{
    worker *w = arg;
    const long rounds = 1000000;
    w->work = 2.0 * CHAINS * (w->isa == 2 ? 16 : w->isa == 1 ? 8 : 4) * (double)rounds;
    for (int t = 0; t < TRIALS; t++) {
        pthread_barrier_wait(w->barrier);
        double start = now();
        w->sink += w->isa == 2 ? fma_512(rounds) : w->isa == 1 ? fma_256(rounds) : fma_128(rounds);
        w->seconds[t] = now() - start;
    }
    return NULL;
}

static void *read_memory(void *arg)
{
    worker *w = arg;
    memset(w->memory, 1, w->bytes);
    w->work = (double)w->bytes;
    for (int t = 0; t < TRIALS; t++) {
        pthread_barrier_wait(w->barrier);
        double start = now();
        /* Several streams, as the prefetchers of today like it; sums of words are never the limit. */
        enum { STREAMS = 4 };
        size_t part = w->bytes / STREAMS / 64 * 64;
        __m128i s[STREAMS] = {{0}};
        for (size_t i = 0; i < part; i += 64)
            for (int k = 0; k < STREAMS; k++) {
                const __m128i *p = (const __m128i *)(w->memory + (size_t)k * part + i);
                __m128i v = _mm_or_si128(_mm_or_si128(p[0], p[1]), _mm_or_si128(p[2], p[3]));
                s[k] = _mm_or_si128(s[k], v);
            }
        for (int k = 0; k < STREAMS; k++)
            w->sink += _mm_cvtsi128_si32(s[k]);
        w->seconds[t] = now() - start;
    }
    return NULL;
}

/* The best rate over the trials: all work over the slowest thread's time. */
static double best(worker *w, int n, void *(*fn)(void *))
{
    pthread_t id[MAX_THREADS];
    pthread_barrier_t barrier;
    double rate = 0;
    pthread_barrier_init(&barrier, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        w[i].barrier = &barrier;
        if (pthread_create(&id[i], NULL, fn, &w[i]) != 0) {
            fprintf(stderr, "limits: cannot make %d threads\n", n);
            exit(1);
        }
    }
    for (int i = 0; i < n; i++)
        pthread_join(id[i], NULL);
    for (int t = 0; t < TRIALS; t++) {
        double slowest = 0, work = 0;
        for (int i = 0; i < n; i++) {
            slowest = w[i].seconds[t] > slowest ? w[i].seconds[t] : slowest;
            work += w[i].work;
        }
        rate = work / slowest > rate ? work / slowest : rate;
    }
    pthread_barrier_destroy(&barrier);
    return rate;
}

int main(int argc, char **argv)
{
    static worker w[MAX_THREADS];
    int n = argc > 1 ? atoi(argv[1]) : 1;
    const char *isa = argc > 2 ? argv[2] : "";
    int have = __builtin_cpu_supports("avx512f")                                 ? 2
               : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 1
                                                                                 : 0;
    int level = !strcmp(isa, "generic") ? 0 : !strcmp(isa, "avx2") ? 1 : 2;
    if (n < 1 || n > MAX_THREADS) {
        fprintf(stderr, "limits: wanted 1 to %d threads\n", MAX_THREADS);
        return 2;
    }
    size_t bytes = (size_t)(n > 8 ? 64 : 256) << 20;
    for (int i = 0; i < n; i++) {
        w[i].isa = level < have ? level : have;
        w[i].bytes = bytes;
        w[i].memory = aligned_alloc(64, bytes);
        if (!w[i].memory) {
            fprintf(stderr, "limits: out of memory\n");
            return 1;
        }
    }
    double flops = best(w, n, compute);
    double bandwidth = best(w, n, read_memory);
    double sink = 0;
    for (int i = 0; i < n; i++) {
        sink += w[i].sink;
        free(w[i].memory);
    }
    printf("{\"threads\": %d, \"gflops\": %.1f, \"read_gb_s\": %.1f, \"sink\": %.3g}\n", n,
           flops * 1e-9, bandwidth * 1e-9, sink);
    return 0;
}
