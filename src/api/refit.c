/* refit.c -- builds a model as a plan was built, and takes its constants.
 * SPDX-License-Identifier: Apache-2.0 */
#include "api/refit.h"

#include <string.h>

#include "api/recipe.h"

typedef struct {
    cm_ctx *cx;
    cm_arena arena;
    cm_mapping file; /* of the plan */
    cm_plan *plan;
    cm_onnx_source *source;
    cm_plan *fresh;
    const cm_tensor *const *constants;
} job;

static cm_status read_plan(job *j, const char *path)
{
    CM_TRY(cm_file_map(j->cx, path, &j->file));
    CM_TRY(cm_plan_read(j->cx, &j->arena, j->file.data, j->file.n, &j->plan));
    cm_plan_drop_besides(j->plan); /* transforms of weights are made when a plan is opened */
    return j->plan->build ? CM_OK
                          : cm_fail(j->cx, CM_ERR_ARGUMENT,
                                    "the plan does not say how it was built: only plans built from "
                                    "a model's file can be refitted");
}

static cm_status build_model(job *j, const char *path)
{
    cm_recipe r;
    cm_network *g;
    CM_TRY(cm_recipe_parse(j->cx, &j->arena, j->plan->build, &r));
    CM_TRY(cm_onnx_import_file(j->cx, &j->arena, path, &r.import, &j->source, &g));
    CM_TRY(cm_recipe_keep_outputs(j->cx, &r, g));
    return cm_compile(j->cx, &j->arena, g, &r.compile, &j->fresh, &j->constants);
}

static cm_status check_same(job *j)
{
    cm_status st = cm_plan_same(j->cx, j->plan, j->fresh);
    if (st != CM_ERR_MODEL)
        return st;
    if (strcmp(j->plan->producer, j->fresh->producer) != 0)
        return cm_while(j->cx, st, "the plan was built by %s, this is %s, and its network differs",
                        j->plan->producer, j->fresh->producer);
    return cm_while(j->cx, st,
                    "with these weights it is another network, which must be built anew");
}

/* What stands in the file now, read back. */
static cm_status look_back(job *j, const char *path, cm_refit_report *report)
{
    cm_mapping file;
    cm_plan *p;
    CM_TRY(cm_file_map(j->cx, path, &file));
    cm_status st = cm_plan_read(j->cx, &j->arena, file.data, file.n, &p);
    if (st == CM_OK) {
        report->bytes = p->weights_bytes;
        report->same_weights = p->weights_checksum == j->plan->build->weights_checksum;
    }
    cm_file_unmap(&file);
    return st;
}

static cm_status write_plan(job *j, const char *path, cm_refit_report *report)
{
    cm_plan *p = j->fresh;
    p->n_targets = j->plan->n_targets;
    p->targets = j->plan->targets;
    CM_TRY(cm_plan_pack_like(j->cx, &j->arena, j->plan, p, &j->constants));
    *report = (cm_refit_report){.was_stripped = j->plan->stripped, .n_targets = p->n_targets};
    for (int i = 0; i < p->n_values; i++)
        report->n_constants += p->values[i].storage == CM_STORE_CONSTANT;
    CM_TRY(cm_report(j->cx, "writing", 0, 1));
    CM_TRY(cm_plan_write_file(j->cx, p, j->constants, path));
    CM_TRY(look_back(j, path, report));
    return cm_report(j->cx, "writing", 1, 1);
}

cm_status cm_refit(cm_ctx *cx, const char *plan, const char *model, const char *out,
                   cm_refit_report *report)
{
    job j = {.cx = cx};
    cm_arena_init(&j.arena, cx->allocator ? cx->allocator : &cm_allocator_passing);
    cm_status st = read_plan(&j, plan);
    if (st != CM_OK)
        st = cm_while(cx, st, "%s", plan);
    else if ((st = build_model(&j, model)) != CM_OK || (st = check_same(&j)) != CM_OK)
        st = cm_while(cx, st, "%s", model);
    else
        st = write_plan(&j, out, report);
    cm_onnx_source_close(j.source);
    cm_arena_deinit(&j.arena);
    if (j.file.data)
        cm_file_unmap(&j.file);
    return st;
}
