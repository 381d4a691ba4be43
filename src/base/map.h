/* map.h -- names to pointers, in an arena. Insertion order is kept; iteration is deterministic.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_BASE_MAP_H
#define CM_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct cm_map_entry {
    const char *key; /* copied into the arena */
    void *value;
} cm_map_entry;

typedef struct cm_map {
    cm_arena *arena;
    cm_map_entry *entries; /* in the order of insertion */
    size_t n, cap;
    uint32_t *slots; /* 0: free; else entry index + 1 */
    size_t n_slots;
} cm_map;

void cm_map_init(cm_map *m, cm_arena *arena);
void *cm_map_get(const cm_map *m, const char *key); /* NULL when absent */
bool cm_map_has(const cm_map *m, const char *key);
/* Insert or replace. False when out of memory. */
bool cm_map_put(cm_map *m, const char *key, void *value);
uint64_t cm_hash_bytes(const void *p, size_t n, uint64_t seed); /* the same on every machine */

#endif
