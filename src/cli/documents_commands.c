/* documents_commands.c -- docs/commands.md: every verb with every option, its effect and an example; and the tables of
 * docs/trtexec.md.
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "cli/documents.h"
#include "cli/trtexec.h"

/* Text of a table's cell: a bar would end it. */
static void cell(cm_buf *b, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '|')
            cm_buf_u8(b, '\\');
        cm_buf_u8(b, (uint8_t)*p);
    }
}

static void option_row(cm_arena *arena, cm_buf *b, const cm_cli_verb *v, const cm_cli_option *o)
{
    const char *example = cm_document_example(arena, v, o);
    cm_buf_printf(b, "| `--%s%s%s` | ", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
    cell(b, o->help);
    cm_buf_str(b, " | ");
    if (example)
        cm_buf_printf(b, "`%s`", example);
    cm_buf_str(b, " |\n");
}

static void verb_section(cm_arena *arena, cm_buf *b, const cm_cli_verb *v)
{
    cm_buf_printf(b, "\n## cameo %s\n\n%c%s.\n\n```\ncameo %s %s\n```\n\n%s\n", v->name,
                  toupper((unsigned char)v->summary[0]), v->summary + 1, v->name, v->usage,
                  v->details);
    if (v->n_options)
        cm_buf_str(b, "\n| option | effect | example |\n|---|---|---|\n");
    for (int i = 0; i < v->n_options; i++)
        option_row(arena, b, v, &v->options[i]);
    cm_buf_printf(b, "\nExamples:\n\n```\n");
    for (const char *p = v->examples; *p;) { /* two spaces stand before each */
        size_t n = strcspn(p, "\n");
        cm_buf_printf(b, "%.*s\n", (int)(n > 2 ? n - 2 : 0), p + (n > 2 ? 2 : 0));
        p += n + (p[n] == '\n');
    }
    cm_buf_str(b, "```\n");
}

void cm_document_commands(cm_arena *arena, cm_buf *b)
{
    cm_buf_str(
        b, "# The command, option by option\n\n"
           "Printed by `cameo documents commands` from the tables that the program runs by; `make "
           "docs` "
           "writes it anew.\nEvery verb takes `--help`. A value follows after a space or an equals "
           "sign.\n");
    for (int i = 0; i < cm_cli_n_verbs; i++)
        verb_section(arena, b, cm_cli_verbs[i]);
}

/* ---- Flags of trtexec ---------------------------------------------------------------------------- */

static const char idle[] = "taken; changes nothing: ";

static void trtexec_rows(cm_arena *arena, cm_buf *b, bool idle_ones)
{
    const cm_cli_verb *v = &cm_verb_trtexec;
    for (int i = 0; i < v->n_options; i++) {
        const cm_cli_option *o = &v->options[i];
        bool is_idle = !strncmp(o->help, idle, sizeof idle - 1);
        if (is_idle != idle_ones)
            continue;
        cm_buf_printf(b, "| `--%s%s%s` | ", o->name, o->arg ? "=" : "", o->arg ? o->arg : "");
        cell(b, o->help + (is_idle ? sizeof idle - 1 : 0));
        cm_buf_str(b, " | ");
        const char *example = cm_document_example(arena, v, o);
        cm_buf_printf(b, "`%s` |\n", example ? example + strlen("cameo ") : "");
    }
}

void cm_document_trtexec(cm_arena *arena, cm_buf *b)
{
    const char *flag, *sentence;
    cm_buf_str(b, "## Flags that do something\n\n| flag | effect | example |\n|---|---|---|\n");
    trtexec_rows(arena, b, false);
    cm_buf_str(b, "\n## Flags that are taken and change nothing\n\n"
                  "A line of the output says so, with the reason.\n\n| flag | why | example "
                  "|\n|---|---|---|\n");
    trtexec_rows(arena, b, true);
    cm_buf_str(
        b,
        "\n## Flags that are refused, with what to use instead\n\n| flag | instead |\n|---|---|\n");
    for (int i = 0; cm_trt_instead_at(i, &flag, &sentence); i++) {
        cm_buf_printf(b, "| `--%s` | ", flag);
        cell(b, sentence);
        cm_buf_str(b, " |\n");
    }
}
