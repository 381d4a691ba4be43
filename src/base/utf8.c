/* utf8.c -- one character of UTF-8 text, to and from its code point.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

static size_t length_of(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

size_t cm_utf8_get(const char *p, size_t n, uint32_t *c)
{
    static const uint32_t least[CM_UTF8_MAX + 1] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *u = (const unsigned char *)p;
    size_t len = length_of(u[0]);
    if (len == 0 || len > n)
        return 0;
    uint32_t x = len == 1 ? u[0] : u[0] & (0xFFu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((u[i] & 0xC0) != 0x80)
            return 0;
        x = x << 6 | (u[i] & 0x3F);
    }
    if (x < least[len] || x > 0x10FFFF || (x >= 0xD800 && x < 0xE000))
        return 0;
    *c = x;
    return len;
}

size_t cm_utf8_put(uint32_t c, char *out)
{
    static const unsigned char mark[CM_UTF8_MAX + 1] = {0, 0, 0xC0, 0xE0, 0xF0};
    size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = len; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(mark[len] | c);
    return len;
}
