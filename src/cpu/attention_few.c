/* attention_few.c -- few queries (a step of generation) against many keys, at the speed of memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/size.h"
#include "cpu/attention_job.h"

void cm_attention_few(const job *j, int64_t unit, int64_t from, int64_t to, const source *k,
                      const source *v, const space *w)
{
    const cm_attention *a = j->a;
    int rows = (int)(j->rep * a->q_len);
    from = cm_max_i64(from, cm_min_i64(to, cm_attention_first(j, 0))); /* row 0 sees the earliest */
    int64_t n = to - from;
    for (int r = 0; r < rows; r++) {
        const float *q = cm_attention_query(j, unit, r, w->q + r * j->q_ld);
        if (q != w->q + r * j->q_ld)
            memcpy(w->q + r * j->q_ld, q, (size_t)a->head_size * sizeof *q);
    }
    j->kernels->dot_rows(w->q, j->q_ld, rows, a->head_size, (const float *)k->at + from * k->seq,
                         k->seq, n, a->scale, w->s, j->s_ld);
    for (int r = 0; r < rows; r++) {
        cm_score score;
        cm_attention_score(j, unit, r, from, n, 0, w, &score);
        score.s = w->s + r * j->s_ld;
        score.stats = w->stats + 2 * r;
        score.stats[0] = -__builtin_inff();
        score.stats[1] = 0;
        j->kernels->score_rows(&score, 1, n);
    }
    j->kernels->weigh_rows(w->s, j->s_ld, rows, (const float *)v->at + from * v->seq, v->seq, n,
                           a->v_head_size, w->o, j->o_ld);
}
