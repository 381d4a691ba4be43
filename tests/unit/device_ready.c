/* device_ready.c -- kernels that cannot be had where a plan is opened, on tests/fake's driver: what runs instead, and what is said.
 * SPDX-License-Identifier: Apache-2.0
 *
 * test.Op has three tactics. The table knows `library` as the best and `own` as the second; the cost model would take `own`,
 * then `plain`. Each refuses when the test says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lowered.h"
#include "ops/eval.h"
#include "runtime/device.h"
#include "unit/fake_driver.h"
#include "unit/needs_nvrtc.h"

enum { LIBRARY, OWN, PLAIN, JOINED, N_TACTICS, ROWS = 4, COLUMNS = 16 };
enum { LIBRARY_BYTES = 1 << 20, OWN_BYTES = 4000 };

static cm_status answers[N_TACTICS]; /* of `ready` */
static bool wants_channels_last;

/* ---- test.Op: the first input; the second is weights --------------------------------------------- */

static cm_status infer(cm_infer *f)
{
    return cm_infer_like(f, 0, 0);
}

static cm_status eval(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    memcpy(cm_eval_out(e, 0)->data, x->data, (size_t)cm_tensor_elems(x) * sizeof(float));
    return CM_OK;
}

static bool fill(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena, (void)op, (void)attr, (void)p;
    return true;
}

static const char *reject(const cm_problem *p)
{
    bool last = cm_is_channels_last(p->in[0]) && cm_is_channels_last(p->out[0]);
    return wants_channels_last && !last ? "not channels-last" : NULL;
}

static const char *reject_alone(const cm_problem *p)
{
    return p->then ? NULL : "there is no step behind it";
}

static cm_status answer(cm_ctx *cx, int tactic)
{
    static const char *const sentences[] = {"the library has no way", "there is no image",
                                            "it is plain", "there is no image for both"};
    return answers[tactic] == CM_OK ? CM_OK : cm_fail(cx, answers[tactic], "%s", sentences[tactic]);
}

/* What each is expected to take, and its `ready`, whose state is its name. */
#define TACTIC(id, number, ns)                                                                     \
    static double id##_cost(const cm_problem *p, const cm_knobs *k)                                \
    {                                                                                              \
        (void)p, (void)k;                                                                          \
        return ns;                                                                                 \
    }                                                                                              \
    static cm_status id##_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,    \
                                const cm_knobs *k, const void **state)                             \
    {                                                                                              \
        (void)d, (void)arena, (void)p, (void)k;                                                    \
        *state = "test_" #id;                                                                      \
        return answer(cx, number);                                                                 \
    }
TACTIC(library, LIBRARY, 3000)
TACTIC(own, OWN, 1000)
TACTIC(plain, PLAIN, 2000)
TACTIC(joined, JOINED, 10)

static size_t library_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)p, (void)k;
    return LIBRARY_BYTES;
}

static size_t own_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)p, (void)k;
    return OWN_BYTES;
}

static size_t pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    return input == 1 ? (size_t)cm_tensor_elems(p->in[1]) * sizeof(float) : 0;
}

/* As `own` wants them: one more each. */
static void pack(const cm_problem *p, const cm_knobs *k, int input, const void *from, void *to,
                 cm_threads *threads)
{
    (void)k, (void)threads;
    for (int64_t i = 0; i < cm_tensor_elems(p->in[input]); i++)
        ((float *)to)[i] = ((const float *)from)[i] + 1;
}

/* The fake device's memory is the host's: the first weight goes to the output. */
static cm_status run(const cm_run *r)
{
    if (r->p->n_in > 1)
        *(float *)r->out[0] = *(const float *)r->in[1];
    return CM_OK;
}

static const cm_tactic tactics[] = {
    [LIBRARY] = {.name = "test_library",
                 .reject = reject,
                 .cost = library_cost,
                 .workspace = library_workspace,
                 .ready = library_ready,
                 .run = run},
    [OWN] = {.name = "test_own",
             .reject = reject,
             .cost = own_cost,
             .workspace = own_workspace,
             .pack_bytes = pack_bytes,
             .pack = pack,
             .ready = own_ready,
             .run = run},
    [PLAIN] = {.name = "test_plain",
               .reject = reject,
               .cost = plain_cost,
               .ready = plain_ready,
               .run = run},
    [JOINED] = {.name = "test_joined",
                .reject = reject_alone,
                .cost = joined_cost,
                .ready = joined_ready,
                .run = run,
                .joins = true},
};
static const cm_family family = {.name = "test", .infer = infer, .eval = eval};
static const cm_problem_row row = {CM_OP_COUNT, CM_PROBLEM_CUSTOM, fill};
static const cm_op op = {.id = CM_OP_COUNT,
                         .name = "test.Op",
                         .min_in = 1,
                         .max_in = 2,
                         .min_out = 1,
                         .max_out = 1,
                         .traits = CM_PURE,
                         .signature = "T=float: T T -> T",
                         .family = &family,
                         .attrs = &cm_attrs_none,
                         .plugin = "tests 1",
                         .problem = &row,
                         .tactics = {[CM_DEVICE_CUDA] = tactics},
                         .n_tactics = {[CM_DEVICE_CUDA] = JOINED}};
/* The same with the tactic that does the step behind it too. */
static cm_op op_that_joins;

/* ---- A network of it ------------------------------------------------------------------------------ */

#define WEIGHTS "@w = f32[4] {5, 6, 7, 8}\n"
static const char network[] = "x: f32[4,16]\n" WEIGHTS "y = test.Op(x, @w) from \"y\"\nreturn y\n";
static const cm_target cuda = {CM_DEVICE_CUDA, 0, 0};

typedef struct {
    cm_arena arena, scratch;
    cm_ctx cx;
    cm_engine *e;
    cm_context *c;
    cm_timings table;
    cm_context_options options;
    int n_lines;
    char line[1024]; /* the last that was logged */
} fixture;

static void hear(void *user, cm_log_level level, const char *sentence)
{
    fixture *f = user;
    if (level != CM_LOG_WARNING)
        return;
    f->n_lines++;
    snprintf(f->line, sizeof f->line, "%s", sentence);
}

static void open_network(fixture *f, const char *text)
{
    memset(f, 0, sizeof *f);
    memset(answers, 0, sizeof answers);
    wants_channels_last = false;
    cm_arena_init(&f->arena, NULL);
    cm_arena_init(&f->scratch, NULL);
    f->cx = (cm_ctx){.arena = &f->arena, .scratch = &f->scratch, .log = hear, .log_user = f};
    cm_timings_init(&f->table, NULL, &cuda);
    f->options = (cm_context_options){.threads = 1, .target = &cuda, .timings = &f->table};
    open_lowered(&f->cx, &f->arena, text, &f->e);
}

static cm_status bind(fixture *f)
{
    cm_context_destroy(f->c);
    f->c = NULL;
    if (cm_context_create(&f->cx, f->e, &f->options, &f->c) != CM_OK)
        fail_msg("%s", f->cx.message);
    for (int i = 0; i < cm_engine_n_inputs(f->e); i++) {
        const cm_type *t = cm_engine_input_type(f->e, i);
        assert_int_equal(cm_context_set_shape(&f->cx, f->c, i, t->rank, t->dims), CM_OK);
    }
    return cm_context_bind(&f->cx, f->c);
}

static void must_bind(fixture *f)
{
    if (bind(f) != CM_OK)
        fail_msg("%s", f->cx.message);
}

/* Bound, with times for the problem of a step: `library` is the best, `own` the second. */
static void measure(fixture *f, int step)
{
    uint64_t problem;
    cm_candidate best;
    must_bind(f);
    assert_true(cm_context_chosen(f->c, step, &problem, &best));
    assert_int_equal(
        cm_timings_add(&f->cx, &f->table, problem, "test_library", &(cm_knobs){{0}}, 10), CM_OK);
    assert_int_equal(cm_timings_add(&f->cx, &f->table, problem, "test_own", &(cm_knobs){{0}}, 5000),
                     CM_OK);
}

static void close_network(fixture *f)
{
    cm_context_destroy(f->c);
    cm_engine_release(f->e);
    cm_timings_deinit(&f->table);
    cm_arena_deinit(&f->arena);
    cm_arena_deinit(&f->scratch);
}

/* What reports say of a step. */
static cm_layer_facts facts_of(const fixture *f, int step)
{
    cm_layer_facts facts;
    cm_context_layer(f->c, step, &facts);
    return facts;
}

static void is_taken(const fixture *f, int step, const char *name)
{
    uint64_t problem;
    cm_candidate chosen;
    assert_string_equal(facts_of(f, step).tactic, name);
    assert_true(cm_context_chosen(f->c, step, &problem, &chosen));
    assert_string_equal(chosen.tactic->name, name);
    if (chosen.tactic->ready)
        assert_string_equal(f->c->solutions[step].state, name);
}

static float first_of_run(fixture *f)
{
    static const float x[ROWS * COLUMNS];
    cm_datum d = {.kind = CM_TENSOR};
    assert_true(cm_tensor_shape(&d.tensor, CM_F32, 2, (int64_t[]){ROWS, COLUMNS}));
    d.tensor.data = (void *)x;
    assert_int_equal(cm_context_set_input(&f->cx, f->c, 0, &d), CM_OK);
    if (cm_context_run(&f->cx, f->c) != CM_OK)
        fail_msg("%s", f->cx.message);
    return *(const float *)cm_context_output(f->c, 0)->tensor.data;
}

/* ---- Tests ---------------------------------------------------------------------------------------- */

static void the_best_is_taken_where_it_can_be_had(void **state)
{
    (void)state;
    fixture f;
    open_network(&f, network);
    measure(&f, 0);
    must_bind(&f);
    is_taken(&f, 0, "test_library");
    assert_null(facts_of(&f, 0).refused);
    assert_int_equal(facts_of(&f, 0).workspace, LIBRARY_BYTES);
    assert_true(first_of_run(&f) == 5);
    assert_int_equal(f.n_lines, 0);
    close_network(&f);
}

static void the_next_best_is_taken_for_one_that_is_refused(void **state)
{
    (void)state;
    fixture f;
    open_network(&f, network);
    measure(&f, 0);
    answers[LIBRARY] = CM_ERR_DEVICE;
    must_bind(&f);
    is_taken(&f, 0, "test_own"); /* measured, if slower than `plain` is expected to be */
    assert_float_equal(facts_of(&f, 0).expected_ns, 5000, 0);
    assert_string_equal(facts_of(&f, 0).refused, "test_library (the library has no way)");
    assert_string_equal(f.line, "test.Op node 'y': test_own is taken instead of test_library (the "
                                "library has no way)");
    assert_string_equal(f.cx.message, "");
    /* Memory and weights are those of the one that runs. */
    assert_in_range(facts_of(&f, 0).workspace, OWN_BYTES, OWN_BYTES + CM_MEMORY_ALIGN - 1);
    assert_true(f.c->device->tables.memory_used < LIBRARY_BYTES);
    assert_true(first_of_run(&f) == 6);
    /* It is said once. */
    must_bind(&f);
    is_taken(&f, 0, "test_own");
    assert_int_equal(f.n_lines, 1);
    close_network(&f);
}

static void one_after_the_other_may_be_refused(void **state)
{
    (void)state;
    fixture f;
    open_network(&f, network);
    measure(&f, 0);
    answers[LIBRARY] = answers[OWN] = CM_ERR_DEVICE;
    must_bind(&f);
    is_taken(&f, 0, "test_plain");
    assert_int_equal(facts_of(&f, 0).workspace, 0);
    assert_string_equal(f.line, "test.Op node 'y': test_plain is taken instead of test_library "
                                "(the library has no way)");
    assert_true(first_of_run(&f) == 5);
    close_network(&f);
}

static void the_first_refusal_is_told_where_none_is_left(void **state)
{
    (void)state;
    fixture f;
    open_network(&f, network);
    measure(&f, 0);
    answers[LIBRARY] = answers[OWN] = answers[PLAIN] = CM_ERR_DEVICE;
    assert_int_equal(bind(&f), CM_ERR_DEVICE);
    assert_string_equal(f.cx.message, "test.Op node 'y': the library has no way");
    assert_int_equal(f.n_lines, 0);
    close_network(&f);
}

static void other_failures_are_failures(void **state)
{
    (void)state;
    fixture f;
    open_network(&f, network);
    measure(&f, 0);
    answers[LIBRARY] = CM_ERR_MEMORY;
    assert_int_equal(bind(&f), CM_ERR_MEMORY);
    answers[LIBRARY] = CM_ERR_DEVICE;
    answers[OWN] = CM_ERR_INTERNAL;
    assert_int_equal(bind(&f), CM_ERR_INTERNAL);
    assert_string_equal(f.cx.message, "test.Op node 'y': there is no image");
    close_network(&f);
}

static void all_that_are_refused_are_counted(void **state)
{
    (void)state;
    fixture f;
    open_network(&f, "x: f32[4,16]\n" WEIGHTS "a = test.Op(x, @w) from \"a\"\nb = test.Op(a, @w)\n"
                     "y = test.Op(b, @w)\nreturn y\n");
    measure(&f, 0);
    answers[LIBRARY] = CM_ERR_DEVICE;
    must_bind(&f);
    for (int i = 0; i < 3; i++)
        is_taken(&f, i, "test_own");
    assert_int_equal(f.n_lines, 1);
    assert_string_equal(f.line, "test.Op node 'a': test_own is taken instead of test_library (the "
                                "library has no way); so it is with 2 more nodes");
    close_network(&f);
}

/* What inputs are converted to lies behind the workspace of the one that runs. */
static void conversions_make_room(void **state)
{
    (void)state;
    needs_nvrtc();
    fixture f;
    enum { ELEMS = 2 * 3 * 4 * 5 };
    open_network(&f,
                 "x: f32[2,3,4,5]\n" WEIGHTS "y = test.Op(x, @w)\nz = test.Op(y, @w)\nreturn z\n");
    wants_channels_last = true;
    measure(&f, 0);
    for (int refused = 0; refused < 2; refused++) {
        answers[LIBRARY] = refused ? CM_ERR_DEVICE : CM_OK;
        must_bind(&f);
        const cm_solution *sol = &f.c->solutions[0];
        is_taken(&f, 0, refused ? "test_own" : "test_library");
        assert_int_equal(sol->n_conversions, 1);
        size_t own = refused ? OWN_BYTES : LIBRARY_BYTES;
        assert_in_range(sol->conversions[0].offset, own, own + CM_MEMORY_ALIGN - 1);
        assert_true(sol->workspace >= sol->conversions[0].offset + ELEMS * sizeof(float));
        assert_true(f.c->device->tables.memory_used >= sol->offset + sol->workspace);
    }
    close_network(&f);
}

/* A kernel for two steps that cannot be had: each is done by itself. */
static void joined_steps_part(void **state)
{
    (void)state;
    fixture f;
    open_network(&f, "x: f32[4,16]\na = test.Joins(x) from \"a\"\ny = test.Joins(a)\nreturn y\n");
    must_bind(&f);
    assert_string_equal(facts_of(&f, 0).tactic, "test_joined");
    assert_string_equal(facts_of(&f, 1).tactic, "joined");
    answers[JOINED] = CM_ERR_DEVICE;
    must_bind(&f);
    is_taken(&f, 0, "test_own");
    is_taken(&f, 1, "test_own");
    assert_true(f.c->device->tables.places[f.e->steps[0]->out[0].value].planned);
    assert_string_equal(f.line, "test.Joins node 'a': test_own is taken instead of test_joined "
                                "(there is no image for both)");
    answers[OWN] = answers[PLAIN] = answers[LIBRARY] = CM_ERR_DEVICE;
    assert_int_equal(bind(&f), CM_ERR_DEVICE);
    assert_string_equal(f.cx.message, "test.Joins node 'a': there is no image for both");
    close_network(&f);
}

/* Whoever compiles for a class of devices is to know what it lacks. */
static void a_class_is_refused_nothing(void **state)
{
    static const cm_target sm_90 = {CM_DEVICE_CUDA, 900, 0};
    (void)state;
    fixture f;
    open_network(&f, network);
    f.options.target = &sm_90;
    must_bind(&f);
    is_taken(&f, 0, "test_own");
    answers[OWN] = CM_ERR_DEVICE;
    assert_int_equal(bind(&f), CM_ERR_DEVICE);
    assert_string_equal(f.cx.message, "test.Op node 'y': there is no image");
    close_network(&f);
}

/* Sizes that come with the data: the same, and the host where nothing is left. */
static void late_steps_fall_back_too(void **state)
{
    (void)state;
    fixture f;
    open_network(&f, "x: f32[4,16]\n" WEIGHTS
                     "u = Unique(x)\ny = test.Op(u, @w) from \"y\"\nreturn y\n");
    answers[OWN] = CM_ERR_DEVICE;
    must_bind(&f);
    assert_true(first_of_run(&f) == 5);
    assert_true(facts_of(&f, 1).away);
    assert_string_equal(facts_of(&f, 1).tactic, "test_plain");
    assert_string_equal(f.line, "test.Op node 'y': test_plain is taken instead of test_own (there "
                                "is no image)");
    answers[PLAIN] = answers[LIBRARY] = CM_ERR_DEVICE;
    must_bind(&f);
    assert_true(first_of_run(&f) == 0);
    assert_false(facts_of(&f, 1).away);
    close_network(&f);
}

static int prepare(void **state)
{
    char path[4096];
    cm_ctx cx = {0};
    (void)state;
    op_that_joins = op;
    op_that_joins.name = "test.Joins";
    op_that_joins.n_tactics[CM_DEVICE_CUDA] = N_TACTICS;
    if (cm_op_register(&cx, &op) != CM_OK || cm_op_register(&cx, &op_that_joins) != CM_OK)
        return -1;
    return use_fake_driver(path, sizeof path) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_is_taken_where_it_can_be_had),
        cmocka_unit_test(the_next_best_is_taken_for_one_that_is_refused),
        cmocka_unit_test(one_after_the_other_may_be_refused),
        cmocka_unit_test(the_first_refusal_is_told_where_none_is_left),
        cmocka_unit_test(other_failures_are_failures),
        cmocka_unit_test(all_that_are_refused_are_counted),
        cmocka_unit_test(conversions_make_room),
        cmocka_unit_test(joined_steps_part),
        cmocka_unit_test(a_class_is_refused_nothing),
        cmocka_unit_test(late_steps_fall_back_too),
    };
    return cmocka_run_group_tests_name("device_ready", tests, prepare, NULL);
}
