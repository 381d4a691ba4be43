/* file.c -- mapping files, replacing files, and paths that come out of files.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"

static cm_status fail_at(cm_ctx *cx, const char *verb, const char *path)
{
    return cm_fail(cx, CM_ERR_IO, "cannot %s '%s': %m", verb, path);
}

/* What a path names when it is not a regular file. */
static const char *kind_name(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a folder";
    if (S_ISFIFO(mode))
        return "a pipe";
    if (S_ISSOCK(mode))
        return "a socket";
    return "a device";
}

static cm_status map_open(cm_ctx *cx, const char *path, int fd, cm_mapping *out)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_at(cx, "examine", path);
    if (!S_ISREG(st.st_mode))
        return cm_fail(cx, CM_ERR_IO, "'%s' is %s, wanted a file", path, kind_name(st.st_mode));
    if (st.st_size == 0) {
        *out = (cm_mapping){(const unsigned char *)"", 0};
        return CM_OK;
    }
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return fail_at(cx, "map", path);
    *out = (cm_mapping){p, (size_t)st.st_size};
    return CM_OK;
}

cm_status cm_file_map(cm_ctx *cx, const char *path, cm_mapping *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not block us */
    if (fd < 0)
        return fail_at(cx, "open", path);
    cm_status st = map_open(cx, path, fd, out);
    close(fd);
    return st;
}

/* Pages that lie wholly inside; a hint, so it may fail. */
static void advise(const cm_mapping *m, const void *p, size_t n, int advice)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), base = (uintptr_t)m->data;
    uintptr_t begin = ((uintptr_t)p + page - 1) & ~(page - 1),
              end = ((uintptr_t)p + n) & ~(page - 1);
    if (m->n && begin >= base && begin < end && end <= base + m->n)
        (void)madvise((void *)begin, end - begin, advice);
}

void cm_file_forget(const cm_mapping *m, const void *p, size_t n)
{
    advise(m, p, n, MADV_DONTNEED);
}

void cm_file_expect(const cm_mapping *m, const void *p, size_t n)
{
#ifdef MADV_POPULATE_READ
    advise(m, p, n, MADV_POPULATE_READ);
#else
    advise(m, p, n, MADV_WILLNEED);
#endif
}

/* Large files go past the system's cache, through one buffer that is used again and again: they would only push out what
 * others need, and finding a page for each of their pages takes longer than the disk does. */
enum { BUFFER_BYTES = 4 << 20, DISK_BLOCK = 4096, LARGE_FILE = 16 << 20 };

void cm_file_fetch(const char *path)
{
    enum { AT_ONCE = 1 << 20 };
    static const off_t MOST = (off_t)1 << 30;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    void *buffer = cm_alloc(NULL, AT_ONCE, 64);
    if (buffer && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > LARGE_FILE &&
        st.st_size <= MOST)
        while (read(fd, buffer, AT_ONCE) > 0)
            continue;
    cm_release(NULL, buffer, AT_ONCE);
    close(fd);
}

void cm_file_unmap(cm_mapping *m)
{
    if (m->n)
        munmap((void *)m->data, m->n);
    *m = (cm_mapping){0};
}

struct cm_file_writer {
    const cm_allocator *allocator;
    int fd;
    unsigned char *buffer; /* aligned to DISK_BLOCK */
    size_t held;           /* bytes in it */
    uint64_t written;      /* bytes before them, whole buffers */
    bool direct;           /* past the cache, now */
    char path[PATH_MAX];   /* links followed: the file itself is replaced, not the link */
    char temporary[PATH_MAX + 32];
};

/* The file to replace, and its permissions when it exists (0 when it does not). */
static cm_status find_destination(cm_ctx *cx, const char *path, char *resolved, mode_t *mode)
{
    struct stat st;
    *mode = 0;
    if (strlen(path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return fail_at(cx, "write", path);
    }
    strcpy(resolved, path);
    if (stat(path, &st) != 0)
        return errno == ENOENT ? CM_OK : fail_at(cx, "write", path);
    if (!S_ISREG(st.st_mode))
        return cm_fail(cx, CM_ERR_IO, "'%s' is %s, wanted a file to write", path,
                       kind_name(st.st_mode));
    *mode = st.st_mode & 0777;
    return realpath(path, resolved) ? CM_OK : fail_at(cx, "write", path);
}

static cm_status open_temporary(cm_ctx *cx, cm_file_writer *w, mode_t mode)
{
    for (int i = 0; i < 1000; i++) {
        snprintf(w->temporary, sizeof w->temporary, "%s.tmp-%ld-%d", w->path, (long)getpid(), i);
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0) {
            if (mode)
                (void)!fchmod(w->fd, mode);
            return CM_OK;
        }
        if (errno != EEXIST)
            break;
    }
    return fail_at(cx, "create", w->temporary);
}

static void release_writer(cm_file_writer *w)
{
    cm_release(w->allocator, w->buffer, BUFFER_BYTES);
    cm_release(w->allocator, w, sizeof *w);
}

cm_status cm_file_writer_open(cm_ctx *cx, const char *path, cm_file_writer **out)
{
    cm_file_writer *w = cm_alloc(cx->allocator, sizeof *w, 16);
    if (!w)
        return cm_fail_memory(cx);
    w->allocator = cx->allocator;
    w->held = 0;
    w->written = 0;
    w->direct = false;
    w->buffer = cm_alloc(cx->allocator, BUFFER_BYTES, DISK_BLOCK);
    mode_t mode;
    cm_status st = w->buffer ? find_destination(cx, path, w->path, &mode) : cm_fail_memory(cx);
    if (st == CM_OK)
        st = open_temporary(cx, w, mode);
    if (st != CM_OK) {
        release_writer(w);
        return st;
    }
    *out = w;
    return CM_OK;
}

/* Past the cache or through it; not every file system knows the former. */
static void set_direct(cm_file_writer *w, bool on)
{
    int flags = w->direct != on ? fcntl(w->fd, F_GETFL) : -1;
    if (flags != -1 && fcntl(w->fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0)
        w->direct = on;
}

static cm_status write_out(cm_ctx *cx, cm_file_writer *w, const unsigned char *p, size_t n)
{
    while (n > 0) {
        ssize_t wrote = write(w->fd, p, n);
        if (wrote < 0 && errno == EINVAL && w->direct) {
            set_direct(w, false);
            if (!w->direct)
                continue;
        }
        if (wrote < 0) {
            if (errno == EINTR)
                continue;
            return fail_at(cx, "write", w->path);
        }
        p += wrote;
        n -= (size_t)wrote;
        if (wrote %
            DISK_BLOCK) /* the disk is nearly full, or a signal came: the rest has no block's address */
            set_direct(w, false);
    }
    return CM_OK;
}

cm_status cm_file_writer_bytes(cm_ctx *cx, cm_file_writer *w, const void *p, size_t n)
{
    for (const unsigned char *at = p; n > 0;) {
        size_t room = BUFFER_BYTES - w->held, take = n < room ? n : room;
        memcpy(w->buffer + w->held, at, take);
        w->held += take;
        at += take;
        n -= take;
        if (w->held < BUFFER_BYTES)
            break;
        if (w->written == LARGE_FILE)
            set_direct(w, true);
        CM_TRY(write_out(cx, w, w->buffer, w->held));
        w->written += w->held;
        w->held = 0;
    }
    return CM_OK;
}

/* Make the rename itself last. Some file systems cannot; the file is whole either way. */
static void sync_folder_of(const char *path)
{
    char folder[PATH_MAX];
    strcpy(folder, path);
    char *slash = strrchr(folder, '/');
    if (!slash)
        strcpy(folder, ".");
    else
        slash[slash == folder] = 0;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!fsync(fd);
        close(fd);
    }
}

cm_status cm_file_writer_commit(cm_ctx *cx, cm_file_writer *w)
{
    set_direct(w, false); /* the rest is no whole number of blocks */
    cm_status st = w->direct ? fail_at(cx, "write", w->path) : write_out(cx, w, w->buffer, w->held);
    if (st == CM_OK && fsync(w->fd) != 0 && errno != EINVAL)
        st = fail_at(cx, "write", w->path);
    int closed = close(w->fd);
    w->fd = -1;
    if (st == CM_OK && closed != 0)
        st = fail_at(cx, "write", w->path);
    if (st == CM_OK && rename(w->temporary, w->path) != 0)
        st = fail_at(cx, "replace", w->path);
    if (st != CM_OK) {
        cm_file_writer_abandon(w);
        return st;
    }
    sync_folder_of(w->path);
    release_writer(w);
    return CM_OK;
}

void cm_file_writer_abandon(cm_file_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    unlink(w->temporary);
    release_writer(w);
}

cm_status cm_file_write(cm_ctx *cx, const char *path, const void *data, size_t n)
{
    cm_file_writer *w;
    CM_TRY(cm_file_writer_open(cx, path, &w));
    cm_status st = cm_file_writer_bytes(cx, w, data, n);
    if (st != CM_OK) {
        cm_file_writer_abandon(w);
        return st;
    }
    return cm_file_writer_commit(cx, w);
}

static bool has_parent_component(const char *path)
{
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return true;
        p += n + (p[n] == '/');
    }
    return false;
}

/* Is `path` under `folder`? Both resolved. */
static bool is_under(const char *folder, const char *path)
{
    size_t n = strlen(folder);
    if (n == 1) /* "/" */
        return true;
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

cm_status cm_path_inside(cm_ctx *cx, cm_arena *arena, const char *folder, const char *relative,
                         const char **out)
{
    char root[PATH_MAX], joined[PATH_MAX], resolved[PATH_MAX];
    if (!relative[0])
        return cm_fail(cx, CM_ERR_MODEL, "an empty path, wanted a file beside the model");
    if (relative[0] == '/')
        return cm_fail(cx, CM_ERR_MODEL, "path '%s' is absolute, wanted one beside the model",
                       relative);
    if (has_parent_component(relative))
        return cm_fail(cx, CM_ERR_MODEL, "path '%s' leaves the model's folder by '..'", relative);
    if (!realpath(folder[0] ? folder : ".", root))
        return fail_at(cx, "open folder", folder);
    int n = snprintf(joined, sizeof joined, "%s/%s", root, relative);
    if (n < 0 || (size_t)n >= sizeof joined) {
        errno = ENAMETOOLONG;
        return fail_at(cx, "open", relative);
    }
    if (!realpath(joined, resolved))
        return fail_at(cx, "open", joined);
    if (!is_under(root, resolved))
        return cm_fail(cx, CM_ERR_MODEL, "path '%s' leads outside the model's folder, to '%s'",
                       relative, resolved);
    char *copy = cm_arena_strdup(arena, resolved);
    if (!copy)
        return cm_fail_memory(cx);
    *out = copy;
    return CM_OK;
}
