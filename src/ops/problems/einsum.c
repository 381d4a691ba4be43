/* einsum.c -- Einsum of two operands as a matrix product: axes by their letters, wherever they stand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/problem.h"

bool cm_problem_einsum(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

enum { A, B, C, N_TERMS };

/* The letters of both operands and of the result, in order; each at most once in a term. */
typedef struct {
    int n[N_TERMS];
    char letter[N_TERMS][CM_MAX_RANK];
    const cm_tensor *t[N_TERMS];
} terms;

static int place(const terms *e, int term, char c)
{
    for (int i = 0; i < e->n[term]; i++)
        if (e->letter[term][i] == c)
            return i;
    return -1;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* "ab,bc->ac": two operands and an arrow, nothing that stands for several axes. */
static bool read(cm_str s, terms *e)
{
    int term = A;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == ' ')
            continue;
        if (c == ',' && term == A) {
            term = B;
        } else if (c == '-' && term == B && i + 1 < s.n && s.p[i + 1] == '>') {
            term = C;
            i++;
        } else if (is_letter(c) && e->n[term] < CM_MAX_RANK && place(e, term, c) < 0) {
            e->letter[term][e->n[term]++] = c;
        } else {
            return false;
        }
    }
    return term == C;
}

/* The stride of a term along a letter; 0: it does not move. */
static int64_t stride(const terms *e, int term, char c)
{
    int i = place(e, term, c);
    return i < 0 ? 0 : e->t[term]->strides[i];
}

/* May an operand's letter stand in no other term: is there nothing to sum? */
static bool is_one(const terms *e, int term, char c)
{
    return e->t[term]->dims[place(e, term, c)] == 1;
}

/* Every letter has one size, and every letter of B is one of the result's or of A's, or a single element. */
static bool fits(const terms *e)
{
    for (int k = A; k < N_TERMS; k++) {
        if (e->t[k]->rank != e->n[k])
            return false;
        for (int i = 0; i < e->n[k]; i++)
            for (int o = A; o < N_TERMS; o++) {
                int at = place(e, o, e->letter[k][i]);
                if (at >= 0 && e->t[o]->dims[at] != e->t[k]->dims[i])
                    return false;
            }
    }
    for (int i = 0; i < e->n[C]; i++)
        if (place(e, A, e->letter[C][i]) < 0 && place(e, B, e->letter[C][i]) < 0)
            return false;
    for (int i = 0; i < e->n[B]; i++)
        if (place(e, C, e->letter[B][i]) < 0 && place(e, A, e->letter[B][i]) < 0 &&
            !is_one(e, B, e->letter[B][i]))
            return false;
    return true;
}

/* The one letter that is summed over: 0 where there is none, or another. */
static char summed(const terms *e)
{
    char found = 0;
    for (int i = 0; i < e->n[A]; i++) {
        char c = e->letter[A][i];
        bool alone = place(e, B, c) < 0;
        if (place(e, C, c) >= 0 || (alone && is_one(e, A, c)))
            continue;
        if (found || alone)
            return 0;
        found = c;
    }
    return found;
}

/* The last letter of the result that only this operand has; 0: none. */
static char own(const terms *e, int operand)
{
    for (int i = e->n[C] - 1; i >= 0; i--)
        if (place(e, operand, e->letter[C][i]) >= 0 && place(e, 1 - operand, e->letter[C][i]) < 0)
            return e->letter[C][i];
    return 0;
}

static int64_t size(const terms *e, int term, char c)
{
    return c ? e->t[term]->dims[place(e, term, c)] : 1;
}

bool cm_problem_einsum(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    terms e = {.n = {0}};
    (void)arena;
    if (!cm_problem_wants(p, 0) || !cm_problem_has(p, 0) || !cm_problem_has(p, 1) ||
        !cm_dtype_is_float(p->in[0]->dtype) || !read(cm_attr_str(op, attr, "equation"), &e))
        return false;
    e.t[A] = p->in[0];
    e.t[B] = p->in[1];
    e.t[C] = p->out[0];
    if (!fits(&e))
        return false;
    char k = summed(&e), row = own(&e, A), col = own(&e, B);
    if (!k)
        return false;
    cm_matmul *s = &p->as.matmul;
    *s = (cm_matmul){.m = size(&e, A, row),
                     .n = size(&e, B, col),
                     .k = size(&e, A, k),
                     .alpha = 1,
                     .beta = 1,
                     .bias = -1};
    s->a.row = stride(&e, A, row);
    s->a.col = stride(&e, A, k);
    s->b.row = stride(&e, B, k);
    s->b.col = stride(&e, B, col);
    s->c.row = stride(&e, C, row);
    s->c.col = stride(&e, C, col);
    for (int i = 0; i < e.n[C]; i++) {
        char c = e.letter[C][i];
        int64_t dim = e.t[C]->dims[i];
        if (c == row || c == col || dim == 1)
            continue;
        if (dim == 0 || s->n_batch == CM_BATCH_AXES)
            return false;
        s->batch[s->n_batch] = dim;
        s->a.batch[s->n_batch] = stride(&e, A, c);
        s->b.batch[s->n_batch] = stride(&e, B, c);
        s->c.batch[s->n_batch++] = stride(&e, C, c);
    }
    return s->m > 0 && s->n > 0 && s->k > 0;
}
