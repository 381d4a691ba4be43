/* ptx_run.h -- what kernels that ptx_to_c.py has written in C run on: threads of a cluster in turns, shared memory, barriers, copies, fragments.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A thread is a stack of its own that gives way where it waits. Copies that a thread does not wait for are done as late as it allows, or when
 * everybody waits: who reads too early reads what was there before. PTX_ORDER=N in the environment changes whose turn it is first.
 * Addresses of shared memory: an offset below 1 << 24 is this block's; above, (rank + 1) << 24 tells the block of the cluster. Tensor maps are
 * those of tests/fake/tensor_map.h. What the hardware would call an error (misaligned, outside of shared memory, nobody can go on) ends the
 * process with a sentence. */
#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

/* ---- threads in turns ---- */

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

/* ---- bits ---- */

static inline float as_f32(uint32_t b)
{
    float v;
    memcpy(&v, &b, 4);
    return v;
}
static inline double as_f64(uint64_t b)
{
    double v;
    memcpy(&v, &b, 8);
    return v;
}
static inline uint32_t of_f32(float v)
{
    uint32_t b;
    memcpy(&b, &v, 4);
    return b;
}
static inline uint64_t of_f64(double v)
{
    uint64_t b;
    memcpy(&b, &v, 8);
    return b;
}

static inline float as_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    if (e == 31)
        return as_f32(sign | 0x7f800000 | m << 13);
    float v = e ? ldexpf((float)(m + 1024), (int)e - 25) : ldexpf((float)m, -24);
    return sign ? -v : v;
}
static inline uint16_t of_half(double v)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double a = fabs(v);
    if (isnan(v))
        return 0x7fff;
    if (a >= 65520)
        return sign | 0x7c00;
    int e;
    frexp(a, &e); /* a < 2^e */
    e = e < -13 ? -13 : e;
    double steps = rint(ldexp(a, 11 - e)); /* of the last place */
    return steps == 0 ? sign : (uint16_t)(sign + (uint16_t)((e + 13) << 10) + (uint16_t)steps);
}
static inline float as_bf16(uint16_t h)
{
    return as_f32((uint32_t)h << 16);
}
static inline uint16_t of_bf16(float v)
{
    uint32_t b = of_f32(v);
    return isnan(v) ? 0x7fff : (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
static inline uint32_t of_tf32(float v)
{
    uint32_t b = of_f32(v);
    return isnan(v) || isinf(v) ? b : (b + 0x1000) & 0xffffe000;
}
/* As the matrix units read it: what is beyond ten bits is not looked at. */
static inline float as_tf32(uint32_t b)
{
    return as_f32(b & 0xffffe000);
}

static const int modes[] = {FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
#define ROUNDED(name, expression)                                                                  \
    __attribute__((noinline)) static float rounded_##name                                          \
    {                                                                                              \
        volatile float x = a, y = b, r;                                                            \
        fesetround(modes[mode]);                                                                   \
        r = expression;                                                                            \
        fesetround(FE_TONEAREST);                                                                  \
        return r;                                                                                  \
    }
ROUNDED(add(int mode, float a, float b), x + y)
ROUNDED(sub(int mode, float a, float b), x - y)
ROUNDED(mul(int mode, float a, float b), x *y)
ROUNDED(fma(int mode, float a, float b, float c), fmaf(x, y, c))

static inline double saturated(double v)
{
    return v > 0 ? v < 1 ? v : 1 : 0;
}
#define mmin(a, b)     fmin(a, b)
#define mmax(a, b)     fmax(a, b)
#define mmin_nan(a, b) (isnan(a) || isnan(b) ? NAN : fmin(a, b))
#define mmax_nan(a, b) (isnan(a) || isnan(b) ? NAN : fmax(a, b))

static inline uint64_t to_integer(double v, int bits, int is_signed)
{
    double most = ldexp(1, bits - is_signed), least = is_signed ? -most : 0;
    if (isnan(v))
        return bits == 64 ? UINT64_C(1) << 63 : 0;
    if (v >= most)
        return bits == 64 && !is_signed ? UINT64_MAX : (UINT64_C(1) << (bits - is_signed)) - 1;
    if (v < least)
        v = least;
    return v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
}
static inline int64_t clamped(__int128 v, int bits, int is_signed)
{
    __int128 most = ((__int128)1 << (bits - is_signed)) - 1, least = is_signed ? -most - 1 : 0;
    return (int64_t)(v > most ? most : v < least ? least : v);
}
static inline uint32_t reversed(uint32_t v)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        r |= (v >> i & 1) << (31 - i);
    return r;
}
static inline int leading_zeros(uint64_t v, int bits)
{
    return v ? __builtin_clzll(v) - (64 - bits) : bits;
}
static inline uint32_t funnel_l(uint32_t low, uint32_t high, uint32_t n)
{
    return (uint32_t)(((uint64_t)high << 32 | low) << (n & 31) >> 32);
}
static inline uint32_t funnel_r(uint32_t low, uint32_t high, uint32_t n)
{
    return (uint32_t)(((uint64_t)high << 32 | low) >> (n & 31));
}
static inline uint32_t funnel_l_clamp(uint32_t low, uint32_t high, uint32_t n)
{
    return n >= 32 ? low : funnel_l(low, high, n);
}
static inline uint32_t funnel_r_clamp(uint32_t low, uint32_t high, uint32_t n)
{
    return n >= 32 ? high : funnel_r(low, high, n);
}
static inline uint64_t inserted(uint64_t a, uint64_t b, uint32_t at, uint32_t n, int bits)
{
    uint64_t mask = (n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << (at & 63);
    return at >= (uint32_t)bits ? b : (b & ~mask) | (a << at & mask);
}
static inline uint64_t field_u64(uint64_t v, uint32_t at, uint32_t n)
{
    return at > 63 || n == 0 ? 0 : v >> at & (n > 63 ? UINT64_MAX : (UINT64_C(1) << n) - 1);
}
#define field_u32(v, at, n) field_u64((uint32_t)(v), at, n)
static inline int64_t field_s64(int64_t v, uint32_t at, uint32_t n)
{
    if (n == 0)
        return 0;
    int top = at + n > 64 ? 0 : 64 - (int)(at + n);
    return (int64_t)((uint64_t)v << top) >> (n > 64 ? 0 : 64 - n);
}
#define field_s32(v, at, n) field_s64((int32_t)(v), at, n)
static inline uint32_t permuted(uint32_t a, uint32_t b, uint32_t how)
{
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t s = how >> (4 * i) & 15, byte = (uint32_t)(both >> (8 * (s & 7))) & 255;
        r |= (s & 8 ? byte & 128 ? 255u : 0 : byte) << (8 * i);
    }
    return r;
}
static inline uint32_t of_table(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        r |= (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i;
    return r;
}
#define DOT4(name, A, B)                                                                           \
    static inline uint32_t dot4_##name(uint32_t a, uint32_t b, uint32_t c)                         \
    {                                                                                              \
        for (int i = 0; i < 4; i++)                                                                \
            c += (uint32_t)((int)(A)(a >> (8 * i)) * (int)(B)(b >> (8 * i)));                      \
        return c;                                                                                  \
    }
DOT4(ss, int8_t, int8_t)
DOT4(su, int8_t, uint8_t)
DOT4(us, uint8_t, int8_t)
DOT4(uu, uint8_t, uint8_t)

/* ---- memory ---- */

static char *shared_at(const thread *t, uint32_t at, uint32_t size)
{
    uint32_t rank = at >> RANK_SHIFT, offset = at & ((1u << RANK_SHIFT) - 1);
    const block *b = rank ? t->b->cluster->blocks + rank - 1 : t->b;
    if (rank > (uint32_t)t->b->cluster->n || offset + size > b->shared_end ||
        (size && offset < 1024))
        broken(t, "an address outside of shared memory");
    return b->shared + offset;
}
static uint64_t shared_offset(const thread *t, uint64_t p)
{
    uint64_t o = p - (uint64_t)(uintptr_t)t->b->shared;
    if (o > t->b->shared_end)
        broken(t, "a pointer that is not to shared memory");
    return o;
}
static uint32_t of_rank(const thread *t, uint32_t at, uint32_t rank)
{
    if (rank >= (uint32_t)t->b->cluster->n)
        broken(t, "a rank that the cluster does not have");
    return (at & ((1u << RANK_SHIFT) - 1)) | (rank + 1) << RANK_SHIFT;
}
static inline char *aligned(char *p, int size)
{
    if ((uintptr_t)p % (uintptr_t)size)
        broken(running, "a misaligned address");
    return p;
}

static void copies_end_group(thread *t)
{
    if (t->n_copies == GROUP_COPIES)
        broken(t, "too many copies");
    t->copies[t->n_copies++] = (small_copy){0};
    t->n_groups++;
}
static void copy_later(thread *t, uint32_t to, const char *from, int size, uint32_t valid)
{
    if (t->n_copies == GROUP_COPIES)
        broken(t, "too many copies");
    aligned(shared_at(t, to, (uint32_t)size), size);
    if (valid)
        aligned((char *)from, size);
    t->copies[t->n_copies++] = (small_copy){to, from, size, (int)valid};
}
static void copies_wait(thread *t, int left)
{
    int i = 0;
    for (; t->n_groups > left; i++) {
        const small_copy *c = &t->copies[i];
        if (!c->size) {
            t->n_groups--;
            continue;
        }
        char *to = shared_at(t, c->to, (uint32_t)c->size);
        memset(to, 0, (size_t)c->size);
        memcpy(to, c->from, (size_t)c->valid);
    }
    memmove(t->copies, t->copies + i, (size_t)(t->n_copies - i) * sizeof *t->copies);
    t->n_copies -= i;
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

/* ---- boxes ---- */

static uint32_t swizzled(uint32_t at, int bytes)
{
    return bytes == 128  ? at ^ (at >> 3 & 0x70)
           : bytes == 64 ? at ^ (at >> 3 & 0x30)
           : bytes == 32 ? at ^ (at >> 3 & 0x10)
                         : at;
}

static const char *element(const tensor_map *m, const int64_t *at)
{
    const char *p = m->base;
    for (int d = 0; d < m->rank; d++) {
        if (at[d] < 0 || at[d] >= (int64_t)m->dims[d])
            return NULL;
        p += at[d] * (int64_t)(d ? m->strides[d - 1] : (uint64_t)m->size);
    }
    return p;
}

/* The n-th element of what the copy moves: where it is, NULL outside. */
static const char *box_element(const box_copy *c, int64_t n)
{
    const tensor_map *m = c->map;
    int64_t at[5];
    if (!m->is_image) {
        for (int d = 0; d < m->rank; d++, n /= m->box[d - 1])
            at[d] = c->at[d] + n % m->box[d];
        return element(m, at);
    }
    int64_t pixel = n / m->channels, x = c->at[1], y = c->at[2], z = c->at[3];
    int64_t wide = ((int64_t)m->dims[1] - 1 + m->high[0] - m->low[0]) / m->steps[1] + 1;
    int64_t tall = ((int64_t)m->dims[2] - 1 + m->high[1] - m->low[1]) / m->steps[2] + 1;
    int64_t column = (x - m->low[0]) / m->steps[1] + pixel,
            row = (y - m->low[1]) / m->steps[2] + column / wide;
    z += row / tall;
    at[0] = c->at[0] + n % m->channels;
    at[1] = m->low[0] + column % wide * m->steps[1] + c->shift[0];
    at[2] = m->low[1] + row % tall * m->steps[2] + c->shift[1];
    at[3] = z;
    return element(m, at);
}

static void move_box(box_copy *c)
{
    const tensor_map *m = c->map;
    int64_t n = m->is_image ? (int64_t)m->channels * m->pixels : 1;
    for (int d = 0; d < m->rank && !m->is_image; d++)
        n *= m->box[d];
    for (int r = 0; r < c->of->b->cluster->n; r++) {
        if (!(c->ranks >> r & 1))
            continue;
        uint32_t to = c->store ? c->shared : of_rank(c->of, c->shared, (uint32_t)r);
        for (int64_t i = 0; i < n; i++) {
            const char *from = box_element(c, i);
            char *own = shared_at(c->of, swizzled(to + (uint32_t)(i * m->size), m->swizzle),
                                  (uint32_t)m->size);
            if (c->store && from)
                memcpy((char *)from, own, (size_t)m->size);
            else if (!c->store && from)
                memcpy(own, from, (size_t)m->size);
            else if (!c->store)
                memset(own, 0, (size_t)m->size);
        }
        if (!c->store)
            barrier_bytes(shared_at(c->of, of_rank(c->of, c->barrier, (uint32_t)r), 8),
                          (int)n * m->size);
    }
    c->done = 1;
    c->of->b->cluster->idle = 0;
}

static box_copy *ask(thread *t, uint64_t map, const int32_t *at, int rank, uint32_t shared)
{
    cluster *c = t->b->cluster;
    const tensor_map *m = (const tensor_map *)(uintptr_t) * (uint64_t *)(uintptr_t)map;
    if (map % 64 || m->magic != TENSOR_MAP_MAGIC || m->rank != rank)
        broken(t, "a bulk copy without its tensor map");
    if (shared % (m->swizzle ? (uint32_t)m->swizzle * 8 : 128))
        broken(t, "a bulk copy to a misaligned place");
    if (c->n_boxes == c->room) {
        c->room = c->room ? 2 * c->room : 256;
        c->boxes = realloc(c->boxes, (size_t)c->room * sizeof *c->boxes);
    }
    box_copy *b = &c->boxes[c->n_boxes++];
    *b = (box_copy){.of = t, .map = m, .shared = shared};
    memcpy(b->at, at, (size_t)rank * sizeof *at);
    happened(t);
    return b;
}
static void fetch_box(thread *t, uint32_t to, uint64_t map, const int32_t *at, int rank,
                      uint32_t barrier, const uint16_t *shift, uint16_t ranks)
{
    box_copy *b = ask(t, map, at, rank, to);
    b->barrier = barrier;
    b->ranks = ranks ? ranks : (uint16_t)(1 << t->b->rank);
    if (shift)
        memcpy(b->shift, shift, 2 * sizeof *shift);
}
static void store_box(thread *t, uint64_t map, const int32_t *at, int rank, uint32_t from)
{
    box_copy *b = ask(t, map, at, rank, from);
    b->store = 1;
    b->ranks = (uint16_t)(1 << t->b->rank);
    b->shared = of_rank(t, from, (uint32_t)t->b->rank);
    b->group = t->store_group;
}
static void stores_end_group(thread *t)
{
    t->store_group++;
}
static void stores_wait(thread *t, int left)
{
    cluster *c = t->b->cluster;
    for (int i = c->boxes_done; i < c->n_boxes; i++)
        if (!c->boxes[i].done && c->boxes[i].store && c->boxes[i].of == t &&
            c->boxes[i].group < t->store_group - left)
            move_box(&c->boxes[i]);
}

/* ---- fragments ---- */

static void load_matrices(thread *t, uint32_t *f, int n, int across, uint32_t at)
{
    meeting *m = meet_lanes(t, UINT32_MAX, &at, 1);
    for (int i = 0; i < n; i++) {
        uint16_t pair[2];
        for (int k = 0; k < 2; k++) {
            int row = across ? (int)t->lane % 4 * 2 + k : (int)t->lane / 4,
                col = across ? (int)t->lane / 4 : (int)t->lane % 4 * 2 + k;
            memcpy(&pair[k], aligned(shared_at(t, m->all[i * 8 + row][0], 16), 16) + col * 2, 2);
        }
        f[i] = pair[0] | (uint32_t)pair[1] << 16;
    }
    warp_meet(t, UINT32_MAX); /* nobody writes before all have read */
}
static void store_matrices(thread *t, const uint32_t *f, int n, uint32_t at)
{
    meeting *m = meet_lanes(t, UINT32_MAX, &at, 1);
    for (int i = 0; i < n; i++)
        memcpy(aligned(shared_at(t, m->all[i * 8 + (int)t->lane / 4][0], 16), 16) + t->lane % 4 * 4,
               &f[i], 4);
}
static void gather_fragments(thread *t, uint32_t (*all)[4], const uint32_t *own)
{
    meeting *m = meet_lanes(t, UINT32_MAX, own, 4);
    memcpy(all, m->all, sizeof m->all);
}

static float number(uint32_t bits, int kind, int half)
{
    if (kind == 2)
        return as_tf32(bits);
    uint16_t h = (uint16_t)(half ? bits >> 16 : bits);
    return kind ? as_bf16(h) : as_half(h);
}
static int small(uint32_t bits, int kind, int byte)
{
    return kind == 3 ? (int8_t)(bits >> (8 * byte)) : (uint8_t)(bits >> (8 * byte));
}

/* c of 16 x 8: lane l has rows l / 4 and l / 4 + 8, columns l % 4 * 2 and the next. A's registers: (row, row + 8) of the first half of k,
 * then of the second; B's: halves of k. Each register has `each` neighbours along k. */
static void fragment_sum(thread *t, uint32_t *c, const uint32_t *a, const uint32_t *b, int ka,
                         int kb, int halves)
{
    uint32_t fa[32][4], fb[32][4], pad[4] = {b[0], b[1], 0, 0};
    int each = ka == 2 ? 1 : ka < 2 ? 2 : 4;
    gather_fragments(t, fa, a);
    gather_fragments(t, fb, pad);
    for (int i = 0; i < 4; i++) {
        int row = (int)t->lane / 4, col = (int)t->lane % 4 * 2 + i % 2;
        double sum = ka < 3 ? as_f32(c[i]) : 0;
        uint32_t integer = c[i];
        for (int h = 0; h < halves; h++)
            for (int q = 0; q < 4; q++)
                for (int e = 0; e < each; e++) {
                    uint32_t x = fa[row * 4 + q][h * 2 + i / 2], y = fb[col * 4 + q][h];
                    if (ka < 3)
                        sum += (double)number(x, ka, e) * number(y, kb, e);
                    else
                        integer += (uint32_t)(small(x, ka, e) * small(y, kb, e));
                }
        c[i] = ka < 3 ? of_f32((float)sum) : integer;
    }
}
static void fragment_product_m16n8k16(thread *t, uint32_t *c, const uint32_t *a, const uint32_t *b,
                                      int ka, int kb)
{
    fragment_sum(t, c, a, b, ka, kb, ka < 3 ? 2 : 1);
}
static void fragment_product_m16n8k8(thread *t, uint32_t *c, const uint32_t *a, const uint32_t *b,
                                     int ka, int kb)
{
    fragment_sum(t, c, a, b, ka, kb, ka == 2 ? 2 : 1);
}
static void fragment_product_m16n8k32(thread *t, uint32_t *c, const uint32_t *a, const uint32_t *b,
                                      int ka, int kb)
{
    fragment_sum(t, c, a, b, ka, kb, 2);
}
static void fragment_product_m8n8k16(thread *t, uint32_t *c, const uint32_t *a, const uint32_t *b,
                                     int ka, int kb)
{
    uint32_t wide[4] = {c[0], c[1], 0, 0}, x[4] = {a[0], 0, 0, 0};
    fragment_sum(t, wide, x, b, ka, kb, 1);
    c[0] = wide[0];
    c[1] = wide[1];
}

/* Row (column) i, k: in bytes, of a matrix as a descriptor tells it. */
static uint32_t described_at(uint64_t d, int i, int k, int size, int across)
{
    uint32_t start = (uint32_t)(d & 0x3fff) << 4, leading = (uint32_t)(d >> 16 & 0x3fff) << 4,
             stride = (uint32_t)(d >> 32 & 0x3fff) << 4;
    static const int swizzles[4] = {0, 128, 64, 32};
    int wide = swizzles[d >> 62];
    if (!wide)
        broken(running, "a product of operands that are not swizzled");
    uint32_t at = across ? start + (uint32_t)(i / (wide / size)) * leading +
                               (uint32_t)(k / 8) * stride +
                               (uint32_t)(k % 8 * wide + i % (wide / size) * size)
                         : start + (uint32_t)(i / 8) * stride + (uint32_t)(i % 8 * wide + k * size);
    return swizzled(at, wide);
}
static float described(const thread *t, uint64_t d, int i, int k, int kind, int across)
{
    int size = kind == 2 ? 4 : 2;
    uint32_t bits = 0;
    memcpy(&bits, shared_at(t, described_at(d, i, k, size, across), (uint32_t)size), (size_t)size);
    return number(bits, kind, 0);
}
static void group_product(thread *t, uint32_t *d, uint64_t a, uint32_t (*own)[4], uint64_t b,
                          int add, int n, int k, int kind, int a_across, int b_across)
{
    enum { MOST_K = 16 };
    float x[2][MOST_K];
    int warp = (int)t->warp % 4;
    warp_meet(t, UINT32_MAX);
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < k; i++) {
            int row = (int)t->lane / 4;
            int each = kind == 2 ? 1 : 2, q = i / each % 4, half = i / (4 * each);
            x[h][i] = own ? number(own[row * 4 + q][half * 2 + h], kind, i % each)
                          : described(t, a, warp * 16 + row + h * 8, i, kind, a_across);
        }
    for (int j = 0; j < n / 8; j++)
        for (int c = 0; c < 2; c++) {
            float y[MOST_K];
            for (int i = 0; i < k; i++)
                y[i] = described(t, b, j * 8 + (int)t->lane % 4 * 2 + c, i, kind, b_across);
            for (int h = 0; h < 2; h++) {
                double sum = add ? as_f32(d[j * 4 + h * 2 + c]) : 0;
                for (int i = 0; i < k; i++)
                    sum += (double)x[h][i] * y[i];
                d[j * 4 + h * 2 + c] = of_f32((float)sum);
            }
        }
}

/* ---- a launch ---- */

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
    int threads = (int)(l->block[0] * l->block[1] * l->block[2]),
        n = l->cluster ? (int)l->cluster : 1;
    const char *order = getenv("PTX_ORDER");
    cluster c = {.n = n, .n_threads = n * threads};
    c.blocks = calloc((size_t)n, sizeof *c.blocks);
    c.threads = calloc((size_t)c.n_threads, sizeof *c.threads);
    current = e;
    for (uint32_t z = 0; z < l->grid[2]; z++)
        for (uint32_t y = 0; y < l->grid[1]; y++)
            for (uint32_t x = 0; x < l->grid[0]; x += (uint32_t)n) {
                for (int r = 0; r < n; r++) {
                    fill_block(&c.blocks[r], &c, r, threads, l);
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
