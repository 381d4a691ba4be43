/* text.c -- UTF-8 text for the operators on strings.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/sequence/text.h"

#include "base/utf8.h"
#include "ops/sequence/unicode_case.h"

uint32_t cm_text_get(cm_str s, size_t at, size_t *n)
{
    uint32_t c;
    *n = cm_utf8_get(s.p + at, s.n - at, &c);
    if (*n)
        return c;
    *n = 1;
    return 0xDC00u + (unsigned char)s.p[at];
}

static uint32_t map_case(uint32_t c, const case_run *runs, size_t n)
{
    size_t lo = 0, hi = n;
    while (lo < hi) { /* the first run that ends at c or after it */
        size_t mid = (lo + hi) / 2;
        if (runs[mid].last < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < n && c >= runs[lo].first && (c - runs[lo].first) % (uint32_t)runs[lo].step == 0)
        return (uint32_t)((int32_t)c + runs[lo].delta);
    return c;
}

static uint32_t change_case(uint32_t c, bool upper)
{
    if (c < 0x80) {
        if (upper)
            return c >= 'a' && c <= 'z' ? c - 32 : c;
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    }
    if (upper)
        return map_case(c, to_upper_runs, sizeof to_upper_runs / sizeof *to_upper_runs);
    return map_case(c, to_lower_runs, sizeof to_lower_runs / sizeof *to_lower_runs);
}

bool cm_text_case(cm_arena *arena, cm_str s, bool upper, cm_str *out)
{
    char *p =
        cm_arena_alloc_n(arena, s.n + 1, 3, 1, 0); /* a letter grows from 2 bytes to 3 at most */
    if (!p)
        return false;
    size_t used = 0;
    for (size_t at = 0, len; at < s.n; at += len) {
        uint32_t c = cm_text_get(s, at, &len);
        if (c >= 0xDC00 && c < 0xDD00)
            p[used++] = s.p[at];
        else
            used += cm_utf8_put(change_case(c, upper), p + used);
    }
    p[used] = '\0';
    *out = (cm_str){p, used};
    return true;
}

bool cm_text_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}
