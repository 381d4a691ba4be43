#!/usr/bin/env python3
"""Writes src/ops/math/math_tables.h: the constants of ops/math_*.c, from their definitions.

    python3 tests/math_tables.py > src/ops/math/math_tables.h        (needs mpmath)

SPDX-License-Identifier: Apache-2.0
"""
from mpmath import mp, mpf, floor, log, exp, pi, sqrt, atan, sin, cos, erf, erfc, cos as mcos
import mpmath

mp.prec = 400


def mp_to_double(x):
    """Nearest double of an mpf (ties do not happen here)."""
    if x == 0:
        return 0.0
    with mp.workprec(53):
        return float(+x)


def hx(x):
    return float(x).hex()


def chop(x, bits):
    """x rounded to a multiple of 2^-bits, as a double."""
    return float(mpmath.nint(x * mpf(2) ** bits) / mpf(2) ** bits)


def pair(x):
    h = mp_to_double(x)
    return h, mp_to_double(x - mpf(h))


def show(name, values, per_line=3, ctype="double"):
    print(f"static const {ctype} {name}[{len(values)}] = {{")
    for i in range(0, len(values), per_line):
        print("    " + ", ".join(values[i:i + per_line]) + ",")
    print("};")


def define(name, x):
    print(f"#define {name} {hx(x)}")


def fit(f, a, b, degree):
    """Coefficients, low order first, of the polynomial through Chebyshev's nodes on [a, b]."""
    n = degree + 1
    a, b = mpf(a), mpf(b)
    nodes = [(a + b) / 2 + (b - a) / 2 * mcos(pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    # Newton's divided differences, then expanded to powers.
    d = [f(x) for x in nodes]
    for k in range(1, n):
        for i in range(n - 1, k - 1, -1):
            d[i] = (d[i] - d[i - 1]) / (nodes[i] - nodes[i - k])
    poly = [mpf(0)] * n
    for k in range(n - 1, -1, -1):
        poly = [(poly[i - 1] if i else mpf(0)) - nodes[k] * poly[i] for i in range(n)]
        poly[0] += d[k]
    return poly


def fit_error(f, poly, a, b, plus, steps=400):
    worst = mpf(0)
    for i in range(steps + 1):
        x = mpf(a) + (mpf(b) - mpf(a)) * i / steps
        y = f(x)
        p = mpf(0)
        for c in reversed(poly):
            p = p * x + mpf(mp_to_double(c))
        worst = max(worst, abs((p - y) / (y + plus)))
    return worst


def show_poly(name, f, a, b, degree, note, plus=0):
    poly = fit(f, a, b, degree)
    err = fit_error(f, poly, a, b, plus)
    print(f"/* {note}; relative error 2^{float(log(err, 2)):.1f} */")
    show(name, [hx(mp_to_double(c)) for c in poly])


print("""/* math_tables.h -- constants of math_*.c. Written by tests/math_tables.py: edit that, not this.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_MATH_TABLES_H
#define CM_OPS_MATH_TABLES_H

#include <stdint.h>

/* clang-format off */
""")

ln2 = log(mpf(2))
print("/* ln 2 in three ways: to 42 bits after the point and the rest; divided by 128, to 39 bits and"
      "\n * the rest; and as a pair. */")
h = chop(ln2, 42)
define("LN2_42", h)
define("LN2_42_LOW", mp_to_double(ln2 - mpf(h)))
h = chop(ln2 / 128, 39)
define("LN2_128", h)
define("LN2_128_LOW", mp_to_double(ln2 / 128 - mpf(h)))
for name, x in (("LN2", ln2), ("INV_LN2", 1 / ln2), ("INV_LN10", 1 / log(mpf(10))),
                ("LOG10_2", ln2 / log(mpf(10))), ("PI", pi), ("PI_2", pi / 2)):
    hi, lo = pair(x)
    define(name + "_HIGH", hi)
    define(name + "_LOW", lo)
define("INV_LN2_128", mp_to_double(128 / ln2))
define("INV_PI_2", mp_to_double(2 / pi))
rest = pi / 2
for i, name in enumerate(("PI_2_PART1", "PI_2_PART2", "PI_2_PART3")):
    h = chop(rest, 32 + 33 * i)
    define(name, h)
    rest -= mpf(h)
define("PI_2_PART4", mp_to_double(rest))

print("\n/* 2^(j/128) as pairs */")
pairs = [pair(mpf(2) ** (mpf(j) / 128)) for j in range(128)]
show("exp_table", ["{%s, %s}" % (hx(a), hx(b)) for a, b in pairs], 2, "struct { double h, l; }")

print("\n/* For a mantissa m in [1, 2) whose leading 7 bits are j: 1/m roughly, of m/2 from LOG_SPLIT on;"
      "\n * and -log of that, to 42 bits after the point and the rest. */")
split = 53
print(f"#define LOG_SPLIT {split}")
rows = []
for j in range(128):
    lo, hi = mpf(128 + j) / 128, mpf(129 + j) / 128
    if j >= split:
        lo, hi = lo / 2, hi / 2
    inv = mpmath.nint(512 * 2 / (lo + hi)) / 512
    if j in (0, 127):
        inv = mpf(1)
    c = -log(inv)
    h = chop(c, 42)
    assert abs(lo * inv - 1) <= mpf(1) / 128 and abs(hi * inv - 1) <= mpf(1) / 128, j
    rows.append("{%s, %s, %s}" % (hx(inv), hx(h), hx(mp_to_double(c - mpf(h)))))
show("log_table", rows, 1, "struct { double inv, h, l; }")

print("\n/* atan(j/16) as pairs */")
pairs = [pair(atan(mpf(j) / 16)) for j in range(17)]
show("atan_table", ["{%s, %s}" % (hx(a), hx(b)) for a, b in pairs], 2, "struct { double h, l; }")

print("\n/* 2/pi, 1280 bits after the point */")
with mp.workprec(1500):
    bits = int(floor(2 / mpmath.pi * mpf(2) ** 1280))
words = [f"0x{(bits >> (64 * (19 - i))) & (2**64 - 1):016x}" for i in range(20)]
show("two_over_pi", words, 4, "uint64_t")
print()

q = (pi / 4 * mpf("1.0001")) ** 2
show_poly("sin_poly", lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, mpf(10) ** -30, q, 6,
          "(sin x - x)/x^3 in z = x^2, |x| <= pi/4")
show_poly("cos_poly", lambda z: (cos(sqrt(z)) - 1 + z / 2) / z ** 2, mpf(10) ** -20, q, 5,
          "(cos x - 1 + z/2)/z^2 in z = x^2, |x| <= pi/4")
show_poly("atan_poly", lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, mpf(10) ** -30,
          mpf("0.0315") ** 2, 4, "(atan x - x)/x^3 in z = x^2, |x| <= 0.0315")
show_poly("erf_poly", lambda z: erf(sqrt(z)) / sqrt(z) - 1, mpf(10) ** -30, mpf(1), 15,
          "erf(x)/x - 1 in z = x^2, |x| <= 1", 1)
for name, a, b, degree in (("erfcx_poly1", 0.75, 1.5, 14), ("erfcx_poly2", 1.5, 2.75, 17),
                          ("erfcx_poly3", 2.75, 5, 20)):
    mid = (mpf(a) + mpf(b)) / 2
    show_poly(name, lambda t: exp((t + mid) ** 2) * erfc(t + mid), a - mid, b - mid, degree,
              f"exp(x^2) erfc(x) in x - {float(mid)}, x in [{a}, {b}]")
show_poly("erfcx_poly4", lambda z: exp(1 / z) * erfc(1 / sqrt(z)) / sqrt(z), mpf(1) / 784, mpf(1) / 25, 15,
          "x exp(x^2) erfc(x) in 1/x^2, x in [5, 28]")
show_poly("cbrt_poly", lambda x: x ** (mpf(1) / 3), 1, 8, 5, "cube root on [1, 8]")
print("\n/* clang-format on */\n#endif")
