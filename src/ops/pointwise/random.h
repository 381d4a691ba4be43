/* random.h -- random numbers by position: element i of a draw is a function of a key and i alone.
 * SPDX-License-Identifier: Apache-2.0
 *
 * So threads need no order, a given seed gives the same tensor everywhere, and a context's state is
 * one word that moves on by a step per draw. */
#ifndef CM_OPS_RANDOM_H
#define CM_OPS_RANDOM_H

#include <stdint.h>
#include <string.h>

#define CM_RANDOM_STEP 0x9e3779b97f4a7c15ull /* 2^64 over the golden ratio, odd */

/* A permutation of 64-bit words in which every input bit reaches every output bit. */
static inline uint64_t cm_random_mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* 64 random bits at `counter` of the draw that `key` names. */
static inline uint64_t cm_random_bits(uint64_t key, uint64_t counter)
{
    return cm_random_mix(cm_random_mix(counter * CM_RANDOM_STEP + key) ^ key);
}

/* In [0, 1), a multiple of 2^-53. */
static inline double cm_random_unit(uint64_t key, uint64_t counter)
{
    return (double)(cm_random_bits(key, counter) >> 11) * 0x1p-53;
}

/* The key of the next draw from a context's state, or of the seed alone when there is one. */
static inline uint64_t cm_random_key(uint64_t *state)
{
    uint64_t none = 0;
    if (!state)
        state = &none;
    *state += CM_RANDOM_STEP;
    return cm_random_mix(*state);
}
static inline uint64_t cm_random_seed_key(uint64_t seed)
{
    return cm_random_mix(seed + CM_RANDOM_STEP);
}

#endif
