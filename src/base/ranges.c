/* ranges.c -- the program's side of NVTX's injection: what its header-only library does, as far as we need it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The library that NVTX_INJECTION64_PATH names exports InitializeInjectionNvtx2. It is given a function that hands out
 * tables by number; the one of callbacks has a function that, for each module of NVTX, gives an array of pointers to
 * function pointers, which the library points at its own. Those that it leaves NULL it does not want to hear of. */
#include "base/ranges.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define VISIBLE_NAME 15 /* letters that the system keeps of a thread's name */

enum { TABLE_CALLBACKS = 1, TABLE_VERSION = 3, NVTX_VERSION = 3 };
enum { MODULE_CORE = 1, N_MODULES = 7 };
enum { RANGE_PUSH = 9, RANGE_POP = 11, NAME_THREAD = 14, MOST_CALLBACKS = 16 };

typedef void (*callback)(void);
typedef callback *callback_table[MOST_CALLBACKS + 1];

/* How many callbacks each module has, number 0 counted. We call those of the core alone, but a library may insist on being given
 * the others: CUDA, OpenCL, the CUDA runtime, domains, locks. */
static const unsigned n_callbacks[N_MODULES] = {[MODULE_CORE] = 16, 9, 15, 7, 16, 7};
static callback callbacks[N_MODULES][MOST_CALLBACKS + 1];
static callback_table tables[N_MODULES];

static int module_table(int module, callback ***table, unsigned *n)
{
    if (module < 0 || module >= N_MODULES || !n_callbacks[module])
        return 0;
    for (unsigned i = 0; i < n_callbacks[module]; i++)
        tables[module][i] = &callbacks[module][i];
    if (table)
        *table = tables[module];
    if (n)
        *n = n_callbacks[module];
    return 1;
}

static void set_version(uint32_t version)
{
    (void)version;
}

static const struct {
    size_t size;
    int (*module_table)(int module, callback ***table, unsigned *n);
} export_callbacks = {sizeof export_callbacks, module_table};

static const struct {
    size_t size;
    uint32_t version, reserved;
    void (*set_version)(uint32_t version);
} export_version = {sizeof export_version, NVTX_VERSION, 0, set_version};

static const void *export_table(uint32_t id)
{
    return id == TABLE_CALLBACKS ? (const void *)&export_callbacks
           : id == TABLE_VERSION ? (const void *)&export_version
                                 : NULL;
}

typedef int (*initialize_fn)(const void *(*export_table)(uint32_t id));

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool heard;

static void listen_for(void)
{
    initialize_fn initialize = NULL;
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    void *symbol = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
    memcpy(&initialize, &symbol, sizeof initialize);
    heard = initialize && initialize(export_table) && callbacks[MODULE_CORE][RANGE_PUSH] &&
            callbacks[MODULE_CORE][RANGE_POP];
    if (library && !heard)
        dlclose(library);
}

bool cm_ranges_heard(void)
{
    pthread_once(&once, listen_for);
    return heard;
}

void cm_range_push(const char *name)
{
    ((int (*)(const char *))callbacks[MODULE_CORE][RANGE_PUSH])(name);
}

void cm_range_pop(void)
{
    ((int (*)(void))callbacks[MODULE_CORE][RANGE_POP])();
}

void cm_name_thread(const char *name)
{
    char visible[VISIBLE_NAME + 1];
    size_t n = strlen(name);
    n = n < VISIBLE_NAME ? n : VISIBLE_NAME;
    memcpy(visible, name, n);
    visible[n] = 0;
    pthread_setname_np(pthread_self(), visible);
    if (cm_ranges_heard() && callbacks[MODULE_CORE][NAME_THREAD])
        ((void (*)(uint32_t, const char *))callbacks[MODULE_CORE][NAME_THREAD])(
            (uint32_t)syscall(SYS_gettid), name);
}
