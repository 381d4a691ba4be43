/* move_pad.c -- Pad and CenterCropPad as strided pieces.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each axis of the output is cut into segments that walk the input by a constant step or are the constant;
 * a piece is one segment of each axis. Where a segment is the constant, the axes inside of it are not
 * cut. */
#include "base/size.h"
#include "ops/move/borders.h"
#include "ops/problem.h"

bool cm_problem_pad(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

enum { MOST_PIECES = 256, MOST_SEGMENTS = 32 };

typedef struct cm_move_segment segment;

typedef struct {
    const cm_tensor *x, *y;
    cm_move_cut *cuts;
    cm_move_piece *pieces; /* NULL: only counted */
    int n;
    int value; /* input that holds the constant, -1: zero */
} pad_job;

/* The segments of an axis; false: too many. Costs nothing by element: sizes come from files. */
static bool cut_axis(cm_pad_mode mode, int64_t size, int64_t out, int64_t before, int64_t after,
                     segment *all, int *n)
{
    int64_t first = cm_max_i64(0, -before), start = cm_max_i64(0, before);
    int64_t left = size - first - cm_max_i64(0, -after);
    *n = 0;
    for (int64_t i = 0, end; i < out; i = end) {
        if (*n == MOST_SEGMENTS)
            return false;
        int64_t last = cm_pad_straight(mode, i - start, left);
        int64_t from = cm_pad_source(mode, i - start, left);
        end = last < out - 1 - start ? start + last + 1 : out;
        all[(*n)++] = (segment){
            .at = i,
            .n = end - i,
            .from = from < 0 ? -1 : first + from,
            .step = end - i > 1 ? cm_pad_source(mode, i + 1 - start, left) - from : 0,
        };
    }
    return true;
}

static void add_piece(pad_job *j, int depth, const segment *const *chosen, bool constant)
{
    if (!j->pieces || j->n >= MOST_PIECES) {
        j->n++;
        return;
    }
    cm_move_piece *m = &j->pieces[j->n++];
    *m = (cm_move_piece){.input = constant ? j->value : 0};
    for (int d = 0; d < j->y->rank; d++) {
        int64_t n = j->y->dims[d], stride = j->y->strides[d], from = 0;
        if (d < depth) {
            n = chosen[d]->n;
            m->to_offset += chosen[d]->at * stride;
            if (!constant) {
                m->from_offset += chosen[d]->from * j->x->strides[d];
                from = chosen[d]->step * j->x->strides[d];
            }
        }
        if (n == 1)
            continue;
        m->dims[m->rank] = n;
        m->from[m->rank] = from;
        m->to[m->rank++] = stride;
    }
}

static void walk(pad_job *j, int depth, const segment **chosen)
{
    if (depth == j->y->rank) {
        add_piece(j, depth, chosen, false);
        return;
    }
    for (int i = 0; i < j->cuts[depth].n && j->n <= MOST_PIECES; i++) {
        chosen[depth] = &j->cuts[depth].segments[i];
        if (chosen[depth]->from < 0)
            add_piece(j, depth + 1, chosen, true);
        else
            walk(j, depth + 1, chosen);
    }
}

/* How much each axis gets before and after it. */
static bool read_pads(const cm_op *op, const cm_problem *p, int64_t *before, int64_t *after)
{
    const cm_tensor *x = p->in[0], *y = p->out[0];
    if (op->id == CM_OP_CENTER_CROP_PAD) {
        for (int k = 0; k < x->rank; k++) {
            int64_t more = y->dims[k] - x->dims[k];
            before[k] = more > 0 ? more / 2 : -(-more / 2);
            after[k] = more - before[k];
        }
        return true;
    }
    if (!p->in[1]->data || (cm_problem_has(p, 3) && !p->in[3]->data))
        return false;
    int64_t n = cm_tensor_elems(p->in[1]) / 2;
    for (int64_t i = 0; i < n; i++) {
        int64_t k = cm_problem_has(p, 3) ? cm_problem_int(p, 3, i) : i;
        k += k < 0 ? x->rank : 0;
        before[k] = cm_problem_int(p, 1, i);
        after[k] = cm_problem_int(p, 1, n + i);
    }
    return true;
}

bool cm_problem_pad(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    int64_t before[CM_MAX_RANK] = {0}, after[CM_MAX_RANK] = {0};
    const segment *chosen[CM_MAX_RANK];
    bool crop = op->id == CM_OP_CENTER_CROP_PAD;
    if (!cm_problem_wants(p, 0) || !read_pads(op, p, before, after))
        return false;
    const cm_tensor *x = p->in[0], *y = p->out[0];
    cm_pad_mode mode = crop ? CM_PAD_CONSTANT : cm_pad_mode_of(cm_attr_str(op, attr, "mode"));
    pad_job j = {.x = x, .y = y, .value = !crop && cm_problem_has(p, 2) ? 2 : -1};
    p->as.move = (cm_move){0};
    if (cm_tensor_elems(y) == 0)
        return true;
    j.cuts = cm_new_n(arena, x->rank > 0 ? x->rank : 1, cm_move_cut);
    if (!j.cuts)
        return false;
    for (int d = 0; d < x->rank; d++) {
        segment *all = cm_new_n(arena, MOST_SEGMENTS, segment);
        if (!all || !cut_axis(mode, x->dims[d], y->dims[d], before[d], after[d], all, &j.cuts[d].n))
            return false;
        j.cuts[d].segments = all;
    }
    walk(&j, 0, chosen);
    if (j.n > MOST_PIECES)
        return false;
    int n = j.n;
    j.pieces = cm_new_n(arena, n, cm_move_piece);
    if (!j.pieces)
        return false;
    j.n = 0;
    walk(&j, 0, chosen);
    p->as.move = (cm_move){.n_pieces = n, .pieces = j.pieces, .cuts = j.cuts, .constant = j.value};
    return true;
}
