/* attention_place.c -- where attention's operands lie, how its rows and keys are shared out, and what its kernels are
 * specialised by.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/attention.h"
#include "cuda/program_text.h"

enum { Q = CM_ATTENTION_Q, K, V, BIAS, MASK, PAST_K, PAST_V };
enum { SPLIT_KEYS = 256 }; /* fewer are not worth a block of their own */

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

const char *cm_cuda_attention_reject(const cm_problem *p)
{
    const cm_attention *a = &p->as.attention;
    for (int i = Q; i <= PAST_V; i++)
        if (i != MASK && cm_problem_has(p, i) && !is_real(p->in[i]))
            return "an input is not of float32, float16 or bfloat16";
    if (!is_real(p->out[0]))
        return "the output is not of float32, float16 or bfloat16";
    if (cm_problem_has(p, MASK) && p->in[MASK]->dtype != CM_BOOL)
        return "the mask is not of bool";
    if (cm_problem_has(p, PAST_K) &&
        (p->in[PAST_K]->dtype != p->in[K]->dtype || p->in[PAST_V]->dtype != p->in[V]->dtype))
        return "past and fresh keys are of different types";
    for (int o = 1; o < p->n_out && o <= 2; o++)
        if (p->out[o] &&
            (!cm_tensor_is_dense(p->out[o]) || p->out[o]->dtype != p->in[K + o - 1]->dtype))
            return "an output is strided or of another type than what it holds";
    if (a->head_size > 256 || a->v_head_size > 256)
        return "heads are larger than 256";
    if (a->batch * a->heads * a->q_len >= INT32_MAX || a->kv_len + a->past_len >= INT32_MAX / 2)
        return "sequences are too long";
    if (p->n_operands > CM_ATTENTION_OPERANDS)
        return "the epilogue has too many operands";
    for (int i = 0; i < p->n_operands; i++)
        if (!element_of(p->operands[i]->dtype))
            return "an operand of the epilogue is neither a float nor of bool";
    return NULL;
}

/* ---- Places --------------------------------------------------------------------------------- */

static cm_heads past_of(const cm_problem *p, int input)
{
    if (!cm_problem_has(p, input))
        return (cm_heads){0};
    const int64_t *s = p->in[input]->strides;
    return (cm_heads){0, s[0], s[1], s[2], s[3]};
}

/* Of axis `axis` of the output in an operand that broadcasts to it. */
static int64_t stride_of(const cm_tensor *t, const cm_tensor *y, int axis)
{
    int at = axis - (y->rank - t->rank);
    return at < 0 || t->dims[at] == 1 ? 0 : t->strides[at];
}

/* An operand of the epilogue by batch, head, query and element. */
static cm_heads operand_of(const cm_problem *p, const cm_tensor *t)
{
    const cm_attention *a = &p->as.attention;
    const cm_tensor *y = p->out[0];
    if (y->rank == 4)
        return (cm_heads){0, stride_of(t, y, 0), stride_of(t, y, 1), stride_of(t, y, 2),
                          stride_of(t, y, 3)};
    /* [batch, query, columns], or the first two the other way round */
    bool turned = y->dims[0] != y->dims[1] ? y->dims[0] != a->batch : y->strides[0] != a->y.batch;
    int64_t col = stride_of(t, y, 2);
    return (cm_heads){0, stride_of(t, y, turned), col * a->v_head_size, stride_of(t, y, !turned),
                      col};
}

/* Keys are split where rows alone leave much of the device idle. */
static void split_keys(const cm_problem *p, const cm_attention_tile *t, cm_attention_args *a)
{
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t blocks = (int64_t)a->batch * a->kv_heads * a->spans * a->blocks;
    int64_t wanted = cm_ceil_div((int64_t)facts.multiprocessors * 2, blocks);
    int64_t splits = blocks * 2 > facts.multiprocessors || t->bulk
                         ? 1
                         : cm_min_i64(wanted, cm_ceil_div(a->total, SPLIT_KEYS));
    int64_t keys = cm_ceil_div(cm_ceil_div(a->total, splits), t->keys) * t->keys;
    a->split_keys = (int)keys;
    a->splits = (int)cm_ceil_div(a->total, keys);
}

bool cm_cuda_attention_is_plain(const cm_problem *p, const cm_attention_tile *t)
{
    const cm_attention *a = &p->as.attention;
    return !cm_problem_has(p, BIAS) && !cm_problem_has(p, MASK) && a->softcap == 0 &&
           (t->bulk || !(a->causal && a->has_mask_value)) && a->scale > 0;
}

void cm_cuda_attention_place(const cm_problem *p, const cm_attention_tile *t, cm_attention_args *a)
{
    const cm_attention *s = &p->as.attention;
    int rep = (int)(s->heads / s->kv_heads), q_len = (int)s->q_len;
    int span = q_len < t->rows && !t->bulk ? rep * q_len : q_len;
    *a = (cm_attention_args){.at_q = s->q,
                             .at_k = s->k,
                             .at_v = s->v,
                             .at_y = s->y,
                             .at_past_k = past_of(p, PAST_K),
                             .at_past_v = past_of(p, PAST_V),
                             .bias_batch = (int)s->bias_batch,
                             .mask_batch = (int)s->mask_batch,
                             .batch = (int)s->batch,
                             .kv_heads = (int)s->kv_heads,
                             .rep = rep,
                             .q_len = q_len,
                             .total = (int)(s->past_len + s->kv_len),
                             .past = (int)s->past_len,
                             .head_size = (int)s->head_size,
                             .v_head_size = (int)s->v_head_size,
                             .span = span,
                             .spans = rep * q_len / span,
                             .blocks = (int)cm_ceil_div(span, t->rows),
                             .scale = s->scale,
                             .softcap = s->softcap,
                             .mask_value = s->mask_value,
                             .unit = 1.44269504f};
    for (int i = 0; i < 4; i++) {
        a->bias_at[i] = s->bias[i];
        a->mask_at[i] = s->mask[i];
    }
    for (int i = 0; i < p->n_operands; i++)
        a->at_operand[i] = operand_of(p, p->operands[i]);
    if (t->matrix && cm_cuda_attention_is_plain(p, t))
        a->unit *= s->scale;
    split_keys(p, t, a);
}

bool cm_cuda_heads_in_vectors(const cm_heads *h)
{
    return h->dim == 1 && h->offset % 8 == 0 && h->batch % 8 == 0 && h->head % 8 == 0 &&
           h->seq % 8 == 0;
}

bool cm_cuda_attention_takes_vectors(const cm_problem *p, const cm_attention_args *a)
{
    return a->head_size % 8 == 0 && a->v_head_size % 8 == 0 && cm_cuda_heads_in_vectors(&a->at_q) &&
           cm_cuda_heads_in_vectors(&a->at_k) && cm_cuda_heads_in_vectors(&a->at_v) &&
           (!cm_problem_has(p, PAST_K) ||
            (cm_cuda_heads_in_vectors(&a->at_past_k) && cm_cuda_heads_in_vectors(&a->at_past_v)));
}

/* ---- Text ----------------------------------------------------------------------------------- */

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

static void put_flag(cm_buf *b, const char *name, bool set)
{
    if (set)
        cm_buf_printf(b, "#define %s\n", name);
}

void cm_cuda_attention_text(cm_buf *b, const cm_problem *p, const cm_attention_tile *t,
                            const cm_attention_args *a, bool vectors)
{
    const cm_attention *s = &p->as.attention;
    put_epilogue(b, p);
    cm_buf_printf(b, "#define QT %s\n#define KT %s\n#define VT %s\n#define YT %s\n",
                  element_of(p->in[Q]->dtype), element_of(p->in[K]->dtype),
                  element_of(p->in[V]->dtype), element_of(p->out[0]->dtype));
    cm_buf_printf(b, "#define D %d\n#define DV %d\n#define BLOCK_KEYS %d\n#define TILES %d\n", t->d,
                  t->dv, t->keys, t->tiles);
    cm_buf_printf(b, "#define VECTORS %d\n#define PLAIN %d\n", vectors,
                  cm_cuda_attention_is_plain(p, t));
    if (cm_problem_has(p, BIAS))
        cm_buf_printf(b, "#define BIAST %s\n", element_of(p->in[BIAS]->dtype));
    put_flag(b, "MASK", cm_problem_has(p, MASK));
    put_flag(b, "CAUSAL", s->causal);
    put_flag(b, "SOFTCAP", s->softcap > 0);
    put_flag(b, "FILL", s->has_mask_value && (s->causal || cm_problem_has(p, MASK)));
    put_flag(b, "BIAS_LAST", s->bias_last);
    put_flag(b, "SPLITS", a->splits > 1);
}

/* ---- Runs ----------------------------------------------------------------------------------- */

void cm_cuda_attention_point(const cm_run *r, cm_attention_args *a)
{
    const cm_problem *p = r->p;
#define AT(input) (cm_problem_has(p, input) ? r->in[input] : NULL)
    a->q = AT(Q);
    a->k = AT(K);
    a->v = AT(V);
    a->bias = AT(BIAS);
    a->mask = AT(MASK);
    a->past_k = AT(PAST_K);
    a->past_v = AT(PAST_V);
#undef AT
    a->y = r->out[0];
    a->present_k = p->n_out > 1 && p->out[1] ? r->out[1] : NULL;
    a->present_v = p->n_out > 2 && p->out[2] ? r->out[2] : NULL;
    a->parts = r->workspace;
    for (int i = 0; i < p->n_operands; i++)
        a->operand[i] = r->operands[i];
}
