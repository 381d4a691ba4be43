/* documents.c -- `cameo documents`: the operator list, the man page and shell completion, printed from
 * the tables that the program itself runs by.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/documents.h"

#include <string.h>

static const struct {
    const char *kind;
    cm_document_fn write;
} documents[] = {
    {"ops", cm_document_ops},
    {"man", cm_document_man},
    {"completion", cm_document_completion},
    {"commands", cm_document_commands},
    {"trtexec", cm_document_trtexec},
    {"passes", cm_document_passes},
};

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    (void)options;
    for (int i = 0; n_args == 1 && i < CM_COUNT(documents); i++) {
        if (strcmp(documents[i].kind, args[0]) != 0)
            continue;
        cm_buf b;
        cm_buf_init(&b, cx->allocator);
        documents[i].write(cx->arena, &b);
        bool whole = !b.failed && fwrite(b.data, 1, b.n, stdout) == b.n;
        cm_status st = b.failed ? CM_ERR_MEMORY : whole ? CM_OK : CM_ERR_IO;
        cm_buf_deinit(&b);
        return st == CM_OK ? CM_EXIT_OK : cm_cli_failed(cx, st);
    }
    return cm_cli_failed(
        cx, cm_fail(cx, CM_ERR_ARGUMENT,
                    "documents needs a kind: ops, man, completion, commands, trtexec or passes"));
}

const cm_cli_verb cm_verb_documents = {
    .name = "documents",
    .summary = "print the operator list, the man page, shell completion",
    .usage = "ops|man|completion|commands|trtexec|passes",
    .details = "ops: every operator with its element types and opset versions, as Markdown.\n"
               "man: the page of cameo(1), as roff. completion: a script for bash. commands: every "
               "verb and\n"
               "option with an example, as Markdown. trtexec: what becomes of each of trtexec's "
               "flags.\n"
               "passes: the optimiser in its order, as Markdown. All are printed from the tables "
               "that the\n"
               "program itself runs by.",
    .examples = "  cameo documents man | man -l -\n"
                "  cameo documents completion > ~/.local/share/bash-completion/completions/cameo\n",
    .options_bytes = 1,
    .run = run,
};
