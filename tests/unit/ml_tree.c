/* ml_tree.c -- trees as they are walked against trees as they are written: every mode, missing values,
 * splits that are no numbers, nodes that several others lead to.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "op_text.h"
#include "ops/ml/ml_tree.h"

enum { NODES = 40, LEAVES = 30, ROOTS = 11, FEATURES = 5, MEMBERS = 3 };

static uint32_t seed = 1;

static uint32_t pick(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* Few numbers, so that equal ones meet, and those at the ends. */
static double number(void)
{
    static const double some[] = {-1,       -0.0,      0,   1,      2,      0.5,
                                  INFINITY, -INFINITY, NAN, 5e-324, -5e-324};
    return some[pick(CM_COUNT(some))];
}

static bool goes_yes(const cm_forest *f, const cm_tree_node *node, double v)
{
    if (isnan(v))
        return node->missing_yes;
    switch (node->mode) {
    case CM_LEQ:
        return v <= node->split;
    case CM_LT:
        return v < node->split;
    case CM_GTE:
        return v >= node->split;
    case CM_GT:
        return v > node->split;
    case CM_EQ:
        return v == node->split;
    case CM_NEQ:
        return v != node->split;
    default:
        for (int64_t i = f->set_from[node->set]; i < f->set_from[node->set + 1]; i++)
            if (f->members[i] == v)
                return true;
        return false;
    }
}

static int64_t leaf_of(const cm_forest *f, int64_t root, const double *x)
{
    int64_t at = f->roots[root];
    while (at >= 0)
        at = f->nodes[at].yes + (goes_yes(f, &f->nodes[at], x[f->nodes[at].feature])
                                     ? 0
                                     : f->nodes[at].no - f->nodes[at].yes);
    return ~at;
}

/* A child further on, so that there is no cycle, or a leaf. */
static int64_t child(int64_t i, bool shared)
{
    int64_t to = shared ? i + 1 + pick(6) : 2 * i + 1 + pick(2);
    return to < NODES && pick(8) ? to : ~(int64_t)pick(LEAVES);
}

typedef struct {
    cm_forest f;
    cm_tree_node nodes[NODES];
    int64_t roots[ROOTS], leaf_from[LEAVES + 1], set_from[NODES + 1];
    cm_tree_vote votes[2 * LEAVES];
    double members[NODES * MEMBERS];
} forest;

static void random_forest(forest *r, bool shared, int n_modes)
{
    static const double sorted[] = {-INFINITY, -1, 0, 5e-324, 0.5, 2};
    memset(r, 0, sizeof *r);
    r->f = (cm_forest){.n_nodes = NODES,
                       .n_leaves = LEAVES,
                       .n_roots = ROOTS,
                       .nodes = r->nodes,
                       .roots = r->roots,
                       .leaf_from = r->leaf_from,
                       .votes = r->votes,
                       .set_from = r->set_from,
                       .members = r->members,
                       .max_feature = FEATURES - 1};
    for (int64_t i = 0; i < NODES; i++) {
        const uint32_t first = pick(4), n = pick(MEMBERS + 1);
        r->nodes[i] = (cm_tree_node){.feature = pick(FEATURES),
                                     .split = number(),
                                     .set = i,
                                     .mode = (uint8_t)pick((uint32_t)n_modes),
                                     .missing_yes = pick(2)};
        r->nodes[i].yes = child(i, shared);
        r->nodes[i].no = child(i, shared);
        r->set_from[i + 1] = r->set_from[i] + n;
        for (uint32_t k = 0; k < n; k++)
            r->members[r->set_from[i] + k] = sorted[first + k];
    }
    for (int64_t i = 0; i < LEAVES; i++)
        r->leaf_from[i + 1] = r->leaf_from[i] + (shared ? pick(3) : 1);
    r->f.n_votes = r->leaf_from[LEAVES];
    for (int64_t t = 0; t < ROOTS; t++)
        r->roots[t] = pick(5) ? (int64_t)pick(NODES) : ~(int64_t)pick(LEAVES);
}

static void check_walks(const cm_forest *f, const cm_flat_forest *flat)
{
    enum { ROWS = CM_FLAT_ROWS };
    double rows[ROWS][FEATURES], x[ROWS * 2 * FEATURES];
    uint32_t together[ROWS], leaves[ROOTS];
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < FEATURES; i++)
            rows[r][i] = number();
        cm_flat_columns(flat, CM_F64, rows[r], x + r * flat->n_columns);
    }
    for (int64_t t = 0; t < ROOTS; t++) {
        cm_flat_walk_rows(flat, x, t, together);
        for (int r = 0; r < ROWS; r++) {
            const int64_t leaf = leaf_of(f, t, rows[r]);
            assert_int_equal(together[r], flat->one_vote ? f->leaf_from[leaf] : leaf);
            cm_flat_walk_trees(flat, x + r * flat->n_columns, 0, ROOTS, leaves);
            assert_int_equal(leaves[t], together[r]);
            cm_flat_walk_trees(flat, x + r * flat->n_columns, t, t + 1, leaves);
            assert_int_equal(leaves[0], together[r]);
        }
    }
}

static void test_flat_trees_end_where_the_written_ones_do(void **state)
{
    (void)state;
    static forest r;
    for (int i = 0; i < 2000; i++) {
        const cm_arena_mark mark = cm_arena_save(&op_text_arena);
        cm_flat_forest flat;
        random_forest(&r, i % 2, i % 3 ? CM_LEAF : CM_EQ);
        assert_int_equal(cm_forest_flatten(&op_text_cx, &op_text_arena, &r.f, &flat), CM_OK);
        if (i % 2 == 0)
            assert_true(flat.one_vote);
        check_walks(&r.f, &flat);
        cm_arena_restore(&op_text_arena, mark);
    }
}

static void test_a_set_is_looked_up_however_it_is_written(void **state)
{
    (void)state;
    const char *tree = "n_targets=1 nodes_featureids=0 nodes_modes=u8[1]{6} nodes_splits=f32[1]{0} "
                       "nodes_falseleafs=1 nodes_falsenodeids=0 nodes_trueleafs=1 "
                       "nodes_truenodeids=1 leaf_targetids=0,0 leaf_weights=f32[2]{5,6} "
                       "tree_roots=0 membership_values=f32[5]{4,3,4,-2,3} ";
    char text[1024];
    SAME(infer("ai.onnx.ml.TreeEnsemble", tree, "f32[n,1]", NULL), "f32[n,1]");
    SAME(eval("ai.onnx.ml.TreeEnsemble", tree, "f32[7,1]{3,4,-2,3.5,nan,-inf,inf}", NULL),
         "f32[7,1]{6,6,6,5,5,5,5}");
    snprintf(text, sizeof text, "%snodes_missing_value_tracks_true=1", tree);
    SAME(eval("ai.onnx.ml.TreeEnsemble", text, "f32[3,1]{3,3.5,nan}", NULL), "f32[3,1]{6,5,6}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_flat_trees_end_where_the_written_ones_do),
        OP_TEXT_TEST(test_a_set_is_looked_up_however_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
