/* harness_cuda.h -- tactics of the CUDA backend in the cases of harness.h: run where there is a GPU, and
 * compiled without one on request.
 * SPDX-License-Identifier: Apache-2.0
 *
 * CAMEO_TEST_TARGET in the environment chooses: "cpu" and "cuda" run these tactics only (a missing GPU is
 * then a failure), "sm_75,sm_90" compiles the kernels of every tactic that takes a case for these classes
 * and runs nothing. CAMEO_TEST_CASES=3: no more than so many cases of each tactic,
 * which share its settings among them. Without a target the CPU's run, and the GPU's where there is one.
 * CAMEO_TEST_TACTIC=conv_cudnn: of ours only this one; CAMEO_TEST_KNOBS="192,5,1 128,6,1": with these settings, in every case. */
#ifndef CM_TESTS_OP_HARNESS_CUDA_H
#define CM_TESTS_OP_HARNESS_CUDA_H

enum { OP_GPU_BYTES = 1 << 30, OP_GPU_ALIGN = 256, OP_MOST_CLASSES = 8 };
enum { OP_NOT_COUNTED = 100000 }; /* runs that cases count are the CPU's; without those: enough */

typedef struct {
    bool cpu; /* its tactics run */
    int n;    /* devices or classes */
    cm_device *devices[OP_MOST_CLASSES];
    cm_stream *stream;     /* NULL: only classes, nothing runs */
    unsigned char *memory; /* of the device */
    unsigned char *staging;
    size_t used;
} op_targets_state;

static const cm_device_api *op_api(void)
{
    return cm_backend_for(CM_DEVICE_CUDA)->api;
}

static void op_open_gpu(op_targets_state *t, bool needed)
{
    cm_ctx cx = {0};
    const cm_target target = {CM_DEVICE_CUDA, 0, 0};
    void *memory = NULL;
    cm_status st = op_api()->open(&cx, &target, &t->devices[0]);
    if (st != CM_OK && !needed)
        return;
    if (st == CM_OK)
        st = op_api()->stream_open(&cx, t->devices[0], NULL, &t->stream);
    if (st == CM_OK)
        st = op_api()->alloc(&cx, t->devices[0], OP_GPU_BYTES, &memory);
    if (st != CM_OK)
        fail_msg("%s", cx.message);
    t->memory = memory;
    t->staging = malloc(OP_GPU_BYTES);
    t->n = 1;
}

static void op_open_classes(op_targets_state *t, const char *list)
{
    char text[256];
    cm_ctx cx = {0};
    cm_target target;
    snprintf(text, sizeof text, "%s", list);
    for (char *at = strtok(text, ","); at; at = strtok(NULL, ",")) {
        assert_true(t->n < OP_MOST_CLASSES);
        if (cm_target_parse(&cx, at, &target) != CM_OK ||
            op_api()->open(&cx, &target, &t->devices[t->n++]) != CM_OK)
            fail_msg("CAMEO_TEST_TARGET: %s", cx.message);
    }
}

/* Opened once per program. */
static op_targets_state *op_targets(void)
{
    static op_targets_state state;
    static bool opened;
    const char *wanted = getenv("CAMEO_TEST_TARGET");
    if (opened)
        return &state;
    opened = true;
    state.cpu = !wanted || !strcmp(wanted, "cpu");
    if (!wanted || !strcmp(wanted, "cuda"))
        op_open_gpu(&state, wanted);
    else if (strcmp(wanted, "cpu"))
        op_open_classes(&state, wanted);
    return &state;
}

/* A place of so many bytes with untouched ones behind it. */
static size_t op_place(op_targets_state *g, size_t bytes)
{
    size_t at = g->used, end = at + bytes + OP_GPU_ALIGN;
    end = (end + OP_GPU_ALIGN - 1) / OP_GPU_ALIGN * OP_GPU_ALIGN;
    assert_true(end <= OP_GPU_BYTES);
    memset(g->staging + at, 0xff, end - at); /* NaN: nobody may read what was not written */
    g->used = end;
    return at;
}

typedef struct {
    const void *in[64], *operands[64];
    void *out[64];
    size_t out_at[64], out_end[64];
} op_device_places;

static void op_place_inputs(op_state *s, op_targets_state *g, const cm_problem *p,
                            const cm_tactic *t, const cm_knobs *k, op_device_places *x)
{
    int n_own = p->n_in;
    for (int i = 0; i < s->n_in; i++) {
        const cm_tensor *pt = i < n_own ? p->in[i] : p->operands[i - n_own];
        if (!s->given[i] || !pt)
            continue;
        size_t packed = i < n_own && t->pack_bytes && p->constant[i] ? t->pack_bytes(p, k, i) : 0;
        size_t at = op_place(g, packed ? packed : op_bytes(pt));
        if (packed)
            t->pack(p, k, i, s->in[i].data, g->staging + at, op_pool(1));
        else
            op_relay(&s->in[i], s->in[i].data, pt, g->staging + at);
        *(i < n_own ? &x->in[i] : &x->operands[i - n_own]) = g->memory + at;
    }
    for (int o = 0; o < p->n_out; o++) {
        if (!p->out[o])
            continue;
        x->out_at[o] = op_place(g, op_bytes(p->out[o]));
        x->out_end[o] = g->used;
        x->out[o] = g->memory + x->out_at[o];
    }
}

static void op_compare_device(op_state *s, const op_targets_state *g, const cm_problem *p,
                              const char *what, const op_device_places *x, size_t fault)
{
    uint32_t code;
    memcpy(&code, g->staging + fault, sizeof code);
    if (code)
        fail_msg("%s says that its data are wrong (%u)\n%s", what, code, s->c->text);
    for (int o = 0; o < p->n_out; o++) {
        if (!p->out[o])
            continue;
        size_t bytes = op_bytes(p->out[o]);
        for (size_t b = x->out_at[o] + bytes; b < x->out_end[o]; b++)
            if (g->staging[b] != 0xff)
                fail_msg("%s writes %zu bytes behind output %d\n%s", what,
                         b - x->out_at[o] - bytes + 1, o, s->c->text);
        void *dense = malloc(bytes + 1);
        op_relay(p->out[o], g->staging + x->out_at[o], &s->out[o], dense);
        op_compare(s, what, o, &s->out[o], dense);
        free(dense);
    }
}

/* One tactic, one setting, on the GPU. */
static void op_run_device(op_state *s, op_targets_state *g, const cm_problem *p, const cm_tactic *t,
                          const cm_knobs *k, const void *ready, const char *what)
{
    op_device_places x = {0};
    const cm_device_api *api = op_api();
    g->used = 0;
    size_t fault = op_place(g, sizeof(uint32_t));
    memset(g->staging + fault, 0, sizeof(uint32_t));
    op_place_inputs(s, g, p, t, k, &x);
    size_t work = op_place(g, t->workspace ? t->workspace(p, k) : 0);
    cm_run run = {.cx = &s->cx,
                  .p = p,
                  .k = k,
                  .in = x.in,
                  .out = x.out,
                  .operands = x.operands,
                  .workspace = g->memory + work,
                  .state = ready,
                  .stream = g->stream,
                  .fault = (uint32_t *)(g->memory + fault),
                  .fault_code = 1};
    cm_status st = api->upload(&s->cx, g->stream, g->memory, g->staging, g->used);
    if (st == CM_OK)
        st = t->run(&run);
    if (st == CM_OK)
        st = api->download(&s->cx, g->stream, g->staging, g->memory, g->used);
    if (st == CM_OK)
        st = api->wait(&s->cx, g->stream);
    if (st != CM_OK)
        fail_msg("%s fails: %s\n%s", what, s->cx.message, s->c->text);
    op_compare_device(s, g, p, what, &x, fault);
}

/* Settings begin, begin + step ... of a case are due; false: the tactic has had enough cases. */
static bool op_turn(const cm_tactic *t, int device, int *begin, int *step)
{
    enum { MOST = 512 };
    static struct {
        const cm_tactic *tactic;
        int device, n;
    } seen[MOST];
    const char *limit = getenv("CAMEO_TEST_CASES");
    int i = 0;
    *begin = 0;
    *step = 1;
    if (!limit)
        return true;
    while (i < MOST && seen[i].tactic && (seen[i].tactic != t || seen[i].device != device))
        i++;
    assert_true(i < MOST);
    seen[i].tactic = t;
    seen[i].device = device;
    *begin = seen[i].n++;
    *step = atoi(limit);
    return *begin < *step;
}

/* Settings that the environment asks for; 0: none. */
static int op_forced_knobs(cm_knobs *out)
{
    const char *at = getenv("CAMEO_TEST_KNOBS");
    int n = 0;
    for (; at && *at && n < CM_MAX_KNOBS; n++) {
        for (int v = 0; *at && *at != ' ' && v < CM_COUNT(out->v); v++) {
            out[n].v[v] = (int32_t)strtol(at, (char **)&at, 10);
            at += *at == ',';
        }
        at += *at == ' ';
    }
    return n;
}

static void op_device_tactic(op_state *s, op_targets_state *g, cm_device *d, cm_problem *p,
                             const cm_tactic *t, const char *layouts, int begin, int step)
{
    cm_knobs *knobs = calloc(CM_MAX_KNOBS, sizeof *knobs);
    int n_knobs = op_forced_knobs(knobs);
    if (n_knobs) {
        begin = 0;
        step = 1;
    } else {
        n_knobs = t->knobs ? t->knobs(p, knobs) : 1;
    }
    assert_in_range(n_knobs, 1, CM_MAX_KNOBS);
    for (int k = begin; k < n_knobs; k += step) {
        char what[256];
        const void *ready = NULL;
        cm_arena_mark mark = cm_arena_save(&s->scratch);
        snprintf(what, sizeof what, "%s at sm_%d, %s, knobs %d %d %d %d %d %d %d", t->name,
                 p->target.level / 10, layouts, knobs[k].v[0], knobs[k].v[1], knobs[k].v[2],
                 knobs[k].v[3], knobs[k].v[4], knobs[k].v[5], knobs[k].v[6]);
        assert_true(t->cost(p, &knobs[k]) > 0);
        if (t->ready && t->ready(&s->cx, d, &s->scratch, p, &knobs[k], &ready) != CM_OK)
            fail_msg("%s is not to be had: %s\n%s", what, s->cx.message, s->c->text);
        if (g->stream)
            op_run_device(s, g, p, t, &knobs[k], ready, what);
        cm_arena_restore(&s->scratch, mark);
    }
    free(knobs);
}

/* Names in `only` and `without` are the CPU's; all of ours run. */
static void op_device_tactics(op_state *s, const cm_problem *problem, const char *layouts)
{
    op_targets_state *g = op_targets();
    int n, begin, step;
    const char *one = getenv("CAMEO_TEST_TACTIC");
    const cm_tactic *rows = cm_backend_for(CM_DEVICE_CUDA)->tactics(problem->kind, &n);
    for (int c = 0; c < g->n; c++) {
        cm_problem p = *problem;
        p.target = op_api()->target(g->devices[c]);
        p.threads = 1;
        p.tf32 = s->c->tf32;
        for (int i = 0; i < n; i++)
            if ((!one || !strcmp(one, rows[i].name)) && rows[i].level <= p.target.level &&
                !cm_tactic_declines(&rows[i], &p) && op_turn(&rows[i], c, &begin, &step))
                op_device_tactic(s, g, g->devices[c], &p, &rows[i], layouts, begin, step);
    }
    if (!g->cpu)
        s->c->ran += OP_NOT_COUNTED;
}

__attribute__((unused)) static bool op_none_ran(const op_case *c)
{
    return c->ran % OP_NOT_COUNTED == 0;
}

#endif
