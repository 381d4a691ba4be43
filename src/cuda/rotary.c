/* rotary.c -- ROTARY: rotary positions, a pair of columns to a thread.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/nest.h"
#include "cuda/program_text.h"
#include "cuda/tactics.h"

enum { X, COS, SIN, Y, OPERANDS, MOST_OPERANDS = 8, TENSORS = OPERANDS + MOST_OPERANDS };
enum { OUTER = 6 };

/* As kernels/rotary.cu has them. */
typedef struct {
    int64_t outer[OUTER], col;
} place;
typedef struct {
    const void *in[3];
    void *y;
    const void *operand[MOST_OPERANDS];
    place at[TENSORS];
    cm_gpu_axis dims[OUTER], half;
    int64_t pairs;
    int n_outer;
} rotary_args;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    rotary_args args;
} state;

static const cm_tensor *tensor_of(const cm_problem *p, int which)
{
    return which < Y                          ? p->in[which]
           : which == Y                       ? p->out[0]
           : which < OPERANDS + p->n_operands ? p->operands[which - OPERANDS]
                                              : NULL;
}

/* Along an axis of the output, to which t broadcasts. */
static int64_t stride_of(const cm_tensor *t, int rank, int axis)
{
    int at = axis - (rank - (t ? t->rank : 0));
    return !t || at < 0 || t->dims[at] == 1 ? 0 : t->strides[at];
}

/* False: too many axes are left when those that can be are merged. */
static bool find_places(const cm_problem *p, rotary_args *a)
{
    const cm_tensor *y = p->out[0];
    int64_t dims[OUTER];
    *a = (rotary_args){.half = cm_gpu_axis_of(p->as.rotary.columns / 2),
                       .pairs = cm_tensor_elems(y) / 2};
    for (int axis = 0; axis < y->rank - 1; axis++) {
        int last = a->n_outer - 1;
        bool merges = last >= 0;
        if (y->dims[axis] == 1)
            continue;
        for (int t = 0; merges && t < TENSORS; t++)
            merges =
                a->at[t].outer[last] == y->dims[axis] * stride_of(tensor_of(p, t), y->rank, axis);
        if (!merges && ++last == OUTER)
            return false;
        dims[last] = merges ? dims[last] * y->dims[axis] : y->dims[axis];
        a->n_outer = last + 1;
        for (int t = 0; t < TENSORS; t++)
            a->at[t].outer[last] = stride_of(tensor_of(p, t), y->rank, axis);
    }
    for (int i = 0; i < a->n_outer; i++)
        a->dims[i] = cm_gpu_axis_of(dims[i]);
    for (int t = 0; t < TENSORS; t++)
        a->at[t].col = stride_of(tensor_of(p, t), y->rank, y->rank - 1);
    return true;
}

static const char *reject(const cm_problem *p)
{
    rotary_args a;
    if (p->n_operands > MOST_OPERANDS)
        return "the epilogue has too many operands";
    for (int t = 0; t < OPERANDS + p->n_operands; t++)
        if (!cm_gpu_is_narrow(tensor_of(p, t)->dtype) || !cm_gpu_element(tensor_of(p, t)->dtype))
            return "float32 does not hold the numbers of an operand";
    return find_places(p, &a) ? NULL : "operands are strided over too many axes";
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    double elems = (double)cm_tensor_elems(p->out[0]);
    double each = (double)(cm_dtype_size(p->in[X]->dtype) + cm_dtype_size(p->out[0]->dtype));
    return cm_gpu_stream_ns(&p->target, elems * each * 1.5);
}

static void put_text(cm_buf *b, const cm_problem *p, bool wide)
{
    static const char *const names[] = {"XT", "COST", "SINT", "YT"};
    if (p->epilogue) {
        cm_cuda_program_text(b, p->epilogue, "epilogue", CM_TEXT_FLOAT);
        cm_buf_str(b, "#define EPILOGUE\n");
    }
    cm_buf_printf(b, "#define WIDE %d\n#define INTERLEAVED %d\n#define NUMBER float\n", wide,
                  p->as.rotary.interleaved);
    for (int t = 0; t < OPERANDS; t++)
        cm_buf_printf(b, "#define %s %s\n", names[t], cm_gpu_element(tensor_of(p, t)->dtype));
    cm_buf_str(b, "#define OPERANDS(X)");
    for (int i = 0; i < p->n_operands; i++)
        cm_buf_printf(b, " X(%d, %s)", i, cm_gpu_element(p->operands[i]->dtype));
    cm_buf_str(b, "\n");
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    (void)k;
    cm_buf b;
    state *s;
    CM_NEW(cx, arena, s, state);
    (void)find_places(p, &s->args);
    s->grid = (cm_grid){.blocks = {cm_gpu_blocks(&p->target, s->args.pairs)},
                        .threads = {CM_GPU_THREADS},
                        .overlaps = true};
    cm_buf_init(&b, cx->allocator);
    put_text(&b, p, cm_gpu_is_wide(s->args.pairs));
    *out = s;
    return cm_gpu_kernel_with(cx, d, &b, (cm_kernel_text){.file = "rotary", .entry = "rotary"}, 0,
                              &s->kernel);
}

static cm_status run(const cm_run *r)
{
    const state *s = r->state;
    rotary_args a = s->args;
    for (int i = 0; i < Y; i++)
        a.in[i] = r->in[i];
    a.y = r->out[0];
    for (int i = 0; i < r->p->n_operands; i++)
        a.operand[i] = r->operands[i];
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a});
}

const cm_tactic cm_cuda_rotary_tactics[] = {
    {.name = "cuda_rotary",
     .level = 750,
     .reject = reject,
     .cost = cost,
     .ready = ready,
     .run = run},
};
const int cm_cuda_rotary_count = CM_COUNT(cm_cuda_rotary_tactics);
