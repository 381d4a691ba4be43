/* documents.h -- documents printed from the program's own tables.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_DOCUMENTS_H
#define CM_CLI_DOCUMENTS_H

#include "base/buf.h"
#include "base/status.h"
#include "cli/cli.h"

/* Each appends one document to `out`; running out of memory shows in the buffer. */
typedef void (*cm_document_fn)(cm_arena *arena, cm_buf *out);
void cm_document_ops(cm_arena *arena, cm_buf *out);        /* Markdown */
void cm_document_man(cm_arena *arena, cm_buf *out);        /* roff */
void cm_document_completion(cm_arena *arena, cm_buf *out); /* bash */
void cm_document_commands(cm_arena *arena, cm_buf *out);   /* Markdown */
void cm_document_trtexec(cm_arena *arena, cm_buf *out);    /* the tables of docs/trtexec.md */
void cm_document_passes(cm_arena *arena, cm_buf *out);     /* Markdown */

/* A command that uses the option, in `arena`; NULL: there is none. */
const char *cm_document_example(cm_arena *arena, const cm_cli_verb *v, const cm_cli_option *o);

#endif
