/* nodes.c -- single nodes on a GPU: every tactic and setting, beside a copy of as many bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Usage: nodes [last] [WORD]...: only nodes whose text holds one of them. `last`: images have their channels innermost. For each node and setting
 * that may be the best: microseconds, GB/s of inputs
 * and outputs, which fraction of a copy's that is, and TFLOP/s of attention. Kernels are compiled by all cores, in the order
 * in which they are wanted. Times are those of a recording of many runs, by the device's clock. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/network.h"
#include "ops/problem.h"
#include "plan/backend.h"

#include "node_texts.h"

enum { MOST_TRIALS = 512, REPEATS = 20, MOST = 16, FEW = 64 };

typedef struct {
    const char *text;
    cm_arena arena;
    cm_tensor in[MOST], out[MOST];
    const cm_tensor *ins[MOST], *outs[MOST];
    bool constant[MOST];
    cm_problem p;
    double bytes, flops, copy_ns;
} node;

typedef struct {
    const node *of;
    const cm_tactic *tactic;
    cm_knobs knobs;
    cm_arena arena;
    const void *state;
    cm_status ready;
    bool compiled;
    char message[1024];
} trial;

static node nodes[CM_COUNT(texts)];
static trial trials[MOST_TRIALS];
static int n_nodes, n_trials, next_trial;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t one_compiled = PTHREAD_COND_INITIALIZER;
static bool channels_last;
static const cm_device_api *api;
static cm_device *device;
static cm_stream *stream;
static unsigned char *memory;
static const size_t MEMORY = (size_t)6 << 30;

static void must(const cm_ctx *cx, cm_status st)
{
    if (st == CM_OK)
        return;
    fprintf(stderr, "nodes: %s\n", cx->message);
    fflush(NULL);
    _Exit(1); /* while other threads compile, nothing of theirs may be taken down */
}

static size_t bytes_of(const cm_tensor *t)
{
    return (size_t)cm_tensor_elems(t) * cm_dtype_size(t->dtype);
}

static void put_channels_last(cm_tensor *t)
{
    t->strides[1] = 1;
    t->strides[3] = t->dims[1];
    t->strides[2] = t->dims[1] * t->dims[3];
    t->strides[0] = t->strides[2] * t->dims[2];
}

static void set_tensor(cm_tensor *t, const cm_value *v)
{
    int64_t dims[CM_MAX_RANK];
    for (int i = 0; i < v->type.rank; i++)
        dims[i] = v->type.dims[i];
    if (!cm_tensor_shape(t, v->type.dtype, v->type.rank, dims))
        exit(1);
    if (channels_last && t->rank == 4 && !v->constant)
        put_channels_last(t);
}

static void set_work(node *n)
{
    const cm_attention *a = &n->p.as.attention;
    for (int i = 0; i < n->p.n_in; i++) {
        bool again = false;
        for (int k = 0; k < i; k++)
            again = again || n->ins[k] == n->ins[i];
        n->bytes += n->ins[i] && !again ? (double)bytes_of(n->ins[i]) : 0;
    }
    if (n->p.kind == CM_PROBLEM_GATHER && n->bytes > 0) /* no more of the data than is asked for */
        n->bytes -= fmax(0, (double)bytes_of(n->ins[n->p.as.gather.data]) -
                                (double)bytes_of(n->outs[0]));
    for (int o = 0; o < n->p.n_out; o++)
        n->bytes += n->outs[o] ? (double)bytes_of(n->outs[o]) : 0;
    if (n->p.kind == CM_PROBLEM_ATTENTION)
        n->flops = 2.0 * (double)(a->batch * a->heads * a->q_len) * (double)a->kv_len *
                   (double)(a->head_size + a->v_head_size) / (a->causal && a->q_len > 1 ? 2 : 1);
}

/* Indices that walk all over the shortest axis of what they pick from. */
static void spread(cm_tensor *t, const cm_tensor *of)
{
    enum { PRIME = 7919 };
    int64_t *v = t->data, n = INT64_MAX;
    for (int i = 0; i < of->rank; i++)
        n = of->dims[i] < n ? of->dims[i] : n;
    for (int64_t i = 0; i < cm_tensor_elems(t); i++)
        v[i] = i * PRIME % n;
}

static void read_node(node *n, const char *text)
{
    cm_network *g;
    *n = (node){.text = text};
    cm_arena_init(&n->arena, NULL);
    cm_ctx cx = {.arena = &n->arena, .scratch = &n->arena};
    must(&cx, cm_network_parse(&cx, &n->arena, text, strlen(text), &g));
    must(&cx, cm_network_infer(&cx, g));
    const cm_node *x = g->first;
    for (int i = 0; i < x->n_in; i++) {
        if (!x->in[i])
            continue;
        set_tensor(&n->in[i], x->in[i]);
        n->ins[i] = &n->in[i];
        n->constant[i] = x->in[i]->constant != NULL;
        n->in[i].data = n->constant[i] ? x->in[i]->constant->data : NULL;
        if (n->constant[i] && n->in[i].dtype == CM_I64 && cm_tensor_elems(&n->in[i]) > FEW)
            spread(&n->in[i], &n->in[0]);
        for (int k = 0; k < i; k++)
            if (x->in[k] == x->in[i])
                n->ins[i] = n->ins[k];
    }
    for (int o = 0; o < x->n_out; o++)
        if (x->out[o]) {
            set_tensor(&n->out[o], x->out[o]);
            n->outs[o] = &n->out[o];
        }
    const cm_problem_row *row = cm_problem_find(x->op);
    n->p = (cm_problem){.kind = row ? row->kind : CM_PROBLEM_EVALUATE,
                        .op = x->op->name,
                        .n_in = x->n_in,
                        .in = n->ins,
                        .constant = n->constant,
                        .n_out = x->n_out,
                        .out = n->outs,
                        .target = api->target(device),
                        .threads = 1};
    if (!row || !row->fill(&n->arena, x->op, x->attr, &n->p)) {
        fprintf(stderr, "nodes: no problem is made of\n%s", text);
        exit(1);
    }
    set_work(n);
}

/* Those that the model says are many times slower than the best are left out. */
static void make_trials(const node *of)
{
    enum { TIMES = 8 };
    cm_knobs knobs[CM_MAX_KNOBS] = {0};
    int n, first = n_trials;
    double best = INFINITY;
    const cm_tactic *rows = cm_backend_for(CM_DEVICE_CUDA)->tactics(of->p.kind, &n);
    for (int t = 0; t < n; t++) {
        if (rows[t].level > of->p.target.level || rows[t].reject(&of->p))
            continue;
        memset(knobs, 0, sizeof knobs);
        int settings = rows[t].knobs ? rows[t].knobs(&of->p, knobs) : 1;
        for (int k = 0; k < settings && n_trials < MOST_TRIALS; k++) {
            trials[n_trials] = (trial){.of = of, .tactic = &rows[t], .knobs = knobs[k]};
            cm_arena_init(&trials[n_trials++].arena, NULL);
            best = fmin(best, rows[t].cost(&of->p, &knobs[k]));
        }
    }
    int kept = first;
    for (int i = first; i < n_trials; i++)
        if (trials[i].tactic->cost(&of->p, &trials[i].knobs) <= TIMES * best)
            trials[kept++] = trials[i];
    n_trials = kept;
}

static void *compile(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        int i = next_trial++;
        pthread_mutex_unlock(&lock);
        if (i >= n_trials)
            return unused;
        trial *x = &trials[i];
        cm_ctx cx = {.arena = &x->arena, .scratch = &x->arena};
        x->ready = x->tactic->ready(&cx, device, &x->arena, &x->of->p, &x->knobs, &x->state);
        snprintf(x->message, sizeof x->message, "%s", cx.message);
        pthread_mutex_lock(&lock);
        x->compiled = true;
        pthread_cond_broadcast(&one_compiled);
        pthread_mutex_unlock(&lock);
    }
}

static void begin_compiling(void)
{
    for (long i = sysconf(_SC_NPROCESSORS_ONLN); i > 0; i--) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, compile, NULL) == 0)
            pthread_detach(thread);
    }
}

static void wait_for(const trial *x)
{
    pthread_mutex_lock(&lock);
    while (!x->compiled)
        pthread_cond_wait(&one_compiled, &lock);
    pthread_mutex_unlock(&lock);
}

/* The device's memory full of numbers in [-1, 1]. */
static void fill_memory(cm_ctx *cx, cm_dtype type)
{
    enum { PIECE = 1 << 24, TYPES = 64 };
    static unsigned char *pieces[TYPES]; /* by type, once they have been wanted */
    unsigned char *piece = pieces[type % TYPES];
    unsigned random = 1;
    int64_t n = piece ? 0 : PIECE / (int64_t)cm_dtype_size(type);
    if (!piece && !(piece = pieces[type % TYPES] = malloc(PIECE)))
        exit(1);
    for (int64_t i = 0; i < n; i++) {
        random = random * 1664525u + 1013904223u;
        cm_set_f64(type, piece, i, (random >> 8) / 8388608.0 - 1);
    }
    must(cx, api->upload(cx, stream, memory, piece, PIECE));
    for (size_t at = PIECE; at < MEMORY; at += PIECE)
        must(cx, api->move(cx, stream, memory + at, memory, PIECE));
    must(cx, api->wait(cx, stream));
}

static unsigned char *place(size_t *used, size_t bytes)
{
    size_t at = *used;
    *used = (at + bytes + 255) / 256 * 256;
    if (*used > MEMORY)
        exit(1);
    return memory + at;
}

/* Of REPEATS runs (without a trial: copies of half of `bytes`, in whole pieces, which are quicker than odd ones), the
 * best of three. */
static double measure(cm_ctx *cx, const trial *x, const cm_run *r, double bytes, cm_mark *from,
                      cm_mark *to)
{
    cm_recording *recording = NULL;
    double best = INFINITY, ns;
    enum { PIECE = 1 << 20 };
    size_t half = (size_t)bytes / 2, whole = half > PIECE ? half / PIECE * PIECE : half;
    if (x)
        must(cx, x->tactic->run(r));
    must(cx, api->record_begin(cx, stream));
    for (int i = 0; i < REPEATS; i++)
        must(cx, x ? x->tactic->run(r) : api->move(cx, stream, memory + MEMORY / 2, memory, whole));
    must(cx, api->record_end(cx, stream, &recording));
    for (int i = 0; i < 3; i++) {
        must(cx, api->mark(cx, stream, from));
        must(cx, api->launch(cx, stream, recording));
        must(cx, api->mark(cx, stream, to));
        must(cx, api->between(cx, device, from, to, &ns));
        best = fmin(best, ns / REPEATS);
    }
    api->recording_close(device, recording);
    return x || whole == 0 ? best : best * (double)half / (double)whole;
}

static void time_trial(cm_ctx *cx, const trial *x, cm_mark *from, cm_mark *to)
{
    const node *n = x->of;
    const cm_problem *p = &n->p;
    const void *in[MOST] = {0};
    void *out[MOST] = {0};
    size_t used = 256;
    if (x->ready != CM_OK) {
        printf("  %-24s fails: %s\n", x->tactic->name, x->message);
        return;
    }
    for (int i = 0; i < p->n_in; i++) {
        for (int k = 0; k < i; k++)
            in[i] = p->in[k] == p->in[i] ? in[k] : in[i];
        if (!p->in[i] || in[i])
            continue;
        unsigned char *at = place(&used, bytes_of(p->in[i]));
        in[i] = at;
        if (p->in[i]->data)
            must(cx, api->upload(cx, stream, at, p->in[i]->data, bytes_of(p->in[i])));
    }
    used = used > MEMORY / 2 ? used : MEMORY / 2; /* so that no node reads what another left */
    for (int o = 0; o < p->n_out; o++)
        out[o] = p->out[o] ? place(&used, bytes_of(p->out[o])) : NULL;
    size_t work = x->tactic->workspace ? x->tactic->workspace(p, &x->knobs) : 0;
    cm_run r = {.cx = cx,
                .p = p,
                .k = &x->knobs,
                .in = in,
                .out = out,
                .workspace = place(&used, work),
                .state = x->state,
                .stream = stream,
                .fault = (uint32_t *)memory,
                .fault_code = 1};
    double ns = measure(cx, x, &r, 0, from, to);
    printf("  %-24s %4d %4d %4d %2d %2d %9.1f us (model %9.1f)  %6.0f GB/s  %.2f of a copy",
           x->tactic->name, x->knobs.v[0], x->knobs.v[1], x->knobs.v[2], x->knobs.v[3],
           x->knobs.v[4], ns / 1000,
           x->tactic->cost(p, &x->knobs) / 1000, n->bytes / ns, n->copy_ns / ns);
    printf(n->flops > 0 ? "  %.0f TFLOP/s\n" : "\n", n->flops / ns / 1000);
}

static bool is_wanted(const char *text, int argc, char **argv)
{
    bool wanted = argc < 2;
    for (int i = 1; i < argc; i++)
        wanted = wanted || strstr(text, argv[i]);
    return wanted;
}

int main(int argc, char **argv)
{
    cm_ctx cx = {0};
    cm_mark *from, *to;
    void *all;
    const cm_target target = {CM_DEVICE_CUDA, 0, 0};
    channels_last = argc > 1 && !strcmp(argv[1], "last");
    argc -= channels_last;
    argv += channels_last;
    api = cm_backend_for(CM_DEVICE_CUDA)->api;
    must(&cx, api->open(&cx, &target, &device));
    must(&cx, api->stream_open(&cx, device, NULL, &stream));
    must(&cx, api->alloc(&cx, device, MEMORY, &all));
    must(&cx, api->mark_open(&cx, device, &from));
    must(&cx, api->mark_open(&cx, device, &to));
    memory = all;
    for (int i = 0; i < CM_COUNT(texts); i++)
        if (is_wanted(texts[i], argc, argv)) {
            read_node(&nodes[n_nodes], texts[i]);
            make_trials(&nodes[n_nodes++]);
        }
    begin_compiling();
    for (int i = 0; i < n_nodes; i++) {
        node *n = &nodes[i];
        fill_memory(&cx, n->in[0].dtype); /* results of the node before are no numbers to go on with */
        n->copy_ns = measure(&cx, NULL, NULL, n->bytes, from, to);
        printf("%s", n->text);
        for (int t = 0; t < n_trials; t++)
            if (trials[t].of == n) {
                wait_for(&trials[t]);
                time_trial(&cx, &trials[t], from, to);
            }
        fflush(stdout);
    }
    return 0;
}
