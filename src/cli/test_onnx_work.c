/* test_onnx_work.c -- worker processes that take cases from a shared counter.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A crash or a hang is one failed case with a line of its own, never the end of the run: the process is replaced, and so is
 * one whose device failed, since nothing more can be done with it there. A worker opens the device once; kernels that one
 * compiled are found by all, in the folder that CAMEO_KERNEL_CACHE names or in one made for this run. */
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/test_onnx.h"

/* ---- One worker ------------------------------------------------------------------------------ */

static bool open_device(const cm_test_options *o, cm_test_shared *s, cm_device **held)
{
    cm_ctx cx = {0};
    cm_target target;
    char machine[160];
    cm_status st = cm_target_resolve(&cx, &o->where, &target, machine, sizeof machine, held);
    if (st != CM_OK && !atomic_exchange(&s->no_device, true))
        snprintf(s->why, sizeof s->why, "%.499s", cx.message);
    return st == CM_OK;
}

static void work(cm_test_shared *s, int w, const cm_test_options *o)
{
    cm_device *held;
    bool usable = open_device(o, s, &held);
    while (usable) {
        int i = atomic_fetch_add(&s->next, 1);
        if (i >= s->n_cases)
            break;
        atomic_store(&s->worker[w].since_ns, cm_now_ns());
        atomic_store(&s->worker[w].current, i);
        usable = cm_test_case(o, s->cases[i], s, i);
        atomic_store(&s->worker[w].current, -1);
    }
    cm_target_release(&o->where, held);
}

static pid_t start(cm_test_shared *s, int w, const cm_test_options *o)
{
    atomic_store(&s->worker[w].current, -1);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        work(s, w, o);
        exit(0); /* not _exit: leak checkers report here */
    }
    return pid;
}

/* ---- All of them ----------------------------------------------------------------------------- */

typedef struct {
    cm_ctx *cx;
    cm_test_shared *s;
    const cm_test_options *o;
    int jobs, alive;
    pid_t pids[CM_TEST_MOST_JOBS];
    bool clean;
} workers;

static void mark_dead(cm_test_shared *s, int w, int status)
{
    int i = atomic_load(&s->worker[w].current);
    if (i < 0)
        return;
    cm_test_result *r = &s->results[i];
    if (atomic_load(&r->outcome) == CM_TEST_PENDING) {
        if (WIFSIGNALED(status))
            snprintf(r->line, sizeof r->line, "the process died of signal %d", WTERMSIG(status));
        else
            snprintf(r->line, sizeof r->line, "the process ended with code %d",
                     WEXITSTATUS(status));
        atomic_store(&r->outcome, CM_TEST_FAILED);
    }
}

/* A case that does not look at the clock is killed at three times its allowance. */
static void kill_stuck(const workers *a)
{
    for (int w = 0; w < a->jobs; w++) {
        /* The worker may begin another case while we look: its start first, then the time. */
        cm_test_worker *x = &a->s->worker[w];
        uint64_t since = atomic_load(&x->since_ns), now = cm_now_ns();
        if (a->pids[w] > 0 && since && atomic_load(&x->current) >= 0 && now > since &&
            now - since > (uint64_t)(a->o->timeout * 3e9))
            kill(a->pids[w], SIGKILL);
    }
}

static void look_after(const workers *a)
{
    if (a->o->timeout > 0)
        kill_stuck(a);
    if (cm_check_cancel(a->cx) != CM_OK)
        for (int w = 0; w < a->jobs; w++)
            if (a->pids[w] > 0)
                kill(a->pids[w], SIGKILL);
}

/* Another takes its place while there are cases left that one could run. */
static void ended(workers *a, int w, int status)
{
    cm_test_shared *s = a->s;
    a->pids[w] = 0;
    a->alive--;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        a->clean = a->clean && atomic_load(&s->worker[w].current) >= 0;
        mark_dead(s, w, status);
    }
    if (cm_check_cancel(a->cx) == CM_OK && !atomic_load(&s->no_device) &&
        atomic_load(&s->next) < s->n_cases)
        a->alive += (a->pids[w] = start(s, w, a->o)) > 0;
}

static bool run_workers(workers *a)
{
    for (int w = 0; w < a->jobs; w++)
        a->alive += (a->pids[w] = start(a->s, w, a->o)) > 0;
    while (a->alive > 0) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        for (int w = 0; pid > 0 && w < a->jobs; w++)
            if (a->pids[w] == pid) {
                ended(a, w, status);
                break;
            }
        if (pid > 0)
            continue;
        usleep(5000);
        look_after(a);
    }
    return a->clean;
}

/* ---- Kernels that all workers share ---------------------------------------------------------- */

static bool make_cache(char *folder)
{
    const char *own = getenv("CAMEO_KERNEL_CACHE");
    return (!own || !*own) && mkdtemp(folder) && setenv("CAMEO_KERNEL_CACHE", folder, 1) == 0;
}

static void drop_cache(const char *folder)
{
    struct dirent *e;
    char path[PATH_MAX];
    DIR *d = opendir(folder);
    while (d && (e = readdir(d)) != NULL)
        if (e->d_name[0] != '.' &&
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path)
            unlink(path);
    if (d)
        closedir(d);
    rmdir(folder);
}

bool cm_test_all(cm_ctx *cx, cm_test_shared *s, const cm_test_options *o, int jobs)
{
    char folder[] = "/tmp/cameo-kernels-XXXXXX";
    workers a = {.cx = cx, .s = s, .o = o, .jobs = jobs, .clean = true};
    bool made = o->where.kind != CM_DEVICE_CPU && make_cache(folder);
    bool clean = run_workers(&a);
    if (made)
        drop_cache(folder);
    return clean;
}
