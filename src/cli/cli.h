/* cli.h -- the `cameo` command: verbs, their options, and what they share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A verb is a row in main.c's table and a file of its own. Its options are a table too, so that help,
 * the man page, shell completion and the parser cannot disagree. */
#ifndef CM_CLI_CLI_H
#define CM_CLI_CLI_H

#include <stdio.h>

#include "base/status.h"

enum { CM_EXIT_OK = 0, CM_EXIT_FAILED = 1, CM_EXIT_BAD_INPUT = 2 };

typedef enum {
    CM_OPT_FLAG,    /* bool */
    CM_OPT_TEXT,    /* const char * */
    CM_OPT_INT,     /* int64_t */
    CM_OPT_REAL,    /* double */
    CM_OPT_SECONDS, /* double: 2, 1.5s, 100ms, 2m */
    CM_OPT_TEXTS,   /* cm_texts: may be given several times, each value split at commas */
    CM_OPT_PLUGINS, /* the same: libraries that are loaded before the verb runs */
} cm_opt_kind;

typedef struct cm_texts {
    int n;
    const char **v;
} cm_texts;

typedef struct cm_cli_option {
    const char *name; /* without the dashes */
    const char *arg;  /* name of the value in help, NULL for a flag */
    const char *help;
    cm_opt_kind kind;
    size_t offset; /* in the verb's options struct */
} cm_cli_option;

typedef struct cm_cli_verb {
    const char *name, *summary;
    const char *usage;   /* after "cameo NAME " */
    const char *details; /* paragraphs for --help and the man page */
    const char *examples;
    size_t options_bytes;
    const cm_cli_option *options;
    int n_options;
    void (*defaults)(void *options); /* NULL: all zero */
    /* What to use in place of an option that the verb lacks: a sentence, or NULL. May be NULL. */
    const char *(*instead)(const char *option);
    int (*run)(cm_ctx *cx, void *options, int n_args, const char **args);
} cm_cli_verb;

#define CM_CLI_VERBS(X)                                                                            \
    X(build)                                                                                       \
    X(run)                                                                                         \
    X(bench)                                                                                       \
    X(profile)                                                                                     \
    X(compare)                                                                                     \
    X(tune)                                                                                        \
    X(refit)                                                                                       \
    X(inspect)                                                                                     \
    X(devices)                                                                                     \
    X(test_onnx)                                                                                   \
    X(debug)                                                                                       \
    X(explain)                                                                                     \
    X(edit)                                                                                        \
    X(trtexec)                                                                                     \
    X(documents)

#define X(name) extern const cm_cli_verb cm_verb_##name;
CM_CLI_VERBS(X)
#undef X

extern const cm_cli_verb *const cm_cli_verbs[];
extern const int cm_cli_n_verbs;

/* Parse `argv` after the verb. Non-options go to args. On a wrong one: prints a sentence with a
 * suggestion and returns CM_ERR_ARGUMENT. --help sets *help. */
cm_status cm_cli_parse(cm_ctx *cx, const cm_cli_verb *verb, int argc, char **argv, void *options,
                       const char **args, int *n_args, bool *help);
void cm_cli_help(const cm_cli_verb *verb, FILE *to);

/* Print "cameo: SENTENCE" to stderr and give the exit code for `st`. */
int cm_cli_failed(const cm_ctx *cx, cm_status st);
/* Memory that lives until the verb ends. */
cm_arena *cm_cli_arena(cm_ctx *cx);
/* A progress bar on a terminal, nothing in a pipe. Installs itself into cx. */
void cm_cli_progress(cm_ctx *cx);
void cm_cli_progress_done(cm_ctx *cx); /* wipes the bar */
/* Ctrl-C sets cx->cancel; a second one ends the process. */
void cm_cli_catch_interrupt(cm_ctx *cx);
/* "1.2 GB", "345 KB" into buf. */
const char *cm_cli_bytes(char *buf, size_t n, double bytes);

#endif
