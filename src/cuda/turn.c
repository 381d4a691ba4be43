/* turn.c -- MOVE, as Transpose has it: two axes change places, one of them of a few elements (planes to pixels and back),
 * or both long.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Both sides are read and written by whole vectors; elements change places in registers, or on their way out of shared memory
 * where lines begin anywhere (RAGGED). */
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
    cm_gpu_moved m;          /* the other axes */
    int planes;              /* 0: bytes */
    bool into_pixels, whole; /* whole: of vectors */
    int64_t tile, tile_rows;
} form;

/* Ragged tiles: knob 0: bytes of a line along the input, 1: columns, 2: what words of the output are aligned to, 3: blocks of a
 * multiprocessor. 0: whole vectors, or planes. */
enum { LINE_BYTES, COLS, ALIGN, BLOCKS };

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
    f->whole = all % VECTOR == 0;
    return true;
}

static void cut(form *f, int64_t size, const cm_knobs *k)
{
    if (f->planes)
        f->tile = CM_GPU_THREADS * ((f->planes <= WIDE_PLANES ? VECTOR : VECTOR / 2) / size);
    else if (k->v[LINE_BYTES])
        f->tile = k->v[COLS];
    else
        f->tile = TILE_BYTES; /* of two bytes: two tiles */
    f->tile_rows = k->v[LINE_BYTES] ? k->v[LINE_BYTES] / size : TILE_BYTES / size;
    f->m.units =
        cm_ceil_div(f->m.cols, f->tile) * (f->planes ? 1 : cm_ceil_div(f->m.rows, f->tile_rows));
    for (int a = 0; a < f->m.rank; a++)
        f->m.units *= f->m.dims[a];
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
    return take_planes(f, size) || take_tiles(f, size) ? NULL : "no long axes change places";
}

const char *cm_cuda_turn_reject(const cm_problem *p)
{
    form f;
    return form_of(p, &f);
}

int cm_cuda_turn_knobs(const cm_problem *p, cm_knobs *out)
{
    enum { FEW_BYTES = 128, FEW_COLS = 64 };
    form f;
    int64_t size = (int64_t)cm_dtype_size(p->in[0]->dtype);
    int n = 0;
    (void)form_of(p, &f);
    if (f.planes || (f.whole && size <= 2))
        out[n++] = (cm_knobs){{0}};
    else if (f.m.rows * size <= FEW_BYTES)
        out[n++] = (cm_knobs){{128, 128, 32, 6}};
    else if (f.m.cols < FEW_COLS)
        out[n++] = (cm_knobs){{512, 32, 32, 6}};
    else if (f.whole)
        out[n++] = (cm_knobs){{256, 64, 16, 6}};
    else if (size == 1)
        out[n++] = (cm_knobs){{128, 64, 32, 8}};
    else
        out[n++] = (cm_knobs){{256, 128, 32, 4}};
    return n;
}

double cm_cuda_turn_cost(const cm_problem *p, const cm_knobs *k)
{
    form f;
    (void)form_of(p, &f);
    double size = (double)cm_dtype_size(p->in[0]->dtype);
    double bytes = (double)cm_tensor_elems(p->out[0]) * size;
    double times = f.whole ? 0.96 : size >= 4 ? 1.05 : size == 2 ? 1.2 : 2.5;
    (void)k;
    return cm_gpu_stream_ns(&p->target, 2 * bytes) * (f.planes ? 1.05 : times);
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
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    (void)form_of(p, &f);
    cut(&f, (int64_t)cm_dtype_size(p->in[0]->dtype), k);
    if (f.m.rank == 0) {
        f.m.rank = 1;
        f.m.dims[0] = 1;
        f.m.from[0] = f.m.to[0] = 0;
    }
    s->bytes = put_arguments(s->arguments, &f);
    bool ragged = k->v[LINE_BYTES] != 0;
    unsigned blocks = ragged ? (unsigned)cm_min_i64(f.m.units, INT32_MAX)
                             : cm_gpu_blocks(&p->target, f.m.units * CM_GPU_THREADS);
    s->grid = (cm_grid){.blocks = {blocks}, .threads = {CM_GPU_THREADS}};
    int at =
        snprintf(defines, sizeof defines, "#define ELEMENT %s\n#define RANK %d\n#define WIDE %d\n",
                 cm_gpu_word(cm_dtype_size(p->in[0]->dtype)), f.m.rank, cm_gpu_is_wide(f.m.units));
    if (f.planes)
        snprintf(defines + at, sizeof defines - (size_t)at,
                 "#define PLANES %d\n#define RUN_BYTES %d\n#define INTO_PIXELS %d\n", f.planes,
                 f.planes <= WIDE_PLANES ? VECTOR : VECTOR / 2, f.into_pixels);
    else
        snprintf(defines + at, sizeof defines - (size_t)at,
                 "#define RAGGED %d\n#define LINE_BYTES %d\n#define COLS %d\n#define ALIGN "
                 "%d\n#define BLOCKS %d\n",
                 ragged, k->v[LINE_BYTES], k->v[COLS], k->v[ALIGN], k->v[BLOCKS]);
    cm_kernel_text t = {.file = "turn",
                        .defines = defines,
                        .entry = f.planes ? "turn_planes"
                                 : ragged ? "turn_ragged"
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
