/* str.c -- "did you mean": the nearest name by edit distance.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

enum { LONGEST = 64 }; /* names longer than this get no suggestion */

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b; case is ignored.
 * Both are at most LONGEST characters. */
static int distance(const char *a, int n_a, const char *b, int n_b)
{
    int rows[3][LONGEST + 1]; /* of the table, in turn: two before, one before, this one */
    for (int j = 0; j <= n_b; j++)
        rows[0][j] = j;
    for (int i = 1; i <= n_a; i++) {
        int *row = rows[i % 3], *before = rows[(i + 2) % 3], *before2 = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= n_b; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            row[j] = min3(before[j] + 1, row[j - 1] + 1, before[j - 1] + !same);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]) && before2[j - 2] + 1 < row[j])
                row[j] = before2[j - 2] + 1;
        }
    }
    return rows[n_a % 3][n_b];
}

const char *cm_suggest(const char *word, const char *const *candidates, int n)
{
    size_t n_word = strlen(word);
    if (n_word == 0 || n_word > LONGEST)
        return NULL;
    int limit = n_word / 3 > 2 ? (int)n_word / 3 : 2;
    if (limit >= (int)n_word)
        limit = (int)n_word - 1; /* else any short name would do */
    const char *best = NULL;
    int best_distance = limit + 1;
    for (int i = 0; i < n; i++) {
        size_t n_candidate = strlen(candidates[i]);
        if (n_candidate > n_word + (size_t)limit || n_candidate + (size_t)limit < n_word ||
            n_candidate > LONGEST)
            continue;
        int d = distance(word, (int)n_word, candidates[i], (int)n_candidate);
        if (d < best_distance) {
            best = candidates[i];
            best_distance = d;
        }
    }
    return best;
}
