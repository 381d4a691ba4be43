/* utf8.h -- one character of UTF-8 text, to and from its code point.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_BASE_UTF8_H
#define CM_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum { CM_UTF8_MAX = 4 }; /* bytes of a character */

/* Bytes of the character at p, of which n > 0 are there, and its code point in *c. 0: these bytes begin
 * no character (overlong forms and surrogates are none). */
size_t cm_utf8_get(const char *p, size_t n, uint32_t *c);
/* Writes a code point up to U+10FFFF; the bytes written. */
size_t cm_utf8_put(uint32_t c, char *out);

#endif
