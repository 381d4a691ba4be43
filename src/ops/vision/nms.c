/* nms.c -- NonMaxSuppression: the best boxes of each class that do not overlap better ones.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Overlaps are computed in float, the type of the boxes and of the threshold, so that an overlap
 * that equals the threshold is found to. */
#include "ops/eval.h"

#include <math.h>
#include <stdlib.h>

#include "base/size.h"
#include "ops/vision/nms_cells.h"

typedef struct {
    uint64_t present;
    int64_t center_point_box;
} nms_attr;

CM_ATTRS(non_max_suppression, nms_attr, CM_ATTR_INT(nms_attr, center_point_box, 0))

enum { BOXES, SCORES, MAX_BOXES, IOU, SCORE }; /* inputs */

enum { CELLS_FROM = 64 }; /* fewer candidates, or fewer to keep, are compared one by one */

/* Of each class of a batch no more than there are boxes, or than are wanted. */
static cm_dim most_selected(cm_infer *f)
{
    int64_t n, wanted = INT64_MAX;
    const cm_tensor *limit = f->n_in > MAX_BOXES ? f->in[MAX_BOXES].constant : NULL;
    if (!cm_infer_ranked(f, SCORES) || !cm_infer_const(f, cm_infer_dim(f, SCORES, 2), &n))
        return CM_DIM_ERROR;
    if (limit && limit->dtype == CM_I64 && cm_tensor_elems(limit) == 1)
        wanted = cm_max_i64(0, *(const int64_t *)limit->data);
    return cm_infer_mul(f, cm_infer_mul(f, cm_infer_dim(f, SCORES, 0), cm_infer_dim(f, SCORES, 1)),
                        cm_min_i64(n, wanted));
}

static cm_status infer(cm_infer *f)
{
    const nms_attr *a = f->attr;
    if (a->center_point_box != 0 && a->center_point_box != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "center_point_box is %lld, wanted 0 or 1",
                       (long long)a->center_point_box);
    for (int i = 0; i < 2; i++)
        if (cm_infer_ranked(f, i) && cm_infer_rank(f, i) != 3)
            return cm_fail(f->cx, CM_ERR_MODEL, "input %d has rank %d, wanted 3", i,
                           cm_infer_rank(f, i));
    if (cm_infer_ranked(f, BOXES))
        CM_TRY(cm_infer_equal(f, "numbers of a box", cm_infer_dim(f, BOXES, 2), 4));
    if (cm_infer_ranked(f, BOXES) && cm_infer_ranked(f, SCORES)) {
        CM_TRY(cm_infer_equal(f, "batches of scores", cm_infer_dim(f, SCORES, 0),
                              cm_infer_dim(f, BOXES, 0)));
        CM_TRY(cm_infer_equal(f, "scores for the boxes", cm_infer_dim(f, SCORES, 2),
                              cm_infer_dim(f, BOXES, 1)));
    }
    for (int i = MAX_BOXES; i <= SCORE && !f->dims; i++)
        if (cm_infer_has(f, i) && cm_tensor_elems(f->in[i].constant) != 1)
            return cm_fail(f->cx, CM_ERR_MODEL, "input %d has %lld elements, wanted 1", i,
                           (long long)cm_tensor_elems(f->in[i].constant));
    if (!f->dims)
        return cm_infer_data_dependent(f, 0, 2);
    cm_dim dims[2] = {cm_infer_upto(f, "selected", most_selected(f)), 3};
    return cm_infer_tensor(f, 0, 2, dims);
}

typedef struct {
    float score;
    int64_t index;
} candidate;

static cm_nms_box read_box(const float *p, bool center)
{
    cm_nms_box b;
    if (center)
        b = (cm_nms_box){p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2, 0};
    else
        b = (cm_nms_box){fminf(p[0], p[2]), fminf(p[1], p[3]), fmaxf(p[0], p[2]), fmaxf(p[1], p[3]),
                         0};
    b.area = (b.y1 - b.y0) * (b.x1 - b.x0);
    return b;
}

/* Best first; NaN last; of equals the one that came first. */
static int better(const candidate *x, const candidate *y)
{
    bool x_nan = x->score != x->score, y_nan = y->score != y->score;
    if (x_nan != y_nan)
        return x_nan ? 1 : -1;
    if (!x_nan && x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

typedef struct {
    int64_t n_boxes, most;
    float iou, score;
    bool by_score;
    cm_nms_box *boxes;
    candidate *candidates, *kept;
    bool with_cells, in_cells; /* there are cells; this class's boxes can be in them */
    cm_nms_cells cells;
} job;

/* heap[0] comes before all others; restore that for the subtree at i. */
static void sift_down(candidate *heap, int64_t n, int64_t i)
{
    candidate moved = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && better(&heap[child + 1], &heap[child]) < 0)
            child++;
        if (better(&heap[child], &moved) > 0)
            break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

/* Does one of the boxes kept so far overlap b too much? */
static bool is_hidden(const job *j, const cm_nms_box *b, int64_t n_kept)
{
    if (j->in_cells)
        return cm_nms_cells_hide(&j->cells, b, j->iou);
    for (int64_t k = 0; k < n_kept; k++)
        if (cm_nms_overlap(b, &j->boxes[j->kept[k].index], j->iou))
            return true;
    return false;
}

/* Select among the boxes of one batch by the scores of one class; the selection is in j->kept. Candidates
 * come off a heap: most often only the first of them are looked at. */
static int64_t select_boxes(job *j, const float *scores)
{
    int64_t n = 0, n_kept = 0;
    candidate *heap = j->candidates;
    for (int64_t i = 0; i < j->n_boxes; i++)
        if (!j->by_score || scores[i] > j->score)
            heap[n++] = (candidate){scores[i], i};
    j->in_cells = j->with_cells && n >= CELLS_FROM;
    for (int64_t i = 0; i < n && j->in_cells; i++)
        j->in_cells = cm_nms_is_plain(&j->boxes[heap[i].index]);
    if (j->in_cells)
        cm_nms_cells_clear(&j->cells);
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sift_down(heap, n, i);
    while (n > 0 && n_kept < j->most) {
        candidate c = heap[0];
        heap[0] = heap[--n];
        sift_down(heap, n, 0);
        const cm_nms_box *b = &j->boxes[c.index];
        if (is_hidden(j, b, n_kept))
            continue;
        j->kept[n_kept++] = c;
        if (j->in_cells)
            cm_nms_cells_add(&j->cells, b);
    }
    return n_kept;
}

/* Run over batches and classes; write triples to `out` when it is not NULL; count them. */
static cm_status run(cm_eval *e, job *j, int64_t *out, int64_t *n_out)
{
    const nms_attr *a = e->attr;
    const cm_tensor *boxes = cm_eval_in(e, BOXES), *scores = cm_eval_in(e, SCORES);
    int64_t classes = scores->dims[1];
    *n_out = 0;
    for (int64_t b = 0; b < boxes->dims[0]; b++) {
        for (int64_t i = 0; i < j->n_boxes; i++)
            j->boxes[i] = read_box((const float *)boxes->data + (b * j->n_boxes + i) * 4,
                                   a->center_point_box != 0);
        if (j->with_cells)
            cm_nms_cells_plan(&j->cells, j->boxes, j->n_boxes);
        for (int64_t c = 0; c < classes; c++) {
            CM_TRY(cm_check_cancel(e->cx));
            const float *s = (const float *)scores->data + (b * classes + c) * j->n_boxes;
            int64_t n = select_boxes(j, s);
            for (int64_t k = 0; k < n; k++, ++*n_out) {
                out[*n_out * 3] = b;
                out[*n_out * 3 + 1] = c;
                out[*n_out * 3 + 2] = j->kept[k].index;
            }
        }
    }
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const cm_tensor *boxes = cm_eval_in(e, BOXES), *scores = cm_eval_in(e, SCORES);
    job j = {.n_boxes = boxes->dims[1], .by_score = cm_eval_has(e, SCORE)};
    int64_t most = cm_eval_has(e, MAX_BOXES) ? cm_eval_int(e, MAX_BOXES, 0) : 0, n = 0;
    j.most = cm_max_i64(0, cm_min_i64(most, j.n_boxes));
    j.iou = cm_eval_has(e, IOU) ? (float)cm_eval_f64(e, IOU, 0) : 0;
    j.score = j.by_score ? (float)cm_eval_f64(e, SCORE, 0) : 0;
    size_t n_boxes = (size_t)j.n_boxes, rows;
    if (!cm_mul((size_t)(boxes->dims[0] * scores->dims[1]), (size_t)j.most, &rows))
        return cm_fail_memory(e->cx);
    void *p, *found;
    CM_TRY(cm_eval_scratch(e, n_boxes, sizeof *j.boxes, &p));
    j.boxes = p;
    CM_TRY(cm_eval_scratch(e, n_boxes, sizeof *j.candidates, &p));
    j.candidates = p;
    CM_TRY(cm_eval_scratch(e, (size_t)j.most, sizeof *j.kept, &p));
    j.kept = p;
    j.with_cells = j.most >= CELLS_FROM && j.iou >= 0;
    if (j.with_cells)
        CM_TRY(cm_nms_cells_alloc(e, j.n_boxes, &j.cells));
    CM_TRY(cm_eval_scratch(e, rows, 3 * sizeof(int64_t), &found));
    if (j.most > 0)
        CM_TRY(run(e, &j, found, &n));
    CM_TRY(cm_eval_alloc(e, 0, CM_I64, 2, (int64_t[]){n, 3}));
    if (cm_eval_wants(e, 0))
        for (int64_t i = 0; i < n * 3; i++)
            ((int64_t *)cm_eval_out(e, 0)->data)[i] = ((const int64_t *)found)[i];
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    c->ops = 16 * cm_infer_volume(f, f->in[SCORES].type);
}

const cm_family cm_family_nms = {.name = "nms", .infer = infer, .eval = eval, .cost = cost};
