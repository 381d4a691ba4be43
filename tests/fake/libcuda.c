/* libcuda.c -- a CUDA driver without a GPU, for tests of everything around kernels.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the device is the host's. What is enqueued runs at once, or when the graph that it was captured into is
 * launched. Kernels do nothing: what they should write stays as it was, zeros at first. In the environment:
 *     FAKE_CUDA_RUN=FOLDER    kernels that come as PTX (libnvrtc.c beside this) run, slowly; FOLDER keeps their translations
 *     FAKE_CUDA_RAN=FILE      a line is added for each image of which a kernel ran
 *     FAKE_CUDA_ABORT=ENTRY   a launch of a kernel whose name begins so ends the process
 *     FAKE_CUDA_HANG=ENTRY    ... never returns
 *     FAKE_CUDA_FAULT=ENTRY   ... fails as one at a wrong address does, and so does every call after it
 *     FAKE_CUDA_MULTIPROCESSORS=N (132)
 * fake_cuda_count tells how often a function was called. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/driver.h"
#include "kernels.h"
#include "tensor_map.h"

#define API __attribute__((visibility("default")))

enum { MOST_NODES = 4096, MOST_COUNTS = 128, CAPTURE_BROKEN = 901, UPDATE_FAILED = 910 };

typedef enum { COPY, FILL, KERNEL, EVENT } work_kind;

typedef struct {
    work_kind kind;
    void *to;
    const void *from;
    size_t n;
    int value;
    fake_launch *launch; /* kernels that run */
} work;

struct cm_cu_graph {
    int n;
    work w[MOST_NODES];
};
struct cm_cu_exec {
    struct cm_cu_graph g;
};
struct cm_cu_stream {
    struct cm_cu_graph *capturing;
};
struct cm_cu_event {
    double ms;
};
struct cm_cu_module {
    fake_module *runs; /* NULL: its kernels do nothing */
};
struct cm_cu_function {
    char name[64];
    fake_module *runs;
};

static int sticky; /* what every call gives from now on */
static double clock_ms;
static struct {
    const char *name;
    int n;
} counts[MOST_COUNTS];

API int fake_cuda_count(const char *name);
int fake_cuda_count(const char *name)
{
    for (int i = 0; i < MOST_COUNTS && counts[i].name; i++)
        if (!strcmp(counts[i].name, name))
            return counts[i].n;
    return 0;
}

static int count(const char *name)
{
    int i = 0;
    while (i < MOST_COUNTS - 1 && counts[i].name && strcmp(counts[i].name, name) != 0)
        i++;
    counts[i].name = name;
    counts[i].n++;
    return sticky;
}
#define ENTER                                                                                      \
    do {                                                                                           \
        if (count(__func__))                                                                       \
            return sticky;                                                                         \
    } while (0)

static void perform(const work *w)
{
    clock_ms += 0.001; /* everything takes a microsecond */
    if (w->kind == COPY)
        memmove(w->to, w->from, w->n);
    else if (w->kind == FILL)
        memset(w->to, w->value, w->n);
    else if (w->kind == EVENT)
        ((struct cm_cu_event *)w->to)->ms = clock_ms;
    else if (w->launch)
        fake_launch_run(w->launch);
}

static int give(cm_cu_stream s, work w)
{
    if (!s->capturing) {
        perform(&w);
        free(w.launch); /* what was captured is kept: graphs share it */
    } else if (s->capturing->n == MOST_NODES)
        return CM_CU_OUT_OF_MEMORY;
    else
        s->capturing->w[s->capturing->n++] = w;
    return 0;
}

static int is_named(const char *variable, const char *entry)
{
    const char *name = getenv(variable);
    return name && !strncmp(name, entry, strlen(name));
}

/* clang-format off */
#define F(name, arguments) API int name arguments; int name arguments
F(cuInit, (unsigned flags)) { ENTER; return (int)flags; }
F(cuDriverGetVersion, (int *version)) { ENTER; *version = 12040; return 0; }
F(cuGetErrorString, (int error, const char **text))
{
    static char said[32];
    snprintf(said, sizeof said, "fake error %d", error);
    *text = said;
    return 0;
}
F(cuDeviceGetCount, (int *n)) { ENTER; *n = 1; return 0; }
F(cuDeviceGet, (int *device, int ordinal)) { ENTER; *device = ordinal; return 0; }
F(cuDeviceGetName, (char *name, int n, int device)) { ENTER; snprintf(name, (size_t)n, "fake %d", device); return 0; }
F(cuDeviceTotalMem_v2, (size_t *bytes, int device)) { ENTER; *bytes = (size_t)(device + 1) << 30; return 0; }
F(cuDeviceGetAttribute, (int *value, int attribute, int device))
{
    ENTER;
    static const struct { int id, value; } known[] = {
        {CM_CU_CLOCK_KHZ, 1980000}, {CM_CU_SM_COUNT, 132}, {CM_CU_MEMORY_CLOCK_KHZ, 3201000},
        {CM_CU_MEMORY_BUS_BITS, 6144}, {CM_CU_L2_BYTES, 60 << 20}, {CM_CU_MAJOR, 9}, {CM_CU_MINOR, 0},
        {CM_CU_SHARED_OPTIN, 227 << 10}};
    const char *multiprocessors = getenv("FAKE_CUDA_MULTIPROCESSORS");
    *value = device;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].id == attribute)
            *value = known[i].value;
    if (attribute == CM_CU_SM_COUNT && multiprocessors)
        *value = atoi(multiprocessors);
    return 0;
}
F(cuDevicePrimaryCtxRetain, (cm_cu_context *out, int device)) { ENTER; *out = (cm_cu_context)&sticky; return device; }
F(cuDevicePrimaryCtxRelease_v2, (int device)) { ENTER; return device; }
F(cuCtxPushCurrent_v2, (cm_cu_context c)) { return c ? 0 : 1; }
F(cuCtxPopCurrent_v2, (cm_cu_context *c)) { *c = (cm_cu_context)&sticky; return 0; }
F(cuMemGetInfo_v2, (size_t *unused, size_t *total)) { ENTER; *unused = *total = (size_t)1 << 30; return 0; }
F(cuMemAlloc_v2, (cm_cu_address *out, size_t bytes))
{
    ENTER;
    void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!p)
        return CM_CU_OUT_OF_MEMORY;
    memset(p, 0, bytes);
    *out = (cm_cu_address)(uintptr_t)p;
    return 0;
}
F(cuMemFree_v2, (cm_cu_address p)) { free((void *)(uintptr_t)p); return count(__func__); }
F(cuMemHostAlloc, (void **out, size_t bytes, unsigned flags))
{
    ENTER;
    *out = calloc(1, bytes + flags);
    return *out ? 0 : CM_CU_OUT_OF_MEMORY;
}
F(cuMemFreeHost, (void *p)) { free(p); return count(__func__); }
static int copy(void *to, const void *from, size_t n, cm_cu_stream s)
{
    return give(s, (work){.kind = COPY, .to = to, .from = from, .n = n});
}
F(cuMemcpyHtoDAsync_v2, (cm_cu_address to, const void *from, size_t n, cm_cu_stream s))
{ ENTER; return copy((void *)(uintptr_t)to, from, n, s); }
F(cuMemcpyDtoHAsync_v2, (void *to, cm_cu_address from, size_t n, cm_cu_stream s))
{ ENTER; return copy(to, (void *)(uintptr_t)from, n, s); }
F(cuMemcpyDtoDAsync_v2, (cm_cu_address to, cm_cu_address from, size_t n, cm_cu_stream s))
{ ENTER; return copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, n, s); }
F(cuMemsetD8Async, (cm_cu_address to, unsigned char v, size_t n, cm_cu_stream s))
{ ENTER; return give(s, (work){.kind = FILL, .to = (void *)(uintptr_t)to, .value = v, .n = n}); }
F(cuStreamCreate, (cm_cu_stream *out, unsigned flags))
{ ENTER; *out = calloc(1, sizeof **out + flags); return *out ? 0 : CM_CU_OUT_OF_MEMORY; }
F(cuStreamDestroy_v2, (cm_cu_stream s)) { free(s); return count(__func__); }
F(cuStreamSynchronize, (cm_cu_stream s)) { ENTER; return s->capturing ? CAPTURE_BROKEN : 0; }
F(cuStreamBeginCapture_v2, (cm_cu_stream s, int mode))
{ ENTER; s->capturing = calloc(1, sizeof *s->capturing + (size_t)mode); return s->capturing ? 0 : CM_CU_OUT_OF_MEMORY; }
F(cuStreamEndCapture, (cm_cu_stream s, cm_cu_graph *out))
{ *out = s->capturing; s->capturing = NULL; return count(__func__); }
F(cuGraphInstantiateWithFlags, (cm_cu_exec *out, cm_cu_graph g, unsigned long long flags))
{
    ENTER;
    *out = calloc(1, sizeof **out + flags);
    if (!*out)
        return CM_CU_OUT_OF_MEMORY;
    (*out)->g = *g;
    return 0;
}
F(cuGraphExecUpdate_v2, (cm_cu_exec e, cm_cu_graph g, void *info))
{
    ENTER;
    memset(info, 0, 1);
    for (int i = 0; i < g->n; i++)
        if (g->n != e->g.n || g->w[i].kind != e->g.w[i].kind)
            return UPDATE_FAILED;
    e->g = *g;
    return 0;
}
F(cuGraphLaunch, (cm_cu_exec e, cm_cu_stream s))
{
    ENTER;
    for (int i = 0; i < e->g.n; i++)
        perform(&e->g.w[i]);
    return s->capturing ? CAPTURE_BROKEN : 0;
}
F(cuGraphDestroy, (cm_cu_graph g)) { free(g); return count(__func__); }
F(cuGraphExecDestroy, (cm_cu_exec e)) { free(e); return count(__func__); }
F(cuEventCreate, (cm_cu_event *out, unsigned flags))
{ ENTER; *out = calloc(1, sizeof **out + flags); return *out ? 0 : CM_CU_OUT_OF_MEMORY; }
F(cuEventDestroy_v2, (cm_cu_event e)) { free(e); return count(__func__); }
F(cuEventRecordWithFlags, (cm_cu_event e, cm_cu_stream s, unsigned flags))
{ ENTER; return give(s, (work){.kind = EVENT, .to = e, .value = (int)flags}); }
F(cuEventRecord, (cm_cu_event e, cm_cu_stream s))
{ ENTER; return s->capturing ? 0 : give(s, (work){.kind = EVENT, .to = e}); }
F(cuEventSynchronize, (cm_cu_event e)) { ENTER; return e->ms < 0; }
F(cuEventElapsedTime, (float *ms, cm_cu_event from, cm_cu_event to))
{ ENTER; *ms = (float)(to->ms - from->ms); return 0; }
F(cuModuleLoadData, (cm_cu_module *out, const void *image))
{
    ENTER;
    const char *folder = getenv("FAKE_CUDA_RUN");
    *out = calloc(1, sizeof **out);
    if (!*out || !image)
        return CM_CU_OUT_OF_MEMORY;
    if (folder && !((*out)->runs = fake_module_load(folder, image)))
        return CM_CU_NO_BINARY;
    return 0;
}
F(cuModuleUnload, (cm_cu_module m)) { fake_module_unload(m->runs); free(m); return count(__func__); }
F(cuModuleGetFunction, (cm_cu_function *out, cm_cu_module m, const char *name))
{
    ENTER;
    static struct cm_cu_function functions[4096]; /* they live as long as their module */
    static int n;
    if (!m || n == 4096)
        return CM_CU_OUT_OF_MEMORY;
    snprintf(functions[n].name, sizeof functions[n].name, "%s", name);
    functions[n].runs = m->runs;
    *out = &functions[n++];
    return 0;
}
F(cuFuncSetAttribute, (cm_cu_function f, int attribute, int value)) { ENTER; return !f->name[0] || attribute < 0 || value < 0; }
F(cuLaunchKernelEx, (const cm_cu_launch *l, cm_cu_function f, void **args, void **extra))
{
    ENTER;
    if (is_named("FAKE_CUDA_ABORT", f->name))
        abort();
    while (is_named("FAKE_CUDA_HANG", f->name))
        sleep(1);
    if (is_named("FAKE_CUDA_FAULT", f->name))
        return sticky = CM_CU_ILLEGAL_ADDRESS;
    if (!args || extra)
        return 1;
    work w = {.kind = KERNEL, .from = f};
    ptx_launch how = {.shared_bytes = l->shared_bytes};
    for (int i = 0; i < 3; i++) {
        how.grid[i] = l->grid[i];
        how.block[i] = l->block[i];
    }
    for (unsigned i = 0; i < l->n_attributes; i++)
        if (l->attributes[i].id == CM_CU_ATTRIBUTE_CLUSTER)
            how.cluster = l->attributes[i].value.cluster[0];
        else if (l->attributes[i].id == CM_CU_ATTRIBUTE_TOGETHER && l->attributes[i].value.flag)
            how.together = 1;
    if (f->runs && !(w.launch = fake_launch_make(f->runs, f->name, &how, args)))
        return CM_CU_OUT_OF_MEMORY;
    return give(l->stream, w);
}
/* Maps are kept for good: who made one may use it at any time. */
static tensor_map *new_map(void *map, int type, unsigned rank, void *base, const uint64_t *dims, const uint64_t *strides,
                           const uint32_t *steps, int swizzle)
{
    static const int sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2}, swizzles[] = {0, 32, 64, 128};
    tensor_map *m = calloc(1, sizeof *m);
    *m = (tensor_map){.magic = TENSOR_MAP_MAGIC, .rank = (int)rank, .size = sizes[type], .base = base, .swizzle = swizzles[swizzle]};
    memcpy(m->dims, dims, rank * sizeof *dims);
    memcpy(m->strides, strides, (rank - 1) * sizeof *strides);
    memcpy(m->steps, steps, rank * sizeof *steps);
    memset(map, 0, 128);
    memcpy(map, &m, sizeof m);
    return m;
}
/* What the driver refuses too. */
static int wrong_map(unsigned rank, const void *base, const uint64_t *dims, const uint64_t *strides, int interleave, int swizzle, int promotion, int fill)
{
    if (rank < 3 || rank > 5 || !base || (uintptr_t)base % 16 || interleave || fill || swizzle < 0 || swizzle > 3 || promotion < 0)
        return 1;
    for (unsigned i = 0; i < rank; i++)
        if (dims[i] == 0 || dims[i] > 1ull << 32 || (i + 1 < rank && (strides[i] % 16 || strides[i] >= 1ull << 40)))
            return 1;
    return 0;
}
F(cuTensorMapEncodeTiled, (void *map, int type, unsigned rank, void *base, const uint64_t *dims, const uint64_t *strides,
   const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill))
{
    ENTER;
    if (wrong_map(rank, base, dims, strides, interleave, swizzle, promotion, fill))
        return 1;
    if (getenv("FAKE_CUDA_RUN"))
        memcpy(new_map(map, type, rank, base, dims, strides, steps, swizzle)->box, box, rank * sizeof *box);
    for (unsigned i = 0; i < rank; i++)
        if (box[i] == 0 || box[i] > 256)
            return 1;
    return 0;
}
F(cuTensorMapEncodeIm2col, (void *map, int type, unsigned rank, void *base, const uint64_t *dims, const uint64_t *strides,
   const int *low, const int *high, uint32_t channels, uint32_t pixels, const uint32_t *steps, int interleave,
   int swizzle, int promotion, int fill))
{
    ENTER;
    if (wrong_map(rank, base, dims, strides, interleave, swizzle, promotion, fill) || !channels || channels > 256 || !pixels || pixels > 1024)
        return 1;
    if (getenv("FAKE_CUDA_RUN")) {
        tensor_map *m = new_map(map, type, rank, base, dims, strides, steps, swizzle);
        m->is_image = 1;
        m->channels = channels;
        m->pixels = pixels;
        memcpy(m->low, low, (rank - 2) * sizeof *low);
        memcpy(m->high, high, (rank - 2) * sizeof *high);
    }
    return 0;
}
