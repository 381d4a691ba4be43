/* move.c -- MOVE: strided pieces, copied by copy.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cpu/copy.h"
#include "cpu/cpu.h"

/* Pieces that are made ready at a time: their sizes stand on the stack. */
enum { GROUP = 12, THREAD_BYTES = 64 * 1024, PIECE_NS = 40 };

static cm_dtype dtype_of(const cm_problem *p)
{
    return p->in[0]->dtype;
}

static const char *reject(const cm_problem *p)
{
    if (dtype_of(p) == CM_STR)
        return "strings are not plain memory";
    if (cm_dtype_is_sub_byte(dtype_of(p)))
        return "elements smaller than a byte";
    return NULL;
}

static void make_ready(cm_copy *c, const cm_problem *p, const cm_move_piece *m, const void *from,
                       void *to)
{
    size_t size = cm_dtype_size(dtype_of(p));
    if (m->input >= 0)
        from = (const char *)from + m->from_offset * (int64_t)size;
    cm_copy_init(c, p->target.level, size, m->rank, m->dims, from, m->from,
                 (char *)to + m->to_offset * (int64_t)size, m->to);
}

/* Bytes per nanosecond, relative to a plain copy. Measured, rounded. */
static double pace(const cm_copy *c)
{
    switch (c->kind) {
    case CM_COPY_RUNS:
        return c->cols * (int64_t)c->elem_bytes >= 64 ? 1 : 0.5;
    case CM_COPY_TRANSPOSE:
        return 0.6;
    case CM_COPY_FILL:
        return c->cols >= 16 ? 1 : 0.4;
    default:
        return 0.05 * (double)c->elem_bytes;
    }
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    double ns = 20, bytes = 0;
    for (int i = 0; i < p->as.move.n_pieces; i++) {
        const cm_move_piece *m = &p->as.move.pieces[i];
        cm_copy c;
        cm_copy_init(&c, p->target.level, cm_dtype_size(dtype_of(p)), m->rank, m->dims, p, m->from,
                     (void *)p, m->to);
        if (c.kind == CM_COPY_NONE)
            continue;
        double moved = 2 * (double)c.units * (double)c.unit_bytes;
        ns += PIECE_NS + moved / (cm_cpu_bytes_per_ns(&p->target) * pace(&c));
        bytes += moved;
    }
    return ns / cm_cpu_speedup(p, bytes / (2 * THREAD_BYTES));
}

/* Some pieces at once: their units are numbered through. */
typedef struct {
    int n;
    int64_t first[GROUP + 1];
    cm_copy copies[GROUP];
} group;

static void run_units(void *arg, int64_t begin, int64_t end)
{
    const group *g = arg;
    for (int i = 0; i < g->n; i++) {
        int64_t from = cm_max_i64(begin, g->first[i]), to = cm_min_i64(end, g->first[i + 1]);
        if (from < to)
            cm_copy_units(&g->copies[i], from - g->first[i], to - g->first[i]);
    }
}

static void run_group(const cm_run *r, const cm_move_piece *m, int n)
{
    group g;
    int64_t bytes = 0;
    g.n = n;
    g.first[0] = 0;
    for (int i = 0; i < n; i++) {
        const void *from = m[i].input < 0 ? r->p->as.move.fill : r->in[m[i].input];
        make_ready(&g.copies[i], r->p, &m[i], from, r->out[m[i].output]);
        const cm_copy *c = &g.copies[i];
        g.first[i + 1] = g.first[i] + c->units;
        bytes += c->kind == CM_COPY_NONE ? 0 : c->units * c->unit_bytes;
    }
    int64_t units = g.first[n];
    if (bytes < 2 * THREAD_BYTES)
        run_units(&g, 0, units);
    else
        cm_parallel(r->threads, units, cm_ceil_div(units * THREAD_BYTES, bytes), run_units, &g);
}

static cm_status run(const cm_run *r)
{
    const cm_move *m = &r->p->as.move;
    for (int i = 0; i < m->n_pieces; i += GROUP)
        run_group(r, m->pieces + i, m->n_pieces - i < GROUP ? m->n_pieces - i : GROUP);
    return CM_OK;
}

static const cm_tactic rows[] = {
    {.name = "move_pieces", .level = CM_ISA_GENERIC, .reject = reject, .cost = cost, .run = run},
};

const cm_cpu_table cm_cpu_move = {rows, CM_COUNT(rows)};
