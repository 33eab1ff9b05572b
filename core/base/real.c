/* SPDX-License-Identifier: Apache-2.0
 *
 * real.c - see real.h.
 *
 * Owns: nothing. glibc hands out its own object for the locale "C", which is not freed.
 */
#include "core/base/real.h"

#include <stdlib.h>

static locale_t plain(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double mt_real_read(const char *text, char **end)
{
    return strtod_l(text, end, plain());
}

locale_t mt_real_enter(void)
{
    return uselocale(plain());
}

void mt_real_leave(locale_t users)
{
    uselocale(users);
}
