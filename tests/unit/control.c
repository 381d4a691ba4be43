/* control.c -- random networks of nested If and Loop against an interpreter of a few lines.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is tested is where values lie: views, captures, carried values that are exchanged, repeated or
 * left alone, branches that hand out outer values. All data are i64[4]; conditions are bool[]. */
#include "unit/run_case.h"

#include <stdio.h>

#include "runtime/internal.h"

enum { WIDTH = 4, MAX_VALUES = 4000, MAX_NODES = 12, MAX_CARRIED = 3, MAX_DEPTH = 3 };

typedef enum { ADD, SUB, MUL, NEG, IDENTITY, RESHAPE, LESS, IF, LOOP } kind;

typedef struct list list;
typedef struct {
    kind op;
    int in[2 + MAX_CARRIED], n_in;   /* LOOP: condition or -1, carried */
    int out[MAX_CARRIED + 1], n_out; /* LOOP: carried, then the sum of what was scanned */
    int64_t number;                  /* LOOP: trips; LESS: compared with */
    bool scans;
    list *sub[2];
} node;

struct list {
    int n_nodes;
    node nodes[MAX_NODES];
    int iteration, condition;  /* LOOP bodies */
    int n_in, in[MAX_CARRIED]; /* LOOP bodies */
    int n_out, out[MAX_CARRIED + 2];
};

typedef struct {
    uint32_t seed;
    cm_arena *arena;
    int n_values;
    int data[MAX_VALUES], n_data; /* in reach */
    int bools[MAX_VALUES], n_bools;
    int iterations[MAX_DEPTH], n_iterations;
    cm_buf text;
    int64_t value[MAX_VALUES][WIDTH]; /* of the interpreter; bools and iterations in [0] */
} maker;

static int below(maker *m, int n)
{
    m->seed = m->seed * 1664525u + 1013904223u;
    return (int)((m->seed >> 8) % (uint32_t)n);
}

static int pick(maker *m, const int *from, int n)
{
    /* Recent values more often than old ones. */
    return below(m, 2) && n > 3 ? from[n - 1 - below(m, 3)] : from[below(m, n)];
}

static list *make_list(maker *m, int depth, int n_out);

static void make_if(maker *m, node *n, int depth)
{
    n->in[0] = pick(m, m->bools, m->n_bools);
    n->n_in = 1;
    n->n_out = 1 + below(m, MAX_CARRIED);
    for (int k = 0; k < 2; k++)
        n->sub[k] = make_list(m, depth + 1, n->n_out);
}

static void make_loop(maker *m, node *n, int depth)
{
    int n_data = m->n_data, n_bools = m->n_bools;
    n->n_in = 1 + 1 + below(m, MAX_CARRIED);
    n->in[0] = below(m, 3) ? -1 : pick(m, m->bools, m->n_bools);
    for (int k = 1; k < n->n_in; k++)
        n->in[k] = pick(m, m->data, m->n_data);
    n->number = below(m, 5);
    n->scans = below(m, 2);
    int carried = n->n_in - 1;
    n->n_out = carried + n->scans;
    int iteration = m->n_values++, condition = m->n_values++, in[MAX_CARRIED];
    m->bools[m->n_bools++] = condition;
    m->iterations[m->n_iterations++] = iteration;
    for (int k = 0; k < carried; k++)
        m->data[m->n_data++] = in[k] = m->n_values++;
    list *body = make_list(m, depth + 1, n->n_out);
    body->iteration = iteration;
    body->condition = condition;
    body->n_in = carried;
    memcpy(body->in, in, sizeof in);
    memmove(body->out + 1, body->out, (size_t)n->n_out * sizeof *body->out);
    body->out[0] = condition;
    for (int k = 0; k < body->n_nodes; k++)
        if (body->nodes[k].op == LESS)
            body->out[0] = body->nodes[k].out[0];
    body->n_out = n->n_out + 1;
    for (int k = 1; k <= carried; k++) /* exchanged, or unchanged */
        if (below(m, 3) == 0)
            body->out[k] = in[below(m, carried)];
    n->sub[0] = body;
    m->n_iterations--;
    m->n_data = n_data;
    m->n_bools = n_bools;
}

static void make_node(maker *m, node *n, int depth)
{
    n->op = (kind)below(m, depth < MAX_DEPTH ? LOOP + 2 : LESS + 1);
    if (n->op > LOOP)
        n->op = below(m, 2) ? IF : LOOP;
    if (n->op == LESS && !m->n_iterations)
        n->op = ADD;
    n->n_in = n->op <= MUL ? 2 : 1;
    n->n_out = 1;
    if (n->op == IF) {
        make_if(m, n, depth);
    } else if (n->op == LOOP) {
        make_loop(m, n, depth);
    } else if (n->op == LESS) {
        n->in[0] = m->iterations[m->n_iterations - 1];
        n->number = 1 + below(m, 4);
    } else {
        for (int k = 0; k < n->n_in; k++)
            n->in[k] = pick(m, m->data, m->n_data);
    }
    for (int k = 0; k < n->n_out; k++) {
        n->out[k] = m->n_values++;
        if (n->op == LESS)
            m->bools[m->n_bools++] = n->out[k];
        else
            m->data[m->n_data++] = n->out[k];
    }
}

static list *make_list(maker *m, int depth, int n_out)
{
    list *l = cm_new(m->arena, list);
    int n_data = m->n_data, n_bools = m->n_bools;
    l->n_nodes = below(m, depth ? 5 : MAX_NODES) + (depth == 0);
    for (int i = 0; i < l->n_nodes; i++)
        make_node(m, &l->nodes[i], depth);
    l->n_out = n_out;
    for (int k = 0; k < n_out; k++)
        l->out[k] = pick(m, m->data, m->n_data);
    if (depth) {
        m->n_data = n_data;
        m->n_bools = n_bools;
    }
    return l;
}

static void print_list(maker *m, const list *l, bool body);

static void print_node(maker *m, const node *n)
{
    static const char *const names[] = {"Add",     "Sub",  "Mul", "Neg", "Identity",
                                        "Reshape", "Less", "If",  "Loop"};
    cm_buf *b = &m->text;
    int carried = n->op == LOOP ? n->n_in - 1 : 0;
    for (int k = 0; k < n->n_out; k++)
        cm_buf_printf(b, "%s%s%d", k ? ", " : "", n->scans && k == carried ? "raw" : "v",
                      n->out[k]);
    cm_buf_printf(b, " = %s(", names[n->op]);
    if (n->op == LOOP) {
        cm_buf_printf(b, "@n%d", (int)n->number);
        cm_buf_printf(b, n->in[0] < 0 ? ", _" : ", v%d", n->in[0]);
    }
    for (int k = n->op == LOOP; k < n->n_in; k++)
        cm_buf_printf(b, "%sv%d", k ? ", " : "", n->in[k]);
    if (n->op == RESHAPE)
        cm_buf_str(b, ", @shape");
    if (n->op == LESS)
        cm_buf_printf(b, ", @n%d", (int)n->number);
    cm_buf_str(b, ")");
    for (int k = 0; k < 2 && n->sub[k]; k++)
        print_list(m, n->sub[k], n->op == LOOP);
    cm_buf_str(b, "\n");
    if (n->scans)
        cm_buf_printf(b, "v%d = ReduceSum(raw%d, @zero) {keepdims=0}\n", n->out[carried],
                      n->out[carried]);
}

static void print_list(maker *m, const list *l, bool body)
{
    cm_buf *b = &m->text;
    cm_buf_str(b, " do\n");
    if (body)
        cm_buf_printf(b, "v%d: i64[]\nv%d: bool[]\n", l->iteration, l->condition);
    for (int k = 0; k < l->n_in; k++)
        cm_buf_printf(b, "v%d: i64[%d]\n", l->in[k], WIDTH);
    for (int i = 0; i < l->n_nodes; i++)
        print_node(m, &l->nodes[i]);
    for (int k = 0; k < l->n_out; k++)
        cm_buf_printf(b, "%s v%d", k ? "," : "return", l->out[k]);
    cm_buf_str(b, "\nend");
}

static void interpret(maker *m, const list *l);

static void interpret_loop(maker *m, const node *n)
{
    const list *body = n->sub[0];
    int carried = n->n_in - 1;
    int64_t now[MAX_CARRIED][WIDTH], sum[WIDTH] = {0}, go = n->in[0] < 0 || m->value[n->in[0]][0];
    for (int k = 0; k < carried; k++)
        memcpy(now[k], m->value[n->in[k + 1]], sizeof now[k]);
    for (int64_t i = 0; i < n->number && go; i++) {
        m->value[body->iteration][0] = i;
        m->value[body->condition][0] = go;
        for (int k = 0; k < carried; k++)
            memcpy(m->value[body->in[k]], now[k], sizeof now[k]);
        interpret(m, body);
        go = m->value[body->out[0]][0];
        for (int k = 0; k < carried; k++)
            memcpy(now[k], m->value[body->out[1 + k]], sizeof now[k]);
        for (int w = 0; n->scans && w < WIDTH; w++)
            sum[w] = (int64_t)((uint64_t)sum[w] + (uint64_t)m->value[body->out[1 + carried]][w]);
    }
    for (int k = 0; k < carried; k++)
        memcpy(m->value[n->out[k]], now[k], sizeof now[k]);
    if (n->scans)
        memcpy(m->value[n->out[carried]], sum, sizeof sum);
}

static void interpret_node(maker *m, const node *n)
{
    const int64_t *x = n->in[0] >= 0 ? m->value[n->in[0]] : NULL, *y = m->value[n->in[1]];
    int64_t *z = m->value[n->out[0]];
    if (n->op == LOOP) {
        interpret_loop(m, n);
        return;
    }
    if (n->op == IF) {
        const list *l = n->sub[x[0] ? 0 : 1];
        interpret(m, l);
        for (int k = 0; k < n->n_out; k++)
            memcpy(m->value[n->out[k]], m->value[l->out[k]], sizeof m->value[0]);
        return;
    }
    if (n->op == LESS) {
        z[0] = x[0] < n->number;
        return;
    }
    for (int w = 0; w < WIDTH; w++) {
        uint64_t a = (uint64_t)x[w], b = n->n_in > 1 ? (uint64_t)y[w] : 0;
        z[w] = (int64_t)(n->op == ADD   ? a + b
                         : n->op == SUB ? a - b
                         : n->op == MUL ? a * b
                         : n->op == NEG ? 0 - a
                                        : a);
    }
}

static void interpret(maker *m, const list *l)
{
    for (int i = 0; i < l->n_nodes; i++)
        interpret_node(m, &l->nodes[i]);
}

static void make_text(maker *m, const list *main)
{
    cm_buf *b = &m->text;
    b->n = 0;
    cm_buf_printf(b, "v0: i64[%d]\nv1: i64[%d]\nv2: bool[]\nv3: bool[]\n", WIDTH, WIDTH);
    cm_buf_printf(b, "@shape = i64[1] {%d}\n@zero = i64[1] {0}\n", WIDTH);
    for (int k = 0; k < 6; k++)
        cm_buf_printf(b, "@n%d = i64[] {%d}\n", k, k);
    for (int i = 0; i < main->n_nodes; i++)
        print_node(m, &main->nodes[i]);
    for (int k = 0; k < main->n_out; k++)
        cm_buf_printf(b, "%s v%d as \"out%d\"", k ? "," : "return", main->out[k], k);
    cm_buf_str(b, "\n");
}

static void check(run_case *t, const maker *m, const list *main, uint32_t seed)
{
    for (int k = 0; k < main->n_out; k++) {
        const cm_tensor *x = out(t, k);
        assert_int_equal(cm_tensor_elems(x), WIDTH);
        if (memcmp(x->data, m->value[main->out[k]], sizeof m->value[0]) != 0)
            fail_msg("seed %u, output %d of\n%s", seed, k, (const char *)m->text.data);
    }
}

/* CAMEO_NETWORKS asks for more. */
static void random_networks_compute_what_an_interpreter_does(void **state)
{
    run_case *t = *state;
    const char *more = getenv("CAMEO_NETWORKS");
    static maker m;
    for (uint32_t seed = 1; seed <= (uint32_t)(more ? atoi(more) : 400); seed++) {
        cm_arena_reset(&t->arena);
        cm_arena_reset(&t->scratch);
        cm_buf_deinit(&m.text);
        m = (maker){.seed = seed * 2654435761u, .arena = &t->arena, .n_values = 4};
        cm_buf_init(&m.text, NULL);
        m.data[0] = 0;
        m.data[1] = 1;
        m.bools[0] = 2;
        m.bools[1] = 3;
        m.n_data = m.n_bools = 2;
        list *main = make_list(&m, 0, 1 + below(&m, MAX_CARRIED));
        if (m.n_values > MAX_VALUES - 200)
            continue;
        make_text(&m, main);
        load(t, cm_buf_text(&m.text));
        for (int round = 0; round < 3; round++) {
            int64_t x[2][WIDTH];
            bool c[2] = {below(&m, 2), below(&m, 2)};
            for (int w = 0; w < 2 * WIDTH; w++)
                x[w / WIDTH][w % WIDTH] = below(&m, 1000) - 500;
            memcpy(m.value[0], x[0], sizeof x[0]);
            memcpy(m.value[1], x[1], sizeof x[1]);
            m.value[2][0] = c[0];
            m.value[3][0] = c[1];
            interpret(&m, main);
            for (int k = 0; k < 2; k++) {
                give(t, k, CM_I64, 1, (const int64_t[]){WIDTH}, x[k]);
                give(t, 2 + k, CM_BOOL, 0, NULL, &c[k]);
            }
            run(t);
            check(t, &m, main, seed);
        }
        cm_context_destroy(t->context);
        cm_engine_release(t->engine);
        t->context = NULL;
        t->engine = NULL;
    }
    cm_buf_deinit(&m.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_networks_compute_what_an_interpreter_does,
                                        case_setup, case_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
