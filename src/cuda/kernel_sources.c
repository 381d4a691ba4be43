/* kernel_sources.c -- the text of kernels/, inflated once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernel_sources.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include "base/arena.h"

static cm_kernel_source *sources;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool inflate_texts(char *to)
{
    enum { GZIP = 16 + MAX_WBITS };
    z_stream s = {.next_in = (Bytef *)(uintptr_t)cm_kernel_deflated,
                  .avail_in = (uInt)cm_kernel_deflated_bytes,
                  .next_out = (Bytef *)to,
                  .avail_out = (uInt)cm_kernel_text_bytes};
    if (inflateInit2(&s, GZIP) != Z_OK)
        return false;
    int rc = inflate(&s, Z_FINISH);
    inflateEnd(&s);
    return rc == Z_STREAM_END && s.avail_out == 0;
}

static void bring_to_light(void)
{
    size_t n = 0;
    while (cm_kernel_names[n])
        n++;
    size_t table = (n + 1) * sizeof *sources;
    cm_kernel_source *made = cm_alloc(NULL, table + cm_kernel_text_bytes, 16);
    if (!made)
        return;
    char *text = (char *)made + table;
    if (!inflate_texts(text)) {
        cm_release(NULL, made, table + cm_kernel_text_bytes);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        made[i] = (cm_kernel_source){cm_kernel_names[i], text};
        text += strlen(text) + 1;
    }
    made[n] = (cm_kernel_source){NULL, NULL};
    sources = made;
}

const cm_kernel_source *cm_kernel_sources(void)
{
    pthread_once(&once, bring_to_light);
    return sources;
}
