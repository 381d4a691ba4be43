/* topk.c -- TopK: the k largest or smallest elements along an axis, the lower index first among
 * equals. NaN is larger than everything.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/move/move.h"

#include <string.h>

#include "base/size.h"

typedef struct {
    uint64_t present;
    int64_t axis, largest, sorted;
} top_k_attr;
CM_ATTRS(top_k, top_k_attr, CM_ATTR_INT(top_k_attr, axis, -1), CM_ATTR_INT(top_k_attr, largest, 1),
         CM_ATTR_INT(top_k_attr, sorted, 1))

static cm_status infer(cm_infer *f)
{
    const top_k_attr *a = f->attr;
    int rank = cm_infer_rank(f, 0), axis;
    cm_vector k;
    cm_dim dims[CM_MAX_RANK], wanted;
    CM_TRY(cm_move_vector(f, 1, "K", &k));
    if (k.n >= 0 && k.n != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "K has %lld elements, wanted 1", (long long)k.n);
    if (rank < 0) {
        cm_infer_unknown(f, 0);
        cm_infer_unknown(f, 1);
        return CM_OK;
    }
    CM_TRY(cm_axis(f->cx, a->axis, rank, &axis));
    if (k.known)
        CM_TRY(cm_move_size(f, "K", k.v[0], &wanted));
    else
        wanted = cm_infer_fresh(f, "k");
    int64_t n, size;
    if (cm_infer_const(f, wanted, &n) && cm_infer_const(f, cm_infer_dim(f, 0, axis), &size) &&
        n > size)
        return cm_fail(f->cx, CM_ERR_MODEL, "K is %lld, but axis %d has size %lld", (long long)n,
                       axis, (long long)size);
    for (int i = 0; i < rank; i++)
        dims[i] = i == axis ? wanted : cm_infer_dim(f, 0, i);
    CM_TRY(cm_move_shape(f, 0, rank, dims));
    return cm_move_shape(f, 1, rank, dims);
}

typedef struct {
    uint64_t key; /* small keys are wanted */
    int64_t index;
} item;

static bool before(item a, item b)
{
    return a.key != b.key ? a.key < b.key : a.index < b.index;
}

/* heap[0] comes after all others; restore that for the subtree at i. */
static void sift_down(item *heap, int64_t n, int64_t i)
{
    item moved = heap[i];
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && before(heap[child], heap[child + 1]))
            child++;
        if (!before(moved, heap[child]))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

static void sort_heap(item *heap, int64_t n)
{
    for (int64_t end = n - 1; end > 0; end--) {
        item last = heap[end];
        heap[end] = heap[0];
        heap[0] = last;
        sift_down(heap, end, 0);
    }
}

typedef struct {
    const cm_tensor *x;
    cm_tensor *values; /* NULL: not wanted */
    int64_t *indices;  /* NULL: not wanted */
    const uint64_t *keys;
    int64_t n, k, inner, rows, chunks;
    uint64_t flip; /* turns keys over when the largest are wanted */
    item *heaps;   /* k for each chunk */
} job;

static void select_row(const job *j, int64_t row, item *heap)
{
    int64_t outer = row / j->inner, column = row % j->inner;
    const uint64_t *keys = j->keys + outer * j->n * j->inner + column;
    for (int64_t i = 0; i < j->k; i++)
        heap[i] = (item){keys[i * j->inner] ^ j->flip, i};
    for (int64_t i = j->k / 2 - 1; i >= 0; i--)
        sift_down(heap, j->k, i);
    for (int64_t i = j->k; i < j->n; i++) {
        item next = {keys[i * j->inner] ^ j->flip, i};
        if (before(next, heap[0])) {
            heap[0] = next;
            sift_down(heap, j->k, 0);
        }
    }
    sort_heap(heap, j->k);
    size_t size = cm_dtype_size(j->x->dtype);
    for (int64_t i = 0; i < j->k; i++) {
        int64_t to = (outer * j->k + i) * j->inner + column;
        int64_t from = (outer * j->n + heap[i].index) * j->inner + column;
        if (j->indices)
            j->indices[to] = heap[i].index;
        if (j->values)
            memcpy(cm_move_to(j->values->data, to, size), cm_move_at(j->x->data, from, size), size);
    }
}

static void select_chunks(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t c = begin; c < end; c++) {
        int64_t per_chunk = cm_ceil_div(j->rows, j->chunks);
        int64_t last = cm_min_i64(j->rows, (c + 1) * per_chunk);
        for (int64_t row = c * per_chunk; row < last; row++)
            select_row(j, row, j->heaps + c * j->k);
    }
}

static cm_status eval(cm_eval *e)
{
    const top_k_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    int axis;
    CM_TRY(cm_axis(e->cx, a->axis, x->rank, &axis));
    void *keys, *heaps;
    int64_t elems = cm_tensor_elems(x);
    job j = {.x = x, .n = x->dims[axis], .k = cm_eval_int(e, 1, 0)};
    j.values = cm_eval_wants(e, 0) ? cm_eval_out(e, 0) : NULL;
    j.indices = cm_eval_wants(e, 1) ? cm_eval_out(e, 1)->data : NULL;
    j.inner = cm_dims_product(x->dims, axis + 1, x->rank);
    j.rows = cm_dims_product(x->dims, 0, axis) * j.inner;
    if (elems == 0 || j.k == 0)
        return CM_OK;
    j.chunks = cm_min_i64(j.rows, 4 * cm_threads_count(e->threads));
    j.flip = a->largest ? UINT64_MAX : 0;
    CM_TRY(cm_eval_scratch(e, (size_t)elems, sizeof(uint64_t), &keys));
    CM_TRY(cm_eval_scratch(e, (size_t)(j.chunks * j.k), sizeof(item), &heaps));
    cm_sort_keys(x->dtype, x->data, elems, keys);
    j.keys = keys;
    j.heaps = heaps;
    cm_parallel(e->threads, j.chunks, elems < 10000 ? j.chunks : 1, select_chunks, &j);
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    c->ops = 4 * cm_infer_volume(f, f->in[0].type);
}

const cm_family cm_family_topk = {"topk", infer, eval, cost};
