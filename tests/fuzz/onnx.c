/* onnx.c -- libFuzzer entry: any bytes as a model that is built and run, and as a tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"
#include "onnx/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    fuzz_job j;
    cm_network *g;
    cm_datum datum;
    cm_type sequence = {.kind = CM_SEQUENCE}, optional = {.kind = CM_OPTIONAL};
    const cm_type *kinds[] = {NULL, &sequence, &optional};
    fuzz_begin(&j);
    if (fuzz_ok(&j, cm_onnx_import(&j.cx, &j.arena, bytes, n, NULL, &g))) {
        if (cm_network_verify(&j.cx, g) != CM_OK)
            __builtin_trap();
        fuzz_build(&j, g);
    }
    for (int i = 0; i < CM_COUNT(kinds); i++)
        fuzz_ok(&j, cm_onnx_read_datum(&j.cx, &j.arena, bytes, n, kinds[i], &datum));
    fuzz_end(&j);
    return 0;
}
