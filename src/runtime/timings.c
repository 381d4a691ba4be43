/* timings.c -- a sorted table of measurements, and its text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/timings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char header[] = "cameo-timings 1";

void cm_timings_init(cm_timings *t, const cm_allocator *allocator, const cm_target *target)
{
    char text[32] = "cpu"; /* a problem's signature holds the level */
    *t = (cm_timings){0};
    cm_arena_init(&t->arena, allocator);
    cm_buf_init(&t->others, allocator);
    if (target->kind != CM_DEVICE_CPU)
        cm_target_text(text, sizeof text, target);
    snprintf(t->machine, sizeof t->machine, "%s %s", text, cm_cpu_info()->name);
}

void cm_timings_deinit(cm_timings *t)
{
    cm_buf_deinit(&t->others);
    cm_arena_deinit(&t->arena);
}

static int compare_knobs(const cm_knobs *a, const cm_knobs *b)
{
    for (int i = 0; i < CM_COUNT(a->v); i++)
        if (a->v[i] != b->v[i])
            return a->v[i] < b->v[i] ? -1 : 1;
    return 0;
}

static int compare(const cm_timing *a, uint64_t problem, const char *tactic, const cm_knobs *knobs)
{
    if (a->problem != problem)
        return a->problem < problem ? -1 : 1;
    int c = strcmp(a->tactic, tactic);
    return c ? c : compare_knobs(&a->knobs, knobs);
}

/* The first entry that is not before it. */
static int lower_bound(const cm_timings *t, uint64_t problem, const char *tactic,
                       const cm_knobs *knobs)
{
    int lo = 0, hi = t->n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (compare(&t->v[mid], problem, tactic, knobs) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

double cm_timings_find(const cm_timings *t, uint64_t problem, const char *tactic,
                       const cm_knobs *knobs)
{
    int i = lower_bound(t, problem, tactic, knobs);
    return i < t->n && compare(&t->v[i], problem, tactic, knobs) == 0 ? t->v[i].ns : NAN;
}

const cm_timing *cm_timings_of(const cm_timings *t, uint64_t problem, int *n)
{
    cm_knobs least;
    for (int i = 0; i < CM_COUNT(least.v); i++)
        least.v[i] = INT32_MIN;
    int first = lower_bound(t, problem, "", &least);
    *n = 0;
    while (first + *n < t->n && t->v[first + *n].problem == problem)
        (*n)++;
    return t->v + first;
}

static cm_status grow(cm_ctx *cx, cm_timings *t)
{
    if (t->n < t->cap)
        return CM_OK;
    int cap = t->cap ? t->cap * 2 : 64;
    cm_timing *v;
    CM_NEW_N(cx, &t->arena, v, cap, cm_timing);
    if (t->n)
        memcpy(v, t->v, (size_t)t->n * sizeof *v);
    t->v = v;
    t->cap = cap;
    return CM_OK;
}

cm_status cm_timings_add(cm_ctx *cx, cm_timings *t, uint64_t problem, const char *tactic,
                         const cm_knobs *knobs, double ns)
{
    int i = lower_bound(t, problem, tactic, knobs);
    if (i < t->n && compare(&t->v[i], problem, tactic, knobs) == 0) {
        t->v[i].ns = ns;
        return CM_OK;
    }
    CM_TRY(grow(cx, t));
    const char *name = cm_arena_strdup(&t->arena, tactic);
    if (!name)
        return cm_fail_memory(cx);
    memmove(&t->v[i + 1], &t->v[i], (size_t)(t->n - i) * sizeof *t->v);
    t->v[i] = (cm_timing){problem, name, *knobs, ns};
    t->n++;
    return CM_OK;
}

void cm_timings_print(const cm_timings *t, cm_buf *out)
{
    cm_buf_printf(out, "%s\n", header);
    if (t->others.n)
        cm_buf_bytes(out, t->others.data, t->others.n);
    cm_buf_printf(out, "machine %s\n", t->machine);
    for (int i = 0; i < t->n; i++) {
        const cm_timing *v = &t->v[i];
        cm_buf_printf(out, "%016llx %s ", (unsigned long long)v->problem, v->tactic);
        for (int k = 0; k < CM_COUNT(v->knobs.v); k++)
            cm_buf_printf(out, "%s%d", k ? "," : "", v->knobs.v[k]);
        cm_buf_printf(out, " %.0f\n", v->ns);
    }
}

static bool parse_knobs(const char *text, cm_knobs *out)
{
    for (int i = 0; i < CM_COUNT(out->v); i++) {
        char *end;
        long v = strtol(text, &end, 10);
        if (end == text || v < INT32_MIN || v > INT32_MAX ||
            *end != (i + 1 < CM_COUNT(out->v) ? ',' : '\0'))
            return false;
        out->v[i] = (int32_t)v;
        text = end + 1;
    }
    return true;
}

static bool parse_line(const char *line, cm_timing *out, char *tactic, size_t max)
{
    char knobs[128], format[48];
    unsigned long long problem;
    int used = 0;
    snprintf(format, sizeof format, "%%16llx %%%zus %%127s %%lf%%n", max - 1);
    if (sscanf(line, format, &problem, tactic, knobs, &out->ns, &used) != 4 || line[used] ||
        !parse_knobs(knobs, &out->knobs) || !(out->ns >= 0 && out->ns < 1e18))
        return false;
    out->problem = problem;
    return true;
}

/* Lines were written with the level once: "cpu:avx2 NAME". */
static bool is_ours(const cm_timings *t, const char *machine)
{
    const char *name = strchr(machine, ' ');
    if (name && !strncmp(machine, "cpu:", 4) && !strncmp(t->machine, "cpu ", 4))
        return !strcmp(name, t->machine + 3);
    return !strcmp(machine, t->machine);
}

static cm_status take_line(cm_ctx *cx, cm_timings *t, const char *line, int number, bool *ours)
{
    char tactic[128];
    cm_timing v;
    if (!strncmp(line, "machine ", 8)) {
        *ours = is_ours(t, line + 8);
        if (!*ours)
            cm_buf_printf(&t->others, "%s\n", line);
        return CM_OK;
    }
    if (!parse_line(line, &v, tactic, sizeof tactic))
        return cm_fail(cx, CM_ERR_DATA, "timings, line %d: '%.60s' is not PROBLEM TACTIC KNOBS NS",
                       number, line);
    if (*ours)
        return cm_timings_add(cx, t, v.problem, tactic, &v.knobs, v.ns);
    cm_buf_printf(&t->others, "%s\n", line);
    return t->others.failed ? cm_fail_memory(cx) : CM_OK;
}

cm_status cm_timings_parse(cm_ctx *cx, cm_timings *t, const char *text, size_t n)
{
    char line[400];
    bool ours = false;
    const char *end = text + n;
    for (int number = 1; text < end; number++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t len = (size_t)((stop ? stop : end) - text);
        if (len >= sizeof line)
            return cm_fail(cx, CM_ERR_DATA, "timings, line %d: too long", number);
        memcpy(line, text, len);
        line[len] = 0;
        text += len + (stop != NULL);
        if (number == 1) {
            if (strcmp(line, header))
                return cm_fail(cx, CM_ERR_DATA, "timings: found '%.40s', wanted '%s'", line,
                               header);
        } else if (line[0]) {
            CM_TRY(take_line(cx, t, line, number, &ours));
        }
    }
    return CM_OK;
}
