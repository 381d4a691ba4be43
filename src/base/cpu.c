/* cpu.c -- the CPU as cpuinfo knows it, cut down to what the operating system enables.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#include <cpuid.h>
#include <cpuinfo.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const isa_names[CM_ISA_COUNT] = {"generic", "avx2", "avx512", "amx"};

const char *cm_isa_name(cm_isa isa)
{
    return (unsigned)isa < CM_ISA_COUNT ? isa_names[isa] : "?";
}

bool cm_isa_parse(const char *name, cm_isa *out)
{
    for (int i = 0; i < CM_ISA_COUNT; i++) {
        if (strcmp(name, isa_names[i]) == 0) {
            *out = (cm_isa)i;
            return true;
        }
    }
    return false;
}

/* Which register states the operating system saves on a context switch (XCR0). */
enum {
    STATE_AVX = 1 << 1 | 1 << 2,
    STATE_AVX512 = STATE_AVX | 1 << 5 | 1 << 6 | 1 << 7,
    STATE_AMX = 1 << 17 | 1 << 18
};

static uint64_t saved_states(void)
{
    if (!cpuinfo_has_x86_avx()) /* then OSXSAVE may be off, and xgetbv would fault */
        return 0;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Linux gives the AMX tile registers only to a process that asked. */
static bool ask_for_tiles(void)
{
    enum { REQUEST_STATE = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}

/* What cpuinfo does not tell in all its versions: leaf 7 of the cpuid instruction. */
static bool has_amx(void)
{
    enum { BF16 = 1 << 22, TILE = 1 << 24, INT8 = 1 << 25, ALL = BF16 | TILE | INT8 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & ALL) == ALL;
}

static bool has_avx_vnni(void)
{
    enum { AVX_VNNI = 1 << 4 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & AVX_VNNI);
}

static cm_isa probe_isa(void)
{
    uint64_t states = saved_states();
    if ((states & STATE_AVX) != STATE_AVX || !cpuinfo_has_x86_avx2() || !cpuinfo_has_x86_fma3() ||
        !cpuinfo_has_x86_f16c())
        return CM_ISA_GENERIC;
    if ((states & STATE_AVX512) != STATE_AVX512 || !cpuinfo_has_x86_avx512f() ||
        !cpuinfo_has_x86_avx512bw() || !cpuinfo_has_x86_avx512dq() || !cpuinfo_has_x86_avx512vl())
        return CM_ISA_AVX2;
    if ((states & STATE_AMX) != STATE_AMX || !has_amx() || !ask_for_tiles())
        return CM_ISA_AVX512;
    return CM_ISA_AMX;
}

/* AMD's cores do since the first Zen; others add where they multiply. */
static bool adds_beside(void)
{
    const struct cpuinfo_core *core = cpuinfo_get_core(0);
    return core && core->vendor == cpuinfo_vendor_amd;
}

static cm_cpu info = {.name = "unknown CPU", .cores = 1, .threads = 1};

static int64_t cache_bytes(const struct cpuinfo_cache *c)
{
    return c ? (int64_t)c->size : 0;
}

static void probe(void)
{
    if (!cpuinfo_initialize())
        return;
    const struct cpuinfo_package *package = cpuinfo_get_package(0);
    if (package && package->name[0])
        snprintf(info.name, sizeof info.name, "%s", package->name);
    info.isa = probe_isa();
    info.f16c = info.isa >= CM_ISA_AVX2;
    info.vnni = info.isa >= CM_ISA_AVX512 ? cpuinfo_has_x86_avx512vnni()
                                          : info.isa == CM_ISA_AVX2 && has_avx_vnni();
    info.bf16 = info.isa >= CM_ISA_AVX512 && cpuinfo_has_x86_avx512bf16();
    info.vbmi = info.isa >= CM_ISA_AVX512 && cpuinfo_has_x86_avx512vbmi();
    info.adds_beside = adds_beside();
    info.cores = (int)cpuinfo_get_cores_count();
    info.threads = (int)cpuinfo_get_processors_count();
    info.l1d_bytes = cache_bytes(cpuinfo_get_l1d_cache(0));
    info.l2_bytes = cache_bytes(cpuinfo_get_l2_cache(0));
    info.l3_bytes = cache_bytes(cpuinfo_get_l3_cache(0));
}

const cm_cpu *cm_cpu_info(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, probe);
    return &info;
}

/* CPUs that a quota of `quota` per `period` pays for, rounded up; 0: no limit. */
static int quota_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    long long n = (quota - 1) / period + 1;
    return n < 1 << 20 ? (int)n : 0;
}

/* Up to two numbers of a small file; "max" and a missing file give -1. */
static void read_numbers(const char *path, long long *a, long long *b)
{
    *a = *b = -1;
    FILE *f = fopen(path, "re");
    if (!f)
        return;
    if (fscanf(f, "%lld %lld", a, b) < 1)
        *a = -1;
    fclose(f);
}

/* The limit that one control group itself sets; 0: none. */
static int group_limit(const char *root, const char *group, bool unified)
{
    char path[4096 + 64];
    long long quota, period, unused;
    if (unified) {
        snprintf(path, sizeof path, "%s%s/cpu.max", root, group);
        read_numbers(path, &quota, &period);
    } else {
        snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", root, group);
        read_numbers(path, &quota, &unused);
        snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", root, group);
        read_numbers(path, &period, &unused);
    }
    return quota_cpus(quota, period);
}

/* The smallest limit from `group` up to the root of its tree; 0: none. Cuts `group` up. */
static int tree_limit(const char *root, char *group, bool unified)
{
    int least = 0;
    for (;;) {
        int n = group_limit(root, group, unified);
        if (n && (!least || n < least))
            least = n;
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

static bool lists_cpu(const char *controllers)
{
    size_t n = strcspn(controllers, ":\n");
    for (const char *p = controllers, *end = controllers + n; p < end;) {
        size_t len = strcspn(p, ",:\n");
        if (len == 3 && memcmp(p, "cpu", 3) == 0)
            return true;
        p += len + 1;
    }
    return false;
}

/* Lines of /proc/self/cgroup are "number:controllers:path"; the unified tree's are "0::path". */
static int cgroup_limit(void)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[4096];
    int least = 0;
    while (f && fgets(line, sizeof line, f)) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        group[strcspn(group, "\n")] = 0;
        bool unified = controllers + 1 == group;
        if (!unified && !lists_cpu(controllers + 1))
            continue;
        int n = tree_limit(unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu", group + 1, unified);
        if (n && (!least || n < least))
            least = n;
    }
    if (f)
        fclose(f);
    return least;
}

int cm_cpu_cores(void)
{
    enum { MANY = 16 }; /* times CPU_SETSIZE */
    cpu_set_t set[MANY];
    int n = 0;
    if (sched_getaffinity(0, sizeof set, set) == 0)
        n = CPU_COUNT_S(sizeof set, set);
    if (n < 1)
        n = cm_cpu_info()->threads;
    int limit = cgroup_limit();
    if (limit && limit < n)
        n = limit;
    return n > 0 ? n : 1;
}
