/* move.c -- operators that put elements into other places, as lists of strided pieces.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Strides are those of the tensors, so that every layout and every view is taken. */
#include "base/size.h"
#include "ops/move/borders.h"
#include "ops/problem.h"

#define FILL(name)                                                                                 \
    bool cm_problem_##name(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
FILL(transpose)
FILL(slice)
FILL(concat)
FILL(split)
FILL(repeat)
FILL(space)
FILL(view)
#undef FILL

/* Room for n pieces; the first is returned, NULL: out of memory. */
static cm_move_piece *pieces_of(cm_arena *arena, cm_problem *p, int n)
{
    cm_move_piece *list = cm_new_n(arena, n > 0 ? n : 1, cm_move_piece);
    p->as.move = (cm_move){.n_pieces = n, .pieces = list};
    return list;
}

/* One more axis of a piece; false: too many. */
static bool add_axis(cm_move_piece *m, int64_t size, int64_t from, int64_t to)
{
    if (size == 1)
        return true;
    if (m->rank == CM_MAX_RANK)
        return false;
    m->dims[m->rank] = size;
    m->from[m->rank] = from;
    m->to[m->rank] = to;
    m->rank++;
    return true;
}

static int axis_of(int64_t axis, int rank)
{
    return (int)(axis < 0 ? axis + rank : axis);
}

bool cm_problem_transpose(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    if (!cm_problem_wants(p, 0))
        return false;
    const cm_tensor *x = p->in[0], *y = p->out[0];
    cm_ints perm = cm_attr_ints(op, attr, "perm");
    cm_move_piece *m = pieces_of(arena, p, 1);
    if (!m)
        return false;
    for (int i = 0; i < y->rank; i++) {
        int k = perm.n ? axis_of(perm.v[i], x->rank) : x->rank - 1 - i;
        add_axis(m, y->dims[i], x->strides[k], y->strides[i]);
    }
    return true;
}

/* Each axis walks the input's from a place on by 1 or -1. */
static bool cut_evenly(cm_arena *arena, const cm_tensor *y, const int64_t *first,
                       const int64_t *steps, cm_move *m)
{
    cm_move_cut *cuts = cm_new_n(arena, y->rank > 0 ? y->rank : 1, cm_move_cut);
    struct cm_move_segment *all =
        cm_new_n(arena, y->rank > 0 ? y->rank : 1, struct cm_move_segment);
    if (!cuts || !all)
        return false;
    for (int i = 0; i < y->rank; i++) {
        if (y->dims[i] > 1 && steps[i] != 1 && steps[i] != -1)
            return true; /* none, then */
        all[i] = (struct cm_move_segment){0, y->dims[i], first[i], y->dims[i] > 1 ? steps[i] : 0};
        cuts[i] = (cm_move_cut){1, &all[i]};
    }
    m->cuts = cuts;
    m->constant = -1;
    return true;
}

bool cm_problem_slice(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    enum { DATA, STARTS, ENDS, AXES, STEPS };
    (void)op, (void)attr;
    if (!cm_problem_wants(p, 0))
        return false;
    for (int i = STARTS; i <= STEPS; i++)
        if (cm_problem_has(p, i) && !p->in[i]->data)
            return false;
    const cm_tensor *x = p->in[DATA], *y = p->out[0];
    int64_t from[CM_MAX_RANK], begin[CM_MAX_RANK] = {0}, steps[CM_MAX_RANK];
    int64_t n = cm_tensor_elems(p->in[STARTS]);
    cm_move_piece *m = pieces_of(arena, p, 1);
    if (!m)
        return false;
    for (int i = 0; i < x->rank; i++) {
        from[i] = x->strides[i];
        steps[i] = 1;
    }
    for (int64_t i = 0; i < n && cm_tensor_elems(y) > 0; i++) {
        int k = axis_of(cm_problem_has(p, AXES) ? cm_problem_int(p, AXES, i) : i, x->rank);
        int64_t step = cm_problem_has(p, STEPS) ? cm_problem_int(p, STEPS, i) : 1, first;
        cm_slice_length(x->dims[k], cm_problem_int(p, STARTS, i), cm_problem_int(p, ENDS, i), step,
                        &first);
        m->from_offset += first * x->strides[k];
        from[k] = y->dims[k] > 1 ? step * x->strides[k] : 0;
        begin[k] = first;
        steps[k] = step;
    }
    for (int i = 0; i < y->rank; i++)
        add_axis(m, y->dims[i], from[i], y->strides[i]);
    return cut_evenly(arena, y, begin, steps, &p->as.move);
}

/* All of `part`, which lies in `whole` from `at` on along an axis. */
static void add_part(cm_move_piece *m, const cm_tensor *part, const cm_tensor *whole, int axis,
                     int64_t at, bool to_whole)
{
    *(to_whole ? &m->to_offset : &m->from_offset) = at * whole->strides[axis];
    for (int i = 0; i < part->rank; i++)
        add_axis(m, part->dims[i], to_whole ? part->strides[i] : whole->strides[i],
                 to_whole ? whole->strides[i] : part->strides[i]);
}

bool cm_problem_concat(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    if (!cm_problem_wants(p, 0))
        return false;
    const cm_tensor *y = p->out[0];
    int axis = axis_of(cm_attr_int(op, attr, "axis"), y->rank), n = 0;
    int64_t at = 0;
    cm_move_piece *m = pieces_of(arena, p, p->n_in);
    if (!m)
        return false;
    for (int i = 0; i < p->n_in; i++) {
        if (!p->in[i])
            return false;
        if (cm_tensor_elems(p->in[i]) > 0) {
            m[n].input = i;
            add_part(&m[n++], p->in[i], y, axis, at, true);
        }
        at += p->in[i]->dims[axis];
    }
    p->as.move.n_pieces = n;
    return true;
}

bool cm_problem_split(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    const cm_tensor *x = p->in[0];
    int axis = axis_of(cm_attr_int(op, attr, "axis"), x->rank), n = 0;
    int64_t at = 0, parts = p->n_out;
    if (cm_problem_has(p, 1) && !p->in[1]->data)
        return false;
    if (cm_attr_has(op->attrs, attr, "num_outputs"))
        parts = cm_attr_int(op, attr, "num_outputs");
    int64_t part = cm_ceil_div(x->dims[axis], parts);
    cm_move_piece *m = pieces_of(arena, p, p->n_out);
    if (!m)
        return false;
    for (int i = 0; i < p->n_out; i++) {
        int64_t run = cm_problem_has(p, 1) ? cm_problem_int(p, 1, i)
                                           : cm_max_i64(0, cm_min_i64(part, x->dims[axis] - at));
        if (p->out[i] && cm_tensor_elems(p->out[i]) > 0) {
            m[n].output = i;
            add_part(&m[n++], p->out[i], x, axis, at, false);
        }
        at += run;
    }
    p->as.move.n_pieces = n;
    return true;
}

/* Tile and Expand. */
bool cm_problem_repeat(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)op, (void)attr;
    if (!cm_problem_wants(p, 0))
        return false;
    const cm_tensor *x = p->in[0], *y = p->out[0];
    bool empty = cm_tensor_elems(y) == 0;
    cm_move_piece *m = pieces_of(arena, p, empty ? 0 : 1);
    if (!m)
        return false;
    for (int i = 0; !empty && i < y->rank; i++) {
        int from = i - (y->rank - x->rank);
        int64_t size = from >= 0 ? x->dims[from] : 1;
        if (!add_axis(m, y->dims[i] / size, 0, size * y->strides[i]) ||
            (from >= 0 && !add_axis(m, size, x->strides[from], y->strides[i])))
            return false;
    }
    return true;
}

/* DepthToSpace and SpaceToDepth: a channel of the deep side is (row, column, c) of the block in mode
 * DCR and (c, row, column) in mode CRD. */
bool cm_problem_space(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    if (!cm_problem_wants(p, 0))
        return false;
    const cm_tensor *x = p->in[0], *y = p->out[0];
    bool to_space = op->id == CM_OP_DEPTH_TO_SPACE;
    bool crd = cm_str_equal(cm_attr_str(op, attr, "mode"), cm_str_of("CRD"));
    const cm_tensor *deep = to_space ? x : y, *wide = to_space ? y : x;
    int64_t b = cm_attr_int(op, attr, "blocksize"), c = wide->dims[1];
    const int64_t *d = deep->strides, *w = wide->strides;
    const int64_t dims[6] = {x->dims[0], c, deep->dims[2], b, deep->dims[3], b};
    const int64_t in_wide[6] = {w[0], w[1], b * w[2], w[2], b * w[3], w[3]};
    const int64_t in_deep[6] = {d[0], crd ? b * b * d[1] : d[1],
                                d[2], crd ? b * d[1] : b * c * d[1],
                                d[3], crd ? d[1] : c * d[1]};
    cm_move_piece *m = pieces_of(arena, p, 1);
    if (!m)
        return false;
    for (int i = 0; i < 6; i++)
        add_axis(m, dims[i], to_space ? in_deep[i] : in_wide[i],
                 to_space ? in_wide[i] : in_deep[i]);
    return true;
}

/* Reshape and its kin, where the runtime could not make a view of it: elements keep their order, so
 * axes of both sides are cut into common ones, from the innermost outwards. False where they cross. */
bool cm_problem_view(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)op, (void)attr;
    if (!cm_problem_wants(p, 0))
        return false;
    const cm_tensor *x = p->in[0], *y = p->out[0];
    bool empty = cm_tensor_elems(y) == 0;
    cm_move_piece *m = pieces_of(arena, p, empty ? 0 : 1);
    if (!m)
        return false;
    int i = x->rank - 1, o = y->rank - 1;
    int64_t in = 1, out = 1, from = 0, to = 0; /* what is left of an axis, and its stride */
    while (!empty) {
        for (; in == 1 && i >= 0; i--)
            in = x->dims[i], from = x->strides[i];
        for (; out == 1 && o >= 0; o--)
            out = y->dims[o], to = y->strides[o];
        if (in == 1 && out == 1)
            return true;
        int64_t both = cm_min_i64(in, out);
        if (in % both != 0 || out % both != 0 || !add_axis(m, both, from, to))
            return false;
        in /= both;
        out /= both;
        from *= both;
        to *= both;
    }
    return true;
}
