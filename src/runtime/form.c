/* form.c -- a step and actual sizes as a problem.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/size.h"
#include "ops/infer.h"
#include "ops/problem.h"
#include "runtime/internal.h"

bool cm_form_takes(const cm_context *c, const cm_tensor *t)
{
    return t->dtype != CM_STR && (!cm_dtype_is_sub_byte(t->dtype) || (c->device && t->packed));
}

/* The sizes of a type as a tensor's. One axis may be known by its bound only, `count` in all outputs: *counted. */
static bool take_sizes(const cm_dim_table *dims, const cm_type *t, cm_tensor *out, int *counted,
                       cm_dim *count)
{
    int64_t sizes[CM_MAX_RANK];
    if (t->kind != CM_TENSOR || t->rank < 0 || t->dtype == CM_NO_DTYPE)
        return false;
    for (int a = 0; a < t->rank; a++) {
        sizes[a] = t->dims[a];
        if (cm_dim_is_size(t->dims[a]))
            continue;
        if (!counted || *counted >= 0 || (*count != CM_DIM_ERROR && *count != t->dims[a]))
            return false;
        sizes[a] = cm_dim_most(dims, t->dims[a]);
        *counted = a;
        *count = t->dims[a];
        if (sizes[a] == INT64_MAX)
            return false;
    }
    out->packed = cm_dtype_is_sub_byte(t->dtype);
    return cm_tensor_shape(out, t->dtype, t->rank, sizes);
}

bool cm_form_outputs(cm_ctx *cx, cm_dim_table *dims, const cm_ready_step *s,
                     const cm_tensor *const *in, cm_tensor *const *out, int *counted)
{
    const cm_plan_step *p = s->plan;
    cm_arena_mark mark = cm_arena_save(cx->scratch);
    cm_infer_in *fin = cm_new_n(cx->scratch, p->n_in, cm_infer_in);
    cm_type *types = cm_new_n(cx->scratch, p->n_in, cm_type);
    cm_infer_out *fout = cm_new_n(cx->scratch, p->n_out, cm_infer_out);
    bool known = fin && types && fout;
    for (int i = 0; known && i < p->n_in; i++) {
        if (!in[i])
            continue;
        types[i] = cm_type_of_tensor(in[i]);
        fin[i].type = &types[i];
        if (in[i]->data && !in[i]->packed)
            fin[i].constant = in[i];
    }
    for (int o = 0; known && o < p->n_out; o++)
        fout[o].wanted = out[o] != NULL;
    cm_infer f = {.cx = cx,
                  .dims = dims,
                  .op = s->op,
                  .attr = s->attr,
                  .n_in = p->n_in,
                  .in = fin,
                  .n_out = p->n_out,
                  .out = fout,
                  .epilogue = &p->epilogue};
    cm_arena *outer = cx->arena;
    cx->arena = cx->scratch; /* types of sequences: not kept */
    known = known && cm_op_infer(&f) == CM_OK;
    cx->arena = outer;
    cm_dim count = CM_DIM_ERROR;
    for (int o = 0; known && o < p->n_out; o++) {
        if (counted)
            counted[o] = -1;
        if (!out[o])
            continue;
        known = take_sizes(dims, &fout[o].type, out[o], counted ? &counted[o] : NULL, &count);
        out[o]->data = NULL;
    }
    cx->message[0] = 0; /* what the rule may have said: the run will say it again */
    cm_arena_restore(cx->scratch, mark);
    return known;
}

bool cm_form_problem(cm_arena *arena, const cm_ready_step *s, const cm_tensor *const *in,
                     const bool *constant, const cm_tensor *const *out, const cm_target *target,
                     int threads, cm_problem *p)
{
    const cm_plan_step *step = s->plan;
    int n_own = step->n_in - step->epilogue.n_operands;
    *p = (cm_problem){.op = s->op->name,
                      .n_in = n_own,
                      .in = in,
                      .constant = constant,
                      .n_out = step->n_out,
                      .out = out,
                      .epilogue = s->program,
                      .n_operands = step->epilogue.n_operands,
                      .operands = in + n_own,
                      .target = *target,
                      .threads = threads};
    if (!s->problem)
        return false;
    for (int i = 0; i < step->n_in; i++)
        if (in[i] && in[i]->dtype == CM_STR)
            return false;
    p->kind = s->problem->kind;
    return s->problem->fill(arena, s->op, s->attr, p);
}

bool cm_is_channels_last(const cm_tensor *t)
{
    cm_tensor want = *t;
    if (t->rank < 3)
        return false;
    cm_set_channels_last(&want);
    for (int a = 0; a < t->rank; a++)
        if (t->dims[a] != 1 && t->strides[a] != want.strides[a])
            return false;
    return true;
}

/* Both shapes are cut into groups of axes with the same number of elements; inside a group the input must
 * be dense. */
bool cm_view_strides(const cm_tensor *in, cm_tensor *out)
{
    int64_t dims[CM_MAX_RANK], strides[CM_MAX_RANK];
    int n = 0;
    if (cm_tensor_elems(in) == 0 || cm_tensor_is_dense(in))
        return cm_tensor_shape(out, out->dtype, out->rank, out->dims);
    for (int a = 0; a < in->rank; a++) {
        if (in->dims[a] == 1)
            continue;
        dims[n] = in->dims[a];
        strides[n++] = in->strides[a];
    }
    int i = 0, o = 0;
    while (i < n) {
        while (o < out->rank && out->dims[o] == 1)
            out->strides[o++] = 0;
        int i2 = i + 1, o2 = o + 1;
        if (o >= out->rank)
            return false;
        int64_t x = dims[i], y = out->dims[o];
        while (x != y) {
            if (x < y && i2 < n)
                x *= dims[i2++];
            else if (y < x && o2 < out->rank)
                y *= out->dims[o2++];
            else
                return false;
        }
        for (int a = i; a + 1 < i2; a++)
            if (strides[a] != strides[a + 1] * dims[a + 1])
                return false;
        int64_t run = strides[i2 - 1];
        for (int a = o2 - 1; a >= o; a--) {
            out->strides[a] = run;
            run *= out->dims[a];
        }
        i = i2;
        o = o2;
    }
    for (; o < out->rank; o++)
        out->strides[o] = 0; /* size 1 */
    return true;
}
