/* packing.c -- finds nests of loops in a list of places, checks them, and runs them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Places are read once, from end to end. Neighbours a constant distance apart in the plain form make a run;
 * runs of one shape a constant distance apart in both forms make a group, and so on, CM_NEST_DIMS deep. A
 * level keeps the group that is growing and hands it to the next level when something else comes. */
#include "plan/packing.h"

#include <string.h>

#include "base/size.h"

enum { MOST_NESTS = 1024 }; /* more than this is no regular packing */

typedef struct {
    cm_nest first;
    int64_t n, plain, packed; /* how many, and the distance between them */
} group;

typedef struct {
    group level[CM_NEST_DIMS];
    cm_nest *out;
    int n_out; /* MOST_NESTS + 1: too many */
} finder;

static void begin_group(group *g, const cm_nest *x)
{
    *g = (group){.first = *x, .n = 1};
}

/* Does x, of the same shape, come where the group's next one would? */
static bool continues(group *g, const cm_nest *x, int level)
{
    if (memcmp(g->first.dims, x->dims, (size_t)level * sizeof *x->dims) != 0)
        return false;
    if (g->n == 1) {
        g->plain = x->plain - g->first.plain;
        g->packed = x->packed - g->first.packed;
        return true;
    }
    return x->plain == g->first.plain + g->n * g->plain &&
           x->packed == g->first.packed + g->n * g->packed;
}

static void add(finder *f, int level, const cm_nest *x);

static void end_group(finder *f, int level)
{
    group *g = &f->level[level];
    if (!g->n)
        return;
    cm_nest x = g->first;
    x.dims[level].n = g->n;
    x.dims[level].plain = g->plain;
    x.dims[level].packed = g->packed;
    g->n = 0;
    add(f, level + 1, &x);
}

static void add(finder *f, int level, const cm_nest *x)
{
    if (level == CM_NEST_DIMS) {
        if (f->n_out < MOST_NESTS)
            f->out[f->n_out] = *x;
        if (f->n_out <= MOST_NESTS)
            f->n_out++;
        return;
    }
    group *g = &f->level[level];
    if (g->n && continues(g, x, level)) {
        g->n++;
        return;
    }
    end_group(f, level);
    begin_group(g, x);
}

/* Neighbours in the packed form, a constant distance apart in the plain one. */
static cm_nest first_run(const uint32_t *place, int64_t most)
{
    int64_t n = 1, step = most > 1 ? (int64_t)place[1] - (int64_t)place[0] : 0;
    while (n < most && place[n] && (int64_t)place[n] - (int64_t)place[n - 1] == step)
        n++;
    cm_nest run = {.plain = (int64_t)place[0] - 1};
    run.dims[0].n = n;
    if (n > 1) {
        run.dims[0].plain = step;
        run.dims[0].packed = 1;
    }
    return run;
}

cm_status cm_packing_find(cm_ctx *cx, cm_arena *arena, uint32_t elem_bytes, int64_t plain,
                          const uint32_t *place, int64_t packed, const cm_packing **out)
{
    finder f = {0};
    cm_packing *p;
    *out = NULL;
    CM_NEW(cx, arena, p, cm_packing);
    CM_NEW_N(cx, arena, f.out, MOST_NESTS, cm_nest);
    for (int64_t i = 0, n; i < packed && f.n_out <= MOST_NESTS; i += n) {
        n = 1;
        if (!place[i])
            continue;
        cm_nest run = first_run(place + i, packed - i);
        run.packed = i;
        n = run.dims[0].n;
        add(&f, 1, &run);
    }
    for (int level = 1; level < CM_NEST_DIMS; level++)
        end_group(&f, level);
    *p = (cm_packing){elem_bytes, plain, packed, f.n_out, f.out};
    if (f.n_out <= MOST_NESTS && cm_packing_is_sound(p))
        *out = p;
    return CM_OK;
}

/* The least and the most that `first + sum of i * step` takes; false: beyond what an int64 holds. */
static bool reaches(const cm_nest *n, bool packed, int64_t *least, int64_t *most)
{
    *least = *most = packed ? n->packed : n->plain;
    for (int d = 0; d < CM_NEST_DIMS; d++) {
        int64_t span, step = packed ? n->dims[d].packed : n->dims[d].plain;
        int64_t *end = step < 0 ? least : most;
        if (n->dims[d].n < 1 || !cm_mul_i64(n->dims[d].n - 1, step, &span) ||
            !cm_add_i64(*end, span, end))
            return false;
    }
    return true;
}

static bool count(const cm_nest *n, int64_t *total)
{
    int64_t all = 1;
    for (int d = 0; d < CM_NEST_DIMS; d++)
        if (!cm_mul_i64(all, n->dims[d].n, &all))
            return false;
    return cm_add_i64(*total, all, total);
}

bool cm_packing_is_sound(const cm_packing *p)
{
    int64_t total = 0, least, most;
    if (p->elem_bytes != 1 && p->elem_bytes != 2 && p->elem_bytes != 4)
        return false;
    for (int i = 0; i < p->n_nests; i++) {
        const cm_nest *n = &p->nests[i];
        if (!reaches(n, false, &least, &most) || least < 0 || most >= p->plain)
            return false;
        if (!reaches(n, true, &least, &most) || least < 0 || most >= p->packed)
            return false;
        if (!count(n, &total) || total > p->plain)
            return false;
    }
    return total == p->plain;
}

static void copy_run(uint32_t bytes, const unsigned char *from, int64_t from_step,
                     unsigned char *to, int64_t to_step, int64_t n)
{
    int64_t a = from_step * bytes, b = to_step * bytes;
    switch (bytes) { /* a copy of a size that is known is one instruction */
    case 1:
        for (int64_t i = 0; i < n; i++)
            to[i * b] = from[i * a];
        break;
    case 2:
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * b, from + i * a, 2);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * b, from + i * a, 4);
    }
}

/* One way or the other. */
typedef struct {
    const cm_packing *p;
    const cm_nest *n;
    bool undo;
} mover;

static void move(const mover *m, int d, const unsigned char *from, unsigned char *to)
{
    int64_t plain = m->n->dims[d].plain, packed = m->n->dims[d].packed, n = m->n->dims[d].n;
    int64_t from_step = m->undo ? packed : plain, to_step = m->undo ? plain : packed;
    if (d == 0) {
        copy_run(m->p->elem_bytes, from, from_step, to, to_step, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        move(m, d - 1, from + i * from_step * m->p->elem_bytes,
             to + i * to_step * m->p->elem_bytes);
}

static void move_all(const cm_packing *p, bool undo, const unsigned char *from, unsigned char *to)
{
    for (int i = 0; i < p->n_nests; i++) {
        const cm_nest *n = &p->nests[i];
        mover m = {p, n, undo};
        move(&m, CM_NEST_DIMS - 1, from + (undo ? n->packed : n->plain) * p->elem_bytes,
             to + (undo ? n->plain : n->packed) * p->elem_bytes);
    }
}

void cm_packing_undo(const cm_packing *p, const void *packed, void *plain)
{
    move_all(p, true, packed, plain);
}

void cm_packing_redo(const cm_packing *p, const void *plain, void *packed)
{
    move_all(p, false, plain, packed);
}
