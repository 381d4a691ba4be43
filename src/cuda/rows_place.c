/* rows_place.c -- where the rows of a problem lie, and what its kernels are specialised by.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/program_text.h"
#include "cuda/rows.h"

static const char *element_of(cm_dtype t)
{
    return t == CM_F32    ? "float"
           : t == CM_F16  ? "f16"
           : t == CM_BF16 ? "bf16"
           : t == CM_BOOL ? "u8"
                          : NULL;
}

static bool is_real(const cm_tensor *t)
{
    return t->dtype == CM_F32 || t->dtype == CM_F16 || t->dtype == CM_BF16;
}

static const char *reject_embedding(const cm_problem *p)
{
    const cm_rows *r = &p->as.rows;
    const int tables[] = {r->word, r->place, r->segment},
              ids[] = {r->ids, r->place_ids, r->segment_ids, r->mask};
    for (int i = 0; i < CM_COUNT(tables); i++)
        if (tables[i] >= 0 && (!is_real(p->in[tables[i]]) || !cm_tensor_is_dense(p->in[tables[i]])))
            return "a table is strided or not of float32, float16 or bfloat16";
    for (int i = 0; i < CM_COUNT(ids); i++)
        if (ids[i] >= 0 && !cm_tensor_is_dense(p->in[ids[i]]))
            return "indices are strided";
    return NULL;
}

const char *cm_cuda_rows_reject(const cm_problem *p)
{
    const cm_rows *r = &p->as.rows;
    if ((!r->embed && !is_real(p->in[0])) || !is_real(p->out[0]))
        return "the input or the output is not of float32, float16 or bfloat16";
    const int factors[] = {r->scale, r->bias, r->skip, r->skip_bias};
    for (int i = 0; i < CM_COUNT(factors); i++)
        if (factors[i] >= 0 &&
            (!is_real(p->in[factors[i]]) || !cm_tensor_is_dense(p->in[factors[i]])))
            return "scale, bias or what is added is strided or of another type";
    const int outs[] = {r->mean, r->inv_deviation, r->sum};
    for (int i = 0; i < CM_COUNT(outs); i++)
        if (outs[i] >= 0 &&
            (!is_real(p->out[outs[i]]) || (i < 2 && !cm_tensor_is_dense(p->out[outs[i]]))))
            return "an output beside the first is strided or of another type";
    if (p->n_operands > CM_ROWS_OPERANDS)
        return "the epilogue has too many operands";
    for (int i = 0; i < p->n_operands; i++)
        if (!element_of(p->operands[i]->dtype))
            return "an operand of the epilogue is neither a float nor of bool";
    return r->embed ? reject_embedding(p) : NULL;
}

/* ---- Places --------------------------------------------------------------------------------- */

enum { X, Y, SUM, OPERANDS, TENSORS = OPERANDS + CM_ROWS_OPERANDS };

static const cm_tensor *tensor_of(const cm_problem *p, int which)
{
    const cm_rows *r = &p->as.rows;
    if (which >= OPERANDS)
        return which - OPERANDS < p->n_operands ? p->operands[which - OPERANDS] : NULL;
    return which == X    ? (r->embed ? NULL : p->in[0])
           : which == Y  ? p->out[0]
           : r->sum >= 0 ? p->out[r->sum]
                         : NULL;
}

static cm_rows_place *place_of(cm_rows_args *a, int which)
{
    return which == X     ? &a->at_x
           : which == Y   ? &a->at_y
           : which == SUM ? &a->at_sum
                          : &a->at_operand[which - OPERANDS];
}

/* Of an axis of the output, in tensor t, which broadcasts to it. */
static int64_t stride_of(const cm_tensor *t, int rank, int axis)
{
    int at = axis - (rank - (t ? t->rank : 0));
    return !t || at < 0 || t->dims[at] == 1 ? 0 : t->strides[at];
}

/* Append an outer axis, merged with the last where all tensors allow. */
static bool push_outer(cm_rows_args *a, int64_t dim, const int64_t *strides)
{
    int last = a->n_outer - 1;
    bool merges = last >= 0;
    for (int t = 0; merges && t < TENSORS; t++)
        merges = place_of(a, t)->outer[last] == dim * strides[t];
    if (!merges && ++last == CM_ROWS_OUTER)
        return false;
    a->dims[last] = merges ? a->dims[last] * dim : dim;
    a->n_outer = last + 1;
    for (int t = 0; t < TENSORS; t++)
        place_of(a, t)->outer[last] = strides[t];
    return true;
}

/* Outer axes that go on where the rows side by side end are rows side by side. */
static void merge_lanes(cm_rows_args *a)
{
    for (int last = a->n_outer - 1; last >= 0; last--) {
        for (int t = 0; t < TENSORS; t++)
            if (place_of(a, t)->outer[last] != place_of(a, t)->side * a->lanes)
                return;
        a->lanes *= a->dims[last];
        a->rows /= a->dims[last];
        a->n_outer = last;
        for (int t = 0; t < TENSORS; t++)
            place_of(a, t)->outer[last] = 0;
    }
}

const char *cm_cuda_rows_place(const cm_problem *p, int lanes, cm_rows_args *a)
{
    const cm_rows *r = &p->as.rows;
    const cm_tensor *y = p->out[0];
    bool begun = false;
    *a = (cm_rows_args){.rows = r->rows,
                        .cols = r->cols,
                        .skip_rows = r->embed ? r->place_rows : r->skip_rows,
                        .lanes = lanes >= 0 ? y->dims[lanes] : 1,
                        .epsilon = r->epsilon};
    a->rows /= a->lanes;
    for (int axis = 0; axis < y->rank; axis++) {
        int64_t strides[TENSORS];
        if (y->dims[axis] == 1)
            continue;
        bool inside = axis >= r->axis && axis < r->axis + r->n_axes;
        for (int t = 0; t < TENSORS; t++) {
            cm_rows_place *at = place_of(a, t);
            strides[t] = stride_of(tensor_of(p, t), y->rank, axis);
            if (axis == lanes)
                at->side = strides[t];
            if (inside && begun && at->col != strides[t] * y->dims[axis])
                return "the axes of a row are apart in memory";
            if (inside)
                at->col = strides[t];
        }
        begun = begun || inside;
        if (!inside && axis != lanes && !push_outer(a, y->dims[axis], strides))
            return "input and output are strided over too many axes";
    }
    if (lanes >= 0)
        merge_lanes(a);
    if (r->cols == 1 || r->embed)
        a->at_x.col = 1;
    if (r->cols == 1)
        a->at_y.col = a->at_sum.col = 1;
    return NULL;
}

/* ---- Text ----------------------------------------------------------------------------------- */

static void put_type(cm_buf *b, const char *name, const cm_tensor *t)
{
    cm_buf_printf(b, "#define %s %s\n", name, element_of(t->dtype));
}

static void put_input(cm_buf *b, const cm_problem *p, const char *name, int input)
{
    if (input >= 0)
        put_type(b, name, p->in[input]);
}

static void put_output(cm_buf *b, const cm_problem *p, const char *name, int output)
{
    if (output >= 0)
        put_type(b, name, p->out[output]);
}

static int step_of(const cm_problem *p, int input)
{
    return input >= 0 && cm_tensor_elems(p->in[input]) > 1;
}

static void put_epilogue(cm_buf *b, const cm_problem *p)
{
    if (!p->epilogue)
        return;
    cm_cuda_program_text(b, p->epilogue, "epilogue", CM_TEXT_FLOAT);
    cm_buf_str(b, "#define EPILOGUE\n");
    if (p->n_operands == 0)
        return;
    cm_buf_str(b, "#define OPERANDS(X)");
    for (int i = 0; i < p->n_operands; i++)
        cm_buf_printf(b, " X(%d, %s)", i, element_of(p->operands[i]->dtype));
    cm_buf_str(b, "\n");
}

void cm_cuda_rows_text(cm_buf *b, const cm_problem *p, const cm_rows_args *a)
{
    static const char *const kinds[] = {
        [CM_ROWS_SOFTMAX] = "SOFTMAX",       [CM_ROWS_LOG_SOFTMAX] = "LOG_SOFTMAX",
        [CM_ROWS_LAYER_NORM] = "LAYER_NORM", [CM_ROWS_RMS_NORM] = "RMS_NORM",
        [CM_ROWS_GROUP_NORM] = "GROUP_NORM", [CM_ROWS_L2_NORM] = "L2_NORM",
        [CM_ROWS_L1_NORM] = "L1_NORM"};
    const cm_rows *r = &p->as.rows;
    put_epilogue(b, p);
    cm_buf_printf(b,
                  "#define KIND %s\n#define SCALE_STEP %d\n#define BIAS_STEP %d\n#define EVEN %d\n",
                  kinds[r->kind], step_of(p, r->scale), step_of(p, r->bias), a->n_outer < 2);
    put_input(b, p, "XT", r->embed ? r->word : 0);
    put_output(b, p, "YT", 0);
    put_input(b, p, "SKIPT", r->embed ? r->place : r->skip);
    put_input(b, p, "THIRDT", r->embed ? r->segment : r->skip_bias);
    put_input(b, p, "SCALET", r->scale);
    put_input(b, p, "BIAST", r->bias);
    put_output(b, p, "SUMT", r->sum);
    put_output(b, p, "MEANT", r->mean);
    put_output(b, p, "INVT", r->inv_deviation);
    if (r->embed)
        cm_buf_str(b, "#define EMBED\n");
    if (r->silu)
        cm_buf_str(b, "#define SILU\n");
}

/* ---- Runs ----------------------------------------------------------------------------------- */

static const void *input_at(const cm_run *r, int input)
{
    return input >= 0 ? r->in[input] : NULL;
}

static void *output_at(const cm_run *r, int output)
{
    return output >= 0 ? r->out[output] : NULL;
}

void cm_cuda_rows_point(const cm_run *run, cm_rows_args *a)
{
    const cm_rows *r = &run->p->as.rows;
    a->x = input_at(run, r->embed ? r->word : 0);
    a->skip = input_at(run, r->embed ? r->place : r->skip);
    a->third = input_at(run, r->embed ? r->segment : r->skip_bias);
    a->scale = input_at(run, r->scale);
    a->bias = input_at(run, r->bias);
    a->y = run->out[0];
    a->sum = output_at(run, r->sum);
    a->mean = output_at(run, r->mean);
    a->inv = output_at(run, r->inv_deviation);
    for (int i = 0; i < run->p->n_operands; i++)
        a->operand[i] = run->operands[i];
    a->ids = input_at(run, r->ids);
    a->place_ids = input_at(run, r->place_ids);
    a->segment_ids = input_at(run, r->segment_ids);
    a->fault = run->fault;
    a->fault_code = run->fault_code;
}

double cm_cuda_rows_bytes(const cm_problem *p)
{
    const cm_rows *r = &p->as.rows;
    double elems = (double)r->rows * (double)r->cols;
    size_t each = cm_dtype_size(p->in[r->embed ? r->word : 0]->dtype);
    each += cm_dtype_size(p->out[0]->dtype);
    each += r->skip >= 0 ? cm_dtype_size(p->in[r->skip]->dtype) : 0;
    each += r->sum >= 0 ? cm_dtype_size(p->out[r->sum]->dtype) : 0;
    double bytes = elems * (double)each;
    for (int i = 0; i < p->n_operands; i++)
        bytes +=
            (double)cm_tensor_elems(p->operands[i]) * (double)cm_dtype_size(p->operands[i]->dtype);
    return bytes;
}
