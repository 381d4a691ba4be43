/* harness.h -- every tactic against the operator's reference.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A case is the text of a network with one node (constants are `@w = f32[..] random 1`):
 *
 *     op_case c = op_case_of("x: f32[3,40]\n@w = f32[40,7] random 1\ny = MatMul(x, @w)\nreturn y\n");
 *     c.tolerance = 1e-5;
 *     op_check(&c);
 *     assert_true(c.ran > 0);
 *
 * op_check makes inputs, evaluates the reference, then runs each tactic of the node's kind that does not
 * refuse, at every ISA level of this machine from the tactic's own up, with each of its knobs, one and
 * three threads, activations row-major and channels-last in every combination; on memory that is only
 * aligned to its element and ends where the tensor ends. The outputs must agree: integers and strings of bits exactly
 * (or within `steps`), floats within `tolerance` times the largest magnitude of the output, with the same
 * NaNs and infinities. CAMEO_TEST_LEVEL=amx: of the CPU's tactics only those of this level's own. Tactics of GPUs: harness_cuda.h. */
#ifndef CM_TESTS_OP_HARNESS_H
#define CM_TESTS_OP_HARNESS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "ir/network.h"
#include "ops/eval.h"
#include "ops/problem.h"
#include "plan/backend.h"

typedef struct op_case {
    const char *text;
    double tolerance; /* of the output's largest magnitude */
    double absolute;  /* and this much in any case: sums whose terms cancel */
    int steps;        /* integer outputs, floats of 16 bits where not 0: how far they may be off */
    uint32_t seed;
    double low, high;          /* of random float inputs */
    int64_t int_low, int_high; /* of integer inputs; high exclusive */
    bool tf32;                 /* GPUs may shorten float32 operands of products */
    int hurt;            /* > 0: one element in so many of float inputs is NaN, infinite or huge */
    uint64_t fixed;      /* inputs that tactics see as constants, a bit each */
    bool every;          /* inputs of 16 bits hold every pattern of bits, one after the other */
    const char *only;    /* only tactics whose name holds this; NULL: all */
    const char *without; /* none whose name holds this; NULL: all */
    int ran;             /* how many runs were compared */
    bool is_problem;     /* the operator has a kind and its fill took the case */
} op_case;

__attribute__((unused)) static op_case op_case_of(const char *text)
{
    return (op_case){
        .text = text, .tolerance = 1e-5, .seed = 1, .low = -1, .high = 1, .int_high = 100};
}

typedef struct {
    op_case *c;
    cm_ctx cx;
    cm_arena arena, scratch;
    cm_network *g;
    cm_node *node;
    int n_in, n_out;           /* of the node, the epilogue's operands among the inputs */
    cm_tensor in[64], out[64]; /* row-major; what the reference says */
    bool given[64], wanted[64], constant[64];
} op_state;

static uint32_t op_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static double op_unit(uint32_t *state)
{
    return op_random(state) / 16777216.0;
}

static void op_fill(const op_case *c, cm_tensor *t, uint32_t *state)
{
    static const double painful[] = {NAN, INFINITY, -INFINITY, 1e38, -1e38, 1e-42, 0.0, -0.0};
    int64_t n = cm_tensor_elems(t);
    for (int64_t i = 0; i < n; i++) {
        if (c->every && cm_dtype_size(t->dtype) == 2) {
            ((uint16_t *)t->data)[i] = (uint16_t)i;
        } else if (cm_dtype_is_float(t->dtype)) {
            double v = c->low + (c->high - c->low) * op_unit(state);
            if (c->hurt && op_random(state) % (uint32_t)c->hurt == 0)
                v = painful[op_random(state) % 8];
            cm_set_f64(t->dtype, t->data, i, v);
        } else if (t->dtype == CM_BOOL) {
            cm_set_i64(t->dtype, t->data, i, op_random(state) & 1);
        } else {
            int64_t span = c->int_high - c->int_low;
            cm_set_i64(t->dtype, t->data, i, c->int_low + (int64_t)(op_unit(state) * (double)span));
        }
    }
}

/* Elements of less than a byte as plans hold them. */
static void op_pack(cm_tensor *t)
{
    if (!cm_dtype_is_sub_byte(t->dtype) || t->packed)
        return;
    int64_t n = cm_tensor_elems(t);
    void *whole = malloc((size_t)n + 1);
    memcpy(whole, t->data, (size_t)n);
    cm_pack_sub_byte(t->dtype, whole, n, t->data);
    t->packed = true;
    free(whole);
}

static cm_status op_alloc(void *user, cm_ctx *cx, int output, cm_tensor *t)
{
    op_state *s = user;
    (void)output;
    size_t bytes;
    if (!cm_tensor_bytes(t, &bytes))
        return cm_fail(cx, CM_ERR_DATA, "too large");
    t->data = cm_arena_alloc_n(&s->arena, bytes + 1, 1, 64, 1);
    t->capacity_bytes = bytes;
    return t->data ? CM_OK : cm_fail_memory(cx);
}

static void op_reference(op_state *s)
{
    cm_datum in_data[64], out_data[64];
    const cm_datum *in[64];
    cm_datum *out[64];
    for (int i = 0; i < s->n_in; i++) {
        in_data[i] = (cm_datum){.kind = CM_TENSOR, .tensor = s->in[i]};
        in[i] = s->given[i] ? &in_data[i] : NULL;
    }
    for (int i = 0; i < s->n_out; i++) {
        out_data[i] = (cm_datum){0};
        out[i] = s->wanted[i] ? &out_data[i] : NULL;
    }
    uint64_t random = 1;
    cm_eval_host host = {op_alloc, s};
    cm_eval e = {.cx = &s->cx,
                 .op = s->node->op,
                 .attr = s->node->attr,
                 .n_in = s->n_in,
                 .in = in,
                 .n_out = s->n_out,
                 .out = out,
                 .random = &random,
                 .host = &host,
                 .epilogue = &s->node->epilogue};
    cm_status st = cm_op_eval(&e);
    if (st != CM_OK)
        fail_msg("the reference fails: %s\n%s", s->cx.message, s->c->text);
    for (int i = 0; i < s->n_out; i++)
        if (s->wanted[i])
            s->out[i] = out_data[i].tensor;
}

static void op_open(op_state *s, op_case *c)
{
    *s = (op_state){.c = c};
    cm_arena_init(&s->arena, NULL);
    cm_arena_init(&s->scratch, NULL);
    s->cx = (cm_ctx){.arena = &s->arena, .scratch = &s->scratch};
    if (cm_network_parse(&s->cx, &s->arena, c->text, strlen(c->text), &s->g) != CM_OK ||
        cm_network_infer(&s->cx, s->g) != CM_OK)
        fail_msg("%s\n%s", s->cx.message, c->text);
    s->node = s->g->first;
    assert_non_null(s->node);
    assert_null(s->node->next);
    s->n_in = s->node->n_in;
    s->n_out = s->node->n_out;
    uint32_t random = c->seed * 2654435761u + 12345;
    for (int i = 0; i < s->n_in; i++) {
        cm_value *v = s->node->in[i];
        s->given[i] = v != NULL;
        if (!v)
            continue;
        s->constant[i] = v->constant || (c->fixed >> i & 1);
        if (v->constant) {
            s->in[i] = *v->constant;
            continue;
        }
        int64_t dims[CM_MAX_RANK];
        for (int a = 0; a < v->type.rank; a++)
            dims[a] = v->type.dims[a];
        assert_true(cm_tensor_shape(&s->in[i], v->type.dtype, v->type.rank, dims));
        assert_int_equal(op_alloc(s, &s->cx, 0, &s->in[i]), CM_OK);
        bool again = false; /* the same value twice is the same data */
        for (int k = 0; k < i; k++)
            if (s->node->in[k] == v) {
                s->in[i] = s->in[k];
                again = true;
            }
        if (!again) {
            op_fill(c, &s->in[i], &random);
            op_pack(&s->in[i]);
        }
    }
    for (int i = 0; i < s->n_out; i++)
        s->wanted[i] = s->node->out[i] != NULL;
    op_reference(s);
}

static void op_close(op_state *s)
{
    cm_arena_deinit(&s->arena);
    cm_arena_deinit(&s->scratch);
}

/* The strides of [n, c, spatial...] with the channels innermost. */
static void op_channels_last(cm_tensor *t)
{
    int64_t step = 1;
    t->strides[1] = 1;
    step = t->dims[1];
    for (int a = t->rank - 1; a >= 2; a--) {
        t->strides[a] = step;
        step *= t->dims[a];
    }
    t->strides[0] = step;
}

static size_t op_bytes(const cm_tensor *t)
{
    size_t bytes = 0;
    assert_true(cm_tensor_bytes(t, &bytes));
    return bytes;
}

/* Elements one by one between any two layouts. */
static void op_relay(const cm_tensor *from, const void *from_data, const cm_tensor *to,
                     void *to_data)
{
    size_t size = cm_dtype_size(from->dtype);
    int64_t n = cm_tensor_elems(from), at[CM_MAX_RANK] = {0};
    if (from->packed) { /* always dense */
        memcpy(to_data, from_data, op_bytes(from));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t f = 0, d = 0;
        for (int a = 0; a < from->rank; a++) {
            f += at[a] * from->strides[a];
            d += at[a] * to->strides[a];
        }
        memcpy((char *)to_data + (size_t)d * size, (const char *)from_data + (size_t)f * size,
               size);
        for (int a = from->rank - 1; a >= 0 && ++at[a] == from->dims[a]; a--)
            at[a] = 0;
    }
}

/* Of floats of 16 bits, in their order: how far apart they are, as many as there are between them. */
static int op_steps_apart(const void *a, const void *b, int64_t i)
{
    int16_t x = ((const int16_t *)a)[i], y = ((const int16_t *)b)[i];
    int p = x < 0 ? -(x & 0x7fff) : x, q = y < 0 ? -(y & 0x7fff) : y;
    return abs(p - q);
}

static void op_compare(const op_state *s, const char *what, int o, const cm_tensor *want,
                       const void *got)
{
    int64_t n = cm_tensor_elems(want);
    if (want->packed) { /* bits that no element has are 0 */
        const unsigned char *w = want->data, *g = got;
        for (size_t b = 0; b < op_bytes(want); b++)
            if (w[b] != g[b])
                fail_msg("%s: output %d byte %zu is %02x, wanted %02x\n%s", what, o, b, g[b], w[b],
                         s->c->text);
        return;
    }
    double scale = 0;
    bool is_float = cm_dtype_is_float(want->dtype);
    for (int64_t i = 0; is_float && i < n; i++) {
        double v = fabs(cm_get_f64(want->dtype, want->data, i));
        if (v > scale && !isinf(v))
            scale = v;
    }
    for (int64_t i = 0; i < n; i++) {
        double w, g;
        bool good;
        if (is_float) {
            w = cm_get_f64(want->dtype, want->data, i);
            g = cm_get_f64(want->dtype, got, i);
            good = isnan(w)      ? isnan(g)
                   : isinf(w)    ? w == g
                   : s->c->steps ? !isnan(g) && op_steps_apart(want->data, got, i) <= s->c->steps
                                 : fabs(w - g) <= s->c->tolerance * scale + s->c->absolute + 1e-37;
        } else {
            w = (double)cm_get_i64(want->dtype, want->data, i);
            g = (double)cm_get_i64(want->dtype, got, i);
            good = fabs(w - g) <= s->c->steps;
        }
        if (!good)
            fail_msg("%s: output %d element %lld is %.9g, wanted %.9g (scale %.3g)\n%s", what, o,
                     (long long)i, g, w, scale, s->c->text);
    }
}

/* Pools are kept until the program ends: making one takes longer than most cases. */
static cm_threads *op_pool(int threads)
{
    static cm_threads *pools[4];
    cm_ctx cx = {0};
    if (!pools[threads])
        assert_int_equal(cm_threads_create(&cx, threads, &pools[threads]), CM_OK);
    return pools[threads];
}

static void op_results(op_state *s, const cm_problem *p, void *const *out, const char *what)
{
    for (int o = 0; o < p->n_out; o++) {
        if (!p->out[o])
            continue;
        void *dense = malloc(op_bytes(p->out[o]) + 1);
        op_relay(p->out[o], out[o], &s->out[o], dense);
        op_compare(s, what, o, &s->out[o], dense);
        free(dense);
    }
}

/* The same a few rows at a time. */
static void op_bands(op_state *s, const cm_tactic *t, const cm_run *run, const char *what)
{
    const cm_problem *p = run->p;
    if (!t->band || p->as.conv.axes != 2 || p->as.conv.n != 1)
        return;
    memset(run->out[0], 0xcd, op_bytes(p->out[0]));
    int64_t rows = p->as.conv.out[1];
    for (int64_t row = 0, n = 1; row < rows; row += n, n = n % 4 + 1)
        t->band(run, row, row + n < rows ? row + n : rows);
    op_results(s, p, run->out, what);
}

/* One tactic, one setting. */
static void op_run(op_state *s, const cm_problem *p, const cm_tactic *t, const cm_knobs *k,
                   int threads, const char *layouts)
{
    char what[256];
    snprintf(what, sizeof what, "%s at %s, %d threads, %s, knobs %d %d %d %d", t->name,
             cm_isa_name((cm_isa)p->target.level), threads, layouts, k->v[0], k->v[1], k->v[2],
             k->v[3]);
    cm_arena_mark mark = cm_arena_save(&s->scratch);
    const void *in[64] = {0}, *operands[64] = {0};
    void *out[64] = {0}, *blocks[200];
    int n_blocks = 0, n_own = p->n_in;
    cm_threads *pool = op_pool(threads);
    for (int i = 0; i < s->n_in; i++) {
        const cm_tensor *pt = i < n_own ? p->in[i] : p->operands[i - n_own];
        if (!s->given[i] || !pt)
            continue;
        size_t size = cm_dtype_size(pt->dtype), bytes = op_bytes(pt);
        char *block = malloc(bytes + size); /* one element in: aligned to nothing larger */
        blocks[n_blocks++] = block;
        op_relay(&s->in[i], s->in[i].data, pt, block + size);
        const void *data = block + size;
        size_t packed = i < n_own && t->pack_bytes && p->constant[i] ? t->pack_bytes(p, k, i) : 0;
        if (packed) {
            void *to = aligned_alloc(64, (packed + 63) / 64 * 64);
            blocks[n_blocks++] = to;
            t->pack(p, k, i, data, to, pool);
            data = to;
        }
        *(i < n_own ? &in[i] : &operands[i - n_own]) = data;
    }
    for (int o = 0; o < p->n_out; o++) {
        if (!p->out[o])
            continue;
        size_t size = cm_dtype_size(p->out[o]->dtype);
        char *block = malloc(op_bytes(p->out[o]) + size);
        blocks[n_blocks++] = block;
        memset(block, 0xcd, op_bytes(p->out[o]) + size);
        out[o] = block + size;
    }
    size_t work = t->workspace ? t->workspace(p, k) : 0;
    void *workspace = work ? aligned_alloc(64, (work + 63) / 64 * 64) : NULL;
    if (workspace) {
        memset(workspace, 0xff, work); /* NaN: nobody may read what was not written */
        blocks[n_blocks++] = workspace;
    }
    cm_run run = {.cx = &s->cx,
                  .p = p,
                  .k = k,
                  .in = in,
                  .out = out,
                  .operands = operands,
                  .workspace = workspace,
                  .threads = pool};
    if (t->run(&run) != CM_OK)
        fail_msg("%s fails: %s\n%s", what, s->cx.message, s->c->text);
    op_results(s, p, out, what);
    op_bands(s, t, &run, what);
    s->c->ran++;
    for (int i = 0; i < n_blocks; i++)
        free(blocks[i]);
    cm_arena_restore(&s->scratch, mark);
}

#include "op/harness_cuda.h"

/* The level whose rows alone are wanted; -1: all are. */
static int op_only_level(void)
{
    const char *name = getenv("CAMEO_TEST_LEVEL");
    cm_isa level = CM_ISA_GENERIC;
    if (name)
        assert_true(cm_isa_parse(name, &level));
    return name ? (int)level : -1;
}

static void op_tactics(op_state *s, const cm_problem *problem, const char *layouts)
{
    int only_level = op_only_level();
    op_device_tactics(s, problem, layouts);
    if (!op_targets()->cpu)
        return;
    cm_knobs *knobs = malloc(CM_MAX_KNOBS * sizeof *knobs);
    for (int b = 0; cm_backend_at(b); b++) {
        int n;
        const cm_tactic *rows = cm_backend_at(b)->tactics(problem->kind, &n);
        if (cm_backend_at(b)->device != CM_DEVICE_CPU)
            continue;
        for (int i = 0; i < n; i++) {
            if (s->c->only && !strstr(rows[i].name, s->c->only))
                continue;
            if (s->c->without && strstr(rows[i].name, s->c->without))
                continue;
            if (only_level >= 0 && rows[i].level != only_level)
                continue;
            for (int level = rows[i].level; level <= (int)cm_cpu_info()->isa; level++) {
                for (int threads = 1; threads <= 3; threads += 2) {
                    cm_problem p = *problem;
                    p.target = (cm_target){CM_DEVICE_CPU, level, 0};
                    p.threads = threads;
                    if (cm_tactic_declines(&rows[i], &p))
                        continue;
                    memset(knobs, 0, sizeof *knobs);
                    int n_knobs = rows[i].knobs ? rows[i].knobs(&p, knobs) : 1;
                    assert_in_range(n_knobs, 1, CM_MAX_KNOBS);
                    for (int k = 0; k < n_knobs; k++) {
                        assert_true(rows[i].cost(&p, &knobs[k]) > 0);
                        op_run(s, &p, &rows[i], &knobs[k], threads, layouts);
                    }
                }
            }
        }
    }
    free(knobs);
}

/* The problem with its activations in the given layouts; false: no such layout here. */
static void op_layout(op_state *s, bool in_last, bool out_last)
{
    cm_tensor tensors[128];
    const cm_tensor *in[64] = {0}, *out[64] = {0};
    int n_own = s->n_in - s->node->epilogue.n_operands, changed_in = 0, changed_out = 0;
    for (int i = 0; i < s->n_in; i++) {
        if (!s->given[i])
            continue;
        tensors[i] = s->in[i];
        if (!s->constant[i])
            tensors[i].data = NULL;
        bool like_output = s->in[i].rank == s->out[0].rank;
        if (i < n_own ? in_last : out_last)
            if (!s->constant[i] && s->in[i].rank >= 3 && like_output && !s->in[i].packed) {
                op_channels_last(&tensors[i]);
                changed_in += i < n_own;
            }
        in[i] = &tensors[i];
    }
    for (int o = 0; o < s->n_out; o++) {
        if (!s->wanted[o])
            continue;
        tensors[64 + o] = s->out[o];
        tensors[64 + o].data = NULL;
        if (out_last && s->out[o].rank >= 3 && !s->out[o].packed) {
            op_channels_last(&tensors[64 + o]);
            changed_out++;
        }
        out[o] = &tensors[64 + o];
    }
    if ((in_last && !changed_in) || (out_last && !changed_out))
        return;
    cm_program *program = NULL;
    if (s->node->epilogue.program) {
        program = cm_new(&s->arena, cm_program);
        const char *text = s->node->epilogue.program;
        assert_int_equal(cm_program_parse(&s->cx, text, strlen(text), program), CM_OK);
    }
    const cm_problem_row *row = cm_problem_find(s->node->op);
    if (!row)
        return;
    cm_problem *p = cm_new(&s->arena, cm_problem);
    *p = (cm_problem){.kind = row->kind,
                      .op = s->node->op->name,
                      .n_in = n_own,
                      .in = in,
                      .constant = s->constant,
                      .n_out = s->n_out,
                      .out = out,
                      .epilogue = program,
                      .n_operands = s->n_in - n_own,
                      .operands = in + n_own,
                      .target = {CM_DEVICE_CPU, cm_cpu_info()->isa, 0},
                      .threads = 1};
    if (!row->fill(&s->arena, s->node->op, s->node->attr, p))
        return;
    s->c->is_problem = true;
    char layouts[64];
    snprintf(layouts, sizeof layouts, "in %s, out %s", in_last ? "channels-last" : "row-major",
             out_last ? "channels-last" : "row-major");
    op_tactics(s, p, layouts);
}

/* CAMEO_TEST_SLICE=K/N: only every N-th case from K on, so that several processes share the work. */
static bool op_left_out(void)
{
    static int met;
    const char *slice = getenv("CAMEO_TEST_SLICE");
    int k, n;
    return slice && sscanf(slice, "%d/%d", &k, &n) == 2 && n > 0 && met++ % n != k;
}

__attribute__((unused)) static void op_check(op_case *c)
{
    if (op_left_out()) {
        c->ran += OP_NOT_COUNTED;
        c->is_problem = true;
        return;
    }
    op_state *s = malloc(sizeof *s);
    op_open(s, c);
    for (int layout = 0; layout < 4; layout++)
        op_layout(s, layout & 1, layout & 2);
    op_close(s);
    free(s);
    if (op_only_level() >= 0)
        c->ran += OP_NOT_COUNTED;
}

#endif
