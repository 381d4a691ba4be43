/* cast_string.c -- numbers to text and back, for Cast.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A float is written with the fewest digits that read back as the same number of its type, plainly
 * between 1e-4 and 1e16 ("0.25", "3.0"), else with an exponent ("1e-05", "2.5e+20"). Reading takes
 * what the C library takes, "INF" and "NaN" in any case among it. */
#include "ops/pointwise/cast_string.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool cm_text_begin(cm_text *t)
{
    t->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (t->c == (locale_t)0)
        return false;
    t->before = uselocale(t->c);
    return true;
}

void cm_text_end(cm_text *t)
{
    uselocale(t->before);
    freelocale(t->c);
}

/* The shortest "d.ddde+xx" that reads back as x when rounded to `dtype`. */
static void shortest(cm_dtype dtype, double x, char *buf, size_t n)
{
    for (int digits = 1; digits <= 17; digits++) {
        uint64_t cell; /* room for an element of any width */
        snprintf(buf, n, "%.*e", digits - 1, x);
        cm_set_f64(dtype, &cell, 0, strtod(buf, NULL));
        if (cm_get_f64(dtype, &cell, 0) == x)
            return;
    }
}

static int print_float(cm_dtype dtype, double x, char *out, size_t n)
{
    char e[40], digits[24];
    int n_digits = 0;
    if (x != x)
        return snprintf(out, n, "nan");
    if (isinf(x))
        return snprintf(out, n, x < 0 ? "-inf" : "inf");
    const char *sign = signbit(x) ? "-" : "";
    x = fabs(x);
    shortest(dtype, x, e, sizeof e);
    char *mark = strchr(e, 'e');
    int power = atoi(mark + 1);
    for (const char *p = e; p < mark; p++)
        if (isdigit((unsigned char)*p))
            digits[n_digits++] = *p;
    digits[n_digits] = 0;
    if (x != 0 && (power < -4 || power >= 16))
        return snprintf(out, n, "%s%c%s%se%c%02d", sign, digits[0], n_digits > 1 ? "." : "",
                        digits + 1, power < 0 ? '-' : '+', abs(power));
    if (power < 0)
        return snprintf(out, n, "%s0.%.*s%s", sign, -power - 1, "0000", digits);
    if (n_digits > power + 1)
        return snprintf(out, n, "%s%.*s.%s", sign, power + 1, digits, digits + power + 1);
    return snprintf(out, n, "%s%s%.*s.0", sign, digits, power + 1 - n_digits, "0000000000000000");
}

int cm_text_print(cm_dtype dtype, const void *data, int64_t index, char *out, size_t n)
{
    if (dtype == CM_BOOL)
        return snprintf(out, n, cm_get_i64(dtype, data, index) ? "True" : "False");
    if (cm_dtype_is_float(dtype))
        return print_float(dtype, cm_get_f64(dtype, data, index), out, n);
    int64_t v = cm_get_i64(dtype, data, index);
    if (dtype == CM_U64)
        return snprintf(out, n, "%llu", (unsigned long long)v);
    return snprintf(out, n, "%lld", (long long)v);
}

static bool rest_is_blank(const char *p)
{
    while (isspace((unsigned char)*p))
        p++;
    return *p == 0;
}

bool cm_text_parse(cm_dtype dtype, const char *text, cm_number *out)
{
    char *end;
    *out = (cm_number){0};
    if (dtype == CM_BOOL) {
        out->is_int = true;
        out->i = strcasecmp(text, "true") == 0;
        if (out->i || strcasecmp(text, "false") == 0)
            return true;
    }
    if (!cm_dtype_is_float(dtype)) {
        const char *p = text;
        while (isspace((unsigned char)*p))
            p++;
        out->is_int = true;
        out->i = *p == '-' ? strtoll(p, &end, 10) : (int64_t)strtoull(p, &end, 10);
        if (end != p && rest_is_blank(end))
            return true;
    }
    out->is_int = false;
    out->f = strtod(text, &end);
    return end != text && rest_is_blank(end);
}
