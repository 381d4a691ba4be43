/* tiles.c -- what AMX does, slowly, and a CPU that says it has it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the processor would answer with a fault ends the program with a sentence. With FAKE_TILES_COUNT=1 in the environment
 * it says at its end how often each instruction ran, and how many of the lines that tiles came from a first-level
 * cache would have held which sees nothing else: of FAKE_TILES_WAYS ways (12) of 4 KB. */
#include "tiles.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64, LINE = 64, SETS = 64, MOST_WAYS = 64 };

typedef struct {
    int rows, bytes; /* 0: not configured */
    unsigned char data[ROWS][ROW_BYTES];
} tile;

static _Thread_local struct {
    bool configured;
    tile tiles[TILES];
} unit;

static void __attribute__((noreturn, format(printf, 1, 2))) wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "tests/fake/tiles.c: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

/* ---- Counts ----------------------------------------------------------------------------------- */

typedef enum { CONFIGURE, ZERO, LOAD, STORE, MULTIPLY, N_COUNTS } count;
static const char *const count_names[N_COUNTS] = {"configured", "zeroed", "loaded", "stored",
                                                  "multiplied"};
static struct {
    atomic_ullong times[N_COUNTS], bytes[N_COUNTS];
    atomic_ullong products;      /* multiply-adds of bfloat16 or bytes */
    atomic_ullong lines, missed; /* of the cache, looked up; those that were not there */
} counts;

static void print_counts(void)
{
    for (int i = 0; i < N_COUNTS; i++)
        fprintf(stderr, "tiles %-10s %12llu times %14llu bytes\n", count_names[i], counts.times[i],
                counts.bytes[i]);
    fprintf(stderr, "products         %12llu\n", counts.products);
    fprintf(stderr, "lines looked up  %12llu times, missed %12llu\n", counts.lines, counts.missed);
}

static bool counting;
static int ways = 12;
static __attribute__((constructor)) void begin_counting(void)
{
    const char *wanted = getenv("FAKE_TILES_COUNT");
    const char *size = getenv("FAKE_TILES_WAYS");
    counting = wanted && strcmp(wanted, "1") == 0;
    if (counting)
        atexit(print_counts);
    if (size && atoi(size) > 0 && atoi(size) <= MOST_WAYS)
        ways = atoi(size);
}

/* In each set the line that was used last comes first. */
static bool look_up(uintptr_t line)
{
    static _Thread_local uintptr_t sets[SETS][MOST_WAYS];
    uintptr_t *set = sets[line % SETS], moved = line;
    for (int w = 0; w < ways; w++) {
        uintptr_t here = set[w];
        set[w] = moved;
        if (here == line)
            return true;
        moved = here;
    }
    return false;
}

static void touch(const void *at, int bytes)
{
    if (!counting)
        return;
    for (uintptr_t i = (uintptr_t)at / LINE; i <= ((uintptr_t)at + (unsigned)bytes - 1) / LINE;
         i++) {
        atomic_fetch_add_explicit(&counts.lines, 1, memory_order_relaxed);
        if (!look_up(i))
            atomic_fetch_add_explicit(&counts.missed, 1, memory_order_relaxed);
    }
}

static void did(count what, int bytes)
{
    if (!counting)
        return;
    atomic_fetch_add_explicit(&counts.times[what], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts.bytes[what], (unsigned)bytes, memory_order_relaxed);
}

/* ---- Configuration ---------------------------------------------------------------------------- */

/* Bytes of the configuration: palette, first row, columns in bytes from 16 on, rows from 48 on. */
static void check_configuration(const unsigned char *c)
{
    enum { BYTES = 16, ROW_COUNTS = 48, END = 64 };
    if (c[0] != 1)
        wrong("palette %d, wanted 1", c[0]);
    for (int i = 2; i < END; i++) {
        bool used =
            (i >= BYTES && i < BYTES + 2 * TILES) || (i >= ROW_COUNTS && i < ROW_COUNTS + TILES);
        if (!used && c[i])
            wrong("byte %d of a configuration is %d, wanted 0", i, c[i]);
    }
    if (c[1])
        wrong("a configuration begins at row %d: instructions are never interrupted here", c[1]);
    for (int i = 0; i < TILES; i++) {
        int bytes = c[BYTES + 2 * i] | c[BYTES + 2 * i + 1] << 8, rows = c[ROW_COUNTS + i];
        if (rows > ROWS || bytes > ROW_BYTES || (rows == 0) != (bytes == 0))
            wrong("tile %d is configured with %d rows of %d bytes", i, rows, bytes);
        unit.tiles[i] = (tile){.rows = rows, .bytes = bytes};
    }
}

void fake_tile_configure(const void *from)
{
    did(CONFIGURE, 64);
    check_configuration(from);
    unit.configured = true;
}

void fake_tile_release(void)
{
    unit.configured = false;
}

static tile *tile_at(int i)
{
    if (!unit.configured)
        wrong("tile %d is used, but nothing is configured", i);
    if (i < 0 || i >= TILES || !unit.tiles[i].rows)
        wrong("tile %d is not configured", i);
    return &unit.tiles[i];
}

/* ---- Moves ------------------------------------------------------------------------------------ */

void fake_tile_zero(int i)
{
    tile *t = tile_at(i);
    memset(t->data, 0, sizeof t->data);
    did(ZERO, 0);
}

void fake_tile_load(int i, const void *from, int64_t stride)
{
    tile *t = tile_at(i);
    memset(t->data, 0, sizeof t->data);
    for (int row = 0; row < t->rows; row++) {
        const char *at = (const char *)from + row * stride;
        memcpy(t->data[row], at, (size_t)t->bytes);
        touch(at, t->bytes);
    }
    did(LOAD, t->rows * t->bytes);
}

void fake_tile_store(int i, void *to, int64_t stride)
{
    const tile *t = tile_at(i);
    for (int row = 0; row < t->rows; row++) {
        char *at = (char *)to + row * stride;
        memcpy(at, t->data[row], (size_t)t->bytes);
        touch(at, t->bytes);
    }
    did(STORE, t->rows * t->bytes);
}

/* ---- Products --------------------------------------------------------------------------------- */

static void check_product(int to, int a, int b)
{
    const tile *c = tile_at(to), *x = tile_at(a), *y = tile_at(b);
    if (to == a || to == b || a == b)
        wrong("a product of tiles %d = %d * %d: they must be three", to, a, b);
    if (c->bytes % 4 || x->bytes % 4 || c->rows != x->rows || c->bytes != y->bytes ||
        x->bytes / 4 != y->rows)
        wrong("a product of %d x %d and %d x %d bytes to %d x %d", x->rows, x->bytes, y->rows,
              y->bytes, c->rows, c->bytes);
}

static inline float wide(uint16_t bf16)
{
    uint32_t bits = (uint32_t)bf16 << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* A row of sums. Elements of even and of odd number have sums of their own, each rounded after every product, which
 * meet at the end. */
static __attribute__((noinline)) void row_bf16(const uint16_t *a, const tile *b, int pairs,
                                               float *c)
{
    enum { N = ROW_BYTES / 4 };
    float even[N] = {0}, odd[N] = {0};
    for (int k = 0; k < pairs; k++) {
        float a0 = wide(a[2 * k]), a1 = wide(a[2 * k + 1]);
        uint16_t pair[2 * N];
        memcpy(pair, b->data[k], sizeof pair);
        for (int n = 0; n < N; n++) {
            even[n] = __builtin_fmaf(a0, wide(pair[2 * n]), even[n]);
            odd[n] = __builtin_fmaf(a1, wide(pair[2 * n + 1]), odd[n]);
        }
    }
    for (int n = 0; n < N; n++)
        c[n] += even[n] + odd[n];
}

void fake_tile_multiply_bf16(int to, int a, int b)
{
    enum { ZERO_DENORMALS = 0x8040, MASKED_NEAREST = 0x1f80 };
    check_product(to, a, b);
    tile *c = tile_at(to);
    const tile *x = tile_at(a), *y = tile_at(b);
    unsigned before = _mm_getcsr();
    _mm_setcsr(MASKED_NEAREST | ZERO_DENORMALS);
    for (int m = 0; m < c->rows; m++) {
        uint16_t row[ROW_BYTES / 2];
        float sums[ROW_BYTES / 4];
        memcpy(row, x->data[m], sizeof row);
        memcpy(sums, c->data[m], sizeof sums);
        row_bf16(row, y, x->bytes / 4, sums);
        memset(c->data[m], 0, sizeof c->data[m]);
        memcpy(c->data[m], sums, (size_t)c->bytes);
    }
    _mm_setcsr(before);
    did(MULTIPLY, 0);
    if (counting)
        atomic_fetch_add_explicit(&counts.products,
                                  (unsigned)(c->rows * c->bytes / 4 * x->bytes / 2),
                                  memory_order_relaxed);
}

void fake_tile_multiply_int8(int to, int a, int b)
{
    check_product(to, a, b);
    tile *c = tile_at(to);
    const tile *x = tile_at(a), *y = tile_at(b);
    for (int m = 0; m < c->rows; m++) {
        int32_t sums[ROW_BYTES / 4];
        memcpy(sums, c->data[m], sizeof sums);
        for (int n = 0; n < c->bytes / 4; n++)
            for (int k = 0; k < x->bytes; k++)
                sums[n] += (int8_t)x->data[m][k] * (int8_t)y->data[k / 4][n * 4 + k % 4];
        memcpy(c->data[m], sums, sizeof sums);
    }
    did(MULTIPLY, 0);
    if (counting)
        atomic_fetch_add_explicit(&counts.products, (unsigned)(c->rows * c->bytes / 4 * x->bytes),
                                  memory_order_relaxed);
}

/* ---- The CPU ---------------------------------------------------------------------------------- */

/* The linker gives these to whoever asks for cm_cpu_info (--wrap). What has AMX has AVX512-BF16. */
const cm_cpu *__real_cm_cpu_info(void);
const cm_cpu *__wrap_cm_cpu_info(void);

static cm_cpu info;
static __attribute__((constructor)) void probe(void)
{
    info = *__real_cm_cpu_info();
    if (info.isa == CM_ISA_AVX512 && info.bf16)
        info.isa = CM_ISA_AMX;
}

const cm_cpu *__wrap_cm_cpu_info(void)
{
    return &info;
}
