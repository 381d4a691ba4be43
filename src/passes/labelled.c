/* labelled.c -- matrix products with their axes labelled: MatMul, FusedMatMul, Einsum.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/labelled.h"

#include <ctype.h>
#include <string.h>

/* Labels of the batch axes of a product of this rank: heads are the last of them when their number
 * is known. */
static bool batch_labels(const cm_value *v, int rank, char *out)
{
    if (rank < 2 || rank > CM_MOST_LABELS)
        return false;
    int k = rank - 2;
    memset(out, 'b', CM_MOST_LABELS);
    if (k == 1)
        out[0] = 'n';
    else if (k > 1 && cm_dim_is_size(v->type.dims[k - 1]))
        out[k - 1] = 'h';
    out[k] = 0;
    return true;
}

static bool same_batch(const cm_value *a, const cm_value *b)
{
    int rank = cm_rank(a);
    if (rank < 2 || rank != cm_rank(b))
        return false;
    for (int i = 0; i < rank - 2; i++)
        if (a->type.dims[i] != b->type.dims[i])
            return false;
    return true;
}

bool cm_read_matmul(cm_node *n, bool by_keys, cm_labelled *p)
{
    bool fused = cm_is(n, CM_OP_MS_FUSED_MATMUL);
    char batch[CM_MOST_LABELS + 1];
    if ((!fused && !cm_is(n, CM_OP_MATMUL)) || !same_batch(n->in[0], n->in[1]) ||
        !batch_labels(n->in[0], cm_rank(n->in[0]), batch))
        return false;
    bool turned = false;
    *p = (cm_labelled){.n = n, .a = n->in[0], .b = n->in[1], .scale = 1};
    if (fused) {
        if (cm_int(n, "transA") || cm_int(n, "transBatchA") || cm_int(n, "transBatchB"))
            return false;
        turned = cm_int(n, "transB") != 0;
        p->scale = cm_float(n, "alpha");
    }
    strcat(strcpy(p->of_a, batch), "sd");
    strcat(strcpy(p->of_b, batch), turned == by_keys ? "ds" : "sd");
    strcat(strcpy(p->of_out, batch), "sd");
    return true;
}

/* The three terms of "bhid,bhjd->bhij" without spaces. */
static bool read_terms(const cm_node *n, char term[3][CM_MOST_LABELS + 1])
{
    cm_str e = cm_string(n, "equation");
    int t = 0, k = 0;
    for (size_t i = 0; i < e.n; i++) {
        char c = e.p[i];
        if (c == ' ' || c == '>')
            continue;
        if (c == ',' || c == '-') {
            if ((c == ',') != (t == 0) || t == 2)
                return false;
            term[t++][k] = 0;
            k = 0;
        } else if (!isalpha((unsigned char)c) || k == CM_MOST_LABELS) {
            return false;
        } else {
            term[t][k++] = c;
        }
    }
    term[t][k] = 0;
    return t == 2;
}

/* Labels for a term: rows and columns by their letters, the rest batch, in the order of `scores`. */
static void relabel(const char *term, const char *scores, size_t n_batch, char row, char col,
                    const char *batch, char *out)
{
    for (; *term; term++) {
        const char *at = strchr(scores, *term);
        *out++ = *term == row                            ? 's'
                 : *term == col                          ? 'd'
                 : at && (size_t)(at - scores) < n_batch ? batch[at - scores]
                                                         : '?';
    }
    *out = 0;
}

bool cm_read_einsum(cm_node *n, const cm_value *scores, cm_labelled *p)
{
    char term[3][CM_MOST_LABELS + 1], batch[CM_MOST_LABELS + 1];
    if (!cm_is(n, CM_OP_EINSUM) || n->n_in != 2 || !read_terms(n, term))
        return false;
    int first = scores ? n->in[1] == scores : 0;
    const char *of_scores = scores ? term[first] : term[2];
    size_t rank = strlen(of_scores);
    if (rank < 2 || !batch_labels(scores ? scores : n->out[0], (int)rank, batch))
        return false;
    char row = of_scores[rank - 2], key = of_scores[rank - 1], col = 0;
    if (!scores)
        first = strchr(term[0], row) == NULL; /* q */
    const char *other = term[1 - first], *has = scores ? term[2] : term[first];
    for (const char *c = other; *c; c++)
        if (*c != key && !strchr(of_scores, *c))
            col = *c;
    if (!col || !strchr(has, col) || !strchr(has, row) || !strchr(other, key) ||
        strchr(other, row) || strlen(term[0]) != rank || strlen(term[1]) != rank ||
        strlen(term[2]) != rank)
        return false;
    *p = (cm_labelled){.n = n, .a = n->in[first], .b = n->in[1 - first], .scale = 1};
    relabel(term[first], of_scores, rank - 2, row, col, batch, p->of_a);
    relabel(other, of_scores, rank - 2, key, col, batch, p->of_b);
    relabel(term[2], of_scores, rank - 2, row, col, batch, p->of_out);
    const char *labelled[] = {p->of_b, scores ? p->of_out : p->of_a};
    for (int i = 0; i < 2; i++)
        if (strchr(labelled[i], '?'))
            return false;
    return cm_rank(p->a) == (int)rank && cm_rank(p->b) == (int)rank;
}

bool cm_read_scores(cm_node *n, cm_labelled *p)
{
    return n && (cm_read_matmul(n, false, p) || cm_read_einsum(n, NULL, p));
}
