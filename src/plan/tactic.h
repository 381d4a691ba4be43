/* tactic.h -- one way of solving a class of problems on one machine class: a row of a table.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each backend has one ordered table per problem kind, best guess first; the reference, which the
 * runtime keeps, accepts everything. Tests, benches and the tuner walk the same tables. Names are in
 * plans and timing caches: never renamed. */
#ifndef CM_PLAN_TACTIC_H
#define CM_PLAN_TACTIC_H

#include "base/threads.h"
#include "plan/problem.h"
#include "plan/shapes.h"
#include "plan/target.h"

/* A problem with its sizes bound, as a tactic is shown it. Tensors have dims and strides; `data` is
 * set in those that are constant, and in small integer tensors that shape arithmetic knows. Any
 * tensor may be strided (channels-last, a view): a tactic that wants it dense says so in `reject`, and the
 * runtime brings the operand into form, at a cost that selection counts. */
typedef struct cm_problem {
    cm_problem_kind kind;
    const char *op;             /* the operator's name, for reports */
    int n_in;                   /* without the epilogue's operands */
    const cm_tensor *const *in; /* NULL: absent */
    const bool *constant;       /* per input: the same in every run */
    int n_out;
    const cm_tensor *const *out; /* NULL: nobody reads it */
    const cm_program *epilogue;  /* on output 0; NULL: none */
    int n_operands;
    const cm_tensor *const *operands; /* of the epilogue; they broadcast to output 0 */
    const cm_program *program;        /* POINTWISE, REDUCE (there NULL: none) */
    /* The step behind it, which the same kernel does: it reads output 0 as its input 0, and its output 0 is written instead; `kept`: others
     * read output 0 too, both are written. NULL: none. Only tactics that join steps are asked. */
    const struct cm_problem *then;
    bool kept;
    union {
        cm_matmul matmul;
        cm_conv conv;
        cm_attention attention;
        cm_rows rows;
        cm_pointwise_shape pointwise;
        cm_reduce reduce;
        cm_pool pool;
        cm_resize resize;
        cm_move move;
        cm_gather gather;
        cm_scatter scatter;
        cm_placed placed;
        cm_sample sample;
        cm_recurrent recurrent;
        cm_sort sort;
        cm_qmatmul qmatmul;
        cm_qconv qconv;
        cm_quantise quantise;
        cm_custom custom;
        cm_rotary_shape rotary;
        cm_pick pick;
        cm_nms nms;
        cm_nbits nbits;
        cm_linear_attention linear_attention;
        cm_gqa gqa;
    } as;
    cm_target target;
    int threads; /* that will run it */
    bool tf32;   /* products of float32 may shorten their operands to 10 bits behind the point */
    bool lean;   /* memory is short: no packed weights that are much larger than the weights */
} cm_problem;

/* Is there such an input; does anybody read the output? */
static inline bool cm_problem_has(const cm_problem *p, int i)
{
    return i < p->n_in && p->in[i];
}
static inline bool cm_problem_wants(const cm_problem *p, int o)
{
    return o < p->n_out && p->out[o];
}

/* Tunable numbers; what each means is the tactic's. */
typedef struct cm_knobs {
    int32_t v[8];
} cm_knobs;
enum { CM_MAX_KNOBS = 32 }; /* settings a tactic may offer for one problem */

/* A device that is not the CPU, opened by this process, and an order of work on it (plan/backend.h). */
typedef struct cm_device cm_device;
typedef struct cm_stream cm_stream;

/* One run. Pointers are those of the problem's inputs and outputs, in order, in the backend's memory; an
 * input that was packed has its packed form there. Those of the CPU's memory are aligned to their elements,
 * those of a device's to 16 bytes. On a device `run` only enqueues: nothing is waited
 * for, and the same call may be recorded once and replayed many times. */
typedef struct cm_run {
    cm_ctx *cx; /* for failures and cancelling; no memory is to be had from it */
    const cm_problem *p;
    const cm_knobs *k;
    const void *const *in;
    void *const *out;
    const void *const *operands;
    /* Aligned to 64; on the CPU never NULL where the tactic says how much it needs. */
    void *workspace;
    cm_threads *threads;
    /* Packed weights that a step soon after this one reads: a kernel that has time may ask the cache for them. NULL: none. */
    const void *ahead;
    size_t ahead_bytes;
    /* Devices only. */
    const struct cm_run *then; /* the pointers of p->then */
    /* Bytes that are 0 before the run, and must be after it: other steps use them too. */
    void *signals;
    const void *state; /* what `ready` made */
    cm_stream *stream;
    uint32_t *fault; /* in device memory: a kernel that meets bad data writes fault_code there */
    uint32_t fault_code; /* not 0 */
    /* Outputs that only data size: a kernel writes how many there are, for the host too; NULL: nobody asks. The problem
     * then has the most that can be, and outputs are dense with what there is. */
    int64_t *count;
} cm_run;

enum { CM_IN_PLACE_ANY = -1 };

typedef struct cm_tactic {
    const char *name;
    int level; /* least cm_target.level that it runs on */
    /* Why it declines this problem, or NULL. Not a failure: reports print it. */
    const char *(*reject)(const cm_problem *p);
    /* Settings worth trying for p, best guess first: at least one, at most CM_MAX_KNOBS. NULL: one
     * setting, all zero. */
    int (*knobs)(const cm_problem *p, cm_knobs *out);
    /* Nanoseconds that a run is expected to take, from sizes and p->target alone. */
    double (*cost)(const cm_problem *p, const cm_knobs *k);
    /* NULL: none. Counts p->threads. */
    size_t (*workspace)(const cm_problem *p, const cm_knobs *k);
    /* Constant inputs in the form that `run` wants: bytes of input i packed, 0: as it is. NULL: none is
     * packed. The packed form must hang on the input's own shape, its element type and the knobs
     * alone (not on m, batch or the image's size), so that contexts of all sizes share it. */
    size_t (*pack_bytes)(const cm_problem *p, const cm_knobs *k, int input);
    void (*pack)(const cm_problem *p, const cm_knobs *k, int input, const void *from, void *to,
                 cm_threads *threads);
    /* Fails only for what data alone can show. */
    cm_status (*run)(const cm_run *r);
    /* CONV on the CPU, NULL: not to be had. Rows [begin, end) of the output's axis 2 alone, the problem being of one
     * image with two spatial axes. Only those rows of output 0, and the rows of input 0 under them, are
     * there: both pointers say where row 0 would be. */
    void (*band)(const cm_run *r, int64_t begin, int64_t end);
    /* Devices only, NULL: nothing to do. When sizes are bound: compiles and loads what `run` launches;
     * *state lives in `arena` as long as the problem. CM_ERR_DEVICE: it cannot be had on this machine, whose libraries are not those
     * that it was measured with; another tactic is taken then. */
    cm_status (*ready)(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **state);
    /* Devices only, NULL: nothing. Nanoseconds that the steps before and after lose because they cannot run into this one's kernels:
     * what measuring these alone does not show. */
    double (*apart_ns)(const cm_problem *p);
    /* Devices only, NULL: none. Bytes of cm_run.signals. */
    size_t (*signals)(const cm_problem *p, const cm_knobs *k);
    bool joins; /* looks at cm_problem.then */
    /* 1 + the input whose memory output 0 may take over when nobody reads the input afterwards: `run` may
     * then find both at one place. 0: none. CM_IN_PLACE_ANY: any that lies as output 0 does, where that is the only output. */
    int in_place;
    bool parts; /* takes elements of less than a byte, packed as plans hold them, dense */
} cm_tactic;

/* Why it declines: its own reason, or that it is not for elements of less than a byte, or not for two steps at once. NULL: it takes
 * it. */
const char *cm_tactic_declines(const cm_tactic *t, const cm_problem *p);

#endif
