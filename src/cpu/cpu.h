/* cpu.h -- the CPU backend: one ordered table of tactics per problem kind.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The file of a kind (cpu/matmul.c) holds its table, choosing and splitting among threads; kernels are
 * pure functions in the folders of the ISA levels, each built with the flags of its level and called only
 * there. Code that is the same at every level stands once in simd/, written with simd/vec.h, and is
 * included by one small file per level. */
#ifndef CM_CPU_CPU_H
#define CM_CPU_CPU_H

#include "plan/backend.h"

extern const cm_backend cm_backend_cpu;

/* A table of tactics: cpu/<kind>.c. */
typedef struct cm_cpu_table {
    const cm_tactic *rows;
    int n;
} cm_cpu_table;

/* clang-format off */
/* X(kind, table). Kinds without one run on their reference. */
#define CM_CPU_TABLES(X)                                                                           \
    X(MATMUL, cm_cpu_matmul)                                                                       \
    X(ROWS, cm_cpu_rows)                                                                           \
    X(RECURRENT, cm_cpu_recurrent)                                                                 \
    X(ATTENTION, cm_cpu_attention)                                                                 \
    X(CONV, cm_cpu_conv)                                                                           \
    X(POOL, cm_cpu_pool)                                                                           \
    X(RESIZE, cm_cpu_resize)                                                                       \
    X(MOVE, cm_cpu_move)                                                                           \
    X(REDUCE, cm_cpu_reduce)                                                                       \
    X(POINTWISE, cm_cpu_pointwise)                                                                 \
    X(GATHER, cm_cpu_gather)                                                                       \
    X(QUANTISE, cm_cpu_quantise)                                                                   \
    X(QMATMUL, cm_cpu_qmatmul)                                                                     \
    X(QCONV, cm_cpu_qconv)                                                                         \
    X(SORT, cm_cpu_sort)                                                                           \
    X(ROTARY, cm_cpu_rotary)                                                                       \
    X(SAMPLE, cm_cpu_sample)                                                                       \
    X(NBITS, cm_cpu_nbits)                                                                         \
    X(GQA, cm_cpu_gqa)
/* clang-format on */

#define X(kind, table) extern const cm_cpu_table table;
CM_CPU_TABLES(X)
#undef X

/* A row whose functions stand in a file of their own. All have these three; CM_TACTIC_KNOBS and the like
 * declare what some have besides, CM_HAS_KNOBS and the like put it into the row:
 *     CM_ROW(conv_lines_f32, GENERIC, CM_HAS_KNOBS(conv_lines_f32), CM_HAS_PACK(conv_lines_f32)) */
#define CM_TACTIC(stem)                                                                            \
    const char *cm_cpu_##stem##_reject(const cm_problem *p);                                       \
    double cm_cpu_##stem##_cost(const cm_problem *p, const cm_knobs *k);                           \
    cm_status cm_cpu_##stem##_run(const cm_run *r)
#define CM_TACTIC_KNOBS(stem) int cm_cpu_##stem##_knobs(const cm_problem *p, cm_knobs *out)
#define CM_TACTIC_WORKSPACE(stem)                                                                  \
    size_t cm_cpu_##stem##_workspace(const cm_problem *p, const cm_knobs *k)
#define CM_TACTIC_BAND(stem) void cm_cpu_##stem##_band(const cm_run *r, int64_t begin, int64_t end)
#define CM_TACTIC_PACK(stem)                                                                       \
    size_t cm_cpu_##stem##_pack_bytes(const cm_problem *p, const cm_knobs *k, int input);          \
    void cm_cpu_##stem##_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from, \
                              void *to, cm_threads *threads)

#define CM_ROW(stem, isa, ...)                                                                     \
    {                                                                                              \
        .name = #stem, .level = CM_ISA_##isa, .reject = cm_cpu_##stem##_reject,                    \
        .cost = cm_cpu_##stem##_cost, .run = cm_cpu_##stem##_run, __VA_ARGS__                      \
    }
#define CM_HAS_KNOBS(stem)     .knobs = cm_cpu_##stem##_knobs
#define CM_HAS_WORKSPACE(stem) .workspace = cm_cpu_##stem##_workspace
#define CM_HAS_BAND(stem)      .band = cm_cpu_##stem##_band
#define CM_HAS_PACK(stem)      .pack_bytes = cm_cpu_##stem##_pack_bytes, .pack = cm_cpu_##stem##_pack

/* For cost functions: what one core of this class can do, in operations (a multiply-add is two) and
 * bytes per nanosecond. Rough on purpose: ranking needs no more. */
double cm_cpu_flops_per_ns(const cm_target *t);
double cm_cpu_bytes_per_ns(const cm_target *t);

/* How well n pieces of work split among the problem's threads: the factor by which they help. */
double cm_cpu_speedup(const cm_problem *p, double pieces);

/* What a piece of work must take so that handing it out gains, from what it must be between two threads: many threads
 * together gain more by one that takes part than it costs. */
static inline double cm_cpu_piece_ns(double between_two, int threads)
{
    return threads > 4 ? 0.4 * between_two : between_two;
}

/* Of a core's second-level cache. */
int64_t cm_cpu_l2_floats(void);

/* Do n units split among threads without one that has a noticeable part more than others? */
static inline bool cm_cpu_even(int64_t n, int64_t threads)
{
    return n % threads == 0 || n >= 16 * threads;
}

#endif
