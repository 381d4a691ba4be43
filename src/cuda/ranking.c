/* ranking.c -- the cheapest settings of a tactic, in order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/ranking.h"

void cm_rank(cm_ranking *r, const cm_knobs *k, double ns)
{
    int at = r->n;
    if (at == r->most && (at == 0 || ns >= r->ns[at - 1]))
        return;
    if (at < r->most)
        r->n++;
    else
        at--;
    for (; at > 0 && r->ns[at - 1] > ns; at--) {
        r->ns[at] = r->ns[at - 1];
        r->out[at] = r->out[at - 1];
    }
    r->ns[at] = ns;
    r->out[at] = *k;
}
