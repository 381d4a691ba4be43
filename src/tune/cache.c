/* cache.c -- the timing cache file.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tune/tune.h"

cm_status cm_timing_cache_read(cm_ctx *cx, const char *path, cm_timings *t)
{
    cm_mapping m;
    if (access(path, F_OK) != 0)
        return CM_OK;
    CM_TRY(cm_file_map(cx, path, &m));
    cm_status st = m.n ? cm_timings_parse(cx, t, (const char *)m.data, m.n) : CM_OK;
    cm_file_unmap(&m);
    return st == CM_OK ? st : cm_while(cx, st, "%s", path);
}

cm_status cm_timing_cache_write(cm_ctx *cx, const char *path, cm_timings *t)
{
    cm_buf text;
    cm_timings there;
    const cm_target none = {0};
    /* What another process wrote since is read again first; ours are newer and replace it. */
    cm_timings_init(&there, cx->allocator, &none);
    memcpy(there.machine, t->machine, sizeof there.machine);
    cm_status st = cm_timing_cache_read(cx, path, &there);
    for (int i = 0; st == CM_OK && i < t->n; i++)
        st =
            cm_timings_add(cx, &there, t->v[i].problem, t->v[i].tactic, &t->v[i].knobs, t->v[i].ns);
    cm_buf_init(&text, cx->allocator);
    cm_timings_print(&there, &text);
    if (st == CM_OK && text.failed)
        st = cm_fail_memory(cx);
    if (st == CM_OK)
        st = cm_file_write(cx, path, text.data, text.n);
    cm_buf_deinit(&text);
    cm_timings_deinit(&there);
    return st;
}
