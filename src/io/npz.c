/* npz.c -- NumPy's npz: a zip archive of npy files.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Zip is read from the end: an end record says where the central directory lies, and that says
 * where each entry's local header and bytes are. zip64 records carry what does not fit 32 bits. */
#include "io/io.h"

#include <string.h>
#include <zlib.h>

#include "base/map.h"
#include "base/size.h"
#include "io/npy_header.h"

enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    END64 = 0x06064b50,
    LOCATOR64 = 0x07064b50,
    STORED = 0,
    DEFLATED = 8,
};

typedef struct {
    const char *name;
    unsigned method;
    uint32_t crc;
    uint64_t packed, unpacked, local; /* bytes, bytes, offset of the local header */
} entry;

struct cm_npz {
    const unsigned char *bytes;
    uint64_t n;
    entry *entries;
    int n_entries;
    cm_map by_name; /* to entry */
};

static unsigned get16(const unsigned char *p)
{
    return (unsigned)p[0] | (unsigned)p[1] << 8;
}

static uint32_t get32(const unsigned char *p)
{
    return get16(p) | (uint32_t)get16(p + 2) << 16;
}

static uint64_t get64(const unsigned char *p)
{
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

static cm_status damaged(cm_ctx *cx, const char *what)
{
    return cm_fail(cx, CM_ERR_DATA, "npz archive is damaged: %s", what);
}

/* Where the central directory begins, how long it is, how many entries it has. */
static cm_status find_directory(cm_ctx *cx, const cm_npz *z, uint64_t *at, uint64_t *bytes,
                                uint64_t *count)
{
    const unsigned char *b = z->bytes;
    if (z->n < 22)
        return cm_fail(cx, CM_ERR_DATA, "not an npz archive: %llu bytes", (unsigned long long)z->n);
    uint64_t end = z->n - 22, stop = end > 65535 ? end - 65535 : 0;
    while (get32(b + end) != END || get16(b + end + 20) != z->n - end - 22) {
        if (end == stop)
            return cm_fail(cx, CM_ERR_DATA, "not an npz archive: no end of a zip directory");
        end--;
    }
    *count = get16(b + end + 10);
    *bytes = get32(b + end + 12);
    *at = get32(b + end + 16);
    if (end >= 20 && get32(b + end - 20) == LOCATOR64) {
        uint64_t where = get64(b + end - 12);
        if (end - 20 < 56 || where > end - 20 - 56 || get32(b + where) != END64)
            return damaged(cx, "no zip64 end record where its locator points");
        *count = get64(b + where + 32);
        *bytes = get64(b + where + 40);
        *at = get64(b + where + 48);
        end = where;
    }
    if (*at > end || *bytes > end - *at || *count > *bytes / 46)
        return damaged(cx, "its directory does not lie inside the file");
    return CM_OK;
}

/* 64-bit sizes from the extra field where the 32-bit ones are all ones. */
static bool read_extra(const unsigned char *p, size_t n, entry *e)
{
    bool need = e->unpacked == UINT32_MAX || e->packed == UINT32_MAX || e->local == UINT32_MAX;
    while (n >= 4) {
        size_t len = get16(p + 2);
        if (len > n - 4)
            return !need;
        if (get16(p) == 1) {
            const unsigned char *q = p + 4, *end = q + len;
            uint64_t *wide[3] = {&e->unpacked, &e->packed, &e->local};
            for (int i = 0; i < 3; i++)
                if (*wide[i] == UINT32_MAX) {
                    if (end - q < 8)
                        return false;
                    *wide[i] = get64(q);
                    q += 8;
                }
            return true;
        }
        p += 4 + len;
        n -= 4 + len;
    }
    return !need;
}

static cm_status read_entry(cm_ctx *cx, cm_arena *arena, cm_npz *z, const unsigned char **p,
                            const unsigned char *end)
{
    const unsigned char *c = *p;
    if (end - c < 46 || get32(c) != CENTRAL)
        return damaged(cx, "a directory entry is cut short");
    const size_t n_name = get16(c + 28), n_extra = get16(c + 30), n_comment = get16(c + 32);
    if ((size_t)(end - c) - 46 < n_name + n_extra + n_comment)
        return damaged(cx, "a directory entry is cut short");
    *p = c + 46 + n_name + n_extra + n_comment;
    const char *name = (const char *)c + 46;
    if (n_name < 4 || memcmp(name + n_name - 4, ".npy", 4) != 0)
        return CM_OK;
    entry *e = &z->entries[z->n_entries];
    e->method = get16(c + 10);
    e->crc = get32(c + 16);
    e->packed = get32(c + 20);
    e->unpacked = get32(c + 24);
    e->local = get32(c + 42);
    if (!read_extra(c + 46 + n_name, n_extra, e))
        return damaged(cx, "an entry wants 64-bit sizes that are not there");
    e->name = cm_arena_strndup(arena, name, n_name - 4);
    if (!e->name)
        return cm_fail_memory(cx);
    if (strlen(e->name) != n_name - 4)
        return damaged(cx, "an entry's name holds a NUL");
    if (get16(c + 8) & 1)
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "npz entry '%s' is encrypted", e->name);
    if (e->method != STORED && e->method != DEFLATED)
        return cm_fail(cx, CM_ERR_UNSUPPORTED,
                       "npz entry '%s': compression method %u is neither "
                       "stored nor deflate",
                       e->name, e->method);
    if (cm_map_has(&z->by_name, e->name))
        return cm_fail(cx, CM_ERR_DATA, "npz archive has two entries '%s'", e->name);
    if (!cm_map_put(&z->by_name, e->name, e))
        return cm_fail_memory(cx);
    z->n_entries++;
    return CM_OK;
}

cm_status cm_npz_open(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n, cm_npz **out)
{
    cm_npz *z;
    uint64_t at = 0, size = 0, count = 0;
    CM_NEW(cx, arena, z, cm_npz);
    z->bytes = bytes;
    z->n = n;
    CM_TRY(find_directory(cx, z, &at, &size, &count));
    if (count > INT32_MAX)
        return damaged(cx, "too many entries");
    CM_NEW_N(cx, arena, z->entries, count + 1, entry);
    cm_map_init(&z->by_name, arena);
    const unsigned char *p = z->bytes + at, *end = p + size;
    for (uint64_t i = 0; i < count; i++)
        CM_TRY(read_entry(cx, arena, z, &p, end));
    *out = z;
    return CM_OK;
}

int cm_npz_count(const cm_npz *z)
{
    return z->n_entries;
}

const char *cm_npz_name(const cm_npz *z, int index)
{
    return z->entries[index].name;
}

int cm_npz_find(const cm_npz *z, const char *name)
{
    const entry *e = cm_map_get(&z->by_name, name);
    return e ? (int)(e - z->entries) : -1;
}

/* Inflate up to n_out bytes of e. *got is how many there were; false when the stream is broken. */
static bool inflate_some(const unsigned char *src, uint64_t n, unsigned char *out, uint64_t n_out,
                         uint64_t *got, bool *ended)
{
    z_stream s = {0};
    if (inflateInit2(&s, -MAX_WBITS) != Z_OK)
        return false;
    uint64_t in = 0, done = 0;
    int rc = Z_OK;
    while (rc == Z_OK) {
        const uInt step_in = n - in > 1 << 30 ? 1u << 30 : (uInt)(n - in);
        const uInt step_out = n_out - done > 1 << 30 ? 1u << 30 : (uInt)(n_out - done);
        s.next_in = (Bytef *)(uintptr_t)(src + in);
        s.avail_in = step_in;
        s.next_out = out + done;
        s.avail_out = step_out;
        rc = inflate(&s, Z_NO_FLUSH);
        in += step_in - s.avail_in;
        done += step_out - s.avail_out;
        if (step_in == s.avail_in && step_out == s.avail_out)
            break; /* no progress: out of room, or of input */
    }
    inflateEnd(&s);
    *got = done;
    *ended = rc == Z_STREAM_END;
    return rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR;
}

/* The entry's bytes in the archive. */
static cm_status entry_bytes(cm_ctx *cx, const cm_npz *z, const entry *e, const unsigned char **out)
{
    if (e->local > z->n || z->n - e->local < 30 || get32(z->bytes + e->local) != LOCAL)
        return damaged(cx, "no entry where the directory points");
    const unsigned char *l = z->bytes + e->local;
    const uint64_t head = 30 + (uint64_t)get16(l + 26) + get16(l + 28);
    if (z->n - e->local < head || z->n - e->local - head < e->packed)
        return damaged(cx, "an entry does not lie inside the file");
    *out = l + head;
    return CM_OK;
}

static cm_status read_deflated(cm_ctx *cx, cm_arena *arena, const entry *e,
                               const unsigned char *src, cm_tensor *out)
{
    /* The head first: what it says must be what the directory says, or nothing is allocated. */
    unsigned char *head = cm_alloc(cx->allocator, CM_NPY_HEADER_MAX, 16);
    if (!head)
        return cm_fail_memory(cx);
    uint64_t got;
    bool ended, fine = inflate_some(src, e->packed, head, CM_NPY_HEADER_MAX, &got, &ended);
    cm_npy_header h = {0};
    cm_status st = fine ? cm_npy_header_read(cx, head, (size_t)got, &h)
                        : damaged(cx, "a deflated entry cannot be inflated");
    cm_release(cx->allocator, head, CM_NPY_HEADER_MAX);
    CM_TRY(st);
    size_t total;
    if (!cm_add(h.header_bytes, h.data_bytes, &total) || total != e->unpacked)
        return cm_fail(cx, CM_ERR_DATA, "%llu bytes in the archive, %zu + %zu by its npy header",
                       (unsigned long long)e->unpacked, h.header_bytes, h.data_bytes);
    if (total / 1040 > e->packed) /* deflate's best is 1032 to 1 */
        return damaged(cx, "an entry claims more than its bytes can hold");
    unsigned char *all = cm_alloc(cx->allocator, total + 1, 64);
    if (!all)
        return cm_fail_memory(cx);
    fine = inflate_some(src, e->packed, all, total + 1, &got, &ended) && ended && got == total;
    if (!fine)
        st = damaged(cx, "a deflated entry cannot be inflated to its stated size");
    else if (crc32_z(0, all, total) != e->crc)
        st = damaged(cx, "an entry's checksum is wrong");
    else
        st = cm_npy_read(cx, arena, all, total, out);
    cm_release(cx->allocator, all, total + 1);
    return st;
}

cm_status cm_npz_read(cm_ctx *cx, cm_arena *arena, const cm_npz *z, int index, cm_tensor *out)
{
    const entry *e = &z->entries[index];
    const unsigned char *src = NULL;
    cm_status st = entry_bytes(cx, z, e, &src);
    if (st == CM_OK && e->method == DEFLATED) {
        st = read_deflated(cx, arena, e, src, out);
    } else if (st == CM_OK) {
        if (e->packed != e->unpacked)
            st = damaged(cx, "a stored entry with two sizes");
        else if (crc32_z(0, src, (size_t)e->packed) != e->crc)
            st = damaged(cx, "an entry's checksum is wrong");
        else
            st = cm_npy_read(cx, arena, src, (size_t)e->packed, out);
    }
    return st == CM_OK ? CM_OK : cm_while(cx, st, "npz entry '%s'", e->name);
}

/* ---- writing ---- */

static void put16(cm_buf *b, unsigned v)
{
    cm_buf_u8(b, (uint8_t)v);
    cm_buf_u8(b, (uint8_t)(v >> 8));
}

static uint32_t narrow(uint64_t v)
{
    return v >= UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

/* Deflate `n` bytes onto out. */
static bool deflate_all(const unsigned char *p, size_t n, cm_buf *out)
{
    unsigned char piece[16384];
    z_stream s = {0};
    if (deflateInit2(&s, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    size_t at = 0;
    int rc = Z_OK;
    while (rc == Z_OK) {
        const uInt step = n - at > 1 << 30 ? 1u << 30 : (uInt)(n - at);
        s.next_in = (Bytef *)(uintptr_t)(p + at);
        s.avail_in = step;
        s.next_out = piece;
        s.avail_out = sizeof piece;
        rc = deflate(&s, step == n - at ? Z_FINISH : Z_NO_FLUSH);
        at += step - s.avail_in;
        cm_buf_bytes(out, piece, sizeof piece - s.avail_out);
    }
    deflateEnd(&s);
    return rc == Z_STREAM_END && !out->failed;
}

/* Dates are 1980-01-01: the same tensors give the same bytes. */
static void put_common(cm_buf *b, const entry *e)
{
    put16(b, 45);
    put16(b, 0x800); /* names are UTF-8 */
    put16(b, e->method);
    put16(b, 0);
    put16(b, 33);
    cm_buf_u32(b, e->crc);
    cm_buf_u32(b, narrow(e->packed));
    cm_buf_u32(b, narrow(e->unpacked));
    put16(b, (unsigned)strlen(e->name) + 4);
}

static void put_local(cm_buf *b, const entry *e)
{
    const bool wide = e->packed >= UINT32_MAX || e->unpacked >= UINT32_MAX;
    entry both = *e;
    if (wide) /* a local zip64 field holds both sizes */
        both.packed = both.unpacked = UINT32_MAX;
    cm_buf_u32(b, LOCAL);
    put_common(b, &both);
    put16(b, wide ? 20 : 0);
    cm_buf_str(b, e->name);
    cm_buf_str(b, ".npy");
    if (wide) {
        put16(b, 1);
        put16(b, 16);
        cm_buf_u64(b, e->unpacked);
        cm_buf_u64(b, e->packed);
    }
}

static void put_central(cm_buf *b, const entry *e)
{
    const uint64_t wide[3] = {e->unpacked, e->packed, e->local};
    unsigned n_wide = 0;
    for (int i = 0; i < 3; i++)
        n_wide += wide[i] >= UINT32_MAX;
    cm_buf_u32(b, CENTRAL);
    put16(b, 45);
    put_common(b, e);
    put16(b, n_wide ? 4 + 8 * n_wide : 0);
    put16(b, 0);
    put16(b, 0);
    put16(b, 0);
    cm_buf_u32(b, 0);
    cm_buf_u32(b, narrow(e->local));
    cm_buf_str(b, e->name);
    cm_buf_str(b, ".npy");
    if (n_wide) {
        put16(b, 1);
        put16(b, 8 * n_wide);
        for (int i = 0; i < 3; i++)
            if (wide[i] >= UINT32_MAX)
                cm_buf_u64(b, wide[i]);
    }
}

static void put_end(cm_buf *b, uint64_t start, int n, uint64_t directory)
{
    const uint64_t bytes = b->n - start - directory, end = b->n - start;
    if (n >= 0xFFFF || directory >= UINT32_MAX || bytes >= UINT32_MAX) {
        cm_buf_u32(b, END64);
        cm_buf_u64(b, 44);
        put16(b, 45);
        put16(b, 45);
        cm_buf_u32(b, 0);
        cm_buf_u32(b, 0);
        cm_buf_u64(b, (uint64_t)n);
        cm_buf_u64(b, (uint64_t)n);
        cm_buf_u64(b, bytes);
        cm_buf_u64(b, directory);
        cm_buf_u32(b, LOCATOR64);
        cm_buf_u32(b, 0);
        cm_buf_u64(b, end);
        cm_buf_u32(b, 1);
    }
    const unsigned count = n >= 0xFFFF ? 0xFFFF : (unsigned)n;
    cm_buf_u32(b, END);
    put16(b, 0);
    put16(b, 0);
    put16(b, count);
    put16(b, count);
    cm_buf_u32(b, narrow(bytes));
    cm_buf_u32(b, narrow(directory));
    put16(b, 0);
}

static cm_status write_entry(cm_ctx *cx, const cm_tensor *t, bool deflate, entry *e, cm_buf *npy,
                             cm_buf *packed, cm_buf *out)
{
    npy->n = packed->n = 0;
    CM_TRY(cm_npy_write(cx, t, npy));
    e->crc = (uint32_t)crc32_z(0, npy->data, npy->n);
    e->unpacked = e->packed = npy->n;
    e->method = STORED;
    if (deflate) {
        if (!deflate_all(npy->data, npy->n, packed))
            return cm_fail_memory(cx);
        e->packed = packed->n;
        e->method = DEFLATED;
    }
    put_local(out, e);
    cm_buf_bytes(out, deflate ? packed->data : npy->data, (size_t)e->packed);
    return out->failed ? cm_fail_memory(cx) : CM_OK;
}

cm_status cm_npz_write(cm_ctx *cx, int n, const char *const *names, const cm_tensor *const *tensors,
                       bool deflate, cm_buf *out)
{
    const uint64_t start = out->n;
    const size_t bytes = ((size_t)n + 1) * sizeof(entry);
    entry *entries = cm_alloc(cx->allocator, bytes, 16);
    if (!entries)
        return cm_fail_memory(cx);
    cm_buf npy, packed;
    cm_buf_init(&npy, cx->allocator);
    cm_buf_init(&packed, cx->allocator);
    cm_status st = CM_OK;
    for (int i = 0; i < n && st == CM_OK; i++) {
        entries[i] = (entry){.name = names[i], .local = out->n - start};
        if (strlen(names[i]) > 60000)
            st = cm_fail(cx, CM_ERR_ARGUMENT, "npz: a name of %zu bytes is too long",
                         strlen(names[i]));
        else
            st = write_entry(cx, tensors[i], deflate, &entries[i], &npy, &packed, out);
    }
    const uint64_t directory = out->n - start;
    for (int i = 0; i < n && st == CM_OK; i++)
        put_central(out, &entries[i]);
    if (st == CM_OK)
        put_end(out, start, n, directory);
    cm_buf_deinit(&npy);
    cm_buf_deinit(&packed);
    cm_release(cx->allocator, entries, bytes);
    if (st == CM_OK && out->failed)
        st = cm_fail_memory(cx);
    return st;
}
