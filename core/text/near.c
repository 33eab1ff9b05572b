/* SPDX-License-Identifier: Apache-2.0
 *
 * near.c - see near.h.
 */
#include "core/text/near.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { NEAR_MAX = 2 }; /* letters apart */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t mt_letters_apart(const char *a, const char *b)
{
    size_t d[3][MT_NEAR_BYTES_MAX + 1]; /* row i of the table stands at i % 3 */
    size_t m = strnlen(a, MT_NEAR_BYTES_MAX), n = strnlen(b, MT_NEAR_BYTES_MAX);
    for (size_t j = 0; j <= n; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= m; i++) {
        size_t *row = d[i % 3], *above = d[(i - 1) % 3], *second = d[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            row[j] = least(above[j - 1] + (a[i - 1] != b[j - 1]), least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], second[j - 2] + 1);
        }
    }
    return d[m % 3][n];
}

static const char *lowered(const char *word, char out[MT_NEAR_BYTES_MAX + 1])
{
    size_t size = strnlen(word, MT_NEAR_BYTES_MAX);
    for (size_t i = 0; i < size; i++)
        out[i] = (char)(word[i] >= 'A' && word[i] <= 'Z' ? word[i] + ('a' - 'A') : word[i]);
    out[size] = 0;
    return out;
}

void mt_near_look(struct mt_near *near, const char *candidate)
{
    char   a[MT_NEAR_BYTES_MAX + 1], b[MT_NEAR_BYTES_MAX + 1];
    size_t size = strlen(near->word);
    bool   begins_so = size >= 2 && strncasecmp(candidate, near->word, size) == 0;
    size_t apart = begins_so ? candidate[size] != 0 : mt_letters_apart(lowered(near->word, a), lowered(candidate, b));
    if (apart > NEAR_MAX || apart >= size || (near->best && apart >= near->apart))
        return;
    near->apart = apart;
    near->best = candidate;
}

bool mt_word_is_of(const char *word, const char *const *words, char *text, size_t size)
{
    struct mt_near near = {.word = word};
    int            at;
    for (const char *const *w = words; *w; w++) {
        if (strcmp(*w, word) == 0)
            return true;
        mt_near_look(&near, *w);
    }
    at = near.best ? snprintf(text, size, "did you mean %s? There are", near.best) : snprintf(text, size, "there are");
    for (const char *const *w = words; *w && at > 0 && (size_t)at < size; w++)
        at += snprintf(text + at, size - (size_t)at, "%s%s", w == words ? " " : w[1] ? ", " : " and ", *w);
    return false;
}
