/* npz.c -- libFuzzer entry: any bytes as an npz archive or an npy file are refused, or read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "io/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    cm_arena arena;
    cm_arena_init(&arena, NULL);
    arena.limit = 64 << 20;
    cm_ctx cx = {.arena = &arena, .scratch = &arena};
    cm_npz *z;
    cm_tensor t;
    if (cm_npz_open(&cx, &arena, bytes, n, &z) == CM_OK)
        for (int i = 0; i < cm_npz_count(z); i++)
            (void)!cm_npz_read(&cx, &arena, z, i, &t);
    (void)!cm_npy_read(&cx, &arena, bytes, n, &t);
    cm_arena_deinit(&arena);
    return 0;
}
