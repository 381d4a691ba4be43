/* backend.c -- the tables of the CPU backend by kind, and its rough speed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/cpu.h"

#include "cpu/copy.h"

static const cm_tactic *tactics(cm_problem_kind kind, int *n)
{
    const cm_cpu_table *table = NULL;
    switch (kind) {
#define X(id, name)                                                                                \
    case CM_PROBLEM_##id:                                                                          \
        table = &name;                                                                             \
        break;
        CM_CPU_TABLES(X)
#undef X
    default:
        break;
    }
    *n = table ? table->n : 0;
    return table ? table->rows : NULL;
}

const cm_backend cm_backend_cpu = {"cpu", CM_DEVICE_CPU, tactics, cm_copy_strided};

int64_t cm_cpu_l2_floats(void)
{
    int64_t bytes = cm_cpu_info()->l2_bytes;
    return (bytes > 0 ? bytes : 256 << 10) / (int64_t)sizeof(float);
}

double cm_cpu_flops_per_ns(const cm_target *t)
{
    switch (t->level) {
    case CM_ISA_GENERIC:
        return 12;
    case CM_ISA_AVX2:
        return 90;
    default:
        return 110;
    }
}

double cm_cpu_bytes_per_ns(const cm_target *t)
{
    return t->level == CM_ISA_GENERIC ? 8 : 16;
}

double cm_cpu_speedup(const cm_problem *p, double pieces)
{
    double threads = p->threads > 1 ? p->threads : 1;
    if (pieces < 1)
        pieces = 1;
    if (pieces <= threads)
        return pieces;
    double rounds = pieces / threads;
    double whole = (double)(int64_t)(rounds + 0.999999);
    return pieces / whole;
}
