/* random_networks.c -- the optimiser on random networks: what it makes has the same types and gives the
 * same answers.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     build/tests/fault/random_networks                 10,000 networks
 *     build/tests/fault/random_networks FIRST COUNT     those seeds; goes on after a failure
 *
 * The network as it is written is the truth. Each is run with several sizes for its symbolic dims (1
 * among them). How far an answer may move follows from the network: the same inputs a rounding apart are run
 * too, and what that does to the answer is multiplied. Where that does not explain a difference, roundings inside
 * the network are tried as well (noise.h), large enough that quantised values move to their neighbours where there
 * are any: such an answer may be two steps off, one for the move and one for what it pulls along. A failure prints
 * the seed, the network, and the first rewrite that is to blame. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "api/compile.h"
#include "fault/noise.h"
#include "fault/random_steps.h"
#include "runtime/runtime.h"

enum { NETWORKS = 10000, MOST_OUTPUTS = 8, SIZES = 3 };

typedef struct {
    cm_arena arena, scratch;
    cm_ctx cx;
    uint64_t seed;
    char why[1600];
} job;

static void job_init(job *j, uint64_t seed)
{
    memset(j, 0, sizeof *j);
    cm_arena_init(&j->arena, NULL);
    cm_arena_init(&j->scratch, NULL);
    j->cx.arena = &j->arena;
    j->cx.scratch = &j->scratch;
    j->seed = seed;
}

static void job_deinit(job *j)
{
    cm_arena_deinit(&j->scratch);
    cm_arena_deinit(&j->arena);
}

/* ---- Running -------------------------------------------------------------------------------- */

static const int64_t symbol_sizes[SIZES][3] = {{2, 3, 4}, {1, 1, 1}, {3, 1, 2}};

static void choose_symbols(const cm_dim_table *table, int sizes, int64_t *symbols)
{
    for (int s = 0; s < 64; s++) {
        const char *name = s < cm_dim_symbol_count(table) ? cm_dim_symbol_name(table, s) : "";
        symbols[s] = CM_DIM_UNBOUND;
        if (name[0] && !name[1])
            symbols[s] = symbol_sizes[sizes][*name == 'b' ? 0 : *name == 's' ? 1 : 2];
    }
}

/* Is anything empty at these sizes? A size of 0 in a Reshape's shape means another thing, which types leave
 * out: nothing can be said about such networks. */
static bool has_empty(const cm_network *g, int sizes)
{
    int64_t symbols[64], d;
    choose_symbols(g->dims, sizes, symbols);
    CM_FOR_NODES (n, g) {
        for (int o = 0; o < n->n_out; o++)
            for (int a = 0; a < cm_rank(n->out[o]); a++)
                if (cm_dim_eval(g->dims, n->out[o]->type.dims[a], symbols, &d) && d <= 0)
                    return true;
        for (int s = 0; s < n->n_subs; s++)
            if (has_empty(n->subs[s], sizes))
                return true;
    }
    return false;
}

/* Data for input i; each number moved by `nudge` of itself, up or down. */
static cm_datum *input_data(job *j, const cm_engine *e, int i, int sizes, double nudge)
{
    const cm_type *t = cm_engine_input_type(e, i);
    const cm_dim_table *table = cm_engine_plan(e)->dims;
    int64_t symbols[64], dims[CM_MAX_RANK];
    cm_datum *d = cm_new(&j->arena, cm_datum);
    choose_symbols(table, sizes, symbols);
    for (int a = 0; a < t->rank; a++)
        assert_true(cm_dim_eval(table, t->dims[a], symbols, &dims[a]));
    d->kind = CM_TENSOR;
    assert_true(cm_tensor_shape(&d->tensor, t->dtype, t->rank, dims));
    int64_t n = cm_tensor_elems(&d->tensor);
    d->tensor.data = cm_arena_alloc_n(&j->arena, (size_t)n, cm_dtype_size(t->dtype), 64, 1);
    uint64_t state = j->seed * 31 + (uint64_t)i;
    for (int64_t k = 0; k < n; k++) {
        uint64_t bits = draw_bits(&state);
        double x = (double)(bits >> 40) / (1 << 23) * 1.5 - 1.5;
        x *= bits & 1 ? 1 + nudge : 1 - nudge;
        if (cm_dtype_is_float(t->dtype))
            cm_set_f64(t->dtype, d->tensor.data, k, x);
        else
            cm_set_i64(t->dtype, d->tensor.data, k, (int64_t)(bits >> 63));
    }
    return d;
}

typedef struct {
    cm_buf plan;
    cm_engine *engine;
    cm_context *context;
} running;

static cm_status open_network(job *j, cm_network *g, running *r)
{
    static const cm_compile_options as_it_is = {.no_optimise = true};
    static const cm_context_options co = {.threads = 1};
    *r = (running){.engine = NULL};
    cm_buf_init(&r->plan, NULL);
    CM_TRY(cm_compile_memory(&j->cx, g, &as_it_is, &r->plan));
    CM_TRY(cm_engine_open_memory(&j->cx, r->plan.data, r->plan.n, false, NULL, &r->engine));
    return cm_context_create(&j->cx, r->engine, &co, &r->context);
}

static void close_network(running *r)
{
    cm_context_destroy(r->context);
    cm_engine_release(r->engine);
    cm_buf_deinit(&r->plan);
}

typedef struct {
    cm_status status;
    int n;
    const cm_tensor *out[MOST_OUTPUTS]; /* copies */
} answer;

static answer run(job *j, running *r, int sizes, double nudge)
{
    answer a = {.n = cm_engine_n_outputs(r->engine)};
    for (int i = 0; i < cm_engine_n_inputs(r->engine) && a.status == CM_OK; i++)
        a.status =
            cm_context_set_input(&j->cx, r->context, i, input_data(j, r->engine, i, sizes, nudge));
    if (a.status == CM_OK)
        a.status = cm_context_run(&j->cx, r->context);
    for (int o = 0; o < a.n && a.status == CM_OK; o++) {
        cm_tensor *t = cm_new(&j->arena, cm_tensor);
        size_t bytes;
        *t = cm_context_output(r->context, o)->tensor;
        assert_true(cm_tensor_bytes(t, &bytes));
        t->data = cm_arena_memdup(&j->arena, t->data, bytes);
        a.out[o] = t;
    }
    return a;
}

/* ---- Comparing ------------------------------------------------------------------------------ */

static bool has_narrow(const cm_network *g)
{
    CM_FOR_NODES (n, g) {
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && n->in[i]->type.dtype == CM_F16)
                return true;
        if (n->out[0] && n->out[0]->type.dtype == CM_F16)
            return true;
        for (int s = 0; s < n->n_subs; s++)
            if (has_narrow(n->subs[s]))
                return true;
    }
    return false;
}

/* How far finite elements are apart at most; 0 where the shapes differ. */
static double distance(const cm_tensor *a, const cm_tensor *b)
{
    double most = 0;
    if (!cm_tensor_same_shape(a, b) || a->dtype != b->dtype)
        return 0;
    for (int64_t i = 0, n = cm_tensor_elems(a); i < n; i++) {
        double x = cm_get_f64(a->dtype, a->data, i), y = cm_get_f64(b->dtype, b->data, i);
        if (isfinite(x) && isfinite(y))
            most = fmax(most, fabs(x - y));
    }
    return most;
}

/* One output: `want` and `nudged` from the network as it is written; it may move `more` than they say. */
static bool same_tensor(job *j, int o, const cm_tensor *got, const cm_tensor *want,
                        const cm_tensor *nudged, double more, bool narrow)
{
    if (got->dtype != want->dtype || !cm_tensor_same_shape(got, want)) {
        char a[256], b[256];
        snprintf(j->why, sizeof j->why, "output %d is %s%s, wanted %s%s", o,
                 cm_dtype_name(got->dtype), cm_shape_text(a, sizeof a, got->rank, got->dims),
                 cm_dtype_name(want->dtype), cm_shape_text(b, sizeof b, want->rank, want->dims));
        return false;
    }
    if (!cm_tensor_same_shape(nudged, want))
        return true; /* sizes that hang on a rounding */
    int64_t n = cm_tensor_elems(want);
    double scale = 1, noise = distance(want, nudged);
    for (int64_t i = 0; i < n; i++) {
        double w = cm_get_f64(want->dtype, want->data, i);
        if (isfinite(w) && isfinite(cm_get_f64(want->dtype, nudged->data, i)))
            scale = fmax(scale, fabs(w));
    }
    double slack = (narrow ? 0.2 : 1e-4) * scale + 20 * noise + more;
    for (int64_t i = 0; i < n; i++) {
        double w = cm_get_f64(want->dtype, want->data, i);
        double g = cm_get_f64(want->dtype, got->data, i);
        double u = cm_get_f64(want->dtype, nudged->data, i);
        if (g == w || !isfinite(w) || !isfinite(u) || fabs(g - w) <= slack ||
            (narrow && fabs(w) > 3e4))
            continue;
        snprintf(j->why, sizeof j->why,
                 "output %d element %lld is %.9g, wanted %.9g (slack %.3g, scale %.3g)", o,
                 (long long)i, g, w, slack, scale);
        return false;
    }
    return true;
}

static char *type_text(job *j, const cm_network *g, const cm_type *t)
{
    cm_buf b;
    cm_buf_init(&b, NULL);
    cm_type_print(g->dims, t, &b);
    char *text = cm_arena_strdup(&j->arena, cm_buf_text(&b));
    cm_buf_deinit(&b);
    return text;
}

/* Could they be the same type? A symbol may have become a number that the network forces. */
static bool may_be(const cm_type *a, const cm_type *b)
{
    if (a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i] && a->dims[i] >= 0 && b->dims[i] >= 0)
            return false;
    return true;
}

static bool same_types(job *j, const cm_network *before, const cm_network *after)
{
    for (int i = 0; i < before->n_outputs; i++) {
        const cm_type *a = &before->outputs[i]->type, *b = &after->outputs[i]->type;
        if (may_be(a, b))
            continue;
        snprintf(j->why, sizeof j->why, "output %d has type %s, had %s", i, type_text(j, after, b),
                 type_text(j, before, a));
        return false;
    }
    return true;
}

typedef enum { GOOD, BAD, DID_NOT_RUN } verdict;

/* The network of the job's seed, `limit` rewrites of the optimiser, against itself. */
static verdict check(job *j, int64_t limit, int64_t *rewrites, const char **pass_at);

static cm_status note_pass(void *user, cm_ctx *cx, cm_network *g, const cm_pass *pass, int64_t n)
{
    (void)cx, (void)g, (void)n;
    *(const char **)user = pass->name;
    return CM_OK;
}

/* Most in float32, some in less. */
static cm_precision precision_of(uint64_t seed)
{
    return seed % 8 == 5   ? CM_PRECISION_FP16
           : seed % 8 == 6 ? CM_PRECISION_BF16
           : seed % 8 == 7 ? CM_PRECISION_TF32
                           : CM_PRECISION_FP32;
}

/* The network with roundings inside, and by how much what they do to an answer is multiplied. */
enum { NOISES = 2 };
typedef struct {
    double nudge, times;
    running r;
} noise;

static bool is_narrow(const job *j, const cm_network *g)
{
    return has_narrow(g) || precision_of(j->seed) != CM_PRECISION_FP32;
}

/* What the noises do to output o. */
static double moved_by(job *j, noise *noises, int n, int sizes, int o, const cm_tensor *want)
{
    double most = 0;
    for (int i = 0; i < n; i++) {
        answer a = run(j, &noises[i].r, sizes, 0);
        if (a.status == CM_OK)
            most = fmax(most, noises[i].times * distance(want, a.out[o]));
    }
    return most;
}

/* `fast` against `plain`; NULL: does plain run at all, so that it should have been there? */
static verdict compare(job *j, const cm_network *before, running *plain, running *fast,
                       noise *noises, int n_noises)
{
    bool narrow = is_narrow(j, before);
    verdict v = DID_NOT_RUN;
    for (int s = 0; s < SIZES; s++) {
        if (has_empty(before, s))
            continue;
        answer want = run(j, plain, s, 0);
        if (want.status != CM_OK)
            continue;
        if (!fast)
            return BAD;
        answer nudged = run(j, plain, s, narrow ? 4e-3 : 2e-6);
        answer got = run(j, fast, s, 0);
        if (got.status != CM_OK) {
            snprintf(j->why, sizeof j->why, "sizes %d: does not run: %s", s, j->cx.message);
            return BAD;
        }
        v = GOOD;
        for (int o = 0; o < want.n && nudged.status == CM_OK; o++)
            if (!same_tensor(j, o, got.out[o], want.out[o], nudged.out[o],
                             moved_by(j, noises, n_noises, s, o, want.out[o]), narrow))
                return BAD;
        if (cm_dim_symbol_count(cm_engine_plan(plain->engine)->dims) == 0)
            break; /* the sizes do not matter */
    }
    return v;
}

/* The same once more, with roundings inside the network. */
static verdict compare_with_noise(job *j, const cm_network *before, running *plain, running *fast)
{
    bool narrow = is_narrow(j, before);
    noise noises[NOISES] = {{.nudge = narrow ? 5e-4 : 2.5e-7, .times = 20},
                            {.nudge = narrow ? 4e-3 : 1e-4, .times = 2}};
    int n = noise_has_quantiser(before) ? 2 : 1, opened = 0;
    verdict v = BAD;
    for (; opened < n; opened++) {
        cm_network *g = random_network(&j->cx, &j->arena, j->seed);
        uint64_t state = j->seed;
        if (noise_add(&j->cx, g, noises[opened].nudge, &state) != CM_OK)
            break;
        if (open_network(j, g, &noises[opened].r) != CM_OK) {
            close_network(&noises[opened].r);
            break;
        }
    }
    if (opened == n)
        v = compare(j, before, plain, fast, noises, n);
    for (int i = 0; i < opened; i++)
        close_network(&noises[i].r);
    return v;
}

static int64_t totals[256]; /* rewrites of each pass, over all networks */

static verdict check(job *j, int64_t limit, int64_t *rewrites, const char **pass_at)
{
    cm_pass_stats stats[256] = {{0}};
    cm_network *before = random_network(&j->cx, &j->arena, j->seed);
    cm_network *g = random_network(&j->cx, &j->arena, j->seed);
    cm_optimise_options oo = CM_OPTIMISE_DEFAULT;
    oo.stop_after_rewrite = limit;
    oo.after_pass = note_pass;
    oo.user = pass_at;
    oo.collect_misses = true;
    oo.precision = precision_of(j->seed);
    assert_true(cm_n_passes <= 256);
    oo.stats = stats;
    if (cm_network_verify(&j->cx, g) != CM_OK)
        fail_msg("seed %llu: %s", (unsigned long long)j->seed, j->cx.message);
    if (cm_optimise(&j->cx, g, &oo, rewrites, NULL) != CM_OK) {
        /* to be refused early is fine for what never runs */
        running plain;
        snprintf(j->why, sizeof j->why, "%s", j->cx.message);
        verdict v = open_network(j, before, &plain) == CM_OK
                        ? compare(j, before, &plain, NULL, NULL, 0)
                        : DID_NOT_RUN;
        close_network(&plain);
        return v;
    }
    for (int i = 0; i < cm_n_passes; i++)
        totals[i] += stats[i].rewrites;
    if (!same_types(j, before, g))
        return BAD;
    running plain, fast;
    verdict v = DID_NOT_RUN;
    if (open_network(j, before, &plain) == CM_OK) {
        if (open_network(j, g, &fast) != CM_OK) {
            snprintf(j->why, sizeof j->why, "does not open: %s", j->cx.message);
            v = BAD;
        } else {
            v = compare(j, before, &plain, &fast, NULL, 0);
            if (v == BAD)
                v = compare_with_noise(j, before, &plain, &fast);
        }
        close_network(&fast);
    }
    close_network(&plain);
    return v;
}

/* ---- Blaming -------------------------------------------------------------------------------- */

static void print_network(uint64_t seed, int64_t limit)
{
    job j;
    cm_buf b;
    job_init(&j, seed);
    cm_buf_init(&b, NULL);
    cm_network *g = random_network(&j.cx, &j.arena, seed);
    cm_optimise_options oo = CM_OPTIMISE_DEFAULT;
    oo.stop_after_rewrite = limit;
    oo.precision = precision_of(seed);
    if (limit && cm_optimise(&j.cx, g, &oo, NULL, NULL) != CM_OK)
        cm_buf_printf(&b, "# %s\n", j.cx.message);
    cm_network_print(g, 16, &b);
    fprintf(stderr, "%s", cm_buf_text(&b));
    cm_buf_deinit(&b);
    job_deinit(&j);
}

static void blame(uint64_t seed, int64_t rewrites)
{
    int64_t good = 0, bad = rewrites ? rewrites : 1;
    const char *pass = "?";
    char why[sizeof((job *)0)->why] = "";
    while (bad - good > 0) { /* rewrites 0..good are fine */
        int64_t middle = bad - good == 1 ? bad : good + (bad - good) / 2;
        job j;
        const char *at = "?";
        job_init(&j, seed);
        bool broken = check(&j, middle, NULL, &at) == BAD;
        if (broken) {
            pass = at;
            memcpy(why, j.why, sizeof why);
        }
        job_deinit(&j);
        if (middle == bad)
            break;
        *(broken ? &bad : &good) = middle;
    }
    fprintf(stderr, "seed %llu: rewrite %lld, of pass %s or the one after it: %s\n",
            (unsigned long long)seed, (long long)bad, pass, why);
    fprintf(stderr, "--- before rewrite %lld\n", (long long)bad);
    print_network(seed, bad - 1);
    fprintf(stderr, "--- after it\n");
    print_network(seed, bad);
}

static verdict check_seed(uint64_t seed)
{
    job j;
    int64_t rewrites = 0;
    const char *pass = "?";
    job_init(&j, seed);
    verdict v = check(&j, INT64_MAX, &rewrites, &pass);
    if (v == BAD) {
        fprintf(stderr, "seed %llu: after pass %s: %s\n", (unsigned long long)seed, pass, j.why);
        job_deinit(&j);
        blame(seed, rewrites ? rewrites : 1 << 16);
        return v;
    }
    job_deinit(&j);
    return v;
}

static void print_totals(void)
{
    for (int i = 0; i < cm_n_passes; i++)
        printf("%9lld %s\n", (long long)totals[i], cm_passes[i].name);
}

static void random_networks_keep_their_meaning(void **state)
{
    (void)state;
    int ran = 0;
    for (uint64_t seed = 1; seed <= NETWORKS; seed++) {
        verdict v = check_seed(seed);
        if (v == BAD)
            fail_msg("seed %llu", (unsigned long long)seed);
        ran += v == GOOD;
    }
    print_totals();
    printf("%d networks, %d of them ran\n", NETWORKS, ran);
    assert_true(ran > NETWORKS * 8 / 10);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_networks_keep_their_meaning)};
    if (argc < 3)
        return cmocka_run_group_tests(tests, NULL, NULL);
    uint64_t first = strtoull(argv[1], NULL, 10), n = strtoull(argv[2], NULL, 10);
    int bad = 0, ran = 0;
    for (uint64_t seed = first; seed < first + n; seed++) {
        verdict v = check_seed(seed);
        bad += v == BAD;
        ran += v == GOOD;
    }
    print_totals();
    printf("%d of %llu ran, %d bad\n", ran, (unsigned long long)n, bad);
    return bad != 0;
}
