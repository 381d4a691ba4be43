/* conv_tile.c -- convolutions as matrix products in tiles whose left operand is gathered.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Weights are packed as [group][output channel][k], k being kernel positions and, inside, the group's input channels,
 * with rows that are multiples of 16 bytes. */
#include "base/size.h"
#include "cuda/conv.h"

/* As kernels/conv_tile.cu has it. */
typedef struct {
    const void *x, *w;
    float *partial;
    int32_t m, n, k, splits, k_pitch, channels;
    cm_gpu_conv_sizes sizes;
    uint32_t groups;
} conv_args;

typedef struct {
    const cm_kernel *conv, *sum; /* sum NULL: one pass */
    cm_grid grid, sum_grid;
    conv_args args;
    cm_finish finish;
} conv_state;

static int64_t k_pitch(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    int64_t each = 16 / (int64_t)cm_dtype_size(p->in[0]->dtype);
    return cm_ceil_div(cm_gpu_conv_taps(c) * (c->c_in / c->groups), each) * each;
}

const char *cm_cuda_conv_tile_reject(const cm_problem *p)
{
    return cm_cuda_conv_reject(p);
}

/* Are 16 bytes of the input channels of one pixel? */
static cm_reading reading_of(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    const cm_tensor *x = p->in[0];
    int64_t each = 16 / (int64_t)cm_dtype_size(x->dtype);
    bool whole = x->strides[1] == 1 && c->c_in / c->groups % each == 0;
    for (int d = 0; d < x->rank; d++)
        whole = whole && (d == 1 || x->dims[d] == 1 || x->strides[d] % each == 0);
    return (cm_reading){false, whole};
}

static cm_extent extent_of(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    return (cm_extent){.arithmetic = cm_gpu_conv_arithmetic(p),
                       .m = c->n * c->out[0] * c->out[1] * c->out[2],
                       .n = c->c_out / c->groups,
                       .k = cm_gpu_conv_taps(c) * (c->c_in / c->groups),
                       .matrices = c->groups,
                       .element = (int)cm_dtype_size(p->in[0]->dtype),
                       .bytes = cm_gpu_conv_memory(p),
                       .slow = reading_of(p).whole ? 1 : 3};
}

int cm_cuda_conv_tile_knobs(const cm_problem *p, cm_knobs *out)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = extent_of(p);
    return cm_tiling_choose(&g, &e, out);
}

double cm_cuda_conv_tile_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = extent_of(p);
    cm_tiling t = cm_tiling_of_knobs(k);
    return cm_tiling_cost(&g, &t, &e);
}

size_t cm_cuda_conv_tile_workspace(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = extent_of(p);
    cm_tiling t = cm_tiling_of_knobs(k);
    return cm_tiling_partial_bytes(&g, &t, &e);
}

size_t cm_cuda_conv_tile_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    return input == 1 ? (size_t)(p->as.conv.c_out * k_pitch(p)) * cm_dtype_size(p->in[1]->dtype)
                      : 0;
}

typedef struct {
    const cm_problem *p;
    const char *from;
    char *to;
    int64_t pitch;
} pack_job;

/* Output channels [begin, end). */
static void pack_channels(void *arg, int64_t begin, int64_t end)
{
    const pack_job *j = arg;
    const cm_conv *c = &j->p->as.conv;
    const cm_tensor *w = j->p->in[1];
    size_t size = cm_dtype_size(w->dtype);
    int64_t inputs = c->c_in / c->groups, outputs = c->c_out / c->groups,
            taps = cm_gpu_conv_taps(c);
    for (int64_t o = begin; o < end; o++) {
        /* Transposed: weights are [c_in, outputs of a group, kernel]. */
        int64_t first = c->transposed
                            ? o / outputs * inputs * w->strides[0] + o % outputs * w->strides[1]
                            : o * w->strides[0];
        int64_t step = w->strides[c->transposed ? 0 : 1];
        char *to = j->to + (size_t)(o * j->pitch) * size;
        for (int64_t tap = 0; tap < taps; tap++) {
            const char *from = j->from + (size_t)(first + cm_gpu_conv_tap_at(w, tap)) * size;
            for (int64_t i = 0; i < inputs; i++, to += size)
                memcpy(to, from + (size_t)(i * step) * size, size);
        }
        memset(to, 0, (size_t)(j->pitch - taps * inputs) * size);
    }
}

void cm_cuda_conv_tile_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                            void *to, cm_threads *threads)
{
    (void)k;
    (void)input;
    pack_job j = {p, from, to, k_pitch(p)};
    cm_parallel(threads, p->as.conv.c_out, 1 + 20000 / j.pitch, pack_channels, &j);
}

static void put_text(const cm_problem *p, const cm_gpu_facts *g, const cm_tiling *t,
                     const cm_extent *e, cm_buf *out)
{
    const cm_conv *c = &p->as.conv;
    cm_tiling_text(g, t, e, cm_element_text(p->in[0]->dtype), reading_of(p),
                   (cm_reading){false, true}, out);
    cm_buf_printf(out, "#define TRANSPOSED %d\n#define VOLUME %d\n", c->transposed,
                  c->kernel[0] > 1 || c->in[0] > 1 || c->out[0] > 1);
}

static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_gpu_facts *g,
                         const cm_tiling *t, const cm_extent *e, conv_state *s)
{
    cm_tensor room;
    cm_buf text;
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->finish, p, cm_gpu_conv_bias(p, &room), &text);
    cm_status st = CM_OK;
    if (s->sum_grid.blocks[0])
        st = cm_gpu_kernel(cx, d, &(cm_kernel_text){"split_sum", cm_buf_text(&text), "split_sum"},
                           0, &s->sum);
    put_text(p, g, t, e, &text);
    if (st == CM_OK && text.failed)
        st = cm_fail_memory(cx);
    if (st == CM_OK)
        st = cm_gpu_kernel(cx, d, &(cm_kernel_text){"conv_tile", cm_buf_text(&text), "conv_tile"},
                           s->grid.shared, &s->conv);
    cm_buf_deinit(&text);
    return st;
}

cm_status cm_cuda_conv_tile_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                  const cm_knobs *k, const void **state)
{
    const cm_conv *c = &p->as.conv;
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_extent e = extent_of(p);
    cm_tiling t = cm_tiling_of_knobs(k);
    cm_result_axes axes;
    cm_tensor room;
    conv_state *s;
    CM_NEW(cx, arena, s, conv_state);
    s->args = (conv_args){.m = (int32_t)e.m,
                          .n = (int32_t)e.n,
                          .k = (int32_t)e.k,
                          .splits = t.splits,
                          .k_pitch = (int32_t)k_pitch(p),
                          .channels = (int32_t)(c->c_in / c->groups),
                          .groups = (uint32_t)c->groups};
    cm_gpu_conv_sizes_of(p, &s->args.sizes);
    cm_result_of_conv(p->out[0], &axes);
    cm_finish_init(&s->finish, p, &axes, cm_gpu_conv_bias(p, &room));
    s->grid = cm_tiling_grid(&g, &t, &e);
    s->sum_grid = cm_tiling_sum_grid(&g, &t, &e);
    *state = s;
    return compile(cx, d, p, &g, &t, &e, s);
}

cm_status cm_cuda_conv_tile_run(const cm_run *r)
{
    const conv_state *s = r->state;
    conv_args x = s->args;
    cm_finish f = s->finish;
    cm_finish_bind(&f, r, r->p->as.conv.bias ? r->in[2] : NULL);
    x.x = r->in[0];
    x.w = r->in[1];
    x.partial = r->workspace;
    CM_TRY(cm_gpu_launch(r, s->conv, &s->grid, (void *[]){&x, &f}));
    if (!s->sum)
        return CM_OK;
    /* A group's columns follow those of the groups before it. */
    return cm_gpu_launch(r, s->sum, &s->sum_grid,
                         (void *[]){&x.partial, &x.m, &x.n, &x.groups, &x.splits, &x.n, &f});
}
