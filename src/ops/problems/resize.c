/* resize.c -- Resize as a problem: which elements make each position of an axis, and how much.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/problem.h"
#include "ops/vision/resize_taps.h"

enum { X, ROI, SCALES, SIZES }; /* inputs */

bool cm_problem_resize(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

static bool is_word(const cm_op *op, const void *attr, const char *name, const char *word)
{
    return cm_str_equal(cm_attr_str(op, attr, name), cm_str_of(word));
}

static bool has_elements(const cm_problem *p, int i)
{
    return cm_problem_has(p, i) && cm_tensor_elems(p->in[i]) > 0;
}

/* Are the elements that taps follow from at hand? */
static bool known(const cm_op *op, const void *attr, const cm_problem *p)
{
    bool crop = is_word(op, attr, "coordinate_transformation_mode", "tf_crop_and_resize");
    if (crop && has_elements(p, ROI) && !p->in[ROI]->data)
        return false;
    if (has_elements(p, SCALES))
        return p->in[SCALES]->data != NULL;
    return is_word(op, attr, "keep_aspect_ratio_policy", "stretch") ||
           (has_elements(p, SIZES) && p->in[SIZES]->data);
}

/* The evaluator's own taps. */
static bool taps_of(cm_arena *arena, const cm_op *op, const void *attr, const cm_problem *p,
                    cm_taps *taps)
{
    cm_datum in[4], out = {.kind = CM_TENSOR, .tensor = *p->out[0]};
    const cm_datum *ins[4] = {NULL};
    cm_datum *outs[1] = {&out};
    cm_ctx cx = {.arena = arena, .scratch = arena};
    for (int i = 0; i < p->n_in && i < 4; i++)
        if (p->in[i]) {
            in[i] = (cm_datum){.kind = CM_TENSOR, .tensor = *p->in[i]};
            ins[i] = &in[i];
        }
    cm_eval e = {.cx = &cx,
                 .op = op,
                 .attr = attr,
                 .n_in = p->n_in < 4 ? p->n_in : 4,
                 .in = ins,
                 .n_out = 1,
                 .out = outs};
    return cm_resize_taps(&e, taps) == CM_OK;
}

/* Does every position stay as it is? */
static bool is_identity(const cm_taps *taps, int64_t in, int64_t out)
{
    for (int64_t o = 0; in == out && o < out; o++) {
        double at = 0;
        for (int64_t t = 0; t < taps->n; t++) {
            double weight = taps->weight[o * taps->n + t];
            if (weight != 0 && (weight != 1 || taps->index[o * taps->n + t] != o))
                return false;
            at += weight;
        }
        if (taps->outside[o] || at != 1)
            return false;
    }
    return in == out;
}

/* In the tactics' form. */
static bool set_axis(cm_arena *arena, const cm_taps *taps, cm_resize *r, int d)
{
    int64_t total, out = r->out[d];
    if (taps->n == 0 || is_identity(taps, r->in[d], out))
        return true;
    if (taps->n > INT32_MAX || r->in[d] > INT32_MAX || !cm_mul_i64(out, taps->n, &total))
        return false;
    int32_t *from = cm_new_n(arena, total, int32_t);
    float *weight = cm_new_n(arena, total, float);
    if (!from || !weight)
        return false;
    for (int64_t o = 0; o < out; o++)
        for (int64_t t = 0; t < taps->n; t++) {
            from[t * out + o] = taps->outside[o] ? -1 : (int32_t)taps->index[o * taps->n + t];
            weight[t * out + o] = (float)taps->weight[o * taps->n + t];
        }
    r->axis[d].taps = (int)taps->n;
    r->axis[d].from = from;
    r->axis[d].weight = weight;
    return true;
}

bool cm_problem_resize(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    cm_taps taps[CM_MAX_RANK] = {{0}};
    cm_resize *r = &p->as.resize;
    if (!cm_problem_wants(p, 0) || cm_tensor_elems(p->out[0]) < 1 || !known(op, attr, p) ||
        !taps_of(arena, op, attr, p, taps))
        return false;
    *r = (cm_resize){.rank = p->in[X]->rank,
                     .nearest = is_word(op, attr, "mode", "nearest"),
                     .extrapolation = cm_attr_float(op, attr, "extrapolation_value")};
    for (int d = 0; d < r->rank; d++) {
        r->in[d] = p->in[X]->dims[d];
        r->out[d] = p->out[0]->dims[d];
        if (!set_axis(arena, &taps[d], r, d))
            return false;
    }
    return true;
}
