/* wgmma.c -- settings of the kernels that use sm_90's products of warp groups.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/wgmma.h"

#include "base/size.h"
#include "cuda/ranking.h"

static const struct {
    cm_wgmma w;
    double slow;       /* factor of the time of its tiles, over what the model knows */
    double meeting_ns; /* of splits */
} settings[] = {
    {{256, 4, 1, 1, 128, 0, 1}, 1.00, 0},    {{192, 5, 1, 1, 128, 0, 1}, 1.00, 0},
    {{128, 6, 1, 1, 128, 0, 1}, 1.05, 0},    {{256, 4, 1, 2, 128, 0, 1}, 1.00, 0},
    {{96, 8, 1, 1, 128, 0, 1}, 1.00, 0},     {{64, 8, 1, 1, 128, 0, 1}, 1.00, 0},
    {{128, 4, 1, 1, 256, 0, 1}, 1.03, 0},    {{192, 4, 1, 1, 192, 0, 1}, 1.00, 0},
    {{128, 5, 1, 1, 192, 0, 1}, 1.00, 0},    {{160, 5, 1, 1, 128, 0, 1}, 1.25, 0},
    {{224, 4, 1, 1, 128, 0, 1}, 1.22, 0},    {{128, 3, 2, 1, 128, 0, 1}, 1.40, 0},
    {{64, 4, 2, 1, 128, 0, 1}, 1.40, 0},     {{192, 5, 1, 1, 128, 1, 1}, 1.00, 0},
    {{192, 5, 1, 2, 128, 1, 1}, 0.99, 0},    {{160, 5, 1, 1, 128, 1, 1}, 1.00, 0},
    {{128, 6, 1, 1, 128, 1, 1}, 1.10, 0},    {{256, 5, 1, 2, 64, 1, 1}, 1.15, 0},
    {{128, 8, 1, 1, 64, 1, 1}, 1.20, 0},     {{64, 8, 1, 1, 128, 0, 2}, 1.00, 1800},
    {{64, 8, 1, 1, 128, 0, 4}, 1.00, 1900},  {{64, 8, 1, 1, 128, 0, 8}, 1.00, 2250},
    {{80, 8, 1, 1, 128, 0, 3}, 1.00, 3500},  {{96, 8, 1, 1, 128, 0, 2}, 1.00, 1650},
    {{96, 8, 1, 1, 128, 0, 3}, 1.00, 3200},  {{96, 8, 1, 1, 128, 0, 4}, 1.00, 2300},
    {{128, 6, 1, 1, 128, 0, 2}, 1.05, 2700}, {{128, 6, 1, 1, 128, 0, 4}, 1.05, 3200},
    {{192, 5, 1, 1, 128, 0, 1, 1}, 1.17, 0},
};

cm_wgmma cm_wgmma_of_knobs(const cm_knobs *k)
{
    return (cm_wgmma){k->v[0], k->v[1],      k->v[2], k->v[3],
                      k->v[4], k->v[5] == 1, k->v[6], k->v[5] == 2};
}

int cm_wgmma_groups(const cm_wgmma *w)
{
    return w->rows == 192 ? 3 : 2;
}

unsigned cm_wgmma_threads(const cm_wgmma *w)
{
    return (unsigned)cm_wgmma_groups(w) * 128 + (w->per_multiprocessor == 1 ? 128 : 32);
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
    enum { LINES = 8, ALIGN = 1024, BARRIER = 8, TURNS = 3 * BARRIER, LEAST = 4 };
    int warps = cm_wgmma_groups(w) * 4;
    /* A multiprocessor has 1 KiB more for each block than blocks can ask for. */
    size_t most = (size_t)((g->shared_bytes + 1024) / w->per_multiprocessor - 1024) - ALIGN;
    int columns = b_across ? (w->n + 63) / 64 * 64 : w->n;
    size_t stage = (size_t)((w->rows + columns) * CM_WGMMA_LINE + 2 * BARRIER);
    size_t part = w->per_multiprocessor == 1 && w->n % 64 == 0 ? 64 : 32;
    cm_wgmma_room r = {.stages = w->stages};
    size_t out = (size_t)warps * LINES * (part + 8) * sizeof(float),
           slot = (size_t)(warps * (16 * whole->line + BARRIER));
    if (w->splits > 1) { /* as kernels/meeting.cuh has it */
        int share = (w->n / 8 + w->splits - 1) / w->splits * 8;
        out = (size_t)((w->splits - 1) * w->rows * share) * sizeof(float);
    }
    if (whole->is) {
        int parts =
            w->rows * w->n * whole->size / (warps * 16 * whole->line) * (w->alternate ? 2 : 1);
        int least = w->per_multiprocessor == 1 && w->stages > LEAST ? LEAST : w->stages;
        out = (size_t)(warps * whole->vectors * w->n * whole->size);
        r.slots = whole->matrix >= 0 ? parts : 1;
        while (r.slots > 1 && (size_t)least * stage + out + (size_t)r.slots * slot > most)
            r.slots--;
        out += (size_t)r.slots * slot;
    }
    while (r.stages > 2 && (size_t)r.stages * stage + out + TURNS > most)
        r.stages--;
    r.bytes = ALIGN + (size_t)r.stages * stage + out + TURNS;
    return r;
}

/* Of one multiprocessor, in ns: to hand out a result, beside that for each matrix that is added to it and each function of it; where
 * the other warp group multiplies meanwhile. */
static const double RESULT_NS = 0.066, ADDED_NS = 0.04, FUNCTION_NS = 0.055;
static const double BESIDE_RESULT_NS = 0.028, BESIDE_FUNCTION_NS = 0.035,
                    BESIDE_ADDED = 0.5;     /* of what it costs else */
static const double BEGIN_SHARE = 0.63;     /* of the time of a launch */
static const double MEETING_ADDED_NS = 300; /* where splits meet and a matrix is added */
static const double SHARED_BYTES_NS = 290;  /* of shared memory, in a ns */
/* What products and bulk copies reach of the facts' rates, on a GPU that has nothing else to do and on one that is full; copies
 * beside the results of earlier tiles. */
static const double PRODUCTS[] = {1.25, 1.15}, COPIES[] = {3.9, 3.7}, COPIES_LATER = 0.74;

/* The setting's row; that of another number of splits where there is none. -1: not one of them. */
static int row_of(const cm_wgmma *w)
{
    int found = -1;
    for (int i = 0; i < CM_COUNT(settings); i++) {
        const cm_wgmma *s = &settings[i].w;
        bool same = s->n == w->n && s->together == w->together && s->rows == w->rows &&
                    s->alternate == w->alternate && s->late == w->late &&
                    s->per_multiprocessor == w->per_multiprocessor;
        if (same && (s->splits == w->splits || found < 0))
            found = i;
    }
    return found;
}
static double slow_of(const cm_wgmma *w)
{
    int row = row_of(w);
    return row < 0 ? 1.5 : settings[row].slow;
}
static double meeting_of(const cm_wgmma *w)
{
    static const double OTHERS_NS = 5000;
    int row = row_of(w);
    return row >= 0 && settings[row].w.splits == w->splits ? settings[row].meeting_ns : OTHERS_NS;
}

static double between(const double *ends, double share)
{
    return ends[0] + (ends[1] - ends[0]) * share;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* One multiprocessor's time for a step of 128 bytes of k: products; copies into shared memory, those that two blocks share count
 * three quarters; reading and writing that memory, B for each 64 rows. */
typedef struct {
    double products, copies;
} step_time;

static step_time step_of(const cm_gpu_facts *g, const cm_wgmma *w, const cm_extent *e, double busy,
                         bool later)
{
    double tflops = e->arithmetic == CM_ARITHMETIC_TF32 ? g->tf32_tflops : g->half_tflops;
    double rate = tflops * 1000 / g->multiprocessors * between(PRODUCTS, busy);
    double in =
        g->read_gbs / g->multiprocessors * between(COPIES, busy) * (later ? COPIES_LATER : 1);
    double k = (double)CM_WGMMA_LINE / e->element, line = CM_WGMMA_LINE;
    double a = w->rows * line, b = w->n * line, read = a + w->rows / 64 * b;
    return (step_time){larger(2.0 * w->rows * w->n * k / rate, (a + b + read) / SHARED_BYTES_NS) *
                           slow_of(w),
                       (a + (w->together > 1 ? 0.75 : 1) * b) / in * slow_of(w)};
}

/* Blocks that a multiprocessor has to do. Clusters do not leave their group of 16 or so multiprocessors, where some stay idle: what part of
 * all can work at once, by the blocks of a cluster, as an H200 says. */
static double busiest_of(const cm_gpu_facts *g, const cm_wgmma *w, int64_t blocks)
{
    static const double PARTS[] = {1, 1, 1, 0.89, 0.91, 0.84, 0.78, 0.8, 0.91};
    double part = w->splits < CM_COUNT(PARTS) ? PARTS[w->splits] : 0.5;
    int64_t at_once = (int64_t)(g->multiprocessors * part) / w->splits;
    return (double)cm_ceil_div(blocks / w->splits, at_once > 0 ? at_once : 1);
}

double cm_wgmma_cost(const cm_gpu_facts *g, const cm_wgmma *w, const cm_extent *e)
{
    int64_t blocks = cm_wgmma_places(w, e) * w->together;
    double busiest = busiest_of(g, w, blocks);
    double busy = blocks < g->multiprocessors ? (double)blocks / g->multiprocessors : 1;
    int64_t steps = cm_ceil_div(cm_ceil_div(e->k * e->element, CM_WGMMA_LINE), w->splits);
    step_time step = step_of(g, w, e, busy, busiest > 1);
    /* With few rows all is waiting for B, and few blocks ask for it. */
    double few = e->m < 64 ? 1.8 : 1, products = step.products * (double)steps * few,
           copies = step.copies * (double)steps * few;
    double results = w->rows * w->n, groups = cm_wgmma_groups(w) / 2.0;
    double added = ADDED_NS * e->added * (groups > 1 ? 1.27 : 1);
    double out = (RESULT_NS + added + FUNCTION_NS * e->functions / groups) * results /
                 w->per_multiprocessor / w->splits * (w->alternate ? 2 : 1);
    double hidden =
        w->alternate || w->late
            ? (BESIDE_RESULT_NS + BESIDE_ADDED * added + BESIDE_FUNCTION_NS * e->functions) *
                  results
            : out;
    /* The next tile is copied while one is handed out. */
    double compute =
        (busiest - 1) * larger(copies, products + hidden) + larger(copies, products) + out;
    if (w->splits > 1) /* each round of clusters begins anew */
        compute += busiest * (meeting_of(w) + MEETING_ADDED_NS * e->added) * (1 + 0.15 * busy) +
                   (busiest - 1) * 2 * g->launch_ns;
    return g->launch_ns * BEGIN_SHARE + larger(compute, e->bytes / (g->read_gbs * 0.8));
}

static const double SMALL_FLOPS = 1e8;

enum { MOST = 8 }; /* settings */

/* Do few blocks side by side, which wait for each other and are each alone on a multiprocessor, have whole rows? */
static bool tells_rows(const cm_gpu_facts *g, const cm_wgmma *w, const cm_extent *e)
{
    enum { MOST_MEMBERS = 8 };
    int64_t members = e->n / w->n;
    return w->splits == 1 && w->together == 1 && w->per_multiprocessor == 1 && !w->late &&
           e->n % w->n == 0 && members <= MOST_MEMBERS && members <= g->multiprocessors;
}

enum { BLOCK = 64 }; /* columns of a B that lies across, in one copy */

static bool usable(const cm_gpu_facts *g, const cm_wgmma *w, const cm_extent *e,
                   cm_wgmma_kernel kernel)
{
    if (kernel == CM_WGMMA_PLAIN && (w->per_multiprocessor > 1 || w->together > 1 ||
                                     w->splits > 1 || w->alternate || w->rows != 128))
        return false;
    if (kernel == CM_WGMMA_ACROSS && w->together > 1 && w->n / w->together % BLOCK != 0)
        return false;
    if (kernel == CM_WGMMA_ROWS && !tells_rows(g, w, e))
        return false;
    if (kernel == CM_WGMMA_IMAGES && cm_wgmma_groups(w) > 2)
        return false;
    if (w->late && kernel != CM_WGMMA_ALL && kernel != CM_WGMMA_ACROSS)
        return false;
    int64_t steps = cm_ceil_div(e->k * e->element, CM_WGMMA_LINE);
    return w->splits == 1 || steps >= 2 * w->splits;
}

int cm_wgmma_choose(const cm_gpu_facts *g, const cm_extent *e, cm_wgmma_kernel kernel,
                    cm_knobs *out)
{
    double flops = 2.0 * (double)e->m * (double)e->n * (double)e->k * (double)e->matrices;
    /* Small ones are all alike. */
    cm_ranking r = {.most = flops < SMALL_FLOPS ? 1 : MOST, .out = out};
    for (int i = 0; i < CM_COUNT(settings); i++) {
        const cm_wgmma *w = &settings[i].w;
        if (!usable(g, w, e, kernel))
            continue;
        cm_knobs k = {{w->n, w->stages, w->per_multiprocessor, w->together, w->rows,
                       w->late ? 2 : w->alternate, w->splits}};
        cm_rank(&r, &k, cm_wgmma_cost(g, w, e));
    }
    return r.n;
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

bool cm_wgmma_is_late(const cm_wgmma *w, const cm_extent *e, const cm_whole *whole,
                      const cm_wgmma_room *room)
{
    /* Two pieces of 16 columns (8 of four bytes) stand beside each stage but the first; a part that a matrix is added to has its slot. */
    int64_t steps = cm_ceil_div(e->k * e->element, CM_WGMMA_LINE);
    int line = w->rows / 64 / cm_wgmma_groups(w) * w->n *
               whole->size; /* bytes of a warp's results, 16 rows each */
    return w->late && whole->is && steps > line / 64 &&
           (whole->matrix < 0 || room->slots == line / whole->line);
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
                  "#define GROUPS %d\n#define BLOCKS_M %d\n#define ALTERNATE %d\n"
                  "#define LATE %d\n",
                  cm_element_text(type), w->n, room->stages, room->slots, cm_wgmma_groups(w),
                  w->rows / (w->alternate ? 64 : cm_wgmma_groups(w) * 64), w->alternate, w->late);
}
