/* documents_man.c -- cameo(1) and the bash completion, from the verbs' tables.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/documents.h"

/* Text as roff: backslashes and hyphens escaped, no line that begins like a request. */
static void roff(cm_buf *b, const char *text)
{
    bool start = true;
    for (const char *p = text; *p; p++) {
        if (start && (*p == '.' || *p == '\''))
            cm_buf_str(b, "\\&");
        start = *p == '\n';
        if (*p == '\\')
            cm_buf_str(b, "\\e");
        else if (*p == '-')
            cm_buf_str(b, "\\-");
        else
            cm_buf_u8(b, (uint8_t)*p);
    }
}

static void line(cm_buf *b, const char *request, const char *text)
{
    cm_buf_str(b, request);
    roff(b, text);
    cm_buf_str(b, "\n");
}

/* Details are paragraphs divided by empty lines. */
static void paragraphs(cm_buf *b, const char *text)
{
    roff(b, text);
    size_t n = strlen(text);
    if (n && text[n - 1] != '\n')
        cm_buf_str(b, "\n");
}

static void man_verb(cm_arena *arena, cm_buf *b, const cm_cli_verb *v)
{
    cm_buf_printf(b, ".SS cameo ");
    roff(b, v->name);
    cm_buf_printf(b, "\n.B cameo ");
    roff(b, v->name);
    cm_buf_str(b, "\n");
    roff(b, v->usage);
    cm_buf_str(b, "\n.PP\n");
    paragraphs(b, v->details);
    for (int i = 0; i < v->n_options; i++) {
        const cm_cli_option *o = &v->options[i];
        cm_buf_str(b, ".TP\n\\fB\\-\\-");
        roff(b, o->name);
        cm_buf_str(b, "\\fR");
        if (o->arg) {
            cm_buf_str(b, " \\fI");
            roff(b, o->arg);
            cm_buf_str(b, "\\fR");
        }
        line(b, "\n", o->help);
        const char *example = cm_document_example(arena, v, o);
        if (example)
            line(b, ".br\nExample: ", example);
    }
    cm_buf_str(b, ".PP\nExamples:\n.PP\n.nf\n");
    roff(b, v->examples);
    cm_buf_str(b, ".fi\n");
}

static const char head[] =
    ".SH NAME\ncameo \\- compile and run trained networks\n"
    ".SH SYNOPSIS\n.B cameo\n.I VERB\n[\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...\n.br\n"
    ".B cameo\n.I VERB\n.B \\-\\-help\n.br\n.B cameo \\-\\-version\n"
    ".SH DESCRIPTION\n"
    "Cameo reads ONNX networks, makes plans of them and runs plans. A plan is one file that runs\n"
    "wherever Cameo does. Every verb that takes a model takes a plan too, but for\n.BR build .\n"
    "Options are long; a value follows after a space or an equals sign. Options and arguments may\n"
    "be mixed;\n.B \\-\\-\nends the options. Times are written 2, 1.5s, 100ms or 2m.\n";

static const char tail[] =
    ".SH EXIT STATUS\n"
    ".TP\n0\nAll went well.\n"
    ".TP\n1\nThe verb ran and what it checked did not hold: a test case failed, a comparison "
    "differed.\n"
    ".TP\n2\nThe command, a file or the data was wrong, or the job was cancelled; a sentence on\n"
    "standard error says what, where, found and wanted.\n"
    ".TP\n130, 143\nInterrupted twice: the first signal asks the job to stop.\n"
    ".SH FILES\n"
    ".TP\n.I *.onnx\nA network. External data must lie in the same folder or below it.\n"
    ".TP\n.I *.plan\nWhat\n.B cameo build\nwrites; known by its first bytes, not by its name.\n"
    ".TP\n.IR *.npy ,\\  *.npz ,\\  *.pb\nTensors: NumPy's formats and ONNX's TensorProto.\n"
    ".SH ENVIRONMENT\n"
    ".TP\n.B CUDA_VISIBLE_DEVICES\nWhich GPUs are seen, as for every program that uses CUDA.\n"
    ".SH EXAMPLES\n"
    ".PP\n.nf\n"
    "  cameo inspect model.onnx\n"
    "  cameo build model.onnx \\-\\-output model.plan\n"
    "  cameo run model.plan image.npy \\-\\-output result.npz\n"
    "  cameo bench model.plan \\-\\-duration 10s\n"
    ".fi\n";

void cm_document_man(cm_arena *arena, cm_buf *b)
{
    cm_buf_str(b, ".\\\" Printed by `cameo documents man`: edit the verbs' tables in src/cli.\n"
                  ".TH CAMEO 1 \"\" \"Cameo " CM_VERSION "\" \"User Commands\"\n");
    cm_buf_str(b, head);
    cm_buf_str(b, ".SH VERBS\n");
    for (int i = 0; i < cm_cli_n_verbs; i++) {
        line(b, ".TP\n.B ", cm_cli_verbs[i]->name);
        line(b, "", cm_cli_verbs[i]->summary);
    }
    for (int i = 0; i < cm_cli_n_verbs; i++)
        man_verb(arena, b, cm_cli_verbs[i]);
    cm_buf_str(b, tail);
}

/* ---- Completion --------------------------------------------------------------------------------- */

static bool takes_file(const cm_cli_option *o)
{
    return o->arg && (strstr(o->arg, "FILE") || strstr(o->arg, "DIR"));
}

/* "--a | --b) ACTION ;;" for the options whose value is a file, or for those whose value is not. */
static void option_case(cm_buf *b, const cm_cli_verb *v, bool files, const char *action)
{
    const char *before = "            ";
    for (int i = 0; i < v->n_options; i++) {
        const cm_cli_option *o = &v->options[i];
        if (!o->arg || takes_file(o) != files)
            continue;
        cm_buf_printf(b, "%s--%s", before, o->name);
        before = " | ";
    }
    if (before[1] == '|')
        cm_buf_printf(b, ") %s ;;\n", action);
}

static void complete_verb(cm_buf *b, const cm_cli_verb *v)
{
    cm_buf_printf(b, "    %s)\n        words=\"", v->name);
    for (int i = 0; i < v->n_options; i++)
        cm_buf_printf(b, "--%s ", v->options[i].name);
    cm_buf_str(b, "--help\"\n        case $before in\n");
    option_case(b, v, true, "words=; files=yes");
    option_case(b, v, false, "return");
    cm_buf_str(b, "        esac\n        ;;\n");
}

void cm_document_completion(cm_arena *arena, cm_buf *b)
{
    (void)arena;
    cm_buf_str(b, "# cameo(1) completion for bash, printed by `cameo documents completion`.\n"
                  "_cameo()\n{\n"
                  "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
                  "    local words files=\n    COMPREPLY=()\n"
                  "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W \"");
    for (int i = 0; i < cm_cli_n_verbs; i++)
        cm_buf_printf(b, "%s ", cm_cli_verbs[i]->name);
    cm_buf_str(b, "--help --version\" -- \"$word\"))\n        return\n    fi\n"
                  "    case ${COMP_WORDS[1]} in\n");
    for (int i = 0; i < cm_cli_n_verbs; i++)
        complete_verb(b, cm_cli_verbs[i]);
    cm_buf_str(b, "    esac\n"
                  "    case $files$word in\n"
                  "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
                  "    *)\n        compopt -o filenames 2>/dev/null\n"
                  "        COMPREPLY=($(compgen -f -- \"$word\"))\n        ;;\n"
                  "    esac\n}\ncomplete -F _cameo cameo\n");
}
