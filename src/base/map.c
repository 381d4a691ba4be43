/* map.c -- open addressing over a dense entry array.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <string.h>

/* FNV-1a over bytes, finished with a mixing step: small, and good enough for names. */
uint64_t cm_hash_bytes(const void *p, size_t n, uint64_t seed)
{
    const unsigned char *s = p;
    uint64_t h = 0xcbf29ce484222325u ^ seed;
    for (size_t i = 0; i < n; i++)
        h = (h ^ s[i]) * 0x100000001b3u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ (h >> 32);
}

void cm_map_init(cm_map *m, cm_arena *arena)
{
    *m = (cm_map){.arena = arena};
}

/* The slot that holds `key`, or the free one where it belongs. */
static uint32_t *find(const cm_map *m, const char *key)
{
    size_t mask = m->n_slots - 1;
    size_t i = (size_t)cm_hash_bytes(key, strlen(key), 0) & mask;
    while (m->slots[i] && strcmp(m->entries[m->slots[i] - 1].key, key) != 0)
        i = (i + 1) & mask;
    return &m->slots[i];
}

void *cm_map_get(const cm_map *m, const char *key)
{
    if (!m->n_slots)
        return NULL;
    uint32_t s = *find(m, key);
    return s ? m->entries[s - 1].value : NULL;
}

bool cm_map_has(const cm_map *m, const char *key)
{
    return m->n_slots && *find(m, key) != 0;
}

static bool grow(cm_map *m)
{
    size_t cap = m->cap ? m->cap * 2 : 16;
    cm_map_entry *e = cm_new_n(m->arena, cap, cm_map_entry);
    uint32_t *slots = cm_new_n(m->arena, cap * 2, uint32_t);
    if (!e || !slots)
        return false;
    if (m->n)
        memcpy(e, m->entries, m->n * sizeof *e);
    m->entries = e;
    m->cap = cap;
    m->slots = slots;
    m->n_slots = cap * 2;
    for (size_t i = 0; i < m->n; i++)
        *find(m, e[i].key) = (uint32_t)(i + 1);
    return true;
}

bool cm_map_put(cm_map *m, const char *key, void *value)
{
    if (m->n == m->cap && !grow(m))
        return false;
    uint32_t *s = find(m, key);
    if (*s) {
        m->entries[*s - 1].value = value;
        return true;
    }
    char *copy = cm_arena_strdup(m->arena, key);
    if (!copy)
        return false;
    m->entries[m->n++] = (cm_map_entry){copy, value};
    *s = (uint32_t)m->n;
    return true;
}
