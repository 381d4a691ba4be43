/* file.c -- mapping, replacing, and paths that stay inside a folder.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

static cm_ctx cx;
static char folder[64];

static const char *in_folder(const char *name)
{
    static char paths[4][256];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int count_entries(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    while (d && readdir(d))
        n++;
    closedir(d);
    return n - 2; /* . and .. */
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/cameo-file-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "link", "pipe", "out", "in/f", "in"};
    for (int i = 0; i < CM_COUNT(names); i++)
        remove(in_folder(names[i]));
    return rmdir(folder);
}

static void expect_content(const char *path, const char *want)
{
    cm_mapping m;
    assert_int_equal(cm_file_map(&cx, path, &m), CM_OK);
    assert_int_equal(m.n, strlen(want));
    assert_memory_equal(m.data, want, m.n);
    cm_file_unmap(&m);
}

static void what_is_written_is_mapped(void **state)
{
    (void)state;
    const char *path = in_folder("a");
    assert_int_equal(cm_file_write(&cx, path, "hello", 5), CM_OK);
    expect_content(path, "hello");
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(cm_file_write(&cx, path, "", 0), CM_OK);
    expect_content(path, "");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(count_entries(), 1); /* no temporary file stays */
}

/* Pieces of odd sizes, through the buffer and, from some size on, past the cache. */
static void large_files_are_whole(void **state)
{
    (void)state;
    enum { PIECE = 999983, PIECES = 41 }; /* 41 MB, not a whole number of anything */
    unsigned char *piece = malloc(PIECE);
    cm_file_writer *w;
    cm_mapping m;
    assert_int_equal(cm_file_writer_open(&cx, in_folder("large"), &w), CM_OK);
    for (int k = 0; k < PIECES; k++) {
        memset(piece, k + 1, PIECE);
        assert_int_equal(cm_file_writer_bytes(&cx, w, piece, PIECE), CM_OK);
        assert_int_equal(cm_file_writer_bytes(&cx, w, piece, 0), CM_OK);
    }
    assert_int_equal(cm_file_writer_commit(&cx, w), CM_OK);
    assert_int_equal(cm_file_map(&cx, in_folder("large"), &m), CM_OK);
    assert_int_equal(m.n, (size_t)PIECE * PIECES);
    for (int k = 0; k < PIECES; k++) {
        memset(piece, k + 1, PIECE);
        assert_memory_equal(m.data + (size_t)k * PIECE, piece, PIECE);
    }
    cm_file_unmap(&m);
    free(piece);
    remove(in_folder("large"));
}

static void an_abandoned_write_leaves_the_old_file(void **state)
{
    (void)state;
    const char *path = in_folder("a");
    cm_file_writer *w;
    assert_int_equal(cm_file_write(&cx, path, "old", 3), CM_OK);
    assert_int_equal(cm_file_writer_open(&cx, path, &w), CM_OK);
    assert_int_equal(cm_file_writer_bytes(&cx, w, "new", 3), CM_OK);
    expect_content(path, "old");
    cm_file_writer_abandon(w);
    expect_content(path, "old");
    assert_int_equal(cm_file_writer_open(&cx, path, &w), CM_OK);
    assert_int_equal(cm_file_writer_bytes(&cx, w, "ne", 2), CM_OK);
    assert_int_equal(cm_file_writer_bytes(&cx, w, "w", 1), CM_OK);
    assert_int_equal(cm_file_writer_commit(&cx, w), CM_OK);
    expect_content(path, "new");
    assert_int_equal(count_entries(), 1);
}

static void a_link_is_written_through(void **state)
{
    (void)state;
    assert_int_equal(cm_file_write(&cx, in_folder("b"), "1", 1), CM_OK);
    assert_int_equal(symlink("b", in_folder("link")), 0);
    assert_int_equal(cm_file_write(&cx, in_folder("link"), "2", 1), CM_OK);
    expect_content(in_folder("b"), "2");
}

static void what_is_not_a_file_is_refused_with_a_sentence(void **state)
{
    (void)state;
    cm_mapping m;
    assert_int_equal(cm_file_map(&cx, folder, &m), CM_ERR_IO);
    assert_non_null(strstr(cx.message, "is a folder, wanted a file"));
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    assert_int_equal(cm_file_map(&cx, in_folder("pipe"), &m), CM_ERR_IO);
    assert_non_null(strstr(cx.message, "is a pipe"));
    assert_int_equal(cm_file_write(&cx, in_folder("pipe"), "", 0), CM_ERR_IO);
    assert_int_equal(cm_file_write(&cx, folder, "", 0), CM_ERR_IO);
    assert_int_equal(cm_file_write(&cx, "/dev/null", "", 0), CM_ERR_IO);
    assert_non_null(strstr(cx.message, "is a device"));
    assert_int_equal(cm_file_map(&cx, in_folder("none"), &m), CM_ERR_IO);
    assert_non_null(strstr(cx.message, "No such file"));
    assert_int_equal(cm_file_write(&cx, in_folder("none/f"), "", 0), CM_ERR_IO);
    static char long_path[10000];
    memset(long_path, 'x', sizeof long_path - 1);
    assert_int_equal(cm_file_write(&cx, long_path, "", 0), CM_ERR_IO);
}

static void paths_stay_inside(void **state)
{
    (void)state;
    cm_arena arena;
    const char *path = NULL;
    char root[4096];
    cm_arena_init(&arena, NULL);
    assert_int_equal(mkdir(in_folder("in"), 0700), 0);
    assert_int_equal(cm_file_write(&cx, in_folder("in/f"), "x", 1), CM_OK);
    assert_int_equal(cm_file_write(&cx, in_folder("out"), "x", 1), CM_OK);
    snprintf(root, sizeof root, "%s", in_folder("in"));
    assert_int_equal(cm_path_inside(&cx, &arena, root, "f", &path), CM_OK);
    expect_content(path, "x");
    assert_int_equal(cm_path_inside(&cx, &arena, folder, "./in//f", &path), CM_OK);
    assert_int_equal(cm_path_inside(&cx, &arena, "", "none-such", &path), CM_ERR_IO);

    static const char *const bad[] = {"", "/etc/passwd", "..", "../out", "f/../../out", "./.."};
    for (int i = 0; i < CM_COUNT(bad); i++)
        assert_int_equal(cm_path_inside(&cx, &arena, root, bad[i], &path), CM_ERR_MODEL);
    assert_int_equal(cm_path_inside(&cx, &arena, root, "...", &path), CM_ERR_IO); /* a plain name */

    snprintf(root, sizeof root, "%s", in_folder("in"));
    assert_int_equal(unlink(in_folder("in/f")), 0);
    assert_int_equal(symlink("../out", in_folder("in/f")), 0);
    assert_int_equal(cm_path_inside(&cx, &arena, root, "f", &path), CM_ERR_MODEL);
    assert_non_null(strstr(cx.message, "leads outside"));
    cm_arena_deinit(&arena);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        CASE(what_is_written_is_mapped),
        CASE(large_files_are_whole),
        CASE(an_abandoned_write_leaves_the_old_file),
        CASE(a_link_is_written_through),
        CASE(what_is_not_a_file_is_refused_with_a_sentence),
        CASE(paths_stay_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
