#!/usr/bin/env python3
"""Writes src/cpu/simd/math_tables.h: the polynomials of simd/math.h, from their definitions.

    python3 tests/vector_math_tables.py > src/cpu/simd/math_tables.h        (needs mpmath)

Each is the polynomial of least greatest error (Remez's exchange), its coefficients rounded to the
type one by one from the lowest, the others fitted again after each.

SPDX-License-Identifier: Apache-2.0
"""
import struct

import mpmath
from mpmath import mp, mpf, cos, exp, log, pi, sin, sqrt

mp.prec = 160


def to_f32(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def to_f64(x):
    return mpf(float(x))


def minimax(f, weight, a, b, powers):
    """Coefficients c of sum c[k] x^powers[k] that make weight(x) |f(x) - sum| least on [a, b]."""
    n = len(powers)
    grid = [(a + b) / 2 - (b - a) / 2 * cos(pi * i / mpf(1200)) for i in range(1201)]
    values = [(x, f(x), weight(x), [x ** p for p in powers]) for x in grid]
    chosen = [round(1200 * (i + mpf(1) / 2) / (n + 1)) for i in range(n + 1)]
    for _ in range(12):
        matrix, rhs = mpmath.matrix(n + 1, n + 1), mpmath.matrix(n + 1, 1)
        for row, i in enumerate(chosen):
            _, y, w, basis = values[i]
            for k in range(n):
                matrix[row, k] = basis[k]
            matrix[row, n] = (-1) ** row / w
            rhs[row] = y
        c = mpmath.lu_solve(matrix, rhs)
        error = [w * (y - sum(c[k] * basis[k] for k in range(n))) for _, y, w, basis in values]
        runs, at = [], 0  # the worst point of each run of one sign
        for i in range(len(error)):
            if runs and (error[i] > 0) == (error[runs[-1]] > 0):
                if abs(error[i]) > abs(error[runs[-1]]):
                    runs[-1] = i
            else:
                runs.append(i)
        while len(runs) > n + 1:
            runs.pop(0 if abs(error[runs[0]]) < abs(error[runs[-1]]) else -1)
        if len(runs) < n + 1 or runs == chosen:
            break
        chosen = runs
    return [c[k] for k in range(n)], max(abs(e) for e in error)


def fit(f, weight, a, b, powers, rounded=to_f32):
    a, b = mpf(a), mpf(b)
    done = []
    for k in range(len(powers)):
        def rest(x, done=done):
            return f(x) - sum(c * x ** p for c, p in zip(done, powers))
        c, worst = minimax(rest, weight, a, b, powers[k:])
        done = done + [rounded(c[0])]
    return done, worst


def show(name, about, coefficients, worst, double=False):
    bits = float(mpmath.log(worst, 2))
    print(f"/* {about}; error 2^{bits:.1f} */")
    print(f"static const {'double' if double else 'float'} {name}[{len(coefficients)}] = {{")
    for i in range(0, len(coefficients), 4):
        print("    " + ", ".join(float(c).hex() + ("" if double else "f")
                                 for c in coefficients[i:i + 4]) + ",")
    print("};")


def pieces(f, top, terms):
    """Polynomials in x - lo on [lo, hi): quarters of octaves of x + 1, from 0 to `top`, beyond which f rounds to 1.
    Each in the place that the last two bits of the exponent of x + 1 and the first two behind its point say."""
    table, worst = [[mpf(1)] + [mpf(0)] * (terms - 1) for _ in range(16)], mpf(0)
    for octave in range(4):
        for quarter in range(4):
            lo, hi = (2 ** octave * (1 + mpf(q) / 4) - 1 for q in (quarter, quarter + 1))
            if lo >= top:
                continue
            span = (min(hi, top) - lo) * mpf("1.0001")
            begin = mpf(0) if lo else mpf("1e-6")  # the first is 0 at 0, and exact to the last bit there
            c, e = minimax(lambda r: f(lo + r), lambda r: 1 / f(lo + r), begin, span, range(0 if lo else 1, terms))
            table[(127 + octave) * 4 + quarter & 15] = [mpf(0)] * (lo == 0) + [to_f32(x) for x in c]
            worst = max(worst, e)
    return table, worst


def show_pieces(name, about, table, worst):
    print(f"/* {about}; error 2^{float(mpmath.log(worst, 2)):.1f} */")
    print(f"static const float {name}[{len(table[0])}][16] = {{")
    for k in range(len(table[0])):
        row = [float(c[k]).hex() + "f" for c in table]
        for i in range(0, 16, 4):
            print("    " + "{ "[i > 0] + ", ".join(row[i:i + 4]) + ("," if i < 12 else "},"))
    print("};")


def sixteenths():
    """e^r = (1 + EXTRA) e^r / (1 + EXTRA), powers of 2 taking the divisor. Of all multiples of 2^-28 up to 2^-5 EXTRA
    is the one that makes the 16 quotients fall nearest to float32: 0.18 ulp at most."""
    extra, edge = mpf(float.fromhex("0x1.2468ap-6")), log(2) / 32 * mpf("1.001")
    f = lambda r: (1 + extra) * (mpmath.expm1(r) / r if r else 1)
    c, e = fit(f, lambda r: max(abs(r), edge / 1000), -edge, edge, range(3))
    show("exp_q", "(1 + q0) e^r - 1 on |r| <= ln(2)/32, q0 being the first", [extra] + c, e)
    power = [to_f32(mpf(2) ** (mpf(j) / 16) / (1 + extra)) for j in range(16)]
    show("exp_powers", "2^(j/16) / (1 + q0)", power, max(abs(p * (1 + extra) / mpf(2) ** (mpf(j) / 16) - 1)
                                                            for j, p in enumerate(power)))
    first = [to_f32(mpf(2) ** (mpf(j) / 16) / p - 1) for j, p in enumerate(power)]
    show("exp_q0", "q0 for each of them as it is rounded", first, max(abs(p * (1 + q) / mpf(2) ** (mpf(j) / 16) - 1)
                                                                  for j, (p, q) in enumerate(zip(power, first))))
    bits = [struct.unpack("I", struct.pack("f", float(p)))[0] - (j << 19) - (64 << 23) for j, p in enumerate(power)]
    print("/* their bits, 2^-64 of them, less j in the first four bits of the mantissa */")
    print("static const uint32_t exp_power_bits[16] = {")
    for i in range(0, 16, 8):
        print("    " + ", ".join(f"0x{b:08x}" for b in bits[i:i + 8]) + ",")
    print("};")


def relative(f):
    return lambda x: 1 / abs(f(x))


def main():
    print("/* math_tables.h -- polynomials of simd/math.h: written by tests/vector_math_tables.py.")
    print(" * SPDX-License-Identifier: Apache-2.0 */")
    print("#ifndef CM_CPU_SIMD_MATH_TABLES_H\n#define CM_CPU_SIMD_MATH_TABLES_H\n\n#include <stdint.h>\n")
    print("/* clang-format off */")

    half = log(2) / 2 * mpf("1.0001")
    tiny = mpf(1) / 1000
    series = lambda x: mpmath.fsum(x ** k / mpmath.factorial(k + 2) for k in range(30))
    c, e = fit(series, lambda x: max(x * x, tiny) / exp(x), -half, half, range(5))
    show("exp_p", "(e^r - 1 - r) / r^2 on |r| <= ln(2)/2, weighed by r^2/e^r", c, e)
    c, e = minimax(series, lambda x: mpf(1), -half, half, range(6))
    show("expm1_p", "the same with one more term, not weighed", [to_f32(x) for x in c], e)
    sixteenths()

    lo, hi = sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1
    def log_rest(f):
        if abs(f) < mpf("0.001"):
            return mpmath.fsum((-1) ** k * f ** k / (k + 3) for k in range(20))
        return (log(1 + f) - f + f * f / 2) / f ** 3
    c, e = fit(log_rest, lambda f: max(f * f, tiny),
               lo * mpf("1.0001"), hi * mpf("1.0001"), range(10))
    show("log_p", "(ln(1+f) - f + f^2/2) / f^3 on sqrt(1/2) <= 1+f <= sqrt(2)", c, e)

    # erf(x) = x + x P(x^2) on |x| <= 0.95; 1 - exp(-Q(x)) up to 4, beyond which it rounds to 1
    small = lambda t: (mpmath.erf(sqrt(t)) / sqrt(t) - 1) if t > 0 else 2 / sqrt(pi) - 1
    c, e = fit(small, lambda t: mpf(1), mpf("1e-12"), mpf("0.95") ** 2, range(7))
    show("erf_p", "erf(x)/x - 1 in x^2 on |x| <= 0.95", c, e)
    c, e = fit(lambda x: -log(mpmath.erfc(x)), lambda x: mpmath.erfc(x), mpf("0.9"), mpf("3.95"),
               range(8))
    show("erf_q", "-ln(erfc(x)) on 0.9 <= x <= 3.95, weighed by erfc", c, e)

    # gelu(x) = max(x, 0) - |x| exp(-x^2/2) P(t), t = 1/(1 + 0.3125 |x|)
    k = mpf("0.3125")
    mills = lambda u: mpmath.erfc(u / sqrt(mpf(2))) * exp(u * u / 2) / 2
    g = lambda t: mills((1 / t - 1) / k)
    c, e = fit(g, relative(g), 1 / (1 + k * 15), mpf(1), range(1, 11))
    show("gelu_p", "erfc(x/sqrt(2)) e^(x^2/2) / 2 in t = 1/(1 + 0.3125 x), without a constant term", c, e)

    # tanh(x) = x + x^3 P(x^2)
    t = lambda t: ((mpmath.tanh(sqrt(t)) / sqrt(t) - 1) / t if t > mpf("1e-8")
                   else -mpf(1) / 3 + t * 2 / 15)
    c, e = fit(t, lambda t: t, mpf("1e-9"), mpf("0.65") ** 2, range(6))
    show("tanh_p", "(tanh(x)/x - 1) / x^2 in x^2 on |x| <= 0.65", c, e)

    table, e = pieces(mpmath.tanh, mpf("9.21"), 7)
    show_pieces("tanh_pieces", "tanh, piece by piece: row k has the factors of (|x| - lo)^k", table, e)

    quarter = pi / 4 * mpf("1.0001")
    s = lambda t: (sin(sqrt(t)) / sqrt(t) - 1) / t if t > mpf("1e-8") else -mpf(1) / 6 + t / 120
    c, e = fit(s, lambda t: t, mpf(0) + mpf("1e-9"), quarter ** 2, range(4))
    show("sin_p", "(sin(r)/r - 1) / r^2 in r^2 on |r| <= pi/4", c, e)
    k = lambda t: (cos(sqrt(t)) - 1 + t / 2) / t ** 2 if t > mpf("1e-8") else mpf(1) / 24 - t / 720
    c, e = fit(k, lambda t: t * t, mpf(0) + mpf("1e-9"), quarter ** 2, range(4))
    show("cos_p", "(cos(r) - 1 + r^2/2) / r^4 in r^2 on |r| <= pi/4", c, e)

    # pow, in double: log2(m) = s L(s^2), s = (m - 1)/(m + 1); 2^f
    edge = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1) * mpf("1.0001")) ** 2
    l2 = lambda t: (2 * mpmath.atanh(sqrt(t)) / sqrt(t) if t > mpf("1e-20") else mpf(2)) / log(2)
    c, e = fit(l2, relative(l2), mpf("1e-12"), edge, range(6), to_f64)
    show("pow_log2", "log2((1+s)/(1-s)) / s in s^2", c, e, True)
    c, e = fit(lambda f: mpf(2) ** f, lambda f: mpf(2) ** -f, -mpf("0.5001"), mpf("0.5001"), range(9), to_f64)
    show("pow_exp2", "2^f on |f| <= 1/2", c, e, True)
    print("/* clang-format on */\n\n#endif")


main()
