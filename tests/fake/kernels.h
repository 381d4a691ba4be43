/* kernels.h -- kernels that the fake driver runs.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_KERNELS_H
#define FAKE_KERNELS_H

#include <stdint.h>

#include "ptx.h"

typedef struct fake_module fake_module;

typedef struct {
    fake_module *module;
    const struct ptx_entry *entry;
    ptx_launch l;
    _Alignas(64) char params[]; /* as the kernel finds them */
} fake_launch;

/* `folder` keeps what was translated, for the next process too. NULL: it could not be; stderr has the reason. */
fake_module *fake_module_load(const char *folder, const char *ptx);
void fake_module_unload(fake_module *m);
/* With its own copy of the arguments; free() releases it. */
fake_launch *fake_launch_make(fake_module *m, const char *name, const ptx_launch *l, void **args);
void fake_launch_run(const fake_launch *f);

#endif
