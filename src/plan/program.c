/* program.c -- pointwise programs: verified, written, read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/program.h"

#include <string.h>

enum { INSTR_BYTES = 24 };

static const struct {
    const char *name;
    int n_args;
} instrs[CM_INSTR_COUNT] = {
#define X(id, number, text, args) [CM_INSTR_##id] = {text, args},
    CM_INSTRS(X)
#undef X
};

const char *cm_instr_name(cm_instr_op op)
{
    return (unsigned)op < CM_INSTR_COUNT ? instrs[op].name : "?";
}

int cm_instr_args(cm_instr_op op)
{
    return (unsigned)op < CM_INSTR_COUNT ? instrs[op].n_args : 0;
}

cm_status cm_program_verify(cm_ctx *cx, const cm_program *p, int n_operands)
{
    if (p->n < 1 || p->n > CM_PROGRAM_MAX)
        return cm_fail(cx, CM_ERR_PLAN, "a pointwise program has %d instructions, wanted 1 to %d",
                       p->n, CM_PROGRAM_MAX);
    for (int i = 0; i < p->n; i++) {
        const cm_instr *in = &p->instrs[i];
        if ((unsigned)in->op >= CM_INSTR_COUNT || !cm_dtype_valid((int)in->dtype))
            return cm_fail(cx, CM_ERR_PLAN, "instruction %d of a pointwise program is not known", i);
        for (int k = 0; k < cm_instr_args(in->op); k++)
            if (in->arg[k] >= i || in->arg[k] < -n_operands)
                return cm_fail(cx, CM_ERR_PLAN,
                               "instruction %d of a pointwise program reads what is not there", i);
    }
    return CM_OK;
}

void cm_program_write(const cm_program *p, cm_buf *out)
{
    cm_buf_u32(out, (uint32_t)p->n);
    for (int i = 0; i < p->n; i++) {
        const cm_instr *in = &p->instrs[i];
        cm_buf_u32(out, (uint32_t)in->op);
        cm_buf_u32(out, (uint32_t)in->dtype);
        cm_buf_bytes(out, in->arg, sizeof in->arg);
        cm_buf_zeros(out, 2);
        cm_buf_bytes(out, &in->number, 8);
    }
}

cm_status cm_program_read(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n, int n_operands,
                          cm_program *out)
{
    const unsigned char *p = bytes;
    uint32_t count = 0;
    if (n >= 4)
        memcpy(&count, p, 4);
    if (n < 4 || count > CM_PROGRAM_MAX || n != 4 + (size_t)count * INSTR_BYTES)
        return cm_fail(cx, CM_ERR_PLAN, "a pointwise program of %u instructions has %zu bytes",
                       count, n);
    cm_instr *v;
    CM_NEW_N(cx, arena, v, count, cm_instr);
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *from = p + 4 + (size_t)i * INSTR_BYTES;
        uint32_t op, dtype;
        memcpy(&op, from, 4);
        memcpy(&dtype, from + 4, 4);
        memcpy(v[i].arg, from + 8, sizeof v[i].arg);
        memcpy(&v[i].number, from + 16, 8);
        v[i].op = (cm_instr_op)op;
        v[i].dtype = dtype < CM_DTYPE_COUNT ? (cm_dtype)dtype : CM_NO_DTYPE;
    }
    cm_program read = {(int)count, v};
    CM_TRY(cm_program_verify(cx, &read, n_operands));
    *out = read;
    return CM_OK;
}
