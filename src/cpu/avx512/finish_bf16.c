/* finish_bf16.c -- sums on their way out as bfloat16 (cpu/finish_bf16.h).
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/finish_bf16.h"

#include "base/cpu.h"
#include "cpu/simd/half.h"
#include "cpu/simd/math.h"

enum { WIDTH = 2 * VW };

bool cm_bf16_finish_of(const cm_epilogue_plan *e, cm_bf16_finish *out)
{
    out->out = (uint16_t *)(uintptr_t)e->out.data;
    out->ld = e->out.strides[0];
    out->by_instruction = cm_cpu_info()->bf16;
    return cm_epilogue_chain(e, true, &out->c);
}

static const char *operand_at(const cm_chain_operand *o, int64_t row, int64_t col)
{
    return (const char *)o->data + (row * o->ld + col) * (o->type == CM_F32 ? 4 : 2);
}

VINLINE vf load(cm_dtype type, const char *from, int i)
{
    return type == CM_F32 ? vf_load((const float *)from + i * VW)
                          : vf_load_bf16((const uint16_t *)from + i * VW);
}

VINLINE vf activated(const cm_chain *c, cm_pointwise act, vf x)
{
    switch (act) {
    case CM_PW_GELU:
        return vf_gelu(x);
    case CM_PW_GELU_TANH:
        return vf_gelu_tanh(x);
    case CM_PW_SILU:
        return vf_silu(x);
    default:
        return vf_clip(x, vf_set(c->lo), vf_set(c->hi));
    }
}

VINLINE void store(bool by_instruction, uint16_t *to, const vf v[2])
{
    if (by_instruction) {
        _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]));
        return;
    }
    vf_store_bf16(to, v[0]);
    vf_store_bf16(to + VW, v[1]);
}

/* What is asked of every row is a constant where it is inlined. */
VINLINE void rows(const cm_bf16_finish *f, bool by_instruction, cm_pointwise act, bool residual,
                  int64_t row, int64_t col, int64_t m, const float *x, int64_t ld)
{
    const cm_chain *c = &f->c;
    const char *more = residual ? operand_at(&c->residual, row, col) : NULL;
    int64_t step = c->residual.ld * (c->residual.type == CM_F32 ? 4 : 2);
    uint16_t *to = f->out + row * f->ld + col;
    vf bias[2] = {vf_zero(), vf_zero()};
    for (int i = 0; c->bias.data && i < 2; i++)
        bias[i] = load(c->bias.type, operand_at(&c->bias, 0, col), i);
    for (int64_t q = 0; q < m; q++, x += ld, to += f->ld, more += step) {
        vf v[2];
        UNROLL
        for (int i = 0; i < 2; i++) {
            v[i] = vf_add(vf_load(x + i * VW), bias[i]);
            if (residual)
                v[i] = vf_add(v[i], load(c->residual.type, more, i));
            v[i] = activated(c, act, v[i]);
        }
        store(by_instruction, to, v);
    }
}

VINLINE void whole_by(const cm_bf16_finish *f, bool by_instruction, int64_t row, int64_t col,
                      int64_t m, const float *x, int64_t ld)
{
    bool residual = f->c.residual.data;
    switch (f->c.act) {
#define ACT(op)                                                                                    \
    case op:                                                                                       \
        if (residual)                                                                              \
            rows(f, by_instruction, op, true, row, col, m, x, ld);                                 \
        else                                                                                       \
            rows(f, by_instruction, op, false, row, col, m, x, ld);                                \
        break;
        ACT(CM_PW_GELU)
        ACT(CM_PW_GELU_TANH)
        ACT(CM_PW_SILU)
    default:
        ACT(CM_PW_CLIP)
#undef ACT
    }
}

static void whole(const cm_bf16_finish *f, int64_t row, int64_t col, int64_t m, const float *x,
                  int64_t ld)
{
    if (f->by_instruction)
        whole_by(f, true, row, col, m, x, ld);
    else
        whole_by(f, false, row, col, m, x, ld);
}

/* n elements of an operand, with anything behind them. */
static void copy_operand(cm_chain_operand *o, int64_t row, int64_t col, int64_t n, char *to)
{
    if (!o->data)
        return;
    memcpy(to, operand_at(o, row, col), (size_t)n * (o->type == CM_F32 ? 4 : 2));
    o->data = to;
    o->ld = 0;
}

/* Row by row, each beside copies of what it needs that may be read to their end. */
static void part(const cm_bf16_finish *f, int64_t row, int64_t col, int64_t m, int64_t n,
                 const float *x, int64_t ld)
{
    for (int64_t q = 0; q < m; q++) {
        float sums[WIDTH] = {0}, bias[WIDTH] = {0}, more[WIDTH] = {0};
        uint16_t y[WIDTH];
        cm_bf16_finish one = *f;
        copy_operand(&one.c.bias, 0, col, n, (char *)bias);
        copy_operand(&one.c.residual, row + q, col, n, (char *)more);
        one.out = y;
        one.ld = 0;
        memcpy(sums, x + q * ld, (size_t)n * sizeof *x);
        whole(&one, 0, 0, 1, sums, WIDTH);
        memcpy(f->out + (row + q) * f->ld + col, y, (size_t)n * sizeof *y);
    }
}

void cm_bf16_finish_panel(const cm_bf16_finish *f, int64_t row, int64_t col, int64_t m, int64_t n,
                          const float *x, int64_t ld)
{
    if (n == WIDTH)
        whole(f, row, col, m, x, ld);
    else
        part(f, row, col, m, n, x, ld);
}
