/* SPDX-License-Identifier: Apache-2.0
 *
 * failure.c - failures as they are kept and shared: one for all that ended alike.
 *
 * Thread: the caller's, under the owner lock.
 */
#include "clients/lib/owner/kit/kit.h"

#include <stdarg.h>
#include <stdio.h>

void own_failure_set(struct own_failure *f, int32_t code, const char *format, ...)
{
    va_list args;
    memset(f, 0, sizeof *f);
    f->code = code;
    va_start(args, format);
    vsnprintf(f->message, sizeof f->message, format, args);
    va_end(args);
}

struct own_failure *own_failure_new(struct own *own, const struct own_failure *why)
{
    struct own_failure *copy;
    if (why->kept == why) {
        copy = (struct own_failure *)(uintptr_t)why;
        copy->holds++;
        return copy;
    }
    copy = mt_stash_take(&own->stash, sizeof *copy);
    if (!copy)
        return &own->no_memory;
    *copy = *why;
    copy->holds = 1;
    copy->kept = copy;
    return copy;
}

void own_failure_free(struct own *own, struct own_failure *failure)
{
    if (failure && failure != &own->no_memory && --failure->holds == 0)
        free(failure);
}

void own_failure_freed(struct own_failure *f)
{
    own_failure_set(f, MT_EOBJ_LOST, "the value was freed by manta_free_now");
}
