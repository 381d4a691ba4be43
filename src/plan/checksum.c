/* checksum.c -- the 64-bit checksum of a plan's sections.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Four lanes each take every fourth 64-bit word: lane = rotate((lane ^ word) * odd). Each step can be
 * undone, and so can the way lanes are joined, so a change inside one word always shows. It guards
 * against damage, not against malice. */
#include "plan/format.h"
#include "plan/plan.h"

#include <string.h>

#define MULTIPLIER UINT64_C(0x9FB21C651E98DF25)

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static uint64_t mix(uint64_t lane, uint64_t word)
{
    return rotate((lane ^ word) * MULTIPLIER, 29);
}

static void add_block(uint64_t *lane, const unsigned char *p)
{
    for (int i = 0; i < 4; i++) {
        uint64_t word;
        memcpy(&word, p + 8 * i, 8);
        lane[i] = mix(lane[i], word);
    }
}

void cm_checksum_begin(cm_checksum_state *s)
{
    *s = (cm_checksum_state){
        .lane = {0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89}};
}

void cm_checksum_add(cm_checksum_state *s, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    s->n += n;
    if (s->n_tail) {
        size_t take = 32 - s->n_tail < n ? 32 - s->n_tail : n;
        memcpy(s->tail + s->n_tail, p, take);
        s->n_tail += take;
        p += take;
        n -= take;
        if (s->n_tail < 32)
            return;
        add_block(s->lane, s->tail);
        s->n_tail = 0;
    }
    for (; n >= 32; p += 32, n -= 32)
        add_block(s->lane, p);
    if (n)
        memcpy(s->tail, p, n);
    s->n_tail = n;
}

uint64_t cm_checksum_end(const cm_checksum_state *s)
{
    uint64_t lane[4];
    memcpy(lane, s->lane, sizeof lane);
    if (s->n_tail) {
        unsigned char last[32] = {0};
        memcpy(last, s->tail, s->n_tail);
        add_block(lane, last);
    }
    uint64_t sum = s->n;
    for (int i = 0; i < 4; i++)
        sum = mix(sum, lane[i]);
    sum ^= sum >> 32;
    sum *= MULTIPLIER;
    return sum ^ sum >> 29;
}

uint64_t cm_checksum(const void *p, size_t n)
{
    cm_checksum_state s;
    cm_checksum_begin(&s);
    cm_checksum_add(&s, p, n);
    return cm_checksum_end(&s);
}
