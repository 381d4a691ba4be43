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

/* --target may name several: *first has the first alone, the others go into `out`. */
static cm_status read_targets(cm_ctx *cx, const cm_model_options *m, cm_model_options *first,
                              cm_tuned_options *out)
{
    cm_target targets[CM_MAX_TARGETS];
    char text[32];
    int n;
    *first = *m;
    if (!m->target || !strchr(m->target, ','))
        return CM_OK;
    CM_TRY(cm_targets_parse(cx, m->target, targets, &n));
    out->n_more = n - 1;
    memcpy(out->more, targets + 1, (size_t)(n - 1) * sizeof *targets);
    first->target = cm_arena_strdup(cx->arena, cm_target_text(text, sizeof text, &targets[0]));
    return first->target ? CM_OK : cm_fail_memory(cx);
}

cm_status cm_tune_options_of(cm_ctx *cx, const cm_tune_flags *f, const cm_model_options *m,
                             cm_tuned_options *out)
{
    cm_context_options co;
    cm_model_options first;
    *out = (cm_tuned_options){.cache = f->cache, .shape = shape_of, .user = (void *)f};
    if (!cm_tune_parse(f->level, &out->tune.level))
        return cm_fail(cx, CM_ERR_ARGUMENT, "--tune %s: wanted off, quick or full", f->level);
    out->pack = out->tune.level == CM_TUNE_OFF ? CM_PACK_OFF : CM_PACK_ON;
    if (f->pack && !cm_pack_parse(f->pack, &out->pack))
        return cm_fail(cx, CM_ERR_ARGUMENT, "--pack %s: wanted off, on or all", f->pack);
    CM_TRY(read_targets(cx, m, &first, out));
    CM_TRY(cm_model_context_options(cx, &first, &out->tune.target, &co));
    out->tune.threads = (int)m->threads;
    out->tune.budget_seconds = f->budget;
    return CM_OK;
}

/* Was it only compiled for? */
static bool print_class(const cm_target *t)
{
    if (t->kind == CM_DEVICE_CPU || !t->level)
        return false;
    printf("compiled for sm_%d, not tuned: there is no device of it\n", t->level / 10);
    return true;
}

void cm_tune_print(const cm_tuned_options *o, const cm_tune_report *r)
{
    if (o->tune.level == CM_TUNE_OFF)
        return;
    int classes = print_class(&o->tune.target);
    for (int i = 0; i < o->n_more; i++)
        classes += print_class(&o->more[i]);
    if (classes == 1 + o->n_more)
        return;
    if (!r->problems) {
        printf("not tuned: a size is open; --dim, --shape or --tune-shape give one to tune for\n");
        return;
    }
    printf("tuned %d problems (%d known before) with %d measurements", r->problems, r->known,
           r->measured);
    if (r->trials)
        printf(", %d in the whole network (%d choices changed)", r->trials, r->changed);
    printf(" in %.1f s%s\n", r->seconds, r->stopped ? "; stopped there: `cameo tune` goes on" : "");
}
