/* library.c -- where NVIDIA's libraries may be, and the first that opens.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { MOST_FILES = 3, MOST_PARTS = 7 };

/* `files`: newest first. `wheels`: folders below site-packages/nvidia. `needs`: those that it opens by name if at all, a
 * bit each. `parts`: files of the same folder that it opens by name while it works, each after those it needs; %s stands for the
 * number that ends the library's own file. */
#define BIT(id) (1u << CM_LIBRARY_##id)
static const struct {
    const char *name, *purpose, *files[MOST_FILES], *wheels[MOST_FILES];
    unsigned needs;
    const char *parts[MOST_PARTS];
} known[CM_LIBRARY_COUNT] = {
    [CM_LIBRARY_DRIVER] = {"libcuda", "nothing runs on a GPU", {"libcuda.so.1"}, {NULL}, 0, {NULL}},
    [CM_LIBRARY_NVRTC] = {"libnvrtc",
                          "kernels that a plan does not hold cannot be compiled",
                          {"libnvrtc.so.13", "libnvrtc.so.12"},
                          {"cu13", "cuda_nvrtc"},
                          0,
                          {"libnvrtc-builtins.so.%s.*"}},
    [CM_LIBRARY_CUBLASLT] = {"libcublasLt",
                             "its matrix products do not compete",
                             {"libcublasLt.so.13", "libcublasLt.so.12"},
                             {"cu13", "cublas"},
                             BIT(NVRTC),
                             {NULL}},
    [CM_LIBRARY_CUDNN] = {"libcudnn",
                          "its convolutions and attention do not compete",
                          {"libcudnn.so.9"},
                          {"cudnn"},
                          BIT(NVRTC) | BIT(CUBLASLT),
                          {"libcudnn_graph.so.%s", "libcudnn_ops.so.%s", "libcudnn_cnn.so.%s",
                           "libcudnn_adv.so.%s", "libcudnn_heuristic.so.%s",
                           "libcudnn_engines_runtime_compiled.so.%s",
                           "libcudnn_engines_precompiled.so.%s"}},
    [CM_LIBRARY_NVML] = {"libnvidia-ml",
                         "clocks and throttling are not reported",
                         {"libnvidia-ml.so.1"},
                         {NULL},
                         0,
                         {NULL}},
};

static cm_library libraries[CM_LIBRARY_COUNT];
static pthread_once_t searched[CM_LIBRARY_COUNT] = {
    PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT};

static cm_library_id id_of(const cm_library *l)
{
    return (cm_library_id)(l - libraries);
}

/* Every file that a part's pattern matches in a folder. They stay open: the library finds them by name among what is open, and
 * needs no path of its own, no loader's, and none of another version. */
static bool open_part(const char *folder, const char *part, const char *number)
{
    char name[128], pattern[PATH_MAX];
    glob_t found = {0};
    snprintf(name, sizeof name, part, number);
    int n = snprintf(pattern, sizeof pattern, "%s/%s", folder, name);
    if (n < 0 || n >= (int)sizeof pattern || glob(pattern, 0, NULL, &found) != 0)
        return false;
    bool opened = false;
    for (size_t i = 0; i < found.gl_pathc; i++)
        opened |= dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL) != NULL;
    globfree(&found);
    return opened;
}

static void folder_of(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - path) : 0, path);
}

/* What the library at an absolute path will ask for: those it needs, and its parts, which lie beside it or, where the path is a
 * link, beside what it names. */
static void open_parts(const cm_library *l, const char *path)
{
    cm_library_id id = id_of(l);
    const char *const *parts = known[id].parts;
    char real[PATH_MAX], beside[PATH_MAX], behind[PATH_MAX];
    for (int other = 0; other < CM_LIBRARY_COUNT; other++)
        if (known[id].needs >> other & 1)
            cm_library_get((cm_library_id)other);
    folder_of(path, beside);
    folder_of(realpath(path, real) ? real : path, behind);
    char number[16] = "";
    sscanf(path + strlen(beside), "%*[^.].so.%15[0-9]", number);
    for (int i = 0; i < MOST_PARTS && parts[i]; i++)
        if (!open_part(beside, parts[i], number))
            open_part(behind, parts[i], number);
}

static bool take(cm_library *l, void *handle, const char *path)
{
    l->handle = handle;
    if (handle)
        snprintf(l->path, sizeof l->path, "%.*s", (int)sizeof l->path - 1, path);
    return handle;
}

/* A file of a folder, by its absolute path, after what it will ask for. */
static bool open_path(cm_library *l, const char *path)
{
    char folder[PATH_MAX], absolute[PATH_MAX], whole[PATH_MAX];
    folder_of(path, folder);
    if (!realpath(folder[0] ? folder : "/", absolute))
        return false;
    int n = snprintf(whole, sizeof whole, "%s%s", absolute, strrchr(path, '/'));
    if (n < 0 || n >= (int)sizeof whole)
        return false;
    open_parts(l, whole);
    return take(l, dlopen(whole, RTLD_NOW | RTLD_LOCAL), whole);
}

/* What the process has open already, or the loader finds by name. It tells where only once it is open. */
static bool open_by_name(cm_library *l, const char *file)
{
    struct link_map *map;
    char real[PATH_MAX];
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map->l_name[0])
        return take(l, handle, file);
    const char *path = map->l_name;
    if (path[0] != '/' && realpath(path, real))
        path = real;
    open_parts(l, path);
    return take(l, handle, path);
}

/* The file in every folder that the pattern matches, the last (newest) first. */
static bool open_matching(cm_library *l, const char *folder, const char *file)
{
    char pattern[PATH_MAX];
    glob_t found = {0};
    bool opened = false;
    int n = snprintf(pattern, sizeof pattern, "%s/%s", folder, file);
    if (n < 0 || n >= (int)sizeof pattern || glob(pattern, 0, NULL, &found) != 0)
        return false;
    for (size_t i = found.gl_pathc; i > 0 && !opened; i--)
        opened = open_path(l, found.gl_pathv[i - 1]);
    globfree(&found);
    return opened;
}

/* Each folder of a list as PATH has it, and lib64 and lib in it. */
static bool open_in_list(cm_library *l, const char *variable, const char *file)
{
    static const char *const below[] = {"", "/lib64", "/lib"};
    const char *list = getenv(variable);
    while (list && *list) {
        size_t n = strcspn(list, ":");
        for (int i = 0; n && i < CM_COUNT(below); i++) {
            char folder[PATH_MAX];
            int k = snprintf(folder, sizeof folder, "%.*s%s", (int)n, list, below[i]);
            if (k > 0 && k < (int)sizeof folder && open_matching(l, folder, file))
                return true;
        }
        list += n + (list[n] == ':');
    }
    return false;
}

static bool open_in_wheels(cm_library *l, const char *prefix, const char *const *wheels,
                           const char *file)
{
    static const char *const homes[] = {"/lib/python3*/site-packages",
                                        "/lib/python3*/dist-packages"};
    for (int i = 0; i < MOST_FILES && wheels[i]; i++) {
        for (int h = 0; h < CM_COUNT(homes); h++) {
            char folder[PATH_MAX];
            int n =
                snprintf(folder, sizeof folder, "%s%s/nvidia/%s/lib", prefix, homes[h], wheels[i]);
            if (n > 0 && n < (int)sizeof folder && open_matching(l, folder, file))
                return true;
        }
    }
    return false;
}

static bool open_any_wheel(cm_library *l, const char *const *wheels, const char *file)
{
    static const char *const prefixes[] = {"/usr/local", "/usr", "/opt/*", "/opt/*/.venv"};
    const char *venv = getenv("VIRTUAL_ENV"), *home = getenv("HOME");
    char local[PATH_MAX];
    if (venv && *venv && open_in_wheels(l, venv, wheels, file))
        return true;
    if (home && *home && snprintf(local, sizeof local, "%s/.local", home) < (int)sizeof local &&
        open_in_wheels(l, local, wheels, file))
        return true;
    for (int i = 0; i < CM_COUNT(prefixes); i++)
        if (open_in_wheels(l, prefixes[i], wheels, file))
            return true;
    return false;
}

static void search(cm_library_id id)
{
    static const char *const toolkits[] = {"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64",
                                           "/usr/lib/x86_64-linux-gnu", "/usr/lib/wsl/lib"};
    cm_library *l = &libraries[id];
    l->name = known[id].name;
    l->purpose = known[id].purpose;
    for (int f = 0; f < MOST_FILES && known[id].files[f]; f++)
        if (open_in_list(l, "CAMEO_CUDA_PATH", known[id].files[f]))
            return;
    for (int f = 0; f < MOST_FILES && known[id].files[f]; f++) {
        const char *file = known[id].files[f];
        if (open_by_name(l, file) || open_in_list(l, "CUDA_HOME", file) ||
            open_in_list(l, "CUDA_PATH", file))
            return;
        for (int i = 0; i < CM_COUNT(toolkits); i++)
            if (open_matching(l, toolkits[i], file))
                return;
        if (open_any_wheel(l, known[id].wheels, file))
            return;
    }
}

#define SEARCH(id)                                                                                 \
    static void search_##id(void)                                                                  \
    {                                                                                              \
        search(CM_LIBRARY_##id);                                                                   \
    }
SEARCH(DRIVER)
SEARCH(NVRTC)
SEARCH(CUBLASLT)
SEARCH(CUDNN)
SEARCH(NVML)

const cm_library *cm_library_get(cm_library_id id)
{
    static void (*const searches[CM_LIBRARY_COUNT])(void) = {
        search_DRIVER, search_NVRTC, search_CUBLASLT, search_CUDNN, search_NVML};
    pthread_once(&searched[id], searches[id]);
    return &libraries[id];
}

const char *cm_library_symbols(const cm_library *l, const cm_symbol *symbols, int n)
{
    for (int i = 0; i < n; i++) {
        *symbols[i].to = dlsym(l->handle, symbols[i].name);
        if (!*symbols[i].to)
            return symbols[i].name;
    }
    return NULL;
}
