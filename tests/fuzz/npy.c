/* npy.c -- libFuzzer entry: any bytes as an npy file and as an npz archive.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"
#include "io/io.h"

/* What was read is written and read again. */
static void round_trip(fuzz_job *j, const cm_tensor *t)
{
    cm_tensor again;
    cm_buf b;
    cm_buf_init(&b, &j->allocator);
    cm_status st = cm_npy_write(&j->cx, t, &b);
    if (fuzz_ok(j, st)) {
        st = cm_npy_read(&j->cx, &j->arena, b.data, b.n, &again);
        if (!fuzz_ok(j, st) && st != CM_ERR_MEMORY)
            __builtin_trap();
    }
    cm_buf_deinit(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    fuzz_job j;
    cm_tensor t;
    cm_npz *z;
    fuzz_begin(&j);
    if (fuzz_ok(&j, cm_npy_read(&j.cx, &j.arena, bytes, n, &t)))
        round_trip(&j, &t);
    if (fuzz_ok(&j, cm_npz_open(&j.cx, &j.arena, bytes, n, &z)))
        for (int i = 0; i < cm_npz_count(z); i++)
            if (fuzz_ok(&j, cm_npz_read(&j.cx, &j.arena, z, i, &t)))
                round_trip(&j, &t);
    fuzz_end(&j);
    return 0;
}
