/* text.c -- libFuzzer entry: any bytes as a network's text; what parses prints, parses again, runs.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz/fuzz.h"

/* What parsed prints to text that parses and prints the same. */
static void round_trip(fuzz_job *j, const cm_network *g)
{
    cm_buf first, second;
    cm_network *again;
    cm_buf_init(&first, &j->allocator);
    cm_buf_init(&second, &j->allocator);
    cm_network_print(g, INT64_MAX, &first);
    const char *text = cm_buf_text(&first);
    if (!first.failed) {
        cm_status st = cm_network_parse(&j->cx, &j->arena, text, first.n, &again);
        if (fuzz_ok(j, st)) {
            cm_network_print(again, INT64_MAX, &second);
            if (!second.failed && (first.n != second.n || memcmp(first.data, second.data, first.n)))
                __builtin_trap();
        } else if (st != CM_ERR_MEMORY && st != CM_ERR_CANCELLED) {
            __builtin_trap();
        }
    }
    cm_buf_deinit(&first);
    cm_buf_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    fuzz_job j;
    cm_network *g;
    fuzz_begin(&j);
    if (fuzz_ok(&j, cm_network_parse(&j.cx, &j.arena, (const char *)bytes, n, &g))) {
        round_trip(&j, g);
        if (fuzz_ok(&j, cm_network_infer(&j.cx, g)) && fuzz_ok(&j, cm_network_verify(&j.cx, g)))
            fuzz_build(&j, g);
    }
    fuzz_end(&j);
    return 0;
}
