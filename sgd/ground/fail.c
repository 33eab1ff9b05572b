/* SPDX-License-Identifier: Apache-2.0
 *
 * fail.c - see fail.h.
 */
#include "sgd/ground/fail.h"

#include <stdarg.h>
#include <stdio.h>

manta_status sgd_fail(manta_error *e, manta_status code, const char *format, ...)
{
    va_list args;
    if (!e)
        return code;
    *e = (manta_error){.code = code};
    va_start(args, format);
    vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    return code;
}
