// quant_byte.cuh -- a real number, in steps, to a byte.
// SPDX-License-Identifier: Apache-2.0
//
// Follows common.cuh. BYTE is u8 or i8.
#pragma once

// round(x) + zero in the range of a byte; NaN gives the least.
DEVICE BYTE to_byte(float x, float zero)
{
    const float lo = (BYTE)-1 < 0 ? -128.0f : 0.0f, hi = (BYTE)-1 < 0 ? 127.0f : 255.0f;
    float v = __fadd_rn(rint(x), zero);
    return (BYTE)(int)(v > lo ? (v < hi ? v : hi) : lo);
}
