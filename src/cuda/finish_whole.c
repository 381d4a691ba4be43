/* finish_whole.c -- which results warps can write in whole lines, and the text that finishes them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/finish_whole.h"

#include "base/size.h"

enum { CHUNK = 16, LINE = 128, PART_ROWS = 16 }; /* bytes that are aligned, of a copy; its rows */

typedef enum { NUMBER, VECTOR, MATRIX, OTHER } added_kind;

static bool is_float(const cm_tensor *t)
{
    return t->dtype == CM_F16 || t->dtype == CM_BF16 || t->dtype == CM_F32;
}

static bool even(const cm_axes *a, int size)
{
    return a->n == 0 || (a->n == 1 && a->stride[0] >= 0 && a->stride[0] * size % CHUNK == 0);
}
static bool still(const cm_axes *a)
{
    return a->n == 0 || (a->n == 1 && a->stride[0] == 0);
}
static bool adjacent(const cm_axes *a)
{
    return a->n == 1 && a->stride[0] == 1;
}

static added_kind kind_of(const cm_view *v, const cm_tensor *t, int size)
{
    if (still(&v->row) && still(&v->col))
        return NUMBER;
    if (!is_float(t) || (int)cm_dtype_size(t->dtype) != size || !adjacent(&v->col) ||
        !even(&v->z, size) || !even(&v->row, size))
        return OTHER;
    return still(&v->row) ? VECTOR : MATRIX;
}

/* Lengths that the strides of single rows and matrices do not tell. */
static cm_box_map map_of(const cm_view *v, int64_t cols, const cm_whole *w)
{
    bool moves = v->z.n == 1 && v->z.stride[0] != 0;
    int64_t line = v->row.n ? v->row.stride[0] : cols;
    int64_t rows = v->row.n ? v->row.dim[0] : 1;
    return (cm_box_map){
        {(uint64_t)cols, (uint64_t)rows, moves ? v->z.dim[0] : 1},
        {(uint64_t)(line * w->size), (uint64_t)((moves ? v->z.stride[0] : line) * w->size)},
        {(uint32_t)(w->line / w->size), PART_ROWS, 1}};
}

/* Everything that is added: operands, then the bias. */
static int added_count(const cm_problem *p, const cm_tensor *bias)
{
    return (p->epilogue ? p->n_operands : 0) + (bias != NULL);
}
static const cm_tensor *added_at(const cm_finish *f, const cm_problem *p, const cm_tensor *bias,
                                 int i, const cm_view **v)
{
    bool is_bias = bias && i == added_count(p, bias) - 1;
    *v = is_bias ? &f->bias : &f->operand[i];
    return is_bias ? bias : p->operands[i];
}

void cm_whole_of(const cm_finish *f, const cm_problem *p, const cm_tensor *bias, int64_t cols,
                 int tile, cm_whole *w)
{
    enum { VECTORS = 2, MATRICES = 1 };
    int matrices = 0, n = added_count(p, bias), size = (int)cm_dtype_size(p->out[0]->dtype);
    *w = (cm_whole){.size = size, .matrix = -1, .line = tile * size % LINE ? LINE / 2 : LINE};
    if (!is_float(p->out[0]) || !adjacent(&f->out.col) || !even(&f->out.row, size) ||
        !even(&f->out.z, size) || still(&f->out.row) || cols * size % CHUNK != 0)
        return;
    for (int i = 0; i < n; i++) {
        const cm_view *v;
        const cm_tensor *t = added_at(f, p, bias, i, &v);
        added_kind kind = kind_of(v, t, size);
        if (kind == OTHER)
            return;
        w->vectors += kind == VECTOR;
        matrices += kind == MATRIX;
        if (kind == MATRIX) {
            w->matrix = v == &f->bias ? CM_FINISH_OPERANDS : i;
            w->added = map_of(v, cols, w);
        }
    }
    w->is = w->vectors <= VECTORS && matrices <= MATRICES;
}

void cm_whole_text(const cm_whole *w, const cm_finish *f, const cm_problem *p,
                   const cm_tensor *bias, cm_buf *out)
{
    int vectors = 0, n = added_count(p, bias);
    cm_buf_printf(out, "#define WHOLE %d\n", w->is);
    if (!w->is)
        return;
    cm_buf_printf(out,
                  "#define WHOLE_OUT %s\n#define WHOLE_BYTES %d\n#define WHOLE_VECTORS %d\n"
                  "#define WHOLE_MATRIX %d\n#define WHOLE_ADDED(X)",
                  cm_element_text(p->out[0]->dtype), w->size, w->vectors, w->matrix >= 0);
    for (int i = 0; i < n; i++) {
        const cm_view *v;
        const cm_tensor *t = added_at(f, p, bias, i, &v);
        added_kind kind = kind_of(v, t, w->size);
        cm_buf_printf(out, " X(%d, %s, %d, %d)", i, cm_element_text(t->dtype), kind, vectors);
        vectors += kind == VECTOR;
    }
    cm_buf_str(out, "\n");
}

cm_status cm_whole_bind(const cm_whole *w, const cm_finish *f, const cm_run *r,
                        cm_tensor_map *added)
{
    *added = (cm_tensor_map){0};
    if (!w->is || w->matrix < 0)
        return CM_OK;
    cm_dtype type = w->size == 2 ? CM_F16 : CM_F32;
    const void *data = w->matrix == CM_FINISH_OPERANDS ? f->bias.data : f->operand[w->matrix].data;
    return cm_gpu_tensor_map(r->cx, r, type, 3, data, w->added.dims, w->added.strides, w->added.box,
                             w->line, added);
}
