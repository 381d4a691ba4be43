/* cpu.h -- what this CPU and its operating system can do.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_BASE_CPU_H
#define CM_BASE_CPU_H

#include <stdint.h>

#include "base/status.h"

/* ISA levels in order; a kernel of one level may run on every later one. */
typedef enum { CM_ISA_GENERIC, CM_ISA_AVX2, CM_ISA_AVX512, CM_ISA_AMX, CM_ISA_COUNT } cm_isa;

typedef struct cm_cpu {
    char name[64];
    cm_isa isa;            /* the highest level that the CPU and the OS support */
    bool vnni, bf16, f16c; /* extras inside a level: INT8 and BF16 dot products, conversions */
    bool vbmi;             /* and bytes looked up */
    bool adds_beside;   /* has as many units that add as units that multiply and add, beside them */
    int cores, threads; /* of the machine */
    int64_t l1d_bytes, l2_bytes, l3_bytes; /* of one cache; 0: unknown */
} cm_cpu;

/* Probed once, then constant. */
const cm_cpu *cm_cpu_info(void);
int cm_cpu_cores(void); /* cores that this process may use: affinity and cgroup quota counted in */
const char *cm_isa_name(cm_isa isa); /* "generic", "avx2", "avx512", "amx" */
bool cm_isa_parse(const char *name, cm_isa *out);

#endif
