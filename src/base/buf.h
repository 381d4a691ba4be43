/* buf.h -- a growable run of bytes, for writers and printers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Errors are sticky: after a failed append `failed` is set and further appends do nothing, so a
 * writer checks once at the end. */
#ifndef CM_BASE_BUF_H
#define CM_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

typedef struct cm_buf {
    const cm_allocator *allocator;
    unsigned char *data;
    size_t n, cap;
    bool failed;
} cm_buf;

void cm_buf_init(cm_buf *b, const cm_allocator *allocator);
void cm_buf_deinit(cm_buf *b);
void cm_buf_bytes(cm_buf *b, const void *p, size_t n);
void cm_buf_zeros(cm_buf *b, size_t n);
void cm_buf_align(cm_buf *b, size_t align); /* pad with zeros */
void cm_buf_u8(cm_buf *b, uint8_t v);
void cm_buf_u32(cm_buf *b, uint32_t v); /* little-endian */
void cm_buf_u64(cm_buf *b, uint64_t v);
void cm_buf_str(cm_buf *b, const char *s); /* the characters, no terminator */
void cm_buf_printf(cm_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The text so far with a terminator after it (not counted in n), or "" when failed. */
const char *cm_buf_text(cm_buf *b);

#endif
