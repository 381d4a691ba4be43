/* onnx.c -- any bytes as a model, and as a tensor: every outcome is fine but a crash.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>

#include "onnx/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    cm_arena arena, scratch;
    cm_arena_init(&arena, NULL);
    cm_arena_init(&scratch, NULL);
    arena.limit = scratch.limit = (size_t)1 << 30;
    cm_ctx cx = {.arena = &arena, .scratch = &scratch};
    cm_network *g;
    cm_datum datum;
    cm_type sequence = {.kind = CM_SEQUENCE}, optional = {.kind = CM_OPTIONAL};
    if (cm_onnx_import(&cx, &arena, data, n, NULL, &g) == CM_OK &&
        cm_network_verify(&cx, g) != CM_OK)
        __builtin_trap();
    const cm_type *kinds[] = {NULL, &sequence, &optional};
    for (int i = 0; i < CM_COUNT(kinds); i++) {
        cm_status st = cm_onnx_read_datum(&cx, &arena, data, n, kinds[i], &datum);
        (void)st;
    }
    cm_arena_deinit(&arena);
    cm_arena_deinit(&scratch);
    return 0;
}
