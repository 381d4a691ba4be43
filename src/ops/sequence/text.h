/* text.h -- UTF-8 text for the operators on strings.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_TEXT_H
#define CM_OPS_TEXT_H

#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/* The code point at s.p[at], its length in *n. A byte that begins no valid sequence stands for
 * itself: *n is 1 and the result is 0xDC00 + the byte, which no valid text holds. */
uint32_t cm_text_get(cm_str s, size_t at, size_t *n);
/* `s` with every letter changed, letter by letter, with no locale: `upper` or lower case. False when
 * out of memory. */
bool cm_text_case(cm_arena *arena, cm_str s, bool upper, cm_str *out);
bool cm_text_is_space(uint32_t c); /* white space, by Unicode */

#endif
