/* layout.c -- the layout solver against trying everything.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/layout.h"

enum { MOST = 16 };

typedef struct {
    cm_layout_step steps[MOST];
    int in[MOST][3], out[MOST][2], n_values;
    double convert[MOST][3];
    bool follows[MOST][3];
} network;

static uint32_t seed;
static int below(int n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 9) % (uint32_t)n);
}

static void make(network *g, int n)
{
    g->n_values = 0;
    for (int i = 0; i < n; i++) {
        cm_layout_step *s = &g->steps[i];
        *s = (cm_layout_step){.in = g->in[i],
                              .out = g->out[i],
                              .convert = g->convert[i],
                              .follows_output = g->follows[i]};
        s->n_in = 1 + below(3);
        for (int k = 0; k < s->n_in; k++) {
            int recent = g->n_values > 4 && below(4) ? g->n_values - 4 : 0;
            g->in[i][k] = g->n_values && below(8) ? recent + below(g->n_values - recent) : -1;
            g->convert[i][k] = 1 + below(20);
            g->follows[i][k] = below(5) == 0;
        }
        for (int m = 0; m < 2; m++)
            for (int l = 0; l < 2; l++)
                s->cost[m][l] = (m || l) && below(4) == 0 ? INFINITY : below(50);
        s->n_out = 1 + (below(5) == 0);
        for (int o = 0; o < s->n_out; o++)
            g->out[i][o] = g->n_values++;
    }
}

static double cost_of(const network *g, int n, const unsigned char *labels)
{
    double total = 0;
    for (int i = 0; i < n; i++) {
        const cm_layout_step *s = &g->steps[i];
        double best = INFINITY;
        for (int m = 0; m < 2; m++) {
            double c = s->cost[m][labels[s->out[0]]];
            for (int k = 0; k < s->n_in; k++)
                if ((s->in[k] < 0 ? 0 : labels[s->in[k]]) !=
                    (s->follows_output[k] ? labels[s->out[0]] : m))
                    c += s->convert[k];
            best = c < best ? c : best;
        }
        total += best;
    }
    return total;
}

static double brute_force(const network *g, int n)
{
    double best = INFINITY;
    for (unsigned try = 0; try < 1u << n; try++) {
        unsigned char labels[2 * MOST];
        for (int i = 0; i < n; i++)
            for (int o = 0; o < g->steps[i].n_out; o++)
                labels[g->out[i][o]] = try >> i & 1;
        double c = cost_of(g, n, labels);
        best = c < best ? c : best;
    }
    return best;
}

static void the_solver_finds_the_least_cost(void **state)
{
    (void)state;
    network *g = malloc(sizeof *g);
    for (int round = 0; round < 300; round++) {
        seed = (uint32_t)round * 7919 + 3;
        int n = 1 + below(round < 280 ? 11 : MOST);
        make(g, n);
        cm_arena arena;
        cm_arena_init(&arena, NULL);
        cm_ctx cx = {.scratch = &arena};
        unsigned char labels[2 * MOST], modes[MOST];
        double cost;
        assert_int_equal(
            cm_layout_solve(&cx, &arena, g->steps, n, g->n_values, labels, modes, &cost), CM_OK);
        double best = brute_force(g, n);
        assert_true(cost == cost_of(g, n, labels));
        /* Up to CM_LAYOUT_LIVE values live at once here but rarely: then the answer may be worse. */
        if (g->n_values <= CM_LAYOUT_LIVE)
            assert_true(cost == best);
        assert_true(cost >= best && cost < INFINITY);
        cm_arena_deinit(&arena);
    }
    free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_solver_finds_the_least_cost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
