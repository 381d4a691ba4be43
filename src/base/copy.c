/* copy.c -- large copies into memory that was never touched.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/copy.h"

#include <pthread.h>
#include <string.h>

#include "base/cpu.h"

enum { MOST_THREADS = 4, WORTH_A_THREAD = 512 << 10 };

typedef struct {
    unsigned char *to;
    const unsigned char *from;
    size_t n;
} piece;

static void *copy_piece(void *arg)
{
    const piece *p = arg;
    memcpy(p->to, p->from, p->n);
    return NULL;
}

void cm_copy_large(void *to, const void *from, size_t n)
{
    piece pieces[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    int cores = cm_cpu_cores(), wanted = cores < MOST_THREADS ? cores : MOST_THREADS, started = 0;
    while (wanted > 1 && n / (size_t)wanted < WORTH_A_THREAD)
        wanted--;
    for (int k = 0; k < wanted; k++) {
        size_t begin = n / (size_t)wanted * (size_t)k;
        size_t end = k + 1 < wanted ? n / (size_t)wanted * (size_t)(k + 1) : n;
        pieces[k] =
            (piece){(unsigned char *)to + begin, (const unsigned char *)from + begin, end - begin};
    }
    while (started + 1 < wanted &&
           pthread_create(&threads[started], NULL, copy_piece, &pieces[started + 1]) == 0)
        started++;
    for (int k = started + 1; k < wanted; k++) /* no thread was to be had */
        copy_piece(&pieces[k]);
    copy_piece(&pieces[0]);
    for (int k = 0; k < started; k++)
        pthread_join(threads[k], NULL);
}
