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

enum { VECTOR_BYTES = 16, SEGMENTS = 3 };

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
    (void)k;
    double size = (double)cm_dtype_size(p->in[0]->dtype);
    int64_t out = cm_tensor_elems(p->out[0]), in = cm_min_i64(out, cm_tensor_elems(p->in[0]));
    return cm_gpu_stream_ns(&p->target, size * (double)(out + in)) * 1.1;
}

/* The kernel's argument: a header, then axes, strides and cuts. */
typedef struct {
    const void *x;
    void *y;
    const void *constant;
    unsigned char fill[VECTOR_BYTES];
    uint64_t outputs;
} header;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    size_t bytes;
    char arguments[CM_GPU_ARG_BYTES];
} state;

static size_t put_arguments(char *to, const cm_problem *p, const form *f)
{
    size_t size = cm_dtype_size(p->in[0]->dtype), n = (size_t)f->rank;
    header h = {.outputs = (uint64_t)cm_tensor_elems(p->out[0])};
    for (size_t at = 0; at < sizeof h.fill; at += size)
        memcpy(h.fill + at, p->as.move.fill, size);
    memcpy(to, &h, sizeof h);
    char *at = to + sizeof h;
    for (int d = 0; d < f->rank; d++, at += sizeof(cm_gpu_axis)) {
        cm_gpu_axis axis = cm_gpu_axis_of(f->dims[d]);
        memcpy(at, &axis, sizeof axis);
    }
    memcpy(at, f->strides, n * sizeof *f->strides);
    at += n * sizeof *f->strides;
    memcpy(at, f->cuts, n * sizeof *f->cuts);
    return (size_t)(at - to) + n * sizeof *f->cuts;
}

cm_status cm_cuda_pad_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                            const cm_knobs *k, const void **out)
{
    form f;
    char defines[160];
    state *s = cm_new(arena, state);
    (void)k;
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    (void)form_of(p, &f);
    size_t size = cm_dtype_size(p->in[0]->dtype);
    s->bytes = put_arguments(s->arguments, p, &f);
    int64_t vectors = cm_tensor_elems(p->out[0]) * (int64_t)size / VECTOR_BYTES + 1;
    s->grid =
        (cm_grid){.blocks = {cm_gpu_blocks(&p->target, vectors)}, .threads = {CM_GPU_THREADS}};
    snprintf(defines, sizeof defines,
             "#define ELEMENT %s\n#define RANK %d\n#define WIDE 0\n#define CONSTANT_BORDERS %d\n",
             cm_gpu_word(size), f.rank, has_constant_borders(&f));
    cm_kernel_text t = {.file = "pad", .defines = defines, .entry = "pad"};
    return cm_gpu_kernel(cx, d, &t, 0, &s->kernel);
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
