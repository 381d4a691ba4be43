/* problem_set.c -- an open hash table; signatures are hashes already.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tune/problem_set.h"

/* Where the signature is, or would go. Slots are never full. */
static size_t slot_of(const uint64_t *slots, size_t n, uint64_t signature)
{
    size_t i = signature & (n - 1);
    while (slots[i] && slots[i] != signature)
        i = (i + 1) & (n - 1);
    return i;
}

/* 0 marks a free slot. */
static uint64_t not_zero(uint64_t signature)
{
    return signature ? signature : 1;
}

bool cm_problem_in(const cm_problem_set *s, uint64_t signature)
{
    signature = not_zero(signature);
    return s->n_slots && s->slots[slot_of(s->slots, s->n_slots, signature)] == signature;
}

static cm_status grow(cm_ctx *cx, cm_problem_set *s)
{
    size_t n = s->n_slots ? 2 * s->n_slots : 256;
    uint64_t *slots;
    CM_NEW_N(cx, cx->arena, slots, n, uint64_t);
    for (size_t i = 0; i < s->n_slots; i++)
        if (s->slots[i])
            slots[slot_of(slots, n, s->slots[i])] = s->slots[i];
    s->slots = slots;
    s->n_slots = n;
    return CM_OK;
}

cm_status cm_problem_add(cm_ctx *cx, cm_problem_set *s, uint64_t signature)
{
    if (cm_problem_in(s, signature))
        return CM_OK;
    if (2 * (size_t)(s->n + 1) > s->n_slots)
        CM_TRY(grow(cx, s));
    signature = not_zero(signature);
    s->slots[slot_of(s->slots, s->n_slots, signature)] = signature;
    s->n++;
    return CM_OK;
}
