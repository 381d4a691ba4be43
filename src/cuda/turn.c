/* turn.c -- MOVE, as Transpose has it: two axes change places, one of them of a few elements (planes to pixels and back),
 * or both long, of elements of one or two bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Both sides are read and written by whole vectors; elements change places in registers. */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "cuda/move.h"
#include "cuda/nest.h"

enum {
    MOST_PLANES = 15,
    WIDE_PLANES = 8, /* up to here a thread holds vectors of 16 bytes of each, beyond of 8 */
    LEAST_PIXELS = 64,
    TILE_BYTES = 128,
    VECTOR = 16,
    LEAST_ROW = 16, /* elements of tiles */
};

/* As in kernels/turn.cu. */
typedef struct {
    const void *from;
    void *to;
    uint64_t units;
    int64_t cols, rows, from_col, to_row;
    cm_gpu_axis across, down;
} header;

typedef struct {
    cm_gpu_moved m; /* the other axes */
    int planes;     /* 0: bytes */
    bool into_pixels, ragged;
    int64_t tile, tile_rows;
} form;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    size_t bytes;
    _Alignas(16) char arguments[CM_GPU_ARG_BYTES];
} state;

/* Planes to pixels: the innermost axis of the output is that of the planes, the one before it is adjacent in the input. The
 * other way: the innermost is that of the pixels, some other axis is adjacent in the input. */
static bool take_planes(form *f, int64_t size)
{
    cm_gpu_moved *m = &f->m;
    int last = m->rank - 1, before = last - 1;
    if (m->to[last] != size)
        return false;
    if (m->dims[last] <= MOST_PLANES && m->from[before] == size &&
        m->to[before] == m->dims[last] * size && m->dims[before] >= LEAST_PIXELS) {
        f->into_pixels = true;
        f->planes = (int)m->dims[last];
        m->cols = m->dims[before];
        m->from_col = m->from[last];
        cm_gpu_moved_drop(m, last);
        cm_gpu_moved_drop(m, before);
        return true;
    }
    for (int a = 0; a < last; a++)
        if (m->from[a] == size && m->dims[a] <= MOST_PLANES && m->from[last] == m->dims[a] * size &&
            m->dims[last] >= LEAST_PIXELS) {
            f->planes = (int)m->dims[a];
            m->cols = m->dims[last];
            m->to_row = m->to[a];
            cm_gpu_moved_drop(m, last);
            cm_gpu_moved_drop(m, a);
            return true;
        }
    return false;
}

static bool take_tiles(form *f, int64_t size)
{
    cm_gpu_moved *m = &f->m;
    int last = m->rank - 1, row = -1;
    for (int a = 0; a < last; a++)
        row = m->from[a] == size ? a : row;
    if (row < 0 || m->to[last] != size || m->dims[last] < LEAST_ROW || m->dims[row] < LEAST_ROW)
        return false;
    m->cols = m->dims[last];
    m->from_col = m->from[last];
    m->rows = m->dims[row];
    m->to_row = m->to[row];
    cm_gpu_moved_drop(m, last);
    cm_gpu_moved_drop(m, row);
    int64_t all = (m->cols | m->rows | m->piece->from_offset | m->piece->to_offset) * size;
    all |= m->from_col | m->to_row;
    for (int a = 0; a < m->rank; a++)
        all |= m->from[a] | m->to[a];
    f->ragged = all % VECTOR != 0;
    f->tile = f->ragged ? TILE_BYTES / size : TILE_BYTES; /* whole ones of two bytes: two tiles */
    f->tile_rows = TILE_BYTES / size;
    return !f->ragged || size == 1; /* others are quicker element by element */
}

static const char *form_of(const cm_problem *p, form *f)
{
    const cm_move *m = &p->as.move;
    cm_dtype t = p->in[0]->dtype;
    if (m->n_pieces != 1 || m->pieces[0].input < 0)
        return "not one piece of an input";
    if (t == CM_STR || cm_dtype_is_sub_byte(t) || cm_dtype_size(t) > 8)
        return "the element type";
    int64_t size = (int64_t)cm_dtype_size(t);
    *f = (form){0};
    if (!cm_gpu_moved_of(&f->m, &m->pieces[0], size) || f->m.rank < 2)
        return "no axes change places";
    if (take_planes(f, size))
        f->tile = CM_GPU_THREADS * ((f->planes <= WIDE_PLANES ? VECTOR : VECTOR / 2) / size);
    else if (size > 2 || !take_tiles(f, size))
        return "the axes that change places are long, and not of bytes or of whole vectors of two";
    f->m.units =
        cm_ceil_div(f->m.cols, f->tile) * (f->planes ? 1 : cm_ceil_div(f->m.rows, f->tile_rows));
    for (int a = 0; a < f->m.rank; a++)
        f->m.units *= f->m.dims[a];
    return NULL;
}

const char *cm_cuda_turn_reject(const cm_problem *p)
{
    form f;
    return form_of(p, &f);
}

double cm_cuda_turn_cost(const cm_problem *p, const cm_knobs *k)
{
    form f;
    (void)k;
    (void)form_of(p, &f);
    double bytes = (double)cm_tensor_elems(p->out[0]) * (double)cm_dtype_size(p->in[0]->dtype);
    return cm_gpu_stream_ns(&p->target, 2 * bytes) * (f.ragged ? 2.3 : 1.05);
}

/* The kernel's argument: a header, then axes and steps of the others. */
static size_t put_arguments(char *to, const form *f)
{
    const cm_gpu_moved *m = &f->m;
    size_t n = (size_t)m->rank;
    header h = {.units = (uint64_t)m->units,
                .cols = m->cols,
                .rows = m->rows,
                .from_col = m->from_col,
                .to_row = m->to_row,
                .across = cm_gpu_axis_of(cm_ceil_div(m->cols, f->tile)),
                .down = cm_gpu_axis_of(f->planes ? 1 : cm_ceil_div(m->rows, f->tile_rows))};
    memcpy(to, &h, sizeof h);
    char *at = cm_gpu_put_axes(to + sizeof h, m->dims, m->rank);
    memcpy(at, m->from, n * sizeof *m->from);
    at += n * sizeof *m->from;
    memcpy(at, m->to, n * sizeof *m->to);
    return (size_t)(at - to) + n * sizeof *m->to;
}

cm_status cm_cuda_turn_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                             const cm_knobs *k, const void **out)
{
    form f;
    char defines[200];
    state *s = cm_new(arena, state);
    (void)k;
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    (void)form_of(p, &f);
    if (f.m.rank == 0) {
        f.m.rank = 1;
        f.m.dims[0] = 1;
        f.m.from[0] = f.m.to[0] = 0;
    }
    s->bytes = put_arguments(s->arguments, &f);
    s->grid = (cm_grid){.blocks = {cm_gpu_blocks(&p->target, f.m.units * CM_GPU_THREADS)},
                        .threads = {CM_GPU_THREADS}};
    int at =
        snprintf(defines, sizeof defines, "#define ELEMENT %s\n#define RANK %d\n#define WIDE %d\n",
                 cm_gpu_word(cm_dtype_size(p->in[0]->dtype)), f.m.rank, cm_gpu_is_wide(f.m.units));
    if (f.planes)
        snprintf(defines + at, sizeof defines - (size_t)at,
                 "#define PLANES %d\n#define RUN_BYTES %d\n#define INTO_PIXELS %d\n", f.planes,
                 f.planes <= WIDE_PLANES ? VECTOR : VECTOR / 2, f.into_pixels);
    else
        snprintf(defines + at, sizeof defines - (size_t)at, "#define RAGGED %d\n", f.ragged);
    cm_kernel_text t = {.file = "turn",
                        .defines = defines,
                        .entry = f.planes   ? "turn_planes"
                                 : f.ragged ? "turn_ragged"
                                            : "turn_tiles"};
    return cm_gpu_kernel(cx, d, &t, 0, &s->kernel);
}

cm_status cm_cuda_turn_run(const cm_run *r)
{
    const state *s = r->state;
    const cm_move_piece *m = &r->p->as.move.pieces[0];
    int64_t size = (int64_t)cm_dtype_size(r->p->in[0]->dtype);
    _Alignas(16) char arguments[CM_GPU_ARG_BYTES];
    memcpy(arguments, s->arguments, s->bytes);
    header *h = (header *)arguments;
    h->from = (const char *)r->in[m->input] + m->from_offset * size;
    h->to = (char *)r->out[m->output] + m->to_offset * size;
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){arguments});
}
