/* cublaslt.c -- cuBLASLt's symbols, found at run time.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cublaslt.h"

#include <pthread.h>

#include "base/status.h"
#include "cuda/library.h"

static cm_cublaslt found;
static bool complete;

static void find(void)
{
    const cm_symbol symbols[] = {
        {"cublasLtCreate", (void **)&found.create},
        {"cublasLtMatmulDescInit_internal", (void **)&found.product_init},
        {"cublasLtMatmulDescSetAttribute", (void **)&found.product_set},
        {"cublasLtMatrixLayoutInit_internal", (void **)&found.matrix_init},
        {"cublasLtMatrixLayoutSetAttribute", (void **)&found.matrix_set},
        {"cublasLtMatmulPreferenceInit_internal", (void **)&found.preference_init},
        {"cublasLtMatmulPreferenceSetAttribute", (void **)&found.preference_set},
        {"cublasLtMatmulAlgoGetHeuristic", (void **)&found.ways},
        {"cublasLtMatmul", (void **)&found.multiply},
    };
    const cm_library *l = cm_library_get(CM_LIBRARY_CUBLASLT);
    complete = l->handle && !cm_library_symbols(l, symbols, CM_COUNT(symbols));
}

const cm_cublaslt *cm_cublaslt_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    return complete ? &found : NULL;
}
