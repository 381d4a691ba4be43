/* test_onnx.c -- `cameo test-onnx`: runs folders in the layout of ONNX's backend tests.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Cases run in worker processes that take them from a shared counter, so that a crash or a hang is
 * one failed case with a line of its own, never the end of the run. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cpu.h"
#include "cli/close.h"
#include "cli/model.h"
#include "io/io.h"

typedef struct {
    double rtol, atol, scale_atol, timeout;
    const char *target;
    cm_target where; /* `target`, parsed */
    bool via_plan, no_optimise, list;
    int64_t jobs, threads;
} test_options;

typedef enum { PENDING, PASSED, FAILED, SKIPPED } outcome;

/* One case's result, in memory shared with the workers. */
typedef struct {
    _Atomic int outcome;
    char line[500];
} result;

typedef struct {
    _Atomic int next;
    struct {
        _Atomic int current; /* -1: between cases */
        _Atomic uint64_t since_ns;
    } worker[64];
    result results[];
} shared;

typedef struct {
    const char **v;
    int n, cap;
} paths;

static cm_status push(cm_ctx *cx, paths *l, const char *path)
{
    if (l->n == l->cap) {
        int cap = l->cap ? l->cap * 2 : 256;
        const char **v;
        CM_NEW_N(cx, cx->arena, v, cap, const char *);
        if (l->n)
            memcpy(v, l->v, (size_t)l->n * sizeof *v);
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = path;
    return CM_OK;
}

static bool exists(cm_ctx *cx, const char *folder, const char *name)
{
    char *p = cm_arena_printf(cx->scratch, "%s/%s", folder, name);
    return p && access(p, R_OK) == 0;
}

/* Every folder below `folder` that holds a model.onnx; sorted, so that runs are alike. */
static cm_status collect(cm_ctx *cx, const char *folder, int depth, paths *cases)
{
    if (exists(cx, folder, "model.onnx"))
        return push(cx, cases, folder);
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort);
    if (n < 0)
        return depth ? CM_OK : cm_fail(cx, CM_ERR_IO, "%s: cannot be read as a folder", folder);
    cm_status st = CM_OK;
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        struct stat s;
        char *path = cm_arena_printf(cx->arena, "%s/%s", folder, name);
        if (st == CM_OK && !path)
            st = cm_fail_memory(cx);
        if (st == CM_OK && name[0] != '.' && depth < 12 && stat(path, &s) == 0 &&
            S_ISDIR(s.st_mode))
            st = collect(cx, path, depth + 1, cases);
        free(entries[i]);
    }
    free(entries);
    return st;
}

/* ---- One case ---------------------------------------------------------------------------- */

typedef struct {
    const test_options *o;
    const char *folder;
    cm_model model;
    cm_context *context;
    cm_tolerance tolerance;
    char line[400];
} test_case;

/* Does an output hang on a generator? Dropout only draws in training mode, which a constant input
 * says; an input that is not constant counts as drawing. */
static bool draws(const cm_network *g)
{
    CM_FOR_NODES (n, g) {
        if (n->op->id == CM_OP_DROPOUT) {
            const cm_value *mode = n->n_in > 2 ? n->in[2] : NULL;
            if (mode && !(mode->constant && !*(const bool *)mode->constant->data))
                return true;
        } else if (n->op->traits & CM_RANDOM) {
            return true;
        }
        for (int s = 0; s < n->n_subs; s++)
            if (draws(n->subs[s]))
                return true;
    }
    return false;
}

static bool transforms(const cm_network *g)
{
    CM_FOR_NODES (n, g)
        if (n->op->id == CM_OP_DFT || n->op->id == CM_OP_STFT)
            return true;
    return false;
}

static cm_status read_pb(cm_ctx *cx, const char *path, const cm_type *type, cm_datum *out)
{
    cm_mapping m;
    CM_TRY(cm_file_map(cx, path, &m));
    cm_status st = cm_onnx_read_datum(cx, cx->arena, m.data, m.n, type, out);
    if (st == CM_OK && out->kind == CM_TENSOR && type->kind == CM_TENSOR)
        cm_npy_view(&out->tensor, type->dtype); /* old data holds bfloat16 as its bits, in uint16 */
    return st == CM_OK ? st : cm_while(cx, st, "%s", path); /* the mapping lives with the process */
}

/* A few cases come with data whose rank is not what the model declares: believe the data. */
static cm_status believe_data(cm_ctx *cx, test_case *t)
{
    cm_network *g = t->model.network;
    bool changed = false;
    for (int i = 0; i < g->n_inputs; i++) {
        char *path = cm_arena_printf(cx->arena, "%s/test_data_set_0/input_%d.pb", t->folder, i);
        cm_type *type = &g->inputs[i]->type;
        cm_datum d = {0};
        if (!path)
            return cm_fail_memory(cx);
        if (type->kind != CM_TENSOR || access(path, R_OK) != 0)
            continue;
        CM_TRY(read_pb(cx, path, type, &d));
        if (d.kind != CM_TENSOR || type->rank < 0 || d.tensor.rank == type->rank)
            continue;
        *type = cm_type_tensor(type->dtype, d.tensor.rank, d.tensor.dims);
        changed = true;
    }
    return changed ? cm_network_infer(cx, g) : CM_OK;
}

static cm_status open_case(cm_ctx *cx, test_case *t)
{
    char *path = cm_arena_printf(cx->arena, "%s/model.onnx", t->folder);
    cm_model_options none = {0};
    if (!path)
        return cm_fail_memory(cx);
    CM_TRY(cm_model_import(cx, path, &none, &t->model));
    CM_TRY(believe_data(cx, t));
    t->tolerance = (cm_tolerance){.rtol = t->o->rtol,
                                  .atol = t->o->atol,
                                  .scale_atol = t->o->scale_atol,
                                  .shape_only = draws(t->model.network)};
    if (transforms(t->model.network) && t->tolerance.scale_atol < 1e-3)
        t->tolerance.scale_atol = 1e-3; /* cancelled terms: errors scale with the largest one */
    cm_compile_options co = CM_COMPILE_DEFAULT;
    co.no_optimise = t->o->no_optimise;
    if (t->o->via_plan) {
        char file[] = "/tmp/cameo-plan-XXXXXX";
        int fd = mkstemp(file);
        if (fd < 0)
            return cm_fail(cx, CM_ERR_IO, "cannot make a temporary file");
        close(fd);
        cm_status st = cm_compile_file(cx, t->model.network, &co, file);
        if (st == CM_OK)
            st = cm_engine_open_file(cx, file, NULL, &t->model.engine);
        unlink(file);
        CM_TRY(st);
    } else {
        CM_TRY(cm_compile_memory(cx, t->model.network, &co, &t->model.plan));
        CM_TRY(cm_engine_open_memory(cx, t->model.plan.data, t->model.plan.n, false, NULL,
                                     &t->model.engine));
    }
    cm_context_options with = {.threads = (int)t->o->threads, .target = &t->o->where};
    return cm_context_create(cx, t->model.engine, &with, &t->context);
}

/* Compare output i with its file. False and a line when it is wrong or cannot be read. */
static bool output_right(cm_ctx *cx, test_case *t, const char *set, int i)
{
    const cm_engine *e = t->model.engine;
    char *path = cm_arena_printf(cx->arena, "%s/output_%d.pb", set, i), why[300];
    cm_datum *wanted = cm_new(cx->arena, cm_datum);
    if (!path || !wanted || access(path, R_OK) != 0)
        return true; /* not stored */
    if (read_pb(cx, path, cm_engine_output_type(e, i), wanted) != CM_OK) {
        snprintf(t->line, sizeof t->line, "%.390s", cx->message);
        return false;
    }
    if (cm_datum_close(cm_context_output(t->context, i), wanted, &t->tolerance, why, sizeof why))
        return true;
    snprintf(t->line, sizeof t->line, "output '%s': %s", cm_engine_output_name(e, i), why);
    return false;
}

static cm_status run_set(cm_ctx *cx, test_case *t, const char *set, outcome *out)
{
    const cm_engine *e = t->model.engine;
    for (int i = 0; i < cm_engine_n_inputs(e); i++) {
        char *path = cm_arena_printf(cx->arena, "%s/input_%d.pb", set, i);
        cm_datum *d;
        CM_NEW(cx, cx->arena, d, cm_datum);
        if (!path)
            return cm_fail_memory(cx);
        CM_TRY(read_pb(cx, path, cm_engine_input_type(e, i), d));
        CM_TRY(cm_context_set_input(cx, t->context, i, d));
    }
    CM_TRY(cm_context_run(cx, t->context));
    *out = PASSED;
    for (int i = 0; i < cm_engine_n_outputs(e) && *out == PASSED; i++)
        if (!output_right(cx, t, set, i))
            *out = FAILED;
    return CM_OK;
}

static cm_status run_sets(cm_ctx *cx, test_case *t, outcome *out)
{
    int n = 0;
    *out = PASSED;
    for (int k = 0; *out == PASSED; k++) {
        char *set = cm_arena_printf(cx->arena, "%s/test_data_set_%d", t->folder, k);
        if (!set)
            return cm_fail_memory(cx);
        if (access(set, R_OK) != 0)
            break;
        CM_TRY(run_set(cx, t, set, out));
        n++;
    }
    if (n == 0) {
        *out = SKIPPED;
        snprintf(t->line, sizeof t->line, "there is no test_data_set_0");
    }
    return CM_OK;
}

/* Not the product's to run: training, and image formats whose library is not installed. */
static bool may_skip(cm_status st, const char *message)
{
    return st == CM_ERR_UNSUPPORTED &&
           (strstr(message, "ai.onnx.preview.training") || strstr(message, "is not installed"));
}

static void run_case(const test_options *o, const char *folder, result *r)
{
    cm_arena arena, scratch;
    cm_arena_init(&arena, NULL);
    cm_arena_init(&scratch, NULL);
    cm_ctx cx = {.arena = &arena, .scratch = &scratch};
    test_case t = {.o = o, .folder = folder};
    outcome out = FAILED;
    if (o->timeout > 0)
        cx.deadline_ns = cm_now_ns() + (uint64_t)(o->timeout * 1e9);
    cm_status st = open_case(&cx, &t);
    if (st == CM_OK)
        st = run_sets(&cx, &t, &out);
    if (st != CM_OK) {
        out = may_skip(st, cx.message) ? SKIPPED : FAILED;
        snprintf(t.line, sizeof t.line, "%.390s", cx.message);
    }
    snprintf(r->line, sizeof r->line, "%s", t.line);
    cm_context_destroy(t.context);
    cm_model_close(&t.model);
    cm_arena_deinit(&scratch);
    cm_arena_deinit(&arena);
    atomic_store(&r->outcome, out);
}

/* ---- Workers ------------------------------------------------------------------------------ */

static void work(shared *s, int w, const paths *cases, const test_options *o)
{
    for (;;) {
        int i = atomic_fetch_add(&s->next, 1);
        if (i >= cases->n)
            return;
        atomic_store(&s->worker[w].since_ns, cm_now_ns());
        atomic_store(&s->worker[w].current, i);
        run_case(o, cases->v[i], &s->results[i]);
        atomic_store(&s->worker[w].current, -1);
    }
}

static pid_t start(shared *s, int w, const paths *cases, const test_options *o)
{
    atomic_store(&s->worker[w].current, -1);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        work(s, w, cases, o);
        exit(0); /* not _exit: leak checkers report here */
    }
    return pid;
}

static void mark_dead(shared *s, int w, int status)
{
    int i = atomic_load(&s->worker[w].current);
    if (i < 0)
        return;
    result *r = &s->results[i];
    if (atomic_load(&r->outcome) == PENDING) {
        if (WIFSIGNALED(status))
            snprintf(r->line, sizeof r->line, "the process died of signal %d", WTERMSIG(status));
        else
            snprintf(r->line, sizeof r->line, "the process ended with code %d",
                     WEXITSTATUS(status));
        atomic_store(&r->outcome, FAILED);
    }
}

/* A case that does not look at the clock is killed at three times its allowance. */
static void kill_stuck(shared *s, const pid_t *pids, int jobs, double timeout)
{
    for (int w = 0; w < jobs; w++) {
        /* The worker may begin another case while we look: its start first, then the time. */
        uint64_t since = atomic_load(&s->worker[w].since_ns), now = cm_now_ns();
        if (pids[w] > 0 && since && atomic_load(&s->worker[w].current) >= 0 && now > since &&
            now - since > (uint64_t)(timeout * 3e9))
            kill(pids[w], SIGKILL);
    }
}

static bool run_all(cm_ctx *cx, shared *s, const paths *cases, const test_options *o, int jobs)
{
    pid_t pids[64] = {0};
    bool clean = true;
    int alive = 0;
    for (int w = 0; w < jobs; w++)
        alive += (pids[w] = start(s, w, cases, o)) > 0;
    while (alive > 0) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0) {
            usleep(5000);
            if (o->timeout > 0)
                kill_stuck(s, pids, jobs, o->timeout);
            if (cm_check_cancel(cx) != CM_OK)
                for (int w = 0; w < jobs; w++)
                    if (pids[w] > 0)
                        kill(pids[w], SIGKILL);
            continue;
        }
        alive--;
        for (int w = 0; w < jobs; w++) {
            if (pids[w] != pid)
                continue;
            pids[w] = 0;
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
                clean = clean && atomic_load(&s->worker[w].current) >= 0;
                mark_dead(s, w, status);
                if (cm_check_cancel(cx) == CM_OK && atomic_load(&s->next) < cases->n)
                    alive += (pids[w] = start(s, w, cases, o)) > 0;
            }
        }
    }
    return clean;
}

static int report(const shared *s, const paths *cases, bool clean, bool list)
{
    int n[4] = {0};
    for (int i = 0; i < cases->n; i++) {
        const result *r = &s->results[i];
        int out = atomic_load(&r->outcome);
        n[out]++;
        if (out == FAILED)
            printf("FAIL %s: %s\n", cases->v[i], r->line);
        else if (out == SKIPPED)
            printf("skip %s: %s\n", cases->v[i], r->line);
        else if (out == PENDING)
            printf("FAIL %s: not run\n", cases->v[i]);
        else if (list)
            printf("pass %s\n", cases->v[i]);
    }
    if (!clean)
        printf("FAIL a worker process ended badly after its last case\n");
    int failed = n[FAILED] + n[PENDING] + !clean;
    printf("%d passed, %d failed, %d skipped\n", n[PASSED], failed, n[SKIPPED]);
    return failed ? CM_EXIT_FAILED : CM_EXIT_OK;
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    test_options *o = options;
    paths cases = {0};
    if (n_args == 0)
        return cm_cli_failed(cx, cm_fail(cx, CM_ERR_ARGUMENT, "test-onnx needs a folder"));
    cm_status parsed = cm_target_parse(cx, o->target, &o->where);
    if (parsed != CM_OK)
        return cm_cli_failed(cx, parsed);
    if (o->where.kind == CM_DEVICE_CPU && o->where.level > (int)cm_cpu_info()->isa)
        return cm_cli_failed(cx, cm_fail(cx, CM_ERR_UNSUPPORTED,
                                         "target '%s': this machine has only cpu:%s", o->target,
                                         cm_isa_name(cm_cpu_info()->isa)));
    for (int i = 0; i < n_args; i++) {
        cm_status st = collect(cx, args[i], 0, &cases);
        if (st != CM_OK)
            return cm_cli_failed(cx, st);
    }
    size_t bytes = sizeof(shared) + (size_t)cases.n * sizeof(result);
    shared *s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return cm_cli_failed(cx, cm_fail_memory(cx));
    int jobs = o->jobs > 0 ? (int)o->jobs : cm_cpu_cores();
    jobs = jobs > 64 ? 64 : jobs;
    bool clean = run_all(cx, s, &cases, o, jobs);
    int code = report(s, &cases, clean, o->list);
    munmap(s, bytes);
    return code;
}

static void defaults(void *options)
{
    *(test_options *)options =
        (test_options){.rtol = 1e-3, .atol = 1e-5, .target = "cpu", .threads = 1, .timeout = 120};
}

static const cm_cli_option table[] = {
    {"rtol", "R", "relative tolerance (default 1e-3)", CM_OPT_REAL, offsetof(test_options, rtol)},
    {"atol", "A", "absolute tolerance (default 1e-5)", CM_OPT_REAL, offsetof(test_options, atol)},
    {"scale-atol", "S", "more: S times the largest magnitude wanted", CM_OPT_REAL,
     offsetof(test_options, scale_atol)},
    {"target", "TARGET", "where to run: cpu, cuda, or cpu:avx2 to hold it there (default cpu)",
     CM_OPT_TEXT, offsetof(test_options, target)},
    {"via-plan", NULL, "build a plan, write it, open it, run that", CM_OPT_FLAG,
     offsetof(test_options, via_plan)},
    {"no-optimise", NULL, "run networks as they are written", CM_OPT_FLAG,
     offsetof(test_options, no_optimise)},
    {"jobs", "N", "cases at a time (default: one per core)", CM_OPT_INT,
     offsetof(test_options, jobs)},
    {"threads", "N", "threads inside a case (default 1)", CM_OPT_INT,
     offsetof(test_options, threads)},
    {"timeout", "SECONDS", "allowed per case (default 120)", CM_OPT_SECONDS,
     offsetof(test_options, timeout)},
    {"list", NULL, "print the cases that pass too", CM_OPT_FLAG, offsetof(test_options, list)},
};

const cm_cli_verb cm_verb_test_onnx = {
    .name = "test-onnx",
    .summary = "run ONNX backend test folders",
    .usage = "[OPTION]... DIR...",
    .details =
        "Walks the folders for cases in the layout of ONNX's backend tests (model.onnx beside\n"
        "test_data_set_N with input_I.pb and output_I.pb), runs each and compares. Prints a line "
        "for\n"
        "every failure and every skip, and last the counts. Exit code 1 when a case failed.\n"
        "Element types coarser than float32 are allowed two units in the last place; outputs that\n"
        "hang on a random generator are checked for type, shape and range.",
    .examples = "  cameo test-onnx onnx/backend/test/data/node\n"
                "  cameo test-onnx --via-plan --jobs 4 node/test_conv_with_strides_padding\n",
    .options_bytes = sizeof(test_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .defaults = defaults,
    .run = run,
};
