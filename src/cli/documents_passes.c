/* documents_passes.c -- docs/passes.md: the optimiser, from the table that it runs by.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/documents.h"
#include "passes/passes.h"

static const char *phase_name(cm_phase p)
{
    return p == CM_PHASE_CLEAN ? "clean" : p == CM_PHASE_FUSE ? "fuse" : "precision";
}

/* The first row of the same function: a pass that runs again has a name of its own there. */
static const cm_pass *first_of(const cm_pass *p)
{
    const cm_pass *q = cm_passes;
    while (q->run != p->run)
        q++;
    return q;
}

static void put_row(cm_buf *out, int number, const cm_pass *p)
{
    const cm_pass *first = first_of(p);
    cm_buf_printf(out, "| %d | `%s` | %s | %s | ", number, p->name, phase_name(p->phase), p->what);
    if (p->tolerance > 0)
        cm_buf_printf(out, "%g", p->tolerance);
    else
        cm_buf_str(out, "not at all");
    cm_buf_printf(out, " | %s |", p->repeat ? "yes" : "no");
    if (first == p)
        cm_buf_printf(out, " [%s.c](../src/passes/%s/%s.c) |\n", p->name, phase_name(p->phase),
                      p->name);
    else
        cm_buf_printf(out, " as `%s` |\n", first->name);
}

void cm_document_passes(cm_arena *arena, cm_buf *out)
{
    (void)arena;
    cm_buf_str(
        out, "# The passes of the optimiser\n\n"
             "Printed by `cameo documents passes` from `src/passes/pipeline.c`, in the order in "
             "which they run. A pass that\n"
             "runs again has a second name there. Each file opens with before and after, when it "
             "fires and when it must not;\n"
             "its cases are in `tests/passes/` under the same name. *Moves an answer*: by no more "
             "than that, relative to\n"
             "the scale of the output; the tests hold it to that. *Repeats*: until it finds "
             "nothing more to do. How to add one:\n"
             "[adding-a-pass.md](adding-a-pass.md).\n\n"
             "| | pass | phase | does | moves an answer | repeats | file |\n"
             "|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < cm_n_passes; i++)
        put_row(out, i + 1, &cm_passes[i]);
}
