/* tune_in_place.c -- tactics compared in the network, on tests/fake's driver, for which every launch takes a microsecond:
 * whoever launches less is quicker there, whatever a table says.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lower/lower.h"
#include "tune/in_place.h"
#include "unit/fake_driver.h"
#include "unit/needs_nvrtc.h"

/* Two steps that are the same problem: `top` launches twice for it, `sort` once. */
static const char network[] = "x: f32[4,40000]\nw: f32[4,40000]\n@k = i64[1] {5}\n"
                              "a, i = TopK(x, @k)\nb, j = TopK(w, @k)\nreturn a, b\n";
static const cm_target cuda = {CM_DEVICE_CUDA, 0, 0};

typedef struct {
    cm_arena arena, scratch;
    cm_ctx cx;
    cm_engine *e;
    cm_tensor shapes[2];
    cm_timings table;
    cm_context_options options;
    cm_in_place trials;
    uint64_t problem;
    cm_candidate top, sort;
    bool is_new;
    int allowed; /* trials, and the look at the network before them */
} fixture;

static bool is_new(void *user, uint64_t problem)
{
    const fixture *f = user;
    return f->is_new && problem == f->problem;
}

static bool stop(void *user)
{
    fixture *f = user;
    return f->allowed-- <= 0;
}

static void note(void *user, const cm_tactic *t, const char *reason, const cm_candidate *c)
{
    fixture *f = user;
    (void)reason;
    if (c && !strcmp(t->name, "cuda_top") && !f->top.tactic)
        f->top = *c;
    if (c && !strcmp(t->name, "cuda_sort"))
        f->sort = *c;
}

/* What is chosen with the table as it is. */
static cm_candidate chosen(fixture *f)
{
    cm_context *c;
    cm_candidate out;
    if (cm_context_create(&f->cx, f->e, &f->options, &c) != CM_OK)
        fail_msg("%s", f->cx.message);
    for (int i = 0; i < 2; i++)
        assert_int_equal(cm_context_set_shape(&f->cx, c, i, 2, f->shapes[i].dims), CM_OK);
    if (cm_context_bind(&f->cx, c) != CM_OK)
        fail_msg("%s", f->cx.message);
    assert_true(cm_context_chosen(c, 0, &f->problem, &out));
    if (!f->top.tactic)
        cm_context_tactics(c, 0, note, f);
    cm_context_destroy(c);
    return out;
}

static void set(fixture *f, const cm_candidate *c, double ns)
{
    assert_int_equal(cm_timings_add(&f->cx, &f->table, f->problem, c->tactic->name, &c->knobs, ns),
                     CM_OK);
}

static double get(const fixture *f, const cm_candidate *c)
{
    return cm_timings_find(&f->table, f->problem, c->tactic->name, &c->knobs);
}

static void open_network(fixture *f, const char *text, int rank, const int64_t *dims)
{
    cm_network *g;
    cm_plan *plan;
    const cm_tensor *const *constants;
    *f = (fixture){.is_new = true, .allowed = 100};
    cm_arena_init(&f->arena, NULL);
    cm_arena_init(&f->scratch, NULL);
    f->cx = (cm_ctx){.arena = &f->arena, .scratch = &f->scratch};
    if (cm_network_parse(&f->cx, &f->arena, text, strlen(text), &g) != CM_OK ||
        cm_network_infer(&f->cx, g) != CM_OK ||
        cm_lower(&f->cx, &f->arena, g, &plan, &constants) != CM_OK ||
        cm_engine_open_lowered(&f->cx, plan, constants, &f->e) != CM_OK)
        fail_msg("%s", f->cx.message);
    for (int i = 0; i < 2; i++)
        assert_true(cm_tensor_shape(&f->shapes[i], CM_F32, rank, dims + i * rank));
    cm_timings_init(&f->table, NULL, &cuda);
    f->options = (cm_context_options){.threads = 1, .target = &cuda, .timings = &f->table};
    f->trials = (cm_in_place){.options = &f->options,
                              .shapes = f->shapes,
                              .table = &f->table,
                              .is_new = is_new,
                              .stop = stop,
                              .user = f};
}

static void open_fixture(fixture *f, double top_ns, double sort_ns)
{
    open_network(f, network, 2, (const int64_t[]){4, 40000, 4, 40000});
    chosen(f);
    assert_non_null(f->top.tactic);
    assert_non_null(f->sort.tactic);
    set(f, &f->top, top_ns);
    set(f, &f->sort, sort_ns);
}

static void close_fixture(fixture *f)
{
    cm_timings_deinit(&f->table);
    cm_engine_release(f->e);
    cm_arena_deinit(&f->arena);
    cm_arena_deinit(&f->scratch);
}

static void hold_trials(fixture *f)
{
    if (cm_tune_in_place(&f->cx, f->e, &f->trials) != CM_OK)
        fail_msg("%s", f->cx.message);
}

static void who_is_quicker_in_the_network_is_chosen(void **state)
{
    (void)state;
    needs_nvrtc();
    fixture f;
    open_fixture(&f, 5000, 5500);
    assert_ptr_equal(chosen(&f).tactic, f.top.tactic);
    hold_trials(&f);
    assert_int_equal(f.trials.tried, 1);
    assert_int_equal(f.trials.changed, 1);
    assert_ptr_equal(chosen(&f).tactic, f.sort.tactic);
    /* A launch less for each of two steps. */
    assert_float_equal(get(&f, &f.sort), 4000, 1);
    assert_float_equal(get(&f, &f.top), 5000, 0);
    close_fixture(&f);
}

static void who_is_slower_there_stays_out_and_the_table_says_so(void **state)
{
    (void)state;
    needs_nvrtc();
    fixture f;
    open_fixture(&f, 5001, 5000);
    hold_trials(&f);
    assert_int_equal(f.trials.tried, 1);
    assert_int_equal(f.trials.changed, 0);
    assert_ptr_equal(chosen(&f).tactic, f.sort.tactic);
    assert_float_equal(get(&f, &f.top), 6000, 1);
    assert_float_equal(get(&f, &f.sort), 5000, 0);
    close_fixture(&f);
}

static void what_is_far_away_or_not_new_is_not_tried(void **state)
{
    (void)state;
    needs_nvrtc();
    fixture f;
    open_fixture(&f, 5000, 6000);
    hold_trials(&f);
    assert_int_equal(f.trials.tried, 0);
    set(&f, &f.sort, 5100);
    f.is_new = false;
    hold_trials(&f);
    assert_int_equal(f.trials.tried, 0);
    assert_float_equal(get(&f, &f.sort), 5100, 0);
    close_fixture(&f);
}

static void stopping_leaves_the_table_as_it_is(void **state)
{
    (void)state;
    needs_nvrtc();
    for (int allowed = 0; allowed < 2; allowed++) {
        fixture f;
        open_fixture(&f, 5000, 5500);
        f.allowed = allowed;
        hold_trials(&f);
        assert_int_equal(f.trials.tried, 0);
        assert_float_equal(get(&f, &f.top), 5000, 0);
        assert_float_equal(get(&f, &f.sort), 5500, 0);
        close_fixture(&f);
    }
}

/* The tactic whose name is `user->name`, of a step. */
typedef struct {
    const char *name;
    cm_candidate found;
} lookup;

static void look(void *user, const cm_tactic *t, const char *reason, const cm_candidate *c)
{
    lookup *l = user;
    (void)reason;
    if (c && !strcmp(t->name, l->name))
        l->found = *c;
}

/* Of each step: the table has `parts` (three launches) for far better than `clusters` (one), which the cost model takes. */
static void measure_both(fixture *f, cm_context *c, int step)
{
    cm_candidate model;
    lookup parts = {"cuda_rows_in_parts", {0}};
    assert_true(cm_context_chosen(c, step, &f->problem, &model));
    assert_string_equal(model.tactic->name, "cuda_rows_in_clusters");
    cm_context_tactics(c, step, look, &parts);
    assert_non_null(parts.found.tactic);
    set(f, &parts.found, 5000);
    set(f, &model, 9000);
}

static bool all_are_new(void *user, uint64_t problem)
{
    (void)user, (void)problem;
    return true;
}

static cm_context *bound(fixture *f)
{
    cm_context *c;
    assert_int_equal(cm_context_create(&f->cx, f->e, &f->options, &c), CM_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(cm_context_set_shape(&f->cx, c, i, 4, f->shapes[i].dims), CM_OK);
    assert_int_equal(cm_context_bind(&f->cx, c), CM_OK);
    return c;
}

static void a_network_does_not_get_slower_by_measuring(void **state)
{
    static const char two[] = "x: f32[4,4,128,256]\nw: f32[4,4,64,256]\n@s = f32[4] {1, 2, 3, "
                              "4}\n@b = f32[4] {1, 2, 3, 4}\n"
                              "a = GroupNormalization(x, @s, @b) {num_groups=4}\n"
                              "c = GroupNormalization(w, @s, @b) {num_groups=4}\nreturn a, c\n";
    (void)state;
    needs_nvrtc();
    fixture f;
    open_network(&f, two, 4, (const int64_t[]){4, 4, 128, 256, 4, 4, 64, 256});
    f.trials.is_new = all_are_new;
    cm_context *c = bound(&f);
    for (int s = 0; s < 2; s++)
        measure_both(&f, c, s);
    cm_context_destroy(c);
    hold_trials(&f);
    assert_int_equal(f.trials.tried, 3); /* all at once, then each */
    assert_int_equal(f.trials.changed, 2);
    c = bound(&f);
    for (int s = 0; s < 2; s++) {
        cm_candidate now;
        assert_true(cm_context_chosen(c, s, &f.problem, &now));
        assert_string_equal(now.tactic->name, "cuda_rows_in_clusters");
    }
    cm_context_destroy(c);
    close_fixture(&f);
}

static int find_driver(void **state)
{
    char path[4096];
    (void)state;
    return use_fake_driver(path, sizeof path) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_quicker_in_the_network_is_chosen),
        cmocka_unit_test(who_is_slower_there_stays_out_and_the_table_says_so),
        cmocka_unit_test(what_is_far_away_or_not_new_is_not_tried),
        cmocka_unit_test(stopping_leaves_the_table_as_it_is),
        cmocka_unit_test(a_network_does_not_get_slower_by_measuring),
    };
    return cmocka_run_group_tests_name("tune_in_place", tests, find_driver, NULL);
}
