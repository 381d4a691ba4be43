/* resize_strips.c -- RESIZE of two axes, nearest or linear: threads go down strips of the output.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where the innermost axis is one of them it grows by a power of two, so that sources and weights are the same for every run
 * of the output. */
#include "cuda/resize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "cuda/nest.h"

enum { WORD = 16, RESIZED = 2, MOST_TAPS = 2 };

typedef struct {
    int down, across, last; /* axes of the problem; last: the output's innermost */
    int n_others, others[CM_MAX_RANK];
    int taps;
    int run, factor;             /* factor: of the innermost axis, 0 where it is another */
    int places[WORD][MOST_TAPS]; /* of a run's sources in its window */
    float weights[WORD][MOST_TAPS];
    int64_t rows, strips; /* of a strip; of a column */
    int64_t units;
} form;

/* As in kernels/resize_strips.cu. */
typedef struct {
    const void *from, *weight;
    int64_t size, in_size, in_step, out_step;
} taps;
typedef struct {
    const void *x;
    void *y;
    taps down, across;
    uint64_t units, rows;
    cm_gpu_axis runs, columns, strips;
} header;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    size_t bytes;
    _Alignas(16) char arguments[CM_GPU_ARG_BYTES];
} state;

static bool is_short_float(cm_dtype t)
{
    return t == CM_F32 || t == CM_F16 || t == CM_BF16;
}

static const char *take_type(const cm_problem *p, form *f)
{
    cm_dtype from = p->in[0]->dtype, to = p->out[0]->dtype;
    if (p->epilogue)
        return "an epilogue";
    if (cm_tensor_elems(p->out[0]) == 0)
        return "nothing is made";
    f->taps = p->as.resize.nearest ? 1 : 2;
    if (f->taps == 1 &&
        (from != to || from == CM_STR || cm_dtype_is_sub_byte(from) || cm_dtype_size(from) > 8))
        return "elements are not plain memory";
    return f->taps == 2 && !(is_short_float(from) && is_short_float(to)) ? "the element types"
                                                                         : NULL;
}

static const char *take_axes(const cm_problem *p, form *f)
{
    const cm_resize *r = &p->as.resize;
    const cm_tensor *x = p->in[0], *y = p->out[0];
    int n = 0, resized[RESIZED];
    f->last = 0;
    for (int d = 0; d < r->rank; d++) {
        f->last = llabs(y->strides[d]) <= llabs(y->strides[f->last]) ? d : f->last;
        if (r->axis[d].taps && (r->axis[d].taps != f->taps || n == RESIZED))
            return "not two axes of so many taps";
        if (r->axis[d].taps)
            resized[n++] = d;
        for (int64_t o = 0; r->axis[d].taps && o < r->out[d]; o++)
            if (r->axis[d].from[o] < 0)
                return "positions outside the input";
    }
    if (n != RESIZED)
        return "not two axes of so many taps";
    bool turned = llabs(y->strides[resized[0]]) < llabs(y->strides[resized[1]]);
    f->down = resized[turned];
    f->across = resized[!turned];
    if (x->strides[f->last] != 1 || y->strides[f->last] != 1 || f->last == f->down)
        return "elements are apart";
    for (int d = 0; d < r->rank; d++)
        if (d != f->down && d != f->across && d != f->last)
            f->others[f->n_others++] = d;
    return NULL;
}

/* Do runs of n elements lie at multiples of themselves, and what is read for them? */
static bool runs_fit(const cm_problem *p, const form *f, int64_t n)
{
    const cm_tensor *x = p->in[0], *y = p->out[0];
    int64_t read = f->factor ? n / f->factor : n;
    bool fit = y->dims[f->last] % n == 0 && read > 0;
    for (int d = 0; d < y->rank; d++)
        if (d != f->last)
            fit = fit && y->strides[d] % n == 0 && x->strides[d] % read == 0;
    return fit;
}

/* The weight of a source among some. */
static double weight_of(int64_t source, int n, const int64_t *from, const float *weight)
{
    double sum = 0;
    for (int t = 0; t < n; t++)
        sum += from[t] == source ? (double)weight[t] : 0;
    return sum;
}

/* Are sources and weights those of the second run everywhere? Neighbours beyond the ends are the elements there. */
static bool find_pattern(const cm_problem *p, form *f)
{
    const cm_resize *r = &p->as.resize;
    const int32_t *from = r->axis[f->across].from;
    const float *weight = r->axis[f->across].weight;
    int64_t in = r->in[f->across], out = r->out[f->across], core = f->run / f->factor;
    if (out < 3 * f->run)
        return false;
    for (int64_t o = f->run; o < 2 * f->run; o++)
        for (int t = 0; t < f->taps; t++) {
            int64_t place = from[t * out + o] - (core - 1);
            f->weights[o % f->run][t] = weight[t * out + o];
            f->places[o % f->run][t] = (int)cm_max_i64(0, cm_min_i64(place, core + 1));
        }
    for (int64_t o = 0; o < out; o++) {
        int64_t here[2 * MOST_TAPS], first = o / f->run * core - 1;
        float weights[MOST_TAPS];
        for (int t = 0; t < f->taps; t++) {
            int64_t at = first + f->places[o % f->run][t];
            here[t] = cm_max_i64(0, cm_min_i64(at, in - 1));
            here[f->taps + t] = from[t * out + o];
            weights[t] = weight[t * out + o];
        }
        for (int i = 0; i < 2 * f->taps; i++)
            if (fabs(weight_of(here[i], f->taps, here, f->weights[o % f->run]) -
                     weight_of(here[i], f->taps, here + f->taps, weights)) > 1e-6)
                return false;
    }
    return true;
}

/* Of a strip: what is computed is worth more of them than what is moved. */
static int rows_of(const form *f, int64_t size)
{
    return f->taps == 2 && size == 2 ? 16 : 8;
}

static const char *form_of(const cm_problem *p, const cm_knobs *k, form *f)
{
    enum { LEAST_BYTES = 8 };
    const cm_tensor *x = p->in[0], *y = p->out[0];
    *f = (form){0};
    const char *why = take_type(p, f);
    if (!why)
        why = take_axes(p, f);
    if (why)
        return why;
    int64_t size = (int64_t)cm_dtype_size(y->dtype);
    size = cm_max_i64(size, (int64_t)cm_dtype_size(x->dtype));
    f->run = (int)(WORD / size);
    if (f->last == f->across) {
        f->factor = (int)(y->dims[f->last] / cm_max_i64(1, x->dims[f->last]));
        if (f->factor < 2 || y->dims[f->last] != f->factor * x->dims[f->last] ||
            f->run % f->factor != 0)
            return "the innermost axis does not grow by a power of two";
    }
    while (f->run > 1 && !runs_fit(p, f, f->run))
        f->run /= 2;
    if (f->run * size < LEAST_BYTES || (f->factor && f->run < f->factor))
        return "rows are not of whole runs";
    if (f->factor && !find_pattern(p, f))
        return "sources are not the same for every run";
    if (x->dims[f->across] * llabs(x->strides[f->across]) > INT32_MAX ||
        cm_gpu_is_wide(y->dims[f->down]))
        return "lines are too long";
    f->rows = k ? k->v[0] : rows_of(f, size);
    f->strips = cm_ceil_div(y->dims[f->down], f->rows);
    f->units = cm_tensor_elems(y) / y->dims[f->down] / f->run * f->strips;
    return NULL;
}

const char *cm_cuda_resize_strips_reject(const cm_problem *p)
{
    form f;
    return form_of(p, NULL, &f);
}

int cm_cuda_resize_strips_knobs(const cm_problem *p, cm_knobs *out)
{
    enum { OTHERS = 24 }; /* 8 or 16 */
    form f;
    (void)form_of(p, NULL, &f);
    out[0] = (cm_knobs){{(int)f.rows}};
    out[1] = (cm_knobs){{OTHERS - (int)f.rows}};
    return 2;
}

double cm_cuda_resize_strips_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { SECOND = 1000 }; /* ns, so that the best guess is the first */
    form f;
    (void)form_of(p, NULL, &f);
    double bytes = (double)cm_tensor_elems(p->in[0]) * (double)cm_dtype_size(p->in[0]->dtype) +
                   (double)cm_tensor_elems(p->out[0]) * (double)cm_dtype_size(p->out[0]->dtype);
    return cm_gpu_stream_ns(&p->target, bytes) + (k->v[0] == f.rows ? 0 : SECOND);
}

static size_t put_arguments(char *to, const cm_problem *p, const form *f)
{
    const cm_tensor *x = p->in[0], *y = p->out[0];
    int64_t columns = f->across == f->last ? 1 : y->dims[f->across];
    header h = {.down = {NULL, NULL, y->dims[f->down], x->dims[f->down], x->strides[f->down],
                         y->strides[f->down]},
                .across = {NULL, NULL, y->dims[f->across], x->dims[f->across],
                           x->strides[f->across], y->strides[f->across]},
                .units = (uint64_t)f->units,
                .rows = (uint64_t)f->rows,
                .runs = cm_gpu_axis_of(y->dims[f->last] / f->run),
                .columns = cm_gpu_axis_of(columns),
                .strips = cm_gpu_axis_of(f->strips)};
    int n = f->n_others ? f->n_others : 1;
    memcpy(to, &h, sizeof h);
    char *at = to + sizeof h;
    int64_t steps[2][CM_MAX_RANK] = {{0}};
    for (int i = 0; i < n; i++, at += sizeof(cm_gpu_axis)) {
        cm_gpu_axis axis = cm_gpu_axis_of(f->n_others ? y->dims[f->others[i]] : 1);
        memcpy(at, &axis, sizeof axis);
        steps[0][i] = f->n_others ? x->strides[f->others[i]] : 0;
        steps[1][i] = f->n_others ? y->strides[f->others[i]] : 0;
    }
    for (int i = 0; i < 2; i++, at += (size_t)n * sizeof **steps)
        memcpy(at, steps[i], (size_t)n * sizeof **steps);
    return (size_t)(at - to);
}

/* Sources and weights of an axis in the device's memory. */
static cm_status put_taps(cm_ctx *cx, cm_device *d, const cm_problem *p, int axis, taps *to)
{
    const cm_resize *r = &p->as.resize;
    size_t n = (size_t)(r->axis[axis].taps * r->out[axis]);
    CM_TRY(cm_gpu_table(cx, d, r->axis[axis].from, n * sizeof(int32_t), &to->from));
    return cm_gpu_table(cx, d, r->axis[axis].weight, n * sizeof(float), &to->weight);
}

static const char *type_of(const form *f, cm_dtype t)
{
    return f->taps == 1 ? cm_gpu_word(cm_dtype_size(t)) : cm_gpu_element(t);
}

static void put_text(cm_buf *b, const cm_problem *p, const form *f)
{
    cm_buf_printf(b,
                  "#define INPUT %s\n#define OUTPUT %s\n#define TAPS %d\n#define RUN %d\n"
                  "#define ACROSS %d\n#define FACTOR %d\n#define OTHERS "
                  "%d\n#define WIDE %d\n",
                  type_of(f, p->in[0]->dtype), type_of(f, p->out[0]->dtype), f->taps, f->run,
                  f->factor > 0, f->factor, f->n_others ? f->n_others : 1,
                  cm_gpu_is_wide(f->units));
    for (int pass = 0; f->factor && pass < 2; pass++) {
        cm_buf_printf(b, "static constexpr __device__ %s[RUN][TAPS] = {",
                      pass ? "float WEIGHTS" : "int PLACES");
        for (int k = 0; k < f->run; k++)
            for (int t = 0; t < f->taps; t++)
                if (pass)
                    cm_buf_printf(b, " %.9ef,", (double)f->weights[k][t]);
                else
                    cm_buf_printf(b, " %d,", f->places[k][t]);
        cm_buf_str(b, " };\n");
    }
}

cm_status cm_cuda_resize_strips_ready(cm_ctx *cx, cm_device *d, cm_arena *arena,
                                      const cm_problem *p, const cm_knobs *k, const void **out)
{
    form f;
    cm_buf text;
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    (void)form_of(p, k, &f);
    s->bytes = put_arguments(s->arguments, p, &f);
    header *h = (header *)s->arguments;
    CM_TRY(put_taps(cx, d, p, f.down, &h->down));
    CM_TRY(put_taps(cx, d, p, f.across, &h->across));
    s->grid =
        (cm_grid){.blocks = {cm_gpu_blocks(&p->target, f.units)}, .threads = {CM_GPU_THREADS}};
    cm_buf_init(&text, cx->allocator);
    put_text(&text, p, &f);
    cm_kernel_text t = {.file = "resize_strips", .entry = "resize_strips"};
    return cm_gpu_kernel_with(cx, d, &text, t, 0, &s->kernel);
}

cm_status cm_cuda_resize_strips_run(const cm_run *r)
{
    const state *s = r->state;
    _Alignas(16) char arguments[CM_GPU_ARG_BYTES];
    memcpy(arguments, s->arguments, s->bytes);
    header *h = (header *)arguments;
    h->x = r->in[0];
    h->y = r->out[0];
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){arguments});
}
