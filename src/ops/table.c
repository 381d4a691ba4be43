/* table.c -- the registry: rows of ops.def, found by name.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"

#include <limits.h>
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

const cm_op *cm_op_find(const char *name)
{
    for (int i = 0; i < CM_OP_COUNT; i++)
        if (strcmp(builtin[i].name, name) == 0)
            return &builtin[i];
    return NULL;
}

const cm_op *cm_op_builtin(cm_op_id id)
{
    return &builtin[id];
}

const cm_op *cm_op_at(int index)
{
    return index >= 0 && index < CM_OP_COUNT ? &builtin[index] : NULL;
}
