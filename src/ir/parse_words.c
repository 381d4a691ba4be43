/* parse_words.c -- words, names and numbers of the text form.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ir/parse.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "ir/text.h"

void cm_parse_skip(cm_parser *s, bool lines)
{
    for (; s->p < s->end; s->p++) {
        if (*s->p == '#' && (s->p + 1 == s->end || s->p[1] == ' ' || s->p[1] == '\n')) {
            while (s->p < s->end && *s->p != '\n')
                s->p++;
            s->p--;
        } else if (*s->p == '\n' && lines) {
            s->line++;
        } else if (*s->p != ' ' && *s->p != '\t' && *s->p != '\r') {
            return;
        }
    }
}

char cm_parse_peek(cm_parser *s)
{
    cm_parse_skip(s, false);
    return s->p < s->end ? *s->p : 0;
}

bool cm_parse_eat(cm_parser *s, char c)
{
    if (cm_parse_peek(s) != c)
        return false;
    s->p++;
    return true;
}

cm_status cm_parse_expect(cm_parser *s, char c)
{
    if (cm_parse_eat(s, c))
        return CM_OK;
    return CM_PARSE_FAIL(s, "wanted '%c', found '%.*s'", c, (int)cm_min_i64(s->end - s->p, 12),
                         s->p);
}

bool cm_parse_eat_word(cm_parser *s, const char *word)
{
    cm_parse_skip(s, false);
    size_t n = strlen(word);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return false;
    if (s->p + n < s->end && cm_text_is_name_char(s->p[n]))
        return false;
    s->p += n;
    return true;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

cm_status cm_parse_quoted(cm_parser *s, cm_str *out)
{
    CM_TRY(cm_parse_expect(s, '"'));
    const char *line_end = memchr(s->p, '\n', (size_t)(s->end - s->p));
    char *text =
        cm_arena_alloc_n(s->arena, (size_t)((line_end ? line_end : s->end) - s->p) + 1, 1, 1, 1);
    if (!text)
        return cm_fail_memory(s->cx);
    size_t n = 0;
    for (; s->p < s->end && *s->p != '"' && *s->p != '\n'; s->p++) {
        if (*s->p != '\\') {
            text[n++] = *s->p;
        } else if (s->end - s->p > 3 && s->p[1] == 'x' && hex(s->p[2]) >= 0 && hex(s->p[3]) >= 0) {
            text[n++] = (char)(hex(s->p[2]) * 16 + hex(s->p[3]));
            s->p += 3;
        } else if (s->end - s->p > 1 && s->p[1] != '\n') {
            text[n++] = *++s->p;
        }
    }
    if (s->p >= s->end || *s->p != '"')
        return CM_PARSE_FAIL(s, "a quoted text does not end");
    s->p++;
    *out = (cm_str){text, n};
    return CM_OK;
}

cm_status cm_parse_name(cm_parser *s, const char **out)
{
    if (cm_parse_peek(s) == '"') {
        cm_str q;
        CM_TRY(cm_parse_quoted(s, &q));
        if (strlen(q.p) != q.n || !q.n)
            return CM_PARSE_FAIL(s, "a name is empty or holds a zero byte");
        *out = q.p;
        return CM_OK;
    }
    const char *from = s->p;
    while (s->p < s->end && cm_text_is_name_char(*s->p))
        s->p++;
    if (s->p == from)
        return CM_PARSE_FAIL(s, "wanted a name, found '%.*s'", (int)cm_min_i64(s->end - s->p, 12),
                             s->p);
    char *copy = cm_arena_strndup(s->arena, from, (size_t)(s->p - from));
    *out = copy;
    return copy ? CM_OK : cm_fail_memory(s->cx);
}

/* Numbers: read into a bounded copy, since the text has no terminator. */
static cm_status number_text(cm_parser *s, char *buf, size_t n)
{
    cm_parse_skip(s, true);
    size_t k = 0;
    while (s->p < s->end && (cm_text_is_name_char(*s->p) || *s->p == '+') && k + 1 < n)
        buf[k++] = *s->p++;
    buf[k] = 0;
    return k ? CM_OK
             : CM_PARSE_FAIL(s, "wanted a number, found '%.*s'", (int)cm_min_i64(s->end - s->p, 12),
                             s->p);
}

cm_status cm_parse_real(cm_parser *s, double *out)
{
    char buf[64], *end;
    CM_TRY(number_text(s, buf, sizeof buf));
    *out = strtod(buf, &end);
    return *end ? CM_PARSE_FAIL(s, "'%s' is not a number", buf) : CM_OK;
}

cm_status cm_parse_int(cm_parser *s, int64_t *out)
{
    char buf[64], *end;
    CM_TRY(number_text(s, buf, sizeof buf));
    *out = *buf == '-' ? strtoll(buf, &end, 10) : (int64_t)strtoull(buf, &end, 10);
    return *end ? CM_PARSE_FAIL(s, "'%s' is not an integer", buf) : CM_OK;
}
