/* ptx.h -- a kernel's launch, between the fake driver and kernels in C (ptx_run.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_PTX_H
#define FAKE_PTX_H

typedef struct {
    unsigned grid[3], block[3], cluster, shared_bytes;
    int together; /* all blocks take turns, not only those of a cluster */
    char *params;
} ptx_launch;

#endif
