/* ml_tree.h -- decision trees in one form, whatever attributes they came in.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_ML_TREE_H
#define CM_OPS_ML_TREE_H

#include "ops/ml/ml.h"

/* TreeEnsemble's attributes. */
typedef struct {
    uint64_t present;
    int64_t aggregate_function, n_targets, post_transform;
    cm_ints leaf_targetids;
    const cm_tensor *leaf_weights, *membership_values;
    cm_ints nodes_falseleafs, nodes_falsenodeids, nodes_featureids;
    const cm_tensor *nodes_hitrates;
    cm_ints nodes_missing_value_tracks_true;
    const cm_tensor *nodes_modes, *nodes_splits;
    cm_ints nodes_trueleafs, nodes_truenodeids, tree_roots;
} cm_tree_attr;

/* What TreeEnsembleClassifier and TreeEnsembleRegressor have in common: nodes by tree and id. Lists
 * of floats come plain or, as doubles, in a tensor. */
typedef struct {
    cm_ints nodes_treeids, nodes_nodeids, nodes_featureids, nodes_truenodeids, nodes_falsenodeids;
    cm_ints nodes_missing_value_tracks_true;
    cm_strs nodes_modes;
    cm_floats nodes_values;
    const cm_tensor *nodes_values_as_tensor;
    cm_ints vote_treeids, vote_nodeids, vote_ids; /* class_* or target_* */
    cm_floats vote_weights;
    const cm_tensor *vote_weights_as_tensor;
} cm_tree_nodes;

typedef enum { CM_LEQ, CM_LT, CM_GTE, CM_GT, CM_EQ, CM_NEQ, CM_MEMBER, CM_LEAF } cm_tree_mode;

typedef struct {
    int64_t feature;
    double split;
    int64_t yes, no; /* a node, or ~leaf */
    int64_t set;     /* MEMBER: which set */
    uint8_t mode;
    bool missing_yes; /* where NaN goes */
} cm_tree_node;

typedef struct {
    int64_t target;
    double weight;
} cm_tree_vote;

/* Every index in it was checked, and every walk from a root ends. */
typedef struct {
    int64_t n_nodes, n_leaves, n_roots, n_votes, n_sets;
    cm_tree_node *nodes;
    int64_t *roots;     /* nodes or ~leaves */
    int64_t *leaf_from; /* votes of leaf i: [leaf_from[i], leaf_from[i + 1]) */
    cm_tree_vote *votes;
    int64_t *set_from;   /* members of set i, likewise */
    double *members;     /* of a set: ascending, each once */
    int64_t max_feature; /* the largest that is looked at; -1: none */
} cm_forest;

/* Built in cx->scratch. Votes are for targets in [0, n_targets). */
cm_status cm_forest_from_tree(cm_ctx *cx, const cm_tree_attr *a, cm_forest *out) CM_MUST_USE;
cm_status cm_forest_from_nodes(cm_ctx *cx, const cm_tree_nodes *a, int64_t n_targets,
                               cm_forest *out) CM_MUST_USE;

/* ---- as it is walked: ml_tree_flat.c ---- */

/* All that a node asks is x[column] <= limit: the next node is `below` where that does not hold, as it
 * never does for NaN, else the one after it. A leaf is below itself, and its limit is a NaN whose low
 * bits are its number. */
typedef struct {
    double limit;
    uint32_t column, below;
} cm_flat_node;

/* What the nodes look at: a feature, or what it is with its sign changed (for >= and >). */
typedef struct {
    uint32_t feature;
    bool negative;
} cm_flat_column;

typedef struct {
    uint32_t node;
    uint32_t nearest, farthest; /* leaves, in steps from it: none nearer, none farther */
} cm_flat_root;

typedef struct {
    int64_t n_roots, n_columns, n_votes;
    int64_t max_feature;
    cm_flat_root *roots;
    cm_flat_node *nodes;
    cm_flat_column *columns;
    bool one_vote; /* every leaf has one, whose number is the leaf's: leaf_from is not needed */
    int64_t *leaf_from; /* as in cm_forest */
    cm_tree_vote *votes;
} cm_flat_forest;

/* In `arena`; cx->scratch is used besides. */
cm_status cm_forest_flatten(cm_ctx *cx, cm_arena *arena, const cm_forest *f,
                            cm_flat_forest *out) CM_MUST_USE;
/* The columns of a row of features, which are of `dtype`. */
void cm_flat_columns(const cm_flat_forest *f, cm_dtype dtype, const void *features, double *x);
/* Where a row ends in the trees [first, last): leaves[0] is that of `first`. */
void cm_flat_walk_trees(const cm_flat_forest *f, const double *x, int64_t first, int64_t last,
                        uint32_t *leaves);
/* Where CM_FLAT_ROWS rows, one after another, end in one tree. */
enum { CM_FLAT_ROWS = 8 };
void cm_flat_walk_rows(const cm_flat_forest *f, const double *x, int64_t tree, uint32_t *leaves);

#endif
