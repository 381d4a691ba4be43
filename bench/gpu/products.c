/* products.c -- matrix products and convolutions on a GPU: every tactic, every setting, beside one another.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Usage: products [all] [check] [once] [steady] [cold] [=TACTIC,KNOBS]... [WORDS...]. For each problem and tactic the fastest setting: microseconds, TFLOP/s, and which fraction of the
 * fastest tactic's speed that is; then the setting that the cost model would take. `all`: every setting. `check`: how far results
 * are from those of the first, at most (of outputs that are not large). `once`: every setting runs once and is not timed, for a
 * profiler. `steady`: every setting runs for about a second, in turns, and is told with the GPU's power and clock: what counts where
 * power is what limits it. `cold`: each run reads operands of its own, which no cache has. `=matmul_wgmma,192,5,1,1,128,1,1`: these tactics with these settings, whether they are offered or not. WORDS: problems whose name has one of them. Products of networks are there without and with what follows them. Kernels are compiled first, by all cores. Times are those of a
 * recording of many runs, by the device's clock; settings take turns, so that all are timed on a GPU as warm. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "power.h"
#include "plan/backend.h"

enum { MOST = 4096, REPEATS = 20, ROUNDS = 4, INPUTS = 3, OPERANDS = 2, CHECKED = 40 << 20 };

typedef struct {
    char name[96];
    cm_tensor in[INPUTS], out;
    const cm_tensor *ins[INPUTS], *outs[1];
    bool constant[INPUTS];
    cm_tensor operand[OPERANDS];
    const cm_tensor *operands[OPERANDS];
    cm_program epilogue;
    cm_problem p;
    double flops;
} problem;

typedef struct {
    const problem *of;
    const cm_tactic *tactic;
    cm_knobs knobs;
    cm_arena arena;
    const void *state;
    cm_recording *recording;
    cm_status ready;
    char message[1024];
    double cost, ns, apart;
    double watts, mhz; /* steadily */
} trial;

static problem *problems[256];
static trial *trials;
static int n_problems, n_trials;
static cm_device *device;
static cm_stream *stream;
static const cm_device_api *api;
static unsigned char *memory;
static const size_t MEMORY = (size_t)6 << 30;
static unsigned char *expected; /* results of a problem's first trial; NULL: not to be checked */
static bool once, steady, cold;
static power_meter meter;
static char **forced; /* tactics with their knobs */
static int n_forced;

static void must(cm_ctx *cx, cm_status st)
{
    if (st == CM_OK)
        return;
    fprintf(stderr, "products: %s\n", cx->message);
    exit(1);
}

static problem *new_problem(cm_problem_kind kind, int n_in)
{
    problem *b = calloc(1, sizeof *b);
    for (int i = 0; i < INPUTS; i++)
        b->ins[i] = &b->in[i];
    b->outs[0] = &b->out;
    b->constant[1] = b->constant[2] = true;
    b->p = (cm_problem){.kind = kind,
                        .op = "bench",
                        .n_in = n_in,
                        .in = b->ins,
                        .constant = b->constant,
                        .n_out = 1,
                        .out = b->outs,
                        .target = api->target(device),
                        .threads = 1};
    problems[n_problems++] = b;
    return b;
}

static void shape(cm_tensor *t, cm_dtype type, int rank, const int64_t *dims)
{
    if (!cm_tensor_shape(t, type, rank, dims))
        exit(1);
}

static problem *product(cm_dtype type, bool tf32, int64_t m, int64_t n, int64_t k)
{
    problem *b = new_problem(CM_PROBLEM_MATMUL, 2);
    snprintf(b->name, sizeof b->name, "%s m%lld n%lld k%lld", tf32 ? "tf32" : cm_dtype_name(type),
             (long long)m, (long long)n, (long long)k);
    shape(&b->in[0], type, 2, (int64_t[]){m, k});
    shape(&b->in[1], type, 2, (int64_t[]){k, n});
    shape(&b->out, type, 2, (int64_t[]){m, n});
    b->p.tf32 = tf32;
    b->p.as.matmul = (cm_matmul){.m = m,
                                 .n = n,
                                 .k = k,
                                 .a = {.row = k, .col = 1},
                                 .b = {.row = n, .col = 1},
                                 .c = {.row = n, .col = 1},
                                 .alpha = 1,
                                 .beta = 1,
                                 .bias = -1};
    b->flops = 2.0 * (double)m * (double)n * (double)k;
    return b;
}

/* B^T as it is: k is adjacent. */
static void product_of_turned(cm_dtype type, int64_t m, int64_t n, int64_t k)
{
    problem *b = product(type, false, m, n, k);
    size_t used = strlen(b->name);
    snprintf(b->name + used, sizeof b->name - used, " turned");
    shape(&b->in[1], type, 2, (int64_t[]){n, k});
    b->p.as.matmul.b = (cm_matrix){.row = 1, .col = k};
}

/* Some rows and large matrices: classifiers, and language models that decode several sequences. */
static void products_of_some_rows(void)
{
    static const int matrices[][2] = {{4096, 25088}, {4096, 4096}, {11008, 4096}, {4096, 11008},
                                      {1000, 4096},  {3072, 768},  {768, 3072}};
    static const int rows[] = {1, 2, 4, 8, 16, 32, 64};
    for (int i = 0; i < CM_COUNT(matrices); i++)
        for (int r = 0; r < CM_COUNT(rows); r++)
            product(CM_F16, false, rows[r], matrices[i][0], matrices[i][1]);
    for (int r = 0; r < CM_COUNT(rows); r++)
        product_of_turned(CM_F16, rows[r], 50257, 768);
    product_of_turned(CM_F16, 8, 4096, 4096);
    product(CM_F32, true, 8, 4096, 4096);
}

typedef enum { BIAS, BIAS_GELU, BIAS_RESIDUAL } follower;

/* float16, as networks of transformers have it. */
static void layer(int64_t m, int64_t n, int64_t k, follower what)
{
    static const char *const names[] = {"bias", "bias gelu", "bias residual"};
    problem *b = product(CM_F16, false, m, n, k);
    size_t used = strlen(b->name);
    snprintf(b->name + used, sizeof b->name - used, " %s", names[what]);
    shape(&b->operand[0], CM_F16, 1, (int64_t[]){n});
    shape(&b->operand[1], CM_F16, 2, (int64_t[]){m, n});
    for (int i = 0; i < OPERANDS; i++)
        b->operands[i] = &b->operand[i];
    cm_program_add(&b->epilogue, CM_PW_ADD, cm_arg_x(), cm_arg_operand(0), cm_arg_x());
    if (what == BIAS_GELU)
        cm_program_add(&b->epilogue, CM_PW_GELU, cm_arg_result(0), cm_arg_x(), cm_arg_x());
    if (what == BIAS_RESIDUAL)
        cm_program_add(&b->epilogue, CM_PW_ADD, cm_arg_result(0), cm_arg_operand(1), cm_arg_x());
    b->epilogue.n_outputs = 1;
    b->epilogue.output[0] = b->epilogue.n_steps - 1;
    b->epilogue.uses_x = true;
    b->epilogue.n_operands = b->p.n_operands = what == BIAS_RESIDUAL ? 2 : 1;
    b->p.operands = b->operands;
    b->p.epilogue = &b->epilogue;
}

static void channels_last(cm_tensor *t)
{
    t->strides[1] = 1;
    t->strides[3] = t->dims[1];
    t->strides[2] = t->dims[1] * t->dims[3];
    t->strides[0] = t->strides[2] * t->dims[2];
}

/* A square convolution with a bias and ReLU. */
static void convolution(cm_dtype type, bool tf32, int n, int c_in, int c_out, int groups, int size,
                        int kernel, int stride)
{
    problem *b = new_problem(CM_PROBLEM_CONV, 3);
    int pad = kernel / 2, out = (size + 2 * pad - kernel) / stride + 1;
    snprintf(b->name, sizeof b->name, "%s conv b%d %dx%d %d->%d k%d s%d%s",
             tf32 ? "tf32" : cm_dtype_name(type), n, size, size, c_in, c_out, kernel, stride,
             groups > 1 ? " grouped" : "");
    shape(&b->in[0], type, 4, (int64_t[]){n, c_in, size, size});
    shape(&b->in[1], type, 4, (int64_t[]){c_out, c_in / groups, kernel, kernel});
    shape(&b->in[2], type, 1, (int64_t[]){c_out});
    shape(&b->out, type, 4, (int64_t[]){n, c_out, out, out});
    if (c_in > 4)
        channels_last(&b->in[0]);
    channels_last(&b->out);
    cm_program_add(&b->epilogue, CM_PW_RELU, cm_arg_x(), cm_arg_x(), cm_arg_x());
    b->epilogue.n_outputs = 1;
    b->epilogue.uses_x = true;
    b->p.epilogue = &b->epilogue;
    b->p.tf32 = tf32;
    b->p.as.conv = (cm_conv){.axes = 2,
                             .n = n,
                             .groups = groups,
                             .c_in = c_in,
                             .c_out = c_out,
                             .in = {1, size, size},
                             .out = {1, out, out},
                             .kernel = {1, kernel, kernel},
                             .stride = {1, stride, stride},
                             .dilation = {1, 1, 1},
                             .pad = {0, pad, pad},
                             .bias = true};
    b->flops = 2.0 * n * out * out * (double)c_out * (c_in / groups) * kernel * kernel;
}

static void make_problems(void)
{
    product(CM_F16, false, 4096, 4096, 4096);
    static const int bert[][3] = {{128, 768, 768},    {128, 2304, 768},  {128, 3072, 768},
                                  {128, 768, 3072},   {3072, 768, 768},  {3072, 2304, 768},
                                  {3072, 3072, 768},  {3072, 768, 3072}, {12288, 3072, 768},
                                  {12288, 768, 3072}, {384, 4096, 1024}, {384, 1024, 4096}};
    for (int i = 0; i < CM_COUNT(bert); i++)
        product(CM_F16, false, bert[i][0], bert[i][1], bert[i][2]);
    static const struct {
        int m, n, k;
        follower what;
    } layers[] = {
        {3072, 2304, 768, BIAS},       {3072, 768, 768, BIAS_RESIDUAL},
        {3072, 3072, 768, BIAS_GELU},  {3072, 768, 3072, BIAS_RESIDUAL},
        {12288, 2304, 768, BIAS},      {12288, 768, 768, BIAS_RESIDUAL},
        {12288, 3072, 768, BIAS_GELU}, {12288, 768, 3072, BIAS_RESIDUAL},
        {6304, 2304, 768, BIAS},       {6304, 768, 768, BIAS_RESIDUAL},
        {6304, 3072, 768, BIAS_GELU},  {6304, 768, 3072, BIAS_RESIDUAL},
        {384, 3072, 1024, BIAS},       {384, 1024, 1024, BIAS_RESIDUAL},
        {384, 4096, 1024, BIAS_GELU},  {384, 1024, 4096, BIAS_RESIDUAL},
        {128, 2304, 768, BIAS},        {128, 768, 768, BIAS_RESIDUAL},
        {128, 3072, 768, BIAS_GELU},   {128, 768, 3072, BIAS_RESIDUAL},
        {197, 2304, 768, BIAS},        {197, 768, 768, BIAS_RESIDUAL},
        {197, 3072, 768, BIAS_GELU},   {197, 768, 3072, BIAS_RESIDUAL},
    };
    for (int i = 0; i < CM_COUNT(layers); i++)
        layer(layers[i].m, layers[i].n, layers[i].k, layers[i].what);
    products_of_some_rows();
    product(CM_F32, true, 4096, 4096, 4096);
    product(CM_F32, false, 2048, 2048, 2048);
    static const int batches[] = {1, 8, 128};
    for (int i = 0; i < CM_COUNT(batches); i++) {
        int n = batches[i];
        convolution(CM_F16, false, n, 3, 64, 1, 224, 7, 2);
        convolution(CM_F16, false, n, 64, 64, 1, 56, 3, 1);
        convolution(CM_F16, false, n, 64, 256, 1, 56, 1, 1);
        convolution(CM_F16, false, n, 256, 128, 1, 56, 1, 1);
        convolution(CM_F16, false, n, 128, 128, 1, 28, 3, 1);
        convolution(CM_F16, false, n, 256, 256, 1, 14, 3, 1);
        convolution(CM_F16, false, n, 1024, 256, 1, 14, 1, 1);
        convolution(CM_F16, false, n, 512, 512, 1, 7, 3, 1);
        convolution(CM_F16, false, n, 72, 72, 72, 56, 5, 2);
        convolution(CM_F16, false, n, 480, 480, 480, 14, 3, 1);
    }
    convolution(CM_F16, false, 128, 16, 16, 16, 112, 3, 1);
    convolution(CM_F16, false, 128, 64, 64, 64, 112, 3, 2);
    convolution(CM_F16, false, 128, 72, 72, 72, 56, 3, 1);
    convolution(CM_F16, false, 128, 120, 120, 120, 28, 5, 1);
    convolution(CM_F16, false, 128, 672, 672, 672, 14, 5, 2);
    convolution(CM_F16, false, 128, 960, 960, 960, 7, 5, 1);
    convolution(CM_F16, false, 128, 16, 64, 1, 112, 1, 1);
    convolution(CM_F16, false, 128, 24, 72, 1, 56, 1, 1);
    convolution(CM_F16, false, 128, 40, 240, 1, 28, 1, 1);
    convolution(CM_F16, false, 128, 72, 40, 1, 28, 1, 1);
    convolution(CM_F16, false, 128, 120, 40, 1, 28, 1, 1);
    convolution(CM_F16, false, 128, 240, 80, 1, 14, 1, 1);
    convolution(CM_F16, false, 128, 672, 112, 1, 14, 1, 1);
    convolution(CM_F32, true, 128, 128, 128, 1, 28, 3, 1);
    static const struct {
        int c_in, c_out, groups, size, kernel, stride;
    } narrow[] = {
        {58, 58, 58, 28, 3, 1},     {58, 58, 58, 56, 3, 2},     {116, 116, 116, 14, 3, 1},
        {232, 232, 232, 7, 3, 1},   {87, 87, 87, 28, 3, 1},     {128, 128, 32, 56, 3, 1},
        {256, 256, 32, 56, 3, 2},   {256, 256, 32, 28, 3, 1},   {512, 512, 32, 28, 3, 2},
        {512, 512, 32, 14, 3, 1},   {1024, 1024, 32, 14, 3, 2}, {1024, 1024, 32, 7, 3, 1},
        {3, 64, 1, 224, 3, 1},      {24, 24, 1, 112, 3, 1},     {24, 96, 1, 112, 3, 2},
        {48, 192, 1, 56, 3, 2},     {3, 24, 1, 224, 3, 2},      {48, 48, 1, 56, 3, 1},
    };
    for (int i = 0; i < CM_COUNT(narrow); i++)
        convolution(CM_F16, false, 8, narrow[i].c_in, narrow[i].c_out, narrow[i].groups,
                    narrow[i].size, narrow[i].kernel, narrow[i].stride);
}

static bool wanted(const char *name, int argc, char **argv)
{
    bool any = argc <= 1;
    for (int i = 1; i < argc; i++)
        any = any || strstr(name, argv[i]);
    return any;
}

static void leave_wanted(int argc, char **argv)
{
    int n = 0;
    for (int i = 0; i < n_problems; i++)
        if (wanted(problems[i]->name, argc, argv))
            problems[n++] = problems[i];
    n_problems = n;
}

/* The forced settings of a tactic. */
static int forced_knobs(const cm_tactic *t, cm_knobs *out)
{
    int n = 0;
    for (int i = 0; i < n_forced && n < CM_MAX_KNOBS; i++) {
        const char *at = forced[i] + 1;
        size_t name = strcspn(at, ",");
        if (strlen(t->name) != name || strncmp(t->name, at, name) != 0)
            continue;
        cm_knobs *k = &out[n++];
        at += name;
        for (int v = 0; *at && v < CM_COUNT(k->v); v++)
            k->v[v] = (int32_t)strtol(at + 1, (char **)&at, 10);
    }
    return n;
}

static void make_trials(void)
{
    cm_knobs knobs[CM_MAX_KNOBS];
    trials = calloc(MOST, sizeof *trials);
    for (int i = 0; i < n_problems; i++) {
        const cm_problem *p = &problems[i]->p;
        int n;
        const cm_tactic *rows = cm_backend_for(CM_DEVICE_CUDA)->tactics(p->kind, &n);
        for (int t = 0; t < n; t++) {
            if (rows[t].level > p->target.level || rows[t].reject(p))
                continue;
            memset(knobs, 0, sizeof knobs);
            int settings = n_forced        ? forced_knobs(&rows[t], knobs)
                           : rows[t].knobs ? rows[t].knobs(p, knobs)
                                           : 1;
            for (int k = 0; k < settings && n_trials < MOST; k++) {
                trial *x = &trials[n_trials++];
                *x = (trial){.of = problems[i], .tactic = &rows[t], .knobs = knobs[k]};
                x->cost = rows[t].cost(p, &knobs[k]);
                cm_arena_init(&x->arena, NULL);
            }
        }
    }
}

static int next_trial;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *compile(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        int i = next_trial++;
        pthread_mutex_unlock(&lock);
        if (i >= n_trials)
            return unused;
        trial *x = &trials[i];
        cm_ctx cx = {0};
        x->ready = !x->tactic->ready
                       ? CM_OK
                       : x->tactic->ready(&cx, device, &x->arena, &x->of->p, &x->knobs, &x->state);
        snprintf(x->message, sizeof x->message, "%s", cx.message);
    }
}

static void compile_all(void)
{
    pthread_t threads[64];
    int n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    n = n > 64 ? 64 : n;
    for (int i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, compile, NULL);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

/* The device's memory full of numbers in [-1, 1]. */
static void fill_memory(cm_ctx *cx, cm_dtype type)
{
    enum { PIECE = 1 << 24 };
    static unsigned char piece[PIECE];
    unsigned random = 1;
    int64_t n = PIECE / (int64_t)cm_dtype_size(type);
    for (int64_t i = 0; i < n; i++) {
        random = random * 1664525u + 1013904223u;
        cm_set_f64(type, piece, i, (random >> 8) / 8388608.0 - 1);
    }
    for (size_t at = 0; at < MEMORY; at += PIECE)
        must(cx, api->upload(cx, stream, memory + at, piece, PIECE));
    must(cx, api->wait(cx, stream));
}

static size_t place(size_t *used, size_t bytes)
{
    size_t at = *used;
    *used = (at + bytes + 255) / 256 * 256;
    if (*used > MEMORY) {
        fprintf(stderr, "products: a problem is too large\n");
        exit(1);
    }
    return at;
}

static size_t bytes_of(const cm_tensor *t)
{
    return (size_t)cm_tensor_elems(t) * cm_dtype_size(t->dtype);
}

static void compare(cm_ctx *cx, trial *x, const void *out)
{
    const cm_tensor *t = x->of->p.out[0];
    size_t bytes = bytes_of(t);
    static unsigned char *got;
    static const problem *of;
    got = got ? got : malloc(CHECKED * sizeof(double));
    if (cm_tensor_elems(t) > CHECKED)
        return;
    must(cx, api->download(cx, stream, of == x->of ? got : expected, out, bytes));
    must(cx, api->wait(cx, stream));
    x->apart = 0;
    for (int64_t i = 0; of == x->of && i < cm_tensor_elems(t); i++) {
        double d = fabs(cm_get_f64(t->dtype, got, i) - cm_get_f64(t->dtype, expected, i));
        x->apart = d > x->apart || isnan(d) ? d : x->apart;
    }
    of = x->of;
}

/* One run, on memory from *end on: behind it when that is done. */
static void *run_at(cm_ctx *cx, const trial *x, size_t *end)
{
    const cm_problem *p = &x->of->p;
    const void *in[INPUTS] = {0}, *operands[OPERANDS] = {0};
    for (int i = 0; i < p->n_in; i++) {
        size_t packed =
            p->constant[i] && x->tactic->pack_bytes ? x->tactic->pack_bytes(p, &x->knobs, i) : 0;
        in[i] = memory + place(end, packed ? packed : bytes_of(p->in[i]));
    }
    for (int i = 0; i < p->n_operands; i++)
        operands[i] = memory + place(end, bytes_of(p->operands[i]));
    void *out[1] = {memory + place(end, bytes_of(p->out[0]))};
    size_t work = x->tactic->workspace ? x->tactic->workspace(p, &x->knobs) : 0;
    cm_run r = {.cx = cx,
                .p = p,
                .k = &x->knobs,
                .in = in,
                .out = out,
                .operands = operands,
                .workspace = memory + place(end, work),
                .state = x->state,
                .stream = stream,
                .fault = (uint32_t *)memory,
                .fault_code = 1};
    must(cx, x->tactic->run(&r));
    return out[0];
}

/* Runs once, then is recorded. */
static void record(cm_ctx *cx, trial *x)
{
    enum { BEGIN = 256 };
    size_t end = BEGIN;
    const void *out = run_at(cx, x, &end);
    size_t each = end - BEGIN;
    if (expected)
        compare(cx, x, out);
    if (once) {
        must(cx, api->wait(cx, stream));
        return;
    }
    must(cx, api->record_begin(cx, stream));
    for (int i = 0; i < REPEATS; i++) {
        if (!cold || end + each > MEMORY)
            end = BEGIN;
        run_at(cx, x, &end);
    }
    must(cx, api->record_end(cx, stream, &x->recording));
    x->ns = INFINITY;
}

static void measure(cm_ctx *cx, trial *x, cm_mark *from, cm_mark *to)
{
    double ns;
    must(cx, api->mark(cx, stream, from));
    must(cx, api->launch(cx, stream, x->recording));
    must(cx, api->mark(cx, stream, to));
    must(cx, api->between(cx, device, from, to, &ns));
    x->ns = ns / REPEATS < x->ns ? ns / REPEATS : x->ns;
}

/* As often as makes some milliseconds. */
static void launch_batch(cm_ctx *cx, const trial *x, int launches, cm_mark *end)
{
    for (int i = 0; i < launches; i++)
        must(cx, api->launch(cx, stream, x->recording));
    must(cx, api->mark(cx, stream, end));
}

/* For so long: the GPU always has the next batch while the one before is looked at. x->ns is there already. */
static void run_steadily(cm_ctx *cx, trial *x, cm_mark *const *marks, double seconds)
{
    static const double BATCH_NS = 5e6, WARM = 0.25; /* of the time */
    int launches = 1 + (int)(BATCH_NS / (x->ns * REPEATS)), counted = 0, batch = 0;
    double begin = seconds_now(), ns = 0;
    power_samples samples = {0};
    launch_batch(cx, x, launches, marks[0]);
    for (double past = 0; past < seconds; past = seconds_now() - begin) {
        double took;
        launch_batch(cx, x, launches, marks[++batch % 3]);
        if (batch < 2)
            continue;
        must(cx, api->between(cx, device, marks[(batch - 2) % 3], marks[(batch - 1) % 3], &took));
        if (past < seconds * WARM)
            continue;
        ns += took;
        counted += launches;
        power_sample(&meter, &samples);
    }
    must(cx, api->wait(cx, stream));
    x->ns = ns / counted / REPEATS;
    x->watts = power_watts(&samples);
    x->mhz = samples.samples ? samples.mhz / samples.samples : 0;
}

/* Two turns each, of which the second counts half. */
static void steady_all(cm_ctx *cx, const problem *b, cm_mark *const *marks)
{
    static const double SECONDS = 0.5;
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < n_trials; i++) {
            trial *x = &trials[i], before = *x;
            if (x->of != b || x->ready != CM_OK)
                continue;
            run_steadily(cx, x, marks, SECONDS);
            if (turn > 0) {
                x->ns = (x->ns + before.ns) / 2;
                x->watts = (x->watts + before.watts) / 2;
                x->mhz = (x->mhz + before.mhz) / 2;
            }
        }
}

static void close_recordings(void)
{
    for (int i = 0; i < n_trials; i++)
        if (trials[i].recording) {
            api->recording_close(device, trials[i].recording);
            trials[i].recording = NULL;
        }
}

/* All settings of a problem. */
static void measure_all(cm_ctx *cx, const problem *b, cm_mark *const *marks)
{
    for (int round = -1; round < (once ? 0 : steady ? 1 : ROUNDS); round++)
        for (int i = 0; i < n_trials; i++) {
            trial *x = &trials[i];
            if (x->of != b || x->ready != CM_OK)
                continue;
            if (round < 0)
                record(cx, x);
            else
                measure(cx, x, marks[0], marks[1]);
        }
    if (steady)
        steady_all(cx, b, marks);
    close_recordings();
}

static void print_trial(const trial *x, double best, const char *mark)
{
    const int32_t *v = x->knobs.v;
    printf(
        "  %-16s %4d %4d %4d %2d %3d %2d %2d %d  %9.1f us  model %9.1f us  %7.1f TFLOP/s  %.2f%s",
        x->tactic->name, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], x->ns / 1000,
        x->cost / 1000, x->of->flops / x->ns / 1000, best / x->ns, mark);
    if (steady)
        printf("  %5.1f W  %6.1f MHz  %7.3f mJ", x->watts, x->mhz, x->watts * x->ns / 1e6);
    printf(expected ? "  apart %g\n" : "\n", x->apart);
}

static void report(const problem *b, bool all)
{
    const trial *best = NULL, *chosen = NULL;
    for (int i = 0; i < n_trials; i++) {
        const trial *x = &trials[i];
        if (x->of != b || x->ready != CM_OK)
            continue;
        best = !best || x->ns < best->ns ? x : best;
        chosen = !chosen || x->cost < chosen->cost ? x : chosen;
    }
    printf("%s\n", b->name);
    for (int i = 0; i < n_trials && best; i++) {
        const trial *x = &trials[i];
        bool fastest = x->of == b && x->ready == CM_OK;
        for (int j = 0; j < n_trials && fastest; j++)
            fastest = trials[j].of != b || trials[j].tactic != x->tactic ||
                      trials[j].ready != CM_OK || trials[j].ns >= x->ns;
        if (x->of == b && x->ready != CM_OK)
            printf("  %-16s fails: %s\n", x->tactic->name, x->message);
        else if (x->of == b && (all || steady || fastest || x == chosen))
            print_trial(x, best->ns, x == chosen ? "  chosen" : "");
    }
}

int main(int argc, char **argv)
{
    cm_ctx cx = {0};
    cm_mark *marks[3];
    void *all_memory;
    const cm_target target = {CM_DEVICE_CUDA, 0, 0};
    api = cm_backend_for(CM_DEVICE_CUDA)->api;
    must(&cx, api->open(&cx, &target, &device));
    must(&cx, api->stream_open(&cx, device, NULL, &stream));
    must(&cx, api->alloc(&cx, device, MEMORY, &all_memory));
    for (int i = 0; i < CM_COUNT(marks); i++)
        must(&cx, api->mark_open(&cx, device, &marks[i]));
    memory = all_memory;
    bool all = argc > 1 && !strcmp(argv[1], "all");
    bool check = argc > 1 + all && !strcmp(argv[1 + all], "check");
    int used = all + check;
    once = argc > 1 + used && !strcmp(argv[1 + used], "once");
    used += once;
    steady = argc > 1 + used && !strcmp(argv[1 + used], "steady");
    used += steady;
    cold = argc > 1 + used && !strcmp(argv[1 + used], "cold");
    used += cold;
    if (steady && !power_open(&meter)) {
        fprintf(stderr, "products: steady wants NVML\n");
        return 1;
    }
    forced = argv + 1 + used;
    for (; argc > 1 + used && argv[1 + used][0] == '='; used++)
        n_forced++;
    expected = check ? malloc(CHECKED * sizeof(double)) : NULL;
    make_problems();
    leave_wanted(argc - used, argv + used);
    make_trials();
    compile_all();
    cm_dtype filled = CM_NO_DTYPE;
    for (int i = 0; i < n_problems; i++) {
        cm_dtype type = problems[i]->in[0].dtype;
        if (type != filled)
            fill_memory(&cx, filled = type);
        measure_all(&cx, problems[i], marks);
        report(problems[i], all);
        fflush(stdout);
    }
    return 0;
}
