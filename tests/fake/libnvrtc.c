/* libnvrtc.c -- NVIDIA's compiler library, but the images that it gives are PTX: what the fake driver can run.
 * SPDX-License-Identifier: Apache-2.0
 *
 * FAKE_CUDA_NVRTC in the environment: the real one. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

typedef struct nvrtc_program *program;

static void *symbol(const char *name)
{
    const char *path = getenv("FAKE_CUDA_NVRTC");
    void *real = dlopen(path ? path : "", RTLD_NOW | RTLD_LOCAL),
         *f = real ? dlsym(real, name) : NULL;
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
