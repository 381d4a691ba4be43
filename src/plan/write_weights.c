/* write_weights.c -- constants as a plan's weights section stores them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/write_weights.h"

#include <string.h>

#include "base/buf.h"
#include "base/size.h"
#include "plan/format.h"
#include "plan/plan.h"

/* Strings as constants: the end of each from the start of the characters, then the characters. */
static cm_status string_bytes(cm_ctx *cx, const cm_tensor *t, cm_buf *out)
{
    const cm_str *s = t->data;
    int64_t n = cm_tensor_elems(t);
    uint64_t end = 0;
    for (int64_t i = 0; i < n; i++)
        cm_buf_u64(out, end += s[i].n);
    for (int64_t i = 0; i < n; i++)
        cm_buf_bytes(out, s[i].p, s[i].n);
    return out->failed ? cm_fail_memory(cx) : CM_OK;
}

/* Call `fn` with the bytes that constant t is stored as. */
static cm_status with_bytes(cm_ctx *cx, const cm_tensor *t, cm_bytes_fn fn, void *arg)
{
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_status st = CM_OK;
    const void *p = t->data;
    size_t n = 0;
    if (t->dtype == CM_STR) {
        st = string_bytes(cx, t, &b);
        p = b.data;
        n = b.n;
    } else if (!cm_dtype_bytes(t->dtype, cm_tensor_elems(t), &n)) {
        st = cm_fail(cx, CM_ERR_MODEL, "a constant's size in bytes overflows");
    } else if (cm_dtype_is_sub_byte(t->dtype) && !t->packed) {
        cm_buf_zeros(&b, n);
        if (b.failed)
            st = cm_fail_memory(cx);
        else
            cm_pack_sub_byte(t->dtype, t->data, cm_tensor_elems(t), b.data);
        p = b.data;
    }
    if (st == CM_OK)
        st = fn(cx, arg, p, n);
    cm_buf_deinit(&b);
    return st;
}

typedef struct {
    uint64_t sum, bytes;
} content;

static cm_status content_of(cm_ctx *cx, void *arg, const void *p, size_t n)
{
    (void)cx;
    *(content *)arg = (content){cm_checksum(p, n), n};
    return CM_OK;
}

static bool same_bytes(const cm_tensor *a, const cm_tensor *b, uint64_t n)
{
    if (a == b || (a->data == b->data && a->dtype == b->dtype && a->packed == b->packed))
        return true;
    if (a->dtype == CM_STR || b->dtype == CM_STR || a->packed != b->packed)
        return false;
    return n == 0 || memcmp(a->data, b->data, n) == 0;
}

/* Open hashing on the checksum. */
cm_status cm_weights_place(cm_ctx *cx, cm_arena *arena, const cm_tensor *const *constants, int n,
                           cm_weight_place **out)
{
    size_t n_slots = 16;
    while (n_slots < 2 * (size_t)n)
        n_slots *= 2;
    uint32_t *slots;
    cm_weight_place *places;
    uint64_t *sums;
    CM_NEW_N(cx, arena, slots, n_slots, uint32_t);
    CM_NEW_N(cx, arena, sums, n, uint64_t);
    CM_NEW_N(cx, arena, places, n, cm_weight_place);
    uint64_t at = 0;
    for (int c = 0; c < n; c++) {
        content what;
        CM_TRY(with_bytes(cx, constants[c], content_of, &what));
        sums[c] = what.sum;
        size_t slot = what.sum & (n_slots - 1);
        for (; slots[slot]; slot = (slot + 1) & (n_slots - 1)) {
            uint32_t other = slots[slot] - 1;
            if (sums[other] == what.sum && places[other].bytes == what.bytes &&
                same_bytes(constants[other], constants[c], what.bytes))
                break;
        }
        if (slots[slot]) {
            places[c] = places[slots[slot] - 1];
            places[c].shared = true;
            continue;
        }
        slots[slot] = (uint32_t)c + 1;
        places[c] = (cm_weight_place){at, what.bytes, false};
        size_t next;
        if (!cm_add(at, what.bytes, &next) || !cm_align_up(next, CM_PLAN_CONSTANT_ALIGN, &next))
            return cm_fail(cx, CM_ERR_MODEL, "the constants' size in bytes overflows");
        at = next;
    }
    *out = places;
    return CM_OK;
}

cm_status cm_weights_walk(cm_ctx *cx, const cm_tensor *const *constants, int n,
                          const cm_weight_place *places, cm_bytes_fn fn, void *arg)
{
    static const unsigned char zeros[CM_PLAN_CONSTANT_ALIGN];
    for (int c = 0; c < n; c++) {
        if (places[c].shared)
            continue;
        CM_TRY(with_bytes(cx, constants[c], fn, arg));
        CM_TRY(fn(cx, arg, zeros, (size_t)(-places[c].bytes % CM_PLAN_CONSTANT_ALIGN)));
    }
    return CM_OK;
}
