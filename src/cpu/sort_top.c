/* sort_top.c -- the k first of a row.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A number and its index make one key of 64 bits; small keys are wanted. Few of many: a short sorted list,
 * vectors skip all that is not better than its last. Otherwise: a histogram of the keys' upper bits tells
 * which can be among the k first, and those are sorted by digits. */
#include <string.h>

#include "base/cpu.h"
#include "cpu/sort.h"

enum { SHORT = 64, BINS = 2048, BIN_SHIFT = 32 + 21, DIGITS = 256 };

/* Unsigned order of the upper half is the wanted order of the numbers; -0 is 0. */
static inline uint64_t key_of(float x, int64_t i, bool largest)
{
    uint32_t bits;
    x += 0.0f;
    memcpy(&bits, &x, sizeof bits);
    uint32_t up = bits ^ ((uint32_t)((int32_t)bits >> 31) | 0x80000000u);
    if (x != x)
        up = UINT32_MAX;
    return (uint64_t)(largest ? ~up : up) << 32 | (uint64_t)i;
}

static void insert(uint64_t *list, int64_t n, uint64_t key)
{
    int64_t i = n;
    for (; i > 0 && list[i - 1] > key; i--)
        list[i] = list[i - 1];
    list[i] = key;
}

static void short_list(int level, const float *x, int64_t n, int64_t k, bool largest,
                       uint64_t *order)
{
    cm_next_beyond_fn *next = level < CM_ISA_AVX2     ? cm_cpu_next_beyond__generic
                              : level < CM_ISA_AVX512 ? cm_cpu_next_beyond__avx2
                                                      : cm_cpu_next_beyond__avx512;
    for (int64_t i = 0; i < k; i++)
        insert(order, i, key_of(x[i], i, largest));
    for (int64_t i = k; i < n; i++) {
        i = next(x, i, n, x[order[k - 1] & UINT32_MAX], largest);
        if (i == n)
            return;
        uint64_t key = key_of(x[i], i, largest);
        if (key < order[k - 1])
            insert(order, k - 1, key);
    }
}

/* By the upper 32 bits, keeping the order of equals; the result is in `keys`. */
static void sort_digits(uint64_t *keys, uint64_t *other, int64_t n)
{
    int64_t count[4][DIGITS];
    memset(count, 0, sizeof count);
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < 4; d++)
            count[d][keys[i] >> (32 + 8 * d) & 255]++;
    uint64_t *from = keys, *to = other;
    for (int d = 0; d < 4; d++) {
        int64_t sum = 0;
        if (count[d][from[0] >> (32 + 8 * d) & 255] == n)
            continue; /* all alike */
        for (int b = 0; b < DIGITS; b++) {
            int64_t c = count[d][b];
            count[d][b] = sum;
            sum += c;
        }
        for (int64_t i = 0; i < n; i++)
            to[count[d][from[i] >> (32 + 8 * d) & 255]++] = from[i];
        uint64_t *t = from;
        from = to;
        to = t;
    }
    if (from != keys)
        memcpy(keys, from, (size_t)n * sizeof *keys);
}

/* Keys up to the bin that the k-th is in, in the order of their indices. */
static int64_t select_bins(const float *x, int64_t n, int64_t k, bool largest, uint64_t *keys)
{
    int32_t count[BINS] = {0};
    int64_t sum = 0, kept = 0;
    for (int64_t i = 0; i < n; i++) {
        keys[i] = key_of(x[i], i, largest);
        count[keys[i] >> BIN_SHIFT]++;
    }
    uint64_t last = 0;
    for (; (sum += count[last]) < k; last++)
        ;
    for (int64_t i = 0; i < n; i++) {
        keys[kept] = keys[i];
        kept += keys[i] >> BIN_SHIFT <= last;
    }
    return kept;
}

void cm_top_k(int level, const float *x, int64_t n, int64_t k, bool largest, uint64_t *room,
              uint64_t *order)
{
    if (k == 0)
        return;
    if (k <= SHORT) {
        short_list(level, x, n, k, largest, order);
        return;
    }
    int64_t kept = select_bins(x, n, k, largest, room);
    sort_digits(room, room + n, kept);
    memcpy(order, room, (size_t)k * sizeof *order);
}
