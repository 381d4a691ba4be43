/* op.h -- the operator registry: one row an operator.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_OP_H
#define CM_OPS_OP_H

#include "ops/attr.h"
#include "plan/target.h"

/* Built-in operators, for switches inside a family file only. Files store names. */
typedef enum {
#define OP(id, ...) CM_OP_##id,
#include "ops/ops.def"
#undef OP
    CM_OP_COUNT, /* how many are built in; the id of every plugin operator too */
} cm_op_id;

/* Traits. */
enum {
    CM_PURE = 1,       /* same inputs, same outputs: may be folded, shared, dropped */
    CM_ELTWISE = 2,    /* out[i] depends on in[i] (broadcast) alone */
    CM_VIEW = 4,       /* output 0 is input 0's elements in the same order: a reshape */
    CM_SHAPE_ONLY = 8, /* needs the types of its inputs, never their elements */
    CM_CONTROL = 16,   /* holds networks; run by the runtime, not by an evaluator */
    CM_RANDOM = 32,    /* not PURE: draws from the context's generator */
    CM_EPILOGUE = 64,  /* a pointwise program may follow it inside the same kernel */
};

typedef struct cm_op cm_op;
typedef struct cm_infer cm_infer;
typedef struct cm_eval cm_eval;

/* What an operator costs, for ranking and reports. */
typedef struct cm_cost {
    double ops;   /* arithmetic operations; a multiply-add counts two */
    double bytes; /* read and written once */
} cm_cost;

/* A set of operators that share a type rule: one file in ops/, exporting `cm_family_<name>`. */
typedef struct cm_family {
    const char *name;
    /* Types in, types out, or a sentence. Called with symbolic dims when a network is built and
     * with numbers when it runs. Element types were checked against the row's signature and output
     * element types filled in from it where it says them. */
    cm_status (*infer)(cm_infer *f);
    /* The slow, obvious truth. NULL for CM_CONTROL. */
    cm_status (*eval)(cm_eval *e);
    /* NULL: one operation per output element. Types as `infer` left them; symbolic dims count as
     * given by cm_infer_extent(). Bytes are filled in by the caller; the rule may change them. */
    void (*cost)(const cm_infer *f, cm_cost *c);
    /* NULL: nothing. What `eval` takes from the attributes alone and would have to make in every run,
     * made once: *out is in `arena`, which lives as long as the attributes, and is never written
     * again, since the contexts of an engine share it. cx->scratch is for what is not kept. */
    cm_status (*prepare)(cm_ctx *cx, cm_arena *arena, const cm_op *op, const void *attr,
                         const void **out);
} cm_family;

struct cm_op {
    cm_op_id id;
    const char *name;   /* unique: "Conv", "com.microsoft.FastGelu", "ai.onnx.ml.Scaler" */
    int min_in, max_in; /* max_in INT16_MAX: any number */
    int min_out, max_out;
    int traits;
    const char *signature; /* element types; see signature.h */
    const cm_family *family;
    const cm_attr_desc *attrs;
    /* Plugins' rows; NULL and 0 in ops.def's. */
    const char *plugin;                   /* name and version of the plugin */
    const struct cm_problem_row *problem; /* how backends see it; NULL: they do not */
    /* The operator's own by device, best guess first. */
    const struct cm_tactic *tactics[CM_DEVICE_COUNT];
    int n_tactics[CM_DEVICE_COUNT];
};

/* The operator of that name: built in, then plugins'. NULL: none. ONNX's default domain has no
 * prefix; other domains are "domain.Name". */
const cm_op *cm_op_find(const char *name);
const cm_op *cm_op_builtin(cm_op_id id);
/* One more row, which must stay as long as the process; a name that is taken is refused. From any thread. */
cm_status cm_op_register(cm_ctx *cx, const cm_op *op) CM_MUST_USE;
/* Walk all: 0, 1, ... until NULL. */
const cm_op *cm_op_at(int index);

extern const cm_attr_desc cm_attrs_none;

#endif
