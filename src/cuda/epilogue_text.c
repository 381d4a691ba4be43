/* epilogue_text.c -- outputs, biases and operands as products see them; the text that reads and writes them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/epilogue_text.h"

#include "cuda/program_text.h"

bool cm_axes_push(cm_axes *a, int64_t dim, int64_t stride)
{
    int last = a->n - 1;
    if (dim == 1)
        return true;
    if (last >= 0 && a->stride[last] == dim * stride) {
        a->dim[last] *= (uint32_t)dim;
        a->stride[last] = stride;
        return true;
    }
    if (a->n == CM_AXES)
        return false;
    a->dim[a->n] = (uint32_t)dim;
    a->stride[a->n++] = stride;
    return true;
}

const char *cm_element_text(cm_dtype t)
{
    switch (t) {
    case CM_F32:
        return "float";
    case CM_F16:
        return "f16";
    case CM_BF16:
        return "bf16";
    case CM_BOOL:
    case CM_U8:
        return "u8";
    case CM_I8:
        return "signed char";
    default:
        return NULL;
    }
}

/* Axis `a` of the output among the coordinate's first `n`, by falling strides. */
static void insert(struct cm_result_coordinate *c, const cm_tensor *out, int from, int a)
{
    int at = c->n++;
    for (; at > from && out->strides[c->axis[at - 1]] < out->strides[a]; at--)
        c->axis[at] = c->axis[at - 1];
    c->axis[at] = a;
}

/* One loop of a product over its output. */
typedef struct {
    int64_t extent, stride;
    struct cm_result_coordinate *to;
} loop;

/* The loop that axis `a` is part of: the widest steps that are not wider than the axis's. */
static int loop_of(const loop *loops, int n, int64_t stride)
{
    int best = -1;
    for (int i = 0; i < n; i++)
        if (loops[i].extent > 1 && loops[i].stride <= stride &&
            (best < 0 || loops[i].stride > loops[best].stride))
            best = i;
    return best;
}

bool cm_result_of_matmul(const cm_tensor *out, const cm_matmul *s, cm_result_axes *a)
{
    loop loops[CM_BATCH_AXES + 2];
    int n = 0;
    *a = (cm_result_axes){0};
    for (int i = 0; i < s->n_batch; i++)
        loops[n++] = (loop){s->batch[i], s->c.batch[i], &a->z};
    loops[n++] = (loop){s->m, s->c.row, &a->row};
    loops[n++] = (loop){s->n, s->c.col, &a->col};
    for (int i = 0; i < n; i++) {
        int64_t product = 1;
        int from = loops[i].to->n;
        for (int x = 0; x < out->rank; x++) {
            if (out->dims[x] == 1 || loop_of(loops, n, out->strides[x]) != i)
                continue;
            insert(loops[i].to, out, from, x);
            product *= out->dims[x];
        }
        if (product != loops[i].extent)
            return false;
    }
    return true;
}

void cm_result_of_conv(const cm_tensor *out, cm_result_axes *a)
{
    *a = (cm_result_axes){0};
    for (int x = 0; x < out->rank; x++) {
        struct cm_result_coordinate *to = x == 1 ? &a->col : &a->row;
        to->axis[to->n++] = x;
    }
}

/* The stride of t, which broadcasts to `out`, along axis x of it. */
static int64_t stride_along(const cm_tensor *t, const cm_tensor *out, int x)
{
    int own = x - (out->rank - t->rank);
    return own < 0 || t->dims[own] == 1 ? 0 : t->strides[own];
}

static bool walk(cm_axes *to, const cm_tensor *t, const cm_tensor *out,
                 const struct cm_result_coordinate *c)
{
    for (int i = 0; i < c->n; i++)
        if (!cm_axes_push(to, out->dims[c->axis[i]], stride_along(t, out, c->axis[i])))
            return false;
    return true;
}

static bool view_of(cm_view *v, const cm_tensor *t, const cm_tensor *out, const cm_result_axes *a)
{
    *v = (cm_view){0};
    return walk(&v->z, t, out, &a->z) && walk(&v->row, t, out, &a->row) &&
           walk(&v->col, t, out, &a->col);
}

static bool broadcasts_to(const cm_tensor *t, const cm_tensor *out)
{
    if (t->rank > out->rank)
        return false;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] != 1 && t->dims[i] != out->dims[out->rank - t->rank + i])
            return false;
    return true;
}

static const char *reject_added(const cm_tensor *t, const cm_tensor *out, const cm_result_axes *a)
{
    cm_view v;
    if (!t)
        return "an operand of the epilogue is absent";
    if (!cm_element_text(t->dtype))
        return "an operand of the epilogue is not computed as float32";
    if (!broadcasts_to(t, out))
        return "an operand of the epilogue does not broadcast to the output";
    return view_of(&v, t, out, a) ? NULL : "an operand of the epilogue is strided over many axes";
}

const char *cm_finish_reject(const cm_problem *p, const cm_result_axes *a, const cm_tensor *bias)
{
    const cm_tensor *out = p->out[0];
    cm_view v;
    const char *why = bias ? reject_added(bias, out, a) : NULL;
    if (why)
        return why;
    if (out->dtype != CM_F32 && out->dtype != CM_F16 && out->dtype != CM_BF16 &&
        out->dtype != CM_BOOL)
        return "the output is not of float32, float16, bfloat16 or bool";
    if (cm_tensor_elems(out) > UINT32_MAX / 2 || !view_of(&v, out, out, a))
        return "the output is too large or strided over many axes";
    if (!p->epilogue)
        return NULL;
    if (p->n_operands > CM_FINISH_OPERANDS || p->epilogue->n_operands > p->n_operands)
        return "the epilogue has too many operands";
    if (p->epilogue->n_outputs != 1)
        return "the epilogue has more than one result";
    for (int i = 0; i < p->n_operands && !why; i++)
        why = reject_added(p->operands[i], out, a);
    return why;
}

void cm_finish_init(cm_finish *f, const cm_problem *p, const cm_result_axes *a,
                    const cm_tensor *bias)
{
    *f = (cm_finish){.alpha = 1, .beta = 1};
    view_of(&f->out, p->out[0], p->out[0], a);
    if (bias)
        view_of(&f->bias, bias, p->out[0], a);
    for (int i = 0; p->epilogue && i < p->n_operands; i++)
        view_of(&f->operand[i], p->operands[i], p->out[0], a);
}

/* The kinds of finish.cuh. */
static int row_kind(const cm_axes *a)
{
    return a->n > 1 ? 2 : a->n == 1 && a->stride[0] != 0;
}
static int col_kind(const cm_axes *a)
{
    if (a->n == 0 || (a->n == 1 && a->stride[0] == 0))
        return 0;
    return a->n == 1 && a->stride[0] == 1 ? 1 : 2;
}

void cm_finish_text(const cm_finish *f, const cm_problem *p, const cm_tensor *bias, cm_buf *out)
{
    int n = p->epilogue ? p->n_operands : 0;
    /* A single column is its own neighbour. */
    cm_buf_printf(out, "#define FINISH_OUT(X) X(%s, %d, %d)\n", cm_element_text(p->out[0]->dtype),
                  row_kind(&f->out.row), f->out.col.n == 0 ? 1 : col_kind(&f->out.col));
    if (bias)
        cm_buf_printf(out, "#define FINISH_BIAS(X) X(%s, %d, %d)\n", cm_element_text(bias->dtype),
                      row_kind(&f->bias.row), col_kind(&f->bias.col));
    cm_buf_printf(out, "#define FINISH_N %d\n#define FINISH_OPERANDS(X)", n);
    for (int i = 0; i < n; i++)
        cm_buf_printf(out, " X(%d, %s, %d, %d)", i, cm_element_text(p->operands[i]->dtype),
                      row_kind(&f->operand[i].row), col_kind(&f->operand[i].col));
    cm_buf_str(out, "\n");
    if (p->epilogue) {
        cm_dtype type = p->out[0]->dtype;
        cm_buf_str(out, "#define FINISH_PROGRAM\n");
        cm_cuda_program_text(out, p->epilogue, "finish_program",
                             type == CM_F16    ? CM_TEXT_HALF
                             : type == CM_BF16 ? CM_TEXT_SHORT
                                               : CM_TEXT_FLOAT);
    }
}

void cm_finish_bind(cm_finish *f, const cm_run *r, const void *bias)
{
    f->out.data = r->out[0];
    f->bias.data = (void *)(uintptr_t)bias;
    for (int i = 0; r->p->epilogue && i < r->p->n_operands; i++)
        f->operand[i].data = (void *)(uintptr_t)r->operands[i];
}
