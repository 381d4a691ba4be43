/* file.h -- files: mapped to read, replaced whole to write.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_BASE_FILE_H
#define CM_BASE_FILE_H

#include "base/status.h"

/* A file mapped for reading. An empty file has data "" and n 0. */
typedef struct cm_mapping {
    const unsigned char *data;
    size_t n;
} cm_mapping;

cm_status cm_file_map(cm_ctx *cx, const char *path, cm_mapping *out) CM_MUST_USE;
void cm_file_unmap(cm_mapping *m);
/* The bytes will not be read for a while: their pages need not stay in memory. They can still be read. */
void cm_file_forget(const cm_mapping *m, const void *p, size_t n);
/* The bytes will be read soon: map their pages all at once rather than fault by fault. */
void cm_file_expect(const cm_mapping *m, const void *p, size_t n);
/* Somebody will map the file soon: it is read once, from begin to end, so that the system keeps it in large pieces, which are
 * mapped faster than those it brings when asked for places in it. Not small ones, which writers leave in memory, nor any so large
 * that others would have to go. */
void cm_file_fetch(const char *path);
/* Write to a temporary file beside `path`, then rename: readers never see half a file. */
cm_status cm_file_write(cm_ctx *cx, const char *path, const void *data, size_t n) CM_MUST_USE;

/* The same in pieces, for what does not fit one buffer. */
typedef struct cm_file_writer cm_file_writer;
cm_status cm_file_writer_open(cm_ctx *cx, const char *path, cm_file_writer **out) CM_MUST_USE;
cm_status cm_file_writer_bytes(cm_ctx *cx, cm_file_writer *w, const void *p, size_t n) CM_MUST_USE;
/* Close and move into place. The writer is gone afterwards, whatever the status. */
cm_status cm_file_writer_commit(cm_ctx *cx, cm_file_writer *w) CM_MUST_USE;
void cm_file_writer_abandon(cm_file_writer *w); /* leaves `path` as it was */

/* Join a folder and a relative path that came out of a file. Refuses an absolute path, "..", an
 * empty path and one that resolves (links followed) outside `folder`. */
cm_status cm_path_inside(cm_ctx *cx, cm_arena *arena, const char *folder, const char *relative,
                         const char **out) CM_MUST_USE;

#endif
