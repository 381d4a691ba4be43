/* problem.c -- names of problem kinds; what every tactic declines.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/problem.h"

#include "plan/tactic.h"

const char *cm_problem_kind_name(cm_problem_kind k)
{
    switch (k) {
#define X(id, number, name)                                                                        \
    case CM_PROBLEM_##id:                                                                          \
        return name;
        CM_PROBLEM_KINDS(X)
#undef X
    case CM_PROBLEM_KIND_COUNT:
        break;
    }
    return "?";
}

static bool has_parts(const cm_tensor *const *tensors, int n)
{
    for (int i = 0; i < n; i++)
        if (tensors[i] && cm_dtype_is_sub_byte(tensors[i]->dtype))
            return true;
    return false;
}

const char *cm_tactic_declines(const cm_tactic *t, const cm_problem *p)
{
    if (!t->parts && (has_parts(p->in, p->n_in) || has_parts(p->out, p->n_out) ||
                      has_parts(p->operands, p->n_operands)))
        return "elements of less than a byte";
    if (p->then && !t->joins)
        return "does not do the step behind it as well";
    return t->reject(p);
}
