/* edit_nodes.c -- `cameo edit insert` and `replace`: nodes written in the text form.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The text is a small network whose inputs are x (x0, x1, ... when there are several) and whose outputs
 * are y (y0, y1, ...). It is parsed with the types that its inputs have in the model and copied in. */
#include <string.h>

#include "cli/edit.h"
#include "ir/clone.h"

/* Statements of the option, one a line: a semicolon outside quotes ends one. */
static void put_statements(const char *with, cm_buf *out)
{
    bool quoted = false;
    for (const char *p = with; *p; p++) {
        quoted ^= *p == '"';
        if (*p == ';' && !quoted)
            cm_buf_str(out, "\n");
        else
            cm_buf_bytes(out, p, 1);
    }
    cm_buf_str(out, "\n");
}

static void put_name(cm_buf *out, char letter, int i, int n)
{
    if (n == 1)
        cm_buf_printf(out, "%c", letter);
    else
        cm_buf_printf(out, "%c%d", letter, i);
}

/* The whole text: what the values are, the statements, what is handed out. */
static cm_status parse_body(cm_ctx *cx, const cm_network *g, const char *with,
                            cm_value *const *args, int n_args, int n_out, cm_network **out)
{
    cm_buf text;
    cm_buf_init(&text, cx->allocator);
    for (int i = 0; i < n_args; i++) {
        put_name(&text, 'x', i, n_args);
        cm_buf_str(&text, ": ");
        cm_type_print(g->dims, &args[i]->type, &text);
        cm_buf_str(&text, "\n");
    }
    put_statements(with, &text);
    cm_buf_str(&text, "return ");
    for (int i = 0; i < n_out; i++) {
        cm_buf_str(&text, i ? ", " : "");
        put_name(&text, 'y', i, n_out);
    }
    cm_buf_str(&text, "\n");
    cm_status st = text.failed
                       ? cm_fail_memory(cx)
                       : cm_network_parse(cx, g->arena, (const char *)text.data, text.n, out);
    cm_buf_deinit(&text);
    return st == CM_OK ? st : cm_while(cx, st, "--with");
}

static cm_status check(cm_ctx *cx, cm_network *g)
{
    CM_TRY(cm_network_infer(cx, g));
    return cm_network_verify(cx, g);
}

cm_status cm_edit_insert(cm_ctx *cx, const cm_edit_options *o, cm_network *g)
{
    cm_value *v, *stand_in, *y;
    cm_network *body;
    if (!o->value || !o->with)
        return cm_fail(cx, CM_ERR_ARGUMENT, "insert needs --value NAME and --with TEXT");
    CM_TRY(cm_edit_find_value(cx, g, o->value, &v));
    CM_TRY(parse_body(cx, g, o->with, &v, 1, 1, &body));
    /* Who read v reads a stand-in while the new nodes, which read v too, are made. */
    CM_TRY(cm_network_add_input(cx, g, NULL, &v->type, &stand_in));
    CM_TRY(cm_replace_uses(cx, v, stand_in));
    CM_TRY(cm_network_inline(cx, g, body, &v, v->producer ? v->producer->next : g->first, &y));
    CM_TRY(cm_replace_uses(cx, stand_in, y));
    cm_network_remove_input(g, g->n_inputs - 1);
    return check(cx, g);
}

static cm_status find_node(cm_ctx *cx, const cm_network *g, const char *name, cm_node **out)
{
    int n = 0;
    *out = NULL;
    CM_FOR_NODES (node, g)
        if (node->name && !strcmp(node->name, name)) {
            *out = node;
            n++;
        }
    if (n > 1)
        return cm_fail(cx, CM_ERR_ARGUMENT, "%d nodes are called '%s'", n, name);
    return n ? CM_OK : cm_fail(cx, CM_ERR_ARGUMENT, "the model has no node '%s'", name);
}

cm_status cm_edit_replace(cm_ctx *cx, const cm_edit_options *o, cm_network *g)
{
    cm_node *n;
    cm_network *body;
    cm_value **args, **wanted, **made;
    int n_args = 0, n_out = 0;
    if (!o->node || !o->with)
        return cm_fail(cx, CM_ERR_ARGUMENT, "replace needs --node NAME and --with TEXT");
    CM_TRY(find_node(cx, g, o->node, &n));
    CM_NEW_N(cx, cx->arena, args, n->n_in, cm_value *);
    CM_NEW_N(cx, cx->arena, wanted, n->n_out, cm_value *);
    CM_NEW_N(cx, cx->arena, made, n->n_out, cm_value *);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i])
            args[n_args++] = n->in[i];
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i])
            wanted[n_out++] = n->out[i];
    CM_TRY(parse_body(cx, g, o->with, args, n_args, n_out, &body));
    CM_TRY(cm_network_inline(cx, g, body, args, n, made));
    for (int i = 0; i < n_out; i++)
        CM_TRY(cm_replace_uses(cx, wanted[i], made[i]));
    cm_node_remove(n);
    return check(cx, g);
}
