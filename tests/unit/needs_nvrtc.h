/* needs_nvrtc.h -- for tests that compile kernels. Where the compiler library is missing they fail: skipping is for those who ask
 * for it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TESTS_UNIT_NEEDS_NVRTC_H
#define CM_TESTS_UNIT_NEEDS_NVRTC_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The first call of such a test. CAMEO_TEST_CUDA=none in the environment skips it. */
static void needs_nvrtc(void)
{
    const char *wish = getenv("CAMEO_TEST_CUDA");
    if (wish && !strcmp(wish, "none"))
        skip();
}

#endif
