/* program.c -- pointwise programs as text and as instructions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int arity;
} rows[CM_PW_ALL] = {
#define X(id, text, n) [CM_PW_##id] = {text, n},
    CM_POINTWISE(X) CM_POINTWISE_ALONE(X)
#undef X
};

const char *cm_pointwise_name(cm_pointwise op)
{
    return rows[op].name;
}

int cm_pointwise_arity(cm_pointwise op)
{
    return rows[op].arity;
}

static void note_arg(cm_program *p, const cm_program_arg *a)
{
    if (a->kind == CM_ARG_X)
        p->uses_x = true;
    if (a->kind == CM_ARG_OPERAND && a->index >= p->n_operands)
        p->n_operands = a->index + 1;
}

int cm_program_add(cm_program *p, cm_pointwise op, cm_program_arg a, cm_program_arg b,
                   cm_program_arg c)
{
    if (p->n_steps == CM_PROGRAM_MAX)
        return -1;
    cm_program_step *s = &p->step[p->n_steps];
    *s = (cm_program_step){op, {a, b, c}};
    for (int i = 0; i < rows[op].arity; i++)
        note_arg(p, &s->arg[i]);
    return p->n_steps++;
}

typedef struct {
    cm_ctx *cx;
    const char *p, *end;
} reader;

/* The next word: up to a space or a semicolon. False at the end. */
static bool word(reader *r, char *buf, size_t n)
{
    while (r->p < r->end && *r->p == ' ')
        r->p++;
    size_t k = 0;
    if (r->p < r->end && *r->p == ';')
        buf[k++] = *r->p++;
    else
        while (r->p < r->end && *r->p != ' ' && *r->p != ';' && k + 1 < n)
            buf[k++] = *r->p++;
    buf[k] = 0;
    return k > 0;
}

static bool index_of(const char *text, int limit, int *out)
{
    char *end;
    long v = strtol(text, &end, 10);
    *out = (int)v;
    return *text && !*end && v >= 0 && v < limit;
}

static cm_status parse_arg(reader *r, const cm_program *p, cm_program_arg *out)
{
    char w[64], *end;
    if (!word(r, w, sizeof w) || !strcmp(w, ";"))
        return cm_fail(r->cx, CM_ERR_MODEL, "a program's instruction lacks an argument");
    if (!strcmp(w, "x")) {
        *out = cm_arg_x();
        return CM_OK;
    }
    int k;
    if (*w == '$' && index_of(w + 1, CM_PROGRAM_MAX, &k)) {
        *out = cm_arg_operand(k);
        return CM_OK;
    }
    if (*w == '%' && index_of(w + 1, p->n_steps, &k)) {
        *out = cm_arg_result(k);
        return CM_OK;
    }
    *out = cm_arg_number(strtod(w, &end));
    if (*end)
        return cm_fail(r->cx, CM_ERR_MODEL, "a program reads '%s', which is not defined before it",
                       w);
    return CM_OK;
}

static cm_status parse_outputs(reader *r, cm_program *p)
{
    char w[64];
    while (word(r, w, sizeof w)) {
        int k;
        if (p->n_outputs == CM_PROGRAM_MAX || *w != '%' || !index_of(w + 1, p->n_steps, &k))
            return cm_fail(r->cx, CM_ERR_MODEL, "a program hands out '%s', which is no result", w);
        p->output[p->n_outputs++] = k;
    }
    return CM_OK;
}

static cm_status parse_step(reader *r, const char *name, cm_program *p)
{
    int op = 0;
    while (op < CM_PW_COUNT && strcmp(rows[op].name, name) != 0)
        op++;
    if (op == CM_PW_COUNT)
        return cm_fail(r->cx, CM_ERR_MODEL, "a program has no instruction '%s'", name);
    cm_program_arg arg[3] = {{0}};
    for (int i = 0; i < rows[op].arity; i++)
        CM_TRY(parse_arg(r, p, &arg[i]));
    if (cm_program_add(p, (cm_pointwise)op, arg[0], arg[1], arg[2]) < 0)
        return cm_fail(r->cx, CM_ERR_MODEL, "a program has more than %d instructions",
                       CM_PROGRAM_MAX);
    return CM_OK;
}

cm_status cm_program_parse(cm_ctx *cx, const char *text, size_t n, cm_program *out)
{
    reader r = {cx, text, text + n};
    char w[64];
    memset(out, 0, sizeof *out);
    while (word(&r, w, sizeof w)) {
        if (!strcmp(w, ";"))
            continue;
        if (!strcmp(w, "->")) {
            CM_TRY(parse_outputs(&r, out));
            break;
        }
        CM_TRY(parse_step(&r, w, out));
    }
    if (out->n_steps == 0)
        return cm_fail(cx, CM_ERR_MODEL, "a program has no instruction");
    if (out->n_outputs == 0) {
        out->output[0] = out->n_steps - 1;
        out->n_outputs = 1;
    }
    return CM_OK;
}

static void print_arg(const cm_program_arg *a, cm_buf *out)
{
    if (a->kind == CM_ARG_X) {
        cm_buf_str(out, " x");
    } else if (a->kind == CM_ARG_NUMBER) {
        char text[40];
        for (int digits = 1; digits <= 17; digits++) { /* the fewest that read back the same */
            snprintf(text, sizeof text, "%.*g", digits, a->number);
            if (strtod(text, NULL) == a->number || isnan(a->number))
                break;
        }
        cm_buf_printf(out, " %s", text);
    } else {
        cm_buf_printf(out, " %c%d", a->kind == CM_ARG_OPERAND ? '$' : '%', a->index);
    }
}

void cm_program_print(const cm_program *p, cm_buf *out)
{
    for (int i = 0; i < p->n_steps; i++) {
        const cm_program_step *s = &p->step[i];
        cm_buf_printf(out, "%s%s", i ? "; " : "", rows[s->op].name);
        for (int k = 0; k < rows[s->op].arity; k++)
            print_arg(&s->arg[k], out);
    }
    if (p->n_outputs == 1 && p->output[0] == p->n_steps - 1)
        return;
    cm_buf_str(out, " ->");
    for (int i = 0; i < p->n_outputs; i++)
        cm_buf_printf(out, " %%%d", p->output[i]);
}
