/* matmul_turned.c -- constants of products with k innermost.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/matmul.h"
#include "cuda/shorten.h"

/* Rows of packed constants are multiples of 16 bytes: the pitch in elements, 0: as other tactics pack them. */
static int64_t turned_pitch(const cm_problem *p, int input)
{
    const cm_tensor *t = p->in[input];
    const cm_matmul *s = &p->as.matmul;
    int64_t along_k = input == 0 ? s->a.col : s->b.row,
            each = 16 / (int64_t)cm_dtype_size(t->dtype);
    if ((t->dtype == CM_F32 && !p->tf32) || !p->constant[input] || t->rank != 2 || along_k == 1 ||
        s->k == 1 || !cm_tensor_is_dense(t))
        return 0;
    return cm_ceil_div(t->dims[0], each) * each;
}

size_t cm_gpu_turned_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    int64_t pitch = input < 2 ? turned_pitch(p, input) : 0;
    return pitch ? (size_t)(pitch * p->in[input]->dims[1]) * cm_dtype_size(p->in[input]->dtype)
                 : cm_gpu_product_pack_bytes(p, k, input);
}

typedef struct {
    const void *from;
    void *to;
    int64_t k, lines, pitch;
    bool halves; /* elements of 16 bits, else floats that are shortened */
} turn_job;

enum { TURN = 32 }; /* rows and columns that are turned at once */

static void turn_block(const turn_job *j, int64_t line, int64_t first)
{
    for (int64_t i = line; i < cm_min_i64(line + TURN, j->lines); i++)
        for (int64_t k = first; k < cm_min_i64(first + TURN, j->pitch); k++) {
            int64_t from = k * j->lines + i, to = i * j->pitch + k;
            if (j->halves)
                ((uint16_t *)j->to)[to] = k < j->k ? ((const uint16_t *)j->from)[from] : 0;
            else
                ((float *)j->to)[to] =
                    k < j->k ? cm_gpu_shortened(((const float *)j->from)[from]) : 0;
        }
}

static void turn_lines(void *arg, int64_t begin, int64_t end)
{
    const turn_job *j = arg;
    for (int64_t i = begin; i < end; i++)
        for (int64_t k = 0; k < j->pitch; k += TURN)
            turn_block(j, i * TURN, k);
}

void cm_gpu_turned_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                        void *to, cm_threads *threads)
{
    const cm_tensor *t = p->in[input];
    turn_job j = {from, to, t->dims[0], t->dims[1], turned_pitch(p, input), t->dtype != CM_F32};
    if (j.pitch)
        cm_parallel(threads, cm_ceil_div(j.lines, TURN), 1 + 100000 / (j.pitch * TURN), turn_lines,
                    &j);
    else
        cm_gpu_product_pack(p, k, input, from, to, threads);
}

const char *cm_gpu_product_turned(const cm_problem *p, cm_gpu_product *v)
{
    const char *why = cm_gpu_product_of(p, v);
    int64_t pitch[2] = {why ? 0 : turned_pitch(p, v->a), why ? 0 : turned_pitch(p, v->b)};
    if (pitch[0]) {
        v->s.a.col = 1;
        v->s.a.row = pitch[0];
        v->packed[0] = true;
    }
    if (pitch[1]) {
        v->s.b.row = 1;
        v->s.b.col = pitch[1];
        v->packed[1] = true;
    }
    return why;
}
