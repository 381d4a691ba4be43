/* fake_driver.h -- tests/fake's driver, for tests that want a device without having one.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TESTS_FAKE_DRIVER_H
#define CM_TESTS_FAKE_DRIVER_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The library will open it, and no other; `path` gets the name of its file. False: this program cannot tell where it is. */
static bool use_fake_driver(char *path, size_t n)
{
    ssize_t length = readlink("/proc/self/exe", path, n - 32);
    if (length <= 0)
        return false;
    path[length] = 0;
    for (int i = 0; i < 2; i++) { /* tests/unit/NAME */
        char *slash = strrchr(path, '/');
        if (slash)
            *slash = 0;
    }
    strcat(path, "/fake");
    setenv("CAMEO_CUDA_PATH", path, 1);
    strcat(path, "/libcuda.so.1");
    return true;
}

#endif
