/* external.c -- the files behind a model: mapped once each, closed together.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/file.h"
#include "onnx/tensor.h"

typedef struct mapped {
    const char *path;
    cm_mapping mapping;
    struct mapped *next;
} mapped;

struct cm_onnx_source {
    const cm_allocator *allocator;
    cm_arena arena;
    mapped *files;
};

cm_status cm_onnx_source_map(cm_ctx *cx, cm_onnx_source *s, const char *path, cm_str *bytes)
{
    mapped *m = s->files;
    while (m && strcmp(m->path, path) != 0)
        m = m->next;
    if (!m) {
        CM_NEW(cx, &s->arena, m, mapped);
        m->path = cm_arena_strdup(&s->arena, path);
        if (!m->path)
            return cm_fail_memory(cx);
        CM_TRY(cm_file_map(cx, path, &m->mapping));
        m->next = s->files;
        s->files = m;
    }
    *bytes = (cm_str){(const char *)m->mapping.data, m->mapping.n};
    return CM_OK;
}

cm_status cm_onnx_source_open(cm_ctx *cx, const char *path, cm_onnx_source **out, cm_str *bytes)
{
    cm_onnx_source *s = cm_alloc(cx->allocator, sizeof *s, 16);
    if (!s)
        return cm_fail_memory(cx);
    *s = (cm_onnx_source){.allocator = cx->allocator};
    cm_arena_init(&s->arena, cx->allocator);
    cm_status st = cm_onnx_source_map(cx, s, path, bytes);
    if (st != CM_OK) {
        cm_onnx_source_close(s);
        return st;
    }
    *out = s;
    return CM_OK;
}

void cm_onnx_source_forget(void *source, const void *p, size_t n)
{
    const cm_onnx_source *s = source;
    for (const mapped *m = s ? s->files : NULL; m; m = m->next)
        cm_file_forget(&m->mapping, p ? p : m->mapping.data, p ? n : m->mapping.n);
}

void cm_onnx_source_close(cm_onnx_source *s)
{
    if (!s)
        return;
    for (mapped *m = s->files; m; m = m->next)
        cm_file_unmap(&m->mapping);
    cm_arena_deinit(&s->arena);
    cm_release(s->allocator, s, sizeof *s);
}
