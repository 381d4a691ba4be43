/* status.c -- sentences, logging, cancelling.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

const char *cm_status_text(cm_status st)
{
    switch (st) {
#define X(id, number, text)                                                                        \
    case CM_##id:                                                                                  \
        return text;
        CM_STATUSES(X)
#undef X
    }
    return "unknown status";
}

void cm_record(cm_ctx *cx, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(cx->message, sizeof cx->message, fmt, ap);
    va_end(ap);
}

cm_status cm_while(cm_ctx *cx, cm_status st, const char *fmt, ...)
{
    char inner[sizeof cx->message];
    memcpy(inner, cx->message, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(cx->message, sizeof cx->message, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n + 3 < sizeof cx->message) {
        size_t room = sizeof cx->message - (size_t)n - 3, length = strlen(inner);
        char *end = stpcpy(cx->message + n, ": ");
        end = mempcpy(end, inner, length < room ? length : room);
        *end = 0;
    }
    return st;
}

void cm_log(cm_ctx *cx, cm_log_level level, const char *fmt, ...)
{
    if (!cx->log)
        return;
    char sentence[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    cx->log(cx->log_user, level, sentence);
}

uint64_t cm_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

cm_status cm_check_cancel(cm_ctx *cx)
{
    if (cx->cancel && atomic_load_explicit(cx->cancel, memory_order_relaxed))
        return cm_fail(cx, CM_ERR_CANCELLED, "cancelled by the caller");
    if (cx->deadline_ns && cm_now_ns() > cx->deadline_ns)
        return cm_fail(cx, CM_ERR_CANCELLED, "stopped: the time allowed has passed");
    return CM_OK;
}

bool cm_is_cancelled(const cm_ctx *cx)
{
    return (cx->cancel && atomic_load_explicit(cx->cancel, memory_order_relaxed)) ||
           (cx->deadline_ns && cm_now_ns() > cx->deadline_ns);
}

cm_status cm_report(cm_ctx *cx, const char *what, int64_t done, int64_t total)
{
    CM_TRY(cm_check_cancel(cx));
    if (cx->progress && !cx->progress(cx->progress_user, what, done, total))
        return cm_fail(cx, CM_ERR_CANCELLED, "cancelled while %s", what);
    return CM_OK;
}
