/* conv_product.c -- convolutions as products with a gathered operand: sizes, packed weights.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/conv.h"
#include "cuda/shorten.h"

static int64_t k_pitch(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    int64_t each = 16 / (int64_t)cm_dtype_size(p->in[0]->dtype);
    return cm_ceil_div(cm_gpu_conv_taps(c) * (c->c_in / c->groups), each) * each;
}

bool cm_gpu_conv_whole(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    const cm_tensor *x = p->in[0];
    int64_t each = 16 / (int64_t)cm_dtype_size(x->dtype);
    bool whole = x->strides[1] == 1 && c->c_in / c->groups % each == 0;
    for (int d = 0; d < x->rank; d++)
        whole = whole && (d == 1 || x->dims[d] == 1 || x->strides[d] % each == 0);
    return whole;
}

bool cm_gpu_conv_volume(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    return c->kernel[0] > 1 || c->in[0] > 1 || c->out[0] > 1;
}

int64_t cm_gpu_conv_pixel_pitch(const cm_tensor *t)
{
    for (int d = t->rank - 1; d >= 0; d--)
        if (d != 1 && t->dims[d] != 1)
            return t->strides[d];
    return t->dims[1];
}

/* Do the pixels of a tensor follow one another at the same distance? */
static bool even_pixels(const cm_tensor *t)
{
    int64_t next = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (d == 1 || t->dims[d] == 1)
            continue;
        if (next && t->strides[d] != next)
            return false;
        next = t->strides[d] * t->dims[d];
    }
    return true;
}

bool cm_gpu_conv_is_product(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    bool same = !c->transposed && c->groups == 1 && cm_gpu_conv_taps(c) == 1;
    for (int d = 0; d < 3; d++)
        same = same && c->pad[d] == 0 && c->in[d] == c->out[d] &&
               (c->stride[d] == 1 || c->out[d] == 1);
    return same && even_pixels(p->in[0]);
}

cm_extent cm_gpu_conv_extent(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    return (cm_extent){.arithmetic = cm_gpu_conv_arithmetic(p),
                       .m = c->n * c->out[0] * c->out[1] * c->out[2],
                       .n = c->c_out / c->groups,
                       .k = cm_gpu_conv_taps(c) * (c->c_in / c->groups),
                       .matrices = c->groups,
                       .element = (int)cm_dtype_size(p->in[0]->dtype),
                       .bytes = cm_gpu_conv_memory(p),
                       .slow = cm_gpu_conv_whole(p) ? 1 : 6};
}

bool cm_gpu_conv_scattered(const cm_problem *p)
{
    enum { MOST_BYTES = 96 };
    const cm_conv *c = &p->as.conv;
    int64_t bytes = c->c_in / c->groups * (int64_t)cm_dtype_size(p->in[0]->dtype);
    return cm_gpu_conv_arithmetic(p) != CM_ARITHMETIC_FLOAT && cm_gpu_conv_taps(c) > 1 &&
           bytes <= MOST_BYTES;
}

/* Of each result, for a multiprocessor; columns come in blocks. */
static const double RESULT_NS = 0.03;
enum { COLUMNS = 64 };

double cm_gpu_conv_way_out(const cm_problem *p)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = cm_gpu_conv_extent(p);
    double columns = (double)(cm_ceil_div(e.n, COLUMNS) * COLUMNS * e.matrices);
    return RESULT_NS * (double)e.m * columns / g.multiprocessors;
}

void cm_gpu_conv_args_of(const cm_problem *p, int splits, cm_gpu_conv_args *out)
{
    const cm_conv *c = &p->as.conv;
    cm_extent e = cm_gpu_conv_extent(p);
    *out = (cm_gpu_conv_args){.m = (int32_t)e.m,
                              .n = (int32_t)e.n,
                              .k = (int32_t)e.k,
                              .splits = splits,
                              .k_pitch = (int32_t)k_pitch(p),
                              .channels = (int32_t)(c->c_in / c->groups),
                              .groups = (uint32_t)c->groups};
    cm_gpu_conv_sizes_of(p, &out->sizes);
}

size_t cm_gpu_conv_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    return input == 1 ? (size_t)(p->as.conv.c_out * k_pitch(p)) * cm_dtype_size(p->in[1]->dtype)
                      : 0;
}

typedef struct {
    const cm_problem *p;
    const char *from;
    char *to;
    int64_t room, pitch; /* of a kernel position's channels, of a column */
} pack_job;

static void shorten(void *values, int64_t n)
{
    for (float *v = values, *end = v + n; v < end; v++)
        *v = cm_gpu_shortened(*v);
}

/* Output channels [begin, end). */
static void pack_channels(void *arg, int64_t begin, int64_t end)
{
    const pack_job *j = arg;
    const cm_conv *c = &j->p->as.conv;
    const cm_tensor *w = j->p->in[1];
    size_t size = cm_dtype_size(w->dtype);
    int64_t inputs = c->c_in / c->groups, outputs = c->c_out / c->groups,
            taps = cm_gpu_conv_taps(c);
    bool shortened = cm_gpu_conv_arithmetic(j->p) == CM_ARITHMETIC_TF32;
    for (int64_t o = begin; o < end; o++) {
        /* Transposed: weights are [c_in, outputs of a group, kernel]. */
        int64_t first = c->transposed
                            ? o / outputs * inputs * w->strides[0] + o % outputs * w->strides[1]
                            : o * w->strides[0];
        int64_t step = w->strides[c->transposed ? 0 : 1];
        char *to = j->to + (size_t)(o * j->pitch) * size;
        for (int64_t tap = 0; tap < taps; tap++) {
            const char *from = j->from + (size_t)(first + cm_gpu_conv_tap_at(w, tap)) * size;
            for (int64_t i = 0; i < inputs; i++)
                memcpy(to + (size_t)i * size, from + (size_t)(i * step) * size, size);
            memset(to + (size_t)inputs * size, 0, (size_t)(j->room - inputs) * size);
            to += (size_t)j->room * size;
        }
        memset(to, 0, (size_t)(j->pitch - taps * j->room) * size);
        if (shortened)
            shorten(j->to + (size_t)(o * j->pitch) * size, j->pitch);
    }
}

void cm_gpu_conv_pack_taps(const cm_problem *p, int64_t room, int64_t pitch, const void *from,
                           void *to, cm_threads *threads)
{
    pack_job j = {p, from, to, room, pitch};
    cm_parallel(threads, p->as.conv.c_out, 1 + 20000 / j.pitch, pack_channels, &j);
}

void cm_gpu_conv_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from, void *to,
                      cm_threads *threads)
{
    (void)k;
    (void)input;
    cm_gpu_conv_pack_taps(p, p->as.conv.c_in / p->as.conv.groups, k_pitch(p), from, to, threads);
}
