/* rt_engine.h -- the public engine, for contexts that hold one.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_API_RT_ENGINE_H
#define CM_API_RT_ENGINE_H

#include "api/api.h"
#include "runtime/runtime.h"

struct cameo_engine {
    cm_job job; /* allocator and words; its arena holds the texts below */
    cm_engine *engine;
    atomic_int references;
    const char **input_text, **output_text; /* types as text */
};

/* Sets e->engine, with e->job. */
typedef cm_status (*cm_open_fn)(cameo_engine *e, void *arg);
cameo_status cm_api_open_engine(cm_open_fn open, void *arg, const cameo_hooks *hooks,
                                cameo_engine **out, cameo_error *error);

#endif
