/* ranking.c -- the cheapest settings of a tactic, in order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/ranking.h"

#include <string.h>

static bool is_ranked(const cm_ranking *r, const cm_knobs *k)
{
    for (int i = 0; i < r->n; i++)
        if (memcmp(&r->out[i], k, sizeof *k) == 0)
            return true;
    return false;
}

void cm_rank(cm_ranking *r, const cm_knobs *k, double ns)
{
    int at = r->n;
    if ((at == r->most && (at == 0 || ns >= r->ns[at - 1])) || is_ranked(r, k))
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
