/* status.h -- a failure is a status and a sentence.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every function that can fail returns cm_status. The sentence (what, where, found, wanted) is
 * recorded in the cm_ctx passed as first argument, so a failure allocates nothing. */
#ifndef CM_BASE_STATUS_H
#define CM_BASE_STATUS_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/arena.h"

#define CM_MUST_USE     __attribute__((warn_unused_result))
#define CM_PRINTF(f)    __attribute__((format(printf, f, f + 1)))
#define CM_COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* X(id, exit-code-and-API number, text). The numbers are ABI: never renumber. */
#define CM_STATUSES(X)                                                                             \
    X(OK, 0, "ok")                                                                                 \
    X(ERR_ARGUMENT, 1, "wrong argument") /* the caller asked for what cannot be */                 \
    X(ERR_MODEL, 2, "invalid model")     /* the model breaks the format or its rules */            \
    X(ERR_UNSUPPORTED, 3, "unsupported") /* valid, but we cannot do it */                          \
    X(ERR_PLAN, 4, "invalid plan")       /* damaged, foreign or too new plan file */               \
    X(ERR_DATA, 5, "invalid data")       /* found in values while running */                       \
    X(ERR_IO, 6, "input/output error")                                                             \
    X(ERR_MEMORY, 7, "out of memory")                                                              \
    X(ERR_DEVICE, 8, "device error")                                                               \
    X(ERR_CANCELLED, 9, "cancelled")      /* by the caller, or its deadline passed */              \
    X(ERR_INTERNAL, 10, "internal error") /* our bug: a verifier found it */

typedef enum {
#define X(id, number, text) CM_##id = number,
    CM_STATUSES(X)
#undef X
} cm_status;

typedef enum { CM_LOG_ERROR, CM_LOG_WARNING, CM_LOG_INFO, CM_LOG_DEBUG } cm_log_level;
typedef void (*cm_log_fn)(void *user, cm_log_level level, const char *sentence);
/* Progress of a long job: `done` of `total` in phase `what`. Return false to cancel. */
typedef bool (*cm_progress_fn)(void *user, const char *what, int64_t done, int64_t total);

/* What a job carries with it: where memory comes from, where words go, and the last failure.
 * One job, one thread; never shared. */
typedef struct cm_ctx {
    const cm_allocator *allocator; /* NULL: the C library's */
    cm_arena *arena;               /* what the current job builds; lives as long as its result */
    cm_arena *scratch;             /* reset by the driver between passes or steps */
    cm_log_fn log;                 /* NULL: silent */
    void *log_user;
    cm_progress_fn progress; /* NULL: nobody watches */
    void *progress_user;
    const atomic_bool *cancel; /* NULL, or set by another thread to stop this job */
    uint64_t deadline_ns;      /* 0: none; else on cm_now_ns()'s clock */
    char message[1024];        /* the sentence; empty while all is well */
} cm_ctx;

const char *cm_status_text(cm_status st);

/* Record a message and return `st`, so a failure is one return statement. A macro, so that compilers see
 * which status comes back. */
#define cm_fail(cx, st, ...) (cm_record((cx), __VA_ARGS__), (cm_status)(st))
void cm_record(cm_ctx *cx, const char *fmt, ...) CM_PRINTF(2);
/* Prefix the recorded message with where we were; returns `st` unchanged. */
cm_status cm_while(cm_ctx *cx, cm_status st, const char *fmt, ...) CM_MUST_USE CM_PRINTF(3);
#define cm_fail_memory(cx) cm_fail((cx), CM_ERR_MEMORY, "out of memory")
void cm_log(cm_ctx *cx, cm_log_level level, const char *fmt, ...) CM_PRINTF(3);
/* CM_OK, or CM_ERR_CANCELLED with a sentence when the job was cancelled or is out of time. */
cm_status cm_check_cancel(cm_ctx *cx) CM_MUST_USE;
/* The same question without a sentence, for loops inside cm_parallel: stop early when true, and let the
 * caller's cm_check_cancel say so. */
bool cm_is_cancelled(const cm_ctx *cx);
/* Report progress; CM_ERR_CANCELLED when the watcher says stop. */
cm_status cm_report(cm_ctx *cx, const char *what, int64_t done, int64_t total) CM_MUST_USE;
uint64_t cm_now_ns(void); /* monotonic */

#define CM_TRY(expr)                                                                               \
    do {                                                                                           \
        cm_status st_ = (expr);                                                                    \
        if (st_ != CM_OK)                                                                          \
            return st_;                                                                            \
    } while (0)

/* Allocate from `arena` into `var` or return CM_ERR_MEMORY. */
#define CM_NEW(cx, arena, var, type)                                                               \
    do {                                                                                           \
        (var) = cm_new((arena), type);                                                             \
        if (!(var))                                                                                \
            return cm_fail_memory(cx);                                                             \
    } while (0)
#define CM_NEW_N(cx, arena, var, n, type)                                                          \
    do {                                                                                           \
        (var) = cm_new_n((arena), (n), type);                                                      \
        if (!(var))                                                                                \
            return cm_fail_memory(cx);                                                             \
    } while (0)

#endif
