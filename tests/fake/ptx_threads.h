/* ptx_threads.h -- a cluster of blocks, its threads that take turns, and how they meet: lanes, blocks, clusters, barriers in shared memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"
#include "tensor_map.h"

enum {
    STACK = 256 << 10,
    MOST_BARRIERS = 16,
    MOST_MASKS = 8,
    RANK_SHIFT = 24,
    GROUP_COPIES = 4096
};

typedef struct thread thread;
typedef struct block block;
typedef struct cluster cluster;

typedef struct {
    uint32_t to;
    const char *from;
    int size, valid;
} small_copy;

/* A bulk copy that was asked for. */
typedef struct {
    thread *of;
    const tensor_map *map;
    int32_t at[5];
    uint16_t shift[3], ranks;
    uint32_t shared, barrier;
    int store, group; /* of its thread's groups of stores */
    int done;
} box_copy;

/* Lanes of one warp that exchange something. */
typedef struct {
    uint32_t mask, arrived, turn;
    uint32_t given[32][4], all[32][4];
} meeting;

struct thread {
    void *sp;
    char *stack;
    block *b;
    uint32_t tid[3], ntid[3], ctaid[3], nctaid[3];
    uint32_t lane, warp, present; /* lanes that the warp has */
    int ended;
    uint32_t cluster_turn; /* of the cluster's barrier, when this thread arrived */
    small_copy *copies;    /* in groups, each ended by one of size 0 */
    int n_copies, n_groups;
    int store_group; /* groups of stores that were ended */
};

typedef struct {
    uint32_t arrived, turn, wanted;
    uint32_t sum, result;
} block_barrier;

struct block {
    cluster *cluster;
    int rank, n, live;
    char *shared;
    uint32_t shared_end, dynamic;
    char *params;
    meeting *meetings; /* MOST_MASKS of each warp */
    block_barrier barriers[MOST_BARRIERS];
};

struct cluster {
    int n, n_threads, live;
    uint32_t arrived, turn;
    block *blocks;
    thread *threads;
    box_copy *boxes;
    int n_boxes, room, boxes_done;
    uint64_t idle; /* turns given away since something happened */
};

typedef struct {
    const char *name;
    void (*run)(thread *);
    int n_params;
    const int *places, *sizes;
    int param_bytes;
} ptx_entry;
extern const ptx_entry ptx_entries[];
extern const int ptx_static_end;

/* ---- turns ---- */

static void *scheduler_sp;
static thread *running;
static const ptx_entry *current;

/* Saves what a call must keep on this stack, goes on with the other. */
__attribute__((naked, noinline)) static void switch_stack(void **save, void *to)
{
    __asm__("pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
            "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
            "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret");
}

__attribute__((noreturn)) static void broken(const thread *t, const char *why)
{
    fprintf(stderr, "kernel %s, block %u %u %u, thread %u: %s\n", current->name, t->ctaid[0],
            t->ctaid[1], t->ctaid[2], t->tid[0], why);
    abort();
}

static void give_way(thread *t)
{
    t->b->cluster->idle++;
    switch_stack(&t->sp, scheduler_sp);
}
static void happened(thread *t)
{
    t->b->cluster->idle = 0;
}

static void first_turn(void)
{
    thread *t = running;
    current->run(t);
    t->ended = 1;
    t->b->live--;
    t->b->cluster->live--;
    happened(t);
    switch_stack(&t->sp, scheduler_sp);
    abort();
}

/* ---- memory ---- */

static char *shared_at(const thread *t, uint32_t at, uint32_t size)
{
    uint32_t rank = at >> RANK_SHIFT, offset = at & ((1u << RANK_SHIFT) - 1);
    if (rank >= (uint32_t)t->b->cluster->n)
        broken(t, "an address of a block that the cluster does not have");
    const block *b = rank == (uint32_t)t->b->rank ? t->b : t->b->cluster->blocks + rank;
    if (offset + size > b->shared_end || (size && offset < 1024))
        broken(t, "an address outside of shared memory");
    return b->shared + offset;
}
static uint32_t of_rank(const thread *t, uint32_t at, uint32_t rank)
{
    if (rank >= (uint32_t)t->b->cluster->n)
        broken(t, "a rank that the cluster does not have");
    return (at & ((1u << RANK_SHIFT) - 1)) | rank << RANK_SHIFT;
}
/* Of an offset, of a pointer: the address in this block. */
static uint32_t own_address(const thread *t, uint32_t offset)
{
    return of_rank(t, offset, (uint32_t)t->b->rank);
}
static uint64_t shared_address(const thread *t, uint64_t p)
{
    uint64_t o = p - (uint64_t)(uintptr_t)t->b->shared;
    if (o > t->b->shared_end)
        broken(t, "a pointer that is not to shared memory");
    return own_address(t, (uint32_t)o);
}
static inline char *aligned(char *p, int size)
{
    if ((uintptr_t)p % (uintptr_t)size)
        broken(running, "a misaligned address");
    return p;
}

/* ---- lanes together ---- */

static meeting *meet_lanes(thread *t, uint32_t mask, const uint32_t *given, int n)
{
    meeting *m = t->b->meetings + t->warp * MOST_MASKS;
    mask &= t->present;
    if (!(mask >> t->lane & 1))
        broken(t, "a lane that is not of the mask");
    int i = 0;
    while (i < MOST_MASKS && m[i].mask && m[i].mask != mask)
        i++;
    if (i == MOST_MASKS)
        broken(t, "too many masks");
    m += i;
    m->mask = mask;
    memcpy(m->given[t->lane], given, (size_t)n * 4);
    m->arrived |= 1u << t->lane;
    if (m->arrived == mask) {
        memcpy(m->all, m->given, sizeof m->all);
        m->arrived = 0;
        m->turn++;
        happened(t);
    } else {
        uint32_t turn = m->turn;
        while (m->turn == turn)
            give_way(t);
    }
    return m;
}
static void warp_meet(thread *t, uint32_t mask)
{
    meet_lanes(t, mask, (uint32_t[1]){0}, 1);
}
static uint32_t ballot(thread *t, int p, uint32_t mask)
{
    meeting *m = meet_lanes(t, mask, (uint32_t[1]){(uint32_t)p}, 1);
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        r |= (m->mask >> i & 1 & m->all[i][0]) << i;
    return r;
}
static uint32_t exchanged(thread *t, uint32_t v, int from, int valid, uint32_t mask, uint8_t *p)
{
    meeting *m = meet_lanes(t, mask, &v, 1);
    *p = (uint8_t)valid;
    if (valid && !(m->mask >> from & 1))
        broken(t, "a shuffle from a lane that is not of the mask");
    return valid ? m->all[from][0] : v;
}
static uint32_t shuffled_bfly(thread *t, uint32_t v, uint32_t b, uint32_t c, uint32_t mask,
                              uint8_t *p)
{
    int segment = (int)(c >> 8 & 31), most = ((int)t->lane & segment) | ((int)c & 31 & ~segment);
    int from = (int)(t->lane ^ b);
    return exchanged(t, v, from, from <= most, mask, p);
}
static uint32_t shuffled_idx(thread *t, uint32_t v, uint32_t b, uint32_t c, uint32_t mask,
                             uint8_t *p)
{
    int segment = (int)(c >> 8 & 31), least = (int)t->lane & segment,
        most = least | ((int)c & 31 & ~segment);
    int from = least | ((int)b & 31 & ~segment);
    return exchanged(t, v, from, from <= most, mask, p);
}
static uint32_t shuffled_up(thread *t, uint32_t v, uint32_t b, uint32_t c, uint32_t mask,
                            uint8_t *p)
{
    int segment = (int)(c >> 8 & 31), least = ((int)t->lane & segment) | ((int)c & 31 & ~segment);
    int from = (int)t->lane - (int)b;
    return exchanged(t, v, from, from >= least, mask, p);
}
static uint32_t shuffled_down(thread *t, uint32_t v, uint32_t b, uint32_t c, uint32_t mask,
                              uint8_t *p)
{
    int segment = (int)(c >> 8 & 31), most = ((int)t->lane & segment) | ((int)c & 31 & ~segment);
    int from = (int)(t->lane + b);
    return exchanged(t, v, from, from <= most, mask, p);
}
#define REDUX(name, T, expression)                                                                 \
    static uint32_t redux_##name(thread *t, uint32_t v, uint32_t mask)                             \
    {                                                                                              \
        meeting *m = meet_lanes(t, mask, &v, 1);                                                   \
        T a = (T)v;                                                                                \
        for (int i = 0; i < 32; i++) {                                                             \
            T b = (T)m->all[i][0];                                                                 \
            if (m->mask >> i & 1 && i != (int)t->lane)                                             \
                a = expression;                                                                    \
        }                                                                                          \
        return (uint32_t)a;                                                                        \
    }
REDUX(add, uint32_t, a + b)
REDUX(add_s, uint32_t, a + b)
REDUX(min, uint32_t, a < b ? a : b)
REDUX(max, uint32_t, a > b ? a : b)
REDUX(min_s, int32_t, a < b ? a : b)
REDUX(max_s, int32_t, a > b ? a : b)
REDUX(and, uint32_t, a &b)
REDUX(or, uint32_t, a | b)
REDUX(xor, uint32_t, a ^ b)

/* ---- blocks and clusters ---- */

static block_barrier *block_come(thread *t, uint32_t id, uint32_t n, uint32_t value)
{
    if (id >= MOST_BARRIERS || n % 32)
        broken(t, "a barrier that blocks do not have, or of parts of warps");
    block_barrier *b = &t->b->barriers[id];
    b->arrived++;
    b->sum += value;
    b->wanted = n ? n : (uint32_t)t->b->live;
    if (b->arrived == b->wanted) {
        b->result = b->sum;
        b->arrived = b->sum = 0;
        b->turn++;
        happened(t);
    } else if (b->arrived > b->wanted) {
        broken(t, "more threads at a barrier than it is for");
    }
    return b;
}
static void block_arrive(thread *t, uint32_t id, uint32_t n)
{
    block_come(t, id, n, 0);
}
static uint32_t block_wait(thread *t, uint32_t id, uint32_t n, uint32_t value)
{
    uint32_t turn = t->b->barriers[id % MOST_BARRIERS].turn;
    block_barrier *b = block_come(t, id, n, value);
    while (b->turn == turn) {
        /* those who have ended do not count */
        if (!n && b->arrived && b->arrived == (uint32_t)t->b->live) {
            b->result = b->sum;
            b->arrived = b->sum = 0;
            b->turn++;
            break;
        }
        give_way(t);
    }
    return b->result;
}
static void block_meet(thread *t, uint32_t id, uint32_t n)
{
    block_wait(t, id, n, 0);
}
static uint32_t block_reduce(thread *t, uint32_t id, uint32_t n, int how, int p)
{
    uint32_t all = n ? n : (uint32_t)t->b->live, sum = block_wait(t, id, n, (uint32_t)p);
    return how == 0 ? sum == all : how == 1 ? sum > 0 : sum;
}

static void cluster_arrive(thread *t)
{
    t->cluster_turn = t->b->cluster->turn;
    t->b->cluster->arrived++;
    happened(t);
}
static void cluster_wait(thread *t)
{
    cluster *c = t->b->cluster;
    while (c->turn == t->cluster_turn) {
        if (c->arrived == (uint32_t)c->live) { /* those who have ended do not count */
            c->arrived = 0;
            c->turn++;
            happened(t);
        } else {
            give_way(t);
        }
    }
}

/* ---- barriers in shared memory ---- */

typedef struct {
    uint16_t arrivals, pending;
    int32_t bytes; /* 2 * those on their way + phase */
} barrier;

static void barrier_init(char *at, uint32_t arrivals)
{
    barrier b = {(uint16_t)arrivals, (uint16_t)arrivals, 0};
    memcpy(at, &b, sizeof b);
}
static void barrier_settle(barrier *b)
{
    if (b->pending == 0 && b->bytes >> 1 == 0) {
        b->pending = b->arrivals;
        b->bytes ^= 1;
    }
}
static void barrier_arrive(char *at, uint32_t n, uint32_t bytes)
{
    barrier b;
    memcpy(&b, at, sizeof b);
    if (b.pending < n || !b.arrivals)
        broken(running, "more arrivals than the barrier waits for, or none was made");
    b.bytes += 2 * (int32_t)bytes;
    b.pending = (uint16_t)(b.pending - n);
    barrier_settle(&b);
    memcpy(at, &b, sizeof b);
    happened(running);
}
static void barrier_bytes(char *at, int bytes)
{
    barrier b;
    memcpy(&b, at, sizeof b);
    b.bytes -= 2 * bytes;
    barrier_settle(&b);
    memcpy(at, &b, sizeof b);
}
static int barrier_passed(thread *t, const char *at, uint32_t parity)
{
    barrier b;
    memcpy(&b, at, sizeof b);
    int passed = ((uint32_t)b.bytes & 1) != parity;
    if (!passed)
        give_way(t);
    return passed;
}
