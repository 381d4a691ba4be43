/* wgmma.c -- settings of the kernels that use sm_90's products of warp groups.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/wgmma.h"

#include "base/size.h"
#include "cuda/epilogue_text.h"

static const struct {
    cm_wgmma w;
    double efficiency; /* of the matrix units, between beginning and end of a tile */
} settings[] = {
    {{256, 4, 1, 1}, 1.00}, {{192, 5, 1, 1}, 0.98}, {{128, 6, 1, 1}, 0.97}, {{256, 4, 1, 2}, 0.99},
    {{64, 8, 1, 1}, 0.85},  {{128, 3, 2, 1}, 0.76}, {{64, 4, 2, 1}, 0.67},
};

cm_wgmma cm_wgmma_of_knobs(const cm_knobs *k)
{
    return (cm_wgmma){k->v[0], k->v[1], k->v[2], k->v[3]};
}

int64_t cm_wgmma_places(const cm_wgmma *w, const cm_extent *e)
{
    return cm_ceil_div(e->m, CM_WGMMA_ROWS * w->together) * cm_ceil_div(e->n, w->n) * e->matrices;
}

int64_t cm_wgmma_blocks(const cm_gpu_facts *g, const cm_wgmma *w, const cm_extent *e)
{
    int64_t most = g->multiprocessors * w->per_multiprocessor / w->together;
    return cm_min_i64(cm_wgmma_places(w, e), most) * w->together;
}

size_t cm_wgmma_shared(const cm_wgmma *w)
{
    enum { WARPS = 8, LINES = 8, ALIGN = 1024, BARRIERS = 16 };
    size_t part = w->per_multiprocessor == 1 ? 64 : 32;
    return ALIGN + (size_t)w->stages * (size_t)((CM_WGMMA_ROWS + w->n) * CM_WGMMA_LINE + BARRIERS) +
           WARPS * LINES * (part + 8) * sizeof(float);
}

/* What a multiprocessor needs to hand out one result, and a block to begin. */
static const double RESULT_NS = 0.045, BEGIN_NS = 500;

double cm_wgmma_cost(const cm_gpu_facts *g, const cm_wgmma *w, const cm_extent *e)
{
    double efficiency = 0.6;
    for (int i = 0; i < CM_COUNT(settings); i++)
        if (settings[i].w.n == w->n && settings[i].w.together == w->together &&
            settings[i].w.per_multiprocessor == w->per_multiprocessor)
            efficiency = settings[i].efficiency;
    double tflops = e->arithmetic == CM_ARITHMETIC_TF32 ? g->tf32_tflops : g->half_tflops;
    double rate = tflops * 1000 / g->multiprocessors * efficiency;
    double k = (double)(cm_ceil_div(e->k * e->element, CM_WGMMA_LINE) * CM_WGMMA_LINE / e->element);
    double tile = 2.0 * CM_WGMMA_ROWS * w->n * k / rate;
    double out = RESULT_NS * CM_WGMMA_ROWS * w->n / w->per_multiprocessor;
    double busiest = (double)cm_ceil_div(cm_wgmma_places(w, e) * w->together, g->multiprocessors);
    /* One block of two that are meant to share a multiprocessor waits more. */
    double alone = w->per_multiprocessor == 2 && busiest < 2 ? 1.4 : 1;
    /* With few rows all is waiting for B, and few blocks ask for it. */
    double few = e->m < CM_WGMMA_ROWS / 2 ? 1.8 : 1;
    double compute = busiest * (tile * alone * few + out), memory = e->bytes / (g->read_gbs * 0.8);
    return g->launch_ns + BEGIN_NS + (compute > memory ? compute : memory);
}

static const double SMALL_FLOPS = 1e8;

enum { MOST = 4 }; /* settings */

int cm_wgmma_choose(const cm_gpu_facts *g, const cm_extent *e, bool shares, cm_knobs *out)
{
    double ns[CM_COUNT(settings)];
    int n = 0;
    for (int i = 0; i < CM_COUNT(settings); i++) {
        const cm_wgmma *w = &settings[i].w;
        if (!shares && (w->per_multiprocessor > 1 || w->together > 1))
            continue;
        double cost = cm_wgmma_cost(g, w, e);
        int at = n++;
        for (; at > 0 && ns[at - 1] > cost; at--) {
            ns[at] = ns[at - 1];
            out[at] = out[at - 1];
        }
        ns[at] = cost;
        out[at] = (cm_knobs){{w->n, w->stages, w->per_multiprocessor, w->together}};
    }
    double flops = 2.0 * (double)e->m * (double)e->n * (double)e->k * (double)e->matrices;
    return flops < SMALL_FLOPS ? 1 : n < MOST ? n : MOST; /* small ones are all alike */
}

/* wgmma(): 64 rows by n columns from k of k; across: the last of the instruction's arguments. */
static void put_instruction(cm_buf *out, int n, const char *type, int k, const char *across)
{
    int sums = n / 2;
    cm_buf_printf(
        out,
        "static __device__ __forceinline__ void wgmma(float (&d)[%d], unsigned long long a,"
        " unsigned long long b, int add)\n{\n    asm volatile(\"{\\n\\t.reg .pred p;\\n\\t"
        "setp.ne.b32 p, %%%d, 0;\\n\\twgmma.mma_async.sync.aligned.m64n%dk%d.f32.%s.%s {",
        sums, sums + 2, n, k, type, type);
    for (int i = 0; i < sums; i++)
        cm_buf_printf(out, "%s%%%d", i ? ", " : "", i);
    cm_buf_printf(out, "}, %%%d, %%%d, p, 1, 1%s;\\n\\t}\"\n        : ", sums, sums + 1, across);
    for (int i = 0; i < sums; i++)
        cm_buf_printf(out, "%s\"+f\"(d[%d])", i ? ", " : "", i);
    cm_buf_str(out, "\n        : \"l\"(a), \"l\"(b), \"r\"(add));\n}\n");
}

void cm_wgmma_text(const cm_wgmma *w, cm_dtype type, bool a_across, bool b_across, cm_buf *out)
{
    /* Only 16-bit elements may lie across. */
    const char *across = type == CM_F32 ? ""
                         : a_across     ? b_across ? ", 1, 1" : ", 1, 0"
                         : b_across     ? ", 0, 1"
                                        : ", 0, 0";
    put_instruction(out, w->n, type == CM_F32 ? "tf32" : cm_element_text(type),
                    32 / (int)cm_dtype_size(type), across);
    cm_buf_printf(out, "#define ELEMENT %s\n#define TILE_N %d\n#define STAGES %d\n",
                  cm_element_text(type), w->n, w->stages);
}
