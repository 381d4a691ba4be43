/* image.c -- the process's table of compiled kernels, and its form in a plan.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/image.h"

#include <pthread.h>
#include <string.h>

enum { BUCKETS = 256, HEADER = 12, RECORD = 24, LARGEST = 64 << 20 };
static const char magic[8] = {'c', 'm', 'i', 'm', 'a', 'g', 'e', '1'};

typedef struct entry {
    struct entry *next;
    cm_image image;
} entry;

static entry *table[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const cm_image *find(const cm_image_key *key)
{
    for (entry *e = table[key->v[0] % BUCKETS]; e; e = e->next)
        if (memcmp(&e->image.key, key, sizeof *key) == 0)
            return &e->image;
    return NULL;
}

const cm_image *cm_image_find(const cm_image_key *key)
{
    pthread_mutex_lock(&lock);
    const cm_image *i = find(key);
    pthread_mutex_unlock(&lock);
    return i;
}

static const cm_image *add(const cm_image_key *key, const void *data, size_t n)
{
    entry *e = cm_alloc(NULL, sizeof *e, 16);
    unsigned char *copy = cm_alloc(NULL, n, 16);
    if (!e || !copy) {
        cm_release(NULL, e, sizeof *e);
        cm_release(NULL, copy, n);
        return NULL;
    }
    memcpy(copy, data, n);
    *e = (entry){table[key->v[0] % BUCKETS], {*key, n, copy}};
    table[key->v[0] % BUCKETS] = e;
    return &e->image;
}

const cm_image *cm_image_add(const cm_image_key *key, const void *data, size_t n)
{
    pthread_mutex_lock(&lock);
    const cm_image *i = find(key);
    if (!i)
        i = add(key, data, n);
    pthread_mutex_unlock(&lock);
    return i;
}

void cm_images_begin(cm_buf *out, uint32_t n)
{
    cm_buf_bytes(out, magic, sizeof magic);
    cm_buf_u32(out, n);
}

void cm_images_put(cm_buf *out, const cm_image *image)
{
    cm_buf_u64(out, image->key.v[0]);
    cm_buf_u64(out, image->key.v[1]);
    cm_buf_u64(out, image->n);
    cm_buf_bytes(out, image->data, image->n);
}

static uint64_t little(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

bool cm_is_image(const void *data, size_t n)
{
    enum { MACHINE = 18, CUDA = 190, ELF_HEADER = 64 };
    const unsigned char *p = data;
    return n >= ELF_HEADER && memcmp(p, "\177ELF\2\1", 6) == 0 && little(p + MACHINE, 2) == CUDA;
}

int cm_images_take(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    int taken = 0;
    if (n < HEADER || memcmp(p, magic, sizeof magic) != 0)
        return 0;
    uint64_t count = little(p + 8, 4);
    p += HEADER;
    n -= HEADER;
    for (; count > 0 && n >= RECORD; count--) {
        cm_image_key key = {{little(p, 8), little(p + 8, 8)}};
        uint64_t size = little(p + 16, 8);
        p += RECORD;
        n -= RECORD;
        if (size > n || size > LARGEST)
            break;
        if (cm_is_image(p, (size_t)size) && cm_image_add(&key, p, (size_t)size))
            taken++;
        p += size;
        n -= (size_t)size;
    }
    return taken;
}
