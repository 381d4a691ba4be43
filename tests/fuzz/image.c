/* image.c -- libFuzzer entry: any bytes as an image are refused, or decoded, within little memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static cm_status give(void *user, cm_ctx *cx, int output, cm_tensor *t)
{
    size_t size;
    (void)output;
    if (!cm_tensor_bytes(t, &size))
        return cm_fail_memory(cx);
    t->data = cm_arena_alloc_n(user, size + 1, 1, 64, 0);
    t->capacity_bytes = size;
    return t->data ? CM_OK : cm_fail_memory(cx);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    cm_arena arena;
    cm_arena_init(&arena, NULL);
    arena.limit = 64 << 20;
    cm_ctx cx = {.arena = &arena, .scratch = &arena};
    const cm_op *op = cm_op_find("ImageDecoder");
    cm_datum in = {.kind = CM_TENSOR}, image = {0};
    const cm_datum *ins[1] = {&in};
    cm_datum *outs[1] = {&image};
    cm_eval_host host = {give, &arena};
    void *attr = NULL;
    const int64_t dim = (int64_t)n;
    if (cm_attr_new(&cx, &arena, op->attrs, &attr) == CM_OK &&
        cm_tensor_shape(&in.tensor, CM_U8, 1, &dim)) {
        in.tensor.data = (void *)(uintptr_t)bytes;
        cm_eval e = {.cx = &cx,
                     .op = op,
                     .attr = attr,
                     .n_in = 1,
                     .in = ins,
                     .n_out = 1,
                     .out = outs,
                     .host = &host};
        (void)!cm_op_eval(&e);
    }
    cm_arena_deinit(&arena);
    return 0;
}
