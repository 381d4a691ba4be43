/* cast_string.h -- numbers to text and back, for Cast.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_CAST_STRING_H
#define CM_OPS_CAST_STRING_H

#include <locale.h>

#include "plan/dtype.h"

/* Between begin and end the calling thread writes numbers the C locale's way. */
typedef struct {
    locale_t c, before;
} cm_text;
bool cm_text_begin(cm_text *t); /* false: out of memory */
void cm_text_end(cm_text *t);

enum { CM_TEXT_MAX = 48 }; /* room for any number and the terminator */
/* Write the element; returns its length. */
int cm_text_print(cm_dtype dtype, const void *data, int64_t index, char *out, size_t n);

typedef struct {
    bool is_int;
    int64_t i; /* modulo 2^64 */
    double f;
} cm_number;
/* Read a number meant for `dtype`; false when the text is none. */
bool cm_text_parse(cm_dtype dtype, const char *text, cm_number *out);

#endif
