/* picture_svg.c -- a laid out network as SVG. No background: boxes have colours of their own that stand out on
 * white and on black, lines and words between them are grey.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "cli/picture.h"

/* Kinds of work by what their operators' names hold, the first that fits. */
static const struct {
    const char *part, *colour;
} colours[] = {
    {"Attention", "#a8503c"}, {"MatMul", "#2f6da8"},  {"Gemm", "#2f6da8"},
    {"Conv", "#2f6da8"},      {"Norm", "#7353a0"},    {"Softmax", "#7353a0"},
    {"Reduce", "#7353a0"},    {"Pool", "#7353a0"},    {"Quant", "#8a6d1c"},
    {"QLinear", "#8a6d1c"},   {"Loop", "#97406f"},    {"If", "#97406f"},
    {"Scan", "#97406f"},      {"Reshape", "#66717c"}, {"Transpose", "#66717c"},
    {"Concat", "#66717c"},    {"Slice", "#66717c"},   {"Split", "#66717c"},
    {"Gather", "#66717c"},    {"Squeeze", "#66717c"}, {"Cast", "#66717c"},
    {"", "#33805a"},
};

static const char *colour_of(const char *op)
{
    for (int i = 0; i < CM_COUNT(colours); i++)
        if (strstr(op, colours[i].part))
            return colours[i].colour;
    return "#66717c";
}

/* At most `most` characters, the end kept where it is longer: names differ at their ends. */
static void put_text(cm_buf *b, const char *s, int most)
{
    size_t n = strlen(s);
    if (n > (size_t)most) {
        cm_buf_str(b, "…");
        s += n - (size_t)most + 1;
        while ((*s & 0xc0) == 0x80) /* not in the middle of a character */
            s++;
    }
    for (; *s; s++) {
        const char *entity = *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : *s == '&' ? "&amp;" : NULL;
        if (entity)
            cm_buf_str(b, entity);
        else if ((unsigned char)*s >= 32)
            cm_buf_bytes(b, s, 1);
    }
}

static void put_line(cm_buf *b, double x, double y, const char *class, const char *s, int most)
{
    if (!s || !*s)
        return;
    cm_buf_printf(b, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    put_text(b, s, most);
    cm_buf_str(b, "</text>\n");
}

static void put_box(cm_buf *b, const cm_vertex *v, const char *fill, const char *rest)
{
    cm_buf_printf(b,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"%d\" "
                  "fill=\"%s\"%s/>\n",
                  v->x - v->width / 2, v->y - CM_BOX_HEIGHT / 2.0, v->width, CM_BOX_HEIGHT,
                  *rest ? CM_BOX_HEIGHT / 2 : 6, fill, rest);
}

static int fits(const cm_vertex *v, double char_width)
{
    return (int)((v->width - 12) / char_width);
}

static void put_end(cm_buf *b, const cm_vertex *v, const cm_fact_value *value)
{
    put_box(b, v, "none", " stroke=\"#888\" stroke-width=\"1.5\"");
    put_line(b, v->x, v->y - 3, "name", value->name, fits(v, CM_LARGE_CHAR));
    put_line(b, v->x, v->y + 13, "edge", value->type, fits(v, CM_SMALL_CHAR));
}

static void put_layer(cm_buf *b, const cm_vertex *v, const cm_fact_layer *l)
{
    cm_buf_str(b, "<g><title>");
    put_text(b, l->name ? l->name : "", 400);
    for (int i = 1; i < l->n_from && i < 12; i++) {
        cm_buf_str(b, "\n");
        put_text(b, l->from[i], 200);
    }
    cm_buf_str(b, "</title>\n");
    put_box(b, v, colour_of(l->op), "");
    put_line(b, v->x, v->y - 9, "op", l->op, fits(v, CM_LARGE_CHAR));
    put_line(b, v->x, v->y + 4, "small", l->name, fits(v, CM_SMALL_CHAR));
    put_line(b, v->x, v->y + 17, "small", l->n_out ? l->out_types[0] : NULL,
             fits(v, CM_SMALL_CHAR));
    cm_buf_str(b, "</g>\n");
}

/* From the lower side of one to the upper side of the other; past a box's height in a straight line. */
static void put_edge(cm_buf *b, const cm_vertex *from, const cm_vertex *to)
{
    double half = CM_BOX_HEIGHT / 2.0, y0 = from->y + half, y1 = to->y - half;
    double bend = (y1 - y0) / 2;
    cm_buf_printf(b, "<path d=\"M%.1f %.1fV%.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"%s/>\n", from->x,
                  from->layer == CM_BEND ? from->y - half : y0, y0, from->x, y0 + bend, to->x,
                  y1 - bend, to->x, y1, to->layer == CM_BEND ? "" : " marker-end=\"url(#arrow)\"");
}

static void put_head(cm_buf *b, const cm_picture *p)
{
    cm_buf_printf(b,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                  "viewBox=\"0 0 %.0f %.0f\">\n<style>\n"
                  "text { font-family: Helvetica, Arial, sans-serif; text-anchor: middle; }\n"
                  ".op { font-size: 12px; font-weight: bold; fill: #fff; }\n"
                  ".small { font-size: 10px; fill: #fff; fill-opacity: 0.85; }\n"
                  ".name { font-size: 12px; font-weight: bold; fill: #888; }\n"
                  ".edge { font-size: 10px; fill: #888; }\n"
                  "path { fill: none; stroke: #888; stroke-width: 1.2; }\n"
                  "</style>\n<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
                  "markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\">"
                  "<path d=\"M0 0L8 4L0 8z\" style=\"fill:#888;stroke:none\"/></marker></defs>\n",
                  p->width, p->height, p->width, p->height);
}

cm_status cm_picture_write(cm_ctx *cx, const cm_facts *f, const cm_picture *p, const char *path)
{
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    put_head(&b, p);
    for (int e = 0; e < p->n_edges; e++)
        put_edge(&b, &p->vertices[p->edges[e].from], &p->vertices[p->edges[e].to]);
    for (int i = 0; i < p->n_vertices; i++) {
        const cm_vertex *v = &p->vertices[i];
        if (v->layer == CM_BEND)
            continue;
        if (v->layer < 0)
            put_end(&b, v, &f->inputs[-1 - v->layer]);
        else if (v->layer >= CM_END)
            put_end(&b, v, &f->outputs[v->layer - CM_END]);
        else
            put_layer(&b, v, &f->layers[v->layer]);
    }
    cm_buf_str(&b, "</svg>\n");
    cm_status st = b.failed ? cm_fail_memory(cx) : cm_file_write(cx, path, b.data, b.n);
    cm_buf_deinit(&b);
    return st;
}
