/* lower.c -- walks a network and its nested ones once, numbering values as it meets them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every network becomes a step list, every node a step; all lists share one value table. Values are
 * numbered in the order of that walk (inputs, then node by node: constants when first read, then
 * nested networks, then outputs), so the same network gives the same plan. Constants that nobody
 * reads are never met. */
#include "lower/lower.h"

#include <stdlib.h>
#include <string.h>

#include "ops/problem.h"

/* A growing array in the arena. */
#define VECTOR(type)                                                                               \
    struct {                                                                                       \
        type *v;                                                                                   \
        int n, cap;                                                                                \
    }

typedef struct {
    cm_ctx *cx;
    cm_arena *arena;
    int32_t *index; /* by cm_value id: plan value + 1, 0: not met */
    int n_ids;
    VECTOR(cm_plan_value) values;
    VECTOR(cm_plan_weight) weights;
    VECTOR(const cm_tensor *) constants;
    VECTOR(cm_plan_list) lists;
    VECTOR(cm_plan_plugin) plugins;
} lowering;

/* Captures of a list while it is walked: unsorted, repeats possible. */
typedef VECTOR(int32_t) indices;

/* Room for one more of `size` bytes at the end of a vector. */
static cm_status grow(lowering *lo, void *vector, int n, int *cap, size_t size)
{
    if (n < *cap)
        return CM_OK;
    int want = *cap ? *cap * 2 : 16;
    void *old;
    memcpy(&old, vector, sizeof old); /* whatever it points to */
    void *p = cm_arena_alloc_n(lo->arena, (size_t)want, size, 16, 1);
    if (!p)
        return cm_fail_memory(lo->cx);
    if (n)
        memcpy(p, old, (size_t)n * size);
    memcpy(vector, &p, sizeof p);
    *cap = want;
    return CM_OK;
}
#define PUSH(lo, vec) CM_TRY(grow((lo), &(vec).v, (vec).n, &(vec).cap, sizeof *(vec).v))

static void max_id(const cm_value *v, int *max)
{
    if (v && v->id > *max)
        *max = v->id;
}

static void max_ids(const cm_network *g, int *max)
{
    for (int i = 0; i < g->n_inputs; i++)
        max_id(g->inputs[i], max);
    for (int i = 0; i < g->n_outputs; i++)
        max_id(g->outputs[i], max);
    for (const cm_node *n = g->first; n; n = n->next) {
        for (int i = 0; i < n->n_in; i++)
            max_id(n->in[i], max);
        for (int i = 0; i < n->n_out; i++)
            max_id(n->out[i], max);
        for (int i = 0; i < n->n_subs; i++)
            max_ids(n->subs[i], max);
    }
}

static cm_status add_value(lowering *lo, const cm_value *v, cm_storage storage, int32_t *out)
{
    PUSH(lo, lo->values);
    cm_plan_value *pv = &lo->values.v[lo->values.n];
    *pv = (cm_plan_value){
        .name = v->name,
        .type = v->type,
        .storage = storage,
        .elems = v->elems,
        .n_elems = v->elems ? v->n_elems : 0,
        .weight = -1,
    };
    *out = lo->values.n++;
    lo->index[v->id] = *out + 1;
    return CM_OK;
}

static cm_status add_constant(lowering *lo, const cm_value *v, int32_t *out)
{
    CM_TRY(add_value(lo, v, CM_STORE_CONSTANT, out));
    cm_plan_value *pv = &lo->values.v[*out];
    pv->type = cm_type_of_tensor(v->constant);
    if (v->weight) {
        PUSH(lo, lo->weights);
        lo->weights.v[lo->weights.n] = (cm_plan_weight){v->weight};
        pv->weight = lo->weights.n++;
    }
    PUSH(lo, lo->constants);
    lo->constants.v[lo->constants.n++] = v->constant;
    return CM_OK;
}

static bool is_constant(const cm_value *v)
{
    if (!v->constant || v->producer)
        return false;
    const cm_network *g = v->network;
    return !(g && v->index >= 0 && v->index < g->n_inputs && g->inputs[v->index] == v);
}

/* Is `v` made outside of `g`? Constants are there for all and do not count. */
static bool is_captured(const cm_value *v, const cm_network *g)
{
    for (const cm_network *n = v->network; n; n = n->outer)
        if (n == g)
            return false;
    return true;
}

/* The plan's number for a value that list `g` reads. */
static cm_status read_value(lowering *lo, const cm_network *g, const cm_value *v, indices *captures,
                            int32_t *out)
{
    if (lo->index[v->id]) {
        *out = lo->index[v->id] - 1;
    } else if (is_constant(v)) {
        CM_TRY(add_constant(lo, v, out));
    } else {
        return cm_fail(lo->cx, CM_ERR_INTERNAL, "value '%s' is read before it is made", v->name);
    }
    if (lo->values.v[*out].storage != CM_STORE_CONSTANT && is_captured(v, g)) {
        PUSH(lo, *captures);
        captures->v[captures->n++] = *out;
    }
    return CM_OK;
}

static int compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void sort_unique(indices *c)
{
    if (c->n)
        qsort(c->v, (size_t)c->n, sizeof *c->v, compare);
    int n = 0;
    for (int i = 0; i < c->n; i++)
        if (!n || c->v[n - 1] != c->v[i])
            c->v[n++] = c->v[i];
    c->n = n;
}

static const struct {
    cm_op_id op;
    cm_step_kind step;
} controls[] = {
    {CM_OP_IF, CM_STEP_IF},
    {CM_OP_LOOP, CM_STEP_LOOP},
    {CM_OP_SCAN, CM_STEP_SCAN},
    {CM_OP_SEQUENCE_MAP, CM_STEP_MAP},
};

static cm_status step_kind(lowering *lo, const cm_node *n, cm_step_kind *out)
{
    *out = CM_STEP_PROBLEM;
    if (!(n->op->traits & CM_CONTROL))
        return CM_OK;
    for (int i = 0; i < CM_COUNT(controls); i++) {
        if (controls[i].op == n->op->id) {
            *out = controls[i].step;
            return CM_OK;
        }
    }
    return cm_fail(lo->cx, CM_ERR_UNSUPPORTED, "control operator %s has no kind of step",
                   n->op->name);
}

/* What backends will see it as; an operator without a row is evaluated. */
static cm_problem_kind problem_kind(const cm_op *op)
{
    const cm_problem_row *row = cm_problem_find(op);
    return row ? row->kind : CM_PROBLEM_EVALUATE;
}

static cm_status write_attr(lowering *lo, const cm_node *n, cm_plan_step *s)
{
    cm_buf b;
    cm_buf_init(&b, lo->cx->allocator);
    if (n->attr)
        cm_attr_write(n->op->attrs, n->attr, &b);
    s->attr_n = b.n;
    s->attr_bytes = cm_arena_memdup(lo->arena, b.data, b.n);
    bool failed = b.failed || !s->attr_bytes;
    cm_buf_deinit(&b);
    return failed ? cm_fail_memory(lo->cx) : CM_OK;
}

static cm_operand operand(int32_t value)
{
    return (cm_operand){.value = value, .quant = {-1, -1, -1, 0}};
}

static cm_status note_plugin(lowering *lo, const cm_op *op)
{
    if (!op->plugin)
        return CM_OK;
    for (int i = 0; i < lo->plugins.n; i++)
        if (lo->plugins.v[i].op == op->name)
            return CM_OK;
    PUSH(lo, lo->plugins);
    lo->plugins.v[lo->plugins.n++] = (cm_plan_plugin){op->name, op->plugin};
    return CM_OK;
}

static cm_status lower_list(lowering *lo, const cm_network *g, int32_t *out);

static cm_status lower_node(lowering *lo, const cm_network *g, const cm_node *n, indices *captures,
                            cm_plan_step *s)
{
    cm_operand *in, *outs;
    int32_t *lists;
    CM_NEW_N(lo->cx, lo->arena, in, n->n_in, cm_operand);
    CM_NEW_N(lo->cx, lo->arena, outs, n->n_out, cm_operand);
    CM_NEW_N(lo->cx, lo->arena, lists, n->n_subs, int32_t);
    *s = (cm_plan_step){
        .problem = problem_kind(n->op),
        .op = n->op->name,
        .n_in = n->n_in,
        .n_out = n->n_out,
        .in = in,
        .out = outs,
        .n_lists = n->n_subs,
        .lists = lists,
        .name = n->name ? n->name : "",
        .n_from = n->n_from,
        .from = n->from,
        .epilogue = n->epilogue,
    };
    CM_TRY(note_plugin(lo, n->op));
    CM_TRY(step_kind(lo, n, &s->kind));
    CM_TRY(write_attr(lo, n, s));
    for (int i = 0; i < n->n_in; i++) {
        int32_t value = -1;
        if (n->in[i])
            CM_TRY(read_value(lo, g, n->in[i], captures, &value));
        in[i] = operand(value);
    }
    for (int i = 0; i < n->n_subs; i++) {
        CM_TRY(lower_list(lo, n->subs[i], &lists[i]));
        const cm_plan_list *inner = &lo->lists.v[lists[i]];
        for (int j = 0; j < inner->n_captures; j++) {
            PUSH(lo, *captures); /* those that g made itself are taken out in the end */
            captures->v[captures->n++] = inner->captures[j];
        }
    }
    for (int i = 0; i < n->n_out; i++) {
        int32_t value = -1;
        if (n->out[i])
            CM_TRY(add_value(lo, n->out[i], CM_STORE_ARENA, &value));
        outs[i] = operand(value);
    }
    return CM_OK;
}

static cm_status lower_list(lowering *lo, const cm_network *g, int32_t *out)
{
    PUSH(lo, lo->lists);
    *out = lo->lists.n++;
    int first = lo->values.n; /* what g makes is numbered from here */
    indices captures = {0};
    int32_t *inputs, *outputs;
    cm_plan_step *steps;
    CM_NEW_N(lo->cx, lo->arena, inputs, g->n_inputs, int32_t);
    CM_NEW_N(lo->cx, lo->arena, outputs, g->n_outputs, int32_t);
    CM_NEW_N(lo->cx, lo->arena, steps, g->n_nodes, cm_plan_step);
    for (int i = 0; i < g->n_inputs; i++)
        CM_TRY(add_value(lo, g->inputs[i], g->outer ? CM_STORE_ARENA : CM_STORE_INPUT, &inputs[i]));
    int n_steps = 0;
    for (const cm_node *n = g->first; n; n = n->next) {
        cm_status st = lower_node(lo, g, n, &captures, &steps[n_steps++]);
        if (st != CM_OK)
            return cm_while(lo->cx, st, "%s node '%s'", n->op->name, n->name ? n->name : "");
    }
    for (int i = 0; i < g->n_outputs; i++)
        CM_TRY(read_value(lo, g, g->outputs[i], &captures, &outputs[i]));
    sort_unique(&captures);
    while (captures.n && captures.v[captures.n - 1] >= first)
        captures.n--; /* sorted: g's own stand last */
    lo->lists.v[*out] = (cm_plan_list){
        .n_inputs = g->n_inputs,
        .n_outputs = g->n_outputs,
        .inputs = inputs,
        .outputs = outputs,
        .output_names = g->outer ? NULL : g->output_names,
        .n_steps = n_steps,
        .steps = steps,
        .n_captures = captures.n,
        .captures = captures.v,
    };
    return CM_OK;
}

cm_status cm_lower(cm_ctx *cx, cm_arena *arena, cm_network *g, cm_plan **out,
                   const cm_tensor *const **constants)
{
    lowering lo = {.cx = cx, .arena = arena};
    int max = -1;
    max_ids(g, &max);
    lo.n_ids = max + 1;
    CM_NEW_N(cx, arena, lo.index, lo.n_ids, int32_t);
    int32_t main;
    CM_TRY(lower_list(&lo, g, &main));
    cm_plan *p;
    cm_plan_variant *variant;
    CM_NEW(cx, arena, p, cm_plan);
    CM_NEW(cx, arena, variant, cm_plan_variant);
    *variant = (cm_plan_variant){"default", lo.lists.n, lo.lists.v};
    *p = (cm_plan){
        .producer = "cameo " CM_VERSION,
        .model_name = g->name ? g->name : "",
        .dims = g->dims,
        .n_values = lo.values.n,
        .values = lo.values.v,
        .n_weights = lo.weights.n,
        .weights = lo.weights.v,
        .n_variants = 1,
        .variants = variant,
        .n_plugins = lo.plugins.n,
        .plugins = lo.plugins.v,
    };
    *constants = (const cm_tensor *const *)lo.constants.v;
    *out = p;
    return CM_OK;
}
