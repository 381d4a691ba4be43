/* fused_norm.c -- a plugin: the sum of two tensors, divided by its root mean square along the last axis.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     y, s = example.FusedNorm(x, residual, weight) {epsilon}
 *     s = x + residual;  y = s / sqrt(mean(s * s) + epsilon) * weight
 *
 * What a transformer does before each of its layers, in one pass over memory. Load it with
 * `--plugins fused_norm.so`; docs/plugins.md explains the parts. */
#include <math.h>

#include "cameo_plugin.h"

/* ---- What it is ----------------------------------------------------------------------------- */

enum { X, RESIDUAL, WEIGHT };
enum { EPSILON };

static const cameo_attr_spec epsilon = {
    .size = sizeof epsilon, .name = "epsilon", .kind = CAMEO_ATTR_FLOAT, .default_float = 1e-6f};
static const cameo_attr_spec *const attrs[] = {&epsilon};

static cameo_status rule(const cameo_rule *r)
{
    const cameo_operand_type *x = &r->inputs[X], *w = &r->inputs[WEIGHT];
    if (x->rank == 0)
        return r->call->fail(r, "wanted at least one axis to normalise over");
    if (x->rank < 0)
        return CAMEO_OK; /* not known yet: neither are the outputs */
    for (int i = 0; r->inputs[RESIDUAL].rank >= 0 && i < x->rank; i++) {
        if (r->inputs[RESIDUAL].rank != x->rank)
            return r->call->fail(r, "x and residual have different ranks");
        cameo_status st =
            r->call->equal(r, "size of residual", r->inputs[RESIDUAL].dims[i], x->dims[i]);
        if (st != CAMEO_OK)
            return st;
    }
    if (w->rank == 1) {
        cameo_status st = r->call->equal(r, "length of weight", w->dims[0], x->dims[x->rank - 1]);
        if (st != CAMEO_OK)
            return st;
    } else if (w->rank >= 0) {
        return r->call->fail(r, "weight is no vector");
    }
    for (int o = 0; o < r->n_outputs; o++) {
        cameo_status st = r->call->output(r, o, x->dtype, x->rank, x->dims);
        if (st != CAMEO_OK)
            return st;
    }
    return CAMEO_OK;
}

static int64_t rows_of(const cameo_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i + 1 < t->rank; i++)
        n *= t->dims[i];
    return n;
}

/* ---- The reference: plain, in double --------------------------------------------------------- */

static cameo_status eval(const cameo_eval *e)
{
    const cameo_tensor *t = e->inputs[X];
    const float *x = (const float *)t->data, *residual = (const float *)e->inputs[RESIDUAL]->data;
    const float *weight = (const float *)e->inputs[WEIGHT]->data;
    float *y = e->outputs[0] ? (float *)e->outputs[0]->data : NULL;
    float *s = e->n_outputs > 1 && e->outputs[1] ? (float *)e->outputs[1]->data : NULL;
    int64_t rows = rows_of(t), n = t->dims[t->rank - 1];
    for (int64_t row = 0; row < rows; row++) {
        double squares = 0;
        for (int64_t i = row * n; i < (row + 1) * n; i++) {
            double v = (double)x[i] + (double)residual[i];
            squares += v * v;
        }
        double scale = 1 / sqrt(squares / (double)n + (double)e->attrs[EPSILON].f);
        for (int64_t i = row * n; i < (row + 1) * n; i++) {
            double v = (double)x[i] + (double)residual[i];
            if (s)
                s[i] = (float)v;
            if (y)
                y[i] = (float)(v * scale * (double)weight[i % n]);
        }
    }
    return CAMEO_OK;
}

/* ---- The CPU's tactic: rows in parallel, output 0 over x where nobody needs it any more ------- */

typedef struct {
    const float *x, *residual, *weight;
    float *y, *s;
    int64_t n;
    float epsilon;
} work;

static void some_rows(void *arg, int64_t begin, int64_t end)
{
    const work *w = (const work *)arg;
    enum { LANES = 16 };
    for (int64_t row = begin; row < end; row++) {
        const float *x = w->x + row * w->n, *residual = w->residual + row * w->n;
        float *y = w->y + row * w->n, lanes[LANES] = {0}, squares = 0;
        int64_t i = 0;
        for (; i + LANES <= w->n; i += LANES)
            for (int k = 0; k < LANES; k++) {
                float v = x[i + k] + residual[i + k];
                y[i + k] = v;
                lanes[k] += v * v;
            }
        for (; i < w->n; i++) {
            y[i] = x[i] + residual[i];
            squares += y[i] * y[i];
        }
        for (int k = 0; k < LANES; k++)
            squares += lanes[k];
        float scale = 1 / sqrtf(squares / (float)w->n + w->epsilon);
        for (i = 0; w->s && i < w->n; i++)
            w->s[row * w->n + i] = y[i];
        for (i = 0; i < w->n; i++)
            y[i] *= scale * w->weight[i];
    }
}

static cameo_status run(const cameo_run *r)
{
    const cameo_tensor *x = r->problem->inputs[X];
    bool has_sum = r->problem->n_outputs > 1 && r->problem->outputs[1];
    work w = {(const float *)r->inputs[X],
              (const float *)r->inputs[RESIDUAL],
              (const float *)r->inputs[WEIGHT],
              (float *)r->outputs[0],
              has_sum ? (float *)r->outputs[1] : NULL,
              x->dims[x->rank - 1],
              r->problem->attrs[EPSILON].f};
    int64_t grain = 16384 / (w.n > 0 ? w.n : 1);
    r->call->parallel(r, rows_of(x), grain > 0 ? grain : 1, some_rows, &w);
    return CAMEO_OK;
}

static const char *reject(const cameo_problem *p)
{
    return p->outputs[0] ? NULL : "nobody reads output 0";
}

static double cost(const cameo_problem *p)
{
    double elems = (double)(p->inputs[X]->bytes / sizeof(float));
    return 300 + elems * 0.5 / (p->threads > 1 ? p->threads : 1);
}

static const cameo_plugin_tactic cpu_rows = {.size = sizeof cpu_rows,
                                             .name = "example_fused_norm_rows",
                                             .device = CAMEO_CPU,
                                             .reject = reject,
                                             .cost = cost,
                                             .in_place = 1 + X,
                                             .run = run};

/* ---- The GPU's: a block a row ----------------------------------------------------------------- */

static const char kernel_text[] =
    "extern \"C\" __global__ void fused_norm(const float *x, const float *residual,\n"
    "                                       const float *weight, float *y, float *s,\n"
    "                                       long long n, float epsilon)\n"
    "{\n"
    "    __shared__ float parts[32];\n"
    "    long long base = blockIdx.x * n;\n"
    "    float squares = 0;\n"
    "    for (long long i = threadIdx.x; i < n; i += blockDim.x) {\n"
    "        float v = x[base + i] + residual[base + i];\n"
    "        squares += v * v;\n"
    "    }\n"
    "    for (int d = 16; d; d >>= 1)\n"
    "        squares += __shfl_xor_sync(0xffffffffu, squares, d);\n"
    "    if (threadIdx.x % 32 == 0)\n"
    "        parts[threadIdx.x / 32] = squares;\n"
    "    __syncthreads();\n"
    "    squares = 0;\n"
    "    for (unsigned k = 0; k < blockDim.x / 32; k++)\n"
    "        squares += parts[k];\n"
    "    float scale = rsqrtf(squares / (float)n + epsilon);\n"
    "    for (long long i = threadIdx.x; i < n; i += blockDim.x) {\n"
    "        float v = x[base + i] + residual[base + i];\n"
    "        if (s)\n"
    "            s[base + i] = v;\n"
    "        y[base + i] = v * scale * weight[i];\n"
    "    }\n"
    "}\n";

static cameo_status launch(const cameo_problem *p, cameo_kernel_launch *out)
{
    const cameo_tensor *x = p->inputs[X];
    bool has_sum = p->n_outputs > 1 && p->outputs[1];
    cameo_kernel_arg sum = {CAMEO_ARG_OUTPUT, 1, 0}, none = {CAMEO_ARG_INT, 0, 0};
    out->grid[0] = (unsigned)rows_of(x);
    out->grid[1] = out->grid[2] = 1;
    out->block[0] = 256;
    out->block[1] = out->block[2] = 1;
    out->shared_bytes = 0;
    out->n_args = 7;
    out->args[0] = (cameo_kernel_arg){CAMEO_ARG_INPUT, X, 0};
    out->args[1] = (cameo_kernel_arg){CAMEO_ARG_INPUT, RESIDUAL, 0};
    out->args[2] = (cameo_kernel_arg){CAMEO_ARG_INPUT, WEIGHT, 0};
    out->args[3] = (cameo_kernel_arg){CAMEO_ARG_OUTPUT, 0, 0};
    out->args[4] = has_sum ? sum : none;
    out->args[5] = (cameo_kernel_arg){CAMEO_ARG_INT, x->dims[x->rank - 1], 0};
    out->args[6] = (cameo_kernel_arg){CAMEO_ARG_FLOAT, 0, p->attrs[EPSILON].f};
    return CAMEO_OK;
}

static const cameo_plugin_tactic cuda_rows = {.size = sizeof cuda_rows,
                                              .name = "example_fused_norm_block",
                                              .device = CAMEO_CUDA,
                                              .reject = reject,
                                              .in_place = 1 + X,
                                              .source = kernel_text,
                                              .kernel = "fused_norm",
                                              .launch = launch};

/* ---- The plugin ------------------------------------------------------------------------------- */

static const cameo_plugin_tactic *const tactics[] = {&cpu_rows, &cuda_rows};

static const cameo_plugin_op fused_norm = {.size = sizeof fused_norm,
                                           .name = "example.FusedNorm",
                                           .min_inputs = 3,
                                           .max_inputs = 3,
                                           .min_outputs = 1,
                                           .max_outputs = 2,
                                           .traits = CAMEO_OP_PURE,
                                           .types = ": f32 f32 f32 -> f32 f32",
                                           .n_attrs = 1,
                                           .attrs = attrs,
                                           .rule = rule,
                                           .eval = eval,
                                           .n_tactics = 2,
                                           .tactics = tactics};

static const cameo_plugin_op *const ops[] = {&fused_norm};
static const cameo_plugin plugin = {.size = sizeof plugin,
                                    .abi = CAMEO_PLUGIN_ABI,
                                    .name = "fused_norm",
                                    .version = "1.0",
                                    .n_ops = 1,
                                    .ops = ops};

const cameo_plugin *cameo_plugin_entry(unsigned abi)
{
    return abi == CAMEO_PLUGIN_ABI ? &plugin : 0;
}
