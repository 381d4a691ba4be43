/* pointwise_typed.c -- one operator on whole numbers or doubles, and casts, in the elements' own type.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing is widened: sums and products lose their high bits as the reference has it. A piece of the matrix is a
 * part of a row, or some short rows. Operands that lie densely are read where they are; others are first
 * spread or gathered to a place in the L1 cache, and so is an output that is not dense. */
#include "cpu/pointwise_typed.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "cpu/pointwise.h"

enum {
    ROOM_BYTES = 8192, /* of an operand that is brought near */
    ALL_DENSE = 32768, /* elements of a piece that needs no room */
    THREAD_NS = 8000,
    INPUTS = 4,
    STEPS = 3,
    /* places: inputs, numbers, results of steps, the output */
    NUMBERS = INPUTS,
    BETWEEN = NUMBERS + 3,
    OUT = BETWEEN + STEPS,
    PLACES,
};

typedef enum { APPLY, CONVERT, COPY, POWER, FROM_FLOAT16, TO_FLOAT16 } step_kind;

typedef struct {
    step_kind kind;
    cm_pointwise op;
    cm_typed type, to_type; /* CONVERT: from the first to the second */
    cm_dtype half;          /* FROM and TO_FLOAT16 */
    int to, arg[3];
} step;

typedef struct {
    const cm_typed_kernels *typed;
    const cm_tile_kernels *tile;
    int n_in, n_steps, n_numbers;
    int input[INPUTS]; /* of the problem */
    step step[STEPS];
    size_t size[PLACES]; /* of an element */
    uint64_t number[3];  /* its bits */
    cm_tile_view view[PLACES];
    bool dense[PLACES];
    int64_t rows, cols, tile_elems;
} job;

static cm_typed typed_of(cm_dtype t)
{
    switch (t) {
    case CM_I8:
        return CM_TYPED_I8;
    case CM_I16:
        return CM_TYPED_I16;
    case CM_I32:
        return CM_TYPED_I32;
    case CM_I64:
        return CM_TYPED_I64;
    case CM_U8:
        return CM_TYPED_U8;
    case CM_U16:
        return CM_TYPED_U16;
    case CM_U32:
        return CM_TYPED_U32;
    case CM_U64:
        return CM_TYPED_U64;
    case CM_BOOL:
        return CM_TYPED_BOOL;
    case CM_F32:
        return CM_TYPED_F32;
    case CM_F64:
        return CM_TYPED_F64;
    default:
        return CM_TYPED_NONE;
    }
}

static size_t size_of(cm_typed t)
{
    return t == CM_TYPED_BOOL  ? 1
           : t == CM_TYPED_F32 ? 4
           : t == CM_TYPED_F64 ? 8
                               : (size_t)1 << (t & 3);
}

static bool is_whole(cm_typed t)
{
    return t <= CM_TYPED_U64;
}

/* Is there a kernel for the instruction on elements of that type? */
static bool has(cm_pointwise op, cm_typed t)
{
    switch (op) {
    case CM_PW_AND:
    case CM_PW_OR:
    case CM_PW_XOR:
    case CM_PW_NOT:
        return t == CM_TYPED_BOOL;
    case CM_PW_SELECT:
        return is_whole(t) || t == CM_TYPED_F32 || t == CM_TYPED_F64;
    case CM_PW_DIV:
    case CM_PW_SQRT:
    case CM_PW_RELU:
        return t == CM_TYPED_F64;
    case CM_PW_ADD:
    case CM_PW_SUB:
    case CM_PW_MUL:
    case CM_PW_NEG:
    case CM_PW_ABS:
    case CM_PW_MIN:
    case CM_PW_MAX:
    case CM_PW_EQ:
    case CM_PW_LT:
    case CM_PW_LE:
    case CM_PW_GT:
    case CM_PW_GE:
        return is_whole(t) || t == CM_TYPED_F64;
    case CM_PW_SIGN:
    case CM_PW_BIT_NOT:
    case CM_PW_BIT_AND:
    case CM_PW_BIT_OR:
    case CM_PW_BIT_XOR:
    case CM_PW_SHIFT_LEFT:
    case CM_PW_SHIFT_RIGHT:
        return is_whole(t);
    default:
        return false;
    }
}

static bool compares(cm_pointwise op)
{
    return op == CM_PW_EQ || op == CM_PW_LT || op == CM_PW_LE || op == CM_PW_GT || op == CM_PW_GE;
}

/* The bits of a number as an element. Infinite bounds of Clip are the type's own. */
static bool bits_of(cm_typed t, double v, uint64_t *bits)
{
    int width = 8 * (int)size_of(t);
    if (t == CM_TYPED_F64 || t == CM_TYPED_F32) {
        float f = (float)v;
        *bits = 0;
        memcpy(bits, t == CM_TYPED_F64 ? (void *)&v : (void *)&f, size_of(t));
        return true;
    }
    bool is_signed = t <= CM_TYPED_I64;
    uint64_t top = UINT64_MAX >> (64 - width + is_signed);
    *bits = v == INFINITY ? top : v == -INFINITY ? (is_signed ? ~top : 0) : 0;
    if (isinf(v))
        return true;
    double least = is_signed ? -ldexp(1, width - 1) : 0, above = ldexp(1, width - is_signed);
    if (!(v == rint(v) && fabs(v) <= 0x1p53 && v >= least && v < above))
        return false;
    *bits = (uint64_t)(int64_t)v;
    return true;
}

/* The place of an input of the problem, a new one where it has none; -1: too many. */
static int place_of_input(job *j, const cm_problem *p, int input)
{
    for (int i = 0; i < j->n_in; i++)
        if (j->input[i] == input)
            return i;
    if (j->n_in == INPUTS)
        return -1;
    j->input[j->n_in] = input;
    j->size[j->n_in] = cm_dtype_size(p->in[input]->dtype);
    return j->n_in++;
}

/* The place of an argument that is to be of type t. -1: it is none. */
static int place_of(job *j, const cm_problem *p, const cm_program_arg *a, cm_typed t)
{
    if (a->kind == CM_ARG_RESULT) /* the one before: only Min and Max have several */
        return a->index == j->n_steps - 1 ? BETWEEN + a->index : -1;
    if (a->kind == CM_ARG_OPERAND)
        return typed_of(p->in[a->index]->dtype) == t ? place_of_input(j, p, a->index) : -1;
    if (j->n_numbers == 3 || !bits_of(t, a->number, &j->number[j->n_numbers]))
        return -1;
    j->size[NUMBERS + j->n_numbers] = size_of(t);
    return NUMBERS + j->n_numbers++;
}

/* The type that a program's instructions are of: that of the first operand that is no condition. */
static cm_typed type_of(const cm_problem *p)
{
    for (int s = 0; s < p->program->n_steps; s++) {
        const cm_program_step *t = &p->program->step[s];
        for (int k = t->op == CM_PW_SELECT; k < cm_pointwise_arity(t->op); k++)
            if (t->arg[k].kind == CM_ARG_OPERAND)
                return typed_of(p->in[t->arg[k].index]->dtype);
    }
    return CM_TYPED_NONE;
}

static bool add_instruction(job *j, const cm_problem *p, const cm_program_step *from, cm_typed t)
{
    step *s = &j->step[j->n_steps];
    bool swapped = from->op == CM_PW_GT || from->op == CM_PW_GE;
    *s = (step){.kind = APPLY, .op = from->op, .type = t, .to = BETWEEN + j->n_steps};
    if (swapped)
        s->op = from->op == CM_PW_GT ? CM_PW_LT : CM_PW_LE;
    int arity = cm_pointwise_arity(from->op);
    for (int k = 0; k < 3; k++) {
        bool condition = from->op == CM_PW_SELECT && k == 0;
        int from_k = swapped && k < 2 ? 1 - k : k;
        s->arg[k] = k < arity ? place_of(j, p, &from->arg[from_k], condition ? CM_TYPED_BOOL : t)
                              : s->arg[0];
        if (s->arg[k] < 0)
            return false;
    }
    j->size[s->to] = compares(s->op) ? 1 : size_of(t);
    j->n_steps++;
    return true;
}

/* x * 1: what a Cast is as a program. */
static bool is_copy(const cm_program *p)
{
    const cm_program_step *s = &p->step[0];
    return p->n_steps == 1 && s->op == CM_PW_MUL && s->arg[0].kind == CM_ARG_OPERAND &&
           s->arg[1].kind == CM_ARG_NUMBER && s->arg[1].number == 1;
}

static void add_step(job *j, step s)
{
    s.arg[0] = s.arg[1] = s.arg[2] = j->n_steps ? BETWEEN + j->n_steps - 1 : 0;
    s.to = BETWEEN + j->n_steps;
    j->size[s.to] = s.kind == TO_FLOAT16 ? 2 : size_of(s.to_type);
    j->step[j->n_steps++] = s;
}

static void add_convert(job *j, cm_typed from, cm_typed to)
{
    bool same = (from == to && from != CM_TYPED_BOOL) ||
                (is_whole(from) && is_whole(to) && (from & 3) == (to & 3));
    if (!same || !j->n_steps)
        add_step(j, (step){.kind = same ? COPY : CONVERT, .type = from, .to_type = to});
}

/* The next type on the way from one to the other. Floats become what x86-64 has instructions for, of which Cast keeps the
 * lower bits; nothing else between loses anything. */
static cm_typed way(cm_typed from, cm_typed to)
{
    bool narrow = is_whole(from) && ((int)from & 3) < 2, to_float = to >= CM_TYPED_F32;
    if (from == CM_TYPED_BOOL)
        return to == CM_TYPED_BOOL ? to : CM_TYPED_U8;
    if (from >= CM_TYPED_F32 && is_whole(to))
        return to == CM_TYPED_I64 || to == CM_TYPED_U32 ? CM_TYPED_I64 : CM_TYPED_I32;
    if (narrow && (to_float || (is_whole(to) && ((int)to & 3) == 3)))
        return CM_TYPED_I32;
    if (is_whole(from) && ((int)from & 3) == 3 && is_whole(to) && ((int)to & 3) < 2)
        return CM_TYPED_I32;
    return to;
}

/* A truth value as a byte is one made of it again: any byte but 0 is true. */
static void add_conversions(job *j, cm_typed from, cm_typed to)
{
    for (cm_typed next; j->n_steps == 0 || from != to; from = next) {
        next = way(from, to);
        add_convert(j, from, from == CM_TYPED_BOOL ? CM_TYPED_BOOL : next);
        if (from == to)
            return;
    }
}

static bool compile_cast(job *j, const cm_problem *p)
{
    int input = p->program->step[0].arg[0].index;
    cm_dtype from = p->in[input]->dtype, to = p->out[0]->dtype;
    cm_typed t = typed_of(from), last = typed_of(to);
    bool from_half = from == CM_F16 || from == CM_BF16;
    if ((t == CM_TYPED_NONE && !from_half) || place_of_input(j, p, input) < 0)
        return false;
    if (from_half) {
        add_step(j, (step){.kind = FROM_FLOAT16, .half = from, .to_type = CM_TYPED_F32});
        t = CM_TYPED_F32;
    }
    if (to == CM_F16 && is_whole(t)) { /* what float32 rounds is beyond float16's range */
        add_conversions(j, t, CM_TYPED_F32);
        t = CM_TYPED_F32;
    }
    if ((to == CM_F16 || to == CM_BF16) && t == CM_TYPED_F32) {
        add_step(j, (step){.kind = TO_FLOAT16, .half = to});
        return true;
    }
    if (last == CM_TYPED_NONE || (t >= CM_TYPED_F32 && last == CM_TYPED_U64))
        return false;
    add_conversions(j, t, last);
    return true;
}

/* Float32 to the power of whole numbers. */
static bool compile_power(job *j, const cm_problem *p)
{
    const cm_program_arg *a = p->program->step[0].arg;
    if (a[0].kind != CM_ARG_OPERAND || a[1].kind != CM_ARG_OPERAND ||
        p->in[a[0].index]->dtype != CM_F32 || p->out[0]->dtype != CM_F32)
        return false;
    cm_typed t = typed_of(p->in[a[1].index]->dtype);
    if (!is_whole(t) || t == CM_TYPED_U64)
        return false;
    int exponent = place_of_input(j, p, a[1].index), base = place_of_input(j, p, a[0].index);
    if (t != CM_TYPED_I64) { /* the exponent's place is the first */
        add_conversions(j, t, CM_TYPED_I64);
        exponent = BETWEEN + j->n_steps - 1;
    }
    j->step[j->n_steps++] = (step){.kind = POWER, .arg = {base, exponent, base}};
    return true;
}

/* Clip is the upper bound of the lower one, Relu the larger of x and 0; of unsigned numbers the sign is the smaller of x
 * and 1. */
static bool compile_bounds(job *j, const cm_problem *p, cm_typed t)
{
    const cm_program_step *g = &p->program->step[0];
    cm_program_step low = {CM_PW_MAX, {g->arg[0], cm_arg_number(0)}};
    cm_program_step high = {CM_PW_MIN, {cm_arg_result(0), g->arg[2]}};
    if (!is_whole(t) || typed_of(p->out[0]->dtype) != t)
        return false;
    if (g->op == CM_PW_SIGN)
        low = (cm_program_step){CM_PW_MIN, {g->arg[0], cm_arg_number(1)}};
    if (g->op != CM_PW_CLIP)
        return add_instruction(j, p, &low, t);
    low.arg[1] = g->arg[1];
    return add_instruction(j, p, &low, t) && add_instruction(j, p, &high, t);
}

/* Instructions as they are. */
static bool compile_plain(job *j, const cm_problem *p, cm_typed t)
{
    const cm_program *g = p->program;
    for (int s = 0; s < g->n_steps; s++) {
        cm_pointwise op = g->step[s].op;
        bool extreme = op == CM_PW_MIN || op == CM_PW_MAX;
        cm_typed to = compares(op) ? CM_TYPED_BOOL : t;
        if (!has(op, t) || typed_of(p->out[0]->dtype) != to || (g->n_steps > 1 && !extreme) ||
            !add_instruction(j, p, &g->step[s], t))
            return false;
    }
    return true;
}

/* The steps of a problem. False: it is not one of these. */
static bool compile(job *j, const cm_problem *p)
{
    const cm_program *g = p->program;
    j->n_in = j->n_steps = j->n_numbers = 0;
    if (g->n_steps < 1 || g->n_steps > STEPS || g->n_outputs != 1 || g->output[0] != g->n_steps - 1)
        return false;
    cm_typed t = type_of(p);
    cm_pointwise op = g->step[0].op;
    bool natural = is_whole(t) && t > CM_TYPED_I64;
    bool bounds = op == CM_PW_CLIP || (op == CM_PW_RELU && t != CM_TYPED_F64) ||
                  (natural && (op == CM_PW_SIGN || op == CM_PW_ABS));
    if (!(is_copy(g)        ? compile_cast(j, p)
          : op == CM_PW_POW ? g->n_steps == 1 && compile_power(j, p)
          : bounds          ? g->n_steps == 1 && compile_bounds(j, p, t)
                            : compile_plain(j, p, t)))
        return false;
    j->step[j->n_steps - 1].to = OUT;
    j->size[OUT] = cm_dtype_size(p->out[0]->dtype);
    return j->n_in > 0;
}

/* Is it one run of elements in every piece, where those are parts of a row or whole rows? */
static bool is_dense(const cm_tile_view *v, int64_t rows, int64_t cols)
{
    return v->col_strides[0] == 1 && (rows == 1 || (v->n_axes == 1 && v->strides[0] == cols));
}

/* Views of the tensors (data may be NULL), and how large pieces are. False: too many axes. */
static bool place_all(job *j, const cm_problem *p, const void *const *in, void *out)
{
    const cm_pointwise_shape *s = &p->as.pointwise;
    int last = s->rank - 1;
    size_t widest = 1;
    bool near = j->n_numbers > 0 || j->n_steps > 1;
    j->rows = cm_pointwise_rows(s, last);
    j->cols = s->dims[last];
    for (int i = 0; i <= j->n_in; i++) {
        bool is_out = i == j->n_in;
        int at = is_out ? OUT : i;
        const cm_tensor *t = is_out ? p->out[0] : p->in[j->input[i]];
        const void *data = is_out ? out : in ? in[j->input[i]] : NULL;
        if (!cm_pointwise_view(&j->view[at], s, last, is_out ? s->out[0] : s->in[j->input[i]],
                               t->dtype, data))
            return false;
        j->dense[at] = is_dense(&j->view[at], j->rows, j->cols);
        near |= !j->dense[at];
    }
    for (int k = 0; k < PLACES; k++)
        if ((k < j->n_in || k >= NUMBERS) && j->size[k] > widest)
            widest = j->size[k];
    int64_t blocks = cm_max_i64(1, cm_ceil_div(j->rows * j->cols, CM_TYPED_BLOCK));
    j->tile_elems =
        cm_min_i64(blocks * CM_TYPED_BLOCK, near ? ROOM_BYTES / (int64_t)widest : ALL_DENSE);
    return true;
}

const char *cm_cpu_pointwise_typed_reject(const cm_problem *p)
{
    job j = {0};
    if (p->n_out != 1 || !p->out[0])
        return "there is more than one output";
    if (!compile(&j, p))
        return "not one instruction on whole numbers or doubles, nor a cast";
    if (!place_all(&j, p, NULL, NULL))
        return "strided over too many axes";
    return NULL;
}

static double total_ns(const cm_problem *p, const job *j)
{
    double n = (double)(j->rows * j->cols), bytes = 0, ns = 0, widest = 1;
    for (int i = 0; i <= j->n_in; i++) {
        int at = i == j->n_in ? OUT : i;
        const cm_tensor *t = at == OUT ? p->out[0] : p->in[j->input[i]];
        const cm_tile_view *v = &j->view[at];
        int64_t stride = v->col_strides[0], rows = v->strides[v->n_axes - 1];
        double size = (double)j->size[at];
        bytes += (double)cm_tensor_elems(t) * size;
        widest = size > widest ? size : widest;
        if (stride > 1 || (rows != 0 && rows != j->cols))
            ns += 12.0 * (double)j->rows + n * (stride > 1 ? 1 : 0.05);
    }
    double each = widest * (p->target.level == CM_ISA_GENERIC ? 0.03 : 0.008);
    ns += n * each * j->n_steps + 30 * n / (double)j->tile_elems;
    return ns + bytes / cm_pointwise_bytes_per_ns(&p->target, bytes);
}

double cm_cpu_pointwise_typed_cost(const cm_problem *p, const cm_knobs *k)
{
    job j = {0};
    (void)k;
    if (!compile(&j, p) || !place_all(&j, p, NULL, NULL))
        return INFINITY;
    double ns = total_ns(p, &j);
    return 150 + ns / cm_cpu_speedup(p, ns / THREAD_NS);
}

/* A part of a row, or whole rows. */
typedef struct {
    int64_t row, col, rows, cols;
} piece;

/* The stride between its rows; -1: not the same for all. */
static int64_t row_stride(const cm_tile_view *v, const piece *p)
{
    int last = v->n_axes - 1;
    bool one = last == 0 || p->row % v->dims[last] + p->rows <= v->dims[last];
    return one ? v->strides[last] : -1;
}

/* What an input's room has: rows that are all the same. */
typedef struct {
    const char *from;
    int64_t rows, cols;
} holding;

typedef struct {
    const job *j;
    char *at[PLACES];
    holding holds[INPUTS];
    char room[PLACES][ROOM_BYTES] __attribute__((aligned(64)));
} runner;

/* n elements, `step` elements apart on either side. */
static void copy_elements(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                          size_t size)
{
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
#define COPY_AS(type)                                                                              \
    for (int64_t i = 0; i < n; i++)                                                                \
    ((type *)to)[i * to_step] = ((const type *)from)[i * from_step]
    if (size == 1)
        COPY_AS(uint8_t);
    else if (size == 2)
        COPY_AS(uint16_t);
    else if (size == 4)
        COPY_AS(uint32_t);
    else
        COPY_AS(uint64_t);
#undef COPY_AS
}

/* Where the piece lies as one run, or NULL. A run shorter than a block is none: kernels would go beyond it. */
static char *run_of(const cm_tile_view *v, const piece *p)
{
    bool run = v->col_strides[0] == 1 && (p->rows == 1 || row_stride(v, p) == p->cols);
    return run && p->rows * p->cols >= CM_TYPED_BLOCK ? cm_tile_address(v, p->row, p->col) : NULL;
}

static char *fetch(runner *r, int i, const piece *p)
{
    const cm_tile_view *v = &r->j->view[i];
    holding *h = &r->holds[i];
    size_t size = r->j->size[i];
    char *at = run_of(v, p);
    if (at)
        return at;
    at = cm_tile_address(v, p->row, p->col);
    bool same = p->rows == 1 || row_stride(v, p) == 0;
    if (same && h->from == at && h->cols == p->cols && h->rows >= p->rows)
        return r->room[i];
    for (int64_t k = 0; k < p->rows; k++)
        copy_elements(r->room[i] + (size_t)(k * p->cols) * size, 1,
                      cm_tile_address(v, p->row + k, p->col), v->col_strides[0], p->cols, size);
    *h = (holding){same ? at : NULL, p->rows, p->cols};
    return r->room[i];
}

static void run_blocks(const runner *r, const step *s, int64_t first, int64_t blocks)
{
    const job *j = r->j;
    cm_typed_run x = {.to = r->at[s->to] + (size_t)first * j->size[s->to],
                      .a = r->at[s->arg[0]] + (size_t)first * j->size[s->arg[0]],
                      .b = r->at[s->arg[1]] + (size_t)first * j->size[s->arg[1]],
                      .c = r->at[s->arg[2]] + (size_t)first * j->size[s->arg[2]],
                      .blocks = blocks};
    if (s->kind == APPLY)
        j->typed->apply(s->op, s->type, &x);
    else if (s->kind == POWER)
        j->typed->power(&x);
    else
        j->typed->convert(s->type, s->to_type, &x);
}

/* The last block overlaps the one before. Fewer elements than a block lie in rooms, which have more. */
static void run_step(const runner *r, const step *s, int64_t n)
{
    char *to = r->at[s->to], *from = r->at[s->arg[0]];
    if (s->kind == COPY)
        memcpy(to, from, (size_t)n * r->j->size[s->to]);
    else if (s->kind == FROM_FLOAT16)
        r->j->tile->load[s->half]((float *)to, from, 1, n);
    else if (s->kind == TO_FLOAT16)
        r->j->tile->store[s->half](to, 1, (const float *)from, n);
    else {
        int64_t blocks = n / CM_TYPED_BLOCK;
        run_blocks(r, s, 0, blocks ? blocks : 1);
        if (blocks && n % CM_TYPED_BLOCK)
            run_blocks(r, s, n - CM_TYPED_BLOCK, 1);
    }
}

static void run_piece(runner *r, const piece *p)
{
    const job *j = r->j;
    const cm_tile_view *out = &j->view[OUT];
    int64_t n = p->rows * p->cols;
    char *direct = run_of(out, p);
    for (int i = 0; i < j->n_in; i++)
        r->at[i] = fetch(r, i, p);
    r->at[OUT] = direct ? direct : r->room[OUT];
    for (int s = 0; s < j->n_steps; s++)
        run_step(r, &j->step[s], n);
    for (int64_t k = 0; !direct && k < p->rows; k++)
        copy_elements(cm_tile_address(out, p->row + k, p->col), out->col_strides[0],
                      r->room[OUT] + (size_t)(k * p->cols) * j->size[OUT], 1, p->cols,
                      j->size[OUT]);
}

/* Short rows are taken some at a time, long ones piece by piece. */
static int64_t rows_at_a_time(const job *j)
{
    return j->cols < j->tile_elems ? j->tile_elems / j->cols : 1;
}

static void run_units(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    runner r;
    r.j = j;
    for (int k = 0; k < PLACES; k++)
        r.at[k] = r.room[k];
    for (int i = 0; i < j->n_in; i++)
        r.holds[i].from = NULL;
    for (int k = 0; k < j->n_numbers; k++)
        copy_elements(r.room[NUMBERS + k], 1, (const char *)&j->number[k], 0, j->tile_elems,
                      j->size[NUMBERS + k]);
    int64_t some = rows_at_a_time(j), per_row = cm_ceil_div(j->cols, j->tile_elems);
    for (int64_t u = begin; u < end; u++) {
        int64_t row = u / per_row * some, col = u % per_row * j->tile_elems;
        piece p = {row, col, cm_min_i64(some, j->rows - row),
                   cm_min_i64(j->tile_elems, j->cols - col)};
        run_piece(&r, &p);
    }
}

cm_status cm_cpu_pointwise_typed_run(const cm_run *r)
{
    const cm_problem *p = r->p;
    job j = {0};
    if (!compile(&j, p) || !place_all(&j, p, (const void *const *)r->in, r->out[0]) ||
        j.rows * j.cols == 0)
        return CM_OK;
    j.typed = p->target.level >= CM_ISA_AVX512 ? &cm_cpu_typed__avx512
              : p->target.level >= CM_ISA_AVX2 ? &cm_cpu_typed__avx2
                                               : &cm_cpu_typed__generic;
    j.tile = cm_tile_kernels_at(p->target.level);
    int64_t units = cm_ceil_div(j.rows, rows_at_a_time(&j)) * cm_ceil_div(j.cols, j.tile_elems);
    int64_t grain = (int64_t)(THREAD_NS * (double)units / (total_ns(p, &j) + 1)) + 1;
    cm_parallel(r->threads, units, grain, run_units, &j);
    return CM_OK;
}
