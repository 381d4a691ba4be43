/* problem.c -- names of problem kinds.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/problem.h"

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
