/* versions.c -- from a node's opset to the newest form: a walk over the rows of versions.def.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "onnx/export.h"
#include "onnx/import.h"
#include "onnx/upgrade/upgrade.h"

typedef struct step {
    int from, to; /* versions of the opset, inclusive */
    cm_upgrade_fn run;
} step;

typedef struct row {
    cm_onnx_op op;
    step steps[4]; /* ends with run NULL */
} row;

#define NONE                                                                                       \
    {                                                                                              \
        {                                                                                          \
            0, 0, NULL                                                                             \
        }                                                                                          \
    }
#define STEPS(...)                                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
static const row rows[] = {
#define OP(domain, name, versions, ...) {{name, domain, versions}, __VA_ARGS__},
#include "onnx/versions.def"
#undef OP
};

const cm_onnx_op *cm_onnx_op_at(int index)
{
    return index >= 0 && index < CM_COUNT(rows) ? &rows[index].op : NULL;
}

/* Names are looked up for every node: the map makes that cheap. */
static const row *find_row(cm_importer *im, const char *domain, const char *op)
{
    const char *key = cm_arena_printf(im->tmp, "%s:%s", domain, op);
    if (!im->rows.n)
        for (int i = 0; i < CM_COUNT(rows); i++) {
            const char *k = cm_arena_printf(im->tmp, "%s:%s", rows[i].op.domain, rows[i].op.name);
            if (!k || !cm_map_put(&im->rows, k, (void *)(uintptr_t)&rows[i]))
                return NULL;
        }
    return key ? cm_map_get(&im->rows, key) : NULL;
}

const cm_op *cm_onnx_find_op(cm_importer *im, const char *domain, const char *op)
{
    const char *name = *domain ? cm_arena_printf(im->tmp, "%s.%s", domain, op) : op;
    if (!name)
        return NULL;
    if (!cm_map_has(&im->ops, name) &&
        !cm_map_put(&im->ops, name, (void *)(uintptr_t)cm_op_find(name)))
        return NULL;
    return cm_map_get(&im->ops, name);
}

bool cm_onnx_knows(cm_importer *im, const char *domain, const char *op)
{
    if (cm_onnx_find_op(im, domain, op))
        return true;
    const row *r = find_row(im, domain, op);
    return r && r->steps[0].run; /* it becomes another operator */
}

cm_status cm_onnx_upgrade(cm_pending *u)
{
    const row *r = find_row(u->im, u->domain, u->op);
    int first = r ? atoi(r->op.since) : 0;
    if (u->version < first) { /* files exist that use operators before their time */
        cm_log(u->im->cx, CM_LOG_WARNING, "%s node '%s' is of opset %d, the model imports %lld",
               u->op, u->name, first, (long long)u->version);
        u->version = first;
        u->early = true;
    }
    for (int i = 0; r && i < CM_COUNT(r->steps) && r->steps[i].run && !u->done; i++)
        if (u->version >= r->steps[i].from && u->version <= r->steps[i].to)
            CM_TRY(r->steps[i].run(u));
    return CM_OK;
}

int cm_onnx_export_version(const char *domain, const char *op)
{
    for (int i = 0; i < CM_COUNT(rows); i++) {
        const row *r = &rows[i];
        if (strcmp(r->op.name, op) != 0 || strcmp(r->op.domain, domain) != 0)
            continue;
        int version = atoi(r->op.since);
        for (int k = 0; k < CM_COUNT(r->steps) && r->steps[k].run; k++)
            if (r->steps[k].to >= version && r->steps[k].to < CM_ONNX_NEWEST_OPSET)
                version = r->steps[k].to + 1;
        return version;
    }
    return 0;
}
