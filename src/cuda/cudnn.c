/* cudnn.c -- cuDNN's symbols, found at run time.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cudnn.h"

#include <pthread.h>

#include "cuda/library.h"

static cm_cudnn found;
static bool complete;

static void find(void)
{
    const cm_symbol symbols[] = {
        {"cudnnCreate", (void **)&found.create},
        {"cudnnSetStream", (void **)&found.set_stream},
        {"cudnnBackendCreateDescriptor", (void **)&found.make},
        {"cudnnBackendDestroyDescriptor", (void **)&found.drop},
        {"cudnnBackendFinalize", (void **)&found.finish},
        {"cudnnBackendSetAttribute", (void **)&found.set},
        {"cudnnBackendGetAttribute", (void **)&found.get},
        {"cudnnBackendExecute", (void **)&found.execute},
    };
    const cm_library *l = cm_library_get(CM_LIBRARY_CUDNN);
    complete = l->handle && !cm_library_symbols(l, symbols, CM_COUNT(symbols));
}

const cm_cudnn *cm_cudnn_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    return complete ? &found : NULL;
}
