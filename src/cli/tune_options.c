/* tune_options.c -- --tune and its friends.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/tune.h"

/* "INPUT=AxBxC" of --tune-shape for this input; a dim that is a number must be it. */
static bool shape_of(void *user, const cm_engine *e, int i, int64_t *dims)
{
    const cm_tune_flags *f = user;
    const char *name = cm_engine_input_name(e, i);
    const cm_type *t = cm_engine_input_type(e, i);
    size_t n = strlen(name);
    for (int k = 0; k < f->shapes.n; k++) {
        const char *p = f->shapes.v[k];
        if (strncmp(p, name, n) || p[n] != '=')
            continue;
        p += n;
        int a = 0;
        for (; a < t->rank && (*p == '=' || *p == 'x'); a++) {
            char *end;
            dims[a] = strtoll(p + 1, &end, 10);
            if (end == p + 1 || dims[a] < 0)
                return false;
            p = end;
        }
        return a == t->rank && !*p;
    }
    return false;
}

cm_status cm_tune_options_of(cm_ctx *cx, const cm_tune_flags *f, const cm_model_options *m,
                             cm_tuned_options *out)
{
    cm_context_options co;
    *out = (cm_tuned_options){.cache = f->cache, .shape = shape_of, .user = (void *)f};
    if (!cm_tune_parse(f->level, &out->tune.level))
        return cm_fail(cx, CM_ERR_ARGUMENT, "--tune %s: wanted off, quick or full", f->level);
    out->pack = out->tune.level == CM_TUNE_OFF ? CM_PACK_OFF : CM_PACK_ON;
    if (f->pack && !cm_pack_parse(f->pack, &out->pack))
        return cm_fail(cx, CM_ERR_ARGUMENT, "--pack %s: wanted off, on or all", f->pack);
    CM_TRY(cm_model_context_options(cx, m, &out->tune.target, &co));
    out->tune.threads = (int)m->threads;
    out->tune.budget_seconds = f->budget;
    return CM_OK;
}

void cm_tune_print(const cm_tuned_options *o, const cm_tune_report *r)
{
    if (o->tune.level == CM_TUNE_OFF)
        return;
    if (o->tune.target.kind != CM_DEVICE_CPU && o->tune.target.level) {
        printf("compiled for sm_%d, not tuned: there is no device of it\n",
               o->tune.target.level / 10);
        return;
    }
    if (!r->problems) {
        printf("not tuned: a size is open; --dim, --shape or --tune-shape give one to tune for\n");
        return;
    }
    printf("tuned %d problems (%d known before) with %d measurements in %.1f s%s\n", r->problems,
           r->known, r->measured, r->seconds,
           r->stopped ? "; stopped there: `cameo tune` goes on" : "");
}
