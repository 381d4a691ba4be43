/* math_tables.h -- polynomials of simd/math.h: written by tests/vector_math_tables.py.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_MATH_TABLES_H
#define CM_CPU_SIMD_MATH_TABLES_H

#include <stdint.h>

/* clang-format off */
/* (e^r - 1 - r) / r^2 on |r| <= ln(2)/2, weighed by r^2/e^r; error 2^-28.2 */
static const float exp_p[5] = {
    0x1.fffffc0000000p-2f, 0x1.55548c0000000p-3f, 0x1.5558580000000p-5f, 0x1.123de00000000p-7f,
    0x1.6ac74e0000000p-10f,
};
/* the same with one more term, not weighed; error 2^-29.5 */
static const float expm1_p[6] = {
    0x1.0000000000000p-1f, 0x1.5555560000000p-3f, 0x1.5554ea0000000p-5f, 0x1.1110ac0000000p-7f,
    0x1.6d43280000000p-10f, 0x1.a17e0c0000000p-13f,
};
/* (1 + q0) e^r - 1 on |r| <= ln(2)/32, q0 being the first; error 2^-29.0 */
static const float exp_q[4] = {
    0x1.2468a00000000p-6f, 0x1.0491a20000000p+0f, 0x1.0493f20000000p-1f, 0x1.5bb7e80000000p-3f,
};
/* 2^(j/16) / (1 + q0); error 2^-25.8 */
static const float exp_powers[16] = {
    0x1.f705c00000000p-1f, 0x1.06a5860000000p+0f, 0x1.1246620000000p+0f, 0x1.1e6b0a0000000p+0f,
    0x1.2b19540000000p+0f, 0x1.3857580000000p+0f, 0x1.462b720000000p+0f, 0x1.549c480000000p+0f,
    0x1.63b0ca0000000p+0f, 0x1.7370380000000p+0f, 0x1.83e2220000000p+0f, 0x1.950e700000000p+0f,
    0x1.a6fd620000000p+0f, 0x1.b9b7960000000p+0f, 0x1.cd460c0000000p+0f, 0x1.e1b22a0000000p+0f,
};
/* q0 for each of them as it is rounded; error 2^-30.1 */
static const float exp_q0[16] = {
    0x1.24688e0000000p-6f, 0x1.2468b00000000p-6f, 0x1.2468b00000000p-6f, 0x1.2468b20000000p-6f,
    0x1.2468a60000000p-6f, 0x1.24688e0000000p-6f, 0x1.24689a0000000p-6f, 0x1.24689e0000000p-6f,
    0x1.2468b00000000p-6f, 0x1.2468a20000000p-6f, 0x1.2468ac0000000p-6f, 0x1.2468a40000000p-6f,
    0x1.2468a20000000p-6f, 0x1.2468a40000000p-6f, 0x1.2468a60000000p-6f, 0x1.24689a0000000p-6f,
};
/* their bits, 2^-64 of them, less j in the first four bits of the mantissa */
static const uint32_t exp_power_bits[16] = {
    0x1f7b82e0, 0x1f7b52c3, 0x1f792331, 0x1f773585, 0x1f758caa, 0x1f742bac, 0x1f7315b9, 0x1f724e24,
    0x1f71d865, 0x1f71b81c, 0x1f71f111, 0x1f728738, 0x1f737eb1, 0x1f74dbcb, 0x1f76a306, 0x1f78d915,
};
/* (ln(1+f) - f + f^2/2) / f^3 on sqrt(1/2) <= 1+f <= sqrt(2); error 2^-31.8 */
static const float log_p[10] = {
    0x1.5555560000000p-2f, -0x1.ffffc00000000p-3f, 0x1.9998c00000000p-3f, -0x1.55679c0000000p-3f,
    0x1.24c1cc0000000p-3f, -0x1.fc9dce0000000p-4f, 0x1.be2b680000000p-4f, -0x1.b7d1e00000000p-4f,
    0x1.d15a380000000p-4f, -0x1.1de7a80000000p-4f,
};
/* erf(x)/x - 1 in x^2 on |x| <= 0.95; error 2^-29.9 */
static const float erf_p[7] = {
    0x1.06eba80000000p-3f, -0x1.8127400000000p-2f, 0x1.ce2d620000000p-4f, -0x1.b800de0000000p-6f,
    0x1.5448080000000p-8f, -0x1.a5feca0000000p-11f, 0x1.4f640a0000000p-14f,
};
/* -ln(erfc(x)) on 0.9 <= x <= 3.95, weighed by erfc; error 2^-32.5 */
static const float erf_q[8] = {
    -0x1.65abb00000000p-13f, 0x1.2126980000000p+0f, 0x1.444b420000000p-1f, 0x1.bb56540000000p-4f,
    -0x1.9b198a0000000p-6f, 0x1.10aaa20000000p-8f, -0x1.c550c20000000p-12f, 0x1.5ed5a60000000p-16f,
};
/* erfc(x/sqrt(2)) e^(x^2/2) / 2 in t = 1/(1 + 0.3125 x), without a constant term; error 2^-26.4 */
static const float gelu_p[10] = {
    0x1.fea1ba0000000p-4f, 0x1.feedd40000000p-4f, 0x1.caaf4c0000000p-4f, 0x1.6f10000000000p-4f,
    0x1.d268ae0000000p-5f, -0x1.52d1400000000p-8f, 0x1.3d613e0000000p-4f, -0x1.3a5f580000000p-3f,
    0x1.7abbfe0000000p-4f, -0x1.3ad2a80000000p-6f,
};
/* (tanh(x)/x - 1) / x^2 in x^2 on |x| <= 0.65; error 2^-31.4 */
static const float tanh_p[6] = {
    -0x1.5555520000000p-2f, 0x1.110fe60000000p-3f, -0x1.b9d5940000000p-5f, 0x1.627f220000000p-6f,
    -0x1.06e7ba0000000p-7f, 0x1.06e8580000000p-9f,
};
/* tanh, piece by piece: row k has the factors of (|x| - lo)^k; error 2^-27.5 */
static const float tanh_pieces[7][16] = {
    {0x1.85efac0000000p-1f, 0x1.cf6f980000000p-1f, 0x1.ed95060000000p-1f, 0x1.f925820000000p-1f,
     0x1.fd77d20000000p-1f, 0x1.ffa8180000000p-1f, 0x1.fff41a0000000p-1f, 0x1.fffe640000000p-1f,
     0x1.ffffc80000000p-1f, 0x1.fffffe0000000p-1f, 0x1.0000000000000p+0f, 0x1.0000000000000p+0f,
     0x0.0p+0f, 0x1.f597ea0000000p-3f, 0x1.d9353e0000000p-2f, 0x1.45323e0000000p-1f},
    {0x1.ae0df40000000p-2f, 0x1.7216840000000p-3f, 0x1.2162c80000000p-4f, 0x1.b3afcc0000000p-6f,
     0x1.4345fc0000000p-7f, 0x1.5f805e0000000p-10f, 0x1.7cc8ea0000000p-13f, 0x1.9c4d200000000p-16f,
     0x1.bdb1a00000000p-19f, 0x1.05a6280000000p-24f, 0x0.0p+0f, 0x0.0p+0f,
     0x1.0000000000000p+0f, 0x1.e149a00000000p-1f, 0x1.92a9440000000p-1f, 0x1.3173b00000000p-1f},
    {-0x1.478d0a0000000p-2f, -0x1.4f02560000000p-3f, -0x1.16faae0000000p-4f, -0x1.add8440000000p-6f,
     -0x1.4169620000000p-7f, -0x1.5ef0fc0000000p-10f, -0x1.7c64a60000000p-13f, -0x1.9be8a40000000p-16f,
     -0x1.b818680000000p-19f, -0x1.05a61a0000000p-24f, 0x0.0p+0f, 0x0.0p+0f,
     -0x1.a227e60000000p-20f, -0x1.d780800000000p-3f, -0x1.7425ea0000000p-2f, -0x1.8403460000000p-2f},
    {0x1.a983940000000p-4f, 0x1.68549e0000000p-4f, 0x1.590c3c0000000p-5f, 0x1.16bfc00000000p-6f,
     0x1.a52e240000000p-8f, 0x1.cf6a4a0000000p-11f, 0x1.f6d33c0000000p-14f, 0x1.1047b60000000p-16f,
     0x1.14a8420000000p-19f, 0x1.5cda5e0000000p-25f, 0x0.0p+0f, 0x0.0p+0f,
     -0x1.5541fc0000000p-2f, -0x1.0727dc0000000p-2f, -0x1.825daa0000000p-4f, 0x1.560ff40000000p-5f},
    {0x1.ad0f4a0000000p-6f, -0x1.a85ec40000000p-6f, -0x1.2655f60000000p-6f, -0x1.064e780000000p-7f,
     -0x1.8b2cec0000000p-9f, -0x1.b8157a0000000p-12f, -0x1.de47bc0000000p-15f, -0x1.030ba40000000p-17f,
     -0x1.c9fd8c0000000p-21f, -0x1.5c864a0000000p-26f, 0x0.0p+0f, 0x0.0p+0f,
     -0x1.505c7e0000000p-10f, 0x1.1ecc780000000p-3f, 0x1.5447d60000000p-3f, 0x1.9b40420000000p-4f},
    {-0x1.5ae83a0000000p-5f, 0x1.4e95f60000000p-12f, 0x1.4aee5c0000000p-8f, 0x1.663d1a0000000p-9f,
     0x1.f94a7e0000000p-11f, 0x1.1da23e0000000p-13f, 0x1.370af40000000p-16f, 0x1.5106020000000p-19f,
     0x1.c61c440000000p-23f, 0x1.123c240000000p-27f, 0x0.0p+0f, 0x0.0p+0f,
     0x1.25dc820000000p-3f, 0x1.221cf20000000p-4f, -0x1.276d2c0000000p-5f, -0x1.174c300000000p-4f},
    {0x1.eeef200000000p-7f, 0x1.14666a0000000p-9f, -0x1.76f42c0000000p-11f, -0x1.1e06b00000000p-11f,
     -0x1.4aec380000000p-13f, -0x1.7bb3c20000000p-16f, -0x1.9e46040000000p-19f, -0x1.c0fe2a0000000p-22f,
     -0x1.92daec0000000p-26f, -0x1.2e2a5e0000000p-29f, 0x0.0p+0f, 0x0.0p+0f,
     -0x1.33c2740000000p-5f, -0x1.1b08300000000p-4f, -0x1.8f2dc80000000p-6f, 0x1.a5313a0000000p-7f},
};
/* (sin(r)/r - 1) / r^2 in r^2 on |r| <= pi/4; error 2^-32.6 */
static const float sin_p[4] = {
    -0x1.5555560000000p-3f, 0x1.1111760000000p-7f, -0x1.a05bba0000000p-13f, 0x1.7cd8360000000p-19f,
};
/* (cos(r) - 1 + r^2/2) / r^4 in r^2 on |r| <= pi/4; error 2^-37.2 */
static const float cos_p[4] = {
    0x1.5555560000000p-5f, -0x1.6c17620000000p-10f, 0x1.a075e80000000p-16f, -0x1.3724320000000p-22f,
};
/* log2((1+s)/(1-s)) / s in s^2; error 2^-45.1 */
static const double pow_log2[6] = {
    0x1.71547652b8251p+1, 0x1.ec709dc53c91bp-1, 0x1.2776c293044a8p-1, 0x1.a61a2efd465d4p-2,
    0x1.47954d3b22203p-2, 0x1.21b173d6fe15bp-2,
};
/* 2^f on |f| <= 1/2; error 2^-33.7 */
static const double pow_exp2[9] = {
    0x1.ffffffffff79fp-1, 0x1.62e42fef8609cp-1, 0x1.ebfbdff9320afp-3, 0x1.c6b08dd48c158p-5,
    0x1.3b2ab5c4c8588p-7, 0x1.5d874812d14adp-10, 0x1.430b0e8d38534p-13, 0x1.00f700e21a2cap-16,
    0x1.649bdbad9b00fp-20,
};
/* clang-format on */

#endif
