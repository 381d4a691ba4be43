/* table.c -- the registry: rows of ops.def, found by name.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define MANY INT16_MAX

#define OP(id, name, lo_in, hi_in, lo_out, hi_out, traits, fam, attr, sig)                         \
    extern const cm_family cm_family_##fam;                                                        \
    extern const cm_attr_desc cm_attrs_##attr;
#include "ops/ops.def"
#undef OP

const cm_attr_desc cm_attrs_none = {0, 0, NULL};

static const cm_op builtin[CM_OP_COUNT] = {
#define OP(id, name, lo_in, hi_in, lo_out, hi_out, traits, fam, attr, sig)                         \
    [CM_OP_##                                                                                      \
        id] = {CM_OP_##id,      name, lo_in, hi_in, lo_out, hi_out, traits, sig, &cm_family_##fam, \
               &cm_attrs_##attr},
#include "ops/ops.def"
#undef OP
};

/* Rows of plugins: only ever added, each published after it is whole. */
enum { MOST_ADDED = 1024 };
static const cm_op *added[MOST_ADDED];
static atomic_int n_added;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static const cm_op *find_added(const char *name)
{
    int n = atomic_load_explicit(&n_added, memory_order_acquire);
    for (int i = 0; i < n; i++)
        if (strcmp(added[i]->name, name) == 0)
            return added[i];
    return NULL;
}

const cm_op *cm_op_find(const char *name)
{
    for (int i = 0; i < CM_OP_COUNT; i++)
        if (strcmp(builtin[i].name, name) == 0)
            return &builtin[i];
    return find_added(name);
}

cm_status cm_op_register(cm_ctx *cx, const cm_op *op)
{
    cm_status st = CM_OK;
    pthread_mutex_lock(&adding);
    int n = atomic_load_explicit(&n_added, memory_order_relaxed);
    if (cm_op_find(op->name)) {
        st = cm_fail(cx, CM_ERR_ARGUMENT, "there is an operator '%s' already", op->name);
    } else if (n == MOST_ADDED) {
        st = cm_fail(cx, CM_ERR_UNSUPPORTED, "plugins have added %d operators: no more fit", n);
    } else {
        added[n] = op;
        atomic_store_explicit(&n_added, n + 1, memory_order_release);
    }
    pthread_mutex_unlock(&adding);
    return st;
}

const cm_op *cm_op_builtin(cm_op_id id)
{
    return &builtin[id];
}

const cm_op *cm_op_at(int index)
{
    if (index < 0 || index < CM_OP_COUNT)
        return index < 0 ? NULL : &builtin[index];
    index -= CM_OP_COUNT;
    return index < atomic_load_explicit(&n_added, memory_order_acquire) ? added[index] : NULL;
}
