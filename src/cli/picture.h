/* picture.h -- a network as a picture: layers in ranks, edges down.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_PICTURE_H
#define CM_CLI_PICTURE_H

#include "cli/inspect.h"

/* A box, or a bend of an edge that passes a rank. Places are in pixels, of the centre. */
typedef struct cm_vertex {
    int layer; /* of the facts; -1 - k: input k; CM_BEND, or CM_END + k: output k */
    int rank, order;
    int below; /* 1 + the bend that continues edges from here, 0: none yet */
    double x, y, width;
} cm_vertex;
enum { CM_BEND = -(1 << 29), CM_END = 1 << 29 };

typedef struct cm_edge {
    int from, to; /* vertices of neighbouring ranks */
} cm_edge;

typedef struct cm_picture {
    int n_vertices, n_edges, n_ranks;
    cm_vertex *vertices;
    cm_edge *edges;
    double width, height;
} cm_picture;

/* Pixels that a character takes, more or less. */
#define CM_LARGE_CHAR 8.0
#define CM_SMALL_CHAR 6.2
enum { CM_BOX_HEIGHT = 46, CM_RANK_HEIGHT = 78 };

/* Ranks by the longest way from an input, order by the mean place of neighbours, places so that edges run
 * straight where they can. In cx->arena. */
cm_status cm_picture_lay_out(cm_ctx *cx, const cm_facts *f, cm_picture *out) CM_MUST_USE;
/* The picture as an SVG file that reads well on white and on black. */
cm_status cm_picture_write(cm_ctx *cx, const cm_facts *f, const cm_picture *p,
                           const char *path) CM_MUST_USE;

#endif
