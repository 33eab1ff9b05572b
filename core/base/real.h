/* SPDX-License-Identifier: Apache-2.0
 *
 * real.h - real numbers as programs write them for programs: with a point, also in a process whose user has set a locale with a
 * decimal comma (setlocale). What is for people may follow the locale.
 *
 * Thread: any; a locale that was entered is this thread's alone.
 */
#ifndef MT_BASE_REAL_H
#define MT_BASE_REAL_H

#include <locale.h>
#include <stddef.h>

/* As strtod. */
double mt_real_read(const char *text, char **end);
/* As short as it can be read back from, with 15 digits or up to 17. Cut to `size`; NaN and infinities as printf says them. */
void mt_real_print(double value, char *out, size_t size);

/* From here to mt_real_leave what this thread prints, and reads, has a point. Gives what mt_real_leave wants. */
locale_t mt_real_enter(void);
void     mt_real_leave(locale_t users);

#endif
