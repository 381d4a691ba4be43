/* api.h -- what the files behind cameo.h share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_API_API_H
#define CM_API_API_H

#include "cameo.h"

#include "base/status.h"
#include "plan/tensor.h"

/* A job of the library's, begun by a public call: where memory comes from and where words go. */
typedef struct cm_job {
    cm_ctx cx;
    cm_allocator allocator;
    cameo_hooks hooks;
    cm_arena arena, scratch;
} cm_job;

/* `hooks` may be NULL. The job must not move afterwards: cx points into it. */
void cm_job_init(cm_job *j, const cameo_hooks *hooks);
void cm_job_deinit(cm_job *j);

/* Copy status and sentence to the caller and return the status. */
cameo_status cm_job_end(cm_job *j, cm_status st, cameo_error *error);
/* A failure without a job. */
cameo_status cm_api_fail(cameo_error *error, cameo_status st, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Refuse a call whose argument `what` is NULL. */
#define CM_API_NEEDS(error, what)                                                                  \
    do {                                                                                           \
        if (!(what))                                                                               \
            return cm_api_fail(error, CAMEO_ERR_ARGUMENT, #what " must not be NULL");              \
    } while (0)

/* Hooks out of an options struct that may be NULL or older (smaller) than ours. */
#define CM_HOOKS_OF(options)                                                                       \
    ((options) && (options)->size >= offsetof(__typeof__(*(options)), hooks) + sizeof(cameo_hooks) \
         ? &(options)->hooks                                                                       \
         : NULL)
/* Does the caller's struct reach as far as this field? */
#define CM_OPTION_HAS(options, field)                                                              \
    ((options) &&                                                                                  \
     (options)->size >= offsetof(__typeof__(*(options)), field) + sizeof((options)->field))

/* The caller's tensor as ours; checks rank, dims and that `bytes` is enough. data NULL is left to
 * the caller of this to judge. */
cm_status cm_tensor_from_api(cm_ctx *cx, const cameo_tensor *t, cm_tensor *out) CM_MUST_USE;
void cm_tensor_to_api(const cm_tensor *t, cameo_tensor *out);
void cm_info_fill(const char *name, const cm_type *type, const cm_dim_table *dims, const char *text,
                  cameo_info *out);

#endif
