/* select.c -- the cheapest tactic that takes a problem.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "runtime/internal.h"

static void consider(const cm_engine *e, const cm_ready_step *s, const cm_problem *p,
                     const cm_tactic *t, cm_choice *best)
{
    cm_knobs knobs[CM_MAX_KNOBS];
    if (t->level > p->target.level || t->reject(p))
        return;
    memset(&knobs[0], 0, sizeof knobs[0]);
    int n = t->knobs ? t->knobs(p, knobs) : 1;
    (void)e;
    (void)s;
    for (int k = 0; k < n; k++) {
        double ns = t->cost(p, &knobs[k]);
        if (ns < best->ns)
            *best = (cm_choice){t, knobs[k], ns};
    }
}

void cm_select(const cm_engine *e, const cm_ready_step *s, const cm_problem *p, cm_choice *out)
{
    *out = (cm_choice){.ns = INFINITY};
    for (int b = 0; cm_backend_at(b); b++) {
        const cm_backend *backend = cm_backend_at(b);
        int n;
        if (backend->device != p->target.kind)
            continue;
        const cm_tactic *rows = backend->tactics(p->kind, &n);
        for (int i = 0; i < n; i++)
            consider(e, s, p, &rows[i], out);
    }
}
