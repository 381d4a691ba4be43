/* transposes.c -- permutations.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/transposes.h"

#include <string.h>

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

bool cm_is_transposed(const cm_transposed *t, const cm_value *v)
{
    int64_t perm[CM_MAX_RANK];
    const cm_node *n = cm_made_by(v, CM_OP_TRANSPOSE);
    if (n)
        return cm_rank(v) == t->rank && cm_perm(n, perm) && cm_perm_equal(perm, t->perm, t->rank);
    for (int i = 0; i < t->n_more; i++)
        if (t->more[i] == v)
            return true;
    return false;
}

cm_status cm_make_transpose(cm_rewriter *rw, cm_node *before, cm_value *x, const int64_t *perm,
                            int rank, const cm_node *like, cm_node **out)
{
    void *attr;
    CM_TRY(cm_new_attr(rw->cx, before->network, CM_OP_TRANSPOSE, &attr));
    CM_TRY(cm_attr_put_ints(rw->cx, before->network, CM_OP_TRANSPOSE, attr, "perm", perm, rank));
    return cm_make_with(rw, before, CM_OP_TRANSPOSE, attr, like, &x, 1, 1, out);
}

cm_status cm_constant_before(cm_rewriter *rw, cm_network *g, const cm_value *v, const int64_t *perm,
                             int rank, cm_value **out)
{
    const cm_tensor *from = v->constant;
    int lead = rank - from->rank;
    int64_t dims[CM_MAX_RANK], at[CM_MAX_RANK] = {0}, strides[CM_MAX_RANK], step = 1;
    cm_tensor *to;
    size_t size = cm_dtype_size(from->dtype);
    for (int i = rank - 1; i >= 0; i--) { /* of `from`, by axis of `to` */
        int64_t n = i >= lead ? from->dims[i - lead] : 1;
        dims[perm[i]] = n;
        strides[perm[i]] = step;
        step *= n;
    }
    CM_NEW(rw->cx, g->arena, to, cm_tensor);
    if (!cm_tensor_shape(to, from->dtype, rank, dims))
        return cm_fail_memory(rw->cx);
    to->capacity_bytes = (size_t)step * size;
    to->data = cm_arena_alloc_n(g->arena, (size_t)step, size, 64, 0);
    if (!to->data)
        return cm_fail_memory(rw->cx);
    for (int64_t i = 0; i < step; i++) {
        int64_t k = 0;
        for (int a = 0; a < rank; a++)
            k += at[a] * strides[a];
        memcpy((char *)to->data + (size_t)i * size, (const char *)from->data + (size_t)k * size,
               size);
        for (int a = rank - 1; a >= 0 && ++at[a] == dims[a]; a--)
            at[a] = 0;
    }
    return cm_network_add_constant(rw->cx, g, v->name, to, out);
}
