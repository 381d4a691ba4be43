/* debug_reduce.c -- `cameo debug reduce`: the fewest nodes of a model that still fail a check.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every subset of a network's nodes is a network: what it reads from nodes that are gone becomes inputs, what they
 * read of it becomes outputs. Delta debugging (Zeller's ddmin) finds a subset that fails, of which no part can go:
 * try each of n parts alone, then all but each part; keep what fails; else make the parts smaller. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/debug.h"
#include "onnx/export.h"

typedef struct {
    const cm_debug_options *o;
    const char *path, *output, *trial;
    int n_nodes;
    bool *keep; /* per node: in the subset that is tried */
    int n_checks;
} reducer;

/* ---- A subset of the nodes ------------------------------------------------------------------------ */

/* The node of the outermost network that `n` is, or is nested in. */
static const cm_node *outermost(const cm_node *n)
{
    while (n->network->owner)
        n = n->network->owner;
    return n;
}

static bool is_read(const cm_value *v)
{
    for (const cm_use *u = v->uses; u; u = u->next)
        if (u->node && outermost(u->node)->mark)
            return true;
    return false;
}

/* The numbers that shape arithmetic gave the value, as a constant; NULL: they are not known. */
static cm_status known_constant(cm_ctx *cx, cm_network *g, const cm_value *v, cm_value **out)
{
    cm_tensor *t;
    *out = NULL;
    if (!v->elems || v->type.kind != CM_TENSOR || v->type.rank < 0 || v->n_elems == 0)
        return CM_OK;
    int64_t number;
    for (int i = 0; i < v->n_elems; i++)
        if (!cm_dim_is_const(g->dims, v->elems[i], &number))
            return CM_OK;
    CM_NEW(cx, g->arena, t, cm_tensor);
    if (!cm_tensor_shape(t, v->type.dtype, v->type.rank, v->type.dims) ||
        cm_tensor_elems(t) != v->n_elems)
        return CM_OK;
    t->data = cm_arena_alloc_n(g->arena, (size_t)v->n_elems, cm_dtype_size(t->dtype), 16, 1);
    if (!t->data)
        return cm_fail_memory(cx);
    for (int i = 0; i < v->n_elems && cm_dim_is_const(g->dims, v->elems[i], &number); i++)
        cm_set_i64(t->dtype, t->data, i, number);
    return cm_network_add_constant(cx, g, NULL, t, out);
}

/* The value comes from outside now, under its own name. */
static cm_status cut(cm_ctx *cx, cm_network *g, cm_value *v)
{
    cm_value *in;
    CM_TRY(known_constant(cx, g, v, &in));
    if (!in)
        CM_TRY(cm_network_add_input(cx, g, NULL, &v->type, &in));
    CM_TRY(cm_replace_uses(cx, v, in));
    const char *name = v->name;
    v->name = in->name;
    in->name = name;
    return CM_OK;
}

static cm_status set_outputs(cm_ctx *cx, cm_network *g)
{
    for (int i = g->n_outputs; i-- > 0;) {
        const cm_node *p = g->outputs[i]->producer;
        if (!p || !p->mark)
            cm_network_remove_output(g, i);
    }
    CM_FOR_NODES (n, g)
        for (int o = 0; o < n->n_out && n->mark; o++)
            if (n->out[o] && n->out[o]->n_uses == 0)
                CM_TRY(cm_network_add_output(cx, g, n->out[o], n->out[o]->name));
    return CM_OK;
}

/* Leave the nodes of `keep`. */
static cm_status cut_network(cm_ctx *cx, cm_network *g, const bool *keep)
{
    int k = 0;
    CM_FOR_NODES (n, g)
        n->mark = keep[k++];
    CM_FOR_NODES (n, g)
        for (int o = 0; o < n->n_out && !n->mark; o++)
            if (n->out[o] && is_read(n->out[o]))
                CM_TRY(cut(cx, g, n->out[o]));
    for (int i = g->n_outputs; i-- > 0;) /* those of nodes that go, so that they can */
        if (g->outputs[i]->producer && !g->outputs[i]->producer->mark)
            cm_network_remove_output(g, i);
    for (cm_node *n = g->last, *before; n; n = before) {
        before = n->prev;
        if (!n->mark)
            cm_node_remove(n);
    }
    CM_TRY(set_outputs(cx, g));
    for (int i = g->n_inputs; i-- > 0;)
        if (!g->inputs[i]->n_uses)
            cm_network_remove_input(g, i);
    return g->n_outputs ? CM_OK : cm_fail(cx, CM_ERR_MODEL, "nothing is left");
}

static cm_status write_subset(cm_ctx *cx, const reducer *r, const char *path)
{
    cm_model m;
    cm_export_options eo = {0};
    cm_status st = cm_model_import(cx, r->path, &r->o->model, &m);
    if (st == CM_OK)
        st = cut_network(cx, m.network, r->keep);
    if (st == CM_OK)
        st = cm_onnx_export_file(cx, m.network, path, &eo);
    cm_model_close(&m);
    return st;
}

/* ---- The check ------------------------------------------------------------------------------------ */

/* A word for the shell. */
static void put_quoted(cm_buf *b, const char *word)
{
    cm_buf_str(b, "'");
    for (; *word; word++)
        if (*word == '\'')
            cm_buf_str(b, "'\\''");
        else
            cm_buf_u8(b, (uint8_t)*word);
    cm_buf_str(b, "'");
}

static void put_command(cm_buf *b, const cm_debug_options *o, const char *path)
{
    const char *p = o->check, *at;
    cm_buf_str(b, "( ");
    for (; (at = strstr(p, "{}")) != NULL; p = at + 2) {
        cm_buf_bytes(b, p, (size_t)(at - p));
        put_quoted(b, path);
    }
    cm_buf_str(b, p);
    cm_buf_str(b, o->show_checks ? " )" : " ) >/dev/null 2>&1");
}

static cm_status check(cm_ctx *cx, reducer *r, const char *path, bool *fails)
{
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    put_command(&b, r->o, path);
    int status = b.failed ? -1 : system(cm_buf_text(&b));
    cm_buf_deinit(&b);
    r->n_checks++;
    if (status == -1)
        return cm_fail(cx, CM_ERR_MEMORY, "the check could not be started");
    if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT))
        return cm_fail(cx, CM_ERR_CANCELLED, "cancelled");
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if ((code == 126 || code == 127) && r->o->fails_with != code)
        return cm_fail(cx, CM_ERR_ARGUMENT, "--check: the shell cannot run '%s' (exit code %d)",
                       r->o->check, code);
    *fails = r->o->fails_with >= 0 ? code == r->o->fails_with : code != 0;
    return cm_check_cancel(cx);
}

/* Does the subset fail? One that is no model of its own does not. */
static cm_status try_subset(cm_ctx *cx, reducer *r, bool *fails)
{
    *fails = false;
    cm_status st = write_subset(cx, r, r->trial);
    if (st == CM_ERR_MEMORY || st == CM_ERR_CANCELLED || st == CM_ERR_IO)
        return st;
    if (st == CM_OK)
        st = check(cx, r, r->trial, fails);
    else
        st = CM_OK;
    cx->message[0] = 0;
    return st;
}

/* ---- ddmin ------------------------------------------------------------------------------------------ */

/* Nodes that are left, in order; `keep` is set from parts of them. */
typedef struct {
    int *node, n;
} subset;

/* Part k of n_parts alone, or all but it. */
static void choose(reducer *r, const subset *s, int k, int n_parts, bool alone)
{
    int from = (int)((int64_t)s->n * k / n_parts), to = (int)((int64_t)s->n * (k + 1) / n_parts);
    memset(r->keep, 0, (size_t)r->n_nodes * sizeof *r->keep);
    for (int i = 0; i < s->n; i++)
        r->keep[s->node[i]] = (i >= from && i < to) == alone;
}

static void take(const reducer *r, subset *s)
{
    int k = 0;
    for (int i = 0; i < s->n; i++)
        if (r->keep[s->node[i]])
            s->node[k++] = s->node[i];
    s->n = k;
}

/* One of the parts, or all but one, that fails. */
static cm_status find_failing(cm_ctx *cx, reducer *r, const subset *s, int n_parts, bool *found,
                              bool *alone)
{
    for (int pass = 0; pass < 2; pass++) {
        *alone = pass == 0;
        if (pass == 1 && n_parts == 2) /* the same two again */
            break;
        for (int k = 0; k < n_parts; k++) {
            choose(r, s, k, n_parts, *alone);
            CM_TRY(cm_report(cx, "reducing", r->n_nodes - s->n, r->n_nodes));
            CM_TRY(try_subset(cx, r, found));
            if (*found)
                return CM_OK;
        }
    }
    return CM_OK;
}

static cm_status minimise(cm_ctx *cx, reducer *r, subset *s)
{
    int n_parts = 2;
    while (s->n >= 2) {
        bool found = false, alone = false;
        n_parts = n_parts < s->n ? n_parts : s->n;
        CM_TRY(find_failing(cx, r, s, n_parts, &found, &alone));
        if (found) {
            take(r, s);
            n_parts = alone ? 2 : n_parts > 3 ? n_parts - 1 : 2;
        } else if (n_parts < s->n) {
            n_parts *= 2;
        } else {
            break;
        }
    }
    choose(r, s, 0, 1, true);
    return CM_OK;
}

/* ---- All of it -------------------------------------------------------------------------------------- */

static cm_status start(cm_ctx *cx, reducer *r, subset *s)
{
    cm_model m;
    bool fails = false;
    CM_TRY(check(cx, r, r->path, &fails));
    if (!fails)
        return cm_fail(cx, CM_ERR_ARGUMENT, "the check finds nothing wrong with %s", r->path);
    cm_status st = cm_model_import(cx, r->path, &r->o->model, &m);
    r->n_nodes = st == CM_OK ? m.network->n_nodes : 0;
    cm_model_close(&m);
    CM_TRY(st);
    CM_NEW_N(cx, cx->arena, r->keep, r->n_nodes, bool);
    CM_NEW_N(cx, cx->arena, s->node, r->n_nodes, int);
    for (s->n = 0; s->n < r->n_nodes; s->n++)
        s->node[s->n] = s->n;
    choose(r, s, 0, 1, true);
    CM_TRY(write_subset(cx, r, r->trial));
    CM_TRY(check(cx, r, r->trial, &fails));
    return fails ? CM_OK
                 : cm_fail(cx, CM_ERR_UNSUPPORTED,
                           "the check fails on %s, but not once it was read and written again: "
                           "the file itself is to blame, not its nodes",
                           r->path);
}

static cm_status print_nodes(cm_ctx *cx, const reducer *r)
{
    cm_model m;
    int k = 0;
    cm_status st = cm_model_import(cx, r->path, &r->o->model, &m);
    if (st == CM_OK)
        CM_FOR_NODES (n, m.network)
            if (r->keep[k++])
                printf("  %s '%s'\n", n->op->name, n->name);
    cm_model_close(&m);
    return st;
}

cm_status cm_debug_reduce(cm_ctx *cx, const cm_debug_options *o, const char *path, bool *found)
{
    reducer r = {.o = o, .path = path, .output = o->output ? o->output : "reduced.onnx"};
    subset s;
    if (!o->check)
        return cm_fail(cx, CM_ERR_ARGUMENT, "debug reduce needs --check 'COMMAND {}'");
    if (!strstr(o->check, "{}"))
        return cm_fail(cx, CM_ERR_ARGUMENT, "--check '%s': {} must stand for the model's file",
                       o->check);
    r.trial = cm_arena_printf(cx->arena, "%s.try.onnx", r.output);
    if (!r.trial)
        return cm_fail_memory(cx);
    cm_cli_progress(cx);
    cm_status st = start(cx, &r, &s);
    if (st == CM_OK)
        st = minimise(cx, &r, &s);
    cm_cli_progress_done(cx);
    if (st == CM_OK)
        st = write_subset(cx, &r, r.output);
    unlink(r.trial);
    CM_TRY(st);
    printf("%s: %d of %d nodes still fail, found by %d checks\n", r.output, s.n, r.n_nodes,
           r.n_checks);
    *found = true;
    return print_nodes(cx, &r);
}
