/* cudnn_graph.c -- a convolution and what follows it as a graph of cuDNN's operations, and the plans it makes of it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors of a graph are dropped as soon as its plan is made; the plan stays. A handle serves one thread at a time:
 * everything that takes it is done under one lock. */
#include <pthread.h>
#include <string.h>

#include "cuda/cudnn.h"

enum { /* types of objects */
       CONVOLUTION = 1,
       ENGINE_HEURISTICS = 4,
       ENGINE_CONFIG = 3,
       EXECUTION_PLAN = 5,
       CONVOLUTION_FORWARD = 10,
       POINTWISE_OPERATION = 13,
       OPERATION_GRAPH = 15,
       VARIANT_PACK = 16,
       TENSOR = 17,
       POINTWISE = 0,
       /* types of attributes */
       A_HANDLE = 0,
       A_DATA_TYPE = 1,
       A_BOOLEAN = 2,
       A_INT64 = 3,
       A_FLOAT = 4,
       A_POINTER = 6,
       A_CONVOLUTION_MODE = 7,
       A_HEURISTICS_MODE = 8,
       A_NAN = 10,
       A_POINTWISE_MODE = 14,
       A_OBJECT = 15,
       /* attributes */
       POINTWISE_MODE = 0,
       POINTWISE_PRECISION = 1,
       POINTWISE_NAN = 2,
       CONVOLUTION_TYPE = 100,
       CONVOLUTION_MODE = 101,
       CONVOLUTION_DILATIONS = 102,
       CONVOLUTION_STRIDES = 103,
       CONVOLUTION_PADS_AFTER = 104,
       CONVOLUTION_PADS = 105,
       CONVOLUTION_AXES = 106,
       HEURISTICS_MODE = 200,
       HEURISTICS_GRAPH = 201,
       HEURISTICS_RESULTS = 202,
       PLAN_HANDLE = 400,
       PLAN_CONFIG = 401,
       PLAN_WORKSPACE = 402,
       FORWARD_ALPHA = 700,
       FORWARD_BETA = 701,
       FORWARD_CONVOLUTION = 702,
       FORWARD_W = 703,
       FORWARD_X = 704,
       FORWARD_Y = 705,
       STEP_OPERATION = 750,
       STEP_X = 751,
       STEP_B = 752,
       STEP_Y = 753,
       GRAPH_HANDLE = 800,
       GRAPH_OPERATIONS = 801,
       TENSOR_ALIGNMENT = 900,
       TENSOR_TYPE = 901,
       TENSOR_DIMS = 902,
       TENSOR_STRIDES = 903,
       TENSOR_ID = 906,
       TENSOR_VIRTUAL = 907,
       PACK_IDS = 1000,
       PACK_POINTERS = 1001,
       PACK_WORKSPACE = 1003,
};

enum { MOST_OBJECTS = 8 + 4 * CM_DNN_STEPS, MOST_WAYS = 16, MOST_DATA = 3 + CM_DNN_STEPS };

struct cm_dnn_plan {
    cm_dnn_plan *next;
    int device, way;
    cm_dnn_conv of;
    cm_dnn_object object;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the rest */
static cm_dnn_plan *plans;
enum { MOST_DEVICES = 64 };
static void *handles[MOST_DEVICES];

/* What is being made, in the order of making. The first failure stays, and nothing is called after it. */
typedef struct {
    const cm_cudnn *dnn;
    void *handle;
    int status, n;
    cm_dnn_object object[MOST_OBJECTS];
    int64_t next_id;
} graph;

static cm_dnn_object make(graph *g, int type)
{
    cm_dnn_object o = NULL;
    if (!g->status)
        g->status = g->n < MOST_OBJECTS ? g->dnn->make(type, &o) : -1;
    if (!g->status)
        g->object[g->n++] = o;
    return o;
}

static void set(graph *g, cm_dnn_object o, int attribute, int type, int64_t n, const void *values)
{
    if (!g->status)
        g->status = g->dnn->set(o, attribute, type, n, values);
}

static void finish(graph *g, cm_dnn_object o)
{
    if (!g->status)
        g->status = g->dnn->finish(o);
}

static void drop_all(graph *g)
{
    while (g->n > 0)
        g->dnn->drop(g->object[--g->n]);
}

/* Ids count from 1 in the order of making; `inside`: it is never stored. */
static cm_dnn_object tensor(graph *g, const cm_dnn_tensor *t, bool inside)
{
    cm_dnn_object o = make(g, TENSOR);
    int64_t id = g->next_id++, alignment = 16;
    int type = inside ? CM_DNN_FLOAT : (int)t->type;
    set(g, o, TENSOR_TYPE, A_DATA_TYPE, 1, &type);
    set(g, o, TENSOR_DIMS, A_INT64, CM_DNN_RANK, t->dims);
    set(g, o, TENSOR_STRIDES, A_INT64, CM_DNN_RANK, t->strides);
    set(g, o, TENSOR_ID, A_INT64, 1, &id);
    set(g, o, TENSOR_ALIGNMENT, A_INT64, 1, &alignment);
    if (inside)
        set(g, o, TENSOR_VIRTUAL, A_BOOLEAN, 1, &inside);
    finish(g, o);
    return o;
}

static cm_dnn_object convolution(graph *g, const cm_dnn_conv *c, cm_dnn_object x, cm_dnn_object w,
                                 cm_dnn_object y)
{
    cm_dnn_object how = make(g, CONVOLUTION);
    int type = CM_DNN_FLOAT, mode = CM_DNN_CROSS_CORRELATION;
    int64_t axes = 2;
    float one = 1, none = 0;
    set(g, how, CONVOLUTION_AXES, A_INT64, 1, &axes);
    set(g, how, CONVOLUTION_TYPE, A_DATA_TYPE, 1, &type);
    set(g, how, CONVOLUTION_MODE, A_CONVOLUTION_MODE, 1, &mode);
    set(g, how, CONVOLUTION_PADS, A_INT64, axes, c->pad);
    set(g, how, CONVOLUTION_PADS_AFTER, A_INT64, axes, c->pad_after);
    set(g, how, CONVOLUTION_STRIDES, A_INT64, axes, c->stride);
    set(g, how, CONVOLUTION_DILATIONS, A_INT64, axes, c->dilation);
    finish(g, how);
    cm_dnn_object o = make(g, CONVOLUTION_FORWARD);
    set(g, o, FORWARD_CONVOLUTION, A_OBJECT, 1, &how);
    set(g, o, FORWARD_X, A_OBJECT, 1, &x);
    set(g, o, FORWARD_W, A_OBJECT, 1, &w);
    set(g, o, FORWARD_Y, A_OBJECT, 1, &y);
    set(g, o, FORWARD_ALPHA, A_FLOAT, 1, &one);
    set(g, o, FORWARD_BETA, A_FLOAT, 1, &none);
    finish(g, o);
    return o;
}

/* `b`: NULL for an operation of one operand. */
static cm_dnn_object step(graph *g, int op, cm_dnn_object x, cm_dnn_object b, cm_dnn_object y)
{
    cm_dnn_object how = make(g, POINTWISE);
    int type = CM_DNN_FLOAT, nan = CM_DNN_PROPAGATE_NAN;
    set(g, how, POINTWISE_MODE, A_POINTWISE_MODE, 1, &op);
    set(g, how, POINTWISE_PRECISION, A_DATA_TYPE, 1, &type);
    if (op == CM_DNN_RELU)
        set(g, how, POINTWISE_NAN, A_NAN, 1, &nan);
    finish(g, how);
    cm_dnn_object o = make(g, POINTWISE_OPERATION);
    set(g, o, STEP_OPERATION, A_OBJECT, 1, &how);
    set(g, o, STEP_X, A_OBJECT, 1, &x);
    if (b)
        set(g, o, STEP_B, A_OBJECT, 1, &b);
    set(g, o, STEP_Y, A_OBJECT, 1, &y);
    finish(g, o);
    return o;
}

/* Tensors that are stored come first, so that their ids are 1, 2, 3 ... as cm_dnn_run counts them. */
static cm_dnn_object operations(graph *g, const cm_dnn_conv *c)
{
    cm_dnn_object operand[CM_DNN_STEPS] = {NULL}, ops[1 + CM_DNN_STEPS];
    cm_dnn_object x = tensor(g, &c->x, false), w = tensor(g, &c->w, false);
    cm_dnn_object y = tensor(g, &c->y, false);
    for (int i = 0; i < c->n_steps; i++)
        if (c->step[i].has_operand)
            operand[i] = tensor(g, &c->step[i].operand, false);
    cm_dnn_object value = c->n_steps > 0 ? tensor(g, &c->y, true) : y;
    int64_t n = 0;
    ops[n++] = convolution(g, c, x, w, value);
    for (int i = 0; i < c->n_steps; i++) {
        cm_dnn_object to = i + 1 < c->n_steps ? tensor(g, &c->y, true) : y;
        ops[n++] = step(g, (int)c->step[i].op, value, operand[i], to);
        value = to;
    }
    cm_dnn_object o = make(g, OPERATION_GRAPH);
    set(g, o, GRAPH_OPERATIONS, A_OBJECT, n, ops);
    set(g, o, GRAPH_HANDLE, A_HANDLE, 1, &g->handle);
    finish(g, o);
    return o;
}

/* NULL: this configuration does not work here. */
static cm_dnn_object plan_of_config(graph *g, cm_dnn_object config, size_t workspace)
{
    cm_dnn_object o = NULL;
    int64_t bytes = 0, n = 0;
    if (g->dnn->make(EXECUTION_PLAN, &o) != 0)
        return NULL;
    if (g->dnn->set(o, PLAN_HANDLE, A_HANDLE, 1, &g->handle) == 0 &&
        g->dnn->set(o, PLAN_CONFIG, A_OBJECT, 1, &config) == 0 && g->dnn->finish(o) == 0 &&
        g->dnn->get(o, PLAN_WORKSPACE, A_INT64, 1, &n, &bytes) == 0 && bytes >= 0 &&
        (size_t)bytes <= workspace)
        return o;
    g->dnn->drop(o);
    return NULL;
}

/* The way-th of those that work, or the last before it. */
static cm_dnn_object choose(graph *g, cm_dnn_object of, int way, size_t workspace)
{
    cm_dnn_object configs[MOST_WAYS] = {NULL}, best = NULL, o = make(g, ENGINE_HEURISTICS);
    int mode = CM_DNN_HEURISTICS_A;
    int64_t n = 0;
    set(g, o, HEURISTICS_GRAPH, A_OBJECT, 1, &of);
    set(g, o, HEURISTICS_MODE, A_HEURISTICS_MODE, 1, &mode);
    finish(g, o);
    for (int i = 0; i < MOST_WAYS && !g->status; i++)
        g->status = g->dnn->make(ENGINE_CONFIG, &configs[i]);
    if (!g->status)
        g->status = g->dnn->get(o, HEURISTICS_RESULTS, A_OBJECT, MOST_WAYS, &n, configs);
    for (int64_t i = 0; i < n && way >= 0 && !g->status; i++) {
        cm_dnn_object plan = plan_of_config(g, configs[i], workspace);
        if (!plan)
            continue;
        if (best)
            g->dnn->drop(best);
        best = plan;
        way--;
    }
    for (int i = 0; i < MOST_WAYS; i++)
        if (configs[i])
            g->dnn->drop(configs[i]);
    return best;
}

/* With the lock held. */
static cm_dnn_plan *find_plan(int device, const cm_dnn_conv *c, int way)
{
    for (cm_dnn_plan *p = plans; p; p = p->next)
        if (p->device == device && p->way == way && memcmp(&p->of, c, sizeof *c) == 0)
            return p;
    return NULL;
}

static cm_status make_plan(cm_ctx *cx, const cm_device *d, const cm_dnn_conv *c, int way,
                           size_t workspace, cm_dnn_plan **out)
{
    graph g = {.dnn = cm_cudnn_get(), .next_id = 1};
    if (d->device < 0 || d->device >= MOST_DEVICES)
        return cm_fail(cx, CM_ERR_DEVICE, "cuDNN is not used on device %d, only below %d",
                       d->device, MOST_DEVICES);
    if (!handles[d->device])
        g.status = g.dnn->create(&handles[d->device]);
    g.handle = handles[d->device];
    cm_dnn_object of = g.status ? NULL : operations(&g, c);
    cm_dnn_object object = g.status ? NULL : choose(&g, of, way, workspace);
    drop_all(&g);
    if (!object)
        return cm_fail(cx, CM_ERR_DEVICE, "cuDNN has no way for this convolution (status %d)",
                       g.status);
    cm_dnn_plan *p = cm_alloc(NULL, sizeof *p, 16);
    if (!p) {
        g.dnn->drop(object);
        return cm_fail(cx, CM_ERR_MEMORY, "no memory for a plan of cuDNN");
    }
    *p = (cm_dnn_plan){.next = plans, .device = d->device, .way = way, .object = object};
    memcpy(&p->of, c, sizeof *c);
    *out = plans = p;
    return CM_OK;
}

cm_status cm_dnn_plan_of(cm_ctx *cx, const cm_device *d, const cm_dnn_conv *c, int way,
                         size_t workspace, const cm_dnn_plan **out)
{
    cm_status st = CM_OK;
    pthread_mutex_lock(&lock);
    cm_dnn_plan *p = find_plan(d->device, c, way);
    if (!p)
        st = make_plan(cx, d, c, way, workspace, &p);
    pthread_mutex_unlock(&lock);
    *out = p;
    return st;
}

cm_status cm_dnn_run(cm_ctx *cx, const cm_dnn_plan *plan, cm_cu_stream stream, void *const *data,
                     int n_data, void *workspace)
{
    graph g = {.dnn = cm_cudnn_get()};
    int64_t ids[MOST_DATA];
    for (int i = 0; i < n_data; i++)
        ids[i] = i + 1;
    pthread_mutex_lock(&lock);
    cm_dnn_object pack = make(&g, VARIANT_PACK);
    set(&g, pack, PACK_POINTERS, A_POINTER, n_data, data);
    set(&g, pack, PACK_IDS, A_INT64, n_data, ids);
    set(&g, pack, PACK_WORKSPACE, A_POINTER, 1, &workspace);
    finish(&g, pack);
    if (!g.status)
        g.status = g.dnn->set_stream(handles[plan->device], stream);
    if (!g.status)
        g.status = g.dnn->execute(handles[plan->device], plan->object, pack);
    drop_all(&g);
    pthread_mutex_unlock(&lock);
    return g.status ? cm_fail(cx, CM_ERR_DEVICE, "cuDNN fails with status %d", g.status) : CM_OK;
}
