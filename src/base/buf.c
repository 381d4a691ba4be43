/* buf.c -- growable bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"

void cm_buf_init(cm_buf *b, const cm_allocator *allocator)
{
    *b = (cm_buf){.allocator = allocator};
}

void cm_buf_deinit(cm_buf *b)
{
    cm_release(b->allocator, b->data, b->cap);
    cm_buf_init(b, b->allocator);
}

/* Room for `n` more bytes, or NULL. */
static unsigned char *reserve(cm_buf *b, size_t n)
{
    size_t need;
    if (b->failed || !cm_add(b->n, n, &need)) {
        b->failed = true;
        return NULL;
    }
    if (need > b->cap) {
        size_t cap = b->cap ? b->cap : 256;
        while (cap < need)
            cap = cap > need / 2 ? need : cap * 2;
        if (cap < b->cap + b->cap / 2)
            cap = b->cap + b->cap / 2;
        unsigned char *p = cm_alloc(b->allocator, cap, 64);
        if (!p) {
            b->failed = true;
            return NULL;
        }
        if (b->n)
            memcpy(p, b->data, b->n);
        cm_release(b->allocator, b->data, b->cap);
        b->data = p;
        b->cap = cap;
    }
    return b->data ? b->data + b->n : NULL; /* nothing wanted of a buffer that has nothing */
}

void cm_buf_bytes(cm_buf *b, const void *p, size_t n)
{
    unsigned char *to = reserve(b, n);
    if (to && n) {
        memcpy(to, p, n);
        b->n += n;
    }
}

void cm_buf_zeros(cm_buf *b, size_t n)
{
    unsigned char *to = reserve(b, n);
    if (to && n) {
        memset(to, 0, n);
        b->n += n;
    }
}

void cm_buf_align(cm_buf *b, size_t align)
{
    size_t to;
    if (cm_align_up(b->n, align, &to))
        cm_buf_zeros(b, to - b->n);
    else
        b->failed = true;
}

void cm_buf_u8(cm_buf *b, uint8_t v)
{
    cm_buf_bytes(b, &v, 1);
}

void cm_buf_u32(cm_buf *b, uint32_t v)
{
    cm_buf_bytes(b, &v, 4);
}

void cm_buf_u64(cm_buf *b, uint64_t v)
{
    cm_buf_bytes(b, &v, 8);
}

void cm_buf_str(cm_buf *b, const char *s)
{
    cm_buf_bytes(b, s, strlen(s));
}

void cm_buf_printf(cm_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    unsigned char *to = n < 0 ? NULL : reserve(b, (size_t)n + 1);
    if (to) {
        vsnprintf((char *)to, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    } else {
        b->failed = true;
    }
    va_end(again);
}

const char *cm_buf_text(cm_buf *b)
{
    unsigned char *end = reserve(b, 1);
    if (!end)
        return "";
    *end = 0;
    return (const char *)b->data;
}
