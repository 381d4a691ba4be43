/* library.h -- NVIDIA's shared libraries, found and opened at run time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Searched, in this order: the folders of CAMEO_CUDA_PATH; the loader's own path; CUDA_HOME and CUDA_PATH; the
 * toolkit's usual folders; the folders where Python wheels put them. None is needed to build or to run on the CPU.
 *
 * NVRTC and cuDNN open parts of themselves by name while they work (NVRTC's builtins, cuDNN's engines), and cuDNN and cuBLASLt
 * open NVRTC. The loader would look for these where it looks for everything, which in a wheel is nowhere, and beside another
 * version's is wrong: so they are opened with the library, from its own folder, before it. */
#ifndef CM_CUDA_LIBRARY_H
#define CM_CUDA_LIBRARY_H

#include <stdbool.h>

typedef enum {
    CM_LIBRARY_DRIVER,
    CM_LIBRARY_NVRTC,
    CM_LIBRARY_CUBLASLT,
    CM_LIBRARY_CUDNN,
    CM_LIBRARY_NVML,
    CM_LIBRARY_COUNT
} cm_library_id;

typedef struct cm_library {
    const char *name;    /* "libnvrtc" */
    const char *purpose; /* "kernels cannot be compiled": what its absence means */
    void *handle;        /* NULL: not found */
    char path[512];      /* of the file that was opened */
} cm_library;

/* Searched for once per process, then always the same answer; any thread may ask. */
const cm_library *cm_library_get(cm_library_id id);

/* One row of a symbol table of ours: where the address goes. */
typedef struct cm_symbol {
    const char *name;
    void **to;
} cm_symbol;
/* NULL: all were found; else the first that was not. */
const char *cm_library_symbols(const cm_library *l, const cm_symbol *symbols, int n);

#endif
