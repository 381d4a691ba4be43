/* repeats.c -- one product on a GPU many thousand times: every result must be that of the first time, bit for bit.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Usage: repeats SECONDS WHAT KNOBS...: as many seconds for each setting of matmul_wgmma ("96,8,1,1,128,0,2"). WHAT:
 * bf16,Z,M,N,K,LAYOUT,FOLLOWERS, Z matrices of M x K by K x N. LAYOUT: letters of a and b whose columns are adjacent in memory, not their rows, and of c
 * ("-": none); FOLLOWERS: "test" (a product with a number, a bias, ReLU, a matrix is added) or "-". Two ways take turns: single runs,
 * each with data that are copied to the same place before it and a result that is fetched after it; recordings of many runs, each with its own
 * data and results. Results are first overwritten with ones. What differs is told with its place; several processes at a time make the GPU change between them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan/backend.h"

enum { SETS = 8, RUNS = 32, TOLD = 12, MOST_IN = 5 };

static cm_device *device;
static cm_stream *stream;
static const cm_device_api *api;

static void must(cm_ctx *cx, cm_status st)
{
    if (st == CM_OK)
        return;
    fprintf(stderr, "repeats: %s\n", cx->message);
    exit(1);
}

typedef struct {
    char name[128];
    int64_t z, m, n, k;
    cm_tensor t[MOST_IN + 1]; /* a, b, bias, matrix, number; the result */
    const cm_tensor *in[2], *operands[3], *out[1];
    bool constant[2];
    cm_program epilogue;
    cm_problem p;
    int n_in;                          /* of t */
    size_t at[MOST_IN], bytes, result; /* where each lies in a set of data, and how much that is */
} product;

static void tensor(cm_tensor *t, cm_dtype type, int64_t z, int64_t rows, int64_t cols, bool across)
{
    if (!cm_tensor_shape(t, type, 3, (int64_t[]){z, rows, cols}))
        exit(1);
    if (across) {
        t->strides[1] = 1;
        t->strides[2] = rows;
    }
}

static cm_matrix matrix_of(const cm_tensor *t)
{
    return (cm_matrix){.row = t->strides[1], .col = t->strides[2], .batch = {t->strides[0]}};
}

static void add_followers(product *x, cm_dtype type)
{
    if (!cm_tensor_shape(&x->t[2], type, 1, &x->n) ||
        !cm_tensor_shape(&x->t[3], type, 2, (int64_t[]){x->m, x->n}) ||
        !cm_tensor_shape(&x->t[4], CM_F32, 1, (int64_t[]){1}))
        exit(1);
    x->n_in = 5;
    for (int i = 0; i < 3; i++)
        x->operands[i] = &x->t[2 + i];
    cm_program *e = &x->epilogue;
    cm_program_add(e, CM_PW_MUL, cm_arg_x(), cm_arg_operand(2), cm_arg_x());
    cm_program_add(e, CM_PW_ADD, cm_arg_result(0), cm_arg_operand(0), cm_arg_x());
    cm_program_add(e, CM_PW_RELU, cm_arg_result(1), cm_arg_x(), cm_arg_x());
    cm_program_add(e, CM_PW_ADD, cm_arg_result(2), cm_arg_operand(1), cm_arg_x());
    e->n_outputs = 1;
    e->output[0] = 3;
    e->uses_x = true;
    e->n_operands = x->p.n_operands = 3;
    x->p.operands = x->operands;
    x->p.epilogue = e;
}

static size_t bytes_of(const cm_tensor *t)
{
    return (size_t)cm_tensor_elems(t) * cm_dtype_size(t->dtype);
}

static size_t aligned(size_t n)
{
    return (n + 255) / 256 * 256;
}

static void read_product(const char *text, product *x)
{
    char type[8], layout[8], followers[8];
    long long z, m, n, k;
    snprintf(x->name, sizeof x->name, "%s", text);
    if (sscanf(text, "%7[^,],%lld,%lld,%lld,%lld,%7[^,],%7s", type, &z, &m, &n, &k, layout,
               followers) != 7) {
        fprintf(stderr, "repeats: %s is no product\n", text);
        exit(1);
    }
    cm_dtype t = !strcmp(type, "bf16") ? CM_BF16 : CM_F16;
    x->z = z, x->m = m, x->n = n, x->k = k, x->n_in = 2;
    tensor(&x->t[0], t, z, m, k, strchr(layout, 'a'));
    tensor(&x->t[1], t, z, k, n, strchr(layout, 'b'));
    tensor(&x->t[MOST_IN], t, z, m, n, strchr(layout, 'c'));
    x->in[0] = &x->t[0];
    x->in[1] = &x->t[1];
    x->out[0] = &x->t[MOST_IN];
    x->p = (cm_problem){.kind = CM_PROBLEM_MATMUL,
                        .op = "bench",
                        .n_in = 2,
                        .in = x->in,
                        .constant = x->constant,
                        .n_out = 1,
                        .out = x->out,
                        .target = api->target(device),
                        .threads = 1};
    x->p.as.matmul = (cm_matmul){.m = m,
                                 .n = n,
                                 .k = k,
                                 .n_batch = 1,
                                 .batch = {z},
                                 .a = matrix_of(x->in[0]),
                                 .b = matrix_of(x->in[1]),
                                 .c = matrix_of(x->out[0]),
                                 .alpha = 1,
                                 .beta = 1,
                                 .bias = -1};
    if (!strcmp(followers, "test"))
        add_followers(x, t);
    for (int i = 0; i < x->n_in; i++) {
        x->at[i] = x->bytes;
        x->bytes += aligned(bytes_of(&x->t[i]));
    }
    x->result = aligned(bytes_of(x->out[0]));
}

/* On the host: SETS of data and their results, and results that came. On the device: one set, SETS of them, RUNS results. */
typedef struct {
    unsigned char *data, *right, *came;
    unsigned char *own, *sets, *results;
} places;

static void make_data(const product *x, places *at)
{
    unsigned random = 12345;
    for (int s = 0; s < SETS; s++)
        for (int i = 0; i < x->n_in; i++)
            for (int64_t e = 0; e < cm_tensor_elems(&x->t[i]); e++) {
                random = random * 1664525u + 1013904223u;
                cm_set_f64(x->t[i].dtype, at->data + (size_t)s * x->bytes + x->at[i], e,
                           (random >> 8) / 8388608.0 - 1);
            }
}

static places make_places(cm_ctx *cx, const product *x)
{
    places at;
    void *p[4];
    must(cx, api->alloc_host(cx, device, RUNS * x->result, &p[0]));
    must(cx, api->alloc(cx, device, x->bytes, &p[1]));
    must(cx, api->alloc(cx, device, SETS * x->bytes, &p[2]));
    must(cx, api->alloc(cx, device, RUNS * x->result, &p[3]));
    at = (places){malloc(SETS * x->bytes), malloc(SETS * x->result), p[0], p[1], p[2], p[3]};
    make_data(x, &at);
    must(cx, api->upload(cx, stream, at.sets, at.data, SETS * x->bytes));
    must(cx, api->wait(cx, stream));
    return at;
}

typedef struct {
    cm_knobs knobs;
    const void *state;
    cm_arena arena;
} setting;

static const cm_tactic *tactic_named(const char *name)
{
    int n;
    const cm_tactic *rows = cm_backend_for(CM_DEVICE_CUDA)->tactics(CM_PROBLEM_MATMUL, &n);
    for (int i = 0; i < n; i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    exit(1);
}

static void make_ready(cm_ctx *cx, const product *x, const char *knobs, setting *s)
{
    memset(s, 0, sizeof *s);
    cm_arena_init(&s->arena, NULL);
    for (int v = 0; *knobs && v < CM_COUNT(s->knobs.v); v++) {
        s->knobs.v[v] = (int32_t)strtol(knobs, (char **)&knobs, 10);
        knobs += *knobs == ',';
    }
    const cm_tactic *t = tactic_named("matmul_wgmma");
    must(cx, t->ready(cx, device, &s->arena, &x->p, &s->knobs, &s->state));
}

static void run_once(cm_ctx *cx, const product *x, const setting *s, const unsigned char *set,
                     unsigned char *result)
{
    const void *in[2] = {set, set + x->at[1]}, *operands[3];
    void *out[1] = {result};
    for (int i = 2; i < x->n_in; i++)
        operands[i - 2] = set + x->at[i];
    cm_run r = {.cx = cx,
                .p = &x->p,
                .k = &s->knobs,
                .in = in,
                .out = out,
                .operands = operands,
                .state = s->state,
                .stream = stream};
    must(cx, tactic_named("matmul_wgmma")->run(&r));
}

static void fetch(cm_ctx *cx, const product *x, const places *at, int runs)
{
    must(cx, api->download(cx, stream, at->came, at->results, (size_t)runs * x->result));
    must(cx, api->wait(cx, stream));
}

/* What comes first is right, unless it is far from what a setting without shared k says. */
static void find_right(cm_ctx *cx, const product *x, const places *at, const setting *s,
                       const setting *other)
{
    cm_dtype type = x->out[0]->dtype;
    for (int set = 0; set < SETS; set++) {
        const unsigned char *data = at->sets + (size_t)set * x->bytes;
        unsigned char *right = at->right + (size_t)set * x->result;
        run_once(cx, x, s, data, at->results);
        run_once(cx, x, other, data, at->results + x->result);
        fetch(cx, x, at, 2);
        memcpy(right, at->came, bytes_of(x->out[0]));
        double worst = 0;
        for (int64_t i = 0; i < cm_tensor_elems(x->out[0]); i++) {
            double d = fabs(cm_get_f64(type, right, i) - cm_get_f64(type, at->came + x->result, i));
            worst = d > worst || isnan(d) ? d : worst;
        }
        if (!(worst < (type == CM_BF16 ? 0.3 : 0.04)))
            printf("  the first result of set %d is %g away\n", set, worst);
    }
}

/* Which set's result has these bits at element i, of those that it is not to be of; -1: none. */
static int other_set(const product *x, const places *at, int set, uint16_t bits, int64_t i)
{
    for (int o = 0; o < SETS; o++) {
        uint16_t there;
        memcpy(&there, at->right + (size_t)o * x->result + i * 2, 2);
        if (o != set && there == bits)
            return o;
    }
    return -1;
}

typedef struct {
    long long runs, wrong;
    int told;
} tally;

/* Element i of memory as matrix, row and column of the result. */
static void place_of(const product *x, int64_t i, int64_t *z, int64_t *row, int64_t *col)
{
    int64_t in = i % (x->m * x->n);
    bool across = x->out[0]->strides[1] == 1;
    *z = i / (x->m * x->n);
    *row = across ? in % x->m : in / x->n;
    *col = across ? in / x->m : in % x->n;
}

/* How many differ in every tile of 64 rows by 32 columns, and the first ones. */
static void tell(const product *x, const places *at, const unsigned char *came, int set,
                 const char *how, int place, tally *t)
{
    enum { DOWN = 64, RIGHT = 32, FIRST = 10 };
    const unsigned char *right = at->right + (size_t)set * x->result;
    int64_t n = cm_tensor_elems(x->out[0]), different = 0, z, row, col;
    int down = (int)((x->m + DOWN - 1) / DOWN), wide = (int)((x->n + RIGHT - 1) / RIGHT);
    int *tiles = calloc((size_t)(x->z * down * wide), sizeof *tiles);
    printf("  run %lld (%s %d), set %d:", t->runs, how, place, set);
    for (int64_t i = 0; i < n; i++) {
        uint16_t got, wanted;
        memcpy(&got, came + i * 2, 2);
        memcpy(&wanted, right + i * 2, 2);
        if (got == wanted)
            continue;
        place_of(x, i, &z, &row, &col);
        tiles[(z * down + row / DOWN) * wide + col / RIGHT]++;
        if (different++ < FIRST)
            printf(" [%lld,%lld,%lld] %g (%04x) not %g%s%d", (long long)z, (long long)row,
                   (long long)col, cm_get_f64(x->out[0]->dtype, came, i), got,
                   cm_get_f64(x->out[0]->dtype, right, i), " as set ",
                   other_set(x, at, set, got, i));
    }
    printf("\n    %lld differ; by 64 rows, 32 columns:", (long long)different);
    for (int64_t i = 0; i < x->z * down * wide; i++)
        if (tiles[i])
            printf(" (%lld,%lld,%lld) %d", (long long)(i / (down * wide)),
                   (long long)(i / wide % down * DOWN), (long long)(i % wide * RIGHT), tiles[i]);
    printf("\n");
    fflush(stdout);
    free(tiles);
}

static void check(const product *x, const places *at, const unsigned char *came, int set,
                  const char *how, int place, tally *t)
{
    t->runs++;
    if (!memcmp(came, at->right + (size_t)set * x->result, bytes_of(x->out[0])))
        return;
    t->wrong++;
    if (t->told++ < TOLD)
        tell(x, at, came, set, how, place, t);
}

static void single_runs(cm_ctx *cx, const product *x, const places *at, const setting *s, tally *t)
{
    for (int i = 0; i < RUNS; i++) {
        int set = (int)(t->runs % SETS);
        must(cx, api->fill(cx, stream, at->results, 0xff, x->result));
        must(cx, api->upload(cx, stream, at->own, at->data + (size_t)set * x->bytes, x->bytes));
        run_once(cx, x, s, at->own, at->results);
        fetch(cx, x, at, 1);
        check(x, at, at->came, set, "single", i, t);
    }
}

static cm_recording *record(cm_ctx *cx, const product *x, const places *at, const setting *s)
{
    cm_recording *r = NULL;
    must(cx, api->record_begin(cx, stream));
    for (int i = 0; i < RUNS; i++)
        run_once(cx, x, s, at->sets + (size_t)(i % SETS) * x->bytes,
                 at->results + (size_t)i * x->result);
    must(cx, api->record_end(cx, stream, &r));
    return r;
}

static void recorded_runs(cm_ctx *cx, const product *x, const places *at, cm_recording *r, tally *t)
{
    must(cx, api->fill(cx, stream, at->results, 0xff, RUNS * x->result));
    must(cx, api->launch(cx, stream, r));
    fetch(cx, x, at, RUNS);
    for (int i = 0; i < RUNS; i++)
        check(x, at, at->came + (size_t)i * x->result, i % SETS, "recorded", i, t);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void repeat(cm_ctx *cx, const product *x, const places *at, const char *knobs,
                   const setting *other, double seconds)
{
    setting s;
    tally single = {0}, recorded = {0};
    make_ready(cx, x, knobs, &s);
    find_right(cx, x, at, &s, other);
    cm_recording *r = record(cx, x, at, &s);
    for (double end = now() + seconds; now() < end;) {
        single_runs(cx, x, at, &s, &single);
        for (int i = 0; i < 4; i++)
            recorded_runs(cx, x, at, r, &recorded);
    }
    printf("%s %s: %lld single runs, %lld wrong; %lld recorded, %lld wrong\n", x->name, knobs,
           single.runs, single.wrong, recorded.runs, recorded.wrong);
    fflush(stdout);
    api->recording_close(device, r);
}

int main(int argc, char **argv)
{
    cm_ctx cx = {0};
    const cm_target target = {CM_DEVICE_CUDA, 0, 0};
    static product x;
    setting other;
    if (argc < 4) {
        fprintf(stderr, "usage: repeats SECONDS TYPE,Z,M,N,K,LAYOUT,FOLLOWERS KNOBS...\n");
        return 1;
    }
    api = cm_backend_for(CM_DEVICE_CUDA)->api;
    must(&cx, api->open(&cx, &target, &device));
    must(&cx, api->stream_open(&cx, device, NULL, &stream));
    read_product(argv[2], &x);
    const char *why = tactic_named("matmul_wgmma")->reject(&x.p);
    if (why) {
        fprintf(stderr, "repeats: %s: %s\n", argv[2], why);
        return 1;
    }
    places at = make_places(&cx, &x);
    make_ready(&cx, &x, "128,4,1,1,128,0,1", &other);
    for (int i = 3; i < argc; i++)
        repeat(&cx, &x, &at, argv[i], &other, strtod(argv[1], NULL));
    return 0;
}
