/* fuzz.h -- for libFuzzer entries: a small heap that must be empty at the end, and runs of what opened.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TESTS_FUZZ_H
#define CM_TESTS_FUZZ_H

#include "api/compile.h"
#include "runtime/runtime.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { FUZZ_HEAP_BYTES = 64 << 20, FUZZ_MILLISECONDS = 100 };

typedef struct {
    size_t live;
    cm_allocator allocator;
    cm_arena arena, scratch;
    cm_ctx cx;
} fuzz_job;

static void *fuzz_take(void *user, size_t bytes, size_t align)
{
    size_t *live = user;
    if (bytes > FUZZ_HEAP_BYTES || *live > FUZZ_HEAP_BYTES - bytes)
        return NULL;
    void *p = cm_alloc(NULL, bytes, align);
    *live += p ? bytes : 0;
    return p;
}

static void fuzz_give(void *user, void *p, size_t bytes)
{
    *(size_t *)user -= bytes;
    cm_release(NULL, p, bytes);
}

static inline void fuzz_begin(fuzz_job *j)
{
    *j = (fuzz_job){.allocator = {fuzz_take, fuzz_give, &j->live}};
    cm_arena_init(&j->arena, &j->allocator);
    cm_arena_init(&j->scratch, &j->allocator);
    j->cx = (cm_ctx){.allocator = &j->allocator, .arena = &j->arena, .scratch = &j->scratch};
    j->cx.deadline_ns = cm_now_ns() + (uint64_t)FUZZ_MILLISECONDS * 1000000;
}

static inline void fuzz_end(fuzz_job *j)
{
    cm_arena_deinit(&j->scratch);
    cm_arena_deinit(&j->arena);
    if (j->live)
        __builtin_trap(); /* a leak */
}

/* A failure has a sentence. */
static inline bool fuzz_ok(const fuzz_job *j, cm_status st)
{
    if (st != CM_OK && !j->cx.message[0])
        __builtin_trap();
    return st == CM_OK;
}

/* Zeros for input i, 2 for every symbol; false when there is no such input to be had. */
static inline bool fuzz_zeros(fuzz_job *j, cm_context *c, const cm_engine *e, int i)
{
    static const int64_t zeros[4096];
    const cm_type *t = cm_engine_input_type(e, i);
    cm_datum d = {.kind = CM_TENSOR};
    int64_t dims[CM_MAX_RANK];
    size_t bytes;
    if (t->kind != CM_TENSOR || t->rank < 0)
        return false;
    for (int k = 0; k < t->rank; k++)
        dims[k] = cm_dim_is_size(t->dims[k]) ? t->dims[k] : 2;
    if (!cm_tensor_shape(&d.tensor, t->dtype, t->rank, dims))
        return false;
    d.tensor.data = (void *)zeros;
    d.tensor.packed = cm_dtype_is_sub_byte(t->dtype);
    return cm_tensor_bytes(&d.tensor, &bytes) && bytes <= sizeof zeros &&
           cm_context_set_input(&j->cx, c, i, &d) == CM_OK;
}

/* At an instruction set that the length of the plan says. */
static inline void fuzz_run(fuzz_job *j, const void *plan, size_t n)
{
    static const char *const levels[] = {"cpu:generic", "cpu:avx2", "cpu"};
    cm_engine *e;
    cm_context *c = NULL;
    cm_target level;
    cm_context_options o = {.threads = 1, .target = &level};
    if (!fuzz_ok(j, cm_target_parse(&j->cx, levels[n % CM_COUNT(levels)], &level)) ||
        !fuzz_ok(j, cm_engine_open_memory(&j->cx, plan, n, true, NULL, &e)))
        return;
    if (fuzz_ok(j, cm_context_create(&j->cx, e, &o, &c))) {
        bool ready = true;
        for (int i = 0; ready && i < cm_engine_n_inputs(e); i++)
            ready = fuzz_zeros(j, c, e, i);
        if (ready)
            fuzz_ok(j, cm_context_run(&j->cx, c));
    }
    cm_context_destroy(c);
    cm_engine_release(e);
}

/* Build a plan of what was imported or parsed, and run it. */
static inline void fuzz_build(fuzz_job *j, cm_network *g)
{
    cm_buf plan;
    cm_buf_init(&plan, &j->allocator);
    if (fuzz_ok(j, cm_compile_memory(&j->cx, g, NULL, &plan)))
        fuzz_run(j, plan.data, plan.n);
    cm_buf_deinit(&plan);
}

#endif
