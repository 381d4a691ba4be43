/* parts.c -- Cast to and from elements of less than a byte, which lie packed; each thread has eight of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/parts.h"

#include <stdio.h>

#include "base/size.h"
#include "cuda/nest.h"
#include "cuda/program_text.h"

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    int64_t n;
} state;

const char *cm_gpu_part_or_element(cm_dtype t)
{
    return cm_dtype_is_sub_byte(t) ? cm_dtype_name(t) : cm_gpu_element(t); /* the same words */
}

/* The one operand of a Cast as a program; -1: it is another one. */
static int cast_operand(const cm_program *p)
{
    const cm_program_step *s = &p->step[0];
    bool copy = s->op == CM_PW_OPEN ||
                (s->op == CM_PW_MUL && s->arg[1].kind == CM_ARG_NUMBER && s->arg[1].number == 1);
    return p->n_steps == 1 && copy && s->arg[0].kind == CM_ARG_OPERAND ? s->arg[0].index : -1;
}

const char *cm_cuda_cast_parts_reject(const cm_problem *p)
{
    int x = cast_operand(p->program);
    if (x < 0)
        return "not a Cast";
    if (p->n_out != 1 || !p->out[0])
        return "nothing is wanted";
    const cm_tensor *in = p->in[x], *out = p->out[0];
    if (!cm_dtype_is_sub_byte(in->dtype) && !cm_dtype_is_sub_byte(out->dtype))
        return "no elements of less than a byte";
    if (!cm_gpu_part_or_element(in->dtype) || !cm_gpu_part_or_element(out->dtype))
        return "an element type";
    if (!cm_tensor_is_dense(in) || !cm_tensor_is_dense(out) || !cm_tensor_same_shape(in, out))
        return "an operand is strided";
    return NULL;
}

static double bytes_of(const cm_tensor *t)
{
    return (double)cm_tensor_elems(t) * cm_dtype_get(t->dtype)->bits / 8;
}

double cm_cuda_cast_parts_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { SLOW = 2 }; /* byte by byte */
    (void)k;
    return cm_gpu_stream_ns(
        &p->target, SLOW * (bytes_of(p->in[cast_operand(p->program)]) + bytes_of(p->out[0])));
}

/* What stands between: whole numbers are exact in 64 bits; floats that become whole ones are cut from double. */
static const char *number_of(cm_dtype from, cm_dtype to)
{
    if (!cm_dtype_is_float(from))
        return from == CM_U64 ? "u64" : "i64";
    return from == CM_F64 || !cm_dtype_is_float(to) ? "double" : "float";
}

cm_status cm_cuda_cast_parts_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                   const cm_knobs *k, const void **out)
{
    cm_dtype from = p->in[cast_operand(p->program)]->dtype, to = p->out[0]->dtype;
    char defines[200];
    state *s;
    (void)k;
    CM_NEW(cx, arena, s, state);
    *out = s;
    s->n = cm_tensor_elems(p->out[0]);
    if (s->n == 0)
        return CM_OK; /* no kernel, nothing to launch */
    s->grid = (cm_grid){.blocks = {cm_gpu_blocks(&p->target, cm_ceil_div(s->n, 8))},
                        .threads = {CM_GPU_THREADS}};
    snprintf(defines, sizeof defines, "#define X %s\n#define Y %s\n#define NUMBER %s\n%s%s",
             cm_gpu_part_or_element(from), cm_gpu_part_or_element(to), number_of(from, to),
             cm_dtype_is_float(from) && !cm_dtype_is_float(to) ? "#define CUT 1\n" : "",
             p->program->step[0].op == CM_PW_OPEN ? "#define OPEN 1\n" : "");
    cm_kernel_text t = {.file = "cast_parts", .defines = defines, .entry = "cast_parts"};
    return cm_gpu_kernel(cx, d, &t, 0, &s->kernel);
}

cm_status cm_cuda_cast_parts_run(const cm_run *r)
{
    const state *s = r->state;
    struct {
        const void *x;
        void *y;
        uint64_t n;
    } a = {r->in[cast_operand(r->p->program)], r->out[0], (uint64_t)s->n};
    return s->kernel ? cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a}) : CM_OK;
}
