/* plan.c -- libFuzzer entry: any bytes as a plan are refused, or open and run, within little memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The library must be built with -DCM_FUZZ_NO_CHECKSUM, so that the fuzzer gets past checksums:
 *
 *     make lib B=build-fuzz CC=clang OPT=-O1 LDFLAGS= \
 *          EXTRA_CFLAGS="-DCM_FUZZ_NO_CHECKSUM -fsanitize=fuzzer-no-link,address,undefined"
 *
 * Plans made by `cameo build` are good seeds. */
#include "runtime/runtime.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { HEAP_BYTES = 64 << 20 };

static void *take(void *user, size_t bytes, size_t align)
{
    size_t *live = user;
    if (bytes > HEAP_BYTES || *live > HEAP_BYTES - bytes)
        return NULL;
    void *p = cm_alloc(NULL, bytes, align);
    *live += p ? bytes : 0;
    return p;
}

static void give(void *user, void *p, size_t bytes)
{
    *(size_t *)user -= bytes;
    cm_release(NULL, p, bytes);
}

/* Zeros for input i, 2 for every symbol; false when there is no such input to be had. */
static bool set_zeros(cm_ctx *cx, cm_context *c, const cm_engine *e, int i)
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
           cm_context_set_input(cx, c, i, &d) == CM_OK;
}

static void run(cm_ctx *cx, cm_engine *e)
{
    cm_context_options o = {.threads = 1};
    cm_context *c;
    if (cm_context_create(cx, e, &o, &c) != CM_OK)
        return;
    bool ready = true;
    for (int i = 0; ready && i < cm_engine_n_inputs(e); i++)
        ready = set_zeros(cx, c, e, i);
    if (ready && cm_context_run(cx, c) != CM_OK && cx->message[0] == 0)
        __builtin_trap(); /* a failure without a sentence */
    cm_context_destroy(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    size_t live = 0;
    cm_allocator heap = {take, give, &live};
    cm_arena scratch;
    cm_arena_init(&scratch, &heap);
    cm_ctx cx = {.allocator = &heap, .arena = &scratch, .scratch = &scratch};
    cx.deadline_ns = cm_now_ns() + 100 * 1000 * 1000;
    cm_engine *e;
    if (cm_engine_open_memory(&cx, bytes, n, true, NULL, &e) == CM_OK) {
        run(&cx, e);
        cm_engine_release(e);
    }
    cm_arena_deinit(&scratch);
    if (live)
        __builtin_trap(); /* a leak */
    return 0;
}
