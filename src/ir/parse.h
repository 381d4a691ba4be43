/* parse.h -- the words, types and tensors of the text form; for parse.c and the files beside it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The text is untrusted: nesting, sizes and counts are bounded, and every mistake is a sentence with its line. */
#ifndef CAMEO_IR_PARSE_H
#define CAMEO_IR_PARSE_H

#include "plan/tensor.h"

typedef struct {
    cm_ctx *cx;
    cm_arena *arena;
    const char *p, *end;
    int line;
} cm_parser;

#define CM_PARSE_FAIL(s, ...)                                                                      \
    cm_while((s)->cx, cm_fail((s)->cx, CM_ERR_MODEL, __VA_ARGS__), "line %d", (s)->line)

/* Past spaces and comments, and where asked past ends of lines. */
void cm_parse_skip(cm_parser *s, bool lines);

/* The next character that is no space; 0 at the end. */
char cm_parse_peek(cm_parser *s);

/* Past this character or word, if it comes next. */
bool cm_parse_eat(cm_parser *s, char c);
bool cm_parse_eat_word(cm_parser *s, const char *word);
cm_status cm_parse_expect(cm_parser *s, char c) CM_MUST_USE;

cm_status cm_parse_quoted(cm_parser *s, cm_str *out) CM_MUST_USE;
cm_status cm_parse_name(cm_parser *s, const char **out) CM_MUST_USE;
cm_status cm_parse_real(cm_parser *s, double *out) CM_MUST_USE;
cm_status cm_parse_int(cm_parser *s, int64_t *out) CM_MUST_USE;
cm_status cm_parse_dtype(cm_parser *s, cm_dtype *out) CM_MUST_USE;

/* A type; depth is 0 but for those inside others. */
cm_status cm_parse_type(cm_parser *s, cm_dim_table *dims, int depth, cm_type *out) CM_MUST_USE;

/* A tensor type without symbols, and its elements. */
cm_status cm_parse_tensor(cm_parser *s, cm_dim_table *dims, const cm_tensor **out) CM_MUST_USE;

#endif
