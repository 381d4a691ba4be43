/* kernels.c -- kernels that the fake driver runs: PTX to C (ptx_to_c.py), C to a shared object, its threads in turns (ptx_run.h).
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct ptx_entry ptx_entry;

struct fake_module {
    void *handle;
    const ptx_entry *(*find)(const char *name);
    int (*params)(const ptx_entry *e, const int **places, const int **sizes);
    void (*run)(const ptx_entry *e, const ptx_launch *l);
    char key[17]; /* empty: it has run and was counted */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_of(const char *text)
{
    uint64_t h = 1469598103934665603u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

static int make_object(const char *folder, uint64_t key, const char *ptx)
{
    char command[2048], path[512];
    snprintf(path, sizeof path, "%s/%016llx.%d.ptx", folder, (unsigned long long)key,
             (int)getpid());
    FILE *f = fopen(path, "w");
    if (!f || fputs(ptx, f) < 0 || fclose(f) != 0)
        return -1;
    snprintf(command, sizeof command,
             "b=%s/%016llx.%d; python3 %s/ptx_to_c.py $b.ptx $b.c && "
             "${CC:-gcc} -Og -w -fno-strict-aliasing -ffp-contract=off -shared -fPIC -I%s -o $b.so "
             "$b.c -lm && "
             "mv $b.so %s/%016llx.so && rm $b.c $b.ptx",
             folder, (unsigned long long)key, (int)getpid(), FAKE_SOURCES, FAKE_SOURCES, folder,
             (unsigned long long)key);
    return system(command);
}

fake_module *fake_module_load(const char *folder, const char *ptx)
{
    char path[512];
    uint64_t key = hash_of(ptx);
    fake_module *m = calloc(1, sizeof *m);
    snprintf(path, sizeof path, "%s/%016llx.so", folder, (unsigned long long)key);
    pthread_mutex_lock(&lock);
    if (m && (access(path, R_OK) == 0 || make_object(folder, key, ptx) == 0))
        m->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    pthread_mutex_unlock(&lock);
    if (!m || !m->handle) {
        free(m);
        return NULL;
    }
    *(void **)&m->find = dlsym(m->handle, "ptx_find");
    *(void **)&m->params = dlsym(m->handle, "ptx_params");
    *(void **)&m->run = dlsym(m->handle, "ptx_run");
    snprintf(m->key, sizeof m->key, "%016llx", (unsigned long long)key);
    return m;
}

void fake_module_unload(fake_module *m)
{
    if (m)
        dlclose(m->handle);
    free(m);
}

fake_launch *fake_launch_make(fake_module *m, const char *name, const ptx_launch *l, void **args)
{
    const int *places, *sizes;
    const ptx_entry *e = m->find(name);
    if (!e)
        return NULL;
    int n = m->params(e, &places, &sizes);
    size_t bytes = n ? (size_t)(places[n - 1] + sizes[n - 1]) : 0;
    fake_launch *f = aligned_alloc(64, (sizeof *f + bytes + 63) / 64 * 64);
    if (!f)
        return NULL;
    *f = (fake_launch){.module = m, .entry = e, .l = *l};
    f->l.params = f->params;
    for (int i = 0; i < n; i++)
        memcpy(f->params + places[i], args[i], (size_t)sizes[i]);
    return f;
}

/* A line for each module that ran, in the file that FAKE_CUDA_RAN names; processes write beside each other. */
static void count(fake_module *m)
{
    const char *path = getenv("FAKE_CUDA_RAN");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
    m->key[16] = '\n';
    if (fd >= 0 && (write(fd, m->key, 17) != 17 || close(fd) != 0))
        perror(path);
    m->key[0] = 0;
}

void fake_launch_run(const fake_launch *f)
{
    pthread_mutex_lock(&lock);
    if (f->module->key[0])
        count(f->module);
    f->module->run(f->entry, &f->l);
    pthread_mutex_unlock(&lock);
}
