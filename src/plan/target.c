/* target.c -- machine classes as text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/target.h"

#include <stdio.h>
#include <string.h>

static cm_status fail_target(cm_ctx *cx, const char *text)
{
    return cm_fail(cx, CM_ERR_ARGUMENT,
                   "unknown target '%s', wanted cpu, cpu:avx2, cuda, cuda:1 or sm_90", text);
}

/* Digits and nothing else, at most `max`. */
static bool parse_number(const char *s, int max, int *out)
{
    int v = 0;
    if (!*s)
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return false;
        v = v * 10 + (*s - '0');
        if (v > max)
            return false;
    }
    *out = v;
    return true;
}

cm_status cm_target_parse(cm_ctx *cx, const char *text, cm_target *out)
{
    enum { MAX_SM = 999, MAX_ORDINAL = 1023 };
    cm_isa isa;
    int v;
    if (strcmp(text, "cpu") == 0) {
        *out = (cm_target){CM_DEVICE_CPU, (int)cm_cpu_info()->isa, 0};
    } else if (strncmp(text, "cpu:", 4) == 0) {
        if (!cm_isa_parse(text + 4, &isa))
            return cm_fail(cx, CM_ERR_ARGUMENT,
                           "unknown instruction set '%s', wanted generic, avx2, avx512 or amx",
                           text + 4);
        *out = (cm_target){CM_DEVICE_CPU, (int)isa, 0};
    } else if (strcmp(text, "cuda") == 0) {
        *out = (cm_target){CM_DEVICE_CUDA, 0, 0};
    } else if (strncmp(text, "cuda:", 5) == 0) {
        if (!parse_number(text + 5, MAX_ORDINAL, &v))
            return fail_target(cx, text);
        *out = (cm_target){CM_DEVICE_CUDA, 0, v};
    } else if (strncmp(text, "sm_", 3) == 0) {
        if (!parse_number(text + 3, MAX_SM, &v) || v < 10)
            return fail_target(cx, text);
        *out = (cm_target){CM_DEVICE_CUDA, v * 10, 0};
    } else {
        return fail_target(cx, text);
    }
    return CM_OK;
}

static cm_status add_target(cm_ctx *cx, const char *list, const cm_target *t, cm_target *out,
                            int *n)
{
    for (int i = 0; i < *n; i++)
        if (out[i].kind == t->kind &&
            (t->kind == CM_DEVICE_CPU || (out[i].level == t->level && out[i].index == t->index)))
            return cm_fail(cx, CM_ERR_ARGUMENT, "a target stands twice in '%s'", list);
    if (*n == CM_MAX_TARGETS)
        return cm_fail(cx, CM_ERR_ARGUMENT, "more than %d targets in '%s'", CM_MAX_TARGETS, list);
    out[*n] = *t;
    if (t->kind == CM_DEVICE_CPU) {
        out[*n] = out[0];
        out[0] = *t;
    }
    ++*n;
    return CM_OK;
}

cm_status cm_targets_parse(cm_ctx *cx, const char *text, cm_target out[CM_MAX_TARGETS], int *n)
{
    *n = 0;
    for (const char *p = text;; p++) {
        char one[32];
        size_t length = strcspn(p, ",");
        cm_target t;
        if (length >= sizeof one)
            return fail_target(cx, text);
        memcpy(one, p, length);
        one[length] = 0;
        CM_TRY(cm_target_parse(cx, one, &t));
        CM_TRY(add_target(cx, text, &t, out, n));
        p += length;
        if (!*p)
            return CM_OK;
    }
}

const char *cm_target_text(char *buf, size_t n, const cm_target *t)
{
    if (t->kind == CM_DEVICE_CPU)
        snprintf(buf, n, "cpu:%s", cm_isa_name((cm_isa)t->level));
    else if (t->level)
        snprintf(buf, n, "sm_%d", t->level / 10);
    else if (t->index)
        snprintf(buf, n, "cuda:%d", t->index);
    else
        snprintf(buf, n, "cuda");
    return buf;
}
