/* profile_html.c -- a profile as one page: text of report/ with the profile's JSON inside.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/profile.h"

static const char page[] =
#include "cli/report/page.html.inc"
    ;
static const char style[] =
#include "cli/report/style.css.inc"
    ;
static const char script[] =
#include "cli/report/core.js.inc"
#include "cli/report/graph.js.inc"
#include "cli/report/roofline.js.inc"
#include "cli/report/timeline.js.inc"
#include "cli/report/table.js.inc"
    ;

/* A name in the data may hold "</script>": no '<' is left in it. */
static void put_data(cm_buf *b, const char *json)
{
    for (const char *p = json; *p; p++) {
        if (*p == '<')
            cm_buf_str(b, "\\u003c");
        else
            cm_buf_u8(b, (uint8_t)*p);
    }
}

static void put_part(cm_buf *b, const char *name, size_t n, const char *data)
{
    if (n == 5 && !strncmp(name, "STYLE", n))
        cm_buf_str(b, style);
    else if (n == 6 && !strncmp(name, "SCRIPT", n))
        cm_buf_str(b, script);
    else if (n == 4 && !strncmp(name, "DATA", n))
        put_data(b, data);
}

/* The page with @STYLE@, @SCRIPT@ and @DATA@ filled in. */
static void put_page(cm_buf *b, const char *data)
{
    const char *p = page;
    for (const char *at; (at = strchr(p, '@')) != NULL;) {
        const char *end = strchr(at + 1, '@');
        if (!end)
            break;
        cm_buf_bytes(b, p, (size_t)(at - p));
        put_part(b, at + 1, (size_t)(end - at - 1), data);
        p = end + 1;
    }
    cm_buf_str(b, p);
}

cm_status cm_profile_write_html(cm_ctx *cx, const cm_profile *p, const char *path)
{
    json_t *j = cm_profile_json(p);
    char *data = j ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(j);
    if (!data)
        return cm_fail_memory(cx);
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    put_page(&b, data);
    free(data);
    cm_status st = b.failed ? cm_fail_memory(cx) : cm_file_write(cx, path, b.data, b.n);
    cm_buf_deinit(&b);
    return st;
}
