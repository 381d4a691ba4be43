/* cuda_library.c -- NVIDIA's libraries open with their own parts. Those of tests/fake/parts are empty, know their own names alone,
 * and lie where no loader looks.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/library.h"
#include "unit/fake_driver.h"

static char parts[PATH_MAX];
static const char *wanted = parts; /* where NVRTC itself shall be found */

/* Where a library that is open already came from; "" where it is not. */
static const char *opened_from(const char *name)
{
    struct link_map *map;
    void *handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    return handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

static bool lies_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return !strncmp(path, folder, n) && path[n] == '/' && !strchr(path + n + 1, '/');
}

/* A search is made once in a process: each has its own. */
static int in_a_process(int (*test)(void), const char *search)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        setenv("CAMEO_CUDA_PATH", search, 1);
        _exit(test());
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int open_nvrtc(void)
{
    return lies_in(cm_library_get(CM_LIBRARY_NVRTC)->path, wanted) &&
                   lies_in(opened_from("libnvrtc-builtins.so.13.97"), parts)
               ? 0
               : 1;
}

static void nvrtc_opens_with_its_builtins(void **state)
{
    (void)state;
    assert_string_equal(opened_from("libnvrtc-builtins.so.13.97"), "");
    assert_int_equal(in_a_process(open_nvrtc, parts), 0);
}

static void a_relative_folder_is_made_absolute(void **state)
{
    char here[PATH_MAX];
    (void)state;
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(parts), 0);
    assert_int_equal(in_a_process(open_nvrtc, "../parts"), 0);
    assert_int_equal(chdir(here), 0);
}

static void parts_lie_beside_what_a_link_names(void **state)
{
    char target[PATH_MAX + 32], link[PATH_MAX + 32], folder[] = "/tmp/cameo-library-XXXXXX";
    (void)state;
    snprintf(target, sizeof target, "%s/libnvrtc.so.13", parts);
    assert_non_null(mkdtemp(folder));
    snprintf(link, sizeof link, "%s/libnvrtc.so.13", folder);
    assert_int_equal(symlink(target, link), 0);
    wanted = folder;
    int rc = in_a_process(open_nvrtc, folder);
    wanted = parts;
    unlink(link);
    rmdir(folder);
    assert_int_equal(rc, 0);
}

/* libcudnn_ops is linked with libcudnn_graph, and does not say where that is. */
static int open_cudnn(void)
{
    return lies_in(cm_library_get(CM_LIBRARY_CUDNN)->path, parts) &&
                   lies_in(opened_from("libcudnn_ops.so.9"), parts) &&
                   lies_in(opened_from("libcudnn_graph.so.9"), parts)
               ? 0
               : 1;
}

static void cudnn_opens_with_its_parts_in_their_order(void **state)
{
    (void)state;
    assert_int_equal(in_a_process(open_cudnn, parts), 0);
}

static int open_what_cudnn_needs(void)
{
    cm_library_get(CM_LIBRARY_CUDNN);
    return lies_in(opened_from("libnvrtc.so.13"), parts) ? 0 : 1;
}

static void what_a_library_needs_is_opened_before_it(void **state)
{
    (void)state;
    assert_int_equal(in_a_process(open_what_cudnn_needs, parts), 0);
}

static int find_parts(void **state)
{
    char path[PATH_MAX];
    (void)state;
    if (!use_fake_driver(path, sizeof path))
        return -1;
    *strrchr(path, '/') = 0;
    strcat(path, "/parts");
    return realpath(path, parts) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nvrtc_opens_with_its_builtins),
        cmocka_unit_test(a_relative_folder_is_made_absolute),
        cmocka_unit_test(parts_lie_beside_what_a_link_names),
        cmocka_unit_test(cudnn_opens_with_its_parts_in_their_order),
        cmocka_unit_test(what_a_library_needs_is_opened_before_it),
    };
    return cmocka_run_group_tests_name("cuda_library", tests, find_parts, NULL);
}
