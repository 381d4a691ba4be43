/* test_onnx.c -- `cameo test-onnx`: runs folders in the layout of ONNX's backend tests.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpu.h"
#include "cli/test_onnx.h"

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

static int report(const cm_test_shared *s, bool clean, const cm_test_options *o)
{
    int n[4] = {0};
    for (int i = 0; i < s->n_cases; i++) {
        const cm_test_result *r = &s->results[i];
        int out = atomic_load(&r->outcome);
        n[out]++;
        if (out == CM_TEST_FAILED)
            printf("FAIL %s: %s\n", s->cases[i], r->line);
        else if (out == CM_TEST_SKIPPED)
            printf("skip %s: %s\n", s->cases[i], r->line);
        else if (out == CM_TEST_PENDING)
            printf("FAIL %s: not run\n", s->cases[i]);
        else if (o->list)
            printf("pass %s%s%s\n", s->cases[i], r->fell[0] ? "; on the CPU: " : "", r->fell);
    }
    if (!clean)
        printf("FAIL a worker process ended badly after its last case\n");
    if (o->where.kind != CM_DEVICE_CPU)
        cm_test_print_shares(s, o->target);
    int failed = n[CM_TEST_FAILED] + n[CM_TEST_PENDING] + !clean;
    printf("%d passed, %d failed, %d skipped\n", n[CM_TEST_PASSED], failed, n[CM_TEST_SKIPPED]);
    return failed ? CM_EXIT_FAILED : CM_EXIT_OK;
}

static cm_status share_memory(cm_ctx *cx, const paths *cases, cm_test_shared **out)
{
    int n_ops = 0;
    while (cm_op_at(n_ops))
        n_ops++;
    size_t results = (size_t)cases->n * sizeof(cm_test_result);
    size_t bytes = sizeof **out + results + (size_t)n_ops * sizeof(cm_test_count);
    cm_test_shared *s =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return cm_fail_memory(cx);
    s->bytes = bytes;
    s->n_cases = cases->n;
    s->cases = cases->v;
    s->results = (cm_test_result *)(s + 1);
    s->ops = (cm_test_count *)(s->results + cases->n);
    *out = s;
    return CM_OK;
}

static cm_status check_target(cm_ctx *cx, cm_test_options *o)
{
    CM_TRY(cm_target_parse(cx, o->target, &o->where));
    if (o->where.kind == CM_DEVICE_CPU && o->where.level > (int)cm_cpu_info()->isa)
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "target '%s': this machine has only cpu:%s",
                       o->target, cm_isa_name(cm_cpu_info()->isa));
    return CM_OK;
}

static cm_status test(cm_ctx *cx, cm_test_options *o, const paths *cases, int *code)
{
    cm_test_shared *s;
    CM_TRY(share_memory(cx, cases, &s));
    int jobs = o->jobs > 0 ? (int)o->jobs : cm_cpu_cores();
    bool clean = cm_test_all(cx, s, o, jobs > CM_TEST_MOST_JOBS ? CM_TEST_MOST_JOBS : jobs);
    cm_status st = CM_OK;
    if (s->no_device)
        st = cm_fail(cx, CM_ERR_DEVICE, "%s", s->why);
    else
        *code = report(s, clean, o);
    munmap(s, s->bytes);
    return st;
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    cm_test_options *o = options;
    paths cases = {0};
    int code = CM_EXIT_OK;
    cm_status st =
        n_args ? check_target(cx, o) : cm_fail(cx, CM_ERR_ARGUMENT, "test-onnx needs a folder");
    for (int i = 0; st == CM_OK && i < n_args; i++)
        st = collect(cx, args[i], 0, &cases);
    if (st == CM_OK)
        st = test(cx, o, &cases, &code);
    return st == CM_OK ? code : cm_cli_failed(cx, st);
}

static void defaults(void *options)
{
    *(cm_test_options *)options = (cm_test_options){
        .rtol = 1e-3, .atol = 1e-5, .target = "cpu", .threads = 1, .timeout = 120};
}

static const cm_cli_option table[] = {
    {"rtol", "R", "relative tolerance (default 1e-3)", CM_OPT_REAL,
     offsetof(cm_test_options, rtol)},
    {"atol", "A", "absolute tolerance (default 1e-5)", CM_OPT_REAL,
     offsetof(cm_test_options, atol)},
    {"scale-atol", "S", "more: S times the largest magnitude wanted", CM_OPT_REAL,
     offsetof(cm_test_options, scale_atol)},
    {"target", "TARGET", "where to run: cpu, cuda, or cpu:avx2 to hold it there (default cpu)",
     CM_OPT_TEXT, offsetof(cm_test_options, target)},
    {"via-plan", NULL, "build a plan, write it, open it, run that", CM_OPT_FLAG,
     offsetof(cm_test_options, via_plan)},
    {"no-optimise", NULL, "run networks as they are written", CM_OPT_FLAG,
     offsetof(cm_test_options, no_optimise)},
    CM_PLUGINS_OPTION(cm_test_options, plugins),
    {"jobs", "N", "cases at a time (default: one per core)", CM_OPT_INT,
     offsetof(cm_test_options, jobs)},
    {"threads", "N", "threads inside a case (default 1)", CM_OPT_INT,
     offsetof(cm_test_options, threads)},
    {"timeout", "SECONDS", "allowed per case (default 120)", CM_OPT_SECONDS,
     offsetof(cm_test_options, timeout)},
    {"list", NULL, "print the cases that pass too", CM_OPT_FLAG, offsetof(cm_test_options, list)},
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
        "On a GPU also the share of cases and of nodes that ran there, by family, with the\n"
        "operators that never did (--list names those of each case, and why); for a class of GPUs\n"
        "(sm_90) kernels are compiled, and nothing runs.\n"
        "Element types coarser than float32 are allowed two units in the last place; outputs that\n"
        "hang on a random generator are checked for type, shape and range.",
    .examples = "  cameo test-onnx onnx/backend/test/data/node\n"
                "  cameo test-onnx --via-plan --jobs 4 node/test_conv_with_strides_padding\n",
    .options_bytes = sizeof(cm_test_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .defaults = defaults,
    .run = run,
};
