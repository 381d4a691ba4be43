/* unique.c -- Unique: the different elements of a tensor, or its different slices along an axis.
 *
 * Slices are sorted by index, stably, so that the first of each run of equals is the one that came
 * first. NaN equals NaN and comes last; strings compare by bytes; complex numbers by their real,
 * then their imaginary part.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/move/move.h"

#include <string.h>

#include "base/size.h"

typedef struct {
    uint64_t present;
    int64_t axis, sorted;
} unique_attr;
CM_ATTRS(unique, unique_attr, CM_ATTR_INT(unique_attr, axis, 0),
         CM_ATTR_INT(unique_attr, sorted, 1))

enum { Y, INDICES, INVERSE, COUNTS };

static bool has_axis(const unique_attr *a)
{
    return a->present & 1;
}

/* How many are different only the evaluator can tell. */
static cm_status infer(cm_infer *f)
{
    const unique_attr *a = f->attr;
    int rank = cm_infer_rank(f, 0), axis = 0;
    if (a->sorted != 0 && a->sorted != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "sorted is %lld, wanted 0 or 1", (long long)a->sorted);
    if (rank >= 0 && has_axis(a))
        CM_TRY(cm_axis(f->cx, a->axis, rank, &axis));
    cm_dim n = rank < 0      ? cm_infer_fresh(f, "elements")
               : has_axis(a) ? cm_infer_dim(f, 0, axis)
                             : cm_move_product(f, f->in[0].type->dims, 0, rank);
    if (!f->dims) {
        CM_TRY(cm_infer_data_dependent(f, Y, 1));
        CM_TRY(cm_infer_data_dependent(f, INDICES, 1));
        CM_TRY(cm_infer_data_dependent(f, COUNTS, 1));
        return cm_move_shape(f, INVERSE, 1, &n);
    }
    cm_dim different = cm_infer_fresh(f, "unique");
    cm_dim dims[CM_MAX_RANK] = {different};
    for (int i = 0; has_axis(a) && i < rank; i++)
        dims[i] = i == axis ? different : cm_infer_dim(f, 0, i);
    if (has_axis(a) && rank < 0)
        cm_infer_unknown(f, Y);
    else
        CM_TRY(cm_move_shape(f, Y, has_axis(a) ? rank : 1, dims));
    CM_TRY(cm_move_shape(f, INDICES, 1, &different));
    CM_TRY(cm_move_shape(f, INVERSE, 1, &n));
    return cm_move_shape(f, COUNTS, 1, &different);
}

/* The input as `outer` x `n` x `inner`; slice s is every element with s in the middle. */
typedef struct {
    int64_t outer, n, inner;
    const uint64_t *keys; /* NULL: strings */
    const cm_str *strings;
} slices;

static int compare(const slices *s, int64_t a, int64_t b)
{
    for (int64_t o = 0; o < s->outer; o++) {
        int64_t x = (o * s->n + a) * s->inner, y = (o * s->n + b) * s->inner;
        for (int64_t i = 0; i < s->inner; i++) {
            int c = s->keys ? (s->keys[x + i] > s->keys[y + i]) - (s->keys[x + i] < s->keys[y + i])
                            : cm_str_compare(s->strings[x + i], s->strings[y + i]);
            if (c)
                return c;
        }
    }
    return 0;
}

/* A stable merge sort from the bottom up; `spare` has room for n as well. Returns which of the two
 * holds the result. */
static int64_t *sort_slices(const slices *s, int64_t *order, int64_t *spare)
{
    for (int64_t i = 0; i < s->n; i++)
        order[i] = i;
    for (int64_t width = 1; width < s->n; width *= 2) {
        for (int64_t at = 0; at < s->n; at += 2 * width) {
            int64_t a = at, a_end = cm_min_i64(at + width, s->n);
            int64_t b = a_end, b_end = cm_min_i64(at + 2 * width, s->n);
            for (int64_t to = at; to < b_end; to++) {
                bool take_b = a == a_end || (b < b_end && compare(s, order[b], order[a]) < 0);
                spare[to] = order[take_b ? b++ : a++];
            }
        }
        int64_t *swap = order;
        order = spare;
        spare = swap;
    }
    return order;
}

/* Which slices are equal: group[s] numbers them; first[g] and count[g] describe each. */
typedef struct {
    int64_t n;
    int64_t *group, *first, *count;
} groups;

static cm_status scratch_ints(cm_eval *e, int64_t n, int64_t **out)
{
    void *p;
    CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(int64_t), &p));
    *out = p;
    return CM_OK;
}

static cm_status find_groups(cm_eval *e, const slices *s, bool sorted, groups *g)
{
    int64_t *order, *spare, *number;
    CM_TRY(scratch_ints(e, s->n, &order));
    CM_TRY(scratch_ints(e, s->n, &spare));
    CM_TRY(scratch_ints(e, s->n, &g->group));
    CM_TRY(scratch_ints(e, s->n, &g->first));
    CM_TRY(scratch_ints(e, s->n, &g->count));
    const int64_t *by_value = sort_slices(s, order, spare);
    number = by_value == order ? spare : order;
    g->n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (i == 0 || compare(s, by_value[i - 1], by_value[i]) != 0)
            g->first[g->n++] = by_value[i];
        g->group[by_value[i]] = g->n - 1;
    }
    if (!sorted) { /* number the groups as they appear */
        int64_t n = 0;
        for (int64_t i = 0; i < s->n; i++)
            if (g->first[g->group[i]] == i)
                number[g->group[i]] = n++;
        for (int64_t i = 0; i < s->n; i++)
            g->group[i] = number[g->group[i]];
        for (int64_t i = s->n - 1; i >= 0; i--)
            g->first[g->group[i]] = i;
    }
    for (int64_t i = 0; i < s->n; i++)
        g->count[g->group[i]]++;
    return CM_OK;
}

static cm_status read_slices(cm_eval *e, int axis, slices *s)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    bool whole = !has_axis(e->attr);
    int64_t elems = cm_tensor_elems(x);
    cm_dtype t = x->dtype;
    *s = (slices){1, elems, 1, NULL, x->data};
    if (!whole)
        *s = (slices){cm_dims_product(x->dims, 0, axis), x->dims[axis],
                      cm_dims_product(x->dims, axis + 1, x->rank), NULL, x->data};
    if (t == CM_STR)
        return CM_OK;
    if (t == CM_C64 || t == CM_C128) { /* pairs of numbers */
        t = t == CM_C64 ? CM_F32 : CM_F64;
        s->inner *= 2;
        elems *= 2;
    }
    void *keys;
    CM_TRY(cm_eval_scratch(e, (size_t)elems, sizeof(uint64_t), &keys));
    cm_sort_keys(t, x->data, elems, keys);
    s->keys = keys;
    return CM_OK;
}

static cm_status write_y(cm_eval *e, int axis, const groups *g)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    bool whole = !has_axis(e->attr);
    int64_t dims[CM_MAX_RANK] = {g->n}, n = cm_tensor_elems(x), outer = 1, inner = 1;
    if (!whole) {
        memcpy(dims, x->dims, sizeof dims);
        dims[axis] = g->n;
        n = x->dims[axis];
        outer = cm_dims_product(x->dims, 0, axis);
        inner = cm_dims_product(x->dims, axis + 1, x->rank);
    }
    if (!cm_eval_wants(e, Y))
        return CM_OK;
    CM_TRY(cm_eval_alloc(e, Y, x->dtype, whole ? 1 : x->rank, dims));
    size_t size = cm_dtype_size(x->dtype);
    for (int64_t o = 0; inner > 0 && g->n > 0 && o < outer; o++)
        for (int64_t i = 0; i < g->n; i++)
            memcpy(cm_move_to(cm_eval_out(e, Y)->data, (o * g->n + i) * inner, size),
                   cm_move_at(x->data, (o * n + g->first[i]) * inner, size), (size_t)inner * size);
    return CM_OK;
}

static cm_status write_ints(cm_eval *e, int o, const int64_t *v, int64_t n)
{
    if (!cm_eval_wants(e, o))
        return CM_OK;
    CM_TRY(cm_eval_alloc(e, o, CM_I64, 1, &n));
    if (n > 0)
        memcpy(cm_eval_out(e, o)->data, v, (size_t)n * sizeof *v);
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const unique_attr *a = e->attr;
    int axis = 0;
    slices s;
    groups g;
    if (has_axis(a))
        CM_TRY(cm_axis(e->cx, a->axis, cm_eval_in(e, 0)->rank, &axis));
    CM_TRY(read_slices(e, axis, &s));
    CM_TRY(find_groups(e, &s, a->sorted != 0, &g));
    CM_TRY(write_y(e, axis, &g));
    CM_TRY(write_ints(e, INDICES, g.first, g.n));
    CM_TRY(write_ints(e, INVERSE, g.group, s.n));
    return write_ints(e, COUNTS, g.count, g.n);
}

const cm_family cm_family_unique = {"unique", infer, eval, NULL};
