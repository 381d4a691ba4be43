/* math.h -- elementary functions that give the same bits on every machine.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Double in, double out, within 1 ulp of the truth (erf: 2, erfc: 3), by additions, products,
 * quotients and square roots alone, which IEEE 754 rounds in one way. Special values (NaN,
 * infinities, signed zeros, subnormals) are those of C's Annex F. Built with -ffp-contract=off.
 * From libm only what is exact may stand beside them: sqrt, floor, ceil, trunc, rint, fabs,
 * copysign, fmod. */
#ifndef CM_OPS_MATH_H
#define CM_OPS_MATH_H

double cm_exp(double x);
double cm_exp2(double x);
double cm_expm1(double x);
double cm_ln(double x); /* natural; cm_log writes to the log */
double cm_log2(double x);
double cm_log10(double x);
double cm_log1p(double x);
double cm_pow(double x, double y);
double cm_cbrt(double x);

double cm_sin(double x);
double cm_cos(double x);
double cm_tan(double x);
double cm_asin(double x);
double cm_acos(double x);
double cm_atan(double x);
double cm_atan2(double y, double x);

double cm_sinh(double x);
double cm_cosh(double x);
double cm_tanh(double x);
double cm_asinh(double x);
double cm_acosh(double x);
double cm_atanh(double x);

double cm_erf(double x);
double cm_erfc(double x);

double cm_sigmoid(double x);  /* 1/(1 + exp(-x)) */
double cm_softplus(double x); /* log(1 + exp(x)) without overflow */

#endif
