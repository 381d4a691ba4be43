/* picture.c -- places for the layers of a network.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sugiyama's method: ranks, bends where an edge passes ranks, sweeps that order each rank by its neighbours',
 * sweeps that pull vertices towards their neighbours without overlaps. */
#include "cli/picture.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

enum { ORDER_SWEEPS = 8, PLACE_SWEEPS = 5, GAP = 24, BEND_WIDTH = 8, MOST_VERTICES = 200000 };

typedef struct {
    cm_ctx *cx;
    const cm_facts *f;
    cm_picture *p;
    int cap_vertices, cap_edges;
    cm_map makers;                          /* value name -> vertex + 1 */
    int *first;                             /* of each rank in `sorted`, and the end */
    int *sorted;                            /* vertices by rank, then order */
    int *up, *up_first, *down, *down_first; /* neighbours by vertex */
} layout;

static cm_status grow(layout *l, void **list, int n, int *cap, size_t size)
{
    if (n < *cap)
        return CM_OK;
    if (n >= MOST_VERTICES)
        return cm_fail(l->cx, CM_ERR_UNSUPPORTED, "the network is too large for a picture");
    int want = *cap ? *cap * 2 : 256;
    void *v = cm_arena_alloc_n(l->cx->arena, (size_t)want, size, 16, 1);
    if (!v)
        return cm_fail_memory(l->cx);
    if (n)
        memcpy(v, *list, (size_t)n * size);
    *list = v;
    *cap = want;
    return CM_OK;
}

static cm_status add_vertex(layout *l, int layer, int rank, double width, int *out)
{
    void *list = l->p->vertices;
    CM_TRY(grow(l, &list, l->p->n_vertices, &l->cap_vertices, sizeof(cm_vertex)));
    l->p->vertices = list;
    *out = l->p->n_vertices++;
    l->p->vertices[*out] = (cm_vertex){.layer = layer, .rank = rank, .width = width};
    if (rank >= l->p->n_ranks)
        l->p->n_ranks = rank + 1;
    return CM_OK;
}

static cm_status add_edge(layout *l, int from, int to)
{
    void *list = l->p->edges;
    CM_TRY(grow(l, &list, l->p->n_edges, &l->cap_edges, sizeof(cm_edge)));
    l->p->edges = list;
    l->p->edges[l->p->n_edges++] = (cm_edge){from, to};
    return CM_OK;
}

/* An edge with a bend in each rank that it passes; edges from one box share their bends. */
static cm_status connect(layout *l, int from, int to)
{
    int at = from;
    for (int r = l->p->vertices[from].rank + 1; r < l->p->vertices[to].rank; r++) {
        int bend = l->p->vertices[at].below - 1;
        if (bend < 0) {
            CM_TRY(add_vertex(l, CM_BEND, r, BEND_WIDTH, &bend));
            CM_TRY(add_edge(l, at, bend));
            l->p->vertices[at].below = bend + 1;
        }
        at = bend;
    }
    return add_edge(l, at, to);
}

static double width_of(const char *a, const char *b)
{
    double large = a ? CM_LARGE_CHAR * (double)strlen(a) : 0;
    double small = b ? CM_SMALL_CHAR * (double)strlen(b) : 0, width = large > small ? large : small;
    return 20 + (width < 110 ? 110 : width > 260 ? 260 : width);
}

static int maker(const layout *l, const char *value)
{
    return value ? (int)(intptr_t)cm_map_get(&l->makers, value) - 1 : -1;
}

static cm_status name_maker(layout *l, const char *value, int vertex)
{
    return cm_map_put(&l->makers, value, (void *)(intptr_t)(vertex + 1)) ? CM_OK
                                                                         : cm_fail_memory(l->cx);
}

static cm_status add_layer(layout *l, int i)
{
    const cm_fact_layer *layer = &l->f->layers[i];
    int v, rank = 0;
    for (int k = 0; k < layer->n_in; k++) {
        int m = maker(l, layer->in[k]);
        if (m >= 0 && l->p->vertices[m].rank + 1 > rank)
            rank = l->p->vertices[m].rank + 1;
    }
    const char *type = layer->n_out ? layer->out_types[0] : NULL;
    CM_TRY(add_vertex(l, i, rank, width_of(layer->op, type), &v));
    for (int k = 0; k < layer->n_in; k++)
        if (maker(l, layer->in[k]) >= 0)
            CM_TRY(connect(l, maker(l, layer->in[k]), v));
    for (int k = 0; k < layer->n_out; k++)
        if (layer->out[k])
            CM_TRY(name_maker(l, layer->out[k], v));
    return CM_OK;
}

static cm_status add_output(layout *l, int k)
{
    int m = maker(l, l->f->outputs[k].maker), v;
    if (m < 0)
        return CM_OK;
    CM_TRY(add_vertex(l, CM_END + k, l->p->vertices[m].rank + 1,
                      width_of(l->f->outputs[k].name, l->f->outputs[k].type), &v));
    return connect(l, m, v);
}

static cm_status make_graph(layout *l)
{
    cm_map_init(&l->makers, l->cx->arena);
    for (int i = 0; i < l->f->n_inputs; i++) {
        int v;
        CM_TRY(add_vertex(l, -1 - i, 0, width_of(l->f->inputs[i].name, l->f->inputs[i].type), &v));
        CM_TRY(name_maker(l, l->f->inputs[i].name, v));
    }
    for (int i = 0; i < l->f->n_layers; i++)
        if (l->f->layers[i].depth == 0)
            CM_TRY(add_layer(l, i));
    for (int k = 0; k < l->f->n_outputs; k++)
        CM_TRY(add_output(l, k));
    return CM_OK;
}

/* Neighbours above (or below) each vertex, one list after the other. */
static cm_status index_edges(layout *l, bool above, int **list, int **first)
{
    const cm_picture *p = l->p;
    CM_NEW_N(l->cx, l->cx->arena, *list, p->n_edges + 1, int);
    CM_NEW_N(l->cx, l->cx->arena, *first, p->n_vertices + 2, int);
    for (int e = 0; e < p->n_edges; e++)
        (*first)[(above ? p->edges[e].to : p->edges[e].from) + 2]++;
    for (int v = 0; v < p->n_vertices; v++)
        (*first)[v + 2] += (*first)[v + 1];
    for (int e = 0; e < p->n_edges; e++)
        (*list)[(*first)[(above ? p->edges[e].to : p->edges[e].from) + 1]++] =
            above ? p->edges[e].from : p->edges[e].to;
    return CM_OK;
}

static cm_status sort_ranks(layout *l)
{
    cm_picture *p = l->p;
    CM_NEW_N(l->cx, l->cx->arena, l->first, p->n_ranks + 2, int);
    CM_NEW_N(l->cx, l->cx->arena, l->sorted, p->n_vertices + 1, int);
    for (int v = 0; v < p->n_vertices; v++)
        l->first[p->vertices[v].rank + 2]++;
    for (int r = 0; r < p->n_ranks; r++)
        l->first[r + 2] += l->first[r + 1];
    for (int v = 0; v < p->n_vertices; v++) {
        cm_vertex *x = &p->vertices[v];
        x->order = l->first[x->rank + 1] - l->first[x->rank];
        l->sorted[l->first[x->rank + 1]++] = v;
    }
    return CM_OK;
}

typedef struct {
    double key;
    int vertex, was;
} ranked;

static int by_key(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->was - y->was;
}

/* The mean of the neighbours' orders; without any, where it is. */
static double pull(const layout *l, int v, const int *list, const int *first)
{
    double sum = 0;
    for (int k = first[v]; k < first[v + 1]; k++)
        sum += l->p->vertices[list[k]].order;
    return first[v + 1] > first[v] ? sum / (first[v + 1] - first[v]) : l->p->vertices[v].order;
}

static void order_rank(layout *l, int r, ranked *tmp, bool by_above)
{
    int n = l->first[r + 1] - l->first[r], *rank = l->sorted + l->first[r];
    for (int i = 0; i < n; i++)
        tmp[i] = (ranked){by_above ? pull(l, rank[i], l->up, l->up_first)
                                   : pull(l, rank[i], l->down, l->down_first),
                          rank[i], i};
    qsort(tmp, (size_t)n, sizeof *tmp, by_key);
    for (int i = 0; i < n; i++) {
        rank[i] = tmp[i].vertex;
        l->p->vertices[rank[i]].order = i;
    }
}

static bool is_bend(const layout *l, int v)
{
    return l->p->vertices[v].layer == CM_BEND;
}

/* Below (or above) the boxes that it is joined to, else the bends. */
static double wish(const layout *l, int v, const int *list, const int *first)
{
    double sum[2] = {0};
    int n[2] = {0};
    for (int k = first[v]; k < first[v + 1]; k++) {
        bool bend = is_bend(l, list[k]);
        sum[bend] += l->p->vertices[list[k]].x;
        n[bend]++;
    }
    return n[0] ? sum[0] / n[0] : n[1] ? sum[1] / n[1] : l->p->vertices[v].x;
}

/* Vertex i of the rank as near to its wish as those that were placed before let it; what is not placed yet
 * must still fit between. */
static void place_one(layout *l, const int *rank, int n, int i, const double *wishes, bool *placed)
{
    cm_vertex *v = l->p->vertices;
    double room = 0, x = wishes[i];
    for (int k = i - 1; k >= 0; k--) {
        room += (v[rank[k]].width + v[rank[k + 1]].width) / 2 + GAP;
        if (placed[k]) {
            x = x < v[rank[k]].x + room ? v[rank[k]].x + room : x;
            break;
        }
    }
    room = 0;
    for (int k = i + 1; k < n; k++) {
        room += (v[rank[k]].width + v[rank[k - 1]].width) / 2 + GAP;
        if (placed[k]) {
            x = x > v[rank[k]].x - room ? v[rank[k]].x - room : x;
            break;
        }
    }
    v[rank[i]].x = x;
    placed[i] = true;
}

/* Boxes get what they wish, from the middle outwards; bends make way. */
static void place_rank(layout *l, int r, double *wishes, bool *placed, bool by_above)
{
    int n = l->first[r + 1] - l->first[r];
    const int *rank = l->sorted + l->first[r];
    for (int i = 0; i < n; i++) {
        placed[i] = false;
        wishes[i] = by_above ? wish(l, rank[i], l->up, l->up_first)
                             : wish(l, rank[i], l->down, l->down_first);
    }
    for (int bends = 0; bends < 2; bends++)
        for (int k = 0; k < n; k++) {
            int i = n / 2 + (k % 2 ? -(k + 1) / 2 : k / 2);
            if (is_bend(l, rank[i]) == (bends == 1))
                place_one(l, rank, n, i, wishes, placed);
        }
}

static void begin_places(layout *l)
{
    for (int r = 0; r < l->p->n_ranks; r++) {
        double at = 0;
        for (int k = l->first[r]; k < l->first[r + 1]; k++) {
            cm_vertex *v = &l->p->vertices[l->sorted[k]];
            v->x = at + v->width / 2;
            at += v->width + GAP;
        }
        for (int k = l->first[r]; k < l->first[r + 1]; k++)
            l->p->vertices[l->sorted[k]].x -= at / 2;
    }
}

static cm_status place(layout *l)
{
    cm_picture *p = l->p;
    double *wishes, least = 1e300, most = -1e300;
    bool *placed;
    CM_NEW_N(l->cx, l->cx->arena, wishes, p->n_vertices + 1, double);
    CM_NEW_N(l->cx, l->cx->arena, placed, p->n_vertices + 1, bool);
    begin_places(l);
    for (int s = 0; s < PLACE_SWEEPS; s++)
        for (int r = 0; r < p->n_ranks; r++)
            place_rank(l, s % 2 ? p->n_ranks - 1 - r : r, wishes, placed, s % 2 == 0);
    for (int v = 0; v < p->n_vertices; v++) {
        double half = p->vertices[v].width / 2;
        least = p->vertices[v].x - half < least ? p->vertices[v].x - half : least;
        most = p->vertices[v].x + half > most ? p->vertices[v].x + half : most;
    }
    for (int v = 0; v < p->n_vertices; v++) {
        p->vertices[v].x += GAP - least;
        p->vertices[v].y = GAP + CM_BOX_HEIGHT / 2.0 + (double)p->vertices[v].rank * CM_RANK_HEIGHT;
    }
    p->width = most - least + 2 * GAP;
    p->height = (p->n_ranks - 1) * (double)CM_RANK_HEIGHT + CM_BOX_HEIGHT + 2 * GAP;
    return CM_OK;
}

cm_status cm_picture_lay_out(cm_ctx *cx, const cm_facts *f, cm_picture *out)
{
    *out = (cm_picture){0};
    layout l = {.cx = cx, .f = f, .p = out};
    ranked *tmp;
    CM_TRY(make_graph(&l));
    CM_TRY(sort_ranks(&l));
    CM_TRY(index_edges(&l, true, &l.up, &l.up_first));
    CM_TRY(index_edges(&l, false, &l.down, &l.down_first));
    CM_NEW_N(cx, cx->arena, tmp, out->n_vertices + 1, ranked);
    for (int s = 0; s < ORDER_SWEEPS; s++)
        for (int r = 0; r < out->n_ranks; r++)
            order_rank(&l, s % 2 ? out->n_ranks - 1 - r : r, tmp, s % 2 == 0);
    return place(&l);
}
