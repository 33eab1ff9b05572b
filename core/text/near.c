/* SPDX-License-Identifier: Apache-2.0
 *
 * near.c - see near.h.
 */
#include "core/text/near.h"

#include <string.h>

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
