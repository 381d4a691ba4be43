/* cameo_plugin.h -- operators of your own, in a shared library.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A plugin is a shared library that exports one function, cameo_plugin_entry, which hands out a table of
 * operators. Each has a type rule, a reference that accepts everything, and any number of tactics: faster
 * ways for some problems. Cameo loads it with `--plugins LIB` or cameo_plugin_load(); from then on models
 * that use the operators import, plans that use them run, and the tuner times their tactics beside
 * each other. docs/plugins.md has the rules, examples/plugin/ a whole one.
 *
 * ABI. Every struct begins with `size`: set it to sizeof, on either side a field beyond the other's size is
 * not looked at. CAMEO_PLUGIN_ABI changes when an old plugin could break; one of another ABI is
 * refused. The tables must stay as long as the process. Functions are called from any thread, several
 * at once; they must not throw. */
#ifndef CAMEO_PLUGIN_H
#define CAMEO_PLUGIN_H

#include "cameo.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CAMEO_PLUGIN_ABI 1u

/* ---- Attributes ----------------------------------------------------------------------------- */

/* One attribute of an operator. Attributes come from the model's nodes and are kept in plans by name. */
typedef struct cameo_attr_spec {
    size_t size;
    const char *name;
    cameo_attr_kind kind;
    bool required;
    int64_t default_int;
    float default_float;
    const char *default_string; /* NULL: "" */
} cameo_attr_spec;

/* Functions below are given all attributes in the order of the operator's specs, defaults filled in; lists
 * that were not given have n 0, tensors are NULL. */

/* ---- Type rules ----------------------------------------------------------------------------- */

/* A size: the number itself when it is not negative, else an expression over the model's named sizes, good
 * only for the calls of a rule. */
typedef int64_t cameo_dim;
#define CAMEO_DIM_DATA INT64_MIN /* in cameo_rule_calls.output: only the data will tell */

typedef struct cameo_operand_type {
    bool present; /* false: an optional input that is absent */
    cameo_dtype dtype;
    int rank; /* -1: not known */
    const cameo_dim *dims;
    const cameo_tensor *value; /* its elements where they are known already, else NULL */
} cameo_operand_type;

typedef struct cameo_rule cameo_rule;

typedef struct cameo_rule_calls {
    size_t size;
    /* Output o is a tensor of that element type and shape; rank -1: not known. */
    cameo_status (*output)(const cameo_rule *r, int o, cameo_dtype dtype, int rank,
                           const cameo_dim *dims);
    /* a OP b with OP one of + - * / (rounded down) ^ (divided, rounded up) */
    cameo_dim (*combine)(const cameo_rule *r, cameo_dim a, char op, cameo_dim b);
    /* Refuse the node unless the two can be equal. `what` is for the sentence: "columns of B". */
    cameo_status (*equal)(const cameo_rule *r, const char *what, cameo_dim found, cameo_dim wanted);
    /* Refuse the node; returns what the rule must return. */
    cameo_status (*fail)(const cameo_rule *r, const char *sentence);
} cameo_rule_calls;

struct cameo_rule {
    size_t size;
    const cameo_rule_calls *call;
    void *host; /* Cameo's own */
    int n_attrs;
    const cameo_attr *attrs;
    int n_inputs;
    const cameo_operand_type *inputs;
    int n_outputs;
};

/* ---- The reference -------------------------------------------------------------------------- */

typedef void (*cameo_range)(void *arg, int64_t begin, int64_t end);

typedef struct cameo_eval cameo_eval;

typedef struct cameo_eval_calls {
    size_t size;
    /* Shape and memory for an output whose size the rule left to the data. */
    cameo_status (*allocate)(const cameo_eval *e, int o, cameo_dtype dtype, int rank,
                             const int64_t *dims);
    void *(*scratch)(const cameo_eval *e,
                     size_t bytes); /* zeroed, until you return; NULL: none left */
    void (*parallel)(const cameo_eval *e, int64_t n, int64_t grain, cameo_range fn, void *arg);
    /* What only the data can show: an index out of range. */
    cameo_status (*fail)(const cameo_eval *e, const char *sentence);
} cameo_eval_calls;

/* Tensors are dense and row-major; types under a byte take a byte an element here. */
struct cameo_eval {
    size_t size;
    const cameo_eval_calls *call;
    void *host;
    int n_attrs;
    const cameo_attr *attrs;
    int n_inputs;
    const cameo_tensor *const *inputs; /* NULL: absent */
    int n_outputs;
    cameo_tensor *const *outputs; /* NULL: nobody reads it; data NULL: call allocate() first */
};

/* ---- Tactics -------------------------------------------------------------------------------- */

/* One node with the sizes that are bound. Dense, row-major; `data` is set where a tensor is constant. */
typedef struct cameo_problem {
    size_t size;
    int n_attrs;
    const cameo_attr *attrs;
    int n_inputs;
    const cameo_tensor *const *inputs; /* NULL: absent */
    int n_outputs;
    const cameo_tensor *const *outputs; /* NULL: nobody reads it */
    int threads;                        /* that will run it */
    int level; /* of the target: CPU 0 generic, 1 AVX2, 2 AVX-512, 3 AMX; CUDA 900 for sm_90 */
} cameo_problem;

typedef struct cameo_run cameo_run;

typedef struct cameo_run_calls {
    size_t size;
    void (*parallel)(const cameo_run *r, int64_t n, int64_t grain, cameo_range fn, void *arg);
    cameo_status (*fail)(const cameo_run *r, const char *sentence);
} cameo_run_calls;

struct cameo_run {
    size_t size;
    const cameo_run_calls *call;
    void *host;
    const cameo_problem *problem;
    const void *const *inputs; /* memory of the problem's inputs and outputs, in order */
    void *const *outputs;
    void *workspace; /* as many bytes as workspace() said, aligned to 64; never NULL on the CPU */
};

typedef enum cameo_device { CAMEO_CPU = 0, CAMEO_CUDA = 1 } cameo_device;

/* An argument of a CUDA kernel, in its order. */
typedef enum cameo_kernel_arg_kind {
    CAMEO_ARG_INPUT = 0,     /* pointer to input `i` */
    CAMEO_ARG_OUTPUT = 1,    /* pointer to output `i` */
    CAMEO_ARG_WORKSPACE = 2, /* pointer to the workspace */
    CAMEO_ARG_INT = 3,       /* a long long: i */
    CAMEO_ARG_FLOAT = 4      /* a float: f */
} cameo_kernel_arg_kind;

typedef struct cameo_kernel_arg {
    cameo_kernel_arg_kind kind;
    int64_t i;
    float f;
} cameo_kernel_arg;

#define CAMEO_MAX_KERNEL_ARGS 32
typedef struct cameo_kernel_launch {
    size_t size;
    unsigned grid[3], block[3], shared_bytes;
    int n_args; /* at most CAMEO_MAX_KERNEL_ARGS */
    cameo_kernel_arg args[CAMEO_MAX_KERNEL_ARGS];
} cameo_kernel_launch;

typedef struct cameo_plugin_tactic {
    size_t size;
    const char *name; /* unique; plans and timing caches keep it: never rename it */
    cameo_device device;
    /* Why it declines the problem, or NULL: reports print the reason. NULL function: takes all. */
    const char *(*reject)(const cameo_problem *p);
    /* Nanoseconds that a run is expected to take; the least wins where nothing was measured. */
    double (*cost)(const cameo_problem *p);
    size_t (*workspace)(const cameo_problem *p); /* NULL: none */
    /* 1 + the input whose memory output 0 may take over when nobody reads the input afterwards (`inputs`
     * and `outputs` then hold the same pointer); 0: never. Both must have as many bytes. */
    int in_place;
    /* CPU: compute. Fails only for what data alone can show. */
    cameo_status (*run)(const cameo_run *r);
    /* CUDA: the kernel's text (CUDA C, compiled by NVRTC for the target; no headers), its name, which must
     * be extern "C" and at most 60 letters, and how to launch it: grid, block (1024 threads at most), dynamic
     * shared memory and arguments, which stay the same while sizes do. */
    const char *source, *kernel;
    cameo_status (*launch)(const cameo_problem *p, cameo_kernel_launch *out);
} cameo_plugin_tactic;

/* ---- Operators and the plugin --------------------------------------------------------------- */

#define CAMEO_OP_PURE     1u /* same inputs, same outputs: may be folded, shared, dropped */
#define CAMEO_ANY_NUMBER  INT16_MAX
#define CAMEO_MAX_TACTICS 8 /* of one operator and device */

typedef struct cameo_plugin_op {
    size_t size;
    const char *name; /* the model's domain and operator: "my.domain.FusedNorm" */
    int min_inputs, max_inputs, min_outputs, max_outputs;
    unsigned traits;
    /* Element types, "T=float: T T -> T" (docs/plugins.md); NULL: anything, the rule checks. */
    const char *types;
    int n_attrs; /* at most 60 */
    const cameo_attr_spec *const *attrs;
    cameo_status (*rule)(const cameo_rule *r);
    cameo_status (*eval)(const cameo_eval *e);
    int n_tactics;
    const cameo_plugin_tactic *const *tactics; /* best guess first */
} cameo_plugin_op;

typedef struct cameo_plugin {
    size_t size;
    unsigned abi;               /* CAMEO_PLUGIN_ABI */
    const char *name, *version; /* plans say that they need it by these */
    int n_ops;
    const cameo_plugin_op *const *ops;
} cameo_plugin;

/* What the library exports. `abi` is the host's; NULL: nothing for that one. */
#if defined(_WIN32)
#define CAMEO_PLUGIN_EXPORT __declspec(dllexport)
#else
#define CAMEO_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif
CAMEO_PLUGIN_EXPORT const cameo_plugin *cameo_plugin_entry(unsigned abi);
typedef const cameo_plugin *(*cameo_plugin_entry_fn)(unsigned abi);

/* ---- For programs that use Cameo ------------------------------------------------------------ */

/* Load a plugin's library and register its operators, once however often it is asked for; they stay until
 * the process ends. Before models and plans that need them are opened. */
CAMEO_API cameo_status cameo_plugin_load(const char *library, cameo_error *error);
/* The same with a table of the program's own, which must stay. */
CAMEO_API cameo_status cameo_plugin_register(const cameo_plugin *plugin, cameo_error *error);

#ifdef __cplusplus
}
#endif

#endif
