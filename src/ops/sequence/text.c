/* text.c -- UTF-8 text for the operators on strings.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/sequence/text.h"

#include "ops/sequence/unicode_case.h"

uint32_t cm_text_get(cm_str s, size_t at, size_t *n)
{
    const unsigned char *p = (const unsigned char *)s.p + at;
    const size_t left = s.n - at;
    *n = 1;
    if (p[0] < 0x80)
        return p[0];
    const size_t len = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : p[0] >= 0xC2 ? 2 : 0;
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (len == 0 || len > left || p[0] > 0xF4)
        return 0xDC00u + p[0];
    uint32_t c = p[0] & (0xFFu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0xDC00u + p[0];
        c = c << 6 | (p[i] & 0x3F);
    }
    if (c < least[len] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        return 0xDC00u + p[0];
    *n = len;
    return c;
}

static size_t put(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
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
            used += put(change_case(c, upper), p + used);
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
