/* main.c -- `cameo VERB`: finds the verb, parses its options, runs it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cameo_plugin.h"
#include "cli/cli.h"

const cm_cli_verb *const cm_cli_verbs[] = {
#define X(name) &cm_verb_##name,
    CM_CLI_VERBS(X)
#undef X
};
const int cm_cli_n_verbs = CM_COUNT(cm_cli_verbs);

static atomic_bool interrupted;

static void on_interrupt(int sig)
{
    if (atomic_exchange(&interrupted, true))
        _exit(128 + sig);
}

void cm_cli_catch_interrupt(cm_ctx *cx)
{
    cx->cancel = &interrupted;
    struct sigaction a = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

cm_arena *cm_cli_arena(cm_ctx *cx)
{
    return cx->arena;
}

int cm_cli_failed(const cm_ctx *cx, cm_status st)
{
    fprintf(stderr, "cameo: %s\n", cx->message[0] ? cx->message : cm_status_text(st));
    return CM_EXIT_BAD_INPUT;
}

const char *cm_cli_bytes(char *buf, size_t n, double bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    int u = 0;
    while (bytes >= 1000 && u + 1 < CM_COUNT(units)) {
        bytes /= 1000;
        u++;
    }
    snprintf(buf, n,
             bytes < 10 && u    ? "%.2f %s"
             : bytes < 100 && u ? "%.1f %s"
                                : "%.0f %s",
             bytes, units[u]);
    return buf;
}

static bool draw(void *user, const char *what, int64_t done, int64_t total)
{
    (void)user;
    enum { WIDTH = 30 };
    int filled = total > 0 ? (int)(done * WIDTH / total) : 0;
    fprintf(stderr, "\r\033[K%-10s [", what);
    for (int i = 0; i < WIDTH; i++)
        fputc(i < filled ? '#' : '.', stderr);
    fprintf(stderr, "] %3d%%", total > 0 ? (int)(done * 100 / total) : 0);
    return !atomic_load(&interrupted);
}

void cm_cli_progress(cm_ctx *cx)
{
    if (isatty(2))
        cx->progress = draw;
}

void cm_cli_progress_done(cm_ctx *cx)
{
    if (cx->progress)
        fprintf(stderr, "\r\033[K");
}

static void log_line(void *user, cm_log_level level, const char *sentence)
{
    (void)user;
    if (level <= CM_LOG_WARNING)
        fprintf(stderr, "cameo: %s%s\n", level == CM_LOG_WARNING ? "warning: " : "", sentence);
}

static void usage(FILE *to)
{
    fprintf(to, "cameo " CM_VERSION " -- compile and run trained networks\n\n"
                "Usage: cameo VERB [OPTION]... [ARGUMENT]...\n\n");
    for (int i = 0; i < cm_cli_n_verbs; i++)
        fprintf(to, "  %-10s %s\n", cm_cli_verbs[i]->name, cm_cli_verbs[i]->summary);
    fprintf(to,
            "\n`cameo VERB --help` explains a verb, with examples. `cameo --version` prints the "
            "version.\n");
}

static const cm_cli_verb *find_verb(cm_ctx *cx, const char *name)
{
    const char *names[32];
    for (int i = 0; i < cm_cli_n_verbs; i++) {
        if (!strcmp(cm_cli_verbs[i]->name, name))
            return cm_cli_verbs[i];
        names[i] = cm_cli_verbs[i]->name;
    }
    const char *near = cm_suggest(name, names, cm_cli_n_verbs);
    (void)!cm_fail(cx, CM_ERR_ARGUMENT,
                   near ? "there is no verb '%s'; did you mean '%s'?"
                        : "there is no verb '%s'; `cameo --help` lists them",
                   name, near);
    return NULL;
}

/* Operators of plugins are there before a verb opens anything. */
static cm_status load_plugins(cm_ctx *cx, const cm_cli_verb *verb, const void *options)
{
    cameo_error error;
    for (int i = 0; i < verb->n_options; i++) {
        const cm_cli_option *o = &verb->options[i];
        if (o->kind != CM_OPT_PLUGINS)
            continue;
        const cm_texts *t = (const cm_texts *)(const void *)((const char *)options + o->offset);
        for (int k = 0; k < t->n; k++)
            if (cameo_plugin_load(t->v[k], &error) != CAMEO_OK)
                return cm_fail(cx, (cm_status)error.status, "%s", error.message);
    }
    return CM_OK;
}

static int run_verb(cm_ctx *cx, const cm_cli_verb *verb, int argc, char **argv)
{
    void *options = cm_arena_alloc(cx->arena, verb->options_bytes);
    const char **args = cm_new_n(cx->arena, argc + 1, const char *);
    int n_args;
    bool help;
    if (!options || !args)
        return cm_cli_failed(cx, CM_ERR_MEMORY);
    if (verb->defaults)
        verb->defaults(options);
    cm_status st = cm_cli_parse(cx, verb, argc, argv, options, args, &n_args, &help);
    if (st != CM_OK)
        return cm_cli_failed(cx, st);
    if (help) {
        cm_cli_help(verb, stdout);
        return CM_EXIT_OK;
    }
    st = load_plugins(cx, verb, options);
    if (st != CM_OK)
        return cm_cli_failed(cx, st);
    return verb->run(cx, options, n_args, args);
}

int main(int argc, char **argv)
{
    cm_arena arena, scratch;
    cm_arena_init(&arena, NULL);
    cm_arena_init(&scratch, NULL);
    cm_ctx cx = {.arena = &arena, .scratch = &scratch, .log = log_line};
    int code = CM_EXIT_OK;
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") ||
        !strcmp(argv[1], "help")) {
        usage(argc < 2 ? stderr : stdout);
        code = argc < 2 ? CM_EXIT_BAD_INPUT : CM_EXIT_OK;
    } else if (!strcmp(argv[1], "--version")) {
        printf("cameo " CM_VERSION "\n");
    } else {
        cm_cli_catch_interrupt(&cx);
        const cm_cli_verb *verb = find_verb(&cx, argv[1]);
        code = verb ? run_verb(&cx, verb, argc - 2, argv + 2) : cm_cli_failed(&cx, CM_ERR_ARGUMENT);
    }
    cm_arena_deinit(&scratch);
    cm_arena_deinit(&arena);
    return code;
}
