/* driver.c -- opens the CUDA driver once; its failures as sentences.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/driver.h"

#include <pthread.h>
#include <stdio.h>

#include "cuda/library.h"

enum { OLDEST = 12000 };

static cm_driver driver;
static char reason[256]; /* empty: the driver is there */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_driver(void)
{
    const cm_library *l = cm_library_get(CM_LIBRARY_DRIVER);
    const cm_symbol symbols[] = {
#define X(field, symbol, arguments) {#symbol, (void **)&driver.field},
        CM_CU_SYMBOLS(X)
#undef X
    };
    if (!l->handle) {
        snprintf(reason, sizeof reason, "libcuda.so.1 was not found: no NVIDIA driver");
        return;
    }
    const char *missing = cm_library_symbols(l, symbols, CM_COUNT(symbols));
    if (missing) {
        snprintf(reason, sizeof reason,
                 "the NVIDIA driver is too old: it lacks %s; one for CUDA %d.%d or later is wanted",
                 missing, OLDEST / 1000, OLDEST % 1000 / 10);
        return;
    }
    int code = driver.init(0);
    if (code == 0)
        code = driver.driver_version(&driver.version);
    if (code == 0)
        code = driver.device_count(&driver.n_devices);
    if (code != 0 || driver.n_devices <= 0) {
        const char *text = NULL;
        driver.error_string(code ? code : CM_CU_NO_DEVICE, &text);
        snprintf(reason, sizeof reason, "the NVIDIA driver shows no GPU: %s",
                 text ? text : "no reason given");
    } else if (driver.version < OLDEST) {
        snprintf(reason, sizeof reason,
                 "the NVIDIA driver is too old: found one for CUDA %d.%d, wanted %d.%d or later",
                 driver.version / 1000, driver.version % 1000 / 10, OLDEST / 1000,
                 OLDEST % 1000 / 10);
    }
}

const cm_driver *cm_driver_get(const char **why)
{
    pthread_once(&once, open_driver);
    if (why)
        *why = reason;
    return reason[0] ? NULL : &driver;
}

cm_status cm_driver_fail(cm_ctx *cx, const cm_driver *cu, int code, const char *doing)
{
    const char *text = NULL;
    cu->error_string(code, &text);
    if (!text)
        text = "unknown error";
    if (code == CM_CU_OUT_OF_MEMORY)
        return cm_fail(cx, CM_ERR_MEMORY, "the GPU is out of memory while %s", doing);
    if (code == CM_CU_NO_BINARY)
        return cm_fail(cx, CM_ERR_DEVICE, "%s: the kernel was compiled for another GPU", doing);
    if (code == CM_CU_ILLEGAL_ADDRESS || code == CM_CU_LAUNCH_FAILED)
        return cm_fail(cx, CM_ERR_DEVICE, "%s: %s; the GPU's state is lost for this process", doing,
                       text);
    return cm_fail(cx, CM_ERR_DEVICE, "%s: %s (driver's error %d)", doing, text, code);
}
