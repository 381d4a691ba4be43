/* nbits.c -- NBITS: products with weights of 2, 4 or 8 bits, which stay packed until they are used.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Few rows take as long as the codes take to arrive: they become numbers on registers. Many rows share panels of
 * numbers, which each thread unpacks for a piece of the columns and of k that stays in its cache. Sums are
 * of float32 whatever the operator's accuracy_level allows. */
#include "cpu/nbits.h"

#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "base/size.h"
#include "cpu/gemm.h"
#include "cpu/widen.h"

enum { A, B, SCALES, ZEROS, GROUPS, BIAS };
enum { CHUNK_K = 512, CHUNK_N = 128 }; /* of what is unpacked at once */
enum { PIECE_CODES = 1 << 18 };        /* least work for a thread, in products */

typedef struct {
    cm_nbits_few_fn *few;
    cm_nbits_unpack_fn *unpack;
} kernels;

static const kernels *kernels_of(int level)
{
    static const kernels table[] = {{cm_cpu_nbits_few__generic, cm_cpu_nbits_unpack__generic},
                                    {cm_cpu_nbits_few__avx2, cm_cpu_nbits_unpack__avx2},
                                    {cm_cpu_nbits_few__avx512, cm_cpu_nbits_unpack__avx512}};
    return &table[level >= CM_ISA_AVX512 ? 2 : level >= CM_ISA_AVX2];
}

static const char *reject(const cm_problem *p)
{
    const cm_nbits *s = &p->as.nbits;
    if (p->in[A]->dtype != CM_F32 && !cm_is_half(p->in[A]->dtype))
        return "not floats";
    if (s->bits != 2 && s->bits != 4 && s->bits != 8)
        return "codes are not of 2, 4 or 8 bits";
    if (s->block * s->bits % 32)
        return "a block does not end with a word of 32 bits";
    if (cm_problem_has(p, GROUPS))
        return "blocks are told element by element";
    if (cm_problem_has(p, ZEROS) && !s->packed_zeros && !cm_dtype_is_float(p->in[ZEROS]->dtype))
        return "zero points are neither codes nor floats";
    for (int i = B; i < p->n_in; i++)
        if (cm_problem_has(p, i) && (!p->constant[i] || !cm_tensor_is_dense(p->in[i])))
            return "weights, scales, zero points or the bias are computed or strided";
    if (!cm_tensor_is_dense(p->in[A]) || !cm_tensor_is_dense(p->out[0]))
        return "the operands are strided";
    return p->epilogue ? "nothing may follow in the same kernel" : NULL;
}

static int64_t n_strips(const cm_nbits *s)
{
    return cm_ceil_div(s->n, CM_NBITS_STRIP);
}

/* Words of a column. */
static int64_t words_of(const cm_nbits *s)
{
    return s->blocks * s->block * s->bits / 32;
}

static size_t pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    const cm_nbits *s = &p->as.nbits;
    (void)k;
    int64_t rows = input == B                          ? words_of(s)
                   : input == SCALES || input == ZEROS ? s->blocks
                                                       : input == BIAS;
    return (size_t)(n_strips(s) * rows * CM_NBITS_STRIP) * sizeof(float);
}

typedef struct {
    const cm_problem *p;
    int input;
    const void *from;
    void *to;
} pack_job;

/* Words of a column, whose codes become two's complement where the first bit of each is turned. */
static void pack_codes(const pack_job *j, int64_t col, uint32_t *to)
{
    const cm_nbits *s = &j->p->as.nbits;
    uint32_t turned = s->bits == 2 ? 0xaaaaaaaau : s->bits == 4 ? 0x88888888u : 0x80808080u;
    int64_t words = words_of(s);
    const char *from = (const char *)j->from + col * words * 4;
    for (int64_t i = 0; i < words; i++) {
        uint32_t word;
        memcpy(&word, from + 4 * i, sizeof word);
        to[i * CM_NBITS_STRIP] = word ^ turned;
    }
}

static float zero_code(const cm_nbits *s, const uint8_t *from, int64_t col, int64_t block)
{
    int64_t bit = block * s->bits, row = cm_ceil_div(s->blocks * s->bits, 8);
    return (float)(from[col * row + bit / 8] >> (bit % 8) & ((1 << s->bits) - 1));
}

/* Scales, zero points or the bias of a column. */
static void pack_numbers(const pack_job *j, int64_t col, int64_t rows, float *to)
{
    const cm_nbits *s = &j->p->as.nbits;
    float middle = j->input == ZEROS ? (float)(1 << (s->bits - 1)) : 0;
    for (int64_t i = 0; i < rows; i++) {
        float v = j->input == ZEROS && s->packed_zeros
                      ? zero_code(s, j->from, col, i)
                      : (float)cm_get_f64(j->p->in[j->input]->dtype, j->from, col * rows + i);
        to[i * CM_NBITS_STRIP] = v - middle;
    }
}

static void pack_strips(void *arg, int64_t begin, int64_t end)
{
    const pack_job *j = arg;
    const cm_nbits *s = &j->p->as.nbits;
    int64_t rows = j->input == B ? words_of(s) : j->input == BIAS ? 1 : s->blocks;
    for (int64_t c = begin * CM_NBITS_STRIP; c < end * CM_NBITS_STRIP; c++) {
        int64_t at = c / CM_NBITS_STRIP * rows * CM_NBITS_STRIP + c % CM_NBITS_STRIP;
        if (c >= s->n)
            for (int64_t i = 0; i < rows; i++)
                ((uint32_t *)j->to)[at + i * CM_NBITS_STRIP] = 0;
        else if (j->input == B)
            pack_codes(j, c, (uint32_t *)j->to + at);
        else
            pack_numbers(j, c, rows, (float *)j->to + at);
    }
}

static void pack(const cm_problem *p, const cm_knobs *k, int input, const void *from, void *to,
                 cm_threads *threads)
{
    (void)k;
    pack_job j = {p, input, from, to};
    cm_parallel(threads, n_strips(&p->as.nbits), 4, pack_strips, &j);
}

/* What a run works with: operands in float32 where they lie, or at the front of the workspace. */
typedef struct {
    const cm_run *r;
    const kernels *ks;
    const cm_gemm_f32_kernel *g;
    cm_nbits_few f;
    char *free; /* the workspace behind them */
} job;

static size_t halves_bytes(const cm_problem *p)
{
    return cm_is_half(p->in[A]->dtype) ? cm_wide_bytes(p->in[A]) + cm_wide_bytes(p->out[0]) : 0;
}

static void begin_run(const cm_run *r, job *j)
{
    const cm_problem *p = r->p;
    const cm_nbits *s = &p->as.nbits;
    *j = (job){.r = r,
               .ks = kernels_of(p->target.level),
               .g = cm_gemm_f32_kernel_of(p->target.level),
               .free = r->workspace};
    j->f = (cm_nbits_few){.w = {.bits = s->bits,
                                .n = s->n,
                                .k = s->k,
                                .block = s->block,
                                .blocks = s->blocks,
                                .codes = r->in[B],
                                .scales = r->in[SCALES],
                                .zeros = cm_problem_has(p, ZEROS) ? r->in[ZEROS] : NULL,
                                .bias = cm_problem_has(p, BIAS) ? r->in[BIAS] : NULL},
                          .m = s->m,
                          .x = r->in[A],
                          .y = r->out[0]};
    if (cm_is_half(p->in[A]->dtype)) {
        j->f.x = (const float *)j->free;
        j->free = cm_widen_input(r, A, j->free);
        j->f.y = (float *)j->free;
        j->free += cm_wide_bytes(p->out[0]);
    }
}

static void end_run(const job *j)
{
    if (cm_is_half(j->r->p->in[A]->dtype))
        cm_narrow_output(j->r, 1, j->f.y);
}

/* What takes how long, as a multiple of one row of a product of float32. */
typedef struct {
    int rows;           /* that share numbers on registers */
    double few_unpack;  /* making those numbers, for each such group of rows */
    double few_row;     /* a row of it */
    double many_unpack; /* making panels */
} pace;

static const pace *pace_of(int level)
{
    static const pace table[] = {{2, 0.6, 1.6, 2.7}, {4, 1.1, 1, 3}, {8, 0.7, 1.03, 3.5}};
    return &table[level >= CM_ISA_AVX512 ? 2 : level >= CM_ISA_AVX2];
}

static double rows_ns(const cm_problem *p, double rows)
{
    const cm_nbits *s = &p->as.nbits;
    return 2 * (double)s->n * (double)s->k * rows / cm_cpu_flops_per_ns(&p->target);
}

/* --- few rows --- */

/* Kernels are written out for the usual widths alone. */
static const char *few_reject(const cm_problem *p)
{
    return p->as.nbits.bits == 2 ? "codes of 2 bits are unpacked first" : reject(p);
}

static size_t few_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    return halves_bytes(p);
}

static double few_cost(const cm_problem *p, const cm_knobs *k)
{
    const cm_nbits *s = &p->as.nbits;
    const pace *w = pace_of(p->target.level);
    (void)k;
    double groups = (double)cm_ceil_div(s->m, w->rows);
    double ns = rows_ns(p, w->few_row * (double)s->m + w->few_unpack * groups);
    return 300 + ns / cm_cpu_speedup(p, (double)cm_ceil_div(n_strips(s), CM_NBITS_WIDE));
}

static void few_units(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    j->ks->few(&j->f, begin * CM_NBITS_WIDE,
               cm_min_i64(end * CM_NBITS_WIDE, n_strips(&j->r->p->as.nbits)));
}

static void run_units(job *j, cm_range_fn fn)
{
    const cm_nbits *s = &j->r->p->as.nbits;
    int64_t unit = CM_NBITS_WIDE * CM_NBITS_STRIP * s->k * cm_max_i64(s->m, 1);
    cm_parallel(j->r->threads, cm_ceil_div(n_strips(s), CM_NBITS_WIDE), 1 + PIECE_CODES / unit, fn,
                j);
}

static cm_status few_run(const cm_run *r)
{
    job j;
    begin_run(r, &j);
    run_units(&j, few_units);
    end_run(&j);
    return CM_OK;
}

/* --- few rows by dot products of bytes --- */

static const char *digits_reject(const cm_problem *p)
{
    enum { MOST_ROWS = 4, MOST_BLOCK = 16384 }; /* sums of a block are of 32 bits */
    const cm_nbits *s = &p->as.nbits;
    if (!cm_cpu_info()->vnni)
        return "the CPU has no VNNI";
    if (s->m > MOST_ROWS)
        return "there are more than 4 rows";
    if (s->block > MOST_BLOCK)
        return "blocks are too long";
    if (cm_problem_has(p, ZEROS) && !s->packed_zeros)
        return "zero points are no codes";
    return few_reject(p);
}

/* Digits, their sums and powers of a row, one after the other. */
typedef struct {
    size_t digits, sums, scales, all;
} digits_room;

static digits_room room_of(const cm_nbits *s)
{
    digits_room r = {.digits = (size_t)(s->blocks * s->block) * CM_NBITS_DIGITS,
                     .sums = (size_t)s->blocks * CM_NBITS_DIGITS * sizeof(int32_t),
                     .scales = (size_t)s->blocks * sizeof(float)};
    r.digits = (r.digits + 63) / 64 * 64;
    r.all = (r.digits + r.sums + r.scales + 63) / 64 * 64;
    return r;
}

static cm_nbits_digits digits_at(const job *j, int64_t row)
{
    digits_room room = room_of(&j->r->p->as.nbits);
    char *at = j->free + (size_t)row * room.all;
    return (cm_nbits_digits){.digits = (int8_t *)at,
                             .sums = (int32_t *)(at + room.digits),
                             .scales = (float *)(at + room.digits + room.sums)};
}

static size_t digits_workspace(const cm_problem *p, const cm_knobs *k)
{
    const cm_nbits *s = &p->as.nbits;
    (void)k;
    return halves_bytes(p) + (size_t)s->m * room_of(s).all;
}

static double digits_cost(const cm_problem *p, const cm_knobs *k)
{
    const cm_nbits *s = &p->as.nbits;
    (void)k;
    double units = (double)cm_ceil_div(n_strips(s), CM_NBITS_WIDE);
    double cut = 1.5 * (double)s->m * (double)s->k;
    return 300 + cut + rows_ns(p, 0.9 * (double)s->m) / cm_cpu_speedup(p, units);
}

static void digits_units(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t last = n_strips(&j->r->p->as.nbits);
    for (int64_t s = begin * CM_NBITS_WIDE; s < end * CM_NBITS_WIDE; s += CM_NBITS_WIDE)
        for (int64_t row = 0; row < j->f.m; row++) {
            cm_nbits_digits x = digits_at(j, row);
            cm_cpu_nbits_digits__avx512(&j->f.w, &x, j->f.y + row * j->f.w.n, s,
                                        cm_min_i64(s + CM_NBITS_WIDE, last));
        }
}

/* Rows that cannot be cut are left to the kernels of float32. */
static cm_status digits_run(const cm_run *r)
{
    job j;
    begin_run(r, &j);
    const cm_nbits *s = &r->p->as.nbits;
    bool whole = true;
    for (int64_t row = 0; row < s->m && whole; row++) {
        cm_nbits_digits to = digits_at(&j, row);
        whole = cm_cpu_nbits_cut__avx512(&j.f.w, j.f.x + row * s->k, &to);
    }
    run_units(&j, whole ? digits_units : few_units);
    end_run(&j);
    return CM_OK;
}

/* --- many rows --- */

static int64_t n_pieces(const cm_nbits *s)
{
    return cm_ceil_div(s->n, CHUNK_N);
}

static int64_t n_workers(const cm_problem *p)
{
    return cm_max_i64(1, cm_min_i64(p->threads, n_pieces(&p->as.nbits)));
}

static size_t panel_bytes(void)
{
    return (size_t)CHUNK_K * CHUNK_N * sizeof(float);
}

static size_t many_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    return halves_bytes(p) + cm_wide_bytes(p->in[A]) + panel_bytes() * (size_t)n_workers(p);
}

static double many_cost(const cm_problem *p, const cm_knobs *k)
{
    const cm_nbits *s = &p->as.nbits;
    (void)k;
    double ns = rows_ns(p, (double)s->m + pace_of(p->target.level)->many_unpack);
    return 1000 + ns / cm_cpu_speedup(p, (double)n_pieces(s));
}

/* A in tiles, chunk of k after chunk. */
static void pack_chunks(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_nbits_few *f = &j->f;
    for (int64_t l = begin * CHUNK_K; l < cm_min_i64(end * CHUNK_K, f->w.k); l += CHUNK_K)
        cm_gemm_f32_pack_a(j->g, f->m, cm_min_i64(CHUNK_K, f->w.k - l), f->x + l, f->w.k, 1,
                           (float *)j->free + l * f->m);
}

static void one_piece(const job *j, float *panels, int64_t piece)
{
    const cm_nbits_few *f = &j->f;
    const cm_nbits_weights *w = &f->w;
    int64_t col = piece * CHUNK_N, cols = cm_min_i64(CHUNK_N, w->n - col);
    cm_simple_epilogue e = {.bias = w->bias, .lo = -INFINITY, .hi = INFINITY};
    for (int64_t l = 0; l < w->k; l += CHUNK_K) {
        int64_t kc = cm_min_i64(CHUNK_K, w->k - l);
        cm_nbits_part part = {.begin = col / CM_NBITS_STRIP,
                              .end = cm_ceil_div(col + cols, CM_NBITS_STRIP),
                              .k0 = l,
                              .k1 = l + kc,
                              .nr = j->g->nr,
                              .panel = j->g->nr * kc,
                              .to = panels};
        j->ks->unpack(w, &part);
        cm_gemm_f32_args x = {.m = f->m,
                              .n = cols,
                              .k = kc,
                              .a_packed = (const float *)j->free + l * f->m,
                              .a_packed_m = f->m,
                              .b = panels,
                              .b_panel = part.panel,
                              .ldb = j->g->nr,
                              .c = f->y + col,
                              .ldc = w->n,
                              .alpha = 1,
                              .add = l > 0,
                              .e = w->bias && l + kc == w->k ? &e : NULL,
                              .col = col};
        cm_gemm_f32(j->g, &x);
    }
}

static void some_pieces(void *arg, int thread, int64_t begin, int64_t end)
{
    const job *j = arg;
    char *panels = j->free + cm_wide_bytes(j->r->p->in[A]) + (size_t)thread * panel_bytes();
    for (int64_t i = begin; i < end; i++)
        one_piece(j, (float *)panels, i);
}

static cm_status many_run(const cm_run *r)
{
    job j;
    begin_run(r, &j);
    const cm_nbits *s = &r->p->as.nbits;
    cm_parallel(r->threads, s->m ? cm_ceil_div(s->k, CHUNK_K) : 0, 1, pack_chunks, &j);
    cm_parallel_numbered(r->threads, (int)n_workers(r->p), s->m ? n_pieces(s) : 0, some_pieces, &j);
    end_run(&j);
    return CM_OK;
}

static const cm_tactic rows[] = {
    {.name = "nbits_digits",
     .level = CM_ISA_AVX512,
     .reject = digits_reject,
     .cost = digits_cost,
     .workspace = digits_workspace,
     .pack_bytes = pack_bytes,
     .pack = pack,
     .run = digits_run},
    {.name = "nbits_few",
     .level = CM_ISA_GENERIC,
     .reject = few_reject,
     .cost = few_cost,
     .workspace = few_workspace,
     .pack_bytes = pack_bytes,
     .pack = pack,
     .run = few_run},
    {.name = "nbits_many",
     .level = CM_ISA_GENERIC,
     .reject = reject,
     .cost = many_cost,
     .workspace = many_workspace,
     .pack_bytes = pack_bytes,
     .pack = pack,
     .run = many_run},
};

const cm_cpu_table cm_cpu_nbits = {rows, CM_COUNT(rows)};
