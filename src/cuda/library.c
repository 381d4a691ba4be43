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

enum { MOST_FILES = 3 };

/* `files`: newest first. `wheel`: folders below site-packages/nvidia. */
static const struct {
    const char *name, *purpose, *files[MOST_FILES], *wheels[MOST_FILES];
} known[CM_LIBRARY_COUNT] = {
    [CM_LIBRARY_DRIVER] = {"libcuda", "nothing runs on a GPU", {"libcuda.so.1"}, {NULL}},
    [CM_LIBRARY_NVRTC] = {"libnvrtc",
                          "kernels that a plan does not hold cannot be compiled",
                          {"libnvrtc.so.13", "libnvrtc.so.12"},
                          {"cu13", "cuda_nvrtc"}},
    [CM_LIBRARY_CUBLASLT] = {"libcublasLt",
                             "its matrix products do not compete",
                             {"libcublasLt.so.13", "libcublasLt.so.12"},
                             {"cu13", "cublas"}},
    [CM_LIBRARY_CUDNN] = {"libcudnn",
                          "its convolutions and attention do not compete",
                          {"libcudnn.so.9"},
                          {"cudnn"}},
    [CM_LIBRARY_NVML] = {"libnvidia-ml",
                         "clocks and throttling are not reported",
                         {"libnvidia-ml.so.1"},
                         {NULL}},
};

static cm_library libraries[CM_LIBRARY_COUNT];
static pthread_once_t searched[CM_LIBRARY_COUNT] = {
    PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT};

static bool open_path(cm_library *l, const char *path)
{
    struct link_map *map;
    l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!l->handle)
        return false;
    if (dlinfo(l->handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0])
        path = map->l_name;
    snprintf(l->path, sizeof l->path, "%s", path);
    return true;
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
        if (open_path(l, file) || open_in_list(l, "CUDA_HOME", file) ||
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
