/* wgmma.c -- settings of the kernels that use sm_90's products of warp groups.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/wgmma.h"

#include "base/size.h"

static const struct {
    cm_wgmma w;
    double efficiency; /* of the matrix units, between beginning and end of a tile */
} settings[] = {
    {{256, 4, 1, 1, 128, 0, 1}, 1.00}, {{192, 5, 1, 1, 128, 0, 1}, 1.06},
    {{128, 6, 1, 1, 128, 0, 1}, 0.97}, {{256, 4, 1, 2, 128, 0, 1}, 0.99},
    {{64, 8, 1, 1, 128, 0, 1}, 0.85},  {{128, 3, 2, 1, 128, 0, 1}, 0.76},
    {{64, 4, 2, 1, 128, 0, 1}, 0.67},  {{128, 4, 1, 1, 256, 0, 1}, 0.99},
    {{160, 5, 1, 1, 128, 0, 1}, 0.80}, {{224, 4, 1, 1, 128, 0, 1}, 0.91},
    {{64, 8, 1, 1, 128, 0, 2}, 0.85},  {{64, 8, 1, 1, 128, 0, 4}, 0.85},
    {{128, 6, 1, 1, 128, 0, 2}, 0.95}, {{128, 6, 1, 1, 128, 0, 3}, 0.95},
    {{128, 6, 1, 1, 128, 0, 4}, 0.95}, {{128, 6, 1, 1, 128, 1, 1}, 0.80},
    {{256, 5, 1, 2, 64, 1, 1}, 0.80},  {{128, 8, 1, 1, 64, 1, 1}, 0.85},
};

cm_wgmma cm_wgmma_of_knobs(const cm_knobs *k)
{
    return (cm_wgmma){k->v[0], k->v[1], k->v[2], k->v[3], k->v[4], k->v[5], k->v[6]};
}

int64_t cm_wgmma_places(const cm_wgmma *w, const cm_extent *e)
{
    return cm_ceil_div(e->m, w->rows * w->together) * cm_ceil_div(e->n, w->n) * e->matrices *
           w->splits;
}

int64_t cm_wgmma_blocks(const cm_gpu_facts *g, const cm_wgmma *w, const cm_extent *e)
{
    int64_t most = g->multiprocessors * w->per_multiprocessor / w->together;
    int64_t places = cm_wgmma_places(w, e);
    return w->splits > 1 ? places : cm_min_i64(places, most) * w->together;
}

cm_wgmma_room cm_wgmma_room_of(const cm_gpu_facts *g, const cm_wgmma *w, bool b_across,
                               const cm_whole *whole)
{
    enum { WARPS = 8, LINES = 8, ALIGN = 1024, BARRIER = 8, TURNS = 2 * BARRIER, LEAST = 4 };
    /* A multiprocessor has 1 KiB more for each block than blocks can ask for. */
    size_t most = (size_t)((g->shared_bytes + 1024) / w->per_multiprocessor - 1024) - ALIGN;
    int columns = b_across ? (w->n + 63) / 64 * 64 : w->n;
    size_t stage = (size_t)((w->rows + columns) * CM_WGMMA_LINE + 2 * BARRIER);
    size_t part = w->per_multiprocessor == 1 && w->n % 64 == 0 ? 64 : 32;
    cm_wgmma_room r = {.stages = w->stages};
    size_t out = WARPS * LINES * (part + 8) * sizeof(float),
           slot = (size_t)(WARPS * (16 * whole->line + BARRIER));
    if (whole->is) {
        int parts =
            w->rows * w->n * whole->size / (WARPS * 16 * whole->line) * (w->alternate ? 2 : 1);
        int least = w->per_multiprocessor == 1 && w->stages > LEAST ? LEAST : w->stages;
        out = (size_t)(WARPS * whole->vectors * w->n * whole->size);
        r.slots = whole->matrix >= 0 ? parts : parts < 2 ? 1 : 2;
        while (r.slots > 1 && (size_t)least * stage + out + (size_t)r.slots * slot > most)
            r.slots--;
        out += (size_t)r.slots * slot;
    }
    while (r.stages > 2 && (size_t)r.stages * stage + out + TURNS > most)
        r.stages--;
    r.bytes = ALIGN + (size_t)r.stages * stage + out + TURNS;
    return r;
}

/* What a multiprocessor needs to hand out one result, beside that for each function of it; a block to begin; splits to meet, beside
 * that for each of them and each column. */
static const double RESULT_NS = 0.02, FUNCTION_NS = 0.03, BEGIN_NS = 500;
static const double MEETING_NS = 500, COLUMN_NS = 11;

static double efficiency_of(const cm_wgmma *w)
{
    for (int i = 0; i < CM_COUNT(settings); i++) {
        const cm_wgmma *s = &settings[i].w;
        if (s->n == w->n && s->together == w->together && s->rows == w->rows &&
            s->alternate == w->alternate && s->per_multiprocessor == w->per_multiprocessor)
            return settings[i].efficiency;
    }
    return 0.6;
}

double cm_wgmma_cost(const cm_gpu_facts *g, const cm_wgmma *w, const cm_extent *e)
{
    double tflops = e->arithmetic == CM_ARITHMETIC_TF32 ? g->tf32_tflops : g->half_tflops;
    double rate = tflops * 1000 / g->multiprocessors * efficiency_of(w);
    int64_t steps = cm_ceil_div(cm_ceil_div(e->k * e->element, CM_WGMMA_LINE), w->splits);
    double k = (double)(steps * CM_WGMMA_LINE / e->element);
    double tile = 2.0 * w->rows * w->n * k / rate;
    double result = RESULT_NS + FUNCTION_NS * e->functions;
    double out = result * w->rows * w->n / w->per_multiprocessor;
    double busiest = (double)cm_ceil_div(cm_wgmma_places(w, e) * w->together, g->multiprocessors);
    /* One block of two that are meant to share a multiprocessor waits more. */
    double alone = w->per_multiprocessor == 2 && busiest < 2 ? 1.4 : 1;
    /* With few rows all is waiting for B, and few blocks ask for it. */
    double few = e->m < 64 ? 1.8 : 1;
    tile *= alone * few;
    double compute =
        w->alternate ? busiest * (tile > out ? tile : out) + out : busiest * (tile + out);
    /* Each round of clusters begins anew. */
    if (w->splits > 1)
        compute += busiest * (MEETING_NS + COLUMN_NS * w->splits * w->n) +
                   (busiest - 1) * (g->launch_ns + BEGIN_NS);
    double memory = e->bytes / (g->read_gbs * 0.8);
    return g->launch_ns + BEGIN_NS + (compute > memory ? compute : memory);
}

static const double SMALL_FLOPS = 1e8;

enum { MOST = 6 }; /* settings */

static bool usable(const cm_wgmma *w, const cm_extent *e, bool plain)
{
    if (plain && (w->per_multiprocessor > 1 || w->together > 1 || w->splits > 1 || w->alternate ||
                  w->rows != 128))
        return false;
    int64_t steps = cm_ceil_div(e->k * e->element, CM_WGMMA_LINE);
    return w->splits == 1 || steps >= 2 * w->splits;
}

int cm_wgmma_choose(const cm_gpu_facts *g, const cm_extent *e, bool plain, cm_knobs *out)
{
    double ns[CM_COUNT(settings)];
    int n = 0;
    for (int i = 0; i < CM_COUNT(settings); i++) {
        const cm_wgmma *w = &settings[i].w;
        if (!usable(w, e, plain))
            continue;
        double cost = cm_wgmma_cost(g, w, e);
        int at = n++;
        for (; at > 0 && ns[at - 1] > cost; at--) {
            ns[at] = ns[at - 1];
            out[at] = out[at - 1];
        }
        ns[at] = cost;
        out[at] = (cm_knobs){{w->n, w->stages, w->per_multiprocessor, w->together, w->rows,
                              w->alternate, w->splits}};
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

void cm_wgmma_text(const cm_wgmma *w, const cm_wgmma_room *room, cm_dtype type, bool a_across,
                   bool b_across, cm_buf *out)
{
    /* Only 16-bit elements may lie across. */
    const char *across = type == CM_F32 ? ""
                         : a_across     ? b_across ? ", 1, 1" : ", 1, 0"
                         : b_across     ? ", 0, 1"
                                        : ", 0, 0";
    put_instruction(out, w->n, type == CM_F32 ? "tf32" : cm_element_text(type),
                    32 / (int)cm_dtype_size(type), across);
    cm_buf_printf(out,
                  "#define ELEMENT %s\n#define TILE_N %d\n#define STAGES %d\n#define SLOTS %d\n"
                  "#define BLOCKS_M %d\n#define ALTERNATE %d\n",
                  cm_element_text(type), w->n, room->stages, room->slots,
                  w->rows / (w->alternate ? 64 : 128), w->alternate);
}
