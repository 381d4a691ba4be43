/* ptx_run.h -- what kernels that ptx_to_c.py has written in C run on: threads of a cluster in turns, shared memory, barriers, copies, fragments.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A thread is a stack of its own that gives way where it waits. Copies that a thread does not wait for are done as late as it allows, or when
 * everybody waits: who reads too early reads what was there before. PTX_ORDER=N in the environment changes whose turn it is first.
 * Addresses of shared memory, a block's own too, begin with its rank in the cluster, rank << 24, as sm_90's do. Tensor maps are those of
 * tests/fake/tensor_map.h. What the hardware would call an error (misaligned, outside of shared memory, nobody can go on) ends the
 * process with a sentence. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ptx_bits.h"
#include "ptx_threads.h"

#include "ptx_copies.h"
#include "ptx_fragments.h"

static void begin_thread(thread *t)
{
    if (!t->stack) {
        t->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        t->copies = malloc(GROUP_COPIES * sizeof *t->copies);
    }
    void **top = (void **)(t->stack + STACK - 64);
    *--top = NULL; /* where first_turn would return to: aligned as a call leaves it */
    *--top = (void *)first_turn;
    t->sp = top - 6;
    memset(t->sp, 0, 6 * sizeof *top);
}

static int next_box(cluster *c)
{
    while (c->boxes_done < c->n_boxes && c->boxes[c->boxes_done].done)
        c->boxes_done++;
    return c->boxes_done < c->n_boxes;
}

static void run_cluster(cluster *c, int order)
{
    int first = c->n_threads ? order * 97 % c->n_threads : 0;
    uint64_t most = (uint64_t)c->n_threads * 1000;
    while (c->live) {
        for (int i = 0; i < c->n_threads; i++) {
            thread *t = &c->threads[order % 2 ? (c->n_threads - 1 - i + first) % c->n_threads
                                              : (i + first) % c->n_threads];
            if (t->ended)
                continue;
            running = t;
            switch_stack(&scheduler_sp, t->sp);
        }
        if (next_box(c) && (c->idle > (uint64_t)c->live || order % 3 == 0))
            move_box(&c->boxes[c->boxes_done]);
        if (c->idle > most)
            broken(running, "nobody can go on");
    }
    while (next_box(c))
        move_box(&c->boxes[c->boxes_done]);
}

static void place_thread(thread *t, block *b, int i, const ptx_launch *l, const uint32_t *ctaid)
{
    thread fresh = {.b = b, .stack = t->stack, .copies = t->copies};
    *t = fresh;
    for (int d = 0; d < 3; d++) {
        t->ntid[d] = l->block[d];
        t->ctaid[d] = ctaid[d];
        t->nctaid[d] = l->grid[d];
    }
    t->tid[0] = (uint32_t)i % l->block[0];
    t->tid[1] = (uint32_t)i / l->block[0] % l->block[1];
    t->tid[2] = (uint32_t)i / l->block[0] / l->block[1];
    t->lane = (uint32_t)i % 32;
    t->warp = (uint32_t)i / 32;
    int lanes = b->n - (int)t->warp * 32;
    t->present = lanes >= 32 ? UINT32_MAX : (1u << lanes) - 1;
    begin_thread(t);
}

static void fill_block(block *b, cluster *c, int rank, int threads, const ptx_launch *l)
{
    size_t room = (size_t)ptx_static_end + l->shared_bytes;
    char *shared = b->shared;
    meeting *meetings = b->meetings;
    if (!shared) {
        shared = aligned_alloc(1024, (room + 2047) / 1024 * 1024);
        meetings = malloc((size_t)(threads + 31) / 32 * MOST_MASKS * sizeof *meetings);
    }
    memset(shared, 0xab, room); /* nobody may count on zeros */
    memset(meetings, 0, (size_t)(threads + 31) / 32 * MOST_MASKS * sizeof *meetings);
    *b = (block){.cluster = c,
                 .rank = rank,
                 .n = threads,
                 .live = threads,
                 .shared = shared,
                 .meetings = meetings,
                 .shared_end = (uint32_t)room,
                 .dynamic = l->shared_bytes,
                 .params = l->params};
}

const ptx_entry *ptx_find(const char *name);
const ptx_entry *ptx_find(const char *name)
{
    for (const ptx_entry *e = ptx_entries; e->name; e++)
        if (!strcmp(e->name, name))
            return e;
    return NULL;
}

int ptx_params(const ptx_entry *e, const int **places, const int **sizes);
int ptx_params(const ptx_entry *e, const int **places, const int **sizes)
{
    *places = e->places;
    *sizes = e->sizes;
    return e->n_params;
}

void ptx_run(const ptx_entry *e, const ptx_launch *l);
void ptx_run(const ptx_entry *e, const ptx_launch *l)
{
    int threads = (int)(l->block[0] * l->block[1] * l->block[2]);
    int in_cluster = l->cluster && !l->together ? (int)l->cluster : 1;
    int n = l->together ? (int)l->grid[0] : in_cluster; /* blocks that take turns */
    const char *order = getenv("PTX_ORDER");
    cluster c = {.n = in_cluster, .n_threads = n * threads};
    c.blocks = calloc((size_t)n, sizeof *c.blocks);
    c.threads = calloc((size_t)c.n_threads, sizeof *c.threads);
    current = e;
    for (uint32_t z = 0; z < l->grid[2]; z++)
        for (uint32_t y = 0; y < l->grid[1]; y++)
            for (uint32_t x = 0; x < l->grid[0]; x += (uint32_t)n) {
                for (int r = 0; r < n; r++) {
                    fill_block(&c.blocks[r], &c, r % in_cluster, threads, l);
                    for (int i = 0; i < threads; i++)
                        place_thread(&c.threads[r * threads + i], &c.blocks[r], i, l,
                                     (uint32_t[3]){x + (uint32_t)r, y, z});
                }
                c.live = c.n_threads;
                c.arrived = c.turn = 0;
                c.n_boxes = c.boxes_done = 0;
                c.idle = 0;
                run_cluster(&c, order ? atoi(order) : 0);
            }
    for (int i = 0; i < c.n_threads; i++) {
        munmap(c.threads[i].stack, STACK);
        free(c.threads[i].copies);
    }
    for (int r = 0; r < n; r++) {
        free(c.blocks[r].shared);
        free(c.blocks[r].meetings);
    }
    free(c.blocks);
    free(c.threads);
    free(c.boxes);
}
