/* turn.c -- MOVE, as Transpose has it: two axes change places, one of them of a few elements (planes to pixels, elements of all
 * planes side by side, and back), or both long.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Both sides are read and written by whole vectors; elements change places in registers, or on their way out of shared memory
 * where lines begin anywhere (RAGGED). Pixels follow each other: those of a tile are read, or written, as one line. */
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
    int planes;     /* of pixels that are written, where there are few; 0: many */
    bool whole;     /* all of vectors */
    int64_t tile_cols, tile_rows;
} form;

/* Ragged tiles: knob 0: bytes of a line along the input, 1: columns, 2: what words of the output are aligned to, 3: blocks of a
 * multiprocessor, 4: what is one line. 0: whole vectors, or planes. */
enum { LINE_BYTES, COLS, ALIGN, BLOCKS, PIXELS };
enum { WRITTEN = 1, READ = 2 }; /* as in kernels/turn.cu */

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    size_t bytes;
    _Alignas(16) char arguments[CM_GPU_ARG_BYTES];
} state;

/* Planes to pixels: the innermost axis of the output is that of the planes, the one before it is adjacent in the input. */
static bool take_planes(form *f, int64_t size)
{
    cm_gpu_moved *m = &f->m;
    int last = m->rank - 1, before = last - 1;
    if (m->to[last] != size || m->dims[last] > MOST_PLANES || m->from[before] != size ||
        m->to[before] != m->dims[last] * size || m->dims[before] < LEAST_PIXELS)
        return false;
    f->planes = (int)m->dims[last];
    m->cols = m->dims[last];
    m->from_col = m->from[last];
    m->rows = m->dims[before];
    m->to_row = m->to[before];
    cm_gpu_moved_drop(m, last);
    cm_gpu_moved_drop(m, before);
    return true;
}

static bool are_long(const cm_gpu_moved *m, int col, int row, int64_t size)
{
    if (m->dims[row] < LEAST_ROW) /* pixels */
        return m->from[col] == m->dims[row] * size && m->dims[col] >= LEAST_PIXELS;
    return m->dims[col] >= LEAST_ROW;
}

/* The innermost axis of the output is a column of the input, some other axis is adjacent in the input. */
static bool take_tiles(form *f, int64_t size)
{
    cm_gpu_moved *m = &f->m;
    int last = m->rank - 1, row = -1;
    for (int a = 0; a < last; a++)
        row = m->from[a] == size ? a : row;
    if (row < 0 || m->to[last] != size || !are_long(m, last, row, size))
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

/* Of a plane, bytes that a thread holds. */
static int run_bytes(const form *f)
{
    return f->planes <= WIDE_PLANES ? VECTOR : VECTOR / 2;
}

static void cut(form *f, int64_t size, const cm_knobs *k)
{
    if (k->v[LINE_BYTES]) {
        f->tile_cols = k->v[COLS];
        f->tile_rows = k->v[LINE_BYTES] / size;
    } else if (f->planes) {
        f->tile_cols = f->planes;
        f->tile_rows = CM_GPU_THREADS * (run_bytes(f) / size);
    } else {
        f->tile_cols = TILE_BYTES; /* of two bytes: two tiles */
        f->tile_rows = TILE_BYTES / size;
    }
    f->m.units = cm_ceil_div(f->m.cols, f->tile_cols) * cm_ceil_div(f->m.rows, f->tile_rows);
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

/* So many of `each` as are in about `bytes`, in steps. */
static int that_fit(int64_t bytes, int64_t each)
{
    enum { STEP = 128 };
    return (int)cm_max_i64(bytes / each / STEP * STEP, STEP);
}

/* All columns, lines of the input that are together of about `bytes`. */
static cm_knobs written_as_one(const form *f, int64_t bytes)
{
    enum { MUCH = 25000 };
    int line = that_fit(bytes, f->m.cols);
    int blocks = f->m.cols * (line + VECTOR) > MUCH ? 5 : 8;
    return (cm_knobs){{line, (int)f->m.cols, 16, blocks, WRITTEN}};
}

/* Short pixels are faster in long lines where there are tiles for all multiprocessors, and lines of the output begin evenly. */
static cm_knobs read_as_one(const form *f, int64_t size, int64_t all_bytes)
{
    enum { SHORT = 6, ALIGNED = 32, MUCH = 16 << 20 };
    int64_t pixel = f->m.rows * size;
    bool is_long = pixel <= SHORT && f->m.to_row % ALIGNED == 0 && all_bytes >= MUCH;
    int cols = that_fit(is_long ? 34000 : 10000, pixel);
    return (cm_knobs){{(int)pixel, cols, ALIGNED, is_long ? 6 : 8, READ}};
}

/* Few planes: of short elements it is better that threads hold them, unless pixels are of whole words. */
static cm_knobs planes_knobs(const form *f, int64_t size)
{
    bool held = size == 1 || (size == 2 && f->planes % 4);
    return held ? (cm_knobs){{0}} : written_as_one(f, 10000);
}

static cm_knobs tiles_knobs(const form *f, int64_t size, int64_t all_bytes)
{
    enum { FEW_BYTES = 128, FEW_COLS = 64, MANY_COLS = 320 };
    const cm_gpu_moved *m = &f->m;
    bool writes_pixels = m->to_row == m->cols * size, reads_pixels = m->from_col == m->rows * size;
    if (m->rows < LEAST_ROW)
        return read_as_one(f, size, all_bytes);
    if (f->whole && size <= 2)
        return (cm_knobs){{0}};
    if (m->rows * size <= FEW_BYTES) /* an even number would be in few banks */
        return reads_pixels && m->rows % 2 ? read_as_one(f, size, all_bytes)
                                           : (cm_knobs){{128, 128, 32, 6}};
    if (writes_pixels && m->cols < (size == 1 ? MANY_COLS : FEW_COLS))
        return written_as_one(f, 20000);
    if (m->cols < FEW_COLS)
        return (cm_knobs){{512, 32, 32, 6}};
    if (f->whole)
        return (cm_knobs){{256, 64, 16, 6}};
    return size == 1 ? (cm_knobs){{128, 64, 32, 8}} : (cm_knobs){{256, 128, 32, 4}};
}

static int64_t bytes_of(const cm_problem *p)
{
    return cm_tensor_elems(p->out[0]) * (int64_t)cm_dtype_size(p->out[0]->dtype);
}

int cm_cuda_turn_knobs(const cm_problem *p, cm_knobs *out)
{
    form f;
    int64_t size = (int64_t)cm_dtype_size(p->in[0]->dtype);
    (void)form_of(p, &f);
    out[0] = f.planes ? planes_knobs(&f, size) : tiles_knobs(&f, size, bytes_of(p));
    return 1;
}

/* How many times as long as it takes to read and write all. */
static double times_of(const form *f, size_t size, int pixels)
{
    if (f->planes || pixels == READ)
        return 1;
    if (f->whole)
        return 0.96;
    if (size == 2)
        return pixels == WRITTEN ? 1.4 : 1.15;
    return size == 1 ? 1.6 : 1;
}

double cm_cuda_turn_cost(const cm_problem *p, const cm_knobs *k)
{
    form f;
    (void)form_of(p, &f);
    return cm_gpu_stream_ns(&p->target, 2 * (double)bytes_of(p)) *
           times_of(&f, cm_dtype_size(p->in[0]->dtype), k->v[PIXELS]);
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
                .across = cm_gpu_axis_of(cm_ceil_div(m->cols, f->tile_cols)),
                .down = cm_gpu_axis_of(cm_ceil_div(m->rows, f->tile_rows))};
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
    char defines[256];
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
    bool ragged = k->v[LINE_BYTES] != 0, planes = f.planes && !ragged;
    unsigned blocks = ragged ? (unsigned)cm_min_i64(f.m.units, INT32_MAX)
                             : cm_gpu_blocks(&p->target, f.m.units * CM_GPU_THREADS);
    s->grid = (cm_grid){.blocks = {blocks}, .threads = {CM_GPU_THREADS}};
    int at =
        snprintf(defines, sizeof defines, "#define ELEMENT %s\n#define RANK %d\n#define WIDE %d\n",
                 cm_gpu_word(cm_dtype_size(p->in[0]->dtype)), f.m.rank, cm_gpu_is_wide(f.m.units));
    if (planes)
        snprintf(defines + at, sizeof defines - (size_t)at,
                 "#define PLANES %d\n#define RUN_BYTES %d\n", f.planes, run_bytes(&f));
    else
        snprintf(defines + at, sizeof defines - (size_t)at,
                 "#define RAGGED %d\n#define LINE_BYTES %d\n#define COLS %d\n#define ALIGN %d\n"
                 "#define BLOCKS %d\n#define PIXELS %d\n",
                 ragged, k->v[LINE_BYTES], k->v[COLS], k->v[ALIGN], k->v[BLOCKS], k->v[PIXELS]);
    cm_kernel_text t = {.file = "turn",
                        .defines = defines,
                        .entry = planes   ? "turn_planes"
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
