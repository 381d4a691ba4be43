/* ml_tree.c -- ai.onnx.ml: ensembles of decision trees.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where the specification is silent (what a classifier of two classes makes of votes for one of
 * them) the answers are ONNX Runtime's. */
#include "ops/ml/ml_tree.h"

#include <string.h>

CM_ATTRS(tree_ensemble, cm_tree_attr, CM_ATTR_INT(cm_tree_attr, aggregate_function, 1),
         CM_ATTR_INTS(cm_tree_attr, leaf_targetids, CM_REQUIRED),
         CM_ATTR_TENSOR(cm_tree_attr, leaf_weights, CM_REQUIRED),
         CM_ATTR_TENSOR(cm_tree_attr, membership_values, 0),
         CM_ATTR_INT(cm_tree_attr, n_targets, 0),
         CM_ATTR_INTS(cm_tree_attr, nodes_falseleafs, CM_REQUIRED),
         CM_ATTR_INTS(cm_tree_attr, nodes_falsenodeids, CM_REQUIRED),
         CM_ATTR_INTS(cm_tree_attr, nodes_featureids, CM_REQUIRED),
         CM_ATTR_TENSOR(cm_tree_attr, nodes_hitrates, 0),
         CM_ATTR_INTS(cm_tree_attr, nodes_missing_value_tracks_true, 0),
         CM_ATTR_TENSOR(cm_tree_attr, nodes_modes, CM_REQUIRED),
         CM_ATTR_TENSOR(cm_tree_attr, nodes_splits, CM_REQUIRED),
         CM_ATTR_INTS(cm_tree_attr, nodes_trueleafs, CM_REQUIRED),
         CM_ATTR_INTS(cm_tree_attr, nodes_truenodeids, CM_REQUIRED),
         CM_ATTR_INT(cm_tree_attr, post_transform, 0),
         CM_ATTR_INTS(cm_tree_attr, tree_roots, CM_REQUIRED))

typedef struct {
    uint64_t present;
    cm_floats base_values;
    const cm_tensor *base_values_as_tensor;
    cm_ints class_ids, class_nodeids, class_treeids;
    cm_floats class_weights;
    const cm_tensor *class_weights_as_tensor;
    cm_ints classlabels_int64s;
    cm_strs classlabels_strings;
    cm_ints nodes_falsenodeids, nodes_featureids;
    cm_floats nodes_hitrates;
    const cm_tensor *nodes_hitrates_as_tensor;
    cm_ints nodes_missing_value_tracks_true;
    cm_strs nodes_modes;
    cm_ints nodes_nodeids, nodes_treeids, nodes_truenodeids;
    cm_floats nodes_values;
    const cm_tensor *nodes_values_as_tensor;
    cm_str post_transform;
} classifier_attr;
#define NODE_FIELDS(s)                                                                             \
    CM_ATTR_INTS(s, nodes_falsenodeids, 0), CM_ATTR_INTS(s, nodes_featureids, 0),                  \
        CM_ATTR_FLOATS(s, nodes_hitrates, 0), CM_ATTR_TENSOR(s, nodes_hitrates_as_tensor, 0),      \
        CM_ATTR_INTS(s, nodes_missing_value_tracks_true, 0), CM_ATTR_STRS(s, nodes_modes, 0),      \
        CM_ATTR_INTS(s, nodes_nodeids, 0), CM_ATTR_INTS(s, nodes_treeids, 0),                      \
        CM_ATTR_INTS(s, nodes_truenodeids, 0), CM_ATTR_FLOATS(s, nodes_values, 0),                 \
        CM_ATTR_TENSOR(s, nodes_values_as_tensor, 0), CM_ATTR_STR(s, post_transform, "NONE"),      \
        CM_ATTR_FLOATS(s, base_values, 0), CM_ATTR_TENSOR(s, base_values_as_tensor, 0)
CM_ATTRS(tree_ensemble_classifier, classifier_attr, NODE_FIELDS(classifier_attr),
         CM_ATTR_INTS(classifier_attr, class_ids, 0),
         CM_ATTR_INTS(classifier_attr, class_nodeids, 0),
         CM_ATTR_INTS(classifier_attr, class_treeids, 0),
         CM_ATTR_FLOATS(classifier_attr, class_weights, 0),
         CM_ATTR_TENSOR(classifier_attr, class_weights_as_tensor, 0),
         CM_ATTR_INTS(classifier_attr, classlabels_int64s, 0),
         CM_ATTR_STRS(classifier_attr, classlabels_strings, 0))

typedef struct {
    uint64_t present;
    cm_str aggregate_function;
    cm_floats base_values;
    const cm_tensor *base_values_as_tensor;
    int64_t n_targets;
    cm_ints nodes_falsenodeids, nodes_featureids;
    cm_floats nodes_hitrates;
    const cm_tensor *nodes_hitrates_as_tensor;
    cm_ints nodes_missing_value_tracks_true;
    cm_strs nodes_modes;
    cm_ints nodes_nodeids, nodes_treeids, nodes_truenodeids;
    cm_floats nodes_values;
    const cm_tensor *nodes_values_as_tensor;
    cm_str post_transform;
    cm_ints target_ids, target_nodeids, target_treeids;
    cm_floats target_weights;
    const cm_tensor *target_weights_as_tensor;
} regressor_attr;
CM_ATTRS(tree_ensemble_regressor, regressor_attr, NODE_FIELDS(regressor_attr),
         CM_ATTR_STR(regressor_attr, aggregate_function, "SUM"),
         CM_ATTR_INT(regressor_attr, n_targets, 0), CM_ATTR_INTS(regressor_attr, target_ids, 0),
         CM_ATTR_INTS(regressor_attr, target_nodeids, 0),
         CM_ATTR_INTS(regressor_attr, target_treeids, 0),
         CM_ATTR_FLOATS(regressor_attr, target_weights, 0),
         CM_ATTR_TENSOR(regressor_attr, target_weights_as_tensor, 0))

/* ---- one model, whichever operator it came from ---- */

typedef enum { AVERAGE, SUM, MIN, MAX } aggregate; /* TreeEnsemble's numbers */

typedef struct {
    cm_flat_forest forest;
    int64_t n; /* targets or classes */
    aggregate how;
    cm_ml_transform transform;
    int64_t n_base;
    const float *base;
    const cm_tensor *base_tensor;
    bool classifier;
    cm_ml_labels labels;
    bool one_class, all_positive; /* of two: votes are for one of them; no weight is negative */
} model;

static double base_value(const model *m, int64_t i)
{
    return m->base_tensor ? cm_get_f64(m->base_tensor->dtype, m->base_tensor->data, i)
                          : (double)m->base[i];
}

static cm_status check_targets(cm_ctx *cx, const model *m)
{
    if (m->n < 1)
        return cm_fail(cx, CM_ERR_MODEL, "%lld targets", (long long)m->n);
    if (m->base_tensor && !cm_dtype_is_float(m->base_tensor->dtype))
        return cm_fail(cx, CM_ERR_MODEL, "base_values_as_tensor is of %s",
                       cm_dtype_name(m->base_tensor->dtype));
    return CM_OK;
}

#define COMMON_NODES(a)                                                                            \
    .nodes_treeids = (a)->nodes_treeids, .nodes_nodeids = (a)->nodes_nodeids,                      \
    .nodes_featureids = (a)->nodes_featureids, .nodes_truenodeids = (a)->nodes_truenodeids,        \
    .nodes_falsenodeids = (a)->nodes_falsenodeids,                                                 \
    .nodes_missing_value_tracks_true = (a)->nodes_missing_value_tracks_true,                       \
    .nodes_modes = (a)->nodes_modes, .nodes_values = (a)->nodes_values,                            \
    .nodes_values_as_tensor = (a)->nodes_values_as_tensor

static void set_base(model *m, const cm_floats *plain, const cm_tensor *tensor)
{
    m->n_base = tensor ? cm_tensor_elems(tensor) : plain->n;
    m->base = plain->v;
    m->base_tensor = tensor;
}

static cm_status read_classifier(cm_ctx *cx, const classifier_attr *a, cm_forest *trees, model *m)
{
    const cm_tree_nodes nodes = {
        COMMON_NODES(a),
        .vote_treeids = a->class_treeids,
        .vote_nodeids = a->class_nodeids,
        .vote_ids = a->class_ids,
        .vote_weights = a->class_weights,
        .vote_weights_as_tensor = a->class_weights_as_tensor,
    };
    m->classifier = true;
    m->how = SUM;
    m->labels = (cm_ml_labels){a->classlabels_int64s, a->classlabels_strings};
    m->n = cm_ml_labels_count(&m->labels);
    set_base(m, &a->base_values, a->base_values_as_tensor);
    CM_TRY(cm_ml_transform_parse(cx, a->post_transform, &m->transform));
    if (m->n_base && m->n_base != m->n && !(m->n_base == 1 && m->n <= 2))
        return cm_fail(cx, CM_ERR_MODEL, "base_values has %lld entries for %lld classes",
                       (long long)m->n_base, (long long)m->n);
    CM_TRY(check_targets(cx, m));
    if (!trees)
        return CM_OK;
    CM_TRY(cm_forest_from_nodes(cx, &nodes, m->n, trees));
    m->all_positive = true;
    m->one_class = m->n == 2 && trees->n_votes > 0;
    for (int64_t i = 0; i < trees->n_votes; i++) {
        m->all_positive &= trees->votes[i].weight >= 0;
        m->one_class &= trees->votes[i].target == trees->votes[0].target;
    }
    return CM_OK;
}

static cm_status read_regressor(cm_ctx *cx, const regressor_attr *a, cm_forest *trees, model *m)
{
    static const char *const names[] = {"AVERAGE", "SUM", "MIN", "MAX"};
    const cm_tree_nodes nodes = {
        COMMON_NODES(a),
        .vote_treeids = a->target_treeids,
        .vote_nodeids = a->target_nodeids,
        .vote_ids = a->target_ids,
        .vote_weights = a->target_weights,
        .vote_weights_as_tensor = a->target_weights_as_tensor,
    };
    int how = 0;
    while (how < CM_COUNT(names) && !cm_str_equal(a->aggregate_function, cm_str_of(names[how])))
        how++;
    if (how == CM_COUNT(names))
        return cm_fail(cx, CM_ERR_MODEL, "aggregate_function is none of AVERAGE, SUM, MIN, MAX");
    m->how = (aggregate)how;
    m->n = a->n_targets;
    set_base(m, &a->base_values, a->base_values_as_tensor);
    CM_TRY(cm_ml_transform_parse(cx, a->post_transform, &m->transform));
    if (m->n_base && m->n_base != m->n)
        return cm_fail(cx, CM_ERR_MODEL, "base_values has %lld entries for %lld targets",
                       (long long)m->n_base, (long long)m->n);
    CM_TRY(check_targets(cx, m));
    return trees ? cm_forest_from_nodes(cx, &nodes, m->n, trees) : CM_OK;
}

static cm_status read_tree(cm_ctx *cx, const cm_tree_attr *a, cm_forest *trees, model *m)
{
    if (a->aggregate_function < AVERAGE || a->aggregate_function > MAX)
        return cm_fail(cx, CM_ERR_MODEL, "aggregate_function is %lld, wanted 0 to 3",
                       (long long)a->aggregate_function);
    if (a->post_transform < CM_ML_NONE || a->post_transform > CM_ML_PROBIT)
        return cm_fail(cx, CM_ERR_MODEL, "post_transform is %lld, wanted 0 to 4",
                       (long long)a->post_transform);
    m->how = (aggregate)a->aggregate_function;
    m->transform = (cm_ml_transform)a->post_transform;
    m->n = a->n_targets;
    CM_TRY(check_targets(cx, m));
    return trees ? cm_forest_from_tree(cx, a, trees) : CM_OK;
}

/* `trees` (NULL: not wanted) are in scratch. */
static cm_status read_model(cm_ctx *cx, cm_op_id op, const void *attr, cm_forest *trees, model *m)
{
    memset(m, 0, sizeof *m);
    switch (op) {
    case CM_OP_TREE_ENSEMBLE:
        return read_tree(cx, attr, trees, m);
    case CM_OP_TREE_ENSEMBLE_CLASSIFIER:
        return read_classifier(cx, attr, trees, m);
    default:
        return read_regressor(cx, attr, trees, m);
    }
}

static cm_status prepare(cm_ctx *cx, cm_arena *arena, const cm_op *op, const void *attr,
                         const void **out)
{
    model *m;
    cm_forest trees;
    CM_NEW(cx, arena, m, model);
    CM_TRY(read_model(cx, op->id, attr, &trees, m));
    CM_TRY(cm_forest_flatten(cx, arena, &trees, &m->forest));
    *out = m;
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    model m;
    cm_forest trees;
    /* The trees are checked when a network is built and again when a plan is opened. */
    cm_arena_mark mark = cm_arena_save(f->cx->scratch);
    cm_status st = read_model(f->cx, f->op->id, f->attr, f->dims ? &trees : NULL, &m);
    cm_arena_restore(f->cx->scratch, mark);
    CM_TRY(st);
    if (m.classifier)
        return cm_ml_infer_classifier(f, &m.labels, m.n == 1 ? 1 : m.n);
    CM_TRY(cm_ml_check_input(f));
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    return cm_infer_tensor(f, 0, 2, (cm_dim[]){cm_ml_rows(f), m.n});
}

/* ---- votes to scores ---- */

static void add_vote(aggregate how, double w, double *score, uint8_t *voted)
{
    if (how == SUM || how == AVERAGE)
        *score += w;
    else if (!*voted || (how == MIN ? w < *score : w > *score))
        *score = w;
    *voted = 1;
}

/* Two scores from one decision d for the second class. */
static void spread(const model *m, double d, double *s)
{
    const bool logistic = m->transform == CM_ML_LOGISTIC;
    s[1] = logistic ? cm_ml_logistic(d) : d;
    if (logistic)
        s[0] = cm_ml_logistic(-d);
    else /* weights that are shares leave the rest to the first class */
        s[0] = m->all_positive || m->transform == CM_ML_PROBIT ? 1 - d : -d;
    if (m->transform == CM_ML_PROBIT)
        cm_ml_transform_scores(m->transform, s, 2);
}

/* Two classes, all votes for one of them: a decision for or against the second class. */
static int64_t finish_decision(const model *m, double *s)
{
    const bool first = m->forest.votes[0].target == 0;
    const double d = first ? s[0] + (m->n_base ? base_value(m, 0) : 0) : s[1];
    if (first)
        spread(m, d, s);
    else
        cm_ml_transform_scores(m->transform, s, 2);
    return d > (m->all_positive ? 0.5 : 0);
}

/* The class with the highest score; one that no tree voted for has none unless all have a base. */
static int64_t finish_classes(const model *m, double *s, const uint8_t *voted)
{
    int64_t best = -1;
    for (int64_t k = 0; k < m->n; k++) {
        if (k < m->n_base)
            s[k] += base_value(m, k);
        if ((voted[k] || m->n_base == m->n) && (best < 0 || s[k] > s[best]))
            best = k;
    }
    cm_ml_transform_scores(m->transform, s, m->n);
    return best < 0 ? 0 : best;
}

static void finish_targets(const model *m, double *s)
{
    for (int64_t k = 0; k < m->n; k++) {
        if (m->how == AVERAGE && m->forest.n_roots)
            s[k] /= (double)m->forest.n_roots;
        if (m->n_base)
            s[k] += base_value(m, k);
    }
    cm_ml_transform_scores(m->transform, s, m->n);
}

/* The trees' votes come in their order, however the walks went. */
static void vote(const model *m, uint32_t leaf, double *s, uint8_t *voted)
{
    const cm_flat_forest *f = &m->forest;
    if (f->one_vote && m->how == SUM) {
        s[f->votes[leaf].target] += f->votes[leaf].weight;
        voted[f->votes[leaf].target] = 1;
        return;
    }
    const int64_t from = f->one_vote ? leaf : f->leaf_from[leaf];
    const int64_t end = f->one_vote ? from + 1 : f->leaf_from[leaf + 1];
    for (int64_t v = from; v < end; v++)
        add_vote(m->how, f->votes[v].weight, &s[f->votes[v].target], &voted[f->votes[v].target]);
}

/* ---- rows ---- */

enum { BLOCK_ROWS = 64 }; /* that go through a tree before the next is looked at */

typedef struct {
    const model *m;
    cm_dtype dtype;
    const unsigned char *features;
    size_t row_bytes;
    int64_t rows, block, n_pieces;
    double *x;        /* per piece: the columns of a block */
    uint32_t *leaves; /* per piece: of one row, by tree */
    double *scores;   /* m->n for each row */
    uint8_t *voted;   /* whether a tree voted for it */
    int64_t *labels;
} job;

static void finish_row(const job *j, int64_t row)
{
    const model *m = j->m;
    double *s = j->scores + row * m->n;
    if (!m->classifier)
        finish_targets(m, s);
    else if (m->one_class && m->n_base < 2)
        j->labels[row] = finish_decision(m, s);
    else
        j->labels[row] = finish_classes(m, s, j->voted + row * m->n);
}

static void vote_row(const job *j, int64_t row, const uint32_t *leaves)
{
    const model *m = j->m;
    for (int64_t t = 0; t < m->forest.n_roots; t++)
        vote(m, leaves[t], j->scores + row * m->n, j->voted + row * m->n);
}

/* Rows [begin, end), at most BLOCK_ROWS: as many as can side by side, the others one by one. */
static void run_block(const job *j, int64_t begin, int64_t end, double *x, uint32_t *leaves)
{
    const model *m = j->m;
    const cm_flat_forest *f = &m->forest;
    const int64_t n = end - begin, together = n - n % CM_FLAT_ROWS;
    for (int64_t i = 0; i < n; i++)
        cm_flat_columns(f, j->dtype, j->features + (size_t)(begin + i) * j->row_bytes,
                        x + i * f->n_columns);
    for (int64_t t = 0; together && t < f->n_roots; t++)
        for (int64_t i = 0; i < together; i += CM_FLAT_ROWS) {
            uint32_t at[CM_FLAT_ROWS];
            cm_flat_walk_rows(f, x + i * f->n_columns, t, at);
            for (int64_t k = 0, row = begin + i; k < CM_FLAT_ROWS; k++, row++)
                vote(m, at[k], j->scores + row * m->n, j->voted + row * m->n);
        }
    for (int64_t i = together; i < n; i++) {
        cm_flat_walk_trees(f, x + i * f->n_columns, 0, f->n_roots, leaves);
        vote_row(j, begin + i, leaves);
    }
    for (int64_t row = begin; row < end; row++)
        finish_row(j, row);
}

static void run_pieces(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t p = begin; p < end; p++) {
        double *x = j->x + p * j->block * j->m->forest.n_columns;
        uint32_t *leaves = j->leaves + p * j->m->forest.n_roots;
        const int64_t to = j->rows * (p + 1) / j->n_pieces;
        for (int64_t row = j->rows * p / j->n_pieces; row < to; row += BLOCK_ROWS)
            run_block(j, row, row + BLOCK_ROWS < to ? row + BLOCK_ROWS : to, x, leaves);
    }
}

static void run_trees(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    cm_flat_walk_trees(&j->m->forest, j->x, begin, end, j->leaves + begin);
}

/* Few rows: threads share the trees of each. */
static void run_row_by_row(cm_threads *threads, job *j)
{
    enum { TREES_WORTH_A_THREAD = 256 };
    const cm_flat_forest *f = &j->m->forest;
    for (int64_t row = 0; row < j->rows; row++) {
        cm_flat_columns(f, j->dtype, j->features + (size_t)row * j->row_bytes, j->x);
        cm_parallel(threads, f->n_roots, TREES_WORTH_A_THREAD, run_trees, j);
        vote_row(j, row, j->leaves);
        finish_row(j, row);
    }
}

static cm_status start(cm_eval *e, const model *m, job *j)
{
    const cm_tensor *in = cm_eval_in(e, 0);
    const int64_t width = cm_ml_eval_features(e), threads = cm_threads_count(e->threads);
    void *v;
    *j = (job){.m = m, .dtype = in->dtype, .features = in->data, .rows = cm_ml_eval_rows(e)};
    j->row_bytes = (size_t)width * cm_dtype_size(in->dtype);
    if (m->forest.max_feature >= width && j->rows > 0)
        return cm_fail(e->cx, CM_ERR_DATA, "the trees look at feature %lld of %lld",
                       (long long)m->forest.max_feature, (long long)width);
    j->block = j->rows < BLOCK_ROWS ? j->rows : BLOCK_ROWS;
    j->n_pieces = (j->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    j->n_pieces = j->n_pieces < threads ? j->n_pieces : threads;
    const size_t n_x = (size_t)(j->n_pieces * j->block), n = (size_t)m->forest.n_columns;
    j->x = cm_arena_alloc_n(e->cx->scratch, n_x, n * sizeof *j->x, 64, 0);
    j->leaves = cm_arena_alloc_n(e->cx->scratch, (size_t)(j->n_pieces * m->forest.n_roots),
                                 sizeof *j->leaves, 64, 0);
    if (!j->x || !j->leaves)
        return cm_fail_memory(e->cx);
    CM_TRY(cm_eval_scratch(e, (size_t)(j->rows * m->n), sizeof(double), &v));
    j->scores = v;
    CM_TRY(cm_eval_scratch(e, (size_t)(j->rows * m->n), 1, &v));
    j->voted = v;
    CM_TRY(cm_eval_scratch(e, (size_t)j->rows, sizeof(int64_t), &v));
    j->labels = v;
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const model *m = e->prepared;
    job j;
    CM_TRY(start(e, m, &j));
    if (j.rows < CM_FLAT_ROWS)
        run_row_by_row(e->threads, &j);
    else
        cm_parallel(e->threads, j.n_pieces, 1, run_pieces, &j);
    for (int64_t r = 0; m->classifier && r < j.rows; r++)
        cm_ml_put_label(e, &m->labels, r, j.labels[r]);
    const int o = m->classifier;
    if (cm_eval_wants(e, o))
        cm_store_f64(cm_eval_out(e, o)->dtype, j.scores, j.rows * m->n, cm_eval_out(e, o)->data);
    return CM_OK;
}

const cm_family cm_family_ml_tree = {
    .name = "ml_tree", .infer = infer, .eval = eval, .prepare = prepare};
