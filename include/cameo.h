/* cameo.h -- compile and run trained networks: the public C API.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The way of a model:
 *
 *     cameo_network  a network in memory, from an ONNX file, from memory, or built by calls
 *     (plan)         bytes that cameo_build_* makes from a network; write it to a file, ship it
 *     cameo_engine   a plan opened for use: immutable, shared by threads, counted references
 *     cameo_context  one running instance of an engine: shapes, memory, threads; one thread at a time
 *
 * Errors. A call that can fail returns a cameo_status and fills *error (which may be NULL) with a
 * sentence: what, where, found, wanted. Nothing aborts, exits or prints.
 *
 * Libraries. libcameo has all of this. libcameo-rt opens and runs plans and lacks what is marked
 * [compiler].
 *
 * ABI. Structs that may grow begin with `size`: set it with the _INIT macro; a newer library reads
 * only what the caller's struct has. Enum numbers never change meaning. The soname changes when a
 * program built against an older header could break. */
#ifndef CAMEO_H
#define CAMEO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CAMEO_API __attribute__((visibility("default")))
#else
#define CAMEO_API
#endif

#define CAMEO_VERSION_MAJOR 0
#define CAMEO_VERSION_MINOR 1
#define CAMEO_VERSION_PATCH 0

/* The version of the library that is loaded: "0.1.0". */
CAMEO_API const char *cameo_version(void);

/* ---- Status ------------------------------------------------------------------------------- */

typedef enum cameo_status {
    CAMEO_OK = 0,
    CAMEO_ERR_ARGUMENT = 1,    /* the caller asked for what cannot be */
    CAMEO_ERR_MODEL = 2,       /* the model breaks the format or its operators' rules */
    CAMEO_ERR_UNSUPPORTED = 3, /* valid, but Cameo cannot do it */
    CAMEO_ERR_PLAN = 4,        /* a damaged, foreign or too new plan */
    CAMEO_ERR_DATA = 5,        /* found in the data while running: an index out of range */
    CAMEO_ERR_IO = 6,
    CAMEO_ERR_MEMORY = 7,
    CAMEO_ERR_DEVICE = 8,
    CAMEO_ERR_CANCELLED = 9,   /* by the caller, or the time allowed passed */
    CAMEO_ERR_INTERNAL = 10    /* a fault of Cameo's: please report it */
} cameo_status;

typedef struct cameo_error {
    cameo_status status;
    char message[1024];
} cameo_error;

CAMEO_API const char *cameo_status_text(cameo_status status);

/* ---- What a caller may give to every long job ----------------------------------------------- */

typedef enum cameo_log_level {
    CAMEO_LOG_ERROR = 0,
    CAMEO_LOG_WARNING = 1,
    CAMEO_LOG_INFO = 2,
    CAMEO_LOG_DEBUG = 3
} cameo_log_level;

typedef struct cameo_hooks {
    size_t size;
    /* Memory: `alloc` returns `bytes` aligned to `align` or NULL; `release` is given the same size.
     * Both or neither; called from any thread. */
    void *(*alloc)(void *user, size_t bytes, size_t align);
    void (*release)(void *user, void *p, size_t bytes);
    void *alloc_user;
    void (*log)(void *user, cameo_log_level level, const char *sentence);
    void *log_user;
    /* Return false to cancel the job. */
    bool (*progress)(void *user, const char *what, int64_t done, int64_t total);
    void *progress_user;
} cameo_hooks;
#define CAMEO_HOOKS_INIT {sizeof(cameo_hooks), 0, 0, 0, 0, 0, 0, 0}

/* ---- Types and tensors ---------------------------------------------------------------------- */

/* Element types, numbered as in ONNX. */
typedef enum cameo_dtype {
    CAMEO_F32 = 1, CAMEO_U8 = 2, CAMEO_I8 = 3, CAMEO_U16 = 4, CAMEO_I16 = 5, CAMEO_I32 = 6,
    CAMEO_I64 = 7, CAMEO_STRING = 8, CAMEO_BOOL = 9, CAMEO_F16 = 10, CAMEO_F64 = 11, CAMEO_U32 = 12,
    CAMEO_U64 = 13, CAMEO_C64 = 14, CAMEO_C128 = 15, CAMEO_BF16 = 16, CAMEO_F8E4M3FN = 17,
    CAMEO_F8E4M3FNUZ = 18, CAMEO_F8E5M2 = 19, CAMEO_F8E5M2FNUZ = 20, CAMEO_U4 = 21, CAMEO_I4 = 22,
    CAMEO_F4E2M1 = 23, CAMEO_F8E8M0 = 24, CAMEO_U2 = 25, CAMEO_I2 = 26, CAMEO_F6E2M3 = 27,
    CAMEO_F6E3M2 = 28
} cameo_dtype;

CAMEO_API const char *cameo_dtype_name(cameo_dtype dtype); /* "f32" */

#define CAMEO_MAX_RANK 32

/* Elements of CAMEO_STRING tensors. */
typedef struct cameo_string {
    const char *data;
    size_t size;
} cameo_string;

/* A dense, row-major tensor. Types under a byte are packed, low bits first. */
typedef struct cameo_tensor {
    cameo_dtype dtype;
    int rank;
    int64_t dims[CAMEO_MAX_RANK];
    void *data;
    size_t bytes; /* of data */
} cameo_tensor;

typedef enum cameo_kind {
    CAMEO_NOTHING = 0,
    CAMEO_TENSOR = 1,
    CAMEO_SEQUENCE = 2,
    CAMEO_OPTIONAL = 3,
    CAMEO_MAP = 4
} cameo_kind;

/* What an input or output is, before any shape is bound. The text stays valid with its owner. */
typedef struct cameo_info {
    const char *name;
    cameo_kind kind;
    cameo_dtype dtype;            /* tensors */
    int rank;                     /* tensors; -1: any */
    int64_t dims[CAMEO_MAX_RANK]; /* -1 where the size is an expression */
    const char *type_text;        /* "f32[batch,3,224,224]" */
} cameo_info;

/* ---- Networks [compiler] -------------------------------------------------------------------- */

typedef struct cameo_network cameo_network;

typedef struct cameo_network_options {
    size_t size;
    cameo_hooks hooks;
    const char *folder;         /* from memory: where external data may lie; NULL: none */
    int n_extra_outputs;        /* values to hand out besides the model's own outputs */
    const char *const *extra_outputs;
    int n_dims;                 /* symbolic dims to fix */
    const char *const *dim_names;
    const int64_t *dim_values;
} cameo_network_options;
#define CAMEO_NETWORK_OPTIONS_INIT \
    {sizeof(cameo_network_options), CAMEO_HOOKS_INIT, 0, 0, 0, 0, 0, 0}

/* `options` may be NULL everywhere. */
CAMEO_API cameo_status cameo_network_from_file(const char *path,
                                               const cameo_network_options *options,
                                               cameo_network **out, cameo_error *error);
/* The bytes must stay until the network is destroyed. */
CAMEO_API cameo_status cameo_network_from_memory(const void *bytes, size_t n,
                                                 const cameo_network_options *options,
                                                 cameo_network **out, cameo_error *error);
CAMEO_API cameo_status cameo_network_create(const char *name, const cameo_network_options *options,
                                            cameo_network **out, cameo_error *error);
CAMEO_API void cameo_network_destroy(cameo_network *network);

/* Building by calls. Values are known by name. dims[i] >= 0 is a size; -1 is the symbol
 * dim_names[i] (NULL array or entry: a symbol of its own). */
CAMEO_API cameo_status cameo_network_add_input(cameo_network *network, const char *name,
                                               cameo_dtype dtype, int rank, const int64_t *dims,
                                               const char *const *dim_names, cameo_error *error);
/* The data is copied. */
CAMEO_API cameo_status cameo_network_add_constant(cameo_network *network, const char *name,
                                                  const cameo_tensor *tensor, cameo_error *error);

typedef enum cameo_attr_kind {
    CAMEO_ATTR_INT = 0, CAMEO_ATTR_FLOAT = 1, CAMEO_ATTR_STRING = 2, CAMEO_ATTR_INTS = 3,
    CAMEO_ATTR_FLOATS = 4, CAMEO_ATTR_STRINGS = 5, CAMEO_ATTR_TENSOR = 6
} cameo_attr_kind;

typedef struct cameo_attr {
    const char *name; /* as in the newest ONNX opset */
    cameo_attr_kind kind;
    int64_t i;
    float f;
    const char *s;
    int64_t n; /* of the lists */
    const int64_t *ints;
    const float *floats;
    const char *const *strings;
    const cameo_tensor *tensor;
} cameo_attr;

/* A node of operator `op` ("Conv", "com.microsoft.FastGelu"), in the newest opset's form. inputs[i]
 * NULL or "": absent. Fails at once when types or shapes do not fit. */
CAMEO_API cameo_status cameo_network_add_node(cameo_network *network, const char *op,
                                              const char *name, int n_inputs,
                                              const char *const *inputs, int n_outputs,
                                              const char *const *outputs, int n_attrs,
                                              const cameo_attr *attrs, cameo_error *error);
CAMEO_API cameo_status cameo_network_mark_output(cameo_network *network, const char *value,
                                                 cameo_error *error);

CAMEO_API int cameo_network_input_count(const cameo_network *network);
CAMEO_API int cameo_network_output_count(const cameo_network *network);
CAMEO_API cameo_status cameo_network_input(cameo_network *network, int index, cameo_info *out,
                                           cameo_error *error);
CAMEO_API cameo_status cameo_network_output(cameo_network *network, int index, cameo_info *out,
                                            cameo_error *error);
/* The text form of the network; free it with cameo_free. */
CAMEO_API cameo_status cameo_network_text(cameo_network *network, char **text, cameo_error *error);

/* ---- Building plans [compiler] -------------------------------------------------------------- */

/* How much to measure on this machine. */
typedef enum cameo_tune {
    CAMEO_TUNE_OFF = 0,   /* nothing: a cost model chooses, and the plan is the same on every machine */
    CAMEO_TUNE_QUICK = 1, /* kernels that may win, for at most 3 s */
    CAMEO_TUNE_FULL = 2   /* all of them, for at most 600 s */
} cameo_tune;

/* Which weights a plan holds as the kernels chosen here want them. */
typedef enum cameo_pack {
    CAMEO_PACK_OFF = 0, /* none: they are packed when it is opened */
    CAMEO_PACK_ON = 1,  /* in place of the plain ones, where that can be undone, else besides: up to twice the bytes */
    CAMEO_PACK_ALL = 2  /* however large the plan gets */
} cameo_pack;

/* A shape for an input whose dims are open. */
typedef struct cameo_shape {
    const char *input;
    int rank;
    const int64_t *dims;
} cameo_shape;

typedef struct cameo_build_options {
    size_t size;
    cameo_hooks hooks; /* `progress` hears of "tuning"; when it says no, what is known by then is used */
    bool strip_weights; /* leave them out of the plan: cameo_refit_file puts them back */
    cameo_tune tune;
    double tune_seconds;      /* 0: as the level says */
    const char *timing_cache; /* a file that measurements are read from and kept in; NULL: none */
    int threads;              /* that contexts will have; 0: one per core */
    const char *target;       /* as in cameo_context_options; several: "cpu,sm_80,sm_90" */
    cameo_pack pack;
    int n_shapes; /* to measure and pack for; with a dim open and no shape nothing is */
    const cameo_shape *shapes;
    const char *precision; /* "fp32" (also when NULL), "tf32", "fp16" or "bf16"; what a build lowered stays so */
} cameo_build_options;
#define CAMEO_BUILD_OPTIONS_INIT \
    {sizeof(cameo_build_options), CAMEO_HOOKS_INIT, false, CAMEO_TUNE_OFF, 0, 0, 0, 0, \
     CAMEO_PACK_OFF, 0, 0, 0}

/* Building optimises the network in place; it can be built again, with the same result. */
CAMEO_API cameo_status cameo_build_file(cameo_network *network, const cameo_build_options *options,
                                        const char *path, cameo_error *error);
/* Free *bytes with cameo_free. */
CAMEO_API cameo_status cameo_build_memory(cameo_network *network,
                                          const cameo_build_options *options, void **bytes,
                                          size_t *n, cameo_error *error);
CAMEO_API void cameo_free(void *p);
/* To run a network without writing a plan. It is optimised in place, and must stay unchanged until the last
 * reference to the engine is released. Hooks, memory too, are the network's unless `options` has others;
 * strip_weights and pack say nothing here. */
struct cameo_engine;
CAMEO_API cameo_status cameo_engine_from_network(cameo_network *network,
                                                 const cameo_build_options *options,
                                                 struct cameo_engine **out, cameo_error *error);
/* The weights of an ONNX model into a plan that was built from a model of the same network: `out`, which
 * may be `plan`, is what building the model anew would give, with the plan's measurements. A model that
 * gives another network is refused, and nothing written. */
CAMEO_API cameo_status cameo_refit_file(const char *plan, const char *model,
                                        const cameo_build_options *options, const char *out,
                                        cameo_error *error);

/* ---- Engines -------------------------------------------------------------------------------- */

typedef struct cameo_engine cameo_engine;

typedef struct cameo_engine_options {
    size_t size;
    cameo_hooks hooks; /* the allocator serves the engine and, by default, its contexts */
} cameo_engine_options;
#define CAMEO_ENGINE_OPTIONS_INIT {sizeof(cameo_engine_options), CAMEO_HOOKS_INIT}

CAMEO_API cameo_status cameo_engine_open_file(const char *path, const cameo_engine_options *options,
                                              cameo_engine **out, cameo_error *error);
/* The bytes (aligned to 64) must stay until the last reference is released. */
CAMEO_API cameo_status cameo_engine_open_memory(const void *bytes, size_t n,
                                                const cameo_engine_options *options,
                                                cameo_engine **out, cameo_error *error);
CAMEO_API cameo_engine *cameo_engine_retain(cameo_engine *engine);
CAMEO_API void cameo_engine_release(cameo_engine *engine);

CAMEO_API int cameo_engine_input_count(const cameo_engine *engine);
CAMEO_API int cameo_engine_output_count(const cameo_engine *engine);
CAMEO_API cameo_status cameo_engine_input(const cameo_engine *engine, int index, cameo_info *out,
                                          cameo_error *error);
CAMEO_API cameo_status cameo_engine_output(const cameo_engine *engine, int index, cameo_info *out,
                                           cameo_error *error);
/* -1: no such name. */
CAMEO_API int cameo_engine_find_input(const cameo_engine *engine, const char *name);
CAMEO_API int cameo_engine_find_output(const cameo_engine *engine, const char *name);

/* ---- Values that are not tensors ------------------------------------------------------------ */

/* A tensor, sequence, optional or map. Those that a context hands out belong to it and are valid
 * until its next run; those made here belong to the caller. */
typedef struct cameo_value cameo_value;

CAMEO_API cameo_kind cameo_value_kind(const cameo_value *value);
/* Items of a sequence, 0 or 1 of an optional, 2 (keys, values) of a map, 0 of a tensor. */
CAMEO_API int64_t cameo_value_count(const cameo_value *value);
CAMEO_API const cameo_value *cameo_value_item(const cameo_value *value, int64_t index);
/* False when it is not a tensor. */
CAMEO_API bool cameo_value_tensor(const cameo_value *value, cameo_tensor *out);

/* Tensor data is borrowed: it must stay as long as the value. Items are borrowed too. */
CAMEO_API cameo_status cameo_value_from_tensor(const cameo_tensor *tensor, cameo_value **out,
                                               cameo_error *error);
CAMEO_API cameo_status cameo_value_from_items(cameo_kind kind, int64_t n,
                                              const cameo_value *const *items, cameo_value **out,
                                              cameo_error *error);
CAMEO_API void cameo_value_destroy(cameo_value *value);

/* ---- Contexts ------------------------------------------------------------------------------- */

typedef struct cameo_context cameo_context;

typedef struct cameo_context_options {
    size_t size;
    cameo_hooks hooks;
    int threads;   /* counting the caller; 0: one per core; 1: none but the caller's */
    uint64_t seed; /* of operators that draw random numbers without a seed of their own */
    const char *target; /* "cpu" (also when NULL); "cpu:avx2": no kernel above that ISA level;
                           "cuda", "cuda:1": that GPU, and the CPU for what it has no kernel for */
    size_t max_memory; /* bytes for activations and packed weights; 0: no limit. Kernels that want more are
                          not chosen; binding fails when it is too little for any */
} cameo_context_options;
#define CAMEO_CONTEXT_OPTIONS_INIT {sizeof(cameo_context_options), CAMEO_HOOKS_INIT, 0, 0, 0, 0}

CAMEO_API cameo_status cameo_context_create(cameo_engine *engine,
                                            const cameo_context_options *options,
                                            cameo_context **out, cameo_error *error);
CAMEO_API void cameo_context_destroy(cameo_context *context);

/* Inputs are borrowed until the run ends. */
CAMEO_API cameo_status cameo_context_set_input(cameo_context *context, int index,
                                               const cameo_tensor *tensor, cameo_error *error);
CAMEO_API cameo_status cameo_context_set_input_value(cameo_context *context, int index,
                                                     const cameo_value *value, cameo_error *error);
/* Output `index` is written to `data` when it fits into `bytes`; the run fails with CAMEO_ERR_ARGUMENT
 * when it does not. NULL data: our own memory again. */
CAMEO_API cameo_status cameo_context_set_output(cameo_context *context, int index, void *data,
                                                size_t bytes, cameo_error *error);
/* Asked for memory when the shape of an output is known: while binding, or, when it depends on the
 * data, during the run. Return NULL to fail the run. NULL fn: our own memory again. */
typedef void *(*cameo_output_fn)(void *user, int output, const cameo_tensor *shape);
CAMEO_API cameo_status cameo_context_set_output_allocator(cameo_context *context, cameo_output_fn fn,
                                                          void *user, cameo_error *error);

/* Work out all shapes and lay out memory for the inputs that were set. Done by cameo_context_run
 * too; useful to ask for shapes and memory before running. For tensors without data yet, set_input
 * takes data NULL. */
CAMEO_API cameo_status cameo_context_bind(cameo_context *context, cameo_error *error);
/* After binding: the shape of an output. rank -1 when only the data will tell. */
CAMEO_API cameo_status cameo_context_output_shape(cameo_context *context, int index,
                                                  cameo_tensor *out, cameo_error *error);
/* After binding: bytes that the context holds for its arena (weights not counted). */
CAMEO_API size_t cameo_context_memory(const cameo_context *context);

/* timeout_seconds 0: none. Nothing is allocated when shapes are those of the last run and no output's
 * size depends on the data. */
CAMEO_API cameo_status cameo_context_run(cameo_context *context, double timeout_seconds,
                                         cameo_error *error);
/* Begin a run and return: inputs in the host's memory may be changed at once, outputs are there after
 * cameo_context_wait. On a CPU it is a run. Layers that a GPU has no kernel for are waited for. */
CAMEO_API cameo_status cameo_context_enqueue(cameo_context *context, cameo_error *error);
CAMEO_API cameo_status cameo_context_wait(cameo_context *context, cameo_error *error);

/* For contexts on a GPU: memory of the caller's on that GPU, aligned to 16 bytes, used in the order of the
 * context's stream. An input is on the host again when cameo_context_set_input is called, an output when `data` is
 * NULL; what lies on the GPU cameo_context_output does not hand out. */
CAMEO_API cameo_status cameo_context_set_device_input(cameo_context *context, int index,
                                                      const cameo_tensor *tensor,
                                                      cameo_error *error);
CAMEO_API cameo_status cameo_context_set_device_output(cameo_context *context, int index,
                                                       void *data, size_t bytes,
                                                       cameo_error *error);
/* The stream (CUstream or cudaStream_t) that work goes to; it must outlive the context. NULL: one of its own. */
CAMEO_API cameo_status cameo_context_set_stream(cameo_context *context, void *stream,
                                                cameo_error *error);

/* From any thread: the run in progress returns CAMEO_ERR_CANCELLED soon. */
CAMEO_API void cameo_context_cancel(cameo_context *context);

/* After a run. */
CAMEO_API cameo_status cameo_context_output(cameo_context *context, int index, cameo_tensor *out,
                                            cameo_error *error);
CAMEO_API const cameo_value *cameo_context_output_value(cameo_context *context, int index);

#ifdef __cplusplus
}
#endif

#endif
