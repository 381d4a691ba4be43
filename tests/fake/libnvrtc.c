/* libnvrtc.c -- NVIDIA's compiler library, but the images that it gives are PTX: what the fake driver can run.
 * SPDX-License-Identifier: Apache-2.0
 *
 * FAKE_CUDA_NVRTC in the environment: the real one. */
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

typedef struct nvrtc_program *program;

/* The real one's own part, from its own folder: src/cuda/library.c does it for a library that it opens itself. */
static void open_builtins(const char *path)
{
    char pattern[4096];
    glob_t found = {0};
    const char *slash = strrchr(path, '/');
    snprintf(pattern, sizeof pattern, "%.*s/libnvrtc-builtins.so.*",
             slash ? (int)(slash - path) : 0, path);
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
}

static void *symbol(const char *name)
{
    static void *real;
    const char *path = getenv("FAKE_CUDA_NVRTC");
    if (!real) {
        open_builtins(path ? path : "");
        real = dlopen(path ? path : "", RTLD_NOW | RTLD_LOCAL);
    }
    void *f = real ? dlsym(real, name) : NULL;
    if (!f) {
        fprintf(stderr, "FAKE_CUDA_NVRTC=%s: no %s\n", path ? path : "", name);
        abort();
    }
    return f;
}

/* clang-format off */
#define FORWARD(name, real, types, arguments, given)                                               \
    API int name arguments;                                                                        \
    int name arguments                                                                             \
    {                                                                                              \
        int(*f) types;                                                                             \
        *(void **)&f = symbol(real);                                                               \
        return f given;                                                                            \
    }
FORWARD(nvrtcVersion, "nvrtcVersion", (int *, int *), (int *major, int *minor), (major, minor))
FORWARD(nvrtcCreateProgram, "nvrtcCreateProgram",
        (program *, const char *, const char *, int, const char *const *, const char *const *),
        (program *out, const char *text, const char *name, int n, const char *const *headers, const char *const *names),
        (out, text, name, n, headers, names))
FORWARD(nvrtcDestroyProgram, "nvrtcDestroyProgram", (program *), (program *p), (p))
FORWARD(nvrtcGetProgramLogSize, "nvrtcGetProgramLogSize", (program, size_t *), (program p, size_t *n), (p, n))
FORWARD(nvrtcGetProgramLog, "nvrtcGetProgramLog", (program, char *), (program p, char *text), (p, text))
FORWARD(nvrtcGetCUBINSize, "nvrtcGetPTXSize", (program, size_t *), (program p, size_t *n), (p, n))
FORWARD(nvrtcGetCUBIN, "nvrtcGetPTX", (program, char *), (program p, char *text), (p, text))
/* clang-format on */

/* For the virtual architecture instead of the real one: sm_90a to compute_90a. */
API int nvrtcCompileProgram(program p, int n, const char *const *options);
int nvrtcCompileProgram(program p, int n, const char *const *options)
{
    enum { MOST = 16 };
    static const char real_one[] = "--gpu-architecture=sm_";
    const char *changed[MOST] = {0};
    char architecture[64];
    int (*f)(program, int, const char *const *);
    for (int i = 0; i < n && i < MOST; i++) {
        changed[i] = options[i];
        if (!strncmp(options[i], real_one, sizeof real_one - 1)) {
            snprintf(architecture, sizeof architecture, "--gpu-architecture=compute_%s",
                     options[i] + sizeof real_one - 1);
            changed[i] = architecture;
        }
    }
    *(void **)&f = symbol("nvrtcCompileProgram");
    return n <= MOST ? f(p, n, changed) : 1;
}
