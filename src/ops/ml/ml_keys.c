/* ml_keys.c -- lists of labels or numbers as keys: where in a list is one?
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/ml/ml_keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

/* A key as what is hashed and compared: bytes. Floats that are equal have equal bytes. */
static cm_str key_bytes(cm_keys l, int64_t i, uint64_t *room)
{
    if (l.dtype == CM_STR)
        return ((const cm_str *)l.data)[i];
    if (cm_dtype_is_float(l.dtype)) {
        double x = cm_get_f64(l.dtype, l.data, i);
        x = isnan(x) ? (double)NAN : x == 0 ? 0 : x;
        memcpy(room, &x, sizeof x);
    } else {
        const int64_t x = l.data ? cm_get_i64(l.dtype, l.data, i) : i;
        memcpy(room, &x, sizeof x);
    }
    return (cm_str){(const char *)room, sizeof *room};
}

static int64_t *find(const cm_key_table *t, cm_str key)
{
    uint64_t i = cm_hash_bytes(key.p, key.n, 0) & t->mask, room;
    while (t->slots[i] && !cm_str_equal(key_bytes(t->keys, t->slots[i] - 1, &room), key))
        i = (i + 1) & t->mask;
    return &t->slots[i];
}

cm_status cm_key_table_build(cm_eval *e, cm_keys keys, cm_key_table *out)
{
    uint64_t n = 16, room;
    while (n < 2 * (uint64_t)keys.n)
        n *= 2;
    void *slots;
    CM_TRY(cm_eval_scratch(e, n, sizeof(int64_t), &slots));
    *out = (cm_key_table){keys, slots, n - 1};
    for (int64_t i = 0; i < keys.n; i++)
        *find(out, key_bytes(keys, i, &room)) = i + 1;
    return CM_OK;
}

int64_t cm_key_table_find(const cm_key_table *t, cm_keys of, int64_t i)
{
    uint64_t room;
    return *find(t, key_bytes(of, i, &room)) - 1;
}

typedef struct {
    int64_t number;
    cm_str text;
    int64_t place;
} keyed;

static int by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    const int text = cm_str_compare(x->text, y->text);
    return text ? text : (x->place > y->place) - (x->place < y->place);
}

cm_status cm_keys_sort(cm_eval *e, cm_keys keys, int64_t **places)
{
    keyed *order;
    CM_NEW_N(e->cx, e->cx->scratch, order, keys.n + 1, keyed);
    CM_NEW_N(e->cx, e->cx->scratch, *places, keys.n + 1, int64_t);
    for (int64_t i = 0; i < keys.n; i++) {
        order[i].place = i;
        if (keys.dtype == CM_STR)
            order[i].text = ((const cm_str *)keys.data)[i];
        else
            order[i].number = cm_get_i64(keys.dtype, keys.data, i);
    }
    qsort(order, (size_t)keys.n, sizeof *order, by_key);
    for (int64_t i = 0; i < keys.n; i++)
        (*places)[i] = order[i].place;
    return CM_OK;
}
