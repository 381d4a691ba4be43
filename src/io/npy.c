/* npy.c -- tensors to and from NumPy's npy format.
 * SPDX-License-Identifier: Apache-2.0 */
#include "io/io.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/utf8.h"
#include "io/npy_header.h"

static void swap_bytes(unsigned char *p, size_t n_words, size_t word)
{
    for (size_t i = 0; i < n_words; i++, p += word)
        for (size_t a = 0, b = word - 1; a < b; a++, b--) {
            unsigned char c = p[a];
            p[a] = p[b];
            p[b] = c;
        }
}

/* The element of a column-major array at each row-major place. */
static void to_row_major(const cm_npy_header *h, const unsigned char *src, unsigned char *dst,
                         size_t item)
{
    int64_t stride[CM_MAX_RANK], index[CM_MAX_RANK] = {0}, s = 1, from = 0;
    for (int a = 0; a < h->rank; a++) {
        stride[a] = s;
        s *= h->dims[a];
    }
    for (int64_t i = 0; i < h->elems; i++) {
        memcpy(dst + (size_t)i * item, src + (size_t)from * item, item);
        for (int a = h->rank - 1; a >= 0; a--) {
            from += stride[a];
            if (++index[a] < h->dims[a])
                break;
            from -= stride[a] * h->dims[a];
            index[a] = 0;
        }
    }
}

static cm_status read_strings(cm_ctx *cx, cm_arena *arena, const cm_npy_header *h,
                              const unsigned char *data, cm_str *out)
{
    const size_t unit = h->kind == 'U' ? 4 : 1;
    for (int64_t i = 0; i < h->elems; i++) {
        const unsigned char *p = data + (size_t)i * h->item_bytes;
        size_t n = h->item_bytes / unit;
        static const unsigned char zero[4];
        while (n > 0 && memcmp(p + (n - 1) * unit, zero, unit) == 0)
            n--;
        char *s = cm_arena_alloc_n(arena, n * unit + 1, 1, 1, 0);
        if (!s)
            return cm_fail_memory(cx);
        size_t used = 0;
        if (unit == 1) {
            memcpy(s, p, n);
            used = n;
        }
        for (size_t k = 0; unit == 4 && k < n; k++) {
            uint32_t c;
            memcpy(&c, p + k * 4, 4);
            if (h->swap)
                c = __builtin_bswap32(c);
            if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
                return cm_fail(cx, CM_ERR_DATA, "npy: string %lld holds no character: U+%X",
                               (long long)i, (unsigned)c);
            used += cm_utf8_put(c, s + used);
        }
        s[used] = '\0';
        out[i] = (cm_str){s, used};
    }
    return CM_OK;
}

/* Elements that are not strings, from `data` to `dst`, both item_bytes each. */
static void read_items(const cm_npy_header *h, const unsigned char *data, unsigned char *dst)
{
    if (h->fortran && h->rank > 1)
        to_row_major(h, data, dst, h->item_bytes);
    else if (h->data_bytes)
        memcpy(dst, data, h->data_bytes);
    if (h->swap && h->item_bytes > 1) {
        size_t word = h->kind == 'c' ? h->item_bytes / 2 : h->item_bytes;
        swap_bytes(dst, h->data_bytes / word, word);
    }
    if (h->dtype == CM_BOOL)
        for (size_t i = 0; i < h->data_bytes; i++)
            dst[i] = dst[i] != 0;
}

cm_status cm_npy_read(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n, cm_tensor *out)
{
    cm_npy_header h;
    CM_TRY(cm_npy_header_read(cx, bytes, n, &h));
    if (h.data_bytes > n - h.header_bytes)
        return cm_fail(cx, CM_ERR_DATA, "npy file ends early: %zu bytes of data, wanted %zu",
                       n - h.header_bytes, h.data_bytes);
    const unsigned char *data = (const unsigned char *)bytes + h.header_bytes;
    cm_tensor t = {0};
    if (!cm_tensor_shape(&t, h.dtype, h.rank, h.dims) || !cm_tensor_bytes(&t, &t.capacity_bytes))
        return cm_fail(cx, CM_ERR_DATA, "npy header: the shape is too large");
    if (h.dtype == CM_STR && h.item_bytes == 0 && h.elems > 1 << 20)
        return cm_fail(cx, CM_ERR_DATA, "npy: %lld empty strings, wanted at most %d",
                       (long long)h.elems, 1 << 20);
    t.data = cm_arena_alloc_n(arena, t.capacity_bytes ? t.capacity_bytes : 1, 1, 64, 0);
    if (!t.data)
        return cm_fail_memory(cx);
    if (h.dtype != CM_STR) {
        read_items(&h, data, t.data);
        if (cm_dtype_is_sub_byte(h.dtype)) {
            /* The file may hold any byte; ours holds the code or the sign-extended integer. */
            unsigned char *p = t.data;
            const unsigned bits = (unsigned)cm_dtype_get(h.dtype)->bits, mask = (1u << bits) - 1;
            const bool sign = h.dtype == CM_I4 || h.dtype == CM_I2;
            for (int64_t i = 0; i < h.elems; i++) {
                unsigned v = p[i] & mask;
                p[i] = (unsigned char)(sign && v >> (bits - 1) ? v | (0xFFu & ~mask) : v);
            }
        }
    } else if (h.fortran && h.rank > 1) {
        unsigned char *rows = cm_arena_alloc_n(arena, h.data_bytes + 1, 1, 16, 0);
        if (!rows)
            return cm_fail_memory(cx);
        to_row_major(&h, data, rows, h.item_bytes);
        CM_TRY(read_strings(cx, arena, &h, rows, t.data));
    } else {
        CM_TRY(read_strings(cx, arena, &h, data, t.data));
    }
    *out = t;
    return CM_OK;
}

static bool is_codes(cm_dtype t)
{
    return t == CM_U8 || t == CM_I8 || t == CM_F8E5M2 || t == CM_U16 || t == CM_BF16;
}

bool cm_npy_view(cm_tensor *t, cm_dtype wanted)
{
    if (t->dtype == wanted)
        return true;
    if (!is_codes(t->dtype) || wanted == CM_STR || wanted == CM_BOOL ||
        cm_dtype_size(wanted) != cm_dtype_size(t->dtype))
        return false;
    if (cm_dtype_is_sub_byte(wanted)) {
        const unsigned bits = (unsigned)cm_dtype_get(wanted)->bits, mask = (1u << bits) - 1;
        const bool sign = wanted == CM_I4 || wanted == CM_I2;
        unsigned char *p = t->data;
        for (int64_t i = 0, n = cm_tensor_elems(t); i < n; i++) {
            unsigned v = p[i] & mask;
            p[i] = (unsigned char)(sign && v >> (bits - 1) ? v | (0xFFu & ~mask) : v);
        }
    }
    t->dtype = wanted;
    return true;
}

/* Longest string in characters, or in bytes when one is not UTF-8 (*utf8 false). */
static size_t longest_string(const cm_str *s, int64_t n, bool *utf8)
{
    size_t chars = 1, bytes = 1;
    *utf8 = true;
    for (int64_t i = 0; i < n; i++) {
        size_t k = 0;
        if (s[i].n > bytes)
            bytes = s[i].n;
        for (size_t at = 0; *utf8 && at < s[i].n; k++) {
            uint32_t c;
            size_t len = cm_utf8_get(s[i].p + at, s[i].n - at, &c);
            if (len == 0)
                *utf8 = false;
            at += len;
        }
        if (k > chars)
            chars = k;
    }
    return *utf8 ? chars : bytes;
}

static void write_strings(const cm_str *s, int64_t n, size_t longest, bool utf8, cm_buf *out)
{
    for (int64_t i = 0; i < n; i++) {
        size_t k = 0;
        if (!utf8) {
            cm_buf_bytes(out, s[i].p, s[i].n);
            cm_buf_zeros(out, longest - s[i].n);
            continue;
        }
        for (size_t at = 0; at < s[i].n; k++) {
            uint32_t c = 0;
            at += cm_utf8_get(s[i].p + at, s[i].n - at, &c);
            cm_buf_u32(out, c);
        }
        cm_buf_zeros(out, (longest - k) * 4);
    }
}

static void write_header(const cm_tensor *t, const char *descr, cm_buf *out)
{
    char dict[128 + 24 * CM_MAX_RANK];
    int at =
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < t->rank; i++)
        at += snprintf(dict + at, sizeof dict - (size_t)at, "%lld%s", (long long)t->dims[i],
                       t->rank == 1      ? ","
                       : i + 1 < t->rank ? ", "
                                         : "");
    at += snprintf(dict + at, sizeof dict - (size_t)at, "), }");
    /* The data begins at a multiple of 64; the head ends in a newline. */
    int length = (10 + at + 1 + 63) / 64 * 64 - 10;
    cm_buf_bytes(out, "\x93NUMPY\x01\x00", 8);
    cm_buf_u8(out, (uint8_t)(length & 0xFF));
    cm_buf_u8(out, (uint8_t)(length >> 8));
    cm_buf_bytes(out, dict, (size_t)at);
    for (int i = at; i < length - 1; i++)
        cm_buf_u8(out, ' ');
    cm_buf_u8(out, '\n');
}

static const char *descr_of(cm_dtype dtype)
{
    switch (dtype) {
    case CM_F16:
        return "<f2";
    case CM_F32:
        return "<f4";
    case CM_F64:
        return "<f8";
    case CM_I8:
        return "|i1";
    case CM_I16:
        return "<i2";
    case CM_I32:
        return "<i4";
    case CM_I64:
        return "<i8";
    case CM_U8:
        return "|u1";
    case CM_U16:
        return "<u2";
    case CM_U32:
        return "<u4";
    case CM_U64:
        return "<u8";
    case CM_C64:
        return "<c8";
    case CM_C128:
        return "<c16";
    case CM_BOOL:
        return "|b1";
    case CM_BF16:
        return "<V2";
    default:
        return "|V1";
    }
}

cm_status cm_npy_write(cm_ctx *cx, const cm_tensor *t, cm_buf *out)
{
    const int64_t n = cm_tensor_elems(t);
    const size_t item = cm_dtype_size(t->dtype), bytes = (size_t)n * item;
    const void *data = t->data;
    void *dense = NULL;
    if (n > 0 && (t->packed || !cm_tensor_is_dense(t))) {
        dense = cm_alloc(cx->allocator, bytes, 64);
        if (!dense)
            return cm_fail_memory(cx);
        if (t->packed)
            cm_unpack_sub_byte(t->dtype, t->data, n, dense);
        else
            cm_tensor_copy_dense(t, dense);
        data = dense;
    }
    if (t->dtype == CM_STR) {
        char descr[32];
        bool utf8;
        size_t longest = longest_string(data, n, &utf8);
        snprintf(descr, sizeof descr, utf8 ? "<U%zu" : "|S%zu", longest);
        write_header(t, descr, out);
        write_strings(data, n, longest, utf8, out);
    } else {
        write_header(t, descr_of(t->dtype), out);
        cm_buf_bytes(out, data, bytes);
    }
    if (dense)
        cm_release(cx->allocator, dense, bytes);
    return out->failed ? cm_fail_memory(cx) : CM_OK;
}
