/* ptx_copies.h -- copies to and from shared memory that threads do not wait for: single ones, and boxes of tensor maps.
 * SPDX-License-Identifier: Apache-2.0 */
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
    b->ranks = ranks ? ranks : (uint16_t)(1 << (to >> RANK_SHIFT));
    if (shift)
        memcpy(b->shift, shift, 2 * sizeof *shift);
}
static void store_box(thread *t, uint64_t map, const int32_t *at, int rank, uint32_t from)
{
    box_copy *b = ask(t, map, at, rank, from);
    b->store = 1;
    b->ranks = (uint16_t)(1 << t->b->rank);
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
