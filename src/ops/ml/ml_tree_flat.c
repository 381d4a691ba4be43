/* ml_tree_flat.c -- trees as they are walked: nodes of 16 bytes that all ask the same question.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A walk spends its time waiting: for the node, then for the feature that it names. So nodes are
 * small, those below one lie side by side, there is no branch to be guessed wrong, and several walks
 * take turns. Whatever a node asks becomes x <= limit (cm_flat_node):
 *
 *     x < s     x <= the number before s          (likewise all splits are told apart exactly)
 *     x >= s    -x <= -s, the column of -x
 *     NaN       goes where the answer is no: a node whose missing values go to `yes` is turned round
 *     x == s    two nodes: x <= s, and then x <= the number before s
 *     in a set  a search among the members and the numbers before them
 *
 * A node that several others lead to is copied, not what is below it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ml/ml_tree.h"

/* What a node of the result stands for: a node or ~leaf of the source; of a node that asks for
 * membership, the part of the search that is left. */
typedef struct {
    int64_t at;
    int64_t low, high; /* regions; see `bound` */
    bool searching;
} place;

typedef struct {
    cm_ctx *cx;
    const cm_forest *from;
    cm_flat_forest *to;
    place *places;    /* per node of the result */
    uint32_t *copies; /* per node of the source: 0, or one of the result that stands for it, + 1 */
    int64_t n_features, *features; /* that nodes look at, ascending, each once */
    int64_t *columns;              /* per feature and sign: 0, or its column + 1 */
    bool copied;
    int64_t n, n_treated; /* nodes of the result: made, finished */
} flattening;

/* The largest number that is less; NaN, which nothing is less than, where there is none. */
static double before(double v)
{
    return v == -(double)INFINITY ? (double)NAN : nextafter(v, -(double)INFINITY);
}

static double leaf_limit(int64_t number)
{
    const uint64_t bits = UINT64_C(0x7ff8) << 48 | (uint64_t)number;
    double limit;
    memcpy(&limit, &bits, sizeof limit);
    return limit;
}

static uint32_t leaf_number(const cm_flat_node *node)
{
    uint64_t bits;
    memcpy(&bits, &node->limit, sizeof bits);
    return (uint32_t)bits;
}

static bool asks_membership(const cm_tree_node *node)
{
    return node->mode == CM_EQ || node->mode == CM_NEQ || node->mode == CM_MEMBER;
}

static int64_t n_members(const cm_forest *f, const cm_tree_node *node)
{
    return node->mode == CM_MEMBER ? f->set_from[node->set + 1] - f->set_from[node->set] : 1;
}

/* Members m[0] < m[1] < ... cut the numbers into regions: 2k + 1 is m[k] alone, the even ones lie
 * between. The largest number of region k. */
static double bound(const cm_forest *f, const cm_tree_node *node, int64_t k)
{
    const double m =
        node->mode == CM_MEMBER ? f->members[f->set_from[node->set] + k / 2] : node->split;
    return k % 2 ? m : before(m);
}

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static cm_status find_features(flattening *w)
{
    const cm_forest *f = w->from;
    int64_t n = 0;
    CM_NEW_N(w->cx, w->cx->scratch, w->features, f->n_nodes + 1, int64_t);
    for (int64_t i = 0; i < f->n_nodes; i++)
        if (f->nodes[i].mode != CM_LEAF)
            w->features[n++] = f->nodes[i].feature;
    qsort(w->features, (size_t)n, sizeof *w->features, by_number);
    for (int64_t i = 0; i < n; i++)
        if (!w->n_features || w->features[i] != w->features[w->n_features - 1])
            w->features[w->n_features++] = w->features[i];
    CM_NEW_N(w->cx, w->cx->scratch, w->columns, 2 * w->n_features + 1, int64_t);
    CM_NEW_N(w->cx, w->cx->scratch, w->to->columns, 2 * w->n_features + 1, cm_flat_column);
    return CM_OK;
}

static uint32_t column_of(flattening *w, int64_t feature, bool negative)
{
    const int64_t *found =
        bsearch(&feature, w->features, (size_t)w->n_features, sizeof feature, by_number);
    int64_t *column = &w->columns[2 * (found - w->features) + negative];
    if (!*column) {
        w->to->columns[w->to->n_columns] = (cm_flat_column){(uint32_t)feature, negative};
        *column = ++w->to->n_columns;
    }
    return (uint32_t)(*column - 1);
}

/* Two more nodes, side by side: the first is taken where x <= limit does not hold. */
static void branch(flattening *w, cm_flat_node *node, double limit, const cm_tree_node *source,
                   bool negative, place no, place yes)
{
    *node = (cm_flat_node){limit, column_of(w, source->feature, negative), (uint32_t)w->n};
    w->places[w->n++] = no;
    w->places[w->n++] = yes;
}

/* A node that asks for order. NaN goes to the first child, so the second takes what the missing value
 * does not: `yes` or its opposite. */
static void branch_by_order(flattening *w, cm_flat_node *node, const cm_tree_node *source)
{
    static const uint8_t opposite[] = {
        [CM_LEQ] = CM_GT, [CM_LT] = CM_GTE, [CM_GTE] = CM_LT, [CM_GT] = CM_LEQ};
    const place yes = {source->yes}, no = {source->no};
    const bool turned = source->missing_yes;
    const place first = turned ? yes : no, second = turned ? no : yes;
    const double s = source->split;
    if (isnan(s)) { /* nothing compares to it: whatever is a number goes to `no` */
        branch(w, node, turned ? (double)INFINITY : s, source, false, first, second);
        return;
    }
    const uint8_t mode = turned ? opposite[source->mode] : source->mode;
    const bool negative = mode == CM_GTE || mode == CM_GT;
    const double limit = negative ? -s : s;
    branch(w, node, mode == CM_LT || mode == CM_GT ? before(limit) : limit, source, negative, first,
           second);
}

/* One question of a search; the rest of it lies below. */
static void branch_by_search(flattening *w, cm_flat_node *node, const place *p)
{
    const cm_tree_node *source = &w->from->nodes[p->at];
    const int64_t middle = p->low + (p->high - p->low) / 2;
    branch(w, node, bound(w->from, source, middle), source, false,
           (place){p->at, middle + 1, p->high, true}, (place){p->at, p->low, middle, true});
}

/* A node that asks for membership. One that sends NaN away comes first where the search, to which it is
 * no member, would lead it to the wrong side; of an empty set nothing is a member. */
static void branch_by_member(flattening *w, cm_flat_node *node, int64_t at)
{
    const cm_tree_node *source = &w->from->nodes[at];
    const place all = {at, 0, 2 * n_members(w->from, source), true}, no = {source->no};
    if (source->missing_yes != (source->mode == CM_NEQ))
        branch(w, node, (double)INFINITY, source, false,
               (place){source->missing_yes ? source->yes : source->no}, all);
    else if (all.high == 0)
        branch(w, node, (double)NAN, source, false, no, no);
    else
        branch_by_search(w, node, &all);
}

/* A search that has ended: what it leads to. */
static place resolved(const cm_forest *f, place p)
{
    if (!p.searching || p.low < p.high)
        return p;
    const bool member = p.low % 2;
    const cm_tree_node *source = &f->nodes[p.at];
    return (place){member != (source->mode == CM_NEQ) ? source->yes : source->no};
}

static void finish_node(flattening *w, int64_t i)
{
    cm_flat_node *node = &w->to->nodes[i];
    const place p = resolved(w->from, w->places[i]);
    if (p.searching) {
        branch_by_search(w, node, &p);
    } else if (p.at < 0) {
        *node = (cm_flat_node){leaf_limit(~p.at), 0, (uint32_t)i};
    } else if (w->copies[p.at]) {
        *node = w->to->nodes[w->copies[p.at] - 1];
        w->copied = true;
    } else {
        const cm_tree_node *source = &w->from->nodes[p.at];
        w->copies[p.at] = (uint32_t)i + 1;
        if (asks_membership(source))
            branch_by_member(w, node, p.at);
        else
            branch_by_order(w, node, source);
    }
}

/* Nodes that the result has at most; -1: too many to be numbered. */
static int64_t most_nodes(const cm_forest *f)
{
    int64_t n = f->n_roots;
    for (int64_t i = 0; i < f->n_nodes; i++)
        if (f->nodes[i].mode != CM_LEAF)
            n += asks_membership(&f->nodes[i]) ? 2 * (2 * n_members(f, &f->nodes[i]) + 1) : 2;
    return n < UINT32_MAX && f->n_leaves < UINT32_MAX && f->n_votes < UINT32_MAX ? n : -1;
}

/* Where every leaf that is reached has one vote, that is its number. */
static void number_by_vote(cm_flat_forest *f, int64_t n)
{
    f->one_vote = true;
    for (int64_t i = 0; i < n && f->one_vote; i++) {
        const uint32_t leaf = leaf_number(&f->nodes[i]);
        if (f->nodes[i].below == i)
            f->one_vote = f->leaf_from[leaf + 1] - f->leaf_from[leaf] == 1;
    }
    for (int64_t i = 0; i < n && f->one_vote; i++)
        if (f->nodes[i].below == i)
            f->nodes[i].limit = leaf_limit(f->leaf_from[leaf_number(&f->nodes[i])]);
}

/* Steps from the roots to their leaves. Nodes are behind those that lead to them, but for copies. */
static cm_status measure(flattening *w)
{
    cm_flat_root *roots = w->to->roots; /* and, in scratch, as many for all nodes */
    cm_flat_root *all;
    CM_NEW_N(w->cx, w->cx->scratch, all, w->n + 1, cm_flat_root);
    for (int64_t i = w->n - 1; i >= 0 && !w->copied; i--) {
        const uint32_t below = w->to->nodes[i].below;
        const cm_flat_root *a = &all[below], *b = a + 1;
        if (below == i)
            continue;
        all[i].nearest = 1 + (a->nearest < b->nearest ? a->nearest : b->nearest);
        all[i].farthest = 1 + (a->farthest > b->farthest ? a->farthest : b->farthest);
    }
    for (int64_t t = 0; t < w->to->n_roots; t++) {
        roots[t].nearest = all[roots[t].node].nearest;
        roots[t].farthest = w->copied ? (uint32_t)w->n : all[roots[t].node].farthest;
    }
    return CM_OK;
}

static cm_status copy_votes(cm_ctx *cx, cm_arena *arena, const cm_forest *f, cm_flat_forest *to)
{
    CM_NEW_N(cx, arena, to->votes, f->n_votes + 1, cm_tree_vote);
    CM_NEW_N(cx, arena, to->leaf_from, f->n_leaves + 1, int64_t);
    memcpy(to->votes, f->votes, (size_t)f->n_votes * sizeof *to->votes);
    memcpy(to->leaf_from, f->leaf_from, (size_t)(f->n_leaves + 1) * sizeof *to->leaf_from);
    to->n_votes = f->n_votes;
    return CM_OK;
}

cm_status cm_forest_flatten(cm_ctx *cx, cm_arena *arena, const cm_forest *f, cm_flat_forest *out)
{
    const int64_t most = most_nodes(f);
    if (most < 0 || f->max_feature > UINT32_MAX)
        return cm_fail(cx, CM_ERR_MODEL, "%lld nodes of trees, %lld features: too many",
                       (long long)f->n_nodes, (long long)f->max_feature);
    cm_flat_forest to = {.n_roots = f->n_roots, .max_feature = f->max_feature};
    flattening w = {.cx = cx, .from = f, .to = &to};
    CM_NEW_N(cx, arena, to.roots, f->n_roots + 1, cm_flat_root);
    CM_NEW_N(cx, arena, to.nodes, most + 1, cm_flat_node);
    CM_NEW_N(cx, cx->scratch, w.places, most + 1, place);
    CM_NEW_N(cx, cx->scratch, w.copies, f->n_nodes + 1, uint32_t);
    CM_TRY(find_features(&w));
    for (int64_t t = 0; t < f->n_roots; t++) {
        to.roots[t].node = (uint32_t)w.n;
        w.places[w.n++] = (place){f->roots[t]};
        while (w.n_treated < w.n)
            finish_node(&w, w.n_treated++);
    }
    const cm_flat_column *columns = to.columns;
    CM_NEW_N(cx, arena, to.columns, to.n_columns + 1, cm_flat_column);
    memcpy(to.columns, columns, (size_t)to.n_columns * sizeof *columns);
    CM_TRY(measure(&w));
    CM_TRY(copy_votes(cx, arena, f, &to));
    number_by_vote(&to, w.n);
    *out = to;
    return CM_OK;
}

/* ---- walking ---- */

#define COLUMNS(type)                                                                              \
    for (int64_t i = 0; i < f->n_columns; i++) {                                                   \
        const double v = (double)((const type *)features)[f->columns[i].feature];                  \
        x[i] = f->columns[i].negative ? -v : v;                                                    \
    }

void cm_flat_columns(const cm_flat_forest *f, cm_dtype dtype, const void *features, double *x)
{
    if (dtype == CM_F32) {
        COLUMNS(float)
    } else if (dtype == CM_F64) {
        COLUMNS(double)
    } else {
        for (int64_t i = 0; i < f->n_columns; i++) {
            const double v = cm_get_f64(dtype, features, f->columns[i].feature);
            x[i] = f->columns[i].negative ? -v : v;
        }
    }
}

enum { LANES = CM_FLAT_ROWS };

/* LANES walks take turns: first so many steps that no leaf is met before, then until none of them
 * moves or all must have ended; walk k looks at x + k * stride. Their places are variables of their
 * own, to be kept in registers. */
static inline void walk(const cm_flat_node *nodes, uint32_t *at, const double *x, int64_t stride,
                        uint32_t surely, uint32_t at_most)
{
    uint32_t at0 = at[0], at1 = at[1], at2 = at[2], at3 = at[3];
    uint32_t at4 = at[4], at5 = at[5], at6 = at[6], at7 = at[7];
#define NEXT(k) nodes[at##k].below + (x[k * stride + nodes[at##k].column] <= nodes[at##k].limit)
#define STEP(k) at##k = NEXT(k);
#define STEP_AND_SEE(k)                                                                            \
    {                                                                                              \
        const uint32_t next = NEXT(k);                                                             \
        moved |= next ^ at##k;                                                                     \
        at##k = next;                                                                              \
    }
    for (uint32_t i = 0; i < surely; i++) {
        STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
    }
    for (uint32_t i = surely, moved = 1; moved && i < at_most; i++) {
        moved = 0;
        STEP_AND_SEE(0)
        STEP_AND_SEE(1)
        STEP_AND_SEE(2)
        STEP_AND_SEE(3) STEP_AND_SEE(4) STEP_AND_SEE(5) STEP_AND_SEE(6) STEP_AND_SEE(7)
    }
#undef STEP_AND_SEE
#undef STEP
#undef NEXT
    at[0] = at0, at[1] = at1, at[2] = at2, at[3] = at3;
    at[4] = at4, at[5] = at5, at[6] = at6, at[7] = at7;
}

void cm_flat_walk_rows(const cm_flat_forest *f, const double *x, int64_t tree, uint32_t *leaves)
{
    const cm_flat_root *root = &f->roots[tree];
    uint32_t at[LANES];
    for (int k = 0; k < LANES; k++)
        at[k] = root->node;
    walk(f->nodes, at, x, f->n_columns, root->nearest, root->farthest);
    for (int k = 0; k < LANES; k++)
        leaves[k] = leaf_number(&f->nodes[at[k]]);
}

void cm_flat_walk_trees(const cm_flat_forest *f, const double *x, int64_t first, int64_t last,
                        uint32_t *leaves)
{
    for (int64_t t = first; t < last; t += LANES) {
        const int n = last - t < LANES ? (int)(last - t) : LANES;
        uint32_t at[LANES], nearest = UINT32_MAX, farthest = 0;
        for (int k = 0; k < LANES; k++) {
            const cm_flat_root *root = &f->roots[k < n ? t + k : t];
            at[k] = root->node;
            nearest = root->nearest < nearest ? root->nearest : nearest;
            farthest = root->farthest > farthest ? root->farthest : farthest;
        }
        walk(f->nodes, at, x, 0, nearest, farthest);
        for (int k = 0; k < n; k++)
            leaves[t - first + k] = leaf_number(&f->nodes[at[k]]);
    }
}
