/* move.c -- MOVE: strided pieces, many in one launch.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A piece whose innermost axis lies side by side on both sides is moved by words of up to 16 bytes, wherever rows begin; one that is
 * transposed goes through tiles in shared memory; the rest element by element, in the order of the output. */
#include "cuda/move.h"

#include "cuda/nest.h"
#include "cuda/tactics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

enum {
    LARGEST = 16,     /* bytes of a word */
    TILED = 16,       /* rows and columns from which on a transposition goes through tiles */
    NARROW = 4,       /* bytes of words that are too narrow to move rows by, */
    SHIFTED = 128,    /* of so many bytes on: they are moved by whole words wherever they begin */
    HEADER_WORDS = 3, /* of the kernel's argument: kernels/move.cu has the struct */
    PIECE_WORDS = 9,
};

typedef cm_gpu_moved form;

typedef struct {
    const cm_move_piece *piece;
    size_t at; /* of its words in the argument */
} place;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    size_t words;
    uint64_t *arguments;
    int n;
    place *places;
} launch;

typedef struct {
    int n;
    launch *launches;
} state;

static size_t size_of(const cm_problem *p)
{
    return cm_dtype_size(p->in[0]->dtype);
}

static const char *reject(const cm_problem *p)
{
    cm_dtype t = p->in[0]->dtype;
    if (t == CM_STR)
        return "strings are not plain memory";
    if (cm_dtype_is_sub_byte(t))
        return "elements smaller than a byte";
    return NULL;
}

static void add_axis(form *f, int at, int64_t dim, int64_t from, int64_t to)
{
    for (int i = f->rank++; i > at; i--) {
        f->dims[i] = f->dims[i - 1];
        f->from[i] = f->from[i - 1];
        f->to[i] = f->to[i - 1];
    }
    f->dims[at] = dim;
    f->from[at] = from;
    f->to[at] = to;
}

void cm_gpu_moved_drop(form *f, int at)
{
    f->rank--;
    for (int i = at; i < f->rank; i++) {
        f->dims[i] = f->dims[i + 1];
        f->from[i] = f->from[i + 1];
        f->to[i] = f->to[i + 1];
    }
}

bool cm_gpu_moved_of(form *f, const cm_move_piece *m, int64_t size)
{
    bool fill = m->input < 0;
    *f = (form){.piece = m};
    for (int a = 0; a < m->rank; a++) {
        if (m->dims[a] == 0)
            return false;
        if (m->dims[a] == 1)
            continue;
        int at = f->rank;
        while (at > 0 && llabs(f->to[at - 1]) < llabs(m->to[a] * size))
            at--;
        add_axis(f, at, m->dims[a], fill ? 0 : m->from[a] * size, m->to[a] * size);
    }
    for (int a = f->rank - 2; a >= 0; a--)
        if (f->to[a] == f->to[a + 1] * f->dims[a + 1] &&
            (fill || f->from[a] == f->from[a + 1] * f->dims[a + 1])) {
            f->dims[a + 1] *= f->dims[a];
            cm_gpu_moved_drop(f, a);
        }
    if (f->rank == 0)
        add_axis(f, 0, 1, fill ? 0 : size, size);
    return true;
}

/* The largest word that the innermost axis is made of whole ones of, everything else a multiple of it; or the largest of
 * all, where rows are long enough for others at their ends, or made of one element. */
static void widen(form *f, int64_t size)
{
    int last = f->rank - 1;
    bool fill = f->piece->input < 0, same = !fill && f->from[last] == 0;
    int64_t row = f->dims[last] * size;
    f->word = size;
    if (f->to[last] != size || (!fill && !same && f->from[last] != size))
        return;
    int64_t all = row | f->piece->to_offset * size;
    all |= fill ? 0 : f->piece->from_offset * size;
    for (int a = 0; a < last; a++)
        all |= f->to[a] | f->from[a];
    while (!same && f->word < LARGEST && all % (2 * f->word) == 0)
        f->word *= 2;
    if (f->word <= NARROW && row >= SHIFTED) {
        f->shifted = true;
        f->cols = row;
        f->rows = same;
        f->word = LARGEST;
        row += 2 * (LARGEST - 1); /* the words that it may lie in */
    }
    f->dims[last] = row / f->word;
    f->to[last] = f->word;
    f->from[last] = fill || same ? 0 : f->word;
}

static int tile_of(int64_t size)
{
    return size <= 4 ? 64 : 32;
}

/* Blocks that a multiprocessor should hold at once: as many as registers allow without spilling. */
static int tile_blocks(const cm_target *t, int64_t size)
{
    enum { AMPERE = 800 };
    return t->level < AMPERE || size == 1 || size == LARGEST ? 4 : size == 4 ? 6 : 5;
}

static int tile_run(int64_t size)
{
    return size <= 2 ? (int)(4 / size) : 1;
}

/* Takes the axis that is innermost in the source out of dims, if there is one worth it. */
static bool make_tiles(form *f, int64_t size)
{
    int last = f->rank - 1, row = -1;
    for (int a = 0; a < last; a++)
        if (f->from[a] == size && f->piece->input >= 0)
            row = a;
    if (row < 0 || f->to[last] != size || f->dims[last] < TILED || f->dims[row] < TILED)
        return false;
    f->tiled = true;
    f->cols = f->dims[last];
    f->from_col = f->from[last];
    f->rows = f->dims[row];
    f->to_row = f->to[row];
    cm_gpu_moved_drop(f, last);
    cm_gpu_moved_drop(f, row);
    int64_t run = size * tile_run(size);
    int64_t all = f->cols * size | f->rows * size | f->from_col | f->to_row |
                  f->piece->from_offset * size | f->piece->to_offset * size;
    for (int a = 0; a < f->rank; a++)
        all |= f->from[a] | f->to[a];
    f->word = all % run == 0 ? run : size;
    if (f->rank == 0)
        add_axis(f, 0, 1, 0, 0);
    return true;
}

/* Do 32 bits hold how far elements are apart? */
static bool is_near(const form *f)
{
    int64_t from = 0, to = 0;
    for (int a = 0; a < f->rank; a++) {
        from += (f->dims[a] - 1) * llabs(f->from[a]);
        to += (f->dims[a] - 1) * llabs(f->to[a]);
    }
    return !f->tiled && from + LARGEST <= INT32_MAX && to + LARGEST <= INT32_MAX;
}

static bool form_of(const cm_move_piece *m, int64_t size, form *f)
{
    if (!cm_gpu_moved_of(f, m, size))
        return false;
    f->units = 1;
    if (make_tiles(f, size)) {
        int tile = tile_of(size);
        f->units = cm_ceil_div(f->cols, tile) * cm_ceil_div(f->rows, tile);
    } else {
        widen(f, size);
    }
    for (int a = 0; a < f->rank; a++)
        f->units *= f->dims[a];
    return true;
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    enum { SECTOR = 32, AXIS_WORK = 16, WORD_WORK = 40 }; /* instructions */
    const cm_move *m = &p->as.move;
    int64_t size = (int64_t)size_of(p);
    double bytes = 0, work = 0;
    cm_gpu_facts facts;
    (void)k;
    cm_gpu_facts_of(&p->target, &facts);
    for (int i = 0; i < m->n_pieces; i++) {
        form f;
        if (!form_of(&m->pieces[i], size, &f))
            continue;
        double elems = (double)cm_dims_product(m->pieces[i].dims, 0, m->pieces[i].rank);
        int64_t step = f.tiled ? 0 : llabs(f.from[f.rank - 1]);
        bool apart = step > f.word;
        bytes += elems * (double)(size + (m->pieces[i].input < 0 ? 0 : size));
        bytes += apart ? elems * (double)cm_min_i64(step, SECTOR) / 2 : 0;
        if (f.tiled && size <= 2) /* through the tiles by narrow words */
            bytes += elems * (double)size * (size == 1 ? 4.7 : f.word == size ? 2 : 0.4);
        if (f.tiled && size > 2 && (f.rows * size | f.cols * size) % SECTOR != 0)
            bytes += elems * (double)size * 0.7;
        work += f.tiled ? 0 : (double)f.units * (f.rank * AXIS_WORK + WORD_WORK);
    }
    double memory = cm_gpu_stream_ns(&p->target, bytes);
    double busy = facts.launch_ns + work / (facts.tflops * 500); /* two flops each */
    return memory > busy ? memory : busy;
}

/* How many pieces of a rank a launch has room for, of those that kernels are compiled with. */
static int room_for(int rank, int n)
{
    size_t each = (PIECE_WORDS + 4 * (size_t)rank) * sizeof(uint64_t);
    int most = (int)((CM_GPU_ARG_BYTES - HEADER_WORDS * sizeof(uint64_t)) / each);
    return n <= 1 ? 1 : n <= 4 && most > 4 ? 4 : most;
}

char *cm_gpu_put_axes(char *to, const int64_t *dims, int n)
{
    for (int d = 0; d < n; d++, to += sizeof(cm_gpu_axis)) {
        cm_gpu_axis axis = cm_gpu_axis_of(dims[d]);
        memcpy(to, &axis, sizeof axis);
    }
    return to;
}

static uint64_t *put_piece(uint64_t *to, const form *f, int rank, int64_t size, unsigned first,
                           unsigned blocks)
{
    uint64_t header[PIECE_WORDS] = {0,
                                    0,
                                    (uint64_t)f->word | (uint64_t)size << 32,
                                    (uint64_t)f->units,
                                    first | (uint64_t)blocks << 32,
                                    (uint64_t)f->cols,
                                    (uint64_t)f->rows,
                                    (uint64_t)f->from_col,
                                    (uint64_t)f->to_row};
    memcpy(to, header, sizeof header);
    to += PIECE_WORDS;
    int skip = rank - f->rank; /* axes of 1 come first */
    for (int a = 0; a < rank; a++, to += 2) {
        cm_gpu_axis axis = cm_gpu_axis_of(a < skip ? 1 : f->dims[a - skip]);
        memcpy(to, &axis, sizeof axis);
    }
    for (int a = 0; a < rank; a++)
        *to++ = a < skip ? 0 : (uint64_t)f->from[a - skip];
    for (int a = 0; a < rank; a++)
        *to++ = a < skip ? 0 : (uint64_t)f->to[a - skip];
    return to;
}

static void put_fill(uint64_t *to, const cm_problem *p)
{
    size_t size = size_of(p);
    for (size_t at = 0; at < 2 * sizeof *to; at += size)
        memcpy((char *)to + at, p->as.move.fill, size);
}

static cm_status find_kernel(cm_ctx *cx, cm_device *d, const cm_problem *p, const form *f, int n,
                             int rank, bool wide, launch *l)
{
    char defines[256];
    int64_t size = (int64_t)size_of(p);
    bool near = true, shifted = false;
    for (int i = 0; i < n; i++) {
        near &= is_near(&f[i]);
        shifted |= f[i].shifted;
    }
    int at = snprintf(defines, sizeof defines,
                      "#define RANK %d\n#define PIECES %d\n#define WIDE %d\n#define NEAR %d\n"
                      "#define SHIFTED %d\n",
                      rank, room_for(rank, n), wide, near, shifted);
    if (f->tiled)
        snprintf(defines + at, sizeof defines - (size_t)at,
                 "#define ELEMENT %s\n#define TILE %d\n#define RUN %d\n#define BLOCKS %d\n",
                 cm_gpu_word((size_t)size), tile_of(size), tile_run(size),
                 tile_blocks(&p->target, size));
    cm_kernel_text t = {
        .file = "move", .defines = defines, .entry = f->tiled ? "move_tiles" : "move_words"};
    return cm_gpu_kernel(cx, d, &t, 0, &l->kernel);
}

/* Words that a thread has on their way at once: several, where that leaves enough threads. */
static int64_t words_each(const cm_target *t, double words)
{
    enum { MANY = 4 };
    double few = (double)cm_gpu_blocks(t, INT64_MAX / 2) / 8 * CM_GPU_THREADS; /* two blocks each */
    return words >= MANY * few ? MANY : words >= 2 * few ? 2 : 1;
}

/* Forms [0, n), all tiled or none. */
static cm_status make_launch(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                             const form *forms, int n, int rank, launch *l)
{
    int room = room_for(rank, n);
    bool wide = false;
    double all = 0;
    l->n = n;
    l->words = HEADER_WORDS + (size_t)room * (PIECE_WORDS + 4 * (size_t)rank);
    CM_NEW_N(cx, arena, l->arguments, l->words, uint64_t);
    CM_NEW_N(cx, arena, l->places, n, place);
    for (int i = 0; i < n; i++) {
        wide |= cm_gpu_is_wide(forms[i].units * (LARGEST / (int64_t)size_of(p)));
        all += (double)forms[i].units;
    }
    put_fill(l->arguments, p);
    l->arguments[2] = (uint64_t)n;
    uint64_t *to = l->arguments + HEADER_WORDS;
    unsigned first = 0;
    double most = cm_gpu_blocks(&p->target, INT64_MAX / 2);
    int64_t each = words_each(&p->target, all);
    for (int i = 0; i < n; i++) {
        const form *f = &forms[i];
        int64_t needed = f->tiled ? f->units : cm_ceil_div(f->units, CM_GPU_THREADS * each);
        int64_t share = 1 + (int64_t)(most * (double)f->units / all);
        unsigned blocks = (unsigned)cm_min_i64(needed, share);
        l->places[i] = (place){f->piece, (size_t)(to - l->arguments)};
        to = put_piece(to, f, rank, (int64_t)size_of(p), first, blocks);
        first += blocks;
    }
    l->grid = (cm_grid){.blocks = {first}, .threads = {CM_GPU_THREADS}};
    return find_kernel(cx, d, p, forms, n, rank, wide, l);
}

/* Pieces of one sort, as many at a time as a launch has room for. */
static cm_status make_launches(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                               const form *forms, int n, state *s)
{
    int rank = 1;
    for (int i = 0; i < n; i++)
        rank = forms[i].rank > rank ? forms[i].rank : rank;
    int room = room_for(rank, n);
    for (int i = 0; i < n; i += room)
        CM_TRY(make_launch(cx, d, arena, p, forms + i, n - i < room ? n - i : room, rank,
                           &s->launches[s->n++]));
    return CM_OK;
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    const cm_move *m = &p->as.move;
    int n = 0, n_tiled = 0;
    form *forms;
    state *s = cm_new(arena, state);
    (void)k;
    if (!s)
        return cm_fail_memory(cx);
    CM_NEW_N(cx, arena, s->launches, m->n_pieces + 1, launch);
    CM_NEW_N(cx, cx->scratch, forms, m->n_pieces + 1, form);
    for (int tiled = 1; tiled >= 0; tiled--) {
        for (int i = 0; i < m->n_pieces; i++)
            if (form_of(&m->pieces[i], (int64_t)size_of(p), &forms[n]) && forms[n].tiled == tiled)
                n++;
        n_tiled = tiled ? n : n_tiled;
    }
    CM_TRY(make_launches(cx, d, arena, p, forms, n_tiled, s));
    CM_TRY(make_launches(cx, d, arena, p, forms + n_tiled, n - n_tiled, s));
    *out = s;
    return CM_OK;
}

static cm_status run_launch(const cm_run *r, const launch *l)
{
    uint64_t arguments[CM_GPU_ARG_BYTES / sizeof(uint64_t)];
    int64_t size = (int64_t)size_of(r->p);
    memcpy(arguments, l->arguments, l->words * sizeof *arguments);
    for (int i = 0; i < l->n; i++) {
        const cm_move_piece *m = l->places[i].piece;
        uint64_t *to = arguments + l->places[i].at;
        to[0] = m->input < 0 ? 0 : (uintptr_t)r->in[m->input] + (uint64_t)(m->from_offset * size);
        to[1] = (uintptr_t)r->out[m->output] + (uint64_t)(m->to_offset * size);
    }
    return cm_gpu_launch(r, l->kernel, &l->grid, (void *[]){arguments});
}

static cm_status run(const cm_run *r)
{
    const state *s = r->state;
    for (int i = 0; i < s->n; i++)
        CM_TRY(run_launch(r, &s->launches[i]));
    return CM_OK;
}

const cm_tactic cm_cuda_move_tactics[] = {
    {.name = "cuda_move", .level = 750, .reject = reject, .cost = cost, .ready = ready, .run = run},
    {.name = "cuda_pad",
     .level = 750,
     .reject = cm_cuda_pad_reject,
     .knobs = cm_cuda_pad_knobs,
     .cost = cm_cuda_pad_cost,
     .ready = cm_cuda_pad_ready,
     .run = cm_cuda_pad_run},
    {.name = "cuda_turn",
     .level = 750,
     .reject = cm_cuda_turn_reject,
     .knobs = cm_cuda_turn_knobs,
     .cost = cm_cuda_turn_cost,
     .ready = cm_cuda_turn_ready,
     .run = cm_cuda_turn_run},
};
const int cm_cuda_move_count = CM_COUNT(cm_cuda_move_tactics);
