/* models.h -- for the fault tests: small networks that between them reach every kind of step.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TESTS_FAULT_MODELS_H
#define CM_TESTS_FAULT_MODELS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cameo.h"
#include "unit/onnx_model.h"
#include "unit/run_case.h"

/* In the text form. All inputs are f32, i64 or bool tensors. */
static const char *const fault_texts[] = {
    "x: f32[n,3,8,8]\n@w = f32[4,3,3,3] random 1\n@b = f32[4] fill 0.5\n"
    "c = Conv(x, @w, @b) {pads=[1,1,1,1]}\nr = Relu(c)\np = MaxPool(r) {kernel_shape=[2,2],"
    "strides=[2,2]}\ng = GlobalAveragePool(p)\nf = Flatten(g)\n@m = f32[4,10] random 2\n"
    "y = MatMul(f, @m)\ns = Softmax(y)\nreturn s as \"scores\"\n",

    "x: f32[n,k]\nz = NonZero(x)\ns = Shape(x)\ne = Expand(x, s)\n@shape = i64[2] {-1, 1}\n"
    "r = Reshape(e, @shape)\nu, _, _, c = Unique(r)\nreturn z, u, c\n",

    "n: i64[]\ncond: bool[]\n@one = f32[2] fill 1\na, b = Loop(n, cond, @one) do\n  i: i64[]\n"
    "  c: bool[]\n  v: f32[2]\n  w = Add(v, v)\n  d = Identity(c)\n  return d, w, v\nend\nreturn "
    "a, b\n",

    "c: bool[]\nx: f32[m,2]\ny = If(c) do\n  t = Relu(x)\n  return t\nend do\n  u = Neg(x)\n"
    "  return u\nend\nz = Scan(x) {num_scan_inputs=1} do\n  r: f32[2]\n  q = Exp(r)\n  return "
    "q\nend\nreturn y, z\n",

    "x: f32[4,2]\n@names = str[2] {\"a\", \"b\"}\ns = SplitToSequence(x)\nm = SequenceMap(s) do\n"
    "  e: f32[k,2]\n  q = Abs(e)\n  return q\nend\nj = ConcatFromSequence(m) {axis=0}\n"
    "t = StringConcat(@names, @names)\nreturn j, s, t\n",
};

/* ONNX bytes: a function, an If with a captured value, an initialiser, symbolic dims. */
static inline cm_buf fault_onnx(void)
{
    static const float weights[6] = {1, 2, 3, 4, 5, 6};
    cm_buf f, extra, g, then, otherwise, node;
    cm_buf *all[] = {&f, &extra, &g, &then, &otherwise};
    for (int i = 0; i < CM_COUNT(all); i++)
        cm_buf_init(all[i], NULL);
    pb_write_text(&f, 1, "Twice");
    m_names(&f, 4, "a");
    m_names(&f, 5, "b");
    node = m_node("Add", "", "a a", "s");
    m_in(&f, 7, &node);
    node = m_node("Relu", "", "s", "b");
    m_in(&f, 7, &node);
    m_opset(&f, 9, "", 17);
    pb_write_text(&f, 10, "local");
    m_in(&extra, F_FUNCTION, &f);
    m_opset(&extra, F_OPSET, "local", 1);

    m_value(&g, F_INPUT, "x", CM_F32, "n 6");
    m_value(&g, F_INPUT, "c", CM_BOOL, "");
    m_tensor(&g, F_INIT, "w", 6, weights);
    m_add(&g, "Mul", "x w", "xw");
    node = m_node("Twice", "local", "xw", "t");
    m_in(&g, F_NODE, &node);
    m_add(&then, "Neg", "t", "r1");
    m_value(&then, F_OUTPUT, "r1", CM_F32, "n 6");
    m_add(&otherwise, "Exp", "t", "r2");
    m_value(&otherwise, F_OUTPUT, "r2", CM_F32, "n 6");
    node = m_node("If", "", "c", "y");
    m_graph_attr(&node, "then_branch", &then);
    m_graph_attr(&node, "else_branch", &otherwise);
    m_in(&g, F_NODE, &node);
    m_add(&g, "Shape", "y", "shape");
    m_value(&g, F_OUTPUT, "y", CM_F32, "n 6");
    m_value(&g, F_OUTPUT, "shape", CM_I64, "2");
    return m_model(&g, 17, &extra);
}

/* Zeros for every input of a context, 2 for every symbol. CAMEO_ERR_ARGUMENT: an input is not a tensor
 * of numbers, or is large. */
static inline cameo_status fault_set_inputs(const cameo_engine *e, cameo_context *c,
                                            cameo_error *error)
{
    static uint64_t zeros[4096];
    for (int i = 0; i < cameo_engine_input_count(e); i++) {
        cameo_info info;
        cameo_status st = cameo_engine_input(e, i, &info, error);
        if (st != CAMEO_OK)
            return st;
        if (info.kind != CAMEO_TENSOR || info.rank < 0 || info.dtype == CAMEO_STRING)
            return CAMEO_ERR_ARGUMENT;
        cameo_tensor t = {
            .dtype = info.dtype, .rank = info.rank, .data = zeros, .bytes = sizeof zeros};
        for (int k = 0; k < info.rank; k++)
            t.dims[k] = info.dims[k] < 0 ? 2 : info.dims[k];
        st = cameo_context_set_input(c, i, &t, error);
        if (st != CAMEO_OK)
            return st;
    }
    return CAMEO_OK;
}

#endif
