/* side.c -- times Cameo and ONNX Runtime from C: for runs so short that Python would be in the figure.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Usage: side time MODEL THREADS TARGET SECONDS LIBONNXRUNTIME <INPUTS
 *        side load cameo|ort FILE THREADS TARGET LIBONNXRUNTIME <INPUTS
 * INPUTS: for each input a line "NAME DTYPE BYTES RANK DIM...", then BYTES bytes and a newline. DTYPE is
 * ONNX's number. TARGET "" is the best there is. FILE may be a plan for Cameo. Prints one JSON object.
 *
 * ONNX Runtime is opened at run time through the table of functions that its C interface hands out,
 * whose order never changes; only the entries that are used are declared here. */
#include <cameo.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_INPUTS = 128, MAX_OUTPUTS = 128, MAX_BLOCKS = 400, MAX_RUNS = 20000 };

typedef struct {
    char name[256];
    cameo_tensor tensor;
} input;

static input inputs[MAX_INPUTS];
static int n_inputs;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "side: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void read_inputs(void)
{
    input *in = inputs;
    cameo_tensor *t = &in->tensor;
    int dtype;
    while (n_inputs < MAX_INPUTS &&
           scanf("%255s %d %zu %d", in->name, &dtype, &t->bytes, &t->rank) == 4) {
        t->dtype = (cameo_dtype)dtype;
        for (int i = 0; i < t->rank && i < CAMEO_MAX_RANK; i++)
            if (scanf("%ld", &t->dims[i]) != 1)
                die("bad dims of input %s", in->name);
        t->data = aligned_alloc(64, t->bytes / 64 * 64 + 64);
        if (getchar() != '\n' || !t->data || fread(t->data, 1, t->bytes, stdin) != t->bytes)
            die("bad data of input %s", in->name);
        n_inputs++;
        in++;
        t = &in->tensor;
    }
}

/* ---- Cameo ---------------------------------------------------------------------------------- */

typedef struct {
    cameo_network *network;
    cameo_engine *engine;
    cameo_context *context;
} ours;

static void must(cameo_status st, const cameo_error *e)
{
    if (st != CAMEO_OK)
        die("cameo: %s", e->message);
}

static bool is_plan(const char *path)
{
    size_t n = strlen(path);
    return n > 5 && !strcmp(path + n - 5, ".plan");
}

static void ours_open(ours *o, const char *path, int threads, const char *target)
{
    cameo_error e;
    memset(o, 0, sizeof *o);
    if (is_plan(path)) {
        must(cameo_engine_open_file(path, NULL, &o->engine, &e), &e);
    } else {
        must(cameo_network_from_file(path, NULL, &o->network, &e), &e);
        must(cameo_engine_from_network(o->network, NULL, &o->engine, &e), &e);
    }
    cameo_context_options co = CAMEO_CONTEXT_OPTIONS_INIT;
    co.threads = threads;
    co.target = *target ? target : NULL;
    must(cameo_context_create(o->engine, &co, &o->context, &e), &e);
    for (int i = 0; i < n_inputs; i++) {
        int k = cameo_engine_find_input(o->engine, inputs[i].name);
        if (k >= 0)
            must(cameo_context_set_input(o->context, k, &inputs[i].tensor, &e), &e);
    }
}

static void ours_run(void *arg)
{
    cameo_error e;
    must(cameo_context_run(((ours *)arg)->context, 0, &e), &e);
}

/* ---- ONNX Runtime --------------------------------------------------------------------------- */

/* The function table as far as it is used; skip_N begins at entry N. What returns void * returns NULL
 * or a status to read with error_message. */
typedef struct {
    void *skip_0[2];
    const char *(*error_message)(const void *status);
    void *(*create_env)(int log_level, const char *name, void **out);
    void *skip_4[3];
    void *(*create_session)(void *env, const char *path, const void *options, void **out);
    void *skip_8[1];
    void *(*run)(void *session, const void *options, const char *const *names, void *const *values,
                 size_t n, const char *const *output_names, size_t n_outputs, void **outputs);
    void *(*create_options)(void **out);
    void *skip_11[12];
    void *(*set_level)(void *options, int level);
    void *(*set_intra)(void *options, int threads);
    void *(*set_inter)(void *options, int threads);
    void *skip_26[5];
    void *(*output_count)(const void *session, size_t *out);
    void *skip_32[5];
    void *(*output_name)(const void *session, size_t index, void *allocator, char **out);
    void *skip_38[11];
    void *(*tensor_with_data)(const void *memory, void *data, size_t bytes, const int64_t *dims,
                              size_t rank, int dtype, void **out);
    void *(*is_tensor)(const void *value, int *out);
    void *skip_51[18];
    void *(*cpu_memory)(int allocator, int memory, void **out);
    void *skip_70[8];
    void *(*default_allocator)(void **out);
    void *skip_79[17];
    void (*release_value)(void *value);
} ort_api;

typedef struct {
    const ort_api *(*get)(uint32_t version);
    const char *(*version)(void);
} ort_base;

typedef struct {
    const ort_api *api;
    void *session;
    void *values[MAX_INPUTS], *outputs[MAX_OUTPUTS];
    const char *names[MAX_INPUTS];
    char *output_names[MAX_OUTPUTS];
    size_t n_outputs;
    bool reuse; /* all outputs are tensors: given again, so that nothing is allocated */
} peer;

static void ort(const peer *p, void *status)
{
    if (status)
        die("onnxruntime: %s", p->api->error_message(status));
}

static void peer_library(peer *p, const char *library)
{
    memset(p, 0, sizeof *p);
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        die("%s", dlerror());
    const ort_base *(*get_base)(void) = (const ort_base *(*)(void))dlsym(lib, "OrtGetApiBase");
    if (!get_base)
        die("%s has no OrtGetApiBase", library);
    p->api = get_base()->get(16);
    if (!p->api)
        die("%s is older than its interface of version 16", library);
}

static void peer_open(peer *p, const char *path, int threads)
{
    void *env, *options, *memory, *allocator;
    ort(p, p->api->create_env(3, "side", &env));
    ort(p, p->api->create_options(&options));
    ort(p, p->api->set_level(options, 99));
    ort(p, p->api->set_intra(options, threads));
    ort(p, p->api->set_inter(options, 1));
    ort(p, p->api->create_session(env, path, options, &p->session));
    ort(p, p->api->cpu_memory(0, 0, &memory));
    ort(p, p->api->default_allocator(&allocator));
    for (int i = 0; i < n_inputs; i++) {
        const cameo_tensor *t = &inputs[i].tensor;
        p->names[i] = inputs[i].name;
        ort(p, p->api->tensor_with_data(memory, t->data, t->bytes, t->dims, (size_t)t->rank,
                                        (int)t->dtype, &p->values[i]));
    }
    ort(p, p->api->output_count(p->session, &p->n_outputs));
    if (p->n_outputs > MAX_OUTPUTS)
        die("more than %d outputs", MAX_OUTPUTS);
    for (size_t i = 0; i < p->n_outputs; i++)
        ort(p, p->api->output_name(p->session, i, allocator, &p->output_names[i]));
}

static void peer_run(void *arg)
{
    peer *p = arg;
    if (!p->reuse)
        for (size_t i = 0; i < p->n_outputs; i++) {
            if (p->outputs[i])
                p->api->release_value(p->outputs[i]);
            p->outputs[i] = NULL;
        }
    ort(p, p->api->run(p->session, NULL, p->names, p->values, (size_t)n_inputs,
                       (const char *const *)p->output_names, p->n_outputs, p->outputs));
}

static void peer_reuse(peer *p)
{
    p->reuse = true;
    for (size_t i = 0; i < p->n_outputs; i++) {
        int tensor;
        ort(p, p->api->is_tensor(p->outputs[i], &tensor));
        p->reuse = p->reuse && tensor;
    }
}

/* ---- Timing --------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of `runs` runs in ms, after a few that are not counted. */
static double block(void (*run)(void *), void *arg, int runs)
{
    static double ms[MAX_RUNS];
    double end = now() + 0.003;
    do
        run(arg);
    while (now() < end);
    double last = now();
    for (int i = 0; i < runs; i++) {
        run(arg);
        double t = now();
        ms[i] = (t - last) * 1e3;
        last = t;
    }
    qsort(ms, (size_t)runs, sizeof *ms, ascending);
    return runs % 2 ? ms[runs / 2] : (ms[runs / 2 - 1] + ms[runs / 2]) / 2;
}

static int runs_in(void (*run)(void *), void *arg, double seconds)
{
    double start = now();
    int n = 0;
    do {
        run(arg);
        n++;
    } while (n < 50 && now() - start < 0.05);
    double each = (now() - start) / n;
    return seconds / each < 1 ? 1 : seconds / each > MAX_RUNS ? MAX_RUNS : (int)(seconds / each);
}

static void print_list(const char *name, const double *v, int n)
{
    printf("\"%s\": [", name);
    for (int i = 0; i < n; i++)
        printf("%s%.7g", i ? ", " : "", v[i]);
    printf("]");
}

static void time_both(const char *path, int threads, const char *target, double seconds,
                      const char *library)
{
    ours o;
    peer p;
    double ms[2][MAX_BLOCKS];
    int n = 0;
    ours_open(&o, path, threads, target);
    peer_library(&p, library);
    peer_open(&p, path, threads);
    ours_run(&o);
    peer_run(&p);
    peer_reuse(&p);
    int runs[2] = {runs_in(ours_run, &o, 0.05), runs_in(peer_run, &p, 0.05)};
    for (double end = now() + seconds; n < MAX_BLOCKS && (n < 5 || now() < end); n++)
        for (int k = 0; k < 2; k++) {
            int who = (n + k) & 1;
            if (threads > 1)
                usleep(60000); /* the other side's idle threads spin up to this long */
            ms[who][n] = who ? block(peer_run, &p, runs[1]) : block(ours_run, &o, runs[0]);
        }
    printf("{");
    print_list("ours", ms[0], n);
    printf(", ");
    print_list("theirs", ms[1], n);
    printf(", \"runs\": [%d, %d]}\n", runs[0] * n, runs[1] * n);
}

static long memory_line(const char *name)
{
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name)))
            kb = atol(line + strlen(name) + 1);
    if (f)
        fclose(f);
    return kb * 1024;
}

/* From file to first result, and the most memory over what the process had with its inputs. */
static void load(const char *who, const char *path, int threads, const char *target,
                 const char *library)
{
    ours o;
    peer p;
    bool cameo = !strcmp(who, "cameo");
    long before = memory_line("VmHWM");
    if (!cameo)
        peer_library(&p, library);
    double start = now();
    if (cameo)
        ours_open(&o, path, threads, target);
    else
        peer_open(&p, path, threads);
    double opened = now() - start;
    if (cameo)
        ours_run(&o);
    else
        peer_run(&p);
    double first = now() - start;
    if (cameo)
        ours_run(&o);
    else
        peer_run(&p);
    printf("{\"open_s\": %.6f, \"first_s\": %.6f, \"peak_bytes\": %ld}\n", opened, first,
           memory_line("VmHWM") - before);
}

int main(int argc, char **argv)
{
    read_inputs();
    if (argc == 7 && !strcmp(argv[1], "time"))
        time_both(argv[2], atoi(argv[3]), argv[4], atof(argv[5]), argv[6]);
    else if (argc == 7 && !strcmp(argv[1], "load"))
        load(argv[2], argv[3], atoi(argv[4]), argv[5], argv[6]);
    else
        die("wanted: time MODEL THREADS TARGET SECONDS LIBRARY, or load WHO FILE THREADS TARGET "
            "LIBRARY");
    return 0;
}
