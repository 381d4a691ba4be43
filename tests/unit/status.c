/* status.c -- sentences, cancelling, progress.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"

static void a_failure_is_a_status_and_a_sentence(void **state)
{
    (void)state;
    cm_ctx cx = {0};
    assert_int_equal(cm_fail(&cx, CM_ERR_MODEL, "found %d, wanted %d", 3, 4), CM_ERR_MODEL);
    assert_int_equal(cm_while(&cx, CM_ERR_MODEL, "node '%s'", "a"), CM_ERR_MODEL);
    assert_string_equal(cx.message, "node 'a': found 3, wanted 4");
    assert_string_equal(cm_status_text(CM_ERR_MODEL), "invalid model");
    assert_string_equal(cm_status_text((cm_status)77), "unknown status");
}

static void long_sentences_are_cut_not_overrun(void **state)
{
    (void)state;
    static char long_name[3000];
    memset(long_name, 'x', sizeof long_name - 1);
    cm_ctx cx = {0};
    (void)!cm_fail(&cx, CM_ERR_IO, "inner");
    for (int n = 1000; n < 1030; n++) {
        (void)!cm_while(&cx, CM_ERR_IO, "%.*s", n, long_name);
        size_t length = strlen(cx.message);
        assert_true(length < sizeof cx.message);
        assert_true(length >= 1000);
        (void)!cm_fail(&cx, CM_ERR_IO, "%s", long_name);
        assert_int_equal(strlen(cx.message), sizeof cx.message - 1);
        (void)!cm_while(&cx, CM_ERR_IO, "outer");
        assert_memory_equal(cx.message, "outer: xxx", 10);
    }
}

static bool stop_at_two(void *user, const char *what, int64_t done, int64_t total)
{
    (void)what;
    (void)total;
    ++*(int *)user;
    return done < 2;
}

static void a_watcher_a_flag_and_a_deadline_cancel(void **state)
{
    (void)state;
    int calls = 0;
    cm_ctx cx = {.progress = stop_at_two, .progress_user = &calls};
    assert_int_equal(cm_report(&cx, "reading", 1, 3), CM_OK);
    assert_int_equal(cm_report(&cx, "reading", 2, 3), CM_ERR_CANCELLED);
    assert_string_equal(cx.message, "cancelled while reading");
    assert_int_equal(calls, 2);

    atomic_bool flag = false;
    cx = (cm_ctx){.cancel = &flag};
    assert_int_equal(cm_check_cancel(&cx), CM_OK);
    atomic_store(&flag, true);
    assert_int_equal(cm_check_cancel(&cx), CM_ERR_CANCELLED);

    cx = (cm_ctx){.deadline_ns = cm_now_ns() + 3600ull * 1000000000};
    assert_int_equal(cm_check_cancel(&cx), CM_OK);
    cx.deadline_ns = 1;
    assert_int_equal(cm_check_cancel(&cx), CM_ERR_CANCELLED);
}

static void keep(void *user, cm_log_level level, const char *sentence)
{
    assert_int_equal(level, CM_LOG_WARNING);
    strcpy(user, sentence);
}

static void words_go_where_the_job_says(void **state)
{
    (void)state;
    char heard[64] = "";
    cm_ctx cx = {0};
    cm_log(&cx, CM_LOG_WARNING, "to nobody");
    cx.log = keep;
    cx.log_user = heard;
    cm_log(&cx, CM_LOG_WARNING, "%d of %d", 1, 2);
    assert_string_equal(heard, "1 of 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_is_a_status_and_a_sentence),
        cmocka_unit_test(long_sentences_are_cut_not_overrun),
        cmocka_unit_test(a_watcher_a_flag_and_a_deadline_cancel),
        cmocka_unit_test(words_go_where_the_job_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
