/* wire.c -- varints, tags and lengths, all checked against the end of the message.
 * SPDX-License-Identifier: Apache-2.0 */
#include "onnx/wire.h"

#include <string.h>

bool pb_read_varint(pb_reader *r, uint64_t *out)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (r->p == r->end)
            return false;
        unsigned char c = *r->p++;
        if (shift == 63 && c > 1)
            return false;
        v |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80)) {
            *out = v;
            return true;
        }
    }
    return false;
}

uint32_t pb_load32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t pb_load64(const unsigned char *p)
{
    return (uint64_t)pb_load32(p) | (uint64_t)pb_load32(p + 4) << 32;
}

static cm_status truncated(cm_ctx *cx)
{
    return cm_fail(cx, CM_ERR_MODEL, "the file is truncated or is not an ONNX file");
}

static cm_status read_payload(cm_ctx *cx, pb_reader *r, pb_item *out)
{
    size_t left = (size_t)(r->end - r->p);
    uint64_t n;
    switch (out->wire) {
    case PB_VARINT:
        return pb_read_varint(r, &out->bits) ? CM_OK : truncated(cx);
    case PB_FIXED64:
        if (left < 8)
            return truncated(cx);
        out->bits = pb_load64(r->p);
        r->p += 8;
        return CM_OK;
    case PB_FIXED32:
        if (left < 4)
            return truncated(cx);
        out->bits = pb_load32(r->p);
        r->p += 4;
        return CM_OK;
    case PB_BYTES:
        if (!pb_read_varint(r, &n) || n > (size_t)(r->end - r->p))
            return truncated(cx);
        out->bytes = (cm_str){(const char *)r->p, (size_t)n};
        r->p += n;
        return CM_OK;
    }
    return truncated(cx);
}

cm_status pb_read_item(cm_ctx *cx, pb_reader *r, pb_item *out)
{
    uint64_t tag;
    if (!pb_read_varint(r, &tag))
        return truncated(cx);
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return cm_fail(cx, CM_ERR_MODEL, "field number %llu in the file: it is not an ONNX file",
                       (unsigned long long)(tag >> 3));
    unsigned wire = (unsigned)(tag & 7);
    if (wire != PB_VARINT && wire != PB_FIXED64 && wire != PB_BYTES && wire != PB_FIXED32)
        return cm_fail(cx, CM_ERR_MODEL, "wire type %u in the file: it is not an ONNX file", wire);
    *out = (pb_item){.number = (uint32_t)(tag >> 3), .wire = (pb_wire)wire};
    return read_payload(cx, r, out);
}

void pb_write_varint(cm_buf *b, uint64_t v)
{
    while (v >= 0x80) {
        cm_buf_u8(b, (uint8_t)(v | 0x80));
        v >>= 7;
    }
    cm_buf_u8(b, (uint8_t)v);
}

static void write_tag(cm_buf *b, uint32_t number, pb_wire wire)
{
    pb_write_varint(b, (uint64_t)number << 3 | wire);
}

void pb_write_int(cm_buf *b, uint32_t number, int64_t v)
{
    write_tag(b, number, PB_VARINT);
    pb_write_varint(b, (uint64_t)v);
}

void pb_write_float(cm_buf *b, uint32_t number, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    write_tag(b, number, PB_FIXED32);
    cm_buf_u32(b, bits);
}

void pb_write_bytes(cm_buf *b, uint32_t number, const void *p, size_t n)
{
    write_tag(b, number, PB_BYTES);
    pb_write_varint(b, n);
    if (n)
        cm_buf_bytes(b, p, n);
}

void pb_write_text(cm_buf *b, uint32_t number, const char *s)
{
    pb_write_bytes(b, number, s, strlen(s));
}
