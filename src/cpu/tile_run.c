/* tile_run.c -- compiled programs over rows and columns, tile by tile.
 * SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "cpu/tile.h"

/* A piece of the matrix: whole rows, or part of one. */
typedef struct piece {
    int64_t row, col, rows, cols;
} piece;

typedef struct runner {
    const cm_tile_job *j;
    const cm_tile_code *c;
    float *slot[CM_TILE_SLOTS];
    float one[CM_TILE_OPERANDS]; /* operands of one number, converted */
    piece filled
        [CM_TILE_OPERANDS]; /* what an operand's register holds, of those the same in every row */
    float registers[CM_TILE_FLOATS] __attribute__((aligned(64)));
} runner;

/* The offset of element i along axes walked as one. */
static int64_t offset(int n, const int64_t *dims, const int64_t *strides, int64_t i)
{
    int64_t at = 0;
    for (int a = n - 1; a > 0; a--) {
        at += i % dims[a] * strides[a];
        i /= dims[a];
    }
    return at + i * strides[0];
}

char *cm_tile_address(const cm_tile_view *v, int64_t row, int64_t col)
{
    int64_t at = offset(v->n_axes, v->dims, v->strides, row) +
                 offset(v->n_col_axes, v->col_dims, v->col_strides, col);
    return (char *)(uintptr_t)v->data + at * (int64_t)cm_dtype_size(v->dtype);
}

static bool same_in_all_rows(const cm_tile_view *v)
{
    return v->n_axes == 1 && v->strides[0] == 0;
}

/* Does the piece lie as one run of elements? */
static bool is_run(const cm_tile_view *v, const piece *p, int64_t all_cols)
{
    if (v->n_col_axes != 1 || (v->col_strides[0] != 1 && p->cols != 1))
        return false;
    return p->rows == 1 || (v->n_axes == 1 && v->strides[0] == all_cols && p->cols == all_cols);
}

/* How many columns from `col` on lie as one strided run. */
static int64_t run_of_cols(const cm_tile_view *v, int64_t col, int64_t most)
{
    if (v->n_col_axes == 1)
        return most;
    int64_t inner = v->col_dims[v->n_col_axes - 1], left = inner - col % inner;
    return left < most ? left : most;
}

static void load_piece(const runner *r, const cm_tile_view *v, const piece *p, float *to)
{
    int64_t stride = v->col_strides[v->n_col_axes - 1];
    if (is_run(v, p, r->j->cols)) {
        r->c->kernels->load[v->dtype](to, cm_tile_address(v, p->row, p->col), 1, p->rows * p->cols);
        return;
    }
    for (int64_t i = 0; i < p->rows; i++) {
        for (int64_t c = 0, n; c < p->cols; c += n) {
            n = run_of_cols(v, p->col + c, p->cols - c);
            r->c->kernels->load[v->dtype](to + i * p->cols + c,
                                          cm_tile_address(v, p->row + i, p->col + c), stride, n);
        }
    }
}

static void store_piece(const runner *r, const cm_tile_view *v, const piece *p, const float *from)
{
    int64_t stride = v->col_strides[v->n_col_axes - 1];
    if (is_run(v, p, r->j->cols)) {
        r->c->kernels->store[v->dtype](cm_tile_address(v, p->row, p->col), 1, from,
                                       p->rows * p->cols);
        return;
    }
    for (int64_t i = 0; i < p->rows; i++) {
        for (int64_t c = 0, n; c < p->cols; c += n) {
            n = run_of_cols(v, p->col + c, p->cols - c);
            r->c->kernels->store[v->dtype](cm_tile_address(v, p->row + i, p->col + c), stride,
                                           from + i * p->cols + c, n);
        }
    }
}

/* The operand's elements of the piece: where they are, or in its register. */
static float *fetch(runner *r, int i, const piece *p)
{
    const cm_tile_view *v = &r->j->operands[i];
    if (r->c->one[i]) {
        char *at = cm_tile_address(v, p->row, p->col);
        if (v->dtype == CM_F32)
            return (float *)at;
        r->c->kernels->load[v->dtype](&r->one[i], at, 1, 1);
        return &r->one[i];
    }
    if (v->dtype == CM_F32 && is_run(v, p, r->j->cols))
        return (float *)cm_tile_address(v, p->row, p->col);
    assert(r->c->home[i]);
    float *home = r->slot[r->c->home[i]];
    piece *f = &r->filled[i];
    if (same_in_all_rows(v) && f->col == p->col && f->cols == p->cols && f->rows >= p->rows)
        return home;
    load_piece(r, v, p, home);
    *f = *p;
    return home;
}

/* x has the piece's first element at `x`. */
static float *fetch_x(runner *r, const piece *p, const float *x, int64_t ld)
{
    if (p->rows == 1 || ld == p->cols)
        return (float *)(uintptr_t)x;
    float *home = r->slot[r->c->home[r->c->n_operands]];
    for (int64_t i = 0; i < p->rows; i++)
        memcpy(home + i * p->cols, x + i * ld, (size_t)p->cols * sizeof *x);
    return home;
}

static void run_piece(runner *r, const piece *p, const float *x, int64_t ld)
{
    const cm_tile_code *c = r->c;
    const cm_tile_view *out = r->j->out;
    for (int i = 0; i < c->n_operands; i++)
        if (c->used[i])
            r->slot[i] = fetch(r, i, p);
    if (x && c->home[c->n_operands])
        r->slot[c->n_operands] = fetch_x(r, p, x, ld);
    bool in_place = false;
    if (c->direct >= 0) {
        const cm_tile_view *v = &out[c->direct];
        in_place = v->data && v->dtype == CM_F32 && is_run(v, p, r->j->cols);
        r->slot[c->n_operands + 1 + c->n_numbers] =
            in_place ? (float *)cm_tile_address(v, p->row, p->col) : r->slot[c->direct_home];
    }
    int64_t n = p->rows * p->cols;
    for (const cm_tile_step *s = c->step, *end = s + c->n_steps; s < end; s++)
        s->fn(r->slot[s->to], r->slot[s->arg[0]], r->slot[s->arg[1]], r->slot[s->arg[2]], n);
    for (int o = 0; o < c->n_outputs; o++)
        if (out[o].data && !(in_place && o == c->direct))
            store_piece(r, &out[o], p, r->slot[c->out[o]]);
}

void cm_tile_run(const cm_tile_job *j, int64_t row, int64_t col, int64_t m, int64_t n,
                 const float *x, int64_t ld)
{
    runner r;
    const cm_tile_code *c = j->code;
    if (m <= 0 || n <= 0)
        return;
    r.j = j;
    r.c = c;
    for (int i = 0; i < c->n_operands; i++)
        r.filled[i].rows = 0;
    float **slot = r.slot + c->n_operands + 1;
    for (int i = 0; i < c->n_numbers; i++)
        *slot++ = (float *)(uintptr_t)&c->number[i];
    slot++;
    for (int i = 0; i < c->n_registers; i++)
        *slot++ = r.registers + i * c->tile;
    int64_t tile = c->tile;
    if (2 * n > tile || m == 1 || j->rows_apart) { /* long rows, one at a time */
        for (int64_t i = 0; i < m; i++)
            for (int64_t k = 0; k < n; k += tile) {
                piece p = {row + i, col + k, 1, n - k < tile ? n - k : tile};
                run_piece(&r, &p, x ? x + i * ld + k : NULL, ld);
            }
        return;
    }
    int64_t some = tile / n;
    for (int64_t i = 0; i < m; i += some) {
        piece p = {row + i, col, m - i < some ? m - i : some, n};
        run_piece(&r, &p, x ? x + i * ld : NULL, ld);
    }
}
