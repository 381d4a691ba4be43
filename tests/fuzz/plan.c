/* plan.c -- libFuzzer entry: any bytes as a plan are refused, or open and run, within little memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The library is built with -DCM_FUZZ_NO_CHECKSUM, so that the fuzzer gets past checksums. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "plan/format.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed);

static uint64_t read_u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Most of a plan's bytes pad its sections to pages: mutate inside one section, and tell the table its
 * new size. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed)
{
    uint32_t sections = 0;
    if (n > CM_PLAN_HEADER_BYTES)
        memcpy(&sections, data + 12, sizeof sections);
    if (seed % 16 == 0 || sections == 0 || sections > 64 ||
        n < CM_PLAN_HEADER_BYTES + sections * CM_PLAN_ENTRY_BYTES)
        return LLVMFuzzerMutate(data, n, most);
    uint8_t *entry = data + CM_PLAN_HEADER_BYTES + seed / 16 % sections * CM_PLAN_ENTRY_BYTES;
    uint64_t offset = read_u64(entry + 8), size = read_u64(entry + 16);
    if (offset > n || size > n - offset)
        return LLVMFuzzerMutate(data, n, most);
    uint64_t room = (size / CM_PLAN_PAGE + 1) * CM_PLAN_PAGE;
    room = room < n - offset ? room : n - offset;
    if (!room)
        return LLVMFuzzerMutate(data, n, most);
    size = LLVMFuzzerMutate(data + offset, size, room);
    memcpy(entry + 16, &size, sizeof size);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    fuzz_job j;
    fuzz_begin(&j);
    fuzz_run(&j, bytes, n);
    fuzz_end(&j);
    return 0;
}
