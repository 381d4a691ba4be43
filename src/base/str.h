/* str.h -- strings with a length, and small helpers for names.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_BASE_STR_H
#define CM_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A run of bytes that may hold any byte. The element of string tensors. */
typedef struct cm_str {
    const char *p; /* never NULL when n > 0 */
    size_t n;
} cm_str;

static inline cm_str cm_str_of(const char *s)
{
    return (cm_str){s, strlen(s)};
}

static inline bool cm_str_equal(cm_str a, cm_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline int cm_str_compare(cm_str a, cm_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

/* The candidate nearest to `word` by edit distance, or NULL when none is near: "did you mean". */
const char *cm_suggest(const char *word, const char *const *candidates, int n);

#endif
