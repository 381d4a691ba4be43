/* layout.c -- a table over the labels of living values, step by step.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/layout.h"

#include <math.h>

/* How a state was reached: enough to walk back. */
typedef struct {
    uint16_t from; /* state before the step */
    unsigned char label, mode;
} origin;

enum { STATES = 1 << CM_LAYOUT_LIVE };

typedef struct {
    const cm_layout_step *steps;
    int n_steps;
    int *last;                /* per value: the step that reads it last */
    int *place;               /* per value: its bit, -1: it never had one */
    unsigned char *fixed;     /* per value without a bit: its label */
    int live[CM_LAYOUT_LIVE]; /* values by bit, -1: free */
    double *cost, *next;      /* per state: the cheapest way there */
    origin **origins;         /* per step and state after it */
} solver;

static int label_of(const solver *s, int value, unsigned state)
{
    if (value < 0)
        return 0;
    return s->place[value] < 0 ? s->fixed[value] : state >> s->place[value] & 1;
}

/* The cheapest way to take the step from `state` with outputs labelled `label`. */
static double take(const solver *s, const cm_layout_step *p, unsigned state, int label, int *mode)
{
    double best = INFINITY;
    *mode = 0;
    for (int m = 0; m < 2; m++) {
        double c = p->cost[m][label];
        for (int i = 0; i < p->n_in && c < best; i++)
            if (label_of(s, p->in[i], state) != (p->follows_output[i] ? label : m))
                c += p->convert[i];
        if (c < best) {
            best = c;
            *mode = m;
        }
    }
    return best;
}

/* The label of outputs that find no bit: the one with the cheaper way so far. -1: all find one. */
static int label_beyond(const solver *s, int step)
{
    const cm_layout_step *p = &s->steps[step];
    int room = 0;
    for (int o = 0; o < p->n_out; o++)
        room -= s->last[p->out[o]] > step;
    for (int b = 0; b < CM_LAYOUT_LIVE; b++)
        room += s->live[b] < 0 || s->last[s->live[b]] <= step;
    if (room >= 0)
        return -1;
    double best[2] = {INFINITY, INFINITY};
    for (unsigned state = 0; state < STATES; state++) {
        for (int label = 0; label < 2 && s->cost[state] < INFINITY; label++) {
            int mode;
            double c = s->cost[state] + take(s, p, state, label, &mode);
            best[label] = c < best[label] ? c : best[label];
        }
    }
    return best[1] < best[0];
}

/* Values read for the last time give their bits back: states that differ in them become one. */
static unsigned free_bits(solver *s, int step)
{
    unsigned dead = 0;
    for (int b = 0; b < CM_LAYOUT_LIVE; b++) {
        if (s->live[b] >= 0 && s->last[s->live[b]] <= step) {
            dead |= 1u << b;
            s->live[b] = -1;
        }
    }
    return dead;
}

static unsigned place_outputs(solver *s, int step, int beyond)
{
    const cm_layout_step *p = &s->steps[step];
    unsigned bits = 0;
    for (int o = 0, b = 0; o < p->n_out; o++) {
        int v = p->out[o];
        while (b < CM_LAYOUT_LIVE && s->live[b] >= 0)
            b++;
        s->place[v] = -1;
        if (s->last[v] <= step || b == CM_LAYOUT_LIVE) {
            s->fixed[v] = beyond > 0;
            continue;
        }
        s->place[v] = b;
        s->live[b] = v;
        bits |= 1u << b;
    }
    return bits;
}

static void take_all(solver *s, int step)
{
    const cm_layout_step *p = &s->steps[step];
    int beyond = label_beyond(s, step);
    unsigned dead = free_bits(s, step), bits = place_outputs(s, step, beyond);
    for (int i = 0; i < STATES; i++)
        s->next[i] = INFINITY;
    for (unsigned state = 0; state < STATES; state++) {
        for (int label = 0; label < 2 && s->cost[state] < INFINITY; label++) {
            int mode;
            if (beyond >= 0 && beyond != label)
                continue;
            double c = s->cost[state] + take(s, p, state, label, &mode);
            unsigned to = (state & ~dead) | (label ? bits : 0);
            if (c < s->next[to]) {
                s->next[to] = c;
                s->origins[step][to] =
                    (origin){(uint16_t)state, (unsigned char)label, (unsigned char)mode};
            }
        }
    }
    double *swap = s->cost;
    s->cost = s->next;
    s->next = swap;
}

static void walk_back(const solver *s, unsigned state, unsigned char *labels, unsigned char *modes)
{
    for (int i = s->n_steps - 1; i >= 0; i--) {
        const origin *o = &s->origins[i][state];
        modes[i] = o->mode;
        for (int k = 0; k < s->steps[i].n_out; k++)
            labels[s->steps[i].out[k]] = o->label;
        state = o->from;
    }
}

cm_status cm_layout_solve(cm_ctx *cx, cm_arena *scratch, const cm_layout_step *steps, int n_steps,
                          int n_values, unsigned char *labels, unsigned char *modes, double *cost)
{
    solver s = {.steps = steps, .n_steps = n_steps};
    CM_NEW_N(cx, scratch, s.last, n_values, int);
    CM_NEW_N(cx, scratch, s.place, n_values, int);
    CM_NEW_N(cx, scratch, s.fixed, n_values, unsigned char);
    CM_NEW_N(cx, scratch, s.cost, STATES, double);
    CM_NEW_N(cx, scratch, s.next, STATES, double);
    CM_NEW_N(cx, scratch, s.origins, n_steps, origin *);
    for (int i = 0; i < n_steps; i++) {
        CM_NEW_N(cx, scratch, s.origins[i], STATES, origin);
        for (int k = 0; k < steps[i].n_in; k++)
            if (steps[i].in[k] >= 0)
                s.last[steps[i].in[k]] = i;
    }
    for (int b = 0; b < CM_LAYOUT_LIVE; b++)
        s.live[b] = -1;
    for (int i = 1; i < STATES; i++)
        s.cost[i] = INFINITY;
    for (int i = 0; i < n_steps; i++)
        take_all(&s, i);
    unsigned best = 0;
    for (unsigned i = 1; i < STATES; i++)
        if (s.cost[i] < s.cost[best])
            best = i;
    walk_back(&s, best, labels, modes);
    if (cost)
        *cost = s.cost[best];
    return CM_OK;
}
