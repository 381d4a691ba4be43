/* ms_hash.c -- com.microsoft MurmurHash3 (x86, 32 bits) of each element, or of each string.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <string.h>

typedef struct {
    uint64_t present;
    int64_t positive, seed;
} hash_attr;

CM_ATTRS(ms_murmur_hash3, hash_attr, CM_ATTR_INT(hash_attr, positive, 1),
         CM_ATTR_INT(hash_attr, seed, 0))

static cm_status infer(cm_infer *f)
{
    const hash_attr *a = f->attr;
    CM_TRY(cm_infer_like(f, 0, 0));
    f->out[0].type.dtype = a->positive ? CM_U32 : CM_I32;
    return CM_OK;
}

static uint32_t rotate(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static uint32_t scramble(uint32_t k)
{
    return rotate(k * 0xcc9e2d51u, 15) * 0x1b873593u;
}

static uint32_t hash(const unsigned char *p, size_t n, uint32_t h)
{
    uint32_t tail = 0;
    size_t whole = n / 4 * 4;
    for (size_t i = 0; i < whole; i += 4) {
        uint32_t k =
            p[i] | (uint32_t)p[i + 1] << 8 | (uint32_t)p[i + 2] << 16 | (uint32_t)p[i + 3] << 24;
        h = rotate(h ^ scramble(k), 13) * 5 + 0xe6546b64u;
    }
    for (size_t i = n; i > whole; i--)
        tail = tail << 8 | p[i - 1];
    if (n > whole)
        h ^= scramble(tail);
    h ^= (uint32_t)n;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

static cm_status eval(cm_eval *e)
{
    const hash_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    uint32_t *y = cm_eval_out(e, 0)->data;
    int64_t n = cm_tensor_elems(x);
    size_t size = cm_dtype_size(x->dtype);
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *p = (const unsigned char *)x->data + (size_t)i * size;
        size_t bytes = size;
        if (x->dtype == CM_STR) {
            const cm_str *s = (const cm_str *)x->data + i;
            p = (const unsigned char *)s->p;
            bytes = s->n;
        }
        y[i] = hash(p, bytes, (uint32_t)a->seed);
    }
    return CM_OK;
}

const cm_family cm_family_ms_hash = {.name = "ms_hash", .infer = infer, .eval = eval};
