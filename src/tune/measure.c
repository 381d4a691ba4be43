/* measure.c -- runs a candidate on made-up data and looks at the clock.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Activations are warm, as the step before leaves them. Constants are warm too, although in a network that
 * does not fit the caches they are not: the time to read them (in the form the tactic wants, which may be
 * larger) from memory is added where they are that large. */
#include "tune/measure.h"

#include <math.h>

#include "tune/made_up.h"

static void *block(cm_bench_data *d, size_t bytes)
{
    if (d->n_blocks == CM_COUNT(d->blocks))
        return NULL;
    void *p = cm_alloc(d->allocator, bytes ? bytes : 1, 64);
    if (p) {
        d->blocks[d->n_blocks].data = p;
        d->blocks[d->n_blocks++].bytes = bytes ? bytes : 1;
    }
    return p;
}

static bool give(cm_bench_data *d, const cm_tensor *t, const void **out)
{
    if (t->data) { /* a constant, or known to shape arithmetic */
        *out = t->data;
        return true;
    }
    size_t bytes = cm_extent_bytes(t);
    void *p = block(d, bytes);
    if (p)
        cm_make_up(t->dtype, p, bytes);
    *out = p;
    return p != NULL;
}

bool cm_bench_data_init(cm_bench_data *d, const cm_allocator *allocator, const cm_problem *p)
{
    *d = (cm_bench_data){.allocator = allocator};
    bool good = p->n_in <= CM_COUNT(d->in) && p->n_operands <= CM_COUNT(d->operands) &&
                p->n_out <= CM_COUNT(d->out);
    for (int i = 0; good && i < p->n_in; i++)
        good = !p->in[i] || give(d, p->in[i], &d->in[i]);
    for (int i = 0; good && i < p->n_operands; i++)
        good = !p->operands[i] || give(d, p->operands[i], &d->operands[i]);
    for (int o = 0; good && o < p->n_out; o++)
        if (p->out[o])
            good = (d->out[o] = block(d, cm_extent_bytes(p->out[o]))) != NULL;
    if (!good)
        cm_bench_data_deinit(d);
    return good;
}

void cm_bench_data_deinit(cm_bench_data *d)
{
    while (d->n_blocks) {
        d->n_blocks--;
        cm_release(d->allocator, d->blocks[d->n_blocks].data, d->blocks[d->n_blocks].bytes);
    }
}

static double time_runs(const cm_run *r, const cm_tactic *t, double hopeless_ns, int repeats)
{
    double best = INFINITY, spent = 0;
    for (int i = 0; i < repeats + 1; i++) {
        uint64_t start = cm_now_ns();
        if (t->run(r) != CM_OK)
            return NAN;
        double ns = (double)(cm_now_ns() - start);
        spent += ns;
        if (i > 0 || repeats == 0) /* the first one wakes threads and touches pages */
            best = ns < best ? ns : best;
        if (ns > hopeless_ns || spent > 30e6)
            return ns < best ? ns : best;
    }
    return best;
}

/* Reading constants from memory, at the pace that one core keeps up. */
static double cold_ns(size_t bytes)
{
    enum { STAYS_IN_CACHE = 256 << 10 };
    return bytes > STAYS_IN_CACHE ? (double)bytes / 16 : 0;
}

double cm_measure(cm_bench_data *d, const cm_problem *p, const cm_candidate *c, cm_threads *threads,
                  double hopeless_ns, int repeats)
{
    const cm_tactic *t = c->tactic;
    const void *in[CM_COUNT(d->in)] = {0};
    int mark = d->n_blocks;
    bool good = true;
    double cold = 0;
    for (int i = 0; good && i < p->n_in; i++) {
        in[i] = d->in[i];
        if (!p->in[i] || !p->constant[i])
            continue;
        size_t packed = t->pack_bytes ? t->pack_bytes(p, &c->knobs, i) : 0;
        cold += cold_ns(packed ? packed : cm_extent_bytes(p->in[i]));
        if (!packed)
            continue;
        void *to = block(d, packed);
        good = to != NULL;
        if (good)
            t->pack(p, &c->knobs, i, d->in[i], to, threads);
        in[i] = to;
    }
    void *workspace = good && t->workspace ? block(d, t->workspace(p, &c->knobs)) : NULL;
    good = good && (!t->workspace || workspace);
    cm_ctx cx = {.allocator = d->allocator};
    cm_run r = {.cx = &cx,
                .p = p,
                .k = &c->knobs,
                .in = in,
                .out = d->out,
                .operands = d->operands,
                .workspace = workspace,
                .threads = threads};
    double ns = good ? time_runs(&r, t, hopeless_ns - cold, repeats) + cold : NAN;
    while (d->n_blocks > mark) {
        d->n_blocks--;
        cm_release(d->allocator, d->blocks[d->n_blocks].data, d->blocks[d->n_blocks].bytes);
    }
    return ns;
}
