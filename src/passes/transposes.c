/* transposes.c -- permutations.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/transposes.h"

bool cm_perm(const cm_node *n, int64_t *perm)
{
    int rank = cm_rank(n->in[0]);
    cm_ints given = cm_int_list(n, "perm");
    if (rank < 0 || (given.n && given.n != rank))
        return false;
    for (int i = 0; i < rank; i++)
        perm[i] = given.n ? given.v[i] : rank - 1 - i;
    return true;
}

void cm_perm_inverse(const int64_t *perm, int rank, int64_t *inverse)
{
    for (int i = 0; i < rank; i++)
        inverse[perm[i]] = i;
}

bool cm_perm_equal(const int64_t *a, const int64_t *b, int rank)
{
    for (int i = 0; i < rank; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

cm_status cm_make_transpose(cm_rewriter *rw, cm_node *before, cm_value *x, const int64_t *perm,
                            int rank, const cm_node *like, cm_node **out)
{
    void *attr;
    CM_TRY(cm_new_attr(rw->cx, before->network, CM_OP_TRANSPOSE, &attr));
    CM_TRY(cm_attr_put_ints(rw->cx, before->network, CM_OP_TRANSPOSE, attr, "perm", perm, rank));
    return cm_make_with(rw, before, CM_OP_TRANSPOSE, attr, like, &x, 1, 1, out);
}
