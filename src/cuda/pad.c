/* pad.c -- MOVE, as Pad and Slice have it: each axis of the output walks the input's by steps, or is the constant.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The output is written by whole vectors, wherever rows of the input begin. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "cuda/move.h"
#include "cuda/nest.h"

enum {
    VECTOR_BYTES = 16,
    SEGMENTS = 3,
    MOST_ROWS = 256,
    TILE_BYTES = 16 << 10,
    MOST_BYTES = 40 << 10
};

/* As in kernels/pad.cu. */
typedef struct {
    int32_t low, high, base[SEGMENTS], step[SEGMENTS];
} cut;

typedef struct {
    int rank;
    int64_t dims[CM_MAX_RANK], strides[CM_MAX_RANK];
    cut cuts[CM_MAX_RANK];
} form;

static void set_segment(cut *c, int i, const struct cm_move_segment *s)
{
    c->step[i] = s->from < 0 ? 0 : (int32_t)s->step;
    c->base[i] = s->from < 0 ? INT32_MIN : (int32_t)(s->from - s->at * s->step);
}

/* Would position x of a segment be the same as one of the middle? */
static bool is_of_middle(const cut *c, int segment, int64_t x)
{
    return c->base[segment] != INT32_MIN &&
           c->base[segment] + c->step[segment] * x == c->base[1] + x;
}

/* The longest segment of step 1 in the middle, no more than one on either side. */
static bool set_cut(const cm_move_cut *from, cut *c)
{
    int middle = 0;
    for (int i = 1; i < from->n; i++) {
        const struct cm_move_segment *a = &from->segments[middle], *b = &from->segments[i];
        if (b->step == 1 && (a->step != 1 || b->n > a->n))
            middle = i;
    }
    if (from->n < 1 || middle > 1 || from->n - middle > 2)
        return false;
    const struct cm_move_segment *s = &from->segments[middle];
    *c = (cut){.low = (int32_t)s->at, .high = (int32_t)(s->at + s->n)};
    set_segment(c, 1, s);
    if (middle > 0)
        set_segment(c, 0, &from->segments[0]);
    if (middle + 1 < from->n)
        set_segment(c, 2, &from->segments[middle + 1]);
    /* What is mirrored walks one element of the middle backwards. */
    if (middle > 0 && s->step == 1 && is_of_middle(c, 0, c->low - 1))
        c->low--;
    if (middle + 1 < from->n && s->step == 1 && is_of_middle(c, 2, c->high))
        c->high++;
    return true;
}

static bool is_whole(const cm_move_cut *c, int64_t dim)
{
    const struct cm_move_segment *s = c->segments;
    return c->n == 1 && s->from == 0 && s->n == dim && (s->step == 1 || dim == 1);
}

static const char *form_of(const cm_problem *p, form *f)
{
    const cm_move *m = &p->as.move;
    const cm_tensor *x = p->in[0], *y = p->out[0];
    f->rank = 0;
    for (int d = 0; d < y->rank; d++) {
        int last = f->rank - 1;
        bool whole = is_whole(&m->cuts[d], x->dims[d]);
        if (whole && y->dims[d] == 1 && d + 1 < y->rank)
            continue;
        if (whole && last >= 0 && f->cuts[last].low == 0 && f->cuts[last].base[1] == 0 &&
            f->cuts[last].high == f->dims[last] && f->cuts[last].step[1] == 1 &&
            f->strides[last] == x->strides[d] * x->dims[d]) { /* one axis with that before it */
            f->dims[last] *= y->dims[d];
            f->cuts[last].high = (int32_t)f->dims[last];
            f->strides[last] = x->strides[d];
            continue;
        }
        f->dims[f->rank] = y->dims[d];
        f->strides[f->rank] = x->strides[d];
        if (!set_cut(&m->cuts[d], &f->cuts[f->rank++]))
            return "an axis is cut into too many segments";
    }
    if (f->rank == 0)
        return "there are no axes";
    if (f->strides[f->rank - 1] != 1 || f->cuts[f->rank - 1].step[1] != 1)
        return "the input's elements are apart";
    return NULL;
}

/* Is all of a row the constant that is not in its middle? */
static bool has_constant_borders(const form *f)
{
    const cut *c = &f->cuts[f->rank - 1];
    return (c->low == 0 || c->base[0] == INT32_MIN) &&
           (c->high == f->dims[f->rank - 1] || c->base[2] == INT32_MIN);
}

/* Rows of the output that a block puts together at once, whole vectors of them: 0: rows are too long for that, or what is beside
 * a middle is neither the constant nor in it. */
static int64_t rows_of(const cm_problem *p, const form *f)
{
    const cut *c = &f->cuts[f->rank - 1];
    int64_t size = (int64_t)cm_dtype_size(p->in[0]->dtype), width = f->dims[f->rank - 1];
    for (int64_t x = 0; x < width && !has_constant_borders(f); x++) {
        int i = x < c->low ? 0 : x < c->high ? 1 : 2;
        int64_t from = c->base[i] + c->step[i] * x - c->base[1];
        if (c->base[i] == INT32_MIN || from < c->low || from >= c->high)
            return 0;
    }
    int64_t least = 1;
    while (least * width * size % VECTOR_BYTES != 0)
        least *= 2;
    int64_t tiles = cm_min_i64(TILE_BYTES / (width * size), MOST_ROWS) / least;
    int64_t rows = least * cm_max_i64(1, tiles);
    return rows * width * size <= MOST_BYTES && c->high > c->low ? rows : 0;
}

int cm_cuda_pad_knobs(const cm_problem *p, cm_knobs *out)
{
    form f;
    (void)form_of(p, &f);
    int64_t rows = rows_of(p, &f);
    out[0] = (cm_knobs){{(int)rows}};
    out[1] = (cm_knobs){{0}};
    return rows ? 2 : 1;
}

const char *cm_cuda_pad_reject(const cm_problem *p)
{
    form f;
    if (!p->as.move.cuts || p->as.move.n_pieces == 0)
        return "neither padded nor sliced";
    int64_t size = (int64_t)cm_dtype_size(p->in[0]->dtype), n = cm_tensor_elems(p->out[0]);
    if (p->in[0]->dtype == CM_STR || cm_dtype_is_sub_byte(p->in[0]->dtype) || size > 8)
        return "the element type";
    if (!cm_tensor_is_dense(p->out[0]))
        return "the output is strided";
    const char *why = form_of(p, &f);
    if (why)
        return why;
    int64_t reach = 0;
    for (int d = 0; d < p->in[0]->rank; d++)
        reach += (p->in[0]->dims[d] - 1) * llabs(p->in[0]->strides[d]);
    if (cm_gpu_is_wide(n + VECTOR_BYTES) || cm_gpu_is_wide(reach + VECTOR_BYTES))
        return "there are too many elements";
    return f.dims[f.rank - 1] < VECTOR_BYTES / size ? "rows are short" : NULL;
}

double cm_cuda_pad_cost(const cm_problem *p, const cm_knobs *k)
{
    double size = (double)cm_dtype_size(p->in[0]->dtype);
    int64_t out = cm_tensor_elems(p->out[0]), in = cm_min_i64(out, cm_tensor_elems(p->in[0]));
    return cm_gpu_stream_ns(&p->target, size * (double)(out + in)) * (k->v[0] ? 1.05 : 1.1);
}

/* The kernel's argument: a header, then axes, strides and cuts. */
typedef struct {
    const void *x;
    void *y;
    const void *constant;
    unsigned char fill[VECTOR_BYTES];
    uint64_t outputs;
    cm_gpu_axis per_row;
    uint64_t rows;
} header;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    size_t bytes;
    char arguments[CM_GPU_ARG_BYTES];
} state;

static size_t put_arguments(char *to, const cm_problem *p, const form *f, int64_t rows)
{
    size_t size = cm_dtype_size(p->in[0]->dtype), n = (size_t)f->rank;
    const cut *c = &f->cuts[f->rank - 1];
    header h = {.outputs = (uint64_t)cm_tensor_elems(p->out[0]),
                .per_row =
                    cm_gpu_axis_of(cm_ceil_div((c->high - c->low) * (int64_t)size, VECTOR_BYTES)),
                .rows = (uint64_t)rows};
    for (size_t at = 0; at < sizeof h.fill; at += size)
        memcpy(h.fill + at, p->as.move.fill, size);
    memcpy(to, &h, sizeof h);
    char *at = cm_gpu_put_axes(to + sizeof h, f->dims, f->rank);
    memcpy(at, f->strides, n * sizeof *f->strides);
    at += n * sizeof *f->strides;
    memcpy(at, f->cuts, n * sizeof *f->cuts);
    return (size_t)(at - to) + n * sizeof *f->cuts;
}

cm_status cm_cuda_pad_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                            const cm_knobs *k, const void **out)
{
    form f;
    char defines[200];
    state *s = cm_new(arena, state);
    int64_t rows = k->v[0];
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    (void)form_of(p, &f);
    size_t size = cm_dtype_size(p->in[0]->dtype);
    s->bytes = put_arguments(s->arguments, p, &f, rows);
    int64_t vectors = cm_tensor_elems(p->out[0]) * (int64_t)size / VECTOR_BYTES + 1;
    s->grid =
        (cm_grid){.blocks = {cm_gpu_blocks(&p->target, vectors)}, .threads = {CM_GPU_THREADS}};
    if (rows) {
        int64_t width = f.dims[f.rank - 1], all = cm_tensor_elems(p->out[0]) / width;
        s->grid.blocks[0] = cm_gpu_blocks(&p->target, cm_ceil_div(all, rows) * CM_GPU_THREADS);
        s->grid.shared = (size_t)(rows * width) * size;
    }
    snprintf(defines, sizeof defines,
             "#define ELEMENT %s\n#define RANK %d\n#define WIDE 0\n#define CONSTANT_BORDERS %d\n"
             "#define ROWS %d\n",
             cm_gpu_word(size), f.rank, has_constant_borders(&f), rows > 0);
    cm_kernel_text t = {.file = "pad", .defines = defines, .entry = rows ? "pad_rows" : "pad"};
    return cm_gpu_kernel(cx, d, &t, s->grid.shared, &s->kernel);
}

cm_status cm_cuda_pad_run(const cm_run *r)
{
    const state *s = r->state;
    int constant = r->p->as.move.constant;
    _Alignas(16) char arguments[CM_GPU_ARG_BYTES];
    memcpy(arguments, s->arguments, s->bytes);
    header *h = (header *)arguments;
    h->x = r->in[0];
    h->y = r->out[0];
    h->constant = constant < 0 ? NULL : r->in[constant];
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){arguments});
}
