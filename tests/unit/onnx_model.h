/* onnx_model.h -- ONNX models written by hand, for tests of the importer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A message is a buffer; m_in writes it as a field of another and empties it. */
#ifndef CM_TESTS_ONNX_MODEL_H
#define CM_TESTS_ONNX_MODEL_H

#include <string.h>

#include "onnx/onnx.h"
#include "onnx/wire.h"

enum { /* field numbers */
       F_NODE = 1,
       F_GRAPH_NAME = 2,
       F_INIT = 5,
       F_INPUT = 11,
       F_OUTPUT = 12,
       F_GRAPH = 7,
       F_OPSET = 8,
       F_FUNCTION = 25
};

static inline void m_in(cm_buf *outer, uint32_t field, cm_buf *inner)
{
    pb_write_bytes(outer, field, inner->data, inner->n);
    cm_buf_deinit(inner);
    cm_buf_init(inner, NULL);
}

static inline void m_names(cm_buf *b, uint32_t field, const char *names) /* "a b c"; "-": empty */
{
    while (*names) {
        size_t n = strcspn(names, " ");
        bool none = n == 1 && *names == '-';
        pb_write_bytes(b, field, names, none ? 0 : n);
        names += n + (names[n] == ' ');
    }
}

static inline void m_opset(cm_buf *model, uint32_t field, const char *domain, int64_t version)
{
    cm_buf o;
    cm_buf_init(&o, NULL);
    pb_write_text(&o, 1, domain);
    pb_write_int(&o, 2, version);
    m_in(model, field, &o);
}

/* A node begun; attributes may follow before it is put into its graph. */
static inline cm_buf m_node(const char *op, const char *domain, const char *in, const char *out)
{
    cm_buf b;
    cm_buf_init(&b, NULL);
    m_names(&b, 1, in);
    m_names(&b, 2, out);
    pb_write_text(&b, 4, op);
    pb_write_text(&b, 7, domain);
    return b;
}

static inline void m_int(cm_buf *node, const char *name, int64_t v)
{
    cm_buf a;
    cm_buf_init(&a, NULL);
    pb_write_text(&a, 1, name);
    pb_write_int(&a, 3, v);
    pb_write_int(&a, 20, 2);
    m_in(node, 5, &a);
}

static inline void m_ref(cm_buf *node, const char *name, const char *ref)
{
    cm_buf a;
    cm_buf_init(&a, NULL);
    pb_write_text(&a, 1, name);
    pb_write_text(&a, 21, ref);
    pb_write_int(&a, 20, 2);
    m_in(node, 5, &a);
}

static inline void m_graph_attr(cm_buf *node, const char *name, cm_buf *graph)
{
    cm_buf a;
    cm_buf_init(&a, NULL);
    pb_write_text(&a, 1, name);
    pb_write_int(&a, 20, 5);
    m_in(&a, 6, graph);
    m_in(node, 5, &a);
}

static inline void m_add(cm_buf *graph, const char *op, const char *in, const char *out)
{
    cm_buf n = m_node(op, "", in, out);
    m_in(graph, F_NODE, &n);
}

/* An input or an output; dims "2 n": numbers or names. dtype 0: without a type. */
static inline void m_value(cm_buf *graph, uint32_t field, const char *name, int dtype,
                           const char *dims)
{
    cm_buf v, type, tensor, shape, dim;
    cm_buf_init(&v, NULL);
    cm_buf_init(&type, NULL);
    cm_buf_init(&tensor, NULL);
    cm_buf_init(&shape, NULL);
    cm_buf_init(&dim, NULL);
    for (const char *p = dims; *p;) {
        size_t n = strcspn(p, " ");
        if (*p >= '0' && *p <= '9')
            pb_write_int(&dim, 1, atoll(p));
        else
            pb_write_bytes(&dim, 2, p, n);
        m_in(&shape, 1, &dim);
        p += n + (p[n] == ' ');
    }
    pb_write_int(&tensor, 1, dtype);
    m_in(&tensor, 2, &shape);
    m_in(&type, 1, &tensor);
    pb_write_text(&v, 1, name);
    if (dtype)
        m_in(&v, 2, &type);
    m_in(graph, field, &v);
    cm_buf_deinit(&type);
}

static inline void m_tensor(cm_buf *graph, uint32_t field, const char *name, int64_t n,
                            const float *v)
{
    cm_buf t;
    cm_buf_init(&t, NULL);
    pb_write_int(&t, 1, n);
    pb_write_int(&t, 2, CM_F32);
    pb_write_text(&t, 8, name);
    pb_write_bytes(&t, 9, v, (size_t)n * sizeof *v);
    m_in(graph, field, &t);
}

/* The whole model: one opset of ONNX's own domain, and what `extra` holds (functions, opsets). */
static inline cm_buf m_model(cm_buf *graph, int64_t opset, cm_buf *extra)
{
    cm_buf m;
    cm_buf_init(&m, NULL);
    pb_write_int(&m, 1, 8);
    m_opset(&m, F_OPSET, "", opset);
    m_in(&m, F_GRAPH, graph);
    if (extra) {
        cm_buf_bytes(&m, extra->data, extra->n);
        cm_buf_deinit(extra);
    }
    return m;
}

#endif
