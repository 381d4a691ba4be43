/* conv_bf16_sink.c -- what bfloat16's convolutions want and cost, and their sums on their way out (cpu/conv_bf16.h).
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/conv_bf16.h"

const char *cm_conv_bf16_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->transposed)
        return "transposed";
    if (p->in[0]->dtype != CM_BF16 || p->in[1]->dtype != CM_BF16)
        return "not bfloat16";
    if (c->bias && (p->in[2]->dtype != CM_BF16 || !cm_tensor_is_dense(p->in[2])))
        return "the bias is not dense bfloat16";
    if (!p->constant[1])
        return "the weights are not constant";
    if (!(cm_conv_layout_of(p->in[0]) & cm_conv_layout_of(p->out[0]) & CM_CONV_CHANNELS_LAST))
        return "channels are not innermost";
    return cm_epilogue_reject(p, cm_conv_channel_columns(p->out[0]));
}

double cm_conv_bf16_ns(const cm_problem *p, double flops, double gain, double gathered_ns,
                       int64_t units)
{
    double compute = flops / (0.7 * gain * cm_cpu_flops_per_ns(&p->target));
    double finished = 0.3 * (double)cm_tensor_elems(p->out[0]);
    double memory = cm_conv_bytes(p) / 2 / (4 * cm_cpu_bytes_per_ns(&p->target));
    return 500 + (compute + gathered_ns + finished + memory) / cm_cpu_speedup(p, (double)units);
}

void cm_conv_bf16_sink_init(cm_conv_bf16_sink *s, const cm_run *r)
{
    bool bias = r->p->as.conv.bias;
    cm_epilogue_init(&s->plan, r, cm_conv_channel_columns(r->p->out[0]));
    s->fast = cm_bf16_finish_of(&s->plan, &s->finish) && !(bias && s->finish.c.bias.data);
    s->bias = bias ? r->in[2] : NULL;
    if (bias)
        s->finish.c.bias = (cm_chain_operand){r->in[2], CM_BF16, 0};
}

/* Row by row: columns of c may lie in one set of the first-level cache. */
static void add_bias(const uint16_t *bias, int64_t m, int64_t n, float *x, int64_t ld)
{
    float wide[CM_CONV_BF16_GROUP * CM_BF16_NR];
    const cm_tile_kernels *tile = &cm_cpu_tile__avx512;
    tile->load[CM_BF16](wide, bias, 1, n);
    for (int64_t i = 0; i < m; i++, x += ld)
        tile->op[CM_PW_ADD].each(x, x, wide, NULL, n);
}

void cm_conv_bf16_sink_tile(const cm_conv_bf16_sink *s, int64_t pixel, int64_t channel, int64_t m,
                            int64_t n, float *x, int64_t ld)
{
    if (s->fast) {
        cm_bf16_finish_panel(&s->finish, pixel, channel, m, n, x, ld);
        return;
    }
    if (s->bias)
        add_bias(s->bias + channel, m, n, x, ld);
    cm_epilogue_tile(&s->plan, pixel, channel, m, n, x, ld);
}
