/* conv.c -- the table of convolution tactics, and what they share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/conv.h"

/* Best guess first. */
/* clang-format off */
#define ALL(stem) CM_HAS_WORKSPACE(stem), CM_HAS_PACK(stem)
static const cm_tactic rows[] = {
    CM_ROW(conv_depthwise_f32, GENERIC, ALL(conv_depthwise_f32), CM_HAS_BAND(conv_depthwise_f32)),
    CM_ROW(conv_depthwise_planes_f32, GENERIC, CM_HAS_WORKSPACE(conv_depthwise_planes_f32)),
    CM_ROW(conv_winograd_f4, GENERIC, ALL(conv_winograd_f4), CM_HAS_KNOBS(conv_winograd_f4)),
    CM_ROW(conv_winograd_f6, GENERIC, ALL(conv_winograd_f6), CM_HAS_KNOBS(conv_winograd_f6)),
    CM_ROW(conv_winograd_f2, GENERIC, ALL(conv_winograd_f2), CM_HAS_KNOBS(conv_winograd_f2)),
    CM_ROW(conv_lines_f32, GENERIC, ALL(conv_lines_f32), CM_HAS_KNOBS(conv_lines_f32),
           CM_HAS_BAND(conv_lines_f32)),
    CM_ROW(conv_indirect_f32, GENERIC, ALL(conv_indirect_f32), CM_HAS_BAND(conv_indirect_f32)),
    CM_ROW(conv_inside_f32, GENERIC, CM_HAS_WORKSPACE(conv_inside_f32),
           CM_HAS_PACK(conv_indirect_f32)),
    CM_ROW(conv_product_f32, GENERIC, ALL(conv_product_f32)),
    CM_ROW(conv_strassen_f32, AVX512, ALL(conv_strassen_f32)),
    CM_ROW(conv_pairs_f32, AVX512, ALL(conv_pairs_f32), CM_HAS_BAND(conv_pairs_f32)),
    CM_ROW(conv_shifted_f32, GENERIC, CM_HAS_WORKSPACE(conv_shifted_f32),
           CM_HAS_PACK(conv_planes_f32)),
    CM_ROW(conv_planes_f32, GENERIC, ALL(conv_planes_f32)),
    CM_ROW(conv_transposed_depthwise_f32, GENERIC, ALL(conv_transposed_depthwise_f32)),
    CM_ROW(conv_transposed_apart_f32, GENERIC, ALL(conv_transposed_apart_f32)),
    CM_ROW(conv_transposed_f32, GENERIC, ALL(conv_transposed_f32)),
    CM_ROW(conv_transposed_turned_f32, GENERIC, ALL(conv_transposed_turned_f32),
           CM_HAS_KNOBS(conv_transposed_turned_f32)),
    CM_ROW(conv_amx_lines, AMX, ALL(conv_amx_lines)),
    CM_ROW(conv_amx, AMX, ALL(conv_amx)),
    CM_ROW(conv_bf16, AVX512, ALL(conv_bf16)),
    CM_ROW(conv_amx_patch, AMX, ALL(conv_amx_patch)),
    CM_ROW(conv_bf16_patch, AVX512, ALL(conv_bf16_patch)),
    CM_ROW(conv_depthwise_half, GENERIC, ALL(conv_depthwise_half)),
    CM_ROW(conv_half, GENERIC, ALL(conv_half), CM_HAS_KNOBS(conv_half)),
};
/* clang-format on */

const cm_cpu_table cm_cpu_conv = {rows, CM_COUNT(rows)};

int cm_conv_layout_of(const cm_tensor *t)
{
    int64_t row_major = 1, last = t->dims[1];
    int found = CM_CONV_ROW_MAJOR;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->dims[d] != 1 && t->strides[d] != row_major)
            found = 0;
        row_major *= t->dims[d];
    }
    bool channels_last = t->dims[1] == 1 || t->strides[1] == 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (d == 1)
            continue;
        channels_last = channels_last && (t->dims[d] == 1 || t->strides[d] == last);
        last *= t->dims[d];
    }
    return channels_last ? found | CM_CONV_CHANNELS_LAST : found;
}

int cm_conv_channel_columns(const cm_tensor *out)
{
    int n = 1;
    if (out->dims[1] == 1)
        return 0;
    for (int d = 0; d < out->rank; d++)
        n += d != 1 && (out->strides[d] < out->strides[1] ||
                        (out->strides[d] == out->strides[1] && out->dims[d] == 1));
    return n;
}

/* Axes of size 1 count as columns only where they lie inside all the others; beside none of another
 * size, every element is a row. */
int cm_conv_plane_columns(const cm_tensor *out)
{
    int n = 0, large = 0;
    for (int d = 2; d < out->rank; d++)
        large += out->dims[d] != 1;
    if (!large)
        return 0;
    int64_t widest = 0;
    for (int d = 2; d < out->rank; d++)
        if (out->dims[d] != 1 && out->strides[d] > widest)
            widest = out->strides[d];
    for (int d = 0; d < out->rank; d++)
        n += out->dims[d] != 1 ? d >= 2 : out->strides[d] <= widest;
    return n;
}

const char *cm_conv_reject_common(const cm_problem *p, int n_col_axes)
{
    if (p->in[0]->dtype != CM_F32 || p->in[1]->dtype != CM_F32)
        return "float32 only";
    if (p->as.conv.bias && (p->in[2]->dtype != CM_F32 || !cm_tensor_is_dense(p->in[2])))
        return "the bias is not dense float32";
    return cm_epilogue_reject(p, n_col_axes);
}

const char *cm_conv_reject_channels_last(const cm_problem *p)
{
    if (!(cm_conv_layout_of(p->in[0]) & cm_conv_layout_of(p->out[0]) & CM_CONV_CHANNELS_LAST))
        return "channels are not innermost";
    if (p->out[0]->dtype != CM_F32)
        return "the output is not float32";
    return cm_conv_reject_common(p, cm_conv_channel_columns(p->out[0]));
}

int64_t cm_conv_tap_offset(const cm_problem *p, int64_t tap)
{
    const cm_tensor *w = p->in[1];
    int64_t at = 0;
    for (int d = w->rank - 1; d >= 2; d--) {
        at += tap % w->dims[d] * w->strides[d];
        tap /= w->dims[d];
    }
    return at;
}

bool cm_conv_is_points(const cm_conv *c)
{
    bool points = cm_conv_taps(c) == 1;
    for (int d = 0; d < 3; d++)
        points = points && c->stride[d] == 1 && c->pad[d] == 0 && c->in[d] == c->out[d];
    return points;
}

bool cm_conv_pixels_meet(const cm_conv *c)
{
    enum { PERIOD = 512, LEAST = 64 }; /* floats, channels */
    return c->c_in * c->stride[2] % PERIOD == 0 && c->c_in / c->groups >= LEAST;
}

double cm_conv_columns(int nr, int64_t n)
{
    int64_t vectors = (n + nr / 2 - 1) / (nr / 2);
    return (double)(vectors * (nr / 2)) / (double)n;
}

double cm_conv_flops(const cm_conv *c)
{
    double products = 2.0 * (double)c->n * (double)c->c_in * (double)c->c_out / (double)c->groups;
    for (int d = 0; d < 3; d++)
        products *= (double)c->kernel[d] * (double)(c->transposed ? c->in[d] : c->out[d]);
    return products;
}

/* Of two threads each is asked for no less, or handing it out and the caches' traffic take what is gained. */
static const double LEAST_NS = 8000;

double cm_conv_ns(const cm_problem *p)
{
    return cm_conv_flops(&p->as.conv) / cm_cpu_flops_per_ns(&p->target);
}

void cm_conv_parallel(const cm_run *r, double ns, int64_t units, cm_range_fn fn, void *arg)
{
    double piece = cm_cpu_piece_ns(LEAST_NS, cm_threads_count(r->threads));
    int64_t grain = ns < 2 * LEAST_NS ? units : 1 + (int64_t)(piece * (double)units / ns);
    cm_parallel(r->threads, units, grain, fn, arg);
}

int64_t cm_conv_slots(double ns, int64_t most)
{
    return ns < 2 * LEAST_NS ? 1 : most;
}

double cm_conv_shared(const cm_problem *p, double cost, double ns, double units)
{
    double most =
        ns < 2 * LEAST_NS ? 1 : (double)(int64_t)(ns / cm_cpu_piece_ns(LEAST_NS, p->threads));
    return cost / cm_cpu_speedup(p, units < most ? units : most);
}

double cm_conv_bytes(const cm_problem *p)
{
    double elems = 0;
    for (int i = 0; i < 2; i++)
        elems += (double)cm_tensor_elems(p->in[i]);
    return 4 * (elems + (double)cm_tensor_elems(p->out[0]));
}

void cm_conv_sink_init(cm_conv_sink *s, const cm_run *r, float *sum)
{
    const cm_problem *p = r->p;
    const float *bias = p->as.conv.bias ? r->in[2] : NULL;
    s->simple = cm_epilogue_init_or_simple(&s->plan, r, cm_conv_channel_columns(p->out[0]), &s->e);
    if (!bias || !s->e.bias) {
        s->e.bias = bias ? bias : s->e.bias;
        return;
    }
    for (int64_t i = 0; i < p->as.conv.c_out; i++)
        sum[i] = bias[i] + s->e.bias[i];
    s->e.bias = sum;
}

static int64_t div_up(int64_t a, int64_t b)
{
    return a > 0 ? (a + b - 1) / b : 0;
}

/* Pixels [ox, ox + m) of one row, for the kernel column at `shift` from the window's beginning; row NULL:
 * outside. */
static void row_pointers(const cm_conv_window *w, const float *row, int64_t shift, int64_t ox,
                         int64_t m, const float **to)
{
    const cm_conv *c = w->c;
    int64_t stride = c->stride[2], at = ox * stride + shift;
    int64_t lo = row ? div_up(-at, stride) : m, hi = row ? div_up(c->in[2] - at, stride) : m, i = 0;
    lo = lo < m ? lo : m;
    hi = hi < lo ? lo : hi < m ? hi : m;
    for (; i < lo; i++)
        to[i] = w->zero;
    for (; i < hi; i++)
        to[i] = row + (at + i * stride) * c->c_in;
    for (; i < m; i++)
        to[i] = w->zero;
}

void cm_conv_pointers(const cm_conv_window *w, int64_t tap, int64_t taps, int64_t pixel, int64_t m,
                      const float **to)
{
    const cm_conv *c = w->c;
    for (int64_t i = 0, part; i < m; i += part) {
        int64_t ox = (pixel + i) % c->out[2], row = (pixel + i) / c->out[2];
        int64_t oy = row % c->out[1], oz = row / c->out[1] % c->out[0];
        int64_t n = row / c->out[1] / c->out[0];
        part = c->out[2] - ox < m - i ? c->out[2] - ox : m - i;
        for (int64_t q = 0; q < taps; q++) {
            int64_t kx = (tap + q) % c->kernel[2], ky = (tap + q) / c->kernel[2] % c->kernel[1];
            int64_t kz = (tap + q) / c->kernel[2] / c->kernel[1];
            int64_t iz = oz * c->stride[0] - c->pad[0] + kz * c->dilation[0];
            int64_t iy = oy * c->stride[1] - c->pad[1] + ky * c->dilation[1];
            bool inside = iz >= 0 && iz < c->in[0] && iy >= 0 && iy < c->in[1];
            int64_t at = ((n * c->in[0] + iz) * c->in[1] + iy) * c->in[2] * c->c_in;
            row_pointers(w, inside ? w->x + at : NULL, kx * c->dilation[2] - c->pad[2], ox, part,
                         to + q * m + i);
        }
    }
}
