/* rt_common.c -- jobs, errors, tensors and types between the public API and the rooms.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"

_Static_assert(CAMEO_MAX_RANK == CM_MAX_RANK, "a tensor's dims must fit into the caller's");

const char *cameo_version(void)
{
    return CM_VERSION;
}

const char *cameo_status_text(cameo_status status)
{
    return cm_status_text((cm_status)status);
}

const char *cameo_dtype_name(cameo_dtype dtype)
{
    return cm_dtype_valid((int)dtype) ? cm_dtype_name((cm_dtype)dtype) : "?";
}

static void forward_log(void *user, cm_log_level level, const char *sentence)
{
    const cm_job *j = user;
    j->hooks.log(j->hooks.log_user, (cameo_log_level)level, sentence);
}

void cm_job_init(cm_job *j, const cameo_hooks *hooks)
{
    memset(j, 0, sizeof *j);
    if (hooks)
        memcpy(&j->hooks, hooks, hooks->size < sizeof j->hooks ? hooks->size : sizeof j->hooks);
    if (j->hooks.alloc && j->hooks.release) {
        j->allocator = (cm_allocator){j->hooks.alloc, j->hooks.release, j->hooks.alloc_user};
        j->cx.allocator = &j->allocator;
    }
    if (j->hooks.log) {
        j->cx.log = forward_log;
        j->cx.log_user = j;
    }
    j->cx.progress = j->hooks.progress;
    j->cx.progress_user = j->hooks.progress_user;
    cm_arena_init(&j->arena, j->cx.allocator);
    cm_arena_init(&j->scratch, j->cx.allocator);
    j->cx.arena = &j->arena;
    j->cx.scratch = &j->scratch;
}

void cm_job_deinit(cm_job *j)
{
    cm_arena_deinit(&j->scratch);
    cm_arena_deinit(&j->arena);
}

cameo_status cm_job_end(cm_job *j, cm_status st, cameo_error *error)
{
    if (error) {
        error->status = (cameo_status)st;
        snprintf(error->message, sizeof error->message, "%s",
                 st == CM_OK        ? ""
                 : j->cx.message[0] ? j->cx.message
                                    : cm_status_text(st));
    }
    return (cameo_status)st;
}

cameo_status cm_api_fail(cameo_error *error, cameo_status st, const char *fmt, ...)
{
    if (error) {
        va_list ap;
        va_start(ap, fmt);
        error->status = st;
        vsnprintf(error->message, sizeof error->message, fmt, ap);
        va_end(ap);
    }
    return st;
}

cm_status cm_tensor_from_api(cm_ctx *cx, const cameo_tensor *t, cm_tensor *out)
{
    size_t bytes;
    *out = (cm_tensor){0};
    if (!cm_dtype_valid((int)t->dtype))
        return cm_fail(cx, CM_ERR_ARGUMENT, "element type %d is unknown", (int)t->dtype);
    if (t->rank < 0 || t->rank > CM_MAX_RANK ||
        !cm_tensor_shape(out, (cm_dtype)t->dtype, t->rank, t->dims))
        return cm_fail(cx, CM_ERR_ARGUMENT, "a tensor's shape is out of range (rank %d)", t->rank);
    out->packed = cm_dtype_is_sub_byte(out->dtype);
    if (!cm_tensor_bytes(out, &bytes))
        return cm_fail(cx, CM_ERR_ARGUMENT, "a tensor's size is out of range");
    if (t->data && t->bytes < bytes)
        return cm_fail(cx, CM_ERR_ARGUMENT, "a tensor has %zu bytes, its shape needs %zu", t->bytes,
                       bytes);
    out->data = t->data;
    out->capacity_bytes = t->bytes;
    return CM_OK;
}

void cm_tensor_to_api(const cm_tensor *t, cameo_tensor *out)
{
    memset(out, 0, sizeof *out);
    out->dtype = (cameo_dtype)t->dtype;
    out->rank = t->rank;
    for (int i = 0; i < t->rank; i++)
        out->dims[i] = t->dims[i];
    out->data = t->data;
    if (!cm_tensor_bytes(t, &out->bytes))
        out->bytes = 0;
}

void cm_info_fill(const char *name, const cm_type *type, const cm_dim_table *dims, const char *text,
                  cameo_info *out)
{
    memset(out, 0, sizeof *out);
    out->name = name;
    out->kind = (cameo_kind)type->kind;
    out->dtype = (cameo_dtype)type->dtype;
    out->rank = type->kind == CM_TENSOR ? type->rank : 0;
    for (int i = 0; i < out->rank; i++) {
        int64_t v;
        out->dims[i] = cm_dim_is_const(dims, type->dims[i], &v) ? v : -1;
    }
    out->type_text = text;
}
