/* placement.c -- which layers a device does not take.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/placement.h"

#include <stdio.h>

#include "cli/cli.h"

void cm_cli_print_placement(const cm_context *c)
{
    const cm_engine *e = cm_context_engine(c);
    int n_away = 0, n_fell = 0;
    cm_layer_facts f;
    for (int i = 0; i < cm_engine_n_steps(e); i++) {
        const cm_plan_step *s = cm_engine_step(e, i);
        cm_context_layer(c, i, &f);
        n_away += f.away;
        n_fell += f.fell;
        if (!f.fell)
            continue;
        printf("on the CPU: %s '%s' (%s), ", s->op, s->name, f.tactic);
        if (f.expected_ns > 0)
            printf("expected %.3f ms\n", f.expected_ns * 1e-6);
        else
            printf("its shapes and cost are not known yet\n");
    }
    if (n_away || n_fell)
        printf("%d layers on the GPU, %d on the CPU\n", n_away, n_fell);
}
