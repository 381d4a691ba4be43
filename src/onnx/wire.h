/* wire.h -- the protobuf wire format: fields with a number and a payload, read and written.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Knows nothing of ONNX. Reading never copies: bytes are views into the message. Groups (wire types
 * 3 and 4) and reserved wire types are refused. */
#ifndef CM_ONNX_WIRE_H
#define CM_ONNX_WIRE_H

#include "base/buf.h"
#include "base/status.h"
#include "base/str.h"

typedef enum { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 } pb_wire;

/* What is left to read of a message. */
typedef struct pb_reader {
    const unsigned char *p, *end;
} pb_reader;

typedef struct pb_item {
    uint32_t number; /* of the field, >= 1 */
    pb_wire wire;
    uint64_t bits; /* VARINT, FIXED64, FIXED32 */
    cm_str bytes;  /* BYTES */
} pb_item;

static inline pb_reader pb_reader_of(cm_str s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    return (pb_reader){p, p ? p + s.n : p};
}

/* The next varint. False: it runs past the end or is longer than 64 bits. */
bool pb_read_varint(pb_reader *r, uint64_t *out);
/* The next field; r must not be at its end. CM_ERR_MODEL when the bytes are no field. */
cm_status pb_read_item(cm_ctx *cx, pb_reader *r, pb_item *out) CM_MUST_USE;
uint32_t pb_load32(const unsigned char *p); /* little-endian, any alignment */
uint64_t pb_load64(const unsigned char *p);

/* Writing. A message inside a message is written to a buffer of its own first. */
void pb_write_varint(cm_buf *b, uint64_t v);
void pb_write_int(cm_buf *b, uint32_t number, int64_t v);
void pb_write_float(cm_buf *b, uint32_t number, float v);
void pb_write_bytes(cm_buf *b, uint32_t number, const void *p, size_t n);
void pb_write_text(cm_buf *b, uint32_t number, const char *s);

#endif
