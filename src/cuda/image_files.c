/* image_files.c -- compiled kernels kept in a folder that the user names in CAMEO_KERNEL_CACHE.
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "cuda/image.h"

static bool path_of(const cm_image_key *key, char *path, size_t n)
{
    const char *folder = getenv("CAMEO_KERNEL_CACHE");
    if (!folder || !*folder)
        return false;
    int k = snprintf(path, n, "%s/%016llx%016llx.cubin", folder, (unsigned long long)key->v[0],
                     (unsigned long long)key->v[1]);
    return k > 0 && k < (int)n;
}

/* A cache that cannot be read or written is as good as none: what failed is not told. */
const cm_image *cm_image_read(const cm_image_key *key)
{
    char path[PATH_MAX];
    cm_ctx quiet = {0};
    cm_mapping m;
    if (!path_of(key, path, sizeof path) || access(path, R_OK) != 0 ||
        cm_file_map(&quiet, path, &m) != CM_OK)
        return NULL;
    const cm_image *image = cm_is_image(m.data, m.n) ? cm_image_add(key, m.data, m.n) : NULL;
    cm_file_unmap(&m);
    return image;
}

void cm_image_write(const cm_image *image)
{
    char path[PATH_MAX];
    cm_ctx quiet = {0};
    if (path_of(&image->key, path, sizeof path))
        (void)!cm_file_write(&quiet, path, image->data, image->n);
}
