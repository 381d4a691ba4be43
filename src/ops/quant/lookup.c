/* lookup.c -- cameo.Lookup: what a table has for each byte.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     y[i] = table[x[i]]      x taken as an unsigned byte, whatever its type; 256 entries */
#include "ops/eval.h"
#include "ops/expect.h"

enum { X, TABLE, ENTRIES = 256 };

static cm_status infer(cm_infer *f)
{
    if (cm_infer_ranked(f, TABLE)) {
        CM_TRY(cm_expect_rank(f, TABLE, "the table", 1, 1));
        CM_TRY(cm_infer_equal(f, "the table", cm_infer_dim(f, TABLE, 0), ENTRIES));
    }
    if (!cm_infer_ranked(f, X)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    return cm_infer_like(f, 0, X);
}

static cm_status eval(cm_eval *e)
{
    const uint8_t *x = cm_eval_in(e, X)->data, *table = cm_eval_in(e, TABLE)->data;
    cm_tensor *out = cm_eval_out(e, 0);
    uint8_t *y = out->data;
    for (int64_t i = 0; i < cm_tensor_elems(out); i++)
        y[i] = table[x[i]];
    return CM_OK;
}

const cm_family cm_family_fused_lookup = {.name = "fused_lookup", .infer = infer, .eval = eval};
