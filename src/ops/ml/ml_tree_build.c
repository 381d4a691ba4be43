/* ml_tree_build.c -- reads the attributes of the tree operators into one form, and checks them:
 * trees come from files, and one with a cycle must not be walked for ever.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "ops/ml/ml_tree.h"

static cm_status check_length(cm_ctx *cx, const char *what, int64_t found, int64_t wanted)
{
    if (found == wanted)
        return CM_OK;
    return cm_fail(cx, CM_ERR_MODEL, "%s has %lld entries, wanted %lld", what, (long long)found,
                   (long long)wanted);
}

static cm_status check_numbers(cm_ctx *cx, const char *what, const cm_tensor *t, int64_t n)
{
    if (!cm_dtype_is_float(t->dtype) && !cm_dtype_is_integer(t->dtype))
        return cm_fail(cx, CM_ERR_MODEL, "%s is of %s", what, cm_dtype_name(t->dtype));
    return check_length(cx, what, cm_tensor_elems(t), n);
}

static cm_status check_index(cm_ctx *cx, const char *what, int64_t i, int64_t found, int64_t n)
{
    if (found >= 0 && found < n)
        return CM_OK;
    return cm_fail(cx, CM_ERR_MODEL, "%s[%lld] is %lld, wanted 0 to %lld", what, (long long)i,
                   (long long)found, (long long)n - 1);
}

/* Walk all nodes below the roots depth first; a node met again while below itself is a cycle. */
static cm_status check_cycles(cm_ctx *cx, const cm_forest *f)
{
    enum { NEW, OPEN, DONE };
    uint8_t *state;
    int64_t *stack, n = 0;
    CM_NEW_N(cx, cx->scratch, state, f->n_nodes + 1, uint8_t);
    CM_NEW_N(cx, cx->scratch, stack, f->n_nodes + 1, int64_t);
    for (int64_t r = 0; r < f->n_roots; r++) {
        if (f->roots[r] < 0 || state[f->roots[r]] != NEW)
            continue;
        stack[n++] = f->roots[r];
        state[f->roots[r]] = OPEN;
        while (n > 0) {
            const cm_tree_node *node = &f->nodes[stack[n - 1]];
            const int64_t child[2] = {node->yes, node->no};
            bool deeper = false;
            for (int k = 0; k < 2 && !deeper; k++) {
                if (child[k] < 0 || state[child[k]] == DONE)
                    continue;
                if (state[child[k]] == OPEN)
                    return cm_fail(cx, CM_ERR_MODEL, "tree node %lld is below itself",
                                   (long long)child[k]);
                state[child[k]] = OPEN;
                stack[n++] = child[k];
                deeper = true;
            }
            if (!deeper)
                state[stack[--n]] = DONE;
        }
    }
    return CM_OK;
}

static cm_status check_features(cm_ctx *cx, cm_forest *f)
{
    f->max_feature = -1;
    for (int64_t i = 0; i < f->n_nodes; i++) {
        if (f->nodes[i].mode == CM_LEAF)
            continue;
        if (f->nodes[i].feature < 0)
            return cm_fail(cx, CM_ERR_MODEL, "nodes_featureids[%lld] is %lld", (long long)i,
                           (long long)f->nodes[i].feature);
        if (f->nodes[i].feature > f->max_feature)
            f->max_feature = f->nodes[i].feature;
    }
    return CM_OK;
}

/* ---- TreeEnsemble ---- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sort n members, each once; how many are left. */
static int64_t sort_set(double *v, int64_t n)
{
    int64_t kept = 0;
    qsort(v, (size_t)n, sizeof *v, by_value);
    for (int64_t i = 0; i < n; i++)
        if (!kept || v[i] != v[kept - 1])
            v[kept++] = v[i];
    return kept;
}

static cm_status read_sets(cm_ctx *cx, const cm_tensor *t, int64_t n_sets, cm_forest *f)
{
    const int64_t n = t ? cm_tensor_elems(t) : 0;
    int64_t set = 0, kept = 0;
    f->n_sets = n_sets;
    CM_NEW_N(cx, cx->scratch, f->set_from, n_sets + 1, int64_t);
    CM_NEW_N(cx, cx->scratch, f->members, n + 1, double);
    for (int64_t i = 0; i <= n && set < n_sets; i++) { /* NaN ends a set; so does the end */
        const double v = i < n ? cm_get_f64(t->dtype, t->data, i) : (double)NAN;
        const int64_t from = f->set_from[set];
        if (!isnan(v)) {
            f->members[kept++] = v;
        } else if (i < n || from < kept) {
            kept = from + sort_set(f->members + from, kept - from);
            f->set_from[++set] = kept;
        }
    }
    if (set < n_sets)
        return cm_fail(cx, CM_ERR_MODEL, "membership_values holds %lld sets, wanted %lld",
                       (long long)set, (long long)n_sets);
    return CM_OK;
}

static cm_status read_child(cm_ctx *cx, const char *what, int64_t i, int64_t index, int64_t leaf,
                            int64_t n_nodes, int64_t n_leaves, int64_t *out)
{
    CM_TRY(check_index(cx, what, i, index, leaf ? n_leaves : n_nodes));
    *out = leaf ? ~index : index;
    return CM_OK;
}

static cm_status check_tree_lists(cm_ctx *cx, const cm_tree_attr *a, int64_t n, int64_t n_leaves)
{
    if (!a->nodes_splits || !a->nodes_modes || !a->leaf_weights)
        return cm_fail(cx, CM_ERR_MODEL, "nodes_splits, nodes_modes or leaf_weights is missing");
    CM_TRY(check_numbers(cx, "nodes_splits", a->nodes_splits, n));
    CM_TRY(check_numbers(cx, "nodes_modes", a->nodes_modes, n));
    if (a->membership_values)
        CM_TRY(check_numbers(cx, "membership_values", a->membership_values,
                             cm_tensor_elems(a->membership_values)));
    CM_TRY(check_length(cx, "nodes_truenodeids", a->nodes_truenodeids.n, n));
    CM_TRY(check_length(cx, "nodes_falsenodeids", a->nodes_falsenodeids.n, n));
    CM_TRY(check_length(cx, "nodes_trueleafs", a->nodes_trueleafs.n, n));
    CM_TRY(check_length(cx, "nodes_falseleafs", a->nodes_falseleafs.n, n));
    if (a->nodes_missing_value_tracks_true.n)
        CM_TRY(check_length(cx, "nodes_missing_value_tracks_true",
                            a->nodes_missing_value_tracks_true.n, n));
    return check_numbers(cx, "leaf_weights", a->leaf_weights, n_leaves);
}

static cm_status read_leaves(cm_ctx *cx, const cm_tree_attr *a, cm_forest *f)
{
    f->n_votes = f->n_leaves = a->leaf_targetids.n;
    CM_NEW_N(cx, cx->scratch, f->leaf_from, f->n_leaves + 1, int64_t);
    CM_NEW_N(cx, cx->scratch, f->votes, f->n_leaves + 1, cm_tree_vote);
    for (int64_t i = 0; i < f->n_leaves; i++) {
        CM_TRY(check_index(cx, "leaf_targetids", i, a->leaf_targetids.v[i], a->n_targets));
        f->votes[i].target = a->leaf_targetids.v[i];
        f->votes[i].weight = cm_get_f64(a->leaf_weights->dtype, a->leaf_weights->data, i);
        f->leaf_from[i + 1] = i + 1;
    }
    return CM_OK;
}

cm_status cm_forest_from_tree(cm_ctx *cx, const cm_tree_attr *a, cm_forest *out)
{
    cm_forest f = {.n_nodes = a->nodes_featureids.n, .n_roots = a->tree_roots.n};
    const int64_t n_leaves = a->leaf_targetids.n;
    int64_t n_sets = 0;
    CM_TRY(check_tree_lists(cx, a, f.n_nodes, n_leaves));
    CM_NEW_N(cx, cx->scratch, f.nodes, f.n_nodes + 1, cm_tree_node);
    CM_NEW_N(cx, cx->scratch, f.roots, f.n_roots + 1, int64_t);
    for (int64_t i = 0; i < f.n_nodes; i++) {
        cm_tree_node *node = &f.nodes[i];
        const int64_t mode = cm_get_i64(a->nodes_modes->dtype, a->nodes_modes->data, i);
        CM_TRY(check_index(cx, "nodes_modes", i, mode, CM_LEAF));
        node->mode = (uint8_t)mode;
        node->feature = a->nodes_featureids.v[i];
        node->split = cm_get_f64(a->nodes_splits->dtype, a->nodes_splits->data, i);
        node->set = mode == CM_MEMBER ? n_sets++ : 0;
        if (a->nodes_missing_value_tracks_true.n)
            node->missing_yes = a->nodes_missing_value_tracks_true.v[i] != 0;
        CM_TRY(read_child(cx, "nodes_truenodeids", i, a->nodes_truenodeids.v[i],
                          a->nodes_trueleafs.v[i], f.n_nodes, n_leaves, &node->yes));
        CM_TRY(read_child(cx, "nodes_falsenodeids", i, a->nodes_falsenodeids.v[i],
                          a->nodes_falseleafs.v[i], f.n_nodes, n_leaves, &node->no));
    }
    for (int64_t i = 0; i < f.n_roots; i++) {
        CM_TRY(check_index(cx, "tree_roots", i, a->tree_roots.v[i], f.n_nodes));
        f.roots[i] = a->tree_roots.v[i];
    }
    CM_TRY(read_sets(cx, a->membership_values, n_sets, &f));
    CM_TRY(read_leaves(cx, a, &f));
    CM_TRY(check_features(cx, &f));
    CM_TRY(check_cycles(cx, &f));
    *out = f;
    return CM_OK;
}

/* ---- TreeEnsembleClassifier, TreeEnsembleRegressor ---- */

/* Places of (tree, node) pairs by hash; slot 0 is free, else the place + 1. */
typedef struct {
    const cm_tree_nodes *a;
    int64_t *slots;
    uint64_t mask;
} id_table;

static int64_t *find_id(const id_table *t, int64_t tree, int64_t node)
{
    const int64_t key[2] = {tree, node};
    uint64_t i = cm_hash_bytes(key, sizeof key, 0) & t->mask;
    while (t->slots[i] && (t->a->nodes_treeids.v[t->slots[i] - 1] != tree ||
                           t->a->nodes_nodeids.v[t->slots[i] - 1] != node))
        i = (i + 1) & t->mask;
    return &t->slots[i];
}

static cm_status build_ids(cm_ctx *cx, const cm_tree_nodes *a, id_table *t)
{
    uint64_t n = 16;
    while (n < 2 * (uint64_t)a->nodes_treeids.n)
        n *= 2;
    *t = (id_table){.a = a, .mask = n - 1};
    CM_NEW_N(cx, cx->scratch, t->slots, n, int64_t);
    for (int64_t i = 0; i < a->nodes_treeids.n; i++) {
        int64_t *slot = find_id(t, a->nodes_treeids.v[i], a->nodes_nodeids.v[i]);
        if (*slot)
            return cm_fail(cx, CM_ERR_MODEL, "tree %lld has two nodes %lld",
                           (long long)a->nodes_treeids.v[i], (long long)a->nodes_nodeids.v[i]);
        *slot = i + 1;
    }
    return CM_OK;
}

static cm_status parse_mode(cm_ctx *cx, cm_str s, int64_t i, uint8_t *out)
{
    static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "",           "LEAF"};
    for (int k = 0; k < CM_COUNT(names); k++)
        if (s.n && cm_str_equal(s, cm_str_of(names[k]))) {
            *out = (uint8_t)k;
            return CM_OK;
        }
    return cm_fail(cx, CM_ERR_MODEL, "nodes_modes[%lld] is '%.*s'", (long long)i,
                   (int)(s.n < 40 ? s.n : 40), s.p ? s.p : "");
}

/* The node or ~leaf that (tree, id) names: here a leaf's number is its node's. */
static cm_status resolve(cm_ctx *cx, const id_table *t, const cm_forest *f, int64_t i, int64_t id,
                         int64_t *out)
{
    const int64_t place = *find_id(t, t->a->nodes_treeids.v[i], id) - 1;
    if (place < 0)
        return cm_fail(cx, CM_ERR_MODEL, "tree %lld has no node %lld, which is below node %lld",
                       (long long)t->a->nodes_treeids.v[i], (long long)id,
                       (long long)t->a->nodes_nodeids.v[i]);
    *out = f->nodes[place].mode == CM_LEAF ? ~place : place;
    return CM_OK;
}

static cm_status check_node_lists(cm_ctx *cx, const cm_tree_nodes *a, int64_t n)
{
    CM_TRY(check_length(cx, "nodes_nodeids", a->nodes_nodeids.n, n));
    CM_TRY(check_length(cx, "nodes_featureids", a->nodes_featureids.n, n));
    CM_TRY(check_length(cx, "nodes_truenodeids", a->nodes_truenodeids.n, n));
    CM_TRY(check_length(cx, "nodes_falsenodeids", a->nodes_falsenodeids.n, n));
    CM_TRY(check_length(cx, "nodes_modes", a->nodes_modes.n, n));
    CM_TRY(a->nodes_values_as_tensor
               ? check_numbers(cx, "nodes_values_as_tensor", a->nodes_values_as_tensor, n)
               : check_length(cx, "nodes_values", a->nodes_values.n, n));
    if (a->nodes_missing_value_tracks_true.n)
        CM_TRY(check_length(cx, "nodes_missing_value_tracks_true",
                            a->nodes_missing_value_tracks_true.n, n));
    CM_TRY(check_length(cx, "node ids of the leaves' votes", a->vote_nodeids.n, a->vote_ids.n));
    CM_TRY(check_length(cx, "tree ids of the leaves' votes", a->vote_treeids.n, a->vote_ids.n));
    if (a->vote_weights_as_tensor)
        return check_numbers(cx, "weights of the leaves' votes", a->vote_weights_as_tensor,
                             a->vote_ids.n);
    return check_length(cx, "weights of the leaves' votes", a->vote_weights.n, a->vote_ids.n);
}

/* Votes sorted by leaf: count, add up, place. Votes of nodes that are no leaves are left out. */
static cm_status read_votes(cm_ctx *cx, const cm_tree_nodes *a, const id_table *t,
                            int64_t n_targets, cm_forest *f)
{
    const int64_t n = a->vote_ids.n;
    const cm_tensor *w = a->vote_weights_as_tensor;
    int64_t *leaf, *next;
    f->n_leaves = f->n_nodes;
    CM_NEW_N(cx, cx->scratch, leaf, n + 1, int64_t);
    CM_NEW_N(cx, cx->scratch, next, f->n_nodes + 1, int64_t);
    CM_NEW_N(cx, cx->scratch, f->leaf_from, f->n_nodes + 1, int64_t);
    CM_NEW_N(cx, cx->scratch, f->votes, n + 1, cm_tree_vote);
    for (int64_t i = 0; i < n; i++) {
        leaf[i] = *find_id(t, a->vote_treeids.v[i], a->vote_nodeids.v[i]) - 1;
        if (leaf[i] < 0)
            return cm_fail(cx, CM_ERR_MODEL,
                           "a vote is of node %lld of tree %lld, which is missing",
                           (long long)a->vote_nodeids.v[i], (long long)a->vote_treeids.v[i]);
        CM_TRY(check_index(cx, "id of a vote", i, a->vote_ids.v[i], n_targets));
        if (f->nodes[leaf[i]].mode != CM_LEAF)
            leaf[i] = -1;
        else
            f->leaf_from[leaf[i] + 1]++;
    }
    for (int64_t i = 0; i < f->n_nodes; i++) {
        f->leaf_from[i + 1] += f->leaf_from[i];
        next[i] = f->leaf_from[i];
    }
    for (int64_t i = 0; i < n; i++)
        if (leaf[i] >= 0)
            f->votes[next[leaf[i]]++] =
                (cm_tree_vote){a->vote_ids.v[i],
                               w ? cm_get_f64(w->dtype, w->data, i) : (double)a->vote_weights.v[i]};
    f->n_votes = f->leaf_from[f->n_nodes];
    return CM_OK;
}

/* A tree's root is its first node that is below no other; where all are, its first node, and the
 * cycle is found later. */
static cm_status find_roots(cm_ctx *cx, const cm_tree_nodes *a, const cm_forest *f, int64_t *roots,
                            int64_t *n_roots)
{
    const int64_t n = f->n_nodes;
    uint64_t mask = 15;
    bool *below;
    int64_t *tree; /* by hash of the tree's id: 0 or the number of its root in `roots` + 1 */
    while (mask < 2 * (uint64_t)n)
        mask = 2 * mask + 1;
    CM_NEW_N(cx, cx->scratch, below, n + 1, bool);
    CM_NEW_N(cx, cx->scratch, tree, mask + 1, int64_t);
    for (int64_t i = 0; i < n; i++)
        if (f->nodes[i].mode != CM_LEAF) {
            const int64_t yes = f->nodes[i].yes, no = f->nodes[i].no;
            below[yes < 0 ? ~yes : yes] = below[no < 0 ? ~no : no] = true;
        }
    for (int64_t i = 0; i < n; i++) {
        const int64_t id = a->nodes_treeids.v[i];
        uint64_t h = cm_hash_bytes(&id, sizeof id, 0) & mask;
        while (tree[h] && a->nodes_treeids.v[roots[tree[h] - 1]] != id)
            h = (h + 1) & mask;
        if (!tree[h]) {
            roots[*n_roots] = i;
            tree[h] = ++*n_roots;
        } else if (below[roots[tree[h] - 1]] && !below[i]) {
            roots[tree[h] - 1] = i;
        }
    }
    for (int64_t r = 0; r < *n_roots; r++)
        roots[r] = f->nodes[roots[r]].mode == CM_LEAF ? ~roots[r] : roots[r];
    return CM_OK;
}

cm_status cm_forest_from_nodes(cm_ctx *cx, const cm_tree_nodes *a, int64_t n_targets,
                               cm_forest *out)
{
    cm_forest f = {.n_nodes = a->nodes_treeids.n};
    const cm_tensor *values = a->nodes_values_as_tensor;
    id_table ids;
    CM_TRY(check_node_lists(cx, a, f.n_nodes));
    CM_TRY(build_ids(cx, a, &ids));
    CM_NEW_N(cx, cx->scratch, f.nodes, f.n_nodes + 1, cm_tree_node);
    CM_NEW_N(cx, cx->scratch, f.roots, f.n_nodes + 1, int64_t);
    for (int64_t i = 0; i < f.n_nodes; i++)
        CM_TRY(parse_mode(cx, a->nodes_modes.v[i], i, &f.nodes[i].mode));
    for (int64_t i = 0; i < f.n_nodes; i++) {
        cm_tree_node *node = &f.nodes[i];
        if (node->mode == CM_LEAF)
            continue;
        node->feature = a->nodes_featureids.v[i];
        node->split =
            values ? cm_get_f64(values->dtype, values->data, i) : (double)a->nodes_values.v[i];
        if (a->nodes_missing_value_tracks_true.n)
            node->missing_yes = a->nodes_missing_value_tracks_true.v[i] != 0;
        CM_TRY(resolve(cx, &ids, &f, i, a->nodes_truenodeids.v[i], &node->yes));
        CM_TRY(resolve(cx, &ids, &f, i, a->nodes_falsenodeids.v[i], &node->no));
    }
    CM_TRY(find_roots(cx, a, &f, f.roots, &f.n_roots));
    CM_TRY(read_votes(cx, a, &ids, n_targets, &f));
    CM_TRY(check_features(cx, &f));
    CM_TRY(check_cycles(cx, &f));
    *out = f;
    return CM_OK;
}
