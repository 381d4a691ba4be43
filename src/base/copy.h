/* copy.h -- large copies into memory that was never touched.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_BASE_COPY_H
#define CM_BASE_COPY_H

#include <stddef.h>

/* memcpy by several threads at once where it is worth it: finding pages for memory that is new takes longer than filling
 * them, and threads find them side by side. */
void cm_copy_large(void *to, const void *from, size_t n);

#endif
