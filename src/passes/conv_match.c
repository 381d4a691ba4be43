/* conv_match.c -- see conv_match.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/conv_match.h"

bool cm_all_are(cm_ints v, int64_t want)
{
    for (int i = 0; i < v.n; i++)
        if (v.v[i] != want)
            return false;
    return true;
}

static bool is_plain(const cm_value *v)
{
    return cm_is_const(v) && !v->constant->packed && cm_is_float(v);
}

bool cm_is_plain_conv(const cm_node *n)
{
    if (!cm_is(n, CM_OP_CONV) || cm_rank(n->in[0]) < 3 || !is_plain(n->in[1]) ||
        cm_rank(n->in[1]) != cm_rank(n->in[0]) || cm_int(n, "group") != 1 ||
        (n->n_in > 2 && n->in[2] && !is_plain(n->in[2])))
        return false;
    cm_str pad = cm_string(n, "auto_pad");
    return cm_all_are(cm_int_list(n, "pads"), 0) && cm_all_are(cm_int_list(n, "dilations"), 1) &&
           (!pad.n || cm_str_equal(pad, cm_str_of("NOTSET")) ||
            cm_str_equal(pad, cm_str_of("VALID")));
}

cm_status cm_conv_piece(cm_rewriter *rw, cm_network *g, const cm_value *c, int64_t first,
                        int64_t rows, int64_t columns, bool turn, bool flat, cm_value **out)
{
    const double *v;
    double *w;
    int64_t n, dims[] = {turn ? columns : rows, turn ? rows : columns};
    CM_TRY(cm_const_f64(rw->cx, c, &v, &n));
    CM_NEW_N(rw->cx, rw->cx->scratch, w, rows * columns, double);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++)
            w[turn ? k * rows + i : i * columns + k] = v[first * columns + i * columns + k];
    return cm_make_const_f64(rw->cx, g, c->name, c->type.dtype, flat ? 1 : 2, dims, w, out);
}
