// signals.cuh -- what blocks of a grid that are all there at once tell each other through device memory: 16 bytes, the last four of which are not
// 0 when they have been told.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One write, and one read: who sees the last word sees the others.
DEVICE void tell(uint4 *to, uint4 v)
{
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
DEVICE uint4 ask(const uint4 *from)
{
    uint4 v;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
}
DEVICE uint4 wait_until_told(const uint4 *from)
{
    uint4 v = ask(from);
    while (v.w == 0) {
        __nanosleep(32);
        v = ask(from);
    }
    return v;
}
