/* documents_ops.c -- docs/ops.md: every operator, from the registry and the importer's versions.
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/documents.h"
#include "onnx/onnx.h"
#include "ops/signature.h"

/* A line of a table. `op` is NULL when import makes other operators of it. */
typedef struct {
    const char *domain, *name;
    const cm_op *op;
    const char *since;
} entry;

static int by_name(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    int c = strcmp(x->domain, y->domain);
    return c ? c : strcmp(x->name, y->name);
}

static const cm_onnx_op *versions_of(const char *domain, const char *name)
{
    const cm_onnx_op *o;
    for (int i = 0; (o = cm_onnx_op_at(i)); i++)
        if (!strcmp(o->domain, domain) && !strcmp(o->name, name))
            return o;
    return NULL;
}

static bool in_registry(cm_arena *arena, const cm_onnx_op *o)
{
    const char *full = *o->domain ? cm_arena_printf(arena, "%s.%s", o->domain, o->name) : o->name;
    return full && cm_op_find(full);
}

/* All entries, sorted. NULL: out of memory. */
static entry *collect(cm_arena *arena, int *n)
{
    int most = 0;
    while (cm_op_at(most))
        most++;
    for (int i = 0; cm_onnx_op_at(i); i++)
        most++;
    entry *all = cm_new_n(arena, most, entry);
    *n = 0;
    const cm_op *op;
    for (int i = 0; all && (op = cm_op_at(i)); i++) {
        const char *dot = strrchr(op->name, '.');
        const char *domain = dot ? cm_arena_strndup(arena, op->name, (size_t)(dot - op->name)) : "";
        if (!domain)
            return NULL;
        const char *name = dot ? dot + 1 : op->name;
        const cm_onnx_op *o = versions_of(domain, name);
        all[(*n)++] = (entry){domain, name, op, o ? o->since : strcmp(domain, "cameo") ? "1" : ""};
    }
    const cm_onnx_op *o;
    for (int i = 0; all && (o = cm_onnx_op_at(i)); i++)
        if (!in_registry(arena, o))
            all[(*n)++] = (entry){o->domain, o->name, NULL, o->since};
    if (all)
        qsort(all, (size_t)*n, sizeof *all, by_name);
    return all;
}

/* ---- Element types ------------------------------------------------------------------------------ */

#define BIT(t) ((uint32_t)1 << CM_##t)
#define FLOAT  (BIT(F16) | BIT(BF16) | BIT(F32) | BIT(F64))
#define INT    (BIT(I8) | BIT(I16) | BIT(I32) | BIT(I64))
#define UINT   (BIT(U8) | BIT(U16) | BIT(U32) | BIT(U64))
#define F8     (BIT(F8E4M3FN) | BIT(F8E4M3FNUZ) | BIT(F8E5M2) | BIT(F8E5M2FNUZ) | BIT(F8E8M0))
#define SMALL  (BIT(U4) | BIT(I4) | BIT(F4E2M1) | BIT(U2) | BIT(I2) | BIT(F6E2M3) | BIT(F6E3M2))
#define CPLX   (BIT(C64) | BIT(C128))

static const struct {
    const char *name;
    uint32_t types;
} sets[] = {
    {"all", FLOAT | INT | UINT | F8 | SMALL | CPLX | BIT(STR) | BIT(BOOL)},
    {"num", FLOAT | INT | UINT},
    {"float", FLOAT},
    {"int", INT},
    {"uint", UINT},
    {"f8", F8},
    {"small", SMALL},
    {"cplx", CPLX},
};

static void print_types(cm_buf *b, uint32_t mask)
{
    const char *before = "";
    if (!mask)
        cm_buf_str(b, "any");
    for (int i = 0; i < CM_COUNT(sets); i++)
        if ((mask & sets[i].types) == sets[i].types) {
            cm_buf_printf(b, "%s%s", before, sets[i].name);
            mask &= ~sets[i].types;
            before = " ";
        }
    for (int t = 1; t < CM_DTYPE_COUNT; t++)
        if (mask >> t & 1) {
            cm_buf_printf(b, "%s%s", before, cm_dtype_name((cm_dtype)t));
            before = " ";
        }
}

/* "1-2: float; 3: i64": inputs with equal sets together. */
static void print_inputs(cm_buf *b, const cm_op *op)
{
    int n = op->max_in == INT16_MAX ? op->min_in + 8 : op->max_in;
    for (int i = 0, next; i < n; i = next) {
        uint32_t mask = cm_signature_types(op, i);
        next = i + 1;
        while (next < n && cm_signature_types(op, next) == mask)
            next++;
        if (i)
            cm_buf_str(b, "; ");
        if (next == n && op->max_in == INT16_MAX)
            cm_buf_printf(b, "%d-: ", i + 1);
        else if (next == i + 1)
            cm_buf_printf(b, "%d: ", i + 1);
        else
            cm_buf_printf(b, "%d-%d: ", i + 1, next);
        print_types(b, mask);
    }
}

static void print_count(cm_buf *b, int lo, int hi)
{
    if (hi == INT16_MAX)
        cm_buf_printf(b, "%d-", lo);
    else if (lo == hi)
        cm_buf_printf(b, "%d", lo);
    else
        cm_buf_printf(b, "%d-%d", lo, hi);
}

static void print_entry(cm_buf *b, const entry *e)
{
    cm_buf_printf(b, "| %s | ", e->name);
    if (e->op) {
        print_count(b, e->op->min_in, e->op->max_in);
        cm_buf_str(b, " | ");
        print_count(b, e->op->min_out, e->op->max_out);
        cm_buf_str(b, " | ");
        if (e->op->traits & CM_CONTROL)
            cm_buf_str(b, "runs nested networks");
        else
            print_inputs(b, e->op);
    } else {
        cm_buf_str(b, " | | becomes other operators on import");
    }
    cm_buf_printf(b, " | %s |\n", e->since);
}

static const char intro[] =
    "# Operators\n\n"
    "Printed by `cameo documents ops` from `src/ops/ops.def` and `src/onnx/versions.def`; `make "
    "docs` "
    "writes it.\n\n"
    "Every operator here runs, by its reference evaluator where nothing faster is there. *Inputs* "
    "and "
    "*outputs* are how\nmany (`2-`: two or more). *Element types* are per input, counted from 1; "
    "*versions* are the opset versions that\ndefined the operator anew: a node of any version is "
    "read "
    "and brought to the newest form.\n\n"
    "Sets of element types: `float` is f16 bf16 f32 f64; `int` i8 i16 i32 i64; `uint` u8 u16 u32 "
    "u64; "
    "`num` all of\nthese; `f8` the five 8-bit floats; `small` the types under a byte; `cplx` c64 "
    "c128; "
    "`all` every type; `any` means\nthat the rule of the operator says.\n";

void cm_document_ops(cm_arena *arena, cm_buf *b)
{
    int n;
    entry *all = collect(arena, &n);
    if (!all) {
        b->failed = true;
        return;
    }
    cm_buf_str(b, intro);
    for (int i = 0, next; i < n; i = next) {
        for (next = i; next < n && !strcmp(all[next].domain, all[i].domain);)
            next++;
        cm_buf_printf(b, "\n## %s (%d)\n\n", *all[i].domain ? all[i].domain : "ai.onnx", next - i);
        if (!strcmp(all[i].domain, "cameo"))
            cm_buf_str(b, "Composite operators that passes make; no ONNX file has them.\n\n");
        cm_buf_str(b, "| operator | inputs | outputs | element types | versions |\n"
                      "|---|---|---|---|---|\n");
        for (int k = i; k < next; k++)
            print_entry(b, &all[k]);
    }
}
