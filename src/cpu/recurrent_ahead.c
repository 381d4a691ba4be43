/* recurrent_ahead.c -- the inputs' product of the next steps, in pieces that are done beside the state's.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The state's product of a single sequence takes as long as its weights take to come from the caches, and leaves
 * half of the multiply-adds unused: those do a tile of the inputs' product, some elements at a time. */
#include <string.h>

#include "base/size.h"
#include "cpu/recurrent_unit.h"

void cm_recurrent_begin_ahead(const cm_recurrent_unit *u, int64_t from, int64_t n, float *to)
{
    const cm_recurrent_job *j = u->j;
    const cm_recurrent *r = j->r;
    const int64_t *strides = j->run->p->in[0]->strides;
    cm_recurrent_ahead *a = u->ahead;
    a->to = to;
    a->share = cm_min_i64(r->input, r->hidden / j->rate);
    a->parts = cm_ceil_div(r->input, a->share);
    a->panel = a->part = 0;
    a->panels = j->ld / j->panel;
    for (int64_t i = 0; i < CM_AHEAD_ROWS; i++) { /* the last row again where there are fewer */
        int64_t t = from + cm_min_i64(i, n - 1);
        a->rows[i] = (const float *)j->run->in[0] + t * strides[r->batch_first] +
                     u->row * strides[!r->batch_first];
        memset(to + i * j->ld, 0, (size_t)j->ld * sizeof *to);
        if (u->bias)
            memcpy(to + i * j->ld, u->bias, (size_t)j->cols * sizeof *to);
    }
}

bool cm_recurrent_take_piece(const cm_recurrent_unit *u, cm_ahead_piece *to)
{
    cm_recurrent_ahead *a = u->ahead;
    if (a->panel == a->panels)
        return false;
    int64_t depth = u->j->r->input, l = a->part * a->share;
    for (int i = 0; i < CM_AHEAD_ROWS; i++)
        to->rows[i] = a->rows[i] + l;
    to->k = cm_min_i64(a->share, depth - l);
    to->b = u->w + (a->panel * depth + l) * u->j->panel;
    to->c = a->to + a->panel * u->j->panel;
    to->ldc = u->j->ld;
    if (++a->part == a->parts) {
        a->part = 0;
        a->panel++;
    }
    return true;
}

void cm_recurrent_finish_ahead(const cm_recurrent_unit *u)
{
    cm_recurrent_ahead *a = u->ahead;
    cm_ahead_piece q;
    for (int64_t done = a->part; cm_recurrent_take_piece(u, &q); done = 0) {
        cm_gemm_tile t = {.runs = 1,
                          .k = u->j->r->input - done * a->share, /* to the panel's end */
                          .rows = q.rows,
                          .b = q.b,
                          .ldb = u->j->panel,
                          .c = q.c,
                          .ldc = q.ldc,
                          .n = u->j->panel,
                          .alpha = 1,
                          .add = true};
        u->j->g->rows[CM_AHEAD_ROWS](&t);
        if (a->part) {
            a->part = 0;
            a->panel++;
        }
    }
}
