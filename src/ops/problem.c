/* problem.c -- the rows of problems.def by operator, and attributes by name.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/problem.h"

#define PROBLEM(op, kind, fill)                                                                    \
    bool fill(cm_arena *arena, const cm_op *o, const void *attr, cm_problem *p);
#include "ops/problems.def"
#undef PROBLEM

static const cm_problem_row rows[] = {
#define PROBLEM(op, kind, fill) {CM_OP_##op, CM_PROBLEM_##kind, fill},
#include "ops/problems.def"
#undef PROBLEM
    {CM_OP_COUNT, CM_PROBLEM_EVALUATE, NULL},
};

const cm_problem_row *cm_problem_find(const cm_op *op)
{
    if (op->problem)
        return op->problem;
    for (const cm_problem_row *r = rows; r->fill; r++)
        if (r->op == op->id)
            return r;
    return NULL;
}

static const void *field(const cm_op *op, const void *attr, const char *name, cm_attr_kind kind)
{
    const cm_attr_field *f = attr ? cm_attr_find(op->attrs, name) : NULL;
    return f && f->kind == kind ? cm_attr_get(attr, f) : NULL;
}

int64_t cm_attr_int(const cm_op *op, const void *attr, const char *name)
{
    const int64_t *v = field(op, attr, name, CM_A_INT);
    return v ? *v : 0;
}

float cm_attr_float(const cm_op *op, const void *attr, const char *name)
{
    const float *v = field(op, attr, name, CM_A_FLOAT);
    return v ? *v : 0;
}

cm_str cm_attr_str(const cm_op *op, const void *attr, const char *name)
{
    const cm_str *v = field(op, attr, name, CM_A_STR);
    return v ? *v : cm_str_of("");
}

cm_ints cm_attr_ints(const cm_op *op, const void *attr, const char *name)
{
    const cm_ints *v = field(op, attr, name, CM_A_INTS);
    return v ? *v : (cm_ints){0, NULL};
}

cm_floats cm_attr_floats(const cm_op *op, const void *attr, const char *name)
{
    const cm_floats *v = field(op, attr, name, CM_A_FLOATS);
    return v ? *v : (cm_floats){0, NULL};
}

int64_t cm_problem_int(const cm_problem *p, int input, int64_t i)
{
    const cm_tensor *t = p->in[input];
    switch (t->dtype) {
    case CM_I64:
        return ((const int64_t *)t->data)[i];
    case CM_I32:
        return ((const int32_t *)t->data)[i];
    default:
        return cm_get_i64(t->dtype, t->data, i);
    }
}
