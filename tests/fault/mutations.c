/* mutations.c -- 10,000 damaged models and plans: each is refused with a sentence, or runs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * No crash, no hang, and no more memory than four times the file and 256 MB: what asks for more is told
 * that there is none, and must say so. Mutations are numbered; `MUTATION=n` in the environment runs one
 * alone. Models of ../shared/onnx/node join in where that folder is. */
#include "fault/models.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { MUTATIONS = 10000, MOST_SEEDS = 400, LARGEST_SEED = 6000, SECONDS = 10 };

typedef struct {
    cm_buf bytes;
    bool plan;
} seed;

static seed seeds[MOST_SEEDS];
static int n_seeds;
static long now; /* the mutation that is tried */

/* ---- What goes wrong --------------------------------------------------------------------------- */

static void say_which(void)
{
    char line[80];
    int n = snprintf(line, sizeof line, "while trying mutation %ld (MUTATION=%ld runs it alone)\n",
                     now, now);
    if (write(2, line, (size_t)n) < 0)
        return;
}

static void on_alarm(int sig)
{
    (void)sig;
    static const char hangs[] = "a mutation hangs\n";
    if (write(2, hangs, sizeof hangs - 1) > 0)
        say_which();
    _exit(1);
}

void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

/* ---- Memory ------------------------------------------------------------------------------------ */

typedef struct {
    size_t live, limit;
    bool refused;
} heap;

static void *take(void *user, size_t bytes, size_t align)
{
    heap *h = user;
    if (bytes > h->limit || h->live > h->limit - bytes) {
        h->refused = true;
        return NULL;
    }
    void *p = cm_alloc(NULL, bytes, align);
    h->live += p ? bytes : 0;
    return p;
}

static void give_back(void *user, void *p, size_t bytes)
{
    ((heap *)user)->live -= bytes;
    cm_release(NULL, p, bytes);
}

/* ---- Mutating ---------------------------------------------------------------------------------- */

static uint64_t state;

static uint64_t draw(uint64_t below) /* splitmix64 */
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return below ? z % below : 0;
}

/* Replace `n` bytes at `at` by `m` bytes of `with`. */
static void replace(cm_buf *b, size_t at, size_t n, const void *with, size_t m)
{
    cm_buf out;
    cm_buf_init(&out, NULL);
    cm_buf_bytes(&out, b->data, at);
    cm_buf_bytes(&out, with, m);
    cm_buf_bytes(&out, b->data + at + n, b->n - at - n);
    assert_false(out.failed);
    cm_buf_deinit(b);
    *b = out;
}

static uint64_t odd_number(uint64_t was)
{
    static const uint64_t odd[] = {0,          1,          2,          0x7f,       0x80,
                                   0xff,       0x100,      0x7fffffff, 0x80000000, 0xffffffff,
                                   1ull << 40, 1ull << 62, INT64_MAX,  1ull << 63, UINT64_MAX};
    switch (draw(4)) {
    case 0:
        return was + 1;
    case 1:
        return was - 1;
    case 2:
        return was ^ (1ull << draw(64));
    default:
        return odd[draw(CM_COUNT(odd))];
    }
}

static void edit_number(cm_buf *b, size_t begin, size_t end)
{
    size_t width = (size_t)1 << draw(4);
    if (end - begin < width)
        return;
    size_t at = begin + draw(end - begin - width + 1);
    uint64_t v = 0;
    memcpy(&v, b->data + at, width);
    v = odd_number(v);
    memcpy(b->data + at, &v, width);
}

/* A varint in place of another: in a model these are lengths, counts, types and dims. */
static void edit_varint(cm_buf *b)
{
    unsigned char text[10];
    size_t at = draw(b->n), n = 1, m = 0;
    while (at + n < b->n && n < 10 && b->data[at + n - 1] & 0x80)
        n++;
    uint64_t v = b->data[at] & 0x7f;
    v = odd_number(v);
    do {
        text[m] = (unsigned char)(v & 0x7f) | (v > 0x7f ? 0x80 : 0);
        v >>= 7;
    } while (text[m++] & 0x80 && m < sizeof text);
    replace(b, at, n, text, m);
}

/* Somewhere inside the table or a section of a plan, not in the padding; else anywhere. */
static void place(const seed *s, const cm_buf *b, size_t *begin, size_t *end)
{
    *begin = 0;
    *end = b->n;
    uint32_t n = 0;
    if (!s->plan || b->n < CM_PLAN_HEADER_BYTES)
        return;
    memcpy(&n, b->data + 12, sizeof n);
    size_t table = CM_PLAN_HEADER_BYTES + (size_t)n * CM_PLAN_ENTRY_BYTES;
    if (n == 0 || n > 64 || table > b->n || draw(8) == 0) {
        *end = table < b->n && draw(2) ? table : b->n;
        return;
    }
    uint64_t entry[5], size;
    memcpy(entry, b->data + CM_PLAN_HEADER_BYTES + draw(n) * CM_PLAN_ENTRY_BYTES, sizeof entry);
    size = entry[2];
    if (entry[1] < b->n && size <= b->n - entry[1] && size) {
        *begin = entry[1];
        *end = entry[1] + size;
    }
}

static void mutate_once(const seed *s, cm_buf *b)
{
    size_t begin, end;
    if (b->n < 16)
        return;
    place(s, b, &begin, &end);
    size_t at = begin + draw(end - begin), n = 1 + draw(16);
    n = n < b->n - at ? n : b->n - at;
    switch (draw(s->plan ? 12 : 10)) {
    case 0:
    case 1:
        b->data[at] ^= (unsigned char)(1u << draw(8));
        break;
    case 2:
        b->data[at] = (unsigned char)draw(256);
        break;
    case 3: /* cut short */
        b->n = draw(4) ? b->n - draw(b->n / 4) : draw(b->n);
        break;
    case 4: /* take away, or twice */
        if (draw(2))
            replace(b, at, n, "", 0);
        else
            replace(b, at, 0, b->data + at, n);
        break;
    case 5: { /* a piece of another file */
        const cm_buf *other = &seeds[draw((uint64_t)n_seeds)].bytes;
        size_t from = draw(other->n), m = draw(64);
        m = m < other->n - from ? m : other->n - from;
        replace(b, at, draw(2) ? n : 0, other->data + from, m);
        break;
    }
    case 6:
    case 7:
        if (!s->plan) {
            edit_varint(b);
            break;
        }
        /* fall through */
    default:
        edit_number(b, begin, end);
    }
}

static uint64_t checksum(const void *p, size_t n)
{
    cm_checksum_state s;
    cm_checksum_begin(&s);
    cm_checksum_add(&s, p, n);
    return cm_checksum_end(&s);
}

/* Checksums and the file's size made right again: what is behind them is what should be tested. */
static void mend_plan(cm_buf *b)
{
    uint32_t n = 0;
    uint64_t size = b->n, sum;
    if (b->n < CM_PLAN_HEADER_BYTES)
        return;
    memcpy(&n, b->data + 12, sizeof n);
    if (n > CM_PLAN_MAX_SECTIONS || CM_PLAN_HEADER_BYTES + (size_t)n * CM_PLAN_ENTRY_BYTES > b->n)
        return;
    for (uint32_t i = 0; i < n; i++) {
        unsigned char *e = b->data + CM_PLAN_HEADER_BYTES + (size_t)i * CM_PLAN_ENTRY_BYTES;
        uint64_t at[2];
        memcpy(at, e + 8, sizeof at);
        if (at[0] > b->n || at[1] > b->n - at[0])
            continue;
        sum = checksum(b->data + at[0], at[1]);
        memcpy(e + 24, &sum, sizeof sum);
    }
    sum = checksum(b->data + CM_PLAN_HEADER_BYTES, (size_t)n * CM_PLAN_ENTRY_BYTES);
    memcpy(b->data + 16, &size, sizeof size);
    memcpy(b->data + 24, &sum, sizeof sum);
}

/* ---- Trying ------------------------------------------------------------------------------------ */

static cameo_status run_plan(const void *bytes, size_t n, const cameo_hooks *hooks,
                             cameo_error *error)
{
    cameo_engine_options eo = CAMEO_ENGINE_OPTIONS_INIT;
    cameo_context_options co = CAMEO_CONTEXT_OPTIONS_INIT;
    cameo_engine *e = NULL;
    cameo_context *c = NULL;
    eo.hooks = *hooks;
    co.threads = 1;
    cameo_status st = cameo_engine_open_memory(bytes, n, &eo, &e, error);
    if (st == CAMEO_OK)
        st = cameo_context_create(e, &co, &c, error);
    if (st == CAMEO_OK) {
        cameo_error unfit;
        if (fault_set_inputs(e, c, &unfit) == CAMEO_OK)
            st = cameo_context_run(c, 0.05, error);
    }
    cameo_context_destroy(c);
    cameo_engine_release(e);
    return st;
}

static cameo_status run_model(const void *bytes, size_t n, const cameo_hooks *hooks,
                              cameo_error *error)
{
    cameo_network_options no = CAMEO_NETWORK_OPTIONS_INIT;
    cameo_network *net = NULL;
    void *plan = NULL;
    size_t plan_n = 0;
    no.hooks = *hooks;
    cameo_status st = cameo_network_from_memory(bytes, n, &no, &net, error);
    if (st == CAMEO_OK)
        st = cameo_build_memory(net, NULL, &plan, &plan_n, error);
    if (st == CAMEO_OK)
        st = run_plan(plan, plan_n, hooks, error);
    cameo_free(plan);
    cameo_network_destroy(net);
    return st;
}

/* Counts of what came of them, by status. */
static long outcomes[CAMEO_ERR_INTERNAL + 1];

static void try_bytes(const seed *s, const cm_buf *b)
{
    heap h = {.limit = 4 * b->n + ((size_t)256 << 20)};
    cameo_hooks hooks = CAMEO_HOOKS_INIT;
    cameo_error error = {0};
    hooks.alloc = take;
    hooks.release = give_back;
    hooks.alloc_user = &h;
    /* An allocation of its own, so that reading past it is noticed. */
    void *copy = NULL;
    assert_int_equal(posix_memalign(&copy, 64, b->n ? b->n : 1), 0);
    memcpy(copy, b->data, b->n);
    uint64_t start = cm_now_ns();
    alarm(3 * SECONDS);
    cameo_status st =
        s->plan ? run_plan(copy, b->n, &hooks, &error) : run_model(copy, b->n, &hooks, &error);
    alarm(0);
    free(copy);
    double seconds = (double)(cm_now_ns() - start) * 1e-9;
    if (st < 0 || st > CAMEO_ERR_INTERNAL || (st != CAMEO_OK && !error.message[0]))
        fail_msg("mutation %ld: status %d without a sentence", now, (int)st);
    if (st == CAMEO_ERR_INTERNAL)
        fail_msg("mutation %ld: %s", now, error.message);
    if (h.live)
        fail_msg("mutation %ld: %zu bytes leak", now, h.live);
    if (seconds > SECONDS)
        fail_msg("mutation %ld took %.1f s", now, seconds);
    outcomes[st]++;
}

static void mutate(long index)
{
    now = index;
    state = (uint64_t)index * 0x2545f4914f6cdd1du;
    const seed *s = &seeds[draw((uint64_t)n_seeds)];
    cm_buf b;
    cm_buf_init(&b, NULL);
    cm_buf_bytes(&b, s->bytes.data, s->bytes.n);
    for (uint64_t k = draw(2) ? 1 : 1 + draw(4); k > 0; k--)
        mutate_once(s, &b);
    if (s->plan && draw(8))
        mend_plan(&b);
    try_bytes(s, &b);
    cm_buf_deinit(&b);
}

/* ---- Seeds ------------------------------------------------------------------------------------- */

static void add_seed(const void *bytes, size_t n, bool plan)
{
    if (n_seeds == MOST_SEEDS || n == 0)
        return;
    seed *s = &seeds[n_seeds++];
    s->plan = plan;
    cm_buf_init(&s->bytes, NULL);
    cm_buf_bytes(&s->bytes, bytes, n);
    assert_false(s->bytes.failed);
}

static void add_model(const void *bytes, size_t n)
{
    cameo_network *net = NULL;
    void *plan = NULL;
    size_t plan_n;
    if (cameo_network_from_memory(bytes, n, NULL, &net, NULL) == CAMEO_OK &&
        cameo_build_memory(net, NULL, &plan, &plan_n, NULL) == CAMEO_OK) {
        add_seed(bytes, n, false);
        add_seed(plan, plan_n, true);
    }
    cameo_free(plan);
    cameo_network_destroy(net);
}

/* Every 7th small model of the folder, in the order of their names. */
static void add_folder(const char *folder)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[1024];
        static unsigned char bytes[LARGEST_SEED];
        snprintf(path, sizeof path, "%s/%s/model.onnx", folder, entries[i]->d_name);
        FILE *f = i % 7 == 3 ? fopen(path, "rb") : NULL;
        free(entries[i]);
        if (!f)
            continue;
        size_t size = fread(bytes, 1, sizeof bytes, f);
        if (size < sizeof bytes)
            add_model(bytes, size);
        fclose(f);
    }
    if (n >= 0)
        free(entries);
}

static void damaged_files_are_refused_or_run(void **arg)
{
    run_case *t = *arg;
    const char *alone = getenv("MUTATION");
    cm_buf model = fault_onnx();
    for (int k = 0; k < 8; k++) /* often, among the many of the folder */
        add_model(model.data, model.n);
    for (int i = 0; i < CM_COUNT(fault_texts); i++) {
        build(t, fault_texts[i]);
        for (int k = 0; k < 4; k++)
            add_seed(t->bytes.data, t->bytes.n, true);
    }
    add_folder("../shared/onnx/node");
    signal(SIGALRM, on_alarm);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(say_which);
    for (long i = alone ? atol(alone) : 0; i < (alone ? atol(alone) + 1 : MUTATIONS); i++)
        mutate(i);
    print_message("%d seeds;", n_seeds);
    for (int i = 0; i <= CAMEO_ERR_INTERNAL; i++)
        if (outcomes[i])
            print_message(" %s: %ld;", cameo_status_text((cameo_status)i), outcomes[i]);
    print_message("\n");
    for (int i = 0; i < n_seeds; i++)
        cm_buf_deinit(&seeds[i].bytes);
    cm_buf_deinit(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(damaged_files_are_refused_or_run, case_setup,
                                        case_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
