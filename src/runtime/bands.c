/* bands.c -- which steps are chains, and how they run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/bands.h"

#include <stdatomic.h>
#include <string.h>

#include "base/cpu.h"
#include "base/size.h"

/* ---- Finding them ----------------------------------------------------------------------------- */

/* The second-level cache of one thread. */
static int64_t cache_bytes(void)
{
    int64_t bytes = cm_cpu_info()->l2_bytes;
    return bytes > 0 ? bytes : 256 << 10;
}

static const cm_solution *solution(const cm_context *c, const cm_ready_step *s)
{
    return &c->solutions[s->index];
}

static bool runs_in_bands(const cm_context *c, const cm_ready_step *s)
{
    const cm_solution *sol = solution(c, s);
    if (s->plan->n_in > CM_CHAIN_INPUTS || s->control >= 0 || sol->way != CM_WAY_TACTIC ||
        sol->away || !sol->choice.tactic->band || sol->n_conversions ||
        sol->p.kind != CM_PROBLEM_CONV)
        return false;
    const cm_conv *k = &sol->p.as.conv;
    return k->axes == 2 && k->n == 1 && sol->p.constant[1] && cm_tensor_elems(sol->p.out[0]) > 0;
}

/* Rows that lie one behind the other, their channels innermost. */
static bool has_rows(const cm_tensor *t)
{
    return t->strides[1] == 1 && t->strides[3] == t->dims[1] &&
           t->strides[2] == t->dims[1] * t->dims[3];
}

static int64_t row_bytes(const cm_solution *sol)
{
    const cm_tensor *t = sol->p.out[0];
    return t->strides[2] * (int64_t)cm_dtype_size(t->dtype);
}

/* Does the next step alone read what this one makes, and is that too much for the caches? */
static bool links(const cm_context *c, const cm_ready_step *s, const cm_ready_step *next)
{
    int32_t v = s->plan->out[0].value;
    const cm_solution *sol = solution(c, s);
    if (!runs_in_bands(c, s) || !runs_in_bands(c, next) || next->plan->in[0].value != v)
        return false;
    for (int i = 1; i < next->plan->n_in; i++)
        if (next->plan->in[i].value == v)
            return false;
    if (c->last[v] != next->end || cm_is_output(c, v) || !c->engine->values[v].in_arena)
        return false;
    const cm_tensor *t = sol->p.out[0];
    int64_t bytes = t->dims[2] * row_bytes(sol), threads = cm_threads_count(c->threads);
    /* Several threads gain besides what the next step need not wait for: that all of them are done. */
    return has_rows(t) && bytes / threads > cache_bytes() / (threads > 1 ? 2 : 1);
}

/* Rows of the input under `rows` rows of the output, at most. */
static int64_t rows_under(const cm_conv *k, int64_t rows)
{
    int64_t reach = (rows - 1) * k->stride[1] + (k->kernel[1] - 1) * k->dilation[1] + 1;
    return cm_min_i64(reach, k->in[1]);
}

/* What all steps of a chain touch for a band of so many rows. */
static int64_t touched(const cm_context *c, const cm_ready_step *s, int n, int64_t rows)
{
    int64_t bytes = 0;
    for (int i = n - 1; i >= 0; i--) {
        const cm_solution *sol = solution(c, &s[i]);
        bytes += rows * row_bytes(sol) + cm_tensor_elems(sol->p.in[1]) * 4;
        rows = rows_under(&sol->p.as.conv, rows);
    }
    return bytes;
}

/* The last step's rows that are made at a time: as many as leave all that a good part of the cache. 0: not
 * even one. */
static int64_t band_rows(const cm_context *c, const cm_ready_step *s, int n)
{
    int64_t all = solution(c, &s[n - 1])->p.as.conv.out[1], rows = 0;
    while (rows < all && touched(c, s, n, rows + 1) <= cache_bytes() * 3 / 8)
        rows++;
    return rows;
}

/* Memory for two bands, so that what the second needs of the first is moved but every other time. */
static void keep_rows(cm_context *c, const cm_ready_step *s, int n, int64_t rows)
{
    for (int i = n - 1; i > 0; i--) {
        const cm_conv *k = &solution(c, &s[i])->p.as.conv;
        int64_t more = rows * k->stride[1];
        rows = rows_under(k, rows);
        c->solutions[s[i - 1].index].kept = cm_min_i64(rows + more, k->in[1]);
    }
}

static void live_until(cm_context *c, const cm_ready_step *s, int end)
{
    for (int i = 0; i < s->plan->n_in; i++) {
        int32_t v = s->plan->in[i].value;
        if (v >= 0 && c->last[v] < end)
            c->last[v] = end;
    }
}

void cm_chains_find(cm_context *c)
{
    const cm_ready_list *l = &c->engine->lists[0];
    bool watched = c->profile && !c->only_times; /* all values are looked at */
    int n_steps = c->device || watched ? 0 : l->plan->n_steps;
    for (int i = 0; i < c->engine->n_steps; i++)
        c->solutions[i].chain = c->solutions[i].until = c->solutions[i].kept = 0;
    for (int i = 0, n; i < n_steps; i += n) {
        const cm_ready_step *s = &l->steps[i];
        for (n = 1; i + n < n_steps && n < CM_CHAIN_MOST && links(c, &s[n - 1], &s[n]);)
            n++;
        int64_t rows = 0;
        while (n > 1 && (rows = band_rows(c, s, n)) == 0)
            n--;
        if (!rows)
            continue;
        c->solutions[s->index].chain = n;
        c->solutions[s->index].band = rows;
        keep_rows(c, s, n, rows);
        for (int k = 0; k < n; k++) {
            live_until(c, &s[k], s[n - 1].end);
            c->solutions[s[k].index].until = s[n - 1].end;
        }
    }
}

/* ---- Running them ----------------------------------------------------------------------------- */

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Every thread has a part of the last step's rows, and memory and a workspace of its own. */
static int64_t parts_of(const cm_context *c)
{
    return cm_threads_count(c->threads);
}

size_t cm_chain_bytes(const cm_context *c, const cm_solution *sol, size_t bytes)
{
    return sol->kept ? (size_t)(parts_of(c) * sol->kept * row_bytes(sol)) : bytes;
}

size_t cm_chain_workspace(const cm_context *c, const cm_solution *sol)
{
    return sol->until ? (size_t)parts_of(c) * rounded(sol->workspace) : sol->workspace;
}

typedef struct {
    cm_ctx *cx;
    cm_context *c;
    const cm_ready_step *s;
    int n;
    int64_t band, rows; /* of the last step's output: at a time, in all */
    atomic_ullong ns[CM_CHAIN_MOST];
} chain;

/* A step in one part: pointers of its run, and rows [from, done) of its output, the first at `memory`. */
typedef struct {
    const cm_solution *sol;
    const void *in[CM_CHAIN_INPUTS];
    void *out;
    void *workspace;
    int64_t row_bytes, kept; /* kept: rows that there is memory for */
    int64_t from, done;
    unsigned char *memory;
} link;

/* Where row 0 would be. */
static void *row_zero(const link *k)
{
    return (void *)((uintptr_t)k->memory - (uintptr_t)(k->from * k->row_bytes));
}

static void begin_link(const chain *h, link *k, const cm_ready_step *s, int64_t part, int64_t row)
{
    const cm_solution *sol = solution(h->c, s);
    *k = (link){.sol = sol,
                .workspace = cm_run_of(h->cx, h->c, sol).workspace,
                .row_bytes = row_bytes(sol),
                .kept = sol->kept ? sol->kept : sol->p.as.conv.out[1],
                .done = row,
                .memory = sol->out_data[0]};
    memcpy(k->in, sol->data, (size_t)sol->n_in * sizeof *k->in);
    k->workspace = (char *)k->workspace + part * (int64_t)rounded(sol->workspace);
    if (sol->kept) {
        k->from = row;
        k->memory += part * sol->kept * k->row_bytes;
    }
}

/* Rows up to `end` of the output, those before `begin` being wanted no more. */
static void make_rows(const chain *h, link *k, const link *before, int64_t begin, int64_t end)
{
    if (end - k->from > k->kept) {
        if (k->done > begin)
            memmove(k->memory, k->memory + (begin - k->from) * k->row_bytes,
                    (size_t)((k->done - begin) * k->row_bytes));
        k->from = begin;
    }
    k->done = cm_max_i64(k->done, k->from);
    if (end <= k->done)
        return;
    if (before)
        k->in[0] = row_zero(before);
    k->out = row_zero(k);
    cm_run r = cm_run_of(h->cx, h->c, k->sol);
    r.in = k->in;
    r.operands = k->in + k->sol->p.n_in;
    r.out = &k->out;
    r.workspace = k->workspace;
    r.threads = NULL;
    k->sol->choice.tactic->band(&r, k->done, end);
    k->done = end;
}

/* The rows of each step under rows [begin, end) of the last one's output. */
static void rows_wanted(const chain *h, int64_t begin, int64_t end, int64_t *first, int64_t *last)
{
    first[h->n - 1] = begin;
    last[h->n - 1] = end;
    for (int i = h->n - 1; i > 0; i--) {
        const cm_conv *k = &solution(h->c, &h->s[i])->p.as.conv;
        int64_t reach = (k->kernel[1] - 1) * k->dilation[1] + 1;
        first[i - 1] = cm_max_i64(first[i] * k->stride[1] - k->pad[1], 0);
        last[i - 1] = cm_min_i64((last[i] - 1) * k->stride[1] - k->pad[1] + reach, k->in[1]);
    }
}

static void one_part(chain *h, int64_t part, int64_t begin, int64_t end)
{
    link links[CM_CHAIN_MOST];
    int64_t first[CM_CHAIN_MOST], last[CM_CHAIN_MOST];
    rows_wanted(h, begin, end, first, last);
    for (int i = 0; i < h->n; i++)
        begin_link(h, &links[i], &h->s[i], part, first[i]);
    for (int64_t row = begin; row < end; row += h->band) {
        rows_wanted(h, row, cm_min_i64(row + h->band, end), first, last);
        for (int i = 0; i < h->n; i++) {
            uint64_t start = h->c->profile ? cm_now_ns() : 0;
            make_rows(h, &links[i], i ? &links[i - 1] : NULL, first[i], last[i]);
            if (h->c->profile)
                atomic_fetch_add_explicit(&h->ns[i], cm_now_ns() - start, memory_order_relaxed);
        }
    }
}

static void some_parts(void *arg, int64_t begin, int64_t end)
{
    chain *h = arg;
    int64_t parts = parts_of(h->c);
    for (int64_t i = begin; i < end; i++)
        one_part(h, i, i * h->rows / parts, (i + 1) * h->rows / parts);
}

cm_status cm_run_chain(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    const cm_solution *sol = solution(c, s);
    chain h = {.cx = cx, .c = c, .s = s, .n = sol->chain, .band = sol->band};
    h.rows = solution(c, &s[h.n - 1])->p.as.conv.out[1];
    uint64_t start = c->profile ? cm_now_ns() : 0;
    CM_TRY(cm_check_cancel(cx));
    for (int i = 0; i < h.n; i++)
        CM_TRY(cm_set_pointers(cx, c, &s[i], &c->solutions[s[i].index]));
    cm_parallel(c->threads, parts_of(c), 1, some_parts, &h);
    for (int i = 0; c->profile && i < h.n; i++) {
        uint64_t ns = h.ns[i] / (uint64_t)parts_of(c);
        c->profile(c->profile_user, s[i].index, start, start + ns);
        start += ns;
    }
    return CM_OK;
}
