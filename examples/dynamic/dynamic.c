/* dynamic.c -- one plan, many shapes: output shapes before running, the caller's memory for outputs,
 * an output whose size only the data tells, log, progress and cancelling.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     dynamic
 *
 * The network: scores f32[rows,4] to their softmax over each row, and the places (rank by count) of
 * the scores above zero. */
#include <cameo.h>
#include <stdio.h>
#include <stdlib.h>

static void say(void *user, cameo_log_level level, const char *sentence)
{
    (void)user;
    printf("log %d: %s\n", (int)level, sentence);
}

/* Counts the calls; refuses to go on once *left is used up. */
static bool watch(void *user, const char *what, int64_t done, int64_t total)
{
    int *left = user;
    (void)what, (void)done, (void)total;
    return (*left)-- > 0;
}

static cameo_status make_network(const cameo_network_options *options, cameo_network **out,
                                 cameo_error *error)
{
    static const int64_t dims[] = {-1, 4};
    static float zero = 0;
    const cameo_tensor threshold = {CAMEO_F32, 0, {0}, &zero, sizeof zero};
    cameo_status st = cameo_network_create("dynamic", options, out, error);
    if (st != CAMEO_OK)
        return st;
    cameo_network *n = *out;
    const char *const rows[] = {"rows", NULL}, *const scores[] = {"scores", "zero"};
    const char *soft = "softmax", *above = "above", *places = "places";
    if ((st = cameo_network_add_input(n, "scores", CAMEO_F32, 2, dims, rows, error)) == CAMEO_OK &&
        (st = cameo_network_add_constant(n, "zero", &threshold, error)) == CAMEO_OK &&
        (st = cameo_network_add_node(n, "Softmax", "softmax", 1, scores, 1, &soft, 0, NULL,
                                     error)) == CAMEO_OK &&
        (st = cameo_network_add_node(n, "Greater", "above", 2, scores, 1, &above, 0, NULL,
                                     error)) == CAMEO_OK &&
        (st = cameo_network_add_node(n, "NonZero", "places", 1, &above, 1, &places, 0, NULL,
                                     error)) == CAMEO_OK &&
        (st = cameo_network_mark_output(n, "softmax", error)) == CAMEO_OK)
        st = cameo_network_mark_output(n, "places", error);
    return st;
}

/* A build that its watcher stops. */
static void cancelled_build(cameo_network *network)
{
    int left = 0;
    void *bytes;
    size_t n;
    cameo_error error;
    cameo_build_options options = CAMEO_BUILD_OPTIONS_INIT;
    options.hooks.progress = watch;
    options.hooks.progress_user = &left;
    if (cameo_build_memory(network, &options, &bytes, &n, &error) == CAMEO_OK)
        cameo_free(bytes);
    printf("a build whose watcher says no: %s\n", cameo_status_text(error.status));
}

static cameo_status build(cameo_network *network, void **bytes, size_t *n, cameo_error *error)
{
    enum { PATIENCE = 1 << 20 };
    int left = PATIENCE;
    cameo_build_options options = CAMEO_BUILD_OPTIONS_INIT;
    options.hooks.log = say;
    options.hooks.progress = watch;
    options.hooks.progress_user = &left;
    cameo_status st = cameo_build_memory(network, &options, bytes, n, error);
    printf("a build whose watcher agrees: %s, asked %s\n", cameo_status_text(st),
           left < PATIENCE ? "on the way" : "never");
    return st;
}

/* Memory for `places`, kept between runs and only ever made larger. */
typedef struct {
    void *data;
    size_t bytes;
    int asked;
} place_memory;

static void *output_memory(void *user, int output, const cameo_tensor *shape)
{
    place_memory *m = user;
    (void)output;
    m->asked++;
    if (shape->bytes > m->bytes || !m->data) {
        free(m->data);
        m->bytes = shape->bytes + 64;
        m->data = malloc(m->bytes);
    }
    return m->data;
}

/* Shapes and memory for so many rows, without any data. */
static cameo_status ask(cameo_context *context, int64_t rows, cameo_error *error)
{
    const cameo_tensor in = {CAMEO_F32, 2, {rows, 4}, NULL, 0};
    cameo_tensor soft, places;
    cameo_status st = cameo_context_set_input(context, 0, &in, error);
    if (st == CAMEO_OK)
        st = cameo_context_bind(context, error);
    if (st == CAMEO_OK)
        st = cameo_context_output_shape(context, 0, &soft, error);
    if (st == CAMEO_OK)
        st = cameo_context_output_shape(context, 1, &places, error);
    if (st == CAMEO_OK)
        printf("%lld rows: softmax will be [%lld,%lld], places %s\n", (long long)rows,
               (long long)soft.dims[0], (long long)soft.dims[1],
               places.rank < 0 ? "only the data can tell" : "are known");
    return st;
}

static cameo_status run(cameo_context *context, int64_t rows, cameo_error *error)
{
    float scores[8 * 4], soft[8 * 4];
    for (int i = 0; i < 32; i++)
        scores[i] = (float)(i % 5 - 2);
    cameo_tensor in = {CAMEO_F32, 2, {rows, 4}, scores, 0}, out, places;
    in.bytes = (size_t)rows * 4 * sizeof(float);
    cameo_status st = cameo_context_set_input(context, 0, &in, error);
    if (st == CAMEO_OK)
        st = cameo_context_set_output(context, 0, soft, sizeof soft, error);
    if (st == CAMEO_OK)
        st = cameo_context_run(context, 10, error);
    if (st == CAMEO_OK)
        st = cameo_context_output(context, 0, &out, error);
    if (st == CAMEO_OK)
        st = cameo_context_output(context, 1, &places, error);
    if (st == CAMEO_OK)
        printf(
            "%lld rows: softmax of row 0 is %.3f %.3f %.3f %.3f in %s memory; places [%lld,%lld]\n",
            (long long)rows, soft[0], soft[1], soft[2], soft[3],
            out.data == (void *)soft ? "the caller's" : "other", (long long)places.dims[0],
            (long long)places.dims[1]);
    return st;
}

static cameo_status use(cameo_engine *engine, cameo_error *error)
{
    cameo_context *context = NULL;
    place_memory memory = {0};
    cameo_status st = cameo_context_create(engine, NULL, &context, error);
    for (int64_t rows = 2; st == CAMEO_OK && rows <= 8; rows *= 4)
        st = ask(context, rows, error);
    if (st == CAMEO_OK)
        st = cameo_context_set_output_allocator(context, output_memory, &memory, error);
    for (int64_t rows = 2; st == CAMEO_OK && rows <= 8; rows *= 2)
        st = run(context, rows, error);
    if (st == CAMEO_OK)
        printf("memory for an output was asked for %s\n", memory.asked ? "while running" : "never");
    if (st == CAMEO_OK) {
        float row[4] = {0};
        const cameo_tensor wrong = {CAMEO_F32, 2, {1, 3}, row, sizeof row};
        if (cameo_context_set_input(context, 0, &wrong, error) == CAMEO_OK)
            cameo_context_run(context, 0, error);
        printf("a row of three: %s: %s\n", cameo_status_text(error->status), error->message);
    }
    cameo_context_destroy(context);
    free(memory.data);
    return st;
}

int main(void)
{
    cameo_network *network = NULL;
    cameo_engine *engine = NULL;
    cameo_error error = {CAMEO_OK, ""};
    void *bytes = NULL;
    size_t n;
    cameo_status st = make_network(NULL, &network, &error);
    if (st == CAMEO_OK) {
        cancelled_build(network);
        st = build(network, &bytes, &n, &error);
    }
    if (st == CAMEO_OK)
        st = cameo_engine_open_memory(bytes, n, NULL, &engine, &error);
    if (st == CAMEO_OK)
        st = use(engine, &error);
    cameo_engine_release(engine);
    cameo_free(bytes);
    cameo_network_destroy(network);
    if (st != CAMEO_OK) {
        fprintf(stderr, "dynamic: %s\n", error.message);
        return 1;
    }
    return 0;
}
