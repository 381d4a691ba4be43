/* external.c -- the files behind a model: mapped once each, closed together.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "base/copy.h"
#include "base/file.h"
#include "onnx/tensor.h"

typedef struct mapped {
    const char *path;
    cm_mapping mapping;
    struct mapped *next;
} mapped;

/* A tensor at an aligned place. */
typedef struct copied {
    void *data;
    cm_str from;
    bool gone; /* the data is not there */
    struct copied *next;
} copied;

struct cm_onnx_source {
    const cm_allocator *allocator;
    cm_arena arena;
    mapped *files;
    copied *copies;
    pthread_mutex_t lock; /* of what follows, and of `gone` */
    bool lent, recalled;
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
    pthread_mutex_init(&s->lock, NULL);
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

/* ---- copies ---- */

cm_status cm_onnx_source_copy(cm_ctx *cx, cm_onnx_source *s, cm_str bytes, void **out)
{
    copied *c;
    CM_NEW(cx, &s->arena, c, copied);
    c->data = cm_alloc(s->allocator, bytes.n, 64);
    if (!c->data)
        return cm_fail_memory(cx);
    c->from = bytes;
    c->next = s->copies;
    s->copies = c;
    cm_copy_large(c->data, bytes.p, bytes.n);
    cm_onnx_source_forget(s, bytes.p, bytes.n);
    *out = c->data;
    return CM_OK;
}

static void drop(copied *c)
{
    if (!c->gone)
        cm_alloc_empty(c->data, c->from.n);
    c->gone = true;
}

static bool reads(const copied *c, const cm_tensor *t)
{
    size_t bytes;
    return t->data && cm_tensor_bytes(t, &bytes) &&
           (uintptr_t)t->data < (uintptr_t)c->data + c->from.n &&
           (uintptr_t)c->data < (uintptr_t)t->data + bytes;
}

void cm_onnx_source_lend(cm_onnx_source *s, const cm_tensor *const *constants, int n)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->lent = true;
    for (copied *c = s->recalled ? NULL : s->copies; c; c = c->next) {
        bool read = false;
        for (int i = 0; i < n && !read; i++)
            read = reads(c, constants[i]);
        if (!read)
            drop(c);
    }
    pthread_mutex_unlock(&s->lock);
}

static copied *find_copy(const cm_onnx_source *s, const void *p, size_t n)
{
    copied *c = s->copies;
    while (c && (c->data != p || c->from.n != n))
        c = c->next;
    return c;
}

bool cm_onnx_source_let_go(void *source, const void *p, size_t n)
{
    cm_onnx_source *s = source;
    copied *c = s ? find_copy(s, p, n) : NULL;
    if (!c) {
        cm_onnx_source_forget(s, p, n);
        return false;
    }
    pthread_mutex_lock(&s->lock);
    if (!s->recalled)
        drop(c);
    const bool gone = c->gone;
    pthread_mutex_unlock(&s->lock);
    return gone;
}

void cm_onnx_source_fetch(void *source, const void *p, size_t n, void *to)
{
    const copied *c = find_copy(source, p, n);
    cm_copy_large(to, c->from.p, n);
    cm_onnx_source_forget(source, c->from.p, n);
}

void cm_onnx_source_recall(cm_onnx_source *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->recalled = s->lent;
    for (copied *c = s->copies; c; c = c->next) {
        if (!c->gone)
            continue;
        cm_copy_large(c->data, c->from.p, c->from.n);
        c->gone = false;
    }
    pthread_mutex_unlock(&s->lock);
}

void cm_onnx_source_close(cm_onnx_source *s)
{
    if (!s)
        return;
    for (copied *c = s->copies; c; c = c->next)
        cm_release(s->allocator, c->data, c->from.n);
    pthread_mutex_destroy(&s->lock);
    for (mapped *m = s->files; m; m = m->next)
        cm_file_unmap(&m->mapping);
    cm_arena_deinit(&s->arena);
    cm_release(s->allocator, s, sizeof *s);
}
