/* options.c -- parses GNU long options by a verb's table, and prints help from the same table.
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

static const cm_cli_option *find(const cm_cli_verb *verb, const char *name, size_t n)
{
    for (int i = 0; i < verb->n_options; i++)
        if (strlen(verb->options[i].name) == n && !strncmp(verb->options[i].name, name, n))
            return &verb->options[i];
    return NULL;
}

static cm_status unknown(cm_ctx *cx, const cm_cli_verb *verb, const char *name, size_t n)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)n, name);
    const char *instead = verb->instead ? verb->instead(word) : NULL;
    if (instead)
        return cm_fail(cx, CM_ERR_ARGUMENT, "%s takes no --%s here: %s", verb->name, word, instead);
    const char *names[160];
    int k = 0;
    for (int i = 0; i < verb->n_options && k < CM_COUNT(names); i++)
        names[k++] = verb->options[i].name;
    const char *near = cm_suggest(word, names, k);
    if (near)
        return cm_fail(cx, CM_ERR_ARGUMENT, "%s has no option --%s; did you mean --%s?", verb->name,
                       word, near);
    return cm_fail(cx, CM_ERR_ARGUMENT, "%s has no option --%s; see `cameo %s --help`", verb->name,
                   word, verb->name);
}

static cm_status malformed(cm_ctx *cx, const cm_cli_option *o, const char *text, const char *want)
{
    return cm_fail(cx, CM_ERR_ARGUMENT, "--%s=%s: wanted %s", o->name, text, want);
}

static cm_status add_texts(cm_ctx *cx, cm_texts *list, const char *text)
{
    int commas = 0;
    for (const char *p = text; *p; p++)
        commas += *p == ',';
    const char **v;
    CM_NEW_N(cx, cm_cli_arena(cx), v, list->n + commas + 1, const char *);
    if (list->n)
        memcpy(v, list->v, (size_t)list->n * sizeof *v);
    for (const char *p = text;;) {
        size_t n = strcspn(p, ",");
        v[list->n] = cm_arena_strndup(cm_cli_arena(cx), p, n);
        if (!v[list->n++])
            return cm_fail_memory(cx);
        if (!p[n])
            break;
        p += n + 1;
    }
    list->v = v;
    return CM_OK;
}

static bool parse_seconds(const char *text, double *out)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || errno || !(v >= 0))
        return false;
    if (!strcmp(end, "ms"))
        v /= 1000;
    else if (!strcmp(end, "m"))
        v *= 60;
    else if (*end && strcmp(end, "s") != 0)
        return false;
    *out = v;
    return true;
}

static cm_status set(cm_ctx *cx, const cm_cli_option *o, void *options, const char *text)
{
    void *to = (char *)options + o->offset;
    char *end;
    errno = 0;
    switch (o->kind) {
    case CM_OPT_FLAG:
        *(bool *)to = true;
        return CM_OK;
    case CM_OPT_TEXT:
        *(const char **)to = text;
        return CM_OK;
    case CM_OPT_INT:
        *(int64_t *)to = strtoll(text, &end, 10);
        return *text && !*end && !errno ? CM_OK : malformed(cx, o, text, "an integer");
    case CM_OPT_REAL:
        *(double *)to = strtod(text, &end);
        return *text && !*end && !errno ? CM_OK : malformed(cx, o, text, "a number");
    case CM_OPT_SECONDS:
        return parse_seconds(text, to) ? CM_OK
                                       : malformed(cx, o, text, "a time such as 2s or 100ms");
    case CM_OPT_TEXTS:
    case CM_OPT_PLUGINS:
        return add_texts(cx, to, text);
    }
    return CM_OK;
}

/* One option at argv[*i]; its value may be the next word. */
static cm_status take(cm_ctx *cx, const cm_cli_verb *verb, int argc, char **argv, int *i,
                      void *options)
{
    const char *name = argv[*i] + 2, *equals = strchr(name, '=');
    size_t n = equals ? (size_t)(equals - name) : strlen(name);
    const cm_cli_option *o = find(verb, name, n);
    if (!o)
        return unknown(cx, verb, name, n);
    if (o->kind == CM_OPT_FLAG) {
        if (equals)
            return cm_fail(cx, CM_ERR_ARGUMENT, "--%s takes no value", o->name);
        return set(cx, o, options, NULL);
    }
    if (!equals && *i + 1 >= argc)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--%s needs a value: %s", o->name, o->arg);
    return set(cx, o, options, equals ? equals + 1 : argv[++*i]);
}

cm_status cm_cli_parse(cm_ctx *cx, const cm_cli_verb *verb, int argc, char **argv, void *options,
                       const char **args, int *n_args, bool *help)
{
    bool only_args = false;
    *n_args = 0;
    *help = false;
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i];
        if (only_args || a[0] != '-' || !a[1]) {
            args[(*n_args)++] = a;
        } else if (!strcmp(a, "--")) {
            only_args = true;
        } else if (!strcmp(a, "--help") || !strcmp(a, "-h")) {
            *help = true;
        } else if (a[1] != '-') {
            return cm_fail(cx, CM_ERR_ARGUMENT, "%s has no option %s; options are written --name",
                           verb->name, a);
        } else {
            CM_TRY(take(cx, verb, argc, argv, &i, options));
        }
    }
    return CM_OK;
}

void cm_cli_help(const cm_cli_verb *verb, FILE *to)
{
    fprintf(to, "cameo %s -- %s\n\nUsage: cameo %s %s\n\n%s\n", verb->name, verb->summary,
            verb->name, verb->usage, verb->details);
    if (verb->n_options)
        fprintf(to, "\nOptions:\n");
    for (int i = 0; i < verb->n_options; i++) {
        const cm_cli_option *o = &verb->options[i];
        int n = fprintf(to, "  --%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
        fprintf(to, "%*s%s\n", n < 28 ? 28 - n : 2, "", o->help);
    }
    fprintf(to, "  --help%20s%s\n\nExamples:\n%s", "", "print this", verb->examples);
}
