/* SPDX-License-Identifier: Apache-2.0
 *
 * real.c - see real.h.
 *
 * Owns: nothing. glibc hands out its own object for the locale "C", which is not freed.
 */
#include "core/base/real.h"

#include <stdio.h>
#include <stdlib.h>

static locale_t plain(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double mt_real_read(const char *text, char **end)
{
    return strtod_l(text, end, plain());
}

void mt_real_print(double value, char *out, size_t size)
{
    locale_t users = mt_real_enter();
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    mt_real_leave(users);
}

locale_t mt_real_enter(void)
{
    return uselocale(plain());
}

void mt_real_leave(locale_t users)
{
    uselocale(users);
}
